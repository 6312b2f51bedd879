//! Trees that calls are on.

/// Tree of a call. It decides which fields name the caller, and what the handler receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tree {
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
    /// No tree, and no caller.
    None,
}
