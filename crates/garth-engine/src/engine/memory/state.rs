//! State of the memory engine: names and nodes, each with its values by sequence number.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use futures::channel::oneshot;

use super::content::Content;
use super::text_index::TextIndex;
use crate::error::{Error, ErrorKind, Result};
use crate::model::quota::Limits;
use crate::model::{
    Attributes, ChangeKind, Commit, CommitId, CommitInfo, Entry, Idempotency, Ino, Kind, Moment, Seq,
    Snapshot, Timestamp, VersionId,
};
use crate::path::{Name, TreePath};
use crate::rule::retention::Retention;
use crate::rule::{Registry, Rules};

/// Values over time, each valid from one commit on.
#[derive(Clone, Debug)]
pub(super) struct Timeline<T>(Vec<(Seq, T)>);

impl<T> Default for Timeline<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Timeline<T> {
    /// Returns the value after commit `seq`.
    pub(super) fn at(&self, seq: Seq) -> Option<&T> {
        // Commits are pushed in order, so a binary search finds the last one up to `seq`.
        let after = self.0.partition_point(|(since, _)| *since <= seq);
        Some(&self.0[after.checked_sub(1)?].1)
    }

    /// Returns the value that commit `seq` itself set.
    pub(super) fn exactly(&self, seq: Seq) -> Option<&T> {
        let index = self.0.binary_search_by_key(&seq, |(since, _)| *since).ok()?;
        Some(&self.0[index].1)
    }

    /// Returns the commit that set the value after commit `seq`.
    pub(super) fn since(&self, seq: Seq) -> Option<Seq> {
        let after = self.0.partition_point(|(since, _)| *since <= seq);
        Some(self.0[after.checked_sub(1)?].0)
    }

    /// Returns all values, oldest first.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &(Seq, T)> {
        self.0.iter()
    }

    pub(super) fn push(&mut self, seq: Seq, value: T) {
        self.0.push((seq, value));
    }
}

/// One version of a node.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) ino: Ino,
    pub(super) kind: Kind,
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) rdev: u64,
    pub(super) atime: Timestamp,
    pub(super) mtime: Timestamp,
    pub(super) ctime: Timestamp,
    pub(super) birthtime: Timestamp,
    pub(super) target: Option<String>,
    pub(super) attributes: Arc<Attributes>,
    pub(super) expires_at: Option<Timestamp>,
    pub(super) version: VersionId,
    pub(super) etag: VersionId,
    pub(super) content: Content,
    /// Names: directory and name. The root has none.
    pub(super) names: Arc<BTreeSet<(Ino, Name)>>,
    /// Number of directories in a directory.
    pub(super) subdirectories: u64,
    /// True if this version is the removal of the last name.
    pub(super) end: bool,
}

impl Node {
    /// Returns a node that commit `seq` creates, without a name.
    pub(super) fn new(ino: Ino, kind: Kind, mode: u32, seq: Seq, time: Timestamp) -> Self {
        let version = VersionId { seq, ino };
        Self {
            ino,
            kind,
            mode,
            uid: 0,
            gid: 0,
            rdev: 0,
            atime: time,
            mtime: time,
            ctime: time,
            birthtime: time,
            target: None,
            attributes: Arc::default(),
            expires_at: None,
            version,
            etag: version,
            content: Content::default(),
            names: Arc::default(),
            subdirectories: 0,
            end: false,
        }
    }

    pub(super) fn is_directory(&self) -> bool {
        self.kind == Kind::Directory
    }

    pub(super) fn has_name(&self) -> bool {
        self.ino == Ino::ROOT || !self.names.is_empty()
    }

    pub(super) fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }

    /// Returns the size in bytes of its content or target.
    pub(super) fn size(&self) -> u64 {
        self.target.as_ref().map_or(self.content.size(), |target| target.len() as u64)
    }

    pub(super) fn entry(&self) -> Entry {
        Entry {
            ino: self.ino,
            kind: self.kind,
            mode: self.mode,
            uid: self.uid,
            gid: self.gid,
            rdev: self.rdev,
            // As on Linux: 2 for a directory (`.` and its name), and one for the `..` of each directory in
            // it.
            nlink: if !self.has_name() {
                0
            } else if self.is_directory() {
                2 + self.subdirectories
            } else {
                self.names.len() as u64
            },
            size: self.size(),
            atime: self.atime,
            mtime: self.mtime,
            ctime: self.ctime,
            birthtime: self.birthtime,
            target: self.target.clone(),
            attributes: Attributes::clone(&self.attributes),
            expires_at: self.expires_at,
            version: self.version,
            etag: self.etag,
        }
    }
}

/// Entry of the log.
#[derive(Clone, Debug)]
pub(super) struct LogEntry {
    pub(super) kind: ChangeKind,
    pub(super) ino: Ino,
    /// Name that was created, removed or moved to; for a change of the node itself, all of its names after
    /// the commit.
    pub(super) paths: Vec<TreePath>,
    /// True for a directory that was created with everything in it.
    pub(super) filled: bool,
}

