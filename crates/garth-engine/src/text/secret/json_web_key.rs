//! Private members of JSON Web Keys (RFC 7517): `"d"` and the other numbers of an RSA key, `"k"` of a
//! symmetric one, and the numbers of its further primes in `"oth"`. They are secret if another member of the
//! object, before or after them, says that it is a key.

use std::ops::Range;

use super::assigned::run;
use super::span::{LONGEST, Secret};
use super::words::{is_word, look_at};

const KIND: &str = "private key";
/// Names of private members.
const MEMBERS: [&[u8]; 7] = [b"d", b"p", b"q", b"dp", b"dq", b"qi", b"k"];
/// Name of the list of further primes, which are objects.
const PRIMES: &[u8] = b"oth";
/// Names of members of such an object, besides `d`.
const OF_PRIMES: [&[u8]; 2] = [b"r", b"t"];
/// Strings that say that an object is a key: names of its members, and the usual public exponent.
const SIGNS: [&[u8]; 6] = [b"kty", b"crv", b"alg", b"qi", b"dq", b"AQAB"];
/// Limit on the bytes of a comment between members, and on those on each side of a member that the third
/// judgement searches for such a string.
const OBJECT: usize = 1 << 10;
/// Limit on brackets within each other between a member and the string that says that it is of a key.
const DEPTH: usize = 8;
/// Minimum length of a value: 128 bits in base64.
const SHORTEST: usize = 22;
const QUOTES: &[u8] = b"\"'";
/// Names of members that say so without quotes, where other objects have names such as `alg`, too.
const BARE_SIGNS: [&[u8]; 2] = [b"kty", b"crv"];
/// Limits of a comment between a name and its value, and of the comments and blanks there.
const COMMENT: usize = 64;
const COMMENTS: usize = 2;

/// Finds the private values of the member whose name is this word.
pub(super) fn find_members(text: &[u8], word: &Range<usize>, found: &mut Vec<Secret>) {
    let name = &text[word.clone()];
    let is_list = name == PRIMES;
    if !is_list && !MEMBERS.contains(&name) {
        return;
    }
    let Some(member) = Member::named(text, word) else { return };
    let is_list = is_list || text.get(member.start) == Some(&b'[');
    let (values, end) = if is_list { member.values_in_list() } else { member.value() };
    if values.is_empty() {
        return;
    }
    // No byte of a value is farther from what decides about it, so that a piece of a text is judged like the
    // complete text.
    let (from, to) = (end.saturating_sub(LONGEST), text.len().min(word.start + LONGEST));
    let basis = match member.written {
        Written::Line => member.sign_in_lines(from.min(word.start), end, to),
        Written::Quoted | Written::Bare => {
            let before = member.sign_before(from).map(|sign| sign..word.end);
            before.or_else(|| member.sign_behind(end, to).map(|sign| word.start..sign))
        }
    };
    let Some(basis) = basis else { return };
    found.extend(values.into_iter().map(|bytes| Secret {
        basis: basis.start..basis.end.max(bytes.end),
        bytes,
        kind: KIND,
    }));
}

/// Form in which a member is written.
#[derive(Clone, Copy, PartialEq)]
enum Written {
    /// Its name has quotes, as in JSON.
    Quoted,
    /// Its name has none, as in JavaScript.
    Bare,
    /// It is a line, as in YAML.
    Line,
}

/// Member of an object.
struct Member<'a> {
    text: &'a [u8],
    /// Its name, without quotes.
    name: Range<usize>,
    /// Place where its value begins.
    start: usize,
    /// Quote of its strings.
    quote: u8,
    written: Written,
}

impl<'a> Member<'a> {
    /// Returns the member whose name is a word of a text.
    fn named(text: &'a [u8], word: &Range<usize>) -> Option<Self> {
        let quote = text[..word.start].last().copied().filter(|byte| QUOTES.contains(byte));
        let end = match quote {
            Some(quote) if text.get(word.end) == Some(&quote) => word.end + 1,
            Some(_) => return None,
            None => word.end,
        };
        let sign = end + blanks(text, end);
        if text.get(sign) != Some(&b':') {
            return None;
        }
        let start = sign + 1 + blanks(text, sign + 1);
        let (quote, written) = match quote {
            Some(quote) => (quote, Written::Quoted),
            None => {
                let written = written_bare(text, word, start)?;
                let quote = text[start..].iter().take(COMMENT).find(|byte| QUOTES.contains(*byte));
                (quote.copied().unwrap_or(b'"'), written)
            }
        };
        Some(Self { text, name: word.clone(), start, quote, written })
    }

