//! The one trait that engines, views and the HTTP client implement and that every
//! interface is written against.
//!
//! Reads answer from the newest commit at the moment of the call (each page has its own moment, and is
//! bounded in items and bytes: [`Listing::more`](crate::model::Listing::more) says whether to go on behind its last item);
//! what one interface has acknowledged, the next read of any other sees. Engines never follow symbolic links:
//! [`crate::fs::resolve`] does, above them. `docs/specs/tree.md` describes the contract as a whole.

pub mod breach;
mod capabilities;
pub(crate) mod classes;
pub(crate) mod ext;
mod filesystem;
mod handle;
pub mod lower;
pub mod resolve;
pub mod restore;
pub mod sought;
pub mod store;

pub use self::capabilities::Capabilities;
pub use self::ext::FileSystemExt;
pub use self::filesystem::{FileSystem, ViewBase};
pub use self::handle::{OpenFile, OpenNode, Upload};
pub use self::lower::Lowering;
pub use self::sought::{By, Sought};
pub use self::store::AccountStore;
pub use crate::path::SYSTEM;

/// Attempts of an operation that plans from what it reads, if others change that each time before its commit.
pub(crate) const ATTEMPTS: usize = 8;
