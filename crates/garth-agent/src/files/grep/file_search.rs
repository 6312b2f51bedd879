//! Search of the lines of one file: judges each line, and holds those before a match that may be shown.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::line_steps::StepCount;
use super::lines::{Line, Lines};
use super::matcher::LineMatcher;
use super::request::{BinaryFiles, Grep, Show};
use crate::files::limits::Budget;
use garth_engine::error::Error;
use garth_engine::model::VersionId;
use garth_engine::path::TreePath;

/// Bytes that a line takes in addition to its text.
const LINE_OVERHEAD: usize = 32;

/// File of the answer, or a part of one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GrepFile {
    /// Path.
    pub path: TreePath,
    /// True if the file has a NUL, as far as it was searched. With [`Show::Lines`], true if a line was
    /// selected after one: it is not returned.
    pub binary: bool,
    /// Number of selected lines of this page.
    pub matches: u64,
    /// Lines, with [`Show::Lines`].
    pub lines: Vec<GrepLine>,
    /// True if the next page continues in this file.
    pub more: bool,
    /// True if [`Grep::max_matches`] ended the search before the end of the file.
    pub capped: bool,
    /// Reason why the search ended before the end of the file, if it failed.
    pub error: Option<Error>,
}

/// Line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GrepLine {
    /// Number, from 1.
    pub number: u64,
    /// Bytes without the line end, at most [`Grep::max_line`].
    pub text: Vec<u8>,
    /// True if the line is longer.
    pub cut: bool,
    /// True if the line is not selected, but near a selected one.
    pub context: bool,
}

/// Position in a file that the next page continues from.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct FilePosition {
    pub(super) version: VersionId,
    /// Offset of the first line to read, and the number of lines before it.
    pub(super) offset: u64,
    pub(super) lines: u64,
    /// Number of the last line that was judged. Lines before it are read again as context of later ones.
    seen: u64,
    matches: u64,
    after: usize,
    pub(super) binary: bool,
}

impl FilePosition {
    /// Returns true if a page of the request can end here in a file of `size` bytes. An invented position
    /// could overflow the numbers of lines, or never let a page end.
    pub(super) fn is_possible(&self, asked: &Grep, size: u64) -> bool {
        let may_wait = if asked.show == Show::Lines { asked.before as u64 } else { 0 };
        // Each line has at least one byte.
        self.lines <= self.offset
            && self.offset <= size
            && (self.lines..=size).contains(&self.seen)
            && self.seen - self.lines <= may_wait
            && self.matches <= self.seen
            && self.after <= asked.after
    }
}

/// Line that waits for a match after it.
struct Waiting {
    number: u64,
    offset: u64,
    text: Vec<u8>,
}

/// Continuation of the search after a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterLine {
    /// The next line is needed.
    Next,
    /// No more lines are needed.
    Done,
    /// The line takes too many steps.
    TooManySteps,
}

/// State of the search of one file.
pub(super) struct FileSearch<'a> {
    asked: &'a Grep,
    matcher: &'a LineMatcher,
    pub(super) found: GrepFile,
    /// Selected lines, with those of earlier pages.
    pub(super) matches: u64,
    /// Lines to show after the last match.
    after: usize,
    before: VecDeque<Waiting>,
    /// Bytes of `before`, also for lines without text: a file can have any number of them.
    waiting: usize,
    seen: u64,
    /// Last line that an earlier page judged.
    seen_before: u64,
    count: StepCount,
}

impl<'a> FileSearch<'a> {
    pub(super) fn new(
        asked: &'a Grep,
        matcher: &'a LineMatcher,
        path: &TreePath,
        from: Option<&FilePosition>,
    ) -> Self {
        let found = GrepFile {
            path: path.clone(),
            binary: false,
            matches: 0,
            lines: Vec::new(),
            more: false,
            capped: false,
            error: None,
        };
        let (matches, after, seen) =
            from.map_or((0, 0, 0), |position| (position.matches, position.after, position.seen));
        let (before, waiting) = (VecDeque::new(), 0);
        let (seen_before, count) = (seen, StepCount::default());
        Self { asked, matcher, found, matches, after, before, waiting, seen, seen_before, count }
    }

    /// Returns the number of steps that were made for lines after the last call of this function.
    pub(super) fn take_steps(&mut self) -> u64 {
        std::mem::take(&mut self.count.steps)
    }

