//! Derived rows that were fetched: lines, passages and bytes of files before a group of batches.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;

use crate::engine::planner::derived_rows::{TAIL_PASSAGES, Tail};
use crate::engine::planner::rows::RowKey;
use crate::engine::search::Passage;
use crate::model::Projection;

/// Place of a line: number and offset.
type LinePlace = (u64, u64);

/// First and last offset of a range, and the line that is the last up to each of them.
type LineRange = (u64, u64, Option<LinePlace>);

/// Derived rows that were fetched, by inode.
#[derive(Default)]
pub(super) struct FetchedDerived {
    /// Files whose [`Tail`] was fetched.
    tails: HashSet<u64>,
    /// Ranges of offsets, the last one included, with the passages that begin there.
    passages: HashMap<u64, Vec<(u64, u64, Vec<Passage>)>>,
    lines: HashMap<(u64, Projection), Vec<LineRange>>,
    unindexed: HashMap<u64, Option<u64>>,
    /// Ranges, with their bytes; fewer at the end of the file.
    content: HashMap<u64, Vec<(u64, u64, Bytes)>>,
}

impl FetchedDerived {
    pub(super) fn put_passages(&mut self, ino: u64, (from, to): (u64, u64), rows: &[Passage]) {
        self.passages.entry(ino).or_default().push((from, to, rows.to_vec()));
    }

    /// Adds the last passage before an offset, if there is one.
    pub(super) fn put_last_passage(&mut self, ino: u64, off: u64, rows: &[Passage]) {
        let from = rows.first().map_or(0, |last| last.span.off);
        self.put_passages(ino, (from, off.saturating_sub(1)), rows);
    }

    pub(super) fn put_line(&mut self, key: (u64, Projection), off: u64, line: Option<LinePlace>) {
        let from = line.map_or(0, |(_, at)| at);
        self.lines.entry(key).or_default().push((from, off, line));
    }

    pub(super) fn put_unindexed(&mut self, ino: u64, off: Option<u64>) {
        self.unindexed.insert(ino, off);
    }

    pub(super) fn put_content(&mut self, ino: u64, (from, to): (u64, u64), bytes: &Bytes) {
        self.content.entry(ino).or_default().push((from, to, bytes.clone()));
    }

    pub(super) fn put_tail(&mut self, ino: u64, tail: &Tail) {
        let Tail { passages, unindexed, lines, from, bytes } = tail;
        self.tails.insert(ino);
        // A shorter list has all of them.
        let first = passages.first().filter(|_| passages.len() >= TAIL_PASSAGES);
        let begin = first.map_or(0, |first| first.span.off);
        self.put_passages(ino, (begin, u64::MAX), passages);
        self.put_unindexed(ino, *unindexed);
        for (projection, line) in lines {
            self.put_line((ino, *projection), u64::MAX, Some(*line));
        }
        self.put_content(ino, (*from, u64::MAX), bytes);
    }

    /// Returns true if a value answers the key.
    pub(super) fn has(&self, key: &RowKey) -> bool {
        match key {
            RowKey::Passages(ino, from, to) => self.passages(*ino, *from, *to).is_some(),
            RowKey::PassageBefore(ino, off) => self.last_passage(*ino, *off).is_some(),
            RowKey::Line(ino, projection, off) => self.line(*ino, *projection, *off).is_some(),
            RowKey::Unindexed(ino) => self.unindexed.contains_key(ino),
            RowKey::Content(ino, from, to) => self.content(*ino, *from, *to).is_some(),
            RowKey::Tail(ino) => self.tails.contains(ino),
            _ => false,
        }
    }

    /// Returns the passages that begin in a range, its end included.
    pub(super) fn passages(&self, ino: u64, from: u64, to: u64) -> Option<Vec<Passage>> {
        let mut known = self.passages.get(&ino)?.iter();
        let (_, _, rows) = known.find(|(first, last, _)| *first <= from && to <= *last)?;
        Some(rows.iter().filter(|row| (from..=to).contains(&row.span.off)).copied().collect())
    }

    /// Returns the last passage before an offset; `Some(None)` if there is none.
    pub(super) fn last_passage(&self, ino: u64, off: u64) -> Option<Option<Passage>> {
        self.passages.get(&ino)?.iter().find_map(|(first, last, rows)| {
            if *first >= off || off - 1 > *last {
                return None;
            }
            match rows.iter().rev().find(|row| row.span.off < off) {
                Some(row) => Some(Some(*row)),
                None => (*first == 0).then_some(None),
            }
        })
    }

    /// Returns the byte from which a file is not indexed yet; `Some(None)` if all of it is.
    pub(super) fn unindexed(&self, ino: u64) -> Option<Option<u64>> {
        self.unindexed.get(&ino).copied()
    }

    /// Returns the last line up to an offset; `Some(None)` if there is none.
    pub(super) fn line(&self, ino: u64, projection: Projection, off: u64) -> Option<Option<LinePlace>> {
        match self.lines.get(&(ino, projection)) {
            Some(known) => {
                let found = known.iter().find(|(first, last, _)| *first <= off && off <= *last);
                found.map(|(_, _, line)| *line)
            }
            // The end of the file has the last line of each projection that has one.
            None => self.tails.contains(&ino).then_some(None),
        }
    }

    /// Returns the bytes of a range, as far as the file has them.
    pub(super) fn content(&self, ino: u64, from: u64, to: u64) -> Option<Bytes> {
        let mut known = self.content.get(&ino)?.iter();
        let (first, _, bytes) = known.find(|(first, last, _)| *first <= from && to <= *last)?;
        let at = |off: u64| usize::try_from(off - first).unwrap_or(usize::MAX).min(bytes.len());
        Some(bytes.slice(at(from)..at(to)))
    }
}
