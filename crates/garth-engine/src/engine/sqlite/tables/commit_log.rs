//! Tables `log` and `log_more`: the changes of each commit, its author, and its outcomes if the caller named
//! it. Many changes are stored in pieces, the first of them in `log`.

use rusqlite::{Connection, Row, params};

use crate::engine::planner::{HeadRow, LogChange};
use crate::engine::relational::reads::tree_rows::LoggedCommit;
use crate::engine::relational::{answer_column, changes_column};
use crate::engine::sqlite::schema::{BY_SESSION, HAS_SESSION};
use crate::engine::sqlite::tables::{MAX, head, nodes};
use crate::error::{Error, ErrorKind};
use crate::model::{Author, Batch, Commit, CommitId, CommitInfo, Seq, SessionOf, Timestamp};
use crate::sqlite::{DbResult, all, one};

/// Reads a commit from columns `seq, time, id, author, message, overrides`.
fn commit_info(row: &Row<'_>) -> rusqlite::Result<CommitInfo> {
    let author: Option<String> = row.get(3)?;
    Ok(CommitInfo {
        seq: Seq(row.get(0)?),
        time: Timestamp(row.get(1)?),
        id: row.get::<_, Option<[u8; 16]>>(2)?.map(|id| CommitId(u128::from_be_bytes(id))),
        // An author that cannot be read must not hide the commit: it shows as the default one.
        author: author.and_then(|json| serde_json::from_str(&json).ok()).unwrap_or_default(),
        message: row.get::<_, Option<String>>(4)?.unwrap_or_default(),
        overrides_rules: row.get(5)?,
        folded: false,
    })
}

/// Sequence number, time and stored outcomes of a commit.
pub(super) type AnswerRow = (u64, i64, Option<String>);

/// Returns the commit as its caller got it.
pub(super) fn answered(conn: &Connection, (seq, time, answer): AnswerRow) -> DbResult<Commit> {
    let size_of = |ino: u64, seq: u64| -> DbResult<u64> {
        Ok(nodes::version(conn, ino.min(MAX), seq)?.map_or(0, |node| node.size))
    };
    let outcomes = answer.map_or(Ok(Vec::new()), |json| answer_column::from_json(&json, seq, size_of))?;
    Ok(Commit {
        seq: Seq(seq),
        time: Timestamp(time),
        outcomes,
        replayed: false,
        durable: false,
        note: String::new(),
    })
}

/// Returns the commit of an owner and id, unless it is before the oldest readable state: how long its row
/// stays then is open.
pub(crate) fn committed(conn: &Connection, owner: &str, id: CommitId) -> DbResult<Option<Commit>> {
    let sql = "SELECT seq, time, answer FROM log
         WHERE owner = ?1 AND id = ?2 AND seq >= (SELECT oldest FROM head)";
    let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    one(conn, sql, params![owner, id.0.to_be_bytes()], read)?.map(|row| answered(conn, row)).transpose()
}

/// Returns the time of commit `seq`, whose state must be readable; for 0, the empty tree, a time before all
/// others.
pub(crate) fn time_of(conn: &Connection, seq: u64) -> DbResult<Timestamp> {
    let oldest = head::get(conn)?.oldest;
    if seq < oldest {
        return Err(Error::gone(oldest).into());
    }
    if seq == 0 {
        return Ok(Timestamp(i64::MIN));
    }
    // A caller may ask for any number, and SQLite stores no larger integer.
    let time = one(conn, "SELECT time FROM log WHERE seq = ?1", [seq.min(MAX)], |row| row.get(0))?;
    let missing = || Error::new(ErrorKind::NotFound, format!("there is no commit {seq} yet"));
    Ok(time.map(Timestamp).ok_or_else(missing)?)
}

/// Returns the time of a commit that must be in the log; 0 for the empty tree.
pub(crate) fn moment(conn: &Connection, seq: u64) -> DbResult<i64> {
    match one(conn, "SELECT time FROM log WHERE seq = ?1", [seq], |row| row.get(0))? {
        Some(time) => Ok(time),
        None if seq == 0 => Ok(0),
        None => Err(Error::damaged("a commit is missing from the log").into()),
    }
}

