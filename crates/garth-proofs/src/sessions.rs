//! Proofs about sessions: crashes while they are used and reset, and collection of what they no longer need.

pub mod collection;
pub mod crashes;
pub mod resets;
