//! Table `origin`: the commits that wrote the bytes of a chunk that `gc` has merged from small extents. A
//! blob of pairs: the length of a run, and the difference of its commit to that of the run before (zigzag),
//! both as LEB128. An append mostly takes three bytes.

use rusqlite::{Connection, params};

use crate::error::Error;
use crate::sqlite::{DbResult, one};

/// Length of a run of bytes that one commit wrote, and the commit.
pub(crate) type Run = (u64, u64);

/// Returns the runs of bytes `from..to` of a merged chunk.
pub(crate) fn runs(conn: &Connection, chunk: u64, from: u64, to: u64) -> DbResult<Vec<Run>> {
    let blob: Option<Vec<u8>> =
        one(conn, "SELECT runs FROM origin WHERE chunk = ?1", [chunk], |row| row.get(0))?;
    let damaged = || Error::damaged("the record of who wrote a file's bytes is damaged");
    let all = blob.and_then(|blob| decode(&blob)).ok_or_else(damaged)?;
    let mut runs = Vec::new();
    let mut at = 0;
    for (len, commit) in all {
        let (begin, end) = (from.max(at), to.min(at + len));
        if begin < end {
            runs.push((end - begin, commit));
        }
        at += len;
    }
    // The runs of a chunk cover all of it.
    if at < to {
        return Err(damaged().into());
    }
    Ok(runs)
}

/// Writes the runs of a new chunk.
pub(crate) fn put(conn: &Connection, chunk: u64, runs: &[Run]) -> DbResult<()> {
    conn.prepare_cached("INSERT INTO origin (chunk, runs) VALUES (?1, ?2)")?
        .execute(params![chunk, encode(runs)])?;
    Ok(())
}

/// Removes the runs of a chunk that is removed.
pub(crate) fn remove(conn: &Connection, chunk: u64) -> DbResult<()> {
    conn.prepare_cached("DELETE FROM origin WHERE chunk = ?1")?.execute([chunk])?;
    Ok(())
}

/// Appends a run. A run of the same commit as the last one extends it.
pub(crate) fn push(runs: &mut Vec<Run>, (len, commit): Run) {
    match runs.last_mut() {
        Some(last) if last.1 == commit => last.0 += len,
        _ => runs.push((len, commit)),
    }
}

fn encode(runs: &[Run]) -> Vec<u8> {
    let (mut blob, mut before) = (Vec::with_capacity(3 * runs.len()), 0_i64);
    for (len, commit) in runs {
        let by = commit.cast_signed() - before;
        before = commit.cast_signed();
        // Zigzag: small differences in both directions become small numbers.
        put_number(&mut blob, *len);
        put_number(&mut blob, ((by << 1) ^ (by >> 63)).cast_unsigned());
    }
    blob
}

fn decode(mut blob: &[u8]) -> Option<Vec<Run>> {
    let (mut runs, mut before) = (Vec::new(), 0_i64);
    while !blob.is_empty() {
        let (len, by) = (take_number(&mut blob)?, take_number(&mut blob)?);
        let by = (by >> 1).cast_signed() ^ -(by & 1).cast_signed();
        // 0 is no commit: as the writer of an extent it refers to this table.
        before = before.checked_add(by).filter(|commit| *commit > 0)?;
        runs.push((len, before.cast_unsigned()));
    }
    Some(runs)
}

fn put_number(blob: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        blob.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    blob.push(number as u8);
}

fn take_number(blob: &mut &[u8]) -> Option<u64> {
    // Ten bytes at most. Without an end among them the blob is damaged.
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = blob.split_first()?;
        *blob = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_round_trip_in_few_bytes() {
        let mut runs = Vec::new();
        for run in [(200, 7), (3, 8), (70_000, 1), (1, 1), (9, u64::MAX >> 1), (128, 2)] {
            push(&mut runs, run);
        }
        assert_eq!(runs.len(), 5);
        assert_eq!(decode(&encode(&runs)), Some(runs));
        let appends: Vec<Run> = (1000..2000).map(|commit| (200, commit)).collect();
        assert!(encode(&appends).len() < 3100);
        assert_eq!(decode(&[0x80]), None);
        assert_eq!(decode(&[1]), None);
        assert_eq!(decode(&[1, 1]), None, "there is no commit -1");
    }
}
