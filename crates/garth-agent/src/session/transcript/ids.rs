//! Ids of archived messages, which came without one. They are derived from the text, so that they stay.

use sha2::{Digest as _, Sha256};

use super::format::TranscriptFormat;

/// Returns the id of a part of a message, derived from its text.
pub(super) fn message_id(format: TranscriptFormat, text: &str, ordinal: u64, part: usize) -> String {
    let digest =
        Sha256::new().chain_update(format!("{format}\0{ordinal}\0{part}\0")).chain_update(text).finalize();
    format!("msg-{}", garth_engine::model::hex(&digest[..16]))
}
