//! Reads through gates: the entries of a directory that a handle sees, in each state that a read is about,
//! and the directory itself, which does not show what is hidden in it.

use std::rc::Rc;

use crate::engine::planner::{Key, NameRow, NodeRow};
use crate::engine::relational::gates::HiddenEntry;
use crate::engine::relational::reads::gate_files::GateFiles;
use crate::engine::relational::reads::gated_facts::{GatedFacts, Passing};
use crate::engine::relational::reads::open_entries::OpenEntries;
use crate::engine::relational::reads::path_versions::PathVersions;
use crate::engine::relational::reads::tree_rows::{CommitSpan, PageRow, Read, TreeRows};
use crate::engine::relational::reads::tree_view::TreeView;
use crate::error::Error;
use crate::model::{At, Filling, HistoryPage, Ino, Kind, Listing, Version, VersionId, Within};
use crate::path::TreePath;

/// Hidden rows that a listing or walk passes one by one, before it asks the index which entries may be
/// visible.
const FEW_HIDDEN: usize = 32;

/// Names of a node that are judged at a time.
const NAMES: usize = 64;

impl<R: TreeRows> TreeView<'_, R> {
    /// Returns true if no entry of a directory is hidden by its keys.
    pub(crate) fn is_ungated(&self) -> bool {
        self.reach.gates.is_empty()
    }

    /// Returns true if every path is in reach, in each state.
    pub(crate) fn sees_everything(&self) -> bool {
        self.reach.within.is_everything() && self.is_ungated()
    }

    /// Returns true if a path is in reach in the state of this view.
    pub(crate) fn reaches(&self, path: &TreePath) -> Read<R, bool> {
        Ok(self.reach.within.contains(path) && self.is_open(path)?)
    }

    fn gate_files(&self) -> GateFiles<R> {
        // A read sees only what was committed.
        GateFiles { rows: self.rows, settled: u64::MAX }
    }

    /// Returns true if no gate hides a path in the state of this view. Where nothing exists, nothing is
    /// hidden.
    ///
    /// # Errors
    /// Errors of the database.
    pub fn is_open(&self, path: &TreePath) -> Read<R, bool> {
        Ok(self.is_ungated() || self.hiding(path)?.is_none())
    }

    fn hiding(&self, path: &TreePath) -> Read<R, Option<HiddenEntry>> {
        self.reach.gates.hiding(&self.gate_files(), path, self.seq())
    }

    /// Returns true if no gate hid what a path named after commit `seq`.
    pub(crate) fn was_open(&self, path: &TreePath, seq: u64) -> Read<R, bool> {
        Ok(self.is_ungated() || self.reach.gates.opened(&self.gate_files(), path, seq)?)
    }

    /// Returns true if no gate hides a name in the state of this view.
    fn is_open_name(&self, dir: &str, name: &str) -> Read<R, bool> {
        Ok(self.is_ungated() || self.is_open(&TreePath::from_row(dir, name))?)
    }

    /// Returns true if no gate hid what a name was of after commit `seq`.
    pub(crate) fn was_open_name(&self, (dir, name): (&str, &str), seq: u64) -> Read<R, bool> {
        Ok(self.is_ungated() || self.was_open(&TreePath::from_row(dir, name), seq)?)
    }

    /// Returns the entry that hides a row of a page, in the state of this view.
    pub(crate) fn hidden_entry(&self, row: &PageRow) -> Read<R, Option<HiddenEntry>> {
        match self.is_ungated() {
            true => Ok(None),
            false => self.hiding(&TreePath::from_row(&row.dir, &row.name)),
        }
    }

    /// Returns the effect of gates on a row of a page of the newest state.
    pub(crate) fn passing(&self, row: &PageRow) -> Read<R, Passing> {
        let Some(hidden) = self.hidden_entry(row)? else { return Ok(Passing::Shown) };
        if let Some(open) = self.open_entries(hidden.gate)? {
            return Ok(Passing::HiddenTo(open.place_after((&row.dir, &row.name))));
        }
        let end = hidden.end_in(&row.dir);
        Ok(end.map_or(Passing::Hidden, |end| Passing::HiddenTo((end, String::new()))))
    }

    /// Returns the entries that may pass a gate, once the read has passed several hidden rows. Few rows cost
    /// less than this look-up.
    fn open_entries(&self, gate: usize) -> Read<R, Option<Rc<OpenEntries>>> {
        let GatedFacts { passed, open, .. } = &self.gated;
        passed.set(passed.get() + 1);
        if passed.get() <= FEW_HIDDEN {
            return Ok(None);
        }
        if let Some(known) = open.borrow().get(&gate) {
            return Ok(known.clone());
        }
        let found = match self.reach.gates.gate(gate) {
            Some(gate) => OpenEntries::of(self.rows, gate)?.map(Rc::new),
            None => None,
        };
        open.borrow_mut().insert(gate, found.clone());
        Ok(found)
    }

    /// Returns at most `limit` names that a node has in the newest state within some subtrees, after a
    /// directory and name, in that order.
    pub(crate) fn names_now(
        &self,
        ino: u64,
        within: &Within,
        after: (&str, &str),
        limit: usize,
    ) -> Read<R, Vec<Key>> {
        if self.is_ungated() {
            return self.rows.names_after(ino, within, after, limit);
        }
        // Hidden names must not take the place of others.
        let (mut open, mut behind) = (Vec::new(), (after.0.to_owned(), after.1.to_owned()));
        loop {
            let names = self.rows.names_after(ino, within, (&behind.0, &behind.1), NAMES)?;
            let last = names.last().filter(|_| names.len() == NAMES).cloned();
            open.extend(self.open_names(names, limit - open.len())?);
            match last.filter(|_| open.len() < limit) {
                Some(last) => behind = last,
                None => return Ok(open),
            }
        }
    }

    /// Returns the first `limit` of some names of this state that no gate hides.
    pub(crate) fn open_names(&self, keys: Vec<Key>, limit: usize) -> Read<R, Vec<Key>> {
        let mut open = Vec::new();
        for (dir, name) in keys {
            if open.len() == limit {
                break;
            }
            if self.is_open_name(&dir, &name)? {
                open.push((dir, name));
            }
        }
        Ok(open)
    }

    /// Returns the paths among these of which no gate hid what they named after commit `seq`.
    pub(crate) fn open_paths(&self, paths: Vec<TreePath>, seq: u64) -> Read<R, Vec<TreePath>> {
        if self.is_ungated() {
            return Ok(paths);
        }
        let mut open = Vec::with_capacity(paths.len());
        for path in paths {
            if self.was_open(&path, seq)? {
                open.push(path);
            }
        }
        Ok(open)
    }

    /// Returns true if a node had a name in reach in a span of commits. A name is judged by the last state
    /// that has it: what was said in a session before it got its file is of the session.
    pub(crate) fn was_reached(&self, ino: u64, span: CommitSpan) -> Read<R, bool> {
        if self.is_ungated() {
            return Ok(!self.rows.names_in_span(ino, span, &self.reach.within, 1)?.is_empty());
        }
        let mut is_reached = false;
        self.rows.each_name(ino, span, &self.reach.within, &mut |(dir, name), last| {
            is_reached = self.was_open_name((&dir, &name), last.min(self.seq()))?;
            Ok(!is_reached)
        })?;
        Ok(is_reached)
    }

    /// Returns true if a node has a name in reach in a state, judged in the state of this view.
    pub(crate) fn has_open_name(&self, ino: u64, span: CommitSpan) -> Read<R, bool> {
        let mut is_open = false;
        self.rows.each_name(ino, span, &self.reach.within, &mut |(dir, name), _| {
            is_open = self.is_open_name(&dir, &name)?;
            Ok(!is_open)
        })?;
        Ok(is_open)
    }

    /// Returns the commit that gave a gated directory its name, for its inode; `None` for any other node.
    pub(crate) fn gated_since(&self, ino: u64) -> Read<R, Option<u64>> {
        if self.is_ungated() {
            return Ok(None);
        }
        let known = match self.gated.names.get() {
            Some(known) => known,
            None => {
                let read = self.gated_directories()?;
                self.gated.names.get_or_init(|| read)
            }
        };
        Ok(known.iter().find(|row| row.ino == ino).map(|row| row.since))
    }

    fn gated_directories(&self) -> Read<R, Vec<NameRow>> {
        let mut rows = Vec::new();
        for path in self.reach.gates.directories() {
            let Some((dir, name)) = path.key().rsplit_once('/') else { continue };
            rows.extend(self.name(dir, name)?);
        }
        Ok(rows)
    }

    /// Returns a node as the view sees it. A gated directory is as it was created: its versions, times and
    /// links count entries that are hidden.
    pub(crate) fn masked(&self, node: NodeRow) -> Read<R, NodeRow> {
        if node.kind != Kind::Directory {
            return Ok(node);
        }
        let Some(since) = self.gated_since(node.ino)? else { return Ok(node) };
        let made = node.birthtime;
        // As some file systems have it: with one link, it is unknown how many directories there are.
        let nlink = node.nlink.min(1);
        Ok(NodeRow { nlink, seq: since, content_seq: since, mtime: made, ctime: made, ..node })
    }

    /// Returns the only version of a gated directory that the view sees; `None` for any other address. The
    /// author of its commit is another session than those that the view sees.
    pub(crate) fn gated_history(
        &self,
        at: &At,
        path: Option<&TreePath>,
        page: &HistoryPage,
    ) -> Read<R, Option<Listing<Version>>> {
        let is_gated = match (path, at) {
            (Some(path), _) => self.reach.gates.directories().any(|dir| dir == path),
            (None, At::Node(ino)) => self.gated_since(ino.0)?.is_some(),
            (None, _) => false,
        };
        if !is_gated {
            return Ok(None);
        }
        let node = match path {
            Some(path) => self.find(path)?,
            None => self.at(at)?,
        };
        let ino = Ino(node.ino);
        let entry = self.entry(node)?;
        let id = VersionId { seq: entry.version.seq, ino };
        let commit = self.commit(id.seq.0)?.unsigned();
        let mut filling = Filling::new(page.limit);
        if page.before.is_none_or(|before| (id.seq, id.ino) < (before.seq, before.ino)) {
            filling.push(Version { id, commit, entry: Some(Box::new(entry)) });
        }
        Ok(Some(filling.done()))
    }

    /// Returns true if a version of a node exists and may be opened by its id.
    pub(crate) fn may_open(&self, version: &NodeRow) -> Read<R, bool> {
        // The versions of a gated directory tell when hidden entries were created.
        Ok(self.gated_since(version.ino)?.is_none() && !self.is_end(version)? && self.is_shown(version)?)
    }

    /// Fails with the error of a path that never named anything, if a view with gates finds no version of it.
    /// A page further back is also empty where all versions are newer.
    pub(crate) fn check_any_shown(
        &self,
        path: &TreePath,
        page: &HistoryPage,
        found: &Listing<Version>,
    ) -> Read<R, ()> {
        if !found.items.is_empty() || !self.reach.gates.cover(path) {
            return Ok(());
        }
        match page.before.is_some() && PathVersions::of_path(self, path, None)?.next()?.is_some() {
            true => Ok(()),
            false => Err(Error::not_found(path).into()),
        }
    }
}
