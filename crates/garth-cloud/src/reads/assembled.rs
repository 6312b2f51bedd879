//! Parts of files that are put together from their extents, with the checks of the chunks that these show.

use std::collections::HashMap;

use bytes::Bytes;
use garth_engine::engine::planner::ExtentRow;
use garth_engine::{Error, Result};
use tokio_postgres::Row;

use crate::values::columns::{column, number};
use crate::values::sums::is_sound;

/// Chunks of an answer, by their numbers: their bytes, or the error of one that is damaged.
pub(super) type Chunks<'r> = HashMap<u64, Result<&'r [u8]>>;

/// Returns the chunks in rows with the columns `chunk, sum, data` from 4 on. Each is checked once.
///
/// # Errors
/// If a column has another type.
pub(super) fn chunks(rows: &[Row]) -> Result<Chunks<'_>> {
    let mut found = Chunks::new();
    for row in rows {
        if let (Some(sum), Some(data)) = (column::<Option<&[u8]>>(row, 5)?, column::<Option<&[u8]>>(row, 6)?)
        {
            found.insert(number(row, 4)?, checked(sum, data));
        }
    }
    Ok(found)
}

/// Returns the bytes of a chunk if they match its sum.
fn checked<'r>(sum: &[u8], data: &'r [u8]) -> Result<&'r [u8]> {
    if is_sound(sum, data) { Ok(data) } else { Err(damaged("does not match its checksum")) }
}

fn damaged(what: &str) -> Error {
    Error::damaged(format!("stored content {what}"))
}

/// Bytes of a part of a file that its extents fill.
#[derive(Clone, Debug)]
pub(crate) struct Assembled {
    from: u64,
    /// Offset before which all extents were added.
    next: u64,
    bytes: Result<Vec<u8>>,
}

impl Assembled {
    /// Returns the part `from..to` without an extent.
    pub(crate) fn new(from: u64, to: u64) -> Self {
        Self { from, next: from, bytes: Ok(vec![0; usize::try_from(to.saturating_sub(from)).unwrap_or(0)]) }
    }

    /// Returns the offset from which on extents are lacking.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Adds the next extent: columns `off, len, skip, chunk` from 1 on.
    ///
    /// # Errors
    /// If a column has another type. Damage fails only this part.
    pub(super) fn add(&mut self, row: &Row, chunks: &Chunks<'_>) -> Result<()> {
        let extent = (number(row, 1)?, number(row, 2)?, number(row, 3)?);
        self.fill(extent, chunks.get(&number(row, 4)?));
        Ok(())
    }

    /// Adds an extent with its chunk: columns `off, len, skip, sum, data` from `at` on.
    ///
    /// # Errors
    /// If a column has another type. Damage fails only this part.
    pub(crate) fn add_whole(&mut self, row: &Row, at: usize) -> Result<()> {
        let extent = (number(row, at)?, number(row, at + 1)?, number(row, at + 2)?);
        let (sum, data) = (column::<Option<&[u8]>>(row, at + 3)?, column::<Option<&[u8]>>(row, at + 4)?);
        let chunk = sum.zip(data).map(|(sum, data)| checked(sum, data));
        self.fill(extent, chunk.as_ref());
        Ok(())
    }

    fn fill(&mut self, (off, len, skip): (u64, u64, u64), chunk: Option<&Result<&[u8]>>) {
        self.next = self.next.max(off.saturating_add(len));
        if let Ok(bytes) = &mut self.bytes
            && let Err(error) = fill(bytes, self.from, (off, len, skip), chunk)
        {
            self.bytes = Err(error);
        }
    }

    /// Returns true if another extent changes nothing.
    pub(super) fn has_failed(&self) -> bool {
        self.bytes.is_err()
    }

    /// Returns the bytes.
    ///
    /// # Errors
    /// `Corrupt` for damaged content.
    pub(crate) fn done(self) -> Result<Bytes> {
        self.bytes.map(Bytes::from)
    }
}

/// Copies the bytes of an extent to their place in `bytes`, which begin at `from` in the file.
fn fill(
    bytes: &mut [u8],
    from: u64,
    (off, len, skip): (u64, u64, u64),
    chunk: Option<&Result<&[u8]>>,
) -> Result<()> {
    let data = chunk.ok_or_else(|| damaged("is missing"))?.clone()?;
    let row = ExtentRow { off, len, since: 0, chunk: 0, skip, written: 0 };
    let part = row.cut(from, from + bytes.len() as u64);
    let place = |start: u64| usize::try_from(start).unwrap_or(usize::MAX);
    let to = bytes.get_mut(place(part.off - from)..place(part.end() - from));
    let data = data.get(place(part.skip)..place(part.skip + part.len));
    let (to, data) = to.zip(data).ok_or_else(|| damaged("is shorter than its extent"))?;
    to.copy_from_slice(data);
    Ok(())
}

#[cfg(test)]
mod tests {
    use garth_engine::engine::planner::sum_of;

    use super::*;

    #[test]
    fn extents_fill_their_place() {
        let data: Result<&[u8]> = Ok(b"0123456789");
        let mut part = Assembled::new(100, 106);
        part.fill((98, 5, 2), Some(&data));
        assert_eq!(part.next(), 103);
        part.fill((104, 10, 0), Some(&data));
        assert_eq!(part.next(), 114);
        assert_eq!(part.done().unwrap(), &b"456\x0001"[..], "the first two bytes are before the range");
    }

    #[test]
    fn damaged_chunks_fail() {
        let data = &b"0123456789"[..];
        checked(&sum_of(data, false), data).unwrap();
        for sum in [&b"sum"[..], &b""[..], &sum_of(b"other", true)] {
            assert_eq!(checked(sum, data).unwrap_err().kind(), garth_engine::ErrorKind::Corrupt);
        }
        for (extent, chunk) in [
            ((0, 4, 0), None),
            ((0, 4, 0), Some(checked(b"sum", data))),
            // Longer than the chunk.
            ((0, 4, 8), Some(Ok(data))),
        ] {
            let mut part = Assembled::new(0, 4);
            part.fill(extent, chunk.as_ref());
            assert!(part.has_failed());
            assert_eq!(part.done().unwrap_err().kind(), garth_engine::ErrorKind::Corrupt);
        }
    }
}
