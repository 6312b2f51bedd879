//! Reference implementations for comparison: slow and plain.

pub(crate) mod file_content;
pub(crate) mod tree_shape;
