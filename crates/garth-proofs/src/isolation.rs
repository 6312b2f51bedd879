//! Tries of one account, agent or session class to see what belongs to another.

pub mod accounts;
pub mod audiences;
pub mod memories;
pub mod prompts;
mod seen;
