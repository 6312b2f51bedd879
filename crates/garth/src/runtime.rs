//! What an open data folder runs on: threads, timers and the switches by which tests make it fail.

pub(crate) mod executor;
#[cfg(feature = "faults")]
pub mod failpoint;
#[cfg(not(feature = "faults"))]
pub(crate) mod failpoint;
pub(crate) mod fault_injection;
