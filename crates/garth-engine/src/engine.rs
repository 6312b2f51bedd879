//! Engines: implementations of [`crate::FileSystem`] that store files. All of them pass one contract suite.

pub mod host;
pub mod memory;
#[doc(hidden)]
pub mod planner;
#[doc(hidden)]
pub mod relational;
#[doc(hidden)]
pub mod search;
pub mod sqlite;
