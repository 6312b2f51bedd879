//! Writes values: puts of one or several keys in one commit, conditions, removal.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use serde_json::value::RawValue;

use super::error::{KvCode, KvError, KvResult};
use super::key::Key;
use super::{Kv, MAX_VALUE};
use crate::boxed;
use crate::retry::{ATTEMPTS, ATTEMPTS_AT_NAMES, yield_now};
use garth_engine::error::{Error, ErrorKind, OptionalExt as _};
use garth_engine::model::{
    At, Batch, Body, Commit, Create, Idempotency, Kind, MAX_INLINE_BODY, Op, Page, Precondition, SetAttrs,
    Timestamp, VersionId, WalkPage, Within,
};
use garth_engine::path::TreePath;

/// Limit on the values of one [`Kv::put_all`].
pub const MAX_PUTS: usize = 1000;
/// Limit on the labels of a value.
pub const MAX_TAGS: usize = 64;
/// Limit on the characters of a label of a value.
pub const MAX_TAG_CHARS: usize = 64;
/// Limit on the empty directories that a put clears out of its way.
const MAX_CLEARED: usize = 1000;

/// Value to put. Start from [`Put::new`] and set the options.
#[derive(Clone, Debug)]
pub struct Put<'a> {
    /// Key path.
    #[doc(hidden)]
    pub path: &'a str,
    /// Value; stored and returned digit for digit.
    #[doc(hidden)]
    pub value: &'a RawValue,
    /// Labels, at most [`MAX_TAGS`] of at most [`MAX_TAG_CHARS`] characters. `None` leaves them as they are;
    /// a new key has none.
    #[doc(hidden)]
    pub tags: Option<Vec<String>>,
    /// Weight, 0 to 1. `None` leaves it as it is; a new key has 0.
    #[doc(hidden)]
    pub importance: Option<f64>,
    /// True if search shall find the value. `None` leaves it as it is; a new key is not found.
    #[doc(hidden)]
    pub searchable: Option<bool>,
    /// Expiry time, from which on the value is absent; `Some(None)` is never. `None` leaves it as it is; a
    /// new key does not expire.
    #[doc(hidden)]
    pub expires_at: Option<Option<Timestamp>>,
    /// Precondition on the key.
    #[doc(hidden)]
    pub condition: Condition,
}

/// Condition on the key of a write. If it does not hold, the write fails with `FileSystem(Conflict)` and a
/// message about the current state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// No condition.
    #[default]
    Any,
    /// The key has no value.
    Absent,
    /// The value is still at this version.
    Version(VersionId),
}

/// Result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Version that the write created.
    pub version: VersionId,
    /// Time of the commit.
    pub created_at: Timestamp,
}

impl<'a> Put<'a> {
    /// Returns a put that replaces or creates the value of a key and leaves its attributes as they are.
    pub const fn new(path: &'a str, value: &'a RawValue) -> Self {
        let (tags, importance, searchable, expires_at) = (None, None, None, None);
        Self { path, value, tags, importance, searchable, expires_at, condition: Condition::Any }
    }

    /// Returns a put as [`Put::new`], but with the default attributes of a new key.
    pub fn anew(path: &'a str, value: &'a RawValue) -> Self {
        Self {
            tags: Some(Vec::new()),
            importance: Some(0.0),
            searchable: Some(false),
            expires_at: Some(None),
            ..Self::new(path, value)
        }
    }

    /// Sets the labels.
    #[must_use]
    pub fn tags(self, tags: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { tags: Some(tags.into_iter().map(Into::into).collect()), ..self }
    }

    /// Sets the weight, 0 to 1.
    #[must_use]
    pub fn importance(self, importance: f64) -> Self {
        Self { importance: Some(importance), ..self }
    }

    /// Sets if search finds the value.
    #[must_use]
    pub fn searchable(self, searchable: bool) -> Self {
        Self { searchable: Some(searchable), ..self }
    }

    /// Sets the time from which on the value is absent; `None` removes it.
    #[must_use]
    pub fn expires_at(self, time: Option<Timestamp>) -> Self {
        Self { expires_at: Some(time), ..self }
    }

    /// Sets the condition on the key.
    #[must_use]
    pub fn condition(self, condition: Condition) -> Self {
        Self { condition, ..self }
    }

