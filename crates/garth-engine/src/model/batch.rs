//! What a commit asks for: an ordered list of operations with preconditions, applied wholly or not at all.
//!
//! This page is the contract that every engine meets to the letter, errors and their order included: the
//! model test compares engines by it.
//!
//! # Looking a name up
//! Segments are taken from the root. The first that is missing gives `NotFound`, with the *whole* path asked
//! for; the first that exists, is not last and is not a directory gives `NotADirectory` with the path *of
//! that segment* (a resolver tests there for a symbolic link). An expired entry is missing. `At::Child` looks
//! in the directory with that number (`NotFound` if it has no name, `NotADirectory` if it is no directory)
//! and then goes on as its path. `At::Node` gives `NotFound` for a node that has no name, unless this
//! instance holds it open. An operation that makes or removes a name refuses `At::Node` with
//! `InvalidArgument`.
//!
//! # Making a name
//! The parent is looked up first; with `parents`, missing directories on the way are made (mode `0o755`, uid
//! and gid 0) and only what exists but is no directory fails. Then the name itself. Making, replacing or
//! removing a name sets `mtime` and `ctime` of its directory.
//!
//! # Order
//! 1. The batch is checked as a whole (limits, attribute values): `InvalidArgument` or `TooLarge`.
//! 2. The record of an earlier commit, by which a retry answers it again (`replayed`): that of the
//!    idempotency key, if its hash is the same (with another hash `IdempotencyMismatch`); then that of the
//!    commit id, whatever the batch asks for.
//! 3. Assumptions of a view, on the state before the batch: `Stale`. Then preconditions, on the same state,
//!    in their order: `Conflict`.
//! 4. Operations in their order, each on the state that the ones before it left. The
//!    first error is the batch's.
//! 5. Rules, on the state after the last operation: `RuleViolation`, about the smallest path of those that
//!    break one. A file is judged by the rules for all of its names when its content changes, and by those
//!    for a path that it gets, from a name of its own or from the move of a directory above it.
//!
//! # Copies
//! `Copy` and `CopyRange` refer to stored bytes and read none, so that a few of them could make more than
//! memory holds: thirty that double a tree make a million names of one. So they have limits, judged on all
//! copies of the batch together, operation by operation: [`MAX_COPIED_NAMES`] before a copy makes its first
//! name, [`MAX_COPIED_PIECES`] as each file in it, in the order of a walk, is given its content. Beyond:
//! `TooLarge`, with the path that was copied to.
//!
//! Every batch that passes takes one sequence number, also when it changed nothing.

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

/// Most operations of one batch, and most preconditions.
pub const MAX_OPS: usize = 100_000;

/// Most names that the copies of one batch make: each costs as much as an operation that makes it. What has
/// expired is not copied and does not count.
pub const MAX_COPIED_NAMES: usize = MAX_OPS;

/// Most pieces of content that the copies of one batch take. A piece is what one operation wrote at once, at
/// most 1 MiB of it and without holes; of one that was overwritten in the middle two are left. An engine that
/// stores content in fewer pieces, or joins them later, counts those. It is 1 TB of large files; a million
/// pieces take about 100 MB of memory while the batch is planned.
pub const MAX_COPIED_PIECES: usize = 1_000_000;

/// Longest [`Idempotency::note`], in bytes: it is written with the commit, and read for each retry.
pub const MAX_NOTE: usize = 4 << 20;

