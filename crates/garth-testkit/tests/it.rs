//! The integration tests of this crate: one binary, so that they link once.

// Tests, their helpers too, stop at what must not happen, and tell what they saw.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod it {
    mod crash;
    mod engine;
    mod host_cuts;
    mod isolation;
    mod proof;
    mod rounds;
}
