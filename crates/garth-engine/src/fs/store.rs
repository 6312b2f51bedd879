//! What an account's home has besides its tree: maintenance of the storage behind it. The data folder gives
//! an [`AccountStore`]; views, and whoever is confined to a part, have a [`FileSystem`] and cannot reach it.
//!
//! Copies are not here: a data folder makes them of all its accounts at once
//! ([`DataDir::backup`](crate::DataDir::backup)), a database server has tools of its own.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;

use crate::error::{Error, ErrorKind, Result};
use crate::fs::FileSystem;
use crate::model::quota::{Limits, Quota};
use crate::model::{At, Batch, Op, SetAttrs};
use crate::path::{SYSTEM, TreePath};
use crate::rule::{Breach, Class, Rule};

/// On [`SYSTEM`], if garth has made it.
pub const SYSTEM_MARK: &str = "garth.system";

/// An account's whole tree, and the storage that keeps it. What takes long waits without a thread of the
/// caller; it goes on to its end if the future is dropped once it was polled.
#[async_trait]
pub trait AccountStore: FileSystem {
    /// The same tree with [`SYSTEM`] in it: for administrators, and for what is kept there. If somebody made
    /// a name [`SYSTEM`] before garth kept it for itself, it shows without this, too, and nothing is kept in
    /// it until it is moved away and the account is opened again.
    fn raw(&self) -> Arc<dyn FileSystem>;

    /// The same tree for an administrator's writes that rules would refuse: they are not judged, and the log
    /// says so of their commits.
    fn overriding_rules(&self) -> Arc<dyn FileSystem>;

    /// The rules in force, those that every tree has among them.
    ///
    /// # Errors
    /// `Corrupt` for a rule that cannot be read; from the storage.
    async fn rules(&self) -> Result<Vec<Rule>>;

    /// Sets a rule, in place of the one for the same class with a demand of the same kind: in force from the
    /// next commit on, in every process. A rule that the tree breaks as it is, is not set, unless `force`
    /// asks for it: what is there then stays until it is changed.
    ///
    /// # Errors
    /// `TooLarge` for more than [`MAX_RULES`](crate::rule::MAX_RULES); `AlreadyExists` where every tree has
    /// such a rule; `WouldBlock` if the tree changes faster than it can be looked at; from the storage.
    async fn set_rule(&self, rule: Rule, force: bool) -> Result<SetRule>;

    /// Removes the rule of a class with a demand of this name; whether there was one.
    ///
    /// # Errors
    /// `AlreadyExists` for one that every tree has; from the storage.
    async fn remove_rule(&self, class: &Class, demand: &str) -> Result<bool>;

    /// Collects garbage, in steps that hold up commits for 50 ms at most. What other processes may still use
    /// is removed in two phases: one run marks it, a run at least `grace` later removes it, unless a process
    /// took a lease meanwhile. Each process looks for marks once a minute, so a `grace` below that is safe
    /// only if no other has the account open.
    ///
    /// # Errors
    /// From the storage; what was done until then stays done.
    async fn gc(&self, grace: Duration) -> Result<Collected>;

    /// Checks everything, piece by piece, and changes nothing: what is written meanwhile is judged as it is
    /// when its turn comes.
    ///
    /// # Errors
    /// From the storage. Damage is no error: it is in the report.
    async fn fsck(&self) -> Result<Fsck>;

    /// Makes the search index again from the files, in steps between which others commit, and counts again
    /// what quotas count; gives the number of files that search may see. Search finds meanwhile what it found
    /// before: only where the index itself is damaged it is emptied first.
    ///
    /// # Errors
    /// From the storage; what was made until then stays.
    async fn reindex(&self) -> Result<u64>;

    /// The quotas of the tree, at most [`MAX_QUOTAS`](crate::model::quota::MAX_QUOTAS), in the order of their
    /// paths.
    ///
    /// # Errors
    /// From the storage.
    async fn quotas(&self) -> Result<Vec<Quota>>;

    /// Sets the quota of a path, in the place of the one that it has. It holds from the next commit on, in
    /// all processes. The path need not be there. Limits may be below what is used: then nothing is refused
    /// but what would grow that.
    ///
    /// # Errors
    /// `InvalidArgument` as [`Limits::check`] says; `TooLarge` for more quotas than a tree has, or more bytes
    /// below the path than are counted; from the storage.
    async fn set_quota(&self, path: &TreePath, limits: Limits) -> Result<Quota>;

