//! Retention: the part of the past that is readable. Nothing is removed: readers compare with
//! [`State::oldest`] and [`State::content_gone`].

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Arc, PoisonError};

use super::instance::MemoryFs;
use super::state::{Node, State, Timeline};
use super::tree::{Tree as _, View, all_paths};
use crate::error::{Error, ErrorKind, OptionalExt as _, Result};
use crate::fs::forks;
use crate::fs::store::RetentionState;
use crate::model::{At, CommitInfo, Ino, Kind, MAX_READ, Seq, Timestamp, Within};
use crate::path::TreePath;
use crate::rule::PathPattern;
use crate::rule::retention::{ContentLimits, Keep, Retention, last_of_age};

impl MemoryFs {
    /// Returns the retention, as [`AccountStore::retention`](crate::AccountStore::retention) does.
    pub fn retention(&self) -> RetentionState {
        self.read().retention_state(self.env.now())
    }

    /// Sets the retention, as [`AccountStore::set_retention`](crate::AccountStore::set_retention) does.
    ///
    /// # Errors
    /// As that method.
    pub fn set_retention(&self, retention: Retention) -> Result<RetentionState> {
        retention.check()?;
        let now = self.env.now();
        let mut state = self.write();
        state.check_classes(&retention, now)?;
        let before = ContentLimits::new(&state.retention.content);
        let stricter = ContentLimits::new(&retention.content).stricter_ages(&before);
        // Content that is now kept for less time is looked for in the whole log.
        state.searched.retain(|age, _| !stricter.contains(age));
        state.retention = retention;
        Ok(state.retention_state(now))
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
        state.age_content(now);
    }
}

/// Returns the states that show each content of a file that was replaced, or that the file had when it lost
/// its last name: from the first commit up to but without the second.
fn ended_contents(versions: &Timeline<Node>) -> Vec<(Seq, Seq)> {
    let (mut ended, mut before) = (Vec::new(), None::<(&Node, Seq)>);
    for (seq, node) in versions.iter() {
        let mut since = *seq;
        if let Some((shown, from)) = before.filter(|(shown, _)| shown.has_name()) {
            if node.has_name() && node.etag == shown.etag {
                since = from;
            } else {
                ended.push((from, *seq));
            }
        }
        before = Some((node, since));
    }
    ended
}

impl State {
    fn retention_state(&self, now: Timestamp) -> RetentionState {
        let set = self.retention.clone().in_order();
        let classes = set.content.iter().map(|limit| &limit.pattern);
        let without =
            |class: &&PathPattern| class.is_without_file(|path| self.kind_at(path, now)).unwrap_or(false);
        RetentionState {
            without_file: classes.filter(without).cloned().collect(),
            set,
            oldest: self.oldest,
            oldest_time: self.info(self.oldest).map(|commit| commit.time),
            folded: Seq(0),
            stored: 0,
            full: false,
            held_by: None,
            // The model stores no bytes.
        }
    }

    /// Returns the kind of the entry at a path, if there is one.
    fn kind_at(&self, path: &TreePath, now: Timestamp) -> Result<Option<Kind>> {
        let within = Within::everything();
        let mut view =
            View { state: self, seq: self.head(), now, holders: &[], within: &within, owner: None };
        let found = view.find_path(path).optional()?;
        Ok(found.map(|ino| view.get(ino).kind))
    }

    /// Fails for a new path class that is the path of a directory.
    fn check_classes(&self, to: &Retention, now: Timestamp) -> Result<()> {
        let mut new = to.classes_beyond(&self.retention);
        new.try_for_each(|class| class.refuse_directory(|path| self.kind_at(path, now)))
    }

    /// Counts a view of a state as open while the result is.
    pub(super) fn open_past(&self, seq: Seq) -> Arc<()> {
        let hold = Arc::new(());
        let mut open = self.open_pasts.lock().unwrap_or_else(PoisonError::into_inner);
        open.push((seq, Arc::downgrade(&hold)));
        hold
    }

