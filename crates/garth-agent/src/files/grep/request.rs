//! Request of a search of lines.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::lines::MAX_LINE;
use crate::files::cursor::{Cursors, moment_json};
use crate::files::limits::Limits;
use garth_engine::model::Moment;

/// Default limit on the bytes of the compiled expressions of a search, 10 MiB.
pub const MAX_COMPILED: usize = 10 << 20;

/// Search of lines by regular expression.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Grep {
    /// Expressions in the syntax of the crate `regex`. A line matches if one of them does.
    pub expressions: Vec<String>,
    /// True if the expressions are literal text.
    pub fixed: bool,
    /// True if upper and lower case letters are the same.
    pub ignore_case: bool,
    /// Part of a line that an expression has to match.
    pub whole: Whole,
    /// True to select the lines that do not match.
    pub invert: bool,
    /// File, or directory with everything below it. Links to it are followed, links below it are not.
    pub path: String,
    /// Only files that match one of these patterns; empty for all. A pattern without `/` matches the name,
    /// one with `/` the path below [`Grep::path`].
    pub include: Vec<String>,
    /// No files that match one of these patterns.
    pub exclude: Vec<String>,
    /// Names to leave out, with everything below them, unless the path or a pattern names them.
    #[doc(hidden)]
    pub left_out: &'static [&'static str],
    /// Number of lines to return before each selected one.
    pub before: usize,
    /// Number of lines to return after each selected one.
    pub after: usize,
    /// Parts of the answer.
    pub show: Show,
    /// Treatment of files that contain a NUL.
    pub binary: BinaryFiles,
    /// Limit on the selected lines of a file; the rest of the file is not searched. `None` for all lines.
    pub max_matches: Option<u64>,
    /// Limit on the bytes of a line in the answer. A longer line is cut at a character.
    pub max_line: usize,
    /// Limit on the bytes of a line that is searched, at most [`MAX_LINE`]. A longer one ends the search of
    /// its file.
    pub longest_line: usize,
    /// Limit on the bytes of the compiled expressions. Their size bounds the time for each byte of text.
    pub max_compiled: usize,
    /// Limit on the steps for one line, `None` for no limit. A step is one state of the compiled expressions
    /// at one byte, about 20 nanoseconds at most. A line that could take more is searched with a table of
    /// states; if computing the table takes more steps, too, the line ends the search of its file. The search
    /// also yields to other tasks after as many steps.
    pub max_steps: Option<u64>,
    /// Time as of which the tree is searched; `None` for now.
    pub at: Option<Moment>,
    /// Limits of one call. Items are files.
    pub limits: Limits,
    /// Start: [`GrepPage::next`](super::GrepPage::next) of the page before, or `None` for the first page.
    pub cursor: Option<String>,
}

/// Part of a line that an expression has to match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Whole {
    /// Any part.
    #[default]
    Any,
    /// A part with no letter, digit or underscore beside it.
    Word,
    /// The complete line.
    Line,
}

/// Parts of the answer to a search of lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Show {
    /// Selected lines, and the lines around them.
    #[default]
    Lines,
    /// Number of selected lines of each file, also of files without any.
    Counts,
    /// Files with a selected line. The first one ends the search of a file.
    Files,
    /// Files without a selected line.
    FilesWithout,
}

/// Treatment of files that contain a NUL, by 1 MiB: from the part with the first one on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BinaryFiles {
    /// A selected line ends the search of the file, and only the file is returned. A NUL ends a line.
    #[default]
    Name,
    /// They have no selected lines.
    Skip,
    /// They are searched like text.
    Text,
}

impl Grep {
    /// Returns a search of the complete tree for an expression, with lines of up to 1,000 bytes.
    pub fn new(expression: impl Into<String>) -> Self {
        Self {
            expressions: vec![expression.into()],
            fixed: false,
            ignore_case: false,
            whole: Whole::Any,
            invert: false,
            path: "/".to_owned(),
            include: Vec::new(),
            exclude: Vec::new(),
            left_out: &[],
            before: 0,
            after: 0,
            show: Show::Lines,
            binary: BinaryFiles::Name,
            max_matches: None,
            max_line: 1000,
            longest_line: MAX_LINE,
            max_compiled: MAX_COMPILED,
            max_steps: None,
            at: None,
            limits: Limits::default(),
            cursor: None,
        }
    }

    /// Sets the file or directory to search.
    #[must_use]
    pub fn below(self, path: impl Into<String>) -> Self {
        Self { path: path.into(), ..self }
    }

    /// Returns the cursors of the request: all but its limits and its cursor decides the answer.
    pub(super) fn cursors(&self) -> Cursors {
        Cursors::of(&json!([
            "grep",
            [&self.expressions, &self.include, &self.exclude],
            [self.fixed, self.ignore_case, self.invert],
            self.left_out,
            self.whole,
            self.path,
            [self.before, self.after, self.max_line, self.longest_line],
            self.show,
            self.binary,
            self.max_steps,
            self.max_matches,
            moment_json(self.at.as_ref()),
        ]))
    }
}
