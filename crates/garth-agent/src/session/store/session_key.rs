//! Session keys: what leads from a channel and its peer to the session that goes on.

use std::fmt;
use std::str::FromStr;

use garth_engine::error::{Error, Result};

/// Limit on the characters of a part, before it is encoded.
const MAX_PART: usize = 64;
/// Limit on the bytes of a key.
const MAX_KEY: usize = 255;

/// A session key: `agent:{id}:{main}`, `agent:{id}:dm:{peer}`, `agent:{id}:{channel}:dm:{peer}`,
/// `agent:{id}:{channel}:{account}:dm:{peer}` or `agent:{id}:{channel}:{kind}:{peer}`.
///
/// A part has 1 to 64 characters. What is none of `a-z0-9+_@.-` is percent-encoded, in lower-case
/// hexadecimal, so that no two peers have one key: [`SessionKey::of`] encodes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionKey(String);

impl SessionKey {
    /// Returns the key of these parts after `agent`. The parts are given as they are; `of` encodes them.
    ///
    /// # Errors
    /// `InvalidArgument` for parts that do not form a key.
    pub fn of(parts: &[&str]) -> Result<Self> {
        let all = parts.iter().map(|part| encoded(part)).collect::<Result<Vec<_>>>()?;
        let is_key = match parts {
            [_, _] | [_, "dm", _] | [_, _, _, _] => true,
            [_, _, _, dm, _] => *dm == "dm",
            _ => false,
        };
        let key = format!("agent:{}", all.join(":"));
        if !is_key {
            return Err(bad(&key, "has another form"));
        }
        if key.len() > MAX_KEY {
            return Err(bad(&key, &format!("has more than {MAX_KEY} bytes")));
        }
        Ok(Self(key))
    }

    /// Returns the text of the key.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for SessionKey {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let rest = text.strip_prefix("agent:").ok_or_else(|| bad(text, "does not begin with `agent:`"))?;
        let parts = rest.split(':').map(decoded).collect::<Option<Vec<_>>>();
        let parts =
            parts.ok_or_else(|| bad(text, "has a part that is not percent-encoded as it should be"))?;
        let key = Self::of(&parts.iter().map(String::as_str).collect::<Vec<_>>())?;
        // each key has one form
        if key.0 == text { Ok(key) } else { Err(bad(text, &format!("is written {}", key.0))) }
    }
}

impl fmt::Display for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn bad(key: &str, why: &str) -> Error {
    let forms = "agent:ID:MAIN, agent:ID:dm:PEER, agent:ID:CHANNEL:dm:PEER, agent:ID:CHANNEL:ACCOUNT:dm:PEER or \
                 agent:ID:CHANNEL:KIND:PEER";
    Error::invalid(format!("{key}: is no session key, as it {why}; write {forms}"))
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"+_@.-".contains(&byte)
}

fn encoded(part: &str) -> Result<String> {
    if !(1..=MAX_PART).contains(&part.chars().count()) {
        let message = format!("a part of a session key has 1 to {MAX_PART} characters, `{part}` has not");
        return Err(Error::invalid(message));
    }
    let mut text = String::new();
    for byte in part.bytes() {
        if is_plain(byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02x}"));
        }
    }
    Ok(text)
}

fn decoded(part: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = part.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_one_of_five_forms() {
        for good in [
            "agent:main:main",
            "agent:scout:dm:+4912345",
            "agent:scout:whatsapp:dm:+4912345",
            "agent:scout:whatsapp:work:dm:a@b.c",
            "agent:scout:slack:channel:c0123",
            "agent:scout:slack:channel:%c3%a4",
        ] {
            assert_eq!(good.parse::<SessionKey>().unwrap().as_str(), good);
        }
        for bad in [
            "",
            "agent",
            "agent:",
            "agent:a",
            "agent:a:",
            "agent:a:b:c",
            "agent:a:b:c:d:e",
            "agent:a:b:c:dm:e:f",
            "agent:A:main",
            "agent:a:%61",
            "agent:a:%C3%A4",
            "agent:a:%c3",
            "agent:a:b c",
            "x:a:main",
        ] {
            assert!(bad.parse::<SessionKey>().is_err(), "{bad}");
        }
    }

    #[test]
    fn no_two_peers_share_a_key_and_a_long_one_is_refused() {
        let of = |peer: &str| SessionKey::of(&["a", "dm", peer]);
        assert_eq!(of("Ann").unwrap().as_str(), "agent:a:dm:%41nn");
        assert_ne!(of("Ann").unwrap(), of("ann").unwrap());
        assert_ne!(of("a:b").unwrap(), of("a%3ab").unwrap());
        assert!(of(&"x".repeat(64)).is_ok() && of(&"x".repeat(65)).is_err() && of("").is_err());
        assert!(of(&"é".repeat(40)).is_ok() && of(&"é".repeat(41)).is_err());
        for peer in ["Ann", "a:b", "ä/ö", "%"] {
            let key = of(peer).unwrap();
            assert_eq!(key.as_str().parse::<SessionKey>().unwrap(), key);
        }
    }
}
