//! Maintenance of an account's storage. The data folder hands out an [`AccountStore`]; views, and callers
//! that are confined to a part, have a [`FileSystem`] and cannot reach it.
//!
//! Backups are not part of it: a data folder makes them of all its accounts at once
//! ([`DataDir::backup`](crate::DataDir::backup)), and a database server has its own tools.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::{Error, ErrorKind, Result};
use crate::fs::FileSystem;
use crate::model::quota::{Limits, Quota};
use crate::model::{At, Batch, Op, Owner, Seq, SetAttrs, Timestamp};
use crate::path::{SYSTEM, TreePath};
use crate::rule::retention::Retention;
use crate::rule::{FileViolation, PathPattern, Rule};

/// Attribute of [`SYSTEM`] if garth created it.
pub const SYSTEM_MARK: &str = "garth.system";

/// Complete tree of an account, with its storage. A long call takes no thread of the caller. Unless it says
/// otherwise, it runs to its end even if the future is dropped after it was polled.
#[async_trait]
pub trait AccountStore: FileSystem {
    /// Returns the tree including [`SYSTEM`]: for administrators, and for garth's own data. If somebody
    /// created the name [`SYSTEM`] before garth reserved it, it shows in the ordinary tree, too, and garth
    /// stores nothing in it until it is moved away and the account is opened again.
    fn raw(&self) -> Arc<dyn FileSystem>;

    /// Returns the tree for writes of an administrator that rules would refuse. They are not judged, and the
    /// log marks their commits.
    fn overriding_rules(&self) -> Arc<dyn FileSystem>;

    /// Returns the rules in force, including those that every tree has.
    ///
    /// # Errors
    /// `Corrupt` for a rule that cannot be read; errors of the storage.
    async fn rules(&self) -> Result<Vec<Rule>>;

    /// Sets a rule, replacing the one with the same pattern and kind of constraint. It is in force from the
    /// next commit on, in every process. A rule that existing files violate is only set with `force`: those
    /// files stay as they are until they are changed. A file that is too long to be checked, with more than
    /// 16 GiB without its holes, counts as one that violates it.
    ///
    /// If the future is dropped while files are checked, the check ends and the rule is not set.
    ///
    /// # Errors
    /// `TooLarge` for more than [`MAX_RULES`](crate::rule::MAX_RULES); `AlreadyExists` if every tree has such
    /// a rule; `InvalidArgument` for a pattern that is the path of a directory, which matches none of the
    /// files in it; `WouldBlock` if the tree changes faster than it can be checked; errors of the storage.
    async fn set_rule(&self, rule: Rule, force: bool) -> Result<SetRuleResult>;

    /// Removes the rule of a pattern with a constraint of this name. Returns false if there was none.
    ///
    /// # Errors
    /// `AlreadyExists` for a rule that every tree has; errors of the storage.
    async fn remove_rule(&self, pattern: &PathPattern, constraint: &str) -> Result<bool>;

    /// Collects garbage, and the past that the retention ends, in steps that hold up commits for 50 ms at
    /// most. Data that other processes may still use is removed in two phases: one run marks it, and a run at
    /// least `grace` later removes it unless a process took a lease in between. Each process takes its leases
    /// once a minute, so a `grace` below two minutes is safe only if no other process has the account open:
    /// its reads of what is removed fail.
    ///
    /// An upload that no commit has used is removed `grace` after it was finished, but not within two
    /// minutes; one that still arrives, when it has been idle for a day.
    ///
    /// # Errors
    /// Errors of the storage; completed steps stay.
    async fn gc(&self, grace: Duration) -> Result<Collected>;

    /// Returns what [`gc`](Self::gc) would remove now. Changes nothing and marks nothing, so a grace period
    /// that has not begun does not begin.
    ///
    /// # Errors
    /// Errors of the storage.
    async fn gc_dry_run(&self, grace: Duration) -> Result<Collectable>;

    /// Checks everything, piece by piece, without changing it. Data that is written during the check is
    /// judged as it is when its turn comes.
    ///
    /// # Errors
    /// Errors of the storage. Damage is not an error: it is part of the report.
    async fn fsck(&self) -> Result<Fsck>;

    /// Rebuilds the search index from the files, in steps between which others commit, and recounts the usage
    /// of quotas and the bytes in pack files. The next removal of the past looks at all nodes. Returns the
    /// number of files that search may see. Searches use the old index in the meantime; only a damaged index
    /// is emptied first.
    ///
    /// # Errors
    /// Errors of the storage; completed steps stay.
    async fn reindex(&self) -> Result<u64>;

