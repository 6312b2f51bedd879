//! Media files without a session, which belong to an agent: those of older versions and of imports.

use std::sync::Arc;

use crate::identity::{AccessPolicy, Caller, Identity, Request, SessionKey};

/// Media files without a session that a main session sees.
#[derive(Clone, Debug)]
pub(crate) enum SessionlessMedia {
    /// No file.
    Hidden,
    /// Files of an agent.
    OfAgent(String),
    /// Files of an agent whose session key leads to an audience.
    OfAudience {
        /// Agent.
        agent: String,
        /// Audience.
        audience: String,
        /// Policy of the agent, which maps session keys to audiences.
        policy: Arc<AccessPolicy>,
    },
}

impl SessionlessMedia {
    /// Returns true for the files of a session key.
    pub(super) fn includes(&self, key: &SessionKey) -> bool {
        match self {
            Self::Hidden => false,
            Self::OfAgent(agent) => key.agent() == *agent,
            Self::OfAudience { agent, audience, policy } => {
                // By the key alone: a user whom a request names says nothing about who sent the file.
                let alone = Request::new(agent.as_str()).key(key.clone());
                let judged = Identity::judge(policy, Caller::ApiKey, &alone);
                judged.is_ok_and(|who| who.audience() == audience)
            }
        }
    }
}
