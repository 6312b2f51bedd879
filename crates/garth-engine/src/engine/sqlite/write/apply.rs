//! Writes a planned batch: the rows of its delta.

use rusqlite::{Connection, params};

use crate::engine::planner::{Delta, HeadRow, LogChange, NameRow, NodeRow};
use crate::engine::sqlite::control;
use crate::engine::sqlite::read::dir_times;
use crate::engine::sqlite::read::rows::{self, MAX};
use crate::engine::sqlite::schema::columns::KindColumn;
use crate::engine::sqlite::schema::{answer, changes};
use crate::engine::sqlite::write::{quotas, refs, staged};
use crate::error::{Error, ErrorKind};
use crate::model::{Author, Batch, Commit, Kind};
use crate::sqlite::DbResult;

/// Writes the rows of one batch, but for what its subtrees have become, which is written before. The head row
/// is written once a group, by [`head`].
pub(crate) fn delta(
    conn: &Connection,
    delta: &Delta,
    head: &HeadRow,
    batch: &Batch,
    commit: &Commit,
) -> DbResult<()> {
    let seq = head.seq;
    names(conn, delta, seq)?;
    for node in delta.nodes.values() {
        put_node(conn, node)?;
    }
    for (ino, attributes) in &delta.attributes {
        let json = serde_json::to_string(attributes).map_err(|e| {
            Error::new(ErrorKind::InvalidArgument, "attributes cannot be kept").with_source(e)
        })?;
        conn.prepare_cached("INSERT INTO attribute (ino, seq, json) VALUES (?1, ?2, ?3)")?
            .execute(params![ino, seq, json])?;
    }
    for chunk in delta.chunks.values() {
        conn.prepare_cached("INSERT INTO chunk (id, sum, data, len) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![chunk.id, chunk.sum, &chunk.data[..], chunk.data.len()])?;
    }
    extents(conn, delta, seq)?;
    for (chunk, by) in delta.references() {
        refs::change(conn, chunk, by)?;
    }
    for (ino, at) in &delta.expiry {
        match at {
            Some(at) => conn
                .prepare_cached("INSERT OR REPLACE INTO expiry (ino, at) VALUES (?1, ?2)")?
                .execute(params![ino, at])?,
            None => conn.prepare_cached("DELETE FROM expiry WHERE ino = ?1")?.execute([ino])?,
        };
    }
    for (name, made) in &delta.snapshots {
        if *made {
            conn.prepare_cached("INSERT OR REPLACE INTO snapshot (owner, name, seq) VALUES (?1, ?2, ?3)")?
                .execute(params![batch.owner_key(), name, seq])?;
        } else {
            conn.prepare_cached("DELETE FROM snapshot WHERE owner = ?1 AND name = ?2")?
                .execute([batch.owner_key(), name])?;
        }
    }
    for (id, _) in &delta.staged {
        staged::forget(conn, *id)?;
    }
    for (key, row) in &delta.judged {
        control::remember_judged(conn, key, row)?;
    }
    for node in delta.nodes.values().filter(|node| node.kind == Kind::File && node.nlink == 0) {
        control::forget_judged(conn, node.ino)?;
    }
    for (key, used) in &delta.quotas {
        quotas::use_up(conn, key, *used)?;
    }
    log(conn, &delta.log, head, batch, commit)
}

fn names(conn: &Connection, delta: &Delta, seq: u64) -> DbResult<()> {
    for ((dir, name), change) in &delta.names {
        if let Some(row) = &change.before {
            end_name(conn, (dir, name), row, seq)?;
        }
        match change.after {
            Some(NameRow { ino, since, kind }) => conn
                .prepare_cached(
                    "INSERT OR REPLACE INTO name (dir, name, ino, since, kind) VALUES (?1, ?2, ?3, ?4, ?5)",
                )?
                .execute(params![dir, name, ino, since, KindColumn(kind)])?,
            None => {
                conn.prepare_cached("DELETE FROM name WHERE dir = ?1 AND name = ?2")?.execute([dir, name])?
            }
        };
    }
    Ok(())
}

/// Records that a name ends with a commit.
pub(super) fn end_name(
    conn: &Connection,
    (dir, name): (&str, &str),
    row: &NameRow,
    seq: u64,
) -> DbResult<()> {
    let NameRow { ino, since, kind } = *row;
    if since >= seq {
        return Ok(());
    }
    conn.prepare_cached(
        "INSERT INTO name_past (dir, name, till, ino, since, kind, fork, born, born_fork)
         SELECT ?1, ?2, ?3, ?4, ?5, ?6, fork(?5, ?3), born, fork(born, ?3)
         FROM (SELECT coalesce(
             (SELECT max(till) FROM (SELECT dir, name, till FROM name_past WHERE ino = ?4 ORDER BY till DESC LIMIT 8)
              WHERE dir = ?1 AND name = ?2),
             (SELECT min(seq) FROM node WHERE ino = ?4),
             ?5
         ) AS born)",
    )?
    .execute(params![dir, name, seq, ino, since, KindColumn(kind)])?;
    Ok(())
}

/// Writes a version of a node.
pub(super) fn put_node(conn: &Connection, node: &NodeRow) -> DbResult<()> {
    if node.kind == Kind::Directory && dir_times(conn, node)? {
        return Ok(());
    }
    conn.prepare_cached(
        "INSERT INTO node (ino, seq, kind, mode, uid, gid, rdev, nlink, size, mtime, ctime, birthtime, atime, target,
             attrs_seq, expires_at, content_seq)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)",
    )?
    .execute(params![
        node.ino,
        node.seq,
        KindColumn(node.kind),
        node.mode,
        node.uid,
        node.gid,
        node.rdev.cast_signed(),
        node.nlink,
        node.size,
        node.mtime,
        node.ctime.wrapping_sub(node.mtime),
        node.birthtime,
        node.atime.wrapping_sub(node.birthtime),
        node.target,
        node.attrs_seq,
        node.expires_at,
        node.content_seq,
    ])?;
    Ok(())
}

