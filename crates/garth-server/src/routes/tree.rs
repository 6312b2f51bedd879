//! Trees that calls are on.

use garth_agent::access::Family;
use garth_engine::home::Scope;

/// Tree of a call. It decides which fields name the caller, and what the handler receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tree {
    /// Keys and values of an agent.
    KeyValues,
    /// Memories of the account, or those that an agent reaches for an audience.
    Memories,
    /// Sessions of an agent with an audience.
    Sessions,
    /// Workspace of the agent in the path.
    Workspace,
    /// Media of the agent in the path.
    Media,
    /// Files and memories of the account, or of the tree of an agent for an audience.
    Recall,
    /// Keys and values of an agent, or files, memories and sessions as for [`Tree::Recall`].
    Search,
    /// Files of the account, or of the tree of an agent for an audience.
    Files,
    /// The account, for its administration.
    Admin,
    /// No tree, and no caller.
    None,
}

impl Tree {
    /// Returns the kind of call, by which the reach of a request is judged.
    pub(super) const fn family(self) -> Family {
        match self {
            Self::KeyValues => Family::KeyValues,
            Self::Memories => Family::Memories,
            Self::Sessions => Family::Sessions,
            Self::Workspace => Family::Workspace,
            Self::Media => Family::Media,
            Self::Recall => Family::Recall,
            Self::Search => Family::Search,
            Self::Files => Family::Files,
            // A call without a tree reaches nothing, so it gets the strictest kind.
            Self::Admin | Self::None => Family::Admin,
        }
    }

    /// Returns the scope that a key needs to see stored content in the answer or refusal of a write.
    pub(super) const fn read_scope(self) -> Scope {
        match self {
            Self::Files => Scope::FilesRead,
            Self::Admin => Scope::Admin,
            Self::KeyValues
            | Self::Memories
            | Self::Sessions
            | Self::Workspace
            | Self::Media
            | Self::Recall
            | Self::Search
            | Self::None => Scope::MemoryRead,
        }
    }
}
