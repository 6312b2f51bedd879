//! The call `grep`: lines of files by expression.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use garth_agent::files::{BinaryFiles, Files, Grep, GrepFile, GrepLine, Limits, Show, Whole};
use garth_engine::{FileSystem, TreePath};
use schemars::JsonSchema;
use serde::Serialize;

use super::answer::{Answer, Content, NextPage, content};
use super::content::ItemError;
use super::operations::{MAX_READ, SEARCH_TIME};
use super::paging::Paged;
use super::top;
use crate::errors::Refusal;
use crate::fields::{MAX_INTEGER, fields, flag, integer, shell_path_field, string_of, strings, words};
use crate::routes::call::Call;

/// Limit on the bytes of all expressions of a request.
const MAX_EXPRESSIONS: usize = 1000;
/// Limit on the number of expressions of a request.
const MAX_COUNT: usize = 100;
/// Limit on the bytes of the compiled expressions, 1 MiB.
const MAX_COMPILED: usize = 1 << 20;
/// Limit on the bytes of a line that is searched, 1 MiB: a line is searched at once, and held meanwhile.
const LONGEST_LINE: usize = 1 << 20;
/// Limit on the steps for one line, of about 20 nanoseconds each. A poll takes at most twice as many, and so
/// less than a quarter of a second.
const MAX_STEPS: u64 = 4 << 20;
/// Limit on the lines around a selected one, on each side.
const MAX_AROUND: u64 = 100;
/// Limit on the bytes of a line in the answer.
const MAX_LINE: u64 = 4000;
/// Limit on the patterns of files, of each kind.
const MAX_PATTERNS: usize = 50;
/// Limit on the files of a page.
const MAX_FILES: usize = 1000;

fields! {
    /// Returns the lines of files that match a regular expression.
    pub(crate) struct GrepFields<'a> {
        /// Regular expressions, of which one has to match; at most 1,000 bytes together.
        expressions: Vec<String> = strings().of("expression").at_most(MAX_COUNT);
        /// `true` takes the expressions as literal text.
        fixed: bool = flag(), or false;
        /// `true` ignores the case of letters.
        ignore_case: bool = flag(), or false;
        /// Part of a line that has to match: any, whole words, or the complete line.
        whole: Cow<'a, str> = words(&["any", "word", "line"]), or Cow::Borrowed("any");
        /// `true` selects the lines that do not match.
        invert: bool = flag(), or false;
        /// File or directory to search. Default: `/`, or the prefix of the key.
        path: Option<Cow<'a, str>> = string_of("path");
        /// Only files that match one of these patterns. An empty array is no filter.
        include: Vec<String> = strings().of("pattern").at_most(MAX_PATTERNS), or Vec::new();
        /// No files that match one of these patterns.
        exclude: Vec<String> = strings().of("pattern").at_most(MAX_PATTERNS), or Vec::new();
        /// Lines to return before each selected one.
        before: usize = integer(0, MAX_AROUND), or 0;
        /// Lines to return after each selected one.
        after: usize = integer(0, MAX_AROUND), or 0;
        /// Parts of the answer: lines, numbers of lines, files with a selected line, or files without one.
        show: Cow<'a, str> = words(&["lines", "counts", "files", "files_without"]), or Cow::Borrowed("lines");
        /// Treatment of binary files: only named, skipped, or searched as text.
        binary: Cow<'a, str> = words(&["name", "skip", "text"]), or Cow::Borrowed("name");
        /// Selected lines after which the search of a file ends. Default: no limit.
        max_matches: Option<u64> = integer(1, MAX_INTEGER);
        /// Limit on the bytes of a line in the answer. A longer line is cut.
        max_line: usize = integer(1, MAX_LINE), or 1000;
        ..page: Paged<MAX_FILES, MAX_FILES>;
    }
}

pub(in crate::routes) async fn grep(
    fs: &Arc<dyn FileSystem>,
    call: &Call<'_>,
    fields: GrepFields<'_>,
) -> Result<Bytes, Refusal> {
    let start = fields.page.start(fs, call).await?;
    let (asked, began) = (asked(fields, top(call), start.after.clone())?, call.env.instant());
    let stop = || began.elapsed() >= SEARCH_TIME;
    let found = Files::new(&*start.fs).until(&stop).grep(&asked).await?;
    let files: Vec<FoundFile<'_>> = found.files.iter().map(FoundFile::of).collect();
    let next = found.next.map(|next| start.cursor(call, &next));
    Answer::new().with("files", &files)?.with("matches", &found.matches)?.page(next.as_deref())
}

