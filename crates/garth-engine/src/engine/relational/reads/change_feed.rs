//! Reads of the version log: the changes of commits, page by page.

use crate::engine::planner::LogChange;
use crate::engine::relational::changes_column;
use crate::engine::relational::reads::tree_rows::{CommitSpan, MAX, Read, TreeRows};
use crate::engine::relational::reads::tree_view::TreeView;
use crate::error::Error;
use crate::model::{
    Change, ChangeKind, Changes, ChangesQuery, CommitChanges, CommitInfo, Ino, MAX_CHANGE_PATHS,
    MAX_CHANGES_BYTES, MAX_SCANNED, Seq, Timestamp, Within,
};
use crate::path::TreePath;

impl<R: TreeRows> TreeView<'_, R> {
    /// Returns a page of changes.
    ///
    /// # Errors
    /// As `FileSystem::changes`.
    pub fn changes(&self, query: &ChangesQuery) -> Read<R, Changes> {
        let within = query.check()?.intersect(&self.reach.within);
        let (head, oldest) = (self.head()?, self.oldest()?);
        if query.since.seq.0 < oldest {
            return Err(Error::gone(oldest).into());
        }
        let mut page = Page {
            view: self,
            whole: within == self.reach.within,
            own: false,
            within,
            limit: query.limit,
            given: 0,
            bytes: 0,
            scanned: 0,
            commits: Vec::new(),
        };
        let since = query.since.seq.0.min(MAX);
        let (mut until, mut full) = (query.since, false);
        // One commit at a time: the page may end with any of them.
        self.rows.each_commit((since, head), query.session.as_ref(), &mut |logged| {
            page.own = self.is_own(logged.owner);
            let mut commit = logged.info;
            // A commit id has an owner, and is for no other view.
            commit.id = commit.id.filter(|_| page.own);
            let behind = std::mem::take(&mut until.changes);
            let pieces = Pieces::of(self.rows, commit.seq.0, logged.changes, behind)?;
            match page.add(&commit, pieces)? {
                // The page is full: the next one continues with this change.
                Some(next) => (until.changes, full) = (next, true),
                None => until.seq = commit.seq,
            }
            Ok(!full)
        })?;
        if !full && query.session.is_some() {
            // Commits in between are of other sessions.
            until.seq = until.seq.max(Seq(head));
        }
        Ok(Changes { commits: page.commits, until, head: Seq(head) })
    }
}

/// The changes of one commit from one of them on, read piece by piece.
struct Pieces<R> {
    rows: R,
    seq: u64,
    /// Index of the next change.
    next: u64,
    /// Unread changes of the last piece.
    piece: std::vec::IntoIter<LogChange>,
    /// True if another piece follows that one.
    more: bool,
}

impl<R: TreeRows> Pieces<R> {
    /// Begins with the change of index `next`. `first` is the column of the log.
    fn of(rows: R, seq: u64, first: &str, next: u64) -> Read<R, Self> {
        // A page in the middle of a commit reads only the piece that it begins with.
        let later = if next == 0 { None } else { rows.changes_before(seq, next)? };
        let (number, (piece, more)) = match later {
            Some((number, json)) => (number, changes_column::from_json(&json)?),
            None => (0, changes_column::from_json(first)?),
        };
        let mut piece = piece.into_iter();
        let behind = usize::try_from(next - number).unwrap_or(usize::MAX);
        if let Some(last) = behind.checked_sub(1) {
            piece.nth(last);
        }
        Ok(Self { rows, seq, next, piece, more })
    }

    /// Returns the next change and its index.
    fn next(&mut self) -> Read<R, Option<(u64, LogChange)>> {
        if self.more && self.piece.as_slice().is_empty() {
            let found = self.rows.changes_at(self.seq, self.next)?;
            let lost = || Error::damaged("changes are missing from the log");
            let (changes, more) = changes_column::from_json(&found.ok_or_else(lost)?)?;
            (self.piece, self.more) = (changes.into_iter(), more);
        }
        let next = self.piece.next().map(|change| (self.next, change));
        self.next += 1;
        Ok(next)
    }
}

/// A page of changes being built.
struct Page<'a, R: TreeRows> {
    view: &'a TreeView<'a, R>,
    within: Within,
    /// True if `within` is everything that the view reaches.
    whole: bool,
    /// True if the current commit is of the owner of the view.
    own: bool,
    limit: usize,
    given: usize,
    bytes: usize,
    scanned: usize,
    commits: Vec<CommitChanges>,
}

