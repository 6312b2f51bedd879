//! Keeps the keys up to date with the tree. The changes of a group of commits are applied once, at its end.

use rusqlite::{Connection, params};

use crate::engine::planner::{ChangedNodes, KeysChange, each_key_change};
use crate::engine::sqlite::planner_rows::PlannerRows;
use crate::engine::sqlite::projections::keyed_rows::NewestRows;
use crate::engine::sqlite::projections::{forget, insert};
use crate::rule::Registry;
use crate::sqlite::DbResult;

/// Writes the changes of keys that follow from the changes of a group.
pub(crate) fn write(state: &PlannerRows<'_>, registry: &Registry, changed: &ChangedNodes) -> DbResult<()> {
    let rows = NewestRows { conn: state.conn, packs: state.packs, row_cache: Some(state.row_cache) };
    each_key_change(&rows, registry, changed, &mut |ino, change| apply(state.conn, ino, &change))
}

fn apply(conn: &Connection, ino: u64, change: &KeysChange) -> DbResult<()> {
    match change {
        KeysChange::Forget => forget(conn, ino)?,
        KeysChange::Remove(projection, key) => {
            conn.prepare_cached(
                "DELETE FROM projected WHERE projection = ?1 AND key = ?2 AND ino = ?3 AND line = 0",
            )?
            .execute(params![projection.number(), key, ino])?;
        }
        KeysChange::Cut(projection, off) => {
            conn.prepare_cached("DELETE FROM projected WHERE ino = ?1 AND projection = ?2 AND off >= ?3")?
                .execute(params![ino, projection.number(), off])?;
        }
        KeysChange::Add(row) => insert(conn, ino, row)?,
    }
    Ok(())
}
