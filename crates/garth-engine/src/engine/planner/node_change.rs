//! Storage of new versions of nodes: which rows a version adds and replaces. A version of a directory that
//! differs from the one before only in its times has no row of its own. Why:
//! `docs/decisions/times-of-directories.md`.

use super::rows::{NewestNode, NodeRow};
use crate::model::Kind;

/// Times of a version of a directory that another one followed. At least one of the two differs from the
/// version before it only in its times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedTimes {
    /// Commit of the version.
    pub since: u64,
    /// Commit of the version that followed.
    pub till: u64,
    /// Modification time of the version, in nanoseconds since 1970.
    pub time: i64,
}

/// Row changes that store a new version of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeWrite {
    /// New times of a directory. They replace those of the version before, if these had no row either.
    Times {
        /// Times to store for the past.
        ended: Option<EndedTimes>,
    },
    /// New row of the node.
    Row {
        /// Times to store for the past.
        ended: Option<EndedTimes>,
        /// True if the version before had no row: its times are removed.
        drops_times: bool,
        /// True if the log may not lead to the version that ended, or to the end of the node. The database
        /// then records both the commit and the node, for the removal of the past.
        replaced: bool,
    },
}

impl NodeWrite {
    /// Returns the version as the database has it afterwards.
    pub fn newest(&self, node: &NodeRow) -> NewestNode {
        NewestNode { row: node.clone(), has_times: matches!(self, Self::Times { .. }) }
    }
}

/// Returns how to store `node`, which follows the version `before`. For nodes other than directories,
/// `before` does not matter.
pub fn node_write(before: Option<&NewestNode>, node: &NodeRow) -> NodeWrite {
    // `replaced`: the log names neither the directories whose link counts change nor all nodes that lose
    // their last name.
    if node.kind != Kind::Directory {
        return NodeWrite::Row { ended: None, drops_times: false, replaced: node.nlink == 0 };
    }
    let Some(NewestNode { row: before, has_times }) = before else {
        return NodeWrite::Row { ended: None, drops_times: false, replaced: false };
    };
    // The version before, with the times of this commit: if that is equal, nothing else has changed.
    let mut touched = before.clone();
    touched.touch((node.seq, node.mtime));
    let only_times = touched == *node;
    // A span that ends with commit 1 holds no commit, so no state of the past needs it.
    let ended = ((only_times || *has_times) && node.seq > 1).then_some(EndedTimes {
        since: before.seq,
        till: node.seq,
        time: before.mtime,
    });
    if only_times {
        return NodeWrite::Times { ended };
    }
    NodeWrite::Row { ended, drops_times: *has_times, replaced: true }
}
