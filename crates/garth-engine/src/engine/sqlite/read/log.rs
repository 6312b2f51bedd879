//! Reads of the version log: what commits changed, page after page, and the commits that callers have named.

use rusqlite::{Connection, Row, params};

use crate::engine::planner::{IdempotencyRow, LogChange};
use crate::engine::sqlite::read::rows::{self, MAX, Span};
use crate::engine::sqlite::read::view::ReadView;
use crate::engine::sqlite::schema::{BY_SESSION, HAS_SESSION, answer, changes};
use crate::error::{Error, ErrorKind};
use crate::model::{
    Change, ChangeKind, Changes, ChangesQuery, Commit, CommitChanges, CommitId, CommitInfo, Ino, LogPosition,
    MAX_CHANGE_PATHS, MAX_CHANGES_BYTES, MAX_SCANNED, Seq, SessionOf, Timestamp, Within,
};
use crate::path::TreePath;
use crate::sqlite::{DbResult, one};

/// What the log keeps of a commit, from columns `seq, time, id, author, message,
/// overrides`.
pub(crate) fn commit_info(row: &Row<'_>) -> rusqlite::Result<CommitInfo> {
    let author: Option<String> = row.get(3)?;
    Ok(CommitInfo {
        seq: Seq(row.get(0)?),
        time: Timestamp(row.get(1)?),
        id: row.get::<_, Option<[u8; 16]>>(2)?.map(|id| CommitId(u128::from_be_bytes(id))),
        // An author that cannot be read must not hide the commit: it shows as the default one.
        author: author.and_then(|json| serde_json::from_str(&json).ok()).unwrap_or_default(),
        message: row.get::<_, Option<String>>(4)?.unwrap_or_default(),
        overrides_rules: row.get(5)?,
    })
}

/// Sequence, time and stored answer of a commit.
type Answered = (u64, i64, Option<String>);

/// The commit as it was answered.
fn commit(conn: &Connection, (seq, time, answer): Answered) -> DbResult<Commit> {
    let size_of = |ino: u64, seq: u64| Ok(rows::node(conn, ino.min(MAX), seq)?.map_or(0, |node| node.size));
    let outcomes = answer.map_or(Ok(Vec::new()), |json| answer::from_json(&json, seq, size_of))?;
    Ok(Commit { seq: Seq(seq), time: Timestamp(time), outcomes, replayed: false, durable: false })
}

/// The commit of an owner and id.
pub(crate) fn committed(conn: &Connection, owner: &str, id: CommitId) -> DbResult<Option<Commit>> {
    let sql = "SELECT seq, time, answer FROM log WHERE owner = ?1 AND id = ?2";
    let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    one(conn, sql, params![owner, id.0.to_be_bytes()], read)?
        .map(|answered| commit(conn, answered))
        .transpose()
}

/// The record of an owner and idempotency key.
pub(crate) fn idempotency(conn: &Connection, owner: &str, key: &str) -> DbResult<Option<IdempotencyRow>> {
    let sql = "SELECT hash, keep_until, log.seq, log.time, log.answer
         FROM idempotency LEFT JOIN log ON log.seq = idempotency.seq
         WHERE idempotency.owner = ?1 AND key = ?2";
    let read = |row: &Row<'_>| {
        let answered = match row.get::<_, Option<u64>>(2)? {
            Some(seq) => Some((seq, row.get(3)?, row.get(4)?)),
            None => None,
        };
        Ok((row.get(0)?, row.get(1)?, answered))
    };
    let Some((request_hash, keep_until, answered)) = one(conn, sql, [owner, key], read)? else {
        return Ok(None);
    };
    let lost = || Error::new(ErrorKind::Corrupt, "an idempotency key leads to no commit; run `garth fsck`");
    let commit = commit(conn, answered.ok_or_else(lost)?)?;
    Ok(Some(IdempotencyRow { request_hash, keep_until, commit }))
}

const ALL_COMMITS: &str = "SELECT seq, time, id, author, message, overrides, changes, owner FROM log
    WHERE seq > ?1 AND seq <= ?2 ORDER BY seq";

/// By the index of sessions, whose expressions it repeats.
fn commits_of_session() -> String {
    format!(
        "SELECT seq, time, id, author, message, overrides, changes, owner FROM log
         WHERE {HAS_SESSION} AND {BY_SESSION} = json_array(?3, ?4, ?5) AND seq > ?1 AND seq <= ?2 ORDER BY seq"
    )
}

