//! Finds the retracted messages of a session, which recall never shows.

use std::collections::{BTreeSet, HashSet};

use crate::registry::projections::sessions::{
    RETRACTED, SESSION_LINE, line_key, retracted_key, retracted_keys,
};
use garth_engine::error::Result;
use garth_engine::fs::FileSystem;
use garth_engine::model::FindQuery;
use garth_engine::path::TreePath;

/// Returns true if messages of one of these sessions may be retracted.
pub(super) async fn may_be_retracted(fs: &dyn FileSystem, messages: &[&TreePath]) -> Result<bool> {
    if messages.is_empty() {
        return Ok(false);
    }
    let events = messages.iter().map(|messages| events_beside(messages));
    let query = FindQuery::new(SESSION_LINE).equal(RETRACTED).within_any(events).limit(1);
    let found = fs.find(&query).await?;
    // A page without items is not always the last one.
    Ok(!found.items.is_empty() || found.next.is_some())
}

/// Returns which of these lines of a session's messages are retracted.
pub(crate) async fn retracted(
    fs: &dyn FileSystem,
    messages: &TreePath,
    lines: &BTreeSet<u64>,
) -> Result<HashSet<u64>> {
    let mut retracted = HashSet::new();
    let events = events_beside(messages);
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

/// Returns the path of the events of the session with these messages.
fn events_beside(messages: &TreePath) -> TreePath {
    TreePath::from_row(messages.parent().unwrap_or_default().key(), "events.jsonl")
}
