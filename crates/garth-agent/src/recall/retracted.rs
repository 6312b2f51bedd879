//! Removes retracted messages from the text of a session that recall shows.

use std::collections::HashSet;

use bytes::Bytes;

use super::read::{Answers, Found};
use crate::registry::projections::sessions::{
    RETRACTED, SESSION_LINE, line_key, retracted_key, retracted_keys,
};
use garth_engine::error::Result;
use garth_engine::fs::FileSystem;
use garth_engine::model::FindQuery;
use garth_engine::path::TreePath;
use garth_engine::text::withheld::blanked;

/// Returns the answers to the ranges of a file, with the messages that were retracted from it blanked.
pub(super) async fn without_retracted(
    fs: &dyn FileSystem,
    path: &TreePath,
    found: &Found<'_>,
    answers: Answers,
) -> Result<Answers> {
    let Some(dir) = path.parent().filter(|_| path.name() == Some("messages.jsonl")) else {
        return Ok(answers);
    };
    let events = TreePath::from_row(dir.key(), "events.jsonl");
    let has = async |key: &str| -> Result<bool> {
        let query = FindQuery::new(SESSION_LINE).equal(key).within(events.clone()).limit(1);
        Ok(!fs.find(&query).await?.items.is_empty())
    };
    // One lookup is enough for a session without retractions.
    if !has(RETRACTED).await? {
        return Ok(answers);
    }
    let mut left = Vec::new();
    for (place, answer) in answers.into_iter().enumerate() {
        let Ok((entry, text)) = answer else {
            left.push(answer);
            continue;
        };
        // The second range is the surroundings of the hit, whose first line is known.
        let first = match found.first_hit().filter(|_| place == 1) {
            Some(hit) => {
                let from = Found::start_around(hit);
                let before = usize::try_from(hit.bytes.start - from).unwrap_or(usize::MAX).min(text.len());
                hit.lines.start.saturating_sub(line_feeds(&text[..before]))
            }
            None => 1,
        };
        let lines = first..=first + line_feeds(&text);
        let mut retracted = HashSet::new();
        let mut block = 0;
        let mut is_touched = false;
        for line in lines {
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
        let text = match retracted.is_empty() {
            true => text,
            // Blanked rather than cut, so that byte positions and line numbers still hold.
            false => Bytes::from(blanked(text.to_vec(), first, |line| retracted.contains(&line))),
        };
        left.push(Ok((entry, text)));
    }
    Ok(Answers::from(left))
}

fn line_feeds(text: &[u8]) -> u64 {
    text.iter().filter(|byte| **byte == b'\n').count() as u64
}
