//! Judgement of a request. The class follows from its session key or its caller, the audience from both;
//! neither from a file that a client can write.

use super::class::Class;
use super::policy::{AccessPolicy, DEFAULT_USER, check_audience, is_reserved};
use super::request::{Caller, Request};
use super::session_key::{Form, SessionKey};
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::model::{Author, Owner};

/// Agent, audience, class, chat and session of a judged request.
///
/// ```
/// use garth_agent::{Caller, Class, Identity, AccessPolicy, Request};
///
/// let policy = AccessPolicy::default();
/// let request = Request::new("helper").key("agent:helper:slack:channel:C1".parse()?).user("ann");
/// let who = Identity::judge(&policy, Caller::ApiKey, &request)?;
/// assert_eq!((who.class(), who.audience()), (Class::Group, ":slack:channel:C1"));
/// assert_eq!(who.speaker(), Some("ann"));
/// # Ok::<(), garth::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    agent: String,
    audience: String,
    speaker: Option<String>,
    class: Class,
    chat: String,
    session: Option<String>,
    key: Option<SessionKey>,
    /// False for the owner in a request that names only the agent, which works outside of any session.
    in_session: bool,
}

impl Identity {
    /// Returns the agent.
    pub fn agent(&self) -> &str {
        &self.agent
    }

    /// Returns the audience, which owns memories and sessions: a user or, with a leading `:`, a channel, chat
    /// or session.
    pub fn audience(&self) -> &str {
        &self.audience
    }

    /// Returns the speaker, if the request names a user.
    pub fn speaker(&self) -> Option<&str> {
        self.speaker.as_deref()
    }

    /// Returns the class.
    pub const fn class(&self) -> Class {
        self.class
    }

    /// Returns the chat whose files are at `/`.
    pub fn chat(&self) -> &str {
        &self.chat
    }

    /// Returns the session.
    pub fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// Returns the session key.
    pub const fn key(&self) -> Option<&SessionKey> {
        self.key.as_ref()
    }

    /// Returns a request that leads to the same identity.
    pub(crate) fn request(&self) -> Request {
        let mut request = Request::new(&*self.agent);
        request.user.clone_from(&self.speaker);
        request.key.clone_from(&self.key);
        request.session.clone_from(&self.session);
        request.chat = Some(self.chat.clone()).filter(|chat| !is_reserved(chat));
        request
    }

    /// Returns true if the session is one of class `main`.
    pub fn is_main(&self) -> bool {
        self.class == Class::Main
    }

    /// Returns the identity in a session, whose class may have more listeners.
    #[must_use]
    pub(crate) fn in_session(self, session: &str, class: Class) -> Self {
        Self { session: Some(session.to_owned()), class: self.class.max(class), ..self }
    }

    /// Returns the identity in a chat.
    #[must_use]
    pub(crate) fn in_chat(self, chat: String) -> Self {
        Self { chat, ..self }
    }

    /// Returns the identity as one in a session, also if the request names only the agent.
    #[must_use]
    pub(crate) fn always_in_session(self) -> Self {
        Self { in_session: true, ..self }
    }

    /// Returns false for the owner in a request that names only the agent, which works outside of sessions.
    pub(crate) const fn is_in_session(&self) -> bool {
        self.in_session
    }

    /// Returns the author of commits. Outside of sessions it has no class and no user.
    pub fn author(&self) -> Author {
        let user =
            self.speaker.as_deref().or_else(|| (!is_reserved(&self.audience)).then_some(&*self.audience));
        if !self.in_session {
            return Author::agent(&self.agent);
        }
        let mut author = Author::agent(&self.agent).with_class(self.class.as_str());
        if let Some(user) = user {
            author = author.with_user(user);
        }
        if let Some(session) = &self.session {
            author = author.with_session(session);
        }
        author.with_audience(&self.audience)
    }

    /// Returns the owner of snapshots, commit ids and idempotency keys: audience, agent and chat, and the
    /// class unless it is `main`. Ids have no `/`, so no two identities share an owner.
    pub(crate) fn owner(&self) -> Result<Owner> {
        let label = format!("agent/{}/{}/{}", self.audience, self.agent, self.chat);
        match self.class {
            Class::Main => Owner::new(&label),
            // Snapshots of a main session may contain text that a wider class must not see.
            class => Owner::new(&format!("{label}/{class}")),
        }
    }
}

