//! What agents keep in the tree, and the tree that one sees. It sees only [`FileSystem`](crate::FileSystem),
//! views and the model, never an engine.

pub(crate) mod breathe;
pub mod chat;
mod ids;
pub mod kv;
pub mod media;
pub mod models;
pub mod node;
pub mod outbox;
pub mod recall;
pub mod session;
mod small;
pub mod tree;
mod tries;
pub mod workspace;

pub use tree::{AgentTree, Identity, Skill};
