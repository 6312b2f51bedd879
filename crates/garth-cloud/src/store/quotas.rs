//! Quotas of an account: sets them, after counting what is below their paths, and removes them. Commits
//! update their counters.

use std::sync::Arc;

use garth_engine::model::quota::{Limits, Quota, Usage};
use garth_engine::path::TreePath;
use garth_engine::rule::quota::{Quotas, missing};
use garth_engine::{Error, ErrorKind, Result};
use tokio_postgres::types::Type;

use super::rules::CHANGED;
use super::{Inner, PgStore};
use crate::client::{Pages, param};
use crate::rows::{PgRows, QUOTAS, quotas_of};
use crate::usage::{Counted, UsageCount};
use crate::values::columns::{int, number};
use crate::values::labels;

/// Times that the names below a path are counted without the lock, before they are counted with it.
const TRIES: usize = 3;

/// Pages that are counted with the lock without further ado: one of the directory, and one of those below it.
const FEW: usize = 2;

const SEQ: &str = "SELECT seq FROM garth.head WHERE account = $1";
const SET: &str = "INSERT INTO garth.quota (account, key, path, max_bytes, max_entries, bytes, entries)
    VALUES ($1, $2, $3, $4, $5, $6, $7)
    ON CONFLICT (account, key) DO UPDATE SET path = excluded.path, max_bytes = excluded.max_bytes,
        max_entries = excluded.max_entries, bytes = excluded.bytes, entries = excluded.entries";
/// Has the database read names in the order of their index, as [`Pages`] does.
const IN_ORDER: &str =
    "SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true)
    FROM garth.head WHERE account = $1";
const REMOVE: &str = "DELETE FROM garth.quota WHERE account = $1 AND key = $2 RETURNING entries";

impl PgStore {
    /// Returns the quotas of the tree.
    pub(crate) async fn quotas_now(&self) -> Result<Quotas> {
        let conn = self.inner.pool.connection().await?;
        let rows = Pages::new(&conn, self.inner.account).last(QUOTAS, Vec::new()).await;
        quotas_of(&conn.settle(rows).await?)
    }

    /// Sets the quota of a path, see [`AccountStore::set_quota`](garth_engine::AccountStore::set_quota).
    pub(crate) async fn set_quota_now(&self, path: &TreePath, limits: Limits) -> Result<Quota> {
        limits.check()?;
        let (inner, path) = (Arc::clone(&self.inner), path.clone());
        self.inner.pool.run(async move { inner.set_quota(path, Some(limits)).await }).await
    }

    /// Counts again what is below the paths of all quotas, and corrects their counters.
    pub(crate) async fn recount_quotas(&self) -> Result<()> {
        for quota in self.quotas_now().await?.iter() {
            match self.inner.set_quota(quota.path.clone(), None).await {
                Err(error) if error.is(ErrorKind::NotFound) => {}
                done => drop(done?),
            }
        }
        Ok(())
    }

    /// Removes the quota of a path.
    pub(crate) async fn remove_quota_now(&self, path: &TreePath) -> Result<()> {
        let (inner, path) = (Arc::clone(&self.inner), path.clone());
        let remove = async move {
            let conn = inner.pool.connection().await?;
            let removed = remove(PgRows::new(&conn, &inner.committer), &path).await;
            conn.settle(removed).await
        };
        self.inner.pool.run(remove).await
    }
}

impl Inner {
    /// Sets a quota, or counts again what is below the path of one, without `limits`.
    async fn set_quota(&self, path: TreePath, limits: Option<Limits>) -> Result<Quota> {
        for attempt in 0..=TRIES {
            // Commits go on while a large tree is counted. If one was made meanwhile, it is counted again.
            let counted = if attempt < TRIES { self.count(&path, limits.is_none()).await? } else { None };
            let conn = self.pool.connection().await?;
            let mut rows = PgRows::new(&conn, &self.committer);
            let set = match set(&mut rows, (&path, limits), (counted, attempt == TRIES)).await {
                Ok(quota) => rows.commit().await.map(|()| quota),
                Err(error) => Err(error),
            };
            if let Some(quota) = conn.settle(set).await? {
                return Ok(quota);
            }
        }
        Err(Error::new(ErrorKind::WouldBlock, "the quotas of the account are being changed; try again"))
    }

