//! Implementations that store: each a [`crate::FileSystem`] held to the one contract suite.

pub mod memory;
mod planner;
pub mod sqlite;
