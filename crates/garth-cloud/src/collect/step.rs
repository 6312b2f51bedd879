//! Runs of a collection, and their steps: each a short transaction that locks the account, so that commits
//! hardly wait for it. Between two steps, commits go on.
//!
//! A run has a lease, so that only one run collects an account at a time. Each step renews the lease, or
//! fails if another run has it. A step takes a connection of the pool and gives it back.

use std::time::{Duration, Instant};

use garth_engine::engine::planner::HeadRow;
use garth_engine::engine::relational::control_rows::check_version;
use garth_engine::fs::store::Collected;
use garth_engine::model::Timestamp;
use garth_engine::{Error, ErrorKind, Result};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::client::{Param, Pipe, PooledConnection, begin_reads, begin_writes, param};
use crate::store::PgStore;
use crate::values::columns::{column, head, int};

/// Time until the lease of a run that has vanished ends: 30 s in nanoseconds.
const LEASE: i64 = 30_000_000_000;
/// Time after which a run without steps renews its lease.
const RENEWAL: Duration = Duration::from_secs(5);
/// Time that a step may take. Shorter ones let the next steps do more, longer ones less.
const WORK: Duration = Duration::from_millis(50);
/// Fewest and most rows of a step.
const ROWS: (i64, i64) = (16, 1024);
/// Rows of the first step.
const FIRST_ROWS: i64 = 256;
/// Limit on the time of a statement that only reads.
pub(crate) const READ_TIME: Duration = Duration::from_secs(30);
/// Longest pause after a step in the background. A pause is three times as long as its step, so that a
/// quarter of the time goes to such steps at most.
const PAUSE: Duration = Duration::from_millis(150);

const TAKE_LEASE: &str = "INSERT INTO garth.collecting AS c (account, holder, until)
    SELECT h.account, $2, garth.now() + $3 FROM garth.head h WHERE h.account = $1
    ON CONFLICT (account) DO UPDATE SET holder = excluded.holder, until = excluded.until
        WHERE c.holder = excluded.holder OR c.until <= excluded.until - $3
    RETURNING until";
const RELEASE: &str = "UPDATE garth.collecting SET until = 0 WHERE account = $1 AND holder = $2";
const LOCK: &str = "SELECT seq, time, next_ino, next_chunk, control, projections, oldest, folded
    FROM garth.head WHERE account = $1 FOR UPDATE";
/// Keeps the lease, and tells the time. A statement of its own, behind the lock, which may be waited for.
const KEEP_LEASE: &str = "UPDATE garth.collecting SET until = garth.now() + $3
    WHERE account = $1 AND holder = $2 RETURNING garth.now()";
const CLOCK: &str = "SELECT garth.now() FROM garth.head WHERE account = $1";
const EPOCH: &str =
    "UPDATE garth.head SET epoch = epoch + 1, stored = greatest(stored - $2, 0) WHERE account = $1";

/// A statement, whose first parameter is the account, with its other parameters.
pub(crate) type Statement = (&'static str, Vec<Param>);

/// Times of a step, by the clock of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) now: Timestamp,
    /// Items that were marked until then are removed.
    pub(crate) removed_before: Timestamp,
}

impl Times {
    /// Returns the times of a step at `now`, with a grace period in nanoseconds.
    pub(crate) fn new(now: Timestamp, grace: i64) -> Self {
        Self { now, removed_before: Timestamp(now.0.saturating_sub(grace)) }
    }
}

/// Progress of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// More may be left: call the step again.
    More,
    /// Nothing is left.
    Done,
}

impl Progress {
    /// Returns the progress of a phase that may have more to do.
    pub(crate) fn more_if(is_left: bool) -> Self {
        if is_left { Self::More } else { Self::Done }
    }
}

/// Rows of a step, by the time that the steps before it took.
#[derive(Clone, Copy, Debug)]
struct Budget(i64);

