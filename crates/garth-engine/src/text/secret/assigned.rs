//! Values after the sign of a name that says that they are secret, under the first judgement, and passwords
//! in URLs. Both judgements share the functions that distinguish a value from a word or from code.

use std::ops::Range;

use super::random::{bits, disorder, is_hex};
use super::service_token;
use super::span::Secret;

/// Limit on the bytes of a value that are examined, and on the bytes before it.
const JUDGED: usize = 256;
/// Words before `key` in the names of secret keys: `key` alone may be anything.
pub(super) const KEYS: [&str; 13] = [
    "api",
    "access",
    "secret",
    "private",
    "signing",
    "encryption",
    "master",
    "account",
    "storage",
    "auth",
    "service",
    "shared",
    "license",
];
/// Placeholders for a value, in text about values.
const PLACEHOLDERS: [&str; 9] =
    ["example", "placeholder", "changeme", "change-me", "your", "redacted", "xxxx", "****", "dummy"];

/// Kind of a name, by the value that follows it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Name {
    Password,
    /// Token or key: a machine made it, so it is not a word.
    Token,
    /// `Authorization`, whose value begins with a scheme.
    Header,
    /// Such a scheme.
    Scheme,
}

/// Returns the value after a name that ends with this word.
pub(super) fn behind(text: &[u8], word: &Range<usize>) -> Option<Secret> {
    let name = name(text, word)?;
    let mut at = after_sign(text, word, name)?;
    // A type may come before the value: `let password: &str = "…"`.
    for _ in 0..2 {
        let (start, quote) = begin(text, at);
        let window = &text[start..text.len().min(start + JUDGED)];
        let length = length(window, quote);
        let value = &window[..length];
        let follows = &text[start + length..];
        let kind = match name {
            Name::Password => "password",
            Name::Token => "token",
            Name::Header | Name::Scheme => "authorization",
        };
        if let Some(secret) = service_token::token_at(text, start, service_token::FIRST) {
            return Some(Secret { basis: word.start..secret.bytes.end, ..secret });
        }
        if is_secret(value, name, quote, follows) {
            let end = start + self::length(&text[start..], quote);
            return Some(Secret { bytes: start..end, basis: word.start..end, kind });
        }
        let next = start + length + follows.iter().take_while(|byte| **byte == b' ').count();
        if quote.is_some() || text.get(next) != Some(&b'=') || text.get(next + 1) == Some(&b'=') {
            return None;
        }
        at = next + 1;
    }
    None
}

/// Returns the password of a URL whose authority begins with this word.
pub(super) fn password_in_url(text: &[u8], word: &Range<usize>) -> Option<Secret> {
    let before = &text[word.start.saturating_sub(2)..word.start];
    if !text[word.clone()].starts_with(b"//")
        || before.len() < 2
        || before[1] != b':'
        || !before[0].is_ascii_alphanumeric()
    {
        return None;
    }
    let start = word.start + 2;
    let window = &text[start..text.len().min(start + JUDGED)];
    let ends =
        |byte: &u8| byte.is_ascii_whitespace() || b"/?#\"'`<>\\()[]{}|".contains(byte) || *byte >= 0xe0;
    let authority = &window[..window.iter().position(ends).unwrap_or(window.len())];
    // The last `@`: a password may contain one.
    let host = authority.iter().rposition(|byte| *byte == b'@')?;
    let user = authority[..host].iter().position(|byte| *byte == b':')?;
    let password = &authority[user + 1..host];
    let obvious: [&[u8]; 6] = [b"password", b"passwd", b"pass", b"pw", b"secret", b"pwd"];
    let is_word = obvious.iter().any(|word| password.eq_ignore_ascii_case(word));
    // Documentation has URLs like this.
    if password.is_empty() || is_word || password[0] == b'$' || is_placeholder(password) {
        return None;
    }
    let (from, to) = (start + user + 1, start + host);
    Some(Secret { bytes: from..to, basis: word.start..to + 1, kind: "password in a URL" })
}

