//! One line of a batch: an operation as JSON, its fields named as those of [`garth::model::Op`].

use std::collections::BTreeMap;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use garth::model::{Create, Precondition, SetAttrs, Timestamp};
use serde::{Deserialize, Deserializer};

use crate::args::parse_mode;
use crate::when::parse_ttl;

/// An operation.
#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Line {
    Write {
        path: String,
        text: Option<String>,
        base64: Option<String>,
        file: Option<PathBuf>,
        #[serde(default)]
        create: Create,
        #[serde(default)]
        parents: bool,
        #[serde(default)]
        attrs: Attrs,
    },
    Append {
        path: String,
        text: Option<String>,
        base64: Option<String>,
        file: Option<PathBuf>,
        #[serde(default)]
        create: Create,
        #[serde(default)]
        parents: bool,
    },
    Mkdir {
        path: String,
        #[serde(default)]
        parents: bool,
        #[serde(default)]
        attrs: Attrs,
    },
    Rm {
        path: String,
        #[serde(default)]
        recursive: bool,
        #[serde(default)]
        force: bool,
    },
    Mv {
        from: String,
        to: String,
        #[serde(default = "yes")]
        replace: bool,
        #[serde(default)]
        parents: bool,
    },
    Cp {
        from: String,
        to: String,
        #[serde(default)]
        recursive: bool,
        #[serde(default = "yes")]
        replace: bool,
        #[serde(default)]
        parents: bool,
    },
    Ln {
        from: String,
        to: String,
        #[serde(default)]
        parents: bool,
    },
    Symlink {
        path: String,
        target: String,
        #[serde(default)]
        parents: bool,
    },
    Set {
        path: String,
        attrs: Attrs,
    },
    Check {
        path: String,
        that: Precondition,
    },
}

fn yes() -> bool {
    true
}

/// Content of a write or an append.
pub(super) enum Content {
    Bytes(Vec<u8>),
    /// A file of this machine.
    File(PathBuf),
}

impl Line {
    /// Takes the content out, decoded, with the path that it is for: of a write or an append exactly one of
    /// its three forms.
    pub(super) fn take_content(&mut self) -> Result<Option<(String, Content)>, String> {
        let (Self::Write { path, text, base64, file, .. } | Self::Append { path, text, base64, file, .. }) =
            self
        else {
            return Ok(None);
        };
        let content = match (text.take(), base64.take(), file.take()) {
            (Some(text), None, None) => Content::Bytes(text.into_bytes()),
            (None, Some(base64), None) => match STANDARD.decode(base64) {
                Ok(bytes) => Content::Bytes(bytes),
                Err(error) => return Err(format!("base64: {error}")),
            },
            (None, None, Some(file)) => Content::File(file),
            _ => return Err("give the content as one of text, base64 and file".into()),
        };
        Ok(Some((path.clone(), content)))
    }
}

/// Attributes to set; a field that is left out stays as it is.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Attrs {
    #[serde(deserialize_with = "mode")]
    mode: Option<u32>,
    uid: Option<u32>,
    gid: Option<u32>,
    #[serde(deserialize_with = "time")]
    mtime: Option<Timestamp>,
    #[serde(deserialize_with = "nullable")]
    content_type: Option<Option<String>>,
    tags: Option<Vec<String>>,
    importance: Option<f64>,
    #[serde(deserialize_with = "nullable")]
    searchable: Option<Option<bool>>,
    metadata: BTreeMap<String, Option<String>>,
    #[serde(deserialize_with = "ttl")]
    ttl: Option<Option<i64>>,
}

impl Attrs {
    /// As the library takes them; a time to live counts from `now`.
    pub(super) fn resolve(&self, now: Timestamp) -> SetAttrs {
        SetAttrs {
            mode: self.mode,
            uid: self.uid,
            gid: self.gid,
            mtime: self.mtime,
            content_type: self.content_type.clone(),
            tags: self.tags.clone(),
            importance: self.importance,
            searchable: self.searchable,
            metadata: self.metadata.clone(),
            expires_at: self.ttl.map(|ttl| ttl.map(|seconds| now.plus_seconds(seconds))),
            ..SetAttrs::default()
        }
    }
}

/// A field that is there: `null` clears what it names.
fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(from).map(Some)
}

fn mode<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    parse_mode(&String::deserialize(from)?)
        .map(Some)
        .map_err(|why| serde::de::Error::custom(format!("mode: {why}")))
}

fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
    Timestamp::parse_rfc3339(&String::deserialize(from)?).map(Some).map_err(serde::de::Error::custom)
}

fn ttl<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Option<i64>>, D::Error> {
    let Some(text) = Option::<String>::deserialize(from)? else { return Ok(Some(None)) };
    let seconds = parse_ttl(&text).map_err(|why| serde::de::Error::custom(format!("ttl: {why}")))?;
    Ok(Some(Some(seconds)))
}
