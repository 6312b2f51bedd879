//! Planning of a group of batches on a database that is a round trip away: in as many rounds as one of them
//! takes, not as all of them take together. Each batch is planned on the rows that were fetched, with the
//! changes of the batches before it over them ([`Overlay`]). It has the same result as if it were planned
//! after those had been written.
//!
//! A batch that fails changes nothing for those after it. One that misses a row ends the pass: those after it
//! are planned without it only to learn which rows they need, and again once these have been fetched.

use super::overlay::{Overlay, Pending};
use super::rounds::{Fetch, Fetched};
use super::rows::HeadRow;
use super::{Planned, plan};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{Batch, Timestamp};

/// Plans the first batches of a group, at least one, and returns their results in order. The others depend on
/// rows that are known only once the changes of the first ones are written: write these, and call this again
/// with the others and an empty [`RowStore`](super::RowStore). A result counts only if all changes before it
/// are written. A batch that moves or removes a subtree is the last of its call.
///
/// At most `rounds` rounds are taken (usually [`MAX_ROUNDS`](super::MAX_ROUNDS)). If they complete no batch,
/// the first one fails with `TooLarge`.
///
/// # Errors
/// Errors of `fetch`. Those of a batch are in its result.
pub async fn plan_group<D: Fetch>(
    database: &mut D,
    batches: &[&Batch],
    rounds: usize,
) -> Result<Vec<Result<Planned>>> {
    let mut group = Group { batches, planned: Vec::new(), pending: Pending::default() };
    // Nothing has been fetched yet: this pass only names what to fetch first. Keys that contain the time are
    // mostly named later, because other rows lead to them.
    group.name_rows(database, 0, Fetched { head: HeadRow::default(), now: Timestamp(0) });
    for _ in 0..rounds.max(1) {
        let state = database.fetch().await?;
        if group.pass(database, state) || group.planned.len() == batches.len() {
            return Ok(group.planned);
        }
    }
    if group.planned.is_empty() {
        let message = "the operations of this batch depend on each other in too many steps; split it";
        group.planned.push(Err(Error::new(ErrorKind::TooLarge, message)));
    }
    Ok(group.planned)
}

/// Group that is being planned.
struct Group<'a> {
    batches: &'a [&'a Batch],
    /// Results of the first batches.
    planned: Vec<Result<Planned>>,
    /// Changes of these batches.
    pending: Pending,
}

impl Group<'_> {
    /// Plans the batches that have no result yet, up to the first one that misses a row. Returns true if the
    /// others can be planned only once the changes are written.
    fn pass<D: Fetch>(&mut self, database: &D, state: Fetched) -> bool {
        while let Some(batch) = self.batches.get(self.planned.len()) {
            let head = self.pending.head().unwrap_or(state.head);
            let (planned, met_barrier) = self.plan(database, self.planned.len(), batch, state);
            // Even if it missed a row as well: it has to wait in any case.
            if met_barrier {
                return true;
            }
            if database.rows().missed() {
                self.name_rows(database, self.planned.len() + 1, state);
                return false;
            }
            let mut moves = false;
            if let Ok(Planned::Apply { delta, head: next, .. }) = &planned {
                moves = delta.moves_subtrees();
                self.pending.add(batch, delta, (head, *next));
            }
            self.planned.push(planned);
            // Its ranges would apply to rows that have not been fetched.
            if moves {
                return true;
            }
        }
        false
    }

    /// Plans the batches from one on without each other, only to name the rows that they need.
    fn name_rows<D: Fetch>(&self, database: &D, first: usize, state: Fetched) {
        for (place, batch) in self.batches.iter().enumerate().skip(first) {
            drop(self.plan(database, place, batch, state));
        }
    }

    /// Plans a batch after those that have results. The flag is true if it reads rows that are known only
    /// once their changes are written.
    fn plan<D: Fetch>(
        &self,
        database: &D,
        place: usize,
        batch: &Batch,
        state: Fetched,
    ) -> (Result<Planned>, bool) {
        let is_open = |ino: u64| database.is_open(place, ino);
        let rows = Overlay::new(database.rows(), &self.pending, &is_open);
        let head = self.pending.head().unwrap_or(state.head);
        let planned = plan(&rows, head, state.now, batch);
        (planned, rows.met_barrier())
    }
}
