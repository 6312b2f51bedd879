//! Table `staged`: uploads in progress, and finished ones that wait for their commit.

use std::collections::{HashMap, HashSet};

use rusqlite::{Connection, Row, params};

use crate::engine::planner::{MAX_EXTENT, Staged, StagedRow};
use crate::engine::relational::upload_counts::UploadCount;
use crate::engine::relational::uploads::LEASE;
use crate::engine::sqlite::tables::{chunk_refs, packs};
use crate::error::{Error, ErrorKind};
use crate::model::Timestamp;
use crate::sqlite::{DbResult, all, one};

/// Id of an upload as stored: big-endian.
type Id = [u8; 16];

/// Uploads to be collected.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Due {
    pub(crate) now: Timestamp,
    /// End of the leases of finished uploads that are due before it.
    finished: Timestamp,
}

impl Due {
    /// Returns the uploads whose leases have ended.
    pub(crate) fn leases(now: Timestamp) -> Self {
        Self { now, finished: now }
    }

    /// Adds the uploads that were finished until `time`.
    pub(crate) fn and_finished_until(self, time: Timestamp) -> Self {
        Self { finished: time.plus_seconds(LEASE), ..self }
    }
}

/// Records an upload before it creates its pack file: without the row `gc` would take the file for an orphan.
pub(crate) fn begin(conn: &Connection, id: u128, owner: &str, lease: Timestamp) -> DbResult<()> {
    let sql = "INSERT INTO staged (id, pieces, lease, owner) VALUES (?1, NULL, ?2, ?3)";
    conn.prepare_cached(sql)?.execute(params![id.to_be_bytes(), lease.0, owner])?;
    Ok(())
}

/// Extends the lease. Returns false if `gc` has collected the upload.
pub(crate) fn renew(conn: &Connection, id: u128, lease: Timestamp) -> DbResult<bool> {
    let sql = "UPDATE staged SET lease = ?2 WHERE id = ?1";
    Ok(conn.prepare_cached(sql)?.execute(params![id.to_be_bytes(), lease.0])? > 0)
}

/// Records the content of a finished upload. Returns false if it has a pack file and `gc` has collected it.
pub(crate) fn finish(
    conn: &Connection,
    id: u128,
    owner: &str,
    pieces: &Staged,
    lease: Timestamp,
    has_pack: bool,
) -> DbResult<bool> {
    // An upload with a pack has a row already. If it is missing, `gc` has collected the upload.
    let json = to_json(pieces)?;
    let sql = match has_pack {
        true => "UPDATE staged SET pieces = ?2, lease = ?3 WHERE id = ?1 AND owner = ?4",
        false => "INSERT INTO staged (id, pieces, lease, owner) VALUES (?1, ?2, ?3, ?4)",
    };
    Ok(conn.prepare_cached(sql)?.execute(params![id.to_be_bytes(), json, lease.0, owner])? > 0)
}

/// Returns a finished upload; `None` if it is unknown or collected.
pub(crate) fn content(conn: &Connection, id: u128) -> DbResult<Option<StagedRow>> {
    let sql = "SELECT owner, pieces FROM staged WHERE id = ?1 AND pieces IS NOT NULL";
    let row = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let found: Option<(String, String)> = one(conn, sql, [id.to_be_bytes()], row)?;
    found.map(|(owner, json)| Ok(StagedRow { owner, pieces: parse(&json)? })).transpose()
}

/// Returns the SQL of the room that a finished upload takes: its size, or nothing if it has one chunk at
/// most, as the number of uploads bounds these. Chunks that were stored before take room as others do:
/// otherwise the room would reveal what else the account stores. The third parameter is the size of a full
/// chunk.
macro_rules! room {
    () => {
        "iif(json_array_length(pieces) > 1,
             (json_array_length(pieces) - 1) * ?3 + (pieces ->> '$[#-1][1]'), 0)"
    };
}

/// Counts the finished uploads of an owner that no commit has used and whose leases have not ended.
pub(crate) fn held(conn: &Connection, owner: &str, now: Timestamp) -> DbResult<UploadCount> {
    let sql = concat!(
        "SELECT count(*), coalesce(sum(",
        room!(),
        "), 0) FROM staged WHERE lease > ?2 AND owner = ?1 AND pieces IS NOT NULL"
    );
    let row = |row: &Row<'_>| Ok(UploadCount { uploads: row.get(0)?, bytes: row.get(1)? });
    Ok(conn.prepare_cached(sql)?.query_row(params![owner, now.0, MAX_EXTENT], row)?)
}

