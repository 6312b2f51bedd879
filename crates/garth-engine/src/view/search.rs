//! Searches of views that are made of several trees. Each store is asked once for everything that is shown of
//! it; the hits are translated into the terms of the view.

use crate::error::{Error, ErrorKind, Result};
use crate::fs::search_patterns::SearchPatterns;
use crate::fs::{By, FileSystem, SearchTarget};
use crate::model::{Hit, Ino, MAX_HITS, SearchAnswer, SearchQuery, Within};
use crate::path::TreePath;

/// Searches the visible part of a view.
///
/// # Errors
/// As [`FileSystem::search`]; `Unsupported` if no part that is asked for can be searched.
pub(super) async fn search(
    view: &dyn FileSystem,
    shown: &Within,
    query: &SearchQuery,
) -> Result<SearchAnswer> {
    query.check()?;
    let patterns = SearchPatterns::of(query)?;
    let mut asked = shown.intersect(&patterns.places()?);
    if !query.within.is_empty() {
        asked = asked.intersect(&Within::new(query.within.iter().cloned()));
    }
    let mut answer = SearchAnswer::default();
    if asked.is_nothing() {
        return Ok(answer);
    }
    let sought = view.view_base().sought(&asked, By::Text)?;
    if sought.is_empty() {
        return Err(Error::new(ErrorKind::Unsupported, "search is not supported there"));
    }
    let stores = SearchTarget::together(sought);
    let several = stores.len() > 1;
    for SearchTarget { store, tops } in stores {
        // Patterns match the paths that the view shows, so they are checked here.
        let mut wanted = SearchQuery { patterns: Vec::new(), ..query.clone() }.within_any(tops);
        // The view may omit hits of the store, so a hit is at most as far down in the view as in the store.
        // With several stores it can be further down: behind hits of the others.
        if several && query.text_from < query.limit {
            wanted.text_from = 0;
        }
        loop {
            // A path of the store means nothing to the caller.
            let found = store.fs.search(&wanted).await.map_err(|error| error.mapped(|_| None))?;
            let mut hits = Vec::with_capacity(found.hits.len());
            for hit in &found.hits {
                let shown = view.view_base().found(store.id, hit, By::Text).await?.into_iter();
                let shown = shown.filter(|hit| asked.contains(&hit.path) && patterns.have(&hit.path));
                // A file is found once: under the first of its paths in the order of a walk.
                hits.extend(shown.min_by(|one, other| one.path.split().cmp(&other.path.split())));
            }
            if hits.len() >= query.limit || !found.more || wanted.limit == MAX_HITS {
                answer.hits.append(&mut hits);
                answer.more |= found.more;
                answer.missing += found.missing;
                break;
            }
            // The view does not show some of the hits.
            wanted.limit = (wanted.limit * 4).min(MAX_HITS);
        }
    }
    if several {
        // Ranks are divided by the weight of the question in the store, so they can be compared.
        answer.hits.sort_by(|one, other| other.rank.total_cmp(&one.rank));
    }
    answer.more |= answer.hits.len() > query.limit;
    answer.hits.truncate(query.limit);
    // A store may have read the text of more hits than the view needs.
    for hit in answer.hits.iter_mut().take(query.text_from) {
        (hit.snippet, hit.context) = (String::new(), None);
    }
    Ok(answer)
}

/// Returns a hit under another path and inode.
pub(super) fn shown(hit: Hit, path: TreePath, ino: Ino) -> Hit {
    let mut hit = Hit { path, ino, ..hit };
    hit.version.ino = ino;
    hit
}
