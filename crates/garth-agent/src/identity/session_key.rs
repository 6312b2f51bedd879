//! Session keys, which lead from a channel and its peer to the open session and its audience.

use std::fmt;
use std::str::FromStr;

use garth_engine::error::{Error, Result};

/// Limit on the characters of a part, before it is encoded.
const MAX_PART: usize = 64;
/// Limit on the bytes of a key.
const MAX_KEY: usize = 255;

/// Session key: `agent:{id}:{name}`, `agent:{id}:dm:{peer}`, `agent:{id}:{channel}:dm:{peer}`,
/// `agent:{id}:{channel}:{account}:dm:{peer}` or `agent:{id}:{channel}:{kind}:{peer}`. After a peer,
/// `:thread:{t}` or `:topic:{t}` distinguishes sessions, but not audiences.
///
/// A part has 1 to 64 characters. Bytes other than `A-Za-z0-9+_@.-` are percent-encoded in lower-case
/// hexadecimal, so that no two peers have the same key: [`SessionKey::of`] encodes. Encoded capital letters,
/// as in older keys, are accepted and decoded.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionKey {
    text: String,
    form: Form,
}

/// Form of a session key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Form {
    /// `agent:{id}:{name}`: a session by its name.
    Named,
    /// Conversation with one peer.
    Dm,
    /// Place where several people may speak.
    Group,
}

impl SessionKey {
    /// Returns the key of these parts after `agent`. The parts are not encoded; this function does that.
    ///
    /// # Errors
    /// `InvalidArgument` for parts that do not form a key.
    pub fn of(parts: &[&str]) -> Result<Self> {
        let all = parts.iter().map(|part| encoded(part)).collect::<Result<Vec<_>>>()?;
        let text = format!("agent:{}", all.join(":"));
        // The complete form first: a part may be called `thread` or `topic`.
        let form = form_of(parts).or_else(|| form_of(without_thread(parts)?));
        let Some(form) = form else {
            return Err(bad(&text, "has another form"));
        };
        if text.len() > MAX_KEY {
            return Err(bad(&text, &format!("has more than {MAX_KEY} bytes")));
        }
        Ok(Self { text, form })
    }

    /// Returns the text of the key.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the form.
    pub const fn form(&self) -> Form {
        self.form
    }

    /// Returns the agent, decoded.
    pub fn agent(&self) -> String {
        self.parts().next().and_then(decoded).unwrap_or_default()
    }

    /// Returns the part of the key that identifies the place: everything after the agent, without a thread or
    /// topic. For a [named](Form::Named) key it is the name.
    pub fn place(&self) -> String {
        let parts: Vec<&str> = self.parts().collect();
        // As in `of`: a key of a complete form has no thread.
        let is_whole = form_of(&parts).is_some();
        let parts = if is_whole { &parts } else { without_thread(&parts).unwrap_or(&parts) };
        parts.get(1..).unwrap_or_default().join(":")
    }

    fn parts(&self) -> impl Iterator<Item = &str> {
        self.text.split(':').skip(1)
    }
}

/// Returns the form of a key of these parts without a thread; `None` if they do not form a key.
fn form_of(parts: &[&str]) -> Option<Form> {
    match parts {
        [_, _] => Some(Form::Named),
        [_, "dm", _] | [_, _, "dm", _] | [_, _, _, "dm", _] => Some(Form::Dm),
        [_, _, _, _] => Some(Form::Group),
        _ => None,
    }
}

/// Returns the parts before a thread or topic; `None` if they do not end with one after a peer.
fn without_thread<'a, 'p>(parts: &'a [&'p str]) -> Option<&'a [&'p str]> {
    match parts {
        [before @ .., "thread" | "topic", _] if before.len() > 2 => Some(before),
        _ => None,
    }
}

impl FromStr for SessionKey {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let rest = text.strip_prefix("agent:").ok_or_else(|| bad(text, "does not begin with `agent:`"))?;
        let parts = rest.split(':').map(decoded).collect::<Option<Vec<_>>>();
        let parts = parts.ok_or_else(|| bad(text, "has an invalid percent-encoding"))?;
        let key = Self::of(&parts.iter().map(String::as_str).collect::<Vec<_>>())?;
        // Each key has one spelling, except for encoded capital letters. Otherwise one peer could have two
        // sessions.
        if key.text == with_plain_capitals(text) {
            Ok(key)
        } else {
            Err(bad(text, &format!("is written {}", key.text)))
        }
    }
}

