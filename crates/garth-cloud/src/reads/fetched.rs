//! Rows that were fetched, and keys of rows to fetch.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::Arc;

use bytes::Bytes;
use garth_engine::engine::planner::{ExtentRow, HeadRow, Key, NameRow, NodeRow};
use garth_engine::engine::relational::gate_judgements::Judgements;
use garth_engine::engine::relational::reads::tree_rows::{CommitSpan, NameSpan};
use garth_engine::model::{Author, CommitInfo, Kind, Projection, Snapshot};
use garth_engine::rule::Registry;
use garth_engine::{Error, ErrorKind, Result};

use super::assembled::Assembled;
use super::memo::{Memo, Versions};

/// Past spans of a path that are fetched at a time, and names that a node has lost.
pub(super) const SPANS: usize = 128;

/// Rows of one snapshot of the database.
#[derive(Debug)]
pub(crate) struct FetchedRows {
    pub(super) registry: Registry,
    pub(super) judgements: Arc<Judgements>,
    /// Number of times that the run of the read asked for a row that was not fetched.
    pub(super) misses: Cell<usize>,
    pub(super) names: Names,
    pub(super) nodes: Nodes,
    pub(super) contents: Contents,
    pub(super) log: Log,
    pub(super) spans: Spans,
}

impl FetchedRows {
    /// Returns an empty set for the state after commit `last`, the largest `i64` for the newest.
    pub(crate) fn new(registry: Registry, judgements: Arc<Judgements>, last: u64) -> Self {
        Self {
            registry,
            judgements,
            misses: Cell::new(0),
            names: Names::default(),
            nodes: Nodes::default(),
            contents: Contents::default(),
            log: Log::new(last),
            spans: Spans::default(),
        }
    }

    /// Begins another run of the read.
    pub(crate) fn begin(&self) {
        self.misses.set(0);
    }

    /// Forgets all rows, and notes to fetch them again: they are of another snapshot than the next ones.
    pub(crate) fn renew(&self) {
        self.names.renew();
        self.nodes.renew();
        self.contents.renew();
        self.log.renew();
        self.spans.renew();
    }

    /// Notes to fetch a name after commit `seq`.
    pub(crate) fn want_name(&self, dir: &str, name: &str, seq: u64) {
        self.names.at.want((dir.to_owned(), name.to_owned(), seq));
    }

    /// Notes to fetch a part of a file after commit `seq`, whose size is not known yet.
    pub(crate) fn want_content(&self, file: FileKey, seq: u64, (from, to): (u64, u64)) {
        self.contents.unsized_parts.want((file, seq, from, to));
    }

    /// Returns the head row and how far ended rows may be removed; `None` if it was not fetched.
    ///
    /// # Errors
    /// `NotFound` if the account was deleted.
    pub(crate) fn head_row(&self) -> Result<Option<Head>> {
        self.get(&self.log.head, ()).map(|head| head.ok_or_else(deleted)).transpose()
    }

    /// Returns the head row of a round, of which each fetches it; `None` before the first one.
    ///
    /// # Errors
    /// `NotFound` if the account was deleted.
    pub(crate) fn known_head(&self) -> Result<Option<Head>> {
        self.log.head.known(&()).map(|head| head.ok_or_else(deleted)).transpose()
    }

    /// Returns the time of the snapshot by the clock of the database; before the first round, a time at which
    /// nothing has expired.
    pub(crate) fn now(&self) -> i64 {
        self.log.head.known(&()).flatten().map_or(i64::MIN, |head| head.now)
    }

    /// Returns a value, or notes its key.
    pub(super) fn get<K: Clone + Eq + Hash, V: Clone>(&self, memo: &Memo<K, V>, key: K) -> Option<V> {
        let known = memo.known(&key);
        if known.is_none() {
            self.misses.set(self.misses.get() + 1);
            memo.want(key);
        }
        known
    }
}

/// Name of a page.
#[derive(Clone, Debug)]
pub(super) struct PageName {
    pub(super) dir: String,
    pub(super) name: String,
    pub(super) ino: u64,
    pub(super) kind: Kind,
    pub(super) node: Option<NodeRow>,
}

/// Range of a page: directory and name after which it begins, and the end of the directories.
pub(super) type PageRange = (String, String, Option<String>);

