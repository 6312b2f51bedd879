//! Private members of JSON Web Keys (RFC 7517): `"d"` and the other numbers of an RSA key, `"k"` of a
//! symmetric one.

use std::ops::Range;

use super::assigned::run;
use super::span::{LONGEST, Secret};
use super::words::{is_word, look_at};

/// Names of private members.
const MEMBERS: [&[u8]; 7] = [b"d", b"p", b"q", b"dp", b"dq", b"qi", b"k"];
/// Members that say that an object is a key.
const SIGNS: [&[u8]; 6] = [b"\"kty\"", b"\"crv\"", b"\"alg\"", b"\"qi\"", b"\"dq\"", b"\"AQAB\""];
/// Limit on the bytes on each side of a member that are searched for such a member.
const OBJECT: usize = 1 << 10;
/// Minimum length of a value: 128 bits in base64.
const SHORTEST: usize = 22;

/// Returns the value of the private member whose name is this word.
pub(super) fn member(text: &[u8], word: &Range<usize>) -> Option<Secret> {
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
    // Only up to the end of the line: the next line must not make a secret of this one.
    let behind = &text[start + length..text.len().min(start + length + OBJECT)];
    let line = behind.iter().position(|byte| b"{}\n".contains(byte)).map_or(behind, |at| &behind[..at]);
    let has = |part: &[u8]| SIGNS.iter().any(|sign| part.windows(sign.len()).any(|it| it == *sign));
    let end = start + length;
    (has(object) || has(line)).then_some(Secret {
        bytes: start..end,
        basis: word.start..end,
        kind: "private key",
    })
}