impl Identity {
    /// Judges a request by the policy of the agent.
    ///
    /// # Errors
    /// - `InvalidArgument`: an id is invalid, the session key is one of another agent, or a group is not
    ///   named.
    /// - `AccessDenied`: the session key belongs to another user.
    pub fn judge(policy: &AccessPolicy, caller: Caller, request: &Request) -> Result<Self> {
        request.check(caller)?;
        let (natural, natural_audience) = match &request.key {
            Some(key) => of_key(policy, key, request.user.as_deref())?,
            None => of_caller(policy, caller, request.user.as_deref()),
        };
        // A request can only add listeners. The holder of the data folder can read everything anyway, and may
        // ask for `main`.
        let class = match request.class {
            None => natural,
            Some(Class::Main) if caller == Caller::Holder => Class::Main,
            Some(asked) => natural.max(asked),
        };
        // A group has an audience of its own: what it hears must not become the memory of the user who asked
        // for it.
        let audience = match (class, natural) {
            (Class::Group, Class::Main | Class::Dm) => group(request)?,
            _ => natural_audience,
        };
        check_audience(&audience)?;
        let chat = request.chat.clone().unwrap_or_else(|| audience.clone());
        Ok(Self {
            agent: request.agent.clone(),
            audience,
            speaker: request.user.clone(),
            class,
            chat,
            session: request.session.clone(),
            key: request.key.clone(),
            // Others than the owner have a class, even in a request that names only the agent.
            in_session: request.names_somebody() || class != Class::Main,
        })
    }
}

/// Returns class and audience of a session key.
fn of_key(policy: &AccessPolicy, key: &SessionKey, user: Option<&str>) -> Result<(Class, String)> {
    let place = key.place();
    match key.form() {
        Form::Named if policy.is_main_key(&place) => {
            let audience = match (policy.one_owner(), user) {
                (Some(owner), Some(user)) if owner != user => return Err(another(key, user)),
                (Some(owner), _) => owner,
                (None, user) => user.unwrap_or(DEFAULT_USER),
            };
            Ok((Class::Main, audience.to_owned()))
        }
        Form::Dm => {
            let audience = match (policy.user_at(&place), user) {
                (Some(known), Some(user)) if known != user => return Err(another(key, user)),
                (Some(known), _) => known.to_owned(),
                (None, Some(user)) => user.to_owned(),
                // The person behind the peer is unknown, so the place is an audience of its own.
                (None, None) => format!(":{place}"),
            };
            let class = if policy.is_owner(&audience) { Class::Main } else { Class::Dm };
            Ok((class, audience))
        }
        // Who else uses another name is unknown, so it counts as a group, which sees least.
        Form::Named | Form::Group => Ok((Class::Group, format!(":{place}"))),
    }
}

/// Returns class and audience of a request without a session key.
fn of_caller(policy: &AccessPolicy, caller: Caller, user: Option<&str>) -> (Class, String) {
    let user = match (user, caller) {
        (Some(user), _) => user,
        (None, Caller::Holder) => policy.one_owner().unwrap_or(DEFAULT_USER),
        // Even if an owner is set: a program with an API key that names no user must not pass for the owner.
        (None, Caller::ApiKey) => DEFAULT_USER,
    };
    let class = if policy.is_owner(user) { Class::Main } else { Class::Dm };
    (class, user.to_owned())
}

/// Returns the audience of a group that is requested by its class.
fn group(request: &Request) -> Result<String> {
    match (&request.key, &request.chat, &request.session) {
        (Some(key), ..) => Ok(format!(":{}", key.place())),
        (None, Some(chat), _) => Ok(format!(":chat:{}", one_part(chat))),
        (None, None, Some(session)) => Ok(format!(":session:{}", one_part(session))),
        (None, None, None) => {
            let message =
                "class `group` (any class but `main` and `dm`) needs a session key, a chat or a session";
            Err(Error::invalid(message))
        }
    }
}

/// Returns an id as a single part of an audience, so that the chat `dm:bob` differs from the peer `bob` of a
/// channel `chat`.
fn one_part(id: &str) -> String {
    id.replace('%', "%25").replace(':', "%3a")
}

fn another(key: &SessionKey, user: &str) -> Error {
    let message = format!(
        "{key}: belongs to another user than {user}; omit the user, or set `identities` in settings.json of the agent"
    );
    Error::new(ErrorKind::AccessDenied, message)
}

#[cfg(test)]
mod tests;
