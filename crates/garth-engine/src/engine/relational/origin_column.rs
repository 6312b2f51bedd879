//! Column of table `origin`: the commits that wrote the bytes of a chunk that was merged from small extents.
//! Pairs of the length of a run, and the difference of its commit to that of the run before (zigzag), both as
//! LEB128. An append mostly takes three bytes.

use crate::error::{Error, Result};

/// Length of a run of bytes that one commit wrote, and the commit.
pub type Run = (u64, u64);

/// Returns the runs of bytes `from..to` of a merged chunk, from its column; `None` if there is no row.
///
/// # Errors
/// `Corrupt` if the column cannot be read or does not have these bytes.
pub fn runs(column: Option<&[u8]>, from: u64, to: u64) -> Result<Vec<Run>> {
    let damaged = || Error::damaged("the record of who wrote a file's bytes is damaged");
    let all = column.and_then(decode).ok_or_else(damaged)?;
    let mut runs = Vec::new();
    let mut at = 0_u64;
    for (len, commit) in all {
        let end = at.checked_add(len).ok_or_else(damaged)?;
        let (first, last) = (from.max(at), to.min(end));
        if first < last {
            runs.push((last - first, commit));
        }
        at = end;
    }
    // The runs of a chunk cover all of it.
    if at < to {
        return Err(damaged());
    }
    Ok(runs)
}

/// Appends a run. A run of the same commit as the last one extends it.
pub fn push(runs: &mut Vec<Run>, (len, commit): Run) {
    match runs.last_mut() {
        Some(last) if last.1 == commit => last.0 += len,
        _ => runs.push((len, commit)),
    }
}

/// Returns the column of runs.
pub fn encode(runs: &[Run]) -> Vec<u8> {
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
    use crate::error::ErrorKind;

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

    #[test]
    fn runs_of_a_part_are_cut() {
        let column = encode(&[(5, 1), (5, 2)]);
        assert_eq!(runs(Some(&column), 3, 7).unwrap(), [(2, 1), (2, 2)]);
        for (column, to) in [(Some(&column[..]), 11), (Some(&[0x80][..]), 1), (None, 1)] {
            assert_eq!(runs(column, 0, to).unwrap_err().kind(), ErrorKind::Corrupt);
        }
    }
}
