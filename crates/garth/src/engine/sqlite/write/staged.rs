//! The table `staged`: uploads under way and finished ones that wait for their commit.

use rusqlite::{Connection, params};

use crate::engine::planner::Staged;
use crate::error::{Error, ErrorKind};
use crate::model::Timestamp;
use crate::sqlite::{DbResult, all, one};

/// An upload's id, as it is kept.
type Id = [u8; 16];

/// Records an upload before it creates its pack file: without the row `gc` would take the file for an orphan.
pub(crate) fn begin(conn: &Connection, id: u128, owner: &str, lease: Timestamp) -> DbResult<()> {
    let sql = "INSERT INTO staged (id, pieces, lease, owner) VALUES (?1, NULL, ?2, ?3)";
    conn.prepare_cached(sql)?.execute(params![id.to_be_bytes(), lease.0, owner])?;
    Ok(())
}

/// Extends the lease; `false` if `gc` has collected the upload.
pub(crate) fn renew(conn: &Connection, id: u128, lease: Timestamp) -> DbResult<bool> {
    let sql = "UPDATE staged SET lease = ?2 WHERE id = ?1";
    Ok(conn.prepare_cached(sql)?.execute(params![id.to_be_bytes(), lease.0])? > 0)
}

/// Records the content of a finished upload. `false` if it has a pack file and `gc` has collected it since.
pub(crate) fn finish(
    conn: &Connection,
    id: u128,
    owner: &str,
    pieces: &Staged,
    lease: Timestamp,
    has_pack: bool,
) -> DbResult<bool> {
    let json = serde_json::to_string(pieces)
        .map_err(|e| Error::new(ErrorKind::Io, "the upload cannot be recorded").with_source(e))?;
    let sql = match has_pack {
        true => "UPDATE staged SET pieces = ?2, lease = ?3 WHERE id = ?1 AND owner = ?4",
        false => "INSERT INTO staged (id, pieces, lease, owner) VALUES (?1, ?2, ?3, ?4)",
    };
    Ok(conn.prepare_cached(sql)?.execute(params![id.to_be_bytes(), json, lease.0, owner])? > 0)
}

/// The content of a finished upload of this owner; `None` if it is unknown or collected.
pub(crate) fn content(conn: &Connection, owner: &str, id: u128) -> DbResult<Option<Staged>> {
    let sql = "SELECT pieces FROM staged WHERE id = ?1 AND owner = ?2 AND pieces IS NOT NULL";
    let json: Option<String> = one(conn, sql, params![id.to_be_bytes(), owner], |row| row.get(0))?;
    json.map(|json| parse(&json)).transpose()
}

/// Removes an upload that was committed or given up.
pub(crate) fn forget(conn: &Connection, id: u128) -> DbResult<()> {
    conn.prepare_cached("DELETE FROM staged WHERE id = ?1")?.execute([id.to_be_bytes()])?;
    Ok(())
}

/// Removes the uploads whose lease has ended; returns how many.
pub(crate) fn forget_ended(conn: &Connection, now: Timestamp) -> DbResult<u64> {
    Ok(conn.execute("DELETE FROM staged WHERE lease <= ?1", [now.0])? as u64)
}

/// The content of every finished upload.
pub(crate) fn contents(conn: &Connection) -> DbResult<Vec<Staged>> {
    let sql = "SELECT pieces FROM staged WHERE pieces IS NOT NULL";
    let rows: Vec<String> = all(conn, sql, [], |row| row.get(0))?;
    rows.iter().map(|json| parse(json)).collect()
}

/// The pack files of all uploads, finished or not.
pub(crate) fn pack_files(conn: &Connection) -> DbResult<Vec<String>> {
    let ids: Vec<Id> = all(conn, "SELECT id FROM staged", [], |row| row.get(0))?;
    Ok(ids.into_iter().map(|id| pack_name(u128::from_be_bytes(id))).collect())
}

/// Name of the pack file of an upload.
pub(crate) fn pack_name(id: u128) -> String {
    format!("{id:032x}.pack")
}

fn parse(json: &str) -> DbResult<Staged> {
    let damaged = |e| Error::new(ErrorKind::Corrupt, "a staged body's record is damaged").with_source(e);
    Ok(serde_json::from_str(json).map_err(damaged)?)
}
