//! Retention: the part of the past that is readable. Nothing is removed: readers compare with
//! [`State::oldest`].

use std::convert::Infallible;

use super::instance::MemoryFs;
use super::state::{Node, State};
use super::tree::View;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::store::RetentionState;
use crate::model::{CommitInfo, Ino, Seq};
use crate::path::TreePath;
use crate::rule::retention::Retention;

impl MemoryFs {
    /// Returns the retention, as [`AccountStore::retention`](crate::AccountStore::retention) does.
    pub fn retention(&self) -> RetentionState {
        self.read().retention_state()
    }

    /// Sets the retention, as [`AccountStore::set_retention`](crate::AccountStore::set_retention) does.
    ///
    /// # Errors
    /// As that method.
    pub fn set_retention(&self, retention: Retention) -> Result<RetentionState> {
        retention.check()?;
        if !retention.content.is_empty() {
            return Err(Error::new(ErrorKind::Unsupported, "old content is stored as long as the log"));
        }
        let mut state = self.write();
        state.retention = retention;
        Ok(state.retention_state())
    }

    /// Ends the readable past where the retention says so, as a collection does.
    pub fn collect_now(&self) {
        let now = self.env.now();
        let mut state = self.write();
        let held = state.snapshots.values().map(|snapshot| snapshot.seq.0).min();
        let last_until = |time| {
            let until = state.log.partition_point(|(commit, _)| commit.time.0 <= time);
            Ok::<_, Infallible>(until as u64)
        };
        let Ok(oldest) = state.retention.oldest(state.head().0, now, held, last_until);
        state.oldest = state.oldest.max(Seq(oldest));
    }
}

impl State {
    fn retention_state(&self) -> RetentionState {
        RetentionState {
            set: self.retention.clone(),
            built_in: self.registry.content_limits().to_vec(),
            oldest: self.oldest,
            oldest_time: self.info(self.oldest).map(|commit| commit.time),
            folded: Seq(0),
            held_by: None,
        }
    }

    /// Fails with `Gone` for a commit before the oldest state.
    pub(super) fn check_readable(&self, seq: Seq) -> Result<()> {
        if seq < self.oldest { Err(Error::gone(self.oldest.0)) } else { Ok(()) }
    }

    /// Returns a commit. Of one before the oldest state only the author is known.
    pub(super) fn commit_info(&self, seq: Seq) -> Option<CommitInfo> {
        let info = self.info(seq)?;
        Some(match seq < self.oldest {
            true => CommitInfo::of_folded(seq, self.time_of(self.oldest), info.author.clone()),
            false => info.clone(),
        })
    }

    /// Returns true if a version of a node is after the oldest state, or is the one that this state shows.
    pub(super) fn is_kept(&self, ino: Ino, version: Seq) -> bool {
        if self.oldest == Seq(0) || version > self.oldest {
            return true;
        }
        let Some(versions) = self.nodes.get(&ino) else { return false };
        // A node without a name is not in that state, although a handle may still hold it open.
        versions.since(self.oldest) == Some(version) && versions.at(self.oldest).is_some_and(Node::has_name)
    }

    /// Returns true if a path, which exists in the oldest state, has led to its node since a commit or
    /// longer.
    pub(super) fn lasted_since(&self, path: &TreePath, commit: Seq) -> bool {
        let mut dir = Ino::ROOT;
        for segment in path.segments() {
            let nodes = self.names.get(&dir).and_then(|names| names.get(segment));
            let Some((nodes, Some(ino))) = nodes.and_then(|nodes| Some((nodes, *nodes.at(self.oldest)?)))
            else {
                return false;
            };
            if nodes.since(self.oldest).is_none_or(|since| since > commit) {
                return false;
            }
            dir = ino;
        }
        true
    }
}

impl View<'_> {
    /// Fails with `Gone` for a view of a state that is no longer readable, and that shows because the view
    /// was opened before: versions of that time are not kept.
    pub(super) fn check_history(&self) -> Result<()> {
        self.state.check_readable(self.seq)
    }
}
