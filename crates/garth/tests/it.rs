//! The integration tests of this crate: one binary, so that they link once.

#![allow(clippy::unwrap_used)] // tests, their helpers too, stop at what must not happen

mod it {
    mod agent_tree;
    mod collecting;
    mod compaction;
    mod context;
    mod context_refers;
    mod contract;
    mod control;
    mod cuts;
    mod daily;
    mod examples;
    mod host;
    mod host_odd;
    mod joined;
    mod kv;
    mod library;
    mod media;
    mod merging;
    mod migration;
    mod model;
    mod mount;
    mod nodes;
    mod nodes_bounds;
    mod nodes_set;
    mod numbers;
    mod outbox;
    mod overlay;
    mod overlay_kernel;
    mod overlay_races;
    mod overlay_stored;
    mod packs;
    mod projections;
    mod prompt;
    mod prompt_forms;
    mod quotas;
    mod recall;
    mod repair;
    mod reset;
    mod reset_due;
    mod rules;
    mod rules_lines;
    mod rules_set;
    mod searched;
    mod secrets;
    mod sessions;
    mod sessions_sources;
    mod skills;
    mod specs;
    mod sqlite;
    mod stacked;
    mod templates;
    mod transcripts;
}