impl Budget {
    /// Returns the budget after a step that took this long.
    fn after(self, took: Duration) -> Self {
        let rows = if took > WORK {
            self.0 / 2
        } else if took < WORK / 4 {
            self.0.saturating_mul(2)
        } else {
            self.0
        };
        Self(rows.clamp(ROWS.0, ROWS.1))
    }
}

/// A run of a collection, which has the lease of the account.
pub(crate) struct Run<'r> {
    /// Handle of the whole account.
    pub(crate) store: &'r PgStore,
    /// True if the limits on the past are to be met exactly, and not only once a step is worth while.
    pub(crate) exact: bool,
    /// Report so far.
    pub(crate) collected: Collected,
    holder: [u8; 16],
    /// Grace period in nanoseconds.
    grace: i64,
    /// True in the background, with pauses between the steps.
    is_slow: bool,
    budget: Budget,
    /// Last step, which has renewed the lease.
    renewed: Instant,
}

impl<'r> Run<'r> {
    /// Takes the lease of an account. Returns `None` if another run has it.
    ///
    /// # Errors
    /// `NotFound` if the account does not exist; errors of the database.
    pub(crate) async fn begin(store: &'r PgStore, grace: Duration, exact: bool) -> Result<Option<Self>> {
        let run = Self {
            store,
            exact,
            collected: Collected::default(),
            holder: store.env().random()?,
            grace: i64::try_from(grace.as_nanos()).unwrap_or(i64::MAX),
            is_slow: !exact,
            budget: Budget(FIRST_ROWS),
            renewed: store.env().instant(),
        };
        let conn = store.pool().connection().await?;
        let mut pipe = Pipe::new(&conn);
        pipe.simple(begin_writes(store.account()));
        let exists = pipe.query(
            "SELECT FROM garth.head WHERE account = $1 FOR KEY SHARE",
            vec![param(store.account(), Type::INT8)],
        );
        let taken = pipe.query(TAKE_LEASE, run.lease(&[LEASE]));
        pipe.simple("COMMIT");
        let answers = pipe.run().await;
        let answers = conn.settle(answers).await?;
        if answers.get(exists).is_none_or(Vec::is_empty) {
            return Err(deleted());
        }
        Ok(answers.get(taken).is_some_and(|rows| !rows.is_empty()).then_some(run))
    }

    /// Returns the grace period in nanoseconds.
    pub(crate) fn grace(&self) -> i64 {
        self.grace
    }

    /// Ends the lease.
    ///
    /// # Errors
    /// Errors of the database: then the lease ends by itself.
    pub(crate) async fn end(&self) -> Result<()> {
        let conn = self.store.pool().connection().await?;
        let mut pipe = Pipe::new(&conn);
        pipe.simple(begin_writes(self.store.account()));
        pipe.query(RELEASE, self.lease(&[]));
        pipe.simple("COMMIT");
        let answers = pipe.run().await;
        conn.settle(answers).await.map(drop)
    }

    fn lease(&self, more: &[i64]) -> Vec<Param> {
        let more = more.iter().map(|number| param(*number, Type::INT8));
        let own = [param(self.store.account(), Type::INT8), param(self.holder.to_vec(), Type::BYTEA)];
        own.into_iter().chain(more).collect()
    }

    /// Returns the random id of the run.
    pub(crate) fn holder(&self) -> &[u8] {
        &self.holder
    }

    /// Returns the most rows that the next step reads and writes.
    pub(crate) fn rows(&self) -> i64 {
        self.budget.0
    }

    /// Reads rows of one state, without locking the account: the rows of each statement.
    ///
    /// # Errors
    /// Errors of the database.
    pub(crate) async fn read<const N: usize>(&self, statements: [Statement; N]) -> Result<[Vec<Row>; N]> {
        read(self.store, statements).await
    }

    /// Begins a step, and runs statements behind the lock. Returns the rows of each.
    ///
    /// # Errors
    /// `NotFound` if the account was deleted; `WouldBlock` if another run has the lease; `Format` if a newer
    /// garth writes to the account; errors of the database.
    pub(crate) async fn step<const N: usize>(
        &mut self,
        statements: [Statement; N],
    ) -> Result<(Step, [Vec<Row>; N])> {
        let lease = (KEEP_LEASE, self.lease(&[LEASE]));
        self.renewed = self.store.env().instant();
        begin_with(self.store, lease, self.grace, statements).await
    }

