//! Cuts a `SKILL.md` into its front matter and its body.

use crate::workspace::reading::Reading;

/// Line that opens and closes front matter.
const FENCE: &str = "---";
/// Line by which YAML ends a document.
const END: &str = "...";

/// The parts of a `SKILL.md`.
pub(super) struct Parts<'a> {
    /// Front matter that closes.
    pub(super) front: Option<&'a str>,
    /// Lines after an opening line up to a blank line or a heading: front matter, if nothing closes it.
    pub(super) unclosed: Option<&'a str>,
    /// Text after the front matter; all of the text if none closes.
    pub(super) body: &'a str,
    /// Bytes up to the end of the opening line, 0 without one.
    pub(super) opening: usize,
    /// Lines up to the opening line, which is one of them.
    pub(super) opening_lines: u64,
}

impl<'a> Parts<'a> {
    /// Cuts a text with line feeds.
    pub(super) fn of(text: &'a str, reading: Reading) -> Self {
        let opening = match reading {
            Reading::First => text.starts_with("---\n").then_some(FENCE.len() + 1),
            _ => opening(text),
        };
        let none = Self { front: None, unclosed: None, body: text, opening: 0, opening_lines: 0 };
        let Some(opening) = opening else { return none };
        let rest = &text[opening..];
        let opened = Self { opening, opening_lines: text[..opening].lines().count() as u64, ..none };
        let closes = |line: &str| {
            let line = line.trim_end();
            line == FENCE || line == END && reading != Reading::First
        };
        let mut start = 0;
        for line in rest.split_inclusive('\n') {
            if closes(line) {
                return Self { front: Some(&rest[..start]), body: &rest[start + line.len()..], ..opened };
            }
            start += line.len();
        }
        match reading {
            Reading::First => opened,
            _ => Self { unclosed: Some(paragraph(rest)), ..opened },
        }
    }

    /// Returns the lines directly after front matter that closes, where a second one would stand.
    pub(super) fn after_front(&self) -> &'a str {
        let rest = self.body.trim_start();
        paragraph(&rest[opening(rest).unwrap_or(0)..])
    }
}

/// Returns the length of the text up to the end of an opening line. Blank lines and a byte order mark may
/// stand before it, and blanks after it.
fn opening(text: &str) -> Option<usize> {
    let mut length = 0;
    for line in text.split_inclusive('\n') {
        length += line.len();
        let line = line.trim_start_matches('\u{feff}');
        if line.ends_with('\n') && line.trim_end() == FENCE {
            return Some(length);
        }
        if !line.trim().is_empty() {
            return None;
        }
    }
    None
}

/// Returns the lines up to a blank line or a heading.
fn paragraph(text: &str) -> &str {
    let is_end = |line: &&str| line.trim().is_empty() || line.starts_with('#');
    let length = text.split_inclusive('\n').take_while(|line| !is_end(line)).map(str::len).sum();
    &text[..length]
}
