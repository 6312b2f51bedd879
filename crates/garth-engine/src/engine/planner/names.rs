//! Operations on names: create, link, remove, rename.

use std::collections::{BTreeMap, BTreeSet};

use super::prefetch::FIRST_ENTRIES;
use super::rows::{NameRow, NodeRow, Rows};
use super::state::Planner;
use super::subtrees::{Content, Key, Region, key_of};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{At, ChangeKind, Kind, MAX_LINKS, Outcome, Remove, RenameMode, SetAttrs, Special};
use crate::path::{MAX_STORED_PATH, PathError, TreePath};
use crate::text::passage::Edit;

/// Name below some directory: its directory, its name, and its row.
pub(super) type Below = (String, String, NameRow);

/// Everything below a name that is being moved.
#[derive(Debug, Default)]
struct MovedContent {
    /// Names that the batch has changed.
    names: Vec<(Key, Option<NameRow>)>,
    /// All other names, as ranges of the database.
    content: Option<Content>,
}

impl<R: Rows> Planner<'_, R> {
    /// Checks that the directory of a new name exists, or creates it if `parents` is true.
    pub(super) fn ready_parent(&mut self, path: &TreePath, parents: bool) -> Result<()> {
        if self.within.is_top(path) {
            // Its directory is out of reach. The top itself exists, or is not found.
            return self.find(path).map(drop);
        }
        let Some(parent) = path.parent() else { return Ok(()) };
        // Found before in this batch. Cleared whenever a directory moves or is removed.
        if self.dirs.contains_key(parent.key()) {
            return Ok(());
        }
        match self.lookup(&parent)? {
            Some(node) if node.kind == Kind::Directory => {
                self.dirs.insert(parent.key().to_owned(), node.ino);
                return Ok(());
            }
            Some(_) => return Err(Error::not_a_directory(&parent)),
            None if !parents => return Err(self.lookup_error(path)?),
            None => {}
        }
        for above in self.ways_to(path) {
            match self.lookup(&above)? {
                Some(node) if node.kind == Kind::Directory => {}
                Some(_) => return Err(Error::not_a_directory(&above)),
                // A top cannot be created: its name is out of reach.
                None if self.within.is_top(&above) => return Err(Error::not_found(path)),
                None => {
                    self.make(&above, Kind::Directory, 0o755)?;
                }
            }
        }
        Ok(())
    }

    /// Counts a name that is about to be given. Fails with `TooLarge` beyond the limits of a batch.
    fn count_name(&mut self, path: &TreePath) -> Result<()> {
        self.totals.name(path.key().len()).map_err(|error| error.about(path))
    }

    /// Counts the path of a name that is about to be taken away, as [`Self::count_name`] does.
    pub(super) fn count_path(&mut self, path: &TreePath) -> Result<()> {
        self.totals.path(path.key().len()).map_err(|error| error.about(path))
    }

    /// Creates a node and its name. The directory must exist, and the name must be free.
    pub(super) fn make(&mut self, path: &TreePath, kind: Kind, mode: u32) -> Result<NodeRow> {
        let Some(key) = key_of(path) else { return Err(Error::already_exists(path)) };
        self.count_name(path)?;
        let (directory, time) = (kind == Kind::Directory, self.time);
        let node = NodeRow {
            ino: self.next_ino,
            seq: self.seq,
            kind,
            mode,
            uid: 0,
            gid: 0,
            rdev: 0,
            nlink: if directory { 2 } else { 1 },
            size: 0,
            atime: time,
            mtime: time,
            ctime: time,
            birthtime: time,
            target: None,
            attrs_seq: 0,
            expires_at: None,
            content_seq: self.seq,
        };
        self.next_ino += 1;
        self.touch_dir(&key.0, i64::from(directory))?;
        self.set_name(key, Some(NameRow { ino: node.ino, since: self.seq, kind }))?;
        self.put(node.clone());
        self.delta.log(ChangeKind::Created, node.ino, Some(path.clone()));
        Ok(node)
    }

    /// Returns the path for a new node, which must be free.
    fn free(&mut self, at: &At, parents: bool) -> Result<TreePath> {
        let path = self.new_path_at(at)?;
        self.ready_parent(&path, parents)?;
        match self.lookup(&path)? {
            Some(_) => Err(Error::already_exists(&path)),
            None => Ok(path),
        }
    }

    pub(super) fn mkdir(&mut self, at: &At, parents: bool, attrs: &SetAttrs) -> Result<Outcome> {
        let path = self.new_path_at(at)?;
        self.ready_parent(&path, parents)?;
        match self.lookup(&path)? {
            // As with `mkdir -p`, an existing directory is not an error.
            Some(node) if parents && node.kind == Kind::Directory => self.unchanged(&node),
            Some(_) => Err(Error::already_exists(&path)),
            None => {
                let node = self.make(&path, Kind::Directory, 0o755)?;
                self.made(node, attrs, &path)
            }
        }
    }

    pub(super) fn symlink(
        &mut self,
        at: &At,
        target: &str,
        parents: bool,
        attrs: &SetAttrs,
    ) -> Result<Outcome> {
        let path = self.free(at, parents)?;
        let node = self.make(&path, Kind::Symlink, 0o777)?;
        let (target, size) = (Some(target.to_owned()), target.len() as u64);
        self.made(NodeRow { target, size, ..node }, attrs, &path)
    }

    pub(super) fn mknod(
        &mut self,
        at: &At,
        node: Special,
        parents: bool,
        attrs: &SetAttrs,
    ) -> Result<Outcome> {
        let (kind, rdev) = match node {
            Special::Fifo => (Kind::Fifo, 0),
            Special::Socket => (Kind::Socket, 0),
            Special::CharDevice(rdev) => (Kind::CharDevice, rdev),
            Special::BlockDevice(rdev) => (Kind::BlockDevice, rdev),
            Special::Whiteout => (Kind::Whiteout, 0),
        };
        let path = self.free(at, parents)?;
        let made = self.make(&path, kind, 0o644)?;
        self.made(NodeRow { rdev, ..made }, attrs, &path)
    }

    /// Finishes a new node with its first attributes.
    fn made(&mut self, mut node: NodeRow, attrs: &SetAttrs, path: &TreePath) -> Result<Outcome> {
        if let Err(error) = self.apply_attrs(&mut node, attrs) {
            return Err(self.about_expiry(error, &At::Path(path.clone())));
        }
        let outcome = self.outcome(node.ino, true);
        self.put(node);
        Ok(outcome)
    }

    pub(super) fn link(&mut self, from: &At, to: &At, parents: bool) -> Result<Outcome> {
        Self::require_name(to)?;
        let node = self.node_at(from)?;
        if !self.is_named(&node)? {
            // As on Linux: a node that has lost its last name gets no new one.
            return Err(Error::no_node());
        }
        if node.kind == Kind::Directory {
            let message = "a directory has one name only; use a symbolic link";
            return Err(self.about(Error::new(ErrorKind::NotPermitted, message), from));
        }
        let path = self.free(to, parents)?;
        if node.nlink >= MAX_LINKS {
            let message = format!("a node has at most {MAX_LINKS} names");
            return Err(self.about(Error::new(ErrorKind::TooManyLinks, message), from));
        }
        let ino = node.ino;
        self.add_name(node, &path)?;
        self.delta.log(ChangeKind::Linked, ino, Some(path));
        Ok(self.outcome(ino, false))
    }

    /// Gives a node that is not a directory one more name, which must be free.
    pub(super) fn add_name(&mut self, mut node: NodeRow, path: &TreePath) -> Result<()> {
        let Some(key) = key_of(path) else { return Err(Error::already_exists(path)) };
        self.count_name(path)?;
        self.touch_dir(&key.0, 0)?;
        self.set_name(key, Some(NameRow { ino: node.ino, since: self.seq, kind: node.kind }))?;
        node.nlink += 1;
        node.ctime = self.time;
        self.put(node);
        Ok(())
    }

    pub(super) fn remove(&mut self, at: &At, what: Remove, missing_ok: bool) -> Result<Outcome> {
        let nothing = self.nothing();
        let lenient = |error: Error| match missing_ok && error.is_absent() {
            true => Ok(nothing),
            false => Err(error),
        };
        let path = match self.path_at(at) {
            Ok(path) => path,
            Err(error) => return lenient(error),
        };
        if let Err(error) = self.reject_top(&path) {
            return lenient(error);
        }
        let Some(node) = self.lookup(&path)? else {
            let error = self.lookup_error(&path)?;
            return lenient(error);
        };
        if node.kind == Kind::Directory {
            self.reject_exclusions(&path)?;
        }
        match (what, node.kind == Kind::Directory) {
            (Remove::File, true) => return Err(Error::is_a_directory(&path)),
            (Remove::Directory, false) => return Err(Error::not_a_directory(&path)),
            (Remove::Directory | Remove::Any, true) if !self.is_empty(&path)? => {
                return Err(Error::not_empty(&path));
            }
            _ => {}
        }
        if what == Remove::Tree && node.kind == Kind::Directory {
            // Expired nodes below end first, under all of their names, and are logged as expired, not as
            // removed.
            let expired = self.expired_below(&path)?;
            self.prefetch_nodes(expired.iter().copied())?;
            for ino in expired {
                let below = self.node(ino)?;
                self.expire_if_due(&below)?;
            }
        }
        // Again: the end of an expired entry has changed the directory.
        let node = self.node(node.ino)?;
        let outcome = self.outcome(node.ino, false);
        self.count_path(&path)?;
        self.delta.log(ChangeKind::Removed, node.ino, Some(path.clone()));
        match what {
            Remove::Tree => self.drop_tree(&path, node)?,
            _ => self.drop_name(&path, node)?,
        }
        Ok(outcome)
    }

    /// Returns the names in and below a directory that the batch has changed.
    fn changed_below(&self, dir: &TreePath) -> Result<Vec<(Key, Option<NameRow>)>> {
        let changed = self.delta.names_in(dir.key());
        self.totals.examine(changed.len() + self.delta.subtrees.places_below(dir.key()))?;
        Ok(changed)
    }

    /// Returns nodes below a directory that may have expired.
    fn expired_below(&self, dir: &TreePath) -> Result<Vec<u64>> {
        let mut inos = Vec::new();
        for (_, region) in self.delta.subtrees.parts(dir.key()) {
            inos.extend(self.rows.expired_in(&region, self.time)?);
        }
        // The ranges of the database do not have the names that the batch gave.
        let changed = self.changed_below(dir)?;
        inos.extend(changed.into_iter().filter_map(|(_, row)| Some(row?.ino)));
        Ok(inos)
    }

    /// Removes a name and everything below it.
    fn drop_tree(&mut self, path: &TreePath, node: NodeRow) -> Result<()> {
        if node.kind == Kind::Directory {
            // Names that the batch changed are removed one by one. `ended` keeps the removed range from
            // counting the rows of the database that they replaced.
            let mut lost: BTreeMap<u64, u64> = BTreeMap::new();
            let mut ended = BTreeSet::new();
            for ((dir, name), row) in self.changed_below(path)? {
                // By the path in the database, which `remove` works on.
                ended.extend(self.delta.subtrees.source(&dir).map(|source| (source, name.clone())));
                if let Some(row) = row {
                    *lost.entry(row.ino).or_default() += 1;
                    self.set_name((dir, name), None)?;
                }
            }
            self.delta.subtrees.remove(path.key(), &ended);
            for (ino, names) in lost {
                let below = self.node(ino)?;
                self.lose_names(below, names);
            }
        }
        self.drop_name(path, node)
    }

    /// Removes a name. If it is that of a directory, nothing may be left in it.
    pub(super) fn drop_name(&mut self, path: &TreePath, node: NodeRow) -> Result<()> {
        let Some(key) = key_of(path) else { return Ok(()) };
        let directory = node.kind == Kind::Directory;
        if directory {
            // `dirs` holds inodes by path, and these paths lead nowhere now.
            self.dirs.clear();
        }
        self.touch_dir(&key.0, -i64::from(directory))?;
        self.set_name(key, None)?;
        self.lose_names(node, 1);
        Ok(())
    }

    /// Takes `names` names from a node.
    fn lose_names(&mut self, mut node: NodeRow, names: u64) {
        node.lose_names(names, (self.seq, self.time));
        if node.nlink == 0 {
            self.end(&node);
        }
        self.put(node);
    }

    /// Records the consequences of the loss of a node's last name.
    pub(super) fn end(&mut self, node: &NodeRow) {
        if node.expires_at.is_some() {
            self.delta.expiry.insert(node.ino, None);
        }
        if node.attrs_seq > 0 {
            self.delta.keyed.insert(node.ino);
        }
        if node.kind == Kind::File {
            self.delta.touch(node.ino, Edit::replace(node.size, node.size));
        }
    }

    /// Returns true if a directory has no entries. Expired ones do not count, and their end is recorded.
    fn is_empty(&mut self, dir: &TreePath) -> Result<bool> {
        // The first entries decide, unless all of them have expired. Only then are all entries read.
        for limit in [FIRST_ENTRIES, usize::MAX] {
            let source = self.delta.subtrees.source(dir.key());
            let rows = source.map_or(Ok(Vec::new()), |source| self.rows.names_in(&source, limit))?;
            // Fewer rows than asked for: there are no more.
            let last = rows.len() < limit;
            self.totals.examine(rows.len())?;
            self.prefetch_nodes(rows.iter().map(|(_, row)| row.ino))?;
            for (name, _) in rows {
                if self.lookup(&dir.join(&crate::path::Name::parse(&name)?)?)?.is_some() {
                    return Ok(false);
                }
            }
            if last {
                break;
            }
        }
        // The entries that the batch has added are not in the database.
        let changed: Vec<Option<NameRow>> =
            self.delta.changed_in(dir.key()).map(|(_, after)| after).collect();
        self.totals.examine(changed.len())?;
        for NameRow { ino, .. } in changed.into_iter().flatten() {
            let node = self.node(ino)?;
            if !self.expire_if_due(&node)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the names below a directory as the batch sees them, ordered by directory, then name. The
    /// flag is true if these are all: of those that the batch has not changed, about `limit` are read.
    pub(super) fn names_below(&self, dir: &TreePath, limit: usize) -> Result<(Vec<Below>, bool)> {
        let mut all: BTreeMap<Key, NameRow> = BTreeMap::new();
        let mut whole = true;
        for (at, region) in self.delta.subtrees.parts(dir.key()) {
            let rows = self.rows.names_below(&region, limit)?;
            self.totals.examine(rows.len())?;
            whole = rows.len() < limit && all.len() < limit;
            for (from, name, row) in rows {
                all.insert((format!("{at}{}", &from[region.dir.len()..]), name), row);
            }
            if !whole {
                break;
            }
        }
        for (key, row) in self.changed_below(dir)? {
            match row {
                Some(row) => all.insert(key, row),
                None => all.remove(&key),
            };
        }
        Ok((all.into_iter().map(|((dir, name), row)| (dir, name, row)).collect(), whole))
    }

    pub(super) fn rename(&mut self, from: &At, to: &At, mode: RenameMode, parents: bool) -> Result<Outcome> {
        Self::require_name(from)?;
        Self::require_name(to)?;
        // Before anything is looked up: the name of a top is out of reach, whatever the other address is.
        for at in [from, to] {
            if let At::Path(path) = at {
                self.reject_top(path)?;
            }
        }
        let from = self.path_at(from)?;
        let node = self.find(&from)?;
        let directory = node.kind == Kind::Directory;
        if directory {
            self.reject_exclusions(&from)?;
        }
        let to = self.new_path_at(to)?;
        let outcome = self.outcome(node.ino, false);
        // Onto itself is not into itself: that rename does nothing, see below.
        if directory && to != from && to.is_within(&from) {
            let message = "a directory cannot be moved into itself";
            return Err(Error::at(ErrorKind::InvalidArgument, &to, message));
        }
        if from != to && from.is_within(&to) {
            return Err(match mode {
                RenameMode::Exchange => {
                    let message = "a directory cannot be exchanged with what is in it";
                    Error::at(ErrorKind::InvalidArgument, &to, message)
                }
                RenameMode::Replace | RenameMode::NoReplace => Error::not_empty(&to),
            });
        }
        self.ready_parent(&to, parents)?;
        let there = self.lookup(&to)?;
        match (&there, mode) {
            (Some(_), RenameMode::NoReplace) => return Err(Error::already_exists(&to)),
            (None, RenameMode::Exchange) => return Err(Error::not_found(&to)),
            // As POSIX has it: a rename onto another name of the same node does nothing, and both names
            // stay.
            (Some(other), _) if other.ino == node.ino => return self.unchanged(&node),
            _ => {}
        }
        let there_directory = there.as_ref().is_some_and(|other| other.kind == Kind::Directory);
        if directory || there_directory {
            self.reject_exclusions(&to)?;
        }
        if let (Some(other), RenameMode::Exchange) = (&there, mode) {
            if there_directory {
                self.reject_exclusions(&from)?;
            }
            self.exchange((&from, &node), (&to, other))?;
            return Ok(outcome);
        }
        if let Some(other) = there {
            match (directory, other.kind == Kind::Directory) {
                (true, false) => return Err(Error::not_a_directory(&to)),
                (false, true) => return Err(Error::is_a_directory(&to)),
                (true, true) if !self.is_empty(&to)? => return Err(Error::not_empty(&to)),
                _ => {}
            }
            self.count_path(&to)?;
            self.delta.log(ChangeKind::Removed, other.ino, Some(to.clone()));
            self.drop_name(&to, other)?;
        }
        self.check_lengths((&from, &node), &to)?;
        let taken = self.take(&from, &node)?;
        // Again: an expired node at `to` may have had a name in this directory as well, whose end changed
        // it.
        let mut node = self.node(node.ino)?;
        node.ctime = self.time;
        self.give(&from, &to, &node, taken)?;
        self.delta.log(ChangeKind::Renamed { from }, node.ino, Some(to));
        self.put(node);
        Ok(outcome)
    }

    fn exchange(&mut self, one: (&TreePath, &NodeRow), two: (&TreePath, &NodeRow)) -> Result<()> {
        self.check_lengths(one, two.0)?;
        self.check_lengths(two, one.0)?;
        // Both are removed before either is inserted: each takes the place of the other.
        let first = self.take(one.0, one.1)?;
        let second = self.take(two.0, two.1)?;
        self.give(one.0, two.0, one.1, first)?;
        self.give(two.0, one.0, two.1, second)?;
        for (from, to, node) in [(one.0, two.0, one.1), (two.0, one.0, two.1)] {
            let mut node = self.node(node.ino)?;
            node.ctime = self.time;
            self.put(node.clone());
            self.delta.log(ChangeKind::Renamed { from: from.clone() }, node.ino, Some(to.clone()));
        }
        Ok(())
    }

    /// Refuses a move that would give paths that are too long to store.
    fn check_lengths(&self, (top, node): (&TreePath, &NodeRow), to: &TreePath) -> Result<()> {
        let (from, to) = (top.key(), to.key());
        if node.kind != Kind::Directory || to.len() <= from.len() {
            return Ok(());
        }
        // All paths below grow by the same number of bytes.
        let too_long = |bytes: usize| bytes + (to.len() - from.len()) > MAX_STORED_PATH;
        let changed = self.changed_below(top)?;
        let mut given = changed.iter().filter(|(_, row)| row.is_some());
        if given.any(|((dir, name), _)| too_long(dir.len() + 1 + name.len())) {
            return Err(PathError::StoredPathTooLong.into());
        }
        for (at, mut region) in self.delta.subtrees.parts(from) {
            let is_long = |region: &Region| {
                let (longest, names) = self.rows.longest_path(region)?;
                self.totals.examine(names)?;
                Ok::<_, Error>(longest > 0 && too_long(at.len() + (longest - region.dir.len())))
            };
            if !is_long(&region)? {
                continue;
            }
            // The longest may be a name that the batch has taken away. Only now is it worth leaving those
            // out.
            let kept = changed.iter().filter_map(|((dir, name), _)| {
                let key = (self.delta.subtrees.source(dir)?, name.clone());
                region.contains(&key.0, &key.1).then_some(key)
            });
            region.names = kept.collect();
            if region.names.is_empty() || is_long(&region)? {
                return Err(PathError::StoredPathTooLong.into());
            }
        }
        Ok(())
    }

    /// Takes a name, and everything below it, out of the tree. The nodes stay.
    fn take(&mut self, path: &TreePath, node: &NodeRow) -> Result<MovedContent> {
        let mut taken = MovedContent::default();
        let Some(key) = key_of(path) else { return Ok(taken) };
        self.count_path(path)?;
        let directory = node.kind == Kind::Directory;
        if directory {
            taken.names = self.changed_below(path)?;
            // Taken one by one: the ranges only hold names of the database.
            for (key, _) in &taken.names {
                self.set_name(key.clone(), None)?;
            }
            taken.content = Some(self.delta.subtrees.take(path.key()));
            // `dirs` holds inodes by path, and these paths change.
            self.dirs.clear();
        }
        self.touch_dir(&key.0, -i64::from(directory))?;
        self.set_name(key, None)?;
        Ok(taken)
    }

    /// Puts a name that was taken at `from` to `to`, with everything that was below it.
    fn give(&mut self, from: &TreePath, to: &TreePath, node: &NodeRow, taken: MovedContent) -> Result<()> {
        let Some(key) = key_of(to) else { return Ok(()) };
        self.count_name(to)?;
        self.touch_dir(&key.0, i64::from(node.kind == Kind::Directory))?;
        self.set_name(key, Some(NameRow { ino: node.ino, since: self.seq, kind: node.kind }))?;
        if let Some(content) = taken.content {
            // Nothing is left there. The record of names that the batch removed there must not hide the
            // ones that arrive.
            self.delta.forget_names_in(to.key());
            self.delta.subtrees.give(to.key(), content);
        }
        for ((dir, name), row) in taken.names {
            // No `TreePath` is built: a name that was removed may be too long for this place.
            let dir = format!("{}{}", to.key(), &dir[from.key().len()..]);
            // These are rows of the delta, and not part of a range: a few renames could make thousands of
            // short names long, again and again.
            self.totals.path(dir.len() + 1 + name.len()).map_err(|error| error.about(to))?;
            self.set_name((dir, name), row.map(|row| NameRow { since: self.seq, ..row }))?;
        }
        Ok(())
    }
}
