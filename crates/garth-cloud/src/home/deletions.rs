//! Deletions of accounts, in steps that any server can continue:
//!
//! 1. The account is marked. From then on no server opens it or accepts its keys.
//! 2. Its rows are deleted, a bounded number in a transaction. The head row is the first: without it no
//!    commit finds the account.
//! 3. Its keys are deleted, and at last the account itself, which frees the name.
//!
//! The server that deletes does all of it. If it stops or fails, the rounds of all servers continue.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use garth_engine::Result;
use garth_engine::home::{account_gone, no_account, not_removed};
use tokio_postgres::types::Type;

use super::accounts::{FIND, Found};
use super::shared::Shared;
use super::transaction::{self, id_param, int, read};
use crate::client::{Connection, Pipe, param};
use crate::values::columns::column;

/// First step of a deletion.
const MARK: &str = "UPDATE garth.account SET deleted = true WHERE id = $1 AND NOT deleted RETURNING account";

/// Locks the account, so that servers take turns. Finds none once it is deleted.
const LOCK: &str = "SELECT account FROM garth.account WHERE account = $1 AND deleted FOR UPDATE";

/// From here on the transaction sees the rows of the account, if it is being deleted.
const ENTER: &str = "SELECT set_config('garth.account', account::text, true) FROM garth.account
    WHERE account = $1 AND deleted";

/// Deletes rows of the account that was entered.
const SWEEP: &str = "SELECT garth.sweep($1)";

/// Deletes keys of an account that is being deleted.
const KEYS: &str = "DELETE FROM garth.access_key WHERE id IN (
    SELECT k.id FROM garth.access_key k JOIN garth.account a ON a.account = k.account
    WHERE k.account = $1 AND a.deleted LIMIT $2)";

/// Last step of a deletion, once the account has no keys.
const FORGET: &str = "DELETE FROM garth.account WHERE account = $1 AND deleted
    AND NOT EXISTS (SELECT FROM garth.access_key k WHERE k.account = $1) RETURNING account";

/// Accounts whose deletion has begun and not ended, for one round.
const DELETED: &str = "SELECT account, id, folder, created, deleted FROM garth.account WHERE deleted
    ORDER BY id LIMIT 100";

/// Trees of accounts that are in use.
const IN_USE: &str = "SELECT folder FROM garth.account WHERE folder = ANY ($1) AND NOT deleted";

/// Rows that one transaction deletes.
const STEP: i64 = 10_000;

/// Pause between two tries of the rounds of this server to delete what could not be deleted.
const PAUSE: Duration = Duration::from_secs(60);

impl Shared {
    /// Deletes an account.
    pub(super) async fn delete_account(&self, id: &str) -> Result<()> {
        let conn = self.pool.connection().await?;
        let marked = mark(&conn, id).await;
        let (found, is_own) = conn.settle(marked).await?;
        self.remove(&found.ok_or_else(no_account)?).await?;
        if is_own { Ok(()) } else { Err(account_gone()) }
    }

    /// Continues the deletion of an account. Returns false if no account of this id is being deleted.
    pub(super) async fn finish_deletion(&self, id: &str) -> Result<bool> {
        let Some(found) = self.find(id).await?.filter(|found| !found.is_active()) else { return Ok(false) };
        self.remove(&found).await.map(|()| true)
    }

