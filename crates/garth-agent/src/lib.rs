//! Features of agents: the data that they store in a tree, and the tree that an agent sees. All of it works
//! on any [`FileSystem`](garth_engine::FileSystem): this crate has no tables and depends on no particular
//! engine.

pub mod access;
mod account_paths;
mod bidi;
pub mod chat;
pub mod count;
pub mod eval;
pub mod files;
mod free_name;
pub mod identity;
mod ids;
mod json_objects;
pub mod kv;
pub mod media;
pub mod memory;
pub mod memory_tool;
pub mod models;
pub mod nearest;
pub mod once;
mod one_word;
pub mod outbox;
mod own_paths;
pub mod recall;
pub mod registry;
mod retry;
pub mod search;
pub mod session;
mod settings;
mod small_file;
mod time_zone;
pub mod tree;
pub mod workspace;

pub use access::{Access, check_binding};
pub use identity::{AccessPolicy, Caller, Class, DEFAULT_USER, Identity, Request, StoredClass};
pub use once::Once;
pub use registry::registry;
pub use tree::{AgentTree, Skill};

/// Makes an `async fn` return a boxed future, so that its body is compiled once, in this crate. Otherwise it
/// would be compiled again, with everything that it awaits, in each crate that awaits it: server, command
/// line, test binaries.
pub(crate) use async_recursion::async_recursion as boxed;

/// Compiles the Rust of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
