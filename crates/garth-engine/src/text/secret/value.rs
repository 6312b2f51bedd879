//! Judgement of a value next to a name. It is secret if it looks like one, by what the name promises and by
//! how closely the two are tied.

use std::ops::Range;

use super::assigned::{self, Name, is_code, is_place, is_placeholder};
use super::harmless_shape::{self, is_path, is_public};
use super::judgement::Judgement;
use super::names;
use super::random::{bits, disorder, pairs};
use super::service_token;
use super::span::{LONGEST, Secret};
use super::words::{is_word, look_at};

/// Number of bytes by which a value is judged.
pub(super) const JUDGED: usize = 256;
/// Minimum length of a value that is apart from its name, in other text.
pub(super) const APART: usize = 12;
/// Minimum length of a password after words that say where it is for.
const LINKED: usize = 8;
/// Limit on the bytes of a name that are part of the basis of a secret.
pub(super) const NAME: usize = 64;

/// Quotes and brackets of other scripts that open a value.
pub(super) const BRACKETS: [&str; 7] = ["“", "‘", "「", "『", "【", "（", "《"];

/// Strength of the tie between a value and its name.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Tie {
    /// Sign between them.
    Sign,
    /// Line break between them. A short value fills its line.
    Line,
    /// Words that say where a password is for, and a sign or a verb. A short value has several digits.
    Linked,
    /// Words between them.
    Apart,
}

/// Name that makes a secret of a value next to it.
#[derive(Clone)]
pub(super) struct Named<'a> {
    pub(super) text: &'a [u8],
    pub(super) word: Range<usize>,
    pub(super) name: Name,
    /// True for names of many other things, such as `auth` and `pass`. They make a secret only of values
    /// that look drawn at random.
    pub(super) weak: bool,
    /// Judgement under which the name is searched around.
    pub(super) judgement: Judgement,
}

impl Named<'_> {
    /// Returns the value at a place, if it is secret.
    pub(super) fn value(&self, at: usize, tie: Tie) -> Option<Secret> {
        let (start, quote) = begin(self.text, at);
        let (text, from) = (self.text, self.word.start);
        // A token with a mark is known by service, whatever the name says.
        let marks = match self.is_third() {
            true => service_token::CURRENT,
            false => service_token::SECOND,
        };
        if let Some(secret) = service_token::token_at(text, start, marks) {
            return Some(Secret { basis: from..secret.bytes.end, ..secret });
        }
        if self.begins_with_name(start) {
            return None;
        }
        let window = &text[start..text.len().min(start + JUDGED)];
        let judged = start..start + assigned::length(window, quote);
        look_at(judged.len() + 16);
        if !self.is_secret(&judged, quote, tie) {
            return None;
        }
        let mut end = judged.end;
        if judged.len() + 4 >= window.len() {
            // A long value continues up to a sign, after which another value could begin.
            let is_part = |byte: &u8| is_word(*byte) || b".~%".contains(byte);
            let most = &text[end..text.len().min(start + LONGEST)];
            end += most.iter().take_while(|byte| is_part(byte)).count();
            end += assigned::run(text, end, b"=", 2);
            look_at(end - judged.end);
        }
        // A secret never ends inside a character.
        while text.get(end).is_some_and(|byte| byte & 0xc0 == 0x80) {
            end -= 1;
        }
        Some(Secret { bytes: start..end, basis: from.min(start)..end.max(self.word.end), kind: self.kind() })
    }

    pub(super) fn is_third(&self) -> bool {
        self.judgement >= Judgement::Third
    }

    pub(super) fn is_fourth(&self) -> bool {
        self.judgement >= Judgement::Fourth
    }

    /// Returns the name as one that makes a secret only of values that look drawn at random.
    pub(super) fn as_weak(&self) -> Self {
        Self { weak: true, ..self.clone() }
    }

    pub(super) fn kind(&self) -> &'static str {
        match self.name {
            Name::Password => "password",
            Name::Token => "token",
            Name::Header | Name::Scheme => "authorization",
        }
    }

    /// Returns true if the bytes are a secret by their looks.
    pub(super) fn is_secret(&self, bytes: &Range<usize>, quote: Option<u8>, tie: Tie) -> bool {
        let value = &self.text[bytes.clone()];
        let follows = &self.text[bytes.end..];
        // Most values are words, which need no closer look.
        if value.len() < 6 || (value.len() < 16 && value.iter().all(u8::is_ascii_lowercase)) {
            return false;
        }
        if is_public(value) || is_path(value) || (self.is_third() && self.is_harmless(value, quote)) {
            return false;
        }
        if quote.is_some() && tie == Tie::Sign && harmless_shape::is_salt(value) {
            return true;
        }
        // Patterns, calls and repetitions.
        if self.name != Name::Password
            && (value.iter().any(|byte| b"()[]{}|\\".contains(byte)) || bits(value) < 2.2)
        {
            return false;
        }
        // The weaker the tie, the longer a value has to be.
        let far = match tie {
            Tie::Sign => false,
            Tie::Line => value.len() < APART && !self.fills_line(bytes),
            Tie::Apart | Tie::Linked if self.name == Name::Password => {
                let digits = value.iter().filter(|byte| byte.is_ascii_digit()).count();
                let is_linked = tie == Tie::Linked && value.len() >= LINKED && digits >= 2;
                !is_linked && value.len() < APART && !harmless_shape::looks_random(value, self.name)
            }
            Tie::Apart | Tie::Linked => value.len() < APART,
        };
        if far || (tie != Tie::Sign && assigned::is_call(follows)) {
            return false;
        }
        if harmless_shape::is_dated(value)
            || harmless_shape::is_version(value)
            || (self.name == Name::Token && harmless_shape::is_not_a_token(value))
            || (quote.is_none() && harmless_shape::is_field(value))
            || (self.weak && !harmless_shape::looks_random(value, self.name))
        {
            return false;
        }
        assigned::is_secret(value, self.name, quote, follows) || is_odd(value, self.name, quote, follows)
    }

    /// Returns true for numbers, types and identifiers of programs, for ranges of bytes, and for ids of
    /// requests and locks.
    fn is_harmless(&self, value: &[u8], quote: Option<u8>) -> bool {
        let id = value.strip_prefix(b"opaquelocktoken:");
        harmless_shape::is_typed_number(value)
            || harmless_shape::is_constant_name(value)
            || (quote.is_none() && harmless_shape::is_type_name(value))
            || id.is_some_and(harmless_shape::is_uuid)
            || (harmless_shape::is_uuid(value) && names::is_of_request(self.text, &self.word))
            || value.ends_with(b"EXAMPLE")
            || (self.is_fourth() && harmless_shape::is_byte_range(value))
            || (self.is_fourth()
                && self.name == Name::Token
                && (harmless_shape::is_numbered_word(value) || harmless_shape::is_identifier(value)))
    }

    /// Returns true if a value is a name of its own with a sign after it: the value after that is judged by
    /// that name. Otherwise, a row of names and signs would be read again for each of them.
    pub(super) fn begins_with_name(&self, at: usize) -> bool {
        let rest = &self.text[at..];
        let length = rest.iter().take(NAME).take_while(|byte| is_word(**byte)).count();
        let word = at..at + length;
        length > 0
            && matches!(rest.get(length), Some(b'=' | b':'))
            && rest.get(length + 1).is_some_and(|byte| is_word(*byte) || is_quote(Some(byte)))
            && names::name(self.text, &word, self.judgement).is_some()
            && !names::is_weak(self.text, &word, self.judgement)
    }

    /// Returns true for a short value with letters and digits that fills its line.
    fn fills_line(&self, bytes: &Range<usize>) -> bool {
        let value = &self.text[bytes.clone()];
        let has = |is: fn(&u8) -> bool| value.iter().any(is);
        fills_line(&self.text[bytes.end..]) && has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic)
    }
}

