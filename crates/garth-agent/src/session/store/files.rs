//! The files of a session's directory.

/// Messages, an object a line. With the events they are all that cannot be derived again.
pub const MESSAGES: &str = "messages.jsonl";
/// Events, an object a line.
pub const EVENTS: &str = "events.jsonl";
/// Text of the last message of the assistant that has text.
pub(crate) const LATEST: &str = "latest.md";
/// State of the session, a word of [`State`](super::meta::State).
pub(crate) const STATE: &str = "state";
/// Working directory.
pub(crate) const CWD: &str = "cwd";
/// Time of creation.
pub(crate) const CREATED_AT: &str = "created_at";
/// Time of the last append or update.
pub(crate) const UPDATED_AT: &str = "updated_at";
/// Everything else about the session. A session exists if this file does.
pub(crate) const META: &str = "meta.json";
/// Summary, in Markdown.
pub(crate) const SUMMARY: &str = "context/summary.md";
/// Open work, in Markdown.
pub(crate) const TODO: &str = "context/todo.md";
/// Token budget of packs.
pub(crate) const BUDGET: &str = "context/budget";
/// Description of the last pack.
pub(crate) const PACK: &str = "context/pack.json";
/// Text of the last pack.
pub(crate) const PACK_TEXT: &str = "context/pack.md";
/// Index of swapped content.
pub(crate) const SWAPPED: &str = "context/swap/index.jsonl";
/// Directory of chunks, which lead to swapped content.
pub(crate) const CHUNKS: &str = "context/swap/chunk";
/// Index of deduplicated content.
pub(crate) const DEDUPED: &str = "context/dedup/index.jsonl";
/// Directory of blobs: deduplicated content whose source can change.
pub(crate) const BLOBS: &str = "context/dedup/blob";
/// Policy of garbage collection.
pub(crate) const POLICY: &str = "context/gc.policy";
/// Directory of children.
pub(crate) const CHILDREN: &str = "context/child";
/// System prompt that an imported transcript changed to. Every pack starts with it.
pub(crate) const SYSTEM_PROMPT: &str = "context/system.md";
/// Directory of files that every pack starts with.
pub(crate) const PINNED: &str = "context/pinned";

/// Limit on pinned files.
pub(crate) const MAX_PINNED: usize = 100;

/// Files that are empty in a new session.
pub(crate) const EMPTY: [&str; 12] = [
    MESSAGES,
    EVENTS,
    LATEST,
    BUDGET,
    PACK_TEXT,
    SUMMARY,
    "context/facts.jsonl",
    "context/decisions.jsonl",
    TODO,
    "context/refs.jsonl",
    SWAPPED,
    DEDUPED,
];

/// Directories that are empty in a new session.
pub(crate) const DIRECTORIES: [&str; 4] = [PINNED, CHUNKS, BLOBS, CHILDREN];

/// One of the two append-only logs of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Log {
    /// The messages.
    Messages,
    /// The events.
    Events,
}

impl Log {
    /// Returns the name of its file.
    pub const fn file(self) -> &'static str {
        match self {
            Self::Messages => MESSAGES,
            Self::Events => EVENTS,
        }
    }

    /// Returns its name in sources.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::Events => "events",
        }
    }

    /// Returns the prefix of the ids of its lines.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Messages => "msg-",
            Self::Events => "ev-",
        }
    }
}
