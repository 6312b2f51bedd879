//! Lookup of names and nodes, written once for readers ([`View`]) and commits
//! ([`Scratch`](super::scratch::Scratch)).

use std::collections::BTreeMap;

use super::state::{Node, State};
use crate::error::{Error, Result};
use crate::model::{At, Ino, Owner, Seq, Timestamp, Within};
use crate::path::{Name, TreePath};

/// Name in a subtree.
#[derive(Clone, Debug)]
pub(super) struct SubtreeName {
    pub(super) path: TreePath,
    pub(super) dir: Ino,
    pub(super) name: Name,
    pub(super) ino: Ino,
}

/// Tree in which expired entries are absent. Lookups take `&mut self` because a commit records the removal
/// of an expired entry that it meets.
pub(super) trait Tree {
    /// Returns a node as it is stored: named or not, expired or not.
    fn node(&self, ino: Ino) -> Option<&Node>;

    /// Returns the node of a name in a directory.
    fn child(&mut self, dir: Ino, name: &str) -> Option<Ino>;

    /// Returns the names in a directory, in byte order, including those of expired entries.
    fn all_names(&self, dir: Ino) -> Vec<(Name, Ino)>;

    /// Returns true if the node has a name now.
    fn is_named(&mut self, ino: Ino) -> bool;

    /// Returns true if the viewer holds the node open.
    fn is_open(&self, ino: Ino) -> bool;

    /// Returns the paths that the viewer reaches.
    fn within(&self) -> &Within;

    /// Returns a node that was found before.
    fn get(&self, ino: Ino) -> &Node {
        self.node(ino).expect("a node that was found exists")
    }

    /// Returns the names in a directory, in byte order.
    fn children(&mut self, dir: Ino) -> Vec<(Name, Ino)> {
        let mut children = self.all_names(dir);
        children.retain(|(_, ino)| self.is_named(*ino));
        children
    }

    fn is_directory(&self, ino: Ino) -> bool {
        self.node(ino).is_some_and(Node::is_directory)
    }

    /// Returns the paths of a node that the viewer reaches, in the order of a walk.
    fn paths(&self, ino: Ino) -> Vec<TreePath> {
        let mut paths = all_paths(ino, &|ino| self.node(ino));
        paths.retain(|path| self.within().contains(path));
        paths
    }

    /// Returns all paths of a node, in the order of a walk, reached or not: for the log.
    fn every_path(&self, ino: Ino) -> Vec<TreePath> {
        all_paths(ino, &|ino| self.node(ino))
    }

    /// Returns true if the viewer reaches a name of the node.
    fn is_reached(&mut self, ino: Ino) -> bool {
        let inside = |(dir, name): &(Ino, Name)| {
            let dir = all_paths(*dir, &|ino| self.node(ino)).into_iter().next();
            dir.is_some_and(|dir| self.within().contains(&TreePath::from_row(dir.key(), name.as_str())))
        };
        let reached = match self.node(ino) {
            _ if self.within().is_everything() => true,
            // The root has no name, but a path.
            _ if ino == Ino::ROOT => self.within().contains(&TreePath::root()),
            Some(node) => node.names.iter().any(inside),
            None => false,
        };
        reached && self.is_named(ino)
    }

    /// Returns the first path of a node, for an error about it.
    fn path_of(&self, ino: Ino) -> Option<TreePath> {
        self.paths(ino).into_iter().next()
    }

    fn find(&mut self, at: &At) -> Result<Ino> {
        match at {
            At::Path(path) => self.find_path(path),
            At::Child(dir, name) => {
                let path = self.child_path(*dir, name)?;
                self.find_path(&path)
            }
            // An open handle reaches a node that has no name, or none within reach.
            At::Node(ino) if self.is_reached(*ino) || self.is_open(*ino) => Ok(*ino),
            At::Node(_) => Err(Error::no_node()),
        }
    }

    fn find_path(&mut self, path: &TreePath) -> Result<Ino> {
        // A path out of reach looks like one that does not exist.
        let top = self.within().top_of(path).cloned().ok_or_else(|| Error::not_found(path))?;
        let mut here = Ino::ROOT;
        // The ancestors run one ahead: each names the directory that the next segment is looked up in.
        for (ancestor, segment) in path.ancestors().zip(path.segments()) {
            if !self.is_directory(here) {
                // Anything above the top is not disclosed.
                return Err(match ancestor.is_within(&top) {
                    true => Error::not_a_directory(&ancestor),
                    false => Error::not_found(path),
                });
            }
            here = self.child(here, segment).ok_or_else(|| Error::not_found(path))?;
        }
        Ok(here)
    }

    /// Returns the path of a name in a directory that is given by inode. It may be an excluded path.
    fn child_path(&mut self, dir: Ino, name: &Name) -> Result<TreePath> {
        let path = self.path_of(dir).ok_or_else(Error::no_node)?;
        if !self.is_named(dir) {
            return Err(Error::no_node());
        }
        if !self.is_directory(dir) {
            return Err(Error::not_a_directory(&path));
        }
        Ok(path.join(name)?)
    }

