//! Passages of files, as an index has them.

use crate::model::Ino;
use crate::text::json::decode;
use crate::text::message;
use crate::text::passage::{Form, Span};

/// A passage in an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// Number of the passage. Newer text has larger numbers.
    pub id: i64,
    /// Inode of the file.
    pub ino: Ino,
    /// Byte range in the file.
    pub span: Span,
    /// Number of line feeds in the passage.
    pub line_feeds: u64,
    /// Form in which the passage is indexed.
    pub form: Form,
    /// Number of its words; 0 if an older garth indexed it.
    pub words: u64,
}

impl Passage {
    /// Returns the length of the passage in words; an estimate if an older garth indexed it.
    pub(super) fn length(&self) -> f64 {
        match self.words {
            0 => self.span.len as f64 / 6.0,
            words => words as f64,
        }
    }
}

/// Returns the text of a passage as a reader sees it: a message as `role: text`, otherwise with decoded
/// escapes of JSON.
pub(crate) fn readable(bytes: &[u8], form: Form) -> String {
    let text = String::from_utf8_lossy(bytes);
    match form {
        Form::Text => text.into_owned(),
        Form::Json => decode(&text),
        Form::JsonLines => message::readable(&text).unwrap_or_else(|| decode(&text)),
    }
}
