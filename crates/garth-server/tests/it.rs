//! The integration tests of this crate: one binary, so that they link once. Real
//! sockets on 127.0.0.1, port 0.

#![allow(clippy::unwrap_used)] // tests, their helpers too, stop at what must not happen

mod it {
    mod admin_calls;
    mod admin_patterns;
    mod admin_snapshots;
    mod agents;
    mod answers;
    mod auth;
    mod batch_calls;
    mod bound_keys;
    mod call_limits;
    mod changes;
    mod chat_model;
    mod connection;
    mod counters;
    mod described;
    mod embedder;
    mod ended_keys;
    #[cfg(debug_assertions)]
    mod error_codes;
    mod error_paths;
    mod events;
    mod fairness;
    mod fs;
    mod garbage;
    mod get_many;
    mod harness;
    mod idempotency;
    mod isolation;
    #[cfg(debug_assertions)]
    mod kept_trees;
    mod keys;
    mod kv_conditions;
    mod limits;
    mod mcp;
    mod media;
    mod memories;
    mod memory_tool;
    mod metrics;
    mod model_turns;
    mod openapi;
    mod operators;
    mod outbox;
    mod overlays;
    mod put_many;
    mod reach;
    mod recall;
    mod refusals;
    mod repeats;
    mod routes;
    mod search;
    mod search_tree;
    mod sessions;
    mod site;
    mod tree_calls;
}