/// Returns the kind of the name that ends with this word.
pub(super) fn name(text: &[u8], word: &Range<usize>) -> Option<Name> {
    let bytes = &text[word.clone()];
    let ends = |end: &str| {
        let from = bytes.len().checked_sub(end.len());
        from.is_some_and(|from| bytes[from..].eq_ignore_ascii_case(end.as_bytes()))
    };
    match bytes.last()?.to_ascii_lowercase() {
        b'd' if ends("password") || ends("passwd") || ends("pwd") => Some(Name::Password),
        b'e' if ends("passphrase") || ends("passcode") => Some(Name::Password),
        b's' if bytes.eq_ignore_ascii_case(b"pass") || ends("_pass") => Some(Name::Password),
        b'd' if ends("api_key_id") => None,
        b't' if ends("secret") => Some(Name::Token),
        b'n' if ends("token") => Some(Name::Token),
        b'l' if ends("credential") => Some(Name::Token),
        b's' if ends("credentials") => Some(Name::Token),
        b'n' if ends("authorization") => Some(Name::Header),
        b'h' if ends("_auth") => Some(Name::Token),
        b'r' if ends("bearer") => Some(Name::Scheme),
        b'y' if ends("key") && is_secret_key(text, word) => Some(Name::Token),
        _ => None,
    }
}

/// Returns true if the name that ends with `key` is that of a secret key: `apiKey`, `X-Api-Key`, `API key`.
fn is_secret_key(text: &[u8], word: &Range<usize>) -> bool {
    let end = word.end - b"key".len();
    let mut before = &text[word.start.saturating_sub(12)..end];
    while let Some((b'_' | b'-' | b' ', rest)) = before.split_last() {
        before = rest;
    }
    KEYS.iter().any(|key| {
        let from = before.len().checked_sub(key.len());
        from.is_some_and(|from| before[from..].eq_ignore_ascii_case(key.as_bytes()))
    })
}

/// Returns the place after the sign between a name and its value, and after blanks.
fn after_sign(text: &[u8], word: &Range<usize>, name: Name) -> Option<usize> {
    let mut at = word.end + run(text, word.end, b"\"'`])*", 4);
    let blanks = run(text, at, b" \t", 8);
    at += blanks;
    let rest = &text[at..];
    let signs: [&[u8]; 8] = [b":=", b"=>", b"==", b"=", b":", "：".as_bytes(), b"is ", b"was "];
    let sign = signs.iter().find(|sign| rest.starts_with(sign));
    let is_flag = text[word.clone()].starts_with(b"--");
    match sign {
        Some(sign) if blanks > 0 || !sign.ends_with(b" ") => at += sign.len(),
        // `--token VALUE` and `Bearer VALUE` need no sign.
        _ if blanks > 0 && (is_flag || name == Name::Scheme) => {}
        _ => return None,
    }
    at += run(text, at, b"*", 2);
    Some(at + run(text, at, b" \t", 8))
}

/// Returns the start of a value, after its quote and scheme, and the quote.
pub(super) fn begin(text: &[u8], at: usize) -> (usize, Option<u8>) {
    let quote = text.get(at).copied().filter(|byte| b"\"'`".contains(byte));
    let mut at = at + usize::from(quote.is_some());
    let schemes: [&[u8]; 5] = [b"bearer ", b"basic ", b"token ", b"apikey ", b"digest "];
    let rest = &text[at..];
    let scheme = schemes
        .iter()
        .find(|scheme| rest.len() > scheme.len() && rest[..scheme.len()].eq_ignore_ascii_case(scheme));
    at += scheme.map_or(0, |scheme| scheme.len());
    (at, quote)
}

/// Returns the length of a value.
pub(super) fn length(rest: &[u8], quote: Option<u8>) -> usize {
    let ends = |at: usize, byte: u8| match (quote, byte) {
        (_, b'\n' | b'\r') => true,
        (Some(quote), byte) => byte == quote,
        (None, b'&') => is_parameter(&rest[at + 1..]),
        (None, byte) => byte.is_ascii_whitespace() || b"\"'`,;<>()[]{}|\\".contains(&byte) || byte >= 0xe0,
    };
    let length = rest.iter().zip(0..).position(|(byte, at)| ends(at, *byte)).unwrap_or(rest.len());
    if quote.is_some() {
        return length;
    }
    // Without the end of a sentence, and without the first byte of a character that is not ASCII.
    let last = rest[..length].iter().rposition(|byte| !b".:*_".contains(byte) && *byte != 0xc2);
    last.map_or(0, |last| last + 1)
}