/// Lines of files.
#[allow(dead_code)] // It only describes the answer, which is written field by field.
#[derive(JsonSchema)]
pub(in crate::routes) struct GrepAnswer {
    /// Files with selected lines, in the order of a walk.
    files: Vec<FoundFile<'static>>,
    /// Number of selected lines of the page.
    matches: u64,
    #[schemars(flatten)]
    next: NextPage,
}

fn asked(fields: GrepFields<'_>, top: Option<&TreePath>, cursor: Option<String>) -> Result<Grep, Refusal> {
    if fields.expressions.iter().map(String::len).sum::<usize>() > MAX_EXPRESSIONS {
        let message = format!("\"expressions\" must have at most {MAX_EXPRESSIONS} bytes together");
        return Err(Refusal::validation(message));
    }
    if let Some(path) = &fields.path {
        shell_path_field("path", path)?;
    }
    let top = || top.map_or("/", TreePath::as_str).to_owned();
    let mut asked = Grep::new("").below(fields.path.map_or_else(top, Cow::into_owned));
    asked.expressions = fields.expressions;
    (asked.fixed, asked.ignore_case, asked.invert) = (fields.fixed, fields.ignore_case, fields.invert);
    (asked.include, asked.exclude) = (fields.include, fields.exclude);
    (asked.before, asked.after) = (fields.before, fields.after);
    (asked.max_matches, asked.max_line) = (fields.max_matches, fields.max_line);
    asked.whole = match &*fields.whole {
        "word" => Whole::Word,
        "line" => Whole::Line,
        _ => Whole::Any,
    };
    asked.show = match &*fields.show {
        "counts" => Show::Counts,
        "files" => Show::Files,
        "files_without" => Show::FilesWithout,
        _ => Show::Lines,
    };
    asked.binary = match &*fields.binary {
        "skip" => BinaryFiles::Skip,
        "text" => BinaryFiles::Text,
        _ => BinaryFiles::Name,
    };
    bound(&mut asked, fields.page.limit);
    asked.cursor = cursor;
    Ok(asked)
}

/// Bounds the time and memory of a search of lines, and the files of its answer.
pub(crate) fn bound(asked: &mut Grep, files: usize) {
    (asked.longest_line, asked.max_compiled) = (LONGEST_LINE, MAX_COMPILED);
    asked.max_steps = Some(MAX_STEPS);
    let mut limits = Limits::default();
    (limits.items, limits.read) = (files, MAX_READ);
    asked.limits = limits;
}

/// File of the answer.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "GrepFile")]
struct FoundFile<'a> {
    /// Path of the file.
    path: &'a TreePath,
    /// True if the file is binary.
    binary: bool,
    /// Number of selected lines.
    matches: u64,
    /// Selected lines and those around them.
    lines: Vec<FoundLine<'a>>,
    /// True if the next page continues with this file.
    more: bool,
    /// True if the search of the file has ended at `max_matches`.
    capped: bool,
    /// Error that ended the search of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ItemError>,
}

impl<'a> FoundFile<'a> {
    fn of(file: &'a GrepFile) -> Self {
        Self {
            path: &file.path,
            binary: file.binary,
            matches: file.matches,
            lines: file.lines.iter().map(FoundLine::of).collect(),
            more: file.more,
            capped: file.capped,
            error: file.error.clone().map(|error| ItemError::of(error.into())),
        }
    }
}

/// Line of a file.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "GrepLine")]
struct FoundLine<'a> {
    /// Number of the line; the first is 1.
    number: u64,
    #[serde(flatten)]
    content: Content<'a>,
    /// True if the line is cut.
    cut: bool,
    /// True if the line is not selected, but near one that is.
    context: bool,
}

impl<'a> FoundLine<'a> {
    fn of(line: &'a GrepLine) -> Self {
        Self { number: line.number, content: content(&line.text), cut: line.cut, context: line.context }
    }
}