/// Ends the lease of a finished upload of an owner. Returns the bytes of room that it took; `None` if it is
/// unknown, was used, or its lease was ended before.
pub(crate) fn end(conn: &Connection, id: u128, owner: &str) -> DbResult<Option<u64>> {
    let sql = concat!(
        "UPDATE staged SET lease = 0 WHERE id = ?1 AND owner = ?2 AND pieces IS NOT NULL AND lease > 0
         RETURNING ",
        room!()
    );
    one(conn, sql, params![id.to_be_bytes(), owner, MAX_EXTENT], |row| row.get(0))
}

/// Returns true if the lease of an upload has ended.
pub(crate) fn any_ended(conn: &Connection, now: Timestamp) -> DbResult<bool> {
    Ok(one(conn, "SELECT 1 FROM staged WHERE lease <= ?1 LIMIT 1", [now.0], |_| Ok(()))?.is_some())
}

/// Returns the first end of the lease of an upload.
pub(crate) fn first_end(conn: &Connection) -> DbResult<Option<i64>> {
    Ok(conn.prepare_cached("SELECT min(lease) FROM staged")?.query_row([], |row| row.get(0))?)
}

/// Returns true if there is an upload, finished or not.
pub(crate) fn any(conn: &Connection) -> DbResult<bool> {
    Ok(one(conn, "SELECT 1 FROM staged LIMIT 1", [], |_| Ok(()))?.is_some())
}

/// Removes an upload that was committed or given up.
pub(crate) fn forget(conn: &Connection, id: u128) -> DbResult<()> {
    conn.prepare_cached("DELETE FROM staged WHERE id = ?1")?.execute([id.to_be_bytes()])?;
    Ok(())
}

/// Removes one upload that is due. Gives up its references one by one, until `enough` returns true,
/// and dooms the pack file of an upload that never finished. Returns true if the upload was removed
/// completely, false if some references are left, and `None` if no upload is due.
pub(crate) fn forget_ended(
    conn: &Connection,
    due: Due,
    enough: impl FnMut() -> bool,
) -> DbResult<Option<bool>> {
    // The first condition is the one that the index answers.
    let sql = "SELECT id, pieces FROM staged
         WHERE lease <= max(?1, ?2) AND (lease <= ?1 OR pieces IS NOT NULL) ORDER BY lease LIMIT 1";
    let row = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let row: Option<(Id, Option<String>)> = one(conn, sql, [due.now.0, due.finished.0], row)?;
    let Some((id, pieces)) = row else { return Ok(None) };
    match pieces {
        None => {
            // No row has ever referred to the file, so it needs no grace period.
            packs::insert_doomed(conn, &pack_name(u128::from_be_bytes(id)))?;
        }
        Some(json) => return give_up_pieces(conn, id, parse(&json)?, |_| Ok(()), enough).map(Some),
    }
    conn.prepare_cached("DELETE FROM staged WHERE id = ?1")?.execute([id])?;
    Ok(Some(true))
}

/// Removes a finished upload. Gives up its references one by one, and passes each chunk to `given_up`, until
/// `enough` returns true. Returns false if some references are left.
pub(crate) fn give_up(
    conn: &Connection,
    id: u128,
    given_up: impl FnMut(u64) -> DbResult<()>,
    enough: impl FnMut() -> bool,
) -> DbResult<bool> {
    let Some(StagedRow { pieces, .. }) = content(conn, id)? else { return Ok(true) };
    give_up_pieces(conn, id.to_be_bytes(), pieces, given_up, enough)
}

fn give_up_pieces(
    conn: &Connection,
    id: Id,
    mut pieces: Staged,
    mut given_up: impl FnMut(u64) -> DbResult<()>,
    mut enough: impl FnMut() -> bool,
) -> DbResult<bool> {
    while let Some((chunk, _)) = pieces.0.pop() {
        chunk_refs::change(conn, chunk, -1)?;
        given_up(chunk)?;
        if !pieces.0.is_empty() && enough() {
            // A commit that names the upload fails from now on: the pieces are shorter than its size.
            let sql = "UPDATE staged SET pieces = ?2, lease = 0 WHERE id = ?1";
            conn.prepare_cached(sql)?.execute(params![id, to_json(&pieces)?])?;
            return Ok(false);
        }
    }
    conn.prepare_cached("DELETE FROM staged WHERE id = ?1")?.execute([id])?;
    Ok(true)
}

