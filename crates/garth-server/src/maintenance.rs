//! Maintenance of the storage of accounts, on request: one at a time for each account, because a collection
//! or check reads all of it.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use garth_engine::Result;
use tracing::Instrument as _;

use crate::errors::Refusal;

/// Accounts whose storage is being maintained.
#[derive(Clone, Debug, Default)]
pub(crate) struct Maintenance(Arc<Mutex<HashSet<String>>>);

/// Turn of an account, until dropped.
struct Turn {
    maintenance: Maintenance,
    account: String,
}

impl Maintenance {
    /// Runs work on the storage of an account. It ends even if the client does not wait for it, and keeps the
    /// turn until then.
    ///
    /// # Errors
    /// `Unavailable` while other maintenance of the account runs; from the work.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        account: &str,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> std::result::Result<T, Refusal> {
        let turn = self.turn(account)?;
        // A task of its own: the request is dropped when its connection closes, and the engine would go on
        // without the turn.
        let working = async move {
            let done = work.await;
            drop(turn);
            done
        };
        match tokio::spawn(working.in_current_span()).await {
            Ok(done) => Ok(done?),
            Err(error) => Err(Refusal::internal().because(error.to_string())),
        }
    }

    fn turn(&self, account: &str) -> std::result::Result<Turn, Refusal> {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !running.insert(account.to_owned()) {
            let message = "the storage of this account is being collected, checked or indexed by another call; \
                try again when that has ended";
            return Err(Refusal::no_room(message));
        }
        Ok(Turn { maintenance: self.clone(), account: account.to_owned() })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut running = self.maintenance.0.lock().unwrap_or_else(PoisonError::into_inner);
        running.remove(&self.account);
    }
}

#[cfg(test)]
mod tests {
    use futures::channel::oneshot;

    use super::*;

    #[tokio::test]
    async fn work_runs_once_per_account_until_its_end() {
        let maintenance = Maintenance::default();
        let (end, ended) = oneshot::channel::<u32>();
        let (begin, begun) = oneshot::channel();
        let first = {
            let maintenance = maintenance.clone();
            tokio::spawn(async move {
                let work = async move {
                    begin.send(()).ok();
                    Ok(ended.await.unwrap_or_default())
                };
                maintenance.run("acme", work).await
            })
        };
        begun.await.unwrap();
        let refused = maintenance.run("acme", async { Ok(2) }).await.unwrap_err();
        assert_eq!(refused.status, 503);
        assert_eq!(maintenance.run("other", async { Ok(3) }).await.unwrap(), 3);
        // The client goes away, and the work does not.
        first.abort();
        assert!(first.await.is_err());
        assert!(maintenance.run("acme", async { Ok(4) }).await.is_err());
        end.send(1).unwrap();
        while !maintenance.0.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        assert_eq!(maintenance.run("acme", async { Ok(5) }).await.unwrap(), 5);
    }
}