    /// Returns the quotas of the tree, at most [`MAX_QUOTAS`](crate::model::quota::MAX_QUOTAS), ordered by
    /// path.
    ///
    /// # Errors
    /// Errors of the storage.
    async fn quotas(&self) -> Result<Vec<Quota>>;

    /// Sets the quota of a path, replacing an existing one. It holds from the next commit on, in all
    /// processes. The path need not exist. Limits may be below the current usage: then only what would
    /// increase it is refused.
    ///
    /// # Errors
    /// `InvalidArgument` as [`Limits::check`]; `TooLarge` for more quotas than a tree has, or more bytes
    /// below the path than can be counted; errors of the storage.
    async fn set_quota(&self, path: &TreePath, limits: Limits) -> Result<Quota>;

    /// Removes the quota of a path.
    ///
    /// # Errors
    /// `NotFound` if the path has no quota; errors of the storage.
    async fn remove_quota(&self, path: &TreePath) -> Result<()>;

    /// Returns how much of its past the account keeps, and how far it is gone.
    ///
    /// # Errors
    /// `Corrupt` for a content limit that cannot be read; errors of the storage.
    async fn retention(&self) -> Result<RetentionState>;

    /// Sets how much of its past the account keeps, and how much it stores, replacing all that was set. The
    /// limit on stored bytes holds from the next commit on; the past is removed by the next collection, and
    /// for good. Old content that an earlier limit has removed does not return.
    ///
    /// # Errors
    /// `InvalidArgument` as [`Retention::check`], and for a new path class that is the path of a directory:
    /// it matches none of the files in it; errors of the storage.
    async fn set_retention(&self, retention: Retention) -> Result<RetentionState>;

    /// Sets the retention if it is still `before`, for a change of some of its limits.
    ///
    /// # Errors
    /// `Conflict` if it is another one: read it again; as [`set_retention`](Self::set_retention).
    async fn replace_retention(&self, before: Retention, retention: Retention) -> Result<RetentionState>;

    /// Returns what takes the space of the account, with the children of a path.
    ///
    /// # Errors
    /// `NotFound` or `NotADirectory` for a path that is not a directory; errors of the storage.
    async fn usage(&self, below: &TreePath) -> Result<StoredUsage>;

    /// Starts the collection that is due, if any. Returns the time from which the next one is due; `None` if
    /// only a change can make one due.
    ///
    /// # Errors
    /// Errors of the storage.
    #[doc(hidden)]
    async fn collect_next(&self) -> Result<Option<Timestamp>> {
        Err(Error::new(ErrorKind::Unsupported, "this account does not collect by itself"))
    }
}

/// Returns the account including [`SYSTEM`], which is created if it is missing, even by several callers at
/// once.
///
/// # Errors
/// `AlreadyExists` if something else has the name, or had it when the account was opened; errors of the
/// storage.
pub async fn system(account: &dyn AccountStore) -> Result<Arc<dyn FileSystem>> {
    let system = TreePath::parse(SYSTEM)?;
    if let Some(raw) = system_of(account).await? {
        return Ok(raw);
    }
    let mark = SetAttrs::new().xattr(SYSTEM_MARK, "1");
    // By garth: no other batch may set the mark.
    match account.raw().commit(Batch::new([Op::mkdir(&system).with_attrs(mark)]).by_garth()).await {
        // Another caller may have created it after the first look.
        Err(error) if !error.is(ErrorKind::AlreadyExists) => Err(error),
        _ => system_of(account).await?.ok_or_else(|| Error::not_found(&system)),
    }
}

/// Returns the account including [`SYSTEM`]; `None` if nobody has created that yet.
///
/// # Errors
/// As [`system`].
pub async fn system_of(account: &dyn AccountStore) -> Result<Option<Arc<dyn FileSystem>>> {
    let system = TreePath::parse(SYSTEM)?;
    let raw = account.raw();
    // The mark tells the directory of garth from one that somebody created under this name before.
    let is_ours = match raw.stat(&At::Path(system.clone())).await {
        Ok(entry) => Some(entry.is_dir() && entry.attributes.xattrs.contains_key(SYSTEM_MARK)),
        Err(error) if error.is(ErrorKind::NotFound) => None,
        Err(error) => return Err(error),
    };
    // If somebody else's name existed when the account was opened, garth's data would show under it.
    let is_hidden = !account.view_base().lowering().home().within.contains(&system);
    if is_ours == Some(false) || !is_hidden {
        let message =
            "this name is reserved for garth: move the existing entry away, then open the account again";
        return Err(Error::at(ErrorKind::AlreadyExists, &system, message));
    }
    Ok(is_ours.map(|_| raw))
}

