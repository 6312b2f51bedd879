//! Embedding service behind an HTTP endpoint with the embeddings API of `OpenAI`.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use garth_agent::models::{Embedder, Embeddings, VectorCache};
use garth_agent::recall::Embedding;
use garth_engine::{AccountStore, Error, ErrorKind, Result};
use serde::Deserialize;

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
    /// Returns the service for recalls from an account, with a cache for its vectors.
    pub fn embedding<'a>(
        &'a self,
        cache: &'a VectorCache,
        account: &'a dyn AccountStore,
    ) -> Embedding<'a> {
        let embedding = Embedding::new(&*self.embedder, cache);
        match self.daily_tokens {
            Some(tokens) => embedding.daily_tokens(account, tokens),
            None => embedding,
        }
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
    /// `InvalidArgument`: the URL is not `http` or `https`, or contains a user or password.
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
    fn send(&self, texts: &[String]) -> Result<Embeddings> {
        let text = self.endpoint.post(&serde_json::json!({"model": self.model, "input": texts}))?;
        let reply: Reply = serde_json::from_str(&text)
            .map_err(|_| self.endpoint.failed("'s endpoint does not speak embeddings"))?;
        let mut vectors: Vec<Option<Vec<f32>>> = vec![None; texts.len()];
        for item in reply.data {
            // The order is that of the indexes, whatever the order of the answer.
            let missing = vectors.get_mut(item.index).filter(|vector| vector.is_none());
            let Some(vector) = missing else {
                return Err(self.endpoint.failed(" answered with a vector for no text"));
            };
            *vector = Some(item.embedding);
        }
        let vectors: Option<Vec<Vec<f32>>> = vectors.into_iter().collect();
        let vectors = vectors.ok_or_else(|| self.endpoint.failed(" left out the vector of a text"))?;
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
    async fn embed(&self, texts: &[String]) -> Result<Embeddings> {
        let mut batches = Vec::new();
        for batch in texts.chunks(BATCH) {
            let (service, batch) = (self.clone(), batch.to_vec());
            #[allow(clippy::disallowed_methods)] // it waits for a network, and computes little
            let sent = tokio::task::spawn_blocking(move || service.send(&batch));
            batches.push(sent);
        }
        let mut all = Embeddings { vectors: Vec::with_capacity(texts.len()), tokens: Some(0) };
        for sent in batches {
            let lost = |_| Error::new(ErrorKind::Unavailable, "the embedding service was not asked");
            let answer = sent.await.map_err(lost)??;
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
