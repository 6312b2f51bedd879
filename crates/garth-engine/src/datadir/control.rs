//! What operators set: accounts and API keys, in a small database of their own beside the trees, so
//! that no tree can name another account and a credential is checked without opening any tree.
//!
//! Any number of threads and processes may ask. Nothing is cached: a key that another process revokes opens
//! nothing from the next call on.

pub(super) mod database;

use std::fmt;
use std::sync::Arc;

use self::database::ControlDb;
use super::account::Account;
use super::key::{ApiKey, Scope, Secret};
use crate::error::Result;
use crate::runtime::Runtime;

/// The control data of a data folder.
#[derive(Clone)]
pub struct Control {
    db: Arc<ControlDb>,
    runtime: Runtime,
}

impl Control {
    pub(super) fn new(db: &Arc<ControlDb>, runtime: &Runtime) -> Self {
        Self { db: Arc::clone(db), runtime: runtime.clone() }
    }

    /// Runs what syncs, or grows with what there is, off the caller's thread.
    async fn elsewhere<T: Send + 'static>(
        &self,
        job: impl FnOnce(&ControlDb) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let db = Arc::clone(&self.db);
        self.runtime.blocking().run(move || job(&db)).await
    }

    /// All accounts, those being deleted too, by id in byte order.
    ///
    /// # Errors
    /// Those of the storage.
    pub async fn accounts(&self) -> Result<Vec<Account>> {
        self.elsewhere(ControlDb::accounts).await
    }

    /// At most `limit` of them, those behind an id (the empty one: from the first on).
    ///
    /// # Errors
    /// Those of the storage.
    pub async fn accounts_after(&self, id: &str, limit: usize) -> Result<Vec<Account>> {
        let id = id.to_owned();
        self.elsewhere(move |db| db.accounts_after(&id, limit)).await
    }

    /// The account in use by that id.
    ///
    /// # Errors
    /// `NotFound`, also if it is being deleted.
    pub async fn account(&self, id: &str) -> Result<Account> {
        self.db.account(id)
    }

    /// Makes a key. The secret is in the answer and nowhere else.
    ///
    /// # Errors
    /// `NotFound` without such an account; `InvalidArgument` for no scope at all, or a label over
    /// [`MAX_KEY_LABEL`](super::MAX_KEY_LABEL) bytes or with control characters.
    pub async fn create_key(&self, account: &str, label: &str, scopes: &[Scope]) -> Result<(ApiKey, Secret)> {
        let (account, label, scopes) = (account.to_owned(), label.to_owned(), scopes.to_vec());
        self.elsewhere(move |db| db.create_key(&account, &label, &scopes)).await
    }

    /// The keys of an account, revoked ones too, oldest first.
    ///
    /// # Errors
    /// `NotFound` without such an account.
    pub async fn keys(&self, account: &str) -> Result<Vec<ApiKey>> {
        let account = account.to_owned();
        self.elsewhere(move |db| db.keys(&account)).await
    }

    /// Revokes a key of an account: every process refuses it from the next call on. Idempotent: the first
    /// time of revocation stays.
    ///
    /// # Errors
    /// `NotFound` unless the account has a key of that id.
    pub async fn revoke_key(&self, account: &str, id: &str) -> Result<ApiKey> {
        let (account, id) = (account.to_owned(), id.to_owned());
        self.elsewhere(move |db| db.revoke_key(&account, &id)).await
    }

    /// The key of a token. `None` if it is malformed, unknown, wrong or revoked, or if its account is being
    /// deleted; which of these is not told, since it would help to guess tokens.
    ///
    /// # Errors
    /// Those of the storage.
    pub async fn authenticate(&self, token: &str) -> Result<Option<ApiKey>> {
        Ok(self.db.admit(token)?.map(|(key, _)| key))
    }
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").finish_non_exhaustive()
    }
}
