//! Integration tests of this crate, in one binary, so that they link once. Each test starts a server of its
//! own.

// Tests and their helpers panic at a violation.
#![allow(clippy::unwrap_used)]

mod it {
    mod background;
    mod blame;
    mod both;
    mod clocks;
    mod collecting;
    mod commits;
    mod database;
    mod deletion_races;
    mod derived;
    mod find;
    mod fsck;
    mod gated_commits;
    mod groups;
    mod holds;
    mod home;
    mod lost_commits;
    mod old_content;
    mod operations;
    mod pipes;
    mod pool;
    mod quotas;
    mod random_operations;
    mod reads;
    mod retention;
    mod row_costs;
    mod rules;
    mod schema;
    mod search;
    mod set_retention;
    mod stored_bytes;
    mod trips;
    mod uploads;
}
