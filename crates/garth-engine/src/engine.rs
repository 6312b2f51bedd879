//! Implementations that store: each a [`crate::FileSystem`] held to the one contract suite.

pub mod host;
pub mod memory;
#[doc(hidden)]
pub mod planner;
pub mod sqlite;
