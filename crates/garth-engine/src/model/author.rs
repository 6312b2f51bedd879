//! Authors of commits.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Author of a commit. Interfaces and views set it, never a request; fields that they do not know are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[non_exhaustive]
pub struct Author {
    /// Id of the API key (never its secret).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Name of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Name of the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// User who spoke, or whom the agent or session serves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Class of the session: who listens in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Audience whose memory the session uses, if that is not the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audience: Option<String>,
}

impl Author {
    /// Returns the length of all fields in bytes.
    pub(crate) fn len(&self) -> usize {
        let fields = [&self.key, &self.agent, &self.session, &self.user, &self.class, &self.audience];
        fields.into_iter().flatten().map(String::len).sum()
    }

    /// Returns an agent as the author.
    pub fn agent(agent: impl Into<String>) -> Self {
        Self { agent: Some(agent.into()), ..Self::default() }
    }

    /// Returns the owner of an API key as the author, by the key's id.
    pub fn key(key: impl Into<String>) -> Self {
        Self { key: Some(key.into()), ..Self::default() }
    }

    /// Sets the API key.
    #[must_use]
    pub fn with_key(self, key: impl Into<String>) -> Self {
        Self { key: Some(key.into()), ..self }
    }

    /// Sets the session.
    #[must_use]
    pub fn with_session(self, session: impl Into<String>) -> Self {
        Self { session: Some(session.into()), ..self }
    }

    /// Sets the agent.
    #[must_use]
    pub fn with_agent(self, agent: impl Into<String>) -> Self {
        Self { agent: Some(agent.into()), ..self }
    }

    /// Sets the user.
    #[must_use]
    pub fn with_user(self, user: impl Into<String>) -> Self {
        Self { user: Some(user.into()), ..self }
    }

    /// Sets the class of the session.
    #[must_use]
    pub fn with_class(self, class: impl Into<String>) -> Self {
        Self { class: Some(class.into()), ..self }
    }

    /// Sets the audience, unless it is the user.
    #[must_use]
    pub fn with_audience(self, audience: impl Into<String>) -> Self {
        let audience = Some(audience.into());
        Self { audience: audience.filter(|audience| self.user.as_ref() != Some(audience)), ..self }
    }

    /// Returns the user or other audience whose memory the session uses.
    #[doc(hidden)]
    pub fn keeper(&self) -> Option<&str> {
        self.audience.as_deref().or(self.user.as_deref())
    }

    /// Returns the author with fields that are `None` taken from another one.
    #[must_use]
    #[doc(hidden)]
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

    /// Returns each field with its name.
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
