//! Request: the agent, user, session and chat that a caller names, before they are judged.

use super::class::Class;
use super::policy::{DEFAULT_USER, check_user, is_reserved};
use super::session_key::SessionKey;
use garth_engine::error::{Advice, Error, Result};
use garth_engine::path::check_id;

/// Caller of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// Holder of the data folder, who can read everything anyway: may ask for the class `main`.
    Holder,
    /// Program with an API key.
    ApiKey,
}

/// Names given by a caller. The judgement fills in missing ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Request {
    /// Agent.
    pub agent: String,
    /// User who speaks.
    pub user: Option<String>,
    /// Session key.
    pub key: Option<SessionKey>,
    /// Requested class. It can only add listeners.
    pub class: Option<Class>,
    /// Chat.
    pub chat: Option<String>,
    /// Session.
    pub session: Option<String>,
}

impl Request {
    /// Returns a request that names only an agent.
    pub fn new(agent: impl Into<String>) -> Self {
        Self { agent: agent.into(), ..Self::default() }
    }

    /// Sets the user who speaks.
    #[must_use]
    pub fn user(self, user: impl Into<String>) -> Self {
        Self { user: Some(user.into()), ..self }
    }

    /// Sets the session key.
    #[must_use]
    pub fn key(self, key: SessionKey) -> Self {
        Self { key: Some(key), ..self }
    }

    /// Asks for a class with more listeners; the holder of the data folder may ask for `main`.
    #[must_use]
    pub fn class(self, class: Class) -> Self {
        Self { class: Some(class), ..self }
    }

    /// Sets the chat.
    #[must_use]
    pub fn chat(self, chat: impl Into<String>) -> Self {
        Self { chat: Some(chat.into()), ..self }
    }

    /// Sets the session.
    #[must_use]
    pub fn session(self, session: impl Into<String>) -> Self {
        Self { session: Some(session.into()), ..self }
    }

    /// Returns true if the request names more than an agent.
    pub fn names_somebody(&self) -> bool {
        // Without `..`, so that a new field cannot be forgotten here.
        let Self { agent: _, user, key, class, chat, session } = self;
        key.is_some() || class.is_some() || [user, chat, session].into_iter().any(Option::is_some)
    }

    /// Checks the names.
    pub(super) fn check(&self, caller: Caller) -> Result<()> {
        check_id("agent", &self.agent)?;
        if let Some(user) = &self.user {
            check_user(user)?;
            // It is the owner where none is set, and the user of every program that names nobody.
            if caller == Caller::ApiKey && user == DEFAULT_USER {
                let error = Error::invalid("the user `default` is whoever names no user");
                return Err(error.advising(Advice::Command, "leave \"user\" out"));
            }
        }
        for (what, id) in [("chat", &self.chat), ("session", &self.session)] {
            let Some(id) = id else { continue };
            check_id(what, id)?;
            if is_reserved(id) {
                let message = format!("{id}: a {what} must not begin with `:`; use another name");
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