/// Returns true if `name=` follows, as after the `&` of a query.
fn is_parameter(rest: &[u8]) -> bool {
    let name = rest.iter().take(64).take_while(|byte| byte.is_ascii_alphanumeric() || b"_-[]".contains(byte));
    let length = name.count();
    length > 0 && rest.get(length) == Some(&b'=')
}

pub(super) fn run(text: &[u8], at: usize, of: &[u8], most: usize) -> usize {
    text[at..].iter().take(most).take_while(|byte| of.contains(byte)).count()
}

/// Returns true if the value after such a name looks secret, and not like a word of a text or a program.
pub(super) fn is_secret(value: &[u8], name: Name, quote: Option<u8>, follows: &[u8]) -> bool {
    let least = match name {
        Name::Password => 6,
        Name::Token | Name::Header => 8,
        Name::Scheme => 16,
    };
    let is_odd = |byte: &u8| !byte.is_ascii_lowercase() && *byte != b'=';
    if value.len() < least || value.contains(&b' ') || !value.iter().any(is_odd) {
        return false;
    }
    if is_placeholder(value) || is_place(value) {
        return false;
    }
    if quote.is_none() && is_code(value, follows) {
        return false;
    }
    let has = |is: fn(&u8) -> bool| value.iter().any(is);
    let (digits, letters) =
        (value.iter().filter(|byte| byte.is_ascii_digit()).count(), has(u8::is_ascii_alphabetic));
    // So little information is a repetition, whatever its characters.
    if bits(value) * (value.len() as f64) < 15.0 {
        return false;
    }
    if name == Name::Password {
        let symbols = value[..value.len() - 1].iter().any(|byte| b"!@#$%^&*?~+".contains(byte));
        let mixed = value[1..].iter().any(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase);
        let plain = !symbols && disorder(value) < 0.4;
        return match (letters, digits > 0) {
            (true, true) => !(plain && value.contains(&b'_') && quote.is_none()),
            (true, false) => (quote.is_some() && symbols) || (mixed && disorder(value) >= 0.6),
            (false, some) => some && value.iter().all(u8::is_ascii_digit),
        };
    }
    let random = digits * 5 > value.len() || disorder(value) >= 0.55 || (is_hex(value) && value.len() >= 16);
    letters && digits > 0 && random
}

/// Returns true for a placeholder.
pub(super) fn is_placeholder(value: &[u8]) -> bool {
    if b"<{%[(".contains(&value[0]) || value.windows(3).any(|window| window == b"...") {
        return true;
    }
    let rest = &value[1..];
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    if value[0] == b'$' && (matches!(rest.first(), Some(b'{' | b'(')) || rest.iter().all(is_name)) {
        return true;
    }
    let lower = value[..value.len().min(64)].to_ascii_lowercase();
    let has = |word: &&str| lower.windows(word.len()).any(|window| window == word.as_bytes());
    PLACEHOLDERS.iter().any(has) || value.iter().all(|byte| *byte == value[0])
}

/// Returns true for a path or a URL.
pub(super) fn is_place(value: &[u8]) -> bool {
    value.starts_with(b"/")
        || value.starts_with(b"./")
        || value.starts_with(b"~/")
        || value.windows(3).any(|it| it == b"://")
}

pub(super) fn is_call(follows: &[u8]) -> bool {
    match follows {
        [b'(' | b'[' | b'{', ..] => true,
        // `Option<String>`, but not a tag.
        [b'<', next, ..] => next.is_ascii_alphabetic(),
        _ => false,
    }
}

/// Returns true for a name or a call in a program.
pub(super) fn is_code(value: &[u8], follows: &[u8]) -> bool {
    if is_call(follows) || value.windows(2).any(|pair| pair == b"::") {
        return true;
    }
    if value[0] == b'&' || value[0] == b'@' || value[0] == b'*' {
        return true;
    }
    let is_name = |part: &[u8]| {
        let begins = part.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_');
        begins && part.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
    };
    value.contains(&b'.')
        && value.split(|byte| *byte == b'.').all(|part| is_name(part) && disorder(part) < 0.55)
}
