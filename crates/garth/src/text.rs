//! Text as search sees it: passages, questions and snippets. Pure: it knows no storage, so
//! that every engine can share it.

pub mod passage;
pub mod question;
pub mod snippet;
#[cfg(test)]
mod tests;

pub use passage::{Edit, MAX_TEXT, is_text};
pub use question::Question;
pub use snippet::snippet;
