//! Pages of a directory and of everything below one. The host returns names in no order, so a page reads
//! all names of its directory. It holds no more of them in memory than it returns.

use std::collections::{BTreeMap, BinaryHeap};
use std::os::fd::AsFd;

use rustix::fs::{Dir, FileType};
use rustix::io;

use super::failed::failed;
use super::lookup::Tree;
use super::node::{Node, open_dir};
use super::scratch::SCRATCH;
use crate::error::{Error, ErrorKind, Result};
use crate::model::{Filling, Item, Listing, NamesPage, Page, Walk, WalkItem, WalkPage};
use crate::path::{MAX_NAME, Name, TreePath};

/// Greatest character: no name follows one that consists of it alone.
const LAST: &str = "\u{10ffff}";

/// Returns the first names of a directory after `after`, in byte order, at most `limit`, and true if there
/// are more. Names that are not UTF-8 are left out. Calls `visit_dir` for each name that is or may be a
/// directory.
fn scan(
    dir: &Node,
    after: Option<&str>,
    limit: usize,
    visit_dir: &mut dyn FnMut(&str),
) -> io::Result<(Vec<String>, bool)> {
    let (mut first, mut more) = (BinaryHeap::new(), false);
    // A heap of the smallest names so far: the greatest of them gives way to a smaller one.
    each_entry(dir, &mut |name, may_be_dir, _| {
        if may_be_dir {
            visit_dir(name);
        }
        if after.is_some_and(|after| name <= after) {
            return;
        }
        let is_full = first.len() == limit;
        more |= is_full;
        if is_full && first.peek().is_some_and(|last: &String| name >= last.as_str()) {
            return;
        }
        first.push(name.to_owned());
        if is_full {
            first.pop();
        }
    })?;
    Ok((first.into_sorted_vec(), more))
}

/// Returns the node that a directory shows under a name; `None` if it was removed meanwhile, is on another
/// filesystem, or is the engine's own.
fn shown(dir: &Node, is_root: bool, name: &str) -> Option<(Name, Node)> {
    if is_root && name == SCRATCH {
        return None;
    }
    let node = Node::below(dir.as_fd(), name).ok()?;
    Some((Name::parse(name).ok()?, node))
}