/// Returns the last commit up to `head` that is not later than `time`, or `oldest` if all from there on are.
/// `oldest` is at most `head`, and the log has all commits between them. Times strictly increase with
/// sequence numbers, so it is a binary search.
pub(crate) fn last_until(conn: &Connection, time: i64, oldest: u64, head: u64) -> DbResult<u64> {
    // The common case is the last commit.
    if head <= oldest || moment(conn, head)? <= time {
        return Ok(head);
    }
    // The head itself is later than `time`.
    let (mut low, mut high) = (oldest, head - 1);
    while low < high {
        let middle = high - (high - low) / 2;
        if moment(conn, middle)? <= time {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    Ok(low)
}

/// Returns a commit and the key of its owner.
pub(crate) fn info(conn: &Connection, seq: u64) -> DbResult<Option<(CommitInfo, String)>> {
    let sql = "SELECT seq, time, id, author, message, overrides, owner FROM log WHERE seq = ?1";
    one(conn, sql, [seq], |row| Ok((commit_info(row)?, row.get(6)?)))
}

const ALL_COMMITS: &str = "SELECT seq, time, id, author, message, overrides, changes, owner FROM log
    WHERE seq > ?1 AND seq <= ?2 ORDER BY seq";

/// Returns the statement for the commits of a session. It repeats the expressions of the index of sessions,
/// or SQLite would not use it.
fn commits_of_session() -> String {
    format!(
        "SELECT seq, time, id, author, message, overrides, changes, owner FROM log
         WHERE {HAS_SESSION} AND {BY_SESSION} = json_array(?3, ?4, ?5) AND seq > ?1 AND seq <= ?2 ORDER BY seq"
    )
}

/// Calls `take` for each commit after `since` up to `head`, or for those of one session, until it returns
/// false.
pub(crate) fn each(
    conn: &Connection,
    (since, head): (u64, u64),
    session: Option<&SessionOf>,
    take: &mut dyn FnMut(LoggedCommit<'_>) -> DbResult<bool>,
) -> DbResult<()> {
    let mut statement = match session {
        None => conn.prepare_cached(ALL_COMMITS)?,
        Some(_) => conn.prepare_cached(&commits_of_session())?,
    };
    let mut rows = match session {
        None => statement.query(params![since, head])?,
        Some(SessionOf { user, agent, session }) => {
            statement.query(params![since, head, user, agent, session])?
        }
    };
    while let Some(row) = rows.next()? {
        let text = |at| -> rusqlite::Result<&str> { Ok(row.get_ref(at)?.as_str()?) };
        let commit = LoggedCommit { info: commit_info(row)?, changes: text(6)?, owner: text(7)? };
        if !take(commit)? {
            break;
        }
    }
    Ok(())
}

/// Returns the last piece of further changes of a commit that begins at or before a change, with the index of
/// its first change.
pub(crate) fn piece_before(conn: &Connection, seq: u64, change: u64) -> DbResult<Option<(u64, String)>> {
    let sql = "SELECT first, changes FROM log_more WHERE seq = ?1 AND first <= ?2
         ORDER BY first DESC LIMIT 1";
    one(conn, sql, params![seq, change.min(MAX)], |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Returns the piece of further changes of a commit that begins with this change.
pub(crate) fn piece_at(conn: &Connection, seq: u64, change: u64) -> DbResult<Option<String>> {
    let sql = "SELECT changes FROM log_more WHERE seq = ?1 AND first = ?2";
    one(conn, sql, params![seq, change.min(MAX)], |row| row.get(0))
}

/// Number of rows that the changes of a commit take, in `log` and `log_more`.
macro_rules! pieces {
    () => {
        "1 + (SELECT count(*) FROM log_more WHERE log_more.seq = log.seq)"
    };
}

/// Returns the last of the next commits after one whose changes take about `limit` pieces together; of at
/// least one commit.
pub(crate) fn last_of_next(conn: &Connection, after: u64, limit: usize) -> DbResult<Option<u64>> {
    let sql = concat!("SELECT seq, ", pieces!(), " FROM log WHERE seq > ?1 ORDER BY seq LIMIT ?2");
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(params![after, limit])?;
    let (mut last, mut pieces) = (None, 0);
    while pieces < limit
        && let Some(row) = rows.next()?
    {
        last = Some(row.get(0)?);
        pieces += row.get::<_, usize>(1)?;
    }
    Ok(last)
}

/// Returns the changes of the commits after `after` up to `last`, piece by piece, in the format of
/// [`changes_column`].
pub(crate) fn changes_between(conn: &Connection, after: u64, last: u64) -> DbResult<Vec<String>> {
    let sql = "SELECT changes FROM log WHERE seq > ?1 AND seq <= ?2
         UNION ALL SELECT changes FROM log_more WHERE seq > ?1 AND seq <= ?2";
    all(conn, sql, params![after, last], |row| row.get(0))
}

/// Removes commits after `after` and before `till` from the log, after `take` got each with its author, until
/// the changes of those removed take `limit` pieces. Returns the last of them, or `None` if
/// there was none. The row of a commit with an idempotency key stays: a retry gets its answer as long as the
/// record of the key.
pub(crate) fn remove_before(
    conn: &Connection,
    after: u64,
    till: u64,
    limit: usize,
    take: &mut dyn FnMut(u64, Option<&str>) -> DbResult<()>,
) -> DbResult<Option<u64>> {
    let sql = concat!(
        "SELECT seq, author, ",
        pieces!(),
        " FROM log WHERE seq > ?1 AND seq < ?2 ORDER BY seq LIMIT ?3"
    );
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(params![after, till, limit])?;
    let (mut last, mut pieces) = (None, 0);
    while pieces < limit
        && let Some(row) = rows.next()?
    {
        let seq = row.get(0)?;
        take(seq, row.get_ref(1)?.as_str_or_null().map_err(rusqlite::Error::from)?)?;
        last = Some(seq);
        pieces += row.get::<_, usize>(2)?;
    }
    // Or the statement would be open while rows are removed that it has yet to read.
    drop(rows);
    let Some(last) = last else { return Ok(None) };
    for sql in [
        "DELETE FROM log WHERE seq > ?1 AND seq <= ?2
             AND NOT EXISTS (SELECT 1 FROM idempotency WHERE idempotency.seq = log.seq)",
        "DELETE FROM log_more WHERE seq > ?1 AND seq <= ?2
             AND NOT EXISTS (SELECT 1 FROM idempotency WHERE idempotency.seq = log_more.seq)",
    ] {
        conn.prepare_cached(sql)?.execute([after, last])?;
    }
    Ok(Some(last))
}

/// Removes a commit from the log, unless an idempotency key needs it.
pub(crate) fn remove_unless_kept(conn: &Connection, seq: u64) -> DbResult<()> {
    if one(conn, "SELECT 1 FROM idempotency WHERE seq = ?1", [seq], |_| Ok(()))?.is_some() {
        return Ok(());
    }
    for sql in ["DELETE FROM log WHERE seq = ?1", "DELETE FROM log_more WHERE seq = ?1"] {
        conn.prepare_cached(sql)?.execute([seq])?;
    }
    Ok(())
}

/// Writes a commit and its changes.
pub(crate) fn append(
    conn: &Connection,
    changes: &[LogChange],
    head: &HeadRow,
    batch: &Batch,
    commit: &Commit,
) -> DbResult<()> {
    // Most commits have the default author, which takes no space.
    let author = match batch.author == Author::default() {
        true => None,
        false => Some(serde_json::to_string(&batch.author).map_err(|e| {
            Error::new(ErrorKind::InvalidArgument, "the author cannot be recorded").with_source(e)
        })?),
    };
    let message = (!batch.message.is_empty()).then_some(&batch.message);
    let mut pieces = changes_column::to_json(changes)?.into_iter();
    let first = pieces.next().map(|(_, json)| json);
    // Only a caller that named the commit can ask for its outcomes again.
    let named = batch.id.is_some() || batch.idempotency.is_some();
    if let Some(id) = batch.id.filter(|_| head.oldest > 0) {
        // An earlier commit with this id is before the oldest state, or this would be a repeat of it.
        conn.prepare_cached("UPDATE log SET id = NULL WHERE owner = ?1 AND id = ?2")?
            .execute(params![batch.owner_key(), id.0.to_be_bytes()])?;
    }
    let answer = named.then(|| answer_column::to_json(&commit.outcomes)).transpose()?;
    conn.prepare_cached(
        "INSERT INTO log (seq, time, id, author, message, changes, answer, owner, overrides)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?
    .execute(params![
        head.seq,
        head.time,
        batch.id.map(|id| id.0.to_be_bytes()),
        author,
        message,
        first,
        answer,
        batch.owner_key(),
        batch.overrides_rules
    ])?;
    for (number, json) in pieces {
        conn.prepare_cached("INSERT INTO log_more (seq, first, changes) VALUES (?1, ?2, ?3)")?
            .execute(params![head.seq, number, json])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::sqlite::schema;

    /// Returns a log of 6 commits, a hundred nanoseconds apart. Commit 3 has an idempotency key.
    fn log() -> Connection {
        let conn = Connection::open_in_memory().unwrap();
        schema::make_tables(&conn);
        conn.execute_batch(
            "INSERT INTO log (seq, time, author, changes)
                 SELECT value, 100 * value, iif(value = 2, 'her', NULL), '[]' FROM json_each('[1,2,3,4,5,6]');
             INSERT INTO log_more (seq, first, changes) SELECT seq, 1, '[]' FROM log;
             INSERT INTO idempotency (owner, key, hash, keep_until, seq) VALUES ('', 'k', x'00', 1, 3);",
        )
        .unwrap();
        conn
    }

    #[test]
    fn last_commit_until_a_time_is_found() {
        let conn = log();
        let found = |time| last_until(&conn, time, 0, 6).unwrap();
        assert_eq!([-1, 99, 100, 399, 400, 600, 1000].map(found), [0, 0, 1, 3, 4, 6, 6]);
        assert_eq!(last_until(&conn, 450, 0, 3).unwrap(), 3, "of a view of the past");
        assert_eq!(last_until(&conn, -1, 0, 0).unwrap(), 0, "of an empty log");
        conn.execute("DELETE FROM log WHERE seq < 3", []).unwrap();
        assert_eq!([100, 300, 450].map(|time| last_until(&conn, time, 3, 6).unwrap()), [3, 3, 4]);
    }

    #[test]
    fn commits_with_many_changes_are_read_few_at_a_time() {
        let conn = log();
        conn.execute("INSERT INTO log_more (seq, first, changes) VALUES (3, 2, '[]'), (3, 3, '[]')", [])
            .unwrap();
        let last = |after, limit| last_of_next(&conn, after, limit).unwrap();
        assert_eq!([1, 4, 5, 8, 100].map(|limit| last(0, limit)), [1, 2, 3, 3, 6].map(Some));
        assert_eq!((last(2, 1), last(6, 1)), (Some(3), None));
    }

    #[test]
    fn removed_commits_are_taken_in_order() {
        let conn = log();
        let mut taken = Vec::new();
        let mut remove = |after, till, limit| {
            remove_before(&conn, after, till, limit, &mut |seq, author| {
                taken.push((seq, author.map(str::to_owned)));
                Ok(())
            })
            .unwrap()
        };
        // Each of them takes two pieces.
        assert_eq!(remove(0, 5, 4), Some(2));
        assert_eq!(remove(2, 5, 1), Some(3), "one at least");
        assert_eq!(remove(3, 5, 10), Some(4));
        assert_eq!(remove(4, 5, 10), None);
        let author = |seq: u64| (seq == 2).then(|| "her".to_owned());
        assert_eq!(taken, (1..=4).map(|seq| (seq, author(seq))).collect::<Vec<_>>());
        for table in ["log", "log_more"] {
            let left: Vec<u64> =
                all(&conn, &format!("SELECT seq FROM {table} ORDER BY seq"), [], |row| row.get(0)).unwrap();
            assert_eq!(left, [3, 5, 6], "{table}: the answer to a retry stays");
        }
    }
}
