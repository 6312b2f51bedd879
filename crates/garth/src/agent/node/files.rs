//! The files of a node's directory, and the forms that they share.

use serde::Serialize;
use sha2::{Digest as _, Sha256};

/// The text of a node, L2.
pub const CONTENT: &str = "content.md";
/// Its edges.
pub const RELATIONS: &str = ".relations.json";
/// Its abstract, L0.
pub const ABSTRACT: &str = ".abstract.md";
/// Its overview, L1.
pub const OVERVIEW: &str = ".overview.md";
/// What is known of it. The node is there once this says so.
pub const META: &str = ".meta.json";
/// Its events.
pub const OUTBOX: &str = ".outbox";
/// In [`OUTBOX`]: events that were tried too often.
pub const DLQ: &str = "dlq";
/// In [`OUTBOX`]: the version of the node whose events are done.
pub const DONE: &str = ".done";
/// The text of a skill; its [`CONTENT`] is a symbolic link to it.
pub const SKILL: &str = "SKILL.md";

/// JSON as files of a node have it: a field a line, a line feed at the end.
pub(super) fn pretty<T: Serialize + ?Sized>(value: &T) -> String {
    // what is kept here has text keys alone, so that it always has a JSON form
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

/// The SHA-256 of some bytes, 64 hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
