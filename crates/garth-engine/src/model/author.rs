//! Who makes commits.

use serde::{Deserialize, Serialize};

/// Who made a commit. Interfaces and views say it, never a request; a field that they do not know is none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Author {
    /// Id of the API key (never its secret).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The user who spoke, or whom the agent or session serves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The class of the session: who listens in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// The audience: whose memory the session keeps, if that is not the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audience: Option<String>,
}

impl Author {
    /// Bytes of its fields.
    pub(crate) fn len(&self) -> usize {
        [&self.key, &self.agent, &self.session].into_iter().flatten().map(String::len).sum()
    }

    /// An agent.
    pub fn agent(agent: impl Into<String>) -> Self {
        Self { agent: Some(agent.into()), ..Self::default() }
    }

    /// The owner of an API key, by the key's id.
    pub fn key(key: impl Into<String>) -> Self {
        Self { key: Some(key.into()), ..Self::default() }
    }

    /// The same, by way of this API key.
    #[must_use]
    pub fn with_key(self, key: impl Into<String>) -> Self {
        Self { key: Some(key.into()), ..self }
    }

    /// The same, in this session.
    #[must_use]
    pub fn with_session(self, session: impl Into<String>) -> Self {
        Self { session: Some(session.into()), ..self }
    }

    /// The same, through this agent.
    #[must_use]
    pub fn with_agent(self, agent: impl Into<String>) -> Self {
        Self { agent: Some(agent.into()), ..self }
    }

    /// The same, for this user.
    #[must_use]
    pub fn with_user(self, user: impl Into<String>) -> Self {
        Self { user: Some(user.into()), ..self }
    }

    /// The same, in a session of this class.
    #[must_use]
    pub fn with_class(self, class: impl Into<String>) -> Self {
        Self { class: Some(class.into()), ..self }
    }

    /// The same, for this audience.
    #[must_use]
    pub fn with_audience(self, audience: impl Into<String>) -> Self {
        let audience = Some(audience.into());
        Self { audience: audience.filter(|audience| self.user.as_ref() != Some(audience)), ..self }
    }

    /// Returns whose memory the author's session keeps: the audience, else the user.
    pub fn keeper(&self) -> Option<&str> {
        self.audience.as_deref().or(self.user.as_deref())
    }

    /// This author, of whom another knows more.
    #[must_use]
    pub fn or(self, other: &Self) -> Self {
        let either = |own: Option<String>, other: &Option<String>| own.or_else(|| other.clone());
        Self {
            key: either(self.key, &other.key),
            agent: either(self.agent, &other.agent),
            session: either(self.session, &other.session),
            user: either(self.user, &other.user),
            class: either(self.class, &other.class),
            audience: either(self.audience, &other.audience),
        }
    }

    /// Each field with its name.
    pub(crate) fn fields(&self) -> [(&'static str, &Option<String>); 6] {
        [
            ("key", &self.key),
            ("agent", &self.agent),
            ("session", &self.session),
            ("user", &self.user),
            ("class", &self.class),
            ("audience", &self.audience),
        ]
    }
}
