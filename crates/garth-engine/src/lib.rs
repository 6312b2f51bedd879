//! The storage of garth: one versioned, searchable tree of files for each account, in a folder of this
//! machine. It opens no socket and knows nothing of agents: the layer above registers its rules and
//! projections when it opens a folder.
//!
//! Most programs use the crate `garth`, which re-exports the parts of this crate that they need. A second
//! engine builds on this one: the planner with its rows and row changes, search, and the parts that
//! relational engines share are public here.

pub mod compute;
pub mod datadir;
pub mod engine;
pub mod env;
pub mod error;
pub mod fs;
pub mod home;
pub mod model;
pub mod path;
pub mod rule;
pub mod runtime;
mod sqlite;
pub mod stats;
pub mod text;
mod threads;
pub mod view;

pub use datadir::DataDir;
pub use env::Env;
pub use error::{Error, ErrorKind, Result};
pub use fs::{
    AccountStore, Capabilities, FileSystem, FileSystemExt, Lowering, OpenFile, OpenNode, Upload, ViewBase,
};
pub use home::Home;
pub use path::{Name, PathError, TreePath};

/// Compiles the Rust of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
