//! Reads of the past: versions of a path or node, moments, snapshots.

use std::cell::OnceCell;

use crate::engine::planner::NodeRow;
use crate::engine::relational::reads::gated_facts::GatedFacts;
use crate::engine::relational::reads::path_versions::PathVersions;
use crate::engine::relational::reads::tree_rows::{CommitSpan, MAX, Read, TreeRows};
use crate::engine::relational::reads::tree_view::{TreeView, check_limit};
use crate::error::{Error, ErrorKind};
use crate::model::{
    At, CommitInfo, Filling, Head, HistoryPage, Ino, Listing, Moment, Owner, Seq, Snapshot, SnapshotsPage,
    Timestamp, Version, VersionId,
};
use crate::path::TreePath;

impl<R: TreeRows> TreeView<'_, R> {
    /// Returns a page of versions.
    ///
    /// # Errors
    /// As `FileSystem::history`.
    pub fn history(&self, at: &At, page: &HistoryPage) -> Read<R, Listing<Version>> {
        check_limit(page.limit)?;
        let path = self.path_at(at)?;
        self.check_history()?;
        if let Some(only) = self.gated_history(at, path.as_ref(), page)? {
            return Ok(only);
        }
        let mut versions = match (&path, at) {
            (Some(path), _) => PathVersions::of_path(self, path, page.before)?,
            (None, At::Node(ino)) => {
                self.row(ino.0)?.ok_or_else(Error::no_node)?;
                let all = self.seq().saturating_add(1).min(MAX);
                // The root exists before its first version.
                let root = *ino == Ino::ROOT && self.reach.within.contains(&TreePath::root());
                if !root && self.shown_before(ino.0, all)?.is_none() {
                    return Err(Error::no_node().into());
                }
                PathVersions::of_node(self, ino.0, page.before)?
            }
            (None, _) => return Err(Error::no_node().into()),
        };
        let mut filling = Filling::new(page.limit);
        while let Some((seq, ino, there)) = versions.next()? {
            if !filling.push(self.version(seq, ino, there)?) {
                break;
            }
        }
        let found = filling.done();
        if let Some(path) = &path {
            self.check_any_shown(path, page, &found)?;
        }
        Ok(found)
    }

    /// Returns the first commit whose state is readable; 0 if all are. Answers never depend on how much of
    /// the past before it has been removed.
    ///
    /// # Errors
    /// Errors of the database.
    pub fn oldest(&self) -> Read<R, u64> {
        if let Some(known) = self.oldest.get() {
            return Ok(*known);
        }
        let read = self.rows.head()?.oldest;
        Ok(*self.oldest.get_or_init(|| read))
    }

    /// Fails with `Gone` for a view of a state that is no longer readable, and that shows because the view
    /// was opened before: versions of that time are not kept.
    pub(crate) fn check_history(&self) -> Read<R, ()> {
        match self.oldest()? {
            oldest if self.seq() < oldest => Err(Error::gone(oldest).into()),
            _ => Ok(()),
        }
    }

    /// Fails with `Gone` for old content of a file that its path class no longer keeps, which must not be
    /// read as holes.
    ///
    /// # Errors
    /// `Gone`; errors of the database.
    pub fn check_content(&self, ino: u64) -> Read<R, ()> {
        match self.as_of {
            Some(seq) if self.rows.is_content_gone(ino, seq, self.opened)? => {
                Err(Error::content_gone(seq).into())
            }
            _ => Ok(()),
        }
    }

    /// Fails with `Gone` for a version whose content in the state `seq`, which shows it, is gone for new
    /// readers. The error has the first path of the node: the present one in this view, or else the one in
    /// that state.
    ///
    /// # Errors
    /// `Gone`; errors of the database.
    pub fn check_version_content(&self, version: VersionId, seq: u64) -> Read<R, ()> {
        let ino = version.ino.0;
        if !self.rows.is_content_gone(ino, seq, i64::MAX)? {
            return Ok(());
        }
        let then = TreeView {
            as_of: Some(seq),
            is_past: true,
            oldest: OnceCell::new(),
            time: self.rows.commit_time(seq)?,
            opened: i64::MAX,
            gated: GatedFacts::default(),
            ..*self
        };
        let gone = Error::content_gone(version.seq.0);
        for view in [self, &then] {
            let path = view.row(ino)?.map(|node| view.first_name(&node)).transpose()?.flatten();
            if let Some(path) = path {
                return Err(gone.about(&path).into());
            }
        }
        Err(gone.into())
    }

    /// Fails with `Gone` for a file without a name whose content was removed. The process that has it open
    /// was stopped for longer than its lease.
    ///
    /// # Errors
    /// `Gone`; errors of the database.
    pub fn check_unnamed(&self, node: &NodeRow) -> Read<R, ()> {
        if node.nlink == 0
            && let Some(end) = self.rows.last_unlink(node.ino)?
            // Until it is removed, a handle reads it, whenever it was opened.
            && self.rows.is_content_gone(node.ino, end.saturating_sub(1), i64::MIN)?
        {
            return Err(Error::unnamed_gone().into());
        }
        Ok(())
    }

    /// Returns true if a version is after the oldest state, or is the one that this state shows.
    fn is_kept(&self, version: &NodeRow) -> Read<R, bool> {
        let oldest = self.oldest()?;
        if oldest == 0 || version.seq > oldest {
            return Ok(true);
        }
        // In the oldest state a node without a name is gone, although a handle may still hold it open.
        let kept = match version.nlink {
            0 => None,
            _ => self.rows.version(version.ino, oldest)?,
        };
        Ok(kept.is_some_and(|kept| kept.seq == version.seq))
    }

    /// Returns the newest version of a node before `before` that is kept.
    fn version_before(&self, ino: u64, before: u64) -> Read<R, Option<NodeRow>> {
        match self.rows.version_before(ino, before)? {
            Some(node) if node.seq > 0 && self.is_kept(&node)? => Ok(Some(node)),
            _ => Ok(None),
        }
    }

    /// Returns the newest version of a node before `before` that this view shows.
    pub(crate) fn shown_before(&self, ino: u64, before: u64) -> Read<R, Option<u64>> {
        if self.sees_everything() {
            return Ok(self.version_before(ino, before)?.map(|node| node.seq));
        }
        let mut before = before;
        while let Some(node) = self.version_before(ino, before)? {
            if self.is_shown(&node)? {
                return Ok(Some(node.seq));
            }
            // No version between the last commit in which it had a name in reach and this one is shown.
            let Some(until) = self.last_named(ino, node.seq)? else { break };
            before = node.seq.min(until + 1);
        }
        Ok(None)
    }

    /// Returns a version that this view may open by its id.
    ///
    /// # Errors
    /// `NotFound` for a missing version; `Gone` beyond retention; errors of the database.
    pub fn version_to_open(&self, version: VersionId) -> Read<R, NodeRow> {
        self.check_history()?;
        let (seq, ino) = (version.seq.0, version.ino.0);
        let known = seq <= self.seq().min(MAX) && ino <= MAX;
        let node = if known { self.rows.version(ino, seq)? } else { None };
        if let Some(node) = node.filter(|node| node.seq == seq)
            && self.is_kept(&node)?
            && self.may_open(&node)?
        {
            return Ok(node);
        }
        match self.oldest()? {
            // Also if it never existed: nothing is left that could tell.
            oldest if seq < oldest => Err(Error::gone(oldest).into()),
            _ => Err(Error::new(ErrorKind::NotFound, format!("there is no version {version}")).into()),
        }
    }

    /// Returns true if this version of a node is in reach: the node had a name there while the version was
    /// current, or had no name at all and lost its last one there.
    pub(crate) fn is_shown(&self, version: &NodeRow) -> Read<R, bool> {
        if self.sees_everything() {
            return Ok(true);
        }
        if version.ino == Ino::ROOT.0 {
            return Ok(self.reach.within.contains(&TreePath::root()));
        }
        let next = self.rows.next_version(version)?;
        let to = next.map_or(self.seq(), |next| self.seq().min(next - 1));
        let span = match version.nlink {
            // A version without a name belongs where the node had its last one.
            0 => CommitSpan::at(self.end_of(version)?),
            // Names that ended before the oldest state are not kept.
            _ => CommitSpan { from: version.seq.max(self.oldest()?), to },
        };
        self.was_reached(version.ino, span)
    }

    /// Returns the last readable commit after which a node had a name, for a version without one; 0 if there
    /// is none.
    fn end_of(&self, version: &NodeRow) -> Read<R, u64> {
        let oldest = self.oldest()?;
        let till = self.rows.last_end(version.ino, version.seq)?.filter(|till| *till > oldest);
        Ok(till.map_or(0, |till| till.saturating_sub(1)))
    }

    /// Returns the last commit after the oldest state and up to `seq` that removed a name in reach from a
    /// node.
    fn last_named(&self, ino: u64, seq: u64) -> Read<R, Option<u64>> {
        let oldest = self.oldest()?;
        let last = self.rows.last_end_of(ino, seq, &|dir, name, till| {
            // The names of earlier ends may be removed, so that no further look changes the answer.
            if till <= oldest {
                return Ok(true);
            }
            let path = TreePath::from_row(dir, name);
            Ok(self.reach.within.contains(&path) && self.was_open(&path, till.saturating_sub(1))?)
        })?;
        Ok(last.filter(|till| *till > oldest))
    }

    fn version(&self, seq: u64, ino: u64, there: bool) -> Read<R, Version> {
        let row = if there { self.rows.version(ino, seq)? } else { None };
        let mut commit = self.commit(seq)?;
        let entry = match row {
            Some(row) if !self.is_end(&row)? => {
                if row.nlink > 0 && self.was_outside(ino, seq)? {
                    // A commit made outside of this view: its author is not for this view.
                    commit = commit.unsigned();
                }
                Some(Box::new(self.entry(row)?))
            }
            _ => None,
        };
        Ok(Version { id: VersionId { seq: Seq(seq), ino: Ino(ino) }, commit, entry })
    }

    /// Returns true if a node had no name in reach after a commit, or if that is not known.
    pub(crate) fn was_outside(&self, ino: u64, seq: u64) -> Read<R, bool> {
        if ino == Ino::ROOT.0 {
            return Ok(!self.reach.within.contains(&TreePath::root()));
        }
        if self.sees_everything() {
            return Ok(false);
        }
        let oldest = self.oldest()?;
        match seq < oldest {
            // The account itself, without the directory of garth: nobody else's names are beside it.
            true if self.reach.owner.is_none() => Ok(false),
            true => Ok(!self.is_reached_since(ino, seq, oldest)?),
            false => Ok(!self.was_reached(ino, CommitSpan::at(seq))?),
        }
    }

    /// Returns true if a node has a name in reach in the oldest state that it has had since an earlier commit
    /// or longer. Names that ended in between are not kept.
    fn is_reached_since(&self, ino: u64, since: u64, oldest: u64) -> Read<R, bool> {
        let (within, span) = (&self.reach.within, CommitSpan::at(oldest));
        let mut is_reached = false;
        self.rows.each_name(ino, span, within, &mut |(dir, name), last| {
            let row = self.rows.name(&dir, &name, oldest)?;
            is_reached = row.is_some_and(|row| row.since <= since)
                && self.was_open_name((&dir, &name), last.min(self.seq()))?;
            Ok(!is_reached)
        })?;
        Ok(is_reached)
    }

    /// Returns true if the node lost its last name in this version. Later versions were written through open
    /// handles.
    pub(crate) fn is_end(&self, row: &NodeRow) -> Read<R, bool> {
        if row.nlink > 0 {
            return Ok(false);
        }
        let before = self.rows.version(row.ino, row.seq.saturating_sub(1))?;
        Ok(before.is_none_or(|before| before.nlink > 0))
    }

    pub(crate) fn commit(&self, seq: u64) -> Read<R, CommitInfo> {
        let oldest = self.oldest()?;
        if seq < oldest {
            return self.folded_commit(seq, oldest);
        }
        let missing = || Error::damaged(format!("commit {seq} is missing from the log"));
        let (mut commit, owner) = self.rows.commit(seq)?.ok_or_else(missing)?;
        // A commit id is visible only to the owner of the commit.
        commit.id = commit.id.filter(|_| self.is_own(&owner));
        Ok(commit)
    }

    /// Returns what is kept of a commit before the oldest state, also while it is still in the log.
    fn folded_commit(&self, seq: u64, oldest: u64) -> Read<R, CommitInfo> {
        let author = match self.rows.commit(seq)? {
            Some((commit, _)) => commit.author,
            None => self.rows.folded_author(seq)?,
        };
        let time = Timestamp(self.rows.commit_time(oldest)?);
        Ok(CommitInfo::of_folded(Seq(seq), time, author))
    }

    /// Returns true if a commit is of the owner of this view. The account owns all.
    pub(crate) fn is_own(&self, owner: &str) -> bool {
        self.reach.owner.as_ref().is_none_or(|own| own.key() == owner)
    }

    /// Returns the last commit of this view, with its time.
    ///
    /// # Errors
    /// Errors of the database.
    pub fn last_commit(&self) -> Read<R, Head> {
        let (seq, time) = match self.as_of {
            Some(seq) => (seq, self.rows.commit_time(seq)?),
            None => self.rows.head().map(|row| (row.seq, row.time))?,
        };
        Ok(Head { seq: Seq(seq), time: Timestamp(time) })
    }

    /// Returns the last commit of this view.
    ///
    /// # Errors
    /// Errors of the database.
    pub fn head(&self) -> Read<R, u64> {
        match self.as_of {
            Some(seq) => Ok(seq),
            None => Ok(self.rows.head()?.seq),
        }
    }

    /// Returns the commit that a moment denotes. Its state is readable.
    ///
    /// # Errors
    /// `NotFound` for an unknown moment; `Gone` beyond retention; errors of the database.
    pub fn seq_of(&self, moment: &Moment) -> Read<R, u64> {
        let (head, oldest) = (self.head()?, self.oldest()?);
        let seq = match moment {
            Moment::Seq(seq) if seq.0 <= head => seq.0,
            Moment::Seq(seq) => {
                let message = format!("there is no commit {seq} yet; the last one is {head}");
                return Err(Error::new(ErrorKind::NotFound, message).into());
            }
            Moment::Snapshot(name) => {
                let seq = self.rows.snapshot(self.reach.owner_key(), name, head)?;
                let missing =
                    || Error::new(ErrorKind::NotFound, format!("there is no snapshot named `{name}`"));
                seq.ok_or_else(missing)?
            }
            Moment::Time(time) => {
                let seq = self.rows.last_commit_until(time.0, oldest, head)?;
                // The first commit of the log is found also for a time before it.
                if oldest > 0 && seq == oldest && self.rows.commit_time(oldest)? > time.0 {
                    return Err(Error::gone(oldest).into());
                }
                seq
            }
        };
        if seq < oldest { Err(Error::gone(oldest).into()) } else { Ok(seq) }
    }

    /// Returns a page of snapshots.
    ///
    /// # Errors
    /// As `FileSystem::snapshots`.
    pub fn snapshots(&self, page: &SnapshotsPage) -> Read<R, Listing<Snapshot>> {
        check_limit(page.limit)?;
        let behind = page.after.as_ref().and_then(|key| key.owner.as_ref()).map_or("", Owner::key);
        let name = page.after.as_ref().map_or("", |key| key.name.as_str());
        let mut filling = Filling::new(page.limit);
        let own = self.reach.owner.as_ref();
        self.rows.each_snapshot(own, (behind, name), self.seq(), &mut |found| filling.push(found))?;
        Ok(filling.done())
    }
}
