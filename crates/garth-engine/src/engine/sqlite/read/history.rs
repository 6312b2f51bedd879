//! Reads of the past: versions of a path or node, moments, snapshots.

use rusqlite::{Row, params};

use crate::engine::planner::NodeRow;
use crate::engine::sqlite::read::lives::Lives;
use crate::engine::sqlite::read::log::commit_info;
use crate::engine::sqlite::read::rows::{self, MAX, Span};
use crate::engine::sqlite::read::view::{ReadView, check_limit};
use crate::error::{Error, ErrorKind};
use crate::model::{
    At, CommitInfo, Filling, HistoryPage, Ino, Listing, Moment, Owner, Seq, Snapshot, SnapshotsPage,
    Timestamp, Version, VersionId,
};
use crate::path::TreePath;
use crate::sqlite::{DbResult, one};

impl ReadView<'_> {
    pub(crate) fn history(&self, at: &At, page: &HistoryPage) -> DbResult<Listing<Version>> {
        check_limit(page.limit)?;
        let path = self.path_at(at)?;
        let mut versions = match (&path, at) {
            (Some(path), _) => Lives::of_path(self, path, page.before)?,
            (None, At::Node(ino)) => {
                self.row(ino.0)?.ok_or_else(Error::no_node)?;
                let all = self.seq().saturating_add(1).min(MAX);
                // the root is there before its first version
                let root = *ino == Ino::ROOT && self.reach.within.contains(&TreePath::root());
                if !root && !self.reach.within.is_everything() && self.shown_before(ino.0, all)?.is_none() {
                    return Err(Error::no_node().into());
                }
                Lives::of_node(self, ino.0, page.before)?
            }
            (None, _) => return Err(Error::no_node().into()),
        };
        let mut filling = Filling::new(page.limit);
        while let Some((seq, ino, there)) = versions.next()? {
            if !filling.push(self.version(seq, ino, there)?) {
                break;
            }
        }
        Ok(filling.done())
    }

    /// The newest version of a node before `before` that this view shows.
    pub(crate) fn shown_before(&self, ino: u64, before: u64) -> DbResult<Option<u64>> {
        if self.reach.within.is_everything() {
            let node = rows::node(self.conn, ino, before.saturating_sub(1))?;
            return Ok(node.map(|node| node.seq).filter(|seq| *seq > 0));
        }
        let mut before = before;
        while let Some(node) = rows::node(self.conn, ino, before.saturating_sub(1))?.filter(|it| it.seq > 0) {
            if self.is_shown(&node)? {
                return Ok(Some(node.seq));
            }
            // none between the last time that it had a name in reach, and here
            let Some(until) = self.last_named(ino, node.seq)? else { break };
            before = node.seq.min(until + 1);
        }
        Ok(None)
    }

    /// Whether this version of a node is in reach: the node had a name there while it was so, or had no name
    /// at all and lost its last one there.
    pub(crate) fn is_shown(&self, version: &NodeRow) -> DbResult<bool> {
        let within = &self.reach.within;
        if within.is_everything() {
            return Ok(true);
        }
        if version.ino == Ino::ROOT.0 {
            return Ok(within.contains(&TreePath::root()));
        }
        let next = rows::next_version(self.conn, version)?;
        let to = next.map_or(self.seq(), |next| self.seq().min(next - 1));
        let span = match version.nlink {
            0 => Span::at(self.end_of(version)?),
            _ => Span { from: version.seq, to },
        };
        Ok(!rows::names_of(self.conn, version.ino, span, within, 1)?.is_empty())
    }

    /// The last commit after which a node had a name that has none in this version.
    fn end_of(&self, version: &NodeRow) -> DbResult<u64> {
        let sql = "SELECT max(till) FROM name_past WHERE ino = ?1 AND till <= ?2";
        let till = one(self.conn, sql, params![version.ino, version.seq], |row| row.get(0))?;
        Ok(till.flatten().map_or(0, |till: u64| till.saturating_sub(1)))
    }

    /// The last commit until `seq` that took a name in reach from a node.
    fn last_named(&self, ino: u64, seq: u64) -> DbResult<Option<u64>> {
        let sql = "SELECT dir, name, till FROM name_past WHERE ino = ?1 AND till <= ?2 ORDER BY till DESC";
        let mut statement = self.conn.prepare_cached(sql)?;
        let mut rows = statement.query(params![ino, seq])?;
        while let Some(row) = rows.next()? {
            let (dir, name): (String, String) = (row.get(0)?, row.get(1)?);
            if self.reach.within.contains(&TreePath::from_row(&dir, &name)) {
                return Ok(Some(row.get(2)?));
            }
        }
        Ok(None)
    }

    fn version(&self, seq: u64, ino: u64, there: bool) -> DbResult<Version> {
        let row = if there { rows::node(self.conn, ino, seq)? } else { None };
        let mut commit = self.commit(seq)?;
        let entry = match row {
            Some(row) if !self.is_end(&row)? => {
                if row.nlink > 0 && self.was_outside(ino, seq)? {
                    commit = commit.unsigned();
                }
                Some(Box::new(self.entry(row)?))
            }
            _ => None,
        };
        Ok(Version { id: VersionId { seq: Seq(seq), ino: Ino(ino) }, commit, entry })
    }

    /// Whether a node had no name in reach after a commit.
    pub(crate) fn was_outside(&self, ino: u64, seq: u64) -> DbResult<bool> {
        let within = &self.reach.within;
        if ino == Ino::ROOT.0 {
            return Ok(!within.contains(&TreePath::root()));
        }
        Ok(!within.is_everything() && rows::names_of(self.conn, ino, Span::at(seq), within, 1)?.is_empty())
    }

    /// Whether the node lost its last name in this version. Later ones were written through open handles.
    pub(crate) fn is_end(&self, row: &NodeRow) -> DbResult<bool> {
        if row.nlink > 0 {
            return Ok(false);
        }
        let before = rows::node(self.conn, row.ino, row.seq.saturating_sub(1))?;
        Ok(before.is_none_or(|before| before.nlink > 0))
    }

    pub(crate) fn commit(&self, seq: u64) -> DbResult<CommitInfo> {
        let sql = "SELECT seq, time, id, author, message, overrides, owner FROM log WHERE seq = ?1";
        let missing =
            || Error::new(ErrorKind::Corrupt, format!("the log has lost commit {seq}; run `garth fsck`"));
        let read = |row: &Row<'_>| Ok((commit_info(row)?, row.get::<_, String>(6)?));
        let (mut commit, owner) = one(self.conn, sql, [seq], read)?.ok_or_else(missing)?;
        commit.id = commit.id.filter(|_| self.is_own(&owner));
        Ok(commit)
    }

    /// Whether a commit is of the owner of this view; to the account all are.
    pub(crate) fn is_own(&self, owner: &str) -> bool {
        self.reach.owner.as_ref().is_none_or(|own| own.key() == owner)
    }

    /// The last commit of this view.
    pub(crate) fn head(&self) -> DbResult<u64> {
        match self.as_of {
            Some(seq) => Ok(seq),
            None => Ok(rows::head(self.conn)?.seq),
        }
    }

    /// The commit that a moment stands for.
    pub(crate) fn seq_of(&self, moment: &Moment) -> DbResult<u64> {
        let head = self.head()?;
        match moment {
            Moment::Seq(seq) if seq.0 <= head => Ok(seq.0),
            Moment::Seq(seq) => {
                let message = format!("there is no commit {seq} yet; the last one is {head}");
                Err(Error::new(ErrorKind::NotFound, message).into())
            }
            Moment::Snapshot(name) => {
                let sql = "SELECT seq FROM snapshot WHERE owner = ?1 AND name = ?2 AND seq <= ?3";
                let named = params![self.reach.owner_key(), name, head];
                let seq = one(self.conn, sql, named, |row| row.get(0))?;
                let missing =
                    || Error::new(ErrorKind::NotFound, format!("there is no snapshot named `{name}`"));
                Ok(seq.ok_or_else(missing)?)
            }
            Moment::Time(time) => self.last_until(time.0, head),
        }
    }

    /// The last commit whose time is not later. Times strictly rise with sequences: a binary search.
    fn last_until(&self, time: i64, head: u64) -> DbResult<u64> {
        // most often the last one is asked for
        if rows::time_of(self.conn, head)?.0 <= time {
            return Ok(head);
        }
        let (mut low, mut high) = (0, head - 1);
        while low < high {
            let middle = high - (high - low) / 2;
            if rows::time_of(self.conn, middle)?.0 <= time {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        Ok(low)
    }

    pub(crate) fn snapshots(&self, page: &SnapshotsPage) -> DbResult<Listing<Snapshot>> {
        check_limit(page.limit)?;
        macro_rules! sql {
            ($behind:literal) => {
                concat!(
                    "SELECT name, snapshot.seq, log.time, snapshot.owner FROM snapshot
                     JOIN log ON log.seq = snapshot.seq WHERE ",
                    $behind,
                    " AND snapshot.seq <= ?3 ORDER BY snapshot.owner, name"
                )
            };
        }
        let own = self.reach.owner.as_ref();
        let (sql, owner) = match own {
            Some(own) => (sql!("snapshot.owner = ?1 AND name > ?2"), Some(own)),
            None => {
                let behind = page.after.as_ref().and_then(|key| key.owner.as_ref());
                (sql!("(snapshot.owner, name) > (?1, ?2)"), behind)
            }
        };
        let name = page.after.as_ref().map_or("", |key| key.name.as_str());
        let mut statement = self.conn.prepare_cached(sql)?;
        let mut rows = statement.query(params![owner.map_or("", Owner::key), name, self.seq()])?;
        let mut filling = Filling::new(page.limit);
        while let Some(row) = rows.next()? {
            let owner = if own.is_none() { Owner::from_key(row.get(3)?) } else { None };
            let (name, seq, time) = (row.get(0)?, Seq(row.get(1)?), Timestamp(row.get(2)?));
            if !filling.push(Snapshot { name, seq, time, owner }) {
                break;
            }
        }
        Ok(filling.done())
    }
}
