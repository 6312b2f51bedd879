//! Values that something encloses after a name and its sign: brackets, objects, calls, tags of YAML, and
//! alternatives of an expression, such as `process.env.TOKEN || "…"`.

use std::ops::Range;

use super::assigned::{Name, run};
use super::names;
use super::random::pairs;
use super::span::Secret;
use super::value::{JUDGED, NAME, Named, Tie, is_quote};
use super::words::{is_word, look_at};

/// Limit on the bytes of what encloses values.
const ENCLOSED: usize = 1 << 10;
/// Limit on the bytes of an expression before an alternative.
const EXPRESSION: usize = 96;
/// Limit on the arguments of a call that are judged.
const ARGUMENTS: usize = 8;
/// Limit on brackets within each other.
const DEPTH: usize = 8;
/// Signs between an expression and its alternative.
const ALTERNATIVES: [&[u8]; 5] = [b"||", b"??", b"or ", b"?:", b"else "];

impl Named<'_> {
    /// Finds the values that brackets, tags or an expression enclose after the sign of this name. Returns
    /// true if there are some.
    pub(super) fn enclosed(&self, found: &mut Vec<Secret>) -> bool {
        let before = found.len();
        let Some(sign) = self.after_sign() else { return false };
        let (at, weak) = self.behind_tags(sign);
        look_at(EXPRESSION);
        if at > sign {
            found.extend(if weak { self.as_weak().value(at, Tie::Sign) } else { self.value(at, Tie::Sign) });
        }
        match self.text.get(at) {
            Some(b'[' | b'(' | b'{' | b'<') => self.within_brackets(at, found),
            Some(_) => {
                let call = self.callee(at);
                if call > 0 && self.text.get(at + call) == Some(&b'(') {
                    // Other arguments of a call may be anything.
                    let first = at + call + 1 + run(self.text, at + call + 1, b"([{ \t", 4);
                    found.extend(self.as_weak().value(first, Tie::Sign));
                }
                found.extend(self.alternative(at));
            }
            None => {}
        }
        found.len() > before
    }

    /// Finds the values among the arguments of a call of this name, except for a string right after the
    /// bracket: `set_password("ann", "…")`. The last string of a function that sets something is the value;
    /// others have to look drawn at random.
    pub(super) fn arguments(&self, found: &mut Vec<Secret>) {
        let from = self.word.end;
        if self.text.get(from) != Some(&b'(') {
            return;
        }
        let text = &self.text[..self.text.len().min(from + ENCLOSED)];
        let (mut at, mut depth, mut commas) = (from, 0_usize, 0);
        // Start of the argument, and true if it is the first one of a later line.
        let (mut start, mut on_new_line) = (from + 1, false);
        // Last string on this line, until its line or the call ends.
        let mut last: Option<Argument> = None;
        while let Some(byte) = text.get(at) {
            match byte {
                b'(' | b'[' | b'{' => depth += 1,
                b')' | b']' | b'}' => {
                    depth -= 1;
                    if depth == 0 {
                        found.extend(last.take().and_then(|it| self.argument(&it, true)));
                    }
                }
                b';' => break,
                b',' if depth == 1 => {
                    commas += 1;
                    // The first argument may be a user if others follow, on this line or on the next one.
                    if commas == 1 {
                        found.extend(last.take().and_then(|it| self.argument(&it, false)));
                    }
                    (start, on_new_line) = (at + 1, false);
                }
                b'\n' => {
                    // Only by this line: the next one must not make a secret of it.
                    found.extend(last.take().and_then(|it| self.argument(&it, true)));
                    on_new_line |= text[start..at].trim_ascii().is_empty();
                }
                _ if is_quote(Some(byte)) => {
                    let item = Item::at(text, at);
                    let end = item.end();
                    // The line after an open string must not make a secret of it.
                    let is_closed = text.get(item.bytes.end) == Some(byte);
                    if is_closed && depth == 1 && at > from + 1 && is_beginning(&text[start..at]) {
                        let begins_line = on_new_line && text[start..at].trim_ascii().is_empty();
                        let is_on_later_line = text[from..at].contains(&b'\n');
                        found.extend(last.take().and_then(|it| self.argument(&it, false)));
                        last = Some(Argument { start: item.start, end, begins_line, is_on_later_line });
                    }
                    at = end;
                    continue;
                }
                _ => {}
            }
            at += 1;
            if depth == 0 || depth > DEPTH || commas > ARGUMENTS {
                break;
            }
        }
        found.extend(last.and_then(|it| self.argument(&it, false)));
        look_at(at.min(text.len()) - from);
    }

    /// Returns the value that is an argument of a call. On a later line than the name, it begins the line: a
    /// line is judged by the lines before and its own first bytes.
    fn argument(&self, argument: &Argument, is_last: bool) -> Option<Secret> {
        if argument.is_on_later_line && !argument.begins_line {
            return None;
        }
        let tie = if argument.is_on_later_line { Tie::Line } else { Tie::Sign };
        // A part of an expression may be anything.
        let blanks = run(self.text, argument.end, b" \t", 8);
        let is_alone = matches!(self.text.get(argument.end + blanks), Some(b')' | b',' | b'\r' | b'\n'));
        let named = match is_last && is_alone && self.sets_something() {
            true => self.clone(),
            false => self.as_weak(),
        };
        named.value(argument.start, tie)
    }

    /// Returns true for the name of a function that sets something: `setPassword`, `change_password`.
    fn sets_something(&self) -> bool {
        const VERBS: [&str; 6] = ["set", "change", "update", "reset", "store", "save"];
        let name = &self.text[self.word.clone()];
        let begins = |verb: &str| {
            let next = name.get(verb.len());
            next.is_some_and(|byte| *byte == b'_' || byte.is_ascii_uppercase())
                && name[..verb.len()].eq_ignore_ascii_case(verb.as_bytes())
        };
        VERBS.iter().any(|verb| begins(verb))
    }

    /// Returns the place after tags and anchors of YAML, and true if the value there may be anything.
    fn behind_tags(&self, from: usize) -> (usize, bool) {
        let (mut at, mut weak) = (from, false);
        for _ in 0..2 {
            let rest = &self.text[at..self.text.len().min(at + NAME)];
            let tag = match rest {
                [b'!', b'!', ..] | [b'&', ..] => rest.iter().position(|byte| *byte == b' '),
                [b'!', b' ', ..] => Some(1),
                _ => None,
            };
            let Some(length) = tag.filter(|length| !rest[..*length].contains(&b'\n')) else { break };
            // Also a reference of a program: `&next Token2`.
            weak |= rest[0] == b'&';
            at += length + run(self.text, at + length, b" ", 4);
        }
        (at, weak)
    }

    /// Returns the length of the name of a function or a type: `String::from`, `new Secret`.
    fn callee(&self, at: usize) -> usize {
        let rest = &self.text[at..self.text.len().min(at + NAME)];
        let new = if rest.starts_with(b"new ") { b"new ".len() } else { 0 };
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"_.:!".contains(byte);
        match rest[new..].iter().take_while(|byte| is_part(byte)).count() {
            0 => 0,
            length => new + length,
        }
    }

    /// Returns the value in quotes after an expression: `process.env.TOKEN || "…"`.
    fn alternative(&self, at: usize) -> Option<Secret> {
        let rest = &self.text[at..self.text.len().min(at + EXPRESSION)];
        let line = &rest[..rest.iter().position(|byte| b"\r\n;,".contains(byte)).unwrap_or(rest.len())];
        if is_quote(line.first()) {
            return None;
        }
        let begins = |from: &usize| ALTERNATIVES.iter().any(|sign| line[*from..].starts_with(sign));
        let sign = (1..line.len()).filter(|from| line[from - 1] == b' ').find(begins)?;
        let length = line[sign..].iter().position(|byte| *byte == b' ')?;
        let place = at + sign + length + run(self.text, at + sign + length, b" (", 4);
        is_quote(self.text.get(place)).then(|| self.value(place, Tie::Sign)).flatten()
    }

    /// Finds the values in the brackets that open here, and in those within them.
    fn within_brackets(&self, from: usize, found: &mut Vec<Secret>) {
        let text = &self.text[..self.text.len().min(from + ENCLOSED)];
        let (mut at, mut depth, mut objects) = (from, 0_usize, 0_usize);
        let mut key: Option<Range<usize>> = None;
        // The braces of an array of a program are no object: `password[2] = {"…", "…"}`.
        let arrays = usize::from(self.is_array() && text.get(from) == Some(&b'{'));
        while let Some(byte) = text.get(at) {
            match byte {
                b'[' | b'(' | b'{' | b'<' => {
                    depth += 1;
                    objects += usize::from(*byte == b'{');
                    at += 1;
                    if depth > DEPTH {
                        break;
                    }
                }
                b']' | b')' | b'}' | b'>' => {
                    // The sign of a function is no bracket: `=>`, `->`.
                    let is_arrow = *byte == b'>' && b"=-".contains(&text[at - 1]);
                    depth -= usize::from(!is_arrow);
                    objects = objects.saturating_sub(usize::from(*byte == b'}'));
                    key = None;
                    at += 1;
                    if depth == 0 {
                        break;
                    }
                }
                b',' | b';' => {
                    key = None;
                    at += 1;
                }
                _ if is_quote(Some(byte)) || is_word(*byte) => {
                    let item = Item::at(text, at);
                    let end = item.end();
                    match item.is_key(text) {
                        true => key = Some(item.bytes),
                        false => found.extend(self.member(&item, key.as_ref(), objects > arrays)),
                    }
                    at = end;
                }
                _ => at += 1,
            }
        }
        look_at(at - from);
    }

    /// Returns true for a variable with a subscript.
    fn is_array(&self) -> bool {
        self.is_fourth() && self.text.get(self.word.end) == Some(&b'[')
    }

    /// Returns a value in brackets, with its key in an object, if it is secret.
    fn member(&self, item: &Item, key: Option<&Range<usize>>, in_object: bool) -> Option<Secret> {
        if let Some(key) = key {
            // A key that is a name judges its value itself.
            let name = key.start.max(key.end.saturating_sub(NAME))..key.end;
            if names::is_key_of_other_thing(&self.text[name.clone()])
                || names::name(self.text, &name, self.judgement).is_some()
            {
                return None;
            }
        }
        if !item.quoted && !item.is_whole(self.text) {
            return None;
        }
        // Only a name in the plural promises an object of secrets. Other short strings may be there as well.
        let is_plural = self.text[self.word.clone()].ends_with(b"s");
        let is_promised = self.name == Name::Password || item.bytes.len() >= 16;
        let strong = item.quoted && (!in_object || (is_plural && is_promised));
        let named = if strong { self.clone() } else { self.as_weak() };
        named.value(item.start, Tie::Sign)
    }
}

