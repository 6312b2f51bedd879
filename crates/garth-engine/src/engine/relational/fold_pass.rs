//! Removal of the past in passes: its phases, when a pass begins, and the nodes that it looks at.
//!
//! A pass removes what ended at or before one commit. Each step stores its place in the transaction that does
//! its work, so that a pass which was interrupted goes on.

use std::collections::BTreeSet;

use super::changes_column;
use crate::error::{Error, Result};
use crate::model::{ChangeKind, Timestamp};

/// Part of a pass. They follow each other in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Nothing is removed yet: readers from before the announcement have their grace period. The place is the
    /// time at which it begins.
    Waiting,
    /// Nodes with ended versions are looked for. The place is a commit, or a node.
    Candidates,
    /// Ended names are removed. The place is a fork.
    Names,
    /// Ended times of directories are removed. The place is a fork.
    Times,
    /// Ended versions and extents of the nodes that were found are removed.
    Nodes,
    /// Commits are removed from the log. The place is the last of them.
    Log,
}

impl Phase {
    const ALL: [Self; 6] =
        [Self::Waiting, Self::Candidates, Self::Names, Self::Times, Self::Nodes, Self::Log];

    /// Returns the number of the phase in the database.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Returns the phase of a number in the database.
    ///
    /// # Errors
    /// `Corrupt` for a number of no phase.
    pub fn of_number(number: u64) -> Result<Self> {
        let phase = usize::try_from(number).ok().and_then(|number| Self::ALL.get(number));
        phase.copied().ok_or_else(|| Error::damaged("the place of the collection is damaged"))
    }
}

/// A pass in progress: it removes rows that ended at or before commit `till`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// Last commit whose ended rows are removed.
    pub till: u64,
    /// Phase.
    pub phase: Phase,
    /// Place within the phase.
    pub at: u64,
}

impl Pass {
    /// Returns the pass at the beginning of another phase.
    #[must_use]
    pub fn begin(self, phase: Phase, at: u64) -> Self {
        Self { phase, at, ..self }
    }

    /// Returns true for a pass up to the same commit and in the same phase, at whatever place.
    pub fn is_in(self, other: Self) -> bool {
        (self.till, self.phase) == (other.till, other.phase)
    }
}

/// State of the past of an account when a collection looks for a pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct PastState {
    /// First commit whose state is readable.
    pub oldest: u64,
    /// Time at which that commit was raised last.
    pub oldest_since: i64,
    /// Commit up to which ended rows are removed.
    pub folded: u64,
    /// Pass in progress.
    pub pass: Option<Pass>,
    /// Last commit that may be removed for other reasons, such as a merge of extents that reads the log.
    pub limit: u64,
    /// First state that somebody still reads.
    pub read: Option<u64>,
}

/// Decision about the next pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NextPass {
    /// Pass to write; `None` to leave what is stored.
    pub write: Option<Pass>,
    /// Pass to go on with; `None` if nothing is to be removed yet.
    pub go_on: Option<Pass>,
}

impl NextPass {
    /// Returns it with a pass that begins to look for nodes at the first inode, and not at a commit.
    #[must_use]
    pub fn by_inode(self) -> Self {
        let first = |pass: Pass| if pass.phase == Phase::Candidates { Pass { at: 0, ..pass } } else { pass };
        // A pass that goes on has a place.
        match self.write {
            Some(write) => Self { write: Some(first(write)), go_on: self.go_on.map(first) },
            None => self,
        }
    }
}

impl PastState {
    /// Returns the pass to go on with, if readers and the grace period allow that. It removes what was
    /// announced until `removed_before`.
    ///
    /// A pass that begins has the phase [`Phase::Candidates`] and the last folded commit as its place.
    pub fn next_pass(&self, now: Timestamp, removed_before: Timestamp) -> NextPass {
        let mut next = NextPass::default();
        let pass = match self.pass {
            // No new reader gets below it. One whose lease is back all the same, such as that of a machine
            // that slept, is waited for.
            Some(pass) if pass.phase > Phase::Waiting => {
                next.go_on = Some(pass).filter(|pass| self.read.is_none_or(|read| read >= pass.till));
                return next;
            }
            Some(pass) => pass,
            None if self.oldest > self.folded => {
                // The time is stored with the commit: a later announcement does not begin the grace period
                // again.
                let since = self.oldest_since.max(0).cast_unsigned();
                *next.write.insert(Pass { till: self.oldest, phase: Phase::Waiting, at: since })
            }
            None => return next,
        };
        let now = now.0.max(0).cast_unsigned();
        let pass = match pass.at > now {
            // The clock was ahead. The grace period begins now, not when it gets there again.
            true => *next.write.insert(Pass { at: now, ..pass }),
            false => pass,
        };
        let till = pass.till.min(self.limit).min(self.read.unwrap_or(u64::MAX));
        if pass.at.cast_signed() > removed_before.0 || till <= self.folded {
            return next;
        }
        let begun = Pass { till, phase: Phase::Candidates, at: self.folded };
        NextPass { write: Some(begun), go_on: Some(begun) }
    }
}

