//! The versions of all that a path ever named, newest first, from any version on: only what is given is
//! looked up, however often the path was made and removed.
//!
//! A node counts from its first version, wherever that was, until the path last ceased to name it. So a page
//! merges the versions of several nodes: of the one at the path at its start, of those that came before it,
//! as their ends are reached, and of those that came to the path later but existed then already.

use std::collections::{BTreeSet, HashSet};

use rusqlite::params;

use crate::engine::sqlite::read::rows::{self, MAX};
use crate::engine::sqlite::read::view::ReadView;
use crate::error::Error;
use crate::model::{Ino, VersionId};
use crate::path::TreePath;
use crate::sqlite::{DbResult, all, one};

/// A version: sequence, node, and whether it is the end of the node's stay at the path. The order in which
/// they are given is this one backwards, and an end comes in place of the node's own version.
type Key = (u64, u64, bool);

/// A span of commits during which the path named a node, which something ended.
struct Life {
    ino: u64,
    since: u64,
    till: u64,
}

/// See the module.
pub(crate) struct Lives<'a> {
    view: &'a ReadView<'a>,
    dir: &'a str,
    name: &'a str,
    /// Only versions before this one.
    before: Key,
    /// The next version of each node that is under way, and ends.
    heads: BTreeSet<Key>,
    /// Nodes that are or were under way.
    seen: HashSet<u64>,
    /// The newest life whose end is not reached yet, and when the one after it began.
    life: Option<Life>,
    newer_since: Option<u64>,
    last: Option<(u64, u64)>,
}

impl<'a> Lives<'a> {
    /// The versions of a path before one; `NotFound` if nothing ever was there.
    pub(crate) fn of_path(
        view: &'a ReadView<'a>,
        path: &'a TreePath,
        before: Option<VersionId>,
    ) -> DbResult<Self> {
        let Some((dir, name)) = path.key().rsplit_once('/') else {
            return Self::of_node(view, Ino::ROOT.0, before);
        };
        let mut lives = Self::new(view, (dir, name), before);
        if !lives.ever()? {
            return Err(Error::not_found(path).into());
        }
        // the newest commit that can be shown
        let start = lives.before.0.min(view.seq());
        if let Some(there) = rows::name_at(view.conn, dir, name, start)? {
            lives.newer_since = Some(there.since);
            lives.begin(there.ino)?;
        }
        for ino in lives.came_later(start)? {
            lives.begin(ino)?;
        }
        lives.life = lives.ended_before(start.saturating_add(1))?;
        Ok(lives)
    }

    /// The versions of a node before one.
    pub(crate) fn of_node(view: &'a ReadView<'a>, ino: u64, before: Option<VersionId>) -> DbResult<Self> {
        let mut lives = Self::new(view, ("", ""), before);
        lives.begin(ino)?;
        Ok(lives)
    }

    fn new(view: &'a ReadView<'a>, (dir, name): (&'a str, &'a str), before: Option<VersionId>) -> Self {
        let newest = (view.seq().saturating_add(1).min(MAX), 0, false);
        let before = before.map_or(newest, |id| (id.seq.0.min(MAX), id.ino.0.min(MAX), false)).min(newest);
        let (heads, seen) = (BTreeSet::new(), HashSet::new());
        Self { view, dir, name, before, heads, seen, life: None, newer_since: None, last: None }
    }

    /// Sequence and node of the next version, and whether the node was there in it.
    pub(crate) fn next(&mut self) -> DbResult<Option<(u64, u64, bool)>> {
        loop {
            while let Some(life) =
                self.life.take_if(|life| self.heads.last().is_none_or(|(seq, ..)| *seq <= life.till))
            {
                self.reach(&life)?;
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

    /// Adds what a life has to give, and looks up the one before it.
    fn reach(&mut self, life: &Life) -> DbResult<()> {
        let end = (life.till, life.ino, true);
        // where another node took its place in that commit, the name did not end
        if self.newer_since != Some(life.till) && (life.till, life.ino) < (self.before.0, self.before.1) {
            self.heads.insert(end);
        }
        if self.seen.insert(life.ino) {
            self.go_on(life.ino, (life.till, 0, false))?;
        }
        self.newer_since = Some(life.since);
        self.life = self.ended_before(life.till)?;
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

    /// Whether the path ever named anything.
    fn ever(&self) -> DbResult<bool> {
        let sql = "SELECT 1 FROM name WHERE dir = ?1 AND name = ?2 AND since <= ?3
             UNION ALL
             SELECT 1 FROM (SELECT since FROM name_past WHERE dir = ?1 AND name = ?2 ORDER BY till LIMIT 1)
             WHERE since <= ?3
             LIMIT 1";
        Ok(one(self.view.conn, sql, params![self.dir, self.name, self.view.seq()], |_| Ok(()))?.is_some())
    }

    /// The newest life that ended before commit `till`.
    fn ended_before(&self, till: u64) -> DbResult<Option<Life>> {
        let sql = "SELECT ino, since, till FROM name_past WHERE dir = ?1 AND name = ?2 AND till < ?3
             ORDER BY till DESC LIMIT 1";
        one(self.view.conn, sql, params![self.dir, self.name, till.min(MAX)], |row| {
            Ok(Life { ino: row.get(0)?, since: row.get(1)?, till: row.get(2)? })
        })
    }

    /// Nodes that came to the path after commit `seq` and existed then already.
    fn came_later(&self, seq: u64) -> DbResult<Vec<u64>> {
        let live = "SELECT ino FROM name WHERE dir = ?1 AND name = ?2 AND since > ?3 AND since <= ?4
             AND EXISTS (SELECT 1 FROM node WHERE node.ino = name.ino AND seq <= ?3)";
        let until = self.view.seq();
        let mut found =
            all(self.view.conn, live, params![self.dir, self.name, seq, until], |row| row.get(0))?;
        let past = "SELECT ino FROM name_past INDEXED BY name_past_moved
             WHERE dir = ?1 AND name = ?2 AND born_fork = ?5 AND born < since
                 AND since > ?3 AND since <= ?4 AND born <= ?3 AND till > ?3";
        for fork in rows::forks(self.view.conn, seq)? {
            let params = params![self.dir, self.name, seq, until, fork];
            found.extend(all(self.view.conn, past, params, |row| row.get::<_, u64>(0))?);
        }
        Ok(found)
    }
}
