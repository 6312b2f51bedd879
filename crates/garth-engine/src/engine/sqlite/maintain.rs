//! Maintenance of an account: garbage collection, merging of extents, checks, backups, rebuilding the index,
//! rules, quotas and retention. It reads and writes files for a long time, so it runs on threads of its own.

pub(crate) mod announce;
pub(crate) mod background;
pub(crate) mod backup;
pub(crate) mod collect_uploads;
pub(crate) mod collectable_past;
pub(crate) mod content_age;
pub(crate) mod due;
pub(crate) mod fold;
pub(crate) mod fsck;
pub(crate) mod gc;
pub(crate) mod gc_dry_run;
pub(crate) mod holds;
pub(crate) mod merge_extents;
pub(crate) mod merge_files;
pub(crate) mod orphan_nodes;
pub(crate) mod reindex;
pub(crate) mod remove_chunks;
#[cfg(test)]
mod sample_account;
pub(crate) mod set_quota;
pub(crate) mod set_retention;
pub(crate) mod set_rule;
pub(crate) mod shrink;
pub(crate) mod step;
pub(crate) mod usage;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::Connection;

use crate::engine::sqlite::SqliteFs;
use crate::engine::sqlite::tables::quotas;
use crate::error::Result;
use crate::fs::FileSystem;
use crate::fs::store::{
    AccountStore, Collectable, Collected, Fsck, RetentionState, SetRuleResult, StoredUsage,
};
use crate::model::Timestamp;
use crate::model::quota::{Limits, Quota};
use crate::path::TreePath;
use crate::rule::retention::Retention;
use crate::rule::{PathPattern, Rule};

impl SqliteFs {
    async fn maintaining<T: Send + 'static>(
        &self,
        task: impl FnOnce(&Self) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let fs = self.whole();
        self.runtime().maintainers().run(move || fs.runtime().in_account_of_caller(|| task(&fs))).await
    }

    /// Sets the retention, if it is still `before`.
    async fn write_retention(&self, before: Option<Retention>, to: Retention) -> Result<RetentionState> {
        to.check()?;
        let fs = self.whole();
        let write = move |conn: &Connection| {
            let registry = fs.inner.control.registry();
            set_retention::set(&fs.view_on(conn, None)?, registry, before.as_ref(), &to)
        };
        self.inner.writer.transact(true, write).await?;
        self.retention().await
    }
}

#[async_trait]
impl AccountStore for SqliteFs {
    fn raw(&self) -> Arc<dyn FileSystem> {
        Arc::new(self.whole())
    }

    fn overriding_rules(&self) -> Arc<dyn FileSystem> {
        Arc::new(self.with_reach(self.reach.overriding()))
    }

    async fn rules(&self) -> Result<Vec<Rule>> {
        Ok(self.rules_now()?.all().cloned().collect())
    }

    async fn set_rule(&self, rule: Rule, force: bool) -> Result<SetRuleResult> {
        let caller = Arc::new(());
        let waits = Arc::downgrade(&caller);
        let go_on = move || set_rule::still_waits(&waits);
        let set = self.maintaining(move |fs| fs.set_rule_now(&rule, force, &go_on)).await;
        // Dropped with this future, if nobody waits for it any more: the check may take minutes.
        drop(caller);
        set
    }

    async fn remove_rule(&self, pattern: &PathPattern, constraint: &str) -> Result<bool> {
        let (pattern, constraint) = (pattern.clone(), constraint.to_owned());
        self.maintaining(move |fs| fs.remove_rule_now(&pattern, &constraint)).await
    }

    async fn gc(&self, grace: Duration) -> Result<Collected> {
        self.maintaining(move |fs| fs.collect(grace)).await
    }

    async fn gc_dry_run(&self, grace: Duration) -> Result<Collectable> {
        self.maintaining(move |fs| fs.collectable(grace)).await
    }

    async fn fsck(&self) -> Result<Fsck> {
        self.maintaining(Self::check).await
    }

    async fn reindex(&self) -> Result<u64> {
        self.maintaining(Self::rebuild_index).await
    }

    async fn quotas(&self) -> Result<Vec<Quota>> {
        let quotas = self.reading(&(), |view, ()| quotas::all_of(view.conn)).await?;
        Ok(quotas.iter().cloned().collect())
    }

