//! Answers of tools: text for a model, the same as JSON for programs, and links to files.

use garth_engine::TreePath;
use garth_engine::compute::working;
use garth_engine::model::{Entry, Timestamp};
use serde::Serialize;
use serde_json::Value;

use crate::errors::Refusal;
use crate::mcp::uri::file_uri;

/// Limit on the bytes of the text of an answer, 16 KiB. A longer answer is cut, and says where it continues.
pub(in crate::mcp) const MAX_TEXT: usize = 16 << 10;

/// Answer of a tool.
#[derive(Debug)]
pub(in crate::mcp) struct ToolAnswer {
    /// Text for the model.
    pub(in crate::mcp) text: String,
    /// Last line of the text, for clients that see the tools that it names in backquotes.
    pub(in crate::mcp) hint: Option<String>,
    /// The answer as JSON, in the form of the output schema of the tool.
    pub(in crate::mcp) structured: Value,
    /// Files to read as resources: those that are too long or not text.
    pub(in crate::mcp) links: Vec<Link>,
    /// True if the text says why the tool did nothing.
    pub(in crate::mcp) is_error: bool,
}

/// Link to a file that can be read as a resource.
#[derive(Debug)]
pub(in crate::mcp) struct Link {
    pub(in crate::mcp) uri: String,
    pub(in crate::mcp) name: String,
    pub(in crate::mcp) mime_type: Option<String>,
    pub(in crate::mcp) size: u64,
}

impl ToolAnswer {
    /// Returns an answer without links.
    pub(in crate::mcp) fn new(text: String, structured: &impl Serialize) -> Result<Self, Refusal> {
        let structured = serde_json::to_value(structured).map_err(|error| {
            Refusal::internal().because(format!("the answer of a tool has no JSON form: {error}"))
        })?;
        working(2 * text.len());
        Ok(Self { text, hint: None, structured, links: Vec::new(), is_error: false })
    }

    /// Adds a hint.
    pub(super) fn hint(self, hint: String) -> Self {
        Self { hint: Some(hint), ..self }
    }

    /// Adds a link to a file.
    pub(super) fn link(mut self, path: &TreePath, entry: &Entry) -> Self {
        self.links.push(Link {
            uri: file_uri(path),
            name: path.name().unwrap_or("/").to_owned(),
            mime_type: entry.attributes.content_type.clone(),
            size: entry.size,
        });
        self
    }
}

/// Lines of a text, up to [`MAX_TEXT`].
#[derive(Debug, Default)]
pub(super) struct Lines {
    text: String,
    count: usize,
}

impl Lines {
    /// Bytes that are kept for the last line, which says where the answer continues.
    const REST: usize = 512;

    /// Adds a line. Returns false if it does not fit; then it is not added. The first line always fits.
    pub(super) fn push(&mut self, line: &str) -> bool {
        let is_full = self.text.len() + line.len() + 1 > MAX_TEXT - Self::REST;
        if is_full && self.count > 0 {
            return false;
        }
        self.end_with(line);
        self.count += 1;
        true
    }

    /// Adds a last line, whatever its length.
    pub(super) fn end_with(&mut self, line: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(line);
    }

    /// Returns the text.
    pub(super) fn into_text(self) -> String {
        self.text
    }
}

/// Returns a time to the minute: `2026-01-31T12:00Z`.
pub(super) fn minute(time: Timestamp) -> String {
    let text = time.to_rfc3339();
    match text.get(..16) {
        Some(minute) => format!("{minute}Z"),
        None => text,
    }
}

/// Returns a time to the second: `2026-01-31T12:00:00Z`.
pub(super) fn second(time: Timestamp) -> String {
    let text = time.to_rfc3339();
    match text.get(..19) {
        Some(second) => format!("{second}Z"),
        None => text,
    }
}

/// Returns times to the second, and to the millisecond those that share a second with one beside them. So may
/// the first one of a list that `continues` another.
pub(super) fn distinct(times: &[Timestamp], continues: bool) -> Vec<String> {
    let seconds: Vec<String> = times.iter().map(|time| second(*time)).collect();
    let is_shared = |at: usize| {
        let beside = [at.checked_sub(1), at.checked_add(1)];
        (continues && at == 0)
            || beside.into_iter().flatten().any(|other| seconds.get(other) == seconds.get(at))
    };
    let shown = |(at, time): (usize, &Timestamp)| match is_shared(at) {
        true => time.to_rfc3339(),
        false => second(*time),
    };
    times.iter().enumerate().map(shown).collect()
}

/// Returns a number of bytes: `17 bytes`.
pub(super) fn bytes(size: u64) -> String {
    counted(size, "byte", "bytes")
}

/// Returns a number with the word that it counts.
pub(super) fn counted(number: u64, one: &str, several: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { several })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_ends_before_its_limit() {
        let mut lines = Lines::default();
        let line = "x".repeat(99);
        let fitting = (0..1000).filter(|_| lines.push(&line)).count();
        assert_eq!(fitting, (MAX_TEXT - Lines::REST) / 100);
        lines.end_with("More.");
        let text = lines.into_text();
        assert!(text.len() <= MAX_TEXT && text.ends_with("x\nMore."));
    }

    #[test]
    fn first_line_fits_whatever_its_length() {
        let mut lines = Lines::default();
        assert!(lines.push(&"x".repeat(2 * MAX_TEXT)));
        assert!(!lines.push("x"));
    }

    #[test]
    fn times_within_one_second_are_told_apart() {
        let times = [5_000, 3_900, 3_100, 2_000].map(|ms| Timestamp(ms * 1_000_000));
        let due = ["05Z", "03.900Z", "03.100Z", "02Z"].map(|end| format!("1970-01-01T00:00:{end}"));
        assert_eq!(distinct(&times, false), due);
        assert_eq!(distinct(&times[3..], true), ["1970-01-01T00:00:02.000Z"]);
    }

    #[test]
    fn times_and_numbers_are_short() {
        assert_eq!(minute(Timestamp(0)), "1970-01-01T00:00Z");
        assert_eq!(second(Timestamp(0)), "1970-01-01T00:00:00Z");
        assert_eq!([bytes(0), bytes(1), bytes(17)], ["0 bytes", "1 byte", "17 bytes"]);
    }
}
