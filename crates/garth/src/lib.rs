//! garth keeps one versioned, searchable tree of files for each account, for AI agents. This crate is the
//! library: it runs in the process, on a folder of this machine, and opens no socket.
//!
//! ```
//! use garth::model::SearchQuery;
//! use garth::FileSystemExt;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let folder = folder.path();
//! let data = garth::open(folder)?; // creates it if it is missing
//! data.create_account("acme").await?;
//! let fs = data.account("acme").await?;
//!
//! let first = fs.write("/alice.md", "She takes her coffee black.").await?; // durable when it returns
//! fs.write("/alice.md", "She has given up coffee.").await?;
//!
//! let before = fs.as_of(&first.seq.into()).await?; // any past state is a read-only file system
//! assert_eq!(before.read_to_string("/alice.md").await?, "She takes her coffee black.");
//!
//! let hits = fs.search(&SearchQuery::new("coffee")).await?.hits;
//! assert_eq!(hits[0].path.as_str(), "/alice.md");
//! # Ok(()) }
//! ```
//!
//! # Where to go on
//! | for | see |
//! |---|---|
//! | calls that most programs need: read, write, rename, walk | [`FileSystemExt`] |
//! | several changes in one commit, with conditions, author and message | [`model::Batch`], [`model::Op`] |
//! | pages, ranges, handles, history, changes, search, large uploads | [`FileSystem`] |
//! | data folders, accounts, API keys | [`open`], [`DataDir`], [`datadir::Control`] |
//! | collecting garbage, checking, making the index anew | [`AccountStore`] |
//! | JSON values under keys, as the HTTP interface keeps them | [`agent::kv::Kv`] |
//! | memories and skills by URI, with relations and versions | [`agent::memory::Memories`] |
//! | what was said, and packs of it for a model | [`agent::session::Sessions`] |
//! | prompts, skills, daily memory, resets | [`agent::workspace::Workspace`] |
//! | evidence for a question, within a budget of tokens | [`agent::recall::Recaller`] |
//! | the tree of an agent in a chat | [`agent::AgentTree`] |
//! | paths with `..` and symbolic links | [`fs::resolve`] |
//! | a directory as a tree of its own | [`view::Scope`] |
//! | errors and what they mean to a mount | [`Error`], [`ErrorKind`] |
//! | a tree in memory, for tests | [`engine::memory::MemoryFs`] |
//!
//! Whole programs are in `examples/`: `quickstart`, `batch`, `history`, `search`, `kv`.
//!
//! # Threads and runtimes
//! Any executor may poll the futures (tokio, or `futures::executor::block_on`). Short reads run on the thread
//! that polls, all else on threads of the data folder. What computes (packs, prompts, recall, transcripts)
//! does so on the thread that polls, too: a program that serves others awaits it within [`Env::compute`]. All
//! handles are `Send + Sync`; clones of a [`DataDir`] and the [`Arc`](std::sync::Arc)s that it gives share
//! one state. Several processes may open one data folder.

use std::path::Path;

pub use garth_agent as agent;
pub use garth_engine::compute;
pub use garth_engine::datadir::{self, DataDir};
pub use garth_engine::env::{self, Env};
pub use garth_engine::error::{self, Error, ErrorKind, Result};
pub use garth_engine::fs::{
    AccountStore, Capabilities, FileSystem, FileSystemExt, OpenFile, OpenNode, Upload,
};
pub use garth_engine::path::{self, Name, PathError, TreePath};
pub use garth_engine::{model, view};

/// Opens a data folder of agents' trees with default limits; creates it if it is missing. See [`builder`] for
/// more choice.
///
/// # Errors
/// Those of [`datadir::DataDirBuilder::open`].
pub fn open(folder: impl AsRef<Path>) -> Result<DataDir> {
    builder().open(folder.as_ref())
}

/// Returns a builder for a data folder of agents' trees, with its clock and limits.
pub fn builder() -> datadir::DataDirBuilder {
    DataDir::builder(agent::registry())
}

/// Trees for tests and tools: in memory, and a plain folder of this machine.
pub mod engine {
    pub use garth_engine::engine::{host, memory};
}

/// What builds on [`FileSystem`]: links and `..`, restoring, and the maintenance of an account.
pub mod fs {
    pub use garth_engine::fs::store::SetRuleResult;
    pub use garth_engine::fs::{AccountStore, SYSTEM, resolve, restore};
}

/// Rules: classes of paths, and what is demanded of the files in them.
pub mod rule {
    pub use garth_engine::rule::schema::MAX_SCHEMA;
    pub use garth_engine::rule::{Class, Demand, FileViolation, Policy, Rule};
}

/// Compiles the Rust of the README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;
