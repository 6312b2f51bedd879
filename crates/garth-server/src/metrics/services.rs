//! Language model, embedding service and sink that count their calls.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use garth_agent::memory::Event;
use garth_agent::models::{Answer, Ask, ChatModel, Embedder, Embeddings, ServiceError};
use garth_agent::outbox::{Sink, SinkError};
use tokio::time::Instant;

use super::recorders::Metrics;
use crate::chat_model::ServedModel;
use crate::embedder::ServedEmbedder;

/// Service whose calls are counted.
struct Counted<S: ?Sized> {
    service: Arc<S>,
    metrics: Metrics,
}

impl<S: ?Sized> fmt::Debug for Counted<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counted").finish_non_exhaustive()
    }
}

impl Metrics {
    /// Returns the model with its calls counted.
    pub(crate) fn model(&self, served: ServedModel) -> ServedModel {
        let model = Arc::new(Counted { service: served.model, metrics: self.clone() });
        ServedModel { model, ..served }
    }

    /// Returns the embedding service with its calls counted.
    pub(crate) fn embedder(&self, served: ServedEmbedder) -> ServedEmbedder {
        let embedder = Arc::new(Counted { service: served.embedder, metrics: self.clone() });
        ServedEmbedder { embedder, ..served }
    }

    /// Returns the sink with its deliveries counted.
    pub(crate) fn sink(&self, sink: Arc<dyn Sink>) -> Arc<dyn Sink> {
        Arc::new(Counted { service: sink, metrics: self.clone() })
    }
}

/// Returns the outcome of a call, as its label.
fn outcome<T>(called: &Result<T, ServiceError>) -> &'static str {
    match called {
        Ok(_) => "ok",
        Err(ServiceError::TimedOut) => "timed_out",
        Err(ServiceError::Unreachable) => "unreachable",
        Err(ServiceError::Refused(_)) => "refused",
        Err(ServiceError::Invalid(_)) => "invalid",
        Err(ServiceError::Busy) => "busy",
    }
}

#[async_trait]
impl ChatModel for Counted<dyn ChatModel> {
    async fn ask(&self, ask: &Ask) -> Result<Answer, ServiceError> {
        let begun = Instant::now();
        let answer = self.service.ask(ask).await;
        self.metrics.called("model", outcome(&answer), begun.elapsed());
        answer
    }
}

#[async_trait]
impl Embedder for Counted<dyn Embedder> {
    fn model(&self) -> &str {
        self.service.model()
    }

    async fn embed(&self, texts: &[String]) -> Result<Embeddings, ServiceError> {
        let begun = Instant::now();
        let embedded = self.service.embed(texts).await;
        self.metrics.called("embedder", outcome(&embedded), begun.elapsed());
        embedded
    }
}

#[async_trait]
impl Sink for Counted<dyn Sink> {
    fn timeout(&self) -> Duration {
        self.service.timeout()
    }

    async fn deliver(&self, event: &Event) -> Result<(), SinkError> {
        let begun = Instant::now();
        let delivered = self.service.deliver(event).await;
        self.metrics.delivered(delivered.is_ok(), begun.elapsed());
        delivered
    }
}
