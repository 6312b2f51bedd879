//! garth: the durable home of AI agents. One versioned, searchable, escape-proof tree per account.
//!
//! Start at [`FileSystem`], the trait that everything here implements or uses, and at [`model::batch`], the
//! contract of a commit. This crate opens no socket.

pub mod agent;
pub mod datadir;
pub mod engine;
pub mod env;
pub mod error;
pub mod fs;
pub mod model;
pub mod path;
pub mod runtime;
mod sqlite;
pub mod text;

pub use datadir::DataDir;
pub use env::Env;
pub use error::{Error, ErrorKind, Result};
pub use fs::{Capabilities, FileSystem, FileSystemExt, OpenFile, Upload, stream};
pub use path::{Name, PathError, TreePath};
