//! Ends old content before the log ends: that of files whose path class keeps it for a limited time.
//!
//! For each distinct time of the limits the log is searched up to the last commit that is as old, once
//! ([`retention::searched`]). One pass serves all times. Content that one of these commits replaced, or whose
//! file lost its last name there, is marked if the class of the file keeps it no longer, by the names that it
//! has, or had last. From then on no new view reads it ([`content_gone`]). A later run removes its extents
//! after the grace period.
//!
//! Content that a snapshot, an overlay or an open view of the past shows is not marked. It is looked for
//! again once the last of them is gone. An extent goes only if all states that show it are marked. Versions,
//! names and attributes stay.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rusqlite::Connection;

use crate::engine::planner::HeadRow;
use crate::engine::relational::content_search::{
    self, AgeSpan, EndedContents, ages_of, all_commits, is_free, is_searched, next_span,
};
use crate::engine::relational::judged_names::judged_names;
use crate::engine::relational::open_nodes::OpenNodes;
use crate::engine::sqlite::SqliteFs;
use crate::engine::sqlite::maintain::fold::RemovedPast;
use crate::engine::sqlite::maintain::step::{Times, Turn};
use crate::engine::sqlite::maintain::{fold, holds};
use crate::engine::sqlite::query::read_view::ReadView;
use crate::engine::sqlite::tables::content_gone::{self, Span};
use crate::engine::sqlite::tables::extents::Removable;
use crate::engine::sqlite::tables::fold::reached;
use crate::engine::sqlite::tables::{MAX, commit_log, extents, head, leases, nodes, replaced, retention};
use crate::env::Env;
use crate::error::Result;
use crate::fs::store::Collected;
use crate::model::{Kind, Timestamp};
use crate::rule::retention::{ContentLimits, Keep};
use crate::sqlite::DbResult;

/// Rows read or removed at a time. Small in tests, so that they cross the border of a piece.
const PIECE: usize = if cfg!(test) { 3 } else { 256 };
/// Most commits read at a time to find files, and most pieces of their changes.
const COMMITS: usize = if cfg!(test) { 3 } else { 256 };
/// Most times that a search begins again. Each one that another collection caused has made progress.
const ATTEMPTS: usize = 1000;
/// Inodes searched at a time for files with versions from before the queue of replaced nodes.
const INODES: u64 = if cfg!(test) { 3 } else { 4096 };

/// Limits, and the states that snapshots and overlays show, as a collection has read them.
#[derive(Clone)]
struct SearchBasis {
    limits: Arc<ContentLimits>,
    /// Version of the control data that has the limits.
    control: u64,
    kept: Arc<BTreeSet<u64>>,
    /// Head when these were read. A later snapshot shows a later state.
    head: u64,
}

/// Search for the old content of all ages.
#[derive(Clone)]
pub(super) struct Search {
    basis: SearchBasis,
    ages: Vec<AgeSpan>,
    /// Commits that this part of the search reads: after the first, up to and including the last.
    span: (u64, u64),
    /// Time of the step.
    now: Timestamp,
}

/// Files to search, the last one first.
#[derive(Default)]
struct Files {
    left: Vec<u64>,
    /// Commit up to which the versions of the last one were searched, if that has begun.
    place: Option<u64>,
    /// Spans marked.
    marked: u64,
    /// Spans that a dry run would have marked; `None` unless it is one.
    would_mark: Option<Vec<Span>>,
    /// First commit that replaced content which an open view of the past still reads, by age.
    first_read: BTreeMap<Duration, u64>,
}

impl Search {
    /// Returns a search of all commits that the ages name.
    fn new(basis: SearchBasis, ages: Vec<AgeSpan>, now: Timestamp) -> Self {
        let span = all_commits(&ages);
        Self { basis, ages, span, now }
    }
}

impl SqliteFs {
    /// Marks old content that its path class no longer keeps, and removes what was marked before the grace
    /// period.
    pub(super) fn age_content(&self, times: Times, collected: &mut Collected) -> Result<()> {
        self.mark_contents(times.now, collected)?;
        self.remove_contents(times, collected)?;
        self.inner.collecting.searched_at.store(self.inner.runtime.env().now().0, Ordering::Relaxed);
        Ok(())
    }

