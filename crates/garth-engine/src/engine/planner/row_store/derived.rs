//! Answers to queries for derived rows.

use bytes::Bytes;

use super::{RowStore, RowValue};
use crate::engine::planner::derived_rows::DerivedRows;
use crate::engine::planner::rows::RowKey;
use crate::engine::search::Passage;
use crate::error::{Error, Result};
use crate::model::Projection;

/// Bytes of a file are fetched in multiples of this: others next to them are often read as well.
const PIECE: u64 = 64 << 10;

impl DerivedRows for RowStore {
    fn has_missed(&self) -> bool {
        self.missed()
    }

    fn keys(&self, ino: u64) -> Result<Vec<(Projection, String)>> {
        self.get(RowKey::Keys(ino), |value| match value {
            RowValue::NodeKeys(keys) => Some(keys.clone()),
            _ => None,
        })
    }

    fn line_before(&self, ino: u64, projection: Projection, off: u64) -> Result<Option<(u64, u64)>> {
        self.derived
            .line(ino, projection, off)
            .map_or_else(|| self.fail(RowKey::Line(ino, projection, off)), Ok)
    }

    fn passages(&self, ino: u64, from: u64, to: u64) -> Result<Vec<Passage>> {
        self.derived.passages(ino, from, to).map_or_else(|| self.fail(RowKey::Passages(ino, from, to)), Ok)
    }

    fn last_passage(&self, ino: u64, off: u64) -> Result<Option<Passage>> {
        if off == 0 {
            return Ok(None);
        }
        self.derived.last_passage(ino, off).map_or_else(|| self.fail(RowKey::PassageBefore(ino, off)), Ok)
    }

    fn unindexed(&self, ino: u64) -> Result<Option<u64>> {
        self.derived.unindexed(ino).map_or_else(|| self.fail(RowKey::Unindexed(ino)), Ok)
    }

    fn content(&self, ino: u64, from: u64, to: u64) -> Result<Bytes> {
        let Some(bytes) = self.derived.content(ino, from, to) else {
            let (first, last) = (from / PIECE * PIECE, to.div_ceil(PIECE).saturating_mul(PIECE));
            return self.fail(RowKey::Content(ino, first, last));
        };
        // A file is as long as its node says.
        let short = || Error::damaged("stored content is shorter than its file");
        if bytes.len() as u64 == to - from { Ok(bytes) } else { Err(short()) }
    }
}

impl RowStore {
    /// Returns the error of a derived row that is not there: it has not been fetched, or it was fetched in
    /// vain.
    fn fail<T>(&self, key: RowKey) -> Result<T> {
        // Values of these keys are kept by node.
        self.get(key, |_| None)
    }
}
