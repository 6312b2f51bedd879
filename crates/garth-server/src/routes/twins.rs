//! Concurrent writes with one idempotency key. Each waits for the one before it, so that none works in vain.
//! Writes of other processes are recognized by the stored records.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::OwnedMutexGuard;

/// Turn of a write. The next write runs when it is dropped.
pub(super) type Turn = OwnedMutexGuard<()>;

/// Queue of the writes with one key. It is dropped after the last of them.
type Queue = tokio::sync::Mutex<()>;

/// Account, label of the binding, and idempotency key of a write.
type Name = (String, String, String);

/// Writes in progress, by account, binding and key.
#[derive(Debug, Default)]
pub(super) struct Twins(Mutex<HashMap<Name, Weak<Queue>>>);

impl Twins {
    /// Waits until no other write of the account with this key is in progress. `label` tells bindings apart:
    /// a request must not wait for one that it cannot repeat.
    pub(super) async fn wait(&self, account: &str, label: String, key: &str) -> Turn {
        self.queue((account.to_owned(), label, key.to_owned())).lock_owned().await
    }

    fn queue(&self, name: Name) -> Arc<Queue> {
        let mut queues = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Queues without writes are dropped here, or the map would grow with every key.
        queues.retain(|_, queue| queue.strong_count() > 0);
        let queue = queues.entry(name).or_default();
        queue.upgrade().unwrap_or_else(|| {
            let first = Arc::default();
            *queue = Arc::downgrade(&first);
            first
        })
    }
}
