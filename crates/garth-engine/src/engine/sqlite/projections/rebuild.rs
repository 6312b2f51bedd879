//! Derives keys from the nodes again, and compares stored keys with these.

use std::path::Path;

use rusqlite::{Connection, params};

use crate::engine::planner::NodeRow;
use crate::engine::sqlite::chunk_store::Packs;
use crate::engine::sqlite::projections::update::{each_line, of_file, of_node};
use crate::engine::sqlite::projections::{KeyRow, forget};
use crate::engine::sqlite::schema::{self, SUBJECT};
use crate::engine::sqlite::tables::{MAX, head, nodes};
use crate::engine::sqlite::writer_lock::WriterLock;
use crate::error::Result;
use crate::model::Attributes;
use crate::rule::Registry;
use crate::rule::projection::{Keys, of_attributes};
use crate::sqlite::{ConnPool, DbResult, all, one};

/// Passes the rows that a node should have to `each`.
fn each_due(
    conn: &Connection,
    packs: &Packs,
    registry: &Registry,
    node: &NodeRow,
    each: &mut dyn FnMut(&KeyRow<'_>) -> DbResult<()>,
) -> DbResult<()> {
    if node.nlink == 0 {
        return Ok(());
    }
    let attributes = match node.attrs_seq {
        0 => Attributes::default(),
        seq => nodes::attributes(conn, node.ino, seq)?,
    };
    for (projection, key) in of_attributes(&attributes) {
        each(&KeyRow::of_node(projection, &key))?;
    }
    for one in of_node(conn, registry, node)? {
        match one.keys() {
            Keys::OfLines(keys) => each_line(conn, packs, (one, keys), node, (1, 0), each)?,
            Keys::OfFile(keys) => {
                for key in of_file(conn, packs, keys, node)? {
                    each(&KeyRow::of_node(one.projection(), &key))?;
                }
            }
        }
    }
    Ok(())
}

/// Derives the keys of a node again.
pub(crate) fn remake(conn: &Connection, packs: &Packs, registry: &Registry, ino: u64) -> DbResult<()> {
    forget(conn, ino)?;
    match nodes::version(conn, ino, MAX)? {
        Some(node) => each_due(conn, packs, registry, &node, &mut |row| row.insert(conn, ino)),
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
    fn add(&mut self, row: &KeyRow<'_>) {
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
    let mut due = Sum::default();
    each_due(conn, packs, registry, node, &mut |row| {
        due.add(row);
        Ok(())
    })?;
    let mut kept = Sum::default();
    let mut statement =
        conn.prepare_cached("SELECT projection, key, line, off, len FROM projected WHERE ino = ?1")?;
    let mut found = statement.query([node.ino])?;
    while let Some(row) = found.next()? {
        let key: String = row.get(1)?;
        let (projection, line) = (row.get(0)?, row.get(2)?);
        kept.add(&KeyRow { projection, key: &key, line, off: row.get(3)?, len: row.get(4)? });
    }
    Ok(due == kept)
}
