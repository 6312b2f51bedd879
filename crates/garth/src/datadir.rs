//! The data folder: the control data, one folder an account, and the trees that are open.
//!
//! ```text
//! control.db             accounts and keys
//! accounts/<random>/     one account's tree; only its engine looks inside
//! ```
//!
//! Why: `docs/decisions/database-per-account.md`.

mod builder;
mod control;
mod key;
mod open_trees;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::control::new_folder;
use self::open_trees::OpenTrees;
use crate::engine::sqlite::schema::DATABASE;
use crate::engine::sqlite::write::writer_lock::WriterLock;
use crate::engine::sqlite::{Backup, SqliteFs};
use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::path::check_id;
use crate::runtime::Runtime;
use crate::runtime::disk::{dir_of, failed, is_short_of_descriptors, make_dir, sync_dir};

pub use self::builder::DataDirBuilder;
pub use self::control::{Account, AccountState, Control};
pub use self::key::{ApiKey, MAX_KEY_LABEL, Scope, Secret};

/// The engine behind every account.
pub type Tree = SqliteFs;

/// Name of the folder of all trees in a data folder.
const ACCOUNTS: &str = "accounts";

/// A data folder, opened. Clones are the same one; its threads end when the last is dropped.
///
/// ```
/// # fn main() -> garth::Result<()> {
/// # let home = tempfile::tempdir().expect("a temporary folder");
/// use garth::{DataDir, Env};
///
/// let data = DataDir::open(home.path(), Env::system())?;
/// data.create_account("team-a")?;
/// let tree = data.account("team-a")?;
/// # drop(tree);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct DataDir(Arc<Inner>);

/// A key that was let in.
#[derive(Clone, Debug)]
pub struct Admitted {
    key: ApiKey,
    folder: String,
}

impl Admitted {
    /// The key.
    pub fn key(&self) -> &ApiKey {
        &self.key
    }
}

struct Inner {
    folder: PathBuf,
    runtime: Runtime,
    control: Control,
    trees: OpenTrees<Tree>,
}

impl DataDir {
    /// Opens a data folder with default limits; makes it if it is missing. See
    /// [`DataDir::builder`] for more choice.
    ///
    /// # Errors
    /// Those of [`DataDirBuilder::open`].
    pub fn open(folder: &Path, env: Env) -> Result<Self> {
        Self::builder().env(env).open(folder)
    }

    /// Says how to open a data folder: whether it may be made, and what it may use.
    pub fn builder() -> DataDirBuilder {
        DataDirBuilder::default()
    }

    fn open_with(folder: PathBuf, runtime: Runtime, open_trees: usize) -> Result<Self> {
        let control = Control::open(&folder, &runtime)?;
        let trees = OpenTrees::new(open_trees, |tree: &Tree| !tree.is_poisoned());
        let data = Self(Arc::new(Inner { folder, runtime, control, trees }));
        for account in data.control().deleted_accounts()? {
            // no failure to open: the account is inaccessible already, and the next open tries again
            if let Err(error) = data.finish_deletion(&account) {
                tracing::warn!(%error, "the deletion of an account is not finished");
            }
        }
        Ok(data)
    }

    /// The control data.
    pub fn control(&self) -> &Control {
        &self.0.control
    }

    /// Clock and randomness that it was opened with.
    pub fn env(&self) -> &Env {
        self.0.runtime.env()
    }

    /// The data folder, as an absolute path without links.
    pub fn folder(&self) -> &Path {
        &self.0.folder
    }

    /// Makes an account with an empty tree. Its database is durable before the account is known; a crash in
    /// between leaves a folder that nothing refers to.
    ///
    /// # Errors
    /// `InvalidArgument` for a bad id; `AlreadyExists`, also while an account of that id is being deleted.
    pub fn create_account(&self, id: &str) -> Result<Account> {
        check_id("account", id)?;
        let name = new_folder(self.env())?;
        let folder = self.tree_folder(&name);
        make_dir(&folder).map_err(failed("the account's folder cannot be made"))?;
        let discard = || {
            self.0.trees.forget(&name);
            fs::remove_dir_all(&folder).map_err(failed("the account's folder cannot be removed"))
        };
        if let Err(error) = self.open_tree(&name) {
            discard()?;
            return Err(error);
        }
        let added = self.control().add_account(id, &name);
        if added.as_ref().is_err_and(|error| !error.is(ErrorKind::Io)) {
            // Certainly not added, so nothing refers to it. What cannot be removed is as harmless as after a
            // crash.
            let _ = discard();
        }
        added
    }

    /// The tree of an account. In one process, calls for one account give the same
    /// instance as long as anybody holds it.
    ///
    /// # Errors
    /// `NotFound` without such an account, also once its deletion has begun, in
    /// whichever process; those of the engine.
    pub fn account(&self, id: &str) -> Result<Arc<Tree>> {
        self.tree(&self.control().account(id)?)
    }

