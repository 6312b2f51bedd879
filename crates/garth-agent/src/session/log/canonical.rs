//! Canonical JSON: one form for texts that say the same, whatever their white space, the order of their keys,
//! or the way in which their numbers are written.

use std::borrow::Cow;
use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use garth_engine::compute::working;

/// Arrays and objects within each other, at most: as many as rules take.
const MAX_DEPTH: usize = 128;

/// A JSON value. Members that are `null` are left out: they say the same as absent ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Json<'a> {
    Null,
    Bool(bool),
    /// A number as digits without zeros around them, and an exponent of ten, so that no digit is lost.
    Number(Cow<'a, str>),
    String(Cow<'a, str>),
    Array(Vec<Json<'a>>),
    Object(BTreeMap<Cow<'a, str>, Json<'a>>),
}

impl<'a> Json<'a> {
    /// Parses a text. Returns `None` for a text that is not JSON, or is nested more than 128 levels deep.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        working(text.len());
        let mut scanner = Scanner { text, at: 0 };
        let value = scanner.value(MAX_DEPTH)?;
        scanner.space();
        (scanner.at == text.len()).then_some(value)
    }

    /// Returns its text.
    pub(crate) fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the SHA-256 of its canonical form.
    pub(crate) fn digest(&self) -> [u8; 32] {
        let mut hasher = Sha256::new();
        self.hash(&mut hasher);
        hasher.finalize().into()
    }

    /// Each value begins with its kind and its length, so that no two values give the same bytes.
    fn hash(&self, hasher: &mut Sha256) {
        let text = |hasher: &mut Sha256, kind: u8, text: &str| {
            hasher.update([kind]);
            hasher.update((text.len() as u64).to_le_bytes());
            hasher.update(text);
        };
        match self {
            Self::Null => hasher.update(b"0"),
            Self::Bool(value) => hasher.update(if *value { b"t" } else { b"f" }),
            Self::Number(number) => text(hasher, b'n', number),
            Self::String(string) => text(hasher, b's', string),
            Self::Array(items) => {
                hasher.update(b"a");
                hasher.update((items.len() as u64).to_le_bytes());
                items.iter().for_each(|item| item.hash(hasher));
            }
            Self::Object(members) => {
                hasher.update(b"o");
                hasher.update((members.len() as u64).to_le_bytes());
                for (name, value) in members {
                    text(hasher, b'k', name);
                    value.hash(hasher);
                }
            }
        }
    }
}

/// Returns true if two texts are the same JSON value.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    // A repeat mostly has the same bytes, and need not be parsed.
    one == other || Json::parse(one).is_some_and(|value| Json::parse(other) == Some(value))
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    fn space(&mut self) {
        let rest = &self.text.as_bytes()[self.at..];
        self.at += rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count();
    }

    /// Returns the next byte that is not white space, without consuming it.
    fn peek(&mut self) -> Option<u8> {
        self.space();
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    fn word(&mut self, word: &str, value: Json<'a>) -> Option<Json<'a>> {
        self.text[self.at..].starts_with(word).then(|| {
            self.at += word.len();
            value
        })
    }

    fn value(&mut self, depth: usize) -> Option<Json<'a>> {
        // Recursion without a limit would overflow the stack on a line of brackets.
        let depth = depth.checked_sub(1)?;
        match self.peek()? {
            b'{' => self.object(depth),
            b'[' => self.array(depth),
            b'"' => self.string().map(Json::String),
            b't' => self.word("true", Json::Bool(true)),
            b'f' => self.word("false", Json::Bool(false)),
            b'n' => self.word("null", Json::Null),
            _ => {
                let rest = &self.text[self.at..];
                let length = rest.bytes().take_while(|byte| b"+-.eE0123456789".contains(byte)).count();
                self.at += length;
                (length > 0).then(|| Json::Number(decimal(&rest[..length])))
            }
        }
    }

    fn object(&mut self, depth: usize) -> Option<Json<'a>> {
        let mut members = BTreeMap::new();
        self.take(b'{')?;
        if self.take(b'}').is_some() {
            return Some(Json::Object(members));
        }
        loop {
            self.space();
            let name = self.string()?;
            self.take(b':')?;
            let value = self.value(depth)?;
            // SDKs write an absent field as `null`, or leave it out.
            if value != Json::Null {
                members.insert(name, value);
            }
            if self.take(b',').is_none() {
                self.take(b'}')?;
                return Some(Json::Object(members));
            }
        }
    }

    fn array(&mut self, depth: usize) -> Option<Json<'a>> {
        let mut items = Vec::new();
        self.take(b'[')?;
        if self.take(b']').is_some() {
            return Some(Json::Array(items));
        }
        loop {
            items.push(self.value(depth)?);
            if self.take(b',').is_none() {
                self.take(b']')?;
                return Some(Json::Array(items));
            }
        }
    }

    fn string(&mut self) -> Option<Cow<'a, str>> {
        let rest = self.text[self.at..].strip_prefix('"')?;
        let (mut escaped, mut has_escapes) = (false, false);
        for (at, byte) in rest.bytes().enumerate() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => (escaped, has_escapes) = (true, true),
                b'"' => {
                    let whole = &self.text[self.at..self.at + at + 2];
                    self.at += at + 2;
                    // Most strings have no escapes and are borrowed from the text.
                    return match has_escapes {
                        true => serde_json::from_str(whole).ok().map(Cow::Owned),
                        false => Some(Cow::Borrowed(&rest[..at])),
                    };
                }
                _ => {}
            }
        }
        None
    }
}

