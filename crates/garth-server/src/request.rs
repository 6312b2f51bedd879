//! What every request goes through, whatever its route: a request id, the rules of HTTP itself, a guard
//! against panics, the envelope of a refusal, and the access log.

use std::convert::Infallible;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

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

use crate::body::drain;
use crate::errors::Refusal;
use crate::limits::Limits;

/// Names a request in its answer and in the log.
const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What requests share.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) env: Env,
    pub(crate) access_log: bool,
    pub(crate) limits: Arc<Limits>,
}

/// Id of a request, in its extensions: a route names it in its span.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestId(u128);

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "req_{:032x}", self.0)
    }
}

/// The id of the API key that a request was let in with; for the access log.
#[derive(Clone)]
pub(crate) struct KeyId(pub(crate) String);

impl Context {
    /// A new id for a request. Only a label: where the system has no random bytes to give, the request is
    /// answered anyway.
    pub(crate) fn request_id(&self) -> RequestId {
        RequestId(u128::from_le_bytes(self.env.random::<16>().unwrap_or_default()))
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
    mut request: hyper::Request<Incoming>,
) -> Result<Response, Infallible> {
    let (began, request_id) = (Instant::now(), context.request_id());
    request.extensions_mut().insert(request_id);
    let id = request_id.to_string();
    let line = context.access_log.then(|| (request.method().clone(), request.uri().path().to_owned()));
    let mut response = answer(context, request, routes, &id).await;
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(X_REQUEST_ID, value);
    }
    if let Some((method, path)) = line {
        log(context, &id, &method, &path, &response, began);
    }
    Ok(response)
}

async fn answer(
    context: &Context,
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
            drain(&context.limits, &head.headers, Body::new(body));
            refusal.into_response()
        }
    };
    if let Some(mut refusal) = response.extensions_mut().remove::<Refusal>() {
        // A request without a known account.
        tracing::error_span!("request", id).in_scope(|| refusal.log());
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