/// Returns true for what can be before the string of an argument: blanks, and the letter of a kind of string.
fn is_beginning(text: &[u8]) -> bool {
    matches!(text.trim_ascii(), [] | [b'b' | b'B' | b'r' | b'R' | b'f' | b'F' | b'u' | b'U' | b'$' | b'@'])
}

/// String that is an argument of a call.
struct Argument {
    /// Place of its quote, and the place after the quote that closes it.
    start: usize,
    end: usize,
    /// True for the first argument of its line.
    begins_line: bool,
    /// True on a later line than the name.
    is_on_later_line: bool,
}

/// Word or string in brackets.
struct Item {
    /// Place of its quote, or of its first byte.
    start: usize,
    /// Its bytes without quotes.
    bytes: Range<usize>,
    quoted: bool,
}

impl Item {
    fn at(text: &[u8], start: usize) -> Self {
        let Some(quote) = text.get(start).filter(|byte| is_quote(Some(byte))) else {
            let is_part = |byte: &u8| is_word(*byte) || b".%~".contains(byte);
            let length = text[start..].iter().take_while(|byte| is_part(byte)).count();
            return Self { start, bytes: start..start + length, quoted: false };
        };
        let rest = &text[start + 1..];
        let length = rest.iter().position(|byte| byte == quote || *byte == b'\n').unwrap_or(rest.len());
        Self { start, bytes: start + 1..start + 1 + length, quoted: true }
    }

