//! The versions of all that a path ever named, newest first, from any version on: only what is given is
//! looked up, however often the path was made and removed.
//!
//! A node counts from its first version, wherever that was, until the path last ceased to name it. So a page
//! merges the versions of several nodes: of the one at the path at its start, of those that came before it,
//! as their ends are reached, and of those that came to the path later but existed then already.

use std::collections::{BTreeSet, HashSet};

use crate::engine::sqlite::query::read_view::ReadView;
use crate::engine::sqlite::tables::MAX;
use crate::engine::sqlite::tables::past_names::{self, NameSpan};
use crate::error::Error;
use crate::model::{Ino, VersionId};
use crate::path::TreePath;
use crate::sqlite::DbResult;

/// A version: sequence, node, and whether it is the end of the node's stay at the path. The order in which
/// they are given is this one backwards, and an end comes in place of the node's own version.
type Key = (u64, u64, bool);

/// See the module.
pub(crate) struct PathVersions<'a> {
    view: &'a ReadView<'a>,
    dir: &'a str,
    name: &'a str,
    /// Only versions before this one.
    before: Key,
    /// The next version of each node that is under way, and ends.
    heads: BTreeSet<Key>,
    /// Nodes that are or were under way.
    seen: HashSet<u64>,
    /// The newest span whose end is not reached yet, and when the one after it began.
    span: Option<NameSpan>,
    newer_since: Option<u64>,
    last: Option<(u64, u64)>,
}

impl<'a> PathVersions<'a> {
    /// The versions of a path before one; `NotFound` if nothing ever was there.
    pub(crate) fn of_path(
        view: &'a ReadView<'a>,
        path: &'a TreePath,
        before: Option<VersionId>,
    ) -> DbResult<Self> {
        let Some((dir, name)) = path.key().rsplit_once('/') else {
            return Self::of_node(view, Ino::ROOT.0, before);
        };
        let mut versions = Self::new(view, (dir, name), before);
        if !past_names::was_used(view.conn, dir, name, view.seq())? {
            return Err(Error::not_found(path).into());
        }
        // the newest commit that can be shown
        let start = versions.before.0.min(view.seq());
        if let Some(there) = past_names::get_at(view.conn, dir, name, start)? {
            versions.newer_since = Some(there.since);
            versions.begin(there.ino)?;
        }
        for ino in past_names::came_later(view.conn, (dir, name), start, view.seq())? {
            versions.begin(ino)?;
        }
        versions.span = past_names::ended_before(view.conn, dir, name, start.saturating_add(1))?;
        Ok(versions)
    }

    /// The versions of a node before one.
    pub(crate) fn of_node(view: &'a ReadView<'a>, ino: u64, before: Option<VersionId>) -> DbResult<Self> {
        let mut versions = Self::new(view, ("", ""), before);
        versions.begin(ino)?;
        Ok(versions)
    }

    fn new(view: &'a ReadView<'a>, (dir, name): (&'a str, &'a str), before: Option<VersionId>) -> Self {
        let newest = (view.seq().saturating_add(1).min(MAX), 0, false);
        let before = before.map_or(newest, |id| (id.seq.0.min(MAX), id.ino.0.min(MAX), false)).min(newest);
        let (heads, seen) = (BTreeSet::new(), HashSet::new());
        Self { view, dir, name, before, heads, seen, span: None, newer_since: None, last: None }
    }

    /// Sequence and node of the next version, and whether the node was there in it.
    pub(crate) fn next(&mut self) -> DbResult<Option<(u64, u64, bool)>> {
        loop {
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

    /// Adds what a span has to give, and looks up the one before it.
    fn add_span(&mut self, span: &NameSpan) -> DbResult<()> {
        let end = (span.till, span.ino, true);
        // where another node took its place in that commit, the name did not end
        if self.newer_since != Some(span.till) && (span.till, span.ino) < (self.before.0, self.before.1) {
            self.heads.insert(end);
        }
        if self.seen.insert(span.ino) {
            self.go_on(span.ino, (span.till, 0, false))?;
        }
        self.newer_since = Some(span.since);
        self.span = past_names::ended_before(self.view.conn, self.dir, self.name, span.till)?;
        Ok(())
    }

    /// Begins with a node's versions.
    fn begin(&mut self, ino: u64) -> DbResult<()> {
        if self.seen.insert(ino) { self.go_on(ino, self.before) } else { Ok(()) }
    }

    /// Looks up the next version of a node.
    fn go_on(&mut self, ino: u64, (seq, than, _): Key) -> DbResult<()> {
        let below = if ino < than { seq.saturating_add(1) } else { seq };
        let found = self.view.shown_before(ino, below.min(MAX))?;
        self.heads.extend(found.map(|seq| (seq, ino, false)));
        Ok(())
    }
}