    /// Counts the names and bytes below a path in one state. Returns its last commit with them; `None` if the
    /// path has a quota, whose counters are exact, unless it is counted `again`.
    async fn count(&self, path: &TreePath, again: bool) -> Result<Option<(u64, Counted)>> {
        let conn = self.pool.connection().await?;
        let mut pages = Pages::new(&conn, self.account);
        let counted = count_in(&mut pages, path, again).await;
        let counted = match counted {
            Ok(counted) => pages.end().await.map(|()| counted),
            Err(error) => Err(error),
        };
        conn.settle(counted).await
    }
}

async fn count_in(pages: &mut Pages<'_>, path: &TreePath, again: bool) -> Result<Option<(u64, Counted)>> {
    if !again && quotas_of(&pages.query(QUOTAS, Vec::new()).await?)?.get(path.key()).is_some() {
        return Ok(None);
    }
    let head = pages.query(SEQ, Vec::new()).await?;
    let Some(head) = head.first() else { return Ok(None) };
    let seq = number(head, 0)?;
    let mut count = UsageCount::new(path);
    while let Some((sql, params)) = count.next() {
        count.add(&pages.query(sql, params).await?)?;
    }
    Ok(Some((seq, count.counted()?)))
}

/// Sets a quota while the account is locked. Returns `None` if what was counted is out of date, unless it may
/// be counted here. Few names always may.
async fn set(
    rows: &mut PgRows<'_>,
    (path, limits): (&TreePath, Option<Limits>),
    (counted, is_last): (Option<(u64, Counted)>, bool),
) -> Result<Option<Quota>> {
    let again = limits.is_none();
    let (head, _) = rows.begin().await?;
    let known = quotas_of(&rows.query(QUOTAS, Vec::new()).await?)?;
    let set = known.get(path.key());
    let Some(limits) = limits.or(set.map(|quota| quota.limits)) else { return Err(missing(path)) };
    let used = match (set.filter(|_| !again), counted) {
        // The counters are exact already, so new limits cost no count.
        (Some(known), _) => known.used,
        (None, Some((seq, counted))) if seq == head.seq => {
            check_room(&known, set)?;
            counted.used
        }
        (None, counted) if is_last || counted.is_some_and(|(_, counted)| counted.pages <= FEW) => {
            check_room(&known, set)?;
            count_locked(rows, path).await?
        }
        (None, _) => return Ok(None),
    };
    let quota = Quota { path: path.clone(), limits, used };
    let limit = |limit: Option<u64>| param(limit.map(int), Type::INT8);
    let params = vec![
        param(labels::quota(path.key()), Type::BYTEA),
        param(path.key().to_owned(), Type::TEXT),
        limit(limits.bytes),
        limit(limits.entries),
        param(int(used.bytes), Type::INT8),
        param(int(used.entries), Type::INT8),
    ];
    rows.add(SET, params);
    rows.add(CHANGED, Vec::new());
    Ok(Some(quota))
}

/// Fails if a new quota would be one too many.
fn check_room(known: &Quotas, set: Option<&Quota>) -> Result<()> {
    if set.is_some() { Ok(()) } else { known.check_room() }
}

async fn count_locked(rows: &mut PgRows<'_>, path: &TreePath) -> Result<Usage> {
    rows.add(IN_ORDER, Vec::new());
    let mut count = UsageCount::new(path);
    while let Some((sql, params)) = count.next() {
        count.add(&rows.query(sql, params).await?)?;
    }
    Ok(count.counted()?.used)
}

async fn remove(mut rows: PgRows<'_>, path: &TreePath) -> Result<()> {
    rows.begin().await?;
    let removed = rows.query(REMOVE, vec![param(labels::quota(path.key()), Type::BYTEA)]).await?;
    if removed.is_empty() {
        return Err(missing(path));
    }
    rows.add(CHANGED, Vec::new());
    rows.commit().await
}
