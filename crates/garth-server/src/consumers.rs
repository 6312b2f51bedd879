//! Consumers of changes: how many may wait at the same time, and the syncs that those of an account share.
//! A consumer that waits has neither a thread nor a timer of its own in the storage: it is in the list of the
//! account, and a commit wakes it.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use garth_engine::FileSystem;
use garth_engine::model::Seq;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;

use crate::answers::RoomCounts;
use crate::errors::Refusal;
use crate::limits::Limits;

/// Time for which a commit that was asked for as `Visible` may wait for a durable one. Consumers sync an
/// account at most that often, so that they hardly slow down its writers.
const PATIENCE: Duration = Duration::from_millis(100);

/// Consumers of changes of one server.
pub(crate) struct Consumers {
    all: Arc<Semaphore>,
    /// Places of `all`, free or not.
    places: usize,
    /// Consumers that found no free place.
    refused: AtomicU64,
    /// Limit on the consumers of one account.
    share: usize,
    /// Accounts that have consumers.
    accounts: Mutex<HashMap<String, Weak<OfAccount>>>,
}

/// Consumers of one account.
struct OfAccount {
    places: Arc<Semaphore>,
    /// Held by the consumer that syncs for all others.
    settling: tokio::sync::Mutex<()>,
}

impl fmt::Debug for Consumers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumers").finish_non_exhaustive()
    }
}

/// Place of one consumer, until dropped.
pub(crate) struct Place {
    account: Arc<OfAccount>,
    _of_account: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

impl Consumers {
    /// Returns the consumers of a server, of which there are none.
    pub(crate) fn new(limits: &Limits) -> Self {
        let (places, share) = (limits.streams, limits.streams_per_account);
        let (all, refused) = (Arc::new(Semaphore::new(places)), AtomicU64::new(0));
        Self { all, places, refused, share, accounts: Mutex::default() }
    }

    /// Takes a place for a consumer of an account.
    ///
    /// # Errors
    /// `Unavailable` without a free place.
    pub(crate) fn place(&self, account: &str) -> Result<Place, Refusal> {
        let account = self.account(account);
        // The share of the account comes first, so that an account which has used it up takes nothing of the
        // others' places.
        let of_account = Arc::clone(&account.places).try_acquire_owned().map_err(|_| self.refuse())?;
        let of_all = Arc::clone(&self.all).try_acquire_owned().map_err(|_| self.refuse())?;
        Ok(Place { account, _of_account: of_account, _of_all: of_all })
    }

    fn refuse(&self) -> Refusal {
        self.refused.fetch_add(1, Ordering::Relaxed);
        Refusal::no_room("too many clients wait for changes; end some of them, or try again later")
    }

    /// Returns the use of the places, and the number of refusals, for metrics.
    pub(crate) fn counts(&self) -> RoomCounts {
        let used = self.places.saturating_sub(self.all.available_permits());
        let refused = self.refused.load(Ordering::Relaxed);
        RoomCounts { used: used as f64 / self.places.max(1) as f64, refused }
    }

    fn account(&self, id: &str) -> Arc<OfAccount> {
        // A panic elsewhere leaves the map valid.
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(account) = accounts.get(id).and_then(Weak::upgrade) {
            return account;
        }
        // Accounts without consumers are dropped here, so that the map does not grow with every account.
        accounts.retain(|_, account| account.strong_count() > 0);
        let places = Arc::new(Semaphore::new(self.share));
        let account = Arc::new(OfAccount { places, settling: tokio::sync::Mutex::default() });
        accounts.insert(id.to_owned(), Arc::downgrade(&account));
        account
    }
}

impl Place {
    /// Waits until the commits up to `seq` are durable. Syncs if no durable commit follows them soon.
    ///
    /// # Errors
    /// Errors of the storage.
    pub(crate) async fn settle(&self, fs: &dyn FileSystem, seq: Seq) -> Result<(), Refusal> {
        let base = fs.view_base();
        if base.known_durable()? >= seq {
            return Ok(());
        }
        let _turn = self.account.settling.lock().await;
        // Another consumer, or a durable commit, may have come first: before the turn, and during the wait.
        if base.known_durable()? < seq {
            sleep(PATIENCE).await;
        }
        Ok(base.settle(seq).await?)
    }
}

#[cfg(test)]
mod tests {
    use garth_engine::engine::sqlite::SqliteFs;
    use garth_engine::model::{Batch, Op};
    use garth_engine::rule::Registry;
    use garth_engine::{Env, TreePath};

    use super::*;
    use crate::errors::Code;

    #[test]
    fn account_leaves_places_for_others() {
        let consumers = Consumers::new(&Limits::default().streams(3).streams_per_account(2));
        let held = [consumers.place("a").unwrap(), consumers.place("a").unwrap()];
        assert_eq!(consumers.place("a").err().unwrap().code, Code::Unavailable);
        let other = consumers.place("b").unwrap();
        assert_eq!(consumers.place("c").err().unwrap().code, Code::Unavailable);
        drop(held);
        assert!(consumers.place("a").is_ok() && consumers.place("c").is_ok());
        drop(other);
        assert!(consumers.place("d").is_ok());
        assert_eq!(consumers.accounts.lock().unwrap().len(), 1, "accounts without consumers are forgotten");
    }

    #[tokio::test(start_paused = true)]
    async fn consumers_share_a_sync_of_visible_commits() {
        let folder = tempfile::tempdir().unwrap();
        let fs = SqliteFs::open(folder.path(), Env::system(), Registry::empty()).unwrap();
        let write = |text: &str| Batch::new([Op::write(TreePath::parse("/a").unwrap(), text.to_owned())]);
        let visible = fs.commit(write("1").visible()).await.unwrap().seq;
        assert!(fs.view_base().known_durable().unwrap() < visible);
        let consumers = Consumers::new(&Limits::default());
        let places: Vec<Place> = (0..3).map(|_| consumers.place("a").unwrap()).collect();
        for place in &places {
            place.settle(&*fs, visible).await.unwrap();
            assert!(fs.view_base().known_durable().unwrap() >= visible);
        }
        let durable = fs.commit(write("2")).await.unwrap().seq;
        assert_eq!(fs.view_base().known_durable().unwrap(), durable);
    }
}
