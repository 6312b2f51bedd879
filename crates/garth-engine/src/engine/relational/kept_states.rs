//! States of the past that overlays show. Collections keep them readable.

use super::reads::tree_rows::{Read, TreeRows};
use super::reads::tree_view::{TreeView, own};
use crate::fs::forks;
use crate::fs::store::Hold;
use crate::model::{At, ByteRange, MAX_PAGE, Page};

/// Bytes of the description of an overlay, which has a path in it.
pub const ABOUT: ByteRange = ByteRange { offset: 0, length: 64 << 10 };

/// Limit on the overlays of an account that a collection reads. With more, the past stays.
const MAX_FORKS: usize = 10_000;

/// Returns the first state over which an overlay lies: the empty tree if there are too many overlays. The
/// view reaches the whole account.
///
/// # Errors
/// Errors of the database.
pub fn first_fork<R: TreeRows>(view: &TreeView<'_, R>) -> Read<R, Option<(u64, Hold)>> {
    let mut first: Option<(u64, Hold)> = None;
    let too_many = each_fork(view, &mut |seq, id| {
        if first.as_ref().is_none_or(|(least, _)| seq < *least) {
            first = Some((seq, Hold::Fork { id: id.to_owned() }));
        }
    })?;
    Ok(too_many.map(|id| (0, Hold::Fork { id })).or(first))
}

/// Returns the states over which overlays lie; `None` if there are too many overlays. The view reaches the
/// whole account.
///
/// # Errors
/// Errors of the database.
pub fn all_forks<R: TreeRows>(view: &TreeView<'_, R>) -> Read<R, Option<Vec<u64>>> {
    let mut seqs = Vec::new();
    let too_many = each_fork(view, &mut |seq, _| seqs.push(seq))?;
    Ok(too_many.is_none().then_some(seqs))
}

/// Calls `each` with the states over which overlays lie, and the ids of these. Returns the id of an overlay
/// after the limit, if there are more.
fn each_fork<R: TreeRows>(
    view: &TreeView<'_, R>,
    each: &mut dyn FnMut(u64, &str),
) -> Read<R, Option<String>> {
    let dir = forks::overlays()?;
    let (mut page, mut count) = (Page { limit: MAX_PAGE, ..Page::default() }, 0);
    loop {
        let listing = match own(view.list(&At::Path(dir.clone()), &page))? {
            // There never was one.
            Err(error) if error.is_absent() => return Ok(None),
            listing => listing?,
        };
        for item in &listing.items {
            count += 1;
            if count > MAX_FORKS {
                tracing::warn!("the past stays, because the account has more than {MAX_FORKS} overlays");
                return Ok(Some(item.name.to_string()));
            }
            let at = At::Path(forks::about(&dir.join(&item.name)?)?);
            let text = match own(view.fetch_at(&at, ABOUT))? {
                // Not an overlay.
                Err(error) if !error.is_of_storage() => continue,
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
///
/// # Errors
/// Errors of the database.
pub fn may_have_new_fork<R: TreeRows>(view: &TreeView<'_, R>, seq: u64) -> Read<R, bool> {
    match own(view.find(&forks::overlays()?))? {
        Err(error) if error.is_absent() => Ok(false),
        dir => Ok(dir?.seq > seq),
    }
}
