//! Trees of which tests end the past: an account, and a tree of each engine, on a clock that the test moves.

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::executor::block_on;
use garth_engine::engine::memory::MemoryFs;
use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::env::ManualClock;
use garth_engine::fs::store::Collected;
use garth_engine::model::{Batch, ByteRange, HistoryPage, Moment, Seq, Timestamp, Version};
use garth_engine::rule::PathPattern;
use garth_engine::rule::retention::{ContentLimit, Retention};
use garth_engine::rule::sample::registry;
use garth_engine::{AccountStore, DataDir, Env, Error, FileSystem};
use garth_testkit::tools::{at, write};
use rusqlite::Connection;
use tempfile::TempDir;

/// Time before the first commit of a [`Tree`].
pub(crate) const START: Timestamp = Timestamp(1_767_225_600_000_000_000);

/// Grace period of a collection.
pub(crate) const GRACE: Duration = Duration::from_secs(600);

/// Returns a retention that keeps the last commits.
pub(crate) fn keeping_commits(commits: u64) -> Retention {
    Retention { commits: Some(commits), ..Retention::default() }
}

/// Returns a retention that keeps old content for some time, given by path class, in seconds.
pub(crate) fn keeping_content(classes: &[(&str, u64)]) -> Retention {
    let limit = |(pattern, seconds): &(&str, u64)| ContentLimit {
        pattern: PathPattern::parse(pattern).unwrap(),
        keep: Duration::from_secs(*seconds),
    };
    Retention { content: classes.iter().map(limit).collect(), ..Retention::default() }
}

/// Account of its own, with one commit a second.
pub(crate) struct Account {
    pub(crate) fs: Arc<SqliteFs>,
    pub(crate) clock: ManualClock,
    pub(crate) env: Env,
    pub(crate) folder: TempDir,
}

impl Account {
    /// Creates an empty account.
    pub(crate) fn new() -> Self {
        let (folder, (env, clock)) = (tempfile::tempdir().unwrap(), Env::manual(START));
        Self { fs: Self::open(&folder, &env), clock, env, folder }
    }

    fn open(folder: &TempDir, env: &Env) -> Arc<SqliteFs> {
        SqliteFs::open(folder.path(), env.clone(), registry()).unwrap()
    }

    /// Closes the account and opens it again, as a restart does.
    pub(crate) fn reopened(self) -> Self {
        let Self { fs, clock, env, folder } = self;
        drop(fs);
        Self { fs: Self::open(&folder, &env), clock, env, folder }
    }

    pub(crate) async fn commit(&self, batch: impl Into<Batch>) -> Seq {
        self.clock.advance(Duration::from_secs(1));
        self.fs.commit(batch.into()).await.unwrap().seq
    }

    /// Collects without a grace period.
    pub(crate) async fn collect_at_once(&self) -> Collected {
        self.fs.gc(Duration::ZERO).await.unwrap()
    }

    pub(crate) async fn assert_sound(&self) {
        assert_sound(&*self.fs).await;
    }

    /// Opens the database of the account, to count its rows.
    pub(crate) fn database(&self) -> Connection {
        Connection::open(self.folder.path().join("tree.db")).unwrap()
    }
}

async fn assert_sound(account: &dyn AccountStore) {
    assert_eq!(account.fsck().await.unwrap().findings, []);
}

pub(crate) enum Engine {
    Memory(Arc<MemoryFs>),
    Sqlite(Arc<dyn AccountStore>),
}

/// Returns the account of a new data folder, which collects only when a test says so.
pub(crate) fn account(folder: &Path, env: Env) -> Arc<dyn AccountStore> {
    let data = DataDir::builder(registry()).env(env).collecting(false).open(folder).unwrap();
    block_on(data.create_account("a")).unwrap();
    block_on(data.account("a")).unwrap()
}

/// A tree with one commit a second.
pub(crate) struct Tree {
    pub(crate) engine: Engine,
    pub(crate) clock: ManualClock,
    _folder: Option<TempDir>,
}

impl Tree {
    /// Returns a tree of each engine.
    pub(crate) fn both() -> [Self; 2] {
        let [(one, clock), (other, beside)] = [Env::manual(START), Env::manual(START)];
        let folder = tempfile::tempdir().unwrap();
        let memory = Arc::new(MemoryFs::new(one, registry()));
        let sqlite = account(folder.path(), other);
        [
            Self { engine: Engine::Memory(memory), clock, _folder: None },
            Self { engine: Engine::Sqlite(sqlite), clock: beside, _folder: Some(folder) },
        ]
    }

    pub(crate) fn fs(&self) -> &dyn FileSystem {
        match &self.engine {
            Engine::Memory(fs) => &**fs,
            Engine::Sqlite(fs) => &**fs,
        }
    }

    pub(crate) async fn commit(&self, batch: impl Into<Batch>) -> Seq {
        self.clock.advance(Duration::from_secs(1));
        self.fs().commit(batch.into()).await.unwrap().seq
    }

    /// Writes a file in each of these commits, their numbers.
    pub(crate) async fn fill(&self, path: &str, commits: RangeInclusive<u64>) {
        for number in commits {
            assert_eq!(self.commit(write(path, number.to_string())).await, Seq(number));
        }
    }

    /// Ends the past as a retention says. Returns the first readable commit.
    pub(crate) async fn retain(&self, retention: Retention) -> Seq {
        match &self.engine {
            Engine::Memory(fs) => {
                fs.set_retention(retention).unwrap();
                fs.collect_now();
                fs.retention().oldest
            }
            Engine::Sqlite(fs) => {
                fs.set_retention(retention).await.unwrap();
                fs.gc(Duration::ZERO).await.unwrap();
                fs.retention().await.unwrap().oldest
            }
        }
    }

    /// Ends the past before the last `commits` commits. Returns the first readable commit.
    pub(crate) async fn keep(&self, commits: u64) -> Seq {
        let head = self.fs().head().await.unwrap().seq;
        let oldest = self.retain(keeping_commits(commits)).await;
        assert_eq!(oldest, Seq(head.0 - commits));
        oldest
    }

    /// Checks the files of an account that has any.
    pub(crate) async fn assert_sound(&self) {
        if let Engine::Sqlite(fs) = &self.engine {
            assert_sound(&**fs).await;
        }
    }
}

pub(crate) async fn text(fs: &dyn FileSystem, path: &str) -> String {
    String::from_utf8(fs.read(&at(path), ByteRange::ALL).await.unwrap().to_vec()).unwrap()
}

pub(crate) async fn past(fs: &dyn FileSystem, seq: u64) -> Result<Arc<dyn FileSystem>, Error> {
    fs.as_of(&Moment::Seq(Seq(seq))).await
}

pub(crate) async fn history(fs: &dyn FileSystem, path: &str) -> Result<Vec<Version>, Error> {
    let found = fs.history(&at(path), &HistoryPage::default()).await?;
    assert!(!found.more);
    Ok(found.items)
}

pub(crate) fn commits(versions: &[Version]) -> Vec<u64> {
    versions.iter().map(|version| version.id.seq.0).collect()
}
