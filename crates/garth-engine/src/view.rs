//! Views: filesystems that show a part of another one, or several of them as one tree. A view calls the
//! filesystems that it shows only through [`crate::FileSystem`]. It lowers its writes: it translates them
//! into writes to the store that contains the nodes ([`lower`]).

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
