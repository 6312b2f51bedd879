//! The files of a session's directory.

/// What was said, line by line: the truth of a session.
pub const MESSAGES: &str = "messages.jsonl";
/// What was done, line by line.
pub const EVENTS: &str = "events.jsonl";
/// The text of the last assistant message.
pub(crate) const LATEST: &str = "latest.md";
/// Whether it is at work, at rest or at its end.
pub(crate) const STATE: &str = "state";
/// Where it works.
pub(crate) const CWD: &str = "cwd";
/// When it was made.
pub(crate) const CREATED_AT: &str = "created_at";
/// When something was said, done or set last.
pub(crate) const UPDATED_AT: &str = "updated_at";
/// What else is known of it. The session is there once this is.
pub(crate) const META: &str = "meta.json";
/// What the session is about.
pub(crate) const SUMMARY: &str = "context/summary.md";
/// What is left to do.
pub(crate) const TODO: &str = "context/todo.md";
/// How many tokens a pack has.
pub(crate) const BUDGET: &str = "context/budget";
/// What a pack is made of.
pub(crate) const PACK: &str = "context/pack.json";
/// What the model gets.
pub(crate) const PACK_TEXT: &str = "context/pack.md";
/// What was moved out of the window.
pub(crate) const SWAPPED: &str = "context/swap/index.jsonl";
/// Where that is found again.
pub(crate) const CHUNKS: &str = "context/swap/chunk";
/// What is found by its hash.
pub(crate) const DEDUPED: &str = "context/dedup/index.jsonl";
/// What of that may change where it was.
pub(crate) const BLOBS: &str = "context/dedup/blob";
/// What is collected, and when.
pub(crate) const POLICY: &str = "context/gc.policy";
/// What was handed to children.
pub(crate) const CHILDREN: &str = "context/child";
/// Files that come first in each pack.
pub(crate) const PINNED: &str = "context/pinned";

/// The files that are empty at first.
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

/// The directories that are empty at first.
pub(crate) const DIRECTORIES: [&str; 4] = [PINNED, CHUNKS, BLOBS, CHILDREN];

/// Which of the two that only grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Log {
    /// What was said.
    Messages,
    /// What was done.
    Events,
}

impl Log {
    /// The name of its file.
    pub const fn file(self) -> &'static str {
        match self {
            Self::Messages => MESSAGES,
            Self::Events => EVENTS,
        }
    }

    /// As sources name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::Events => "events",
        }
    }

    /// What the ids of its lines begin with.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Messages => "msg-",
            Self::Events => "ev-",
        }
    }
}
