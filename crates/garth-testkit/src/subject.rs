//! Filesystems under test. A [`Subject`] is a fresh filesystem on a clock that the test moves, with the facts
//! that a test needs about it. The modules put views on a subject: a scope, a part of a mount, an overlay, a
//! stack of them.

mod instance;
pub mod mounted;
mod overlaid;
mod scoped;
pub mod stacked;

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use garth_engine::engine::host::{HostFs, Mode};
use garth_engine::engine::memory::MemoryFs;
use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::env::ManualClock;
use garth_engine::model::{Batch, Ino, MAX_TARGET, Remove, Seq, Timestamp};
use garth_engine::{AccountStore, Env, FileSystem};

pub use self::instance::{Instance, Store};

use crate::tools::{apply, in_memory, mkdir_all, remove, write};

/// Opens the same data as a new instance.
pub type Reopen = Box<dyn Fn() -> Pin<Box<dyn Future<Output = Instance> + Send>> + Send + Sync>;

/// Collects garbage from another instance, as another process would.
pub type Collect =
    Box<dyn Fn() -> Pin<Box<dyn Future<Output = garth_engine::Result<()>> + Send>> + Send + Sync>;

/// A filesystem under test: fresh and empty, on a clock that the test moves.
pub struct Subject {
    /// The filesystem.
    pub fs: Arc<dyn FileSystem>,
    /// Account whose paths the filesystem has: rules, quotas and retention apply to them.
    pub store: Store,
    /// Its clock.
    pub clock: ManualClock,
    /// Last commit before the test; 0 if there was none.
    pub head: Seq,
    /// Inode of the next node.
    pub next: Ino,
    /// Longest target of a symbolic link, in bytes.
    pub longest_target: usize,
    /// True if a model run also draws limits on the past of the account. This needs a store.
    pub retained: bool,
    /// True if operations are slow, as through many views: checks then create fewer nodes.
    pub slow: bool,
    /// Opens the data again, if they outlive an instance.
    pub reopen: Option<Reopen>,
    /// Collects garbage, if the filesystem has any.
    pub collect: Option<Collect>,
    /// Guard that must live as long as the subject, such as the folder it is in.
    pub keep: Box<dyn Any + Send + Sync>,
}

/// Grace of collections, longer than the clock moves in any test, so that other instances lose nothing.
pub const GRACE: Duration = Duration::from_secs(7 * 24 * 3600);

/// Start time of subjects: 2026-01-01T00:00:00Z.
pub const START: Timestamp = Timestamp(1_767_225_600_000_000_000);

impl Subject {
    /// Returns a clock at [`START`], and its environment.
    pub fn clock() -> (Env, ManualClock) {
        Env::manual(START)
    }

    /// Returns a subject on the SQLite engine in a new folder below `base`. It can be opened again.
    ///
    /// # Panics
    /// If the folder or the account cannot be created.
    pub fn sqlite(base: &Path) -> Self {
        let (env, clock) = Self::clock();
        let folder = tempfile::tempdir_in(base).expect("a temporary folder can be made");
        let path = folder.path().to_owned();
        let open = move || {
            SqliteFs::open(&path, env.clone(), garth_engine::rule::sample::registry())
                .expect("the engine opens what it wrote")
        };
        // Another instance, as in another process.
        let collect = open.clone();
        let first = Instance::of_account(open());
        Self {
            reopen: Some(Box::new(move || Box::pin(std::future::ready(Instance::of_account(open()))))),
            collect: Some(Box::new(move || {
                let fs = collect();
                Box::pin(async move { fs.gc(GRACE).await.map(drop) })
            })),
            keep: Box::new(folder),
            ..Self::new(first, clock)
        }
    }

    /// Returns a subject on the memory engine.
    pub fn memory() -> Self {
        let (env, clock) = Self::clock();
        let memory = MemoryFs::new(env, garth_engine::rule::sample::registry());
        Self::new(Instance::of_memory(memory), clock)
    }

    /// Returns a subject on a new host folder, in memory if the machine has such folders, because a disk is
    /// slow. Reopening it creates another instance on the same folder.
    ///
    /// # Panics
    /// If the folder cannot be created.
    pub fn host() -> Self {
        let (env, clock) = Self::clock();
        let folder = tempfile::tempdir_in(in_memory()).expect("a temporary folder can be made");
        let all = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(folder.path(), all).expect("its owner may do that");
        let path = folder.path().to_owned();
        let open = move || {
            let fs = HostFs::open(&path, Mode::Writable, env.clone()).expect("the folder is there");
            Instance::without_account(fs)
        };
        let first = open();
        Self {
            reopen: Some(Box::new(move || Box::pin(std::future::ready(open())))),
            keep: Box::new(folder),
            // Linux counts the NUL after it.
            longest_target: MAX_TARGET - 1,
            ..Self::new(first, clock)
        }
    }

    /// Returns a subject whose data end with it.
    pub fn new(instance: Instance, clock: ManualClock) -> Self {
        let Instance { fs, store } = instance;
        let (head, next) = (Seq(0), Ino(Ino::ROOT.0 + 1));
        Self {
            fs,
            store,
            clock,
            head,
            next,
            longest_target: MAX_TARGET,
            retained: false,
            slow: false,
            reopen: None,
            collect: None,
            keep: Box::new(()),
        }
    }

    /// Writes to the subject and empties it again, so that its sequence numbers and inodes start higher.
    ///
    /// # Panics
    /// If a commit fails.
    pub async fn used(mut self) -> Self {
        // Commit times increase, so the earlier commits must not reach the start time of the test.
        self.clock.set(START.plus_seconds(-1000));
        let mut last = self.next;
        for round in 0..5 {
            let ops = [mkdir_all("/used/deep"), write("/used/deep/file", format!("round {round}"))];
            let commit = self.fs.commit(Batch::new(ops)).await.expect("a commit");
            last = commit.outcomes[1].ino;
            apply(&*self.fs, remove("/used", Remove::Tree)).await;
        }
        self.clock.set(START);
        self.head = self.fs.head().await.expect("a head").seq;
        self.next = Ino(last.0 + 1);
        self
    }

    /// Returns true if the paths are those of an account, to which rules, quotas and the retention apply.
    pub fn has_account(&self) -> bool {
        !matches!(self.store, Store::Absent)
    }

    /// Returns the sequence number of the `n`-th commit of the test; for 0, that of the last one before it.
    pub fn seq(&self, n: u64) -> Seq {
        Seq(self.head.0 + n)
    }

    /// Returns the `n`-th inode: the first is the root, the second the first node that the test creates.
    pub fn ino(&self, n: u64) -> Ino {
        if n <= Ino::ROOT.0 { Ino(n) } else { Ino(self.next.0 + n - 2) }
    }
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subject").field("fs", &self.fs).finish_non_exhaustive()
    }
}