    /// The key that a token is of, and the way to its account. `None` as with [`Control::authenticate`].
    ///
    /// # Errors
    /// Those of the storage.
    pub fn admit(&self, token: &str) -> Result<Option<Admitted>> {
        Ok(self.control().admit(token)?.map(|(key, folder)| Admitted { key, folder }))
    }

    /// The tree that a key opens; it has no way to name another. A deletion that began since
    /// it was admitted may come after.
    ///
    /// # Errors
    /// `NotFound` if the account is gone, also if another has its id now; those of the engine.
    pub fn tree_of(&self, admitted: &Admitted) -> Result<Arc<Tree>> {
        if let Some(tree) = self.0.trees.kept(&admitted.folder) {
            return Ok(tree);
        }
        // not open, or forgotten because it is being deleted
        let account = self.control().account(&admitted.key.account)?;
        if account.folder != admitted.folder {
            return Err(account_gone());
        }
        self.tree(&account)
    }

    fn tree(&self, account: &Account) -> Result<Arc<Tree>> {
        // By folder, not by id: an account that is made anew under an old id is another tree.
        if let Some(tree) = self.0.trees.kept(&account.folder) {
            return Ok(tree);
        }
        check_not_emptied(&self.tree_folder(&account.folder))?;
        match self.open_tree(&account.folder) {
            // its deletion may have come in between
            Err(_) if self.is_gone(account)? => Err(account_gone()),
            other => other,
        }
    }

    fn open_tree(&self, name: &str) -> Result<Arc<Tree>> {
        let folder = self.tree_folder(name);
        let open = || self.0.trees.get(name, || Tree::open_on(&folder, &self.0.runtime));
        match open() {
            // out of file descriptors: close unused trees and try again
            Err(error) if error.is(ErrorKind::Unavailable) && is_short_of_descriptors() => {
                self.0.trees.evict_all();
                open()
            }
            other => other,
        }
    }

    /// Deletes an account, its keys and its tree. The first step makes it inaccessible; after a crash the
    /// rest is done when the data folder is next opened.
    ///
    /// # Errors
    /// `NotFound` without such an account.
    pub fn delete_account(&self, id: &str) -> Result<()> {
        let account = self.control().mark_deleted(id)?;
        self.finish_deletion(&account)
    }

    /// Writes a copy of everything into `folder`, which must not exist: control data, and each account as
    /// it is at one moment of its own. The copy is a data folder. Commits go on meanwhile. Gives each
    /// account's name with what was written. The folder gets its name when all is in it and durable: until
    /// then it is called `NAME.partial-` and digits, and it is removed if the backup fails.
    ///
    /// # Errors
    /// `AlreadyExists` if the folder is there; `Corrupt`, `Format` and `Poisoned` of what is copied; other
    /// kinds mostly of the copy's disk.
    pub fn backup(&self, folder: &Path) -> Result<Vec<(String, Backup)>> {
        let failed = failed("the backup could not be written");
        if fs::symlink_metadata(folder).is_ok() {
            return Err(Error::new(
                ErrorKind::AlreadyExists,
                "the backup's folder exists already; name a new one",
            ));
        }
        let Some(name) = folder.file_name() else {
            return Err(Error::invalid("the backup's folder needs a name"));
        };
        let mut partial = name.to_owned();
        partial.push(format!(".partial-{}", new_folder(self.env())?));
        let partial = folder.with_file_name(partial);
        let copied = self.backup_to(&partial).and_then(|done| {
            fs::rename(&partial, folder).map_err(&failed)?;
            sync_dir(dir_of(folder)).map_err(&failed)?;
            Ok(done)
        });
        if copied.is_err() {
            // Nothing to add to what went wrong first; the name says what it is.
            let _ = fs::remove_dir_all(&partial);
        }
        copied
    }

    fn backup_to(&self, folder: &Path) -> Result<Vec<(String, Backup)>> {
        let failed = failed("the backup could not be written");
        make_dir(&folder.join(ACCOUNTS)).map_err(&failed)?;
        self.control().backup(folder)?;
        let mut done = Vec::new();
        let copied = Control::open(folder, &self.0.runtime)?;
        for account in copied.accounts()? {
            if account.state == AccountState::Active {
                let copy = folder.join(ACCOUNTS).join(&account.folder);
                done.extend(
                    self.backup_account(&account, &copied, &copy)?.map(|backup| (account.id, backup)),
                );
            }
        }
        drop(copied);
        sync_dir(&folder.join(ACCOUNTS)).and_then(|()| sync_dir(folder)).map_err(&failed)?;
        Ok(done)
    }

