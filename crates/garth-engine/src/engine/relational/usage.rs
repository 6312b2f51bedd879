//! Sums of what takes the space of an account: its nodes, by the children of a directory. Memory does not
//! grow with the account.

use std::collections::BTreeMap;

use crate::fs::store::{MAX_USAGE_PATHS, PathUsage, StoredUsage};
use crate::model::Within;
use crate::path::{SYSTEM, TreePath};

/// Bytes of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeBytes {
    /// Newest version, with its names and content.
    pub live: u64,
    /// Earlier versions.
    pub history: u64,
    /// Part of the history that snapshots and other readers of the past keep.
    pub held: u64,
}

impl NodeBytes {
    /// Returns the bytes of a node from those of its rows, of which `history` has all versions. A version
    /// takes `row` bytes.
    #[must_use]
    pub fn of_rows(self, row: u64, is_named: bool) -> Self {
        let Self { live, history, held } = self;
        // One of the versions is the current one.
        let version = row.min(history);
        let (live, history) = (live + version, history - version);
        match is_named {
            true => Self { live, history, held },
            // Removed: all of it is history, and a snapshot may show its last state.
            false => Self { live: 0, history: live + history, held },
        }
    }
}

/// Commits whose states only readers of the past keep: after the first, up to and including the second.
#[derive(Clone, Copy, Debug)]
pub struct HeldSpan(pub u64, pub u64);

impl HeldSpan {
    /// Returns true if the states that show what ended with commit `till` are kept by readers only.
    pub fn has(self, till: u64) -> bool {
        let Self(since, until) = self;
        since < till && till <= until
    }
}

/// The first children of a path, by name, with the bytes at and below them.
#[derive(Debug, Default)]
struct Children {
    counted: BTreeMap<String, NodeBytes>,
    more: bool,
}

impl Children {
    fn add(&mut self, child: &str, bytes: NodeBytes) {
        if let Some(known) = self.counted.get_mut(child) {
            known.live += bytes.live;
            known.history += bytes.history;
            return;
        }
        if self.counted.len() >= MAX_USAGE_PATHS {
            self.more = true;
            let is_early = self.counted.last_key_value().is_some_and(|(last, _)| child < last.as_str());
            if !is_early {
                return;
            }
            // A name that goes never returns, because the last of the list only becomes an earlier one: the
            // names that stay were counted from the beginning.
            self.counted.pop_last();
        }
        self.counted.insert(child.to_owned(), bytes);
    }
}

/// Sums of an account, with the children of a directory.
#[derive(Debug)]
pub struct UsageCount {
    usage: StoredUsage,
    below: TreePath,
    within: Within,
    children: Children,
}

impl UsageCount {
    /// Begins with the sizes that rows have. Children of `below` are named as far as they are in `within`.
    pub fn new(usage: StoredUsage, below: &TreePath, within: &Within) -> Self {
        let (below, within) = (below.clone(), within.clone());
        Self { usage, below, within, children: Children::default() }
    }

    /// Adds a node with its first name, or the last that it had.
    pub fn add(&mut self, bytes: NodeBytes, path: Option<&TreePath>) {
        self.usage.live += bytes.live;
        self.usage.history += bytes.history;
        self.usage.snapshots += bytes.held;
        let Some(path) = path else { return };
        if is_in_overlay(path) {
            self.usage.overlays += bytes.live + bytes.history;
        }
        if self.within.contains(path)
            && let Some(child) = child_of(path, &self.below)
        {
            self.children.add(child, bytes);
        }
    }

    /// Returns the sums.
    pub fn finish(self) -> StoredUsage {
        let path = |name: &str| TreePath::from_row(self.below.key(), name);
        let counted = self.children.counted.iter();
        let paths = counted
            .map(|(name, bytes)| PathUsage { path: path(name), live: bytes.live, history: bytes.history })
            .collect();
        StoredUsage { paths, more: self.children.more, ..self.usage }
    }
}

/// Returns true for a path in the upper layer of an overlay.
fn is_in_overlay(path: &TreePath) -> bool {
    path.key().strip_prefix(SYSTEM).is_some_and(|rest| rest.starts_with("/overlays/"))
}

/// Returns the name of the child of a directory that a path is, or is below; `None` for any other path.
fn child_of<'p>(path: &'p TreePath, below: &TreePath) -> Option<&'p str> {
    path.key().strip_prefix(below.key())?.strip_prefix('/')?.split('/').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_children_are_counted_completely() {
        let mut children = Children::default();
        let bytes = NodeBytes { live: 1, ..NodeBytes::default() };
        // Backwards, so that each new name drives out the last one.
        for round in 0..2 {
            for n in (0..=MAX_USAGE_PATHS).rev() {
                children.add(&format!("{n:05}"), bytes);
            }
            assert!(children.more, "{round}");
        }
        assert_eq!(children.counted.len(), MAX_USAGE_PATHS);
        assert!(!children.counted.contains_key(&format!("{MAX_USAGE_PATHS:05}")));
        assert!(children.counted.values().all(|counted| counted.live == 2));
    }

    #[test]
    fn removed_node_is_history() {
        let rows = NodeBytes { live: 10, history: 300, held: 5 };
        assert_eq!(rows.of_rows(100, true), NodeBytes { live: 110, history: 200, held: 5 });
        assert_eq!(rows.of_rows(100, false), NodeBytes { live: 0, history: 310, held: 5 });
    }
}
