//! Reading the log: changes of commits, as seen by a caller who asks for some subtrees, and the results of
//! commits.

use super::state::{LogEntry, State};
use super::tree::{Tree, View};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{
    Batch, Change, ChangeKind, Changes, ChangesQuery, Commit, CommitChanges, CommitId, CommitInfo, KeyRecord,
    LogPosition, MAX_CHANGE_PATHS, MAX_CHANGES_BYTES, MAX_SCANNED, Seq, Timestamp, Within,
};
use crate::path::TreePath;

impl State {
    /// Returns the commit that a batch repeats. Fails with `IdempotencyMismatch` if its key was used with
    /// another request.
    pub(super) fn previous_commit(&self, batch: &Batch, time: Timestamp) -> Result<Option<Commit>> {
        let by_key = batch.idempotency.as_ref().and_then(|asked| {
            let known = self.recorded(batch.record_owner_key(), &asked.key, time)?;
            Some((known.request_hash == asked.request_hash, known.commit))
        });
        match (by_key, batch.id) {
            // The record of the key comes before that of the id, whatever the batch has as id.
            (Some((true, commit)), _) => Ok(Some(commit)),
            (Some((false, _)), _) => Err(Error::new(
                ErrorKind::IdempotencyMismatch,
                "this idempotency key was used before with another request; use a new key",
            )),
            (None, Some(id)) => Ok(self.committed(batch.owner_key(), id)),
            (None, None) => Ok(None),
        }
    }

    /// Returns the commit of an owner with this id, unless it is before the oldest state.
    pub(super) fn committed(&self, owner: &str, id: CommitId) -> Option<Commit> {
        let seq = self.commit_ids.get(&(owner.to_owned(), id)).filter(|seq| **seq >= self.oldest)?;
        self.answer(*seq)
    }

    /// Returns the record of an owner and idempotency key, if it counts at `time`.
    pub(super) fn recorded(&self, owner: &str, key: &str, time: Timestamp) -> Option<KeyRecord> {
        let (known, seq) = self.idempotency.get(&(owner.to_owned(), key.to_owned()))?;
        // An expired record counts as none: the key may be used again.
        let commit = self.answer(*seq).filter(|_| time < known.keep_until)?;
        // The note belongs to the key, not to the commit.
        let commit = Commit { note: known.note.clone(), ..commit };
        Some(KeyRecord { request_hash: known.request_hash, commit })
    }

    fn answer(&self, seq: Seq) -> Option<Commit> {
        Some(Commit { replayed: true, ..self.answers.get(&seq)?.clone() })
    }
}

/// Changes collected for one answer.
struct CollectedChanges {
    commits: Vec<CommitChanges>,
    /// Number of log entries shown. A commit without any counts as one.
    items: usize,
    bytes: usize,
    scanned: usize,
}

