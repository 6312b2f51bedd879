//! `find`: reads keys in their order, and returns the nodes in reach that have them.

use std::collections::BTreeSet;

use rusqlite::params;

use crate::engine::planner::NodeRow;
use crate::engine::sqlite::query::read_view::ReadView;
use crate::engine::sqlite::tables::{MAX, live_names, names_of_node, nodes};
use crate::error::{Error, ErrorKind};
use crate::model::find::FindPlace;
use crate::model::{Filling, FindAnswer, FindCursor, FindItem, FindLine, FindQuery, Ino, Kind, Within};
use crate::path::TreePath;
use crate::rule::projection::ContentProjection;
use crate::sqlite::{DbResult, all};

/// Keys that one call examines.
const LOOKED_AT: usize = if cfg!(test) { 300 } else { 10_000 };
/// Keys that the first scan examines, and limit on the nodes of a subtree whose keys are looked up node by
/// node instead of a longer scan.
const FEW: usize = if cfg!(test) { 100 } else { 1000 };
/// Files requested by name, in each of which a key is looked up.
const FILES: usize = 64;
/// Names of a node that are read at a time.
const NAMES: usize = 64;

/// A key, with the line that has it.
struct Key {
    place: FindPlace,
    off: u64,
    len: u64,
}

/// A find in progress.
struct Find<'a> {
    view: &'a ReadView<'a>,
    /// The requested subtrees, as far as they are in reach.
    within: Within,
    of_content: Option<&'a ContentProjection>,
    filling: Filling<FindItem>,
    lines_from: u64,
    /// Place of the last item that was returned or examined.
    at: Option<FindPlace>,
}

impl ReadView<'_> {
    pub(crate) fn find_keys(&self, query: &FindQuery) -> DbResult<FindAnswer> {
        query.check()?;
        if self.is_past {
            return Err(Error::new(ErrorKind::Unsupported, "past keys are not stored").into());
        }
        let within = match query.within.is_empty() {
            true => self.reach.within.clone(),
            false => Within::new(query.within.iter().cloned()).intersect(&self.reach.within),
        };
        let registry = self.control.registry();
        registry.check(query.projection)?;
        let of_content = registry.projection(query.projection);
        let filling = Filling::new(query.limit);
        let at = query.after.as_ref().map(FindCursor::place).transpose()?.flatten().cloned();
        // SQLite stores no larger number, so no line has one.
        let lines_from = query.lines_from.min(MAX);
        let mut find = Find { view: self, within, of_content, filling, lines_from, at };
        let more = find.run(query)?;
        Ok(FindAnswer {
            items: find.filling.done().items,
            next: find.at.filter(|_| more).map(FindCursor::behind),
        })
    }
}

