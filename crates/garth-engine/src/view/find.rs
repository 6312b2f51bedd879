//! Finds of views that are made of several trees. Each store is asked once for everything that is shown of
//! it, one store after the other; results are translated into paths of the view.

use crate::error::{Error, ErrorKind, Result};
use crate::fs::lower::StoreId;
use crate::fs::{By, FileSystem, SearchTarget};
use crate::model::{Filling, FindAnswer, FindCursor, FindItem, FindQuery, Hit, Ino, Within};
use crate::path::TreePath;

/// Finds nodes by key in the visible part of a view.
///
/// # Errors
/// As [`FileSystem::find`]; `Unsupported` if no part that is asked for has the ability.
pub(super) async fn find(view: &dyn FileSystem, shown: &Within, query: &FindQuery) -> Result<FindAnswer> {
    query.check()?;
    let asked = match query.within.is_empty() {
        true => shown.clone(),
        false => shown.intersect(&Within::new(query.within.iter().cloned())),
    };
    if asked.is_nothing() {
        return Ok(FindAnswer::default());
    }
    let sought = view.view_base().sought(&asked, By::Key)?;
    if sought.is_empty() {
        return Err(Error::new(ErrorKind::Unsupported, "nothing is found by key there"));
    }
    let (stores, mut filling) = (SearchTarget::together(sought), Filling::new(query.limit));
    let mut at = query.after.clone().unwrap_or(FindCursor { part: 0, behind: None, given: 0 });
    while let Some(SearchTarget { store, tops }) = stores.get(at.part) {
        let behind = at.behind.clone().map(FindCursor::behind);
        let wanted = query.clone().within_any(tops.iter().cloned()).after(behind).limit(filling.room());
        // A path of the store means nothing to the caller.
        let found = store.fs.find(&wanted).await.map_err(|error| error.mapped(|_| None))?;
        for item in found.items {
            // One node may show at several places. `given` says how many of them earlier pages have returned.
            for (place, shown) in shown_at(view, store.id, &asked, &item).await?.into_iter().enumerate() {
                if place < at.given {
                    continue;
                }
                if !filling.push(shown) {
                    let next = FindCursor { given: place, ..at };
                    return Ok(FindAnswer { items: filling.done().items, next: Some(next) });
                }
            }
            at = FindCursor { behind: Some(item.place()), given: 0, ..at };
        }
        at = match found.next {
            Some(next) => FindCursor { part: at.part, ..next },
            None => FindCursor { part: at.part + 1, behind: None, given: 0 },
        };
        // A store that has more has looked at as many keys as one call may: the page ends, even if it is not
        // full.
        if filling.room() == 0 || at.behind.is_some() {
            let next = (at.part < stores.len()).then_some(at);
            return Ok(FindAnswer { items: filling.done().items, next });
        }
    }
    Ok(FindAnswer { items: filling.done().items, next: None })
}

/// Returns an item of a store once for each place where the view shows it, in the order of a walk.
async fn shown_at(
    view: &dyn FileSystem,
    store: StoreId,
    asked: &Within,
    item: &FindItem,
) -> Result<Vec<FindItem>> {
    let FindItem { path, ino, .. } = item.clone();
    let mut hits = view.view_base().found(store, &Hit::at(path, ino), By::Key).await?;
    let is_repeated = |path: &TreePath| {
        view.view_base().original_of(path).is_some_and(|original| asked.contains(&original))
    };
    hits.retain(|hit| asked.contains(&hit.path) && !is_repeated(&hit.path));
    hits.sort_by_key(|hit| hit.path.split());
    let shown = |hit: Hit| {
        let ino = if hit.path.is_root() { Ino::ROOT } else { hit.ino };
        FindItem { path: hit.path, ino, ..item.clone() }
    };
    Ok(hits.into_iter().map(shown).collect())
}
