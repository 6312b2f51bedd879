//! A file in the index as an edit finds it: its passages before the edit, its bytes after it.

use std::ops::Range;

use crate::engine::search::Passage;

/// Larger than every offset, and the largest integer that databases store.
pub const MAX_OFFSET: u64 = i64::MAX as u64;

/// One file: its passages in the index, and its bytes. No offset is above `i64::MAX`.
pub trait IndexedText {
    /// Error of the storage.
    type Error;

    /// Returns the passages that begin from `from` up to and including `to`, in order.
    fn passages(&mut self, from: u64, to: u64) -> Result<Vec<Passage>, Self::Error>;

    /// Returns the last passage that begins before `off`.
    fn last_before(&mut self, off: u64) -> Result<Option<Passage>, Self::Error>;

    /// Reads bytes of the file; fewer than requested only at its end.
    fn read(&mut self, bytes: Range<u64>) -> Result<Vec<u8>, Self::Error>;

    /// Returns true if [`Passage::form`] is the form in which a passage is indexed. False if an older garth
    /// indexed the passage and did not record its form.
    fn has_form(&self, _passage: &Passage) -> bool {
        true
    }
}