    fn attributes(&self) -> SetAttrs {
        SetAttrs {
            content_type: Some(Some("application/json".into())),
            tags: self.tags.clone(),
            importance: self.importance,
            searchable: self.searchable.map(Some),
            expires_at: self.expires_at,
            ..SetAttrs::default()
        }
    }
}

impl Kv<'_> {
    /// Puts a value in one durable commit.
    ///
    /// # Errors
    /// As for [`Kv::put_all`].
    #[boxed]
    pub async fn put(&self, put: &Put<'_>, idempotency: Option<Idempotency>) -> KvResult<Written> {
        let written = self.put_all(std::slice::from_ref(put), idempotency).await?;
        written.first().copied().ok_or_else(|| KvError::validation("a put needs at least one value"))
    }

    /// Puts 1 to [`MAX_PUTS`] values in one durable commit: all of them or none.
    ///
    /// # Errors
    /// - `InvalidPath`, `ReservedPath`: a key is invalid or reserved.
    /// - `TooLarge`: a value is too large, or all are more than 16 MiB together.
    /// - `PathConflict`: another file or directory occupies the place of a value, also that of another put.
    /// - `Validation`: the labels, the weight or the number of puts is out of range, or a key is given twice.
    /// - `IdempotencyMismatch`: the idempotency key was used for another request.
    /// - `FileSystem(Conflict)`: a condition does not hold.
    /// - Errors of the filesystem.
    #[boxed]
    pub async fn put_all(
        &self,
        puts: &[Put<'_>],
        idempotency: Option<Idempotency>,
    ) -> KvResult<Vec<Written>> {
        let commit = self.commit_puts(puts, idempotency.as_ref()).await?;
        // A replayed commit can have cleared another number of directories first, so outcomes are counted
        // from the end.
        let first = commit.outcomes.len().saturating_sub(puts.len());
        Ok((first..commit.outcomes.len()).map(|op| written(&commit, op)).collect())
    }

    /// Puts values as [`Kv::put_all`] does, and returns the commit, whose last outcomes are those of `puts`.
    pub(super) async fn commit_puts(
        &self,
        puts: &[Put<'_>],
        idempotency: Option<&Idempotency>,
    ) -> KvResult<Commit> {
        let files = self.files_of(puts)?;
        // Empty directories (their values expired) to remove first.
        let mut cleared = BTreeMap::new();
        // Each failed attempt is one in which another writer has created or removed a value.
        for _ in 0..ATTEMPTS {
            let mut ops: Vec<Op> = cleared.values().flatten().cloned().collect();
            let mut preconditions = Vec::new();
            for (put, file) in puts.iter().zip(&files) {
                // Built again on each attempt: whether a key is new may have changed.
                ops.push(self.write_of(put, file).await?);
                if let Condition::Version(version) = put.condition {
                    preconditions.push((At::Path(file.clone()), Precondition::Version(version)));
                }
            }
            let error = match self.commit(ops, preconditions, idempotency).await {
                Ok(commit) => return Ok(commit),
                Err(error) => error,
            };
            if error.is(ErrorKind::NotFound) {
                for (put, file) in puts.iter().zip(&files) {
                    self.check_reach(put, file).await.map_err(|error| error.about(put.path))?;
                }
            }
            // The error names a path of the tree. It belongs to the put whose file is at or above that path;
            // other paths cannot be cleared.
            let at = error.path().and_then(|path| files.iter().position(|file| path.is_within(file)));
            let Some((at, put, file)) = at.and_then(|at| Some((at, puts.get(at)?, files.get(at)?))) else {
                let below = error.path().and_then(|path| files.iter().position(|file| file.is_within(path)));
                let refused = self.refused(error);
                return Err(match below.and_then(|at| puts.get(at)) {
                    Some(put) => refused.about(put.path),
                    None => refused,
                });
            };
            let cleared_here = self.make_way(put, file, error).await;
            cleared.insert(at, cleared_here.map_err(|error| error.about(put.path))?);
            yield_now().await;
        }
        Err(KvError::new(
            KvCode::PathConflict,
            "other writers keep changing the paths of these keys; try again",
        ))
    }

    /// Removes a value, if it exists, and the directories that this leaves empty, in one durable commit. It
    /// commits even if there is nothing to remove.
    ///
    /// # Errors
    /// `InvalidPath`, `IdempotencyMismatch`; errors of the filesystem.
    #[boxed]
    pub async fn delete(&self, path: &str, idempotency: Option<Idempotency>) -> KvResult<Written> {
        self.delete_if(path, Condition::Any, idempotency).await
    }

    /// Removes a value as [`Kv::delete`] does, if a condition on the key holds.
    ///
    /// # Errors
    /// As for [`Kv::delete`]; `FileSystem(Conflict)` if the condition does not hold.
    #[boxed]
    pub async fn delete_if(
        &self,
        path: &str,
        condition: Condition,
        idempotency: Option<Idempotency>,
    ) -> KvResult<Written> {
        let file = self.base.file(&Key::parse_value(path)?)?;
        let precondition = match condition {
            Condition::Any => None,
            Condition::Absent => Some(Precondition::Absent),
            Condition::Version(version) => Some(Precondition::Version(version)),
        };
        let preconditions: Vec<_> =
            precondition.into_iter().map(|that| (At::Path(file.clone()), that)).collect();
        let removal = Op::remove_file(file.clone()).if_exists();
        for left in (0..ATTEMPTS_AT_NAMES).rev() {
            let mut ops = vec![removal.clone()];
            if left > 0 {
                ops.extend(self.emptied_parents(&file).await?.into_iter().map(remove_directory));
            }
            match self.commit(ops, preconditions.clone(), idempotency.as_ref()).await {
                Ok(commit) => return Ok(written(&commit, 0)),
                Err(error) if error.is(ErrorKind::Conflict) && condition != Condition::Any => {
                    return Err(self.condition_failed(path, condition, &file, error).await);
                }
                // Another client wrote there in between. Look again; the last attempt leaves the
                // directories.
                Err(error) if error.is(ErrorKind::NotEmpty) || error.is(ErrorKind::NotADirectory) => {}
                // `/a.json` holds keys, so `/a` has no value to remove. The empty commit records the
                // idempotency key.
                Err(error) if error.is(ErrorKind::IsADirectory) => {
                    let nothing = self.commit(Vec::new(), preconditions, idempotency.as_ref()).await;
                    return nothing.map(|commit| written(&commit, 0)).map_err(|error| self.refused(error));
                }
                Err(error) => return Err(self.refused(error)),
            }
        }
        Err(KvError::new(
            KvCode::PathConflict,
            "other writers keep changing the directories of this key; try again",
        ))
    }

    pub(super) async fn commit(
        &self,
        ops: Vec<Op>,
        preconditions: Vec<(At, Precondition)>,
        idempotency: Option<&Idempotency>,
    ) -> Result<Commit, Error> {
        let (author, idempotency) = (self.author.clone(), idempotency.cloned());
        self.fs.commit(Batch { preconditions, author, idempotency, ..Batch::new(ops) }).await
    }

    /// Returns the operations that clear the way for the next attempt of a put that failed at its file.
    /// Returns the error if no attempt can succeed.
    async fn make_way(&self, put: &Put<'_>, file: &TreePath, error: Error) -> KvResult<Vec<Op>> {
        let is_directory = self.kind_of(file).await? == Some(Kind::Directory);
        match error.kind() {
            // Values that expired leave their directories, which can be in the way of a value's file.
            ErrorKind::IsADirectory | ErrorKind::NotEmpty | ErrorKind::AlreadyExists if is_directory => {
                self.clear(file).await?.ok_or_else(|| self.in_the_way(file, true, error))
            }
            ErrorKind::Conflict => Err(self.condition_failed(put.path, put.condition, file, error).await),
            ErrorKind::AlreadyExists if put.condition == Condition::Absent => {
                Err(self.condition_failed(put.path, put.condition, file, error).await)
            }
            // The path changed after it was read; the next attempt reads it again.
            ErrorKind::AlreadyExists
            | ErrorKind::NotFound
            | ErrorKind::IsADirectory
            | ErrorKind::NotEmpty => Ok(Vec::new()),
            _ => Err(self.refused(error)),
        }
    }

    /// Refuses a put that a confined handle does not reach. Missing parents are created, so nothing else that
    /// a put needs is missing twice.
    async fn check_reach(&self, put: &Put<'_>, file: &TreePath) -> KvResult<()> {
        let refused = |kind, why: String| Err(KvError::new(KvCode::FileSystem(kind), why));
        let Some(within) = self.own_reach(file) else { return Ok(()) };
        let Some(top) = within.top_of(file) else {
            let why = "the caller does not reach this key; the owner of the agent can open it with `shared` \
                       in the agent's `settings.json`, such as {\"shared\":{\"kv\":\"write\"}}";
            return refused(ErrorKind::AccessDenied, why.to_owned());
        };
        // The top of a confined handle cannot be created through it.
        if !top.is_root() && self.kind_of(top).await?.is_none() {
            let why = "the directory that the caller reaches does not exist; create it first";
            return refused(ErrorKind::NotFound, format!("`{}`: {why}", put.path));
        }
        Ok(())
    }

    /// Returns the paths that the handle reaches; `None` for a view such as an overlay, whose store has other
    /// paths.
    fn own_reach(&self, file: &TreePath) -> Option<Within> {
        let lowering = self.fs.view_base().lowering();
        let home = lowering.home();
        (lowering.raise(home.id, file).as_ref() == Some(file)).then_some(home.within)
    }

    /// Checks the puts of one commit and returns the files of their values.
    fn files_of(&self, puts: &[Put<'_>]) -> KvResult<Vec<TreePath>> {
        let file_of = |put: &Put<'_>| self.file_of(put).map_err(|error| error.about(put.path));
        let files = puts.iter().map(file_of).collect::<KvResult<Vec<_>>>()?;
        if !(1..=MAX_PUTS).contains(&files.len()) {
            return Err(KvError::validation(format!("one commit takes 1 to {MAX_PUTS} values")));
        }
        let mut seen = BTreeSet::new();
        if let Some((put, _)) = puts.iter().zip(&files).find(|(_, file)| !seen.insert(*file)) {
            return Err(KvError::validation("a key is given twice; give each key once").about(put.path));
        }
        check_apart(puts, &files)?;
        if puts.iter().map(|put| put.value.get().len()).sum::<usize>() > MAX_INLINE_BODY {
            let message = format!("the values of one commit have at most {MAX_INLINE_BODY} bytes together");
            return Err(KvError::new(KvCode::TooLarge, message));
        }
        Ok(files)
    }

    /// Checks a put and returns the file of its value.
    fn file_of(&self, put: &Put<'_>) -> KvResult<TreePath> {
        let key = Key::parse_value(put.path)?;
        if key.is_reserved() {
            let message = "`/sys` and the keys below it are reserved";
            return Err(KvError::new(KvCode::ReservedPath, message));
        }
        if put.value.get().len() > MAX_VALUE {
            return Err(KvError::new(KvCode::TooLarge, format!("a value has at most {MAX_VALUE} bytes")));
        }
        check_labels(put)?;
        self.base.file(&key)
    }

    async fn write_of(&self, put: &Put<'_>, file: &TreePath) -> KvResult<Op> {
        let mut attrs = put.attributes();
        let mut create = Create::IfMissing;
        if put.searchable.is_none() {
            // A new file is searchable by default, a new key is not, so the write has to know if the key is
            // new. `create` makes the commit fail if that changes in between.
            match self.kind_of(file).await? {
                Some(Kind::File) => create = Create::Never,
                Some(_) => {}
                None => (create, attrs.searchable) = (Create::New, Some(Some(false))),
            }
        }
        if put.condition == Condition::Absent {
            (create, attrs.searchable) = (Create::New, Some(Some(put.searchable.unwrap_or_default())));
        }
        let body = Body::Bytes(Bytes::copy_from_slice(put.value.get().as_bytes()));
        Ok(Op::Write { at: At::Path(file.clone()), body, create, parents: true, attrs })
    }

    /// Returns the error of a condition that does not hold, with the current state.
    async fn condition_failed(
        &self,
        key: &str,
        condition: Condition,
        file: &TreePath,
        error: Error,
    ) -> KvError {
        let there = match self.fs.stat(&At::Path(file.clone())).await {
            Ok(entry) => format!("it is at version {}", entry.version),
            Err(_) => "it has no value".to_owned(),
        };
        let message = match condition {
            Condition::Version(version) => format!("`{key}` is not at version {version}: {there}"),
            Condition::Absent | Condition::Any => format!("`{key}` has a value already: {there}"),
        };
        KvError::caused(KvCode::FileSystem(ErrorKind::Conflict), message, error)
    }

    /// Returns the directories below `kv/` that contain nothing but the path to `file`, deepest first.
    async fn emptied_parents(&self, file: &TreePath) -> KvResult<Vec<TreePath>> {
        let mut emptied = Vec::new();
        let mut below = file.clone();
        while let Some((dir, name)) = below.split()
            && dir != *self.base.path()
        {
            let page = Page::default().limit(2);
            // Two names are enough: a second one shows that the directory is not empty without `file`.
            match self.fs.list(&At::Path(dir.clone()), &page).await.optional()? {
                Some(listing) if listing.items.iter().any(|item| item.name != name) => break,
                Some(_) => emptied.push(dir.clone()),
                None => {}
            }
            below = dir;
        }
        Ok(emptied)
    }

    /// Returns the removal of the directory at `path`, deepest first; `None` if anything but directories is
    /// below it.
    async fn clear(&self, path: &TreePath) -> KvResult<Option<Vec<Op>>> {
        let page = WalkPage::default().limit(MAX_CLEARED);
        let Some(walk) = self.fs.walk(&path.into(), &page).await.optional()? else {
            return Ok(Some(Vec::new()));
        };
        if walk.more || walk.items.iter().any(|item| item.kind != Kind::Directory) {
            return Ok(None);
        }
        // A walk returns a directory before its entries, and only empty directories can be removed.
        let below = walk.items.into_iter().rev().map(|item| item.path);
        Ok(Some(below.chain([path.clone()]).map(remove_directory).collect()))
    }

    pub(super) fn refused(&self, error: Error) -> KvError {
        match (error.kind(), error.path().cloned()) {
            (ErrorKind::NotADirectory | ErrorKind::NotPermitted, Some(path)) => {
                self.in_the_way(&path, false, error)
            }
            (ErrorKind::IdempotencyMismatch, _) => KvError::caused(
                KvCode::IdempotencyMismatch,
                "this idempotency key was used with another request; use a new one",
                error,
            ),
            // Values are checked before, so only attributes can be too large here.
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
            None => "another file occupies the directory of this agent's keys".into(),
        };
        KvError::caused(KvCode::PathConflict, message, error)
    }
}

/// Checks the labels and the weight of a put.
fn check_labels(put: &Put<'_>) -> KvResult<()> {
    let tags = put.tags.as_deref().unwrap_or_default();
    if tags.len() > MAX_TAGS || tags.iter().any(|tag| tag.chars().count() > MAX_TAG_CHARS) {
        let message = format!(
            "a value has at most {MAX_TAGS} tags of at most {MAX_TAG_CHARS} characters; give fewer or shorter \
             ones"
        );
        return Err(KvError::validation(message));
    }
    if put.importance.is_some_and(|importance| !(0.0..=1.0).contains(&importance)) {
        return Err(KvError::validation("the importance of a value is a number from 0 to 1"));
    }
    Ok(())
}

/// Refuses puts of which one needs a directory where another one writes its file, such as `/x.json/y` and
/// `/x`. Each attempt would take the work of the other one for that of another writer.
fn check_apart(puts: &[Put<'_>], files: &[TreePath]) -> KvResult<()> {
    let mut placed: Vec<_> = files.iter().zip(puts).collect();
    // Everything below a path follows it directly.
    placed.sort_by(|(one, _), (other, _)| one.segments().cmp(other.segments()));
    for ((file, above), (other, below)) in placed.iter().zip(placed.iter().skip(1)) {
        if other.is_within(file) {
            let message = format!(
                "`{}` and `{}` exclude each other: the value of the first is in the way of the second; put \
                 one of them",
                above.path, below.path
            );
            return Err(KvError::new(KvCode::PathConflict, message).about(above.path));
        }
    }
    Ok(())
}

fn remove_directory(path: TreePath) -> Op {
    Op::remove_dir(path).if_exists()
}

/// Returns the write of operation `op` of a commit.
pub(super) fn written(commit: &Commit, op: usize) -> Written {
    Written { version: commit.version(op), created_at: commit.time }
}
