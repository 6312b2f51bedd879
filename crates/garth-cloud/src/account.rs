//! Maintenance of an account: [`AccountStore`]. `retention` has the limits on the past and on stored bytes.

mod retention;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use garth_engine::engine::relational::confinement::Reach;
use garth_engine::fs::store::{Collectable, Collected, Fsck, RetentionState, SetRuleResult, StoredUsage};
use garth_engine::model::quota::{Limits, Quota};
use garth_engine::model::{At, Timestamp};
use garth_engine::path::TreePath;
use garth_engine::rule::retention::Retention;
use garth_engine::rule::{PathPattern, Rule};
use garth_engine::{AccountStore, Error, ErrorKind, FileSystem, Result};

use crate::check::check;
use crate::collect;
use crate::store::PgStore;

#[async_trait]
impl AccountStore for PgStore {
    fn raw(&self) -> Arc<dyn FileSystem> {
        Arc::new(self.with_reach(Reach::everything()))
    }

    fn overriding_rules(&self) -> Arc<dyn FileSystem> {
        Arc::new(self.with_reach(self.reach.overriding()))
    }

    async fn rules(&self) -> Result<Vec<Rule>> {
        Ok(self.control().await?.rules.all().cloned().collect())
    }

    async fn set_rule(&self, rule: Rule, force: bool) -> Result<SetRuleResult> {
        self.set_rule_now(rule, force).await
    }

    async fn remove_rule(&self, pattern: &PathPattern, constraint: &str) -> Result<bool> {
        self.remove_rule_now(pattern, constraint).await
    }

    async fn gc(&self, grace: Duration) -> Result<Collected> {
        collect::gc(self, grace).await
    }

    async fn gc_dry_run(&self, grace: Duration) -> Result<Collectable> {
        collect::collectable(self, grace).await
    }

    async fn fsck(&self) -> Result<Fsck> {
        let inner = Arc::clone(&self.inner);
        let checked = async move {
            let mut report = check(&inner.pool, &inner.committer).await?;
            let conn = inner.pool.connection().await?;
            let difference = collect::difference(&conn, inner.account).await;
            let difference = conn.settle(difference).await?;
            if difference != 0 {
                let what = "the stored bytes of the account differ from those of its rows";
                report.add("head", format!("{what}: {difference} more are due"));
            }
            Ok(report)
        };
        self.inner.pool.run(checked).await
    }

    async fn reindex(&self) -> Result<u64> {
        let store = self.whole();
        self.inner.pool.run(async move { collect::reindex(&store).await }).await
    }

    async fn quotas(&self) -> Result<Vec<Quota>> {
        Ok(self.quotas_now().await?.iter().cloned().collect())
    }

    async fn set_quota(&self, path: &TreePath, limits: Limits) -> Result<Quota> {
        self.set_quota_now(path, limits).await
    }

    async fn remove_quota(&self, path: &TreePath) -> Result<()> {
        self.remove_quota_now(path).await
    }

    async fn retention(&self) -> Result<RetentionState> {
        self.retention_now().await
    }

    async fn set_retention(&self, retention: Retention) -> Result<RetentionState> {
        self.write_retention(None, retention).await
    }

    async fn replace_retention(&self, before: Retention, retention: Retention) -> Result<RetentionState> {
        self.write_retention(Some(before), retention).await
    }

    async fn collect_next(&self) -> Result<Option<Timestamp>> {
        collect::collect_next(self).await
    }

    async fn usage(&self, below: &TreePath) -> Result<StoredUsage> {
        // Of this handle: one without garth's own directory does not name it.
        if !self.stat(&At::Path(below.clone())).await?.is_dir() {
            return Err(Error::at(ErrorKind::NotADirectory, below, "is not a directory"));
        }
        let (store, below, within) = (self.whole(), below.clone(), self.reach.within.clone());
        self.inner.pool.run(async move { collect::usage(&store, &below, &within).await }).await
    }
}
