//! Test tools of garth: contract suite, model, crash harness, proofs, retrieval figures. Development only.

pub mod contract;
pub mod cranfield;
pub mod crash;
pub mod model;
pub mod proof;
pub mod random;
pub mod tools;
