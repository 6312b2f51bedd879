//! Sink behind an HTTP endpoint: one signed POST for each event, with the id of the event as idempotency key.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use garth_agent::memory::Event;
use garth_agent::outbox::{Sink, SinkError};
use garth_engine::{Env, Error, ErrorKind};
use tokio::sync::Semaphore;
use ureq::Agent;

use super::sign::signature;
use crate::endpoint;
use crate::limits::Limits;

/// Shortest time left with which a request is started.
const LEAST: Duration = Duration::from_millis(50);

/// Shortest secret in bytes. A shorter one can be guessed.
const MIN_SECRET: usize = 16;

/// HTTP endpoint that receives events.
#[derive(Clone)]
pub struct HttpSink {
    agent: Agent,
    url: String,
    secret: Arc<[u8]>,
    env: Env,
    timeout: Duration,
    /// Permits for concurrent requests. Each request takes a thread while it lasts.
    turns: Arc<Semaphore>,
}

impl HttpSink {
    /// Returns the endpoint at a URL. Requests are signed with a shared secret. It follows no redirects and
    /// ignores the proxies of the environment.
    ///
    /// # Errors
    /// `InvalidArgument`: the URL is not `http` or `https`, or contains a user or password, or the secret has
    /// fewer than 16 bytes or control characters.
    pub fn new(url: &str, secret: &[u8], env: Env) -> garth_engine::Result<Self> {
        endpoint::check("sink", url, "requests are signed")?;
        if secret.len() < MIN_SECRET {
            let message = format!("the sink's secret must have at least {MIN_SECRET} bytes");
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        endpoint::check_secret("the sink's secret", secret)?;
        let limits = Limits::default();
        let config = Agent::config_builder()
            .http_status_as_error(false)
            // A redirect or a proxy would get the event.
            .max_redirects(0)
            .proxy(None)
            // One connection for each request: a late answer to one cannot be taken for the answer to
            // another.
            .max_idle_connections(0)
            .max_idle_connections_per_host(0)
            .user_agent(concat!("garth/", env!("CARGO_PKG_VERSION")))
            .build();
        Ok(Self {
            agent: config.new_agent(),
            url: url.to_owned(),
            secret: secret.into(),
            env,
            timeout: limits.sink_timeout,
            turns: Arc::new(Semaphore::new(limits.deliveries)),
        })
    }

    /// Sets the timeout and the concurrent requests to `sink_timeout` and `deliveries`.
    #[must_use]
    pub fn limits(self, limits: &Limits) -> Self {
        let turns = Arc::new(Semaphore::new(limits.deliveries));
        Self { timeout: limits.sink_timeout, turns, ..self }
    }

    /// Sets the time limit of a delivery.
    #[must_use]
    pub fn timeout_after(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Sends an event before the deadline `until`. Blocks the thread.
    fn send(&self, id: &str, body: &[u8], until: Instant) -> Result<(), SinkError> {
        // The wait for a turn has taken a part of the time.
        let left = until.saturating_duration_since(self.env.instant());
        if left < LEAST {
            return Err(SinkError::new("other requests to the sink took too long"));
        }
        let timestamp = self.env.now().0.div_euclid(1_000_000_000).to_string();
        let sent = self
            .agent
            .post(&self.url)
            .config()
            .timeout_global(Some(left))
            .build()
            .header("content-type", "application/json")
            .header("idempotency-key", id)
            .header("x-garth-timestamp", &timestamp)
            .header("x-garth-signature", signature(&self.secret, &timestamp, body))
            .send(body);
        let answer = sent.map_err(|error| SinkError::new(why(&error)))?;
        let status = answer.status();
        if status.is_success() {
            return Ok(());
        }
        let error = SinkError::new(format!("the sink answered {}", status.as_u16()));
        // RFC 9110 also allows a date here, which is ignored: the usual backoff applies.
        let header = answer.headers().get("retry-after").and_then(|value| value.to_str().ok());
        let seconds = header.and_then(|text| text.trim().parse().ok());
        // Of the failures, only these two statuses define the header (RFC 9110, RFC 6585).
        Err(match seconds.filter(|_| matches!(status.as_u16(), 429 | 503)) {
            Some(seconds) => error.retry_after(Duration::from_secs(seconds)),
            None => error,
        })
    }
}

/// Returns the reason of a failure without the URL, which may contain a token.
fn why(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Timeout(_) => "the sink did not answer in time".to_owned(),
        ureq::Error::HostNotFound => "the sink's host is not found".to_owned(),
        // A timeout of the socket, not of the request.
        ureq::Error::Io(error) if error.kind() == std::io::ErrorKind::TimedOut => {
            "the sink did not answer in time".to_owned()
        }
        ureq::Error::Io(error) => format!("the sink cannot be reached: {}", error.kind()),
        ureq::Error::ConnectionFailed => "the sink cannot be reached".to_owned(),
        _ => "the sink did not return valid HTTP".to_owned(),
    }
}

#[async_trait]
impl Sink for HttpSink {
    fn timeout(&self) -> Duration {
        self.timeout
    }

    async fn deliver(&self, event: &Event) -> Result<(), SinkError> {
        // Set before the wait below, which belongs to the time of the delivery: the lease of the event runs
        // meanwhile.
        let until = self.env.instant() + self.timeout;
        let body = serde_json::to_vec(event)
            .map_err(|error| SinkError::new(format!("the event has no JSON form: {error}")))?;
        let waited = tokio::time::timeout(self.timeout, Arc::clone(&self.turns).acquire_owned()).await;
        let Ok(Ok(turn)) = waited else {
            return Err(SinkError::new("other requests to the sink took too long"));
        };
        let (sink, id) = (self.clone(), event.event_id.clone());
        #[allow(clippy::disallowed_methods)] // it waits for a network, and computes nothing
        let sent = tokio::task::spawn_blocking(move || {
            let sent = sink.send(&id, &body, until);
            // The turn ends with the request, even if nobody waits for it any more.
            drop(turn);
            sent
        });
        sent.await.unwrap_or_else(|_| Err(SinkError::new("the request was not sent")))
    }
}

impl fmt::Debug for HttpSink {
    /// Leaves out URL and secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpSink").finish_non_exhaustive()
    }
}
