//! Transactions that fetch rows until a read is complete.

use std::cell::OnceCell;
use std::sync::Arc;
use std::time::Duration;

use garth_engine::engine::relational::reads::gated_facts::GatedFacts;
use garth_engine::engine::relational::reads::tree_rows::{MAX, TreeRows as _};
use garth_engine::engine::relational::reads::tree_view::TreeView;
use garth_engine::{Error, ErrorKind, Result};

use super::PgStore;
use crate::client::{Pipe, PooledConnection, begin_reads};
use crate::reads::{FetchedRows, Round};

/// Time after which a read fails.
const READ_TIME: Duration = Duration::from_secs(10);
/// Trips that begin and end a transaction each. Most reads take no more, and a read that does takes its later
/// rows in one transaction, whose end takes a trip of its own.
const WHOLE: usize = 2;

/// Most connections that a read loses before it fails.
const MAX_LOST: usize = 3;

/// View of fetched rows.
pub(super) type View<'a> = TreeView<'a, &'a FetchedRows>;

impl PgStore {
    /// Runs a read on rows of one state until it lacks none. `announce` notes rows that are known to be
    /// needed, so that they are fetched in the first trip.
    pub(super) async fn reading<T>(
        &self,
        announce: impl FnOnce(&FetchedRows) + Send,
        read: impl Fn(&View<'_>) -> Result<T> + Send,
    ) -> Result<T> {
        let inner = &self.inner;
        let last = self.as_of.as_deref().map_or(MAX, |past| past.seq);
        let mut rows = FetchedRows::new(inner.registry.clone(), Arc::clone(&inner.judgements), last);
        announce(&rows);
        let deadline = inner.env.instant() + READ_TIME;
        if let Some(answer) = self.run(&rows, &read) {
            return answer;
        }
        let mut lost = 0;
        loop {
            let conn = inner.pool.connection().await?;
            let mut transaction =
                Transaction { conn: &conn, account: inner.account, trips: 0, is_open: false };
            let answer = loop {
                if let Err(error) = transaction.fetch(&mut rows).await {
                    break Err(error);
                }
                if let Some(answer) = self.run(&rows, &read) {
                    break Ok(answer);
                }
                if inner.env.instant() >= deadline {
                    let message = "this read takes too long; ask for less at a time";
                    break Err(Error::new(ErrorKind::TimedOut, message));
                }
            };
            let answer = match answer {
                Ok(answer) => transaction.end().await.map(|()| answer),
                Err(error) => Err(error),
            };
            match answer {
                // The server has ended it, or it was idle for too long. A read changes nothing: it begins
                // again.
                Err(error) if error.is(ErrorKind::Unavailable) && lost < MAX_LOST => lost += 1,
                answer => return conn.settle(answer).await?,
            }
            rows.renew();
        }
    }

    /// Runs a read. Returns `None` if it lacks rows.
    fn run<T>(&self, rows: &FetchedRows, read: &impl Fn(&View<'_>) -> Result<T>) -> Option<Result<T>> {
        rows.begin();
        let past = self.as_of.as_deref();
        let view = TreeView {
            rows,
            open: &self.inner.open,
            reach: &self.reach,
            as_of: past.map(|past| past.seq),
            is_past: past.is_some(),
            oldest: OnceCell::new(),
            // Comes with the rows, so that an entry is not shown by one server and expired for another.
            time: past.map_or_else(|| rows.now(), |past| past.time),
            opened: past.map_or(i64::MAX, |past| past.opened),
            gated: GatedFacts::default(),
        };
        let answer = self.check_state(rows).and_then(|()| read(&view));
        rows.is_complete().then_some(answer)
    }

    /// Fails for an account that is being deleted, of which some rows may be left, and for a view of the past
    /// whose state has been removed, because a process that was stopped for a long time has lost its leases.
    fn check_state(&self, rows: &FetchedRows) -> Result<()> {
        let (Some(head), Some(past)) = (rows.known_head()?, self.as_of.as_deref()) else { return Ok(()) };
        self.inner.holds.check_past()?;
        if past.seq < head.row.oldest && past.seq < head.reached {
            return Err(Error::gone(head.row.oldest));
        }
        Ok(())
    }
}

/// Transaction of a read.
struct Transaction<'c> {
    conn: &'c PooledConnection,
    account: i64,
    trips: usize,
    is_open: bool,
}

impl Transaction<'_> {
    /// Fetches the rows that were asked for, in one trip. If the transaction before has ended, all rows are
    /// fetched again, because other commits may have changed them.
    async fn fetch(&mut self, rows: &mut FetchedRows) -> Result<()> {
        let mut round = Round::new(Pipe::new(self.conn), self.account);
        let begins = !self.is_open;
        if begins {
            if self.trips > 0 {
                rows.renew();
            }
            round.simple(begin_reads(self.account, READ_TIME));
        }
        rows.send(&mut round);
        self.trips += 1;
        let ends = begins && self.trips <= WHOLE;
        if ends {
            round.simple("COMMIT");
        }
        self.is_open = !ends;
        round.run(rows).await
    }

    /// Ends the transaction.
    async fn end(&mut self) -> Result<()> {
        if !self.is_open {
            return Ok(());
        }
        let mut pipe = Pipe::new(self.conn);
        pipe.simple("COMMIT");
        pipe.run().await.map(drop)
    }
}
