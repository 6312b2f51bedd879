//! Deletions of accounts, in steps that any process can continue:
//!
//! 1. The row is marked. From then on no process opens the account or accepts its keys.
//! 2. The folder is renamed. A process that still has the tree open creates no more files in it.
//! 3. The files are removed, on a thread of its own: there may be very many.
//! 4. The row is deleted, which frees the name.
//!
//! The process that deletes does all of it. If it stops, or files cannot be removed, the rounds of all
//! processes continue. They also close the trees of accounts that another process deletes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use futures::channel::oneshot;

use super::folder::{ACCOUNTS, Folder};
use crate::error::{Error, ErrorKind, Result};
use crate::home::{Account, AccountRequest, not_removed};
use crate::runtime::disk::{failed, sync_dir};
use crate::runtime::span;
use crate::runtime::ticker::Tick;
use crate::threads::lock::lock;

/// End of the name of the folder of a deleted account, so that nobody opens it.
const DELETED: &str = ".deleted";

/// Pause between two tries of the rounds of this process to remove files that could not be removed.
const PAUSE: Duration = Duration::from_secs(60);

/// Deletion that has begun.
pub(super) struct Deletion {
    /// True if this call has begun it.
    pub(super) is_own: bool,
    removal: oneshot::Receiver<Result<()>>,
}

impl Deletion {
    /// Waits until the account is deleted completely.
    pub(super) async fn ended(self) -> Result<()> {
        let lost = |_| Err(not_removed(Error::new(ErrorKind::Unavailable, "the system provides no thread")));
        self.removal.await.unwrap_or_else(lost)
    }
}

impl Folder {
    /// Begins the deletion of an account, or continues one that has begun.
    pub(super) fn begin_deletion(self: &Arc<Self>, id: &str) -> Result<Deletion> {
        if let Some(begun) = self.continue_deletion(id)? {
            return Ok(begun);
        }
        // Of two calls at once, one marks it.
        let (account, is_own) = self.control.in_reserve(|| self.control.mark_deleted(id))?;
        Ok(Deletion { is_own, ..self.remove_later(account) })
    }

    /// Begins the deletion of an account by a request, unless a repeat of it did so. Returns the deletion to
    /// wait for, if there is one, and true if the request has begun it.
    pub(super) fn begin_deletion_once(
        self: &Arc<Self>,
        id: &str,
        request: &AccountRequest,
    ) -> Result<(Option<Deletion>, bool)> {
        let mark = || self.control.mark_deleted_once(id, request);
        let (account, is_own) = self.control.in_reserve(mark)?;
        Ok((account.map(|account| self.remove_later(account)), is_own))
    }

    /// Continues the deletion of an account. Returns `None` if no account of this id is being deleted.
    pub(super) fn continue_deletion(self: &Arc<Self>, id: &str) -> Result<Option<Deletion>> {
        Ok(self.control.being_deleted(id)?.map(|account| self.remove_later(account)))
    }

    /// Closes the trees of accounts that other processes delete, and continues deletions that have not ended,
    /// in the background. Makes the space again that deletions have needed on a full disk.
    pub(super) fn continue_deletions(self: &Arc<Self>) -> Result<()> {
        for name in self.trees.names() {
            // A folder that is lost is another matter: the account still has its row.
            if is_missing(&self.tree_folder(&name)) && !self.control.is_in_use(&name)? {
                self.close_deleted(&name);
            }
        }
        self.control.restore_reserve();
        let deleted = self.control.deleted_accounts()?;
        // Also those that could not be renamed.
        deleted.iter().for_each(|account| self.close_deleted(&account.folder));
        if deleted.is_empty() || !self.is_time_to_remove() {
            return Ok(());
        }
        // Weak: the end of the process does not wait for removals that any process can continue.
        let folder = Arc::downgrade(self);
        self.runtime.deleter().run_later(move || {
            if let Some(folder) = folder.upgrade() {
                folder.remove_deleted();
            }
        });
        Ok(())
    }

