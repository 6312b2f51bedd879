//! Looking names and nodes up, said once for readers ([`View`]) and for commits
//! ([`Scratch`](super::scratch::Scratch)).

use std::collections::BTreeMap;

use super::state::{Node, State};
use crate::error::{Error, Result};
use crate::model::{At, Ino, Seq, Timestamp};
use crate::path::{Name, TreePath};

/// One name of a subtree.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) path: TreePath,
    pub(super) dir: Ino,
    pub(super) name: Name,
    pub(super) ino: Ino,
}

/// A tree in which expired entries are absent. Looking takes `&mut self` because a commit records the
/// deletion of an expired entry that it meets.
pub(super) trait Tree {
    /// A node as it is kept: named or not, expired or not.
    fn node(&self, ino: Ino) -> Option<&Node>;

    /// What a name in a directory names.
    fn child(&mut self, dir: Ino, name: &str) -> Option<Ino>;

    /// The names in a directory, in byte order, those of expired entries too.
    fn all_names(&self, dir: Ino) -> Vec<(Name, Ino)>;

    /// Whether the node has a name now.
    fn is_named(&mut self, ino: Ino) -> bool;

    /// Whether this instance holds the node open.
    fn is_open(&self, ino: Ino) -> bool;

    /// A node that was found.
    fn get(&self, ino: Ino) -> &Node {
        self.node(ino).expect("what was found has a node")
    }

    /// The names in a directory, in byte order.
    fn children(&mut self, dir: Ino) -> Vec<(Name, Ino)> {
        let mut children = self.all_names(dir);
        children.retain(|(_, ino)| self.is_named(*ino));
        children
    }

    fn is_directory(&self, ino: Ino) -> bool {
        self.node(ino).is_some_and(Node::is_directory)
    }

    /// Every path of a node, in the order of a walk.
    fn paths(&self, ino: Ino) -> Vec<TreePath> {
        if ino == Ino::ROOT {
            return vec![TreePath::root()];
        }
        let Some(node) = self.node(ino) else { return Vec::new() };
        let mut paths: Vec<TreePath> = node
            .names
            .iter()
            .filter_map(|(dir, name)| self.paths(*dir).first().map(|dir| (dir.key().to_owned(), name)))
            .map(|(dir, name)| TreePath::from_row(&dir, name.as_str()))
            .collect();
        paths.sort_by_cached_key(TreePath::split);
        paths
    }

    /// The first path of a node, for an error about it.
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
            At::Node(ino) if self.is_named(*ino) || self.is_open(*ino) => Ok(*ino),
            At::Node(_) => Err(Error::no_node()),
        }
    }

    fn find_path(&mut self, path: &TreePath) -> Result<Ino> {
        let mut here = Ino::ROOT;
        // The ancestors run one ahead: each names the directory that the next segment is looked up in.
        for (ancestor, segment) in path.ancestors().zip(path.segments()) {
            if !self.is_directory(here) {
                return Err(Error::not_a_directory(&ancestor));
            }
            here = self.child(here, segment).ok_or_else(|| Error::not_found(path))?;
        }
        Ok(here)
    }

    /// The path of a name in a directory known by number.
    fn child_path(&mut self, dir: Ino, name: &Name) -> Result<TreePath> {
        let named = self.is_named(dir);
        let path = self.path_of(dir).filter(|_| named).ok_or_else(Error::no_node)?;
        if !self.is_directory(dir) {
            return Err(Error::not_a_directory(&path));
        }
        Ok(path.join(name)?)
    }

    /// Everything below a directory, in the order of a walk.
    fn below(&mut self, path: &TreePath, dir: Ino) -> Vec<Found> {
        let mut found = Vec::new();
        // Directories still to list, by path: a directory's path comes before those of the directories in it.
        let mut todo = BTreeMap::from([(path.clone(), dir)]);
        while let Some((path, dir)) = todo.pop_first() {
            for (name, ino) in self.children(dir) {
                let path = TreePath::from_row(path.key(), name.as_str());
                if self.is_directory(ino) {
                    todo.insert(path.clone(), ino);
                }
                found.push(Found { path, dir, name, ino });
            }
        }
        found
    }
}

/// The tree after one commit, as a reader sees it at a time.
pub(super) struct View<'a> {
    pub(super) state: &'a State,
    pub(super) seq: Seq,
    /// What expiry is judged by.
    pub(super) now: Timestamp,
    /// Whether nodes held open are in reach: in the present.
    pub(super) present: bool,
}

impl View<'_> {
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
        self.present && self.state.open.contains_key(&ino)
    }
}
