//! Counts of references to chunks. Whoever changes them has locked the account.

use std::collections::BTreeMap;

use tokio_postgres::types::Type;

use crate::client::Param;
use crate::values::parameters::{ints, list, signed};

// Counts change by differences, and none is read before. A chunk without a row has one reference, so that an
// append writes no row. The new count is in the row that is proposed, because its condition, at least 0, is
// checked on that row, also if another one is updated in its place. A mark of a collection ends: without
// another reference, the chunk gets the full grace period again.
const CHANGE: &str = "INSERT INTO garth.chunk_refs (account, chunk, count)
    SELECT $1, k.chunk, coalesce(r.count, 1) + k.change FROM unnest($2::bigint[], $3::bigint[]) k(chunk, change)
    LEFT JOIN LATERAL (SELECT count FROM garth.chunk_refs WHERE account = $1 AND chunk = k.chunk OFFSET 0) r ON true
    ON CONFLICT (account, chunk) DO UPDATE SET count = excluded.count, marked = NULL";
const FORGET_SINGLE: &str =
    "DELETE FROM garth.chunk_refs WHERE account = $1 AND chunk = ANY($2) AND count = 1";

/// Returns the statements that add differences to the counts of chunks, each without its first parameter, the
/// account. No statement is needed for differences of 0.
pub(crate) fn change(by: &BTreeMap<u64, i64>) -> Vec<(&'static str, Vec<Param>)> {
    let changes: Vec<(u64, i64)> =
        by.iter().filter(|(_, by)| **by != 0).map(|(chunk, by)| (*chunk, *by)).collect();
    if changes.is_empty() {
        return Vec::new();
    }
    let chunks = || ints(changes.iter().map(|(chunk, _)| *chunk));
    vec![
        (CHANGE, vec![chunks(), signed(changes.iter().map(|(_, by)| *by))]),
        (FORGET_SINGLE, vec![list(changes.iter().map(|(chunk, _)| chunk.cast_signed()), Type::INT8_ARRAY)]),
    ]
}
