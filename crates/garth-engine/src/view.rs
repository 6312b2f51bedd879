//! Views: filesystems that show others in part or put together. A view sees only what [`crate::FileSystem`]
//! says of what lies under it; its writes are lowered to the store that they end in ([`lower`]).

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
