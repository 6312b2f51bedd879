//! A language model behind an endpoint that speaks the chat completions of `OpenAI`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use garth_agent::models::{Allowance, Answer, Ask, ChatModel};
use garth_agent::workspace::Asking;
use garth_engine::{AccountStore, Env, Error, ErrorKind, Result};
use serde::Deserialize;
use ureq::Agent;

use crate::endpoint;
use crate::limits::Limits;

/// The language model of a server.
#[derive(Clone, Debug)]
pub struct ServedModel {
    /// The model.
    pub model: Arc<dyn ChatModel>,
    /// Most tokens that each account may take a day (UTC).
    pub daily_tokens: Option<u64>,
}

impl ServedModel {
    /// What a model, if there is one, may take of an account.
    ///
    /// # Errors
    /// From the storage.
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

    /// The model to ask, if there is one.
    pub fn asking<'m>(model: Option<&'m Self>, allowance: Option<&'m Allowance>) -> Option<Asking<'m>> {
        model.map(|model| Asking { model: &*model.model, allowance })
    }
}

/// An endpoint.
#[derive(Clone)]
pub struct HttpModel {
    agent: Agent,
    url: String,
    model: String,
    key: Option<String>,
    timeout: Duration,
    max_answer: usize,
}

impl HttpModel {
    /// The model of a name at the base URL of an endpoint, such as `http://localhost:11434/v1`. Redirects are
    /// not followed, proxies of the environment not used.
    ///
    /// # Errors
    /// `InvalidArgument` for what is no `http` or `https` URL, or has a user or password in it.
    pub fn new(base: &str, model: impl Into<String>, key: Option<String>) -> Result<Self> {
        endpoint::check("model", base, "give a key")?;
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .user_agent(concat!("garth/", env!("CARGO_PKG_VERSION")))
            .build();
        let Limits { model_timeout: timeout, model_max_answer: max_answer, .. } = Limits::default();
        let url = format!("{}/chat/completions", base.trim_end_matches('/'));
        Ok(Self { agent: config.new_agent(), url, model: model.into(), key, timeout, max_answer })
    }

    /// Asks within `model_timeout` and `model_max_answer` of these limits.
    #[must_use]
    pub fn limits(self, limits: &Limits) -> Self {
        Self { timeout: limits.model_timeout, max_answer: limits.model_max_answer, ..self }
    }

    /// Asks. Blocks.
    fn send(&self, ask: &Ask) -> Result<Answer> {
        let body = serde_json::json!({
            "model": self.model, "max_completion_tokens": ask.max_tokens,
            "messages": [{"role": "system", "content": ask.system}, {"role": "user", "content": ask.user}],
        });
        let request = self.agent.post(&self.url).config().timeout_global(Some(self.timeout)).build();
        let mut request = request.header("content-type", "application/json");
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let failed = |why: String| Error::new(ErrorKind::Unavailable, format!("{why}; try again"));
        let mut answer =
            request.send(body.to_string()).map_err(|_| failed("the model is not reached".to_owned()))?;
        let status = answer.status().as_u16();
        if !answer.status().is_success() {
            return Err(failed(format!("the model's endpoint answered {status}")));
        }
        let text = answer.body_mut().with_config().limit(self.max_answer as u64).read_to_string();
        let text = text.map_err(|_| failed("the model's answer broke off or is too long".to_owned()))?;
        let reply: Reply = serde_json::from_str(&text)
            .map_err(|_| failed("the model's endpoint does not speak chat completions".to_owned()))?;
        let tokens = reply.usage.map(|usage| usage.total_tokens);
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
    message: Said,
}

#[derive(Deserialize)]
struct Said {
    content: Option<String>,
}

#[derive(Deserialize)]
struct Usage {
    total_tokens: u64,
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
    /// Without URL and key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpModel").finish_non_exhaustive()
    }
}
