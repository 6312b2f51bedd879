//! Quotas, in the simplest way: no usage is stored. A commit counts what was below each path before it, and
//! what it would leave there, name by name.

use std::collections::BTreeSet;

use super::instance::MemoryFs;
use super::scratch::Scratch;
use super::state::{Node, State};
use super::tree::Tree;
use crate::error::{Error, ErrorKind, Result};
use crate::model::quota::{Limits, MAX_COUNTED, MAX_QUOTAS, Quota};
use crate::model::{Ino, Kind, Timestamp};
use crate::path::{Name, TreePath};
use crate::rule::quota::{self, Count};

impl MemoryFs {
    /// Returns the quotas, as [`AccountStore::quotas`](crate::AccountStore::quotas) does.
    ///
    /// # Errors
    /// As that method.
    pub fn quotas(&self) -> Result<Vec<Quota>> {
        let state = self.read();
        state.quotas.iter().map(|(path, limits)| state.quota(path, *limits)).collect()
    }

    /// Sets a quota, as [`AccountStore::set_quota`](crate::AccountStore::set_quota) does.
    ///
    /// # Errors
    /// As that method.
    pub fn set_quota(&self, path: &TreePath, limits: Limits) -> Result<Quota> {
        limits.check()?;
        let mut state = self.write();
        if !state.quotas.contains_key(path) && state.quotas.len() == MAX_QUOTAS {
            return Err(Error::new(ErrorKind::TooLarge, format!("a tree has at most {MAX_QUOTAS} quotas")));
        }
        let quota = state.quota(path, limits)?;
        state.quotas.insert(path.clone(), limits);
        Ok(quota)
    }

    /// Removes a quota, as [`AccountStore::remove_quota`](crate::AccountStore::remove_quota) does.
    ///
    /// # Errors
    /// As that method.
    pub fn remove_quota(&self, path: &TreePath) -> Result<()> {
        let removed = self.write().quotas.remove(path);
        removed.map(drop).ok_or_else(|| Error::at(ErrorKind::NotFound, path, "this path has no quota"))
    }
}

impl State {
    fn names_at_head(&self, dir: Ino) -> Vec<(Name, Ino)> {
        let names = self.names.get(&dir).into_iter().flatten();
        names.filter_map(|(name, nodes)| Some((name.clone(), (*nodes.at(self.head())?)?))).collect()
    }

    /// Returns the quota of a path with its usage.
    fn quota(&self, path: &TreePath, limits: Limits) -> Result<Quota> {
        let below = nodes_below(path, &|dir| self.names_at_head(dir));
        // Expired nodes count until a commit ends them, as in `count`.
        let used = count(&below, &|ino| self.nodes.get(&ino)?.at(self.head())).usage()?;
        if used.bytes > MAX_COUNTED {
            return Err(Error::at(ErrorKind::TooLarge, path, "too many bytes to count"));
        }
        Ok(Quota { path: path.clone(), limits, used })
    }
}

impl Scratch<'_> {
    /// Refuses a commit that would leave more below a path than its quota allows. Expired nodes are ended
    /// first, in the order of expiry, until the rest fits; the last path in order comes first.
    pub(super) fn count(&mut self) -> Result<()> {
        let quotas = self.state.quotas.iter().map(|(path, limits)| self.state.quota(path, *limits));
        let quotas: Vec<Quota> = quotas.collect::<Result<_>>()?;
        // In reverse order, inner paths come before outer ones: what ends there counts for both.
        for quota in quotas.iter().rev() {
            while !quota::allows(quota, self.left_below(&quota.path))
                && let Some(due) = self.first_due(&quota.path)
            {
                self.expire(due);
            }
        }
        let counted: Vec<Count> = quotas.iter().map(|quota| self.left_below(&quota.path)).collect();
        quota::refuse(self.within, quotas.iter().zip(counted))
    }

    fn nodes_below(&self, path: &TreePath) -> Vec<Ino> {
        nodes_below(path, &|dir| self.all_names(dir))
    }

    fn left_below(&self, path: &TreePath) -> Count {
        count(&self.nodes_below(path), &|ino| self.node(ino))
    }

    /// Returns the node below a path that expired first.
    fn first_due(&self, path: &TreePath) -> Option<Ino> {
        let due = |ino: Ino| -> Option<(Timestamp, Ino)> {
            let node = self.node(ino).filter(|node| node.is_expired(self.time))?;
            Some((node.expires_at?, ino))
        };
        self.nodes_below(path).into_iter().filter_map(due).min().map(|(_, ino)| ino)
    }
}

/// Returns the node of each name below a path, expired or not.
fn nodes_below(path: &TreePath, names: &dyn Fn(Ino) -> Vec<(Name, Ino)>) -> Vec<Ino> {
    let top = path.segments().try_fold(Ino::ROOT, |dir, segment| {
        names(dir).into_iter().find(|(name, _)| name.as_str() == segment).map(|(_, ino)| ino)
    });
    let mut found = Vec::new();
    let mut todo: Vec<Ino> = top.into_iter().collect();
    while let Some(dir) = todo.pop() {
        for (_, ino) in names(dir) {
            found.push(ino);
            todo.push(ino);
        }
    }
    found
}

/// Returns the usage that quotas count for the nodes of some names.
fn count<'a>(names: &[Ino], node: &dyn Fn(Ino) -> Option<&'a Node>) -> Count {
    // A file with several names has its bytes once, and an entry for each name.
    let once: BTreeSet<Ino> = names.iter().copied().collect();
    let files = once.into_iter().filter_map(node).filter(|node| node.kind == Kind::File);
    Count {
        bytes: files.map(|file| i128::from(file.size())).sum(),
        entries: i128::try_from(names.len()).unwrap_or(i128::MAX),
    }
}
