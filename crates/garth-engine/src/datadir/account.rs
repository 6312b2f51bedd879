//! Accounts as recorded in the control data.

use crate::model::Timestamp;

/// An account: one tree, in a folder of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Name for operators. See [`check_id`](crate::path::check_id).
    pub id: String,
    /// Name of its folder below `accounts/`: 32 random hexadecimal digits, never reused.
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
    /// Being deleted: its keys are rejected, and its folder is about to be removed.
    Deleted,
}