/// Returns a number as its digits, without zeros around them, and an exponent: `1.50e2` is `15e1`.
fn decimal(number: &str) -> Cow<'_, str> {
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    // An exponent beyond 64 bits is compared as it is written: no digit may be lost.
    let Ok(exponent) = exponent.parse::<i64>() else { return Cow::Borrowed(number) };
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = [whole, fraction].concat();
    let significant = digits.trim_end_matches('0');
    let exponent = exponent
        .saturating_sub(fraction.len() as i64)
        .saturating_add((digits.len() - significant.len()) as i64);
    match significant.trim_start_matches('0') {
        "" => Cow::Borrowed("0"),
        digits => Cow::Owned(format!("{sign}{digits}e{exponent}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_have_one_form() {
        for (one, other) in [
            (r#"{"a":1,"b":[true,"x"]}"#, "{ \"b\" : [ true , \"\\u0078\" ],\n\"a\" : 1.0 }"),
            ("100", "1e2"),
            ("100", "1.00E+2"),
            ("-0.0", "0"),
            ("0.050", "5e-2"),
            (r#"{"a":null}"#, "{}"),
            ("1e99999999999999999999", "1e99999999999999999999"),
        ] {
            assert!(is_same(one, other), "{one} {other}");
            let digest = |text| Json::parse(text).unwrap().digest();
            assert_eq!(digest(one), digest(other), "{one} {other}");
        }
    }

    #[test]
    fn different_values_differ() {
        for (one, other) in [
            ("1", "\"1\""),
            ("[1,2]", "[2,1]"),
            ("[null]", "[]"),
            ("[[],[]]", "[[[]]]"),
            ("12345678901234567890.5", "12345678901234567890.4"),
            ("100000000000000000001", "100000000000000000002"),
            ("1", "-1"),
            (r#"{"a":"b"}"#, r#"["a","b"]"#),
            (r#""a""#, r#""A""#),
        ] {
            assert!(!is_same(one, other), "{one} {other}");
            let digest = |text| Json::parse(text).unwrap().digest();
            assert_ne!(digest(one), digest(other), "{one} {other}");
        }
    }

    #[test]
    fn rejects_text_that_is_not_json() {
        let deep = "[".repeat(200) + &"]".repeat(200);
        for text in ["", "{", "[1", "\"a", "{\"a\"}", "[1,]", "1 2", "nul", "{,}", &deep] {
            assert_eq!(Json::parse(text), None, "{text}");
        }
    }
}
