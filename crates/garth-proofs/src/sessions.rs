//! Proofs about sessions: crashes while they are used and reset, and collection of their unused files.

pub mod collection;
pub mod crashes;
pub mod resets;
