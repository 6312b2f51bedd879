//! Planning on a database that is a round trip away. `plan` reads one row after the other, which is right
//! where a row costs a microsecond. Here it runs on the rows that have been fetched, and again once those
//! that it missed have been fetched as well. It stays pure: a run that missed a row is dropped, whatever
//! its result.

use std::future::Future;

use super::row_store::RowStore;
use super::rows::HeadRow;
use crate::error::Result;
use crate::model::Timestamp;

/// Usual limit on the rounds of one batch. A batch takes two, and one more for each of:
///
/// - addresses by [`At::Child`](crate::model::At::Child);
/// - a directory that has to be empty;
/// - the content of a copied directory, and one more if the directory is addressed by inode;
/// - a removed tree, for nodes that have names outside of it;
/// - conditions on hashes;
/// - a copy of the past;
/// - written files that have several names;
/// - rows that rules read: two for the content of a file, one per level below a directory that comes to a
///   place with rules;
/// - expired entries: three if they have names in directories that the batch does not name, four in a
///   removed tree.
///
/// It takes one or two more for each operation that leads to rows of the database only because of the one
/// before it: a directory is moved, then one that was in it, then one that was in that. Operations that do
/// not depend on each other share their rounds.
pub const MAX_ROUNDS: usize = 64;

/// State that a batch is planned on, as a fetch found it.
#[derive(Clone, Copy, Debug)]
pub struct Fetched {
    /// Head row, which is locked.
    pub head: HeadRow,
    /// Time by the clock of the database, so that all processes that use it have the same. A commit is never
    /// earlier than the one before it, whatever the clock says.
    pub now: Timestamp,
}

/// Database whose rows are fetched, many in one round.
///
/// A row that has not been fetched may exist: a read of it notes the key in the [`RowStore`] and fails, and
/// the result of the run is dropped.
pub trait Fetch {
    /// Returns the rows that have been fetched, with the rules in force.
    fn rows(&self) -> &RowStore;

    /// Fetches, in one round, all rows that were prefetched or missed since the last call
    /// ([`RowStore::take_wanted`]), and returns the head row and the time. The first call begins the
    /// transaction and locks the head row. Until then, another process can change the head row and the rules.
    fn fetch(&mut self) -> impl Future<Output = Result<Fetched>> + Send;

    /// Returns true if the caller of a batch, given by its place in the group, holds open a node that has
    /// lost its names. Asked for instead of [`RowKey::IsOpen`](super::RowKey::IsOpen), because each caller
    /// has handles of its own.
    ///
    /// # Errors
    /// Errors of the database.
    fn is_open(&self, batch: usize, ino: u64) -> Result<bool>;
}
