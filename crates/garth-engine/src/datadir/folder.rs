//! Files of a data folder, and its open trees. All calls block for the disk: [`DataDir`](crate::DataDir)
//! chooses the thread.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use std::{fs, io};

use futures::executor::block_on;

use super::control::database::ControlDb;
use crate::engine::sqlite::chunk_store::PACKS;
use crate::engine::sqlite::schema::DATABASE;
use crate::engine::sqlite::writer_lock::WriterLock;
use crate::engine::sqlite::{Backup, SqliteFs};
use crate::error::{Error, ErrorKind, Result};
use crate::home::open_trees::{OpenTrees, Turn};
use crate::home::{
    Account, AccountRequest, AccountState, Mark, StoredSize, account_gone, check_account_id, new_tree_name,
};
use crate::model::Timestamp;
use crate::rule::Registry;
use crate::runtime::Runtime;
use crate::runtime::disk::{dir_of, failed, is_short_of_descriptors, make_dir, sync_dir};
use crate::runtime::span;

/// Name of the folder of all trees in a data folder.
pub(super) const ACCOUNTS: &str = "accounts";

/// WAL of the database of an account, which every commit extends or rewrites.
const LOG: &str = "tree.db-wal";

/// Open data folder.
pub(super) struct Folder {
    pub(super) path: PathBuf,
    pub(super) runtime: Runtime,
    /// Rules and projections of every tree.
    registry: Registry,
    pub(super) control: Arc<ControlDb>,
    pub(super) trees: OpenTrees<SqliteFs>,
    /// Time before which the rounds do not try again to remove the files of deleted accounts.
    pub(super) next_removal: Mutex<Option<Instant>>,
}

impl Folder {
    pub(super) fn open(
        path: PathBuf,
        runtime: Runtime,
        registry: Registry,
        open_trees: usize,
    ) -> Result<Self> {
        let control = Arc::new(ControlDb::open(&path, &runtime)?);
        let trees = OpenTrees::new(open_trees, |tree: &SqliteFs| !tree.is_poisoned());
        Ok(Self { path, runtime, registry, control, trees, next_removal: Mutex::default() })
    }

    pub(super) fn create_account(&self, id: &str) -> Result<Account> {
        // First: a repeat should cost no tree, and work on a full disk. An account of an earlier garth may
        // have a name that a new one cannot have.
        self.control.check_free(id)?;
        self.create_tree(id, |folder| self.control.add_account(id, folder))
    }

    /// Creates an account unless it exists, or a repeat of the request did so.
    pub(super) fn create_account_once(&self, id: &str, request: &AccountRequest) -> Result<(Account, bool)> {
        // First, as above.
        if let Some(found) = self.control.existing_account(id, request)? {
            return Ok(found);
        }
        let mut is_first = false;
        let account = self.create_tree(id, |folder| {
            let (account, created) = self.control.add_account_once(id, folder, request)?;
            is_first = created;
            Ok(account)
        })?;
        Ok((account, is_first))
    }

    /// Creates a tree, and by `add`, which gets its name, the account that has it. `add` may return another
    /// account that has come in between.
    fn create_tree(&self, id: &str, add: impl FnOnce(&str) -> Result<Account>) -> Result<Account> {
        check_account_id(id)?;
        // Random, and not the id: a new account never finds the files of a deleted one.
        let name = new_tree_name(self.runtime.env())?;
        let folder = self.tree_folder(&name);
        make_dir(&folder).map_err(failed("the account's folder cannot be created"))?;
        let discard = || {
            self.trees.forget(&name);
            fs::remove_dir_all(&folder).map_err(failed("the account's folder cannot be removed"))
        };
        // The tree is created and synced before the account is recorded, so that no recorded account lacks a
        // tree.
        if let Err(error) = self.open_tree(id, &name, block_on(self.trees.turn(&name))) {
            discard()?;
            return Err(error);
        }
        let added = add(&name);
        let is_refused = added.as_ref().is_err_and(|error| !error.is(ErrorKind::Io));
        if is_refused || added.as_ref().is_ok_and(|account| account.folder != name) {
            // Certainly not recorded, so nothing refers to it; after `Io` it may have been. A folder that
            // cannot be removed is as harmless as after a crash.
            let _ = discard();
        }
        added
    }

    /// Opens the tree of an existing account in its turn.
    pub(super) fn tree(&self, account: &Account, turn: Turn<SqliteFs>) -> Result<Arc<SqliteFs>> {
        let whole = check_is_there(&self.tree_folder(&account.folder));
        match whole.and_then(|()| self.open_tree(&account.id, &account.folder, turn)) {
            // Its deletion may have come in between.
            Err(_) if self.is_gone(account)? => Err(account_gone()),
            other => other,
        }
    }

