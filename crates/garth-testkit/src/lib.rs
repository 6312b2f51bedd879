//! Test tools of the storage engine: contract suite, model test, crash harness, proofs. For development only.
//!
//! | to find | look into |
//! |---|---|
//! | a check that every filesystem must pass | [`contract`] |
//! | a check that every home of accounts must pass | [`home_contract`] |
//! | a filesystem to put the checks to, and views of one | [`subject`] |
//! | a filesystem that wraps another one: counts, limits, breaks | [`fs`] |
//! | random operations beside the memory engine or the kernel | [`model`] |
//! | kills and power cuts | [`crash`] |
//! | tries to leave a scope or a tree of views | [`isolation`] |
//! | a PostgreSQL server that a test starts, stops and restarts | [`postgres`] |
//! | delays, counted trips and cuts between a test and a server | [`proxy`] |
//! | other proofs: processes, many writers, damage, failpoints | [`proof`] |
//! | second implementations that others are compared with | `reference` |
//! | random numbers, generated and public data sets | [`data`] |
//! | the binary `proof-worker`, second process of some proofs | [`worker`] |
//! | what a process logs, with its spans | [`logs`] |
//! | an embedding service that answers as a test says | [`embedding_service`] |
//! | short names for paths, operations and assertions | [`tools`] |
//!
//! Proofs that need the features of agents or the server are in the crate `garth-proofs`.

pub mod contract;
pub mod crash;
pub mod data;
pub mod embedding_service;
pub mod fs;
pub mod home_contract;
pub mod isolation;
pub mod logs;
pub mod model;
pub mod postgres;
pub mod proof;
pub mod proxy;
mod reference;
pub mod subject;
pub mod tools;
pub mod worker;
