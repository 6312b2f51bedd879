//! Planning on a database that is a round trip away. `plan` reads one row after the other, which is right
//! where a row costs a microsecond. Here it runs on the rows that have been fetched, and again once those
//! that it missed have been fetched as well. It stays pure: a run that missed a row is dropped, whatever
//! its result.

use std::future::Future;

use super::rows::{HeadRow, Rows};
use super::{Planned, plan};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{Batch, Timestamp};

/// Limit on the rounds of one batch. A batch takes two, and one more for each of:
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

/// Rows that are fetched, many in one round.
///
/// A row that has not been fetched may exist: a method of [`Rows`] that is asked for it notes the key and
/// fails. Any error will do, because nobody sees it, except `NotFound` and `NotADirectory`, which mean that
/// the row does not exist. A fetched key may answer others: the names below a directory those of each
/// directory in it, the extents of a file those of a range.
pub trait Fetch: Rows {
    /// Fetches, in one round, all rows that were prefetched or missed since the last call, and returns the
    /// head row. The first call begins the transaction and locks the head row, which can change until then.
    fn fetch(&mut self) -> impl Future<Output = Result<HeadRow>> + Send;

    /// Returns true if, since the last fetch, a row was read that had not been fetched.
    fn missed(&self) -> bool;
}

/// Plans a batch in as few rounds as possible.
///
/// # Errors
/// `TooLarge` after [`MAX_ROUNDS`] rounds; errors of `fetch` and of the batch.
pub async fn plan_with<R: Fetch>(rows: &mut R, now: Timestamp, batch: &Batch) -> Result<Planned> {
    // Nothing has been fetched yet: this run only names what to fetch first.
    let unknown = HeadRow::default();
    drop(plan(&*rows, unknown, now, batch));
    for _ in 0..MAX_ROUNDS {
        let head = rows.fetch().await?;
        let planned = plan(&*rows, head, now, batch);
        if !rows.missed() {
            return planned;
        }
    }
    let message = "the operations of this batch depend on each other in too many steps; split it";
    Err(Error::new(ErrorKind::TooLarge, message))
}
