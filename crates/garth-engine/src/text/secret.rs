//! Spans of text that look like secrets: keys, tokens, passwords. Whoever keeps words of a text, or shows
//! some of it, leaves them out. What is found and what is not: `docs/specs/secrets.md`.
//!
//! One pass over the words of a text, in time that is linear in it. Whether a span is one is judged by its
//! own bytes and those of its line before it ([`Secret::basis`]), but for private keys, which have many
//! lines. So what is appended to a text never makes a secret of a line that had an end, and a few KiB around
//! a piece ([`CONTEXT`]) are enough to judge it.

mod assigned;
mod private_key;
mod random;
mod service_token;
mod span;
#[cfg(test)]
mod tests;
mod words;

use std::borrow::Cow;
use std::ops::Range;

pub use self::span::Secret;

use self::words::next_word;
use super::json::escape;
use crate::compute::working;

/// Bytes on each side of a piece of text that are looked at to judge it, 4 KiB: more than a secret of one
/// line has, and lines of a longer private key are secrets each by itself.
pub const CONTEXT: usize = 4 << 10;

/// What looks like a secret in a text, in order and without overlaps. Where it has escapes of JSON, what they
/// stand for counts as well.
pub fn find(text: &[u8]) -> Vec<Secret> {
    working(text.len());
    let mut found = scan(text);
    if text.contains(&b'\\') {
        let decoded = Decoded::of(text);
        found.extend(scan(&decoded.text).into_iter().map(|secret| decoded.original(secret)));
    }
    found.sort_by_key(|secret| (secret.bytes.start, secret.bytes.end));
    let mut settled: Vec<Secret> = Vec::with_capacity(found.len());
    for secret in found {
        match settled.last_mut().filter(|last| secret.bytes.start < last.bytes.end) {
            Some(last) => {
                last.bytes.end = last.bytes.end.max(secret.bytes.end);
                let (from, to) = (last.basis.start, last.basis.end);
                last.basis = from.min(secret.basis.start)..to.max(secret.basis.end);
            }
            None => settled.push(secret),
        }
    }
    settled
}

/// A text with a mark in place of each secret.
pub fn masked(text: &str) -> Cow<'_, str> {
    match masked_between(b"", text.as_bytes(), b"") {
        Cow::Borrowed(_) => Cow::Borrowed(text),
        // spans begin and end at characters, so that nothing is lost
        Cow::Owned(masked) => Cow::Owned(String::from_utf8_lossy(&masked).into_owned()),
    }
}

/// A piece of a text with a mark in place of each secret, judged with what is before it and behind.
pub fn masked_between<'a>(before: &[u8], text: &'a [u8], behind: &[u8]) -> Cow<'a, [u8]> {
    let found = match before.is_empty() && behind.is_empty() {
        true => find(text),
        false => find(&[before, text, behind].concat()),
    };
    let inside = within(&found, before.len()..before.len() + text.len());
    let mut masked = Vec::new();
    let mut done = 0;
    for (bytes, secret) in inside {
        masked.extend_from_slice(&text[done..bytes.start]);
        masked.extend_from_slice(secret.mark().as_bytes());
        done = bytes.end;
    }
    if done == 0 {
        return Cow::Borrowed(text);
    }
    masked.extend_from_slice(&text[done..]);
    Cow::Owned(masked)
}

/// The parts of secrets that lie in a range, by their place in it.
pub fn within(
    found: &[Secret],
    range: Range<usize>,
) -> impl DoubleEndedIterator<Item = (Range<usize>, &Secret)> {
    let first = found.partition_point(|secret| secret.bytes.end <= range.start);
    let touching = found[first..].iter();
    let last = found[first..].partition_point(|secret| secret.bytes.start < range.end);
    touching.take(last).map(move |secret| {
        let (from, to) = (secret.bytes.start.max(range.start), secret.bytes.end.min(range.end));
        (from - range.start..to - range.start, secret)
    })
}

/// A piece of a text with blanks in place of secrets, by their bytes in what it lies at `place` of.
pub fn blanked<'a>(piece: &'a [u8], secrets: &[Secret], place: Range<usize>) -> Cow<'a, [u8]> {
    let mut blanked = Cow::Borrowed(piece);
    for (bytes, _) in within(secrets, place) {
        blanked.to_mut()[bytes].fill(b' ');
    }
    blanked
}

/// Whether the line that a text begins with may be one of a private key: only these belong to lines before.
pub fn may_be_of_key(text: &[u8]) -> bool {
    private_key::may_go_on(&text[..text.len().min(CONTEXT)])
}

/// One pass over the words of a text.
fn scan(text: &[u8]) -> Vec<Secret> {
    let mut found: Vec<Secret> = Vec::new();
    let mut at = 0;
    while let Some(word) = next_word(text, at) {
        let done = found.last().map_or(0, |last| last.bytes.end);
        at = word.end;
        if let Some(secret) = look(text, &word, done) {
            at = at.max(secret.bytes.end);
            found.push(secret);
        }
    }
    found
}

fn look(text: &[u8], word: &Range<usize>, done: usize) -> Option<Secret> {
    let bytes = &text[word.clone()];
    if bytes.starts_with(b"-----") || bytes.ends_with(b"-----BEGIN") {
        return private_key::at(text, word, done);
    }
    service_token::in_word(text, word)
        .or_else(|| assigned::behind(text, word))
        .or_else(|| assigned::in_url(text, word))
        .or_else(|| random::in_word(text, word))
}

/// A text with each escape of JSON as what it stands for.
struct Decoded {
    text: Vec<u8>,
    /// Ends of escapes: behind its character in `text`, and behind itself in the original.
    ends: Vec<(usize, usize)>,
}

impl Decoded {
    fn of(original: &[u8]) -> Self {
        let (mut text, mut ends) = (Vec::with_capacity(original.len()), Vec::new());
        let mut at = 0;
        while let Some(length) = original[at..].iter().position(|byte| *byte == b'\\') {
            text.extend_from_slice(&original[at..at + length]);
            at += length;
            let (meant, length) = escape(&original[at..]).unwrap_or(('\\', 1));
            text.extend_from_slice(meant.encode_utf8(&mut [0; 4]).as_bytes());
            at += length;
            ends.push((text.len(), at));
        }
        text.extend_from_slice(&original[at..]);
        Self { text, ends }
    }

    /// A secret in `text` as one of the original.
    fn original(&self, secret: Secret) -> Secret {
        let place = |at: usize| {
            let behind = self.ends.partition_point(|(end, _)| *end <= at);
            let (end, original) = behind.checked_sub(1).map_or((0, 0), |last| self.ends[last]);
            original + (at - end)
        };
        let range = |range: Range<usize>| place(range.start)..place(range.end);
        Secret { bytes: range(secret.bytes), basis: range(secret.basis), kind: secret.kind }
    }
}
