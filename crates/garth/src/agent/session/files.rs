//! The files of a session's directory.

/// What was said, line by line: the truth of a session.
pub const MESSAGES: &str = "messages.jsonl";
/// What was done, line by line.
pub const EVENTS: &str = "events.jsonl";
/// The text of the last assistant message.
pub(super) const LATEST: &str = "latest.md";
/// Whether it is at work, at rest or at its end.
pub(super) const STATE: &str = "state";
/// Where it works.
pub(super) const CWD: &str = "cwd";
/// When it was made.
pub(super) const CREATED_AT: &str = "created_at";
/// When something was said, done or set last.
pub(super) const UPDATED_AT: &str = "updated_at";
/// What else is known of it. The session is there once this is.
pub(super) const META: &str = "meta.json";
/// Files that come first in each pack.
pub(super) const PINNED: &str = "context/pinned";

/// The files that are empty at first.
pub(super) const EMPTY: [&str; 12] = [
    MESSAGES,
    EVENTS,
    LATEST,
    "context/budget",
    "context/pack.md",
    "context/summary.md",
    "context/facts.jsonl",
    "context/decisions.jsonl",
    "context/todo.md",
    "context/refs.jsonl",
    "context/swap/index.jsonl",
    "context/dedup/index.jsonl",
];

/// The directories that are empty at first.
pub(super) const DIRECTORIES: [&str; 4] =
    [PINNED, "context/swap/chunk", "context/dedup/blob", "context/child"];

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
