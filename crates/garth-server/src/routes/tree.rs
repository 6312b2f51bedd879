//! Trees that calls are on.

/// What a call is on: decides which fields name its caller, and what its handler is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tree {
    /// Keys and values of an agent.
    KeyValues,
    /// Context nodes of the account, or those that an agent reaches in a chat.
    Nodes,
    /// Sessions of an agent with a user.
    Sessions,
    /// Workspace of the agent in the path.
    Workspace,
    /// Workspace of the agent in the path, by a call that is about a session and needs its user.
    UserWorkspace,
    /// Media of the agent in the path.
    Media,
    /// Files and context nodes of the account, or of the tree of an agent in a chat.
    Recall,
    /// Nothing that fields name.
    None,
}
