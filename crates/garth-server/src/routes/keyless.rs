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