/// Returns true if the line ends here, after signs that close a value.
pub(super) fn fills_line(follows: &[u8]) -> bool {
    let closing = assigned::run(follows, 0, b"\"'`*, \t\r|])};", 16);
    matches!(follows.get(closing), None | Some(b'\n'))
}

/// Returns true for values without digits, or with signs, that nobody would take for words.
fn is_odd(value: &[u8], name: Name, quote: Option<u8>, follows: &[u8]) -> bool {
    if value.contains(&b' ') || is_placeholder(value) || is_place(value) || value.len() < 8 {
        return false;
    }
    if quote.is_none() && is_code(value, follows) {
        return false;
    }
    let has = |is: fn(&u8) -> bool| value.iter().any(is);
    let mixed = has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase);
    match name {
        Name::Password => mixed && has(|byte| b"!@#$%^&~?".contains(byte)),
        _ if value.len() < 16 || has(u8::is_ascii_digit) => false,
        _ if mixed => disorder(value) >= 0.75,
        _ => value.iter().all(u8::is_ascii_alphabetic) && pairs(value) >= 0.35,
    }
}

pub(super) fn is_quote(byte: Option<&u8>) -> bool {
    byte.is_some_and(|byte| b"\"'`".contains(byte))
}

/// Returns the bracket of another script with which a text begins.
pub(super) fn opening_bracket(text: &[u8]) -> Option<&'static str> {
    BRACKETS.into_iter().find(|bracket| text.starts_with(bracket.as_bytes()))
}

/// Returns the start of a value, after its quote and scheme, and the quote.
pub(super) fn begin(text: &[u8], at: usize) -> (usize, Option<u8>) {
    let at = at + opening_bracket(&text[at..]).map_or(0, str::len);
    let prefix =
        usize::from(text.get(at).is_some_and(|it| b"bBrRfFuU$@".contains(it)) && is_quote(text.get(at + 1)));
    let (mut start, quote) = assigned::begin(text, at + prefix);
    // Quotes in a URL.
    if quote.is_none() && (text[start..].starts_with(b"%22") || text[start..].starts_with(b"%27")) {
        start += b"%22".len();
    }
    // Strings in three quotes, as in TOML and Python.
    if let Some(quote) = quote.filter(|quote| text[start..].starts_with(&[*quote, *quote])) {
        start = assigned::begin(text, start + 1).0;
        return (start, Some(quote));
    }
    let schemes: [&[u8]; 4] = [b"bot ", b"ssws ", b"apikey ", b"base64:"];
    let rest = &text[start..];
    let scheme = schemes
        .iter()
        .find(|scheme| rest.len() > scheme.len() && rest[..scheme.len()].eq_ignore_ascii_case(scheme));
    (start + scheme.map_or(0, |scheme| scheme.len()), quote)
}
