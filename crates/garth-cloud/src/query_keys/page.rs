//! Page of a find, which is filled from keys with the names of their nodes.

use std::collections::HashSet;

use garth_engine::TreePath;
use garth_engine::model::find::FindPlace;
use garth_engine::model::{Filling, FindAnswer, FindCursor, FindItem, FindQuery, Ino, Within};
use garth_engine::rule::projection::ContentProjection;

use super::keys::{Key, Name, Span};

/// Page that is being filled.
pub(super) struct Page<'a> {
    query: &'a FindQuery,
    within: &'a Within,
    of_content: Option<&'a ContentProjection>,
    filling: Filling<FindItem>,
    lines_from: u64,
    /// Place of the last item that was returned or examined.
    at: Option<FindPlace>,
    /// Paths that a gate hides.
    hidden: HashSet<TreePath>,
}

impl<'a> Page<'a> {
    pub(super) fn new(
        within: &'a Within,
        of_content: Option<&'a ContentProjection>,
        query: &'a FindQuery,
        at: Option<FindPlace>,
    ) -> Self {
        // The database stores no larger number, so no line has one.
        let lines_from = query.lines_from.min(i64::MAX.cast_unsigned());
        let filling = Filling::new(query.limit);
        Self { query, within, of_content, filling, lines_from, at, hidden: HashSet::new() }
    }

    /// Returns the place after which the next keys are read.
    pub(super) fn span(&self, is_by_line: bool) -> Span {
        match &self.at {
            Some(at) => {
                let line = i64::try_from(at.line).unwrap_or(i64::MAX);
                // A key whose paths were not all returned is read once more.
                let line = if at.path.is_some() { line - 1 } else { line };
                Span { key: at.key.clone(), ino: i64::try_from(at.ino).unwrap_or(i64::MAX), line }
            }
            // The empty key marks where a projection by line continues. It belongs to no line.
            None if self.query.from.is_empty() && is_by_line && !self.query.is_of_ends() => {
                Span { key: String::new(), ino: i64::MAX, line: 0 }
            }
            None => Span { key: self.query.from.clone(), ino: 0, line: 0 },
        }
    }

    /// Returns the number of items that still fit.
    pub(super) fn room(&self) -> usize {
        self.filling.room()
    }

    /// Hides paths.
    pub(super) fn hide(&mut self, paths: HashSet<TreePath>) {
        self.hidden = paths;
    }

    /// Returns the keys after the last returned one.
    pub(super) fn behind(&self, mut keys: Vec<Key>) -> Vec<Key> {
        keys.retain(|key| self.at.as_ref().is_none_or(|at| key.place.is_behind(at)));
        keys
    }

    /// Returns the answer of a few keys, of which `all` are the most that are read; `None` if a node has
    /// names that were not read.
    pub(super) fn of_few(mut self, keys: Vec<Key>, all: usize) -> Option<FindAnswer> {
        let keys = self.behind(keys);
        if keys.iter().any(Key::has_more_names) {
            return None;
        }
        let has_room = keys.len() < all;
        let is_full = !self.give_all(keys);
        Some(self.done(is_full || !has_room))
    }

    /// Returns the name after which those of a key follow: the last one that was returned of it.
    pub(super) fn after(&self, key: &Key) -> Name {
        let own = self.at.as_ref().filter(|at| is_same_row(at, &key.place));
        own.and_then(|at| at.path.clone()).unwrap_or_default()
    }

    /// Returns the paths of a key that may be in the answer, unless a gate hides them.
    pub(super) fn paths(&self, key: &Key) -> Vec<TreePath> {
        if !key.is_live || key.place.line < self.lines_from {
            return Vec::new();
        }
        let paths = self.names(key).into_iter().map(|name| path_of(key.ino(), &name));
        paths.filter(|path| self.of_content.is_none_or(|one| one.has(path))).collect()
    }

    /// Adds the paths of these keys. Returns false if the page is full before the last one.
    pub(super) fn give_all(&mut self, keys: Vec<Key>) -> bool {
        keys.into_iter().all(|key| self.give(key))
    }

    /// Adds the paths of a key's node. Returns false if the page is full before the last one.
    fn give(&mut self, key: Key) -> bool {
        let is_by_line = self.of_content.is_some_and(ContentProjection::is_by_line);
        // The key counts as examined, so that the next page does not read it again.
        if key.is_live && key.place.line >= self.lines_from {
            let after = self.after(&key);
            // If the last page ended within the paths of this key, the rest of them follow.
            for name in self.names(&key).into_iter().filter(|name| *name > after) {
                let path = path_of(key.ino(), &name);
                let has_other = self.of_content.is_some_and(|one| !one.has(&path));
                if has_other || self.hidden.contains(&path) {
                    continue;
                }
                let line = is_by_line.then(|| (key.place.line, key.off..key.off + key.len));
                let item = FindItem::new(key.place.key.clone(), path, Ino(key.ino()), line);
                if !self.filling.push(item) {
                    return false;
                }
                self.at = Some(FindPlace { path: Some(name), ..key.place.clone() });
            }
        }
        self.at = Some(key.place);
        true
    }

    /// Returns the names of a key's node in the requested subtrees.
    fn names(&self, key: &Key) -> Vec<Name> {
        if key.ino() == Ino::ROOT.0 {
            // The root has no name, but a path.
            let is_within = self.within.contains(&TreePath::root());
            return Vec::from_iter(is_within.then(|| (String::new(), "/".to_owned())));
        }
        let is_within = |(dir, name): &&Name| self.within.contains(&TreePath::from_row(dir, name));
        key.names.iter().filter(is_within).cloned().collect()
    }

    /// Returns the answer. `has_more` tells whether more may follow.
    pub(super) fn done(self, has_more: bool) -> FindAnswer {
        let next = self.at.filter(|_| has_more).map(FindCursor::behind);
        FindAnswer::new(self.filling.done().items, next)
    }
}

fn is_same_row(one: &FindPlace, other: &FindPlace) -> bool {
    (&one.key, one.ino, one.line) == (&other.key, other.ino, other.line)
}

fn path_of(ino: u64, (dir, name): &Name) -> TreePath {
    if ino == Ino::ROOT.0 { TreePath::root() } else { TreePath::from_row(dir, name) }
}
