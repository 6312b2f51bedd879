//! Batch of a commit: an ordered list of operations with preconditions, applied completely or not at all.
//!
//! This page is the contract that every engine fulfils exactly, including errors and their order. The model
//! test compares engines by it.
//!
//! # Lookup
//! Segments are taken from the root. The first that is missing gives `NotFound`, with the *complete* path
//! asked for; the first that exists, is not last and is not a directory gives `NotADirectory` with the path
//! *of that segment* (a resolver tests there for a symbolic link). An expired entry is missing. `At::Child`
//! looks in the directory with that inode (`NotFound` if it has no name, `NotADirectory` if it is not a
//! directory) and then continues as its path. `At::Node` gives `NotFound` for a node that has no name, unless
//! this instance holds it open. An operation that creates or removes a name refuses `At::Node` with
//! `InvalidArgument`.
//!
//! # New names
//! The parent is looked up first; with `parents`, missing directories on the way are created (mode `0o755`,
//! uid and gid 0) and only an entry that is not a directory fails. Then the name itself. Creating, replacing
//! or removing a name sets `mtime` and `ctime` of its directory.
//!
//! # Order
//! 1. The batch is checked as a whole (limits, attribute values): `InvalidArgument` or `TooLarge`.
//! 2. The record of an earlier commit, which answers a retry (`replayed`): that of the idempotency key, if
//!    its hash is the same (with another hash `IdempotencyMismatch`); then that of the commit id, whatever
//!    the batch asks for.
//! 3. Assumptions of a view, on the state before the batch: `Stale`. Then preconditions, on the same state,
//!    in their order: `Conflict`.
//! 4. Operations in their order, each on the state that the ones before it left. The first error is that of
//!    the batch.
//! 5. Rules, on the state after the last operation: `RuleViolation`, about the smallest path that violates
//!    one; `AccessDenied` where the answer would tell an author who only writes about stored content. A file
//!    is judged by the rules for all of its names when its content changes, and by those for a path that it
//!    gets, from a name of its own or from the move of a directory above it.
//!
//! # Copies
//! `Copy` and `CopyRange` refer to stored bytes and read none, so that a few of them, each doubling a tree,
//! could create more names than memory holds. So they have limits, judged on all copies of the batch
//! together, operation by operation: [`MAX_COPIED_NAMES`] before a copy creates its first name,
//! [`MAX_COPIED_PIECES`] as each file in it, in the order of a walk, is given its content. Beyond:
//! `TooLarge`, with the path that was copied to.
//!
//! # New names and their paths
//! An operation with `parents` can create thousands of directories, and a path takes memory and disk for each
//! of them. So a batch has limits for the names that all of its operations give, in their order:
//! [`MAX_NEW_NAMES`], and [`MAX_NEW_PATH_BYTES`] for the bytes of their paths. Beyond: `TooLarge`, with the
//! path of the name that was one too many. An engine may also count the paths of names that are taken away,
//! and of those that an operation moves with their directory after another one has given them.
//!
//! # Attributes
//! A copy of a node, and a change of one of its attributes, writes all of them, up to
//! [`MAX_ATTRIBUTES`](super::MAX_ATTRIBUTES) bytes. So the attributes that the operations of a batch set and
//! copy have a limit together, [`MAX_SET_ATTRIBUTES`]. Beyond: `TooLarge`.
//!
//! Every batch that succeeds takes one sequence number, even if it changed nothing.

use std::any::Any;
use std::collections::HashSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::at::At;
use super::author::Author;
use super::commit::Outcome;
use super::confinement::{KeySpace, Owner};
use super::id::{CommitId, Ino, Timestamp, VersionId};
use super::op::{Body, Op, Precondition, check_label};
use super::within::Within;
use crate::error::{Error, ErrorKind, Result};

/// Largest [`Body::Bytes`], in bytes; longer content is staged first. 16 MiB keeps a commit short.
pub const MAX_INLINE_BODY: usize = 16 << 20;

/// Limit on the operations of one batch, and on its preconditions.
pub const MAX_OPS: usize = 100_000;

/// Limit on the names that one batch gives: to new nodes, missing parents and copies included, and by links
/// and renames. It is the limit of the operations and that of the copies together, so that operations which
/// give one name each never reach it.
pub const MAX_NEW_NAMES: usize = MAX_OPS + MAX_COPIED_NAMES;

/// Limit on the bytes of the paths of these names, and of the names that the batch takes away, 32 MiB. A path
/// with 2,000 missing parents takes 4 MiB of it. Paths are held several times while a
/// batch is planned and written: at the limit it takes about 250 MB of memory, and 150 MB of disk space.
pub const MAX_NEW_PATH_BYTES: usize = 32 << 20;

