//! Copies, from now or from the past: rows that point at the same stored bytes.

use std::collections::HashMap;

use super::foresight::{FIRST_NAMES, source_keys};
use super::names::Below;
use super::rows::{ExtentRow, NodeRow, Rows};
use super::state::Planner;
use super::subtrees::key_of;
use crate::error::{Error, ErrorKind, Result};
use crate::model::{At, Attributes, Ino, Kind, MAX_COPIED_NAMES, Outcome, Seq};
use crate::path::TreePath;
use crate::text::passage::Edit;

/// How to copy.
#[derive(Clone, Copy)]
pub(super) struct Flags {
    pub(super) recursive: bool,
    pub(super) replace: bool,
    pub(super) parents: bool,
}

/// What is copied.
struct Source {
    /// `None` for what is no directory and was addressed by number.
    path: Option<TreePath>,
    node: NodeRow,
    /// The commit after which it is read, and its time; `None` for now.
    as_of: Option<(u64, i64)>,
}

impl Source {
    /// The path of a directory or of what is listed below one: they always have one.
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
            self.refuse_exclusions(&source.listed_path()?)?;
        }
        let to = self.new_path_at(to)?;
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
                    self.refuse_exclusions(&to)?;
                }
                let ino = self.copy_new(&source, &to)?;
                Ok(self.outcome(ino, true))
            }
            Some(node) if flags.replace && node.kind == Kind::File && source.node.kind == Kind::File => {
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

    /// Whether the batch reaches a name that a node had then.
    fn was_named(&self, node: &NodeRow, seq: u64) -> Result<bool> {
        if node.ino == Ino::ROOT.0 {
            return Ok(self.within.contains(&TreePath::root()));
        }
        Ok(self.within.is_everything() || !self.rows.names_of_at(node.ino, seq, self.within)?.is_empty())
    }

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

    /// Copies to a free name, with all below it.
    fn copy_new(&mut self, source: &Source, to: &TreePath) -> Result<u64> {
        // listed before anything is made, so that the copy does not meet itself
        let below = self.sources_below(source, to)?;
        let ino = self.copy_node(source, to, to)?;
        if source.node.kind == Kind::Directory {
            self.fill(source, below, to)?;
        }
        Ok(ino)
    }

    /// All that is below what is copied to `to`, if the batch may copy so much.
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
                return self.copied.names(names).map(|()| sources).map_err(|error| error.about(to));
            }
            // names that have expired are among the first: more are looked at
            limit *= 2;
        }
    }

    /// Those of some names that have not expired.
    fn sources(&mut self, below: Vec<Below>, as_of: Option<(u64, i64)>) -> Result<Vec<Source>> {
        let then = as_of.map(|(seq, _)| seq);
        self.foresee(below.iter().flat_map(|(_, _, row)| source_keys(row.ino, then)));
        if then.is_none() {
            self.foresee_nodes(below.iter().map(|(_, _, row)| row.ino))?;
        }
        let mut sources = Vec::with_capacity(below.len());
        for (dir, name, row) in below {
            let node = match as_of {
                None => self.node(row.ino)?,
                Some((seq, _)) => self.rows.node_at_seq(row.ino, seq)?.ok_or_else(Error::no_node)?,
            };
            let absent = match as_of {
                // one that expires under its first name has lost the others
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

    /// Copies what is below a directory to below its copy.
    fn fill(&mut self, source: &Source, below: Vec<Source>, to: &TreePath) -> Result<()> {
        let top = source.listed_path()?;
        // one change for the whole copy, of its top
        let logged = self.delta.log.len();
        if let Some(made) = self.delta.log.last_mut() {
            made.whole = true;
        }
        // copies of nodes with several names: those that are copied with them become names of the one copy
        let mut linked: HashMap<u64, u64> = HashMap::new();
        let mut dirs = vec![(top.clone(), to.clone())];
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
        // the times of a copied directory are those of its source, not of its filling
        self.settle(source, &dirs)
    }

    /// Copies one node to a free name, as a part of the copy to `top`.
    fn copy_node(&mut self, source: &Source, to: &TreePath, top: &TreePath) -> Result<u64> {
        let made = self.make(to, source.node.kind, source.node.mode)?;
        let extents = self.source_extents(source, top)?;
        let attributes = self.source_attributes(source)?;
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

    /// Replaces a file's content and all that a copy carries.
    fn copy_onto(&mut self, source: &Source, mut node: NodeRow, to: &TreePath) -> Result<()> {
        let extents = self.source_extents(source, to)?;
        let attributes = self.source_attributes(source)?;
        self.clear(node.ino, 0, u64::MAX)?;
        for extent in extents {
            self.add_extent(node.ino, ExtentRow { since: self.seq, written: self.seq, ..extent });
        }
        let edit = Edit::replace(node.size, source.node.size);
        self.changed(&mut node, false, edit);
        let node = self.carry(source, node, attributes)?;
        self.put(node);
        Ok(())
    }

    /// The extents of a file, for the copy to `top`.
    fn source_extents(&mut self, source: &Source, top: &TreePath) -> Result<Vec<ExtentRow>> {
        let size = source.node.size;
        let extents = match (source.node.kind, source.as_of) {
            (Kind::File, None) => self.extents(source.node.ino, 0, size)?,
            // one that was merged since reaches beyond what was then the end
            (Kind::File, Some((seq, _))) => {
                let found = self.rows.extents_at(source.node.ino, seq, 0, size)?;
                found.into_iter().map(|extent| extent.cut(0, size)).collect()
            }
            _ => Vec::new(),
        };
        self.copied.pieces(extents.len()).map_err(|error| error.about(top))?;
        Ok(extents)
    }

    fn source_attributes(&self, source: &Source) -> Result<Attributes> {
        match (source.node.attrs_seq, source.as_of) {
            (0, _) => Ok(Attributes::default()),
            (seq, Some(_)) => self.rows.attributes(source.node.ino, seq),
            (_, None) => self.attributes(&source.node),
        }
    }

    /// Gives a copy what it carries besides content.
    fn carry(&mut self, source: &Source, mut node: NodeRow, attributes: Attributes) -> Result<NodeRow> {
        let from = &source.node;
        node.mode = from.mode;
        node.uid = from.uid;
        node.gid = from.gid;
        node.rdev = from.rdev;
        node.mtime = from.mtime;
        node.target.clone_from(&from.target);
        // an expiry that has passed is of the past: with it the copy would vanish at once
        self.put_expiry(&mut node, from.expires_at.filter(|_| !from.expired(self.time)));
        let own = self.attributes(&node)?;
        let attributes =
            if self.restores { attributes.restored_over(&own) } else { attributes.copied_over(&own) };
        self.put_attributes(&mut node, attributes)?;
        Ok(node)
    }

    /// Sets `mtime` of the directories of a copy back to that of their sources, which filling them has moved.
    /// `dirs` are those: each source and its copy.
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
    let outside = || Error::at(ErrorKind::Corrupt, path, "is listed in another directory; run `garth fsck`");
    Ok(path.rebase(from, to).ok_or_else(outside)??)
}
