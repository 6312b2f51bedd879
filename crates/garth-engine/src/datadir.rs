//! Data folder: the control data, one folder for each account, and the open trees.
//!
//! ```text
//! control.db             accounts and keys
//! accounts/<random>/     one account's tree; only its engine looks inside
//! ```
//!
//! Calls are asynchronous, so that accounts and keys could be stored on a server. Here, a lookup by name runs
//! on the thread of the caller: a point query on an open file takes some 10 µs, less than the way to another
//! thread and back. Calls that sync, open files or grow with the number of accounts run on threads of the
//! data folder.
//!
//! The reasons are in `docs/decisions/database-per-account.md`.

mod builder;
mod control;
#[cfg(test)]
mod costs;
mod deletions;
mod folder;
mod inspect;
mod of_folder;
#[cfg(all(test, debug_assertions))]
mod spans;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use self::folder::Folder;
use crate::engine::sqlite::SqliteFs;
use crate::env::Env;
use crate::error::Result;
use crate::fs::AccountStore;
use crate::home::account_gone;
#[cfg(debug_assertions)]
use crate::runtime::failpoint::Failpoints;

pub use self::builder::DataDirBuilder;
pub use self::control::Control;
pub use self::inspect::FolderState;
pub use crate::home::{
    Account, AccountState, Admitted, ApiKey, Backup, Binding, KeyOrigin, KeysPage, MAX_KEY_LABEL, Mark,
    NewKey, Rotated, Rotation, Scope, Secret,
};

/// Open data folder. Clones share it; its threads end when the last is dropped.
///
/// A call that changes data runs to its end even if its future is dropped after it was polled once.
///
/// ```
/// # use garth_engine as garth;
/// # fn main() -> garth::Result<()> { futures::executor::block_on(async {
/// # let home = tempfile::tempdir().expect("a temporary folder");
/// use garth::rule::Registry;
/// use garth::{DataDir, Env};
///
/// let data = DataDir::open(home.path(), Env::system(), Registry::empty())?;
/// data.create_account("team-a").await?;
/// let tree = data.account("team-a").await?;
/// # drop(tree);
/// # Ok(()) }) }
/// ```
#[derive(Clone)]
pub struct DataDir {
    folder: Arc<Folder>,
    control: Control,
}

impl DataDir {
    fn new(folder: Folder) -> Self {
        let control = Control::new(&folder.control, &folder.runtime);
        let folder = Arc::new(folder);
        // Without a thread for the timer, deletions are continued when somebody asks for it.
        folder.runtime.timer().add(&folder);
        Self { folder, control }
    }

    /// Returns the control data.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Returns the environment that the data folder was opened with.
    pub fn env(&self) -> &Env {
        self.folder.runtime.env()
    }

    /// Returns the data folder as an absolute path without links.
    pub fn folder(&self) -> &Path {
        &self.folder.path
    }

    /// Returns the failpoints of the storage, for tests.
    #[cfg(debug_assertions)]
    #[doc(hidden)]
    pub fn failpoints(&self) -> &Failpoints {
        self.folder.runtime.failpoints()
    }

    /// Creates an account with an empty tree. Its database is durable before the account is recorded; a crash
    /// in between leaves a folder to which nothing refers.
    ///
    /// # Errors
    /// `InvalidArgument` for an invalid id ([`check_account_id`](crate::home::check_account_id));
    /// `AlreadyExists`, also while an account of that id is being deleted.
    pub async fn create_account(&self, id: &str) -> Result<Account> {
        let (folder, id) = (Arc::clone(&self.folder), id.to_owned());
        self.folder.runtime.blocking().run(move || folder.create_account(&id)).await
    }

    /// Returns the tree of an account. In one process, calls for one account return the same instance as long
    /// as anybody holds it.
    ///
    /// # Errors
    /// `NotFound` if the account does not exist or its deletion has begun, in any process; as the engine's.
    pub async fn account(&self, id: &str) -> Result<Arc<dyn AccountStore>> {
        let account = self.control.account(id).await?;
        Ok(self.tree(account).await?)
    }

    async fn tree(&self, account: Account) -> Result<Arc<SqliteFs>> {
        // By folder, not by id: an account that is created again under an old id is another tree.
        if let Some(tree) = self.folder.trees.kept(&account.folder) {
            return Ok(tree);
        }
        // Waited for without a thread: an account that is slow to open must not delay others.
        let turn = self.folder.trees.turn(&account.folder).await;
        let folder = Arc::clone(&self.folder);
        self.folder.runtime.blocking().run(move || folder.tree(&account, turn)).await
    }

