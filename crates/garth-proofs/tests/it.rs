//! Integration tests of this crate: one binary, so that they link once.

// Tests and their helpers panic on failure, and print the counts of the proofs.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod it {
    mod call_limits;
    mod changes;
    mod disk;
    mod http_crash;
    mod http_load;
    mod isolation;
    mod mcp_edits;
    mod memories;
    mod memory_tool;
    mod metric_labels;
    mod outbox;
    mod postgres;
    mod prompts;
    mod retry_kills;
    mod session_crashes;
    mod sessions;
    mod support;
    mod view_kills;
}
