//! The tool `grep`: lines of files by regular expression.

use std::borrow::Cow;
use std::sync::Arc;

use garth_agent::files::{Files, Grep, GrepFile, GrepLine};
use garth_agent::memory::BESIDE_TEXT;
use garth_engine::{FileSystem, TreePath};
use schemars::JsonSchema;
use serde::Serialize;

use super::answer::{MAX_TEXT, ToolAnswer, counted};
use super::paths::{absolute, shown};
use crate::errors::Refusal;
use crate::fields::{fields, flag, integer, string, string_of};
use crate::mcp::line::one_line;
use crate::routes::call::Call;
use crate::routes::tree_calls::grep::bound;
use crate::routes::tree_calls::operations::SEARCH_TIME;

/// Longest expression, in characters.
const MAX_EXPRESSION: usize = 1000;
/// Limit on the lines around a matching one, on each side.
const MAX_AROUND: u64 = 10;
/// Limit on the files of an answer.
const MAX_FILES: usize = 100;
/// Limit on the bytes of a line in the answer.
const MAX_LINE: usize = 300;

fields! {
    /// Finds lines of files by regular expression. Returns them by file with line numbers: 7: is a match, 8-
    /// is context. To find text by meaning, use `search`.
    pub(crate) struct GrepFields<'a> {
        /// Regular expression.
        pattern: Cow<'a, str> = string().chars(1, MAX_EXPRESSION);
        /// File or directory.
        path: Cow<'a, str> = string_of("path"), or Cow::Borrowed("/");
        /// Pattern of names or paths, such as *.{py,js} or /src/**/*.py.
        include: Option<Cow<'a, str>> = string_of("pattern");
        /// Ignore case.
        ignore_case: bool = flag(), or false;
        /// Lines around each match.
        context: usize = integer(0, MAX_AROUND), or 0;
        /// Cursor.
        cursor: Option<Cow<'a, str>> = string_of("cursor");
    }
}

/// Runs the tool.
pub(super) async fn grep(
    fs: &Arc<dyn FileSystem>,
    call: &Call<'_>,
    fields: GrepFields<'_>,
) -> Result<ToolAnswer, Refusal> {
    if let Some(include) = fields.include.as_deref() {
        check_include(include)?;
    }
    let mut asked = Grep::new(fields.pattern).below(absolute(call, &fields.path));
    asked.left_out = &BESIDE_TEXT;
    asked.include = fields.include.map(Cow::into_owned).into_iter().collect();
    asked.ignore_case = fields.ignore_case;
    (asked.before, asked.after) = (fields.context, fields.context);
    bound(&mut asked, MAX_FILES);
    // A page may exceed its limit by a line with those around it.
    asked.limits.bytes = MAX_TEXT / 2;
    asked.max_line = MAX_LINE;
    asked.cursor = fields.cursor.map(Cow::into_owned);
    let began = call.env.instant();
    let stop = || began.elapsed() >= SEARCH_TIME;
    let found = Files::new(&**fs).until(&stop).grep(&asked).await?;
    let mut text: String = found.files.iter().map(file_text).collect();
    let files = counted(found.files.len() as u64, "file", "files");
    match &found.next {
        Some(next) => text.push_str(&format!("There may be more: call again with cursor = {next:?}.")),
        None if found.matches == 0 => text.push_str("No line matches."),
        None => {
            let matches = counted(found.matches, "matching line", "matching lines");
            text.push_str(&format!("{matches} in {files}."));
        }
    }
    let files = found.files.iter().map(FileMatches::of).collect();
    ToolAnswer::new(text, &LinesFound { files, cursor: found.next })
}

/// Refuses an empty pattern, and several in one: no name matches them, and the answer would be that no line
/// does.
fn check_include(include: &str) -> Result<(), Refusal> {
    if include.is_empty() {
        return Err(Refusal::validation("\"include\" is empty; leave it out to search all files"));
    }
    if is_list(include) {
        let message = "\"include\" must be one pattern, such as *.{py,rs} for two endings; write \\, for a comma \
                       in a name";
        return Err(Refusal::validation(message));
    }
    Ok(())
}

/// Returns true if a pattern has a comma that separates no alternatives.
fn is_list(pattern: &str) -> bool {
    let (mut depth, mut letters) = (0_usize, pattern.chars());
    while let Some(letter) = letters.next() {
        match letter {
            // Quotes the next character.
            '\\' => _ = letters.next(),
            '{' | '[' => depth += 1,
            '}' | ']' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => return true,
            _ => {}
        }
    }
    false
}

/// Returns the lines of a file below its path.
fn file_text(file: &GrepFile) -> String {
    let path = shown(file.path.as_str());
    let mut text = format!("{path}\n");
    if let Some(error) = &file.error {
        text.push_str(&format!("  {}\n", reason(error)));
    }
    if file.binary {
        text.push_str("  is not text, and has a match\n");
    }
    for line in &file.lines {
        let (sign, cut) = (if line.context { '-' } else { ':' }, if line.cut { " [cut]" } else { "" });
        text.push_str(&format!("{}{sign} {}{cut}\n", line.number, line_text(line)));
    }
    text
}

/// Returns the reason why the rest of a file was not searched, without causes that are for the log.
fn reason(error: &garth_engine::Error) -> String {
    let mut refusal = Refusal::from(error.clone());
    refusal.log();
    format!("is not searched to its end: {}", one_line(&refusal.message))
}

/// Returns a line as text. A replaced byte takes three.
fn line_text(line: &GrepLine) -> Cow<'_, str> {
    match String::from_utf8_lossy(&line.text) {
        Cow::Owned(mut text) => {
            text.truncate(text.floor_char_boundary(MAX_LINE));
            Cow::Owned(text)
        }
        text => text,
    }
}

/// Structured answer.
#[derive(Serialize, JsonSchema)]
pub(super) struct LinesFound<'a> {
    files: Vec<FileMatches<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

/// File with lines that match.
#[derive(Serialize, JsonSchema)]
struct FileMatches<'a> {
    path: &'a TreePath,
    lines: Vec<LineMatch<'a>>,
}

/// Line that matches, or one near it.
#[derive(Serialize, JsonSchema)]
struct LineMatch<'a> {
    line: u64,
    text: Cow<'a, str>,
    matches: bool,
    /// True for a line that is not shown to its end.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cut: bool,
}

impl<'a> FileMatches<'a> {
    fn of(file: &'a GrepFile) -> Self {
        let lines = file.lines.iter().map(|line| LineMatch {
            line: line.number,
            text: line_text(line),
            matches: !line.context,
            cut: line.cut,
        });
        Self { path: &file.path, lines: lines.collect() }
    }
}
