//! Changes that were committed while the files of a rule, which is to be set, were checked. They are judged
//! by themselves, so that a rule comes into force without a check of all files that holds up commits.

use std::collections::BTreeSet;

use crate::error::{Advice, Error, ErrorKind, Result};
use crate::model::{ChangeKind, Changes, Ino};
use crate::path::TreePath;
use crate::rule::FileViolation;

/// Most changes that are judged together.
pub const MOST_CHANGES: usize = 1000;
/// Most bytes that are read to judge them.
pub const MOST_BYTES: u64 = 16 << 20;
/// Times that the tree is checked before the call fails because the tree changes too fast.
pub const TRIES: usize = 10;

/// Verdict of a rule on changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangesVerdict<T> {
    /// No change violates the rule. Has what was found out about the files.
    Good(T),
    /// First change that violates it.
    Broken(FileViolation),
    /// Too many changes to judge together, or changes that the log no longer has.
    Much,
}

/// Files and paths that changes have touched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangedPlaces {
    /// Files, each to be judged under all of its names.
    pub files: BTreeSet<Ino>,
    /// New names, each to be judged at its path and below.
    pub paths: Vec<TreePath>,
}

impl ChangedPlaces {
    /// Returns what some changes have touched that a rule may not allow.
    pub fn of(changes: Changes) -> Self {
        let mut places = Self::default();
        for change in changes.commits.into_iter().flat_map(|commit| commit.changes) {
            match change.kind {
                // A changed file is judged under all of its names, a new name at its path.
                ChangeKind::Modified | ChangeKind::Attributes => places.files.extend([change.ino]),
                ChangeKind::Created | ChangeKind::Linked | ChangeKind::Renamed { .. } => {
                    places.paths.extend(change.paths);
                }
                ChangeKind::Removed
                | ChangeKind::Expired
                | ChangeKind::Snapshot { .. }
                | ChangeKind::SnapshotDropped { .. } => {}
            }
        }
        places
    }
}

/// Returns the verdict that a judgement of the state after changes led to.
///
/// # Errors
/// Errors of the judgement that say nothing about the files.
pub fn verdict<T>(judged: Result<T>) -> Result<ChangesVerdict<T>> {
    match judged {
        Ok(known) => Ok(ChangesVerdict::Good(known)),
        Err(error) if error.is(ErrorKind::RuleViolation) => {
            let path = error.path().cloned().unwrap_or_default();
            Ok(ChangesVerdict::Broken(FileViolation { path, reason: error.message().to_owned() }))
        }
        Err(error) if error.is(ErrorKind::TooLarge) => Ok(ChangesVerdict::Much),
        Err(error) => Err(error),
    }
}

/// Returns the error of a rule whose files change faster than they can be checked.
pub fn too_fast() -> Error {
    let message = "the files under the rule change faster than they can be checked";
    let advice = "try again when less is written, or set the rule with --force";
    Error::new(ErrorKind::WouldBlock, message).advising(Advice::Command, advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn judgements_become_verdicts() {
        assert_eq!(verdict(Ok(7)).unwrap(), ChangesVerdict::Good(7));
        let path = TreePath::parse("/a").unwrap();
        let broken = verdict::<()>(Err(Error::at(ErrorKind::RuleViolation, &path, "too long"))).unwrap();
        let violation = FileViolation { path, reason: "too long".to_owned() };
        assert_eq!(broken, ChangesVerdict::Broken(violation));
        let much = verdict::<()>(Err(Error::new(ErrorKind::TooLarge, "much"))).unwrap();
        assert_eq!(much, ChangesVerdict::Much);
        assert!(verdict::<()>(Err(Error::damaged("a row"))).unwrap_err().is(ErrorKind::Corrupt));
    }
}
