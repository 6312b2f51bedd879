//! Views: filesystems that show a part of another one, or several of them as one tree. A view uses only the
//! methods of [`crate::FileSystem`] of what is under it. Its writes are lowered to the store in which they
//! end ([`lower`]).

mod find;
mod lower;
mod merge;
pub mod mount;
mod numbers;
pub mod overlay;
pub mod scope;
mod search;

pub use mount::Mount;
pub use overlay::Overlay;
pub use scope::Scope;
