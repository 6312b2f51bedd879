//! Agent, user, chat and class that a call names: groups of fields that calls share.

use std::borrow::Cow;

use garth::agent::kv::DEFAULT_AGENT;
use garth::agent::{Identity, tree::MAIN};

use super::tree::Tree;
use crate::errors::Refusal;
use crate::fields::{Field, FieldGroup, Fields, fields, string_of};

fields! {
    /// The keys of an agent.
    struct KeyValueFields<'a> {
        /// Agent whose keys they are.
        agent_id: Cow<'a, str> = string_of("id"), or Cow::Borrowed(DEFAULT_AGENT);
    }
}

fields! {
    /// The tree of the account, or that of an agent in a chat.
    struct ChatFields<'a> {
        /// Agent that asks, recorded as the author of commits.
        agent: Option<Cow<'a, str>> = string_of("id");
        /// User whom the agent serves. Goes with `chat`: both open the tree of the agent in the chat.
        user: Option<Cow<'a, str>> = string_of("id");
        /// Chat. Goes with `user`.
        chat: Option<Cow<'a, str>> = string_of("id");
        /// Class of the session. Default: `main`.
        class: Option<Cow<'a, str>> = string_of("class");
        /// Session that the tree is for.
        session: Option<Cow<'a, str>> = string_of("id");
    }
}

fields! {
    /// The sessions of an agent with a user.
    struct SessionFields<'a> {
        /// Agent of the session.
        agent: Cow<'a, str> = string_of("id");
        /// User of the session.
        user: Cow<'a, str> = string_of("id");
        /// Chat: the call then reaches the sessions that the agent reaches in the chat.
        chat: Option<Cow<'a, str>> = string_of("id");
        /// Class of the session. Default: `main`.
        class: Option<Cow<'a, str>> = string_of("class");
        /// Session that the tree of the chat is for.
        session: Option<Cow<'a, str>> = string_of("id");
    }
}

fields! {
    /// The workspace of the agent in the path.
    struct WorkspaceFields<'a> {
        /// User whom the agent serves.
        user: Option<Cow<'a, str>> = string_of("id");
        /// Class of the session: nothing is returned that is not for this class. Default: `main`.
        class: Option<Cow<'a, str>> = string_of("class");
    }
}

fields! {
    /// The workspace of the agent in the path, for a user.
    struct UserWorkspaceFields<'a> {
        /// User whom the agent serves.
        user: Cow<'a, str> = string_of("id");
        /// Class of the session: nothing is returned that is not for this class. Default: `main`.
        class: Option<Cow<'a, str>> = string_of("class");
    }
}

/// Agent, user, chat, class and session that a request names.
#[derive(Debug, Default)]
pub(super) struct Caller<'a> {
    /// Empty where no agent is named.
    pub(super) agent: Cow<'a, str>,
    pub(super) user: Option<Cow<'a, str>>,
    pub(super) chat: Option<Cow<'a, str>>,
    pub(super) class: Option<Cow<'a, str>>,
    pub(super) session: Option<Cow<'a, str>>,
    /// True if the agent and the user name sessions of the account where no chat is named.
    is_of_sessions: bool,
}

/// Returns the fields that name the caller of a call on a tree.
pub(super) const fn fields_of(tree: Tree) -> &'static [Field] {
    match tree {
        Tree::KeyValues => KeyValueFields::OWN,
        Tree::Nodes | Tree::Recall => ChatFields::OWN,
        Tree::Sessions => SessionFields::OWN,
        Tree::Workspace | Tree::Media => WorkspaceFields::OWN,
        Tree::UserWorkspace => UserWorkspaceFields::OWN,
        Tree::None => &[],
    }
}

impl<'a> Caller<'a> {
    /// Reads who is named by a request to a call on a tree; `agent` is the one in its path.
    pub(super) fn read(tree: Tree, agent: &'a str, fields: &Fields<'a>) -> Result<Self, Refusal> {
        let agent = Cow::Borrowed(agent);
        Ok(match tree {
            Tree::KeyValues => Self { agent: KeyValueFields::read(fields)?.agent_id, ..Self::default() },
            Tree::Nodes | Tree::Recall => {
                let ChatFields { agent, user, chat, class, session, .. } = FieldGroup::read(fields)?;
                Self { agent: agent.unwrap_or_default(), user, chat, class, session, is_of_sessions: false }
            }
            Tree::Sessions => {
                let SessionFields { agent, user, chat, class, session, .. } = FieldGroup::read(fields)?;
                Self { agent, user: Some(user), chat, class, session, is_of_sessions: true }
            }
            Tree::Workspace | Tree::Media => {
                let WorkspaceFields { user, class, .. } = FieldGroup::read(fields)?;
                Self { agent, user, class, ..Self::default() }
            }
            Tree::UserWorkspace => {
                let UserWorkspaceFields { user, class, .. } = FieldGroup::read(fields)?;
                Self { agent, user: Some(user), class, ..Self::default() }
            }
            Tree::None => Self { agent, ..Self::default() },
        })
    }

    /// Returns the user; the empty text where none is named.
    pub(super) fn user(&self) -> &str {
        self.user.as_deref().unwrap_or_default()
    }

    /// Returns the agent, user and chat whose tree is named; `None` for the tree of the account.
    pub(super) fn identity(&self) -> Result<Option<Identity>, Refusal> {
        if self.is_of_sessions && self.chat.is_none() {
            return Ok(None);
        }
        let (user, chat) = match (&self.user, &self.chat) {
            (Some(user), Some(chat)) => (user, chat),
            (None, None) if self.class.is_none() && self.session.is_none() => return Ok(None),
            _ => {
                let message = "\"user\" and \"chat\" open the tree of an agent in a chat: send both, or neither \
                     and no \"class\" and \"session\"";
                return Err(Refusal::validation(message));
            }
        };
        if self.agent.is_empty() {
            return Err(Refusal::validation("\"agent\" is missing"));
        }
        let who = Identity::new(user, &self.agent, chat, self.class.as_deref().unwrap_or(MAIN))?;
        Ok(Some(match &self.session {
            Some(session) => who.with_session(session)?,
            None => who,
        }))
    }
}
