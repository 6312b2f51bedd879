//! Number of tokens that a text has for a language model.

pub use garth_tokens::{ENCODING, count, count_to};
