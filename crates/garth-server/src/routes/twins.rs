//! Twins of writes under one idempotency key: a twin waits for the first, so that neither works in vain. What
//! another process does at the same moment is for the records to decide.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::OwnedMutexGuard;

/// Turn of a write, for as long as it is held.
pub(super) type Turn = OwnedMutexGuard<()>;

/// Queue of the writes under one key; it ends with the last of them.
type Queue = tokio::sync::Mutex<()>;

/// Writes under way, by account and key.
#[derive(Debug, Default)]
pub(super) struct Twins(Mutex<HashMap<(String, String), Weak<Queue>>>);

impl Twins {
    /// Waits until no other write of the account under the key is under way.
    pub(super) async fn wait(&self, account: &str, key: &str) -> Turn {
        self.queue(account, key).lock_owned().await
    }

    fn queue(&self, account: &str, key: &str) -> Arc<Queue> {
        let mut queues = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        queues.retain(|_, queue| queue.strong_count() > 0);
        let queue = queues.entry((account.to_owned(), key.to_owned())).or_default();
        queue.upgrade().unwrap_or_else(|| {
            let first = Arc::default();
            *queue = Arc::downgrade(&first);
            first
        })
    }
}
