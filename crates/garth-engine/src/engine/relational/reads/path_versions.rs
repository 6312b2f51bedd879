//! The versions of all nodes that a path ever named, newest first, from any version on. Only the returned
//! versions are looked up, however often the path was created and removed.
//!
//! A node counts from its first version, wherever that was, until the path last ceased to name it. A page
//! therefore merges the versions of several nodes: of the node at the path at the start of the page, of those
//! that it named before, as their ends are reached, and of those that existed then and got the path later.

use std::collections::{BTreeSet, HashSet};

use crate::engine::relational::reads::tree_rows::{MAX, NameSpan, Read, TreeRows};
use crate::engine::relational::reads::tree_view::TreeView;
use crate::error::Error;
use crate::model::{Ino, VersionId};
use crate::path::TreePath;

/// A version: sequence number, inode, and true for the end of the node's time at the path. Versions are
/// returned in descending order. An end replaces the version of the node in the same commit.
type Key = (u64, u64, bool);

/// See the module.
pub(crate) struct PathVersions<'a, R: TreeRows> {
    view: &'a TreeView<'a, R>,
    dir: &'a str,
    name: &'a str,
    /// Only versions before this one.
    before: Key,
    /// The next version of each node that is being merged, and ends.
    heads: BTreeSet<Key>,
    /// Nodes that are or were being merged.
    seen: HashSet<u64>,
    /// The newest span whose end has not been reached.
    span: Option<NameSpan>,
    /// Start of the span after that one.
    newer_since: Option<u64>,
    /// First commit whose state is readable. Spans that ended up to there are not kept.
    oldest: u64,
    last: Option<(u64, u64)>,
}

impl<'a, R: TreeRows> PathVersions<'a, R> {
    /// Returns the versions of a path before one; fails with `NotFound` if the path never named anything.
    pub(crate) fn of_path(
        view: &'a TreeView<'a, R>,
        path: &'a TreePath,
        before: Option<VersionId>,
    ) -> Read<R, Self> {
        let Some((dir, name)) = path.key().rsplit_once('/') else {
            return Self::of_node(view, Ino::ROOT.0, before);
        };
        let mut versions = Self::new(view, (dir, name), before)?;
        if !view.rows.was_used((dir, name), versions.oldest, view.seq())? {
            return Err(Error::not_found(path).into());
        }
        // The newest commit that can be returned, or the oldest state, which has the rest.
        let start = versions.before.0.min(view.seq()).max(versions.oldest);
        if let Some(there) = view.rows.name(dir, name, start)? {
            versions.newer_since = Some(there.since);
            versions.begin(there.ino)?;
        }
        for ino in view.rows.came_later((dir, name), start, view.seq())? {
            versions.begin(ino)?;
        }
        versions.span = versions.span_before(start.saturating_add(1))?;
        versions.check_start()?;
        Ok(versions)
    }

    /// Returns the versions of a node before one.
    pub(crate) fn of_node(view: &'a TreeView<'a, R>, ino: u64, before: Option<VersionId>) -> Read<R, Self> {
        let mut versions = Self::new(view, ("", ""), before)?;
        versions.begin(ino)?;
        versions.check_start()?;
        Ok(versions)
    }

    fn new(
        view: &'a TreeView<'a, R>,
        (dir, name): (&'a str, &'a str),
        before: Option<VersionId>,
    ) -> Read<R, Self> {
        let newest = (view.seq().saturating_add(1).min(MAX), 0, false);
        let before = before.map_or(newest, |id| (id.seq.0.min(MAX), id.ino.0.min(MAX), false)).min(newest);
        let (heads, seen, oldest) = (BTreeSet::new(), HashSet::new(), view.oldest()?);
        Ok(Self { view, dir, name, before, heads, seen, span: None, newer_since: None, oldest, last: None })
    }

    /// Fails with `Gone` for a page that begins before the oldest state: the versions there are not kept.
    /// Only after a version that this state shows, the page continues with those of other nodes.
    fn check_start(&self) -> Read<R, ()> {
        let (seq, ino, _) = self.before;
        if self.oldest == 0 || seq > self.oldest {
            return Ok(());
        }
        let is_next = self.seen.contains(&ino) && self.view.shown_before(ino, seq + 1)? == Some(seq);
        if is_next { Ok(()) } else { Err(Error::gone(self.oldest).into()) }
    }

    /// Returns the newest span that ended before commit `till` and is kept.
    fn span_before(&self, till: u64) -> Read<R, Option<NameSpan>> {
        let span = self.view.rows.ended_before(self.dir, self.name, till)?;
        Ok(span.filter(|span| span.till > self.oldest))
    }

    /// Returns sequence number and inode of the next version, and false for an end.
    pub(crate) fn next(&mut self) -> Read<R, Option<(u64, u64, bool)>> {
        loop {
            // A span is used once nothing newer is left: its end may be the next version.
            while let Some(span) =
                self.span.take_if(|span| self.heads.last().is_none_or(|(seq, ..)| *seq <= span.till))
            {
                self.add_span(&span)?;
            }
            let Some((seq, ino, end)) = self.heads.pop_last() else { return Ok(None) };
            if !end {
                self.go_on(ino, (seq, ino, false))?;
            }
            if self.last.replace((seq, ino)) != Some((seq, ino)) {
                return Ok(Some((seq, ino, !end)));
            }
        }
    }

    /// Adds the versions of a span, and looks up the span before it.
    fn add_span(&mut self, span: &NameSpan) -> Read<R, ()> {
        let end = (span.till, span.ino, true);
        // Another node took the path in the same commit, so the path did not end.
        if self.newer_since != Some(span.till)
            && (span.till, span.ino) < (self.before.0, self.before.1)
            && self.view.was_open_name((self.dir, self.name), span.till.saturating_sub(1))?
        {
            self.heads.insert(end);
        }
        if self.seen.insert(span.ino) {
            self.go_on(span.ino, (span.till, 0, false))?;
        }
        self.newer_since = Some(span.since);
        self.span = self.span_before(span.till)?;
        Ok(())
    }

    /// Starts to merge the versions of a node.
    fn begin(&mut self, ino: u64) -> Read<R, ()> {
        if self.seen.insert(ino) { self.go_on(ino, self.before) } else { Ok(()) }
    }

    /// Looks up the next version of a node.
    fn go_on(&mut self, ino: u64, (seq, than, _): Key) -> Read<R, ()> {
        // Within a commit versions are ordered by inode: that of a smaller inode still follows.
        let below = if ino < than { seq.saturating_add(1) } else { seq };
        let found = self.view.shown_before(ino, below.min(MAX))?;
        self.heads.extend(found.map(|seq| (seq, ino, false)));
        Ok(())
    }
}