    /// Returns the value if it is a long string, and the place after it.
    fn value(&self) -> (Vec<Range<usize>>, usize) {
        let Some(value) = self.long_string(self.start).or_else(|| self.plain_value()) else {
            return (Vec::new(), self.start);
        };
        let end = value.end + run(self.text, value.end, b"=", 2);
        let closing = usize::from(self.text.get(end) == Some(&self.quote));
        (vec![value], end + closing)
    }

    /// Returns the long strings of the objects in the list, and the place after the list.
    fn values_in_list(&self) -> (Vec<Range<usize>>, usize) {
        let (mut values, mut at, mut depth) = (Vec::new(), self.start, 0_usize);
        let to = self.text.len().min(self.name.start + LONGEST);
        while at < to {
            match self.text[at] {
                b'[' | b'{' => depth += 1,
                b']' | b'}' => depth = depth.saturating_sub(1),
                byte if byte == self.quote => {
                    values.extend(self.long_string(at).filter(|value| value.end <= to));
                    let Some(length) = length_of_string(&self.text[at + 1..to], self.quote) else { break };
                    at += 1 + length;
                }
                _ => {}
            }
            at += 1;
            if depth == 0 || depth > DEPTH {
                break;
            }
        }
        look_at(at - self.start);
        (values, at)
    }

    /// Returns the characters of the string that begins at a place, if they are as many as a key has.
    fn long_string(&self, at: usize) -> Option<Range<usize>> {
        if self.text.get(at) != Some(&self.quote) {
            return None;
        }
        let body = &self.text[at + 1..self.text.len().min(at + 1 + LONGEST)];
        let length = body.iter().take_while(|byte| is_word(**byte)).count();
        look_at(length);
        (length >= SHORTEST).then_some(at + 1..at + 1 + length)
    }

    /// Returns the characters of a value without quotes, as YAML has it, if they are as many as a key has.
    fn plain_value(&self) -> Option<Range<usize>> {
        if self.written == Written::Quoted {
            return None;
        }
        let body = &self.text[self.start..self.text.len().min(self.start + LONGEST)];
        let length = body.iter().take_while(|byte| is_word(**byte)).count();
        look_at(length);
        // Other words are variables of a program.
        let has = |is: fn(&u8) -> bool| body[..length].iter().any(is);
        let is_one = length >= SHORTEST
            && ends_plain_value(body, length)
            && has(u8::is_ascii_digit)
            && has(u8::is_ascii_lowercase)
            && has(u8::is_ascii_uppercase);
        is_one.then_some(self.start..self.start + length)
    }

    /// Returns the start of the last sign of a key before this member in its object, from a place on.
    fn sign_before(&self, from: usize) -> Option<usize> {
        let first = self.name.start - 1;
        let (mut at, mut depth) = (first, 0_usize);
        let mut sign = None;
        while at > from {
            at -= 1;
            match self.text[at] {
                b'}' | b']' if depth < DEPTH => depth += 1,
                b'{' | b'[' if depth > 0 => depth -= 1,
                // The object begins here.
                b'}' | b']' | b'{' | b'[' => break,
                byte if byte == self.quote => {
                    let end = at;
                    let Some(start) = start_of_string(&self.text[from..end], self.quote) else { break };
                    at = from + start;
                    let string = at + 1..end;
                    if depth == 0 && self.is_same_name(&string) {
                        break;
                    }
                    if depth == 0 && SIGNS.contains(&&self.text[string]) {
                        sign = Some(at);
                        break;
                    }
                }
                b'/' if self.text[from..at].ends_with(b"*") => {
                    let first = from.max(at.saturating_sub(OBJECT));
                    let comment = &self.text[first..at - 1];
                    let Some(start) = comment.windows(2).rposition(|it| it == b"/*") else { break };
                    at = first + start;
                }
                byte if is_word(byte) => {
                    let rest = self.text[from..at].iter().rev();
                    let start = at - rest.take_while(|byte| is_word(**byte)).count();
                    // The slash may be the end of a comment.
                    let slash = self.text[start] == b'/' && self.text[from..start].ends_with(b"*");
                    let word = start + usize::from(slash)..at + 1;
                    at = word.start;
                    if depth == 0 && self.is_bare_name(&word) {
                        break;
                    }
                    if depth == 0 && self.is_bare_sign(&word) {
                        sign = Some(at);
                        break;
                    }
                }
                _ => {}
            }
        }
        look_at(first - at);
        sign
    }