/// Limit on the pieces of uploads that are added up, so that a commit does not wait for all uploads.
const COUNTED: usize = 4096;

/// Bytes that nothing but finished uploads keeps.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Bytes that the uploads of a commit keep, and no other upload.
    pub(crate) own: u64,
    /// Bytes that other uploads keep, alone or together with those of the commit.
    pub(crate) others: u64,
}

/// References of uploads to a chunk.
#[derive(Default)]
struct UploadRefs {
    own: i64,
    others: i64,
}

/// Returns the bytes that nothing but finished uploads keeps: the uploads of a commit, and others, of whose
/// pieces at most [`COUNTED`] are looked at.
pub(crate) fn kept(conn: &Connection, own: &[(u128, Staged)]) -> DbResult<Kept> {
    let mut refs: HashMap<u64, UploadRefs> = HashMap::new();
    for (chunk, _) in own.iter().flat_map(|(_, pieces)| &pieces.0) {
        refs.entry(*chunk).or_default().own += 1;
    }
    for chunk in other_pieces(conn, &own.iter().map(|(id, _)| *id).collect())? {
        refs.entry(chunk).or_default().others += 1;
    }
    // A chunk without a count has one reference.
    let sql = "SELECT chunk.len, coalesce(chunk_refs.count, 1) FROM chunk
         LEFT JOIN chunk_refs ON chunk_refs.chunk = chunk.id WHERE chunk.id = ?1";
    let mut kept = Kept::default();
    for (chunk, by) in refs {
        let row = |row: &Row<'_>| Ok((row.get::<_, u64>(0)?, row.get::<_, i64>(1)?));
        let Some((len, count)) = one(conn, sql, [chunk], row)? else { continue };
        // Content that was uploaded twice has a reference of each upload, and is kept by them alone, too.
        match count == by.own.saturating_add(by.others) {
            true if by.others == 0 => kept.own = kept.own.saturating_add(len),
            true => kept.others = kept.others.saturating_add(len),
            false => {}
        }
    }
    Ok(kept)
}

/// Returns the chunks of finished uploads `without` some, at most [`COUNTED`]; a chunk of several pieces as
/// often.
fn other_pieces(conn: &Connection, without: &HashSet<u128>) -> DbResult<Vec<u64>> {
    let sql = "SELECT id FROM staged WHERE pieces IS NOT NULL ORDER BY id LIMIT ?1";
    let ids: Vec<Id> = all(conn, sql, [COUNTED.saturating_add(without.len())], |row| row.get(0))?;
    let sql = "SELECT value ->> 0 FROM staged, json_each(staged.pieces) WHERE staged.id = ?1 LIMIT ?2";
    let mut chunks = Vec::new();
    for id in ids.into_iter().filter(|id| !without.contains(&u128::from_be_bytes(*id))) {
        let left = COUNTED.saturating_sub(chunks.len());
        if left == 0 {
            break;
        }
        let of_upload: Vec<u64> = all(conn, sql, params![id, left], |row| row.get(0))?;
        chunks.extend(of_upload);
    }
    Ok(chunks)
}

/// Returns the content of each upload that is due; `None` for one that never finished.
pub(crate) fn due(conn: &Connection, due: Due) -> DbResult<Vec<Option<Staged>>> {
    let sql = "SELECT pieces FROM staged
         WHERE lease <= max(?1, ?2) AND (lease <= ?1 OR pieces IS NOT NULL)";
    let rows: Vec<Option<String>> = all(conn, sql, [due.now.0, due.finished.0], |row| row.get(0))?;
    rows.iter().map(|json| json.as_deref().map(parse).transpose()).collect()
}

/// Returns the content of every finished upload.
pub(crate) fn contents(conn: &Connection) -> DbResult<Vec<Staged>> {
    let sql = "SELECT pieces FROM staged WHERE pieces IS NOT NULL";
    let rows: Vec<String> = all(conn, sql, [], |row| row.get(0))?;
    rows.iter().map(|json| parse(json)).collect()
}

/// Returns the name of the pack file of an upload.
pub(crate) fn pack_name(id: u128) -> String {
    format!("{id:032x}.pack")
}

/// Returns the names of the pack files of uploads in progress.
pub(crate) fn arriving_packs(conn: &Connection) -> DbResult<Vec<String>> {
    let ids: Vec<Id> = all(conn, "SELECT id FROM staged WHERE pieces IS NULL", [], |row| row.get(0))?;
    Ok(ids.into_iter().map(|id| pack_name(u128::from_be_bytes(id))).collect())
}

