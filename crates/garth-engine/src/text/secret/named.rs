//! Values next to a name that says that they are secret: after its sign, as the value of the same entry, on
//! the next line, after some words of a sentence, or before "is the password".
//!
//! Each name is judged by itself, by a limited number of bytes around it.

use std::ops::Range;

use super::assigned::{self, Name, run};
use super::enclosed;
use super::entry::begins_with_value_key;
use super::foreign_name;
use super::judgement::Judgement;
use super::markup;
use super::names;
use super::sentence::{SENTENCE, WORDS};
use super::span::Secret;
use super::value::{APART, BRACKETS, JUDGED, NAME, Named, Tie, begin, fills_line, is_quote, opening_bracket};
use super::words::{is_word, look_at};

/// Limit on the bytes between a name and a value on another line.
const LINES: usize = 64;
/// Limits of a list of values after one name: its bytes, and its values.
const LIST: usize = 1 << 10;
const VALUES: usize = 32;
/// Limit on the bytes before a name in the name of a resource of AWS.
const RESOURCE: usize = 96;

/// Finds the secrets that are named by this word.
pub(super) fn by(text: &[u8], word: &Range<usize>, judgement: Judgement, found: &mut Vec<Secret>) {
    let word = &without_emphasis(text, word, judgement);
    let Some((name, place)) = names::found(text, word, judgement) else { return };
    // The most that the searches around one name read.
    look_at(NAME + 2 * SENTENCE + LINES);
    let name = Named {
        text,
        word: place.start.max(word.end.saturating_sub(NAME))..place.end,
        name,
        weak: names::is_weak(text, word, judgement),
        judgement,
    };
    if name.is_in_resource_name() {
        return;
    }
    if let Some(secret) = name.behind() {
        name.list_from(secret.bytes.end, found);
        found.push(secret);
    } else if name.is_third() && name.enclosed(found) {
        // A value before the name would be that of another one.
    } else if let Some(secret) = name.before() {
        found.push(secret);
    }
    name.column(found);
    if name.is_third() {
        name.rows(found);
    }
    if name.is_fourth() {
        name.arguments(found);
    }
}

/// Returns a word without the signs of emphasis behind it: `_Password_`.
fn without_emphasis(text: &[u8], word: &Range<usize>, judgement: Judgement) -> Range<usize> {
    let bytes = &text[word.clone()];
    let signs = bytes.iter().rev().take(3).take_while(|byte| **byte == b'_').count();
    match judgement >= Judgement::Fourth && signs < bytes.len() {
        true => word.start..word.end - signs,
        false => word.clone(),
    }
}

/// Finds the secret that begins with this word, after a name in another script.
pub(super) fn find_by_foreign_name(
    text: &[u8],
    word: &Range<usize>,
    judgement: Judgement,
    found: &mut Vec<Secret>,
) {
    // Most words: a name in another script has bytes that are not ASCII right before its value, or before a
    // word of other letters.
    let near = if judgement >= Judgement::Fourth { 32 } else { 12 };
    if text[word.start.saturating_sub(near)..word.start].is_ascii() {
        return;
    }
    let before = &text[word.start.saturating_sub(NAME)..word.start];
    let end = |of: &[u8], bytes: &[u8]| of.iter().rev().take_while(|byte| bytes.contains(byte)).count();
    let before = &before[..before.len() - end(before, b"\"'`* ").min(4)];
    let before = BRACKETS.iter().find_map(|it| before.strip_suffix(it.as_bytes())).unwrap_or(before);
    let signs = [":", "=", "：", "は", "は、", "是", "为", "есть", "—", " is"];
    let more: &[&str] = if judgement >= Judgement::Fourth { &["為", "–", " -"] } else { &[] };
    let sign = signs.iter().chain(more).find_map(|sign| before.strip_suffix(sign.as_bytes()));
    let before = sign.unwrap_or(before);
    let before = &before[..before.len() - end(before, b"\"'`* ").min(4)];
    let from = word.start.saturating_sub(NAME);
    let of = |name: Name, length: usize, end: usize, weak: bool| {
        let word = from + end - length..from + end;
        Named { text, word, name, weak, judgement }
    };
    if let Some((name, length)) = foreign_name::before_value(before, judgement) {
        found.extend(of(name, length, before.len(), false).value(word.start, Tie::Sign));
        return;
    }
    // Below, only values with a digit: most words have none.
    if judgement < Judgement::Third || word.len() < 8 || !text[word.clone()].iter().any(u8::is_ascii_digit) {
        return;
    }
    // After a particle or some words, a value has to look random, except for passwords after a sign.
    if let Some((name, length, behind)) = foreign_name::before_words(before, judgement) {
        let end = before.len() - behind;
        let is_linked = judgement >= Judgement::Fourth
            && sign.is_some()
            && name == Name::Password
            && foreign_name::begins_with_link(&before[end..]);
        let tie = if is_linked { Tie::Linked } else { Tie::Sign };
        found.extend(of(name, length, end, !is_linked).value(word.start, tie));
    }
}