    /// Searches for old content until all is found, also where another collection, overlays or limits change
    /// what is to be searched.
    fn mark_contents(&self, now: Timestamp, collected: &mut Collected) -> Result<()> {
        for _ in 0..ATTEMPTS {
            // Without limits, all content stays.
            let Some(basis) = self.search_basis()? else { return Ok(()) };
            if self.mark_by(&basis, now, collected)? {
                return Ok(());
            }
        }
        tracing::warn!(
            "the search for old content is not finished, because overlays or limits changed all the time; the \
             next collection goes on"
        );
        Ok(())
    }

    /// Returns the limits; `None` if there are none, or too many overlays to know which states they show.
    fn search_basis(&self) -> Result<Option<SearchBasis>> {
        self.whole().with_view(|view| {
            let HeadRow { seq, control, .. } = head::get(view.conn)?;
            let limits = view.control.at(view.conn, control)?.limits;
            let kept = if limits.ages().is_empty() { None } else { holds::all_kept(view)? };
            Ok(kept.map(|kept| SearchBasis { limits, control, kept: Arc::new(kept), head: seq }))
        })
    }

    /// Searches for the old content of each age. Returns false if the search has to begin again, with what is
    /// set then; it goes on from where it ended.
    fn mark_by(&self, basis: &SearchBasis, now: Timestamp, collected: &mut Collected) -> Result<bool> {
        self.note_held(&basis.kept)?;
        let (ages, places) = self.with_view(|view| {
            let (mut ages, mut places) = (Vec::new(), Vec::new());
            for age in basis.limits.ages() {
                let found = to_search(view, age, now)?;
                // What later commits replaced may be in a snapshot that is not known here.
                ages.push(AgeSpan { to: found.to.min(basis.head), ..found });
                places.push(retention::searched(view.conn, age)?);
            }
            Ok((ages, places))
        })?;
        // False if an overlay was created meanwhile, perhaps over a state of the past, other limits were set,
        // or another collection has searched these commits.
        self.search(&Search::new(basis.clone(), ages, now), places, collected)
    }

    /// Notes which states are kept.
    fn note_held(&self, kept: &BTreeSet<u64>) -> Result<()> {
        let held = self.with_view(|view| retention::held(view.conn))?;
        let without =
            |one: &BTreeSet<u64>, other: &BTreeSet<u64>| one.difference(other).copied().collect::<Vec<_>>();
        let (mut dropped, mut added) = (without(&held, kept), without(kept, &held));
        while !dropped.is_empty() || !added.is_empty() {
            (dropped, added) = self.step(move |conn, turn| {
                retention::change_held(conn, &mut dropped, &mut added, || turn.is_over())?;
                Ok((dropped, added))
            })?;
        }
        Ok(())
    }

    /// Searches the log for old content once, for all ages. `places` has, for each of them, the commit up to
    /// which it was searched before. Returns false if overlays, limits or these places were changed
    /// meanwhile.
    fn search(&self, search: &Search, mut places: Vec<u64>, collected: &mut Collected) -> Result<bool> {
        let mut files = Files::default();
        let is_done = self.search_log(search, &mut places, &mut files)?;
        // What was marked stays so, also if the search has to begin again.
        collected.contents += files.marked;
        Ok(is_done)
    }

