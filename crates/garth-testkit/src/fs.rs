//! Filesystems over another one, each of which counts, limits, changes or breaks what passes through it.

mod forward;

pub mod counting;
pub mod cut_short;
pub mod interfering;
pub mod leaky;
pub mod limited;
pub mod planted;
pub mod shifted;
