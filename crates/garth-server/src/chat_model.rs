//! Language model behind an HTTP endpoint with the chat completions of `OpenAI`.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use garth_agent::models::{Allowance, Answer, Ask, ChatModel, ServiceError};
use garth_agent::workspace::Asking;
use garth_engine::{AccountStore, Env, Error, ErrorKind, Result};
use serde::Deserialize;

use crate::endpoint::{ModelEndpoint, Usage};
use crate::limits::Limits;

/// The language model of a server.
#[derive(Clone, Debug)]
pub struct ServedModel {
    /// The model.
    pub model: Arc<dyn ChatModel>,
    /// Limit on the tokens of each account for one day (UTC); `None` for no limit.
    pub daily_tokens: Option<u64>,
}

impl ServedModel {
    /// Returns the token allowance of an account; `None` without a model or a daily limit.
    ///
    /// # Errors
    /// As [`Allowance::new`].
    pub async fn allowance(
        model: Option<&Self>,
        account: &dyn AccountStore,
        env: &Env,
    ) -> Result<Option<Allowance>> {
        match model.and_then(|model| model.daily_tokens) {
            Some(tokens) => Ok(Some(Allowance::new(account, tokens, env.clone()).await?)),
            None => Ok(None),
        }
    }

    /// Returns the model to ask, with the allowance; `None` without a model.
    pub fn asking<'m>(model: Option<&'m Self>, allowance: Option<&'m Allowance>) -> Option<Asking<'m>> {
        model.map(|model| Asking { model: &*model.model, allowance })
    }
}

/// Model at an HTTP endpoint.
#[derive(Clone)]
pub struct HttpModel {
    endpoint: ModelEndpoint,
    model: String,
}

impl HttpModel {
    /// Returns the model `model` at the base URL of an endpoint, such as `http://localhost:11434/v1`. It
    /// follows no redirects and ignores the proxies of the environment.
    ///
    /// # Errors
    /// `InvalidArgument`: the URL is not `http` or `https`, or contains a user or password.
    pub fn new(base: &str, model: impl Into<String>, key: Option<String>) -> Result<Self> {
        let Limits { model_timeout, model_max_answer, .. } = Limits::default();
        let within = (model_timeout, model_max_answer);
        let endpoint = ModelEndpoint::new("model", (base, "chat/completions"), key, within)?;
        Ok(Self { endpoint, model: model.into() })
    }

    /// Sets the timeout and the longest answer to `model_timeout` and `model_max_answer`.
    #[must_use]
    pub fn limits(self, limits: &Limits) -> Self {
        Self { endpoint: self.endpoint.within(limits.model_timeout, limits.model_max_answer), ..self }
    }

    /// Sends a question and waits for the answer. Blocks the thread.
    fn send(&self, ask: &Ask) -> Result<Answer> {
        let body = serde_json::json!({
            "model": self.model, "max_completion_tokens": ask.max_tokens,
            "messages": [{"role": "system", "content": ask.system}, {"role": "user", "content": ask.user}],
        });
        let text = self.endpoint.post(&body).map_err(|error| self.endpoint.failed(error))?;
        let other = ServiceError::Invalid("something else than chat completions");
        let reply: Reply = serde_json::from_str(&text).map_err(|_| self.endpoint.failed(other))?;
        let tokens = reply.usage.and_then(|usage| usage.total_tokens);
        let said = reply.choices.into_iter().next().and_then(|choice| choice.message.content);
        Ok(Answer { text: said.unwrap_or_default(), tokens })
    }
}

#[derive(Deserialize)]
struct Reply {
    choices: Vec<Choice>,
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Choice {
    message: ChatAnswer,
}

#[derive(Deserialize)]
struct ChatAnswer {
    content: Option<String>,
}

#[async_trait]
impl ChatModel for HttpModel {
    async fn ask(&self, ask: &Ask) -> Result<Answer> {
        let (model, ask) = (self.clone(), ask.clone());
        #[allow(clippy::disallowed_methods)] // it waits for a network, and computes nothing
        let sent = tokio::task::spawn_blocking(move || model.send(&ask));
        sent.await.unwrap_or_else(|_| Err(Error::new(ErrorKind::Unavailable, "the model was not asked")))
    }
}

impl fmt::Debug for HttpModel {
    /// Leaves out URL and key, which may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpModel").finish_non_exhaustive()
    }
}
