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
//! - **Agents.** [`Chat`], [`session`], [`memory`], [`recall`], [`workspace`], [`media`], [`kv`].
//! - **Files.** [`FileSystemExt`] for reading and writing; [`FileSystem`] for pages, ranges, handles,
//!   history, changes, search and uploads; [`model`] for commits of several changes; [`fs::resolve`] for
//!   paths with `..` and symbolic links; [`view`] for a directory as a tree of its own, several trees as one,
//!   and overlays.
//! - **Administration.** [`Garth::dir`] for accounts, API keys and backups; [`AccountStore`] for rules,
//!   quotas and maintenance of one account; [`builder`] for limits and the clock.
//! - **Errors.** [`Error`] and [`ErrorKind`]: one type for everything but [`kv`].
//! - **Tests.** [`in_memory`] returns an empty tree; [`Env::manual`] a clock that a test moves.
//!
//! Servers and tools that need more than this crate exports depend on `garth-agent` and `garth-engine`.
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
pub use garth_agent::recall::{Recall, Recalled};
pub use garth_agent::session::SessionKey;
pub use garth_agent::{AgentTree, Class, Skill};
pub use garth_engine::env::Env;
pub use garth_engine::error::{Error, ErrorKind, Result};
pub use garth_engine::fs::{AccountStore, FileSystem, FileSystemExt};
pub use garth_engine::path::{Name, TreePath};

/// Sessions: what was said, and packs of it for a model.
pub mod session {
    pub use garth_agent::session::{
        Append, Appended, Change, Create, Draft, Format, Line, Lines, List, Listed, Meta, Pack, PackOptions,
        Packed, Reserved, Role, Select, SessionKey, Sessions, State, Usage,
    };
}

/// Memories: what is known of users, agents and skills, by URI.
pub mod memory {
    pub use garth_agent::memory::{
        Around, Direction, Edge, Forgotten, LayerText, Level, List, Listed, Memories, Memory, MemoryVersion,
        Meta, Near, Prefix, Put, Related, Remember, Space, Status, Uri, Written,
    };
}

/// Recall: the best of what is known about a question, within a budget of tokens.
pub mod recall {
    pub use garth_agent::recall::{Evidence, Key, Recall, Recalled, Recaller};
}

/// Workspaces: prompts, skills, daily memory and resets of an agent.
pub mod workspace {
    pub use garth_agent::workspace::{
        DailySection, DailyWrite, Host, Init, Inputs, Part, Prompt, PromptOptions, Reset, WasReset, Workspace,
    };
}

/// Media: files that messages refer to.
pub mod media {
    pub use garth_agent::media::{Media, MediaKey, NewMedia, Stored};
}

/// Key-value pairs of an agent: JSON values under keys, kept as files.
pub mod kv {
    pub use garth_agent::kv::{
        Condition, Found, KeyItem, Kv, KvCode, KvError, KvResult, PageRequest, Paged, Put, Written,
    };
}

/// Data folders: accounts, API keys, backups and limits.
pub mod datadir {
    pub use garth_engine::datadir::{
        Account, AccountState, ApiKey, Backup, Control, DataDir, DataDirBuilder, Scope, Secret,
    };
}

/// Filesystems: handles, uploads, links, restoring, and the maintenance of an account.
pub mod fs {
    pub use garth_engine::fs::store::{Collected, Finding, Fsck, SetRuleResult};
    pub use garth_engine::fs::{Capabilities, OpenFile, OpenNode, Upload, resolve, restore};
    pub use garth_engine::rule::{Class, Demand, FileViolation, Rule};
}

/// Values of the contract: commits, entries, queries and answers.
pub mod model {
    pub use garth_engine::model::{
        At, Attributes, Author, Batch, Body, ByteRange, Changes, ChangesQuery, Commit, CommitId, CommitInfo,
        Durability, Entry, HistoryPage, Hit, Ino, Item, Kind, Listing, Moment, Op, Outcome, Page, PathClass,
        Precondition, SearchAnswer, SearchQuery, Seq, SetAttrs, Timestamp, Version, VersionId, Walk,
        WalkItem, WalkPage,
    };
}

/// Views: filesystems made of filesystems.
pub mod view {
    pub use garth_engine::view::{Mount, Overlay, Scope};
}

/// Compiles the Rust of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
