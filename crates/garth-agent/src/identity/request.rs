//! Request: whom a caller names before anything is judged.

use super::class::Class;
use super::policy::{DEFAULT_USER, check_user, is_reserved};
use super::session_key::SessionKey;
use garth_engine::error::{Error, Result};
use garth_engine::path::check_id;

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// Whoever holds the data folder, which has everything already: may ask for the class `main`.
    Holder,
    /// A program with an API key.
    ApiKey,
}

/// Whom a request names. What it leaves open is judged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Request {
    /// The agent.
    pub agent: String,
    /// The user who speaks.
    pub user: Option<String>,
    /// The session key.
    pub key: Option<SessionKey>,
    /// A class of as many listeners or more.
    pub class: Option<Class>,
    /// The chat.
    pub chat: Option<String>,
    /// The session.
    pub session: Option<String>,
}

impl Request {
    /// Returns a request that names an agent alone.
    pub fn new(agent: impl Into<String>) -> Self {
        Self { agent: agent.into(), ..Self::default() }
    }

    /// Names the user who speaks.
    #[must_use]
    pub fn user(self, user: impl Into<String>) -> Self {
        Self { user: Some(user.into()), ..self }
    }

    /// Names the session key.
    #[must_use]
    pub fn key(self, key: SessionKey) -> Self {
        Self { key: Some(key), ..self }
    }

    /// Asks for a class of more listeners; whoever holds the data folder may ask for `main`.
    #[must_use]
    pub fn class(self, class: Class) -> Self {
        Self { class: Some(class), ..self }
    }

    /// Names the chat.
    #[must_use]
    pub fn chat(self, chat: impl Into<String>) -> Self {
        Self { chat: Some(chat.into()), ..self }
    }

    /// Names the session.
    #[must_use]
    pub fn session(self, session: impl Into<String>) -> Self {
        Self { session: Some(session.into()), ..self }
    }

    /// Returns true if more than an agent is named.
    pub fn names_somebody(&self) -> bool {
        let Self { agent: _, user, key, class, chat, session } = self;
        key.is_some() || class.is_some() || [user, chat, session].into_iter().any(Option::is_some)
    }

    /// Refuses what no request may name.
    pub(super) fn check(&self, caller: Caller) -> Result<()> {
        check_id("agent", &self.agent)?;
        if let Some(user) = &self.user {
            check_user(user)?;
            if caller == Caller::ApiKey && user == DEFAULT_USER {
                let message = "the user `default` is whoever names no user; leave \"user\" out";
                return Err(Error::invalid(message));
            }
        }
        for (what, id) in [("chat", &self.chat), ("session", &self.session)] {
            let Some(id) = id else { continue };
            check_id(what, id)?;
            if is_reserved(id) {
                let message = format!("{id}: a {what} does not begin with `:`; take another name");
                return Err(Error::invalid(message));
            }
        }
        if let Some(key) = &self.key
            && key.agent() != self.agent
        {
            let message = format!(
                "{key}: is a session key of another agent than {}; name the agent of the key",
                self.agent
            );
            return Err(Error::invalid(message));
        }
        Ok(())
    }
}
