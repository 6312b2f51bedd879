//! Line of a batch: an operation as JSON, with the field names of [`garth_engine::model::Op`].

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use garth_engine::model::{Create, Precondition, SetAttrs, Timestamp};
use serde_json::Value;

use super::fields::{Fields, Result};
use crate::args::parse_mode;
use crate::when::Expiry;

/// Operation without its content.
pub(super) enum Line {
    Write { path: String, create: Create, parents: bool, attrs: Attrs },
    Append { path: String, create: Create, parents: bool },
    Mkdir { path: String, parents: bool, attrs: Attrs },
    Rm { path: String, recursive: bool, force: bool },
    Mv { from: String, to: String, replace: bool, parents: bool },
    Cp { from: String, to: String, recursive: bool, replace: bool, parents: bool },
    Ln { from: String, to: String, parents: bool },
    Symlink { path: String, target: String, parents: bool },
    Set { path: String, attrs: Attrs },
    Check { path: String, that: Precondition },
}

/// Content of a write or an append.
pub(super) enum Content {
    Bytes(Vec<u8>),
    /// File of this machine.
    File(PathBuf),
}

impl Line {
    /// Parses a line. Returns the operation, and for a write or an append its content and the path of it. An
    /// error is a message about the line.
    pub(super) fn parse(text: &[u8]) -> Result<(Self, Option<(String, Content)>)> {
        let mut fields = Fields::parse(text)?;
        let op = fields.required_text("op")?;
        let content = match op.as_str() {
            "write" | "append" => Some(content(&mut fields)?),
            _ => None,
        };
        let line = Self::of(&op, &mut fields)?;
        // The operation took the fields that it knows. A typing mistake in another must not pass unnoticed.
        fields.end()?;
        let path = match &line {
            Self::Write { path, .. } | Self::Append { path, .. } => path.clone(),
            _ => String::new(),
        };
        Ok((line, content.map(|content| (path, content))))
    }

    /// Returns true if the operation can be the first one in a tree. Others need an existing path.
    pub(super) fn makes(&self) -> bool {
        match self {
            Self::Write { create, .. } | Self::Append { create, .. } => *create != Create::Never,
            Self::Mkdir { .. } => true,
            _ => false,
        }
    }

    fn of(op: &str, from: &mut Fields) -> Result<Self> {
        Ok(match op {
            "write" => Self::Write {
                path: from.required_text("path")?,
                create: create(from)?,
                parents: from.flag("parents", false)?,
                attrs: Attrs::take(from)?.unwrap_or_default(),
            },
            "append" => Self::Append {
                path: from.required_text("path")?,
                create: create(from)?,
                parents: from.flag("parents", false)?,
            },
            "mkdir" => Self::Mkdir {
                path: from.required_text("path")?,
                parents: from.flag("parents", false)?,
                attrs: Attrs::take(from)?.unwrap_or_default(),
            },
            "rm" => Self::Rm {
                path: from.required_text("path")?,
                recursive: from.flag("recursive", false)?,
                force: from.flag("force", false)?,
            },
            "mv" => Self::Mv {
                from: from.required_text("from")?,
                to: from.required_text("to")?,
                replace: from.flag("replace", true)?,
                parents: from.flag("parents", false)?,
            },
            "cp" => Self::Cp {
                from: from.required_text("from")?,
                to: from.required_text("to")?,
                recursive: from.flag("recursive", false)?,
                replace: from.flag("replace", true)?,
                parents: from.flag("parents", false)?,
            },
            "ln" => Self::Ln {
                from: from.required_text("from")?,
                to: from.required_text("to")?,
                parents: from.flag("parents", false)?,
            },
            "symlink" => Self::Symlink {
                path: from.required_text("path")?,
                target: from.required_text("target")?,
                parents: from.flag("parents", false)?,
            },
            "set" => {
                let (path, attrs) = (from.required_text("path")?, Attrs::take(from)?);
                Self::Set { path, attrs: from.required("attrs", attrs)? }
            }
            "check" => Self::Check { path: from.required_text("path")?, that: condition(from)? },
            _ => {
                let known = "write, append, mkdir, rm, mv, cp, ln, symlink, set or check";
                return Err(format!("\"op\" must be {known}"));
            }
        })
    }
}

/// Takes the content, decoded. It must have exactly one of three forms.
fn content(from: &mut Fields) -> Result<Content> {
    match (from.text("text")?, from.text("base64")?, from.text("file")?) {
        (Some(text), None, None) => Ok(Content::Bytes(text.into_bytes())),
        (None, Some(base64), None) => match STANDARD.decode(base64) {
            Ok(bytes) => Ok(Content::Bytes(bytes)),
            Err(error) => Err(format!("\"base64\": {error}")),
        },
        (None, None, Some(file)) => Ok(Content::File(file.into())),
        _ => Err("give the content by one of text, base64 and file".into()),
    }
}

/// Takes the mode of creation of a write or an append.
fn create(from: &mut Fields) -> Result<Create> {
    match from.text("create")?.as_deref() {
        None | Some("if_missing") => Ok(Create::IfMissing),
        Some("never") => Ok(Create::Never),
        Some("new") => Ok(Create::New),
        Some(_) => Err(r#""create" must be "if_missing", "never" or "new""#.into()),
    }
}

/// Takes the precondition of a check.
fn condition(from: &mut Fields) -> Result<Precondition> {
    let that = from.take("that");
    let that = from.required("that", that)?;
    serde_json::from_value(that).map_err(|why| {
        let forms = r#""absent", "exists" or an object with one of version, etag, etag_in, sha256 and not"#;
        format!("\"that\" must be {forms}: {why}")
    })
}

/// Attributes to set; missing fields are unchanged.
#[derive(Default)]
pub(super) struct Attrs {
    set: SetAttrs,
    ttl: Option<Expiry>,
}

impl Attrs {
    fn take(from: &mut Fields) -> Result<Option<Self>> {
        let Some(mut from) = from.object("attrs", "attrs.")? else { return Ok(None) };
        let set = SetAttrs {
            mode: from.parsed("mode", parse_mode)?,
            uid: from.id("uid")?,
            gid: from.id("gid")?,
            mtime: from.parsed("mtime", Timestamp::parse_rfc3339)?,
            content_type: from.nullable_text("content_type")?,
            tags: from.texts("tags")?,
            importance: from.number("importance")?,
            searchable: from.nullable_flag("searchable")?,
            metadata: from.map("metadata")?.unwrap_or_default(),
            ..SetAttrs::default()
        };
        let ttl = match from.take("ttl") {
            None => None,
            // `null` removes the expiry, a missing field leaves it.
            Some(Value::Null) => Some(Expiry::NEVER),
            Some(Value::String(text)) => {
                Some(text.parse::<Expiry>().map_err(|why| format!("{}: {why}", from.named("ttl")))?)
            }
            Some(_) => return Err(format!("{} must be a string or null", from.named("ttl"))),
        };
        from.end()?;
        Ok(Some(Self { set, ttl }))
    }

    /// Returns the attributes to set. A time to live counts from `now`.
    pub(super) fn resolve(&self, now: Timestamp) -> SetAttrs {
        SetAttrs { expires_at: self.ttl.map(|ttl| ttl.end(now)), ..self.set.clone() }
    }
}
