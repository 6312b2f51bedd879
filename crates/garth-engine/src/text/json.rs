//! JSON for search: the words of keys and values as they are meant, without escapes.
//!
//! In valid JSON, a backslash is inside a string, and a line break is not. So the meaning of an escape can
//! be told from the escape alone, wherever a passage begins, as long as no cut falls inside one.

use serde::de::IgnoredAny;

/// Returns true if content that starts with `prefix` (its first [`super::passage::SNIFF`] bytes, or all of
/// it) is JSON or JSON Lines, as far as the prefix shows.
pub fn is_json(prefix: &[u8]) -> bool {
    let first = prefix.iter().find(|byte| !byte.is_ascii_whitespace());
    // Numbers and literals are JSON as well, but a text of them has no escapes.
    if !matches!(first, Some(b'{' | b'[' | b'"')) {
        return false;
    }
    let values = serde_json::Deserializer::from_slice(prefix).into_iter::<IgnoredAny>();
    // The prefix may end within a value: the rest may follow.
    values
        .take_while(|value| !value.as_ref().is_err_and(serde_json::Error::is_eof))
        .all(|value| value.is_ok())
}

/// Returns true if `bytes` are one JSON value.
pub(super) fn is_value(bytes: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(bytes).is_ok()
}

/// Replaces each escape in `text` by the character that it means. Half a surrogate pair becomes U+FFFD;
/// invalid escapes stay.
pub fn decode(text: &str) -> String {
    let mut decoded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        decoded.push_str(&rest[..at]);
        let (meant, length) = escape(&rest.as_bytes()[at..]).unwrap_or(('\\', 1));
        decoded.push(meant);
        rest = &rest[at + length..];
    }
    decoded.push_str(rest);
    decoded
}

/// Returns the character that the escape at the start of `bytes` means, and the length of the escape;
/// `None` if it is incomplete, or there is none.
pub(super) fn escape(bytes: &[u8]) -> Option<(char, usize)> {
    let meant = match (bytes.first()?, bytes.get(1)?) {
        (b'\\', b'n') => '\n',
        (b'\\', b't') => '\t',
        (b'\\', b'r') => '\r',
        (b'\\', b'b') => '\u{8}',
        (b'\\', b'f') => '\u{c}',
        (b'\\', b'u') => return unicode(bytes),
        (b'\\', quoted @ (b'"' | b'\\' | b'/')) => char::from(*quoted),
        _ => return None,
    };
    Some((meant, 2))
}

/// Reads `\uXXXX`, or two of them for a character beyond U+FFFF.
fn unicode(bytes: &[u8]) -> Option<(char, usize)> {
    let unit = |at: usize| {
        let hex = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
        let hex = std::str::from_utf8(hex).ok().filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()))?;
        u16::from_str_radix(hex, 16).ok()
    };
    let first = unit(0)?;
    if let Some(second) = unit(6)
        && let Some(Ok(pair)) = char::decode_utf16([first, second]).next()
        && pair.len_utf16() == 2
    {
        return Some((pair, 12));
    }
    Some((char::from_u32(first.into()).unwrap_or(char::REPLACEMENT_CHARACTER), 6))
}
