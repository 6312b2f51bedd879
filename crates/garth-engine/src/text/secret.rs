//! Spans of text that look like secrets: keys, tokens, passwords. Code that stores words of a text, or
//! shows parts of it, leaves them out. `docs/specs/secrets.md` says what is found and what is not.
//!
//! One pass over the words of a text, in linear time. A span is judged by its own bytes and those around
//! it: of its line, and of a few lines before it ([`Secret::basis`]); a private key has many lines. So an
//! append never makes a secret of a line that had ended, except for private keys (blocks of lines, and
//! members of objects), and a few KiB around a piece ([`CONTEXT`]) suffice to judge it like the complete
//! text.

mod assigned;
mod command;
#[cfg(test)]
mod corpus_tests;
mod decoded;
mod enclosed;
#[cfg(test)]
mod enclosed_tests;
mod encoded_key;
mod entry;
mod foreign_name;
#[cfg(test)]
mod forms_tests;
mod harmless_shape;
mod json_web_key;
mod judgement;
mod links;
mod markup;
mod named;
mod names;
mod private_key;
mod random;
mod sentence;
mod service_shape;
mod service_token;
mod span;
mod sql_rows;
mod table;
#[cfg(test)]
mod tests;
mod value;
mod verbs;
mod words;

use std::borrow::Cow;
use std::ops::Range;

pub use self::judgement::Judgement;
pub use self::span::Secret;

use self::decoded::{Decoded, escaped_lines};
use self::named::NamedBefore;
use self::private_key::Blocks;
use self::span::LONGEST;
use self::words::{is_word, look_at, next_word};
use crate::compute::working;

/// Number of bytes on each side of a piece of text that decide about secrets in it: the longest secret, its
/// name and what is between them.
pub const CONTEXT: usize = LONGEST + 512;

/// Number of bytes that decide if no long secret crosses the border of a piece.
const NEAR: usize = 2 << 10;

/// Number of bytes on each side of a piece that [`Judgement::First`] looks at.
const FIRST_CONTEXT: usize = 4 << 10;

/// Limit on strings within each other whose escapes are decoded.
const LEVELS: usize = 4;

/// Finds spans that look like secrets, in order and without overlaps. JSON escapes are also read as the
/// characters that they mean.
pub fn find(text: &[u8]) -> Vec<Secret> {
    find_as(Judgement::CURRENT, text)
}

/// Finds secrets as [`find`] does, under a judgement.
fn find_as(judgement: Judgement, text: &[u8]) -> Vec<Secret> {
    working(text.len());
    let mut found = match judgement {
        Judgement::First => first_scan(text),
        _ => scan(text, judgement),
    };
    match judgement {
        // The first judgement decodes the complete text once; packs built under it depend on that.
        Judgement::First if text.contains(&b'\\') => {
            let decoded = Decoded::of(text, judgement);
            found.extend(first_scan(&decoded.text).into_iter().map(|secret| decoded.original(secret)));
        }
        Judgement::First => {}
        _ => scan_escaped(text, judgement, LEVELS, &mut found),
    }
    // A span may be found several times: by more than one name, or with and without escapes.
    found.sort_by_key(|secret| (secret.bytes.start, secret.bytes.end));
    let mut settled: Vec<Secret> = Vec::with_capacity(found.len());
    for secret in found {
        match settled.last_mut().filter(|last| secret.bytes.start < last.bytes.end) {
            Some(last) => {
                last.bytes.end = last.bytes.end.max(secret.bytes.end);
                let (from, to) = (last.basis.start, last.basis.end);
                // Whatever decided about either of them.
                last.basis = from.min(secret.basis.start)..to.max(secret.basis.end);
            }
            None => settled.push(secret),
        }
    }
    settled
}

/// Finds the secrets of lines with escapes by the meaning of these, also in strings within strings.
fn scan_escaped(text: &[u8], judgement: Judgement, levels: usize, found: &mut Vec<Secret>) {
    for lines in escaped_lines(text, judgement) {
        let decoded = Decoded::of(&text[lines.clone()], judgement);
        let mut inner = scan(&decoded.text, judgement);
        if levels > 1 {
            scan_escaped(&decoded.text, judgement, levels - 1, &mut inner);
        }
        found.extend(inner.into_iter().map(|secret| decoded.original(secret).moved(lines.start)));
    }
}

