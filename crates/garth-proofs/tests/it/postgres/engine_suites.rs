//! Suites of the storage engine that compare it with the memory engine, on Postgres: the files of
//! `garth-engine`, with the accounts of `stores`.
#![allow(dead_code, reason = "suites that are not run here use it")]

#[path = "../../../../garth-engine/tests/it/content_limits.rs"]
mod content_limits;
#[path = "../../../../garth-engine/tests/it/gates.rs"]
mod gates;
#[path = "../../../../garth-engine/tests/it/joined.rs"]
mod joined;
#[path = "../../../../garth-engine/tests/it/names_of_gone_files.rs"]
mod names_of_gone_files;
#[path = "../../../../garth-engine/tests/it/quotas.rs"]
mod quotas;
#[path = "../../../../garth-engine/tests/it/retained_trees.rs"]
mod retained_trees;
#[path = "../../../../garth-engine/tests/it/retention.rs"]
mod retention;
#[path = "../../../../garth-engine/tests/it/searching.rs"]
mod searching;
mod stores;
