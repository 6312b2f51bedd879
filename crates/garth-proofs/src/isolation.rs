//! Attempts of one account, agent or session class to read data of another.

pub mod accounts;
pub mod audiences;
pub mod bound_keys;
pub mod memories;
pub mod prompts;
mod seen;
