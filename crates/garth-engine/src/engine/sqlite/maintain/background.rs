//! Collection without an operator: as `gc`, once something is due, and slowly.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::engine::sqlite::SqliteFs;
use crate::engine::sqlite::filesystem::Inner;
use crate::engine::sqlite::maintain::due::{self, GRACE};
use crate::error::Result;

/// Ends the time during which a collection counts as running, however it ends.
struct Running(Arc<Inner>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.collecting.is_running.store(false, Ordering::Relaxed);
    }
}

impl Inner {
    /// Collects what is due in the background, unless that is switched off or in progress.
    pub(super) fn collect_later(self: &Arc<Self>) {
        if !self.runtime.collects() || self.collecting.is_running.swap(true, Ordering::Relaxed) {
            return;
        }
        let running = Running(Arc::clone(self));
        let fs = SqliteFs { is_slow: true, ..SqliteFs::over(Arc::clone(self)) };
        // Not on the thread of the timer, which serves all accounts.
        self.runtime.maintainers().run_later(move || {
            fs.runtime().in_account(|| {
                if let Err(error) = fs.collect_due() {
                    tracing::warn!(%error, "the account could not be collected");
                }
            });
            drop(running);
        });
    }
}

impl SqliteFs {
    fn collect_due(&self) -> Result<()> {
        let now = self.inner.runtime.env().now();
        let searched_at = self.inner.collecting.searched_at.load(Ordering::Relaxed);
        if self.with_view(|view| due::due(view, now, searched_at))?.is_some_and(|due| due <= now) {
            self.collect_past(GRACE, false)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::executor::block_on;

    use super::*;
    use crate::env::Env;
    use crate::fs::{AccountStore as _, FileSystem as _};
    use crate::model::{At, Batch, Moment, Op, Seq, Timestamp};
    use crate::path::TreePath;
    use crate::rule::PathPattern;
    use crate::rule::retention::{ContentLimit, Retention};
    use crate::runtime::failpoint::Failure;
    use crate::runtime::{Limits, Runtime};

    #[test]
    fn due_collection_runs_in_the_background() {
        let (env, clock) = Env::manual(Timestamp(1_700_000_000_000_000_000));
        let runtime = Runtime::with_limits(env, Limits { collecting: true, ..Limits::default() });
        let folder = tempfile::tempdir().unwrap();
        let fs = SqliteFs::open_on(folder.path(), &runtime, crate::rule::sample::registry()).unwrap();
        let path = At::Path(TreePath::parse("/a").unwrap());
        for n in 0..1100 {
            block_on(fs.commit(Batch::new([Op::write(path.clone(), format!("{n}"))]).visible())).unwrap();
        }
        let next = || block_on(fs.collect_next()).unwrap();
        assert_eq!(next(), None, "everything is kept");
        let off = ContentLimit { pattern: PathPattern::parse("/a").unwrap(), keep: Duration::ZERO };
        block_on(fs.set_retention(Retention { content: vec![off], ..Retention::default() })).unwrap();
        assert_eq!(next(), Some(runtime.env().now().plus_seconds(600)), "search for old content");
        let retention = Retention { commits: Some(50), ..Retention::default() };
        block_on(fs.set_retention(retention)).unwrap();
        let mut folded = 0;
        // The first run announces the oldest commit; the rows go after the grace period. Each run continues
        // on threads of its own.
        while folded == 0 {
            runtime.timer().tick();
            clock.advance(GRACE);
            runtime.env().sleep(Duration::from_millis(5));
            folded = block_on(fs.retention()).unwrap().folded.0;
        }
        assert_eq!(folded, 1050);
        assert_eq!(fs.check().unwrap().findings, []);
    }

    #[test]
    fn open_view_causes_no_search_after_the_other() {
        let (env, clock) = Env::manual(Timestamp(1_700_000_000_000_000_000));
        let folder = tempfile::tempdir().unwrap();
        let fs = SqliteFs::open(folder.path(), env, crate::rule::sample::registry()).unwrap();
        for n in 0..3 {
            let path = At::Path(TreePath::parse("/a").unwrap());
            block_on(fs.commit(Batch::new([Op::write(path, format!("{n}"))]))).unwrap();
        }
        let off = ContentLimit { pattern: PathPattern::parse("/a").unwrap(), keep: Duration::ZERO };
        block_on(fs.set_retention(Retention { content: vec![off], ..Retention::default() })).unwrap();
        let view = block_on(fs.as_of(&Moment::Seq(Seq(2)))).unwrap();
        clock.advance(2 * GRACE);
        let now = || fs.inner.runtime.env().now();
        let next = || block_on(fs.collect_next()).unwrap();
        assert!(next().unwrap() <= now());
        assert_eq!(fs.collect(GRACE).unwrap().contents, 1);
        assert_eq!(next(), Some(now().plus_seconds(600)));
        drop(view);
        clock.advance(GRACE);
        assert!(next().unwrap() <= now());
        assert_eq!(fs.collect(GRACE).unwrap().contents, 1, "what the view has read");
    }

    #[test]
    fn interrupted_removal_of_commits_stays_due() {
        let folder = tempfile::tempdir().unwrap();
        let fs = SqliteFs::open(folder.path(), Env::system(), crate::rule::sample::registry()).unwrap();
        let path = At::Path(TreePath::parse("/a").unwrap());
        for n in 0..5 {
            block_on(fs.commit(Batch::new([Op::write(path.clone(), format!("{n}"))]))).unwrap();
        }
        let mut retention = Retention { commits: Some(0), ..Retention::default() };
        block_on(fs.set_retention(retention.clone())).unwrap();
        fs.inner.runtime.failpoints().arm("fold-end", Failure::Io, 0);
        fs.collect(Duration::ZERO).unwrap_err();
        // The log is searched for it, from which the first commits are gone.
        retention.content =
            vec![ContentLimit { pattern: PathPattern::parse("/a").unwrap(), keep: Duration::ZERO }];
        block_on(fs.set_retention(retention)).unwrap();
        let due = block_on(fs.collect_next()).unwrap().unwrap();
        assert!(due <= fs.inner.runtime.env().now());
        assert_eq!(fs.collect(Duration::ZERO).unwrap().oldest, 5);
        assert_eq!(block_on(fs.retention()).unwrap().folded.0, 5);
    }

    #[test]
    fn collection_is_due_when_something_is() {
        let (env, clock) = Env::manual(Timestamp(1_700_000_000_000_000_000));
        let folder = tempfile::tempdir().unwrap();
        let fs = SqliteFs::open(folder.path(), env, crate::rule::sample::registry()).unwrap();
        let now = || fs.inner.runtime.env().now();
        let next = || block_on(fs.collect_next()).unwrap();
        assert_eq!(next(), None);
        let path = At::Path(TreePath::parse("/a").unwrap());
        let day = Duration::from_secs(86_400);
        let retention = Retention { age: Some(day), ..Retention::default() };
        block_on(fs.set_retention(retention)).unwrap();
        block_on(fs.commit(Batch::new([Op::write(path.clone(), "one")]))).unwrap();
        let due = next().unwrap();
        assert!(due > now(), "the first commit is new");
        clock.advance(2 * day);
        assert!(next().unwrap() <= now());
        fs.collect(GRACE).unwrap();
        assert_eq!(next(), Some(now().plus_seconds(600)), "its rows wait for the grace period");
        clock.advance(GRACE);
        assert!(next().unwrap() <= now());
        fs.collect(GRACE).unwrap();
        assert_eq!(next(), None);
    }
}