    fn open_tree(&self, id: &str, name: &str, mut turn: Turn<SqliteFs>) -> Result<Arc<SqliteFs>> {
        let (folder, _entered) = (self.tree_folder(name), span::account(id).entered());
        let runtime = self.runtime.of_account(id);
        let open_on = || SqliteFs::open_on(&folder, &runtime, self.registry.clone())?.without_system();
        let mut open = || self.trees.get(name, &mut turn, open_on);
        match open() {
            // Out of file descriptors: close unused trees and try again.
            Err(error) if error.is(ErrorKind::Unavailable) && is_short_of_descriptors() => {
                self.trees.evict_all();
                open()
            }
            other => other,
        }
    }

    pub(super) fn backup(&self, folder: &Path) -> Result<Vec<(String, Result<Backup>)>> {
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
        partial.push(format!(".partial-{}", new_tree_name(self.runtime.env())?));
        let partial = folder.with_file_name(partial);
        // The name comes last: a folder of that name is a complete backup.
        let copied = self.backup_to(&partial).and_then(|done| {
            fs::rename(&partial, folder).map_err(&failed)?;
            sync_dir(dir_of(folder)).map_err(&failed)?;
            Ok(done)
        });
        if copied.is_err() {
            // The first error is the cause; the name of the folder marks what remains.
            let _ = fs::remove_dir_all(&partial);
        }
        copied
    }

    fn backup_to(&self, folder: &Path) -> Result<Vec<(String, Result<Backup>)>> {
        let failed = failed("the backup could not be written");
        make_dir(&folder.join(ACCOUNTS)).map_err(&failed)?;
        self.control.backup(folder)?;
        let mut done = Vec::new();
        // The accounts of the copied control data, not of the current one: the copy must not name an account
        // that it lacks.
        let copied = ControlDb::open(folder, &self.runtime)?;
        for account in copied.accounts()? {
            if account.state == AccountState::Active {
                let copy = folder.join(ACCOUNTS).join(&account.folder);
                let backup = self.backup_account(&account, &copied, &copy)?;
                done.extend(backup.map(|backup| (account.id, backup)));
            }
        }
        // A copy of no tree is no backup.
        if let Some((id, Err(error))) = done.first()
            && done.iter().all(|(_, backup)| backup.is_err())
        {
            return Err(error.clone().prefixed(&format!("account {id}")));
        }
        drop(copied);
        sync_dir(&folder.join(ACCOUNTS)).and_then(|()| sync_dir(folder)).map_err(&failed)?;
        Ok(done)
    }

    /// Writes a copy of an account that existed when the control data was `copied`. If it has been deleted in
    /// the meantime, it is deleted in the copy, too. Of a damaged account, returns the error in its place: it
    /// must not prevent the backup of the others.
    fn backup_account(
        &self,
        account: &Account,
        copied: &ControlDb,
        copy: &Path,
    ) -> Result<Option<Result<Backup>>> {
        use ErrorKind::{Corrupt, Format, Poisoned};
        let turn = block_on(self.trees.turn(&account.folder));
        match self.tree(account, turn).and_then(|tree| tree.backup(copy)) {
            Ok(backup) => Ok(Some(Ok(backup))),
            Err(_) if self.is_gone(account)? => {
                // Deleted during the copy: the backup omits it, as if it had begun later.
                copied.mark_deleted(&account.id)?;
                if copy.exists() {
                    fs::remove_dir_all(copy).map_err(failed("the backup could not be written"))?;
                }
                copied.forget_deleted(account)?;
                Ok(None)
            }
            Err(error) if matches!(error.kind(), Corrupt | Format | Poisoned) => {
                if copy.exists() {
                    fs::remove_dir_all(copy).map_err(failed("the backup could not be written"))?;
                }
                Ok(Some(Err(error)))
            }
            // Mostly the disk of the copy, on which the other ones would fail as well.
            Err(error) => Err(error.prefixed(&format!("account {}", account.id))),
        }
    }