impl fmt::Display for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn bad(key: &str, why: &str) -> Error {
    let forms = "agent:ID:NAME, agent:ID:dm:PEER, agent:ID:CHANNEL:dm:PEER, agent:ID:CHANNEL:ACCOUNT:dm:PEER or \
                 agent:ID:CHANNEL:KIND:PEER, and may add :thread:T or :topic:T after a peer";
    Error::invalid(format!("{key}: not a session key: it {why}; use {forms}"))
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+_@.-".contains(&byte)
}

fn encoded(part: &str) -> Result<String> {
    // Counted before encoding, because a character may take up to twelve bytes after it.
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

/// Returns a key in today's spelling: older ones have encoded capital letters.
pub(crate) fn with_plain_capitals(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('%') {
        plain.push_str(before);
        let byte = behind.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match byte.filter(u8::is_ascii_uppercase) {
            Some(byte) => {
                plain.push(char::from(byte));
                rest = &behind[2..];
            }
            None => {
                plain.push('%');
                rest = behind;
            }
        }
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_key_has_one_of_five_forms() {
        for (good, form, place) in [
            ("agent:main:main", Form::Named, "main"),
            ("agent:scout:dm:+4912345", Form::Dm, "dm:+4912345"),
            ("agent:scout:whatsapp:dm:+4912345", Form::Dm, "whatsapp:dm:+4912345"),
            ("agent:scout:whatsapp:work:dm:a@b.c", Form::Dm, "whatsapp:work:dm:a@b.c"),
            ("agent:scout:slack:channel:C0123", Form::Group, "slack:channel:C0123"),
            ("agent:scout:slack:channel:%c3%a4", Form::Group, "slack:channel:%c3%a4"),
            ("agent:scout:slack:channel:C0123:thread:17.5", Form::Group, "slack:channel:C0123"),
            ("agent:scout:telegram:group:-100:topic:4", Form::Group, "telegram:group:-100"),
            ("agent:scout:dm:Ann:thread:1", Form::Dm, "dm:Ann"),
            ("agent:scout:slack:dm:U1:thread:1", Form::Dm, "slack:dm:U1"),
            ("agent:scout:slack:work:dm:U1:thread:1", Form::Dm, "slack:work:dm:U1"),
            // A thread belongs to a peer, and none precedes it here.
            ("agent:scout:slack:thread:1", Form::Group, "slack:thread:1"),
            ("agent:scout:dm:thread:1", Form::Group, "dm:thread:1"),
        ] {
            let key: SessionKey = good.parse().unwrap();
            assert_eq!((key.as_str(), key.form(), &*key.place()), (good, form, place));
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
            "agent:a:b:thread:c:thread:d:thread:e",
            "agent:a:main:thread:",
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
    fn session_keys_are_unique_and_bounded() {
        let of = |peer: &str| SessionKey::of(&["a", "dm", peer]);
        assert_eq!(of("Ann").unwrap().as_str(), "agent:a:dm:Ann");
        assert_ne!(of("Ann").unwrap(), of("ann").unwrap());
        assert_ne!(of("a:b").unwrap(), of("a%3ab").unwrap());
        assert!(of(&"x".repeat(64)).is_ok() && of(&"x".repeat(65)).is_err() && of("").is_err());
        assert!(of(&"é".repeat(40)).is_ok() && of(&"é".repeat(41)).is_err());
        for peer in ["Ann", "a:b", "ä/ö", "%", "thread"] {
            let key = of(peer).unwrap();
            assert_eq!(key.as_str().parse::<SessionKey>().unwrap(), key);
        }
    }

    #[test]
    fn older_spelling_is_the_same_session_key() {
        let key: SessionKey = "agent:a:slack:channel:%430".parse().unwrap();
        assert_eq!(key.as_str(), "agent:a:slack:channel:C0");
        assert_eq!(key, SessionKey::of(&["a", "slack", "channel", "C0"]).unwrap());
        assert_eq!(with_plain_capitals("agent:a:dm:%41nn%3ab%"), "agent:a:dm:Ann%3ab%");
    }
}