/// Page of the newest state: its range, true if nodes are read, and a limit.
pub(super) type PageNow = (PageRange, bool, usize);

/// Part of the tree as directories: a directory and a name in it, empty for all names, and the end of the
/// directories, exclusive.
pub(super) type Places = Vec<(String, String, String)>;

/// Names of a node: inode, commit, places, the directory and name after which they begin, and a limit.
pub(super) type NamesOf = (u64, u64, Places, Key, usize);

/// Past names of a node: inode, span of commits, and a limit.
pub(super) type PastNamesOf = (u64, CommitSpan, usize);

/// Past name: directory and name, and the commits that made and ended it.
pub(super) type PastName = (Key, u64, u64);

/// Entries of a directory whose file has a key: projection and key, the directory and the name of the file,
/// and a limit.
pub(super) type OpenEntriesOf = (Projection, String, String, String, usize);

/// Names that were fetched.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// By directory, name and commit.
    pub(super) at: Memo<(String, String, u64), Option<NameRow>>,
    pub(super) of: Memo<NamesOf, Arc<Vec<Key>>>,
    pub(super) past_of: Memo<PastNamesOf, Arc<Vec<PastName>>>,
    pub(super) now: Memo<PageNow, Arc<Vec<PageName>>>,
    /// By range and commit.
    pub(super) past: Memo<(PageRange, u64), Arc<Vec<PageName>>>,
    /// Entries of gated directories; `None` if there are too many, or if the index does not have them.
    pub(super) open: Memo<OpenEntriesOf, Option<Arc<Vec<String>>>>,
}

impl Names {
    fn renew(&self) {
        self.at.renew();
        self.of.renew();
        self.past_of.renew();
        self.now.renew();
        self.past.renew();
        self.open.renew();
    }
}

/// Versions and attributes that were fetched.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    pub(super) versions: Versions,
    /// Commit of the version after one, by inode and commit.
    pub(super) next: Memo<(u64, u64), Option<u64>>,
    pub(super) last_unlink: Memo<u64, Option<u64>>,
    /// JSON by inode and commit.
    pub(super) attributes: Memo<(u64, u64), Option<String>>,
}

impl Nodes {
    fn renew(&self) {
        self.versions.renew();
        self.next.renew();
        self.last_unlink.renew();
        self.attributes.renew();
    }
}

/// Part of a file: inode, commit, and the first and the last byte, exclusive.
pub(super) type Part = (u64, u64, u64, u64);

/// File whose size is not known yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum FileKey {
    /// Directory and name.
    Path(String, String),
    /// Inode.
    Node(u64),
}

/// Part of such a file: the file, a commit, and the first and the last byte, exclusive.
pub(super) type UnsizedPart = (FileKey, u64, u64, u64);

/// Content that was fetched.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) parts: Memo<Part, Result<Bytes>>,
    pub(super) unsized_parts: Memo<UnsizedPart, ()>,
    /// By inode and range.
    pub(super) extents_now: Memo<(u64, u64, u64), Arc<Vec<ExtentRow>>>,
    pub(super) extents_at: Memo<Part, Arc<Vec<ExtentRow>>>,
    /// Commits that wrote the bytes of merged chunks, by chunk.
    pub(super) origins: Memo<u64, Option<Vec<u8>>>,
    /// Earliest time from which on views do not read the content that a node had after a commit.
    pub(super) gone: Memo<(u64, u64), Option<i64>>,
    /// Parts of which only the first extents were fetched.
    begun: RefCell<HashMap<Part, Assembled>>,
}

impl Contents {
    /// Returns a part as far as it was fetched.
    pub(super) fn begun(&self, key: &Part) -> Assembled {
        self.begun.borrow_mut().remove(key).unwrap_or_else(|| Assembled::new(key.2, key.3))
    }

    /// Adds a part. One that is not complete is continued once it is asked for again.
    pub(super) fn put(&self, key: Part, part: Assembled, is_complete: bool) {
        if is_complete || part.has_failed() {
            self.parts.put(key, part.done());
        } else {
            self.begun.borrow_mut().insert(key, part);
        }
    }

    fn renew(&self) {
        self.begun.borrow_mut().clear();
        self.parts.renew();
        self.unsized_parts.renew();
        self.extents_now.renew();
        self.extents_at.renew();
        self.origins.renew();
        self.gone.renew();
    }
}

