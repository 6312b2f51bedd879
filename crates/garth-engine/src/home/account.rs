//! Accounts of a home, and figures about their storage.

use crate::model::Timestamp;

/// An account: one tree, stored apart from all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Name for operators. See [`check_id`](crate::path::check_id).
    pub id: String,
    /// Name of its tree: 32 random hexadecimal digits, never reused. In a data folder, the folder below
    /// `accounts/`.
    pub folder: String,
    /// Time of creation.
    pub created: Timestamp,
    /// Lifecycle status.
    pub state: AccountState,
}

/// Lifecycle status of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccountState {
    /// In use.
    Active,
    /// Being deleted: its keys are rejected, and its tree is about to be removed.
    Deleted,
}

/// Mark of the state of an account. A different mark means that there may have been commits.
///
/// An equal mark does not rule out a commit in the same tick of the clock that [`Mark::changed`] follows,
/// some milliseconds: a mark taken just after a change has to be taken again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    value: u128,
    changed: Option<Timestamp>,
}

impl Mark {
    /// Returns the mark of a state. `value` differs from state to state.
    pub const fn new(value: u128, changed: Option<Timestamp>) -> Self {
        Self { value, changed }
    }

    /// Returns the time of the last change, by the clock of the storage.
    pub const fn changed(&self) -> Option<Timestamp> {
        self.changed
    }
}

/// Space that an account takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredSize {
    /// Bytes, without those of pack files.
    pub bytes: u64,
    /// Pack files of large contents, counted up to [`StoredSize::MAX_PACKS`].
    pub packs: usize,
    /// True if there are more pack files.
    pub more_packs: bool,
}

impl StoredSize {
    /// Limit on the pack files that are counted.
    pub const MAX_PACKS: usize = 1000;
}
