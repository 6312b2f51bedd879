//! Accounts on SQLite of which tests end the past, on a clock that the test moves.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::executor::block_on;
use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::env::ManualClock;
use garth_engine::fs::store::Collected;
use garth_engine::model::{Batch, Seq};
use garth_engine::rule::sample::registry;
use garth_engine::{AccountStore, DataDir, Env, FileSystem};
use rusqlite::Connection;
use tempfile::TempDir;

use super::retained_trees::START;

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
        assert_eq!(self.fs.fsck().await.unwrap().findings, []);
    }

    /// Opens the database of the account, to count its rows.
    pub(crate) fn database(&self) -> Connection {
        Connection::open(self.folder.path().join("tree.db")).unwrap()
    }
}

/// Returns the account of a new data folder, which collects only when a test says so.
pub(crate) fn account(folder: &Path, env: Env) -> Arc<dyn AccountStore> {
    let data = DataDir::builder(registry()).env(env).collecting(false).open(folder).unwrap();
    block_on(data.create_account("a")).unwrap();
    block_on(data.account("a")).unwrap()
}