    /// Returns true once in each pause, and at once after all deletions have ended.
    fn is_time_to_remove(&self) -> bool {
        let now = self.runtime.env().instant();
        let mut next = lock(&self.next_removal);
        if next.is_some_and(|next| now < next) {
            return false;
        }
        *next = Some(now + PAUSE);
        true
    }

    /// Removes what is left of deleted accounts.
    fn remove_deleted(&self) {
        let deleted = match self.control.deleted_accounts() {
            Ok(deleted) => deleted,
            Err(error) => return tracing::warn!(%error, "the deleted accounts cannot be listed"),
        };
        let mut all_ended = true;
        for account in &deleted {
            self.set_aside(account);
            // The failure is logged.
            all_ended &= self.finish_deletion(account).is_ok();
        }
        if all_ended {
            *lock(&self.next_removal) = None;
        }
    }

    /// Renames the folder of an account that is marked, and queues its removal.
    fn remove_later(self: &Arc<Self>, account: Account) -> Deletion {
        // Here, not on the thread of the removals, which may be busy: the tree is out of use at once.
        self.set_aside(&account);
        let (answer, removal) = oneshot::channel();
        let folder = Arc::clone(self);
        // A failed send means that nobody waits for the end.
        self.runtime.deleter().run_later(move || drop(answer.send(folder.finish_deletion(&account))));
        Deletion { is_own: false, removal }
    }

    /// Ends the use of the tree of a deleted account in this process.
    fn close_deleted(&self, name: &str) {
        if let Some(tree) = self.trees.take(name) {
            tree.abandon();
        }
    }

    /// Closes the tree of a deleted account, and renames its folder. Idempotent.
    fn set_aside(&self, account: &Account) {
        self.close_deleted(&account.folder);
        match fs::rename(self.tree_folder(&account.folder), self.folder_aside(account)) {
            // An earlier call has renamed it, in this process or another one.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            // It is removed in its place.
            Err(error) => span::account(&account.id)
                .in_scope(|| tracing::warn!(%error, "the folder of a deleted account cannot be renamed")),
            Ok(()) => {}
        }
    }

    /// Removes the files of a deleted account, then its rows.
    fn finish_deletion(&self, account: &Account) -> Result<()> {
        let failed = failed("the account's files cannot be removed");
        let remove = |folder: &Path| match fs::remove_dir_all(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        };
        let removed = remove(&self.folder_aside(account))
            .and_then(|()| remove(&self.tree_folder(&account.folder)))
            // Durable before the rows are deleted: otherwise a crash could bring back the folder, to which
            // nothing refers.
            .and_then(|()| sync_dir(&self.path.join(ACCOUNTS)))
            .map_err(failed)
            .and_then(|()| self.control.in_reserve(|| self.control.forget_deleted(account)));
        removed.map_err(|error| {
            let cause = std::error::Error::source(&error);
            span::account(&account.id)
                .in_scope(|| tracing::warn!(%error, ?cause, "the deletion of an account has not ended"));
            not_removed(error)
        })
    }

    fn folder_aside(&self, account: &Account) -> PathBuf {
        self.tree_folder(&format!("{}{DELETED}", account.folder))
    }
}

/// Continues deletions in a process that does not ask for it, such as a program that uses the library.
impl Tick for Folder {
    fn tick(self: Arc<Self>) -> bool {
        let folder = Arc::clone(&self);
        self.runtime.blocking().run_later(move || {
            if let Err(error) = folder.continue_deletions() {
                tracing::warn!(%error, "deletions of accounts cannot be continued");
            }
        });
        true
    }
}