    async fn set_quota(&self, path: &TreePath, limits: Limits) -> Result<Quota> {
        limits.check()?;
        let path = path.clone();
        let registry = self.inner.control.registry().clone();
        self.inner.writer.transact(true, move |conn| set_quota::set(conn, &registry, &path, limits)).await
    }

    async fn remove_quota(&self, path: &TreePath) -> Result<()> {
        let path = path.clone();
        let registry = self.inner.control.registry().clone();
        self.inner.writer.transact(true, move |conn| set_quota::remove(conn, &registry, &path)).await
    }

    async fn retention(&self) -> Result<RetentionState> {
        let fs = self.whole();
        self.whole().reading(&(), move |view, ()| set_retention::state(view, &fs.inner.pasts)).await
    }

    async fn set_retention(&self, retention: Retention) -> Result<RetentionState> {
        self.write_retention(None, retention).await
    }

    async fn replace_retention(&self, before: Retention, retention: Retention) -> Result<RetentionState> {
        self.write_retention(Some(before), retention).await
    }

    async fn collect_next(&self) -> Result<Option<Timestamp>> {
        let now = self.inner.runtime.env().now();
        let searched_at = self.inner.collecting.searched_at.load(Ordering::Relaxed);
        let due = self.whole().reading(&(), move |view, ()| due::due(view, now, searched_at)).await?;
        if due.is_some_and(|due| due <= now) {
            self.inner.collect_later();
        }
        Ok(due)
    }

    async fn usage(&self, below: &TreePath) -> Result<StoredUsage> {
        // Of this handle: one without garth's own directory does not name it.
        let (below, within) = (below.clone(), self.reach.within.clone());
        self.maintaining(move |fs| fs.count_usage(&below, &within)).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Barrier, mpsc};

    use futures::executor::block_on;
    use futures::join;

    use garth_testkit::logs::{capture, logged};
    use tracing::Instrument as _;

    use super::*;
    use crate::env::Env;
    use crate::runtime::Runtime;

    #[test]
    fn maintenance_is_logged_under_its_account() {
        capture();
        let runtime = Runtime::new(Env::system());
        for account in ["maintained-one", "maintained-two"] {
            let folder = tempfile::tempdir().unwrap();
            let registry = crate::rule::sample::registry();
            let fs = SqliteFs::open_on(folder.path(), &runtime.of_account(account), registry).unwrap();
            let task = move |fs: &SqliteFs| {
                tracing::warn!("task of {account}");
                fs.step(move |_, _| {
                    tracing::warn!("step of {account}");
                    Ok(())
                })
            };
            let verb = tracing::error_span!("verb", verb = "gc");
            block_on(fs.maintaining(task).instrument(verb)).unwrap();
            // A task belongs to its caller; its steps run on threads that all accounts share.
            for (text, names) in [("task of", vec!["verb", "account"]), ("step of", vec!["account"])] {
                let logged = logged(&format!("{text} {account}"));
                assert_eq!(logged.len(), 1, "{text} {account}");
                let spans: Vec<&str> = logged[0].spans.iter().map(|(name, _)| *name).collect();
                assert_eq!((spans, logged[0].field("account")), (names, Some(account)));
            }
        }
    }

    #[test]
    fn maintenance_keeps_its_callers_thread_free() {
        let folder = tempfile::tempdir().unwrap();
        let fs = SqliteFs::open(folder.path(), Env::system(), crate::rule::sample::registry()).unwrap();
        let (go_on, told) = mpsc::channel::<()>();
        let begun = Arc::new(Barrier::new(2));
        let writer = std::thread::spawn({
            let (fs, begun) = (Arc::clone(&fs), Arc::clone(&begun));
            move || {
                fs.step(move |_, _| {
                    begun.wait();
                    told.recv().unwrap();
                    Ok(())
                })
            }
        });
        begun.wait();
        let store: &dyn AccountStore = &*fs;
        // The writer stays busy until another future on this thread had a turn.
        let (collected, reindexed, ()) = block_on(async {
            join!(store.gc(Duration::ZERO), store.reindex(), async { go_on.send(()).unwrap() })
        });
        assert_eq!((collected.unwrap(), reindexed.unwrap()), (Collected::default(), 0));
        writer.join().unwrap().unwrap();
        assert_eq!(block_on(store.fsck()).unwrap().findings, []);
        assert_eq!(block_on(store.head()).unwrap().seq.0, 0, "none of it is a commit");
    }
}
