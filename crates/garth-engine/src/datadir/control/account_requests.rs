//! Requests that create or delete an account, each with an idempotency key. A record, which is part of the
//! transaction of the change, names the account by its folder: a repeat finds the account that the first
//! attempt was about, and never another one of its id. All calls block, for one small transaction.

use rusqlite::{Connection, Row};

use super::database::{ControlDb, account_of, find, insert, mark};
use crate::error::Result;
use crate::home::{
    Account, AccountRequest, AccountState, MAX_REQUESTS, REPEATABLE, check_account_id, key_reused,
    no_account, taken,
};
use crate::model::Timestamp;
use crate::sqlite::{DbResult, one};

/// Account that a request was about, if it existed, and true if the request has changed it.
type Recorded = (Option<Account>, bool);

impl ControlDb {
    /// Answers a request to create an account without creating one: if an earlier attempt did, or the account
    /// exists.
    ///
    /// # Errors
    /// `AlreadyExists` while an account of that id is being deleted.
    pub(in crate::datadir) fn existing_account(
        &self,
        id: &str,
        request: &AccountRequest,
    ) -> Result<Option<(Account, bool)>> {
        let now = self.env.now();
        self.write(|conn| {
            if let Some((account, created)) = recorded(conn, request, now)? {
                return Ok(Some((account.ok_or_else(no_account)?, created)));
            }
            let Some(account) = active(conn, id)? else { return Ok(None) };
            let found = (Some(account), false);
            record(conn, (id, request), &found, now)?;
            Ok(found.0.map(|account| (account, false)))
        })
    }

    /// Records an account whose folder exists, and the request that creates it. Returns the account of the
    /// first attempt, or one that has come in between, if there is any; it has another folder.
    ///
    /// # Errors
    /// `InvalidArgument` for an invalid id ([`check_account_id`]); `AlreadyExists` while an account of that
    /// id is being deleted.
    pub(in crate::datadir) fn add_account_once(
        &self,
        id: &str,
        folder: &str,
        request: &AccountRequest,
    ) -> Result<(Account, bool)> {
        check_account_id(id)?;
        let now = self.env.now();
        self.write(|conn| {
            if let Some((account, created)) = recorded(conn, request, now)? {
                return Ok((account.ok_or_else(no_account)?, created));
            }
            let created = insert(conn, id, folder, now)?;
            let account = active(conn, id)?.ok_or_else(no_account)?;
            record(conn, (id, request), &(Some(account.clone()), created), now)?;
            Ok((account, created))
        })
    }

    /// First step of a deletion, with its request. Returns the account whose deletion is to be finished, if
    /// there is one, and true if the request has begun it.
    pub(in crate::datadir) fn mark_deleted_once(
        &self,
        id: &str,
        request: &AccountRequest,
    ) -> Result<Recorded> {
        let now = self.env.now();
        self.write(|conn| {
            if let Some((account, deleted)) = recorded(conn, request, now)? {
                let account = account.map(|account| unfinished(conn, &account)).transpose()?;
                return Ok((account.flatten(), deleted));
            }
            let marked = match mark(conn, id)? {
                Some((account, is_first)) => (Some(account), is_first),
                None => (None, false),
            };
            record(conn, (id, request), &marked, now)?;
            Ok(marked)
        })
    }
}

/// Returns the record of an earlier attempt of a request.
fn recorded(conn: &Connection, request: &AccountRequest, now: Timestamp) -> DbResult<Option<Recorded>> {
    let sql = "SELECT request, changed, account, folder, created FROM account_request
               WHERE caller = ?1 AND key = ?2 AND at > ?3";
    let read = |row: &Row<'_>| {
        let folder: Option<String> = row.get(3)?;
        let created = Timestamp(row.get::<_, Option<i64>>(4)?.unwrap_or_default());
        let (id, state) = (row.get(2)?, AccountState::Active);
        let account = folder.map(|folder| Account { id, folder, created, state });
        Ok((row.get::<_, [u8; 32]>(0)?, (account, row.get::<_, bool>(1)?)))
    };
    let since = now.plus_seconds(-REPEATABLE).0;
    match one(conn, sql, (&request.caller, &request.idempotency_key, since), read)? {
        Some((hash, _)) if hash != request.request_hash => Err(key_reused().into()),
        found => Ok(found.map(|(_, recorded)| recorded)),
    }
}

