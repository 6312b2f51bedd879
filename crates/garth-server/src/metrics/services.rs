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
        // The type may get more kinds.
        Err(_) => "other",
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

#[cfg(test)]
mod tests {
    use garth_engine::stats::HomeStats;

    use super::super::process::ProcessStats;
    use super::super::snapshot::Snapshot;
    use super::*;

    /// Service that answers every second call.
    #[derive(Debug, Default)]
    struct Moody(std::sync::atomic::AtomicBool);

    #[async_trait]
    impl ChatModel for Moody {
        async fn ask(&self, _: &Ask) -> Result<Answer, ServiceError> {
            match self.0.fetch_not(std::sync::atomic::Ordering::Relaxed) {
                true => Err(ServiceError::TimedOut),
                false => Ok(Answer::default()),
            }
        }
    }

    #[tokio::test]
    async fn model_calls_are_counted_by_outcome() {
        let metrics = Metrics::default();
        let served = ServedModel { model: Arc::new(Moody::default()), daily_tokens: Some(7) };
        let counted = metrics.model(served);
        assert_eq!(counted.daily_tokens, Some(7));
        let ask = Ask { system: String::new(), user: String::new(), max_tokens: 1 };
        for is_ok in [true, false, true] {
            assert_eq!(counted.model.ask(&ask).await.is_ok(), is_ok);
        }
        let (home, process) = (HomeStats::default(), ProcessStats::default());
        let text = metrics.text(Snapshot { home, process, rooms: Vec::new(), disk_free: None }).unwrap();
        for line in [
            "garth_model_calls_total{service=\"model\",outcome=\"ok\"} 2",
            "garth_model_calls_total{service=\"model\",outcome=\"timed_out\"} 1",
            "garth_model_call_duration_seconds_count{service=\"model\"} 3",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
