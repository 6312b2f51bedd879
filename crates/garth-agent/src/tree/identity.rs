//! Identity of whom a tree is for. It decides which directories the tree has and who its commits are by.

use garth_engine::error::Result;
use garth_engine::model::{Author, Owner};
use garth_engine::path::check_id;

/// User, agent and chat that a tree is for, with the class of the session.
///
/// Each is an id: 1 to 128 bytes of UTF-8 without `/` and control characters, not `.` or `..`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub(super) user: String,
    pub(super) agent: String,
    pub(super) chat: String,
    pub(super) class: String,
    pub(super) session: Option<String>,
}

impl Identity {
    /// Identifies an agent that serves a user in a chat. `class` is that of the session:
    /// [`MAIN`](super::MAIN), or any other if others than the user can have spoken in it.
    ///
    /// # Errors
    /// `InvalidArgument` for what is no id.
    pub fn new(user: &str, agent: &str, chat: &str, class: &str) -> Result<Self> {
        for (what, id) in [("user", user), ("agent", agent), ("chat", chat), ("class", class)] {
            check_id(what, id)?;
        }
        let [user, agent, chat, class] = [user, agent, chat, class].map(str::to_owned);
        Ok(Self { user, agent, chat, class, session: None })
    }

    /// Returns the user.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Returns the agent.
    pub fn agent(&self) -> &str {
        &self.agent
    }

    /// Sets the session.
    ///
    /// # Errors
    /// `InvalidArgument` for what is no id.
    pub fn with_session(self, session: &str) -> Result<Self> {
        check_id("session", session)?;
        Ok(Self { session: Some(session.to_owned()), ..self })
    }

    pub(super) fn author(&self) -> Author {
        let author = Author::agent(&self.agent).with_user(&self.user).with_class(&self.class);
        match &self.session {
            Some(session) => author.with_session(session),
            None => author,
        }
    }

    /// Returns the owner of snapshots, commit ids and idempotency keys. An id has no `/`, so that no two
    /// identities share one.
    pub(super) fn owner(&self) -> Result<Owner> {
        Owner::new(&format!("agent/{}/{}/{}", self.user, self.agent, self.chat))
    }
}
