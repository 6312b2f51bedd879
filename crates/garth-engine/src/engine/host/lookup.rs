//! Lookup of nodes by path, each time from the descriptor of the folder, and the errors of a failed lookup.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

use super::failed::{failed, unsupported};
use super::node::Node;
use super::scratch::SCRATCH;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::ATTEMPTS;
use crate::model::{At, Kind, Within};
use crate::path::TreePath;

/// Folder, as far as a view reaches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tree<'a> {
    pub(super) root: &'a OwnedFd,
    pub(super) within: &'a Within,
}

/// Returns the path of an address. Inodes of the host cannot be opened again, so other addresses are
/// refused.
pub(super) fn path_of(at: &At) -> Result<&TreePath> {
    match at {
        At::Path(path) => Ok(path),
        At::Node(_) | At::Child(..) => Err(unsupported("cannot look up nodes by inode; use a path")),
    }
}

/// Returns true if a path is in the directory where the engine stores unfinished files.
pub(super) fn is_reserved(path: &TreePath) -> bool {
    path.segments().next() == Some(SCRATCH)
}

/// Returns a path in the host's form, relative to the folder.
pub(super) fn relative(path: &TreePath) -> &str {
    path.key().strip_prefix('/').unwrap_or_default()
}

impl<'a> Tree<'a> {
    pub(super) fn root_fd(&self) -> BorrowedFd<'a> {
        self.root.as_fd()
    }

    /// Returns the node at a path.
    pub(super) fn find(&self, path: &TreePath) -> Result<Node> {
        if !self.within.contains(path) || is_reserved(path) {
            return Err(Error::not_found(path));
        }
        // The reason is found by a second lookup. If that succeeds, another process has changed the tree:
        // try again.
        for _ in 0..ATTEMPTS {
            let reason = match Node::below(self.root_fd(), relative(path)) {
                // The root has inode 1 in every tree, whatever the host's inode of the folder.
                Ok(node) if path.is_root() => return Ok(node.into_root()),
                Ok(node) => return Ok(node),
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => self.reason(path),
                Err(errno) => return Err(failed(errno, path)),
            };
            if let Some(reason) = reason {
                return Err(reason);
            }
        }
        Err(failed(Errno::AGAIN, path))
    }

    /// Returns the error of a failed lookup; `None` if the path exists by now.
    fn reason(&self, path: &TreePath) -> Option<Error> {
        let mut here = match Node::below(self.root_fd(), "") {
            Ok(root) => root,
            Err(errno) => return Some(failed(errno, path)),
        };
        // The ancestors run one ahead: each names the directory in which the next segment is looked up.
        for (ancestor, segment) in path.ancestors().zip(path.segments()) {
            if !here.is_dir() {
                // Anything above the top of the subtree, or of an island, is not disclosed.
                let told = self.within.top_of(path).is_some_and(|top| ancestor.is_within(top));
                return Some(if told { Error::not_a_directory(&ancestor) } else { Error::not_found(path) });
            }
            here = match Node::below(here.as_fd(), segment) {
                Ok(node) => node,
                Err(errno) => return Some(failed(errno, path)),
            };
        }
        None
    }

    /// Checks that a name may be created at a path.
    pub(super) fn check_creatable(&self, path: &TreePath) -> Result<()> {
        if self.within.is_excluded(path) {
            return Err(Error::closed(path));
        }
        if self.within.contains(path) { Ok(()) } else { Err(Error::not_found(path)) }
    }

    /// Refuses to treat a directory with excluded paths below it as one.
    pub(super) fn check_whole(&self, node: &Node, path: &TreePath) -> Result<()> {
        if node.is_dir() && self.within.exclusions_below(path).next().is_some() {
            let message = "contains reserved entries";
            return Err(Error::at(ErrorKind::Busy, path, message));
        }
        Ok(())
    }

    /// Returns the node of a name in a directory. `path` is that of the name.
    pub(super) fn child(&self, dir: &Node, name: &str, path: &TreePath) -> Result<Option<Node>> {
        match Node::below(dir.as_fd(), name) {
            Ok(node) => Ok(Some(node)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(failed(errno, path)),
        }
    }

    pub(super) fn directory(&self, path: &TreePath) -> Result<Node> {
        let node = self.find(path)?;
        if node.is_dir() { Ok(node) } else { Err(Error::not_a_directory(path)) }
    }

    pub(super) fn file(&self, path: &TreePath) -> Result<Node> {
        let node = self.find(path)?;
        require_file(&node, path)?;
        Ok(node)
    }
}

/// Refuses a node that has no content.
pub(super) fn require_file(node: &Node, path: &TreePath) -> Result<()> {
    match node.kind() {
        Kind::File => Ok(()),
        Kind::Directory => Err(Error::is_a_directory(path)),
        Kind::Symlink | Kind::Fifo | Kind::Socket | Kind::CharDevice | Kind::BlockDevice | Kind::Whiteout => {
            Err(Error::at(ErrorKind::NotPermitted, path, "only a file has content"))
        }
    }
}
