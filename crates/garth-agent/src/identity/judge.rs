//! The judgement of a request: its class from its session key or its caller, its audience from both, never
//! from a file that a client can write.

use super::class::Class;
use super::policy::{AccessPolicy, DEFAULT_USER, check_audience, is_reserved};
use super::request::{Caller, Request};
use super::session_key::{Form, SessionKey};
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::model::{Author, Owner};

/// Agent, audience, class, chat and session of a request, as they were judged.
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
    /// False for whoever is the owner and names nobody: that is outside of any session.
    in_session: bool,
}

impl Identity {
    /// Returns the agent.
    pub fn agent(&self) -> &str {
        &self.agent
    }

    /// Returns the audience: whose memory it is. A user, or, beginning with `:`, a channel, chat or session.
    pub fn audience(&self) -> &str {
        &self.audience
    }

    /// Returns the user who speaks, if one was named.
    pub fn speaker(&self) -> Option<&str> {
        self.speaker.as_deref()
    }

    /// Returns the class: who listens.
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

    /// Returns a request that names the same.
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

    /// Returns the same in a session, whose class may be of more listeners.
    #[must_use]
    pub(crate) fn in_session(self, session: &str, class: Class) -> Self {
        Self { session: Some(session.to_owned()), class: self.class.max(class), ..self }
    }

    /// Returns the same in a chat.
    #[must_use]
    pub(crate) fn in_chat(self, chat: String) -> Self {
        Self { chat, ..self }
    }

    /// Returns true but for the owner who names nobody, who works outside of sessions.
    pub(crate) const fn is_in_session(&self) -> bool {
        self.in_session
    }

    /// Returns the author of its commits. Outside of sessions it has no class and no user.
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

    /// Returns the owner of snapshots, commit ids and idempotency keys: the audience with the agent in the
    /// chat, as far as its class hears of it. An id has no `/`, so that no two identities share one.
    pub(crate) fn owner(&self) -> Result<Owner> {
        let label = format!("agent/{}/{}/{}", self.audience, self.agent, self.chat);
        match self.class {
            Class::Main => Owner::new(&label),
            class => Owner::new(&format!("{label}/{class}")),
        }
    }
}

impl Identity {
    /// Judges a request by what the agent's people set.
    ///
    /// # Errors
    /// `InvalidArgument` for what is no id, a session key of another agent, and a group that nothing names;
    /// `AccessDenied` for a user who is not the one of the session key.
    pub fn judge(policy: &AccessPolicy, caller: Caller, request: &Request) -> Result<Self> {
        request.check(caller)?;
        let (natural, natural_audience) = match &request.key {
            Some(key) => of_key(policy, key, request.user.as_deref())?,
            None => of_caller(policy, caller, request.user.as_deref()),
        };
        let class = match request.class {
            None => natural,
            Some(Class::Main) if caller == Caller::Holder => Class::Main,
            Some(asked) => natural.max(asked),
        };
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
            // others than the owner have a class, whether they are named or not
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
                (None, None) => format!(":{place}"),
            };
            let class = if policy.is_owner(&audience) { Class::Main } else { Class::Dm };
            Ok((class, audience))
        }
        Form::Named | Form::Group => Ok((Class::Group, format!(":{place}"))),
    }
}

/// Returns class and audience of a request without a session key.
fn of_caller(policy: &AccessPolicy, caller: Caller, user: Option<&str>) -> (Class, String) {
    let user = match (user, caller) {
        (Some(user), _) => user,
        (None, Caller::Holder) => policy.one_owner().unwrap_or(DEFAULT_USER),
        (None, Caller::ApiKey) => DEFAULT_USER,
    };
    let class = if policy.is_owner(user) { Class::Main } else { Class::Dm };
    (class, user.to_owned())
}

/// Returns the audience of a group that a request asks for by its class.
fn group(request: &Request) -> Result<String> {
    match (&request.key, &request.chat, &request.session) {
        (Some(key), ..) => Ok(format!(":{}", key.place())),
        (None, Some(chat), _) => Ok(format!(":chat:{}", one_part(chat))),
        (None, None, Some(session)) => Ok(format!(":session:{}", one_part(session))),
        (None, None, None) => {
            let message = "the class `group`, as which counts whatever is neither `main` nor `dm`, is of a session key, \
                           a chat or a session; name one of them";
            Err(Error::invalid(message))
        }
    }
}

/// Returns an id as one part of an audience: the chat `dm:bob` is not the peer `bob` of a channel `chat`.
fn one_part(id: &str) -> String {
    id.replace('%', "%25").replace(':', "%3a")
}

fn another(key: &SessionKey, user: &str) -> Error {
    let message = format!(
        "{key}: is of another user than {user}; leave the user out, or set `identities` in settings.json of the agent"
    );
    Error::new(ErrorKind::AccessDenied, message)
}

#[cfg(test)]
mod tests;
