//! Passages: the units of search. A file of megabytes cannot be one document of the index: a hit would not
//! say where in the file it is, and an append would index all of it again. So text is cut into passages of
//! about 2 KiB, and an edit cuts only passages that it touches.
//!
//! The passages of a file follow each other without gap or overlap, from byte 0 to its end (at most
//! [`MAX_TEXT`]). Any such cover is valid: which one a file has depends on how it was written.

use std::ops::Range;

use super::json;

/// Target length of a passage in bytes: a few paragraphs, so that a hit says where, and there is enough
/// text to rank by.
pub const TARGET: usize = 2048;
/// Limit on the length of a passage, in bytes.
pub const MAX: usize = 2 * TARGET;
/// Length of a rest up to which it is not cut: two halves would both be short.
const LAST: usize = TARGET + TARGET / 2;
/// Number of bytes at the start of a file that search reads, 64 MiB. It bounds what one commit may have to
/// index.
pub const MAX_TEXT: u64 = 64 << 20;
/// Number of bytes at the start of a file that tell whether it is text, 8 KiB; `git` and `grep` do the
/// same.
pub const SNIFF: u64 = 8192;

/// Returns true if content that starts with `prefix` (its first [`SNIFF`] bytes, or part of them) is text
/// that search can read: UTF-8 without NUL, of which the last character may be incomplete. The content type
/// only excludes media, because callers often give a wrong one for text.
pub fn is_text(prefix: &[u8], content_type: Option<&str>) -> bool {
    let kind = content_type.unwrap_or_default().trim().to_ascii_lowercase();
    let kind = kind.split(';').next().unwrap_or_default().trim_end();
    let media = ["image/", "audio/", "video/", "font/"].iter().any(|media| kind.starts_with(media));
    // SVG is text.
    if media && !kind.ends_with("+xml") {
        return false;
    }
    let prefix = &prefix[..prefix.len().min(SNIFF as usize)];
    let utf8 = match std::str::from_utf8(prefix) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none(),
    };
    // A NUL is valid UTF-8, but text has none.
    utf8 && !prefix.contains(&0)
}

/// Cuts `bytes` into passages and returns their lengths. With `last`, the lengths cover `bytes` to the end.
/// Otherwise more bytes follow, and the caller puts the bytes that are not covered (at most [`MAX`]) before
/// them in the next call.
///
/// A cut is before a Markdown heading, or else after a blank line, or else after a line (so between records
/// of JSON Lines), or else after a sentence or word. It is never inside a UTF-8 character, nor in JSON
/// (`is_json`) inside an escape.
pub fn cut(bytes: &[u8], last: bool, is_json: bool) -> Vec<usize> {
    let mut lengths = Vec::new();
    let mut rest = bytes;
    // More bytes may follow: cutting a shorter rest could give other passages than cutting the complete
    // text.
    while rest.len() > MAX || (last && rest.len() > LAST) {
        let length = first(rest, is_json);
        lengths.push(length);
        rest = &rest[length..];
    }
    if last && !rest.is_empty() {
        lengths.push(rest.len());
    }
    lengths
}

/// Returns the length of the first passage of `rest`, which is longer than [`LAST`].
fn first(rest: &[u8], is_json: bool) -> usize {
    let window = &rest[..rest.len().min(MAX)];
    let (mut heading, mut blank, mut line, mut later) = (0, 0, 0, 0);
    let mut start = 0;
    for (at, _) in window.iter().enumerate().filter(|(_, byte)| **byte == b'\n') {
        let end = at + 1;
        if end > TARGET {
            later = end;
            break;
        }
        line = end;
        // Not near the start: two headings in a row would make a passage of a few words.
        if end >= TARGET / 4 && is_heading(&rest[end..]) {
            heading = end;
        }
        if window[start..end].iter().all(u8::is_ascii_whitespace) {
            blank = end;
        }
        start = end;
    }
    if heading > 0 {
        return heading;
    }
    for end in [blank, line] {
        // A passage of less than half the target is worse than one that is cut at a lesser place.
        if end >= TARGET / 2 {
            return end;
        }
    }
    for end in [later, line] {
        if end > 0 {
            return end;
        }
    }
    if rest.len() <= MAX {
        return rest.len();
    }
    within_line(window, is_json)
}

fn is_heading(line: &[u8]) -> bool {
    let level = line.iter().take_while(|byte| **byte == b'#').count();
    (1..=6).contains(&level) && line.get(level) == Some(&b' ')
}

/// Returns the length up to a cut in a line that is longer than `window`, which is [`MAX`] bytes.
fn within_line(window: &[u8], is_json: bool) -> usize {
    let (mut sentence, mut word, mut any, mut at) = (0, 0, 0, 0);
    let mut before = ' ';
    while let Some((now, length)) = unit(&window[at..], is_json) {
        at += length;
        let separates = separates(now);
        if at > TARGET {
            // Beyond the target only if nothing before it will do.
            if any == 0 || (separates && word < TARGET / 2) {
                return at;
            }
        } else {
            any = at;
            if separates {
                word = at;
                let ends = matches!(before, '.' | '!' | '?') && now.is_whitespace();
                if ends || matches!(now, '。' | '！' | '？') {
                    sentence = at;
                }
            }
        }
        before = now;
    }
    if sentence >= TARGET / 2 {
        return sentence;
    }
    // Without the end of a word, the text is one endless word.
    if word >= TARGET / 2 { word } else { any }
}

