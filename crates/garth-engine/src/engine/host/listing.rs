//! Pages of a directory and of all below one. The host keeps names in no order, so that a page reads all
//! names of its directory; it holds no more of them in memory than it gives.

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

/// No name comes behind one that consists of it.
const LAST: &str = "\u{10ffff}";

/// The first names of a directory behind one, in byte order, at most `limit`, and whether there are more.
/// Names that are no text are left out. Hands over every directory, or what may be one.
fn scan(
    dir: &Node,
    after: Option<&str>,
    limit: usize,
    each_dir: &mut dyn FnMut(&str),
) -> io::Result<(Vec<String>, bool)> {
    let (mut first, mut more) = (BinaryHeap::new(), false);
    each_entry(dir, &mut |name, may_be_dir, _| {
        if may_be_dir {
            each_dir(name);
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

/// What a directory shows by a name; `None` for what is gone by now, is another file system's, or is the
/// engine's own.
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

    /// Adds what is in a directory behind a name. False if the page is full.
    fn fill<T: crate::model::Weigh>(
        &self,
        dir: &Node,
        path: &TreePath,
        after: Option<&str>,
        filling: &mut Filling<T>,
        make: &dyn Fn(Name, &Node) -> io::Result<T>,
        each_dir: &mut dyn FnMut(&str),
    ) -> io::Result<bool> {
        let mut after = after.map(str::to_owned);
        let (mut names, mut more) = scan(dir, after.as_deref(), filling.room() + 1, each_dir)?;
        loop {
            for name in &names {
                if !self.within.contains(&TreePath::from_row(path.key(), name)) {
                    continue;
                }
                let Some((shown, node)) = shown(dir, path.is_root(), name) else { continue };
                // a link may go between its look-up and the reading of its target
                let Ok(item) = make(shown, &node) else { continue };
                if !filling.push(item) {
                    return Ok(false);
                }
            }
            if !more {
                return Ok(true);
            }
            after = names.pop().or(after);
            (names, more) = scan(dir, after.as_deref(), filling.room() + 1, &mut |_| ())?;
        }
    }

    pub(super) fn walk(&self, top: &TreePath, page: &WalkPage) -> Result<Walk> {
        self.directory(top)?;
        if page.after.as_ref().is_some_and(|after| after == top || !after.is_within(top)) {
            return Err(Error::invalid("a walk goes on behind a path that is below its directory"));
        }
        let mut filling = Filling::new(page.limit);
        self.each_below(top, page.after.as_ref(), &mut |dir, path, after, each_dir| {
            let make = |name: Name, node: &Node| {
                let entry = page.entries.then(|| node.entry().map(Box::new)).transpose()?;
                let path = TreePath::from_row(path.key(), name.as_str());
                Ok(WalkItem { path, ino: node.ino(), kind: node.kind(), entry })
            };
            self.fill(dir, path, after, &mut filling, &make, each_dir)
        })?;
        Ok(filling.done())
    }

    /// Goes through the directories from `top` down in the order of a walk, from the one on that may hold
    /// something behind `after`, until `look` says that it has enough. It hands the directories that it sees
    /// back.
    fn each_below(&self, top: &TreePath, after: Option<&TreePath>, look: &mut Look<'_>) -> Result<()> {
        let after = after.and_then(TreePath::split);
        let mut todo = BTreeMap::from([(top.clone(), ())]);
        while let Some((path, ())) = todo.pop_first() {
            let dir = match self.directory(&path) {
                Ok(dir) => dir,
                // what has gone, or was put in the place of a directory, meanwhile
                Err(error) if path != *top && is_gone(&error) => continue,
                Err(error) => return Err(error),
            };
            let mut found = Vec::new();
            let mut each_dir = |name: &str| {
                let below = TreePath::from_row(path.key(), name);
                // else all in it comes before, too
                let may_hold =
                    after.as_ref().is_none_or(|(dir, _)| below >= *dir || dir.key().starts_with(below.key()));
                let own = path.is_root() && name == SCRATCH;
                if may_hold && !own && self.within.contains(&below) {
                    found.push(below);
                }
            };
            let behind = match &after {
                Some((dir, _)) if path < *dir => Some(LAST.repeat(MAX_NAME / LAST.len() + 1)),
                Some((dir, name)) if path == *dir => Some(name.as_str().to_owned()),
                _ => None,
            };
            let go_on = look(&dir, &path, behind.as_deref(), &mut each_dir);
            if !go_on.map_err(|errno| failed(errno, &path))? {
                break;
            }
            todo.extend(found.into_iter().map(|path| (path, ())));
        }
        Ok(())
    }

    /// The paths of what is at a path, in the order of a walk. Several names are found by going through all
    /// that can be reached.
    pub(super) fn names(&self, path: &TreePath, page: &NamesPage) -> Result<Listing<TreePath>> {
        let node = self.find(path)?;
        let mut paths = vec![path.clone()];
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
        self.each_below(top, None, &mut |dir, path, _, each_dir| {
            each_entry(dir, &mut |name, may_be_dir, number| {
                if may_be_dir {
                    each_dir(name);
                }
                let is_it = || shown(dir, path.is_root(), name).is_some_and(|(_, found)| found.is(node));
                let below = TreePath::from_row(path.key(), name);
                if number == node.host_number() && self.within.contains(&below) && is_it() {
                    paths.push(below);
                }
            })?;
            Ok(true)
        })
    }

    /// Hands over the names of a directory, and whether each may be one of a directory. None if it is gone.
    pub(super) fn each_name(&self, path: &TreePath, look: &mut dyn FnMut(&str, bool)) -> Result<()> {
        match self.directory(path) {
            Ok(dir) => each_entry(&dir, &mut |name, may_be_dir, _| look(name, may_be_dir))
                .map_err(|errno| failed(errno, path)),
            Err(error) if is_gone(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Hands over every name of a directory that is text, whether it may be a directory's, and its number.
fn each_entry(dir: &Node, look: &mut dyn FnMut(&str, bool, u64)) -> io::Result<()> {
    let names = Dir::new(open_dir(dir.as_fd(), "")?)?;
    for entry in names {
        let entry = entry?;
        let Ok(name) = entry.file_name().to_str() else { continue };
        // `.` and `..`
        if Name::parse(name).is_ok() {
            let may_be_dir = matches!(entry.file_type(), FileType::Directory | FileType::Unknown);
            look(name, may_be_dir, entry.ino());
        }
    }
    Ok(())
}

/// Looks at one directory, from behind a name on; false to end.
type Look<'a> = dyn FnMut(&Node, &TreePath, Option<&str>, &mut dyn FnMut(&str)) -> io::Result<bool> + 'a;

/// Returns true if there is no such directory any more, or none that belongs to the tree.
pub(super) fn is_gone(error: &Error) -> bool {
    error.is_absent() || error.is(ErrorKind::CrossesMounts)
}
