//! Derives keys from the nodes again, and compares stored keys with these.

use std::path::Path;

use rusqlite::{Connection, params};

use crate::engine::planner::{KeyRow, NodeRow, each_key};
use crate::engine::sqlite::chunk_store::Packs;
use crate::engine::sqlite::projections::keyed_rows::NewestRows;
use crate::engine::sqlite::projections::{forget, insert};
use crate::engine::sqlite::schema::{self, SUBJECT};
use crate::engine::sqlite::tables::{MAX, head, nodes};
use crate::engine::sqlite::writer_lock::WriterLock;
use crate::error::Result;
use crate::model::Projection;
use crate::rule::Registry;
use crate::sqlite::{ConnPool, DbResult, all, one};

/// Derives the keys of a node again.
pub(crate) fn remake(conn: &Connection, packs: &Packs, registry: &Registry, ino: u64) -> DbResult<()> {
    forget(conn, ino)?;
    let rows = NewestRows { conn, packs, row_cache: None };
    match nodes::version(conn, ino, MAX)? {
        Some(node) => each_key(&rows, registry, &node, &mut |row| insert(conn, ino, &row)),
        None => Ok(()),
    }
}

/// Returns at most `limit` inodes of nodes after one.
pub(crate) fn nodes_behind(conn: &Connection, ino: u64, limit: usize) -> DbResult<Vec<u64>> {
    let sql = "SELECT DISTINCT ino FROM node WHERE ino > ?1 ORDER BY ino LIMIT ?2";
    all(conn, sql, params![ino, limit], |row| row.get(0))
}

/// Returns the next inode after one that has keys and is of no node.
pub(crate) fn next_stray(conn: &Connection, ino: u64) -> DbResult<Option<u64>> {
    let sql =
        "SELECT ino FROM projected WHERE ino > ?1 AND ino NOT IN (SELECT ino FROM node) ORDER BY ino LIMIT 1";
    one(conn, sql, [ino], |row| row.get(0))
}

/// Derives the keys of an account that has those of an older set of projections, or none, in one transaction.
pub(crate) fn make_ready(
    folder: &Path,
    pool: &ConnPool,
    packs: &Packs,
    lock: &WriterLock,
    registry: &Registry,
) -> Result<()> {
    let version = registry.version();
    let is_ready = |conn: &Connection| Ok(head::get(conn)?.projections >= version);
    if pool.with(is_ready)? {
        return Ok(());
    }
    // One process derives them. The others wait, and find it done.
    let _guard = lock.acquire()?;
    let make = || {
        let conn = schema::database(folder).connect()?;
        conn.pragma_update(None, "synchronous", "FULL")?;
        conn.execute_batch("BEGIN IMMEDIATE")?;
        // Another process may have derived them while this one waited for the lock.
        if !is_ready(&conn)? {
            derive_all_keys(&conn, packs, registry)?;
            conn.execute("UPDATE head SET projections = ?1", [version])?;
        }
        DbResult::Ok(conn.execute_batch("COMMIT")?)
    };
    make().map_err(|error| error.describe(&SUBJECT))
}

fn derive_all_keys(conn: &Connection, packs: &Packs, registry: &Registry) -> DbResult<()> {
    let sql = "SELECT DISTINCT ino FROM node WHERE ino > ?1 ORDER BY ino LIMIT ?2";
    let mut at = 0;
    loop {
        let inos: Vec<u64> = all(conn, sql, params![at, 1000], |row| row.get(0))?;
        let Some(last) = inos.last() else { return Ok(()) };
        at = *last;
        for ino in inos {
            remake(conn, packs, registry, ino)?;
        }
    }
}

/// Fingerprint of some rows in any order: their number, and the sum of their hashes.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sum {
    rows: u64,
    sum: u128,
}

impl Sum {
    fn add(&mut self, row: &KeyRow) {
        let hash = blake3::hash(format!("{row:?}").as_bytes());
        // A sum does not depend on the order, so that neither side has to be sorted or held in memory.
        let (half, _) = hash.as_bytes().split_at(16);
        self.rows += 1;
        self.sum =
            half.iter().fold(0_u128, |sum, byte| (sum << 8) | u128::from(*byte)).wrapping_add(self.sum);
    }
}

/// Returns true if the stored keys of a node are those that it should have.
pub(crate) fn is_right(
    conn: &Connection,
    packs: &Packs,
    registry: &Registry,
    node: &NodeRow,
) -> DbResult<bool> {
    let rows = NewestRows { conn, packs, row_cache: None };
    let mut due = Sum::default();
    each_key(&rows, registry, node, &mut |row| {
        due.add(&row);
        DbResult::Ok(())
    })?;
    let mut kept = Sum::default();
    let mut statement =
        conn.prepare_cached("SELECT projection, key, line, off, len FROM projected WHERE ino = ?1")?;
    let mut found = statement.query([node.ino])?;
    while let Some(row) = found.next()? {
        let (projection, key) = (Projection::new(row.get(0)?), row.get(1)?);
        kept.add(&KeyRow { projection, key, line: row.get(2)?, off: row.get(3)?, len: row.get(4)? });
    }
    Ok(due == kept)
}
