//! Integration tests of this crate, in one binary, so that they link once. Each test starts a server of its
//! own.

// Tests and their helpers panic at a violation.
#![allow(clippy::unwrap_used)]

mod it {
    mod both;
    mod commits;
    mod database;
    mod derived;
    mod find;
    mod gated_commits;
    mod groups;
    mod holds;
    mod home;
    mod lost_commits;
    mod operations;
    mod pool;
    mod random_operations;
    mod reads;
    mod schema;
    mod search;
    mod trips;
    mod uploads;
}