/// Limit on the attributes that the operations of one batch set and copy, 64 MiB: the bytes of their texts,
/// and 64 for each tag and each entry of metadata. A target of a symbolic link that is copied counts as well.
pub const MAX_SET_ATTRIBUTES: usize = 64 << 20;

/// Limit on the names that the operations of one batch go through: those below directories that are moved to
/// a longer path, those that the batch has changed below directories that it moves and removes, and those of
/// nodes with many names. The operation that reaches the limit is still done.
pub const MAX_EXAMINED: usize = 1_000_000;

/// Limit on the names that the copies of one batch create: each costs as much as an operation that creates
/// it. Expired entries are not copied and do not count.
pub const MAX_COPIED_NAMES: usize = MAX_OPS;

/// Limit on the pieces of content that the copies of one batch take. A piece is what one operation wrote at
/// once, at most 1 MiB of it and without holes; of a piece that was overwritten in the middle, two are left.
/// An engine that stores content in fewer pieces, or joins them later, counts those. It is 1 TB of large
/// files; a million pieces take about 100 MB of memory while the batch is planned.
pub const MAX_COPIED_PIECES: usize = 1_000_000;

/// Longest [`Idempotency::note`], in bytes: it is written with the commit, and read for each retry.
pub const MAX_NOTE: usize = 4 << 20;

/// Atomic commit that is to be made.
///
/// ```
/// # use garth_engine as garth;
/// use garth::model::{Author, Batch, Op, Precondition};
/// use garth::{Env, FileSystem, TreePath};
///
/// # futures::executor::block_on(async {
/// let fs = garth::engine::memory::MemoryFs::new(Env::system(), garth::rule::Registry::empty());
/// let [todo, log] = [TreePath::parse("/todo.md")?, TreePath::parse("/log.md")?];
/// let commit = fs
///     .commit(
///         Batch::new([Op::write(&todo, "- call Alice\n"), Op::append(&log, "planned a call\n")])
///             .require(&todo, Precondition::Absent)
///             .author(Author::agent("scout").with_session("s-1"))
///             .message("plan the day"),
///     )
///     .await?;
/// assert_eq!(commit.outcomes.len(), 2);
/// # Ok::<(), garth::Error>(()) }).unwrap();
/// ```
///
/// In JSON, all fields except `ops` may be left out. `author`, `overrides_rules`, `writes_only`,
/// `even_when_full` and the fields of views (`within`, `owner`, `joined`, `added`, `assumptions`, `root`,
/// `answers`) are not part of it: interfaces and views set them, never a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Batch {
    /// Operations, in order.
    #[doc(hidden)]
    pub ops: Vec<Op>,
    /// Conditions that must hold before the first operation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[doc(hidden)]
    pub preconditions: Vec<(At, Precondition)>,
    /// Id that the caller chose for the commit, at random: a batch with an id that is in the log is a retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[doc(hidden)]
    pub id: Option<CommitId>,
    /// Author of the commit.
    #[serde(skip)]
    #[doc(hidden)]
    pub author: Author,
    /// Reason for the commit, in the caller's words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[doc(hidden)]
    pub message: String,
    /// Answers a retry with the first commit, and tells a retry from another request under the same key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[doc(hidden)]
    pub idempotency: Option<Idempotency>,
    /// Time of the acknowledgement.
    #[serde(default)]
    #[doc(hidden)]
    pub durability: Durability,
    /// True if the batch may violate rules: for administrators, who ask for it. The key that it came with is
    /// the author's.
    #[serde(skip)]
    #[doc(hidden)]
    pub overrides_rules: bool,
    /// Paths that the batch may reach; `None` for all that the filesystem reaches. The effect is that of a
    /// commit through [`FileSystem::confined`](crate::FileSystem::confined).
    #[serde(skip)]
    #[doc(hidden)]
    pub within: Option<Within>,
    /// Paths that the batch must not change: those that the filesystem may only read.
    #[serde(skip)]
    #[doc(hidden)]
    pub read_only: Option<Within>,
    /// True if garth itself made the batch. Then it may set attributes named `garth.*`, and change what rules
    /// reserve for garth (see [`Constraint::OwnFields`](crate::rule::Constraint::OwnFields) and
    /// [`Constraint::OwnLines`](crate::rule::Constraint::OwnLines)).
    #[serde(skip)]
    #[doc(hidden)]
    pub by_garth: bool,
    /// True if the batch may set attributes named `garth.*` without being garth's: a restore sets those that
    /// garth had set on the nodes.
    #[serde(skip)]
    #[doc(hidden)]
    pub own_attributes: bool,
    /// True if the author may write files and not read them. Rules then refuse the batch where their answer
    /// would depend on content that it does not write: `AccessDenied`.
    #[serde(skip)]
    #[doc(hidden)]
    pub writes_only: bool,
    /// True if an account takes the batch beyond its limit on stored bytes. Each such batch ends something
    /// that cannot be ended twice, such as a memory or an event, or the account would grow without bound.
    #[serde(skip)]
    #[doc(hidden)]
    pub even_when_full: bool,
    /// Owner of the snapshots, id, idempotency key and staged bodies, inside the owner of the filesystem.
    #[serde(skip)]
    #[doc(hidden)]
    pub owner: Option<Owner>,
    /// Other owners whose staged bodies the batch may use: those of handles that were
    /// [joined](crate::fs::ViewBase::joined).
    #[serde(skip)]
    #[doc(hidden)]
    pub joined: Vec<Option<Owner>>,
    /// Operations that views have added.
    #[serde(skip)]
    #[doc(hidden)]
    pub added: AddedOps,
    /// Conditions that the author of the batch, a view, has read. If one no longer holds, the commit fails
    /// with `Stale`.
    #[serde(skip)]
    #[doc(hidden)]
    pub assumptions: Vec<(At, Precondition)>,
    /// Node that the outcomes of operations on snapshots are about: the root of the view that was asked.
    /// `None`: the top of the first subtree that the batch reaches.
    #[serde(skip)]
    #[doc(hidden)]
    pub root: Option<At>,
    /// Operations that the outcomes are about, for views that add others to those of the caller. `None`: one
    /// outcome for each, in order.
    #[serde(skip)]
    #[doc(hidden)]
    pub answers: Option<Vec<Answer>>,
}