/// An atomic commit in the making.
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
/// As JSON, all fields but `ops` may be left out. `author`, `overrides_rules` and what views add (`within`,
/// `owner`, `joined`, `added`, `assumptions`, `answers`) are no part of it: interfaces and views say them,
/// never a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Batch {
    /// What to do, in order.
    pub ops: Vec<Op>,
    /// What must hold before the first operation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preconditions: Vec<(At, Precondition)>,
    /// The caller's own id for the commit, drawn at random: a batch under an id that the log has is a retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<CommitId>,
    /// Who.
    #[serde(skip)]
    pub author: Author,
    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Makes a retry answer the first commit again, and tells a retry from another request under the same
    /// key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency: Option<Idempotency>,
    /// When to acknowledge.
    #[serde(default)]
    pub durability: Durability,
    /// Whether rules may be broken by it: for administrators, who ask for it. The key that it came with is
    /// the author's.
    #[serde(skip)]
    pub overrides_rules: bool,
    /// The paths that the batch may reach; `None`: all that the filesystem reaches. As if committed through
    /// [`FileSystem::confined`](crate::FileSystem::confined).
    #[serde(skip)]
    pub within: Option<Within>,
    /// Paths that it must not change: those that the filesystem reads only.
    #[serde(skip)]
    pub read_only: Option<Within>,
    /// Whether garth itself made it, for what is garth's own: attributes named `garth.*`, and what rules keep
    /// for garth (see [`Demand::OwnFields`](crate::rule::Demand::OwnFields)).
    #[serde(skip)]
    pub by_garth: bool,
    /// Whether it may set attributes named `garth.*` all the same: those that garth had set on the nodes that
    /// it restores.
    #[serde(skip)]
    pub own_attributes: bool,
    /// Whose snapshots, id, idempotency key and staged bodies these are, besides whose the filesystem is.
    #[serde(skip)]
    pub owner: Option<Owner>,
    /// Owners whose staged bodies it may use besides: of handles that were [joined](crate::fs::ViewBase::joined).
    #[serde(skip)]
    pub joined: Vec<Option<Owner>>,
    /// What views have put into the batch for themselves.
    #[serde(skip)]
    pub added: Added,
    /// What whoever wrote the batch read before, for views: if it no longer holds, `Stale`.
    #[serde(skip)]
    pub assumptions: Vec<(At, Precondition)>,
    /// Which operations the outcomes tell of, for views that put others among the caller's. `None`: one of
    /// each, in order.
    #[serde(skip)]
    pub answers: Option<Vec<Answer>>,
}

/// What views do besides what the caller asked for, such as copying up what an operation changes. It reaches
/// more than the caller may.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Added {
    /// Which operations are theirs, by place.
    pub ops: Vec<usize>,
    /// What these, and assumptions, may reach besides the paths that the batch may.
    pub within: Option<Within>,
}

/// The paths that each part of a batch may reach.
#[derive(Debug)]
pub(crate) struct Reaches {
    /// What the caller asked for.
    pub(crate) own: Within,
    /// Assumptions, and what views have added.
    pub(crate) added: Within,
    by_views: HashSet<usize>,
}

impl Reaches {
    /// What an operation may reach.
    pub(crate) fn of(&self, op: usize) -> &Within {
        if self.by_views.contains(&op) { &self.added } else { &self.own }
    }
}

/// One outcome of a commit, in the terms of whoever asked for it through a view. It is kept with the commit,
/// so that a retry is answered in the same terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The operation of the batch that did it.
    pub op: usize,
    /// Whether the node counts as made, if not as that operation says.
    pub created: Option<bool>,
    /// The number that the view shows the node by, if it is another (and if there is a node).
    pub ino: Option<Ino>,
    /// What the view adds to the node's number where it does not know that number before the commit.
    pub tag: u64,
}

impl Answer {
    fn tell(&self, outcomes: &[Outcome]) -> Option<Outcome> {
        let done = *outcomes.get(self.op)?;
        let ino = match done.ino {
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

/// When a commit is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// Once it survives loss of power.
    #[default]
    Durable,
    /// Once every reader sees it. Durable with the next durable commit or `sync`.
    Visible,
}

/// A record that ties a key to the request that first used it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Idempotency {
    /// The client's key.
    pub key: String,
    /// Hash of the request, by which a retry is told from a reuse.
    #[serde(with = "crate::model::json::hash")]
    pub request_hash: [u8; 32],
    /// From this moment on the record is absent.
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

    /// Keeps the record in this key space, through whichever view of the same tree it is committed.
    #[must_use]
    pub fn kept_in(self, keys: KeySpace) -> Self {
        Self { keys: Some(keys), ..self }
    }
}

impl Batch {
    /// A durable batch of these operations.
    pub fn new(ops: impl IntoIterator<Item = Op>) -> Self {
        Self { ops: ops.into_iter().collect(), ..Self::default() }
    }

    /// Adds an operation at the end.
    #[must_use]
    pub fn op(mut self, op: Op) -> Self {
        self.ops.push(op);
        self
    }

    /// Adds a condition that holds before the first operation, or the commit fails with `Conflict`.
    #[must_use]
    pub fn require(mut self, at: impl Into<At>, that: Precondition) -> Self {
        self.preconditions.push((at.into(), that));
        self
    }

    /// Who commits.
    #[must_use]
    pub fn author(self, author: Author) -> Self {
        Self { author, ..self }
    }

    /// Why, in the caller's words; at most [`MAX_LABEL`](super::MAX_LABEL) bytes.
    #[must_use]
    pub fn message(self, message: impl Into<String>) -> Self {
        Self { message: message.into(), ..self }
    }

