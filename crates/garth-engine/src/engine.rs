//! Engines: implementations of [`crate::FileSystem`] that store data. One contract suite tests all of them.

pub mod host;
pub mod memory;
#[doc(hidden)]
pub mod planner;
pub mod sqlite;
