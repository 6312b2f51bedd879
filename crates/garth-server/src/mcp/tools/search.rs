//! The tool `search`: passages of files, memories and messages by meaning.

use std::borrow::Cow;

use garth_agent::kv::MAX_QUERY_CHARS;
use garth_agent::search::{HitKind, SearchHit, SearchKind, SearchRequest};
use garth_engine::TreePath;
use schemars::JsonSchema;
use serde::Serialize;

use super::answer::{Lines, ToolAnswer, minute};
use super::paths::{absolute, shown};
use crate::errors::Refusal;
use crate::fields::{fields, integer, string, string_of};
use crate::routes::call::Call;
use crate::routes::open::Opened;

/// Limit on the hits of an answer.
const MAX_HITS: u64 = 30;
/// Limit on the hits that can be skipped.
const MAX_SKIPPED: u64 = 1000;
/// Kinds that are found: those that the other tools read.
const KINDS: [SearchKind; 3] = [SearchKind::Files, SearchKind::Messages, SearchKind::Memories];

fields! {
    /// Finds passages of files, memories and messages for a question in plain words. For exact text use
    /// `grep`.
    pub(crate) struct SearchFields<'a> {
        /// Question.
        query: Cow<'a, str> = string().chars(1, MAX_QUERY_CHARS);
        /// Directory.
        path: Option<Cow<'a, str>> = string_of("path");
        /// Number of passages.
        limit: usize = integer(1, MAX_HITS), or 10;
        /// Passages to skip.
        offset: usize = integer(0, MAX_SKIPPED), or 0;
    }
}

/// Runs the tool.
pub(super) async fn search(
    opened: &Opened<'_>,
    call: &Call<'_>,
    fields: SearchFields<'_>,
) -> Result<ToolAnswer, Refusal> {
    let mut asked = SearchRequest::new(fields.query);
    asked.kinds = KINDS.to_vec();
    (asked.limit, asked.skip) = (fields.limit, fields.offset);
    let tree = opened.recalled().await?;
    if let Some(path) = &fields.path {
        // A search of a path that does not exist would find nothing, like one with the wrong words.
        asked.within.push(tree.existing(&absolute(call, path)).await?);
    }
    let found = loop {
        let found = tree.searcher().search(&asked).await?;
        // The next page begins after the last hit of this one, so all of them have to fit.
        match fitting(&found.hits) {
            (_, fitting) if fitting < found.hits.len() => asked.limit = fitting,
            _ => break found,
        }
    };
    let (mut lines, _) = fitting(&found.hits);
    let hits: Vec<Passage<'_>> = found.hits.iter().map(Passage::of).collect();
    let next = found.next;
    if hits.is_empty() {
        lines.end_with("Nothing matches the question; ask with other words.");
    }
    if found.missing > 0 {
        lines.end_with(&format!("{} files are not indexed yet: repeat the search later.", found.missing));
    }
    if let Some(next) = next {
        lines.end_with(&format!("There may be more: call again with offset = {next}."));
    }
    ToolAnswer::new(lines.into_text(), &PassagesFound { hits, next_offset: next })
}

/// Returns the text of the first hits, and how many of them fit.
fn fitting(hits: &[SearchHit]) -> (Lines, usize) {
    let mut lines = Lines::default();
    let count = hits.iter().take_while(|hit| lines.push(&Passage::of(hit).text())).count();
    (lines, count)
}

/// Structured answer.
#[derive(Serialize, JsonSchema)]
pub(super) struct PassagesFound<'a> {
    hits: Vec<Passage<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<usize>,
}

/// Passage that was found.
#[derive(Serialize, JsonSchema)]
struct Passage<'a> {
    path: &'a TreePath,
    line: u64,
    /// Share of the words and meaning of the question that it has. It does not decide the order, so the text
    /// leaves it out.
    score: f64,
    snippet: &'a str,
    /// URI of a memory, or speaker and time of a message.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
}

impl<'a> Passage<'a> {
    fn of(SearchHit { hit, kind, .. }: &'a SearchHit) -> Self {
        // More digits would be tokens without use.
        let score = (hit.score * 100.0).round() / 100.0;
        Self { path: &hit.path, line: hit.lines.start, score, snippet: &hit.snippet, source: source(kind) }
    }

    fn text(&self) -> String {
        let source = self.source.as_ref().map(|source| format!("  {source}")).unwrap_or_default();
        let head = format!("{}:{}{source}", shown(self.path.as_str()), self.line);
        let snippet = self.snippet.lines().map(|line| format!("\n  {line}"));
        std::iter::once(head).chain(snippet).collect()
    }
}

/// Returns what a passage is in, unless that is a file.
fn source(kind: &HitKind) -> Option<String> {
    match kind {
        HitKind::Memory { uri, .. } => Some(uri.to_string()),
        HitKind::Message { session, message } => {
            let time = message.time.map(|time| format!(" at {}", minute(time))).unwrap_or_default();
            Some(format!("message of session {}{time}", shown(&session.name)))
        }
        _ => None,
    }
}
