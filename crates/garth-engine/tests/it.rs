//! Integration tests of this crate, in one binary, so that they link once.

// Tests and their helpers panic on failure.
#![allow(clippy::unwrap_used)]

mod it {
    mod collecting;
    mod content_limits;
    mod contract;
    mod control;
    mod cuts;
    mod damaged_gates;
    mod folding;
    mod gates;
    mod home;
    mod host;
    mod host_odd;
    mod joined;
    mod keys;
    mod merging;
    mod model;
    mod mount;
    mod mount_aliases;
    mod names_of_gone_files;
    mod numbers;
    mod operator;
    mod outside_numbers;
    mod overlay;
    mod overlay_kernel;
    mod overlay_races;
    mod overlay_stored;
    mod quota_counters;
    mod quotas;
    mod registry;
    mod retained_accounts;
    mod retained_trees;
    mod retention;
    mod searching;
    mod specs;
    mod sqlite;
    mod stacked;
    mod stats;
    mod stored_bytes;
    mod stores;
}