/// Returns true if a file is the pack of a finished or unfinished upload.
pub(crate) fn owns_pack(conn: &Connection, file: &str) -> DbResult<bool> {
    let id = file.strip_suffix(".pack").and_then(|id| u128::from_str_radix(id, 16).ok());
    // Other spellings of the number, such as upper case, are not names that garth gives.
    let Some(id) = id.filter(|id| pack_name(*id) == file) else { return Ok(false) };
    Ok(one(conn, "SELECT 1 FROM staged WHERE id = ?1", [id.to_be_bytes()], |_| Ok(()))?.is_some())
}

fn to_json(pieces: &Staged) -> DbResult<String> {
    Ok(serde_json::to_string(pieces)
        .map_err(|e| Error::new(ErrorKind::Io, "the upload cannot be recorded").with_source(e))?)
}

fn parse(json: &str) -> DbResult<Staged> {
    let damaged = |e| Error::new(ErrorKind::Corrupt, "a staged body's record is damaged").with_source(e);
    Ok(serde_json::from_str(json).map_err(damaged)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::sqlite::schema;

    /// Records a finished upload of `pieces` chunks of one byte each, the first with this id.
    fn upload(conn: &Connection, id: u128, first: u64, pieces: usize) {
        for chunk in first..first + pieces as u64 {
            let sql = "INSERT INTO chunk (id, sum, data, len) VALUES (?1, x'00', x'00', 1)";
            conn.prepare_cached(sql).unwrap().execute([chunk]).unwrap();
        }
        assert!(finish(conn, id, "", &self::pieces(first, pieces), Timestamp(1), false).unwrap());
    }

    /// Returns the content of an upload of `count` chunks of one byte, the first with the id `first`.
    fn pieces(first: u64, count: usize) -> Staged {
        Staged((first..first + count as u64).map(|chunk| (chunk, 1)).collect())
    }

    #[test]
    fn bytes_of_other_uploads_are_counted_up_to_a_limit() {
        // More than the limit, so that its pieces would leave no others if they counted.
        let own = [(1, pieces(1, COUNTED + 1))];
        for (others, kept_bytes) in [
            ([COUNTED - 2, 1], COUNTED - 1),
            ([COUNTED - 1, 1], COUNTED),
            ([COUNTED - 1, 2], COUNTED),
            ([COUNTED, 1], COUNTED),
            ([COUNTED + 1, 0], COUNTED),
        ] {
            let conn = Connection::open_in_memory().unwrap();
            schema::make_tables(&conn);
            begin(&conn, 0, "", Timestamp(1)).unwrap();
            upload(&conn, 1, 1, COUNTED + 1);
            upload(&conn, 2, 10_000, others[0]);
            upload(&conn, 3, 20_000, others[1]);
            let expected = Kept { own: COUNTED as u64 + 1, others: kept_bytes as u64 };
            assert_eq!(kept(&conn, &own).unwrap(), expected, "{others:?}");
        }
    }

    #[test]
    fn bytes_that_something_else_uses_are_not_kept_by_uploads() {
        let conn = Connection::open_in_memory().unwrap();
        schema::make_tables(&conn);
        upload(&conn, 1, 1, 3);
        chunk_refs::change(&conn, 2, 1).unwrap();
        assert_eq!(kept(&conn, &[]).unwrap(), Kept { own: 0, others: 2 });
        assert_eq!(kept(&conn, &[(1, pieces(1, 3))]).unwrap(), Kept { own: 2, others: 0 });
    }

    #[test]
    fn bytes_that_were_uploaded_twice_are_kept_by_uploads() {
        let conn = Connection::open_in_memory().unwrap();
        schema::make_tables(&conn);
        upload(&conn, 1, 1, 3);
        // The same content again, its last piece twice.
        let again = Staged([1, 2, 3, 3].map(|chunk| (chunk, 1)).to_vec());
        assert!(finish(&conn, 2, "", &again, Timestamp(1), false).unwrap());
        for (chunk, by) in [(1, 1), (2, 1), (3, 2)] {
            chunk_refs::change(&conn, chunk, by).unwrap();
        }
        assert_eq!(kept(&conn, &[]).unwrap(), Kept { own: 0, others: 3 });
        assert_eq!(kept(&conn, &[(2, again.clone())]).unwrap(), Kept { own: 0, others: 3 });
        assert_eq!(kept(&conn, &[(1, pieces(1, 3)), (2, again)]).unwrap(), Kept { own: 3, others: 0 });
    }
}
