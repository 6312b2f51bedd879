//! Test tools of garth: contract suite, model, crash harness, retrieval figures. Development only.

pub mod contract;
pub mod cranfield;
pub mod crash;
pub mod model;
pub mod tools;
