//! Lines of one batch, parsed one after another.

use std::fmt;

use garth_engine::compute::working;
use garth_engine::model::{MAX_OPS, MAX_SET_ATTRIBUTES};

use super::line::{BatchLine, ContentForm};

/// Longest line of a batch, in bytes, 64 MiB.
pub const MAX_BATCH_LINE: usize = 64 << 20;

/// Limit on the characters of a reason: it may quote what it refuses.
const MAX_REASON: usize = 500;

/// Parser of the lines of one batch. It counts them for errors.
///
/// ```
/// use garth_agent::files::{BatchLines, ContentForm};
///
/// let mut lines = BatchLines::new(ContentForm::Inline);
/// assert!(lines.parse(br#"{"op":"mkdir","path":"/d"}"#).unwrap().is_some());
/// assert!(lines.parse(b"\n").unwrap().is_none());
/// let error = lines.parse(br#"{"op":"mkdir"}"#).unwrap_err();
/// assert_eq!(error.to_string(), "line 3: \"path\" is missing");
/// ```
#[derive(Debug)]
pub struct BatchLines {
    form: ContentForm,
    /// Number of lines, empty ones included.
    read: u64,
    /// Number of operations.
    operations: usize,
    /// Bytes of memory that the attributes of the operations take.
    weight: usize,
}

/// Reason why a line is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LineError {
    /// Number of the line, from 1.
    pub line: u64,
    /// Reason, in words.
    pub reason: String,
}

impl BatchLines {
    /// Returns the parser of a batch whose content may have a third form.
    pub fn new(form: ContentForm) -> Self {
        Self { form, read: 0, operations: 0, weight: 0 }
    }

    /// Parses the next line; `None` for an empty one.
    ///
    /// # Errors
    /// For a line of more than [`MAX_BATCH_LINE`] bytes, for more operations than a commit has or more
    /// attributes than it sets, and as [`BatchLine::parse`].
    pub fn parse(&mut self, text: &[u8]) -> Result<Option<BatchLine>, LineError> {
        self.read += 1;
        let line = self.read;
        let refuse = |reason: String| {
            let reason = reason.chars().take(MAX_REASON).collect();
            LineError { line, reason }
        };
        if text.len() > MAX_BATCH_LINE {
            return Err(refuse(format!(
                "longer than {MAX_BATCH_LINE} bytes; give the content as {}",
                match self.form {
                    ContentForm::Inline => "several appends".to_owned(),
                    ContentForm::Staged => "an upload".to_owned(),
                    ContentForm::Named(field) => format!("a {field}"),
                }
            )));
        }
        working(text.len());
        if text.trim_ascii().is_empty() {
            return Ok(None);
        }
        if self.operations == MAX_OPS {
            return Err(refuse(format!("a commit may have at most {MAX_OPS} operations")));
        }
        self.operations += 1;
        let line = BatchLine::parse(text, self.form).map_err(refuse)?;
        // Before the next line is read: they take more memory than their text.
        self.weight += line.weight();
        if self.weight > MAX_SET_ATTRIBUTES {
            let most = MAX_SET_ATTRIBUTES;
            return Err(refuse(format!(
                "the attributes that a commit sets have at most {most} bytes; split it"
            )));
        }
        Ok(Some(line))
    }
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

impl std::error::Error for LineError {}
