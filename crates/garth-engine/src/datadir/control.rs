//! Control data: accounts and API keys. They are in a small database of their own next to the trees, so that
//! no tree can name another account, and a credential is verified without opening a tree.
//!
//! Any number of threads and processes may use it. Nothing is cached: a key that another process revokes is
//! rejected from the next call on.

pub(super) mod database;

use std::fmt;
use std::sync::Arc;

use self::database::ControlDb;
use super::account::Account;
use super::key::{ApiKey, Scope, Secret};
use crate::error::Result;
use crate::runtime::Runtime;

/// Control data of a data folder.
#[derive(Clone)]
pub struct Control {
    db: Arc<ControlDb>,
    runtime: Runtime,
}

impl Control {
    pub(super) fn new(db: &Arc<ControlDb>, runtime: &Runtime) -> Self {
        Self { db: Arc::clone(db), runtime: runtime.clone() }
    }

    /// Runs a job that syncs, or grows with the data, off the thread of the caller.
    async fn elsewhere<T: Send + 'static>(
        &self,
        job: impl FnOnce(&ControlDb) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let db = Arc::clone(&self.db);
        self.runtime.blocking().run(move || job(&db)).await
    }

    /// Returns all accounts, including those being deleted, by id in byte order.
    ///
    /// # Errors
    /// Errors of the storage.
    pub async fn accounts(&self) -> Result<Vec<Account>> {
        self.elsewhere(ControlDb::accounts).await
    }

    /// Returns at most `limit` accounts after `id`, in byte order. The empty id starts at the first one.
    ///
    /// # Errors
    /// Errors of the storage.
    pub async fn accounts_after(&self, id: &str, limit: usize) -> Result<Vec<Account>> {
        let id = id.to_owned();
        self.elsewhere(move |db| db.accounts_after(&id, limit)).await
    }

    /// Returns the active account of this id.
    ///
    /// # Errors
    /// `NotFound`, also if it is being deleted.
    pub async fn account(&self, id: &str) -> Result<Account> {
        self.db.account(id)
    }

    /// Creates a key. Its secret is only in the result: it is not stored.
    ///
    /// # Errors
    /// `NotFound` if the account does not exist; `InvalidArgument` if `scopes` is empty, or the label exceeds
    /// [`MAX_KEY_LABEL`](super::MAX_KEY_LABEL) bytes or contains control characters.
    pub async fn create_key(&self, account: &str, label: &str, scopes: &[Scope]) -> Result<(ApiKey, Secret)> {
        let (account, label, scopes) = (account.to_owned(), label.to_owned(), scopes.to_vec());
        self.elsewhere(move |db| db.create_key(&account, &label, &scopes)).await
    }

    /// Returns the keys of an account, including revoked ones, oldest first.
    ///
    /// # Errors
    /// `NotFound` if the account does not exist.
    pub async fn keys(&self, account: &str) -> Result<Vec<ApiKey>> {
        let account = account.to_owned();
        self.elsewhere(move |db| db.keys(&account)).await
    }

    /// Revokes a key of an account: every process rejects it from the next call on. Idempotent: a repeat
    /// keeps the first time of revocation.
    ///
    /// # Errors
    /// `NotFound` unless the account has a key of that id.
    pub async fn revoke_key(&self, account: &str, id: &str) -> Result<ApiKey> {
        let (account, id) = (account.to_owned(), id.to_owned());
        self.elsewhere(move |db| db.revoke_key(&account, &id)).await
    }

    /// Returns the key of a token. `None` if the token is malformed, unknown, wrong or revoked, or its
    /// account is being deleted; the cases are not distinguished, because that would help to guess tokens.
    ///
    /// # Errors
    /// Errors of the storage.
    pub async fn authenticate(&self, token: &str) -> Result<Option<ApiKey>> {
        Ok(self.db.admit(token)?.map(|(key, _)| key))
    }
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").finish_non_exhaustive()
    }
}
