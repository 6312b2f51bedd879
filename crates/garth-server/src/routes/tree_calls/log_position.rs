//! Positions in the version log, as callers send them.

use garth_engine::model::{LogPosition, Seq};

use crate::errors::Refusal;

/// Refuses a position after the last commit. It is one of another log, such as that of a deleted account of
/// the same name: without the refusal, the caller would wait for commits that it has missed.
pub(super) fn check_since(since: Seq, head: Seq) -> Result<(), Refusal> {
    if since <= head {
        return Ok(());
    }
    Err(Refusal::validation(format!(
        "the commit {since} does not exist: the last one is {head}; the position is one of another log, so read \
         the tree again and begin at its last commit"
    )))
}

/// Returns a position in the log as a text for a cursor, always of one length.
pub(super) fn position_text(position: LogPosition) -> String {
    format!("{:020}-{:020}", position.seq.0, position.changes)
}

/// Returns the position in the log of a cursor.
pub(super) fn position(text: &str) -> Result<LogPosition, Refusal> {
    let (seq, changes) = text.split_once('-').ok_or_else(Refusal::cursor)?;
    let number = |text: &str| text.parse::<u64>().map_err(|_| Refusal::cursor());
    Ok(LogPosition { seq: Seq(number(seq)?), changes: number(changes)? })
}
