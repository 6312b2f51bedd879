//! Maintenance of an account: [`AccountStore`]. None of it is built yet, except the handles.

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

    async fn gc(&self, _grace: Duration) -> Result<Collected> {
        unsupported("collections of garbage")
    }

    async fn gc_dry_run(&self, _grace: Duration) -> Result<Collectable> {
        unsupported("collections of garbage")
    }

    async fn fsck(&self) -> Result<Fsck> {
        unsupported("checks of an account")
    }

    async fn reindex(&self) -> Result<u64> {
        unsupported("a search index")
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
