//! Proofs of the features of agents and of the server: memories, outbox, sessions, prompts and isolation. For
//! development only. Proofs of the storage engine alone are in `garth-testkit`.
//!
//! | to find | look into |
//! |---|---|
//! | attempts to read data of another account, agent or session class | [`isolation`] |
//! | repair of memories | [`memories`] |
//! | agents that edit one file at once over MCP under kills | [`mcp_edits`] |
//! | the memory tool compared with a plain folder | [`memory_tool`] |
//! | delivery of events | [`outbox`] |
//! | packs of sessions | [`packs`] |
//! | transcripts that are imported in parts and again | [`transcripts`] |
//! | prompts compared with a second implementation, and the paths that they name | [`prompts`] |
//! | packs of sessions with long results | [`filled_packs`] |
//! | many retractions in a session | [`retractions`] |
//! | crashes, resets and collection of sessions | [`sessions`] |
//! | batches over the tree of an agent under kills | [`view_kills`] |
//! | retried writes under kills | [`retry_kills`] |
//! | retried calls of a server under kills | [`call_kills`] |
//! | streams of changes whose clients are killed | [`changes`] |
//! | limits on calls under many connections | [`call_limits`] |
//! | figures and labels of metrics with many accounts | [`metric_labels`] |
//! | a server under load, with keys that are revoked and slow clients | [`http_load`] |
//! | connections that are cut during a put | [`http_cuts`] |
//! | the Postgres engine: proofs of every engine, stops of its server, cut connections | [`postgres`] |
//! | accounts and threads of several proofs | `support` |
//! | messages of the Model Context Protocol | `mcp_messages` |
//! | the server process of proofs, and its client | `served` |
//! | a server in this process whose clocks stand still | `in_process` |
//! | second implementations to compare with | `reference` |
//! | second processes of these proofs | [`worker`] |

pub mod call_kills;
pub mod call_limits;
pub mod changes;
pub mod filled_packs;
pub mod http_cuts;
pub mod http_load;
mod in_process;
pub mod isolation;
pub mod mcp_edits;
mod mcp_messages;
pub mod memories;
pub mod memory_tool;
pub mod metric_labels;
pub mod outbox;
pub mod packs;
pub mod postgres;
pub mod prompts;
mod reference;
pub mod retractions;
pub mod retry_kills;
mod served;
pub mod sessions;
mod support;
pub mod transcripts;
pub mod view_kills;
pub mod worker;
mod worker_binary;

/// Compiles the Rust of the README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;