    /// Returns the end of the first sign of a key after this member in its object, between two places.
    fn sign_behind(&self, from: usize, to: usize) -> Option<usize> {
        let (mut at, mut depth) = (from, 0_usize);
        let mut sign = None;
        while at < to {
            match self.text[at] {
                b'{' | b'[' if depth < DEPTH => depth += 1,
                b'}' | b']' if depth > 0 => depth -= 1,
                // The object ends here.
                b'}' | b']' | b'{' | b'[' => break,
                byte if byte == self.quote => {
                    let Some(length) = length_of_string(&self.text[at + 1..to], self.quote) else { break };
                    let string = at + 1..at + 1 + length;
                    at = string.end;
                    if depth == 0 && self.is_same_name(&string) {
                        break;
                    }
                    if depth == 0 && SIGNS.contains(&&self.text[string]) {
                        sign = Some(at + 1);
                        break;
                    }
                }
                b'/' if self.text[at..to].starts_with(b"/*") => {
                    let comment = &self.text[at + 2..to.min(at + 2 + OBJECT)];
                    let Some(length) = comment.windows(2).position(|it| it == b"*/") else { break };
                    at += 2 + length + 1;
                }
                b'/' if self.text[at..to].starts_with(b"//") => {
                    let comment = &self.text[at..to];
                    let Some(length) = comment.iter().position(|byte| *byte == b'\n') else { break };
                    at += length;
                }
                byte if is_word(byte) => {
                    let rest = self.text[at..to].iter();
                    let word = at..at + rest.take_while(|byte| is_word(**byte)).count();
                    at = word.end - 1;
                    if depth == 0 && self.is_bare_name(&word) {
                        break;
                    }
                    if depth == 0 && self.is_bare_sign(&word) {
                        sign = Some(word.end);
                        break;
                    }
                }
                _ => {}
            }
            at += 1;
        }
        look_at(at.saturating_sub(from));
        sign
    }

    /// Returns true for another member of the same name. It is of another object, and ends the search, so
    /// that a row of members is not read again for each of them.
    fn is_same_name(&self, string: &Range<usize>) -> bool {
        self.text[string.clone()] == self.text[self.name.clone()] && self.is_before_colon(string.end + 1)
    }

    /// Returns true for another member of the same name, without quotes, or with quotes that an open string
    /// before it has put out of phase.
    fn is_bare_name(&self, word: &Range<usize>) -> bool {
        let quote = usize::from(self.text.get(word.end) == Some(&self.quote));
        self.text[word.clone()] == self.text[self.name.clone()] && self.is_before_colon(word.end + quote)
    }

    /// Returns true for the name of a member that says that the object is a key, without quotes.
    fn is_bare_sign(&self, word: &Range<usize>) -> bool {
        BARE_SIGNS.contains(&&self.text[word.clone()]) && self.is_before_colon(word.end)
    }

    fn is_before_colon(&self, at: usize) -> bool {
        at <= self.text.len() && self.text.get(at + blanks(self.text, at)) == Some(&b':')
    }

    /// Returns the range from this line to the nearest one of its block that says that the block is a key.
    /// Lines are searched between two places, those behind from `end` on.
    fn sign_in_lines(&self, from: usize, end: usize, to: usize) -> Option<Range<usize>> {
        let text = self.text;
        let start_of_line = |at: usize| {
            let before = text[from..at].iter().rposition(|byte| *byte == b'\n');
            before.map_or(from, |length| from + length + 1)
        };
        let first = start_of_line(self.name.start);
        let own = &text[first..self.name.start];
        let mut at = first;
        let mut is_open = !own.contains(&b'-');
        while is_open && at > from {
            let start = start_of_line(at - 1);
            let line = &text[start..at - 1];
            at = start;
            match self.step(line, own.len()) {
                Step::Sign => {
                    look_at(first - at);
                    return Some(start..self.name.end);
                }
                // A list has a dash before each of its items.
                Step::Other => is_open = line.len() > own.len() && !line[..own.len()].contains(&b'-'),
                Step::End => is_open = false,
            }
        }
        look_at(first - at);
        at = end;
        while let Some(length) = text[at..to.max(at)].iter().position(|byte| *byte == b'\n') {
            let start = at + length + 1;
            let rest = &text[start..to.max(start)];
            let line = &rest[..rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len())];
            let is_item = line.iter().take(own.len()).any(|byte| *byte == b'-');
            at = start;
            match self.step(line, own.len()) {
                _ if is_item => break,
                Step::Sign => {
                    look_at(at - end);
                    return Some(self.name.start..start + line.len());
                }
                Step::Other => {}
                Step::End => break,
            }
        }
        look_at(at - end);
        None
    }

    /// Returns what a line says of the block of this member, which begins at a column.
    fn step(&self, line: &[u8], column: usize) -> Step {
        let indent = run(line, 0, b" \t->", line.len());
        let rest = &line[indent..];
        if rest.trim_ascii().is_empty() || indent < column {
            return Step::End;
        }
        // A comment, or a part of another member.
        if indent > column || rest[0] == b'#' {
            return Step::Other;
        }
        let key = &rest[..rest.iter().take_while(|byte| is_word(**byte)).count()];
        let is_key = rest.get(key.len()) == Some(&b':');
        match BARE_SIGNS.contains(&key) {
            _ if !is_key || *key == self.text[self.name.clone()] => Step::End,
            true => Step::Sign,
            false => Step::Other,
        }
    }
}

