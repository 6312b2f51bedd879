//! Reads of the past: versions of a path or node, moments, snapshots.

use rusqlite::params;

use crate::engine::planner::NodeRow;
use crate::engine::sqlite::read::lives::Lives;
use crate::engine::sqlite::read::log::commit_info;
use crate::engine::sqlite::read::rows;
use crate::engine::sqlite::read::view::{ReadView, check_limit};
use crate::error::{Error, ErrorKind};
use crate::model::{
    At, CommitInfo, Filling, HistoryPage, Ino, Listing, Moment, Seq, Snapshot, SnapshotsPage, Timestamp,
    Version, VersionId,
};
use crate::sqlite::{DbResult, one};

impl ReadView<'_> {
    pub(crate) fn history(&self, at: &At, page: &HistoryPage) -> DbResult<Listing<Version>> {
        check_limit(page.limit)?;
        let path = self.path_at(at)?;
        let mut versions = match (&path, at) {
            (Some(path), _) => Lives::of_path(self, path, page.before)?,
            (None, At::Node(ino)) => {
                self.row(ino.0)?.ok_or_else(Error::no_node)?;
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

    fn version(&self, seq: u64, ino: u64, there: bool) -> DbResult<Version> {
        let row = if there { rows::node(self.conn, ino, seq)? } else { None };
        let entry = match row {
            Some(row) if !self.is_end(&row)? => Some(Box::new(self.entry(row)?)),
            _ => None,
        };
        Ok(Version { id: VersionId { seq: Seq(seq), ino: Ino(ino) }, commit: self.commit(seq)?, entry })
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
        let sql = "SELECT seq, time, id, author, message FROM log WHERE seq = ?1";
        let missing =
            || Error::new(ErrorKind::Corrupt, format!("the log has lost commit {seq}; run `garth fsck`"));
        Ok(one(self.conn, sql, [seq], commit_info)?.ok_or_else(missing)?)
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
                let sql = "SELECT seq FROM snapshot WHERE name = ?1 AND seq <= ?2";
                let seq = one(self.conn, sql, params![name, head], |row| row.get(0))?;
                let missing =
                    || Error::new(ErrorKind::NotFound, format!("there is no snapshot named `{name}`"));
                Ok(seq.ok_or_else(missing)?)
            }
            Moment::Time(time) => self.last_until(time.0, head),
        }
    }

    /// The last commit whose time is not later. Times strictly rise with sequences: a binary search.
    fn last_until(&self, time: i64, head: u64) -> DbResult<u64> {
        let (mut low, mut high) = (0, head);
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
        let mut statement = self.conn.prepare_cached(
            "SELECT snapshot.name, snapshot.seq, log.time FROM snapshot JOIN log ON log.seq = snapshot.seq
             WHERE snapshot.name > ?1 AND snapshot.seq <= ?2 ORDER BY snapshot.name",
        )?;
        let mut rows = statement.query(params![page.after.as_deref().unwrap_or_default(), self.seq()])?;
        let mut filling = Filling::new(page.limit);
        while let Some(row) = rows.next()? {
            let (name, seq, time) = (row.get(0)?, Seq(row.get(1)?), Timestamp(row.get(2)?));
            if !filling.push(Snapshot { name, seq, time }) {
                break;
            }
        }
        Ok(filling.done())
    }
}
