//! The full-text index, derived from the files and written in the commit that changes them.

pub(crate) mod background;
pub(crate) mod changed_files;
pub(crate) mod index_writer;
pub(crate) mod line_counts;
pub(crate) mod passages;
pub(crate) mod postings;
#[cfg(test)]
mod secret_tests;
#[cfg(test)]
mod tests;
pub(crate) mod verify;