/// Meaning of a line for the block of a member.
enum Step {
    /// The block is a key.
    Sign,
    Other,
    /// The line is of another block.
    End,
}

/// Returns true if a value without quotes may end at a place.
fn ends_plain_value(text: &[u8], at: usize) -> bool {
    let rest = &text[at + run(text, at, b"=", 2)..];
    matches!(rest.first(), None | Some(b',' | b'}' | b'\r' | b'\n')) || rest.starts_with(b" }")
}

/// Returns the length of blanks, line breaks and comments.
fn blanks(text: &[u8], at: usize) -> usize {
    let mut end = at + run(text, at, b" \t\r\n", 40);
    for _ in 0..COMMENTS {
        let Some(rest) = text[end..].strip_prefix(b"/*") else { break };
        let window = &rest[..rest.len().min(COMMENT)];
        let Some(length) = window.windows(2).position(|it| it == b"*/") else { break };
        end += 2 + length + 2;
        end += run(text, end, b" \t\r\n", 40);
    }
    end - at
}

/// Returns a text without the blanks and the comment that end it.
fn without_blanks(text: &[u8]) -> &[u8] {
    let text = text[text.len().saturating_sub(2 * COMMENT)..].trim_ascii_end();
    let Some(comment) = text.strip_suffix(b"*/") else { return text };
    match comment.windows(2).rposition(|it| it == b"/*") {
        Some(start) => text[..start].trim_ascii_end(),
        None => text,
    }
}

/// Returns the form of a member whose name has no quotes, and whose value begins at `start`.
fn written_bare(text: &[u8], name: &Range<usize>, start: usize) -> Option<Written> {
    if matches!(without_blanks(&text[..name.start]).last(), Some(b'{' | b',')) {
        return Some(Written::Bare);
    }
    let before = &text[name.start.saturating_sub(COMMENT)..name.start];
    let indent = before.iter().rev().take_while(|byte| b" \t->".contains(byte)).count();
    let begins_line = match text[..name.start - indent].last() {
        Some(before) => *before == b'\n' && indent < COMMENT,
        None => true,
    };
    (begins_line && !text[name.end..start].contains(&b'\n')).then_some(Written::Line)
}

/// Returns the length of a string up to its quote; `None` if its line ends before.
fn length_of_string(text: &[u8], quote: u8) -> Option<usize> {
    let mut at = 0;
    loop {
        match *text.get(at)? {
            b'\\' => at += 2,
            b'\n' => return None,
            byte if byte == quote => return Some(at),
            _ => at += 1,
        }
    }
}

/// Returns the place of the quote with which a string begins that ends a text; `None` if its line begins
/// after that quote.
fn start_of_string(text: &[u8], quote: u8) -> Option<usize> {
    let mut end = text.len();
    loop {
        let at = text[..end].iter().rposition(|byte| *byte == quote || *byte == b'\n')?;
        if text[at] == b'\n' {
            return None;
        }
        if !text[..at].ends_with(b"\\") {
            return Some(at);
        }
        end = at;
    }
}

/// Returns true if a text may have a private member, or begin inside one. Text far around it then decides
/// about its value.
pub(super) fn may_have_member(text: &[u8]) -> bool {
    let names = |(byte, at): (&u8, usize)| match byte {
        b':' => names_value(text, at, at + 1),
        b'%' => {
            let colon = COLONS.iter().find(|colon| text[at..].starts_with(colon));
            colon.is_some_and(|colon| names_value(text, at, at + colon.len()))
        }
        _ => false,
    };
    may_begin_in_member(text) || text.iter().zip(0..).any(names)
}

/// Colons in URLs.
const COLONS: [&[u8]; 4] = [b"%3A", b"%3a", b"%253A", b"%253a"];

/// Returns true if a text may begin in the name or in the value of a member.
fn may_begin_in_member(text: &[u8]) -> bool {
    let before = run(text, 0, b" \t\r\n:\"'[", 48);
    let length = text[before..].iter().take_while(|byte| is_word(**byte)).count();
    let end = before + length + run(text, before + length, b"=", 2);
    match text.get(end) {
        None | Some(b'"' | b'\\') if before == 0 => length > 0,
        None | Some(b'"' | b'\\' | b'\'' | b'%') => length >= SHORTEST,
        _ => false,
    }
}

