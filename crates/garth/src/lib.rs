//! garth: the durable home of AI agents. One versioned, searchable, escape-proof tree per account.
//!
//! Start at [`FileSystem`], the trait that everything here implements or uses, and at [`model::batch`], the
//! contract of a commit. This crate opens no socket.

pub mod control;
pub mod engine;
pub mod env;
pub mod error;
pub mod fs;
pub mod home;
pub mod kv;
pub mod model;
pub mod path;
pub mod resolve;
pub mod search;

pub use env::Env;
pub use error::{Error, ErrorKind, Result};
pub use fs::{Capabilities, FileSystem, FileSystemExt, OpenFile, Upload, stream};
pub use home::Home;
pub use path::{Name, TreePath};