/// Writes a version of a directory that differs from the one before in the times of its commit alone, or ends
/// such a one. Tells whether that was all.
fn dir_times(conn: &Connection, node: &NodeRow) -> DbResult<bool> {
    let Some(before) = rows::node(conn, node.ino, MAX)? else { return Ok(false) };
    let mut touched = before.clone();
    touched.touch((node.seq, node.mtime));
    let only_times = touched == *node;
    let was_only_times = dir_times::newest(conn, node.ino)?.is_some();
    // before the first commit there is one version, which needs no look-up
    if (only_times || was_only_times) && node.seq > 1 {
        conn.prepare_cached(
            "INSERT INTO dir_time_past (fork, ino, since, till, time) VALUES (fork(?2, ?3), ?1, ?2, ?3, ?4)",
        )?
        .execute(params![node.ino, before.seq, node.seq, before.mtime])?;
    }
    if only_times {
        conn.prepare_cached("INSERT OR REPLACE INTO dir_time (ino, seq, time) VALUES (?1, ?2, ?3)")?
            .execute(params![node.ino, node.seq, node.mtime])?;
    } else if was_only_times {
        conn.prepare_cached("DELETE FROM dir_time WHERE ino = ?1")?.execute([node.ino])?;
    }
    Ok(only_times)
}

fn extents(conn: &Connection, delta: &Delta, seq: u64) -> DbResult<()> {
    for (ino, change) in &delta.extents {
        for off in change.closed.keys() {
            conn.prepare_cached("UPDATE extent SET till = ?3 WHERE ino = ?1 AND till = 0 AND off = ?2")?
                .execute(params![ino, off, seq])?;
        }
        for row in change.added.values() {
            conn.prepare_cached(
                "INSERT INTO extent (ino, till, off, len, since, chunk, skip, older) VALUES (?1, 0, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?
            .execute(params![ino, row.off, row.len, row.since, row.chunk, row.skip, rows::older(row)])?;
        }
    }
    Ok(())
}

/// Writes the head row: the state that the next group starts from.
pub(crate) fn head(conn: &Connection, head: &HeadRow) -> DbResult<()> {
    conn.prepare_cached("UPDATE head SET seq = ?1, time = ?2, next_ino = ?3, next_chunk = ?4")?
        .execute(params![head.seq, head.time, head.next_ino, head.next_chunk])?;
    Ok(())
}

fn log(
    conn: &Connection,
    changes: &[LogChange],
    head: &HeadRow,
    batch: &Batch,
    commit: &Commit,
) -> DbResult<()> {
    let author = match batch.author == Author::default() {
        true => None,
        false => Some(serde_json::to_string(&batch.author).map_err(|e| {
            Error::new(ErrorKind::InvalidArgument, "the author cannot be recorded").with_source(e)
        })?),
    };
    let message = (!batch.message.is_empty()).then_some(&batch.message);
    let mut pieces = changes::to_json(changes)?.into_iter();
    let first = pieces.next().map(|(_, json)| json);
    // only who named the commit can ask for its answer again
    let named = batch.id.is_some() || batch.idempotency.is_some();
    let answer = named.then(|| answer::to_json(&commit.outcomes)).transpose()?;
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
    if let Some(record) = &batch.idempotency {
        conn.prepare_cached(
            "INSERT OR REPLACE INTO idempotency (owner, key, hash, keep_until, seq)
             VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![
            batch.owner_key(),
            record.key,
            record.request_hash,
            record.keep_until.0,
            head.seq
        ])?;
    }
    Ok(())
}
