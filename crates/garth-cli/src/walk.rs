//! Paged walks of directories and subtrees, so that no verb holds a large one in memory.

use std::collections::VecDeque;
use std::sync::Arc;

use garth_engine::error::OptionalExt as _;
use garth_engine::fs::resolve::Follow;
use garth_engine::model::{At, Entry, Kind, Page, WalkPage};
use garth_engine::{Error, FileSystem, Name, Result, TreePath};

use crate::app::{App, stat_path};
use crate::fail::{self, Failures};

/// Items of one page: enough that paging costs little.
const PAGE: usize = 1000;

/// Walk of a path and everything below it, in the order of `walk`.
pub(crate) struct Walker {
    fs: Arc<dyn FileSystem>,
    top: TreePath,
    ready: VecDeque<(TreePath, Entry)>,
    after: Option<TreePath>,
    more: bool,
}

impl Walker {
    /// Starts at a path as the user wrote it. With `itself`, the path is the first item.
    pub(crate) async fn new(
        fs: Arc<dyn FileSystem>,
        path: &str,
        follow: Follow,
        itself: bool,
    ) -> Result<Self> {
        let (top, entry) = stat_path(&*fs, path, follow).await?;
        let more = entry.kind == Kind::Directory;
        let ready = if itself { VecDeque::from([(top.clone(), entry)]) } else { VecDeque::new() };
        Ok(Self { fs, top, ready, after: None, more })
    }

    /// Returns the next path.
    pub(crate) async fn next(&mut self) -> Result<Option<(TreePath, Entry)>> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Ok(Some(item));
            }
            if !self.more {
                return Ok(None);
            }
            let page = WalkPage::default().after(self.after.take()).limit(PAGE).with_entries();
            let walk = self.fs.walk(&At::from(&self.top), &page).await?;
            self.more = walk.more;
            self.after = walk.items.last().map(|item| item.path.clone());
            self.ready.extend(walk.items.into_iter().filter_map(|item| Some((item.path, *item.entry?))));
        }
    }
}

/// Paged listing of one directory.
pub(crate) struct Lister {
    dir: TreePath,
    /// Top of the walk; `None` if this is the top.
    top: Option<TreePath>,
    after: Option<Name>,
    more: bool,
}

impl Lister {
    pub(crate) fn new(dir: &TreePath) -> Self {
        Self { dir: dir.clone(), top: None, after: None, more: true }
    }

    /// Lists a directory that a walk from `top` has found. It has no names if it was removed since then, as
    /// an account can be in the tree of all accounts.
    pub(crate) fn below(top: &TreePath, dir: &TreePath) -> Self {
        Self { top: Some(top.clone()), ..Self::new(dir) }
    }

    /// Returns the next page of paths and entries; it is empty only at the end.
    pub(crate) async fn page(&mut self, fs: &dyn FileSystem) -> Result<Vec<(TreePath, Entry)>> {
        if !self.more {
            return Ok(Vec::new());
        }
        let page = Page::default().after(self.after.take()).limit(PAGE).with_entries();
        let listing = match fs.list(&At::from(&self.dir), &page).await {
            Ok(listing) => listing,
            Err(error) => {
                self.end_if_removed(fs, error).await?;
                return Ok(Vec::new());
            }
        };
        self.more = listing.more;
        self.after = listing.items.last().map(|item| item.name.clone());
        let items = listing.items.into_iter().filter_map(|item| Some((item.name, *item.entry?)));
        items.map(|(name, entry)| Ok((self.dir.join(&name)?, entry))).collect()
    }

    /// Ends the list of a directory that was removed during the walk. Fails with any other error.
    async fn end_if_removed(&mut self, fs: &dyn FileSystem, error: Error) -> Result<()> {
        let Some(top) = self.top.as_ref().filter(|_| error.is_absent()) else { return Err(error) };
        // If the top is gone as well, the walk has failed.
        if fs.stat(&At::from(top)).await.optional()?.is_none() {
            return Err(error);
        }
        self.more = false;
        Ok(())
    }
}

/// Depth-first walk of a directory, each directory before its contents. Archives need this order: an unpacker
/// sets the time of a directory after its contents are complete.
pub(crate) struct DepthFirst {
    fs: Arc<dyn FileSystem>,
    top: TreePath,
    /// Directories on the way down, each with the rest of its page.
    open: Vec<(Lister, VecDeque<(TreePath, Entry)>)>,
    depth: usize,
    /// Error of a look ahead, for the next call.
    failed: Option<Error>,
}

impl DepthFirst {
    pub(crate) fn new(fs: Arc<dyn FileSystem>, top: &TreePath) -> Self {
        let open = vec![(Lister::new(top), VecDeque::new())];
        Self { fs, top: top.clone(), open, depth: 0, failed: None }
    }

