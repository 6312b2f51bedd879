//! Embedding service behind an HTTP endpoint with the embeddings API of `OpenAI`.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures::future::join_all;
use garth_agent::models::{Embedder, Embeddings, ServiceError};
use garth_agent::recall::Embedding;
use garth_engine::{AccountStore, Result};
use serde::Deserialize;

use crate::answers::{InRoom, Room};
use crate::endpoint::{ModelEndpoint, Usage};
use crate::limits::Limits;

/// Maximum number of texts of a request. Some services take no more.
const BATCH: usize = 32;

/// The embedding service of a server.
#[derive(Clone, Debug)]
pub struct ServedEmbedder {
    /// The service.
    pub embedder: Arc<dyn Embedder>,
    /// Limit on the tokens of each account for one day (UTC); `None` for no limit.
    pub daily_tokens: Option<u64>,
}

impl ServedEmbedder {
    /// Returns the service for one recall, with its room. Without room, the service is not asked.
    pub(crate) fn within(&self, room: Option<Room>) -> InRoom<dyn Embedder> {
        InRoom::new(&self.embedder, room)
    }

    /// Returns the comparison with the limit on the tokens of an account.
    pub fn limited<'a>(&self, embedding: Embedding<'a>, account: &'a dyn AccountStore) -> Embedding<'a> {
        match self.daily_tokens {
            Some(tokens) => embedding.daily_tokens(account, tokens),
            None => embedding,
        }
    }
}

#[async_trait]
impl Embedder for InRoom<dyn Embedder> {
    fn model(&self) -> &str {
        self.service.model()
    }

    async fn embed(&self, texts: &[String]) -> Result<Embeddings, ServiceError> {
        let (embedder, texts) = (Arc::clone(&self.service), texts.to_vec());
        self.run(async move { embedder.embed(&texts).await }).await?
    }
}

/// Embedding service at an HTTP endpoint.
#[derive(Clone)]
pub struct HttpEmbedder {
    endpoint: ModelEndpoint,
    model: String,
}

impl HttpEmbedder {
    /// Returns the model `model` at the base URL of an endpoint, such as `http://localhost:11434/v1`. It
    /// follows no redirects and ignores the proxies of the environment.
    ///
    /// # Errors
    /// `InvalidArgument`: the URL is not `http` or `https`, or contains a user or password, or the key
    /// contains control characters.
    pub fn new(base: &str, model: impl Into<String>, key: Option<String>) -> Result<Self> {
        let Limits { embedder_timeout, embedder_max_answer, .. } = Limits::default();
        let within = (embedder_timeout, embedder_max_answer);
        let endpoint = ModelEndpoint::new("embedding service", (base, "embeddings"), key, within)?;
        Ok(Self { endpoint, model: model.into() })
    }

    /// Sets the timeout and the longest answer to `embedder_timeout` and `embedder_max_answer`.
    #[must_use]
    pub fn limits(self, limits: &Limits) -> Self {
        Self { endpoint: self.endpoint.within(limits.embedder_timeout, limits.embedder_max_answer), ..self }
    }

    /// Sends texts and waits for their vectors. Blocks the thread.
    fn send(&self, texts: &[String]) -> Result<Embeddings, ServiceError> {
        let text = self.endpoint.post(&serde_json::json!({"model": self.model, "input": texts}))?;
        let other = ServiceError::Invalid("something else than vectors");
        let reply: Reply = serde_json::from_str(&text).map_err(|_| other)?;
        let mut vectors: Vec<Option<Vec<f32>>> = vec![None; texts.len()];
        for item in reply.data {
            // The order is that of the indexes, whatever the order of the answer.
            let missing = vectors.get_mut(item.index).filter(|vector| vector.is_none());
            let Some(vector) = missing else {
                return Err(ServiceError::Invalid("a vector for no text"));
            };
            *vector = Some(item.embedding);
        }
        let vectors: Option<Vec<Vec<f32>>> = vectors.into_iter().collect();
        let vectors = vectors.ok_or(ServiceError::Invalid("no vector for a text"))?;
        Ok(Embeddings { vectors, tokens: reply.usage.and_then(|usage| usage.total_tokens) })
    }
}

#[derive(Deserialize)]
struct Reply {
    data: Vec<Item>,
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Item {
    index: usize,
    embedding: Vec<f32>,
}

#[async_trait]
impl Embedder for HttpEmbedder {
    fn model(&self) -> &str {
        &self.model
    }

    /// Sends the texts in several requests at the same time, if they are too many for one.
    async fn embed(&self, texts: &[String]) -> Result<Embeddings, ServiceError> {
        let mut batches = Vec::new();
        for batch in texts.chunks(BATCH) {
            let (service, batch) = (self.clone(), batch.to_vec());
            #[allow(clippy::disallowed_methods)] // it waits for a network, and computes little
            let sent = tokio::task::spawn_blocking(move || service.send(&batch));
            batches.push(sent);
        }
        let mut all = Embeddings { vectors: Vec::with_capacity(texts.len()), tokens: Some(0) };
        // All end before the first failure is returned: until then, each occupies a thread.
        for sent in join_all(batches).await {
            let answer = sent.unwrap_or(Err(ServiceError::Unreachable))?;
            all.vectors.extend(answer.vectors);
            all.tokens = all.tokens.zip(answer.tokens).map(|(sum, tokens)| sum.saturating_add(tokens));
        }
        Ok(all)
    }
}

impl fmt::Debug for HttpEmbedder {
    /// Leaves out URL and key, which may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpEmbedder").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use tokio::sync::Notify;

    use super::*;
    use crate::answers::Rooms;

    /// Service that answers once it is notified.
    #[derive(Debug, Default)]
    struct Slow(Notify);

    #[async_trait]
    impl Embedder for Slow {
        fn model(&self) -> &str {
            "slow"
        }

        async fn embed(&self, _: &[String]) -> Result<Embeddings, ServiceError> {
            self.0.notified().await;
            Ok(Embeddings::default())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn abandoned_request_keeps_its_room() {
        // Room for one recall of an account.
        let limits = Limits::default().embedder_room(16 << 20);
        let (rooms, slow) = (Rooms::for_recalls(&limits), Arc::new(Slow::default()));
        let served = ServedEmbedder { embedder: Arc::<Slow>::clone(&slow), daily_tokens: None };
        let service = served.within(rooms.recall("a").await);
        assert!(service.embed(&[]).now_or_never().is_none());
        drop(service);
        assert!(rooms.recall("a").await.is_none() && rooms.recall("b").await.is_some());
        let without = served.within(None).embed(&[]).await;
        assert_eq!(without, Err(ServiceError::Busy));
        slow.0.notify_one();
        assert!(rooms.recall("a").await.is_some());
    }
}
