//! Second implementations by which others are judged: slow and plain.

pub(crate) mod file_content;
pub(crate) mod tree_shape;
