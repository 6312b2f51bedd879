//! Planning on a database that is a round trip away. `plan` reads one row after the other, which is right
//! where a row costs a microsecond; elsewhere it is run on what has been fetched, and again once what it
//! missed has been fetched too. It stays pure: a run that missed something is dropped, whatever it answered.

use std::future::Future;

use super::rows::{HeadRow, Rows};
use super::{Planned, plan};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{Batch, Timestamp};

/// Most rounds of one batch. A batch takes two, and one more for each of: addresses by
/// [`At::Child`](crate::model::At::Child); a directory that has to be empty; all below a directory that is
/// copied, the same again if it is addressed by number; a removed tree, for nodes that have names outside
/// it; conditions on hashes; a copy of the past; files that are written and have several names; what rules
/// read (the content of a file takes two, a directory that comes to a place with rules one for each level
/// below); entries that have expired (three, if those have names in directories which the batch does not
/// name; four in a removed tree). It takes one or two more for each operation that leads to rows of the
/// database only because of the one before it: a directory is moved, then one that was in it, then one that
/// was in that. Operations that do not depend on each other share their rounds.
pub const MAX_ROUNDS: usize = 64;

/// Rows that are fetched, many in a round.
///
/// What was not fetched is not known to be absent: a method of [`Rows`] that is asked for it notes the key
/// and fails. Any error will do, since nobody sees it, but for `NotFound` and `NotADirectory`, which mean
/// that there is no such row. What was fetched may answer for more than was asked for: names below a
/// directory for each of them, extents of a file for those of a range.
pub trait Fetch: Rows {
    /// Fetches in one round all that was foreseen or missed since the last, and gives the head row. The first
    /// fetch begins the transaction and locks the head row: only then does it stay what it is.
    fn fetch(&mut self) -> impl Future<Output = Result<HeadRow>> + Send;

    /// Whether since the last fetch a row was asked for that had not been fetched.
    fn missed(&self) -> bool;
}

/// Plans a batch in as few rounds as it takes.
///
/// # Errors
/// `TooLarge` after [`MAX_ROUNDS`]; errors of `fetch`, and of the batch.
pub async fn plan_with<R: Fetch>(rows: &mut R, now: Timestamp, batch: &Batch) -> Result<Planned> {
    // nothing is there yet: this run only says what to fetch first
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
