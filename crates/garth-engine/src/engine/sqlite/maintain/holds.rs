//! The states of the past that something needs: snapshots and overlays keep them readable, open views keep
//! their rows.

use std::collections::BTreeSet;

use rusqlite::Connection;

use crate::engine::relational::open_pasts::OpenPasts;
use crate::engine::sqlite::maintain::judged_names::ABOUT;
use crate::engine::sqlite::query::read_view::ReadView;
use crate::engine::sqlite::tables::{past_leases, snapshots};
use crate::fs::forks;
use crate::fs::store::Hold;
use crate::model::{At, MAX_PAGE, Owner, Page, Timestamp};
use crate::sqlite::{DbError, DbResult};

/// Limit on the overlays of an account that a collection reads. With more, the past stays.
const MAX_FORKS: usize = 10_000;

/// Returns the first state that a snapshot or an overlay shows. The view reaches the whole account.
pub(super) fn first_kept(view: &ReadView<'_>) -> DbResult<Option<(u64, Hold)>> {
    let snapshot = snapshots::first(view.conn)?.map(|(seq, owner, name)| {
        let owner = Owner::from_key(owner);
        (seq, Hold::Snapshot { owner, name })
    });
    Ok([snapshot, first_fork(view)?].into_iter().flatten().min_by_key(|(seq, _)| *seq))
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
    let mut kept: BTreeSet<u64> = snapshots::commits(view.conn)?.into_iter().collect();
    let too_many = each_fork(view, &mut |seq, _| {
        kept.insert(seq);
    })?;
    Ok(if too_many.is_some() { None } else { Some(kept) })
}

/// Returns the first state over which an overlay lies.
fn first_fork(view: &ReadView<'_>) -> DbResult<Option<(u64, Hold)>> {
    let mut first: Option<(u64, Hold)> = None;
    let too_many = each_fork(view, &mut |seq, id| {
        if first.as_ref().is_none_or(|(least, _)| seq < *least) {
            first = Some((seq, Hold::Fork { id: id.to_owned() }));
        }
    })?;
    Ok(too_many.map(|id| (0, Hold::Fork { id })).or(first))
}

/// Calls `each` with the states over which overlays lie, and the ids of these. Returns the id of an overlay
/// after the limit, if there are more.
fn each_fork(view: &ReadView<'_>, each: &mut dyn FnMut(u64, &str)) -> DbResult<Option<String>> {
    let dir = forks::overlays()?;
    let (mut page, mut count) = (Page { limit: MAX_PAGE, ..Page::default() }, 0);
    loop {
        let listing = match view.list(&At::Path(dir.clone()), &page) {
            // There never was one.
            Err(DbError::Other(error)) if error.is_absent() => return Ok(None),
            listing => listing?,
        };
        for item in &listing.items {
            count += 1;
            if count > MAX_FORKS {
                tracing::warn!("the past stays, because the account has more than {MAX_FORKS} overlays");
                return Ok(Some(item.name.to_string()));
            }
            let at = At::Path(forks::about(&dir.join(&item.name)?)?);
            let text = match view.fetch(&at, ABOUT) {
                // Not an overlay.
                Err(DbError::Other(error)) if !error.is_of_storage() => continue,
                fetched => fetched?.1,
            };
            // One that cannot be read cannot be opened either, so it shows no state.
            let lower: Option<forks::LowerLayer> = serde_json::from_slice(&text).ok();
            let Some(seq) = lower.and_then(|lower| lower.as_of) else { continue };
            each(seq.0, item.name.as_str());
        }
        match listing.items.last() {
            Some(last) if listing.more => page.after = Some(last.name.clone()),
            _ => return Ok(None),
        }
    }
}

/// Returns true if an overlay may have been created or removed after commit `seq`.
pub(super) fn may_have_new_fork(view: &ReadView<'_>, seq: u64) -> DbResult<bool> {
    match view.find(&forks::overlays()?) {
        Err(DbError::Other(error)) if error.is_absent() => Ok(false),
        dir => Ok(dir?.seq > seq),
    }
}