    /// Searches the log, and counts what it marks in `files`. Returns false as [`SqliteFs::search`] does.
    fn search_log(&self, search: &Search, places: &mut [u64], files: &mut Files) -> Result<bool> {
        let (from, to) = search.span;
        if from < to && from < self.with_view(|view| head::queued(view.conn))? {
            // The log does not name all files that lost their last name so early.
            let (all, mut after) = (Arc::new(search.clone()), 0);
            while let Some(first) = self.with_view(|view| nodes::next_ino(view.conn, after))? {
                after = first.saturating_add(INODES).min(MAX);
                files.left = self.with_view(|view| nodes::with_past(view.conn, first - 1, after))?;
                if !self.mark_files(&all, files)? {
                    return Ok(false);
                }
            }
            return self.set_searched(search, places, to, files);
        }
        let mut at = from;
        while let Some((begin, end)) = next_span(&search.ages, at) {
            let (found, last) = self.with_view(|view| {
                let last = commit_log::last_of_next(view.conn, begin, COMMITS)?;
                let last = last.map_or(end, |last| last.min(end));
                Ok((fold::changed_nodes(view.conn, begin, last)?, last))
            })?;
            // Of each file only the versions of these commits: the next ones name it again.
            let piece = Arc::new(Search { span: (begin, last), ..search.clone() });
            files.left = found.into_iter().collect();
            if !self.mark_files(&piece, files)? || !self.mark_replaced(&piece, files)? {
                return Ok(false);
            }
            at = last;
            if !self.set_searched(search, places, at, files)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Marks the content of the files that the log does not name.
    fn mark_replaced(&self, search: &Arc<Search>, files: &mut Files) -> Result<bool> {
        let (from, to) = search.span;
        let mut after = (from, MAX);
        loop {
            let found = self.with_view(|view| replaced::between(view.conn, after, to, PIECE))?;
            let Some(last) = found.last() else { return Ok(true) };
            after = *last;
            files.left = found.into_iter().map(|(_, ino)| ino).collect();
            if !self.mark_files(search, files)? {
                return Ok(false);
            }
        }
    }

    /// Notes that the log is searched up to a commit, for the ages whose search has begun there. `places` are
    /// the commits that were noted before. Content that an open view of the past reads is looked for again.
    /// Returns false if the limits or the places were changed meanwhile.
    fn set_searched(&self, search: &Search, places: &mut [u64], to: u64, files: &Files) -> Result<bool> {
        let mut changes = Vec::new();
        for (one, place) in search.ages.iter().zip(places) {
            let reached = to.min(one.to);
            if reached > one.from {
                let first = files.first_read.get(&one.age);
                let reached = first.map_or(reached, |first| reached.min(first.saturating_sub(1)));
                changes.push((one.age, std::mem::replace(place, reached), reached));
            }
        }
        let control = search.basis.control;
        self.step(move |conn, _| {
            // A stricter limit, or the end of a snapshot, has the log searched again from an earlier commit.
            let mut is_same = head::get(conn)?.control == control;
            for (age, before, _) in &changes {
                is_same = is_same && retention::searched(conn, *age)? == *before;
            }
            for (age, before, reached) in changes {
                if is_same && before != reached {
                    retention::set_searched(conn, age, reached)?;
                }
            }
            Ok(is_same)
        })
    }

    /// Marks old content of files. Returns false if overlays or limits were changed meanwhile.
    fn mark_files(&self, search: &Arc<Search>, files: &mut Files) -> Result<bool> {
        while !files.left.is_empty() {
            let before = files.marked;
            let (fs, search, mut todo) = (self.whole(), Arc::clone(search), std::mem::take(files));
            let marked = self.step(move |conn, turn| {
                let SearchBasis { control, head: seen, .. } = search.basis;
                let view = fs.view_on(conn, None)?;
                if head::get(conn)?.control != control || holds::may_have_new_fork(&view, seen)? {
                    return Ok(None);
                }
                // Not that of the collection, which may have begun long before: views that other processes
                // have opened meanwhile read on.
                let search = Search { now: fs.inner.runtime.env().now(), ..Search::clone(&search) };
                let read = holds::all_read(conn, &fs.inner.pasts, search.now)?;
                while let Some(ino) = todo.left.last().copied() {
                    if !mark_file(&view, &search, &read, ino, &mut todo, turn)? {
                        break;
                    }
                    todo.left.pop();
                    todo.place = None;
                    if turn.is_over() {
                        break;
                    }
                }
                fs.inner.runtime.failpoints().pass("content-mark")?;
                Ok(Some(todo))
            })?;
            let Some(marked) = marked else {
                files.marked = before;
                return Ok(false);
            };
            *files = marked;
        }
        Ok(true)
    }

    /// Returns the search that a collection would make once it has raised the first readable commit to
    /// `oldest`; `None` if all content stays.
    pub(super) fn content_search(&self, now: Timestamp, oldest: u64) -> Result<Option<Search>> {
        // Without one, all content stays.
        let Some(basis) = self.search_basis()? else { return Ok(None) };
        self.whole().with_view(|view| {
            let folded = head::get(view.conn)?.folded;
            // Content that only a state showed which is not kept any more is looked for again.
            let lost = retention::held(view.conn)?.difference(&basis.kept).next().copied();
            let mut ages = Vec::new();
            for age in basis.limits.ages() {
                let AgeSpan { from, to, .. } = to_search(view, age, now)?;
                let from = lost.map_or(from, |lost| from.min(lost).max(folded));
                ages.push(AgeSpan { age, from, to: to.max(oldest).min(basis.head) });
            }
            Ok(Some(Search::new(basis.clone(), ages, now)))
        })
    }

    /// Removes the content that was marked before the grace period.
    fn remove_contents(&self, times: Times, collected: &mut Collected) -> Result<()> {
        let mut after = content_gone::FIRST_MARK;
        let times = times.at(self.inner.runtime.env().now());
        let before = times.removed_before.0;
        // The clock was ahead. The grace period begins now, not when it gets there again.
        let env = self.inner.runtime.env();
        while self.with_view(|view| content_gone::is_any_ahead(view.conn, env.now().0))? {
            let env = env.clone();
            self.step(move |conn, _| content_gone::mark_again(conn, env.now().0, PIECE))?;
        }
        while let Some((span, key)) =
            self.with_view(|view| content_gone::next_marked(view.conn, before, after))?
        {
            after = key;
            let mut place = None;
            loop {
                let fs = self.whole();
                let (removed, next) = self.step(move |conn, turn| {
                    let read = holds::all_read(conn, &fs.inner.pasts, times.now)?;
                    let mut removed = RemovedPast::default();
                    let next =
                        remove_content(conn, &fs.inner.open, &read, (span, place), &mut removed, turn)?;
                    fs.inner.runtime.failpoints().pass("content-remove")?;
                    Ok((removed, next))
                })?;
                collected.content_bytes += removed.bytes;
                place = next;
                if place.is_none() {
                    break;
                }
            }
        }
        Ok(())
    }
}

/// Returns the commits to search for old content of an age.
pub(super) fn to_search(view: &ReadView<'_>, age: Duration, now: Timestamp) -> DbResult<AgeSpan> {
    let place = (retention::searched(view.conn, age)?, reached(view.conn)?);
    content_search::to_search(view.rows, age, place, now)
}

/// Marks the old content of a file. Returns false if the turn ended before. The view reaches the whole
/// account.
fn mark_file(
    view: &ReadView<'_>,
    search: &Search,
    read: &BTreeSet<u64>,
    ino: u64,
    files: &mut Files,
    turn: &mut Turn,
) -> DbResult<bool> {
    let conn = view.conn;
    if nodes::version(conn, ino, MAX)?.is_none_or(|node| node.kind != Kind::File) {
        return Ok(true);
    }
    let (from, to) = search.span;
    let mut at = files.place.unwrap_or(from);
    let mut contents = EndedContents::after(nodes::content_at(conn, ino, at)?);
    let mut judged = None;
    loop {
        let versions = nodes::contents(conn, ino, (at, to), PIECE)?;
        let Some(last) = versions.last() else { return Ok(true) };
        at = last.seq;
        for version in versions {
            if let Some(since) = contents.next(version)
                && is_searched(&search.ages, version.seq)
            {
                // Judged only now: most changes replace no content.
                let keep = match judged {
                    Some(known) => known,
                    None => {
                        let names = judged_names(&view.tree, ino)?;
                        *judged.insert(search.basis.limits.keep_of(&names))
                    }
                };
                if keep == Keep::WithLog {
                    return Ok(true);
                }
                mark_span(conn, search, read, Span { ino, since, till: version.seq }, keep, files)?;
            }
        }
        files.place = Some(at);
        if turn.is_over() {
            return Ok(false);
        }
    }
}

/// Returns the contents of a file that a search would mark. `read` are the states that open views show. The
/// view reaches the whole account.
pub(super) fn would_mark(
    view: &ReadView<'_>,
    search: &Search,
    read: &BTreeSet<u64>,
    ino: u64,
    env: &Env,
) -> DbResult<Vec<Span>> {
    let mut files = Files { would_mark: Some(Vec::new()), ..Files::default() };
    // In one read, as a file has few versions: a turn only bounds the time of a writer.
    while !mark_file(view, search, read, ino, &mut files, &mut Turn::begin(env))? {}
    Ok(files.would_mark.unwrap_or_default())
}

/// Marks content that is kept for `keep`, unless it is newer or something still shows it.
fn mark_span(
    conn: &Connection,
    search: &Search,
    read: &BTreeSet<u64>,
    span: Span,
    keep: Keep,
    files: &mut Files,
) -> DbResult<()> {
    // Less than the age for a file that was moved to a stricter class after the search for the time of that
    // class.
    if ages_of(&search.ages, span.till, keep).next().is_none() {
        return Ok(());
    }
    if span.since >= span.till || !is_free(span, &search.basis.kept) {
        return Ok(());
    }
    if !is_free(span, read) {
        for age in ages_of(&search.ages, span.till, keep) {
            let first = files.first_read.entry(age).or_insert(span.till);
            *first = span.till.min(*first);
        }
        return Ok(());
    }
    if let Some(would_mark) = &mut files.would_mark {
        if !content_gone::is_marked(conn, span)? {
            would_mark.push(span);
        }
        return Ok(());
    }
    if !content_gone::mark(conn, span, search.now.0)? {
        return Ok(());
    }
    files.marked += 1;
    if nodes::last_unlink(conn, span.ino)? == Some(span.till) {
        // Its content goes once nobody holds it open: processes that do take leases.
        leases::put_unnamed(conn, span.ino)?;
    }
    Ok(())
}

/// Removes the extents that only the states of a span show, with those of adjacent spans that are removed.
/// Does nothing while somebody may still read them. Returns the end and offset from which to continue if the
/// turn ended before all were removed.
fn remove_content(
    conn: &Connection,
    open: &OpenNodes,
    read: &BTreeSet<u64>,
    (span, place): (Span, Option<(u64, u64)>),
    removed: &mut RemovedPast,
    turn: &mut Turn,
) -> DbResult<Option<(u64, u64)>> {
    // Another collection may have removed it.
    let Some(has_begun) = content_gone::is_being_removed(conn, span)? else { return Ok(None) };
    // Its last content is live, as nothing replaced it.
    let is_last = nodes::last_unlink(conn, span.ino)? == Some(span.till);
    if is_last && (open.is_open(span.ino) || leases::is_unnamed(conn, span.ino)?) {
        return Ok(None);
    }
    if !has_begun {
        // A view of another process, which was opened before the mark.
        if !is_free(span, read) {
            return Ok(None);
        }
        content_gone::begin_removal(conn, span)?;
    }
    let mut joined = content_gone::with_adjacent(conn, span)?;
    if is_last {
        joined.till = MAX;
    }
    // Live ones, if any go, then those that ended in the span: earlier ones are removed, or something shows
    // them.
    let mut from = place.unwrap_or(if is_last { (0, 0) } else { (span.since + 1, 0) });
    loop {
        let mut found = extents::since(conn, span.ino, span.since, from, PIECE)?;
        let Some((till, off)) = found.last().map(|(till, row)| (*till, row.off)) else { break };
        from = (till, off + 1);
        // Those that began before the span are shown by earlier states as well.
        found.retain(|(till, row)| *till <= joined.till && row.since >= joined.since);
        let found: Vec<Removable> = found.into_iter().map(Removable::from).collect();
        removed.remove_extents(conn, span.ino, &found)?;
        if till > joined.till {
            break;
        }
        if turn.is_over() {
            return Ok(Some(from));
        }
    }
    content_gone::settle(conn, span, joined)?;
    Ok(None)
}

#[cfg(test)]
mod tests;
