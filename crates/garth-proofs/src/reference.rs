//! Second implementations by which those of garth are judged: slow and plain.

pub(crate) mod chat_grammar;
pub(crate) mod civil_time;
pub(crate) mod prompt;
pub(crate) mod session_needs;