/// Returns true if a text may begin in a value without quotes, which is on the line of its name.
pub(super) fn may_begin_in_plain_value(text: &[u8]) -> bool {
    let length = text.iter().take_while(|byte| is_word(**byte)).count();
    length > 0 && ends_plain_value(text, length)
}

/// Returns true if the name of a private member is before a colon, perhaps in a string, and a long value
/// after it.
fn names_value(text: &[u8], colon: usize, end: usize) -> bool {
    let before = without_blanks(&text[..colon]);
    let mut names = MEMBERS.iter().chain(&OF_PRIMES);
    let is_named = match without_quote(before) {
        Some(before) => names.any(|name| before.strip_suffix(*name).and_then(without_quote).is_some()),
        None => names.any(|name| {
            let before = before.strip_suffix(*name);
            before.is_some_and(|before| !before.last().is_some_and(|byte| is_word(*byte)))
        }),
    };
    if !is_named {
        return false;
    }
    let rest = &text[end + blanks(text, end)..];
    let rest = &rest[run(rest, 0, b" \t\r\n\\\"'[+", 48)..];
    let value = rest.strip_prefix(b"%22").or_else(|| rest.strip_prefix(b"%2522")).unwrap_or(rest);
    let length = value.iter().take(SHORTEST).take_while(|byte| is_word(**byte)).count();
    length == SHORTEST || length == value.len() || value.starts_with(b"&")
}

/// Returns a text without the quote that ends it, and without the escape of this quote.
fn without_quote(text: &[u8]) -> Option<&[u8]> {
    let quotes: [&[u8]; 5] = [b"\"", b"'", b"&quot;", b"%22", b"%2522"];
    let text = quotes.iter().find_map(|quote| text.strip_suffix(*quote))?;
    let length = text.iter().rposition(|byte| *byte != b'\\').map_or(0, |last| last + 1);
    Some(&text[..length])
}

/// Returns true if a text may have a string that says that an object is a key. The text may begin inside it.
pub(super) fn may_have_sign(text: &[u8]) -> bool {
    let is_sign = |end: usize| SIGNS.iter().any(|sign| text[..end].ends_with(sign));
    let is_bare_sign = |end: usize| BARE_SIGNS.iter().any(|sign| text[..end].ends_with(sign));
    text.iter().zip(0..).any(|(byte, at)| match byte {
        b'"' | b'\'' | b'\\' | b'&' | b'%' => is_sign(at),
        b':' | b' ' | b'\t' | b'\r' | b'\n' | b'/' => is_bare_sign(at),
        _ => false,
    })
}

/// Returns the value of the private member whose name is this word, under the third judgement. After it,
/// only its line is searched.
pub(super) fn third_judgement_of_member(text: &[u8], word: &Range<usize>) -> Option<Secret> {
    let is_name = MEMBERS.contains(&&text[word.clone()]) && text[..word.start].ends_with(b"\"");
    let mut at = word.end + text[word.end..].strip_prefix(b"\"").filter(|_| is_name).map(|_| 1)?;
    at += run(text, at, b" \t", 8);
    at += text[at..].strip_prefix(b":").map(|_| 1)?;
    at += run(text, at, b" \t\r\n", 40);
    let start = at + text[at..].strip_prefix(b"\"").map(|_| 1)?;
    let body = &text[start..text.len().min(start + LONGEST)];
    let length = body.iter().take_while(|byte| is_word(**byte)).count();
    look_at(length.min(OBJECT));
    if length < SHORTEST {
        return None;
    }
    look_at(2 * OBJECT);
    let before = &text[word.start.saturating_sub(OBJECT)..word.start];
    let object = before.iter().rposition(|byte| b"{}".contains(byte)).map_or(before, |at| &before[at..]);
    let behind = &text[start + length..text.len().min(start + length + OBJECT)];
    let line = behind.iter().position(|byte| b"{}\n".contains(byte)).map_or(behind, |at| &behind[..at]);
    let is_sign = |it: &[u8], sign: &[u8]| matches!(it, [b'"', inner @ .., b'"'] if inner == sign);
    let has = |part: &[u8]| SIGNS.iter().any(|sign| part.windows(sign.len() + 2).any(|it| is_sign(it, sign)));
    let end = start + length;
    (has(object) || has(line)).then_some(Secret { bytes: start..end, basis: word.start..end, kind: KIND })
}