    /// Returns everything below a directory that the viewer reaches, in the order of a walk. Subtrees
    /// within an excluded path are not entered.
    fn below(&mut self, path: &TreePath, dir: Ino) -> Vec<SubtreeName> {
        let mut found = Vec::new();
        // Directories that have yet to be listed, by path: the path of a directory comes before those of
        // the directories in it.
        let mut todo = BTreeMap::from([(path.clone(), dir)]);
        while let Some((path, dir)) = todo.pop_first() {
            for (name, ino) in self.children(dir) {
                let path = TreePath::from_row(path.key(), name.as_str());
                if !self.within().contains(&path) {
                    continue;
                }
                if self.is_directory(ino) {
                    todo.insert(path.clone(), ino);
                }
                found.push(SubtreeName { path, dir, name, ino });
            }
        }
        found
    }
}

/// Returns all paths of a node, in the order of a walk, in a tree whose nodes `node` returns.
pub(super) fn all_paths<'a>(ino: Ino, node: &dyn Fn(Ino) -> Option<&'a Node>) -> Vec<TreePath> {
    if ino == Ino::ROOT {
        return vec![TreePath::root()];
    }
    let names = node(ino).into_iter().flat_map(|node| node.names.iter());
    let mut paths: Vec<TreePath> = names
        .filter_map(|(dir, name)| {
            Some(TreePath::from_row(all_paths(*dir, node).first()?.key(), name.as_str()))
        })
        .collect();
    paths.sort_by_cached_key(TreePath::split);
    paths
}

impl State {
    /// Returns all paths that a node has at the head.
    pub(super) fn paths_before(&self, ino: Ino) -> Vec<TreePath> {
        all_paths(ino, &|ino| self.nodes.get(&ino)?.at(self.head()))
    }
}

/// Tree after one commit, as a reader sees it at some time.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) state: &'a State,
    pub(super) seq: Seq,
    /// Time by which expiry is judged.
    pub(super) now: Timestamp,
    /// Holders whose open handles are in reach; none in the past.
    pub(super) holders: &'a [u64],
    pub(super) within: &'a Within,
    /// Viewer; `None` for the account, which sees the ids of all commits.
    pub(super) owner: Option<&'a Owner>,
}

impl View<'_> {
    /// Returns true if a version of a node is visible to the viewer: the node had a name in reach after one
    /// of the commits that left it at this version, or it had no name at all and its last names were in
    /// reach.
    pub(super) fn is_shown(&self, ino: Ino, since: Seq) -> bool {
        if self.within.is_everything() {
            return true;
        }
        let Some(versions) = self.state.nodes.get(&ino) else { return false };
        let had_name = |seq: &u64| versions.at(Seq(*seq)).is_some_and(Node::has_name);
        if !had_name(&since.0) {
            // A write through an open handle, or the loss of the last name: the names before decide.
            let mut before = (self.state.oldest.0..since.0).rev();
            return before.find(had_name).is_some_and(|seq| self.was_within(ino, Seq(seq)));
        }
        let next = versions.iter().map(|(seq, _)| *seq).find(|seq| *seq > since && *seq <= self.seq);
        let until = next.map_or(self.seq.0, |next| next.0 - 1);
        (since.max(self.state.oldest).0..=until).any(|seq| self.was_within(ino, Seq(seq)))
    }

    /// Returns true if a node is known to have had a name in reach after a commit. Of a commit before the
    /// oldest state, only names are known that have lasted until then; all names are in reach of the account.
    pub(super) fn was_within(&self, ino: Ino, seq: Seq) -> bool {
        let oldest = self.state.oldest;
        let paths = all_paths(ino, &|ino| self.state.nodes.get(&ino)?.at(seq.max(oldest)));
        let sees_all = self.owner.is_none() || self.within.is_everything();
        let is_known = |path: &TreePath| seq >= oldest || sees_all || self.state.lasted_since(path, seq);
        paths.iter().any(|path| self.within.contains(path) && is_known(path))
    }

    fn is_live(&self, ino: Ino) -> bool {
        self.node(ino).is_some_and(|node| node.has_name() && !node.is_expired(self.now))
    }
}

impl Tree for View<'_> {
    fn node(&self, ino: Ino) -> Option<&Node> {
        self.state.nodes.get(&ino)?.at(self.seq)
    }

    fn child(&mut self, dir: Ino, name: &str) -> Option<Ino> {
        let ino = (*self.state.names.get(&dir)?.get(name)?.at(self.seq)?)?;
        self.is_live(ino).then_some(ino)
    }

    fn all_names(&self, dir: Ino) -> Vec<(Name, Ino)> {
        let names = self.state.names.get(&dir).into_iter().flatten();
        names.filter_map(|(name, nodes)| Some((name.clone(), (*nodes.at(self.seq)?)?))).collect()
    }

    fn is_named(&mut self, ino: Ino) -> bool {
        self.is_live(ino)
    }

    fn is_open(&self, ino: Ino) -> bool {
        self.state.is_held(ino, self.holders)
    }

    fn within(&self) -> &Within {
        self.within
    }
}
