//! Integration tests of this crate, in one binary, so that they link once. Each test starts a server of its
//! own.

// Tests and their helpers panic at a violation.
#![allow(clippy::unwrap_used)]

mod it {
    mod commits;
    mod database;
    mod groups;
    mod schema;
    mod search;
    mod trips;
}