    /// Writes a copy of an account that was there when the control data was `copied`. One that has been
    /// deleted since is deleted in the copy, too.
    fn backup_account(&self, account: &Account, copied: &Control, copy: &Path) -> Result<Option<Backup>> {
        match self.tree(account).and_then(|tree| tree.backup(copy)) {
            Ok(backup) => Ok(Some(backup)),
            Err(_) if self.is_gone(account)? => {
                copied.mark_deleted(&account.id)?;
                if copy.exists() {
                    fs::remove_dir_all(copy).map_err(failed("the backup could not be written"))?;
                }
                copied.forget_deleted(account)?;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Whether an account that was there has been deleted since, or is being deleted.
    fn is_gone(&self, account: &Account) -> Result<bool> {
        match self.control().account(&account.id) {
            Ok(found) => Ok(found.folder != account.folder),
            Err(error) if error.is(ErrorKind::NotFound) => Ok(true),
            Err(error) => Err(error),
        }
    }

    fn finish_deletion(&self, account: &Account) -> Result<()> {
        self.0.trees.forget(&account.folder);
        let failed = failed("the account's files cannot be removed; delete it again");
        match fs::remove_dir_all(self.tree_folder(&account.folder)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            removed => removed.map_err(&failed)?,
        }
        sync_dir(&self.0.folder.join(ACCOUNTS)).map_err(&failed)?;
        self.control().forget_deleted(account)
    }

    fn tree_folder(&self, name: &str) -> PathBuf {
        self.0.folder.join(ACCOUNTS).join(name)
    }
}

fn account_gone() -> Error {
    Error::new(ErrorKind::NotFound, "the account is gone")
}

/// Refuses a database without a byte. An account's is made before the account is known, so that an empty one
/// is what a copy left that was cut short, and making it anew would hide the loss.
fn check_not_emptied(folder: &Path) -> Result<()> {
    let is_empty = || fs::metadata(folder.join(DATABASE)).is_ok_and(|file| file.len() == 0);
    if is_empty() {
        // Older data folders have accounts whose database another process may be making right now.
        let lock = WriterLock::new(folder);
        let _made = lock.acquire()?;
        if is_empty() {
            return Err(Error::new(
                ErrorKind::Corrupt,
                "the account's database is empty, as a copy that was cut short leaves it; restore a backup",
            ));
        }
    }
    Ok(())
}

impl fmt::Debug for DataDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataDir").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home() -> (tempfile::TempDir, DataDir) {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir::open(&folder.path().join("data"), Env::system()).unwrap();
        (folder, data)
    }

    #[test]
    fn an_account_that_is_deleted_between_look_up_and_opening_is_not_found() {
        let (_folder, data) = home();
        let account = data.create_account("a").unwrap();
        data.delete_account("a").unwrap();
        assert!(data.tree(&account).unwrap_err().is(ErrorKind::NotFound));
        data.create_account("a").unwrap();
        assert!(data.tree(&account).unwrap_err().is(ErrorKind::NotFound), "another account of that name");
    }

    #[test]
    fn an_account_that_is_deleted_during_a_backup_is_not_in_it() {
        let (folder, data) = home();
        let account = data.create_account("gone").unwrap();
        let copy = folder.path().join("copy");
        make_dir(&copy.join(ACCOUNTS)).unwrap();
        data.control().backup(&copy).unwrap();
        data.delete_account("gone").unwrap();
        let copied = Control::open(&copy, &data.0.runtime).unwrap();
        let place = copy.join(ACCOUNTS).join(&account.folder);
        assert_eq!(data.backup_account(&account, &copied, &place).unwrap(), None);
        assert!(copied.accounts().unwrap().is_empty() && !place.exists());
    }

    #[test]
    fn an_account_for_which_there_is_no_space_leaves_no_folder() {
        let (_folder, data) = home();
        data.control().fill();
        let mut made = 0;
        let error = loop {
            match data.create_account(&format!("account-{made}-{}", "x".repeat(100))) {
                Ok(_) => made += 1,
                Err(error) => break error,
            }
        };
        assert!(error.is(ErrorKind::NoSpace), "{error:?}");
        assert_eq!(fs::read_dir(data.folder().join(ACCOUNTS)).unwrap().count(), made);
    }

    #[cfg(feature = "faults")]
    #[test]
    fn an_account_whose_storage_failed_is_opened_anew_once_it_was_let_go() {
        use crate::fs::FileSystemExt as _;
        use futures::executor::block_on;
        let (_folder, data) = home();
        data.create_account("a").unwrap();
        let tree = data.account("a").unwrap();
        tree.runtime().failpoints().arm("before-commit", crate::runtime::failpoint::Failure::Sync, 0);
        assert!(block_on(tree.write("/f", "x")).unwrap_err().is(ErrorKind::Io));
        assert!(data.account("a").unwrap_err().is(ErrorKind::Poisoned), "somebody has it open");
        drop(tree);
        block_on(data.account("a").unwrap().write("/f", "x")).unwrap();
    }
}