/// Result of setting a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetRuleResult {
    /// True if the rule is set.
    pub set: bool,
    /// First [`MAX_VIOLATIONS`] files that violate the rule.
    pub violations: Vec<FileViolation>,
    /// True if there are more.
    pub more: bool,
}

/// Limit on the violations that are listed.
pub const MAX_VIOLATIONS: usize = 100;

/// Report of a garbage collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "StorageCollected", deny_unknown_fields)]
pub struct Collected {
    /// Expired entries whose removal is now in the version log.
    pub expired: u64,
    /// Uploads abandoned or never committed.
    pub staged: u64,
    /// Versions of files without a name, written through handles that are closed.
    pub versions: u64,
    /// Small extents merged into their neighbour.
    pub merged: u64,
    /// Chunks of content without a reference.
    pub chunks: u64,
    /// Bytes of those chunks.
    pub bytes: u64,
    /// Pack files removed. One that has just become empty is removed by a later run, after the grace.
    pub packs: u64,
    /// Bytes of pack files given back to the disk: of removed files, and of ranges in others without a
    /// reference.
    pub freed: u64,
    /// Bytes of free pages by which the file of the database becomes shorter.
    pub shrunk: u64,
    /// Files that wait for the grace: pack files that are empty or have such ranges, and unnamed files that
    /// were written to.
    pub waiting: u64,
    /// Bytes of pack files that are given back after the grace.
    pub waiting_bytes: u64,
    /// Commits that can no longer be read and leave the version log after the grace, or once no view of the
    /// past has them open.
    pub waiting_commits: u64,
    /// Files with old content that can no longer be read and is removed after the grace, or once no view of
    /// the past or handle has it open.
    pub waiting_contents: u64,
    /// Commits that left the version log, with the past before them.
    pub folded: u64,
    /// Versions of entries removed with that past.
    pub ended_versions: u64,
    /// Length of the content that only that past showed. Chunks that something else shares stay.
    pub ended_bytes: u64,
    /// Old contents of files that became unreadable, because their path class keeps less than the log does.
    pub contents: u64,
    /// Length of such content that was removed, after the grace. Chunks that something else shares stay.
    pub content_bytes: u64,
    /// First commit whose state is readable; 0 if all are.
    pub oldest: u64,
}

/// Report of a dry run of a garbage collection. A run removes at least this much: it also merges small
/// extents, and removes chunks that merging, unnamed files, the past and old content release. What only the
/// past has goes after the grace, and once no view of the past or handle has it open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "StorageCollectable", deny_unknown_fields)]
pub struct Collectable {
    /// Expired entries whose removal is not yet in the version log.
    pub expired: u64,
    /// Uploads abandoned or never committed.
    pub staged: u64,
    /// Files without a name whose last writes are removed.
    pub unnamed: u64,
    /// Chunks of content without a reference once those uploads are removed.
    pub chunks: u64,
    /// Bytes of those chunks.
    pub bytes: u64,
    /// Pack files that are removed.
    pub packs: u64,
    /// Bytes of pack files that are given back to the disk, where the filesystem can give back ranges.
    pub freed: u64,
    /// Files that wait for the grace: pack files that are empty or have such ranges, and unnamed files that
    /// were written to.
    pub waiting: u64,
    /// Bytes of pack files that are given back after the grace.
    pub waiting_bytes: u64,
    /// Commits that leave the version log, after the grace.
    pub folded: u64,
    /// Versions of entries that are removed with that past.
    pub ended_versions: u64,
    /// Length of the content that only that past shows. Chunks that something else shares stay.
    pub ended_bytes: u64,
    /// Old contents of files that become unreadable, because their path class keeps less than the log does.
    pub contents: u64,
    /// Length of such content that is removed after the grace, also of contents that wait for it.
    pub content_bytes: u64,
    /// First commit whose state would be readable; 0 if all are.
    pub oldest: u64,
}

