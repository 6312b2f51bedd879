//! Test tools of garth: contract suite, model, crash harness, proofs, retrieval figures. Development only.

pub mod contract;
pub mod conversation;
pub mod counting;
pub mod cranfield;
#[cfg(feature = "faults")]
pub mod crash;
pub mod cut_short;
pub mod interfering;
pub mod leaky;
pub mod limited;
pub mod model;
pub mod mounted;
mod overlaid;
pub mod overlayfs;
pub mod planted;
#[cfg(feature = "faults")]
pub mod proof;
pub mod random;
mod scoped;
pub mod secrets;
mod shape;
pub mod shifted;
pub mod stacked;
pub mod tools;
