//! Accounts: looking them up, creating them, and marks and sizes of their trees.

use garth_engine::Result;
use garth_engine::home::{
    Account, AccountState, Mark, StoredSize, being_deleted, check_account_id, new_tree_name, no_account,
    taken,
};
use garth_engine::model::Timestamp;
use garth_engine::rule::Registry;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::shared::Shared;
use super::transaction::{self, after_param, id_param, int, known, read, text};
use crate::client::{Pipe, param};
use crate::schema::FIRST_ROWS;
use crate::values::columns::column;
use crate::values::parameters::{ints, texts};
use crate::weights::stored_bytes;

/// Account of an id, as [`Found::of`] reads it.
pub(super) const FIND: &str = "SELECT account, id, folder, created, deleted FROM garth.account WHERE id = $1";

/// Page of accounts.
const PAGE: &str =
    "SELECT account, id, folder, created, deleted FROM garth.account WHERE id > $1 ORDER BY id LIMIT $2";

/// Account with a new tree, unless one has the id.
const INSERT: &str = "INSERT INTO garth.account (id, folder, created) VALUES ($1, $2, garth.now())
    ON CONFLICT (id) DO NOTHING";

/// From here on the transaction sees the rows of the account of this tree, if there is one.
const ENTER: &str =
    "SELECT set_config('garth.account', account::text, true) FROM garth.account WHERE folder = $1";

/// Content limits of the account that the transaction has set; none if it has set none.
const FIRST_LIMITS: &str = "INSERT INTO garth.content_limit (account, key, class, keep)
    SELECT garth.me(), sha256(convert_to(k.class, 'UTF8')), k.class, k.keep
    FROM unnest($1::text[], $2::bigint[]) k(class, keep) WHERE garth.me() > 0";

/// Number and head of each account, in the order of the names of their trees.
const MARKS: &str = "SELECT a.account, h.seq, greatest(h.time, a.created)
    FROM unnest($1) WITH ORDINALITY AS f (folder, at)
    LEFT JOIN LATERAL (
        SELECT account, created FROM garth.account WHERE folder = f.folder OFFSET 0) AS a ON true
    LEFT JOIN LATERAL (
        SELECT seq, time FROM garth.head WHERE account = a.account OFFSET 0) AS h ON true
    ORDER BY f.at";

/// Stored bytes of an account.
const SIZE: &str = concat!(
    "SELECT ",
    stored_bytes!(),
    " FROM garth.account a JOIN garth.head h ON h.account = a.account WHERE a.folder = $1"
);

/// Account with its number, which is the first column of its rows.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) number: i64,
    pub(super) account: Account,
}

impl Found {
    /// Reads a row of [`FIND`].
    pub(super) fn of(row: &Row) -> Result<Self> {
        let state = if column(row, 4)? { AccountState::Deleted } else { AccountState::Active };
        let (id, folder, created) = (column(row, 1)?, column(row, 2)?, Timestamp(column(row, 3)?));
        Ok(Self { number: column(row, 0)?, account: Account { id, folder, created, state } })
    }

    /// Reads the row of an account that may be missing.
    pub(super) fn first(rows: &[Row]) -> Result<Option<Self>> {
        rows.first().map(Self::of).transpose()
    }

    pub(super) fn is_active(&self) -> bool {
        self.account.state == AccountState::Active
    }
}

impl Shared {
    /// Returns the account of an id, also one that is being deleted.
    pub(super) async fn find(&self, id: &str) -> Result<Option<Found>> {
        let [rows] = read(&self.pool, [(FIND, vec![id_param(id)])]).await?;
        Found::first(&rows)
    }

    /// Returns the active account of an id.
    pub(super) async fn active(&self, id: &str) -> Result<Found> {
        match self.find(id).await?.ok_or_else(no_account)? {
            found if found.is_active() => Ok(found),
            _ => Err(being_deleted()),
        }
    }

    pub(super) async fn accounts(&self, after: &str, limit: usize) -> Result<Vec<Account>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let [rows] = read(&self.pool, [(PAGE, vec![after_param(after), int(limit)])]).await?;
        rows.iter().map(|row| Ok(Found::of(row)?.account)).collect()
    }

    /// Creates an account in one round trip.
    pub(super) async fn create_account(&self, id: &str) -> Result<Account> {
        check_account_id(id)?;
        let folder = new_tree_name(&self.env)?;
        let conn = self.pool.connection().await?;
        let mut pipe = Pipe::new(&conn);
        pipe.simple(transaction::begin());
        let found = insert(&mut pipe, id, &folder);
        fill(&mut pipe, &folder, &self.registry);
        let answers = pipe.run().await;
        let answers = conn.settle(answers).await?;
        match Found::first(&answers[found])? {
            Some(found) if found.account.folder == folder => Ok(found.account),
            found => Err(taken(found.map_or(AccountState::Active, |found| found.account.state))),
        }
    }

    pub(super) async fn marks(&self, accounts: &[Account]) -> Result<Vec<Mark>> {
        let folders = accounts.iter().map(|account| known(&account.folder).to_owned());
        let folders: Vec<String> = folders.collect();
        let [rows] = read(&self.pool, [(MARKS, vec![param(folders, Type::TEXT_ARRAY)])]).await?;
        rows.iter().map(mark).collect()
    }

    pub(super) async fn size(&self, account: &Account) -> Result<StoredSize> {
        let [rows] = read(&self.pool, [(SIZE, vec![id_param(&*account.folder)])]).await?;
        let stored: Option<i64> = rows.first().map(|row| column(row, 0)).transpose()?;
        let bytes = u64::try_from(stored.unwrap_or_default()).unwrap_or_default();
        Ok(StoredSize { bytes, ..StoredSize::default() })
    }
}

/// Adds the statements that create an account unless its id is taken. Returns the place of the account that
/// has the id then.
pub(super) fn insert(pipe: &mut Pipe<'_>, id: &str, folder: &str) -> usize {
    pipe.query(INSERT, vec![text(id), text(folder)]);
    pipe.query(FIND, vec![text(id)])
}

/// Adds the statements that write the empty tree of an account, if it was created, with the content limits
/// that a new tree begins with, and commit.
pub(super) fn fill(pipe: &mut Pipe<'_>, folder: &str, registry: &Registry) {
    pipe.query(ENTER, vec![text(folder)]);
    pipe.simple(FIRST_ROWS);
    let limits = registry.content_limits();
    if !limits.is_empty() {
        let classes = texts(limits.iter().map(|limit| limit.pattern.as_str().to_owned()));
        pipe.query(FIRST_LIMITS, vec![classes, ints(limits.iter().map(|limit| limit.keep.as_secs()))]);
    }
    pipe.simple("COMMIT");
}

/// Reads a row of [`MARKS`]. An account that is gone has the mark of none.
fn mark(row: &Row) -> Result<Mark> {
    let (number, seq): (Option<i64>, Option<i64>) = (column(row, 0)?, column(row, 1)?);
    let (Some(number), Some(seq)) = (number, seq) else { return Ok(Mark::default()) };
    let value = (u128::from(number.cast_unsigned()) << 64) | u128::from(seq.cast_unsigned());
    let changed: Option<i64> = column(row, 2)?;
    Ok(Mark::new(value, changed.map(Timestamp)))
}
