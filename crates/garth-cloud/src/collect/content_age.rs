//! Ends old content before the log ends: that of files whose path class keeps it for a limited time.
//!
//! For each distinct time of the limits the log is searched up to the last commit that is as old, once.
//! One walk serves all times. Content that one of these commits replaced, or whose file lost its last name
//! there, is marked if the class of the file keeps it no longer, by the names that it has, or had last.
//! From then on no new view reads it. A run after the grace period removes its extents.
//!
//! Files are judged before the account is locked: their ended versions do not change, and a rename
//! meanwhile counts as one after the search. Behind the lock, a step checks that limits and overlays are
//! those that were read, and which states open views show. Content that a snapshot, an overlay or an open
//! view of the past shows is not marked. It is looked for again once the last of them is gone.
//!
//! - `basis`: limits and states that a search reads; `judge`: contents of files that end;
//! - `mark`: marks, and the place of the search; `remove`: removal of what is marked.

mod basis;
mod judge;
mod mark;
mod place;
mod remove;

use garth_engine::Result;
use garth_engine::engine::relational::content_search::next_span;

pub(super) use self::basis::Search;
use super::logged::{self, Logged};
use super::step::Run;

pub(super) use basis::search_to_come;
pub(super) use judge::contents_to_end;

/// Most times that a search begins again. Each one that another collection caused has made progress.
const ATTEMPTS: usize = 1000;

/// Marks old content that its path class no longer keeps, and removes what was marked before the grace
/// period. Counts it in `run.collected`.
///
/// # Errors
/// As [`Run::step`]. The next run goes on.
pub(crate) async fn age_content(run: &mut Run<'_>) -> Result<()> {
    mark_contents(run).await?;
    remove::remove(run).await
}

/// Searches for old content until all is found, also where overlays or limits change what is to be
/// searched.
async fn mark_contents(run: &mut Run<'_>) -> Result<()> {
    for _ in 0..ATTEMPTS {
        // Without limits, all content stays.
        let Some(search) = basis::begin(run).await? else { return Ok(()) };
        if search_log(run, search).await? {
            return Ok(());
        }
    }
    tracing::warn!(
        "the search for old content is not finished, because overlays or limits changed all the time; the next \
         collection goes on"
    );
    Ok(())
}

/// Searches the log once, for all ages. Returns false if the search has to begin again, with the limits and
/// overlays of then; it goes on from where it ended.
async fn search_log(run: &mut Run<'_>, mut search: Search) -> Result<bool> {
    let (mut at, to) = search.span;
    if at < to && at < search.queued {
        // The queue does not have all files that lost their last name so early.
        let mut after = 0;
        while let Some(Logged { nodes, last }) = logged::with_past(run, after).await? {
            after = last;
            if !mark::mark_files(run, &mut search, nodes.into_iter().collect()).await? {
                return Ok(false);
            }
        }
        return place::set_searched(run, &mut search, to).await;
    }
    while let Some((begin, end)) = next_span(&search.ages, at) {
        let found = logged::read(run, begin, end).await?;
        let Logged { mut nodes, last } = found.unwrap_or_else(|| Logged::none(end));
        // Of each file only the versions of these commits: the next ones name it again.
        search.span = (begin, last);
        nodes.extend(logged::replaced(run, begin, last).await?);
        if !mark::mark_files(run, &mut search, nodes.into_iter().collect()).await? {
            return Ok(false);
        }
        at = last;
        if !place::set_searched(run, &mut search, last).await? {
            return Ok(false);
        }
    }
    Ok(true)
}