    /// Returns true if an account that existed has been deleted, or is being deleted.
    fn is_gone(&self, account: &Account) -> Result<bool> {
        match self.control.account(&account.id) {
            // Another account of the same id may have been created since.
            Ok(found) => Ok(found.folder != account.folder),
            Err(error) if error.is(ErrorKind::NotFound) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Returns the mark of an account: of the lengths and modification times of its database files. An empty
    /// log counts as missing, because opening the account creates one.
    pub(super) fn mark(&self, account: &Account) -> Mark {
        let folder = self.tree_folder(&account.folder);
        let of = |name: &str| {
            let file = fs::metadata(folder.join(name)).ok().filter(|file| file.len() > 0)?;
            Some((file.len(), file.mtime(), file.mtime_nsec()))
        };
        mark_of([of(DATABASE), of(LOG)])
    }

    /// Returns the lengths of the database files of an account, and the number of its pack files.
    pub(super) fn size(&self, account: &Account) -> StoredSize {
        let folder = self.tree_folder(&account.folder);
        // The log may be missing.
        let length = |name: &str| fs::metadata(folder.join(name)).map_or(0, |file| file.len());
        let packs = fs::read_dir(folder.join(PACKS)).into_iter().flatten();
        let packs = packs.take(StoredSize::MAX_PACKS + 1).count();
        StoredSize {
            bytes: length(DATABASE) + length(LOG),
            packs: packs.min(StoredSize::MAX_PACKS),
            more_packs: packs > StoredSize::MAX_PACKS,
        }
    }

    pub(super) fn tree_folder(&self, name: &str) -> PathBuf {
        self.path.join(ACCOUNTS).join(name)
    }
}

/// Returns the mark of files, each given by its length, and the seconds and nanoseconds of its modification.
fn mark_of(files: [Option<(u64, i64, i64)>; 2]) -> Mark {
    let mut state = blake3::Hasher::new();
    for file in files {
        // A missing file counts as empty, which no file here is.
        let (length, seconds, nanos) = file.unwrap_or_default();
        state.update(&length.to_le_bytes());
        state.update(&seconds.to_le_bytes()).update(&nanos.to_le_bytes());
    }
    let mut value = [0; 16];
    state.finalize_xof().fill(&mut value);
    let changed = files.into_iter().flatten();
    let changed =
        changed.map(|(_, seconds, nanos)| seconds.saturating_mul(1_000_000_000).saturating_add(nanos));
    Mark::new(u128::from_le_bytes(value), changed.max().map(Timestamp))
}

/// Rejects a database that is missing or empty. It is created before the account is recorded, so it was lost
/// or a copy was cut short; a new one would hide the loss.
fn check_is_there(folder: &Path) -> Result<()> {
    let is_lost = || match fs::metadata(folder.join(DATABASE)) {
        Ok(file) => file.len() == 0,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    };
    if is_lost() {
        // Older data folders have accounts whose database another process may be creating right now.
        let lock = folder.exists().then(|| WriterLock::new(folder));
        let _made = lock.as_ref().map(WriterLock::acquire).transpose()?;
        if is_lost() {
            return Err(Error::new(
                ErrorKind::Corrupt,
                "the account's database is missing or empty, as a copy that was cut short leaves it; restore \
                 a backup",
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datadir::DataDir;
    use crate::env::Env;

    fn home() -> (tempfile::TempDir, Arc<Folder>) {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir::open(&folder.path().join("data"), Env::system(), crate::rule::sample::registry())
            .unwrap();
        (folder, data.folder)
    }

    fn delete(data: &Arc<Folder>, id: &str) {
        block_on(data.begin_deletion(id).unwrap().ended()).unwrap();
    }

    fn tree(data: &Folder, account: &Account) -> Result<Arc<SqliteFs>> {
        data.tree(account, block_on(data.trees.turn(&account.folder)))
    }

    #[test]
    fn account_deleted_before_opening_is_not_found() {
        let (_folder, data) = home();
        let account = data.create_account("a").unwrap();
        delete(&data, "a");
        assert!(tree(&data, &account).unwrap_err().is(ErrorKind::NotFound));
        data.create_account("a").unwrap();
        assert!(tree(&data, &account).unwrap_err().is(ErrorKind::NotFound), "another account of that name");
    }

    #[test]
    fn backup_omits_account_deleted_during_it() {
        let (folder, data) = home();
        let account = data.create_account("gone").unwrap();
        let copy = folder.path().join("copy");
        make_dir(&copy.join(ACCOUNTS)).unwrap();
        data.control.backup(&copy).unwrap();
        delete(&data, "gone");
        let copied = ControlDb::open(&copy, &data.runtime).unwrap();
        let place = copy.join(ACCOUNTS).join(&account.folder);
        assert!(data.backup_account(&account, &copied, &place).unwrap().is_none());
        assert!(copied.accounts().unwrap().is_empty() && !place.exists());
    }

    #[test]
    fn failed_account_creation_leaves_no_folder() {
        let (_folder, data) = home();
        data.control.fill();
        let mut made = 0;
        let error = loop {
            match data.create_account(&format!("account-{made}-{}", "x".repeat(100))) {
                Ok(_) => made += 1,
                Err(error) => break error,
            }
        };
        assert!(error.is(ErrorKind::NoSpace), "{error:?}");
        assert_eq!(fs::read_dir(data.path.join(ACCOUNTS)).unwrap().count(), made);
    }

    #[cfg(debug_assertions)]
    #[test]
    fn failed_account_reopens_once_released() {
        use crate::fs::FileSystemExt as _;
        let (_folder, data) = home();
        let account = data.create_account("a").unwrap();
        data.runtime.failpoints().arm("before-commit", crate::runtime::failpoint::Failure::Sync, 0);
        let held = tree(&data, &account).unwrap();
        assert!(block_on(held.write("/f", "x")).unwrap_err().is(ErrorKind::Io));
        assert!(tree(&data, &account).unwrap_err().is(ErrorKind::Poisoned), "somebody has it open");
        drop(held);
        block_on(tree(&data, &account).unwrap().write("/f", "x")).unwrap();
    }
}
