//! Filesystems that wrap another one and count, limit, change or break calls.

mod forward;

pub mod counting;
pub mod cut_short;
pub mod interfering;
pub mod leaky;
pub mod limited;
pub mod planted;
pub mod shifted;