/// Returns the first character of `bytes` and its length; in JSON, an escape counts as one character.
/// Invalid UTF-8 counts as U+FFFD.
fn unit(bytes: &[u8], is_json: bool) -> Option<(char, usize)> {
    let first = *bytes.first()?;
    if is_json && let Some(escape) = json::escape(bytes) {
        return Some(escape);
    }
    if first.is_ascii() {
        return Some((char::from(first), 1));
    }
    // A character has at most 4 bytes.
    let most = &bytes[..bytes.len().min(4)];
    let valid = match std::str::from_utf8(most) {
        Ok(valid) => valid,
        Err(error) => std::str::from_utf8(&most[..error.valid_up_to()]).unwrap_or_default(),
    };
    match valid.chars().next() {
        Some(c) => Some((c, c.len_utf8())),
        None => {
            let chunk = most.utf8_chunks().next()?;
            Some((char::REPLACEMENT_CHARACTER, chunk.invalid().len().max(1)))
        }
    }
}

/// Returns true if the index ends a word at this character. False in doubtful cases.
fn separates(c: char) -> bool {
    match c {
        '\0'..='\u{7f}' => !c.is_ascii_alphanumeric(),
        '\u{2000}'..='\u{206f}' | '\u{3000}'..='\u{3004}' | '\u{ff01}'..='\u{ff0f}' | '\u{ff1f}' => true,
        _ => c.is_whitespace(),
    }
}

/// Change of the bytes of a file, for search. Edits never move bytes: they write a range, append, truncate,
/// or replace everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edit {
    /// First byte that may differ.
    pub start: u64,
    /// End of the bytes that may differ, in the new content.
    pub end: u64,
    /// Size before the edit.
    pub old_size: u64,
    /// Size after the edit.
    pub new_size: u64,
}

impl Edit {
    /// Returns the edit that writes `length` bytes at `offset` (for an append, `old_size`). Bytes between
    /// the old end and `offset` become zeros.
    pub fn write(offset: u64, length: u64, old_size: u64) -> Self {
        let end = offset.saturating_add(length);
        let new_size = if length == 0 { old_size } else { old_size.max(end) };
        // A gap before `offset` becomes zeros, which are a change from the old end on.
        Self { start: offset.min(old_size), end: end.min(new_size), old_size, new_size }
    }

    /// Returns the edit that makes a file shorter, or longer with zeros.
    pub fn truncate(old_size: u64, new_size: u64) -> Self {
        Self { start: old_size.min(new_size), end: new_size, old_size, new_size }
    }

    /// Returns the edit that replaces all content. Also stands for a change of what search may see of a
    /// file: its type, or whether it is searchable.
    pub fn replace(old_size: u64, new_size: u64) -> Self {
        Self { start: 0, end: new_size, old_size, new_size }
    }

    /// Returns this edit followed by `later`, as one edit.
    #[must_use]
    pub fn then(self, later: Self) -> Self {
        let new_size = later.new_size;
        Self {
            start: self.start.min(later.start),
            end: self.end.max(later.end).min(new_size),
            old_size: self.old_size,
            new_size,
        }
    }

    /// Returns the part of the edit that search sees.
    pub(crate) fn visible(self) -> Self {
        Self {
            start: self.start.min(MAX_TEXT),
            end: self.end.min(MAX_TEXT),
            old_size: self.old_size.min(MAX_TEXT),
            new_size: self.new_size.min(MAX_TEXT),
        }
    }
}

/// Place of a passage in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Offset of its first byte.
    pub off: u64,
    /// Length in bytes.
    pub len: u64,
    /// True if its last byte is a line feed.
    pub newline: bool,
}

impl Span {
    /// Returns the offset after its last byte.
    pub fn end(self) -> u64 {
        self.off + self.len
    }
}

/// Change of the passages that an edit requires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recut {
    /// Indices of the passages to drop.
    pub drop: Range<usize>,
    /// Range of the new content to cut into passages.
    pub region: Range<u64>,
}

/// Returns the passages to cut again after `edit`. `old` are the passages before it, in order. Those that
/// neither overlap nor touch the bytes from `edit.start` on may be left out.
///
/// A passage that only touches the edited bytes is cut again as well, because a word may now cross the
/// border, except a passage before them that ends with its line: so an append to a file of complete lines
/// costs only its own bytes.
pub fn recut(old: &[Span], edit: &Edit) -> Recut {
    let shrinks = edit.new_size < edit.old_size;
    if !shrinks && edit.start >= edit.end {
        return Recut { drop: 0..0, region: edit.start..edit.start };
    }
    let touches = |span: &Span| {
        span.end() > edit.start || (span.end() == edit.start && !span.newline && edit.new_size > edit.start)
    };
    let from = old.iter().position(touches).unwrap_or(old.len());
    // If the file shrinks, all passages from there on are dropped: the new end may lie within any of them.
    let to = if shrinks { old.len() } else { old.partition_point(|span| span.off <= edit.end).max(from) };
    let dropped = &old[from..to];
    // From the border of a passage, so that the new passages join the remaining ones without a gap.
    let start = dropped.first().map_or(edit.start, |span| span.off.min(edit.start));
    let end = dropped.last().map_or(edit.end, |span| span.end().max(edit.end));
    let end = if shrinks { edit.new_size } else { end.min(edit.new_size) };
    Recut { drop: from..to, region: start.min(end)..end }
}

/// Returns the lines of a passage, counted from 1, without the end. `before` is the number of line feeds
/// before the passage, `inside` the number in it, and `newline` is true if it ends with one.
pub fn lines(before: u64, inside: u64, newline: bool) -> Range<u64> {
    let first = before + 1;
    first..first + inside + u64::from(!newline)
}