    /// Renews the lease if no step has done so for some time, during work that takes no steps.
    ///
    /// # Errors
    /// As [`Run::step`].
    pub(crate) async fn keep_lease(&mut self) -> Result<()> {
        if self.store.env().instant().duration_since(self.renewed) < RENEWAL {
            return Ok(());
        }
        let (step, []) = self.step([]).await?;
        self.commit(step).await
    }

    /// Commits a step, with the statements that were added. In the background, pauses after it.
    ///
    /// # Errors
    /// Errors of the database: then the step has changed nothing, unless the connection was lost.
    pub(crate) async fn commit(&mut self, step: Step) -> Result<()> {
        let begun = step.begun;
        step.commit().await?;
        let took = self.store.env().instant().duration_since(begun);
        self.budget = self.budget.after(took);
        if self.is_slow {
            tokio::time::sleep((took * 3).min(PAUSE)).await;
        }
        Ok(())
    }
}

/// A transaction that has locked the account. Dropped before [`Run::commit`], it changes nothing.
pub(crate) struct Step {
    conn: PooledConnection,
    account: i64,
    /// Head row, which is locked.
    pub(crate) head: HeadRow,
    pub(crate) times: Times,
    begun: Instant,
    /// Statements to send with the next query, or with the commit.
    queued: Vec<Statement>,
    changes: bool,
    /// Stored bytes that its changes have freed.
    freed: i64,
}

impl Step {
    /// Adds a statement that changes rows, to send with the next query or with the commit.
    pub(crate) fn add(&mut self, sql: &'static str, params: Vec<Param>) {
        self.changes = true;
        self.queued.push((sql, params));
    }

    /// Counts stored bytes that the changes free, by the weights of [`crate::weights`].
    pub(crate) fn frees(&mut self, bytes: u64) {
        self.changes |= bytes > 0;
        self.freed = self.freed.saturating_add(int(bytes));
    }

    /// Counts stored bytes that the changes add.
    pub(crate) fn adds(&mut self, bytes: u64) {
        self.changes |= bytes > 0;
        self.freed = self.freed.saturating_sub(int(bytes));
    }

    /// Runs statements behind those that were added, in one round trip. Returns the rows of each. A statement
    /// that changes rows is passed to [`has_changed`](Self::has_changed).
    ///
    /// # Errors
    /// Errors of the database.
    pub(crate) async fn query<const N: usize>(
        &mut self,
        statements: [Statement; N],
    ) -> Result<[Vec<Row>; N]> {
        let mut pipe = Pipe::new(&self.conn);
        for statement in std::mem::take(&mut self.queued) {
            add(&mut pipe, self.account, statement);
        }
        let places = statements.map(|statement| add(&mut pipe, self.account, statement));
        let mut answers = pipe.run().await?;
        Ok(places.map(|place| answers.get_mut(place).map(std::mem::take).unwrap_or_default()))
    }

    /// Commits the transaction with the statements that were added.
    ///
    /// # Errors
    /// Errors of the database: then the step has changed nothing, unless the connection was lost.
    pub(crate) async fn commit(mut self) -> Result<()> {
        if self.changes {
            // Caches that are valid for a head compare the epoch as well.
            self.queued.push((EPOCH, vec![param(self.freed, Type::INT8)]));
        }
        let mut pipe = Pipe::new(&self.conn);
        for statement in self.queued {
            add(&mut pipe, self.account, statement);
        }
        pipe.simple("COMMIT");
        let answers = pipe.run().await;
        self.conn.settle(answers).await.map(drop)
    }

    /// Notes that a statement of [`query`](Self::query) or of the beginning has changed rows.
    pub(crate) fn has_changed(&mut self) {
        self.changes = true;
    }
}

