//! Language model behind an HTTP endpoint with the chat completions of `OpenAI`.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use garth_agent::models::{Allowance, Answer, Ask, ChatModel, ServiceError};
use garth_agent::workspace::Asking;
use garth_engine::{AccountStore, Env, Result};
use serde::Deserialize;

use crate::answers::{InRoom, Room};
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

    /// Returns the model for one call, with its turn.
    pub(crate) fn within(&self, room: Room) -> Self {
        let model = Arc::new(InRoom::new(&self.model, Some(room)));
        Self { model, daily_tokens: self.daily_tokens }
    }
}

#[async_trait]
impl ChatModel for InRoom<dyn ChatModel> {
    async fn ask(&self, ask: &Ask) -> Result<Answer, ServiceError> {
        let (model, ask) = (Arc::clone(&self.service), ask.clone());
        self.run(async move { model.ask(&ask).await }).await?
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
    /// `InvalidArgument`: the URL is not `http` or `https`, or contains a user or password, or the key
    /// contains control characters.
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
    fn send(&self, ask: &Ask) -> Result<Answer, ServiceError> {
        let body = serde_json::json!({
            "model": self.model, "max_completion_tokens": ask.max_tokens,
            "messages": [{"role": "system", "content": ask.system}, {"role": "user", "content": ask.user}],
        });
        let text = self.endpoint.post(&body)?;
        let other = ServiceError::Invalid("something else than chat completions");
        let reply: Reply = serde_json::from_str(&text).map_err(|_| other)?;
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
    async fn ask(&self, ask: &Ask) -> Result<Answer, ServiceError> {
        let (model, ask) = (self.clone(), ask.clone());
        #[allow(clippy::disallowed_methods)] // it waits for a network, and computes nothing
        let sent = tokio::task::spawn_blocking(move || model.send(&ask));
        sent.await.unwrap_or(Err(ServiceError::Unreachable))
    }
}

impl fmt::Debug for HttpModel {
    /// Leaves out URL and key, which may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpModel").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use tokio::sync::Notify;

    use super::*;
    use crate::answers::Rooms;
    use crate::errors::Code;

    /// Model that answers once it is notified.
    #[derive(Debug, Default)]
    struct Slow(Notify);

    #[async_trait]
    impl ChatModel for Slow {
        async fn ask(&self, _: &Ask) -> Result<Answer, ServiceError> {
            self.0.notified().await;
            Ok(Answer::default())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn abandoned_question_keeps_its_turn() {
        // One call of an account may wait, and two in all.
        let limits = Limits::default().model_calls(2);
        let (rooms, slow) = (Rooms::for_models(&limits), Arc::new(Slow::default()));
        let served = ServedModel { model: Arc::<Slow>::clone(&slow), daily_tokens: None };
        let asked = served.within(rooms.model("a").await.unwrap());
        let ask = Ask { system: String::new(), user: String::new(), max_tokens: 1 };
        assert!(asked.model.ask(&ask).now_or_never().is_none());
        drop(asked);
        assert_eq!(rooms.model("a").await.unwrap_err().code, Code::Unavailable);
        let other = rooms.model("b").await.unwrap();
        assert_eq!(rooms.model("c").await.unwrap_err().code, Code::Unavailable);
        slow.0.notify_one();
        assert!(rooms.model("a").await.is_ok());
        drop(other);
        assert!(rooms.model("c").await.is_ok());
    }
}