    /// Returns the place after its quote.
    fn end(&self) -> usize {
        self.bytes.end + usize::from(self.quoted)
    }

    /// Returns true for a word that is alone between commas, signs and brackets, and no class of a pattern,
    /// such as `[a-z0-9]`.
    fn is_whole(&self, text: &[u8]) -> bool {
        let before = text[..self.start].trim_ascii_end().last();
        let behind = &text[self.bytes.end..];
        let blanks = run(behind, 0, b" \t", 4);
        let is_class = |it: &[u8]| [&b"0-9"[..], b"a-z", b"A-Z"].contains(&it);
        before.is_some_and(|byte| b"[({<,:=".contains(byte))
            && !text[..self.start].ends_with(b"::")
            && behind.get(blanks).is_none_or(|byte| b"])}>,\r\n".contains(byte))
            && !text[self.bytes.clone()].windows(3).any(is_class)
    }

    /// Returns true if a sign follows, as after the key of an object.
    fn is_key(&self, text: &[u8]) -> bool {
        let at = self.end().min(text.len());
        let blanks = run(text, at, b" \t", 4);
        matches!(text[at + blanks..], [b':' | b'=', ..])
    }
}

/// Returns true if a text, which begins a line after its quote, may begin with a member of an object whose
/// value is secret by a name on a line before: `prod": "…"`.
pub(super) fn may_be_member(text: &[u8]) -> bool {
    let key = text.iter().take(NAME).take_while(|byte| is_word(**byte) || **byte == b'.').count();
    let mut at = key + run(text, key, b"\"'`", 1);
    at += run(text, at, b" \t", 4);
    let sign = run(text, at, b":=", 2);
    if key == 0 || sign == 0 {
        return false;
    }
    at += sign;
    at += run(text, at, b" >\t\"'`[({", 8);
    let value = text[at..].iter().take(JUDGED).take_while(|byte| !byte.is_ascii_whitespace());
    let length = value.clone().count();
    let has_digit = value.clone().any(u8::is_ascii_digit);
    // Words and numbers are no secrets.
    let is_plain = text[at..at + length].iter().all(|byte| byte.is_ascii_digit() || b",.".contains(byte));
    length >= 6 && !is_plain && (has_digit || pairs(&text[at..at + length]) > 0.2)
}
