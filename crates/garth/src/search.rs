//! Lexical search: how text is cut into passages, kept in a full-text index beside the tree, and asked for.
//!
//! The index is derived: it can be made again from the files at any time. [`passage`], [`question`] and
//! [`snippet`](mod@snippet) are pure and know no storage, so that every engine can share them; [`fts`] is the index in SQLite,
//! [`verify`] its part of `fsck`.

pub mod fts;
pub mod passage;
pub mod question;
pub mod snippet;
pub mod verify;

pub use passage::{Edit, MAX_TEXT, is_text};
pub use question::Question;
pub use snippet::snippet;

#[cfg(test)]
mod tests;
