//! Proofs of the features of agents and of the server: memories, outbox, sessions, prompts, isolation.
//! Development only. Proofs that need the storage engine alone are in `garth-testkit`.
//!
//! | to find | look into |
//! |---|---|
//! | tries to see what belongs to another account, agent or session class | [`isolation`] |
//! | repair of memories | [`memories`] |
//! | delivery of events | [`outbox`] |
//! | packs of sessions | [`packs`] |
//! | transcripts that come in parts and again | [`transcripts`] |
//! | prompts beside a second implementation, paths that they name | [`prompts`] |
//! | packs of sessions with long results | [`filled_packs`] |
//! | many withdrawals in a session | [`withdrawals`] |
//! | crashes, resets and collection of sessions | [`sessions`] |
//! | batches over the tree of an agent under kills | [`view_kills`] |
//! | writes that are sent again, under kills | [`retry_kills`] |
//! | connections that are cut during a put | [`http_cuts`] |
//! | accounts that several proofs open | `support` |
//! | second implementations that others are compared with | `reference` |
//! | second processes of these proofs | [`worker`] |

pub mod filled_packs;
pub mod http_cuts;
pub mod isolation;
pub mod memories;
pub mod outbox;
pub mod packs;
pub mod prompts;
mod reference;
pub mod retry_kills;
pub mod sessions;
mod support;
pub mod transcripts;
pub mod view_kills;
pub mod withdrawals;
pub mod worker;
mod worker_binary;