/// Returns a text with a mark in place of each secret.
pub fn masked(text: &str) -> Cow<'_, str> {
    match mask(&find_as(Judgement::shown(), text.as_bytes()), text.as_bytes(), 0) {
        Cow::Borrowed(_) => Cow::Borrowed(text),
        // Spans begin and end at characters, so nothing is lost.
        Cow::Owned(masked) => Cow::Owned(String::from_utf8_lossy(&masked).into_owned()),
    }
}

/// Returns a piece of a text with a mark in place of each secret, judged together with what is before and
/// after it.
pub fn masked_in_context<'a>(before: &[u8], text: &'a [u8], behind: &[u8]) -> Cow<'a, [u8]> {
    SearchedText::new(before, text, behind).masked(0..text.len())
}

/// Text whose secrets are found, of which any number of pieces can be shown.
#[derive(Debug)]
pub struct SearchedText<'a> {
    text: &'a [u8],
    found: Vec<Secret>,
    /// Place of the text in the bytes that `found` is about.
    from: usize,
}

impl<'a> SearchedText<'a> {
    /// Finds the secrets of a text, judged together with what is before and after it.
    pub fn new(before: &[u8], text: &'a [u8], behind: &[u8]) -> Self {
        let (found, from) = find_around(Judgement::shown(), before, text, behind);
        Self { text, found, from }
    }

    /// Returns the text.
    pub fn bytes(&self) -> &'a [u8] {
        self.text
    }

    /// Returns a piece of the text with a mark in place of each secret.
    pub fn masked(&self, piece: Range<usize>) -> Cow<'a, [u8]> {
        mask(&self.found, &self.text[piece.clone()], self.from + piece.start)
    }
}

/// Finds secrets in a piece of a text together with those of its surroundings that decide about it. Also
/// returns where the piece begins in the searched bytes.
fn find_around(judgement: Judgement, before: &[u8], text: &[u8], behind: &[u8]) -> (Vec<Secret>, usize) {
    let (most_before, most_behind) = reaches(judgement, text);
    let before = &before[before.len().saturating_sub(most_before)..];
    let behind = &behind[..behind.len().min(most_behind)];
    let found = match before.is_empty() && behind.is_empty() {
        true => find_as(judgement, text),
        false => find_as(judgement, &[before, text, behind].concat()),
    };
    (found, before.len())
}

/// Returns a text with a mark in place of each secret. The text begins at `from` of the bytes that `found`
/// is about.
fn mask<'a>(found: &[Secret], text: &'a [u8], from: usize) -> Cow<'a, [u8]> {
    let mut masked = Vec::new();
    let mut done = 0;
    for (bytes, secret) in within(found, from..from + text.len()) {
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

/// Returns the parts of secrets within a range, by their place in it.
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

/// Returns a piece of a text with blanks in place of secrets. `place` is the range of the piece in the
/// bytes that `secrets` are about.
pub fn blanked<'a>(piece: &'a [u8], secrets: &[Secret], place: Range<usize>) -> Cow<'a, [u8]> {
    let mut blanked = Cow::Borrowed(piece);
    for (bytes, _) in within(secrets, place) {
        blanked.to_mut()[bytes].fill(b' ');
    }
    blanked
}

/// Returns true if bytes before a text, which begins a line, may decide about its first bytes: they may be
/// lines of a private key, the name of a value, or the members of a key that a private member is of.
pub fn may_continue_secret(text: &[u8]) -> bool {
    may_be_part_of_key(text) || named::named_before(text).is_some() || may_have_member_of_key(text)
}

/// Length of the dashes around the ends of a private key, in bytes.
pub const MARKER: u64 = private_key::DASHES.len() as u64;

