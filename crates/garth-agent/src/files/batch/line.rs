//! Line of a batch: an operation with its content, as JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use garth_engine::error::{Error, Result as TreeResult};
use garth_engine::fs::FileSystem;
use garth_engine::model::{Body, Op, StagedBody, Timestamp};
use garth_engine::path::TreePath;

use super::fields::{Fields, Result, read};
use super::operation::Operation;
use crate::boxed;

/// Third form that the content of a line may have, besides `text` and `base64`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContentForm {
    /// None.
    #[default]
    Inline,
    /// `staged`, an upload to the same tree: `{"id":"32 hexadecimal digits","size":7}`.
    Staged,
    /// Field of this name, whose text the caller interprets ([`LineContent::Named`]).
    Named(&'static str),
}

/// Content of a write or an append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineContent {
    /// Content that a commit takes.
    Body(Body),
    /// Text of the field of [`ContentForm::Named`]; [`BatchLine::with_body`] replaces it.
    Named(String),
}

/// Line of a batch: one operation.
///
/// ```
/// use garth_agent::files::{BatchLine, ContentForm};
///
/// let line = br#"{"op":"write","path":"/a","text":"hello"}"#;
/// let line = BatchLine::parse(line, ContentForm::Inline).unwrap();
/// assert!(line.creates() && line.path() == "/a");
/// let wrong = BatchLine::parse(br#"{"op":"rm","pth":"/a"}"#, ContentForm::Inline).unwrap_err();
/// assert_eq!(wrong, "\"path\" is missing");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct BatchLine {
    operation: Operation,
    /// Content of a write or an append.
    content: Option<LineContent>,
}

impl BatchLine {
    /// Parses a line: one JSON object.
    ///
    /// # Errors
    /// The reason, in words: an unknown operation or field, a field that is missing, repeated or of another
    /// type.
    pub fn parse(text: &[u8], form: ContentForm) -> Result<Self> {
        let mut fields = Fields::parse(text)?;
        let op = fields.required_text("op")?;
        let content = match op.as_str() {
            "write" | "append" => Some(content(&mut fields, form)?),
            _ => None,
        };
        let operation = Operation::of(&op, &mut fields)?;
        // The operation took the fields that it knows. A typing mistake in another must not pass unnoticed.
        fields.end()?;
        Ok(Self { operation, content })
    }

    /// Returns the path that the operation changes or checks, as it was written: for `mv`, `cp` and `ln` the
    /// new one.
    pub fn path(&self) -> &str {
        self.operation.path()
    }

    /// Returns the content of a write or an append.
    pub fn content(&self) -> Option<&LineContent> {
        self.content.as_ref()
    }

    /// Returns the number of bytes of content in the line itself.
    pub(super) fn inline_bytes(&self) -> u64 {
        match &self.content {
            Some(LineContent::Body(body @ Body::Bytes(_))) => body.size(),
            Some(LineContent::Body(Body::Staged(_)) | LineContent::Named(_)) | None => 0,
        }
    }

    /// Returns about the bytes of memory that the attributes take.
    pub(super) fn weight(&self) -> usize {
        self.operation.weight()
    }

    /// Sets the content.
    #[must_use]
    pub fn with_body(self, body: Body) -> Self {
        Self { content: Some(LineContent::Body(body)), ..self }
    }

    /// Returns true if the operation can be the first one in a tree. Others need an existing path.
    pub fn creates(&self) -> bool {
        self.operation.creates()
    }

    /// Returns true if the operation creates a path, but no directories above it.
    pub(super) fn lacks_parents(&self) -> bool {
        self.operation.lacks_parents()
    }

    /// Returns true for a `check`, which changes nothing.
    pub fn is_check(&self) -> bool {
        matches!(self.operation, Operation::Check { .. })
    }

    /// Returns true for an operation whose answer depends on content that it does not write: a `check` or a
    /// `cp`.
    #[doc(hidden)]
    pub fn reads(&self) -> bool {
        matches!(self.operation, Operation::Check { .. } | Operation::Cp { .. })
    }

    /// Returns true for `rm`.
    pub fn removes(&self) -> bool {
        matches!(self.operation, Operation::Rm { .. })
    }

    /// Returns the operation on paths of the tree, and the path that it changes. Links are followed as they
    /// are now. A time to live counts from `now`.
    ///
    /// # Errors
    /// As [`resolve`](garth_engine::fs::resolve::resolve); `InvalidArgument` for content that was not read.
    #[boxed]
    pub async fn op(&self, fs: &dyn FileSystem, now: Timestamp) -> TreeResult<(Op, TreePath)> {
        let body = match &self.content {
            Some(LineContent::Body(body)) => body.clone(),
            Some(LineContent::Named(_)) => return Err(Error::invalid("the content of a line was not read")),
            None => Body::from(Vec::new()),
        };
        self.operation.resolved(fs, body, now).await
    }
}

/// Takes the content, decoded. It must have exactly one of the permitted forms.
fn content(from: &mut Fields, form: ContentForm) -> Result<LineContent> {
    let third = match form {
        ContentForm::Inline => None,
        ContentForm::Staged => staged(from)?.map(|staged| LineContent::Body(Body::Staged(staged))),
        ContentForm::Named(field) => from.text(field)?.map(LineContent::Named),
    };
    match (from.text("text")?, from.text("base64")?, third) {
        (Some(text), None, None) => Ok(LineContent::Body(Body::from(text.into_bytes()))),
        (None, Some(base64), None) => match STANDARD.decode(base64) {
            Ok(bytes) => Ok(LineContent::Body(Body::from(bytes))),
            Err(_) => Err("\"base64\" must be standard base64 with padding".to_owned()),
        },
        (None, None, Some(third)) => Ok(third),
        _ => Err(match form {
            ContentForm::Inline => "give the content by one of text and base64".to_owned(),
            ContentForm::Staged => "give the content by one of text, base64 and staged".to_owned(),
            ContentForm::Named(field) => format!("give the content by one of text, base64 and {field}"),
        }),
    }
}

/// Takes an upload.
fn staged(from: &mut Fields) -> Result<Option<StagedBody>> {
    from.take("staged").map(|value| read("staged", &value)).transpose()
}