impl Tree<'_> {
    pub(super) fn list(&self, path: &TreePath, page: &Page) -> Result<Listing> {
        let dir = self.directory(path)?;
        let mut filling = Filling::new(page.limit);
        let make = |name: Name, node: &Node| {
            let entry = page.entries.then(|| node.entry().map(Box::new)).transpose()?;
            Ok(Item { name, ino: node.ino(), kind: node.kind(), entry })
        };
        let after = page.after.as_ref().map(Name::as_str);
        self.fill(&dir, path, after, &mut filling, &make, &mut |_| ())
            .map_err(|errno| failed(errno, path))?;
        Ok(filling.done())
    }

    /// Adds the entries of a directory after a name to a page. Returns false if the page is full.
    fn fill<T: crate::model::Weigh>(
        &self,
        dir: &Node,
        path: &TreePath,
        after: Option<&str>,
        filling: &mut Filling<T>,
        make: &dyn Fn(Name, &Node) -> io::Result<T>,
        visit_dir: &mut dyn FnMut(&str),
    ) -> io::Result<bool> {
        let mut after = after.map(str::to_owned);
        // One more than fits, to know whether there are more.
        let (mut names, mut more) = scan(dir, after.as_deref(), filling.room() + 1, visit_dir)?;
        loop {
            for name in &names {
                if !self.within.contains(&TreePath::from_row(path.key(), name)) {
                    continue;
                }
                let Some((shown, node)) = shown(dir, path.is_root(), name) else { continue };
                // A symbolic link may be removed between its lookup and the reading of its target.
                let Ok(item) = make(shown, &node) else { continue };
                if !filling.push(item) {
                    return Ok(false);
                }
            }
            if !more {
                return Ok(true);
            }
            // Hidden names filled the page: continue after the last one.
            after = names.pop().or(after);
            (names, more) = scan(dir, after.as_deref(), filling.room() + 1, &mut |_| ())?;
        }
    }

    pub(super) fn walk(&self, top: &TreePath, page: &WalkPage) -> Result<Walk> {
        self.directory(top)?;
        if page.after.as_ref().is_some_and(|after| after == top || !after.is_within(top)) {
            return Err(Error::invalid("`after` must be a path below the directory of the walk"));
        }
        let mut filling = Filling::new(page.limit);
        self.each_below(top, page.after.as_ref(), &mut |dir, path, after, visit_dir| {
            let make = |name: Name, node: &Node| {
                let entry = page.entries.then(|| node.entry().map(Box::new)).transpose()?;
                let path = TreePath::from_row(path.key(), name.as_str());
                Ok(WalkItem { path, ino: node.ino(), kind: node.kind(), entry })
            };
            self.fill(dir, path, after, &mut filling, &make, visit_dir)
        })?;
        Ok(filling.done())
    }

    /// Visits the directories from `top` down in the order of a walk, beginning with the first that may
    /// hold something after `after`, until `look` returns false. `look` reports the directories that it
    /// sees.
    fn each_below(&self, top: &TreePath, after: Option<&TreePath>, look: &mut Look<'_>) -> Result<()> {
        let after = after.and_then(TreePath::split);
        let mut todo = BTreeMap::from([(top.clone(), ())]);
        while let Some((path, ())) = todo.pop_first() {
            let dir = match self.directory(&path) {
                Ok(dir) => dir,
                // Removed, or replaced by something that is not a directory, since it was seen.
                Err(error) if path != *top && is_gone(&error) => continue,
                Err(error) => return Err(error),
            };
            let mut found = Vec::new();
            let mut visit_dir = |name: &str| {
                let below = TreePath::from_row(path.key(), name);
                // Otherwise everything in it comes before `after` as well.
                let may_hold =
                    after.as_ref().is_none_or(|(dir, _)| below >= *dir || dir.key().starts_with(below.key()));
                let own = path.is_root() && name == SCRATCH;
                if may_hold && !own && self.within.contains(&below) {
                    found.push(below);
                }
            };
            let behind = match &after {
                // A directory before that of `after` is visited only for the directories in it: all of its
                // own names come before.
                Some((dir, _)) if path < *dir => Some(LAST.repeat(MAX_NAME / LAST.len() + 1)),
                Some((dir, name)) if path == *dir => Some(name.as_str().to_owned()),
                _ => None,
            };
            let go_on = look(&dir, &path, behind.as_deref(), &mut visit_dir);
            if !go_on.map_err(|errno| failed(errno, &path))? {
                break;
            }
            todo.extend(found.into_iter().map(|path| (path, ())));
        }
        Ok(())
    }

    /// Returns the paths of the node at a path, in the order of a walk. A node with several names is
    /// searched for in everything that can be reached.
    pub(super) fn names(&self, path: &TreePath, page: &NamesPage) -> Result<Listing<TreePath>> {
        let node = self.find(path)?;
        let mut paths = vec![path.clone()];
        // A directory has links for the directories in it, but only one name.
        if node.names() > 1 && !node.is_dir() {
            paths.clear();
            for top in self.within.tops() {
                match self.find(top) {
                    Ok(found) if found.is(&node) => paths.push(top.clone()),
                    Ok(found) if found.is_dir() => self.names_below(top, &node, &mut paths)?,
                    Err(error) if !is_gone(&error) => return Err(error),
                    _ => {}
                }
            }
            paths.sort_by_cached_key(TreePath::split);
        }
        let mut filling = Filling::new(page.limit);
        let after = page.after.as_ref().map(TreePath::split);
        let behind = |path: &TreePath| after.as_ref().is_none_or(|after| path.split() > *after);
        paths.into_iter().filter(behind).all(|path| filling.push(path));
        Ok(filling.done())
    }

    fn names_below(&self, top: &TreePath, node: &Node, paths: &mut Vec<TreePath>) -> Result<()> {
        self.each_below(top, None, &mut |dir, path, _, visit_dir| {
            each_entry(dir, &mut |name, may_be_dir, number| {
                if may_be_dir {
                    visit_dir(name);
                }
                let is_it = || shown(dir, path.is_root(), name).is_some_and(|(_, found)| found.is(node));
                let below = TreePath::from_row(path.key(), name);
                // The inode in the listing spares the lookup of all other names.
                if number == node.host_number() && self.within.contains(&below) && is_it() {
                    paths.push(below);
                }
            })?;
            Ok(true)
        })
    }

    /// Calls `look` for each name of a directory, with true if it may be that of a directory. A directory
    /// that was removed has no names.
    pub(super) fn each_name(&self, path: &TreePath, look: &mut dyn FnMut(&str, bool)) -> Result<()> {
        match self.directory(path) {
            Ok(dir) => each_entry(&dir, &mut |name, may_be_dir, _| look(name, may_be_dir))
                .map_err(|errno| failed(errno, path)),
            Err(error) if is_gone(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Calls `look` for each UTF-8 name of a directory, with true if it may be that of a directory, and with
/// its inode.
fn each_entry(dir: &Node, look: &mut dyn FnMut(&str, bool, u64)) -> io::Result<()> {
    let names = Dir::new(open_dir(dir.as_fd(), "")?)?;
    for entry in names {
        let entry = entry?;
        let Ok(name) = entry.file_name().to_str() else { continue };
        // Leaves out `.` and `..`.
        if Name::parse(name).is_ok() {
            // Some filesystems do not return types with names: such an entry is looked up as a directory.
            let may_be_dir = matches!(entry.file_type(), FileType::Directory | FileType::Unknown);
            look(name, may_be_dir, entry.ino());
        }
    }
    Ok(())
}

/// Callback for one directory: looks at its names after one of them. Returns false to stop.
type Look<'a> = dyn FnMut(&Node, &TreePath, Option<&str>, &mut dyn FnMut(&str)) -> io::Result<bool> + 'a;

/// Returns true if the directory no longer exists, or does not belong to the tree.
pub(super) fn is_gone(error: &Error) -> bool {
    error.is_absent() || error.is(ErrorKind::CrossesMounts)
}
