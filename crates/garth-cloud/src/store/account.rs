//! Maintenance of an account: [`AccountStore`]. Rules, quotas and checks are not built yet.

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

use super::{PgStore, unsupported};
use crate::collect;

#[async_trait]
impl AccountStore for PgStore {
    fn raw(&self) -> Arc<dyn FileSystem> {
        Arc::new(self.with_reach(Reach::everything()))
    }

    fn overriding_rules(&self) -> Arc<dyn FileSystem> {
        Arc::new(self.with_reach(self.reach.overriding()))
    }

    async fn rules(&self) -> Result<Vec<Rule>> {
        unsupported("rules")
    }

    async fn set_rule(&self, _rule: Rule, _force: bool) -> Result<SetRuleResult> {
        unsupported("rules")
    }

    async fn remove_rule(&self, _pattern: &PathPattern, _constraint: &str) -> Result<bool> {
        unsupported("rules")
    }

    async fn gc(&self, grace: Duration) -> Result<Collected> {
        collect::gc(self, grace).await
    }

    async fn gc_dry_run(&self, grace: Duration) -> Result<Collectable> {
        collect::collectable(self, grace).await
    }

    async fn fsck(&self) -> Result<Fsck> {
        unsupported("checks of an account")
    }

    async fn reindex(&self) -> Result<u64> {
        let store = self.whole();
        self.inner.pool.run(async move { collect::reindex(&store).await }).await
    }

    async fn quotas(&self) -> Result<Vec<Quota>> {
        unsupported("quotas")
    }

    async fn set_quota(&self, _path: &TreePath, _limits: Limits) -> Result<Quota> {
        unsupported("quotas")
    }

    async fn remove_quota(&self, _path: &TreePath) -> Result<()> {
        unsupported("quotas")
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
