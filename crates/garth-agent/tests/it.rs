//! Integration tests of this crate, in one binary so that they link once.

#![allow(clippy::unwrap_used)] // tests, their helpers too, stop at what must not happen

mod it {
    mod access;
    mod access_chats;
    mod access_family;
    mod access_own;
    mod access_past;
    mod access_settings;
    mod agent_tree;
    mod compaction;
    mod context;
    mod context_refers;
    mod daily;
    mod files;
    mod junk;
    mod kv;
    mod media;
    mod memories;
    mod memories_bounds;
    mod memories_past;
    mod memories_set;
    mod migration;
    mod once;
    mod outbox;
    mod own_paths;
    mod packs;
    mod packs_filled;
    mod packs_system;
    mod paged;
    mod projections;
    mod prompt;
    mod prompt_forms;
    mod prompt_paths;
    mod prompt_replay;
    mod reach;
    mod recall;
    mod recall_sessions;
    mod remember;
    mod repair;
    mod reset;
    mod reset_due;
    mod reset_memory;
    mod retractions_judged;
    mod rules;
    mod rules_lines;
    mod rules_set;
    mod search_pages;
    mod searched;
    mod secrets;
    mod session_removal;
    mod sessions;
    mod sessions_overlaid;
    mod sessions_retracted;
    mod sessions_retracted_again;
    mod sessions_sources;
    mod skill_corpus;
    mod skills;
    mod templates;
    mod transcripts;
    mod transcripts_again;
    mod transcripts_flawed;
    mod transcripts_long;
    mod tree_parts;
    mod upgrade;
}