/// Head row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) row: HeadRow,
    /// Last commit up to which ended rows are removed, or may be by the removal in progress.
    pub(crate) reached: u64,
    /// Time of the transaction that fetched it, by the clock of the database.
    pub(crate) now: i64,
}

/// Commit with the first piece of its changes and the key of its owner.
#[derive(Clone, Debug)]
pub(super) struct LogRow {
    pub(super) info: CommitInfo,
    pub(super) changes: String,
    pub(super) owner: String,
}

/// Page of the log: the commit before it, and the session as the log has it.
pub(super) type LogPage = (u64, Option<Vec<u8>>);

/// Page of snapshots: the key of the owner, if only those are read; owner and name after which it begins.
pub(super) type SnapshotsAfter = (Option<String>, String, String);

/// Rows of the log and snapshots that were fetched.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) head: Memo<(), Option<Head>>,
    pub(super) commits: Memo<u64, Option<(CommitInfo, String)>>,
    /// Last commit that is not later than a time.
    pub(super) last_until: Memo<i64, Option<u64>>,
    pub(super) pages: Memo<LogPage, Arc<Vec<LogRow>>>,
    /// Further changes of a commit, from a change on or, with `true`, from the last piece before it on.
    pub(super) pieces: Memo<(u64, u64, bool), Option<(u64, String)>>,
    pub(super) folded_authors: Memo<u64, Result<Author>>,
    /// By the key of the owner, and the name.
    pub(super) snapshot: Memo<(String, String), Option<u64>>,
    pub(super) snapshots: Memo<SnapshotsAfter, Arc<Vec<Snapshot>>>,
    /// Last commit of the state that is read.
    pub(super) last: u64,
}

impl Log {
    /// Returns an empty set. `last` is the last commit of the state that is read.
    pub(super) fn new(last: u64) -> Self {
        Self {
            head: Memo::default(),
            commits: Memo::default(),
            last_until: Memo::default(),
            pages: Memo::default(),
            pieces: Memo::default(),
            folded_authors: Memo::default(),
            snapshot: Memo::default(),
            snapshots: Memo::default(),
            last,
        }
    }

    fn renew(&self) {
        self.head.renew();
        self.commits.renew();
        self.last_until.renew();
        self.pages.renew();
        self.pieces.renew();
        self.folded_authors.renew();
        self.snapshot.renew();
        self.snapshots.renew();
    }
}

/// Path and two commits.
pub(super) type PathSpan = (String, String, u64, u64);

/// Name that a node lost: directory, name, and the commit that ended it.
pub(super) type EndedName = (String, String, u64);

/// Spans that were fetched.
#[derive(Debug, Default)]
pub(super) struct Spans {
    /// True if a path named anything, by the oldest and the last commit.
    pub(super) used: Memo<PathSpan, bool>,
    /// Spans of a path that ended before a commit, the newest first, at most [`SPANS`].
    pub(super) ended: Memo<(String, String, u64), Arc<BTreeMap<u64, NameSpan>>>,
    pub(super) came_later: Memo<PathSpan, Arc<Vec<u64>>>,
    pub(super) last_end: Memo<(u64, u64), Option<u64>>,
    /// Names that a node lost up to a commit, the last first, at most a number.
    pub(super) ends: Memo<(u64, u64, usize), Arc<Vec<EndedName>>>,
}

impl Spans {
    /// Returns the newest span of a path that ended before a commit, if it was fetched with later ones. In it
    /// `None` if there is none.
    pub(super) fn ended_with(&self, dir: &str, name: &str, till: u64) -> Option<Option<NameSpan>> {
        self.ended.find(|(of, own, before), spans| {
            let fits = of == dir && own == name && *before >= till;
            let found = fits.then(|| spans.range(..till).next_back().map(|(_, span)| *span))?;
            // Only a list that is not full has the first span.
            (found.is_some() || spans.len() < SPANS).then_some(found)
        })
    }

    fn renew(&self) {
        self.used.renew();
        self.ended.renew();
        self.came_later.renew();
        self.last_end.renew();
        self.ends.renew();
    }
}

/// Returns the error of an account without a head row.
fn deleted() -> Error {
    Error::new(ErrorKind::NotFound, "the account does not exist, or was deleted")
}
