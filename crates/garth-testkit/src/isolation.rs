//! Attempts to leave a scope, a tree of views or a host folder, and to read what is outside.

mod around;
pub mod scopes;
pub mod views;
