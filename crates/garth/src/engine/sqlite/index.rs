//! The full-text index: derived from the files, and written in the commit that changes them.

pub(crate) mod fts;
#[cfg(test)]
mod tests;
pub(crate) mod update;
pub(crate) mod verify;
