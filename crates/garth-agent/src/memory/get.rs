//! Reads a memory by layer.

use serde_json::Value;

use super::event::{Event, EventType};
use super::file_names::{ABSTRACT, META, OVERVIEW};
use super::meta::{Meta, Status};
use super::state::{read_all, text_of};
use super::uri::Uri;
use super::{Memories, damaged, missing};
use crate::boxed;
use crate::registry::projections;
use crate::small_file::unreadable;
use garth_engine::error::{Advice, Error, ErrorKind, Result};
use garth_engine::fs::FileSystemExt;
use garth_engine::model::{FindQuery, VersionId};

/// Layer of a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// L0: a sentence.
    Abstract,
    /// L1: an outline.
    Overview,
    /// L2: the complete text.
    Content,
}

impl Level {
    /// Returns the number: 0, 1 or 2.
    pub const fn number(self) -> u8 {
        match self {
            Self::Abstract => 0,
            Self::Overview => 1,
            Self::Content => 2,
        }
    }

    /// Returns the layer with a number.
    ///
    /// # Errors
    /// `InvalidArgument` for any number but 0, 1 and 2.
    pub fn of(number: u8) -> Result<Self> {
        match number {
            0 => Ok(Self::Abstract),
            1 => Ok(Self::Overview),
            2 => Ok(Self::Content),
            _ => Err(Error::invalid("a layer is 0 (abstract), 1 (overview) or 2 (content)")),
        }
    }

    /// Returns the name of the layer's file.
    pub fn file(self, uri: &Uri) -> &'static str {
        match self {
            Self::Abstract => ABSTRACT,
            Self::Overview => OVERVIEW,
            Self::Content => text_of(uri),
        }
    }
}

/// One layer of a memory.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Memory {
    /// Meta.
    pub meta: Meta,
    /// Layer.
    pub level: Level,
    /// Text; without the final line feed of an abstract or overview.
    pub text: String,
    /// Version of the file from which the text was read.
    pub version: VersionId,
}

impl Memories<'_> {
    /// Returns a memory.
    ///
    /// # Errors
    /// - `InvalidArgument`: the category is unknown.
    /// - `AccessDenied`: the URI is of another account.
    /// - `NotFound`: no such memory exists, or it is incomplete.
    /// - `TooLarge`: the text exceeds the limit of memories. Read the file instead.
    /// - Errors of the filesystem.
    #[boxed]
    pub async fn get(&self, uri: &Uri, level: Level) -> Result<Memory> {
        self.check(uri)?;
        match self.read(uri, level).await? {
            Some(memory) => Ok(memory),
            None => Err(self.missing(uri).await),
        }
    }

    /// Returns a memory; `None` if it does not exist or is incomplete.
    pub(super) async fn read(&self, uri: &Uri, level: Level) -> Result<Option<Memory>> {
        // One read, so that meta and text belong to one commit.
        let [meta, text] = read_all(self.fs, &[META, level.file(uri)].map(|name| uri.file(name))).await?;
        let meta = meta.and_then(|file| Meta::parse(file.bytes.as_ref()?).ok());
        let meta = meta.filter(|meta| meta.status == Status::Active);
        let (Some(meta), Some(file)) = (meta, text) else { return Ok(None) };
        let version = file.etag;
        let Some(bytes) = file.bytes else {
            let message =
                format!("{uri}: its text is longer than a memory's; read {}", uri.file(level.file(uri)));
            return Err(Error::new(ErrorKind::TooLarge, message));
        };
        let how = "write it as UTF-8, or put the memory again";
        let no_text = |_| unreadable(&uri.file(level.file(uri)), "it is no UTF-8", how);
        let mut text = String::from_utf8(bytes).map_err(no_text)?;
        if level != Level::Content && text.ends_with('\n') {
            text.pop();
        }
        Ok(Some(Memory { meta, level, text, version }))
    }

    /// Returns true if a complete memory exists.
    ///
    /// # Errors
    /// `InvalidArgument`; `AccessDenied` for the URI of another account; from the filesystem.
    #[boxed]
    pub async fn exists(&self, uri: &Uri) -> Result<bool> {
        self.check_place(uri)?;
        let [meta] = read_all(self.fs, &[uri.file(META)]).await?;
        // Only the status decides, so that other readers of the directory reach the same result.
        let meta = meta.and_then(|file| serde_json::from_slice::<Value>(file.bytes.as_ref()?).ok());
        let status = meta.as_ref().and_then(|meta| meta.get("status")).and_then(Value::as_str);
        Ok(status == Some(Status::Active.as_str()))
    }

    /// Returns the reason why a memory does not exist: for a moved one, its new URI while edges with the old
    /// one remain.
    pub(super) async fn missing(&self, uri: &Uri) -> Error {
        let [meta] = match read_all(self.fs, &[uri.file(META)]).await {
            Ok(meta) => meta,
            Err(error) => return error,
        };
        if let Some(error) = damaged(uri, meta.as_ref()) {
            return error;
        }
        // With a meta that is not pending, the memory was complete once, and other files of it are missing.
        let is_active = |file: &super::state::File| {
            file.bytes
                .as_deref()
                .is_some_and(|bytes| Meta::parse(bytes).is_ok_and(|meta| meta.status != Status::Pending))
        };
        if meta.as_ref().is_some_and(is_active) {
            let message = format!("{uri}: files of the memory are missing");
            let advice = "`garth repair` completes it, or says why not";
            return Error::new(ErrorKind::NotFound, message).advising(Advice::Command, advice);
        }
        match self.moved(uri).await {
            Ok(Some(new)) => Error::new(ErrorKind::NotFound, format!("{uri}: MOVED to {new}")),
            Ok(None) => missing(uri),
            Err(error) => error,
        }
    }

    /// Returns the new URI of a memory whose move is not finished everywhere.
    async fn moved(&self, uri: &Uri) -> Result<Option<String>> {
        // A path outside the caller's reach is never revealed, even if the account's outbox contains it.
        let is_reached =
            |uri: &Uri| self.tops.as_ref().is_none_or(|tops| tops.iter().any(|top| uri.dir().is_within(top)));
        if !self.fs.capabilities(&uri.dir()).find || !is_reached(uri) {
            return Ok(None);
        }
        let query = FindQuery::new(projections::EVENT_MEMORY).equal(&uri.to_string()).limit(16);
        for item in self.fs.find(&query).await?.items {
            let event = self.fs.read_file(&item.path).await.ok();
            let event = event.and_then(|bytes| Event::parse(&bytes).ok());
            let is_move =
                |event: &Event| event.event_type == EventType::MoveContext && event.uri == uri.to_string();
            let new = event.filter(is_move).and_then(|event| event.payload.new_uri);
            if let Some(new) = new.filter(|new| new.parse().is_ok_and(|new| is_reached(&new))) {
                return Ok(Some(new));
            }
        }
        Ok(None)
    }
}
