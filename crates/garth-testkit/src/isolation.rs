//! Tries to get out of a scope, a tree of views and a folder of the host, and to see what lies beside it.

mod around;
pub mod scopes;
pub mod views;
