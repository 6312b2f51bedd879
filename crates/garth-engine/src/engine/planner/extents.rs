//! Live extents of the files of a batch, found in time that does not depend on how many there are: a batch
//! may write to one file 100,000 times.

use std::collections::{BTreeMap, HashMap};

use super::rows::ExtentRow;

/// Extents of the database that no operation of the batch has ended. Each is read once, however many
/// operations cover its range.
#[derive(Default)]
pub(super) struct LiveExtents {
    files: HashMap<u64, FileExtents>,
}

#[derive(Default)]
struct FileExtents {
    /// Extents by offset.
    rows: BTreeMap<u64, ExtentRow>,
    /// Ranges of the file that have been read, each by its start, with its end. They do not touch.
    read: BTreeMap<u64, u64>,
}

impl LiveExtents {
    /// Returns the parts of a range of a file that have not been read.
    pub(super) fn unread(&self, ino: u64, from: u64, to: u64) -> Vec<(u64, u64)> {
        let (mut unread, mut at) = (Vec::new(), from);
        let read = self.files.get(&ino).map(|file| &file.read);
        for (start, end) in read.into_iter().flat_map(|read| near(read, from, to)) {
            if at < *start {
                unread.push((at, *start));
            }
            at = at.max(*end);
        }
        if at < to {
            unread.push((at, to));
        }
        unread
    }

    /// Adds the extents of a range that was read.
    pub(super) fn add(&mut self, ino: u64, (from, to): (u64, u64), rows: Vec<ExtentRow>) {
        let file = self.files.entry(ino).or_default();
        file.rows.extend(rows.into_iter().map(|row| (row.off, row)));
        // Joined with the ranges that it touches, or each look at a large range would go through all of them.
        let touches = near(&file.read, from, to.saturating_add(1)).filter(|(_, end)| **end >= from);
        let touches: Vec<(u64, u64)> = touches.map(|(start, end)| (*start, *end)).collect();
        let (mut first, mut last) = (from, to);
        for (start, end) in touches {
            file.read.remove(&start);
            (first, last) = (first.min(start), last.max(end));
        }
        file.read.insert(first, last);
    }

    /// Forgets an extent that an operation has ended.
    pub(super) fn end(&mut self, ino: u64, off: u64) {
        if let Some(file) = self.files.get_mut(&ino) {
            file.rows.remove(&off);
        }
    }

    /// Returns the extents that overlap a range which has been read, by offset.
    pub(super) fn overlapping(&self, ino: u64, from: u64, to: u64) -> Vec<ExtentRow> {
        let rows = self.files.get(&ino).map(|file| &file.rows);
        rows.into_iter().flat_map(|rows| overlapping(rows, from, to)).copied().collect()
    }
}

/// Returns the extents that overlap a range, by offset. They do not overlap each other.
pub(super) fn overlapping(
    rows: &BTreeMap<u64, ExtentRow>,
    from: u64,
    to: u64,
) -> impl Iterator<Item = &ExtentRow> {
    let rows = near(rows, from, to).map(|(_, row)| row);
    rows.filter(move |row| row.off < to && row.end() > from)
}

/// Returns the ranges that may overlap `from..to`, of a map of ranges by their start that do not overlap:
/// those that begin in it, and the last one that begins before.
fn near<V>(ranges: &BTreeMap<u64, V>, from: u64, to: u64) -> impl Iterator<Item = (&u64, &V)> {
    let before = ranges.range(..from).next_back();
    // A start after the end would panic.
    before.into_iter().chain(ranges.range(from..to.max(from)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn row(off: u64, len: u64) -> ExtentRow {
        ExtentRow { off, len, since: 1, chunk: 1, skip: 0, written: 1 }
    }

    #[test]
    fn looks_at_extents_near_the_range_only() {
        for count in [20, 2000] {
            let rows: BTreeMap<u64, ExtentRow> = (0..count).map(|at| (2 * at, row(2 * at, 1))).collect();
            assert_eq!(near(&rows, 20, 21).count(), 2, "of {count}");
            assert_eq!(overlapping(&rows, 20, 21).count(), 1, "of {count}");
        }
    }

    #[test]
    fn ranges_that_touch_are_joined() {
        let mut live = LiveExtents::default();
        for at in 0..100 {
            live.add(1, (2 * at, 2 * at + 1), Vec::new());
        }
        assert_eq!(live.unread(1, 0, 5), [(1, 2), (3, 4)]);
        live.add(1, (0, 1000), Vec::new());
        assert_eq!((live.files[&1].read.len(), live.unread(1, 10, 1001)), (1, vec![(1000, 1001)]));
    }

    proptest! {
        #[test]
        fn rest_of_a_range_is_what_was_not_read(
            steps in prop::collection::vec((0..30u64, 1..10u64), 1..20),
            (from, length) in (0..30u64, 0..15u64),
        ) {
            let (mut live, mut read) = (LiveExtents::default(), [false; 64]);
            for (start, length) in steps {
                live.add(1, (start, start + length), Vec::new());
                read[start as usize..(start + length) as usize].fill(true);
            }
            let mut unread = [false; 64];
            for (start, end) in live.unread(1, from, from + length) {
                unread[start as usize..end as usize].fill(true);
            }
            for ((at, unread), read) in (0..).zip(unread).zip(read) {
                prop_assert_eq!(unread, (from..from + length).contains(&at) && !read, "{}", at);
            }
        }
    }
}
