//! Names of the files in a memory's directory.

/// The text of a memory, L2.
pub const CONTENT: &str = "content.md";
/// Its edges.
pub const RELATIONS: &str = ".relations.json";
/// Its abstract, L0.
pub const ABSTRACT: &str = ".abstract.md";
/// Its overview, L1.
pub const OVERVIEW: &str = ".overview.md";
/// What is known of it. The memory is there once this says so.
pub const META: &str = ".meta.json";
/// Its events.
pub const OUTBOX: &str = ".outbox";
/// In [`OUTBOX`]: events that were tried too often.
pub const DLQ: &str = "dlq";
/// In [`OUTBOX`]: the version of the memory whose events are done.
pub const DONE: &str = ".done";
/// The text of a skill; its [`CONTENT`] is a symbolic link to it.
pub const SKILL: &str = "SKILL.md";
