//! Files of one account in the tree of all accounts, whose paths begin with that of the account.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::fs::FileSystem;
use crate::model::{Change, ChangeKind, PatternBelow};
use crate::path::TreePath;
use crate::rule::PathPattern;

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

    /// Returns the position of a page in the account.
    pub(super) fn after(&self, after: Option<&TreePath>) -> Result<Option<TreePath>> {
        after.map(|after| self.down(after)).transpose()
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

    /// Returns patterns that match in the account the paths which `patterns` match in the tree of all
    /// accounts; none if they match nothing there.
    ///
    /// # Errors
    /// `InvalidArgument` for a malformed pattern.
    pub(super) fn patterns(&self, patterns: &[PatternBelow]) -> Result<Vec<PatternBelow>> {
        let mut inside = Vec::with_capacity(patterns.len());
        for PatternBelow { from, pattern } in patterns {
            let parsed = PathPattern::parse(pattern)?;
            if from.is_within(&self.top) {
                inside.push(PatternBelow { from: self.down(from)?, pattern: pattern.clone() });
            } else if let Some(dir) = self.top.rebase(from, &TreePath::root()) {
                let relative = parsed.relative_to(&dir?).into_iter();
                inside.extend(relative.map(|pattern| PatternBelow { from: TreePath::root(), pattern }));
            }
        }
        Ok(inside)
    }
}