/// Returns the nodes of which commits ended a version, as far as the log names them. `changes` are pieces of
/// the changes of these commits.
pub fn changed_nodes<'a>(changes: impl IntoIterator<Item = &'a str>) -> BTreeSet<u64> {
    let mut found = BTreeSet::new();
    for json in changes {
        // `fsck` reports rows that cannot be parsed.
        let (changes, _) = changes_column::from_json(json).unwrap_or_default();
        found.extend(changes.iter().filter(|it| ends_a_version(&it.kind)).map(|it| it.ino));
    }
    found
}

fn ends_a_version(kind: &ChangeKind) -> bool {
    !matches!(kind, ChangeKind::Created | ChangeKind::Snapshot { .. } | ChangeKind::SnapshotDropped { .. })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    /// State of an account with commits 4 to 9 to remove, announced at time 100.
    const STATE: PastState =
        PastState { oldest: 9, oldest_since: 100, folded: 3, pass: None, limit: u64::MAX, read: None };

    fn next(state: &PastState, now: i64, grace: i64) -> NextPass {
        state.next_pass(Timestamp(now), Timestamp(now - grace))
    }

    #[test]
    fn pass_begins_after_the_grace_period() {
        let waiting = Pass { till: 9, phase: Phase::Waiting, at: 100 };
        assert_eq!(next(&STATE, 120, 30), NextPass { write: Some(waiting), go_on: None });
        let state = PastState { pass: Some(waiting), oldest: 12, oldest_since: 125, ..STATE };
        assert_eq!(next(&state, 129, 30), NextPass::default());
        let begun = Some(Pass { till: 9, phase: Phase::Candidates, at: 3 });
        let found = next(&state, 130, 30);
        assert_eq!(found, NextPass { write: begun, go_on: begun }, "not from the later one");
        assert_eq!(found.by_inode().go_on.map(|pass| pass.at), Some(0));
        assert_eq!(NextPass { write: None, go_on: begun }.by_inode().go_on, begun, "it goes on at its place");
    }

    #[test]
    fn readers_and_merges_limit_a_pass() {
        let till = |state: PastState| next(&state, 200, 0).go_on.map(|pass| pass.till);
        assert_eq!(till(STATE), Some(9));
        assert_eq!(till(PastState { read: Some(5), ..STATE }), Some(5));
        assert_eq!(till(PastState { limit: 7, ..STATE }), Some(7));
        assert_eq!(till(PastState { limit: 3, ..STATE }), None);
        assert_eq!(till(PastState { folded: 9, ..STATE }), None);
    }

    #[test]
    fn pass_in_progress_waits_for_a_reader_of_before() {
        let pass = Pass { till: 6, phase: Phase::Names, at: 1 };
        let state = PastState { pass: Some(pass), ..STATE };
        let read = |read| next(&PastState { read, ..state }, 0, 0).go_on;
        assert_eq!([None, Some(6), Some(5)].map(read), [Some(pass), Some(pass), None]);
    }

    #[test]
    fn clock_that_was_ahead_begins_the_grace_period_again() {
        let waiting = Pass { till: 9, phase: Phase::Waiting, at: 900 };
        let state = PastState { pass: Some(waiting), ..STATE };
        let again = Pass { at: 120, ..waiting };
        assert_eq!(next(&state, 120, 30), NextPass { write: Some(again), go_on: None });
    }

    #[test]
    fn phases_are_read_back() {
        for phase in Phase::ALL {
            assert_eq!(Phase::of_number(phase.number().into()).unwrap(), phase);
        }
        assert_eq!(Phase::of_number(6).unwrap_err().kind(), ErrorKind::Corrupt);
    }

    #[test]
    fn changes_name_the_nodes_with_ended_versions() {
        let pieces = [r#"+[["c",1,"/a"],["m",2,"/b"],["s",0,null,"then"]]"#, r#"[["r",3,"/c"]]"#, "["];
        assert_eq!(changed_nodes(pieces), BTreeSet::from([2, 3]));
    }
}