impl ReadView<'_> {
    pub(crate) fn changes(&self, query: &ChangesQuery) -> DbResult<Changes> {
        let within = query.check()?.intersect(&self.reach.within);
        let head = self.head()?;
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
        let (sql, of) = match &query.session {
            None => (ALL_COMMITS.to_owned(), [None, None, None]),
            Some(SessionOf { user, agent, session }) => {
                (commits_of_session(), [Some(user), Some(agent), Some(session)])
            }
        };
        let mut statement = self.conn.prepare_cached(&sql)?;
        // one commit at a time: the page may end with any of them
        let mut rows = match of {
            [Some(user), Some(agent), Some(session)] => {
                statement.query(params![since, head, user, agent, session])?
            }
            _ => statement.query(params![since, head])?,
        };
        let mut until = query.since;
        while let Some(row) = rows.next()? {
            page.own = self.is_own(row.get_ref(7)?.as_str().map_err(rusqlite::Error::from)?);
            let mut commit = commit_info(row)?;
            commit.id = commit.id.filter(|_| page.own);
            let behind = std::mem::take(&mut until.changes);
            let pieces = Pieces::of(
                self.conn,
                commit.seq.0,
                row.get_ref(6)?.as_str().map_err(rusqlite::Error::from)?,
                behind,
            )?;
            if let Some(changes) = page.add(&commit, pieces)? {
                return Ok(Changes {
                    commits: page.commits,
                    until: LogPosition { changes, ..until },
                    head: Seq(head),
                });
            }
            until.seq = commit.seq;
        }
        if query.session.is_some() {
            // those in between are of others
            until.seq = until.seq.max(Seq(head));
        }
        Ok(Changes { commits: page.commits, until, head: Seq(head) })
    }
}

/// The changes of one commit, from one of them on, read piece by piece.
struct Pieces<'a> {
    conn: &'a Connection,
    seq: u64,
    /// The number of the next change.
    next: u64,
    /// What is left of the piece that was read last.
    piece: std::vec::IntoIter<LogChange>,
    /// Whether another piece follows that one.
    more: bool,
}

impl<'a> Pieces<'a> {
    /// `first` is the column of the log.
    fn of(conn: &'a Connection, seq: u64, first: &str, next: u64) -> DbResult<Self> {
        let later = if next == 0 {
            None
        } else {
            let sql = "SELECT first, changes FROM log_more WHERE seq = ?1 AND first <= ?2
                 ORDER BY first DESC LIMIT 1";
            one(conn, sql, params![seq, next.min(MAX)], piece)?
        };
        let (number, (piece, more)) = match later {
            Some((number, json)) => (number, changes::from_json(&json)?),
            None => (0, changes::from_json(first)?),
        };
        let mut piece = piece.into_iter();
        let behind = usize::try_from(next - number).unwrap_or(usize::MAX);
        if let Some(last) = behind.checked_sub(1) {
            piece.nth(last);
        }
        Ok(Self { conn, seq, next, piece, more })
    }

    /// The next change and its number.
    fn next(&mut self) -> DbResult<Option<(u64, LogChange)>> {
        if self.more && self.piece.as_slice().is_empty() {
            let sql = "SELECT first, changes FROM log_more WHERE seq = ?1 AND first = ?2";
            let found = one(self.conn, sql, params![self.seq, self.next.min(MAX)], piece)?;
            let lost = || Error::new(ErrorKind::Corrupt, "the log has lost changes; run `garth fsck`");
            let (changes, more) = changes::from_json(&found.ok_or_else(lost)?.1)?;
            (self.piece, self.more) = (changes.into_iter(), more);
        }
        let next = self.piece.next().map(|change| (self.next, change));
        self.next += 1;
        Ok(next)
    }
}

fn piece(row: &Row<'_>) -> rusqlite::Result<(u64, String)> {
    Ok((row.get(0)?, row.get(1)?))
}

/// A page of changes in the making.
struct Page<'a> {
    view: &'a ReadView<'a>,
    within: Within,
    /// Whether that is all that the view reaches.
    whole: bool,
    /// Whether the commit looked at is of the view's owner.
    own: bool,
    limit: usize,
    given: usize,
    bytes: usize,
    scanned: usize,
    commits: Vec<CommitChanges>,
}

