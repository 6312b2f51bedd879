//! Handling that every request shares: a request id, the rules of HTTP itself, a guard against panics, the
//! envelope of a refusal, and the access log.

use std::convert::Infallible;
use std::fmt;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, HttpBody as _};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, TRANSFER_ENCODING};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Version};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::FutureExt;
use garth_engine::Env;
use hyper::body::Incoming;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use tokio::time::Instant;

use crate::body::drain;
use crate::errors::{Code, Refusal};
use crate::limits::Limits;
use crate::metrics::{Answered, Metrics, Routed, method_label};
use crate::site::Site;

/// Header with the id of a request, as in the log.
const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// State that requests share.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) env: Env,
    pub(crate) access_log: bool,
    pub(crate) limits: Arc<Limits>,
    pub(crate) site: Arc<Site>,
    pub(crate) metrics: Metrics,
}

/// Id of a request, in its extensions: a route names it in its span.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestId(u128);

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "req_{:032x}", self.0)
    }
}

/// Address of the client of a request, in its extensions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// Sign of an answer whose body is bytes of a file, in its extensions.
#[derive(Clone, Copy)]
pub(crate) struct StoredBytes;

/// Id of the API key of a request, for the access log.
#[derive(Clone)]
pub(crate) struct KeyId(pub(crate) String);

impl Context {
    /// Returns a new id for a request. It is only a label: if the system has no random bytes, the request is
    /// answered all the same.
    pub(crate) fn request_id(&self) -> RequestId {
        RequestId(u128::from_le_bytes(self.env.random::<16>().unwrap_or_default()))
    }

    /// Writes the line of a request to the access log, if that is enabled.
    pub(crate) fn log_access(&self, line: &Access<'_>) {
        if !self.access_log {
            return;
        }
        let Access { id, key, method, path, status, bytes, began } = line;
        // A JSON log writes a `u128` as a string.
        let duration_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        // A string, which both forms of the log quote and escape once: a line feed in the client's text would
        // forge a line.
        tracing::info!(target: "garth_server::access", request_id = id, key, method, path, status, bytes, duration_us);
    }
}

/// Line of the access log. It never contains a secret, a query or a body.
pub(crate) struct Access<'a> {
    pub(crate) id: &'a str,
    /// `-` without a valid key.
    pub(crate) key: &'a str,
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) status: u16,
    /// Size of the response body. A client that leaves gets less of a download.
    pub(crate) bytes: u64,
    /// Time at which the head of the request had been read. The line logs the time from then until the
    /// response was ready.
    pub(crate) began: Instant,
}

/// Serves a request through its route. A plain function, because as a layer of the router it would be boxed
/// for each request.
pub(crate) async fn around(
    context: &Context,
    routes: &TowerToHyperService<Router>,
    peer: Peer,
    mut request: hyper::Request<Incoming>,
) -> Result<Response, Infallible> {
    let (began, request_id) = (Instant::now(), context.request_id());
    let (_in_flight, method_name) = (context.metrics.begin(), method_label(request.method()));
    request.extensions_mut().insert(request_id);
    request.extensions_mut().insert(peer);
    let id = request_id.to_string();
    // Copied, because the route consumes the request.
    let line = context.access_log.then(|| (request.method().clone(), request.uri().path().to_owned()));
    let mut response = answer(context, request, routes, &id).await;
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(X_REQUEST_ID, value);
    }
    let (bytes, status) = (body_bytes(&response), response.status().as_u16());
    let route = response.extensions().get::<Routed>().copied();
    let time = began.elapsed();
    context.metrics.answered(Answered { route, method: method_name, status, bytes, time });
    if let Some((method, path)) = line {
        let key = response.extensions().get::<KeyId>().map_or("-", |key| key.0.as_str());
        let (id, method, path) = (&*id, method.as_str(), &*path);
        context.log_access(&Access { id, key, method, path, status, bytes, began });
    }
    Ok(response)
}

async fn answer(
    context: &Context,
    request: hyper::Request<Incoming>,
    routes: &TowerToHyperService<Router>,
    id: &str,
) -> Response {
    let checked = check_host(request.version(), request.headers())
        .and_then(|()| context.site.check(request.uri(), request.headers()))
        .and_then(|()| check_coding(request.headers()));
    let mut response = match checked {
        // A panic would end the connection without an answer.
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
        // The account is not known here: refusals of admitted requests were logged within their own span.
        tracing::error_span!("request", id).in_scope(|| refusal.log());
        context.metrics.refused(refusal.code.as_str());
        *response.body_mut() = Bytes::from(refusal.body(id)).into();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        // Length of the empty body. hyper sets the new one.
        headers.remove(CONTENT_LENGTH);
    }
    response
}

/// Checks for exactly one `Host` in HTTP/1.1 (RFC 9112, 3.2), and at most one in HTTP/1.0.
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

/// Checks that the body has no transfer coding but `chunked` (RFC 9112, 6.1). hyper removes that one, which
/// is the last, and would pass on what the others have made of the content.
fn check_coding(headers: &HeaderMap) -> Result<(), Refusal> {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let is_chunked = |coding: &HeaderValue| coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked");
    match (codings.next(), codings.next()) {
        (None, _) => Ok(()),
        (Some(coding), None) if is_chunked(coding) => Ok(()),
        _ => {
            let message = "the only `Transfer-Encoding` of a body is `chunked`; send the content as it is";
            Err(Refusal::new(Code::Unsupported, message))
        }
    }
}

/// Returns the size of the body of a response.
fn body_bytes(response: &Response) -> u64 {
    // A download is streamed, and only its head has its size.
    let declared =
        response.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    response.body().size_hint().exact().or(declared).unwrap_or_default()
}