    /// Deletes an account, its keys and its tree. The first step makes it inaccessible, and calls of those
    /// who hold the tree fail with `NotFound`. Processes that have the data folder open continue a deletion
    /// that fails or is interrupted later: within a minute, or when they call
    /// [`Home::continue_deletions`](crate::home::Home::continue_deletions).
    ///
    /// # Errors
    /// - `NotFound` if the account does not exist, or another call has begun to delete it; then this call
    ///   waits for the end.
    /// - Errors of the storage. If [`is_being_deleted`](crate::home::is_being_deleted) returns true for one,
    ///   the deletion has begun.
    pub async fn delete_account(&self, id: &str) -> Result<()> {
        let (folder, id) = (Arc::clone(&self.folder), id.to_owned());
        let begun = self.folder.runtime.blocking().run(move || folder.begin_deletion(&id)).await?;
        let is_own = begun.is_own;
        begun.ended().await?;
        if is_own { Ok(()) } else { Err(account_gone()) }
    }

    /// Writes a copy of everything into `folder`, which must not exist: the control data, and each account at
    /// a point in time of its own. The copy is a data folder. Commits continue in the meantime. The folder
    /// gets its name once everything in it is durable; until then it is called `NAME.partial-` and digits,
    /// and it is removed if the backup fails.
    ///
    /// Returns the name of each account and its backup. An account that is damaged has an error (`Corrupt`,
    /// `Format` or `Poisoned`) in its place: the copy has its name and keys, but no tree.
    ///
    /// # Errors
    /// - `AlreadyExists`: the folder exists.
    /// - `Corrupt`, `Format` and `Poisoned`: the control data, or all accounts, are damaged.
    /// - Other kinds, mostly from the disk of the copy.
    pub async fn backup(&self, folder: &Path) -> Result<Vec<(String, Result<Backup>)>> {
        let (from, to) = (Arc::clone(&self.folder), folder.to_owned());
        self.folder.runtime.maintainers().run(move || from.backup(&to)).await
    }
}

impl fmt::Debug for DataDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataDir").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;
    use futures::future::{FutureExt as _, join_all};

    use super::*;
    use crate::home::Home as _;

    #[test]
    fn only_commits_change_the_mark() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("data");
        let data = DataDir::open(&place, Env::system(), crate::rule::sample::registry()).unwrap();
        let accounts = vec![block_on(data.create_account("a")).unwrap()];
        let mark = |data: &DataDir| block_on(data.marks(accounts.clone())).unwrap().remove(0);
        let write = |data: &DataDir, text: &str| {
            let tree = block_on(data.account("a")).unwrap();
            block_on(crate::fs::FileSystemExt::write(&*tree, "/f", text.to_owned())).unwrap();
        };
        write(&data, "one");
        let before = mark(&data);
        // Longer than a tick of the clock of the filesystem.
        data.env().sleep(std::time::Duration::from_millis(20));
        write(&data, "two");
        let after = mark(&data);
        assert_ne!(before, after);
        assert!(after.changed() > before.changed());
        drop(data);
        let closed = (0..500).map(|_| {
            Env::system().sleep(std::time::Duration::from_millis(10));
            folder.path().join("data/accounts").join(&accounts[0].folder).join("tree.db-wal").exists()
        });
        assert!(closed.into_iter().any(|exists| !exists), "it is closed at last");
        let data = DataDir::open(&place, Env::system(), crate::rule::sample::registry()).unwrap();
        let before = mark(&data);
        let tree = block_on(data.account("a")).unwrap();
        block_on(crate::fs::FileSystem::head(&*tree)).unwrap();
        assert_eq!(mark(&data), before);
    }

    #[test]
    fn slow_account_does_not_delay_others() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir::open(&folder.path().join("data"), Env::system(), crate::rule::sample::registry())
            .unwrap();
        let slow = block_on(data.create_account("slow")).unwrap();
        block_on(data.create_account("other")).unwrap();
        data.folder.trees.evict_all();
        // Another caller opens it.
        let turn = block_on(data.folder.trees.turn(&slow.folder));
        let mut waiting = join_all((0..100).map(|_| data.account("slow"))).boxed();
        assert!((&mut waiting).now_or_never().is_none());
        block_on(data.account("other")).unwrap();
        drop(turn);
        let opened: Vec<_> = block_on(waiting).into_iter().map(Result::unwrap).collect();
        assert!(opened.iter().all(|tree| Arc::ptr_eq(tree, &opened[0])), "one instance for all");
    }
}
