//! Rows of an account that are fetched in the rounds of the planner, in the transaction that later writes
//! them.

use std::collections::BTreeSet;
use std::sync::Arc;

use garth_engine::engine::planner::{Fetch, Fetched, HeadRow, Key, RowStore};
use garth_engine::model::{At, Batch, Op, Timestamp};
use garth_engine::rule::{Registry, Rules};
use garth_engine::{Error, ErrorKind, Result};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::columns::{column, head, number};
use super::derived::{DerivedKeys, Projections};
use super::wanted::{Wanted, unsupported};
use super::writes::Writes;
use crate::client::{Connection, Param, Pipe, param};

/// Head row, locked, and with it the account. Later statements see what the transaction has committed that
/// this one waited for: each statement of a transaction with READ COMMITTED has a snapshot of its own.
const LOCK: &str =
    "SELECT seq, time, next_ino, next_chunk, control, projections, oldest, folded, next_passage
    FROM garth.head WHERE account = $1 FOR UPDATE";
/// Place of `next_passage` in the row of [`LOCK`].
const NEXT_PASSAGE: usize = 8;
/// Time of the database in nanoseconds. A statement of its own, behind the lock: in the statement that locks,
/// the clock is read before the wait, and the time may be earlier than that of the commit before.
const CLOCK: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint * 1000";

/// Rows of an account, and the transaction that reads and writes them.
pub struct PgRows<'c> {
    conn: &'c Connection,
    account: i64,
    rules: Arc<Rules>,
    registry: Registry,
    projections: Projections,
    rows: RowStore,
    /// Statements to send with the next round: changes that the rows of that round include.
    pipe: Pipe<'c>,
    /// Head row with the changes so far, and the time; `None` until the transaction has begun.
    state: Option<Fetched>,
    next_passage: u64,
    /// Files whose extents are fetched by path.
    content: BTreeSet<Key>,
}

impl<'c> PgRows<'c> {
    /// Creates rows of which none was fetched, in a transaction that begins with the first round.
    pub fn new(conn: &'c Connection, account: i64, rules: Arc<Rules>) -> Self {
        Self {
            conn,
            account,
            rows: RowStore::new(Arc::clone(&rules)),
            rules,
            registry: Registry::empty(),
            projections: Projections::of(&Registry::empty()),
            pipe: Pipe::new(conn),
            state: None,
            next_passage: 0,
            content: BTreeSet::new(),
        }
    }

    /// Sets the registry with the projections of keys.
    #[must_use]
    pub fn with_registry(self, registry: &Registry) -> Self {
        Self { registry: registry.clone(), projections: Projections::of(registry), ..self }
    }

    /// Returns the registry with the projections of keys.
    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Returns the head row with all changes so far; `None` until the account is locked.
    pub(crate) fn head(&self) -> Option<HeadRow> {
        self.state.map(|state| state.head)
    }

    /// Announces the files whose content the batches replace, so that their extents are fetched together with
    /// their names.
    pub fn announce(&mut self, batches: &[&Batch]) {
        for op in batches.iter().flat_map(|batch| &batch.ops) {
            if let Op::Write { at: At::Path(path), .. } = op
                && let Some((dir, name)) = path.key().rsplit_once('/')
            {
                self.content.insert((dir.to_owned(), name.to_owned()));
            }
        }
    }

    /// Writes the changes of a prefix of the group, with the next round or the commit. `head` is the head row
    /// after them. Batches that are planned from now on read these rows from the database.
    pub fn write(&mut self, writes: Writes, head: HeadRow) {
        self.next_passage = writes.send(&mut self.pipe, self.account, &head, self.next_passage);
        if let Some(state) = &mut self.state {
            state.head = head;
        }
    }

    /// Forgets all rows that were fetched, which are older than the writes of this transaction.
    pub fn forget(&mut self) {
        self.rows = RowStore::new(Arc::clone(&self.rules));
        self.content.clear();
    }