impl Named<'_> {
    fn behind(&self) -> Option<Secret> {
        if let Some(at) = self.linked() {
            return self.value(at, Tie::Sign);
        }
        if let Some(secret) = self.linked_after_other_keys().and_then(|at| self.value(at, Tie::Sign)) {
            return Some(secret);
        }
        if let Some(secret) = self.linked_before_name().and_then(|at| self.value(at, Tie::Sign)) {
            return Some(secret);
        }
        if let Some(secret) = self.is_fourth().then(|| self.cell()).flatten() {
            return Some(secret);
        }
        let sign = self.after_sign();
        if let Some(place) = sign.and_then(|at| self.password_of_pair(at)) {
            return Self { name: Name::Password, weak: false, ..self.clone() }.value(place, Tie::Sign);
        }
        match sign {
            Some(at) if self.text[at..].first().is_none_or(|byte| b"\r\n|>[({\\".contains(byte)) => {
                // The cell below belongs to the column.
                let is_head =
                    matches!(self.text[at - 1..], [b'|', b'\r' | b'\n', ..]) && self.head().is_some();
                let place = self.place_on_next_line(at).filter(|_| !is_head);
                place.and_then(|at| self.value(at, Tie::Line))
            }
            Some(at) if is_open_string(&self.text[at..]) => {
                self.place_on_next_line(at + 3).and_then(|at| self.value(at, Tie::Line))
            }
            Some(at) => self.typed(at).or_else(|| self.sentence()),
            None => self.sentence(),
        }
    }

    /// Returns the place of the password in a pair with its user: `auth=("ann", "…")`.
    fn password_of_pair(&self, at: usize) -> Option<usize> {
        let text = self.text;
        if !text[self.word.clone()].to_ascii_lowercase().ends_with(b"auth") {
            return None;
        }
        let user = at + run(text, at, b"(", 1);
        let quote = text.get(user).filter(|byte| is_quote(Some(byte)))?;
        let window = &text[user + 1..text.len().min(user + NAME)];
        let end = user + 1 + window.iter().position(|byte| byte == quote)? + 1;
        let comma = run(text, end, b",", 1);
        let place = end + comma + run(text, end + comma, b" ", 4);
        (comma > 0 && is_quote(text.get(place))).then_some(place)
    }

    /// Returns the value after a sign, or after a type and another sign: `let password: &str = "…"`.
    fn typed(&self, at: usize) -> Option<Secret> {
        if let Some(secret) = self.value(at, Tie::Sign) {
            return Some(secret);
        }
        let (start, quote) = begin(self.text, at);
        // `password: token: …`: the value is judged by the second name.
        if self.begins_with_name(start) {
            return None;
        }
        let rest = &self.text[start..self.text.len().min(start + JUDGED)];
        let length = assigned::length(rest, quote);
        let next = start + length + run(self.text, start + length, b" ", 8);
        if quote.is_some() || self.text.get(next) != Some(&b'=') || self.text.get(next + 1) == Some(&b'=') {
            return None;
        }
        let secret = self.value(next + 1 + run(self.text, next + 1, b" \t", 8), Tie::Sign)?;
        // A number with a type is a constant of a program.
        let is_number = self.text[secret.bytes.clone()].iter().all(u8::is_ascii_digit);
        (!is_number).then_some(secret)
    }

    /// Returns the place after the sign between the name and its value.
    pub(super) fn after_sign(&self) -> Option<usize> {
        let (text, word) = (self.text, &self.word);
        let signs: &[u8] = if self.is_fourth() { b"\"'`])*_" } else { b"\"'`])*" };
        let closing = run(text, word.end, signs, 4);
        let mut at = word.end + closing;
        let mut is_array = false;
        if self.is_fourth() {
            at += markup::closing_tags(text, at);
            let subscripts = markup::subscripts(text, at);
            is_array = subscripts > 0;
            at += subscripts;
        }
        if text.get(word.end) == Some(&b'>') && word.start > 0 && text[word.start - 1] == b'<' {
            return Some(word.end + 1);
        }
        let blanks = run(text, at, b" \t", 8);
        at += blanks;
        let rest = &text[at..];
        let signs: [&[u8]; 17] = [
            b":=",
            b"?=",
            b"=>",
            b"->",
            b"==",
            b"=",
            b":",
            "：".as_bytes(),
            "→".as_bytes(),
            b"|",
            b"is: ",
            b"is ",
            b"was ",
            b"- ",
            "– ".as_bytes(),
            "— ".as_bytes(),
            b"are ",
        ];
        let needs_blank = |sign: &[u8]| sign.ends_with(b" ") || sign == b"|";
        match signs.iter().find(|sign| rest.starts_with(sign)) {
            Some(sign) if blanks > 0 || !needs_blank(sign) => at += sign.len(),
            // A call of `pass` may pass anything, so the name has to be longer.
            _ if blanks == 0 && word.len() > 4 && rest.first() == Some(&b'(') && is_quote(rest.get(1)) => {
                at += 1;
            }
            // `PASSWORD '…'`
            _ if blanks > 0 && self.name == Name::Password && !self.weak && is_quote(rest.first()) => {}
            // Columns of names and values.
            _ if blanks > 0 && closing == 0 && self.is_environment_name(blanks) => {}
            // A row of a name, a tab and its value.
            _ if text[at - blanks..at].contains(&b'\t') && closing == 0 && self.begins_row() => {}
            _ if closing > 0 && rest.first() == Some(&b',') => {
                let gap = run(text, at + 1, b" \t", 8);
                at += 1 + gap;
                return is_quote(text.get(at)).then_some(at);
            }
            _ if blanks > 0
                && (self.is_flag()
                    || self.name == Name::Scheme
                    || self.is_login()
                    || self.is_directive()) => {}
            // `token「…」`
            _ if opening_bracket(rest).is_some() => {}
            // `char password[]{"…"}`
            _ if is_array && rest.first() == Some(&b'{') => {}
            _ => return None,
        }
        at += run(text, at, b"*", 2);
        if !self.is_fourth() {
            return Some(at + run(text, at, b" \t", 8));
        }
        // `_Password:_ …`
        let emphasis = run(text, at, b"_", 2);
        at += if text.get(at + emphasis) == Some(&b' ') { emphasis } else { 0 };
        at += run(text, at, b" \t", 8);
        // A blank in a query.
        at += usize::from(text.get(at) == Some(&b'+') && is_quote(text.get(at + 1)));
        Some(at + markup::between(text, at))
    }

    /// Returns true for a name of an environment variable that begins its line, some blanks before its
    /// value, and for one after `ENV`, as in Dockerfiles.
    fn is_environment_name(&self, blanks: usize) -> bool {
        let is_capital = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_';
        let name = &self.text[self.word.clone()];
        let is_constant = name.contains(&b'_') && name.iter().all(is_capital);
        let before = &self.text[..self.word.start];
        is_constant
            && (before.ends_with(b"ENV ")
                || before.ends_with(b"setenv ")
                || (blanks > 1 && self.begins_row()))
    }

    /// Returns true if the name begins its line, and a tab and one word follow.
    fn begins_row(&self) -> bool {
        let before = &self.text[self.word.start.saturating_sub(8)..self.word.start];
        let before = &before[..before.len() - before.iter().rev().take_while(|byte| **byte == b' ').count()];
        !self.weak && (before.is_empty() || before.ends_with(b"\n"))
    }

    fn is_flag(&self) -> bool {
        self.text[self.word.clone()].starts_with(b"--")
    }

    /// Returns true in `login alice password …`, as `.netrc` has it.
    fn is_login(&self) -> bool {
        let before = &self.text[self.word.start.saturating_sub(SENTENCE)..self.word.start];
        let is_login = |from: usize| before[from..].starts_with(b"login ");
        self.name == Name::Password && (0..before.len()).any(is_login)
    }

    /// Returns true for names that precede their value with a blank between them, as in the configuration of
    /// Redis.
    fn is_directive(&self) -> bool {
        let name = &self.text[self.word.clone()];
        name.eq_ignore_ascii_case(b"requirepass") || name.eq_ignore_ascii_case(b"masterauth")
    }

    /// Returns true if the name is a part of the name of a resource of AWS: `arn:aws:…:secret:…`.
    fn is_in_resource_name(&self) -> bool {
        if self.is_third() && self.text[..self.word.start].ends_with(b"::") {
            let before = &self.text[self.word.start.saturating_sub(RESOURCE)..self.word.start];
            let length = before.iter().rev().take_while(|it| it.is_ascii_alphanumeric() || **it == b':');
            return before[before.len() - length.count()..].starts_with(b"AWS::");
        }
        if !self.text[..self.word.start].ends_with(b":") {
            return false;
        }
        let before = &self.text[self.word.start.saturating_sub(RESOURCE)..self.word.start];
        let is_part = |byte: &u8| is_word(*byte) || b":.*".contains(byte);
        let length = before.iter().rev().take_while(|byte| is_part(byte)).count();
        before[before.len() - length..].starts_with(b"arn:")
    }

    /// Returns the place of a value on one of the next lines: after a fence, the rule of a table, or a
    /// bullet.
    pub(super) fn place_on_next_line(&self, at: usize) -> Option<usize> {
        let window = &self.text[at..self.text.len().min(at + LINES)];
        // A block of YAML may give its indentation.
        let block = if matches!(window.first(), Some(b'|' | b'>')) {
            &b"|>-+[({\\ \t123456789"[..]
        } else {
            b"|>-+[({\\ \t"
        };
        let opens = run(window, 0, block, 8);
        let mut from = opens;
        if !matches!(window.get(from), Some(b'\r' | b'\n')) {
            return None;
        }
        while let Some(length) = window[from..].iter().position(|byte| *byte == b'\n') {
            let line = window[from..from + length].trim_ascii();
            let is_fence = line.starts_with(b"```") || line.starts_with(b"~~~");
            if !line.is_empty() && !is_fence && !line.iter().all(|byte| b"|-: +".contains(byte)) {
                break;
            }
            from += length + 1;
        }
        let place = from + run(window, from, b" \t-*>|", 24);
        (place < window.len()).then_some(at + place)
    }

    /// Returns the value before the name: `… is the password`, `use … as the token`.
    fn before(&self) -> Option<Secret> {
        let (text, end) = (self.text, self.word.start);
        let window = &text[end.saturating_sub(SENTENCE)..end];
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b" '-_".contains(byte);
        let words = window.iter().rev().take_while(|byte| is_plain(byte)).count();
        let words = &window[window.len() - words..];
        let mut at = words.len();
        let mut verb = None;
        for part in words.rsplit(|byte| *byte == b' ').take(WORDS) {
            at -= part.len();
            let is_verb = part == b"is" || part == b"as" || part == b"was";
            if is_verb && at > 0 && at + part.len() < words.len() {
                verb = Some(at - 1);
                break;
            }
            at = at.saturating_sub(1);
        }
        // Also ", the password" and "(our password".
        let opens = [&b"the "[..], b" the ", b"my ", b" my ", b"our ", b" our "]
            .iter()
            .any(|it| words.starts_with(it));
        let punctuation = window[..window.len() - words.len()].last();
        let verb = match verb {
            Some(verb) => end - words.len() + verb,
            None if opens && punctuation == Some(&b',') => end - words.len() - 1,
            None if opens && punctuation == Some(&b'(') => end - words.len() - 1,
            None => return None,
        };
        if words.split(|byte| *byte == b' ').any(|word| names::names_other_thing(word, self.judgement)) {
            return None;
        }
        // Not "is no token", "as a token of", "is the token's address".
        let follows = &text[self.word.end..text.len().min(self.word.end + 16)];
        let next = follows.strip_prefix(b" ").unwrap_or_default();
        let next = next.split(|byte| !is_word(*byte)).next().unwrap_or_default();
        if names::names_other_thing(next, self.judgement) || follows.starts_with(b"'s") {
            return None;
        }
        let value_end = verb;
        let around = |byte: &&u8| b"\"'`*) ".contains(byte);
        let quotes = text[..value_end].iter().rev().take(3).take_while(around).count();
        let value_end = value_end - quotes;
        let is_end =
            |byte: &u8| byte.is_ascii_whitespace() || b"\"'`<>()[]{}|\\".contains(byte) || *byte >= 0xe0;
        let length = text[..value_end].iter().rev().take(JUDGED + 1).take_while(|byte| !is_end(byte)).count();
        // Longer than any value that is judged.
        if length > JUDGED {
            return None;
        }
        // The first bytes may be the rest of a character that begins in the previous piece.
        let value = &text[value_end - length..value_end];
        let more = value.iter().take_while(|byte| **byte & 0xc0 == 0x80).count();
        let bytes = value_end - length + more..value_end;
        let is_one = self.is_secret(&bytes, None, Tie::Apart);
        is_one.then(|| Secret { basis: bytes.start..self.word.end, bytes, kind: self.kind() })
    }

    /// Finds the other values of a list that begins with one.
    fn list_from(&self, first: usize, found: &mut Vec<Secret>) {
        let mut at = first;
        for _ in 0..VALUES {
            let next = at + run(self.text, at, b"\"'`", 1);
            let comma = run(self.text, next, b",", 1);
            let mut value = next + comma + run(self.text, next + comma, b" \t\r\n", 40);
            let bullet = run(self.text, value, b"-*", 1);
            value += bullet + run(self.text, value + bullet, b" ", 2);
            // Neither a comma nor a bullet: the list has ended.
            if comma + bullet == 0 || value > self.word.end + LIST {
                return;
            }
            let Some(secret) = self.value(value, Tie::Apart) else { return };
            at = secret.bytes.end;
            found.push(secret);
        }
    }
}