    /// Closes the trees of accounts that are being deleted, and continues deletions, in the background.
    pub(super) async fn continue_deletions(shared: &Arc<Self>) -> Result<()> {
        let names = shared.trees.names();
        let open = (IN_USE, vec![param(names.clone(), Type::TEXT_ARRAY)]);
        let [in_use, deleted] = read(&shared.pool, [open, (DELETED, Vec::new())]).await?;
        let in_use = in_use.iter().map(|row| column(row, 0)).collect::<Result<HashSet<String>>>()?;
        // The calls of whoever holds such a tree find no account.
        names.iter().filter(|name| !in_use.contains(*name)).for_each(|name| shared.trees.forget(name));
        let deleted = deleted.iter().map(Found::of).collect::<Result<Vec<_>>>()?;
        if !deleted.is_empty() && shared.is_time_to_remove() {
            // Weak: the end of the process does not wait for deletions that any server can continue.
            let weak = Arc::downgrade(shared);
            shared.pool.run_later(async move {
                let mut all_ended = true;
                for found in &deleted {
                    let Some(shared) = weak.upgrade() else { return };
                    // The failure is logged.
                    all_ended &= shared.remove(found).await.is_ok();
                }
                if let Some(shared) = weak.upgrade().filter(|_| all_ended) {
                    *shared.next_removal.lock().unwrap_or_else(PoisonError::into_inner) = None;
                }
            });
        }
        Ok(())
    }

    /// Returns true once in each pause, and at once after all deletions have ended.
    fn is_time_to_remove(&self) -> bool {
        let now = self.env.instant();
        let mut next = self.next_removal.lock().unwrap_or_else(PoisonError::into_inner);
        if next.is_some_and(|next| now < next) {
            return false;
        }
        *next = Some(now + PAUSE);
        true
    }

    /// Deletes the rows of an account that is marked, and then the account. Returns once nothing is left of
    /// it, also if other servers have deleted it.
    pub(super) async fn remove(&self, found: &Found) -> Result<()> {
        self.trees.forget(&found.account.folder);
        self.remove_rows(found.number).await.map_err(|error| {
            let cause = std::error::Error::source(&error);
            let account = &*found.account.id;
            tracing::warn!(account, %error, ?cause, "the deletion of an account has not ended");
            not_removed(error)
        })
    }

    async fn remove_rows(&self, number: i64) -> Result<()> {
        loop {
            // A connection for each step: it is used for seconds, and others wait for it.
            let conn = self.pool.connection().await?;
            let swept = sweep(&conn, number).await;
            if !conn.settle(swept).await? {
                break;
            }
        }
        loop {
            let conn = self.pool.connection().await?;
            let ended = forget(&conn, number).await;
            if conn.settle(ended).await? {
                return Ok(());
            }
        }
    }
}

/// Marks an account as being deleted. Returns the account of this id, and true if this call has marked it.
async fn mark(conn: &Connection, id: &str) -> Result<(Option<Found>, bool)> {
    let mut pipe = Pipe::new(conn);
    pipe.simple(transaction::begin());
    let marked = pipe.query(MARK, vec![id_param(id)]);
    let found = pipe.query(FIND, vec![id_param(id)]);
    pipe.simple("COMMIT");
    let answers = pipe.run().await?;
    Ok((Found::first(&answers[found])?, !answers[marked].is_empty()))
}

/// Deletes some rows of the tree of an account. Returns true if there may be more.
async fn sweep(conn: &Connection, number: i64) -> Result<bool> {
    let mut pipe = Pipe::new(conn);
    pipe.simple(transaction::begin());
    pipe.query(LOCK, vec![int(number)]);
    pipe.query(ENTER, vec![int(number)]);
    let swept = pipe.query(SWEEP, vec![int(STEP)]);
    pipe.simple("COMMIT");
    let answers = pipe.run().await?;
    Ok(answers[swept].first().map(|row| column(row, 0)).transpose()?.unwrap_or_default())
}

/// Deletes some keys of an account, and the account if it has no more. Returns true if it is gone.
async fn forget(conn: &Connection, number: i64) -> Result<bool> {
    let mut pipe = Pipe::new(conn);
    pipe.simple(transaction::begin());
    let locked = pipe.query(LOCK, vec![int(number)]);
    pipe.query(KEYS, vec![int(number), int(STEP)]);
    let forgotten = pipe.query(FORGET, vec![int(number)]);
    pipe.simple("COMMIT");
    let answers = pipe.run().await?;
    Ok(answers[locked].is_empty() || !answers[forgotten].is_empty())
}