impl Find<'_> {
    fn is_by_line(&self) -> bool {
        self.of_content.is_some_and(ContentProjection::is_by_line)
    }

    /// Fills the page. Returns true if there may be more.
    fn run(&mut self, query: &FindQuery) -> DbResult<bool> {
        if let Some(keys) = self.of_files(query)? {
            let room = keys.len() < LOOKED_AT;
            return Ok(self.give_all(keys)? || !room);
        }
        // Most queries end here: the page is full, or there are no further keys.
        if !self.scan(query, FEW)? {
            return Ok(false);
        }
        if self.filling.room() == 0 {
            return Ok(true);
        }
        // Many nodes have such keys, and perhaps few of them are in the requested subtrees.
        match self.of_small_subtree(query)? {
            Some(keys) => self.give_all(keys),
            None => self.scan(query, LOOKED_AT),
        }
    }

    /// Examines at most `most` keys in their order. Returns true if there may be more.
    fn scan(&mut self, query: &FindQuery, most: usize) -> DbResult<bool> {
        // A key whose paths were not all returned is read once more.
        let (key, ino, line) = match &self.at {
            Some(at) => (at.key.as_str(), at.ino, i64::try_from(at.line).unwrap_or(i64::MAX)),
            // The empty key marks where a projection by line continues. It belongs to no line.
            None if query.from.is_empty() && self.is_by_line() && !query.is_of_ends() => ("", MAX, 0),
            None => (query.from.as_str(), 0, 0),
        };
        let again = self.at.as_ref().is_some_and(|at| at.path.is_some());
        let line = if again { line - 1 } else { line };
        macro_rules! sql {
            ($until:literal) => {
                concat!(
                    "SELECT key, ino, line, off, len FROM projected
                     WHERE projection = ?1 AND (key, ino, line) > (?2, ?3, ?4)",
                    $until,
                    " ORDER BY key, ino, line LIMIT ?5"
                )
            };
        }
        let mut statement = self.view.conn.prepare_cached(if query.to.is_some() {
            sql!(" AND key < ?6")
        } else {
            sql!("")
        })?;
        let number = query.projection.number();
        let mut found = match &query.to {
            Some(to) => statement.query(params![number, key, ino, line, most, to])?,
            None => statement.query(params![number, key, ino, line, most])?,
        };
        let (mut looked_at, mut node) = (0, None);
        while let Some(row) = found.next()? {
            let place = FindPlace { key: row.get(0)?, ino: row.get(1)?, line: row.get(2)?, path: None };
            if !self.give(Key { place, off: row.get(3)?, len: row.get(4)? }, &mut node)? {
                return Ok(true);
            }
            looked_at += 1;
        }
        Ok(looked_at == most)
    }

    /// Returns the rows of one key in a few files that are requested by name, after the last returned one;
    /// `None` for any other query. The cost does not depend on the other files that have the key.
    fn of_files(&self, query: &FindQuery) -> DbResult<Option<Vec<Key>>> {
        let (Some(key), tops) = (query.one_key(), self.within.tops()) else { return Ok(None) };
        if tops.len() > FILES || self.of_content.is_none() {
            return Ok(None);
        }
        let mut inos = BTreeSet::new();
        for top in tops {
            let Some((dir, name)) = top.key().rsplit_once('/') else { return Ok(None) };
            match live_names::get(self.view.conn, dir, name)? {
                Some(row) if row.kind == Kind::File => inos.insert(row.ino),
                Some(_) => return Ok(None),
                None => false,
            };
        }
        let mut keys = Vec::new();
        let sql = "SELECT line, off, len FROM projected
             WHERE projection = ?1 AND key = ?2 AND ino = ?3 AND line >= ?4 ORDER BY line LIMIT ?5";
        for ino in inos {
            let from = match &self.at {
                Some(at) if at.ino > ino => continue,
                Some(at) if at.ino == ino => at.line.max(self.lines_from),
                _ => self.lines_from,
            };
            // `limit` rows, the last returned one again, and one that shows whether more follow.
            let most = (LOOKED_AT - keys.len()).min(query.limit.saturating_add(2));
            let found =
                all(self.view.conn, sql, params![query.projection.number(), key, ino, from, most], |row| {
                    let place = FindPlace { key: key.to_owned(), ino, line: row.get(0)?, path: None };
                    Ok(Key { place, off: row.get(1)?, len: row.get(2)? })
                })?;
            keys.extend(found);
        }
        keys.retain(|key| self.at.as_ref().is_none_or(|at| key.place.is_behind(at)));
        Ok(Some(keys))
    }

    /// Returns the keys of the nodes in the requested subtrees, after the last returned one; `None` if there
    /// may be many nodes or keys.
    fn of_small_subtree(&self, query: &FindQuery) -> DbResult<Option<Vec<Key>>> {
        if self.within.is_everything() || self.is_by_line() {
            return Ok(None);
        }
        let mut inos = BTreeSet::new();
        if self.within.contains(&TreePath::root()) {
            inos.insert(Ino::ROOT.0);
        }
        let mut left = FEW;
        for top in self.within.tops() {
            let found = live_names::nodes_within(self.view.conn, &self.within, top, left + 1)?;
            // The bound is for all subtrees together.
            let Some(rest) = left.checked_sub(found.len()) else { return Ok(None) };
            left = rest;
            inos.extend(found);
        }
        let mut keys = Vec::new();
        let sql = "SELECT key FROM projected WHERE ino = ?1 AND projection = ?2";
        for ino in inos {
            let own: Vec<String> =
                all(self.view.conn, sql, params![ino, query.projection.number()], |row| row.get(0))?;
            let own = own.into_iter().filter(|key| query.has(key));
            let place = |key| FindPlace { key, ino, line: 0, path: None };
            keys.extend(own.map(|key| Key { place: place(key), off: 0, len: 0 }));
            if keys.len() > LOOKED_AT {
                return Ok(None);
            }
        }
        keys.retain(|key| self.at.as_ref().is_none_or(|at| key.place.is_behind(at)));
        // In the order of a scan, so that a cursor fits both.
        keys.sort_unstable_by(|one, other| one.place.cmp(&other.place));
        Ok(Some(keys))
    }

    /// Adds the paths of these keys to the page. Returns true if the page is full before the last one.
    fn give_all(&mut self, keys: Vec<Key>) -> DbResult<bool> {
        for key in keys {
            if !self.give(key, &mut None)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Adds the paths of a key's node to the page. Returns false if the page is full before the last one.
    /// `known` caches the node of the previous key.
    fn give(&mut self, key: Key, known: &mut Option<NodeRow>) -> DbResult<bool> {
        let Key { place, off, len } = key;
        if place.line < self.lines_from {
            // Counts as examined, so that the next page does not read it again.
            self.at = Some(place);
            return Ok(true);
        }
        if known.as_ref().is_none_or(|node| node.ino != place.ino) {
            *known = nodes::version(self.view.conn, place.ino, MAX)?;
        }
        let there = known.as_ref().filter(|node| node.nlink > 0 && !node.expired(self.view.time));
        // If the last page ended within the paths of this key, the rest of them follow.
        let given = self.at.take_if(|at| (&at.key, at.ino, at.line) == (&place.key, place.ino, place.line));
        let mut after = given.and_then(|at| at.path).unwrap_or_default();
        let mut more = there.is_some();
        while more {
            let names = self.names(place.ino, &after)?;
            more = names.len() == NAMES;
            for (dir, name) in names {
                after = (dir, name);
                let path = match place.ino == Ino::ROOT.0 {
                    true => TreePath::root(),
                    false => TreePath::from_row(&after.0, &after.1),
                };
                let has_other = self.of_content.is_some_and(|one| !one.has(&path));
                if has_other || !self.view.is_open(&path)? {
                    continue;
                }
                let line = self.is_by_line().then(|| FindLine { number: place.line, bytes: off..off + len });
                let item = FindItem { key: place.key.clone(), path, ino: Ino(place.ino), line };
                if !self.filling.push(item) {
                    return Ok(false);
                }
                self.at = Some(FindPlace { path: Some(after.clone()), ..place.clone() });
            }
        }
        self.at = Some(place);
        Ok(true)
    }

    /// Returns up to [`NAMES`] names of a node in reach that follow `(dir, name)`.
    fn names(&self, ino: u64, (dir, name): &(String, String)) -> DbResult<Vec<(String, String)>> {
        if ino == Ino::ROOT.0 {
            // The root has no name, but a path.
            let first = dir.is_empty() && name.is_empty() && self.within.contains(&TreePath::root());
            return Ok(Vec::from_iter(first.then(|| (String::new(), "/".to_owned()))));
        }
        names_of_node::behind(self.view.conn, ino, &self.within, (dir, name), NAMES)
    }
}
