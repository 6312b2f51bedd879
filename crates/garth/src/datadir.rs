//! The data folder of a garth: the control data and one folder an account, and the trees that are open.
//!
//! ```text
//! control.db             accounts and keys (crate::datadir)
//! accounts/<random>/     one account's tree; only its engine looks inside
//! ```

mod control;
mod key;
mod open_trees;

use std::fmt;
use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::control::new_folder;
use self::open_trees::OpenTrees;
use crate::engine::sqlite::Backup;
use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::path::check_id;

pub use self::control::{Account, AccountState, Control};
pub use self::key::{ApiKey, MAX_KEY_LABEL, Scope, Secret};

/// The engine behind every account.
pub type Tree = crate::engine::sqlite::SqliteFs;

/// Trees kept open though nobody uses them just now.
const OPEN_TREES: usize = 1000;

/// A data folder, opened. Clones are the same one.
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
    env: Env,
    control: Control,
    trees: OpenTrees<Tree>,
}

impl DataDir {
    /// Opens a data folder; what is missing is made (folders with mode 0700). Deletions of accounts that a crash
    /// interrupted are finished.
    ///
    /// # Errors
    /// `Io` if the folder cannot be made or read; those of [`Control::open`].
    pub fn open(folder: &Path, env: Env) -> Result<Self> {
        make_folder(folder)?;
        let folder = folder.canonicalize().map_err(cannot_open)?;
        let control = Control::open(&folder, env.clone())?;
        make_folder(&folder.join("accounts"))?;
        sync_folder(&folder)?;
        let home = Self(Arc::new(Inner { folder, env, control, trees: OpenTrees::new(OPEN_TREES) }));
        for account in home.control().accounts()? {
            if account.state == AccountState::Deleted {
                home.finish_deletion(&account)?;
            }
        }
        Ok(home)
    }

    /// The control data.
    pub fn control(&self) -> &Control {
        &self.0.control
    }

    /// Clock and randomness that it was opened with.
    pub fn env(&self) -> &Env {
        &self.0.env
    }

    /// The data folder, as an absolute path without links.
    pub fn folder(&self) -> &Path {
        &self.0.folder
    }

    /// Makes an account with an empty tree. Its folder is durable before the account is known; a crash in between
    /// leaves a folder that nothing refers to.
    ///
    /// # Errors
    /// `InvalidArgument` for a bad id; `AlreadyExists`, also while an account of that id is being deleted.
    pub fn create_account(&self, id: &str) -> Result<Account> {
        check_id("account", id)?;
        let name = new_folder(self.env())?;
        let folder = self.tree_folder(&name);
        make_folder(&folder)?;
        let added = self.control().add_account(id, &name);
        if matches!(&added, Err(error) if error.is(ErrorKind::AlreadyExists)) {
            fs::remove_dir(&folder).map_err(cannot_open)?;
        }
        added
    }

    /// The tree of an account. In one process, calls for one account give the same instance as long as anybody
    /// holds it.
    ///
    /// # Errors
    /// `NotFound` without such an account, also once its deletion has begun, in whichever process; those of the engine.
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

    /// The tree that a key opens; it has no way to name another. A deletion that began since it was admitted may come after.
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
            return Err(Error::new(ErrorKind::NotFound, "the account of this key is gone"));
        }
        self.tree(&account)
    }

    fn tree(&self, account: &Account) -> Result<Arc<Tree>> {
        // By folder, not by id: an account that is made anew under an old id is another tree.
        self.0
            .trees
            .get(&account.folder, || Tree::open(&self.tree_folder(&account.folder), self.env().clone()))
    }

    /// Deletes an account, its keys and its tree. From the first step on nobody gets at it, and a crash in between is
    /// made up for when the folder is next opened.
    ///
    /// # Errors
    /// `NotFound` without such an account.
    pub fn delete_account(&self, id: &str) -> Result<()> {
        let account = self.control().mark_deleted(id)?;
        self.finish_deletion(&account)
    }

    /// Writes a copy of everything into `folder`, which must not exist: control data, and each account as it is at one moment of
    /// its own. The copy is a data folder. Commits go on meanwhile. Gives each account's name with what was written.
    ///
    /// # Errors
    /// `AlreadyExists` if the folder is there; from the storage.
    pub fn backup(&self, folder: &Path) -> Result<Vec<(String, Backup)>> {
        let failed = |e| Error::new(ErrorKind::Io, "cannot write the backup").with_source(e);
        if folder.try_exists().map_err(failed)? {
            return Err(Error::new(
                ErrorKind::AlreadyExists,
                "the backup's folder exists already; name a new one",
            ));
        }
        make_folder(folder)?;
        make_folder(&folder.join("accounts"))?;
        self.control().backup(folder)?;
        let mut done = Vec::new();
        for account in Control::open(folder, self.env().clone())?.accounts()? {
            if account.state == AccountState::Active {
                let copy = folder.join("accounts").join(&account.folder);
                done.push((account.id.clone(), self.tree(&account)?.backup(&copy)?));
            }
        }
        sync_folder(&folder.join("accounts"))?;
        sync_folder(folder)?;
        Ok(done)
    }

    fn finish_deletion(&self, account: &Account) -> Result<()> {
        self.0.trees.forget(&account.folder);
        let removed = fs::remove_dir_all(self.tree_folder(&account.folder));
        if let Err(e) = removed
            && e.kind() != std::io::ErrorKind::NotFound
        {
            return Err(Error::new(ErrorKind::Io, "cannot remove the account's files; delete it again")
                .with_source(e));
        }
        sync_folder(&self.0.folder.join("accounts"))?;
        self.control().forget_deleted(account)
    }

    fn tree_folder(&self, name: &str) -> PathBuf {
        self.0.folder.join("accounts").join(name)
    }
}

impl fmt::Debug for DataDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataDir").finish_non_exhaustive()
    }
}

/// Makes a folder and those above it if they are missing, each durably.
fn make_folder(folder: &Path) -> Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let above = match folder.parent() {
        Some(above) if !above.as_os_str().is_empty() => above,
        _ => Path::new("."),
    };
    make_folder(above)?;
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists || !folder.is_dir() => Err(cannot_open(e)),
        _ => sync_folder(above),
    }
}

/// Makes the names in a folder survive loss of power.
fn sync_folder(folder: &Path) -> Result<()> {
    File::open(folder).and_then(|opened| opened.sync_all()).map_err(cannot_open)
}

fn cannot_open(error: std::io::Error) -> Error {
    let kind = match error.kind() {
        std::io::ErrorKind::StorageFull => ErrorKind::NoSpace,
        std::io::ErrorKind::PermissionDenied => ErrorKind::AccessDenied,
        std::io::ErrorKind::ReadOnlyFilesystem => ErrorKind::ReadOnly,
        _ => ErrorKind::Io,
    };
    Error::new(kind, "cannot open the data folder").with_source(error)
}
