//! Second implementations to compare with: slow and simple.

pub(crate) mod chat_grammar;
pub(crate) mod civil_time;
pub(crate) mod plain_folder;
pub(crate) mod prompt;
pub(crate) mod session_needs;
