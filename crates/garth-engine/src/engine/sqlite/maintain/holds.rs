//! The states of the past that something needs: snapshots and overlays keep them readable, open views keep
//! their rows.

use std::collections::BTreeSet;

use rusqlite::Connection;

use crate::engine::relational::kept_states;
use crate::engine::relational::open_pasts::OpenPasts;
use crate::engine::sqlite::query::read_view::ReadView;
use crate::engine::sqlite::tables::{past_leases, snapshots};
use crate::fs::store::Hold;
use crate::model::{Owner, Timestamp};
use crate::sqlite::DbResult;

/// Returns the first state that a snapshot or an overlay shows. The view reaches the whole account.
pub(super) fn first_kept(view: &ReadView<'_>) -> DbResult<Option<(u64, Hold)>> {
    let snapshot = snapshots::first(view.conn)?.map(|(seq, owner, name)| {
        let owner = Owner::from_key(owner);
        (seq, Hold::Snapshot { owner, name })
    });
    Ok([snapshot, kept_states::first_fork(&view.tree)?].into_iter().flatten().min_by_key(|(seq, _)| *seq))
}

/// Returns the states that views of the past still read, in this process (`open`) or, by their leases, in
/// others. Leases of this process do not count: they can be left of views that are closed.
pub(super) fn all_read(conn: &Connection, open: &OpenPasts, now: Timestamp) -> DbResult<BTreeSet<u64>> {
    let mut read = BTreeSet::from_iter(past_leases::of_others(conn, open.holder(), now.0)?);
    // Inside the transaction: a view is counted before the transaction that opened it ends.
    read.extend(open.seqs());
    Ok(read)
}

/// Returns all states that snapshots and overlays show; `None` if there are too many overlays.
pub(super) fn all_kept(view: &ReadView<'_>) -> DbResult<Option<BTreeSet<u64>>> {
    let Some(forks) = kept_states::all_forks(&view.tree)? else { return Ok(None) };
    Ok(Some(snapshots::commits(view.conn)?.into_iter().chain(forks).collect()))
}

/// Returns true if an overlay may have been created or removed after commit `seq`.
pub(super) fn may_have_new_fork(view: &ReadView<'_>, seq: u64) -> DbResult<bool> {
    kept_states::may_have_new_fork(&view.tree, seq)
}