impl<R: TreeRows> Page<'_, R> {
    /// Adds the changes of a commit that match the query. If the page is full before the end of the commit,
    /// returns the index of the change that the next page begins with.
    fn add(&mut self, commit: &CommitInfo, mut pieces: Pieces<R>) -> Read<R, Option<u64>> {
        let mut empty = pieces.next == 0;
        while let Some((number, change)) = pieces.next()? {
            empty = false;
            if self.is_full() {
                return Ok(Some(number));
            }
            let shown = self.seen(commit, change)?;
            if !shown.is_empty() && !self.give(commit, shown) {
                return Ok(Some(number));
            }
        }
        if empty {
            if self.is_full() {
                return Ok(Some(0));
            }
            self.scanned += 1;
            // A commit without changes is shown to its owner, in a view of everything in reach.
            if self.whole && self.own && !self.give(commit, Vec::new()) {
                return Ok(Some(0));
            }
        }
        Ok(None)
    }

    fn is_full(&self) -> bool {
        self.given >= self.limit || self.scanned >= MAX_SCANNED
    }

    /// Adds the visible form of one change of the log. Returns false if the page has no room.
    fn give(&mut self, commit: &CommitInfo, shown: Vec<Change>) -> bool {
        let known = self.commits.last_mut().filter(|last| last.commit.seq == commit.seq);
        let begin = if known.is_some() { 0 } else { commit.bytes() };
        let bytes = self.bytes + begin + shown.iter().map(Change::bytes).sum::<usize>();
        // The first change always fits, so that the caller makes progress.
        if self.given > 0 && bytes > MAX_CHANGES_BYTES {
            return false;
        }
        self.given += 1;
        self.bytes = bytes;
        match known {
            Some(known) => known.changes.extend(shown),
            None => self.commits.push(CommitChanges { commit: commit.clone(), changes: shown }),
        }
        true
    }

    /// Returns the changes that the query sees of one change of the log.
    fn seen(&mut self, commit: &CommitInfo, change: LogChange) -> Read<R, Vec<Change>> {
        self.scanned += 1;
        let LogChange { kind, ino, path, whole } = change;
        let (left, arrived) = match &kind {
            ChangeKind::Modified | ChangeKind::Attributes => {
                let mut paths = names_after(self.view.rows, ino, commit.seq)?;
                // A node may have very many names, so they count towards the limit of a call.
                self.scanned += paths.len();
                // A node without a name: an own commit changed only nodes in reach.
                let unnamed =
                    paths.is_empty() && self.whole && (self.own || self.was_shown(ino, commit.seq)?);
                paths.retain(|path| self.within.contains(path));
                paths = self.view.open_paths(paths, commit.seq.0)?;
                let hidden = paths.is_empty() && !unnamed;
                // After the filter: names out of reach must not take the room.
                paths.truncate(MAX_CHANGE_PATHS);
                return Ok(if hidden { Vec::new() } else { vec![Change::new(kind, Ino(ino), paths)] });
            }
            ChangeKind::Snapshot { .. } | ChangeKind::SnapshotDropped { .. } => {
                let change = Change::new(kind, Ino(ino), self.within.tops().iter().cloned());
                return Ok(if self.whole && self.own { vec![change] } else { Vec::new() });
            }
            ChangeKind::Removed | ChangeKind::Expired => (path, None),
            ChangeKind::Created | ChangeKind::Linked => (None, path),
            ChangeKind::Renamed { from } => (Some(from.clone()), path),
        };
        let is_rename = matches!(kind, ChangeKind::Renamed { .. });
        let took = is_rename || kind == ChangeKind::Removed;
        let brought = is_rename || whole;
        let (mut shown, before) = (Vec::new(), Seq(commit.seq.0.saturating_sub(1)));
        if let Some(from) = left.as_ref().filter(|_| took) {
            self.tops(&ChangeKind::Removed, from, before, commit.time, &mut shown)?;
        }
        // What a name was is judged by the last state that had it.
        let (left, arrived_seen) = (self.reached(left, before)?, self.reached(arrived.clone(), commit.seq)?);
        let both = left.clone().zip(arrived_seen.clone()).filter(|_| is_rename);
        if let Some((from, to)) = &both {
            // The destination excludes paths that the source shows: what moved there was removed for this
            // view.
            self.crossed(&ChangeKind::Removed, (to, from), before, commit.time, &mut shown)?;
        }
        // A rename with only one side in reach is shown as a removal or a creation.
        match (left, arrived_seen) {
            (Some(from), None) if is_rename => shown.push(Change::new(ChangeKind::Removed, Ino(ino), [from])),
            (None, Some(to)) if is_rename => shown.push(Change::new(ChangeKind::Created, Ino(ino), [to])),
            (_, Some(at)) | (Some(at), None) => shown.push(Change::new(kind, Ino(ino), [at])),
            (None, None) => {}
        }
        if let Some((from, to)) = &both {
            self.crossed(&ChangeKind::Created, (from, to), commit.seq, commit.time, &mut shown)?;
        }
        if let Some(to) = arrived.filter(|_| brought) {
            self.tops(&ChangeKind::Created, &to, commit.seq, commit.time, &mut shown)?;
        }
        Ok(shown)
    }

    /// Returns a path if the query sees what it named after commit `seq`.
    fn reached(&self, path: Option<TreePath>, seq: Seq) -> Read<R, Option<TreePath>> {
        let Some(path) = path.filter(|path| self.within.contains(path)) else { return Ok(None) };
        Ok(self.view.was_open(&path, seq.0)?.then_some(path))
    }

    /// Returns true if the version that a commit made of a node without a name is in reach.
    fn was_shown(&self, ino: u64, seq: Seq) -> Read<R, bool> {
        let version = self.view.rows.version(ino, seq.0)?;
        version.map_or(Ok(false), |version| self.view.is_shown(&version))
    }

    /// Shows as `kind` the tops of the query's subtrees that are below a directory and exist after commit
    /// `seq`, at `time`.
    fn tops(
        &mut self,
        kind: &ChangeKind,
        dir: &TreePath,
        seq: Seq,
        time: Timestamp,
        shown: &mut Vec<Change>,
    ) -> Read<R, ()> {
        for top in self.within.tops_below(dir) {
            self.scanned += 1;
            if let Some(ino) = self.there(top, seq, time)? {
                shown.push(Change::new(kind.clone(), ino, [top.clone()]));
            }
        }
        Ok(())
    }

    /// Shows as `kind` the entries in reach, after commit `seq`, whose counterpart on the other side of a
    /// rename is excluded. `one` is the side with the exclusions.
    fn crossed(
        &mut self,
        kind: &ChangeKind,
        (one, other): (&TreePath, &TreePath),
        seq: Seq,
        time: Timestamp,
        shown: &mut Vec<Change>,
    ) -> Read<R, ()> {
        for left_out in self.within.exclusions_below(one) {
            let Some(Ok(path)) = left_out.rebase(one, other) else { continue };
            if self.within.contains(&path) {
                self.scanned += 1;
                let ino = self.there(&path, seq, time)?;
                shown.extend(ino.map(|ino| Change::new(kind.clone(), ino, [path])));
            }
        }
        Ok(())
    }

    /// Returns the node at a path after a commit, unless it had expired or was hidden.
    fn there(&self, path: &TreePath, seq: Seq, time: Timestamp) -> Read<R, Option<Ino>> {
        if !self.view.was_open(path, seq.0)? {
            return Ok(None);
        }
        let Some((dir, name)) = path.key().rsplit_once('/') else { return Ok(None) };
        let Some(row) = self.view.rows.name(dir, name, seq.0)? else { return Ok(None) };
        let node = self.view.rows.version(row.ino, seq.0)?.filter(|node| !node.expired(time.0));
        Ok(node.map(|node| Ino(node.ino)))
    }
}

/// Returns all paths of a node after a commit, in the order of a walk.
fn names_after<R: TreeRows>(rows: R, ino: u64, seq: Seq) -> Read<R, Vec<TreePath>> {
    if ino == Ino::ROOT.0 {
        return Ok(vec![TreePath::root()]);
    }
    let mut names = rows.names_in_span(ino, CommitSpan::at(seq.0), &Within::everything(), usize::MAX)?;
    names.sort_unstable();
    Ok(names.into_iter().map(|(dir, name)| TreePath::from_row(&dir, &name)).collect())
}
