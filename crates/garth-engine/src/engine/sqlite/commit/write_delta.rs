//! Writes a planned batch: the rows of its delta.

use rusqlite::Connection;

use crate::engine::planner::{Delta, HeadRow};
use crate::engine::sqlite::chunk_store;
use crate::engine::sqlite::tables::{
    chunk_refs, chunks, commit_log, expiry, extents, idempotency, judged_prefixes, live_names, nodes,
    past_names, quotas, snapshots, staged,
};
use crate::model::{Batch, Commit, Kind};
use crate::sqlite::DbResult;

/// Writes the rows of one batch. The ranges of its subtrees must be written before. The head row is written
/// once for a group, by `tables/head.rs`.
pub(crate) fn delta(
    conn: &Connection,
    delta: &Delta,
    head: &HeadRow,
    batch: &Batch,
    commit: &Commit,
) -> DbResult<()> {
    let seq = head.seq;
    names(conn, delta, seq)?;
    for (node, write) in delta.node_writes() {
        nodes::put(conn, node, write)?;
    }
    for (ino, attributes) in &delta.attributes {
        nodes::put_attributes(conn, *ino, seq, attributes)?;
    }
    for chunk in delta.chunks.values() {
        chunks::insert_bytes(conn, chunk.id, &chunk.sum, &chunk.data)?;
    }
    for (ino, change) in &delta.extents {
        // Ended before new ones are written: both may begin at one offset, and the key of a live extent is
        // its offset.
        for off in change.closed.keys() {
            extents::close(conn, *ino, *off, seq)?;
        }
        for row in change.added.values() {
            extents::put(conn, *ino, row)?;
        }
    }
    let references = delta.references();
    for (chunk, by) in &references {
        chunk_refs::change(conn, *chunk, *by)?;
    }
    let shared = references.into_iter().filter(|(_, by)| *by > 0).map(|(chunk, _)| chunk);
    chunk_store::use_packs(conn, &delta.staged, shared)?;
    for (ino, at) in &delta.expiry {
        match at {
            Some(at) => expiry::put(conn, *ino, *at)?,
            None => expiry::remove(conn, *ino)?,
        }
    }
    for (name, made) in &delta.snapshots {
        match made {
            true => snapshots::put(conn, batch.owner_key(), name, seq)?,
            false => snapshots::remove(conn, batch.owner_key(), name)?,
        }
    }
    // Their references were moved to the new extents by `references` above.
    for (id, _) in &delta.staged {
        staged::forget(conn, *id)?;
    }
    for (key, row) in &delta.judged {
        judged_prefixes::put(conn, key, row)?;
    }
    // A file without a name is under no rule, so what is known of its content is no longer used.
    for node in delta.nodes.values().filter(|node| node.kind == Kind::File && node.nlink == 0) {
        judged_prefixes::remove(conn, node.ino)?;
    }
    for (key, used) in &delta.quotas {
        quotas::use_up(conn, key, *used)?;
    }
    commit_log::append(conn, &delta.log, head, batch, commit)?;
    if let Some(record) = &batch.idempotency {
        idempotency::put(conn, batch.record_owner_key(), record, seq)?;
    }
    Ok(())
}

fn names(conn: &Connection, delta: &Delta, seq: u64) -> DbResult<()> {
    // Before the live row is replaced or removed, from which the past row takes over.
    for ((dir, name), change) in &delta.names {
        if let Some(row) = &change.before {
            past_names::end(conn, (dir, name), row, seq)?;
        }
        match &change.after {
            Some(row) => live_names::put(conn, dir, name, row)?,
            None => live_names::remove(conn, dir, name)?,
        }
    }
    Ok(())
}
