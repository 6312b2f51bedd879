//! Integration tests of this crate, in one binary, so that they link once.

// Tests and their helpers panic at a violation, and print their observations.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod it {
    mod crash;
    mod engine;
    mod host_cuts;
    mod isolation;
    mod postgres;
    mod proof;
    mod proxy;
    mod recall_data;
    mod retention;
    mod rounds;
}
