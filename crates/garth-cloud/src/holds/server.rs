//! The row of this server in the database, which its leases depend on.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use garth_engine::engine::relational::open_nodes::LEASE;
use garth_engine::stats::{Count, HomeStats};
use garth_engine::{Env, Error, ErrorKind, Result};
use tokio_postgres::types::Type;

use crate::client::{Pipe, Pool, param};
use crate::transaction::Statements;
use crate::values::columns::column;

/// Nanoseconds in a second.
const SECOND: i64 = 1_000_000_000;
/// Time before the end of the row from which on it is not relied on: clocks run at different speeds, and a
/// transaction that removes something reads the clock before it.
const MARGIN: Duration = Duration::from_secs(30);
/// Seconds for which a row is kept after its end.
const KEPT: i64 = 86_400;

/// True if the row of this server had not ended, and does not end while it is renewed.
const BEFORE: &str = "SELECT until > garth.now() + $2 FROM garth.instance WHERE holder = $1";
const RENEW: &str = "INSERT INTO garth.instance (holder, until) VALUES ($1, garth.now() + $2)
    ON CONFLICT (holder) DO UPDATE SET until = excluded.until";
/// Rows of servers that have vanished.
const FORGET: &str = "DELETE FROM garth.instance WHERE until <= garth.now() - $1";

/// This server: its random id, and how long its leases count.
pub(crate) struct Server {
    pub(super) pool: Arc<Pool>,
    pub(super) env: Env,
    holder: [u8; 16],
    row: Mutex<ServerRow>,
    pub(super) meters: UploadMeters,
}

/// Counts of uploads.
#[derive(Default)]
pub(crate) struct UploadMeters {
    pub(crate) open: Count,
    pub(crate) finished: Count,
    pub(crate) bytes: Count,
}

/// Knowledge of the row.
#[derive(Default)]
struct ServerRow {
    /// Time until which the row certainly lasts; `None` before it was written. Without the row, no lease
    /// counts and none is relied on.
    sure: Option<Instant>,
}

impl ServerRow {
    /// Returns true if the row was written, and may have ended.
    fn may_have_ended(&self, now: Instant) -> bool {
        self.sure.is_some_and(|sure| sure <= now)
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

impl Server {
    /// Returns a server without a row.
    pub(super) fn new(pool: Arc<Pool>, env: Env, holder: [u8; 16]) -> Self {
        Self { pool, env, holder, row: Mutex::default(), meters: UploadMeters::default() }
    }

    /// Returns the id of this server.
    pub(crate) fn holder(&self) -> &[u8; 16] {
        &self.holder
    }

    /// Fails if the row of this server may have ended: then others may have removed what it holds.
    ///
    /// # Errors
    /// `Unavailable`.
    pub(crate) fn check(&self) -> Result<()> {
        if self.row().may_have_ended(self.env.instant()) { Err(late()) } else { Ok(()) }
    }

    /// Renews the row. Returns true if it had ended before, or nearly.
    ///
    /// # Errors
    /// Errors of the database.
    pub(super) async fn renew(&self) -> Result<bool> {
        // Read before the clock of the database is.
        let sure = self.env.instant() + Duration::from_secs(LEASE.unsigned_abs()).saturating_sub(MARGIN);
        let conn = self.pool.connection().await?;
        let holder = || param(self.holder.to_vec(), Type::BYTEA);
        let mut statements = Statements::new(Pipe::new(&conn), 0);
        statements.begin();
        let margin = i64::try_from(MARGIN.as_nanos()).unwrap_or(i64::MAX);
        let before = statements.pipe.query(BEFORE, vec![holder(), param(margin, Type::INT8)]);
        statements.pipe.query(RENEW, vec![holder(), param(LEASE * SECOND, Type::INT8)]);
        statements.pipe.query(FORGET, vec![param(KEPT * SECOND, Type::INT8)]);
        statements.commit();
        let answers = statements.run().await;
        let answers = conn.settle(answers).await?;
        let is_there = answers.first(before).map(|row| column::<bool>(row, 0)).transpose()?;
        let had_row = self.row().sure.replace(sure).is_some();
        Ok(had_row && is_there != Some(true))
    }

    fn row(&self) -> MutexGuard<'_, ServerRow> {
        self.row.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UploadMeters {
    /// Adds the counts to `stats`.
    pub(super) fn read_into(&self, stats: &mut HomeStats) {
        let Self { open, finished, bytes } = self;
        (stats.uploads.open, stats.uploads.finished, stats.uploads.bytes) =
            (open.get(), finished.get(), bytes.get());
    }
}

/// Returns the error of a handle whose leases may have ended.
fn late() -> Error {
    let message = "this server has not renewed its leases in the database for minutes, so that what it holds \
                   open may have been removed; open it again, or check the connection to the database";
    Error::new(ErrorKind::Unavailable, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_is_relied_on_until_its_certain_end() {
        let now = Env::system().instant();
        let row = |sure| ServerRow { sure }.may_have_ended(now);
        assert!(!row(None), "no lease depends on it");
        assert!(!row(Some(now + Duration::from_nanos(1))));
        assert!(row(Some(now)));
    }
}