/// Tie between the first value of a text, which begins a line, and a name on a line before.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum NamedBefore {
    /// Sign at the end of the line before, which a short value needs.
    Sign,
    /// Sign, words, or the head of a column.
    Any,
}

/// Returns what may tie the first value of a text, which begins a line, to a name on a line before.
pub(super) fn named_before(text: &[u8]) -> Option<NamedBefore> {
    let window = &text[..text.len().min(2 * LINES)];
    let mut at = run(window, 0, b" \t\r\n-*>|:+`~\"',[", 2 * LINES);
    // A row of a table.
    let row = window.trim_ascii_start().split(|byte| *byte == b'\n').next().unwrap_or_default();
    let has_comma = row.iter().any(|byte| b",;".contains(byte)) && !row.trim_ascii_end().contains(&b' ');
    if row.contains(&b'|') || row.contains(&b'\t') || has_comma {
        return Some(NamedBefore::Any);
    }
    // A cell of HTML.
    if matches!(row, [b'<', next, ..] if next.is_ascii_alphabetic()) {
        return Some(NamedBefore::Any);
    }
    // A row of SQL.
    if row.starts_with(b"(") && row.iter().any(|byte| is_quote(Some(byte))) {
        return Some(NamedBefore::Any);
    }
    // A fence with a language.
    if window[..at].ends_with(b"```") || window[..at].ends_with(b"~~~") {
        at += window[at..].iter().position(|byte| *byte == b'\n').unwrap_or(0);
        at += run(window, at, b" \t\r\n-*>|\"'`", LINES);
    }
    let rest = &window[at..];
    if begins_with_value_key(rest) {
        return Some(NamedBefore::Any);
    }
    if enclosed::may_be_member(rest) {
        return Some(NamedBefore::Any);
    }
    let is_end = |byte: &u8| byte.is_ascii_whitespace() || b"\"'`,;<>()[]{}|\\".contains(byte);
    let value = &rest[..rest.iter().position(is_end).unwrap_or(rest.len())];
    let is_odd = |byte: &u8| !byte.is_ascii_lowercase();
    // At the end of the window the value may continue. At the end of the text it is judged again once it
    // does.
    let is_cut = text.len() > window.len() && value.len() == rest.len();
    if (is_cut || value.len() >= APART) && (value.len() >= 16 || value.iter().skip(1).any(is_odd)) {
        return Some(NamedBefore::Any);
    }
    let has = |is: fn(&u8) -> bool| value.iter().any(is);
    let is_short = value.len() >= 6
        && has(u8::is_ascii_digit)
        && has(u8::is_ascii_alphabetic)
        && fills_line(&text[at + value.len()..]);
    is_short.then_some(NamedBefore::Sign)
}

/// Returns true if the last line of a text may end with a sign, after which a short value may follow.
/// `text` is the end of it.
pub(super) fn may_end_with_name_sign(text: &[u8]) -> bool {
    let mut lines = text.rsplit(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let last = lines.find(|line| !line.is_empty() && !line.starts_with(b"```") && !line.starts_with(b"~~~"));
    last.is_none_or(|line| line.last().is_some_and(|byte| !byte.is_ascii_alphanumeric()))
}

/// Returns true for a string in three quotes that begins on the next line.
fn is_open_string(text: &[u8]) -> bool {
    [b"\"\"\"", b"'''"].iter().any(|quotes| text.starts_with(*quotes))
        && matches!(text.get(3), Some(b'\r' | b'\n'))
}
