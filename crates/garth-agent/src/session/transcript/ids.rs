//! Ids of messages that came without one. They are derived from the text, so that an import can be repeated.

use std::collections::HashMap;

use sha2::{Digest as _, Sha256};

use super::format::TranscriptFormat;

/// Counts equal messages, so that each gets an id of its own, and the same one at each import.
#[derive(Default)]
pub(super) struct Ids(HashMap<[u8; 32], u64>);

impl Ids {
    /// Returns the number of messages with this text before this one.
    pub(super) fn next(&mut self, format: TranscriptFormat, text: &str) -> u64 {
        let digest =
            Sha256::new().chain_update(format.as_str()).chain_update([0]).chain_update(text).finalize();
        let count = self.0.entry(digest.into()).or_default();
        *count += 1;
        *count - 1
    }

    /// Returns the id of a part of the next message with this text.
    pub(super) fn of(&mut self, format: TranscriptFormat, text: &str, part: usize) -> String {
        let ordinal = self.next(format, text);
        message_id(format, text, ordinal, part)
    }
}

/// Returns the id of a part of a message, derived from its text.
pub(super) fn message_id(format: TranscriptFormat, text: &str, ordinal: u64, part: usize) -> String {
    let digest =
        Sha256::new().chain_update(format!("{format}\0{ordinal}\0{part}\0")).chain_update(text).finalize();
    format!("msg-{}", garth_engine::model::hex(&digest[..16]))
}
