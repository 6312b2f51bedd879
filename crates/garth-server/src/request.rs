//! What every request goes through, whatever its route: a request id, the rules of HTTP itself, a span for
//! logs, a guard against panics, the envelope of a refusal, and the access log.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;

use axum::Router;
use axum::body::{Body, HttpBody as _};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Version};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::FutureExt;
use garth_engine::Env;
use hyper::body::Incoming;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use tokio::time::Instant;
use tracing::Instrument;

use crate::errors::Refusal;
use crate::limits::drain;

/// Names a request in its answer and in the log.
const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What requests share.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) env: Env,
    pub(crate) access_log: bool,
}

/// The id of the API key that a request was let in with; for the access log.
#[derive(Clone)]
pub(crate) struct KeyId(pub(crate) String);

impl Context {
    /// A new id for a request. Only a label: where the system has no random bytes to give, the request is
    /// answered anyway.
    pub(crate) fn request_id(&self) -> String {
        let random = u128::from_le_bytes(self.env.random::<16>().unwrap_or_default());
        format!("req_{random:032x}")
    }

    /// Writes the line of a request to the access log, if there is one.
    pub(crate) fn log_access(&self, line: &Access<'_>) {
        if !self.access_log {
            return;
        }
        let Access { id, key, method, path, status, bytes, began } = line;
        let duration_us = began.elapsed().as_micros();
        // `path` is quoted: it is the client's text.
        tracing::info!(target: "garth_server::access", request_id = id, key, method, ?path, status, bytes, duration_us);
    }
}

/// A line of the access log. Never a secret, a query or a body.
pub(crate) struct Access<'a> {
    pub(crate) id: &'a str,
    /// `-` without a valid key.
    pub(crate) key: &'a str,
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) status: u16,
    /// Of the answer's body.
    pub(crate) bytes: u64,
    /// When the head of the request had been read. The line gives the time until the answer was ready to be
    /// sent.
    pub(crate) began: Instant,
}

/// Answers a request around its route. A plain function: as a layer of the router it would be boxed once more
/// for each request.
pub(crate) async fn around(
    context: &Context,
    routes: &TowerToHyperService<Router>,
    request: hyper::Request<Incoming>,
) -> Result<Response, Infallible> {
    let began = Instant::now();
    let id = context.request_id();
    let line = context.access_log.then(|| (request.method().clone(), request.uri().path().to_owned()));
    // `debug`: making a span that nobody looks at takes a tenth of a small read
    let span = tracing::debug_span!("request", id);
    let mut response = answer(request, routes, &id).instrument(span).await;
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(X_REQUEST_ID, value);
    }
    if let Some((method, path)) = line {
        log(context, &id, &method, &path, &response, began);
    }
    Ok(response)
}

async fn answer(
    request: hyper::Request<Incoming>,
    routes: &TowerToHyperService<Router>,
    id: &str,
) -> Response {
    let mut response = match check_host(request.version(), request.headers()) {
        Ok(()) => match AssertUnwindSafe(routes.call(request)).catch_unwind().await {
            Ok(Ok(response)) => response,
            Ok(Err(never)) => match never {},
            Err(_) => Refusal::internal().because("it panicked").into_response(),
        },
        Err(refusal) => {
            let (head, body) = request.into_parts();
            drain(&head.headers, Body::new(body));
            refusal.into_response()
        }
    };
    if let Some(refusal) = response.extensions_mut().remove::<Refusal>() {
        if let Some(cause) = &refusal.cause {
            tracing::error!(request_id = id, code = refusal.code.as_str(), "{cause}");
        }
        *response.body_mut() = Bytes::from(refusal.body(id)).into();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        // that of the empty body; hyper knows the new one
        headers.remove(CONTENT_LENGTH);
    }
    response
}

/// HTTP/1.1 takes exactly one `Host` (RFC 9112, 3.2); HTTP/1.0 one at most.
fn check_host(version: Version, headers: &HeaderMap) -> Result<(), Refusal> {
    let mut hosts = headers.get_all(HOST).iter();
    let fits = match (hosts.next(), hosts.next()) {
        (None, _) => version < Version::HTTP_11,
        (Some(host), None) => host.is_empty() || Authority::try_from(host.as_bytes()).is_ok(),
        (Some(_), Some(_)) => false,
    };
    if fits {
        Ok(())
    } else {
        Err(Refusal::validation("a request must have exactly one valid `Host` header"))
    }
}

fn log(context: &Context, id: &str, method: &Method, path: &str, response: &Response, began: Instant) {
    let key = response.extensions().get::<KeyId>().map_or("-", |key| key.0.as_str());
    let bytes = response.body().size_hint().exact().unwrap_or_default();
    let (method, status) = (method.as_str(), response.status().as_u16());
    context.log_access(&Access { id, key, method, path, status, bytes, began });
}
