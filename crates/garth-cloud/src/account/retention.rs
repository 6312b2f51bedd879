//! Retention of an account: reads it, and sets it as control data, which commits of all servers notice.

use std::time::Duration;

use garth_engine::Result;
use garth_engine::engine::relational::retention::{Past, check_change, state};
use garth_engine::fs::store::RetentionState;
use garth_engine::model::Kind;
use garth_engine::path::TreePath;
use garth_engine::rule::retention::Retention;
use tokio_postgres::types::Type;

use crate::client::param;
use crate::collect::announce::{allowed, time_of};
use crate::collect::limits::{Limits, retention, statements};
use crate::collect::{kept, step};
use crate::store::PgStore;
use crate::values::columns::int;
use crate::values::parameters::{list, texts};

const SET: &str = "INSERT INTO garth.retention (account, age, commits, stored) VALUES ($1, $2, $3, $4)
    ON CONFLICT (account) DO UPDATE SET age = excluded.age, commits = excluded.commits, stored = excluded.stored";
const NO_CONTENT: &str = "DELETE FROM garth.content_limit WHERE account = $1";
/// A class may be longer than an entry of an index, so it is found by its hash.
const CONTENT: &str = "INSERT INTO garth.content_limit (account, key, class, keep)
    SELECT $1, sha256(convert_to(k.class, 'UTF8')), k.class, k.keep
    FROM unnest($2::text[], $3::bigint[]) k(class, keep)";
/// Has the log searched again from the beginning for old content of some ages.
const SEARCH_AGAIN: &str = "DELETE FROM garth.content_age WHERE account = $1 AND keep = ANY($2)";
const CHANGED: &str = "UPDATE garth.head SET control = control + 1 WHERE account = $1";

impl PgStore {
    /// Returns the retention, and its effect so far.
    pub(super) async fn retention_now(&self) -> Result<RetentionState> {
        let store = self.whole();
        let limits = Limits::read(&store).await?;
        let past = Past {
            head: limits.head,
            oldest_time: time_of(&store, limits.head.oldest).await?,
            allowed: allowed(&store, &limits, &limits.set).await?,
            kept: kept::first_kept(&store).await?,
            read: kept::first_read(&store).await?,
            stored: limits.stored,
        };
        let kinds = store.kinds_in(&limits.set).await?;
        state(limits.set, past, |path| Ok(kind_at(&kinds, path)))
    }

    /// Sets the retention, if it is still `before`.
    pub(super) async fn write_retention(
        &self,
        before: Option<Retention>,
        to: Retention,
    ) -> Result<RetentionState> {
        to.check()?;
        let store = self.whole();
        let write = {
            let store = store.clone();
            async move { store.set(before, to).await }
        };
        self.inner.pool.run(write).await?;
        store.retention_now().await
    }

    async fn set(&self, before: Option<Retention>, to: Retention) -> Result<()> {
        // Before the account is locked: which entries are directories is advice to the operator.
        let kinds = self.kinds_in(&to).await?;
        let [limits, content] = statements();
        let (mut step, [limits, content]) = step::begin(self, [limits, content]).await?;
        let known = retention(&limits, &content)?;
        let again = check_change(&known, before.as_ref(), &to, |path| {
            Ok::<_, garth_engine::Error>(kind_at(&kinds, path))
        })?;
        let again: Vec<i64> = again.iter().map(|age| seconds(*age)).collect();
        step.add(SEARCH_AGAIN, vec![list(again.into_iter(), Type::INT8_ARRAY)]);
        let limits = [to.age.map(seconds), to.commits.map(int), to.stored.map(int)];
        step.add(SET, limits.map(|limit| param(limit, Type::INT8)).into());
        step.add(NO_CONTENT, Vec::new());
        let classes = texts(to.content.iter().map(|limit| limit.pattern.as_str().to_owned()));
        let keeps = list(to.content.iter().map(|limit| seconds(limit.keep)), Type::INT8_ARRAY);
        step.add(CONTENT, vec![classes, keeps]);
        step.add(CHANGED, Vec::new());
        step.commit().await
    }

    /// Returns the kinds of the entries that path classes without wildcards name.
    async fn kinds_in(&self, retention: &Retention) -> Result<Vec<(TreePath, Option<Kind>)>> {
        let mut paths = Vec::new();
        for limit in &retention.content {
            limit.pattern.refuse_directory(|path| {
                paths.push(path.clone());
                Ok::<_, garth_engine::Error>(None)
            })?;
        }
        self.kinds_of(paths).await
    }
}

fn kind_at(kinds: &[(TreePath, Option<Kind>)], path: &TreePath) -> Option<Kind> {
    kinds.iter().find(|(known, _)| known == path).and_then(|(_, kind)| *kind)
}

fn seconds(time: Duration) -> i64 {
    int(time.as_secs())
}
