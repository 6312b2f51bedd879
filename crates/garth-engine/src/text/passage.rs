//! Passages: the units of search. A file of megabytes cannot be one document of the index: a hit would not
//! say where in the file it is, and an append would index all of it again. So text is cut into passages, and
//! an edit cuts only passages near it.
//!
//! The passages of a file follow each other without gap or overlap, from byte 0 to its end (at most
//! [`MAX_TEXT`]). Which ones these are depends on its bytes alone, not on how they were written:
//!
//! - A file is divided into [segments](border) of about [`SEGMENT`] bytes, each of which is cut on its own.
//!   An edit changes no cut after the segments that it touches.
//! - Cuts go from the start of a segment to its end, and each depends only on the next [`MAX`] bytes.

use std::ops::Range;

use super::json::{self, is_json, is_value};

/// Target length of a passage in bytes: a few paragraphs, so that a hit says where, and there is enough
/// text to rank by.
pub const TARGET: usize = 2048;
/// Limit on the length of a passage, in bytes.
pub const MAX: usize = 2 * TARGET;
/// Length of a rest up to which it is not cut: two halves would both be short.
const LAST: usize = TARGET + TARGET / 2;
/// Bytes from which a record of JSON Lines is a passage; shorter ones are joined with the next.
pub const RECORD: usize = 80;
/// Length of a segment in bytes, 64 KiB: as much as an edit may have to cut again. A power of two.
pub const SEGMENT: u64 = 64 << 10;
/// Bytes after a place that its neighbourhood may depend on: those of a passage, and the beginning of a
/// heading after it.
const REACH: u64 = MAX as u64 + 8;
/// Number of bytes at the start of a file that search reads, 64 MiB. It bounds what one commit may have to
/// index.
pub const MAX_TEXT: u64 = 64 << 20;
/// Number of bytes at the start of a file that tell whether it is text, 8 KiB; `git` and `grep` do the
/// same.
pub const SNIFF: u64 = 8192;

/// Form of a text, which decides how it is read and cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// Plain text, Markdown, source code.
    #[default]
    Text,
    /// One JSON value of several lines.
    Json,
    /// JSON Lines, or one JSON value in one line.
    JsonLines,
}

impl Form {
    /// Returns the form of content that starts with `prefix`: its first [`SNIFF`] bytes, or all of it.
    pub fn of(prefix: &[u8]) -> Self {
        if !is_json(prefix) {
            return Self::Text;
        }
        let start = prefix.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(0);
        let first = &prefix[start..];
        match first.iter().position(|byte| *byte == b'\n') {
            Some(end) if !is_value(&first[..end]) => Self::Json,
            _ => Self::JsonLines,
        }
    }

    /// Returns true if escapes are decoded.
    pub fn is_json(self) -> bool {
        self != Self::Text
    }
}

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

/// Cuts `bytes`, which begin a passage, into passages and returns their lengths. With `last`, `bytes` end a
/// segment and the lengths cover them. Otherwise more bytes follow, and the lengths are those of the passages
/// that these cannot change.
///
/// In JSON Lines, a cut is after each record of at least [`RECORD`] bytes. In other text, it is before a
/// Markdown heading, or else after a blank line, or else after a line. In long lines, it is after a sentence
/// or word. It is never inside a UTF-8 character, nor in JSON inside an escape.
pub fn cut(bytes: &[u8], last: bool, form: Form) -> Vec<usize> {
    let mut lengths = Vec::new();
    let mut rest = bytes;
    while let Some(length) = first(rest, form) {
        lengths.push(length);
        rest = &rest[length..];
    }
    if last && !rest.is_empty() {
        lengths.push(rest.len());
    }
    lengths
}

/// Returns the length of the first passage of `rest`; `None` if it is all of `rest`, or bytes after `rest`
/// decide about it.
fn first(rest: &[u8], form: Form) -> Option<usize> {
    let window = &rest[..rest.len().min(MAX)];
    let lines = || window.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    let end = match form {
        Form::JsonLines => record(lines()),
        Form::Text | Form::Json if rest.len() <= LAST => return None,
        Form::Text | Form::Json => paragraph(rest, window, lines()),
    };
    match end {
        Ok(end) => Some(end),
        // The line may end after `rest`.
        Err(_) if rest.len() <= MAX => None,
        Err(0) => Some(within_line(window, form.is_json())),
        // Before a very long line.
        Err(line) => Some(line),
    }
}

/// Returns the first of `ends` of lines that ends a passage of JSON Lines, or else the last.
fn record(ends: impl Iterator<Item = usize>) -> Result<usize, usize> {
    let mut last = 0;
    for end in ends {
        if end >= RECORD {
            return Ok(end);
        }
        last = end;
    }
    Err(last)
}

/// Returns the best of `ends` of lines at which to cut. An error if there is none, with the last end.
fn paragraph(rest: &[u8], window: &[u8], ends: impl Iterator<Item = usize>) -> Result<usize, usize> {
    let (mut heading, mut blank, mut line, mut later) = (0, 0, 0, 0);
    let mut start = 0;
    for end in ends {
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
        return Ok(heading);
    }
    // A passage of less than half the target is worse than one that is cut at a lesser place.
    match [blank, line].into_iter().find(|end| *end >= TARGET / 2) {
        Some(end) => Ok(end),
        None if later > 0 => Ok(later),
        None => Err(line),
    }
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
    #[doc(hidden)]
    pub fn visible(self) -> Self {
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

/// Returns true if no byte after a passage can change its end.
pub fn is_closed(span: Span, form: Form) -> bool {
    form == Form::JsonLines && span.newline && span.len >= RECORD as u64
}

/// Returns true if the end of a passage that begins at `off` may depend on bytes from `place` on.
pub fn reaches(off: u64, place: u64) -> bool {
    off.saturating_add(REACH) > place
}

/// Returns the border between two segments, as a place in `window`: the bytes from the one before a multiple
/// of [`SEGMENT`] to [`MAX`] after it. The border is after a line if possible, otherwise between two words.
/// `None` if the file ends before it.
pub fn border(window: &[u8]) -> Option<usize> {
    let is_safe = |byte: u8| matches!(byte, b' ' | b',');
    let after = |is: &dyn Fn(u8) -> bool| window.iter().position(|byte| is(*byte)).map(|at| at + 1);
    if let Some(line) = after(&|byte| byte == b'\n') {
        return Some(line);
    }
    if window.len() <= MAX {
        return None;
    }
    // No escape of JSON contains a blank or a comma.
    after(&is_safe).or_else(|| {
        let starts = (1..window.len()).filter(|at| !matches!(window[*at], 0x80..0xc0));
        let is_far = |at: usize| !window[at.saturating_sub(12)..at].contains(&b'\\');
        starts.clone().find(|at| *at > 12 && is_far(*at)).or_else(|| starts.clone().next())
    })
}

/// Returns the lines of a passage, counted from 1, without the end. `before` is the number of line feeds
/// before the passage, `inside` the number in it, and `newline` is true if it ends with one.
pub fn lines(before: u64, inside: u64, newline: bool) -> Range<u64> {
    let first = before + 1;
    first..first + inside + u64::from(!newline)
}
