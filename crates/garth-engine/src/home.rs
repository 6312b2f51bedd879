//! Home: accounts, their API keys and their trees, as interfaces use them.
//!
//! [`Home`] is the contract, and this module also has the types that every home shares: accounts, keys and
//! their tokens. [`DataDir`](crate::DataDir) is the home in a folder of this machine. Nothing here knows how
//! a home stores its data.

mod account;
mod binding;
mod key;
mod key_owner;
#[doc(hidden)]
pub mod key_rows;
#[doc(hidden)]
pub mod open_trees;
mod operator;
mod token;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;

use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::AccountStore;
use crate::model::Listing;
use crate::stats::HomeStats;

pub use self::account::{
    Account, AccountRequest, AccountState, Mark, StoredSize, check_account_id, is_being_deleted,
};
#[doc(hidden)]
pub use self::account::{
    MAX_REQUESTS, REPEATABLE, account_gone, being_deleted, key_reused, new_tree_name, no_account,
    not_removed, taken,
};
pub use self::binding::Binding;
pub use self::key::{
    Admitted, ApiKey, KeysPage, MAX_KEY_LABEL, NewKey, Rotated, Rotation, Scope, scopes_to_text,
};
pub use self::key_owner::KeyOwner;
pub use self::operator::OperatorTree;
pub use self::token::{Hasher, Issued, KeyOrigin, Secret, SecretHash, token_id};
pub use crate::fs::store::Backup;

/// Owner of the snapshots, commit ids and uploads of calls on the files of an account, by keys that are bound
/// to nothing. [`OperatorTree`] shows an account as these calls do.
#[doc(hidden)]
pub const FILES_OWNER: &str = "files";

/// Accounts with their keys and trees. Any number of threads and processes may use one home. Nothing is
/// cached that another process may change: a key that one process revokes is rejected by all of them from the
/// next call on.
///
/// A call that changes data runs to its end even if its future is dropped after it was polled once.
///
/// ```
/// # use garth_engine as garth;
/// # fn main() -> garth::Result<()> { futures::executor::block_on(async {
/// # let folder = tempfile::tempdir().expect("a temporary folder");
/// use std::sync::Arc;
///
/// use garth::home::{Home, NewKey, Scope};
/// use garth::rule::Registry;
/// use garth::{DataDir, Env};
///
/// let home: Arc<dyn Home> = Arc::new(DataDir::open(folder.path(), Env::system(), Registry::empty())?);
/// home.create_account("team-a").await?;
/// let (_, secret) = home.issue_key(NewKey::new(Some("team-a"), &[Scope::FilesRead])).await?;
/// let admitted = home.admit(secret.reveal()).await?.expect("a valid key");
/// let tree = home.open_admitted(&admitted).await?;
/// # drop(tree);
/// # Ok(()) }) }
/// ```
#[async_trait]
pub trait Home: Send + Sync + fmt::Debug {
    /// Returns the environment that the home was opened with.
    fn env(&self) -> &Env;

    /// Returns the place of the home, to show it: a folder, or a URL without secrets.
    fn place(&self) -> String;

    /// Returns the folder of a home on this machine, as an absolute path without links.
    fn folder(&self) -> Option<&Path> {
        None
    }

    /// Returns a secret key that is the same in every process that uses this home, and in its backups.
    /// Servers seal with it what clients carry for them, such as cursors.
    fn sealing_key(&self) -> [u8; 32];

    /// Returns at most `limit` accounts after the id `after`, including those being deleted, in byte order.
    /// The empty id starts at the first one. Opens no account.
    ///
    /// # Errors
    /// Errors of the storage.
    async fn accounts(&self, after: &str, limit: usize) -> Result<Vec<Account>>;

    /// Returns the active account of this id, without opening its tree.
    ///
    /// # Errors
    /// `NotFound`, also if it is being deleted ([`is_being_deleted`]).
    async fn account(&self, id: &str) -> Result<Account>;

    /// Creates an account with an empty tree.
    ///
    /// # Errors
    /// `InvalidArgument` for an invalid id ([`check_account_id`]); `AlreadyExists`, also while an account of
    /// that id is being deleted.
    async fn create_account(&self, id: &str) -> Result<Account>;

    /// Creates an account, unless one of that id exists. Returns the account, and true if this request has
    /// created it. A repeat within 24 hours returns the result of the first attempt, whatever has happened
    /// to the account since.
    ///
    /// # Errors
    /// - As [`Home::create_account`], but `AlreadyExists` only while an account of that id is being deleted.
    /// - `IdempotencyMismatch`: the caller used the idempotency key with another request.
    async fn create_account_once(&self, id: &str, request: &AccountRequest) -> Result<(Account, bool)>;

    /// Deletes an account, its keys and its tree. The first step makes it inaccessible, and calls of those
    /// who hold the tree fail with `NotFound`. A deletion that fails or is interrupted later is continued.
    ///
    /// # Errors
    /// - `NotFound` if the account does not exist, or another call has begun to delete it; then this call
    ///   waits for the end.
    /// - Errors of the storage. If [`is_being_deleted`] returns true for one, the deletion has begun.
    async fn delete_account(&self, id: &str) -> Result<()>;

    /// Deletes an account as [`Home::delete_account`] does. Returns true if this request has begun the
    /// deletion, and false if there was no such account, or another call has begun to delete it. A repeat
    /// within 24 hours returns the result of the first attempt and never deletes an account that was created
    /// since; it waits for the end of the deletion, too.
    ///
    /// # Errors
    /// - `IdempotencyMismatch`: the caller used the idempotency key with another request.
    /// - Errors of the storage, as for [`Home::delete_account`].
    async fn delete_account_once(&self, id: &str, request: &AccountRequest) -> Result<bool>;

