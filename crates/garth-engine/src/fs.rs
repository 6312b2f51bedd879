//! Traits of filesystems. Engines, views and the HTTP client implement [`FileSystem`], and every interface is
//! written against it.
//!
//! Reads answer from the newest commit at the time of the call. Each page has its own time and is bounded in
//! items and bytes: [`Listing::more`](crate::model::Listing::more) says whether to continue after its last
//! item. What one interface has acknowledged, the next read of any other returns. Engines never follow
//! symbolic links: [`crate::fs::resolve`] does, above them. `docs/specs/tree.md` describes the contract.

mod capabilities;
pub(crate) mod ext;
mod filesystem;
#[doc(hidden)]
pub mod forks;
mod handle;
pub mod lower;
pub(crate) mod named_errors;
pub mod resolve;
pub mod restore;
#[doc(hidden)]
pub mod search_patterns;
mod shared;
pub mod sought;
pub mod store;
pub mod violation_search;

pub use self::capabilities::Capabilities;
pub use self::ext::FileSystemExt;
pub use self::filesystem::{FileSystem, ViewBase};
pub use self::handle::{Incoming, MAX_UPLOADS, OpenFile, OpenNode, Upload};
pub use self::lower::Lowering;
pub use self::sought::{By, SearchTarget};
pub use self::store::AccountStore;
pub use crate::path::SYSTEM;

/// Attempts of an operation that plans from what it reads, if others change that before each commit.
pub(crate) const ATTEMPTS: usize = 8;