/// Returns true if there is no file or folder of this path. Any other failure proves nothing.
fn is_missing(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use futures::executor::block_on;
    use futures::future::{FutureExt as _, join_all};
    use tempfile::TempDir;

    use super::*;
    use crate::datadir::DataDir;
    use crate::env::Env;
    use crate::fs::FileSystemExt as _;
    use crate::home::{AccountState, Home, KeyOwner, KeysPage, Scope, is_being_deleted};
    use crate::model::{At, Ino};
    use crate::path::TreePath;

    /// Opens a data folder as another process would.
    fn open(folder: &TempDir) -> DataDir {
        DataDir::open(&folder.path().join("data"), Env::system(), crate::rule::sample::registry()).unwrap()
    }

    fn home() -> (TempDir, DataDir) {
        let folder = tempfile::tempdir().unwrap();
        let data = open(&folder);
        (folder, data)
    }

    fn folders(data: &DataDir) -> usize {
        fs::read_dir(data.folder.path.join(ACCOUNTS)).unwrap().count()
    }

    /// Waits for something that happens in the background.
    fn wait_until(is_so: impl Fn() -> bool) {
        let waits = std::iter::repeat_with(|| Env::system().sleep(Duration::from_millis(10)));
        assert!(waits.take(2000).any(|()| is_so()), "it does not happen");
    }

    #[test]
    fn account_with_undeletable_files_is_being_deleted() {
        let (_folder, data) = home();
        let account = block_on(data.create_account("a")).unwrap();
        let (_, secret) = block_on(data.control().create_key("a", "", &[Scope::Admin])).unwrap();
        // A folder cannot take the name of a file, and a file is not removed as a folder.
        let aside = data.folder.folder_aside(&account);
        fs::write(&aside, "").unwrap();
        for _ in 0..2 {
            let error = block_on(data.delete_account("a")).unwrap_err();
            assert!(is_being_deleted(&error) && error.is(ErrorKind::Io), "{error:?}");
            assert!(error.message().contains("is being deleted"), "{error}");
        }
        assert!(block_on(data.admit(secret.reveal())).unwrap().is_none());
        for missing in [
            block_on(Home::account(&data, "a")).unwrap_err(),
            block_on(data.account("a")).unwrap_err(),
            block_on(data.count_keys(&KeyOwner::named("a"))).unwrap_err(),
        ] {
            assert!(missing.is(ErrorKind::NotFound) && is_being_deleted(&missing), "{missing}");
        }
        let taken = block_on(data.create_account("a")).unwrap_err();
        assert!(
            taken.is(ErrorKind::AlreadyExists) && taken.message().contains("is being deleted"),
            "{taken}"
        );
        assert!(block_on(data.finish_deletion("a")).is_err_and(|error| is_being_deleted(&error)));
        fs::remove_file(&aside).unwrap();
        assert!(block_on(data.finish_deletion("a")).unwrap());
        assert!(!block_on(data.finish_deletion("a")).unwrap(), "there is none");
        assert_eq!(folders(&data), 0);
        assert!(block_on(data.delete_account("a")).is_err_and(|error| !is_being_deleted(&error)));
        block_on(data.create_account("a")).unwrap();
    }

    #[test]
    fn removal_of_files_holds_up_no_other_call() {
        let (_folder, data) = home();
        let names: Vec<String> = (0..8).map(|n| format!("account-{n}")).collect();
        let made = names.iter().map(|name| block_on(data.create_account(name)).unwrap());
        let made: Vec<Account> = made.collect();
        block_on(data.create_account("kept")).unwrap();
        let (go_on, told) = mpsc::channel::<()>();
        data.folder.runtime.deleter().run_later(move || {
            told.recv().ok();
        });
        let mut deleting = join_all(names.iter().map(|name| data.delete_account(name))).boxed();
        assert!((&mut deleting).now_or_never().is_none());
        wait_until(|| made.iter().all(|account| data.folder.folder_aside(account).exists()));
        block_on(data.control().keys(Some("kept"), &KeysPage::default())).unwrap();
        block_on(data.create_account("new")).unwrap();
        let listed = block_on(data.control().accounts()).unwrap();
        let deleted = listed.iter().filter(|account| account.state == AccountState::Deleted);
        assert_eq!(deleted.count(), names.len(), "no file is removed yet");
        assert!((&mut deleting).now_or_never().is_none());
        drop(go_on);
        block_on(deleting).into_iter().for_each(Result::unwrap);
        assert_eq!(folders(&data), 2);
    }

    #[test]
    fn writes_to_deleted_account_create_no_files() {
        for has_written in [false, true] {
            let (folder, data) = home();
            block_on(data.create_account("a")).unwrap();
            let other = open(&folder);
            let tree = block_on(other.account("a")).unwrap();
            if has_written {
                block_on(tree.write("/note", "text")).unwrap();
            }
            let mut upload = block_on(tree.stage(&At::Node(Ino::ROOT))).unwrap();
            block_on(upload.write(vec![7; 1000].into())).unwrap();
            block_on(data.delete_account("a")).unwrap();
            let error = block_on(upload.write(vec![7; 3 << 20].into())).unwrap_err();
            assert!(error.is(ErrorKind::NotFound), "{error:?}");
            drop(upload);
            assert_eq!(folders(&data), 0);
        }
    }

    #[test]
    fn trees_of_deleted_account_end_in_every_process() {
        let (folder, data) = home();
        block_on(data.create_account("a")).unwrap();
        let other = open(&folder);
        let [own, theirs] = [&data, &other].map(|data| block_on(data.account("a")).unwrap());
        block_on(own.write("/note", "text")).unwrap();
        let note = At::from(TreePath::parse("/note").unwrap());
        let files = [&own, &theirs].map(|tree| block_on(tree.open(&note)).unwrap());
        let head = block_on(theirs.head()).unwrap();
        let mut waiting = theirs.wait(head.seq).boxed();
        assert!((&mut waiting).now_or_never().is_none());
        block_on(data.delete_account("a")).unwrap();
        block_on(other.continue_deletions()).unwrap();
        assert!(block_on(waiting).unwrap_err().is(ErrorKind::NotFound));
        for (tree, file) in [&own, &theirs].into_iter().zip(&files) {
            for error in [
                block_on(tree.read_to_string("/note")).unwrap_err(),
                block_on(tree.write("/note", "more")).unwrap_err(),
                block_on(tree.sync()).unwrap_err(),
                block_on(file.read_at(0, 1)).unwrap_err(),
            ] {
                assert!(error.is(ErrorKind::NotFound), "{error:?}");
            }
        }
        // Nobody keeps a file of it open, so that the disk has its space back.
        let accounts = folder.path().join("data").join(ACCOUNTS);
        let is_open = |fd: io::Result<fs::DirEntry>| {
            fd.and_then(|fd| fs::read_link(fd.path())).is_ok_and(|file| file.starts_with(&accounts))
        };
        wait_until(|| !fs::read_dir("/proc/self/fd").unwrap().any(is_open));
    }

    #[test]
    fn lost_folder_is_not_taken_for_a_deletion() {
        let (folder, data) = home();
        block_on(data.create_account("a")).unwrap();
        let tree = block_on(data.account("a")).unwrap();
        block_on(tree.write("/note", "text")).unwrap();
        // As when the disk with the accounts is not mounted.
        let accounts = data.folder.path.join(ACCOUNTS);
        fs::rename(&accounts, folder.path().join("elsewhere")).unwrap();
        block_on(data.continue_deletions()).unwrap();
        data.folder.runtime.conns().shrink(0);
        let error = block_on(tree.read_to_string("/note")).unwrap_err();
        assert!(error.is(ErrorKind::Unavailable), "{error:?}");
        fs::rename(folder.path().join("elsewhere"), &accounts).unwrap();
        assert_eq!(block_on(tree.read_to_string("/note")).unwrap(), "text");
    }

    #[cfg(debug_assertions)]
    #[test]
    fn timer_continues_deletions() {
        let (folder, data) = home();
        let left = block_on(data.create_account("left")).unwrap();
        block_on(data.create_account("elsewhere")).unwrap();
        let other = open(&folder);
        let tree = block_on(other.account("elsewhere")).unwrap();
        block_on(data.delete_account("elsewhere")).unwrap();
        // As a crash leaves it.
        data.folder.control.mark_deleted("left").unwrap();
        assert!(data.folder.tree_folder(&left.folder).exists());
        drop(data);
        other.folder.runtime.tick();
        wait_until(|| block_on(tree.head()).is_err_and(|error| error.is(ErrorKind::NotFound)));
        wait_until(|| block_on(other.control().accounts()).unwrap().is_empty());
        assert_eq!(folders(&other), 0);
    }
}