/// Returns true if a text may contain the end of a private key.
pub fn may_end_key(text: &[u8]) -> bool {
    text.windows(private_key::DASHES.len()).any(|window| window == private_key::DASHES)
}

/// Returns true if the first bytes of a text may have a private member of a JSON Web Key. Other members of
/// it, before or after these bytes, then decide about its value.
pub fn may_have_member_of_key(text: &[u8]) -> bool {
    json_web_key::may_have_member(&text[..text.len().min(CONTEXT)])
}

/// Returns true if a text may say that an object is a JSON Web Key. Members before the text may be private
/// then. The text may begin inside the word that says so, up to [`MARKER`] bytes after its start.
pub fn may_mark_object_as_key(text: &[u8]) -> bool {
    json_web_key::may_have_sign(text)
}

/// Returns true if a text may begin with lines of a private key, or with the end of one.
pub fn may_be_part_of_key(text: &[u8]) -> bool {
    private_key::may_continue_secret(&text[..text.len().min(CONTEXT)])
}

/// Returns true if a text, which begins a line and may continue something, does so only after a line that
/// [may open it](may_open). Most short lines are words or numbers, so no more than the line before has to
/// be read.
pub fn needs_opening_line(text: &[u8]) -> bool {
    // Enough for the longest key: more of the text decides nothing.
    let key = &text[..text.len().min(CONTEXT)];
    let is_key = may_be_part_of_key(text) && !private_key::may_be_last_line(key);
    !is_key && named::named_before(text) != Some(NamedBefore::Any) && !may_have_member_of_key(text)
}

/// Returns true if a text ends with a full line of a private key, or may end with the sign after a name.
pub fn may_open(text: &[u8]) -> bool {
    private_key::ends_with_full_line(text) || named::may_end_with_name_sign(text)
}

/// Returns the number of bytes before a text that decide about it.
pub fn reach(text: &[u8]) -> usize {
    reach_as(Judgement::CURRENT, text)
}

/// Returns true if a text is shown like the complete one with this many bytes before it and behind it.
pub fn suffice(before: usize, text: &[u8], behind: usize) -> bool {
    let (most_before, most_behind) = reaches(Judgement::shown(), text);
    most_before <= before && most_behind <= behind
}

/// Returns the numbers of bytes before and after a text that are searched with it under a judgement.
fn reaches(judgement: Judgement, text: &[u8]) -> (usize, usize) {
    match judgement {
        Judgement::First => (FIRST_CONTEXT, FIRST_CONTEXT),
        _ => (reach_as(judgement, text), reach_behind(judgement, text)),
    }
}

/// Returns the number of bytes before a text that decide about it under a judgement.
fn reach_as(judgement: Judgement, text: &[u8]) -> usize {
    let is_far = is_dense(&text[..text.len().min(SEEN)])
        || may_be_part_of_key(text)
        || may_need_members(judgement, text);
    if is_far { CONTEXT } else { NEAR }
}

/// Returns the number of bytes after a text that decide about it under a judgement.
fn reach_behind(judgement: Judgement, text: &[u8]) -> usize {
    if may_need_members(judgement, &text[text.len().saturating_sub(CONTEXT)..]) {
        return CONTEXT;
    }
    let last = text[text.len().saturating_sub(SEEN)..].trim_ascii_end();
    let line = last.iter().rposition(|byte| *byte == b'\n').map_or(last, |at| &last[at + 1..]);
    if is_dense(last) || is_dense(line) { CONTEXT } else { NEAR }
}

/// Returns true if members of a key far around a piece may decide about it.
fn may_need_members(judgement: Judgement, text: &[u8]) -> bool {
    judgement >= Judgement::Fourth
        && (may_have_member_of_key(text) || json_web_key::may_begin_in_plain_value(text))
}

/// Number of bytes at the border of a piece that tell whether a long secret crosses it.
const SEEN: usize = 64;

