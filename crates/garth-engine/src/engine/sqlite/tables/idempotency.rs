//! Table `idempotency`: the commits that callers gave a key, so that a retry gets the same result.

use rusqlite::{Connection, Row, params};

use crate::engine::planner::IdempotencyRow;
use crate::engine::sqlite::tables::commit_log::{self, answered};
use crate::engine::sqlite::tables::fold;
use crate::error::Error;
use crate::model::{Commit, Idempotency};
use crate::sqlite::{DbResult, all, one};

/// Returns the record of an owner and idempotency key.
pub(crate) fn get(conn: &Connection, owner: &str, key: &str) -> DbResult<Option<IdempotencyRow>> {
    let sql = "SELECT hash, keep_until, note, log.seq, log.time, log.answer
         FROM idempotency LEFT JOIN log ON log.seq = idempotency.seq
         WHERE idempotency.owner = ?1 AND key = ?2";
    let read = |row: &Row<'_>| {
        let commit = match row.get::<_, Option<u64>>(3)? {
            Some(seq) => Some((seq, row.get(4)?, row.get(5)?)),
            None => None,
        };
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, commit))
    };
    let Some((request_hash, keep_until, note, found)) = one(conn, sql, [owner, key], read)? else {
        return Ok(None);
    };
    // Also the fate of records of older formats that could not be read: a retry must fail rather than commit
    // twice.
    let lost = || Error::damaged("the commit of an idempotency key is missing");
    let commit = answered(conn, found.ok_or_else(lost)?)?;
    Ok(Some(IdempotencyRow { request_hash, keep_until, commit: Commit { note, ..commit } }))
}

/// Writes the record of commit `seq`; replaces one of the same key.
pub(crate) fn put(conn: &Connection, owner: &str, record: &Idempotency, seq: u64) -> DbResult<()> {
    // Mostly the key is new.
    if insert(conn, owner, record, seq)? {
        return Ok(());
    }
    let sql = "DELETE FROM idempotency WHERE owner = ?1 AND key = ?2 RETURNING seq";
    let replaced: Vec<u64> = all(conn, sql, [owner, record.key.as_str()], |row| row.get(0))?;
    forget_commits(conn, &replaced)?;
    insert(conn, owner, record, seq)?;
    Ok(())
}

/// Writes a record. Returns false if there is one of the same key.
fn insert(conn: &Connection, owner: &str, record: &Idempotency, seq: u64) -> DbResult<bool> {
    let sql = "INSERT INTO idempotency (owner, key, hash, keep_until, seq, note)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (owner, key) DO NOTHING";
    let params = params![owner, record.key, record.request_hash, record.keep_until.0, seq, record.note];
    Ok(conn.prepare_cached(sql)?.execute(params)? > 0)
}

/// Returns the time at which the next record ends.
pub(crate) fn first_end(conn: &Connection) -> DbResult<Option<i64>> {
    Ok(conn.query_row("SELECT min(keep_until) FROM idempotency", [], |row| row.get(0))?)
}

/// Removes at most `limit` records whose time has ended at `now`. Returns their number.
pub(crate) fn remove_ended(conn: &Connection, now: i64, limit: usize) -> DbResult<usize> {
    let sql = "DELETE FROM idempotency WHERE (owner, key) IN
         (SELECT owner, key FROM idempotency WHERE keep_until <= ?1 ORDER BY keep_until LIMIT ?2)
         RETURNING seq";
    let removed: Vec<u64> = all(conn, sql, params![now, limit], |row| row.get(0))?;
    forget_commits(conn, &removed)?;
    Ok(removed.len())
}

/// Removes commits whose records are gone from the log, if they were in it only for these.
fn forget_commits(conn: &Connection, commits: &[u64]) -> DbResult<()> {
    let Some(first) = commits.iter().min() else { return Ok(()) };
    let begin = fold::log_begin(conn)?;
    if *first >= begin {
        return Ok(());
    }
    for seq in commits.iter().filter(|seq| **seq < begin) {
        commit_log::remove_unless_kept(conn, *seq)?;
    }
    Ok(())
}
