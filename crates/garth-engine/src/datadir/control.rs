//! Control data: accounts and API keys. They are in a small database of their own next to the trees, so that
//! no tree can name another account, and a credential is verified without opening a tree.
//!
//! Any number of threads and processes may use it. Nothing is cached: a key that another process revokes is
//! rejected from the next call on.

mod account_requests;
pub(super) mod database;
mod key_rows;
mod reserve;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use self::database::ControlDb;
use crate::error::Result;
use crate::home::{Account, ApiKey, KeyOwner, KeysPage, NewKey, Rotated, Rotation, Scope, Secret};
use crate::model::Listing;
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

    /// Creates a key of an account that is bound to nothing and does not expire, as [`Self::issue_key`].
    ///
    /// # Errors
    /// As [`Self::issue_key`].
    pub async fn create_key(&self, account: &str, label: &str, scopes: &[Scope]) -> Result<(ApiKey, Secret)> {
        let label = label.to_owned();
        self.issue_key(NewKey { label, ..NewKey::new(Some(account), scopes) }).await
    }

    /// Creates a key. Its secret is only in the result: it is not stored. A repeat of a request with a
    /// [`KeyOrigin`](super::KeyOrigin) returns the same key and secret for 24 hours, as the key is at the
    /// time of the repeat.
    ///
    /// The engine knows no agents, so it checks ids and sizes of the binding, but neither its session key and
    /// class, nor that it names anybody. Call `garth_agent::check_binding` first, as the command line and the
    /// server do. Requests with a key whose binding that function rejects are refused.
    ///
    /// # Errors
    /// - `NotFound`: the account does not exist.
    /// - `AccessDenied`: the maker is no valid key of the data folder or of the account.
    /// - `InvalidArgument`: `scopes` is empty; a key of the data folder has another scope than `admin`; the
    ///   label exceeds [`MAX_KEY_LABEL`](super::MAX_KEY_LABEL) bytes or contains control characters; the key
    ///   would have expired already; a bound key has the scope `admin` or no account; the binding is
    ///   malformed.
    /// - `IdempotencyMismatch`: the caller used the idempotency key with another request.
    /// - `Conflict`: the caller used the idempotency key more than 24 hours ago.
    pub async fn issue_key(&self, new: NewKey) -> Result<(ApiKey, Secret)> {
        self.elsewhere(move |db| db.create_key(&new)).await
    }

    /// Replaces a key by a new one with the same label, scopes, binding and expiry. The old one ends after
    /// the grace. Both happen, or neither does.
    ///
    /// # Errors
    /// - `NotFound`: the account, or the data folder for `None`, has no key of that id.
    /// - `Conflict`: the key is revoked, expired or already replaced; or as [`Self::issue_key`].
    /// - `AccessDenied`, `IdempotencyMismatch`: as [`Self::issue_key`].
    pub async fn rotate_key(&self, account: Option<&str>, id: &str, rotation: Rotation) -> Result<Rotated> {
        self.rotate_key_of(&KeyOwner::from(account), id, rotation).await
    }

    pub(super) async fn rotate_key_of(
        &self,
        owner: &KeyOwner,
        id: &str,
        rotation: Rotation,
    ) -> Result<Rotated> {
        let (owner, id) = (owner.clone(), id.to_owned());
        self.elsewhere(move |db| db.rotate_key(&owner, &id, &rotation)).await
    }

    /// Returns a page of the keys of an account, or of the data folder for `None`, oldest first.
    ///
    /// # Errors
    /// `NotFound` if the account does not exist.
    pub async fn keys(&self, account: Option<&str>, page: &KeysPage) -> Result<Listing<ApiKey>> {
        self.keys_of(&KeyOwner::from(account), page).await
    }

    pub(super) async fn keys_of(&self, owner: &KeyOwner, page: &KeysPage) -> Result<Listing<ApiKey>> {
        let (owner, page) = (owner.clone(), page.clone());
        self.elsewhere(move |db| db.keys(&owner, &page)).await
    }

    /// Returns the number of keys of an account, or of the data folder for `None`, that are neither revoked
    /// nor expired.
    ///
    /// # Errors
    /// `NotFound` if the account does not exist.
    pub async fn count_keys(&self, account: Option<&str>) -> Result<u64> {
        self.count_keys_of(&KeyOwner::from(account)).await
    }

    pub(super) async fn count_keys_of(&self, owner: &KeyOwner) -> Result<u64> {
        let owner = owner.clone();
        self.elsewhere(move |db| db.count_keys(&owner)).await
    }

    /// Revokes a key of an account, or of the data folder for `None`: every process rejects it from the next
    /// call on. Idempotent: a repeat keeps the first time of revocation. Works on a full disk, too.
    ///
    /// # Errors
    /// `NotFound` unless the account or the data folder has a key of that id.
    pub async fn revoke_key(&self, account: Option<&str>, id: &str) -> Result<ApiKey> {
        self.revoke_key_of(&KeyOwner::from(account), id).await
    }

    pub(super) async fn revoke_key_of(&self, owner: &KeyOwner, id: &str) -> Result<ApiKey> {
        let (owner, id) = (owner.clone(), id.to_owned());
        self.elsewhere(move |db| db.in_reserve(|| db.revoke_key(&owner, &id))).await
    }

    /// Returns the key of a token. `None` if the token is malformed, unknown, wrong, revoked or
    /// expired, or its account is being deleted; the cases are not distinguished, because that would help to
    /// guess tokens.
    ///
    /// # Errors
    /// Errors of the storage.
    pub async fn authenticate(&self, token: &str) -> Result<Option<ApiKey>> {
        Ok(self.db.admit(token)?.map(|admitted| admitted.key().clone()))
    }
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").finish_non_exhaustive()
    }
}
