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
/// Limit on the bytes on each side of a member that the third judgement searches for such a string.
const OBJECT: usize = 1 << 10;
/// Limit on brackets within each other between a member and the string that says that it is of a key.
const DEPTH: usize = 8;
/// Minimum length of a value: 128 bits in base64.
const SHORTEST: usize = 22;
const QUOTES: &[u8] = b"\"'";

/// Finds the private values of the member whose name is this word.
pub(super) fn find_members(text: &[u8], word: &Range<usize>, found: &mut Vec<Secret>) {
    let name = &text[word.clone()];
    let is_list = name == PRIMES;
    if !is_list && !MEMBERS.contains(&name) {
        return;
    }
    let Some(member) = Member::named(text, word) else { return };
    let (values, end) = if is_list { member.values_in_list() } else { member.value() };
    if values.is_empty() {
        return;
    }
    // No byte of a value is farther from what decides about it, so that a piece of a text is judged like the
    // complete text.
    let (from, to) = (end.saturating_sub(LONGEST), text.len().min(word.start + LONGEST));
    let basis = match member.sign_before(from) {
        Some(sign) => sign..word.end,
        None => match member.sign_behind(end, to) {
            Some(sign) => word.start..sign,
            None => return,
        },
    };
    found.extend(values.into_iter().map(|bytes| Secret {
        basis: basis.start..basis.end.max(bytes.end),
        bytes,
        kind: KIND,
    }));
}

/// Member of an object, in JSON or with other quotes.
struct Member<'a> {
    text: &'a [u8],
    /// Its name, without quotes.
    name: Range<usize>,
    /// Place where its value begins.
    start: usize,
    quote: u8,
}

impl<'a> Member<'a> {
    /// Returns the member whose name is a word of a text.
    fn named(text: &'a [u8], word: &Range<usize>) -> Option<Self> {
        let quote = *text[..word.start].last().filter(|byte| QUOTES.contains(byte))?;
        if text.get(word.end) != Some(&quote) {
            return None;
        }
        let sign = word.end + 1 + run(text, word.end + 1, b" \t", 8);
        if text.get(sign) != Some(&b':') {
            return None;
        }
        let start = sign + 1 + run(text, sign + 1, b" \t\r\n", 40);
        Some(Self { text, name: word.clone(), start, quote })
    }

    /// Returns the value if it is a long string, and the place after it.
    fn value(&self) -> (Vec<Range<usize>>, usize) {
        let Some(value) = self.long_string(self.start) else { return (Vec::new(), self.start) };
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
        let sign = string.end + 1 + run(self.text, string.end + 1, b" \t", 8);
        self.text[string.clone()] == self.text[self.name.clone()] && self.text.get(sign) == Some(&b':')
    }
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
    may_begin_in_member(text) || text.iter().zip(0..).any(|(byte, at)| *byte == b':' && names_value(text, at))
}

/// Returns true if a text may begin in the name or in the value of a member.
fn may_begin_in_member(text: &[u8]) -> bool {
    let before = run(text, 0, b" \t\r\n:\"'", 48);
    let length = text[before..].iter().take_while(|byte| is_word(**byte)).count();
    let end = before + length + run(text, before + length, b"=", 2);
    match text.get(end) {
        None | Some(b'"' | b'\\') if before == 0 => length > 0,
        None | Some(b'"' | b'\\' | b'\'') => length >= SHORTEST,
        _ => false,
    }
}

/// Returns true if the name of a private member is before a colon, perhaps in a string, and a long value
/// after it.
fn names_value(text: &[u8], colon: usize) -> bool {
    let Some(before) = without_quote(text[..colon].trim_ascii_end()) else { return false };
    let mut names = MEMBERS.iter().chain(&OF_PRIMES);
    if !names.any(|name| before.strip_suffix(*name).and_then(without_quote).is_some()) {
        return false;
    }
    let rest = &text[colon + 1..];
    let value = &rest[run(rest, 0, b" \t\r\n\\\"'", 48)..];
    let length = value.iter().take(SHORTEST).take_while(|byte| is_word(**byte)).count();
    length == SHORTEST || length == value.len() || value.starts_with(b"&")
}

/// Returns a text without the quote that ends it, and without the escape of this quote.
fn without_quote(text: &[u8]) -> Option<&[u8]> {
    let quotes: [&[u8]; 3] = [b"\"", b"'", b"&quot;"];
    let text = quotes.iter().find_map(|quote| text.strip_suffix(*quote))?;
    let length = text.iter().rposition(|byte| *byte != b'\\').map_or(0, |last| last + 1);
    Some(&text[..length])
}

/// Returns true if a text may have a string that says that an object is a key. The text may begin inside it.
pub(super) fn may_have_sign(text: &[u8]) -> bool {
    let is_sign = |end: usize| SIGNS.iter().any(|sign| text[..end].ends_with(sign));
    text.iter().zip(0..).any(|(byte, at)| b"\"'\\&".contains(byte) && is_sign(at))
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
