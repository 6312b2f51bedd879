//! Test tools of garth: contract suite, model, faults, power cut. Development only.

pub mod cranfield;
pub mod proof;
