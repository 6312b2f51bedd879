//! Lookup of names and nodes in the state that the batch has reached, with its errors; and expiry, which a
//! batch records when it meets an expired node. Why: `docs/decisions/lazy-expiry.md`.

use super::extents::overlapping;
use super::rows::{ExtentRow, NameRow, NodeRow, RowKey, Rows};
use super::state::Planner;
use super::subtrees::{Key, key_of};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{At, ChangeKind, Ino, Kind, Within};
use crate::path::TreePath;

impl<R: Rows> Planner<'_, R> {
    /// Returns a name row as the batch sees it.
    pub(super) fn name(&self, dir: &str, name: &str) -> Result<Option<NameRow>> {
        // Most batches look up before they change a name: no key has to be made for them.
        if !self.delta.names.is_empty()
            && let Some(change) = self.delta.names.get(&(dir.to_owned(), name.to_owned()))
        {
            return Ok(change.after);
        }
        self.database_name(dir, name)
    }

    /// Returns a name row of the database, as the batch has moved it.
    fn database_name(&self, dir: &str, name: &str) -> Result<Option<NameRow>> {
        if !self.delta.subtrees.has_moved_away(dir) {
            return self.rows.name(dir, name);
        }
        // The directory was removed or replaced by the batch: the database has nothing there.
        let Some(source) = self.delta.subtrees.source(dir) else { return Ok(None) };
        Ok(self.rows.name(&source, name)?.map(|row| NameRow { since: self.seq, ..row }))
    }

    /// Changes a name row. The delta keeps the row of the database next to it.
    pub(super) fn set_name(&mut self, key: Key, after: Option<NameRow>) -> Result<()> {
        let before = match self.delta.names.get(&key) {
            Some(change) => change.before,
            None => self.rows.name(&key.0, &key.1)?,
        };
        self.delta.set_name(key, before, after);
        Ok(())
    }

    /// Returns a node as the batch sees it.
    pub(super) fn node(&self, ino: u64) -> Result<NodeRow> {
        if let Some(node) = self.delta.nodes.get(&ino) {
            let (mut node, known) = (node.clone(), self.settled.get(&ino).copied());
            self.subtract_removed_names(&mut node, known.unwrap_or_default())?;
            return Ok(node);
        }
        let mut node = self.rows.node(ino)?.ok_or_else(Error::no_node)?;
        self.subtract_removed_names(&mut node, 0)?;
        Ok(node)
    }

    /// Takes from a node the names that it has in removed regions, from region `from` on. Returns true if
    /// it had any.
    fn subtract_removed_names(&self, node: &mut NodeRow, from: usize) -> Result<bool> {
        let lost = &self.delta.subtrees.lost()[from..];
        // A region holds names of the database, and a node of this batch has none there.
        if lost.is_empty() || node.ino >= self.first_ino || node.nlink == 0 {
            return Ok(false);
        }
        let places = self.places_of_removed_names(node, from);
        let asked = if places.is_everything() { 0 } else { lost.len() };
        let names = self.rows.names_of(node.ino, &places, usize::MAX)?;
        // Nodes with one name, or few, cost no more than any other look-up.
        self.totals.examine(asked + names.len().saturating_sub(1))?;
        let losses = self.delta.subtrees.losses(&names, from);
        for names in &losses {
            node.lose_names(*names, (self.seq, self.time));
        }
        Ok(!losses.is_empty())
    }

    /// Returns where to look for names that a node has in removed regions, from region `from` on. That is
    /// everywhere if the node has fewer names than there are regions: a batch may remove thousands of
    /// subtrees.
    fn places_of_removed_names(&self, node: &NodeRow, from: usize) -> Within {
        let lost = &self.delta.subtrees.lost()[from..];
        // The links of a directory are not its names: it has one name.
        let names = if node.kind == Kind::Directory { 1 } else { node.nlink };
        match names <= lost.len() as u64 {
            true => Within::everything(),
            false => Within::new(lost.iter().map(|region| TreePath::from_key(region.dir.clone()))),
        }
    }

    /// Brings the rows of changed nodes up to date with regions that were removed after the rows were put.
    pub(super) fn apply_removed_regions(&mut self) -> Result<()> {
        let regions = self.delta.subtrees.lost().len();
        if regions == 0 {
            return Ok(());
        }
        let unsettled = self.delta.nodes.values().filter_map(|node| {
            let from = self.settled.get(&node.ino).copied().unwrap_or_default();
            let due = node.ino < self.first_ino && node.nlink > 0 && from < regions;
            due.then(|| RowKey::NamesOf(node.ino, self.places_of_removed_names(node, from), usize::MAX))
        });
        self.prefetch(unsettled);
        for ino in self.delta.nodes.keys().copied().collect::<Vec<_>>() {
            let node = self.node(ino)?;
            if node.nlink == 0 && self.delta.nodes[&ino].nlink > 0 {
                self.end(&node);
            }
            // `node` has subtracted the regions. Putting it records that, so that no later read does it
            // again.
            self.put(node);
        }
        Ok(())
    }

    /// Returns the commit that last changed a node.
    pub(super) fn last_change(&self, node: &NodeRow) -> Result<u64> {
        if node.nlink > 0 {
            return Ok(node.seq);
        }
        // For handles that hold the node open, losing its last name does not count as a change.
        let before = self.rows.node_at_seq(node.ino, node.seq.saturating_sub(1))?;
        Ok(before.map_or(node.seq, |before| node.last_change(&before)))
    }

    /// Puts a new version of a node.
    pub(super) fn put(&mut self, mut node: NodeRow) {
        node.seq = self.seq;
        // The caller got the node from `node`, which has subtracted the names in these regions.
        let regions = self.delta.subtrees.lost().len();
        if regions > 0 {
            self.settled.insert(node.ino, regions);
        }
        self.delta.nodes.insert(node.ino, node);
    }

    /// Puts a new version of a node that may be reached by open handles only: it then needs a lease.
    pub(super) fn put_held(&mut self, node: NodeRow) {
        if node.nlink == 0 {
            self.delta.unnamed.insert(node.ino);
        }
        self.put(node);
    }

    /// Returns the live extents that overlap `from..to`, as the batch sees them.
    pub(super) fn extents(&self, ino: u64, from: u64, to: u64) -> Result<Vec<ExtentRow>> {
        // The database has none of a file that the batch created.
        let unread = match ino < self.first_ino {
            true => self.live.borrow().unread(ino, from, to),
            false => Vec::new(),
        };
        for (start, end) in unread {
            let mut rows = self.rows.extents(ino, start, end)?;
            self.retain_live(ino, &mut rows);
            self.live.borrow_mut().add(ino, (start, end), rows);
        }
        Ok(self.with_added(ino, (from, to), self.live.borrow().overlapping(ino, from, to)))
    }

    /// Returns the extents of a range whose bytes are read. Those of the database are not kept: a rule may
    /// read millions of them, piece by piece, and each piece once.
    pub(super) fn extents_to_read(&self, ino: u64, from: u64, to: u64) -> Result<Vec<ExtentRow>> {
        if ino >= self.first_ino || self.live.borrow().unread(ino, from, to).is_empty() {
            return self.extents(ino, from, to);
        }
        let mut rows = self.rows.extents(ino, from, to)?;
        self.retain_live(ino, &mut rows);
        Ok(self.with_added(ino, (from, to), rows))
    }

    /// Removes the extents of the database that the batch has ended.
    fn retain_live(&self, ino: u64, rows: &mut Vec<ExtentRow>) {
        if let Some(change) = self.delta.extents.get(&ino) {
            rows.retain(|row| !change.closed.contains_key(&row.off));
        }
    }

    /// Adds the extents that the batch has added, in order of their offsets.
    fn with_added(&self, ino: u64, (from, to): (u64, u64), mut rows: Vec<ExtentRow>) -> Vec<ExtentRow> {
        if let Some(change) = self.delta.extents.get(&ino) {
            rows.extend(overlapping(&change.added, from, to));
            rows.sort_unstable_by_key(|row| row.off);
        }
        rows
    }

    /// Reads bytes of a file as the batch sees them; holes are zeros. `from + length` must lie within the
    /// file.
    pub(super) fn read(&self, ino: u64, from: u64, length: u64) -> Result<Vec<u8>> {
        // Zeros first: holes have no extent.
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
        for extent in self.extents_to_read(ino, from, from + length)? {
            let part = extent.cut(from, from + length);
            let chunk = match self.delta.chunks.get(&part.chunk) {
                Some(chunk) => chunk.data.clone(),
                None => self.rows.chunk(part.chunk)?,
            };
            let (at, skip, len) = ((part.off - from) as usize, part.skip as usize, part.len as usize);
            let short = || Error::damaged("stored content is shorter than its extent");
            let piece = chunk.get(skip..skip + len).ok_or_else(short)?;
            bytes[at..at + len].copy_from_slice(piece);
        }
        Ok(bytes)
    }

    /// Returns the path of an address. It need not exist, but the batch must reach it. `At::Node` has no
    /// path of its own.
    pub(super) fn path_at(&mut self, at: &At) -> Result<TreePath> {
        let path = self.named_path(at)?;
        if self.within.contains(&path) { Ok(path) } else { Err(Error::not_found(&path)) }
    }

    /// Returns the path of an address at which a name may be created. Fails with `AccessDenied` for an
    /// excluded path.
    pub(super) fn new_path_at(&mut self, at: &At) -> Result<TreePath> {
        let path = self.named_path(at)?;
        if self.within.contains(&path) {
            return Ok(path);
        }
        if self.within.is_excluded(&path) {
            return Err(Error::closed(&path));
        }
        Err(Error::not_found(&path))
    }

    /// Returns the path of an address, which the batch need not reach.
    fn named_path(&mut self, at: &At) -> Result<TreePath> {
        match at {
            At::Path(path) => Ok(path.clone()),
            At::Child(dir, name) => {
                let node = self.node(dir.0)?;
                let path = self.path_of(dir.0)?;
                if node.kind != Kind::Directory {
                    return Err(Error::not_a_directory(&path));
                }
                let path = path.join(name)?;
                // Unlike a path, such an address may be much shorter than the path that it leads to.
                self.count_path(&path)?;
                Ok(path)
            }
            At::Node(_) => Err(no_name()),
        }
    }

    /// Adds the path of `at` to an error; for an inode, its first name if it has one. Returns the error of
    /// the database instead if that cannot be read.
    pub(super) fn about(&mut self, error: Error, at: &At) -> Error {
        let path = match at {
            At::Path(path) => Ok(path.clone()),
            At::Child(..) => self.path_at(at),
            At::Node(ino) => self.path_of(ino.0),
        };
        match path {
            Ok(path) => error.about(&path),
            Err(none) if none.is_absent() => error,
            Err(unknown) => unknown,
        }
    }

    /// Refuses an address that is not a name.
    pub(super) fn require_name(at: &At) -> Result<()> {
        match at {
            At::Path(_) | At::Child(..) => Ok(()),
            At::Node(_) => Err(no_name()),
        }
    }

    /// Returns the first path of a node, in the order of a walk, among those that the batch reaches.
    pub(super) fn path_of(&mut self, ino: u64) -> Result<TreePath> {
        let node = self.node(ino)?;
        if !self.is_named(&node)? || self.expire_if_due(&node)? {
            return Err(Error::no_node());
        }
        if ino == Ino::ROOT.0 {
            return Ok(TreePath::root());
        }
        let first = self.names_within(ino, self.within)?.into_iter().next();
        first.map(|(dir, name)| TreePath::from_row(&dir, &name)).ok_or_else(Error::no_node)
    }

    /// Returns true if a node has a name that the batch reaches, expired or not. Reads one of its names,
    /// not all.
    pub(super) fn is_named(&self, node: &NodeRow) -> Result<bool> {
        if node.nlink == 0 || self.within.is_everything() {
            return Ok(node.nlink > 0);
        }
        if node.ino == Ino::ROOT.0 {
            // The root has no name, but a path.
            return Ok(self.within.contains(&TreePath::root()));
        }
        let inside = |(dir, name): &Key| self.within.contains(&TreePath::from_row(dir, name));
        if self.delta.given(node.ino).any(inside) {
            return Ok(true);
        }
        // A name of the database may have moved into reach or out of it.
        if !self.delta.subtrees.is_empty() {
            return Ok(!self.names_within(node.ino, self.within)?.is_empty());
        }
        // A name that the batch has taken away does not count: then the others have to be read.
        let some = self.rows.names_of(node.ino, self.within, 1)?;
        match some.iter().any(|key| self.delta.names.contains_key(key)) {
            true => Ok(!self.names_within(node.ino, self.within)?.is_empty()),
            false => Ok(!some.is_empty()),
        }
    }

    /// Returns the names of a node within some subtrees as the batch sees them, in the order of a walk.
    pub(super) fn names_within(&self, ino: u64, within: &Within) -> Result<Vec<Key>> {
        let mut keys = match ino < self.first_ino {
            true if self.delta.subtrees.is_empty() => self.rows.names_of(ino, within, usize::MAX)?,
            true => {
                // `within` is about where a name is now, so the names of the database are filtered after
                // they are moved.
                let all = self.rows.names_of(ino, &Within::everything(), usize::MAX)?;
                self.totals.examine(all.len())?;
                let now = |(dir, name): Key| Some((self.delta.subtrees.now(&dir)?, name));
                let all = all.into_iter().filter_map(now);
                all.filter(|(dir, name)| within.contains(&TreePath::from_row(dir, name))).collect()
            }
            false => Vec::new(),
        };
        self.totals.examine(keys.len())?;
        keys.retain(|key| {
            self.delta.names.get(key).is_none_or(|change| change.after.is_some_and(|row| row.ino == ino))
        });
        let inside = |(dir, name): &&Key| within.contains(&TreePath::from_row(dir, name));
        keys.extend(self.delta.given(ino).filter(inside).cloned());
        keys.sort_unstable();
        keys.dedup();
        Ok(keys)
    }

    /// Returns the node at an address.
    pub(super) fn node_at(&mut self, at: &At) -> Result<NodeRow> {
        match at {
            At::Node(ino) => {
                let node = self.node(ino.0)?;
                // A node without a name in reach still exists for those who hold it open.
                if (!self.is_named(&node)? || self.expire_if_due(&node)?) && !self.rows.is_open(ino.0)? {
                    return Err(Error::no_node());
                }
                // Again: the expiry of its names has changed the node.
                self.node(ino.0)
            }
            At::Path(_) | At::Child(..) => {
                let path = self.path_at(at)?;
                self.find(&path)
            }
        }
    }

    /// Returns the node at a path.
    pub(super) fn find(&mut self, path: &TreePath) -> Result<NodeRow> {
        match self.lookup(path)? {
            Some(node) => Ok(node),
            None => Err(self.lookup_error(path)?),
        }
    }

    /// Returns the node at a path; `None` if nothing exists there, or its directory does not exist.
    pub(super) fn lookup(&mut self, path: &TreePath) -> Result<Option<NodeRow>> {
        let Some((dir, name)) = key_of(path) else { return self.node(Ino::ROOT.0).map(Some) };
        let Some(row) = self.name(&dir, &name)? else { return Ok(None) };
        let node = self.node(row.ino)?;
        // An expired node is absent for every operation, which is why the lookup records its end.
        Ok((!self.expire_if_due(&node)?).then_some(node))
    }

    /// Returns the error of a failed lookup of `path`. Directories above the subtree that the batch reaches
    /// are not looked at: the error must not reveal them.
    pub(super) fn lookup_error(&mut self, path: &TreePath) -> Result<Error> {
        for above in self.ways_to(path) {
            match self.lookup(&above)? {
                None => break,
                Some(node) if node.kind != Kind::Directory => return Ok(Error::not_a_directory(&above)),
                Some(_) => {}
            }
        }
        Ok(Error::not_found(path))
    }

    /// Returns the directories on the way to a path, from the top of the subtree that the batch reaches;
    /// without `/`.
    pub(super) fn ways_to(&self, path: &TreePath) -> impl Iterator<Item = TreePath> + use<R> {
        // Nothing above the top may be looked at, or its kind would show in errors.
        let top = self.within.top_of(path).cloned();
        let ways: Vec<TreePath> = path.ancestors().skip(1).collect();
        ways.into_iter().filter(move |way| top.as_ref().is_some_and(|top| way.is_within(top)))
    }

    /// Refuses the top of a subtree, whose name is out of reach: fails with `Busy`, or the error of its
    /// lookup.
    pub(super) fn reject_top(&mut self, path: &TreePath) -> Result<()> {
        if !self.within.is_top(path) {
            return Ok(());
        }
        self.find(path)?;
        let message = "is the root of this view: only entries in it can be removed, moved or replaced";
        Err(Error::at(ErrorKind::Busy, path, message))
    }

    /// Refuses to move, remove, replace or copy a directory with excluded paths below it: fails with
    /// `Busy`.
    pub(super) fn reject_exclusions(&self, path: &TreePath) -> Result<()> {
        if self.within.exclusions_below(path).next().is_none() {
            return Ok(());
        }
        let message = "contains reserved entries; change the others one by one";
        Err(Error::at(ErrorKind::Busy, path, message))
    }

    /// Returns true if a node has expired, and records its removal.
    pub(super) fn expire_if_due(&mut self, node: &NodeRow) -> Result<bool> {
        if node.nlink == 0 || !node.expired(self.time) {
            return Ok(false);
        }
        self.prefetch_expired(std::slice::from_ref(node))?;
        // Under all of its names, also those that the batch does not reach: expiry is of the node.
        let names = self.names_within(node.ino, &Within::everything())?;
        let bytes: usize = names.iter().map(|(dir, name)| dir.len() + 1 + name.len()).sum();
        self.totals.expired_names(names.len(), bytes)?;
        for (dir, name) in names {
            self.delta.log(ChangeKind::Expired, node.ino, Some(TreePath::from_row(&dir, &name)));
            self.set_name((dir.clone(), name), None)?;
            self.touch_dir(&dir, 0)?;
        }
        let ended = NodeRow { nlink: 0, ..node.clone() };
        self.end(&ended);
        self.put(ended);
        Ok(true)
    }

    /// Sets the times of a directory whose names change. `links` is the change of its link count: 1 or -1
    /// if a directory was added or removed.
    pub(super) fn touch_dir(&mut self, dir: &str, links: i64) -> Result<()> {
        // Most batches write many files in few directories.
        let ino = match self.dirs.get(dir) {
            Some(ino) => *ino,
            None => self.dir_ino(dir)?,
        };
        let mut node = self.node(ino)?;
        node.touch((self.seq, self.time));
        node.nlink = node.nlink.saturating_add_signed(links);
        self.put(node);
        Ok(())
    }

    fn dir_ino(&mut self, dir: &str) -> Result<u64> {
        let path = TreePath::from_key(dir.to_owned());
        let Some((above, name)) = key_of(&path) else { return Ok(Ino::ROOT.0) };
        let row = self.name(&above, &name)?.ok_or_else(|| Error::not_found(&path))?;
        self.dirs.insert(dir.to_owned(), row.ino);
        Ok(row.ino)
    }
}

fn no_name() -> Error {
    Error::invalid("this operation needs a path, not an inode")
}