/// Returns true for bytes that may be inside a long secret: no words separated by blanks.
fn is_dense(bytes: &[u8]) -> bool {
    let bytes = bytes.trim_ascii();
    let mut runs = bytes.split(|byte| !is_word(*byte));
    bytes.iter().all(|byte| is_word(*byte) || b"=.~%\\ \r\n\t\"'`>,|;*#".contains(byte))
        && (!bytes.contains(&b' ') || runs.any(|run| run.len() >= 16))
}

/// Limits of private keys, except under the first judgement.
const BLOCKS: Blocks = Blocks { longest: LONGEST, body: private_key::is_body };

/// Searches the words of a text in one pass. Each word is judged by itself, whatever was found before it,
/// so that a piece of a text with [`CONTEXT`] around it is judged like the complete text.
fn scan(text: &[u8], judgement: Judgement) -> Vec<Secret> {
    let mut found = Vec::new();
    let marks = if judgement == Judgement::Second { service_token::SECOND } else { service_token::CURRENT };
    let mut at = 0;
    while let Some(word) = next_word(text, at) {
        at = word.end;
        look_at(word.len());
        let bytes = &text[word.clone()];
        // Most words are short, and are followed by a blank.
        let resumes_after_append = matches!(text.get(word.end), Some(b'.' | b':' | b'~' | b'%'));
        if resumes_after_append || word.len() >= service_token::SHORTEST {
            found.extend(service_token::in_word(text, &word, marks));
            found.extend(service_shape::in_word(text, &word));
        }
        match bytes[0] {
            b'-' if bytes.starts_with(b"-----") => found.extend(private_key::at(text, &word, 0, BLOCKS)),
            b'-' => command::find_in_command(text, &word, judgement, &mut found),
            b'i' | b'I' => command::find_in_statement(text, &word, judgement, &mut found),
            b'/' => found.extend(assigned::password_in_url(text, &word)),
            _ if bytes.ends_with(b"-----BEGIN") => found.extend(private_key::at(text, &word, 0, BLOCKS)),
            _ if judgement < Judgement::Third => {}
            b'L' if judgement >= Judgement::Fourth && bytes.starts_with(encoded_key::MARK) => {
                found.extend(encoded_key::at(text, &word));
            }
            b'P' if bytes == b"Private-Lines" => found.extend(private_key::putty(text, &word)),
            b'd' | b'p' | b'q' | b'k' | b'o' if word.len() <= 3 => match judgement {
                Judgement::Third => found.extend(json_web_key::third_judgement_of_member(text, &word)),
                _ => json_web_key::find_members(text, &word, &mut found),
            },
            b'c' | b'C' if word.len() == "ConvertTo-SecureString".len() => {
                command::find_in_shell_call(text, &word, judgement, &mut found);
            }
            _ => {}
        }
        named::by(text, &word, judgement, &mut found);
        // After a small Latin letter and a blank there is no name in another script to look for.
        let is_prose = matches!(text[..word.start], [.., b'a'..=b'z', b' ']);
        if !is_prose {
            named::find_by_foreign_name(text, &word, judgement, &mut found);
        }
    }
    found
}

/// Searches a text under the first judgement, which continues after each secret.
fn first_scan(text: &[u8]) -> Vec<Secret> {
    let mut found: Vec<Secret> = Vec::new();
    let mut at = 0;
    while let Some(word) = next_word(text, at) {
        let done = found.last().map_or(0, |last| last.bytes.end);
        at = word.end;
        if let Some(secret) = first_judgement_of_word(text, &word, done) {
            at = at.max(secret.bytes.end);
            found.push(secret);
        }
    }
    found
}

fn first_judgement_of_word(text: &[u8], word: &Range<usize>, done: usize) -> Option<Secret> {
    const BLOCKS: Blocks = Blocks { longest: 32 << 10, body: |_| true };
    let bytes = &text[word.clone()];
    if bytes.starts_with(b"-----") || bytes.ends_with(b"-----BEGIN") {
        return private_key::at(text, word, done, BLOCKS);
    }
    service_token::in_word(text, word, service_token::FIRST)
        .or_else(|| assigned::behind(text, word))
        .or_else(|| assigned::password_in_url(text, word))
        .or_else(|| random::in_word(text, word))
}