    /// The caller's own id for the commit: it is committed once, however often it is tried.
    #[must_use]
    pub fn id(self, id: CommitId) -> Self {
        Self { id: Some(id), ..self }
    }

    /// Makes a retry answer the first commit again.
    #[must_use]
    pub fn idempotency(self, record: Idempotency) -> Self {
        Self { idempotency: Some(record), ..self }
    }

    /// When to acknowledge.
    #[must_use]
    pub fn durability(self, durability: Durability) -> Self {
        Self { durability, ..self }
    }

    /// Acknowledges as soon as every reader sees the commit. See [`Durability::Visible`].
    #[must_use]
    pub fn visible(self) -> Self {
        self.durability(Durability::Visible)
    }

    /// Commits even what [rules](crate::rule) refuse.
    #[must_use]
    pub fn overriding_rules(self) -> Self {
        Self { overrides_rules: true, ..self }
    }

    /// Lets it write what is garth's own. For features that keep something there, never for what a client
    /// sends.
    #[must_use]
    pub fn by_garth(self) -> Self {
        Self { by_garth: true, ..self }
    }

    /// Which paths it may reach.
    pub(crate) fn reaches(&self) -> Reaches {
        let own = self.within.clone().unwrap_or_else(Within::everything);
        let added = self.added.within.as_ref().map_or_else(|| own.clone(), |added| own.union(added));
        Reaches { own, added, by_views: self.added.ops.iter().copied().collect() }
    }

    /// The same, through a handle that reaches no more than `reach`, and of that changes nothing in
    /// `read_only`.
    pub(crate) fn inside(self, reach: &Within, read_only: &Within) -> Self {
        let read_only = match (self.read_only, read_only.is_nothing()) {
            (known, true) => known,
            (None, false) => Some(read_only.clone()),
            (Some(known), false) => Some(known.union(read_only)),
        };
        let within = self.within.map_or_else(|| reach.clone(), |within| within.intersect(reach));
        let added = self.added.within.map(|within| within.intersect(reach));
        Self { within: Some(within), read_only, added: Added { within: added, ..self.added }, ..self }
    }

    /// The key of its owner; empty for the tree's own.
    pub(crate) fn owner_key(&self) -> &str {
        key(self.owner.as_ref())
    }

    /// The key of the owner of its idempotency record.
    pub(crate) fn record_owner_key(&self) -> &str {
        let keys = self.idempotency.as_ref().and_then(|record| record.keys.as_ref());
        keys.map_or_else(|| self.owner_key(), |keys| key(keys.owner()))
    }

    /// Checks that the key space of the record is one of this tree.
    pub(crate) fn check_keys<T: Any + Send + Sync>(&self, tree: &Arc<T>) -> Result<()> {
        match self.idempotency.as_ref().and_then(|record| record.keys.as_ref()) {
            Some(keys) if !keys.is_of(tree) => Err(Error::invalid(
                "the idempotency record belongs to another tree; use a key space of this one",
            )),
            _ => Ok(()),
        }
    }

    /// The keys of the owners whose staged bodies it may use.
    pub(crate) fn stagers(&self) -> Vec<&str> {
        [&self.owner].into_iter().chain(&self.joined).map(|owner| key(owner.as_ref())).collect()
    }

    /// The outcomes that are told, of those of all operations.
    pub(crate) fn told(&self, outcomes: Vec<Outcome>) -> Vec<Outcome> {
        let Some(answers) = &self.answers else { return outcomes };
        answers.iter().filter_map(|answer| answer.tell(&outcomes)).collect()
    }

    /// Whether a condition asks for a hash of content.
    pub(crate) fn hashes(&self) -> bool {
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

    /// Step 1 of the order: limits and values that need no state. Engines call it first.
    ///
    /// # Errors
    /// `InvalidArgument`, `TooLarge` or `NameTooLong`, saying which limit.
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
            return Err(Error::invalid("an answer is of an operation that the batch does not have"));
        }
        let mut inline = 0;
        for (place, op) in self.ops.iter().enumerate() {
            op.validate()?;
            let sets_own = self.by_garth || self.own_attributes || self.overrides_rules;
            if !sets_own && !self.added.ops.contains(&place) {
                op.check_own_attributes()?;
            }
            if let Some(Body::Bytes(bytes)) = op.body() {
                inline += bytes.len();
            }
        }
        if inline > MAX_INLINE_BODY {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!("the bodies of a batch have at most {MAX_INLINE_BODY} bytes; stage what is longer"),
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