/// Operations of views in addition to those of the caller, such as copying up a node before it changes. They
/// reach more than the caller may.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AddedOps {
    /// Their indices.
    pub ops: Vec<usize>,
    /// Paths that they, and assumptions, may reach in addition to those of the batch.
    pub within: Option<Within>,
}

/// Paths that each part of a batch may reach.
#[derive(Debug)]
#[doc(hidden)]
pub struct Reaches {
    /// Reach of the caller's operations.
    pub own: Within,
    /// Reach of assumptions, and of operations that views have added.
    pub added: Within,
    by_views: HashSet<usize>,
}

impl Reaches {
    /// Returns the paths that an operation may reach.
    pub fn of(&self, op: usize) -> &Within {
        if self.by_views.contains(&op) { &self.added } else { &self.own }
    }
}

/// Outcome of a commit in terms of the view through which it was asked for. It is stored with the commit, so
/// that a retry is answered in the same terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Index of the operation in the batch.
    pub op: usize,
    /// Overrides whether the operation counts as having created the node.
    pub created: Option<bool>,
    /// Inode that the view shows, if it is another one (and if there is a node).
    pub ino: Option<Ino>,
    /// Added to the inode if `ino` is `None`, because the view does not know the inode before the commit.
    pub tag: u64,
}

impl Answer {
    fn tell(&self, outcomes: &[Outcome]) -> Option<Outcome> {
        let done = *outcomes.get(self.op)?;
        let ino = match done.ino {
            // Without a node there is no inode to translate.
            Ino::NONE => Ino::NONE,
            Ino(number) => self.ino.unwrap_or(Ino(number | self.tag)),
        };
        let version = VersionId { ino, ..done.version };
        Some(Outcome { ino, version, created: self.created.unwrap_or(done.created), ..done })
    }
}

impl From<usize> for Answer {
    fn from(op: usize) -> Self {
        Self { op, created: None, ino: None, tag: 0 }
    }
}

/// Time at which a commit is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// Once the commit survives loss of power.
    #[default]
    Durable,
    /// Once every reader sees the commit. It becomes durable with the next durable commit or `sync`.
    Visible,
}

/// Record that ties an idempotency key to the request that first used it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Idempotency {
    /// Key of the client.
    pub key: String,
    /// Hash of the request. It tells a retry from a reuse of the key.
    #[serde(with = "crate::model::json::hash")]
    pub request_hash: [u8; 32],
    /// Time from which the record is absent.
    pub keep_until: Timestamp,
    /// Text for the answer to retries: [`Commit::note`](super::Commit::note). At most [`MAX_NOTE`] bytes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// Key space of the record, if not that of the handle that commits.
    #[serde(skip)]
    pub(crate) keys: Option<KeySpace>,
}

