//! Requests that create or delete an account, each with an idempotency key. A record, which is part of the
//! transaction of the change, names the account by its tree: a repeat finds the account that the first
//! attempt was about, and never another one of its id.

use garth_engine::Result;
use garth_engine::home::{
    Account, AccountRequest, AccountState, MAX_REQUESTS, REPEATABLE, check_account_id, key_reused,
    new_tree_name, no_account, taken,
};
use garth_engine::model::Timestamp;
use garth_engine::rule::Registry;
use tokio_postgres::Row;

use super::accounts::{FIND, Found, fill, insert};
use super::shared::Shared;
use super::transaction::{self, bytes, end, id_param, int, text};
use crate::client::{Connection, Param, Pipe};
use crate::values::columns::column;

/// Waits for another attempt of the same request. Requests of which 64 bits of a hash are equal wait for each
/// other, too.
const WAIT: &str =
    "SELECT pg_advisory_xact_lock(hashtextextended(encode(sha256($1) || sha256($2), 'hex'), 0))";

/// Record of an earlier attempt.
const RECORDED: &str = "SELECT request, changed, account, folder, created FROM garth.account_request
    WHERE sha256(caller) = sha256($1) AND sha256(key) = sha256($2) AND at > garth.now() - $3";

/// Nanoseconds for which a record answers repeats.
const REPEATABLE_NANOS: i64 = REPEATABLE * 1_000_000_000;

/// Deletes records that no repeat may need.
const EXPIRE: &str = "DELETE FROM garth.account_request WHERE number IN (
    SELECT number FROM garth.account_request WHERE at <= (SELECT garth.now()) - $1 ORDER BY at LIMIT 1000
    FOR UPDATE SKIP LOCKED)";

/// Deletes the oldest records, so that there are not too many.
const TRIM: &str = "DELETE FROM garth.account_request WHERE number IN (
    SELECT number FROM garth.account_request
    WHERE number <= (SELECT max(number) FROM garth.account_request) - $1 ORDER BY number LIMIT 1000
    FOR UPDATE SKIP LOCKED)";

/// Writes SQL that records a request: of the columns `changed`, `account`, `folder` and `created`. A record
/// that has expired and was not deleted yet is written over.
macro_rules! record {
    ($before:literal, $columns:literal) => {
        concat!(
            $before,
            " INSERT INTO garth.account_request (caller, key, request, at, changed, account, folder, created)
              SELECT $1, $2, $3, garth.now(), ",
            $columns,
            " ON CONFLICT (sha256(caller), sha256(key)) DO UPDATE SET number = DEFAULT,
              request = excluded.request, at = excluded.at, changed = excluded.changed,
              account = excluded.account, folder = excluded.folder, created = excluded.created
              RETURNING changed"
        )
    };
}

/// Records a request to create an account, unless the account is being deleted.
const CREATED: &str = record!(
    "",
    "a.folder = $5, a.id, a.folder, a.created FROM garth.account a WHERE a.id = $4 AND NOT a.deleted"
);

/// First step of a deletion, and the record of its request.
const DELETED: &str = record!(
    "WITH marked AS (
         UPDATE garth.account SET deleted = true WHERE id = $4 AND NOT deleted RETURNING account)",
    "EXISTS (SELECT FROM marked), $4, a.folder, a.created
     FROM (VALUES (0)) AS one (n) LEFT JOIN garth.account a ON a.id = $4"
);

/// Account that a request was about, if it existed, and true if the request has changed it.
type Recorded = (Option<Account>, bool);

impl Shared {
    /// Creates an account unless it exists, or a repeat of the request did so.
    pub(super) async fn create_account_once(
        &self,
        id: &str,
        request: &AccountRequest,
    ) -> Result<(Account, bool)> {
        check_account_id(id)?;
        let folder = new_tree_name(&self.env)?;
        let conn = self.pool.connection().await?;
        let created = create(&conn, (id, &folder), (request, &self.registry)).await;
        conn.settle(created).await
    }

    /// Deletes an account unless a repeat of the request did so. Returns true if the request has done it.
    pub(super) async fn delete_account_once(&self, id: &str, request: &AccountRequest) -> Result<bool> {
        let conn = self.pool.connection().await?;
        let marked = mark(&conn, id, request).await;
        let (left, is_own) = conn.settle(marked).await?;
        if let Some(found) = left {
            self.remove(&found).await?;
        }
        Ok(is_own)
    }
}