impl Page<'_> {
    /// Adds what the query asks for of a commit. If the page is full before the end of it, the number of the
    /// change that the next page begins with.
    fn add(&mut self, commit: &CommitInfo, mut pieces: Pieces<'_>) -> DbResult<Option<u64>> {
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
            // one that changed nothing is shown to who sees everything, and to whom it is from
            if self.whole && self.own && !self.give(commit, Vec::new()) {
                return Ok(Some(0));
            }
        }
        Ok(None)
    }

    fn is_full(&self) -> bool {
        self.given >= self.limit || self.scanned >= MAX_SCANNED
    }

    /// Gives what one change of the log shows as; `false` if it has no room.
    fn give(&mut self, commit: &CommitInfo, shown: Vec<Change>) -> bool {
        let known = self.commits.last_mut().filter(|last| last.commit.seq == commit.seq);
        let begin = if known.is_some() { 0 } else { commit.bytes() };
        let bytes = self.bytes + begin + shown.iter().map(Change::bytes).sum::<usize>();
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

    /// What the query sees of a change.
    fn seen(&mut self, commit: &CommitInfo, change: LogChange) -> DbResult<Vec<Change>> {
        self.scanned += 1;
        let LogChange { kind, ino, path, whole } = change;
        let (left, arrived) = match &kind {
            ChangeKind::Modified | ChangeKind::Attributes => {
                let mut paths = names_after(self.view.conn, ino, commit.seq)?;
                self.scanned += paths.len();
                // all that an own commit did was within reach
                let unnamed =
                    paths.is_empty() && self.whole && (self.own || self.was_shown(ino, commit.seq)?);
                paths.retain(|path| self.within.contains(path));
                let hidden = paths.is_empty() && !unnamed;
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
        let mut shown = Vec::new();
        if let Some(from) = left.as_ref().filter(|_| took) {
            let before = Seq(commit.seq.0.saturating_sub(1));
            self.tops(&ChangeKind::Removed, from, before, commit.time, &mut shown)?;
        }
        let [left, arrived_seen] =
            [&left, &arrived].map(|path| path.clone().filter(|path| self.within.contains(path)));
        let both = left.clone().zip(arrived_seen.clone()).filter(|_| is_rename);
        if let Some((from, to)) = &both {
            // what came into what is left out
            let before = Seq(commit.seq.0.saturating_sub(1));
            self.crossed(&ChangeKind::Removed, (to, from), before, commit.time, &mut shown)?;
        }
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

    /// Whether the version that a commit made of a node without a name is in reach.
    fn was_shown(&self, ino: u64, seq: Seq) -> DbResult<bool> {
        let version = rows::node(self.view.conn, ino, seq.0)?;
        version.map_or(Ok(false), |version| self.view.is_shown(&version))
    }

    /// Shows as `kind` the tops of the query's subtrees that lie below a directory and are there after commit
    /// `seq`, judged at `time`.
    fn tops(
        &mut self,
        kind: &ChangeKind,
        dir: &TreePath,
        seq: Seq,
        time: Timestamp,
        shown: &mut Vec<Change>,
    ) -> DbResult<()> {
        for top in self.within.tops_below(dir) {
            self.scanned += 1;
            if let Some(ino) = self.there(top, seq, time)? {
                shown.push(Change::new(kind.clone(), ino, [top.clone()]));
            }
        }
        Ok(())
    }

    /// Shows as `kind` what was at a path inside after commit `seq` where the other side of a rename has what
    /// is left out: the first path is of the side that leaves something out.
    fn crossed(
        &mut self,
        kind: &ChangeKind,
        (one, other): (&TreePath, &TreePath),
        seq: Seq,
        time: Timestamp,
        shown: &mut Vec<Change>,
    ) -> DbResult<()> {
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

    /// The node at a path after a commit, if it had not expired.
    fn there(&self, path: &TreePath, seq: Seq, time: Timestamp) -> DbResult<Option<Ino>> {
        let Some((dir, name)) = path.key().rsplit_once('/') else { return Ok(None) };
        let Some(row) = rows::name_at(self.view.conn, dir, name, seq.0)? else { return Ok(None) };
        let node = rows::node(self.view.conn, row.ino, seq.0)?.filter(|node| !node.expired(time.0));
        Ok(node.map(|node| Ino(node.ino)))
    }
}

/// Every path of a node after a commit, in the order of a walk.
fn names_after(conn: &Connection, ino: u64, seq: Seq) -> DbResult<Vec<TreePath>> {
    if ino == Ino::ROOT.0 {
        return Ok(vec![TreePath::root()]);
    }
    let mut names = rows::names_of(conn, ino, Span::at(seq.0), &Within::everything(), usize::MAX)?;
    names.sort_unstable();
    Ok(names.into_iter().map(|(dir, name)| TreePath::from_row(&dir, &name)).collect())
}

#[cfg(test)]
mod tests;
