//! Forms of a file that touch, and are shown as one piece.

use std::ops::Range;

use super::fence::{Piece, word};
use super::unit::{Candidate, Form, Unit};
use crate::memory::Level;

/// Forms of one file that touch.
pub(super) struct Run<'a> {
    pub(super) file: usize,
    pub(super) forms: Vec<(&'a Unit, &'a Form)>,
}

impl Run<'_> {
    /// Returns its lines, as a fence names them; empty for the complete file.
    pub(super) fn lines(&self) -> String {
        let lines = self.range();
        if self.forms.iter().any(|(_, form)| form.is_whole) {
            return String::new();
        }
        match lines.end.saturating_sub(1) {
            last if last > lines.start => format!("{}-{last}", lines.start),
            _ => lines.start.to_string(),
        }
    }

    /// Returns its lines in the file.
    pub(super) fn range(&self) -> Range<u64> {
        let start = self.forms.first().map_or(1, |(_, form)| form.lines.start);
        start..self.forms.last().map_or(1, |(_, form)| form.lines.end)
    }
}

/// Returns the tokens of lines in a fence.
pub(super) fn tokens_of(lines: &str) -> usize {
    // A space, and a token for each three digits.
    let digits = |number: &str| number.len().div_ceil(3);
    match lines.split_once('-') {
        Some((first, last)) => 2 + digits(first) + digits(last),
        None if lines.is_empty() => 0,
        None => 1 + digits(lines),
    }
}

/// Names of a file of a candidate, as a fence has them.
pub(super) struct Names {
    pub(super) source: String,
    pub(super) layer: String,
    pub(super) version: String,
}

impl Names {
    /// Returns a piece without its lines and text.
    pub(super) fn piece(&self) -> Piece<'_> {
        Piece { source: &self.source, layer: &self.layer, version: &self.version, lines: "", text: "" }
    }
}

/// Returns the names of a file of a candidate.
pub(super) fn piece_of(candidate: &Candidate, file: usize) -> Names {
    let file = &candidate.parts.files[file];
    let layer = file.level.filter(|level| *level != Level::Content);
    Names {
        source: word(&candidate.source),
        layer: layer.map(|level| format!("L{}", level.number())).unwrap_or_default(),
        version: file.version.to_string(),
    }
}
