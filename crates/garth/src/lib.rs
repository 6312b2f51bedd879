//! garth is the durable home of AI agents: one versioned, searchable, escape-proof tree of files for each
//! account. This crate is the library. It works on a folder of this machine, in the process, and opens no
//! socket.
//!
//! ```standalone_crate
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # std::env::set_current_dir(&folder)?;
//! let data = garth::open("agents")?;
//! let alice = data.user("alice");
//! alice.remember("Takes her coffee black.").await?;
//! println!("{}", alice.recall("How does she take her coffee?").await?.text);
//! # Ok(()) }
//! ```
//!
//! [`open`] returns a [`Garth`]. Its methods name an account, an agent, a user, a chat; the [`ChatRequest`]
//! that they return opens a [`Chat`], which has the files, sessions, memories, prompts and media of that
//! chat. The memories of another user, and sessions that fewer people listen to, do not exist in it.
//!
//! # Examples
//! Whole programs, in `examples/`:
//!
//! | program | shows |
//! |---|---|
//! | `two_users` | memories of two users of one agent, and what neither sees of the other |
//! | `sessions` | a conversation, and the part of it that fits the context window of a model |
//! | `memories` | memories with categories, tags and versions, and recall within a token budget |
//! | `prompts` | the system prompt of an agent, made of the files of its workspace |
//! | `agent_trees` | the tree of an agent in a chat, for its tools |
//! | `quickstart` | files: write, read, read the past, search |
//! | `batch` | several changes in one commit, on a condition |
//! | `history` | versions, changes, restoring a file |
//! | `search` | search below a directory and by tag |
//! | `kv` | JSON values under keys |
//!
//! # Where to go on
//! - **Agents.** [`Chat`], [`session`], [`memory`], [`Recall`], [`workspace`], [`media`], [`kv`].
//! - **Files.** [`FileSystemExt`] for reading and writing; [`FileSystem`] for pages, ranges, handles,
//!   history, changes, search and uploads; [`model`] for commits of several changes; [`fs::resolve`] for
//!   paths with `..` and symbolic links; [`fs::Scope`] for a directory as a tree of its own.
//! - **Administration.** [`Garth::dir`] for accounts, API keys and backups; the tree of an account, which has
//!   its rules, quotas and maintenance ([`DataDir::account`]); [`builder`] for limits and the clock.
//! - **Errors.** [`Error`] and [`ErrorKind`]: one type for everything but [`kv`].
//! - **Tests.** [`in_memory`] returns an empty tree; [`Env::manual`] a clock that a test moves.
//!
//! This crate exports the types that programs name: handles, requests and options. The types of most answers
//! are documented in `garth-agent` and `garth-engine`, which it is made of; servers and tools that need more
//! depend on these.
//!
//! # Threads and runtimes
//! Any executor may poll the futures: tokio, or `futures::executor::block_on`. Short reads run on the thread
//! that polls, everything else on threads of the data folder. [`Chat::recall`] and [`Chat::prompt`] compute
//! on threads of their own; other calls that compute (packs, transcripts) do so on the thread that polls, and
//! a program that serves others awaits them within [`Env::compute`]. All handles are `Send + Sync`. Clones of
//! a [`Garth`], and the [`Arc`](std::sync::Arc)s that it returns, share one state. Several processes may open
//! one data folder.

mod chat;
mod garth;
mod request;

pub use self::chat::Chat;
pub use self::garth::{Garth, builder, in_memory, open};
pub use self::request::ChatRequest;
pub use garth_agent::recall::{Evidence, Recall, Recalled};
pub use garth_agent::session::SessionKey;
pub use garth_agent::{AgentTree, Class, Skill};
pub use garth_engine::DataDir;
pub use garth_engine::env::Env;
pub use garth_engine::error::{Error, ErrorKind, Result};
pub use garth_engine::fs::{FileSystem, FileSystemExt};
pub use garth_engine::path::TreePath;

/// Sessions: conversations, and packs of them for a model.
pub mod session {
    pub use garth_agent::session::{
        Append, Change, Create, Draft, Format, List, PackOptions, Packed, Role, Select, Sessions, State,
    };
}

/// Memories: facts about users and agents, and skills, by URI.
pub mod memory {
    pub use garth_agent::memory::{Level, List, Memories, Memory, Prefix, Put, Remember, Space, Uri};
}

/// Memory tool of Claude models: commands on text files, with the answers that a model expects.
pub mod memory_tool {
    pub use garth_agent::memory_tool::Answer;
}

/// Workspaces: prompts, skills, daily memory and resets of an agent.
pub mod workspace {
    pub use garth_agent::workspace::{Init, PromptOptions, Reset, Workspace};
}

/// Media: files that messages refer to.
pub mod media {
    pub use garth_agent::media::{Media, MediaKey, NewMedia};
}

/// Key-value pairs of an agent: JSON values under keys, kept as files.
pub mod kv {
    pub use garth_agent::kv::{Condition, Kv, KvError, KvResult, PageRequest, Put};
}

/// Handles of files, paths with `..` and links, and a directory as a tree of its own.
pub mod fs {
    pub use garth_engine::fs::OpenFile;
    pub use garth_engine::fs::resolve::{Follow, resolve};
    pub use garth_engine::view::Scope;
}

/// Values of the contract: commits, entries, queries.
pub mod model {
    pub use garth_engine::model::{
        At, Author, Batch, ChangesQuery, Entry, HistoryPage, Ino, Moment, Op, Page, PatternBelow,
        Precondition, SearchQuery, Seq, SetAttrs, Timestamp, VersionId,
    };
}

/// Compiles the Rust of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
