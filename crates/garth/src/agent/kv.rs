//! The key-value API of the agents, over any [`FileSystem`]: what it keeps are plain files, so that every
//! other interface sees, versions and restores them.
//!
//! The value of key `/a/b` of agent `x` is the file `/agents/x/kv/a/b.json`; its content is the JSON text exactly as
//! given. `/a` and `/a/b` can both have values (`a.json` beside `a/`). What cannot be is `/a` beside `/a.json/b`.
//!
//! # Key paths
//! A key path starts with `/` and has at most [`MAX_KEY_CHARS`] characters and [`MAX_KEY_SEGMENTS`] segments as given. Then
//! `//` is folded and a trailing `/` dropped. `.`, `..`, NUL and segments over [`MAX_KEY_SEGMENT`] bytes are refused. Nothing
//! is below `/sys`, which cannot be put. Patterns follow the same rules, with [`Semantics`] for `*`, `**` and `?`.
//!
//! # What other interfaces put under `kv/`
//! Only regular files that end in `.json` hold values. One that is not valid JSON or is over [`MAX_VALUE`] bytes is listed,
//! but has no value: `get` finds nothing, `history` and `search` leave it out. Links are not followed.
//!
//! # Pages
//! `list`, `glob`, `history` and `search` answer in pages ([`PageRequest`], [`Paged`]), bounded in items and bytes: what
//! does not fit is reached with the cursor of the page before. Each page is read at its own moment.

mod error;
mod glob;
mod key;
mod page;
mod pattern;
mod read;
mod scan;

use bytes::Bytes;
use serde_json::value::RawValue;

pub use self::error::{KvCode, KvError, KvResult};
pub use self::key::{MAX_KEY_CHARS, MAX_KEY_SEGMENT, MAX_KEY_SEGMENTS};
pub use self::page::{MAX_PAGE_VALUES, PageRequest, Paged};
pub use self::pattern::Semantics;
pub use self::read::{
    DEFAULT_HISTORY, DEFAULT_HITS, Found, MAX_HISTORY, MAX_HITS, MAX_QUERY_CHARS, Match, Past, Search,
};
pub use self::scan::{KeyItem, KeyKind, MAX_LISTED};

use self::key::{Base, Key};
use crate::error::{Error, ErrorKind};
use crate::fs::FileSystem;
use crate::model::{
    At, Author, Batch, Body, Commit, Create, Idempotency, Kind, Op, Page, Remove, SetAttrs, Timestamp,
    VersionId, WalkPage,
};
use crate::path::TreePath;

/// Largest value, in bytes of its text: the largest request of the HTTP interface.
pub const MAX_VALUE: usize = 1 << 20;
/// The agent of requests that name none.
pub const DEFAULT_AGENT: &str = "default";

/// How often a write that lost a race for a directory looks again.
const TRIES: usize = 8;
/// Most empty directories that a put clears out of its way.
const MAX_CLEARED: usize = 1000;

/// The keys and values of one agent.
#[derive(Clone, Debug)]
pub struct Kv<'a> {
    fs: &'a dyn FileSystem,
    base: Base,
    author: Author,
}

/// A value to keep.
#[derive(Clone, Debug)]
pub struct Put<'a> {
    /// The key path.
    pub path: &'a str,
    /// The value; kept and given back digit for digit.
    pub value: &'a RawValue,
    /// Labels.
    pub tags: Vec<String>,
    /// Weight; finite. 0 if nobody says otherwise.
    pub importance: f64,
    /// Whether search sees it.
    pub searchable: bool,
    /// From this moment on it is absent.
    pub expires_at: Option<Timestamp>,
}

/// What a put or delete did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// The version that it made.
    pub version: VersionId,
    /// The time of the commit.
    pub created_at: Timestamp,
}

impl<'a> Kv<'a> {
    /// The values of `agent` (see [`crate::path::check_id`]) in `fs`, written in the name of API key `key`.
    ///
    /// # Errors
    /// `Validation` for an agent id that is none.
    pub fn new(fs: &'a dyn FileSystem, agent: &str, key: Option<&str>) -> KvResult<Self> {
        let base = Base::of(agent)?;
        let author = Author { key: key.map(str::to_owned), agent: Some(agent.to_owned()), session: None };
        Ok(Self { fs, base, author })
    }

    /// Keeps a value, in one durable commit. Labels, weight, `searchable` and expiry are all set anew.
    ///
    /// # Errors
    /// `InvalidPath`, `ReservedPath`, `TooLarge`, `PathConflict`, `Validation` for labels that exceed what a file
    /// can carry, `IdempotencyMismatch`; those of the filesystem.
    pub async fn put(&self, put: &Put<'_>, idempotency: Option<Idempotency>) -> KvResult<Written> {
        let key = Key::parse_value(put.path)?;
        if key.is_reserved() {
            return Err(KvError::new(
                KvCode::ReservedPath,
                "`/sys` and what is below it is kept for the system",
            ));
        }
        let value = put.value.get();
        if value.len() > MAX_VALUE {
            return Err(KvError::new(KvCode::TooLarge, format!("a value has at most {MAX_VALUE} bytes")));
        }
        let file = self.base.file(&key)?;
        let write = Op::Write {
            at: At::Path(file.clone()),
            body: Body::Bytes(Bytes::copy_from_slice(value.as_bytes())),
            create: Create::IfMissing,
            parents: true,
            attrs: SetAttrs {
                content_type: Some(Some("application/json".into())),
                tags: Some(put.tags.clone()),
                importance: Some(put.importance),
                searchable: Some(Some(put.searchable)),
                expires_at: Some(put.expires_at),
                ..SetAttrs::default()
            },
        };
        let mut ops = Vec::new();
        for _ in 0..TRIES {
            ops.push(write.clone());
            match self.commit(std::mem::take(&mut ops), idempotency.as_ref()).await {
                Ok(commit) => return Ok(written(&commit, commit.outcomes.len().saturating_sub(1))),
                Err(error) if error.is(ErrorKind::IsADirectory) || error.is(ErrorKind::NotEmpty) => {
                    // Directories without anything in them (their values expired) are not in the way.
                    match self.clear(&file).await? {
                        Some(removals) => ops = removals,
                        None => return Err(self.in_the_way(&file, true, error)),
                    }
                }
                Err(error) => return Err(self.refused(error)),
            }
        }
        Err(KvError::new(KvCode::PathConflict, "what is below this key changes all the time; try again"))
    }