    /// Removes the quota of a path.
    ///
    /// # Errors
    /// `NotFound` if the path has none; from the storage.
    async fn remove_quota(&self, path: &TreePath) -> Result<()>;
}

/// The account with [`SYSTEM`] in it, which is made if it is missing, whoever else makes it at the same time.
///
/// # Errors
/// `AlreadyExists` if something else has the name, or had it when the account was opened; from the storage.
pub async fn system(account: &dyn AccountStore) -> Result<Arc<dyn FileSystem>> {
    let system = TreePath::parse(SYSTEM)?;
    if let Some(raw) = system_of(account).await? {
        return Ok(raw);
    }
    let mark = SetAttrs::new().xattr(SYSTEM_MARK, "1");
    match account.raw().commit(Batch::new([Op::mkdir(&system).with_attrs(mark)]).by_garth()).await {
        Err(error) if !error.is(ErrorKind::AlreadyExists) => Err(error),
        _ => system_of(account).await?.ok_or_else(|| Error::not_found(&system)),
    }
}

/// The account with [`SYSTEM`] in it; `None` if nothing has made that yet.
///
/// # Errors
/// As [`system`].
pub async fn system_of(account: &dyn AccountStore) -> Result<Option<Arc<dyn FileSystem>>> {
    let system = TreePath::parse(SYSTEM)?;
    let raw = account.raw();
    let is_ours = match raw.stat(&At::Path(system.clone())).await {
        Ok(entry) => Some(entry.is_dir() && entry.attributes.xattrs.contains_key(SYSTEM_MARK)),
        Err(error) if error.is(ErrorKind::NotFound) => None,
        Err(error) => return Err(error),
    };
    // what is made there would show, if the name was somebody else's when the account was opened
    let is_hidden = !account.view_base().lowering().home().within.contains(&system);
    if is_ours == Some(false) || !is_hidden {
        let message =
            "garth keeps this name for itself: move what is there away, then open the account again";
        return Err(Error::at(ErrorKind::AlreadyExists, &system, message));
    }
    Ok(is_ours.map(|_| raw))
}

/// What came of setting a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetRule {
    /// Whether it is set.
    pub set: bool,
    /// What breaks it as it is: the first [`MAX_BREACHES`].
    pub breaches: Vec<Breach>,
    /// Whether more does.
    pub more: bool,
}

/// Most paths that are named of those that break a rule.
pub const MAX_BREACHES: usize = 100;

/// What a collection removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Collected {
    /// Expired entries whose removal is now in the version log.
    pub expired: u64,
    /// Uploads abandoned or never committed.
    pub staged: u64,
    /// Versions of files without a name, written through handles that are closed.
    pub versions: u64,
    /// Small extents merged into their neighbour.
    pub merged: u64,
    /// Chunks of content that nothing refers to.
    pub chunks: u64,
    /// Bytes of those chunks.
    pub bytes: u64,
    /// Pack files removed. One that has just become empty is removed by a later run, after the grace.
    pub packs: u64,
    /// Bytes of pack files given back to the disk: of those removed, and of ranges in others that nothing
    /// refers to.
    pub freed: u64,
    /// Files that wait for the grace: pack files that are empty or have such ranges, and unnamed files that
    /// were written to.
    pub waiting: u64,
    /// Bytes of pack files that will be given back then.
    pub waiting_bytes: u64,
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Fsck {
    /// Names looked at.
    pub names: u64,
    /// Versions of nodes looked at.
    pub versions: u64,
    /// Chunks whose bytes were compared with their checksum.
    pub chunks: u64,
    /// Bytes of those chunks.
    pub bytes: u64,
    /// What is wrong; empty for a sound account.
    pub findings: Vec<Finding>,
    /// Tables whose structure was not checked as a whole, since that takes longer than a read may last. Their
    /// rows were read all the same.
    pub large: Vec<String>,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Which promise is broken: `database`, `head`, `name`, `link_count`, `attribute`, `content`,
    /// `missing_content`, `orphan_content`, `references`, `extent`, `expiry`, `log`, `index` or
    /// `quota`.
    pub kind: &'static str,
    /// What and where.
    pub detail: String,
}

impl Fsck {
    pub(crate) fn add(&mut self, kind: &'static str, detail: String) {
        self.findings.push(Finding { kind, detail });
    }
}
