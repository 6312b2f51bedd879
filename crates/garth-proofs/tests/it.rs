//! The integration tests of this crate: one binary, so that they link once.

// Tests, their helpers too, stop at what must not happen, and tell what they saw.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod it {
    mod disk;
    mod http_crash;
    mod isolation;
    mod memories;
    mod outbox;
    mod prompts;
    mod retry_kills;
    mod session_crashes;
    mod sessions;
    mod support;
    mod view_kills;
}
