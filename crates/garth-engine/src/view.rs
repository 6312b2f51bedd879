//! Views: filesystems that show a part of another one, or several of them as one tree. Of the filesystems
//! under it, a view uses only the methods of [`crate::FileSystem`]. Its writes are lowered to the store in
//! which they end ([`lower`]).

mod find;
mod inode_map;
mod lower;
mod merge;
pub mod mount;
pub mod overlay;
pub mod scope;
mod search;

pub use mount::Mount;
pub use overlay::Overlay;
pub use scope::Scope;