impl View<'_> {
    pub(super) fn changes(&self, query: &ChangesQuery) -> Result<Changes> {
        let within = query.check()?.intersect(self.within);
        self.state.check_readable(query.since.seq)?;
        let mut gathered = CollectedChanges { commits: Vec::new(), items: 0, bytes: 0, scanned: 0 };
        let mut until = query.since;
        // The log begins with commit 1, so a position is also the number of entries to skip.
        let first = usize::try_from(until.seq.0).unwrap_or(usize::MAX);
        let last = usize::try_from(self.seq.0).unwrap_or(usize::MAX);
        for (commit, notes) in self.state.log.iter().take(last).skip(first) {
            let behind = usize::try_from(until.changes).unwrap_or(usize::MAX);
            until.changes = 0;
            if query.session.as_ref().is_some_and(|session| !session.is_of(&commit.author)) {
                until.seq = commit.seq;
                continue;
            }
            if notes.is_empty() && behind == 0 {
                // A commit without changes is shown to those who see everything that the view reaches, if
                // it is their own.
                let told = within == *self.within && self.is_own(commit.seq);
                let shown = told.then(Vec::new);
                if !gathered.take(query.limit, &self.own_id(commit), 1, shown) {
                    return Ok(Changes { commits: gathered.commits, until, head: self.seq });
                }
            }
            for (number, note) in notes.iter().enumerate().skip(behind) {
                let (shown, cost) = self.shown(commit, note, &within);
                let shown = (!shown.is_empty()).then_some(shown);
                if !gathered.take(query.limit, &self.own_id(commit), cost, shown) {
                    let until = LogPosition { changes: number as u64, ..until };
                    return Ok(Changes { commits: gathered.commits, until, head: self.seq });
                }
            }
            until.seq = commit.seq;
        }
        Ok(Changes { commits: gathered.commits, until, head: self.seq })
    }

    /// Returns true if the commit is the viewer's own. The account owns all commits.
    fn is_own(&self, seq: Seq) -> bool {
        let index = usize::try_from(seq.0).unwrap_or(usize::MAX).wrapping_sub(1);
        let whose = self.state.owners.get(index);
        self.owner.is_none_or(|own| whose.is_some_and(|whose| whose == own.key()))
    }

    /// Returns a commit, with its id only if it is the viewer's own.
    pub(super) fn own_id(&self, commit: &CommitInfo) -> CommitInfo {
        let id = commit.id.filter(|_| self.is_own(commit.seq));
        CommitInfo { id, ..commit.clone() }
    }

    /// Returns the changes that a log entry shows as, and the cost of looking at it.
    fn shown(&self, commit: &CommitInfo, note: &LogEntry, within: &Within) -> (Vec<Change>, usize) {
        let inside = |path: &&TreePath| within.contains(path);
        let change = |kind: &ChangeKind, path: &TreePath| Change::new(kind.clone(), note.ino, [path.clone()]);
        let before = Seq(commit.seq.0 - 1);
        let first = note.paths.first();
        match &note.kind {
            kind @ (ChangeKind::Modified | ChangeKind::Attributes) => {
                let seen = note.paths.iter().filter(inside).take(MAX_CHANGE_PATHS).cloned();
                let change = Change::new(kind.clone(), note.ino, seen);
                // A node that had no name is treated as being where its last name was.
                let reached = self.is_own(commit.seq) || self.is_shown(note.ino, commit.seq);
                let unnamed = note.paths.is_empty() && reached;
                let hidden = change.paths.is_empty() && !(unnamed && within == self.within);
                (if hidden { Vec::new() } else { vec![change] }, 1 + note.paths.len())
            }
            ChangeKind::Snapshot { .. } | ChangeKind::SnapshotDropped { .. } => {
                let told = within == self.within && self.is_own(commit.seq);
                let change = Change::new(note.kind.clone(), note.ino, within.tops().iter().cloned());
                (if told { vec![change] } else { Vec::new() }, 1)
            }
            ChangeKind::Renamed { from } => {
                let Some(to) = first else { return (Vec::new(), 1) };
                // Subtrees below a moved directory, whose tops the viewer sees without the directory
                // itself.
                let left = self.tops(within, &ChangeKind::Removed, from, before, commit.time);
                let arrived = self.tops(within, &ChangeKind::Created, to, commit.seq, commit.time);
                let mut crossed = (Vec::new(), Vec::new(), 0);
                // A rename across the border of the subtrees shows as a creation or a removal.
                let itself = match (inside(&from), inside(&to)) {
                    (true, true) => {
                        crossed = self.crossed(within, (from, to), commit);
                        Some(change(&note.kind, to))
                    }
                    (true, false) => Some(change(&ChangeKind::Removed, from)),
                    (false, true) => Some(change(&ChangeKind::Created, to)),
                    (false, false) => None,
                };
                let (gone, come, looked) = crossed;
                let shown = left.0.into_iter().chain(gone).chain(itself).chain(come).chain(arrived.0);
                (shown.collect(), 1 + left.1 + arrived.1 + looked)
            }
            kind => {
                let Some(path) = first else { return (Vec::new(), 1) };
                let itself = inside(&path).then(|| change(kind, path));
                let (mut left, mut arrived) = ((Vec::new(), 0), (Vec::new(), 0));
                match kind {
                    ChangeKind::Removed => left = self.tops(within, kind, path, before, commit.time),
                    // A copy is one entry of the log, but it brings everything below its top.
                    ChangeKind::Created if note.filled => {
                        arrived = self.tops(within, kind, path, commit.seq, commit.time);
                    }
                    _ => {}
                }
                (left.0.into_iter().chain(itself).chain(arrived.0).collect(), 1 + left.1 + arrived.1)
            }
        }
    }

    /// Returns, for a rename with both sides inside: removals of paths that it moved into excluded paths
    /// below `to`, creations of paths that it moved out of excluded paths below `from`, and the number of
    /// paths looked up.
    fn crossed(
        &self,
        within: &Within,
        (from, to): (&TreePath, &TreePath),
        commit: &CommitInfo,
    ) -> (Vec<Change>, Vec<Change>, usize) {
        let across = |(one, other): (&TreePath, &TreePath), kind: ChangeKind, seq: Seq| {
            let left_out = within.exclusions_below(one);
            let paths = left_out.filter_map(|path| path.rebase(one, other)?.ok());
            let paths: Vec<TreePath> = paths.filter(|path| within.contains(path)).collect();
            let mut view = View { seq, now: commit.time, holders: &[], ..*self };
            let there = paths.iter().filter_map(|path| Some((view.find_path(path).ok()?, path.clone())));
            let changes: Vec<_> = there.map(|(ino, path)| Change::new(kind.clone(), ino, [path])).collect();
            (changes, paths.len())
        };
        let (gone, before) = across((to, from), ChangeKind::Removed, Seq(commit.seq.0 - 1));
        let (come, after) = across((from, to), ChangeKind::Created, commit.seq);
        (gone, come, before + after)
    }

    /// Returns a change of this kind for each subtree whose top is below a path and existed after commit
    /// `seq`, judged at `now`; and the number of tops looked up.
    fn tops(
        &self,
        within: &Within,
        kind: &ChangeKind,
        path: &TreePath,
        seq: Seq,
        now: Timestamp,
    ) -> (Vec<Change>, usize) {
        let mut view = View { seq, now, holders: &[], ..*self };
        let tops: Vec<&TreePath> = within.tops_below(path).collect();
        let there = tops.iter().filter_map(|top| Some((view.find_path(top).ok()?, *top)));
        let changes = there.map(|(ino, top)| Change::new(kind.clone(), ino, [top.clone()])).collect();
        (changes, tops.len())
    }
}

impl CollectedChanges {
    /// Adds a log entry that cost `cost` to look at, and the changes that it shows, if any. Returns false
    /// if the answer is full.
    fn take(&mut self, limit: usize, commit: &CommitInfo, cost: usize, shown: Option<Vec<Change>>) -> bool {
        if self.items == limit || self.scanned >= MAX_SCANNED {
            return false;
        }
        // Entries that show nothing count as well, so that the work for one answer is bounded.
        let Some(changes) = shown else {
            self.scanned += cost;
            return true;
        };
        let is_new = self.commits.last().is_none_or(|last| last.commit.seq != commit.seq);
        let head = if is_new { commit.bytes() } else { 0 };
        let bytes = head + changes.iter().map(Change::bytes).sum::<usize>();
        // The first one is given whatever its size, or the caller could never get past it.
        if self.items > 0 && self.bytes + bytes > MAX_CHANGES_BYTES {
            return false;
        }
        (self.items, self.bytes, self.scanned) = (self.items + 1, self.bytes + bytes, self.scanned + cost);
        if is_new {
            self.commits.push(CommitChanges { commit: commit.clone(), changes: Vec::new() });
        }
        if let Some(last) = self.commits.last_mut() {
            last.changes.extend(changes);
        }
        true
    }
}