/// Begins a transaction that locks the account without a lease of a run, as for a change by an operator. Runs
/// statements behind the lock, and returns the rows of each.
///
/// # Errors
/// `NotFound` if the account was deleted; errors of the database.
pub(crate) async fn begin<const N: usize>(
    store: &PgStore,
    statements: [Statement; N],
) -> Result<(Step, [Vec<Row>; N])> {
    begin_with(store, (CLOCK, vec![param(store.account(), Type::INT8)]), 0, statements).await
}

/// Begins a step. `clock` returns the time of the database, or no row if the run has lost its lease.
async fn begin_with<const N: usize>(
    store: &PgStore,
    clock: Statement,
    grace: i64,
    statements: [Statement; N],
) -> Result<(Step, [Vec<Row>; N])> {
    let account = store.account();
    let conn = store.pool().connection().await?;
    let mut pipe = Pipe::new(&conn);
    pipe.simple(begin_writes(account));
    let lock = pipe.query(LOCK, vec![param(account, Type::INT8)]);
    let clock = pipe.query(clock.0, clock.1);
    let places = statements.map(|statement| add(&mut pipe, account, statement));
    let mut answers = pipe.run().await?;
    // Only now: the account may have been locked by a commit.
    let begun = store.env().instant();
    let first = |place: usize| answers.get(place).and_then(|rows| rows.first());
    let head = head(first(lock).ok_or_else(deleted)?)?;
    check_version(head.projections, store.registry())?;
    let now = Timestamp(column(first(clock).ok_or_else(held)?, 0)?);
    let times = Times::new(now, grace);
    let step = Step { conn, account, head, times, begun, queued: Vec::new(), changes: false, freed: 0 };
    Ok((step, places.map(|place| answers.get_mut(place).map(std::mem::take).unwrap_or_default())))
}

/// Reads rows of one state of an account: the rows of each statement.
///
/// # Errors
/// Errors of the database.
pub(crate) async fn read<const N: usize>(
    store: &PgStore,
    statements: [Statement; N],
) -> Result<[Vec<Row>; N]> {
    let account = store.account();
    let conn = store.pool().connection().await?;
    let mut pipe = Pipe::new(&conn);
    pipe.simple(begin_reads(account, READ_TIME));
    let places = statements.map(|statement| add(&mut pipe, account, statement));
    pipe.simple("COMMIT");
    let answers = pipe.run().await;
    let mut answers = conn.settle(answers).await?;
    Ok(places.map(|place| answers.get_mut(place).map(std::mem::take).unwrap_or_default()))
}

fn add(pipe: &mut Pipe<'_>, account: i64, (sql, params): Statement) -> usize {
    pipe.query(sql, [param(account, Type::INT8)].into_iter().chain(params).collect())
}

fn deleted() -> Error {
    Error::new(ErrorKind::NotFound, "the account does not exist, or was deleted")
}

/// Returns the error of a run that has no lease.
pub(crate) fn held() -> Error {
    Error::new(ErrorKind::WouldBlock, "the account is being collected by another call; try again later")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_steps_make_the_next_ones_smaller() {
        let budget = Budget(FIRST_ROWS);
        assert_eq!(budget.after(WORK / 2).0, FIRST_ROWS);
        assert_eq!(budget.after(WORK * 2).0, FIRST_ROWS / 2);
        assert_eq!(budget.after(Duration::ZERO).0, FIRST_ROWS * 2);
        let ends = [WORK * 2, Duration::ZERO].map(|took| (0..9).fold(budget, |it, _| it.after(took)).0);
        assert_eq!(ends, [ROWS.0, ROWS.1]);
    }

    #[test]
    fn grace_period_ends_before_now() {
        let times = Times::new(Timestamp(100), 30);
        assert_eq!((times.now, times.removed_before), (Timestamp(100), Timestamp(70)));
        assert_eq!(Times::new(Timestamp(0), i64::MAX).removed_before, Timestamp(-i64::MAX));
    }
}
