//! Files of one account in the tree of all accounts, whose paths begin with that of the account.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::fs::named_errors::named_errors;
use crate::fs::{FileSystem, OpenFile};
use crate::model::{Change, ChangeKind};
use crate::path::TreePath;

/// Files of an account, with the path of the account.
pub(super) struct Opened {
    pub(super) fs: Arc<dyn FileSystem>,
    pub(super) top: TreePath,
}

impl Opened {
    /// Returns an answer of the account, with the path of an error as the operator sees it.
    pub(super) fn told<T>(&self, answer: Result<T>) -> Result<T> {
        answer.map_err(|error| {
            let error = error.mapped(|path| self.up(path).ok());
            // Other accounts may be sound.
            if error.is_of_storage() { error.about(&self.top) } else { error }
        })
    }

    /// Returns a file of the account, with the paths of errors as the operator sees them.
    pub(super) fn file(&self, file: Arc<dyn OpenFile>) -> Arc<dyn OpenFile> {
        let top = self.top.clone();
        named_errors(file, move |error| error.mapped(|path| top.append(path).ok()))
    }

    /// Returns the path of the tree of all accounts for a path of the account.
    pub(super) fn up(&self, path: &TreePath) -> Result<TreePath> {
        Ok(self.top.append(path)?)
    }

    /// Returns the path of the account for a path of the tree of all accounts.
    fn down(&self, path: &TreePath) -> Result<TreePath> {
        if !path.is_within(&self.top) {
            return Err(Error::invalid("a page continues after a path of the same account"));
        }
        Ok(TreePath::from_key(path.key()[self.top.key().len()..].to_owned()))
    }

    /// Returns the position of a page in the account; `None` for one above the account, before all its paths.
    pub(super) fn after(&self, after: Option<&TreePath>) -> Result<Option<TreePath>> {
        let is_above = |after: &TreePath| {
            // A position before the first name of a directory ends with `/`.
            let above = self.top.key().strip_prefix(after.key().trim_end_matches('/'));
            above.is_some_and(|rest| rest.starts_with('/'))
        };
        after.filter(|after| !is_above(after)).map(|after| self.down(after)).transpose()
    }

    /// Returns a change of the account with the paths of the tree of all accounts.
    pub(super) fn change(&self, change: Change) -> Result<Change> {
        let paths = change.paths.iter().map(|path| self.up(path)).collect::<Result<_>>()?;
        let kind = match change.kind {
            ChangeKind::Renamed { from } => ChangeKind::Renamed { from: self.up(&from)? },
            kind => kind,
        };
        Ok(Change { kind, paths, ..change })
    }
}
