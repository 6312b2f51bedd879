//! HTTP interface of garth: key-value calls, memories, sessions, workspaces, media, recall and keys.
//! `docs/specs` is the contract: `kv-api.md` has the rules of all calls, the section "Over HTTP" of the other
//! pages their own.
//!
//! Everything goes through [`garth_engine::FileSystem`], so all interfaces see the same data. This is a
//! separate crate so that work on the engine does not rebuild a web server.
//!
//! A request is checked in this order: HTTP itself (400), `Host` and `Origin` (403), route (404), method
//! (405), key (401), scope (403), calls in a minute (429) and media type (415) from the head alone, size
//! (413), calls at once (429), then content (400 and the rest).

mod answers;
mod auth;
mod body;
mod call_limits;
pub mod chat_model;
mod collect;
mod compaction;
mod compute;
mod connection;
mod consumers;
pub mod embedder;
mod endpoint;
mod errors;
mod fields;
mod limits;
mod maintenance;
pub mod mcp;
mod metrics;
mod operations;
pub mod outbox;
mod pace;
mod rate_limit;
mod readiness;
mod repair;
mod request;
mod resets;
mod routes;
mod seal;
mod serve;
mod site;
mod stopping;
mod wire;

pub use self::collect::Collecting;
pub use self::limits::{Limit, Limits, Unit};
pub use self::metrics::{Metrics, MetricsAccess, MetricsToken};
pub use self::routes::{openapi, reference};
#[doc(hidden)]
pub use self::serve::serve_mcp_handler;
pub use self::serve::{Options, serve};
pub use self::site::{Hosts, Origins};

/// Compiles the Rust of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
