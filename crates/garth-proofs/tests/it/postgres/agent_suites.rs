//! Suites of `garth-agent` on Postgres: memories and skills, sessions, workspaces, access and rules. The
//! files are those of that crate, with the accounts of `homes`; tests that open a data folder themselves stay
//! on it.
#![allow(dead_code, reason = "suites that are not run here use it")]

#[path = "../../../../garth-agent/tests/it/access.rs"]
mod access;
#[path = "../../../../garth-agent/tests/it/agent_tree.rs"]
mod agent_tree;
#[path = "../../../../garth-agent/tests/it/compaction.rs"]
mod compaction;
#[path = "../../../../garth-agent/tests/it/context.rs"]
mod context;
#[path = "../../../../garth-agent/tests/it/daily.rs"]
mod daily;
mod homes;
#[path = "../../../../garth-agent/tests/it/memories.rs"]
mod memories;
#[path = "../../../../garth-agent/tests/it/memories_set.rs"]
mod memories_set;
#[path = "../../../../garth-agent/tests/it/packs.rs"]
mod packs;
#[path = "../../../../garth-agent/tests/it/remember.rs"]
mod remember;
#[path = "../../../../garth-agent/tests/it/reset.rs"]
mod reset;
#[path = "../../../../garth-agent/tests/it/rules.rs"]
mod rules;
#[path = "../../../../garth-agent/tests/it/rules_set.rs"]
mod rules_set;
#[path = "../../../../garth-agent/tests/it/sessions.rs"]
mod sessions;
