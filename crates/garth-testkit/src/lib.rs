//! Test tools of garth: contract suite, model, faults, power cut. Development only.

pub mod contract;
pub mod cranfield;
pub mod crash;
pub mod model;
pub mod tools;
