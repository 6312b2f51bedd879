//! Input of the judgement, as engines show it: the origin of a commit, the state that it would leave, and the
//! state before it.

use crate::error::Result;
use crate::model::{Batch, Ino, Kind, Within};
use crate::path::{Name, TreePath};
use crate::rule::constraint::Constraint;
use crate::rule::lines::Place;
use crate::rule::{Digest, Rule};

/// Origin of a commit. Interfaces take it from the credential, never from a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Caller<'a> {
    /// Id of the key of the commit.
    pub key: Option<&'a str>,
    /// Class of the session that the commit is made in, if any.
    pub class: Option<&'a str>,
    /// True if an administrator asked to override rules.
    pub overrides: bool,
    /// True if garth itself made the commit.
    pub by_garth: bool,
    /// True if the author may write files and not read them.
    pub writes_only: bool,
    /// Paths that the commit must not change.
    pub read_only: Option<&'a Within>,
}

impl<'a> Caller<'a> {
    /// Returns the origin of a batch.
    pub(crate) fn of(batch: &'a Batch) -> Self {
        let author = &batch.author;
        let (key, class) = (author.key.as_deref(), author.class.as_deref());
        let (overrides, by_garth) = (batch.overrides_rules, batch.by_garth);
        let (writes_only, read_only) = (batch.writes_only, batch.read_only.as_ref());
        Self { key, class, overrides, by_garth, writes_only, read_only }
    }

    /// Returns true if a rule applies to commits of this origin.
    pub(super) fn is_bound(&self, rule: &Rule) -> bool {
        match &rule.constraint {
            Constraint::OwnFields(_) | Constraint::OwnLines(..) => !self.by_garth,
            constraint => constraint.binds(self.key, self.class),
        }
    }
}

/// File as rules see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File {
    /// Size of the content, in bytes.
    pub size: u64,
    /// True if the file will expire.
    pub expires: bool,
}

/// Names in a directory, with their nodes and kinds.
pub type Entries = Vec<(Name, Ino, Kind)>;

/// State that a commit would leave, and the state before it.
pub trait JudgedState {
    /// True for a prefetch: after an answer that is not known yet it continues, only to ask for more at once.
    /// Its result is dropped.
    const PREFETCHES: bool = false;
    /// Returns a file; `None` for a missing node, or one that is not a file.
    fn file(&mut self, ino: Ino) -> Result<Option<File>>;
    /// Returns the names of a node within some subtrees, including names that the commit does not reach.
    /// Names outside of the subtrees may be among them.
    fn paths(&mut self, ino: Ino, within: &Within) -> Result<Vec<TreePath>>;
    /// Returns the entry of a path, unless it has expired.
    fn entry(&mut self, path: &TreePath) -> Result<Option<(Ino, Kind)>>;
    /// Returns the entries of a directory, up to about `limit`.
    fn entries(&mut self, dir: &TreePath, limit: usize) -> Result<Entries>;
    /// Returns bytes of a file; `from + length` is within it.
    fn read(&mut self, ino: Ino, from: u64, length: u64) -> Result<Vec<u8>>;
    /// Returns the entry that a path had before, unless it has expired since.
    fn entry_before(&mut self, path: &TreePath) -> Result<Option<(Ino, Kind)>>;
    /// Returns the entries that a directory had before, up to about `limit`.
    fn entries_before(&mut self, dir: &TreePath, limit: usize) -> Result<Entries>;
    /// Returns the size that a node had before, in bytes.
    fn size_before(&mut self, ino: Ino) -> Result<u64>;
    /// Returns the first `length` bytes that a file had before.
    fn read_before(&mut self, ino: Ino, length: u64) -> Result<Vec<u8>>;
    /// Returns up to which place a file is known to satisfy a constraint, within the part that the commit
    /// left unchanged.
    fn known(&mut self, ino: Ino, constraint: &Digest) -> Result<Place>;
    /// Remembers up to which place a file satisfies a constraint.
    fn remember(&mut self, ino: Ino, constraint: &Digest, to: Place);
}