    /// Commits the transaction, with all changes that were not sent yet.
    ///
    /// # Errors
    /// The first error of a statement: then nothing is committed.
    pub async fn commit(self) -> Result<()> {
        let mut pipe = self.pipe;
        if self.state.is_none() {
            return Ok(());
        }
        pipe.simple("COMMIT");
        pipe.run().await.map(drop)
    }

    /// Adds a statement to those of the next round or the commit. Its first parameter is the account.
    pub(crate) fn add(&mut self, sql: &'static str, params: Vec<Param>) {
        let account = param(self.account, Type::INT8);
        self.pipe.query(sql, [account].into_iter().chain(params).collect());
    }

    /// Runs a statement behind all changes so far, whose first parameter is the account.
    ///
    /// # Errors
    /// The first error of a statement: then nothing is committed.
    pub(crate) async fn query(&mut self, sql: &'static str, params: Vec<Param>) -> Result<Vec<Row>> {
        let mut pipe = std::mem::replace(&mut self.pipe, Pipe::new(self.conn));
        let account = param(self.account, Type::INT8);
        let place = pipe.query(sql, [account].into_iter().chain(params).collect());
        let mut answers = pipe.run().await?;
        Ok(if place < answers.len() { answers.swap_remove(place) } else { Vec::new() })
    }

    async fn round(&mut self) -> Result<Fetched> {
        let derived = DerivedKeys::new(self.projections.clone());
        let mut wanted = Wanted::new(self.rows.take_wanted(), std::mem::take(&mut self.content), derived);
        let mut pipe = std::mem::replace(&mut self.pipe, Pipe::new(self.conn));
        let begun = self.state.is_none().then(|| begin(&mut pipe, self.account));
        let places = wanted.send(&mut pipe, self.account);
        let answers = pipe.run().await?;
        if let Some((lock, clock)) = begun {
            self.begun(answers[lock].first(), answers[clock].first())?;
        }
        wanted.put(&mut self.rows, places, &answers)?;
        self.state.ok_or_else(|| Error::new(ErrorKind::Unavailable, "no row has been fetched"))
    }

    /// Takes the state of the account, once it is locked.
    fn begun(&mut self, locked: Option<&Row>, clock: Option<&Row>) -> Result<()> {
        let deleted = || Error::new(ErrorKind::NotFound, "the account does not exist, or was deleted");
        let locked = locked.ok_or_else(deleted)?;
        let head = head(locked)?;
        if head.control > 0 {
            return Err(unsupported("rules and quotas of an account are not enforced by this engine yet"));
        }
        let now = clock.map(|row| column(row, 0)).transpose()?.unwrap_or_default();
        self.next_passage = number(locked, NEXT_PASSAGE)?;
        self.state = Some(Fetched { head, now: Timestamp(now) });
        Ok(())
    }
}

/// Adds the statements that begin the transaction and lock the account. Returns the places of the head row
/// and of the time.
fn begin(pipe: &mut Pipe<'_>, account: i64) -> (usize, usize) {
    // Settings of the transaction, not of the session: behind a pooler the next client would have them. The
    // time limits end a transaction whose server has vanished, and with it the lock.
    pipe.simple(format!(
        "BEGIN; SELECT set_config('garth.account', '{account}', true), \
         set_config('statement_timeout', '30000', true), set_config('lock_timeout', '10000', true), \
         set_config('idle_in_transaction_session_timeout', '30000', true)"
    ));
    (pipe.query(LOCK, vec![param(account, Type::INT8)]), pipe.query(CLOCK, Vec::new()))
}

impl Fetch for PgRows<'_> {
    fn rows(&self) -> &RowStore {
        &self.rows
    }

    fn fetch(&mut self) -> impl Future<Output = Result<Fetched>> + Send {
        self.round()
    }

    fn is_open(&self, _: usize, _: u64) -> Result<bool> {
        // Nothing can be opened yet.
        Ok(false)
    }
}
