//! Calls of operators and their tools, which need no API key: health, readiness and metrics. Nothing in their
//! answers names an account or a place of the host.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::http::HeaderValue;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::time::{sleep, timeout};

use super::respond::{IntoBody as _, json, raw};
use super::served::{Served, SharedState};
use crate::auth::bearer;
use crate::body::drain;
use crate::errors::{Code, Refusal};
use crate::metrics::{self, MetricsAccess, ProcessStats, Snapshot};
use crate::request::Peer;

/// Time limit for reading the free space of a disk for metrics.
const DISK_TIME: Duration = Duration::from_secs(1);

/// Answer of a server that runs or is ready.
#[derive(Serialize, JsonSchema)]
pub(super) struct HealthAnswer {
    /// `true`.
    ok: bool,
}

/// Answers `GET /healthz`.
pub(super) fn health(served: &Served, request: Request) -> Response {
    discard_body(served, request);
    healthy()
}

fn healthy() -> Response {
    match raw(&HealthAnswer { ok: true }) {
        Ok(answer) => json(answer.into_body()),
        Err(refusal) => refusal.into_response(),
    }
}

/// Answers `GET /readyz`.
pub(super) async fn ready(served: SharedState, request: Request) -> Response {
    discard_body(&served, request);
    let min_free = served.limits.min_free_disk as u64;
    match served.operations.readiness.state(&served.home, min_free).await.reason() {
        None => healthy(),
        Some(reason) => {
            let mut response = Refusal::new(Code::Unavailable, reason).into_response();
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
            response
        }
    }
}

/// Answers `GET /metrics`.
pub(super) async fn metrics(served: SharedState, request: Request) -> Response {
    let head = discard_body(&served, request);
    match allow(&served, &head).await {
        Ok(()) => scrape(served).await.unwrap_or_else(Refusal::into_response),
        Err(refusal) => refusal.into_response(),
    }
}

fn discard_body(served: &Served, request: Request) -> Parts {
    let (head, body) = request.into_parts();
    drain(&served.limits, &head.headers, body);
    head
}

/// Checks that a request may read the metrics. Wrong tokens of an address are refused ever later, as wrong
/// keys are.
async fn allow(served: &Served, head: &Parts) -> Result<(), Refusal> {
    let token = match &served.operations.access {
        MetricsAccess::Open => return Ok(()),
        MetricsAccess::Off => return Err(Refusal::no_route(None)),
        MetricsAccess::Token(token) => token,
    };
    let Some(given) = bearer(&head.headers) else {
        let message = "send the metrics token in exactly one header `Authorization: Bearer TOKEN`";
        return Err(unauthorized(message));
    };
    if token.is(given) {
        return Ok(());
    }
    served.operations.metrics.wrong_key();
    if let Some(Peer(peer)) = head.extensions.get::<Peer>() {
        sleep(served.tries.delay(*peer, served.home.env().now())).await;
    }
    let message = "this metrics token is wrong; send the one that the server was started with";
    Err(unauthorized(message))
}

fn unauthorized(message: &str) -> Refusal {
    let mut refusal = Refusal::unauthorized();
    message.clone_into(&mut refusal.message);
    refusal
}

async fn scrape(served: SharedState) -> Result<Response, Refusal> {
    let operations = Arc::clone(&served.operations);
    let _turn = operations.scraping.lock().await;
    let disk_free = timeout(DISK_TIME, served.home.free_space()).await;
    let disk_free = disk_free.ok().and_then(Result::ok).flatten();
    #[allow(clippy::disallowed_methods)] // it waits for the kernel, and computes little
    let read = tokio::task::spawn_blocking(move || {
        let Served { home, answers, bodies, transfers, recalls, model_calls, consumers, .. } = &*served;
        let rooms = [
            ("answers", answers),
            ("bodies", bodies),
            ("transfers", transfers),
            ("recalls", recalls),
            ("model_calls", model_calls),
        ];
        let rooms = rooms.map(|(name, rooms)| (name, rooms.counts()));
        let snapshot = Snapshot {
            home: home.stats(),
            process: ProcessStats::read(),
            rooms: rooms.into_iter().chain([("streams", consumers.counts())]).collect(),
            disk_free,
        };
        served.operations.metrics.text(snapshot)
    });
    let text = read.await.map_err(|error| Refusal::internal().because(error.to_string()))?;
    let text = text.map_err(|error| Refusal::internal().because(error.to_string()))?;
    let content_type = HeaderValue::from_static(metrics::CONTENT_TYPE);
    Ok(([(CONTENT_TYPE, content_type)], text).into_response())
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::header::AUTHORIZATION;
    use garth_engine::model::Timestamp;
    use garth_engine::{DataDir, Env};
    use tempfile::TempDir;
    use tokio::time::Instant;

    use super::*;
    use crate::metrics::MetricsToken;
    use crate::operations::Operations;

    const TOKEN: &str = "a-token-of-enough-bytes";
    const PEER: &str = "192.0.2.1";

    fn served(access: MetricsAccess) -> (SharedState, TempDir) {
        let folder = tempfile::tempdir().unwrap();
        // Its clock stands still, so that no try is forgotten.
        let (env, _) = Env::manual(Timestamp(1_769_472_000_000_000_000));
        let data = DataDir::builder(garth_agent::registry()).env(env).open(folder.path()).unwrap();
        let mut served = Served::new(Arc::new(data), None, Arc::default());
        served.operations = Arc::new(Operations { access, ..Operations::default() });
        (Arc::new(served), folder)
    }

    fn request(peer: &str, token: &str) -> Request {
        let mut request = Request::new(Body::empty());
        request.headers_mut().insert(AUTHORIZATION, format!("Bearer {token}").parse().unwrap());
        request.extensions_mut().insert(Peer(peer.parse().unwrap()));
        request
    }

    /// Returns the milliseconds until the refusal of a wrong token.
    async fn refused_after(served: &SharedState, peer: &str) -> u128 {
        let began = Instant::now();
        let response = metrics(Arc::clone(served), request(peer, "a-token-that-is-wrong")).await;
        assert_eq!(response.status().as_u16(), 401);
        began.elapsed().as_millis()
    }

    #[tokio::test(start_paused = true)]
    async fn wrong_metrics_tokens_are_refused_ever_later() {
        let (served, _folder) = served(MetricsAccess::Token(MetricsToken::new(TOKEN).unwrap()));
        // The timer rounds up to a millisecond.
        for due in [0; 10].into_iter().chain([100, 200, 300]) {
            let millis = refused_after(&served, PEER).await;
            assert!((due..=due + 1).contains(&millis), "{millis} instead of {due}");
        }
        assert!(refused_after(&served, "192.0.2.2").await <= 1, "another address");
        let answered = metrics(Arc::clone(&served), request(PEER, TOKEN)).await;
        assert_eq!(answered.status().as_u16(), 200, "the right token of the same address");
    }

    #[tokio::test(start_paused = true)]
    async fn metrics_are_read_one_at_a_time() {
        let (served, _folder) = served(MetricsAccess::Open);
        let turn = served.operations.scraping.lock().await;
        let mut waiting = std::pin::pin!(metrics(Arc::clone(&served), request(PEER, "")));
        // Longer than a reading takes: the clock moves on only when nothing else can.
        assert!(timeout(DISK_TIME * 10, waiting.as_mut()).await.is_err());
        drop(turn);
        assert_eq!(waiting.await.status().as_u16(), 200);
    }
}
