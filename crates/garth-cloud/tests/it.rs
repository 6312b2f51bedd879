//! Integration tests of this crate, in one binary, so that they link once. Each test starts a server of its
//! own.

// Tests and their helpers panic at a violation.
#![allow(clippy::unwrap_used)]

mod it {
    mod blame;
    mod both;
    mod commits;
    mod database;
    mod derived;
    mod find;
    mod fsck;
    mod gated_commits;
    mod groups;
    mod home;
    mod lost_commits;
    mod operations;
    mod pool;
    mod quotas;
    mod random_operations;
    mod reads;
    mod rules;
    mod schema;
    mod search;
    mod trips;
}
