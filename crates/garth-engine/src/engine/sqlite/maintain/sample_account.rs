//! An account on a manual clock, which tests fill, collect and check.

use std::sync::Arc;
use std::time::Duration;

use futures::executor::block_on;
use tempfile::TempDir;

use crate::engine::sqlite::SqliteFs;
use crate::env::{Env, ManualClock};
use crate::fs::store::Collected;
use crate::fs::{AccountStore as _, FileSystem as _};
use crate::model::{At, Batch, Body, Commit, Op, Timestamp};
use crate::path::TreePath;
use crate::rule::PathPattern;
use crate::rule::retention::{ContentLimit, Retention};

/// Grace period of a collection.
pub(super) const GRACE: Duration = Duration::from_secs(600);

/// Account in a folder of its own, which is removed with it.
pub(super) struct SampleAccount {
    pub(super) fs: Arc<SqliteFs>,
    pub(super) clock: ManualClock,
    pub(super) folder: TempDir,
}

/// Parses the address of a canonical path.
pub(super) fn at(path: &str) -> At {
    At::Path(TreePath::parse(path).unwrap())
}

/// Returns a retention that keeps the last commits.
pub(super) fn keeping_commits(commits: u64) -> Retention {
    Retention { commits: Some(commits), ..Retention::default() }
}

/// Returns a retention that keeps old content for some time, given by path class, in seconds.
pub(super) fn keeping_content(classes: &[(&str, u64)]) -> Retention {
    let limit = |(pattern, seconds): &(&str, u64)| ContentLimit {
        pattern: PathPattern::parse(pattern).unwrap(),
        keep: Duration::from_secs(*seconds),
    };
    Retention { content: classes.iter().map(limit).collect(), ..Retention::default() }
}

/// Renews the leases of a handle on an account, as its timer does every minute.
pub(super) fn renew_leases(fs: &SqliteFs) {
    let (open, pasts) = (Arc::clone(&fs.inner.open), Arc::clone(&fs.inner.pasts));
    let now = fs.inner.runtime.env().now();
    let renew = fs.inner.writer.transact(false, move |conn| {
        open.renew(conn, now)?;
        pasts.renew(conn, now)
    });
    block_on(renew).unwrap();
}

impl SampleAccount {
    /// Creates an empty account.
    pub(super) fn new() -> Self {
        Self::open_in(tempfile::tempdir().unwrap())
    }

    /// Opens the account in a folder, or creates it.
    pub(super) fn open_in(folder: TempDir) -> Self {
        let (env, clock) = Env::manual(Timestamp(1_700_000_000_000_000_000));
        let fs = SqliteFs::open(folder.path(), env, crate::rule::sample::registry()).unwrap();
        Self { fs, clock, folder }
    }

    /// Opens the account once more, as another process does.
    pub(super) fn other(&self) -> Arc<SqliteFs> {
        let env = self.fs.inner.runtime.env().clone();
        SqliteFs::open(self.folder.path(), env, crate::rule::sample::registry()).unwrap()
    }

    pub(super) fn now(&self) -> Timestamp {
        self.fs.inner.runtime.env().now()
    }

    pub(super) fn commit(&self, ops: impl IntoIterator<Item = Op>) -> Commit {
        block_on(self.fs.commit(Batch::new(ops))).unwrap()
    }

    /// Uploads content, which no commit uses yet.
    pub(super) fn upload(&self, path: &str, content: Vec<u8>) -> Body {
        let mut upload = block_on(self.fs.stage(&at(path))).unwrap();
        block_on(upload.write(content.into())).unwrap();
        Body::Staged(block_on(upload.finish()).unwrap())
    }

    /// Uploads content, and ends as a process does that is killed before the upload is finished.
    pub(super) fn abandon_upload(&self, path: &str, content: Vec<u8>) {
        let mut upload = block_on(self.fs.stage(&at(path))).unwrap();
        block_on(upload.write(content.into())).unwrap();
        // Drop, which would discard the upload, does not run.
        std::mem::forget(upload);
    }

    pub(super) fn retain(&self, retention: Retention) {
        block_on(self.fs.set_retention(retention)).unwrap();
    }

    /// Collects with the grace period [`GRACE`].
    pub(super) fn collect(&self) -> Collected {
        self.fs.collect(GRACE).unwrap()
    }

    /// Collects without a grace period.
    pub(super) fn collect_at_once(&self) -> Collected {
        self.fs.collect(Duration::ZERO).unwrap()
    }

    /// Collects, lets the grace period pass, and checks the account. The next collection removes what this
    /// one has marked.
    pub(super) fn collect_and_wait(&self) -> Collected {
        let collected = self.collect();
        self.clock.advance(GRACE);
        self.assert_sound();
        collected
    }

    /// Returns the number that a query counts.
    pub(super) fn count(&self, sql: &str) -> u64 {
        self.fs.with_view(|view| Ok(view.conn.query_row(sql, [], |row| row.get(0))?)).unwrap()
    }

    #[track_caller]
    pub(super) fn assert_sound(&self) {
        assert_eq!(self.fs.check().unwrap().findings, []);
    }
}
