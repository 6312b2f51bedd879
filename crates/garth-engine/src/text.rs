//! Text processing for search: passages, tokens, questions and snippets. It does no I/O, so that every
//! engine can share it.

pub mod context;
pub mod json;
pub mod meaning;
pub mod message;
pub mod passage;
pub mod question;
pub mod secret;
mod sentence;
pub mod snippet;
mod stem;
#[cfg(test)]
mod tests;
pub mod token;
pub mod withheld;

pub use passage::{Edit, MAX_TEXT, is_text};
pub use question::Question;
pub use snippet::snippet;
pub use token::Tokenizer;
