//! The integration tests of this crate: one binary, so that they link once.

// Tests, their helpers too, stop at what must not happen, and tell the seed of what they did.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod it {
    mod crash;
}