/// Records a request, and removes records that no repeat may need.
fn record(
    conn: &Connection,
    (id, request): (&str, &AccountRequest),
    (account, changed): &Recorded,
    now: Timestamp,
) -> DbResult<()> {
    conn.execute("DELETE FROM account_request WHERE at <= ?1", [now.plus_seconds(-REPEATABLE).0])?;
    let sql = "DELETE FROM account_request WHERE number <= (SELECT max(number) FROM account_request) - ?1";
    conn.execute(sql, [MAX_REQUESTS - 1])?;
    let sql = "INSERT INTO account_request (caller, key, request, at, changed, account, folder, created)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    let (folder, created) = account.as_ref().map(|found| (&*found.folder, found.created.0)).unzip();
    let AccountRequest { caller, idempotency_key, request_hash } = request;
    conn.execute(sql, (caller, idempotency_key, request_hash, now.0, changed, id, folder, created))?;
    Ok(())
}

/// Returns the account of this id, unless it is being deleted.
fn active(conn: &Connection, id: &str) -> DbResult<Option<Account>> {
    match find(conn, id)? {
        Some(account) if account.state == AccountState::Deleted => Err(taken(account.state).into()),
        found => Ok(found),
    }
}

/// Returns an account whose deletion has begun but not ended.
fn unfinished(conn: &Connection, account: &Account) -> DbResult<Option<Account>> {
    let sql =
        "SELECT id, folder, created, deleted FROM account WHERE id = ?1 AND folder = ?2 AND deleted = 1";
    one(conn, sql, (&account.id, &account.folder), account_of)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::env::{Env, ManualClock};
    use crate::error::ErrorKind;

    const START: Timestamp = Timestamp(1_000_000_000_000_000_000);

    fn request(key: &str, hash: u8) -> AccountRequest {
        AccountRequest::new("caller", key, [hash; 32])
    }

    fn control() -> (tempfile::TempDir, ControlDb, ManualClock) {
        let folder = tempfile::tempdir().unwrap();
        let (env, clock) = Env::manual(START);
        let data = crate::DataDir::open(folder.path(), env, crate::rule::sample::registry()).unwrap();
        let control = ControlDb::open(folder.path(), &data.folder.runtime).unwrap();
        (folder, control, clock)
    }

    fn records(control: &ControlDb) -> i64 {
        let sql = "SELECT count(*) FROM account_request";
        control.read(|conn| Ok(conn.query_row(sql, [], |row| row.get(0))?)).unwrap()
    }

    #[test]
    fn records_end_after_a_day() {
        let (_folder, control, clock) = control();
        assert_eq!(control.mark_deleted_once("none", &request("a", 1)).unwrap(), (None, false));
        assert_eq!(records(&control), 1);
        let other = control.mark_deleted_once("none", &request("a", 2)).unwrap_err();
        assert!(other.is(ErrorKind::IdempotencyMismatch), "{other}");
        clock.advance(Duration::from_secs(24 * 60 * 60));
        control.mark_deleted_once("none", &request("a", 2)).unwrap();
        assert_eq!(records(&control), 1);
    }

    #[test]
    fn number_of_records_is_bounded() {
        let (_folder, control, _clock) = control();
        let many = "WITH RECURSIVE n(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM n WHERE n < 100000)
                    INSERT INTO account_request (caller, key, request, at, changed, account)
                    SELECT 'caller', n, zeroblob(32), ?1, 0, 'none' FROM n";
        control.write(|conn| Ok(conn.execute(many, [START.0])?)).unwrap();
        control.mark_deleted_once("none", &request("new", 1)).unwrap();
        assert_eq!(records(&control), MAX_REQUESTS);
        let oldest = "SELECT min(number) FROM account_request";
        let oldest: i64 = control.read(|conn| Ok(conn.query_row(oldest, [], |row| row.get(0))?)).unwrap();
        assert_eq!(oldest, 2);
    }
}
