//! Test data: random numbers, secrets and conversations generated from a seed, and a public collection of
//! texts.

pub mod conversation;
pub mod cranfield;
pub mod credentials;
pub mod harmless;
pub mod random;
pub mod secrets;
mod template;