    /// Judges the next line.
    pub(super) fn line(
        &mut self,
        line: &Line,
        text: &[u8],
        binary: bool,
        budget: &mut Budget<'_>,
    ) -> AfterLine {
        self.seen = self.seen.max(line.number);
        // After the last match, only the lines after it are shown.
        let full = self.asked.max_matches.is_some_and(|most| self.matches >= most);
        if full && self.after == 0 {
            self.found.capped = true;
            return AfterLine::Done;
        }
        let selected = match full {
            true => false,
            false => match self.matcher.is_match_within(text, &mut self.count) {
                Some(matches) => matches != self.asked.invert,
                None => return AfterLine::TooManySteps,
            },
        };
        if !selected {
            if self.after > 0 {
                self.after -= 1;
                // A line of a binary part is not shown, whether it is selected or not.
                if !binary {
                    self.show(line.number, text, true, budget);
                }
            } else if self.asked.before > 0 && self.asked.show == Show::Lines {
                self.wait(line, text);
            }
            return AfterLine::Next;
        }
        // A skipped file counts as one without a match.
        if binary && self.asked.binary == BinaryFiles::Skip {
            return AfterLine::Done;
        }
        self.matches += 1;
        self.found.matches += 1;
        match self.asked.show {
            // One match decides about the file, so the rest is not read.
            Show::Files | Show::FilesWithout => return AfterLine::Done,
            Show::Counts => return AfterLine::Next,
            Show::Lines => {}
        }
        if binary {
            self.found.binary = true;
            return AfterLine::Done;
        }
        self.waiting = 0;
        for before in std::mem::take(&mut self.before) {
            self.show(before.number, &before.text, true, budget);
        }
        self.show(line.number, text, false, budget);
        self.after = self.asked.after;
        AfterLine::Next
    }

    fn show(&mut self, number: u64, text: &[u8], context: bool, budget: &mut Budget<'_>) {
        let shown = cut(text, self.asked.max_line);
        budget.bytes(shown.len() + LINE_OVERHEAD);
        let line = GrepLine { number, text: shown.to_vec(), cut: shown.len() < text.len(), context };
        self.found.lines.push(line);
    }

    /// Holds a line for a match after it. Only the last ones that may be shown are held.
    fn wait(&mut self, line: &Line, text: &[u8]) {
        self.waiting += text.len() + LINE_OVERHEAD;
        self.before.push_back(Waiting { number: line.number, offset: line.offset, text: text.to_vec() });
        while self.before.len() > self.asked.before {
            self.waiting -= self.before.pop_front().map_or(0, |line| line.text.len() + LINE_OVERHEAD);
        }
    }

    /// Returns the number of bytes of the lines that are held.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Returns true if a line was judged that no earlier page judged, or any was shown: lines that are read
    /// again only wait for a match, unless the cursor is invented.
    pub(super) fn is_further(&self) -> bool {
        self.seen > self.seen_before || !self.found.lines.is_empty()
    }

    /// Returns the position from which the next page continues.
    pub(super) fn position(&self, version: VersionId, lines: &Lines) -> FilePosition {
        let next = lines.position();
        let (offset, number) =
            self.before.front().map_or(next, |waiting| (waiting.offset, waiting.number - 1));
        let (seen, matches, after) = (self.seen, self.matches, self.after);
        FilePosition { version, offset, lines: number, seen, matches, after, binary: lines.binary }
    }
}

/// Returns the beginning of a line, at most `most` bytes of it. UTF-8 is cut at a character.
fn cut(text: &[u8], most: usize) -> &[u8] {
    if text.len() <= most {
        return text;
    }
    // A character has at most 3 bytes after its first one, all of the form 10xxxxxx.
    let starts = (most.saturating_sub(3)..=most).rev().find(|at| text[*at] & 0b1100_0000 != 0b1000_0000);
    &text[..starts.unwrap_or(most)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_at_characters() {
        let text = "aé€😀z";
        for most in 0..text.len() {
            let cut = cut(text.as_bytes(), most);
            assert!(std::str::from_utf8(cut).is_ok() && cut.len() <= most && most - cut.len() < 4, "{most}");
        }
        assert_eq!(cut(text.as_bytes(), text.len()), text.as_bytes());
        assert_eq!(cut(&[0x80; 9], 5), [0x80; 5], "not UTF-8");
    }
}