    /// Ends a value, if it is there, and removes the directories that this leaves empty: in any case one durable commit.
    ///
    /// # Errors
    /// `InvalidPath`, `IdempotencyMismatch`; those of the filesystem.
    pub async fn delete(&self, path: &str, idempotency: Option<Idempotency>) -> KvResult<Written> {
        let file = self.base.file(&Key::parse_value(path)?)?;
        let removal = Op::Remove { at: At::Path(file.clone()), what: Remove::File, missing_ok: true };
        for left in (0..TRIES).rev() {
            let mut ops = vec![removal.clone()];
            if left > 0 {
                ops.extend(self.emptied_parents(&file).await?.into_iter().map(remove_directory));
            }
            match self.commit(ops, idempotency.as_ref()).await {
                Ok(commit) => return Ok(written(&commit, 0)),
                // Somebody put something there in between. Look again; in the end leave the directories be.
                Err(error) if error.is(ErrorKind::NotEmpty) || error.is(ErrorKind::NotADirectory) => {}
                // Keys below `/a.json` stand where the value of `/a` would: there is no value to end.
                Err(error) if error.is(ErrorKind::IsADirectory) => {
                    let nothing = self.commit(Vec::new(), idempotency.as_ref()).await;
                    return nothing.map(|commit| written(&commit, 0)).map_err(|error| self.refused(error));
                }
                Err(error) => return Err(self.refused(error)),
            }
        }
        Err(KvError::new(KvCode::PathConflict, "what is around this key changes all the time; try again"))
    }

    async fn commit(&self, ops: Vec<Op>, idempotency: Option<&Idempotency>) -> Result<Commit, Error> {
        let batch =
            Batch { author: self.author.clone(), idempotency: idempotency.cloned(), ..Batch::new(ops) };
        self.fs.commit(batch).await
    }

    /// The directories below `kv/` that have nothing in them but the way to `file`, deepest first.
    async fn emptied_parents(&self, file: &TreePath) -> KvResult<Vec<TreePath>> {
        let mut emptied = Vec::new();
        let mut below = file.clone();
        while let Some((dir, name)) = below.split()
            && dir != *self.base.path()
        {
            let page = Page { after: None, limit: 2, entries: false };
            match self.fs.list(&At::Path(dir.clone()), &page).await {
                Ok(listing) if listing.items.iter().any(|item| item.name != name) => break,
                Ok(_) => emptied.push(dir.clone()),
                Err(error) if is_missing(&error) => {}
                Err(error) => return Err(error.into()),
            }
            below = dir;
        }
        Ok(emptied)
    }

    /// What removes the directory at `path`, if there are only directories below it; deepest first.
    async fn clear(&self, path: &TreePath) -> KvResult<Option<Vec<Op>>> {
        let page = WalkPage { after: None, limit: MAX_CLEARED, entries: false };
        let walk = match self.fs.walk(&At::Path(path.clone()), &page).await {
            Ok(walk) => walk,
            Err(error) if is_missing(&error) => return Ok(Some(Vec::new())),
            Err(error) => return Err(error.into()),
        };
        if walk.more || walk.items.iter().any(|item| item.kind != Kind::Directory) {
            return Ok(None);
        }
        // A walk gives a directory before what is in it.
        let below = walk.items.into_iter().rev().map(|item| item.path);
        Ok(Some(below.chain([path.clone()]).map(remove_directory).collect()))
    }

    fn refused(&self, error: Error) -> KvError {
        match (error.kind(), error.path().cloned()) {
            (ErrorKind::NotADirectory | ErrorKind::NotPermitted, Some(path)) => {
                self.in_the_way(&path, false, error)
            }
            (ErrorKind::IdempotencyMismatch, _) => KvError::caused(
                KvCode::IdempotencyMismatch,
                "this idempotency key was used with another request; use a new one",
                error,
            ),
            (ErrorKind::TooLarge, _) => {
                let message = format!("the tags are too long: {}", error.message());
                KvError::caused(KvCode::Validation, message, error)
            }
            _ => error.into(),
        }
    }

    fn in_the_way(&self, path: &TreePath, is_directory: bool, error: Error) -> KvError {
        let message = match self.base.shown(path, is_directory) {
            Some(shown) => format!("`{shown}` is in the way of this key"),
            None => "something else stands where the keys of this agent have to go".into(),
        };
        KvError::caused(KvCode::PathConflict, message, error)
    }
}

fn remove_directory(path: TreePath) -> Op {
    Op::Remove { at: At::Path(path), what: Remove::Directory, missing_ok: true }
}

fn written(commit: &Commit, op: usize) -> Written {
    Written { version: commit.version(op), created_at: commit.time }
}

/// Whether a lookup found nothing by that name.
fn is_missing(error: &Error) -> bool {
    error.is(ErrorKind::NotFound) || error.is(ErrorKind::NotADirectory)
}