impl Idempotency {
    /// Returns a record without a note, in the key space of the handle that commits it.
    pub fn new(key: impl Into<String>, request_hash: [u8; 32], keep_until: Timestamp) -> Self {
        Self { key: key.into(), request_hash, keep_until, note: String::new(), keys: None }
    }

    /// Sets the text that retries are answered with.
    #[must_use]
    pub fn note(self, note: impl Into<String>) -> Self {
        Self { note: note.into(), ..self }
    }

    /// Stores the record in this key space, whichever view of the same tree commits it.
    #[must_use]
    pub fn kept_in(self, keys: KeySpace) -> Self {
        Self { keys: Some(keys), ..self }
    }
}

impl Batch {
    /// Returns a durable batch of these operations.
    pub fn new(ops: impl IntoIterator<Item = Op>) -> Self {
        Self { ops: ops.into_iter().collect(), ..Self::default() }
    }

    /// Adds an operation at the end.
    #[must_use]
    pub fn op(mut self, op: Op) -> Self {
        self.ops.push(op);
        self
    }

    /// Adds a condition that must hold before the first operation; otherwise the commit fails with
    /// `Conflict`.
    #[must_use]
    pub fn require(mut self, at: impl Into<At>, that: Precondition) -> Self {
        self.preconditions.push((at.into(), that));
        self
    }

    /// Sets the author.
    #[must_use]
    pub fn author(self, author: Author) -> Self {
        Self { author, ..self }
    }

    /// Sets the reason, in the caller's words; at most [`MAX_LABEL`](super::MAX_LABEL) bytes.
    #[must_use]
    pub fn message(self, message: impl Into<String>) -> Self {
        Self { message: message.into(), ..self }
    }

    /// Sets the id that the caller chose: the batch is committed once, however often it is tried.
    #[must_use]
    pub fn id(self, id: CommitId) -> Self {
        Self { id: Some(id), ..self }
    }

    /// Sets the record that answers a retry with the first commit.
    #[must_use]
    pub fn idempotency(self, record: Idempotency) -> Self {
        Self { idempotency: Some(record), ..self }
    }

    /// Sets the time of the acknowledgement.
    #[must_use]
    pub fn durability(self, durability: Durability) -> Self {
        Self { durability, ..self }
    }

    /// Acknowledges as soon as every reader sees the commit. See [`Durability::Visible`].
    #[must_use]
    pub fn visible(self) -> Self {
        self.durability(Durability::Visible)
    }

    /// Lets the batch violate [rules](crate::rule).
    #[must_use]
    pub fn overriding_rules(self) -> Self {
        Self { overrides_rules: true, ..self }
    }

    /// Lets the batch write what is reserved for garth. For features that store something there, never for
    /// the content of a request.
    #[must_use]
    #[doc(hidden)]
    pub fn by_garth(self) -> Self {
        Self { by_garth: true, ..self }
    }

    /// Sets whether the author may write files and not read them: no rule then tells about content that the
    /// batch does not write.
    #[must_use]
    #[doc(hidden)]
    pub fn writes_only(self, writes_only: bool) -> Self {
        Self { writes_only, ..self }
    }

    /// Has an account take the batch beyond its limit on stored bytes: for features that end something that
    /// cannot be ended twice, never for a request that stores something.
    #[must_use]
    #[doc(hidden)]
    pub fn even_when_full(self) -> Self {
        Self { even_when_full: true, ..self }
    }

    /// Returns the paths that each part may reach.
    #[doc(hidden)]
    pub fn reaches(&self) -> Reaches {
        let own = self.within.clone().unwrap_or_else(Within::everything);
        let added = self.added.within.as_ref().map_or_else(|| own.clone(), |added| own.union(added));
        Reaches { own, added, by_views: self.added.ops.iter().copied().collect() }
    }

    /// Returns the batch as committed through a handle that reaches no more than `reach`, and changes nothing
    /// in `read_only`.
    #[doc(hidden)]
    pub fn inside(self, reach: &Within, read_only: &Within) -> Self {
        let read_only = match (self.read_only, read_only.is_nothing()) {
            (known, true) => known,
            (None, false) => Some(read_only.clone()),
            (Some(known), false) => Some(known.union(read_only)),
        };
        let within = self.within.map_or_else(|| reach.clone(), |within| within.intersect(reach));
        // Operations of views reach no more than the handle either.
        let added = self.added.within.map(|within| within.intersect(reach));
        Self { within: Some(within), read_only, added: AddedOps { within: added, ..self.added }, ..self }
    }

