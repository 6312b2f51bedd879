//! Finds the retracted messages of a session, which recall never shows.

use std::collections::{BTreeSet, HashSet};

use crate::registry::projections::sessions::{
    RETRACTED, SESSION_LINE, line_key, retracted_key, retracted_keys,
};
use garth_engine::error::Result;
use garth_engine::fs::FileSystem;
use garth_engine::model::FindQuery;
use garth_engine::path::TreePath;

/// Returns which of these lines of a session's messages are retracted.
pub(crate) async fn retracted(
    fs: &dyn FileSystem,
    messages: &TreePath,
    lines: &BTreeSet<u64>,
) -> Result<HashSet<u64>> {
    let mut retracted = HashSet::new();
    let events = TreePath::from_row(messages.parent().unwrap_or_default().key(), "events.jsonl");
    let has = async |key: &str| -> Result<bool> {
        let query = FindQuery::new(SESSION_LINE).equal(key).within(events.clone()).limit(1);
        Ok(!fs.find(&query).await?.items.is_empty())
    };
    // One lookup is enough for a session without retractions.
    if !has(RETRACTED).await? {
        return Ok(retracted);
    }
    let (mut block, mut is_touched) = (0, false);
    for line in lines.iter().copied() {
        // A lookup for each block of lines first; most blocks have no retracted line.
        if line_key(line).1 != block {
            block = line_key(line).1;
            is_touched = has(&retracted_key(line)).await?;
        }
        if !is_touched {
            continue;
        }
        for key in retracted_keys(line) {
            if has(&key).await? {
                retracted.insert(line);
            }
        }
    }
    Ok(retracted)
}