/// Tree with its complete past.
pub(super) struct State {
    /// Rules and projections that were registered.
    pub(super) registry: Registry,
    pub(super) rules: Rules,
    pub(super) retention: Retention,
    /// First commit whose state is readable; 0 if all are.
    pub(super) oldest: Seq,
    /// States whose content of a file is gone: those from the first commit up to but without the second.
    pub(super) content_gone: BTreeMap<Ino, BTreeSet<(Seq, Seq)>>,
    /// Last commit that was searched for old content of each age.
    pub(super) searched: BTreeMap<Duration, Seq>,
    /// States that snapshots kept at the last search.
    pub(super) held: BTreeSet<Seq>,
    /// States that views of the past show, while these are open.
    pub(super) open_pasts: Mutex<Vec<(Seq, Weak<()>)>>,
    /// Limits of quotas, by path.
    pub(super) quotas: BTreeMap<TreePath, Limits>,
    /// Node of each name, by directory and name; `None` while there is none.
    pub(super) names: BTreeMap<Ino, BTreeMap<Name, Timeline<Option<Ino>>>>,
    pub(super) nodes: BTreeMap<Ino, Timeline<Node>>,
    pub(super) next_ino: u64,
    /// Log. Commit `s` is at index `s - 1`.
    pub(super) log: Vec<(CommitInfo, Vec<LogEntry>)>,
    /// Owner of each commit, in the order of the log; empty for the account.
    pub(super) owners: Vec<String>,
    /// Results of commits that have an id or an idempotency key.
    pub(super) answers: HashMap<Seq, Commit>,
    /// Commits by owner and id.
    pub(super) commit_ids: HashMap<(String, CommitId), Seq>,
    /// Idempotency records by owner and key.
    pub(super) idempotency: HashMap<(String, String), (Idempotency, Seq)>,
    /// Snapshots by owner and name.
    pub(super) snapshots: BTreeMap<(String, String), Snapshot>,
    /// Staged bodies, each with its owner.
    pub(super) staged: HashMap<u128, (String, Content)>,
    pub(super) next_staged_id: u128,
    /// Number of open handles, by node and holder.
    pub(super) open: BTreeMap<(Ino, u64), usize>,
    pub(super) next_holder: u64,
    /// Index of the words of files, up to date as of the last search.
    pub(super) text: Mutex<TextIndex>,
    /// Channels to notify of the next commit. Some receivers have been dropped.
    pub(super) waiting: Vec<oneshot::Sender<()>>,
}

impl State {
    pub(super) fn new(registry: Registry) -> Self {
        let root = Node::new(Ino::ROOT, Kind::Directory, 0o755, Seq(0), Timestamp(0));
        let mut versions = Timeline::default();
        versions.push(Seq(0), root);
        Self {
            rules: registry.rules().clone(),
            retention: Retention { content: registry.content_limits().to_vec(), ..Retention::default() },
            registry,
            oldest: Seq(0),
            content_gone: BTreeMap::new(),
            searched: BTreeMap::new(),
            held: BTreeSet::new(),
            open_pasts: Mutex::default(),
            quotas: BTreeMap::new(),
            names: BTreeMap::new(),
            nodes: BTreeMap::from([(Ino::ROOT, versions)]),
            next_ino: Ino::ROOT.0 + 1,
            log: Vec::new(),
            owners: Vec::new(),
            answers: HashMap::new(),
            commit_ids: HashMap::new(),
            idempotency: HashMap::new(),
            snapshots: BTreeMap::new(),
            staged: HashMap::new(),
            next_staged_id: 0,
            open: BTreeMap::new(),
            next_holder: 0,
            text: Mutex::default(),
            waiting: Vec::new(),
        }
    }

    /// Returns true if one of the holders holds a node open. Holder 0 stands for all holders.
    pub(super) fn is_held(&self, ino: Ino, holders: &[u64]) -> bool {
        // Keyed by node first: all of its holders are one range.
        let mut open = self.open.range((ino, 0)..=(ino, u64::MAX)).map(|((_, one), _)| *one);
        open.any(|one| holders.iter().any(|holder| *holder == 0 || one == *holder))
    }

    pub(super) fn head(&self) -> Seq {
        Seq(self.log.len() as u64)
    }

    /// Returns the time of a commit; 0 for the empty tree before the first.
    pub(super) fn time_of(&self, seq: Seq) -> Timestamp {
        self.info(seq).map_or(Timestamp(0), |info| info.time)
    }

    pub(super) fn info(&self, seq: Seq) -> Option<&CommitInfo> {
        let index = usize::try_from(seq.0.checked_sub(1)?).ok()?;
        Some(&self.log.get(index)?.0)
    }

    /// Returns the sequence number of a moment, for a viewer who sees up to `head`.
    pub(super) fn seq_of(&self, moment: &Moment, head: Seq, owner: &str) -> Result<Seq> {
        let not_there = |what: String| Error::new(ErrorKind::NotFound, what);
        let seq = match moment {
            // A view of the past knows nothing of later commits, also if they exist by now.
            Moment::Seq(seq) if *seq <= head => *seq,
            Moment::Seq(seq) => {
                return Err(not_there(format!("there is no commit {seq}; the last is {head}")));
            }
            Moment::Time(time) => {
                let until = self.log.partition_point(|(commit, _)| commit.time <= *time);
                Seq(until as u64).min(head)
            }
            Moment::Snapshot(name) => match self.snapshots.get(&(owner.to_owned(), name.clone())) {
                Some(snapshot) if snapshot.seq <= head => snapshot.seq,
                _ => return Err(not_there("no snapshot by that name".to_owned())),
            },
        };
        self.check_readable(seq)?;
        Ok(seq)
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("head", &self.head()).finish_non_exhaustive()
    }
}