    /// Returns the next path. After an error, the walk goes on after the directory that could not be listed.
    pub(crate) async fn next(&mut self) -> Result<Option<(TreePath, Entry)>> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        while let Some((lister, ready)) = self.open.last_mut() {
            if let Some((path, entry)) = ready.pop_front() {
                self.depth = self.open.len();
                if entry.kind == Kind::Directory {
                    self.open.push((Lister::below(&self.top, &path), VecDeque::new()));
                }
                return Ok(Some((path, entry)));
            }
            match lister.page(&*self.fs).await {
                Ok(page) => ready.extend(page),
                Err(error) => {
                    self.leave(self.open.len() - 1, &error);
                    return Err(error);
                }
            }
            if ready.is_empty() {
                self.open.pop();
            }
        }
        Ok(None)
    }

    /// Returns the next path, past parts of the tree that cannot be read, such as an account. Their errors
    /// are reported.
    pub(crate) async fn next_readable(
        &mut self,
        app: &mut App,
        failures: &mut Failures,
    ) -> fail::Result<Option<(TreePath, Entry)>> {
        loop {
            match self.next().await {
                Err(error) if self.passes(&error) => report(app, failures, error)?,
                found => return Ok(found?),
            }
        }
    }

    /// Returns true if an error is about a part of the tree that cannot be read, so that the walk goes on
    /// after it.
    pub(crate) fn passes(&self, error: &Error) -> bool {
        error.path().is_some_and(|part| error.unreadable_part(&self.top, part).is_some())
    }

    /// Leaves a directory that could not be listed, everything below it, and those above it that the error is
    /// about.
    fn leave(&mut self, level: usize, error: &Error) {
        self.open.truncate(level + 1);
        let Some((lister, _)) = self.open.pop() else { return };
        if let Some(part) = error.unreadable_part(&self.top, &lister.dir) {
            self.open.retain(|(lister, _)| !lister.dir.is_within(part));
        }
    }

    /// Returns the depth of the last path below the top; 1 for a name in the top.
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    /// Skips the contents of the last path.
    pub(crate) fn skip(&mut self) {
        // `next` opened the directory that it returned, one level below its own.
        self.open.truncate(self.depth);
    }

    /// Returns true if the last path is the last name in its directory. If the rest of the directory cannot
    /// be read, it is, and the next call of [`Self::next`] returns the error.
    pub(crate) async fn is_last(&mut self) -> bool {
        let Some(level) = self.depth.checked_sub(1) else { return true };
        let Some((lister, ready)) = self.open.get_mut(level) else { return true };
        if !ready.is_empty() {
            return false;
        }
        // The last name of a page may not be the last of the directory.
        match lister.page(&*self.fs).await {
            Ok(page) => {
                ready.extend(page);
                ready.is_empty()
            }
            Err(error) => {
                self.leave(level, &error);
                self.failed = Some(error);
                true
            }
        }
    }
}

/// Reports an error after what was printed before it.
pub(crate) fn report(app: &mut App, failures: &mut Failures, error: Error) -> fail::Result {
    app.out.flush()?;
    failures.add(Err(error.into()), app.global.json)
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;
    use garth_engine::home::OperatorTree;
    use garth_engine::{DataDir, Env, ErrorKind, FileSystemExt as _};

    use super::*;

    /// Data folder with two accounts, each with a note, and the tree of all accounts.
    fn accounts() -> (tempfile::TempDir, DataDir, Arc<dyn FileSystem>) {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir::open(folder.path(), Env::system(), garth_agent::registry()).unwrap();
        for account in ["acme", "beta"] {
            block_on(data.create_account(account)).unwrap();
            block_on(block_on(data.account(account)).unwrap().write("/note", "text")).unwrap();
        }
        let all: Arc<dyn FileSystem> = Arc::new(OperatorTree::new(Arc::new(data.clone())));
        (folder, data, all)
    }

    fn next(walk: &mut DepthFirst) -> Option<String> {
        block_on(walk.next()).unwrap().map(|(path, _)| path.to_string())
    }

    #[test]
    fn walk_of_all_accounts_survives_a_deletion() {
        let (_folder, data, all) = accounts();
        let mut walk = DepthFirst::new(all, &TreePath::parse("/accounts").unwrap());
        assert_eq!(next(&mut walk).as_deref(), Some("/accounts/acme"));
        block_on(data.delete_account("acme")).unwrap();
        let rest: Vec<String> = std::iter::from_fn(|| next(&mut walk)).collect();
        assert_eq!(rest, ["/accounts/beta", "/accounts/beta/note"]);
    }

    #[test]
    fn walk_of_deleted_account_fails() {
        let (_folder, data, all) = accounts();
        let top = TreePath::parse("/accounts/acme").unwrap();
        let mut walk = DepthFirst::new(all, &top);
        block_on(data.delete_account("acme")).unwrap();
        assert!(block_on(walk.next()).unwrap_err().is(ErrorKind::NotFound));
    }
}
