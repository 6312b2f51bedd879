//! Copies, of the present or the past. They add rows that refer to the stored bytes of the source.

use std::collections::HashMap;

use super::names::Below;
use super::prefetch::{FIRST_NAMES, source_keys};
use super::rows::{ExtentRow, NodeRow, Rows};
use super::state::Planner;
use super::subtrees::key_of;
use crate::error::{Error, ErrorKind, Result};
use crate::model::{At, Attributes, Ino, Kind, MAX_COPIED_NAMES, Outcome, Seq};
use crate::path::TreePath;
use crate::text::passage::Edit;

/// Options of a copy.
#[derive(Clone, Copy)]
pub(super) struct Flags {
    pub(super) recursive: bool,
    pub(super) replace: bool,
    pub(super) parents: bool,
}

/// Node to copy.
struct Source {
    /// `None` for a node that is not a directory and was addressed by inode.
    path: Option<TreePath>,
    node: NodeRow,
    /// Commit after which the source is read, and its time; `None` for the present.
    as_of: Option<(u64, i64)>,
}

impl Source {
    /// Returns the path of a directory, or of a node listed below one. Both always have a path.
    fn listed_path(&self) -> Result<TreePath> {
        self.path.clone().ok_or_else(Error::no_node)
    }
}

impl<R: Rows> Planner<'_, R> {
    pub(super) fn copy(&mut self, from: &At, as_of: Option<Seq>, to: &At, flags: Flags) -> Result<Outcome> {
        Self::require_name(to)?;
        let source = match as_of {
            None => self.source_now(from)?,
            Some(seq) => self.source_at(from, seq.0)?,
        };
        let directory = source.node.kind == Kind::Directory;
        if directory && !flags.recursive {
            let message = "is a directory; copy it with `recursive`";
            return Err(Error::at(ErrorKind::IsADirectory, &source.listed_path()?, message));
        }
        if directory {
            self.reject_exclusions(&source.listed_path()?)?;
        }
        let to = self.new_path_at(to)?;
        // The past of a directory can be copied into it: that listing does not change. A copy onto the
        // directory itself fails further down, as the target exists.
        if directory
            && source.as_of.is_none()
            && source.path.as_ref().is_some_and(|path| to != *path && to.is_within(path))
        {
            let message = "a directory cannot be copied into itself";
            return Err(Error::at(ErrorKind::InvalidArgument, &to, message));
        }
        self.ready_parent(&to, flags.parents)?;
        match self.lookup(&to)? {
            None => {
                if directory {
                    self.reject_exclusions(&to)?;
                }
                let ino = self.copy_new(&source, &to)?;
                Ok(self.outcome(ino, true))
            }
            Some(node) if flags.replace && node.kind == Kind::File && source.node.kind == Kind::File => {
                // A file copied onto itself stays as it is, but not if an earlier version of it is copied.
                if node.ino == source.node.ino && source.as_of.is_none() {
                    return self.unchanged(&node);
                }
                let outcome = self.outcome(node.ino, false);
                self.addressed.extend(key_of(&to).map(|key| (node.ino, key)));
                self.copy_onto(&source, node, &to)?;
                Ok(outcome)
            }
            Some(_) => Err(Error::already_exists(&to)),
        }
    }

    fn source_now(&mut self, from: &At) -> Result<Source> {
        match from {
            At::Node(ino) => {
                let node = self.node_at(from)?;
                // Only listing a directory takes a path. A file that is held open may have none.
                let path = if node.kind == Kind::Directory { Some(self.path_of(ino.0)?) } else { None };
                Ok(Source { path, node, as_of: None })
            }
            At::Path(_) | At::Child(..) => {
                let path = self.path_at(from)?;
                let node = self.find(&path)?;
                Ok(Source { path: Some(path), node, as_of: None })
            }
        }
    }

    fn source_at(&mut self, from: &At, seq: u64) -> Result<Source> {
        let time = self.rows.time_of(seq)?.0;
        let as_of = Some((seq, time));
        let path = match from {
            At::Path(path) if self.within.contains(path) => path.clone(),
            At::Path(path) => return Err(Error::not_found(path)),
            At::Node(ino) => {
                // Expiry is judged by the time of that commit, as in a view of the past.
                let node =
                    self.rows.node_at_seq(ino.0, seq)?.filter(|node| node.nlink > 0 && !node.expired(time));
                let node = node.ok_or_else(Error::no_node)?;
                if !self.was_named(&node, seq)? {
                    return Err(Error::no_node());
                }
                let path =
                    if node.kind == Kind::Directory { Some(self.path_of_at(ino.0, seq)?) } else { None };
                return Ok(Source { path, node, as_of });
            }
            At::Child(dir, name) => {
                let path = self.path_of_at(dir.0, seq)?;
                if self.rows.node_at_seq(dir.0, seq)?.is_none_or(|node| node.kind != Kind::Directory) {
                    return Err(Error::not_a_directory(&path));
                }
                let path = path.join(name)?;
                if !self.within.contains(&path) {
                    return Err(Error::not_found(&path));
                }
                path
            }
        };
        match self.lookup_at(&path, seq, time)? {
            Some(node) => Ok(Source { path: Some(path), node, as_of }),
            None => {
                // The first thing above that is not a directory is the reason, as in a lookup of the
                // present.
                for above in self.ways_to(&path) {
                    match self.lookup_at(&above, seq, time)? {
                        Some(node) if node.kind != Kind::Directory => {
                            return Err(Error::not_a_directory(&above));
                        }
                        Some(_) => {}
                        None => break,
                    }
                }
                Err(Error::not_found(&path))
            }
        }
    }

    /// Returns true if the batch reaches a name that the node had after commit `seq`.
    fn was_named(&self, node: &NodeRow, seq: u64) -> Result<bool> {
        if node.ino == Ino::ROOT.0 {
            return Ok(self.within.contains(&TreePath::root()));
        }
        Ok(self.within.is_everything() || !self.rows.names_of_at(node.ino, seq, self.within)?.is_empty())
    }

    /// Returns the first path, in the order of a walk, that a node had after commit `seq`.
    fn path_of_at(&self, ino: u64, seq: u64) -> Result<TreePath> {
        if ino == Ino::ROOT.0 && self.within.contains(&TreePath::root()) {
            return Ok(TreePath::root());
        }
        let first = self.rows.names_of_at(ino, seq, self.within)?.into_iter().min();
        first.map(|(dir, name)| TreePath::from_row(&dir, &name)).ok_or_else(Error::no_node)
    }

    fn lookup_at(&self, path: &TreePath, seq: u64, time: i64) -> Result<Option<NodeRow>> {
        let ino = match key_of(path) {
            None => Ino::ROOT.0,
            Some((dir, name)) => match self.rows.name_at(&dir, &name, seq)? {
                Some(row) => row.ino,
                None => return Ok(None),
            },
        };
        Ok(self.rows.node_at_seq(ino, seq)?.filter(|node| !node.expired(time)))
    }

    /// Copies a node to a free name, with everything below it.
    fn copy_new(&mut self, source: &Source, to: &TreePath) -> Result<u64> {
        // Listed first, so that the copy does not list itself, and fails its limits before anything is
        // created.
        let below = self.sources_below(source, to)?;
        let ino = self.copy_node(source, to, to)?;
        if source.node.kind == Kind::Directory {
            self.fill(source, below, to)?;
        }
        Ok(ino)
    }

    /// Returns everything below the source of a copy to `to`. Fails with `TooLarge` if the batch would copy
    /// too many names.
    fn sources_below(&mut self, source: &Source, to: &TreePath) -> Result<Vec<Source>> {
        let mut limit = FIRST_NAMES;
        loop {
            let (below, all) = match (&source.path, source.node.kind, source.as_of) {
                (Some(path), Kind::Directory, None) => self.names_below(path, limit)?,
                (Some(path), Kind::Directory, Some((seq, _))) => {
                    let below = self.rows.names_below_at(path.key(), seq, limit)?;
                    let all = below.len() < limit;
                    (below, all)
                }
                _ => (Vec::new(), true),
            };
            let sources = self.sources(below, source.as_of)?;
            let names = 1 + sources.len();
            if all || names > MAX_COPIED_NAMES {
                return self.totals.copied_names(names).map(|()| sources).map_err(|error| error.about(to));
            }
            // Expired names count for `limit`, but not for the copy: list more.
            limit *= 2;
        }
    }

    /// Returns the sources for some names, without those that have expired.
    fn sources(&mut self, below: Vec<Below>, as_of: Option<(u64, i64)>) -> Result<Vec<Source>> {
        let then = as_of.map(|(seq, _)| seq);
        self.prefetch(below.iter().flat_map(|(_, _, row)| source_keys(row.ino, then)));
        if then.is_none() {
            self.prefetch_nodes(below.iter().map(|(_, _, row)| row.ino))?;
        }
        let mut sources = Vec::with_capacity(below.len());
        for (dir, name, row) in below {
            let node = match as_of {
                None => self.node(row.ino)?,
                Some((seq, _)) => self.rows.node_at_seq(row.ino, seq)?.ok_or_else(Error::no_node)?,
            };
            // In the past, expiry is judged by the time of that commit, and nothing is recorded.
            let absent = match as_of {
                // A node that expires under its first name loses all others at once.
                None => node.nlink == 0 || self.expire_if_due(&node)?,
                Some((_, time)) => node.expired(time),
            };
            if !absent {
                let path = Some(TreePath::from_row(&dir, &name));
                sources.push(Source { path, node, as_of });
            }
        }
        Ok(sources)
    }

    /// Copies everything below a directory into its copy.
    fn fill(&mut self, source: &Source, below: Vec<Source>, to: &TreePath) -> Result<()> {
        let top = source.listed_path()?;
        // The log gets one change for the complete copy, that of its top.
        let logged = self.delta.log.len();
        if let Some(made) = self.delta.log.last_mut() {
            made.whole = true;
        }
        // Copies of nodes with several names, by source. The names that are copied become names of one
        // copy.
        let mut linked: HashMap<u64, u64> = HashMap::new();
        let mut dirs = vec![(top.clone(), to.clone())];
        // In the order of a walk: a directory is created before its entries.
        for below in below {
            let path = below.listed_path()?;
            let new = moved(&path, &top, to)?;
            if let Some(copy) = linked.get(&below.node.ino) {
                let copy = self.node(*copy)?;
                self.add_name(copy, &new)?;
                continue;
            }
            let copy = self.copy_node(&below, &new, to)?;
            if below.node.kind == Kind::Directory {
                dirs.push((path, new));
            } else if below.node.nlink > 1 {
                linked.insert(below.node.ino, copy);
            }
        }
        self.delta.log.truncate(logged);
        // Filling a directory changes its times. They are set back to those of the source.
        self.settle(source, &dirs)
    }

    /// Copies one node to a free name, as a part of the copy to `top`.
    fn copy_node(&mut self, source: &Source, to: &TreePath, top: &TreePath) -> Result<u64> {
        let made = self.make(to, source.node.kind, source.node.mode)?;
        let extents = self.source_extents(source, top)?;
        let attributes = self.source_attributes(source)?;
        self.count_attributes(source, &attributes, top)?;
        let mut node = self.carry(source, made, attributes)?;
        if node.kind == Kind::File {
            for extent in extents {
                self.add_extent(node.ino, ExtentRow { since: self.seq, written: self.seq, ..extent });
            }
            self.delta.touch(node.ino, Edit::replace(0, source.node.size));
        }
        node.size = source.node.size;
        let ino = node.ino;
        self.put(node);
        Ok(ino)
    }

    /// Replaces the content of a file and everything else that a copy carries.
    fn copy_onto(&mut self, source: &Source, mut node: NodeRow, to: &TreePath) -> Result<()> {
        let extents = self.source_extents(source, to)?;
        let attributes = self.source_attributes(source)?;
        self.count_attributes(source, &attributes, to)?;
        self.clear(node.ino, 0, u64::MAX)?;
        for extent in extents {
            self.add_extent(node.ino, ExtentRow { since: self.seq, written: self.seq, ..extent });
        }
        let edit = Edit::replace(node.size, source.node.size);
        self.changed(&mut node, false, edit);
        self.delta.copy_content(node.ino);
        let node = self.carry(source, node, attributes)?;
        self.put(node);
        Ok(())
    }

    /// Returns the extents of a source, for the copy to `top`. Fails with `TooLarge` if the batch would
    /// copy too many.
    fn source_extents(&mut self, source: &Source, top: &TreePath) -> Result<Vec<ExtentRow>> {
        let size = source.node.size;
        let extents = match (source.node.kind, source.as_of) {
            (Kind::File, None) => self.extents(source.node.ino, 0, size)?,
            // An extent that was merged later may reach beyond the end of the file at that time.
            (Kind::File, Some((seq, _))) => {
                let found = match self.rows.extents_at(source.node.ino, seq, 0, size) {
                    Err(error) if error.is(ErrorKind::Gone) => {
                        return Err(self.about_source(error, source, seq));
                    }
                    found => found?,
                };
                found.into_iter().map(|extent| extent.cut(0, size)).collect()
            }
            _ => Vec::new(),
        };
        self.totals.copied_pieces(extents.len()).map_err(|error| error.about(top))?;
        Ok(extents)
    }

    /// Adds the path of a source in the past to an error; for an inode, the first one that it had then.
    /// Returns the error of the database instead if that cannot be read.
    fn about_source(&self, error: Error, source: &Source, seq: u64) -> Error {
        let path = match &source.path {
            Some(path) => Ok(path.clone()),
            None => self.path_of_at(source.node.ino, seq),
        };
        match path {
            Ok(path) => error.about(&path),
            Err(none) if none.is_absent() => error,
            Err(unknown) => unknown,
        }
    }

    fn source_attributes(&self, source: &Source) -> Result<Attributes> {
        match (source.node.attrs_seq, source.as_of) {
            (0, _) => Ok(Attributes::default()),
            (seq, Some(_)) => self.rows.attributes(source.node.ino, seq),
            (_, None) => self.attributes(&source.node),
        }
    }

    /// Counts what a copy to `top` takes over besides content. Fails with `TooLarge` if that is too much for
    /// the batch.
    fn count_attributes(&mut self, source: &Source, attributes: &Attributes, top: &TreePath) -> Result<()> {
        let counted = self.totals.attributes(attributes, source.node.target.as_deref());
        counted.map_err(|error| error.about(top))
    }

    /// Gives a copy the mode, owner, modification time, expiry and attributes of the source.
    fn carry(&mut self, source: &Source, mut node: NodeRow, attributes: Attributes) -> Result<NodeRow> {
        let from = &source.node;
        node.mode = from.mode;
        node.uid = from.uid;
        node.gid = from.gid;
        node.rdev = from.rdev;
        node.mtime = from.mtime;
        node.target.clone_from(&from.target);
        // An expiry in the past is dropped, or the copy would be absent at once.
        self.put_expiry(&mut node, from.expires_at.filter(|_| !from.expired(self.time)));
        let own = self.attributes(&node)?;
        // Only a restore brings back the attributes that garth writes.
        let attributes =
            if self.restores { attributes.restored_over(&own) } else { attributes.copied_over(&own) };
        self.put_attributes(&mut node, attributes)?;
        Ok(node)
    }

    /// Sets `mtime` of the directories of a copy back to that of their sources, which filling them has
    /// changed. `dirs` holds pairs of source and copy.
    fn settle(&mut self, source: &Source, dirs: &[(TreePath, TreePath)]) -> Result<()> {
        for (original, copy) in dirs {
            let mtime = match source.as_of {
                None => self.lookup(original)?.map(|node| node.mtime),
                Some((seq, time)) => self.lookup_at(original, seq, time)?.map(|node| node.mtime),
            };
            if let (Some(mut node), Some(mtime)) = (self.lookup(copy)?, mtime) {
                node.mtime = mtime;
                self.put(node);
            }
        }
        Ok(())
    }
}

/// Returns the path that something below `from` has in the copy at `to`.
fn moved(path: &TreePath, from: &TreePath, to: &TreePath) -> Result<TreePath> {
    let outside = || Error::damaged("is listed in another directory").about(path);
    Ok(path.rebase(from, to).ok_or_else(outside)??)
}
