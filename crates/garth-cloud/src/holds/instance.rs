//! The row of this server, which its leases depend on.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use garth_engine::engine::relational::open_nodes::LEASE;
use garth_engine::stats::{Count, HomeStats};
use garth_engine::{Env, Error, ErrorKind, Result};
use tokio_postgres::types::Type;

use super::account::Holds;
use crate::client::{Pool, param};
use crate::transaction::Statements;
use crate::values::columns::column;

/// Nanoseconds in a second.
const SECOND: i64 = 1_000_000_000;
/// Time between two renewals.
const RENEWED: Duration = Duration::from_secs(60);
/// Time between two tries after one that failed.
const RETRIED: Duration = Duration::from_secs(5);
/// Time before the end of the row from which on it is not relied on: clocks run at different speeds, and a
/// transaction that removes something reads the clock before it.
const MARGIN: Duration = Duration::from_secs(30);
/// Seconds for which a row is kept after its end.
const KEPT: i64 = 86_400;

/// Row of this server before it is renewed.
const BEFORE: &str = "SELECT until > garth.now() FROM garth.instance WHERE holder = $1";
const RENEW: &str = "INSERT INTO garth.instance (holder, until) VALUES ($1, garth.now() + $2)
    ON CONFLICT (holder) DO UPDATE SET until = excluded.until";
/// Rows of servers that have vanished.
const FORGET: &str = "DELETE FROM garth.instance WHERE until <= garth.now() - $1";

/// This server: its random id, how long its leases count, and what it holds open of each account.
pub(crate) struct Instance {
    pub(super) pool: Arc<Pool>,
    pub(super) env: Env,
    holder: [u8; 16],
    row: Mutex<InstanceRow>,
    accounts: Mutex<HashMap<i64, Weak<Holds>>>,
    pub(crate) meters: UploadMeters,
}

/// Counts of uploads.
#[derive(Default)]
pub(crate) struct UploadMeters {
    pub(crate) open: Count,
    pub(crate) finished: Count,
    pub(crate) bytes: Count,
}

/// What is known of the row.
#[derive(Default)]
struct InstanceRow {
    /// Time until which the row certainly lasts; `None` before it was written. Without the row, no lease counts
    /// and none is relied on.
    sure: Option<Instant>,
    /// Time of the next renewal.
    next: Option<Instant>,
}

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Instance").finish_non_exhaustive()
    }
}

impl Instance {
    /// Returns a server without a row, which the first tick writes.
    ///
    /// # Errors
    /// `Io` if the system provides no random bytes.
    pub(crate) fn new(pool: Arc<Pool>, env: Env) -> Result<Arc<Self>> {
        let holder = env.random()?;
        Ok(Self::with_id(pool, env, holder))
    }

    /// Returns a server with this id.
    pub(crate) fn with_id(pool: Arc<Pool>, env: Env, holder: [u8; 16]) -> Arc<Self> {
        let (row, accounts, meters) = (Mutex::default(), Mutex::default(), UploadMeters::default());
        Arc::new(Self { pool, env, holder, row, accounts, meters })
    }

    /// Returns the id of this server.
    pub(crate) fn holder(&self) -> &[u8; 16] {
        &self.holder
    }

    /// Returns what this process holds open of an account. All trees of the account share it.
    pub(crate) fn of(self: &Arc<Self>, account: i64) -> Arc<Holds> {
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(holds) = accounts.get(&account).and_then(Weak::upgrade) {
            return holds;
        }
        let holds = Arc::new(Holds::new(Arc::clone(self), account));
        accounts.insert(account, Arc::downgrade(&holds));
        holds
    }

    /// Fails if the row of this server may have ended: then others may have removed what it holds.
    ///
    /// # Errors
    /// `Unavailable`.
    pub(crate) fn check(&self) -> Result<()> {
        match self.row().sure {
            Some(sure) if sure <= self.env.instant() => Err(late()),
            _ => Ok(()),
        }
    }

    /// Renews the row of this server, takes the leases that its open handles need, and gives up others. Does
    /// nothing if the last renewal was less than a minute ago.
    ///
    /// # Errors
    /// Errors of the database: a tick a few seconds later tries again.
    pub(crate) async fn tick(&self) -> Result<()> {
        {
            let now = self.env.instant();
            let mut row = self.row();
            if row.next.is_some_and(|next| now < next) {
                return Ok(());
            }
            // Also if this future is dropped.
            row.next = Some(now + RETRIED);
        }
        self.renew().await?;
        self.row().next = Some(self.env.instant() + RENEWED);
        Ok(())
    }

    /// Renews all leases now.
    ///
    /// # Errors
    /// The first error of the database. Leases of other accounts are renewed all the same.
    pub(crate) async fn renew(&self) -> Result<()> {
        let has_lapsed = self.renew_row().await?;
        let open: Vec<Arc<Holds>> = {
            let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
            accounts.retain(|_, holds| holds.strong_count() > 0);
            accounts.values().filter_map(Weak::upgrade).collect()
        };
        if has_lapsed {
            tracing::warn!("the leases of this server had ended; what it holds open may have been removed");
            // All of them, before the first one may fail.
            open.iter().for_each(|holds| holds.lapse());
        }
        let mut renewed = Ok(());
        for holds in open {
            renewed = renewed.and(holds.renew().await);
        }
        renewed
    }

    /// Renews the row. Returns true if it had ended before.
    async fn renew_row(&self) -> Result<bool> {
        // Read before the clock of the database is.
        let sure = self.env.instant() + Duration::from_secs(LEASE.unsigned_abs()).saturating_sub(MARGIN);
        let conn = self.pool.connection().await?;
        let holder = || param(self.holder.to_vec(), Type::BYTEA);
        let mut statements = Statements::new(crate::client::Pipe::new(&conn), 0);
        statements.begin();
        let before = statements.pipe.query(BEFORE, vec![holder()]);
        statements.pipe.query(RENEW, vec![holder(), param(LEASE * SECOND, Type::INT8)]);
        statements.pipe.query(FORGET, vec![param(KEPT * SECOND, Type::INT8)]);
        statements.commit();
        let answers = statements.run().await;
        let answers = conn.settle(answers).await?;
        let is_there = answers.first(before).map(|row| column::<bool>(row, 0)).transpose()?;
        let had_row = self.row().sure.replace(sure).is_some();
        Ok(had_row && is_there != Some(true))
    }

    fn row(&self) -> MutexGuard<'_, InstanceRow> {
        self.row.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the counts of uploads to `stats`.
    pub(crate) fn read_into(&self, stats: &mut HomeStats) {
        let UploadMeters { open, finished, bytes } = &self.meters;
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
