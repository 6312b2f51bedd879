//! Everything that this server holds open, of all accounts.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use garth_engine::stats::HomeStats;
use garth_engine::{Env, Result};

use super::account::Holds;
use super::server::Server;
use crate::client::Pool;

/// Time between two renewals.
const RENEWED: Duration = Duration::from_secs(60);
/// Time between two tries after one that failed.
const RETRIED: Duration = Duration::from_secs(5);

/// This server, and what it holds open of each account.
pub(crate) struct Instance {
    server: Arc<Server>,
    accounts: Mutex<HashMap<i64, Weak<Holds>>>,
    /// Time of the next renewal.
    next: Mutex<Option<Instant>>,
}

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Instance").finish_non_exhaustive()
    }
}

impl Instance {
    /// Returns a server whose leases count, and renews them as long as it is used.
    ///
    /// # Errors
    /// `Io` if the system provides no random bytes; errors of the database.
    pub(crate) async fn start(pool: Arc<Pool>, env: Env) -> Result<Arc<Self>> {
        let holder = env.random()?;
        let instance = Self::with_id(pool, env, holder);
        instance.renew().await?;
        let weak = Arc::downgrade(&instance);
        instance.server.pool.run_later(async move {
            loop {
                tokio::time::sleep(RETRIED).await;
                // Weak: the end of the process does not wait for it.
                let Some(instance) = weak.upgrade() else { return };
                if instance.is_due()
                    && let Err(error) = instance.renew().await
                {
                    tracing::warn!(%error, "the leases of this server could not be renewed");
                }
            }
        });
        Ok(instance)
    }

    /// Returns a server with this id, without a row: its leases do not count.
    pub(crate) fn with_id(pool: Arc<Pool>, env: Env, holder: [u8; 16]) -> Arc<Self> {
        let server = Arc::new(Server::new(pool, env, holder));
        Arc::new(Self { server, accounts: Mutex::default(), next: Mutex::default() })
    }

    /// Returns what this process holds open of an account. All trees of the account share it.
    pub(crate) fn of(&self, account: i64) -> Arc<Holds> {
        let mut accounts = self.accounts();
        if let Some(holds) = accounts.get(&account).and_then(Weak::upgrade) {
            return holds;
        }
        let holds = Arc::new(Holds::new(Arc::clone(&self.server), account));
        accounts.insert(account, Arc::downgrade(&holds));
        holds
    }

    /// Returns true if leases are to be renewed now, and then false for some seconds.
    pub(crate) fn is_due(&self) -> bool {
        let (now, mut next) = (self.server.env.instant(), self.next());
        let is_due = next.is_none_or(|next| now >= next);
        if is_due {
            *next = Some(now + RETRIED);
        }
        is_due
    }

    /// Renews the row of this server, takes the leases that its open handles need, and gives up others.
    ///
    /// # Errors
    /// The first error of the database. Leases of other accounts are renewed all the same.
    pub(crate) async fn renew(&self) -> Result<()> {
        let has_lapsed = self.server.renew().await?;
        let open = self.open();
        if has_lapsed {
            tracing::warn!("the leases of this server had ended; what it holds open may have been removed");
            // All of them, before the first one may fail.
            open.iter().for_each(|holds| holds.lapse());
        }
        let mut renewed = Ok(());
        for holds in open {
            renewed = renewed.and(holds.renew().await);
        }
        if renewed.is_ok() {
            *self.next() = Some(self.server.env.instant() + RENEWED);
        }
        renewed
    }

    /// Returns the accounts of which this process may hold something open.
    pub(crate) fn open(&self) -> Vec<Arc<Holds>> {
        let mut accounts = self.accounts();
        accounts.retain(|_, holds| holds.strong_count() > 0);
        accounts.values().filter_map(Weak::upgrade).collect()
    }

    /// Adds the counts of uploads to `stats`.
    pub(crate) fn read_into(&self, stats: &mut HomeStats) {
        self.server.meters.read_into(stats);
    }

    fn accounts(&self) -> MutexGuard<'_, HashMap<i64, Weak<Holds>>> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> MutexGuard<'_, Option<Instant>> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
