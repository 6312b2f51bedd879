//! Secrets of services that have no mark, but a shape that nothing else has.

use std::ops::Range;

use super::span::{LONGEST, Secret};
use super::words::is_word;

/// Number of bytes by which a shape is judged.
const JUDGED: usize = 768;

/// Returns the secret that begins with this word, or is in it.
pub(super) fn in_word(text: &[u8], word: &Range<usize>) -> Option<Secret> {
    let bytes = &text[word.clone()];
    let follows = &text[word.end..];
    if bytes.ends_with(b"NRAL") {
        return new_relic(bytes, word);
    }
    match follows.first() {
        Some(b'.') => web_token(text, word).or_else(|| bot_token(text, word)).or_else(|| dotted(text, word)),
        Some(b':') => telegram(text, word),
        Some(b'~') => azure(text, word),
        _ => webhook(text, word).or_else(|| mailchimp(bytes, word)),
    }
}

/// Returns the length of the word that begins at a place.
fn length(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    rest.iter().take(JUDGED).take_while(|byte| is_word(**byte)).count()
}

fn count(bytes: &[u8], is: fn(&u8) -> bool) -> usize {
    bytes.iter().filter(|byte| is(byte)).count()
}

/// Returns a JSON Web Token whose header is long, or whose signature is cut off.
fn web_token(text: &[u8], word: &Range<usize>) -> Option<Secret> {
    if !text[word.end + 1..].starts_with(b"eyJ") {
        return None;
    }
    let bytes = &text[word.clone()];
    let from = bytes.iter().rposition(|byte| *byte == b'/').map_or(word.start, |at| word.start + at + 1);
    // `eyJ` is `{"` with the start of a key, in base64.
    if !text[from..].starts_with(b"eyJ") || word.end - from > LONGEST / 2 {
        return None;
    }
    let most = &text[..text.len().min(from + LONGEST)];
    let mut end = word.end;
    while most.get(end) == Some(&b'.') && most.get(end + 1).copied().is_some_and(is_word) {
        end += 1 + most[end + 1..].iter().take_while(|byte| is_word(**byte)).count();
    }
    Some(Secret::new(from..end, "JSON Web Token"))
}

/// Returns the token of a Discord bot: its number in base64, a time, and a signature.
fn bot_token(text: &[u8], word: &Range<usize>) -> Option<Secret> {
    let bytes = &text[word.clone()];
    if !matches!(bytes[0], b'M' | b'N' | b'O') || !(23..=28).contains(&bytes.len()) {
        return None;
    }
    let time = length(text, word.end + 1);
    let place = word.end + 1 + time + 1;
    let signature = length(text, place);
    let dotted = text.get(place - 1) == Some(&b'.');
    let is_one = dotted
        && time == 6
        && (27..=40).contains(&signature)
        && count(&text[place..place + signature], u8::is_ascii_uppercase) > 2;
    is_one.then(|| Secret::new(word.start..place + signature, "Discord token"))
}

/// Returns a token of Terraform or Airtable.
fn dotted(text: &[u8], word: &Range<usize>) -> Option<Secret> {
    if word.len() != 14 && word.len() != 17 {
        return None;
    }
    let rest = &text[word.end + 1..];
    let long = length(text, word.end + 1);
    if word.len() == 14 && rest.starts_with(b"atlasv1.") {
        let end = word.end + 1 + b"atlasv1.".len();
        let body = length(text, end);
        return (body >= 60).then(|| Secret::new(word.start..end + body, "Terraform token"));
    }
    let hex = rest[..long].iter().all(u8::is_ascii_hexdigit);
    let airtable = word.len() == 17 && text[word.clone()].starts_with(b"pat") && long == 64 && hex;
    airtable.then(|| Secret::new(word.start..word.end + 1 + long, "Airtable token"))
}

/// Returns the token of a Telegram bot: its number, a colon and 35 characters.
fn telegram(text: &[u8], word: &Range<usize>) -> Option<Secret> {
    // First the cheap test: most words before a colon are followed by something else.
    if !text[word.end + 1..].starts_with(b"AA") {
        return None;
    }
    let bytes = &text[word.clone()];
    let digits = bytes.iter().rev().take(12).take_while(|byte| byte.is_ascii_digit()).count();
    let body = length(text, word.end + 1);
    let is_one =
        (8..=11).contains(&digits) && text[word.end + 1..].starts_with(b"AA") && (33..=36).contains(&body);
    is_one.then(|| Secret::new(word.end - digits..word.end + 1 + body, "Telegram token"))
}

/// Returns a secret of an Azure application: three characters, `8Q~` or similar, and about 31 more.
fn azure(text: &[u8], word: &Range<usize>) -> Option<Secret> {
    let bytes = &text[word.clone()];
    let body = text[word.end + 1..]
        .iter()
        .take(64)
        .take_while(|byte| is_word(**byte) || b".~".contains(byte))
        .count();
    let is_one = bytes.last() == Some(&b'Q')
        && bytes.len() == 5
        && bytes[3].is_ascii_digit()
        && (28..=40).contains(&body);
    is_one.then(|| Secret::new(word.start..word.end + 1 + body, "Azure secret"))
}

/// Returns the secret end of the URL of a Slack or Discord webhook.
fn webhook(text: &[u8], word: &Range<usize>) -> Option<Secret> {
    let bytes = &text[word.clone()];
    if !bytes.starts_with(b"com/") {
        return None;
    }
    let before = &text[word.start.saturating_sub(16)..word.start];
    let hooks: [(&[u8], &[u8], &str); 5] = [
        (b"hooks.slack.", b"com/services/", "Slack webhook"),
        (b"hooks.slack.", b"com/workflows/", "Slack webhook"),
        (b"hooks.slack.", b"com/triggers/", "Slack webhook"),
        (b"discord.", b"com/api/webhooks/", "Discord webhook"),
        (b"discordapp.", b"com/api/webhooks/", "Discord webhook"),
    ];
    let (_, path, kind) =
        hooks.iter().find(|(host, path, _)| before.ends_with(host) && bytes.starts_with(path))?;
    let end = word.end.min(word.start + JUDGED);
    let place = word.start + path.len()..end;
    let body = &text[place.clone()];
    // Placeholders in documentation have no small letters, or no digits.
    let random = count(body, u8::is_ascii_digit) > 2 && count(body, u8::is_ascii_lowercase) > 2;
    (body.len() >= 30 && random).then(|| Secret::new(place, kind))
}

/// Returns a licence key of New Relic: 36 small letters and digits before its end.
fn new_relic(bytes: &[u8], word: &Range<usize>) -> Option<Secret> {
    let start = bytes.len().checked_sub(40)?;
    let is_body = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let body = &bytes[start..bytes.len() - b"NRAL".len()];
    let begins = start == 0 || !bytes[start - 1].is_ascii_alphanumeric();
    let is_one = begins && body.iter().all(is_body) && count(body, u8::is_ascii_digit) > 5;
    is_one.then(|| Secret::new(word.start + start..word.end, "New Relic key"))
}

/// Returns a Mailchimp key: a number of 128 bits, and its data centre.
fn mailchimp(bytes: &[u8], word: &Range<usize>) -> Option<Secret> {
    let (hex, centre) = bytes.split_at_checked(32)?;
    let centre = centre.strip_prefix(b"-us")?;
    let is_one = (1..=2).contains(&centre.len())
        && centre.iter().all(u8::is_ascii_digit)
        && hex.iter().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte));
    is_one.then(|| Secret::new(word.clone(), "Mailchimp key"))
}