    /// Continues the deletion of an account, and returns once it has ended. Returns false if no account of
    /// this id is being deleted.
    ///
    /// # Errors
    /// Errors of the storage, for which [`is_being_deleted`] returns true while files are left.
    async fn finish_deletion(&self, id: &str) -> Result<bool>;

    /// Closes the trees of accounts that other processes delete, so that their calls fail with `NotFound`,
    /// and continues deletions that have not ended. Returns before those end. Servers call it once a second.
    ///
    /// # Errors
    /// Errors of the storage.
    async fn continue_deletions(&self) -> Result<()>;

    /// Returns the tree of an account. In one process, calls for one account return the same instance as long
    /// as anybody holds it.
    ///
    /// # Errors
    /// `NotFound` if the account does not exist or its deletion has begun, in any process; errors of the
    /// engine.
    async fn open(&self, id: &str) -> Result<Arc<dyn AccountStore>>;

    /// Authenticates a token. `None` if it is malformed, unknown, wrong, revoked or expired, or its account
    /// is being deleted; the cases are not distinguished, because that would help to guess tokens.
    ///
    /// # Errors
    /// Errors of the storage.
    async fn admit(&self, token: &str) -> Result<Option<Admitted>>;

    /// Returns the tree that a key opens; it cannot name another one. If a deletion began after the key was
    /// admitted, the tree may still be returned.
    ///
    /// # Errors
    /// `NotFound` if the account is deleted, even if another one has its id now; `AccessDenied` for a key of
    /// the home; errors of the engine.
    async fn open_admitted(&self, admitted: &Admitted) -> Result<Arc<dyn AccountStore>>;

    /// Returns a page of the keys of an owner, oldest first. A key whose row cannot be read completely is
    /// listed as damaged.
    ///
    /// # Errors
    /// `NotFound` if the owner is an account that does not exist, or has another tree.
    async fn keys(&self, owner: &KeyOwner, page: &KeysPage) -> Result<Listing<ApiKey>>;

    /// Returns the number of keys of an owner that are neither revoked nor expired.
    ///
    /// # Errors
    /// As [`Home::keys`].
    async fn count_keys(&self, owner: &KeyOwner) -> Result<u64>;

    /// Creates a key. Its secret is only in the result: it is not stored. A repeat of a request with a
    /// [`KeyOrigin`] returns the same key and secret for 24 hours, as the key is at the time of the repeat.
    ///
    /// The engine knows no agents: call `garth_agent::check_binding` first for a bound key. Requests with a
    /// key whose binding that function rejects are refused.
    ///
    /// # Errors
    /// - `NotFound`: the account does not exist, or has another tree.
    /// - `AccessDenied`: the maker is no valid key of the home or of this account. It is judged in the
    ///   transaction, so that no revoked key creates another one.
    /// - `InvalidArgument`: as [`NewKey::check`]; `scopes` is empty; the key would have expired already.
    /// - `IdempotencyMismatch`: the caller used the idempotency key with another request.
    /// - `Conflict`: the caller used the idempotency key more than 24 hours ago.
    async fn issue_key(&self, new: NewKey) -> Result<(ApiKey, Secret)>;

    /// Replaces a key by a new one with the same label, scopes, binding and expiry. The old one ends after
    /// the grace. Both happen, or neither does.
    ///
    /// # Errors
    /// - `NotFound`: the owner does not exist, or has no key of that id.
    /// - `Conflict`: the key is revoked, expired or already replaced; or as [`Home::issue_key`].
    /// - `AccessDenied`, `IdempotencyMismatch`: as [`Home::issue_key`].
    async fn rotate_key(&self, owner: &KeyOwner, id: &str, rotation: Rotation) -> Result<Rotated>;

    /// Revokes a key. Idempotent: a repeat keeps the first time of revocation. A damaged key is revoked, too.
    ///
    /// # Errors
    /// `NotFound` unless the owner exists and has a key of that id.
    async fn revoke_key(&self, owner: &KeyOwner, id: &str) -> Result<ApiKey>;

    /// Returns marks of accounts, in the order of `accounts`, for a caller that waits for commits of many
    /// accounts from all processes. Opens no account.
    ///
    /// # Errors
    /// Errors of the storage.
    async fn marks(&self, accounts: Vec<Account>) -> Result<Vec<Mark>>;

    /// Returns the space that an account takes, from counters alone. Opens no account.
    ///
    /// # Errors
    /// Errors of the storage.
    async fn size(&self, account: &Account) -> Result<StoredSize>;

    /// Returns counts of the work of this instance, for metrics. They are cheap to read, and a home that
    /// counts nothing returns the default.
    fn stats(&self) -> HomeStats {
        HomeStats::default()
    }

    /// Returns the bytes that are free for data on the disk of the home; `None` if that is unknown.
    ///
    /// # Errors
    /// `Unavailable`: the system provides no thread.
    async fn free_space(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Writes a copy of everything into `folder`, which must not exist. Returns the name of each account and
    /// its backup, or the reason why it cannot be read: then the copy has the account without its tree.
    ///
    /// # Errors
    /// `Unsupported` for a home with tools of its own for that; as [`DataDir::backup`](crate::DataDir::backup).
    async fn backup(&self, folder: &Path) -> Result<Vec<(String, Result<Backup>)>> {
        let _ = folder;
        Err(Error::new(ErrorKind::Unsupported, "this home is backed up with the tools of its database"))
    }
}