    /// Returns true if the content that a node had after a commit is gone.
    pub(super) fn is_content_gone(&self, ino: Ino, seq: Seq) -> bool {
        let gone = self.content_gone.get(&ino);
        gone.is_some_and(|gone| gone.iter().any(|(since, till)| (*since..*till).contains(&seq)))
    }

    /// Ends old content of the files of path classes that keep less than the log does. What a snapshot or an
    /// open view shows stays.
    fn age_content(&mut self, now: Timestamp) {
        let limits = ContentLimits::new(&self.retention.content);
        let ages = limits.ages();
        if ages.is_empty() {
            return;
        }
        let kept: BTreeSet<Seq> = self.snapshots.values().map(|snapshot| snapshot.seq).collect();
        if let Some(first) = self.held.difference(&kept).next() {
            self.searched.values_mut().for_each(|searched| *searched = (*searched).min(*first));
        }
        self.held = kept;
        let open: BTreeSet<Seq> = {
            let mut open = self.open_pasts.lock().unwrap_or_else(PoisonError::into_inner);
            open.retain(|(_, hold)| hold.strong_count() > 0);
            open.iter().map(|(seq, _)| *seq).collect()
        };
        for age in ages {
            let from = self.searched.get(&age).copied().unwrap_or(Seq(0));
            let last_until = |time| {
                let until = self.log.partition_point(|(commit, _)| commit.time.0 <= time);
                Ok::<_, Infallible>(until as u64)
            };
            let Ok(to) = last_of_age(age, self.head().0, now, last_until);
            let to = Seq(to).max(self.oldest);
            let (mut reached, mut gone) = (from.max(to), Vec::new());
            let files = self.nodes.iter().filter(|(ino, _)| self.keep_of(&limits, **ino) <= Keep::For(age));
            for (ino, versions) in files {
                for (since, till) in ended_contents(versions) {
                    if till <= from || till > to || self.held.range(since..till).next().is_some() {
                        continue;
                    }
                    if open.range(since..till).next().is_some() {
                        // Looked for again once the view is closed.
                        reached = reached.min(Seq(till.0 - 1));
                        continue;
                    }
                    gone.push((*ino, (since, till)));
                }
            }
            for (ino, states) in gone {
                self.content_gone.entry(ino).or_default().insert(states);
            }
            self.searched.insert(age, reached);
        }
    }

    /// Returns how long old content of a node is kept, by the names that it has, or had last.
    fn keep_of(&self, limits: &ContentLimits, ino: Ino) -> Keep {
        let Some(versions) = self.nodes.get(&ino) else { return Keep::WithLog };
        if versions.iter().any(|(_, node)| node.kind != Kind::File) {
            return Keep::WithLog;
        }
        let nameless = versions.iter().rev().take_while(|(_, node)| !node.has_name());
        let last = nameless.last().map_or(self.head(), |(end, _)| Seq(end.0.saturating_sub(1)));
        let mut names = all_paths(ino, &|ino| self.nodes.get(&ino)?.at(last));
        let described = forks::as_shown(&mut names, |about| Ok::<_, Error>(self.text_after(last, about)));
        if described.is_err() { Keep::WithLog } else { limits.keep_of(&names) }
    }

    /// Returns the content of a file after a commit.
    fn text_after(&self, seq: Seq, path: &TreePath) -> Option<Vec<u8>> {
        let within = Within::everything();
        let mut view =
            View { state: self, seq, now: self.time_of(seq), holders: &[], within: &within, owner: None };
        let ino = view.find_path(path).ok()?;
        Some(view.get(ino).content.read(0, MAX_READ).to_vec())
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
    /// Fails with `Gone` for old content that the path class of its file no longer keeps.
    pub(super) fn check_content(&mut self, at: &At, ino: Ino) -> Result<()> {
        if !self.state.is_content_gone(ino, self.seq) {
            return Ok(());
        }
        let gone = Error::content_gone(self.seq.0);
        Err(self.about(at, ino, ErrorKind::Gone, gone.message()))
    }

    /// Fails with `Gone` for a view of a state that is no longer readable, and that shows because the view
    /// was opened before: versions of that time are not kept.
    pub(super) fn check_history(&self) -> Result<()> {
        self.state.check_readable(self.seq)
    }
}