    /// Returns the key of the owner; empty for the owner of the tree.
    #[doc(hidden)]
    pub fn owner_key(&self) -> &str {
        key(self.owner.as_ref())
    }

    /// Returns the key of the owner of the idempotency record.
    #[doc(hidden)]
    pub fn record_owner_key(&self) -> &str {
        let keys = self.idempotency.as_ref().and_then(|record| record.keys.as_ref());
        keys.map_or_else(|| self.owner_key(), |keys| key(keys.owner()))
    }

    /// Checks that the key space of the record is one of this tree.
    ///
    /// # Errors
    /// `InvalidArgument` for that of another tree.
    #[doc(hidden)]
    pub fn check_keys<T: Any + Send + Sync>(&self, tree: &Arc<T>) -> Result<()> {
        match self.idempotency.as_ref().and_then(|record| record.keys.as_ref()) {
            Some(keys) if !keys.is_of(tree) => Err(Error::invalid(
                "the idempotency record belongs to another tree; use a key space of this one",
            )),
            _ => Ok(()),
        }
    }

    /// Returns the keys of the owners whose staged bodies the batch may use.
    #[doc(hidden)]
    pub fn stagers(&self) -> Vec<&str> {
        [&self.owner].into_iter().chain(&self.joined).map(|owner| key(owner.as_ref())).collect()
    }

    /// Returns the outcomes to be reported, given those of all operations.
    pub(crate) fn told(&self, outcomes: Vec<Outcome>) -> Vec<Outcome> {
        let Some(answers) = &self.answers else { return outcomes };
        answers.iter().filter_map(|answer| answer.tell(&outcomes)).collect()
    }

    /// Returns true if a condition asks for a hash of content.
    #[doc(hidden)]
    pub fn hashes(&self) -> bool {
        let checks = self.ops.iter().filter_map(|op| match op {
            Op::Check { that, .. } => Some(that),
            _ => None,
        });
        self.assumptions
            .iter()
            .chain(&self.preconditions)
            .map(|(_, that)| that)
            .chain(checks)
            .any(Precondition::hashes)
    }

    /// Checks limits and values that need no state: step 1 of the order. Engines call it first.
    ///
    /// # Errors
    /// `InvalidArgument`, `TooLarge` or `NameTooLong`, naming the limit.
    #[doc(hidden)]
    pub fn check(&self) -> Result<()> {
        if self.ops.len() > MAX_OPS {
            return Err(Error::new(ErrorKind::TooLarge, format!("a batch has at most {MAX_OPS} operations")));
        }
        if self.assumptions.len() + self.preconditions.len() > MAX_OPS {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!("a batch has at most {MAX_OPS} preconditions"),
            ));
        }
        check_label("message", &self.message)?;
        for (what, field) in self.author.fields() {
            check_label(what, field.as_deref().unwrap_or_default())?;
        }
        if let Some(record) = &self.idempotency {
            check_label("idempotency key", &record.key)?;
            if record.note.len() > MAX_NOTE {
                let message = format!("the note of an idempotency key has at most {MAX_NOTE} bytes");
                return Err(Error::new(ErrorKind::TooLarge, message));
            }
        }
        for (_, that) in self.assumptions.iter().chain(&self.preconditions) {
            that.check()?;
        }
        if self.answers.iter().flatten().any(|answer| answer.op >= self.ops.len()) {
            return Err(Error::invalid("an answer refers to an operation that is not in the batch"));
        }
        let mut inline = 0;
        for (place, op) in self.ops.iter().enumerate() {
            op.validate()?;
            let sets_own = self.by_garth || self.own_attributes || self.overrides_rules;
            // Views note on nodes what they copied up, in the batch of any caller.
            if !sets_own && !self.added.ops.contains(&place) {
                op.check_own_attributes()?;
            }
            if let Some(Body::Bytes(bytes)) = op.body() {
                inline += bytes.len();
            }
        }
        // All bodies together, because the batch is held in memory and written in one commit.
        if inline > MAX_INLINE_BODY {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!("the bodies of a batch have at most {MAX_INLINE_BODY} bytes; stage longer content"),
            ));
        }
        Ok(())
    }
}

fn key(owner: Option<&Owner>) -> &str {
    owner.map_or("", Owner::key)
}

impl From<Op> for Batch {
    fn from(op: Op) -> Self {
        Self::new([op])
    }
}

impl FromIterator<Op> for Batch {
    fn from_iter<T: IntoIterator<Item = Op>>(ops: T) -> Self {
        Self::new(ops)
    }
}
