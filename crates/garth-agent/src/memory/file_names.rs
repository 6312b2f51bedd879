//! Names of the files in a memory's directory.

/// Text of a memory, L2.
pub const CONTENT: &str = "content.md";
/// Edges.
pub const RELATIONS: &str = ".relations.json";
/// Abstract, L0.
pub const ABSTRACT: &str = ".abstract.md";
/// Overview, L1.
pub const OVERVIEW: &str = ".overview.md";
/// Meta. The memory exists as soon as this file says so.
pub const META: &str = ".meta.json";
/// Directory of events.
pub const OUTBOX: &str = ".outbox";
/// Directory in [`OUTBOX`] of events that failed too often.
pub const DLQ: &str = "dlq";
/// File in [`OUTBOX`] with the version of the memory up to which events are delivered.
pub const DONE: &str = ".done";
/// Files and directories beside the text of a memory or skill: they describe it, or repeat it.
pub const BESIDE_TEXT: [&str; 5] = [META, RELATIONS, ABSTRACT, OVERVIEW, OUTBOX];
/// Text of a skill; [`CONTENT`] is a symbolic link to it.
pub const SKILL: &str = "SKILL.md";
