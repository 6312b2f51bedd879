//! Reads of the past: versions of a path or node, moments, snapshots.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Row, params};

use crate::engine::planner::NodeRow;
use crate::engine::sqlite::read::log::commit_info;
use crate::engine::sqlite::read::rows::{self, MAX, Span};
use crate::engine::sqlite::read::view::{ReadView, check_limit};
use crate::error::{Error, ErrorKind};
use crate::model::{
    At, CommitInfo, HistoryPage, Ino, Moment, Owner, Seq, Snapshot, Timestamp, Version, VersionId,
};
use crate::path::TreePath;
use crate::sqlite::{DbResult, all, one};

/// A span of commits during which a path named a node: `till` ended it, `None` if nothing has.
struct NameSpan {
    ino: u64,
    since: u64,
    till: Option<u64>,
}

impl ReadView<'_> {
    pub(crate) fn history(&self, at: &At, page: &HistoryPage) -> DbResult<Vec<Version>> {
        check_limit(page.limit)?;
        let before = page.before.map_or(MAX, |seq| seq.0).min(self.seq().saturating_add(1)).min(MAX);
        let found = match self.path_at(at)? {
            Some(path) => self.path_versions(&path, before, page.limit)?,
            None => {
                let At::Node(ino) = at else { return Err(Error::no_node().into()) };
                self.row(ino.0)?.ok_or_else(Error::no_node)?;
                let all = self.seq().saturating_add(1).min(MAX);
                if !self.reach.within.is_everything() && self.seqs(ino.0, all, 1)?.is_empty() {
                    return Err(Error::no_node().into());
                }
                let seqs = self.seqs(ino.0, before, page.limit)?;
                seqs.into_iter().map(|seq| (seq, ino.0, true)).collect()
            }
        };
        found
            .into_iter()
            .rev()
            .take(page.limit)
            .map(|(seq, ino, there)| self.version(seq, ino, there))
            .collect()
    }

    /// Sequences of a node's versions before `before` that this view shows, newest first.
    fn seqs(&self, ino: u64, before: u64, limit: usize) -> DbResult<Vec<u64>> {
        let sql = "SELECT seq FROM node WHERE ino = ?1 AND seq < ?2 AND seq > 0 ORDER BY seq DESC LIMIT ?3";
        if self.reach.within.is_everything() {
            return all(self.conn, sql, params![ino, before, limit], |row| row.get(0));
        }
        let (mut seqs, mut before) = (Vec::new(), before);
        while seqs.len() < limit
            && let Some(node) = rows::node(self.conn, ino, before.saturating_sub(1))?.filter(|it| it.seq > 0)
        {
            if self.is_shown(&node)? {
                seqs.push(node.seq);
                before = node.seq;
                continue;
            }
            // none between the last time that it had a name in reach, and here
            let Some(until) = self.last_named(ino, node.seq)? else { break };
            before = node.seq.min(until + 1);
        }
        Ok(seqs)
    }

    /// Whether this version of a node is in reach: the node had a name there while it was so, or had no name
    /// at all and lost its last one there.
    pub(crate) fn is_shown(&self, version: &NodeRow) -> DbResult<bool> {
        let within = &self.reach.within;
        if within.is_everything() {
            return Ok(true);
        }
        let sql = "SELECT min(seq) FROM node WHERE ino = ?1 AND seq > ?2 AND seq <= ?3";
        let next = one(self.conn, sql, params![version.ino, version.seq, self.seq()], |row| row.get(0))?;
        let to = next.flatten().map_or(self.seq(), |next: u64| next - 1);
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

    /// Versions of everything a path has named: sequence, node, and `false` where the name ended.
    fn path_versions(
        &self,
        path: &TreePath,
        before: u64,
        limit: usize,
    ) -> DbResult<BTreeSet<(u64, u64, bool)>> {
        let name_spans = self.name_spans(path)?;
        if name_spans.is_empty() {
            return Err(Error::not_found(path).into());
        }
        let begins: BTreeSet<u64> = name_spans.iter().map(|span| span.since).collect();
        // A moved file brings its past along, so a node counts from its first version. It stops counting when
        // the path last ceased to name it.
        let mut ends: BTreeMap<u64, u64> = BTreeMap::new();
        let mut found = BTreeSet::new();
        for span in &name_spans {
            let end = ends.entry(span.ino).or_default();
            *end = (*end).max(span.till.unwrap_or(MAX));
            if let Some(till) = span.till
                && till < before
                && !begins.contains(&till)
            {
                found.insert((till, span.ino, false));
            }
        }
        for (ino, end) in ends {
            for seq in self.seqs(ino, before.min(end), limit)? {
                if !found.contains(&(seq, ino, false)) {
                    found.insert((seq, ino, true));
                }
            }
        }
        Ok(found)
    }

    fn name_spans(&self, path: &TreePath) -> DbResult<Vec<NameSpan>> {
        let Some((dir, name)) = path.key().rsplit_once('/') else {
            return Ok(vec![NameSpan { ino: Ino::ROOT.0, since: 0, till: None }]);
        };
        let sql = "SELECT ino, since, NULL FROM name WHERE dir = ?1 AND name = ?2 AND since <= ?3
             UNION ALL
             SELECT ino, since, till FROM name_past WHERE dir = ?1 AND name = ?2 AND since <= ?3";
        let seq = self.seq();
        all(self.conn, sql, params![dir, name, seq], |row| {
            let till = row.get::<_, Option<u64>>(2)?.filter(|till| *till <= seq);
            Ok(NameSpan { ino: row.get(0)?, since: row.get(1)?, till })
        })
    }

    fn version(&self, seq: u64, ino: u64, there: bool) -> DbResult<Version> {
        let row = if there { rows::node(self.conn, ino, seq)? } else { None };
        let mut commit = self.commit(seq)?;
        let entry = match row {
            Some(row) if !self.is_end(&row)? => {
                if self.was_outside(&row)? {
                    commit = commit.unsigned();
                }
                Some(Box::new(self.entry(row)?))
            }
            _ => None,
        };
        Ok(Version { id: VersionId { seq: Seq(seq), ino: Ino(ino) }, commit, entry })
    }

    /// Whether the node came into reach with this version later than in the commit that made it: with a
    /// directory that was moved.
    fn was_outside(&self, version: &NodeRow) -> DbResult<bool> {
        let within = &self.reach.within;
        if version.nlink == 0 || within.is_everything() {
            return Ok(false);
        }
        Ok(rows::names_of(self.conn, version.ino, Span::at(version.seq), within, 1)?.is_empty())
    }

    /// Whether the node lost its last name in this version. Later ones were written through open handles.
    pub(crate) fn is_end(&self, row: &NodeRow) -> DbResult<bool> {
        if row.nlink > 0 {
            return Ok(false);
        }
        let before = rows::node(self.conn, row.ino, row.seq.saturating_sub(1))?;
        Ok(before.is_none_or(|before| before.nlink > 0))
    }

    fn commit(&self, seq: u64) -> DbResult<CommitInfo> {
        let sql = "SELECT seq, time, id, author, message, owner FROM log WHERE seq = ?1";
        let missing =
            || Error::new(ErrorKind::Corrupt, format!("the log has lost commit {seq}; run `garth fsck`"));
        let read = |row: &Row<'_>| Ok((commit_info(row)?, row.get::<_, String>(5)?));
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

    pub(crate) fn snapshots(&self) -> DbResult<Vec<Snapshot>> {
        macro_rules! sql {
            ($whose:literal) => {
                concat!(
                    "SELECT name, snapshot.seq, log.time, snapshot.owner FROM snapshot
                     JOIN log ON log.seq = snapshot.seq WHERE snapshot.seq <= ?1",
                    $whose,
                    " ORDER BY name, snapshot.owner"
                )
            };
        }
        let snapshot = |row: &Row<'_>, owner: Option<Owner>| {
            Ok(Snapshot { name: row.get(0)?, seq: Seq(row.get(1)?), time: Timestamp(row.get(2)?), owner })
        };
        match &self.reach.owner {
            None => {
                let of = |row: &Row<'_>| snapshot(row, Owner::from_key(row.get(3)?));
                all(self.conn, sql!(""), [self.seq()], of)
            }
            Some(owner) => {
                let own = params![self.seq(), owner.key()];
                all(self.conn, sql!(" AND snapshot.owner = ?2"), own, |row| snapshot(row, None))
            }
        }
    }
}
