//! The full-text index: derived from the files, and written in the commit that changes them.

mod context;
pub(crate) mod find;
pub(crate) mod fts;
pub(crate) mod lines;
pub(crate) mod passages;
mod rank;
pub(crate) mod remake;
#[cfg(test)]
mod secret_tests;
#[cfg(test)]
mod tests;
pub(crate) mod update;
pub(crate) mod verify;