/// Retention of an account, and its effect so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetentionState {
    /// Retention as it was set.
    pub set: Retention,
    /// First commit whose state is readable; 0 if all are.
    pub oldest: Seq,
    /// Time of that commit; `None` for 0.
    pub oldest_time: Option<Timestamp>,
    /// Commit up to which the rows of the past are removed, at most `oldest`.
    pub folded: Seq,
    /// Stored bytes, which the limit counts.
    pub stored: u64,
    /// True if the limit on stored bytes leaves no room for a small file.
    pub full: bool,
    /// First thing that keeps `oldest` or `folded` from rising, if any.
    pub held_by: Option<Hold>,
    /// Path classes that are the path of one entry, and match nothing now, as that is no file. For the files
    /// in a directory `/d`, a class is `/d/**`.
    pub without_file: Vec<PathPattern>,
}

impl RetentionState {
    /// Returns the stored bytes beyond the limit on them; 0 if there are none, or no limit is set.
    pub fn over_limit(&self) -> u64 {
        self.set.stored.map_or(0, |limit| self.stored.saturating_sub(limit))
    }
}

/// Reader of a state of the past, which stays readable for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hold {
    /// Snapshot.
    Snapshot {
        /// Owner, unless that is the account.
        owner: Option<Owner>,
        /// Name.
        name: String,
    },
    /// Overlay over a state of the tree.
    Fork {
        /// Id of the overlay.
        id: String,
    },
    /// View of the past that a process has open.
    Reader,
}

/// Space that an account takes, in bytes. `pages` to `uploads` are exact. The rest are estimates from the
/// rows: content that several versions or files share counts in equal parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredUsage {
    /// Pages of the database in use.
    pub pages: u64,
    /// Free pages of the database, which later writes use. Collections return those beyond a quarter of its
    /// file to the disk, unless an older garth created it.
    pub free: u64,
    /// Write-ahead log of the database.
    pub wal: u64,
    /// Content in pack files, with finished uploads that no commit has used.
    pub packs: u64,
    /// Files of uploads in progress.
    pub uploads: u64,
    /// Limit on the stored bytes, if one is set.
    pub limit: Option<u64>,
    /// Newest versions of all entries, with their names and content.
    pub live: u64,
    /// Earlier versions, and removed entries.
    pub history: u64,
    /// Version log.
    pub log: u64,
    /// Search index.
    pub index: u64,
    /// Part of `live` and `history` that overlays have.
    pub overlays: u64,
    /// Part of the content in `history` that only snapshots, overlays and open views of the past keep.
    pub snapshots: u64,
    /// Children of the path that was asked for, the first [`MAX_USAGE_PATHS`] of them.
    pub paths: Vec<PathUsage>,
    /// True if there are more.
    pub more: bool,
}

/// Limit on the paths of a [`StoredUsage`].
pub const MAX_USAGE_PATHS: usize = 1000;

/// Space that a path and everything below it take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathUsage {
    /// Path.
    pub path: TreePath,
    /// As [`StoredUsage::live`].
    pub live: u64,
    /// As [`StoredUsage::history`].
    pub history: u64,
}

impl StoredUsage {
    /// Returns the bytes that the limit counts.
    pub fn stored(&self) -> u64 {
        self.pages.saturating_add(self.packs)
    }
}

/// Report of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "StorageCheck", deny_unknown_fields)]
pub struct Fsck {
    /// Names checked.
    pub names: u64,
    /// Versions of nodes checked.
    pub versions: u64,
    /// Chunks whose bytes were compared with their checksum.
    pub chunks: u64,
    /// Bytes of those chunks.
    pub bytes: u64,
    /// Damage; empty for a sound account.
    pub findings: Vec<Finding>,
    /// Tables whose structure was not checked as a whole, because that takes longer than a read may last.
    /// Their rows were read nonetheless.
    pub large: Vec<String>,
}

/// Content of a backup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Backup {
    /// Last commit in the backup.
    pub seq: u64,
    /// Bytes written.
    pub bytes: u64,
}

/// One instance of damage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "StorageFinding", deny_unknown_fields)]
pub struct Finding {
    /// Broken invariant: `database`, `head`, `name`, `link_count`, `attribute`, `content`, `missing_content`,
    /// `orphan_content`, `references`, `extent`, `expiry`, `log`, `times`, `past`, `retention`, `index`,
    /// `projection`, `quota` or `rule`.
    pub kind: &'static str,
    /// Description and place of the damage.
    pub detail: String,
}

impl Fsck {
    /// Adds a finding of this kind, with a description of the damage and its place.
    #[doc(hidden)]
    pub fn add(&mut self, kind: &'static str, detail: String) {
        self.findings.push(Finding { kind, detail });
    }
}