async fn create(
    conn: &Connection,
    (id, folder): (&str, &str),
    (request, registry): (&AccountRequest, &Registry),
) -> Result<(Account, bool)> {
    let (recorded, found) = begin(conn, id, request).await?;
    if let Some((account, created)) = recorded {
        end(conn).await?;
        return Ok((account.ok_or_else(no_account)?, created));
    }
    if found.is_some_and(|found| !found.is_active()) {
        return Err(taken(AccountState::Deleted));
    }
    let mut pipe = Pipe::new(conn);
    trim(&mut pipe);
    let found = insert(&mut pipe, id, folder);
    let mut values = values(request);
    values.extend([text(id), text(folder)]);
    pipe.query(CREATED, values);
    fill(&mut pipe, folder, registry);
    let answers = pipe.run().await?;
    match Found::first(&answers[found])? {
        Some(found) if found.is_active() => {
            let is_own = found.account.folder == folder;
            Ok((found.account, is_own))
        }
        _ => Err(taken(AccountState::Deleted)),
    }
}

/// Takes the first step of a deletion. Returns the account whose deletion is to be finished, if there is one,
/// and true if the request has begun it.
async fn mark(conn: &Connection, id: &str, request: &AccountRequest) -> Result<(Option<Found>, bool)> {
    let (recorded, found) = begin(conn, id, request).await?;
    if let Some((account, changed)) = recorded {
        end(conn).await?;
        let is_same = |found: &Found| {
            !found.is_active()
                && account.as_ref().is_some_and(|account| account.folder == found.account.folder)
        };
        return Ok((found.filter(is_same), changed));
    }
    let mut pipe = Pipe::new(conn);
    trim(&mut pipe);
    let mut values = values(request);
    values.push(id_param(id));
    let changed = pipe.query(DELETED, values);
    let found = pipe.query(FIND, vec![id_param(id)]);
    pipe.simple("COMMIT");
    let answers = pipe.run().await?;
    let is_own = answers[changed].first().map(|row| column(row, 0)).transpose()?.unwrap_or_default();
    Ok((Found::first(&answers[found])?, is_own))
}

/// Begins the transaction of a request. Returns the record of an earlier attempt, and the account of this id.
async fn begin(
    conn: &Connection,
    id: &str,
    request: &AccountRequest,
) -> Result<(Option<Recorded>, Option<Found>)> {
    let key = || vec![bytes(request.caller.as_bytes()), bytes(request.idempotency_key.as_bytes())];
    let mut pipe = Pipe::new(conn);
    pipe.simple(transaction::begin());
    pipe.query(WAIT, key());
    let mut of_request = key();
    of_request.push(int(REPEATABLE_NANOS));
    let recorded = pipe.query(RECORDED, of_request);
    let found = pipe.query(FIND, vec![id_param(id)]);
    let answers = pipe.run().await?;
    let recorded = answers[recorded].first().map(|row| read_record(row, request)).transpose()?;
    Ok((recorded, Found::first(&answers[found])?))
}

fn read_record(row: &Row, request: &AccountRequest) -> Result<Recorded> {
    if column::<&[u8]>(row, 0)? != request.request_hash {
        return Err(key_reused());
    }
    let (id, created) = (column(row, 2)?, Timestamp(column::<Option<i64>>(row, 4)?.unwrap_or_default()));
    let folder: Option<String> = column(row, 3)?;
    let account = folder.map(|folder| Account { id, folder, created, state: AccountState::Active });
    Ok((account, column(row, 1)?))
}

/// Adds the statements that delete records that no repeat may need.
fn trim(pipe: &mut Pipe<'_>) {
    pipe.query(EXPIRE, vec![int(REPEATABLE_NANOS)]);
    pipe.query(TRIM, vec![int(MAX_REQUESTS - 1)]);
}

/// Returns the first parameters of a statement that records a request.
fn values(request: &AccountRequest) -> Vec<Param> {
    let AccountRequest { caller, idempotency_key, request_hash, .. } = request;
    vec![bytes(caller.as_bytes()), bytes(idempotency_key.as_bytes()), bytes(request_hash)]
}
