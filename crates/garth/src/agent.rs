//! What agents keep in the tree. It sees only [`FileSystem`](crate::FileSystem) and the model, never an engine.

pub mod kv;
