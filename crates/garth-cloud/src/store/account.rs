//! Maintenance of an account: [`AccountStore`].

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use garth_engine::engine::relational::confinement::Reach;
use garth_engine::fs::store::{Collectable, Collected, Fsck, RetentionState, SetRuleResult, StoredUsage};
use garth_engine::model::quota::{Limits, Quota};
use garth_engine::path::TreePath;
use garth_engine::rule::retention::Retention;
use garth_engine::rule::{PathPattern, Rule};
use garth_engine::{AccountStore, FileSystem, Result};

use super::{PgStore, unsupported};
use crate::check::check;

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

    async fn gc(&self, _grace: Duration) -> Result<Collected> {
        unsupported("collections of garbage")
    }

    async fn gc_dry_run(&self, _grace: Duration) -> Result<Collectable> {
        unsupported("collections of garbage")
    }

    async fn fsck(&self) -> Result<Fsck> {
        let inner = Arc::clone(&self.inner);
        self.inner.pool.run(async move { check(&inner.pool, &inner.committer).await }).await
    }

    async fn reindex(&self) -> Result<u64> {
        unsupported("a search index")
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
        unsupported("limits on the past")
    }

    async fn set_retention(&self, _retention: Retention) -> Result<RetentionState> {
        unsupported("limits on the past")
    }

    async fn replace_retention(&self, _before: Retention, _retention: Retention) -> Result<RetentionState> {
        unsupported("limits on the past")
    }

    async fn usage(&self, _below: &TreePath) -> Result<StoredUsage> {
        unsupported("sums of the stored bytes")
    }
}
