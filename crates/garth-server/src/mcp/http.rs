//! The protocol over HTTP: `POST /mcp`. Each request stands alone. It is admitted, counted and takes its turn
//! as those of routes do; `rmcp` then checks its headers against its message, and calls the handler.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use bytes::Bytes;
use garth_engine::home::Admitted;
use http_body_util::{BodyExt as _, Full};
use rmcp::ServerHandler;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::choice::ToolChoice;
use super::envelope::{BrokenMessage, Envelope, INVALID_REQUEST};
use super::identity::identity_of;
use crate::answers::is_long;
use crate::auth::authorize;
use crate::body::{BodyLimit, drain, read_body};
use crate::compute::compute;
use crate::errors::{Code, Refusal};
use crate::metrics::Routed;
use crate::rate_limit::Allowance;
use crate::request::{RequestId, StoredBytes};
use crate::routes::client::Client;
use crate::routes::respond::with_key;
use crate::routes::served::{Served, SharedState};
use crate::routes::wrong_keys::delay;

/// Path of the service.
const PATH: &str = "/mcp";
/// Longest body that is parsed on the thread where it arrives.
const SMALL_BODY: usize = 4 << 10;
/// Longest body of a request that listens, in bytes. Its filter is kept as long as it lasts.
const MAX_FILTER: usize = 64 << 10;

/// Returns the router of the service. `handler_of` returns the handler of a request.
pub(super) fn router<H, F>(served: SharedState, handler_of: F) -> Router
where
    H: ServerHandler + Clone,
    F: Fn(Client, ToolChoice) -> H + Clone + Send + Sync + 'static,
{
    let serve = move |State(served): State<SharedState>, request: Request| {
        let handler_of = handler_of.clone();
        async move {
            let mut response = answer(served, request, &handler_of).await;
            response.extensions_mut().insert(Routed(PATH));
            response
        }
    };
    let service = post(serve).fallback(|State(served): State<SharedState>, request: Request| async move {
        let (head, body) = request.into_parts();
        drain(&served.limits, &head.headers, body);
        // Earlier revisions open a stream with `GET`, and end a session with `DELETE`; there are none.
        Refusal::wrong_method(Method::POST.to_string())
    });
    Router::new().route(PATH, service).with_state(served)
}

/// Admits a request, and answers it.
async fn answer<H, F>(served: SharedState, request: Request, handler_of: &F) -> Response
where
    H: ServerHandler + Clone,
    F: Fn(Client, ToolChoice) -> H + Sync,
{
    let (head, mut body) = request.into_parts();
    // Before the look-up, so that its time counts as passed.
    let looked = Instant::now();
    // Each tool has scopes of its own.
    let admitted = match authorize(&*served.home, &head.headers, &[]).await {
        Ok(admitted) => admitted,
        Err(denied) => {
            drain(&served.limits, &head.headers, body);
            delay(&served, &denied, &head).await;
            return denied.refusal.into_response();
        }
    };
    let mut allowance = None;
    let caller = (&served, &admitted, looked);
    let answered = answer_admitted(caller, &head, &mut body, &mut allowance, handler_of).await;
    drain(&served.limits, &head.headers, body);
    let mut response = with_key(answered.into_response(), &admitted);
    if let Some(allowance) = allowance {
        allowance.write(response.headers_mut());
    }
    response
}

async fn answer_admitted<H, F>(
    (served, admitted, looked): (&SharedState, &Admitted, Instant),
    head: &Parts,
    body: &mut Body,
    allowance: &mut Option<Allowance>,
    handler_of: &F,
) -> Result<Response, Refusal>
where
    H: ServerHandler + Clone,
    F: Fn(Client, ToolChoice) -> H + Sync,
{
    let (key, limits) = (admitted.key(), &*served.limits);
    let (asked, choice) = identity_of(&head.uri)?;
    // Files are written by arguments of tools.
    let max = limits.max_message_body.max(limits.max_body);
    let limit = BodyLimit { max, instead: None, room: &served.bodies, account: key.share(), limits };
    let body = read_body(&head.headers, body, limit).await?;
    let envelope = match parsed(served, key.share(), &body).await? {
        Ok(envelope) => envelope,
        Err(broken) => return Ok(response_to(broken, StatusCode::BAD_REQUEST)),
    };
    *allowance = served.calls.count(&key.id, Some(envelope.class()), served.home.env().now());
    allowance.as_ref().map_or(Ok(()), Allowance::check)?;
    if envelope.listens() && body.len() > MAX_FILTER {
        let message = format!("a subscription has at most {MAX_FILTER} bytes; name fewer files");
        return Err(Refusal::new(Code::PayloadTooLarge, message));
    }
    // A client that listens mostly waits.
    let turn = if envelope.listens() { None } else { served.calls.turn(key.share()).await? };
    let client = Client::new(Arc::clone(served), admitted.clone(), (head.headers.clone(), looked), asked)
        .in_turn(head.extensions.get::<RequestId>().copied(), turn);
    client.check()?;
    client.check_agent().await?;
    // Before the client is told that it listens: it must not miss a change after that.
    let client = if envelope.listens() { client.starting_now().await? } else { client };
    let handler = handler_of(client, choice);
    let is_small = body.len() <= SMALL_BODY;
    let (request, bytes) = (request_of(head, body.clone()), body.len());
    let service = StreamableHttpService::new(
        move || Ok(handler.clone()),
        Arc::new(NeverSessionManager::default()),
        config(served),
    );
    let handled = async move { service.handle(request).await };
    let response = match is_small {
        true => handled.await,
        false => compute(served.home.env(), key.share(), bytes, handled).await?,
    };
    // It holds room until its message is answered.
    drop(body);
    finished((served, key.share()), response.map(Body::new), envelope.id).await
}

fn config(served: &Served) -> StreamableHttpServerConfig {
    StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        // Names and origins are checked before any route.
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_sse_keep_alive(Some(served.limits.stream_heartbeat))
        .with_sse_retry(None)
        // The body was read within the limits of the server.
        .with_max_request_body_bytes(usize::MAX)
}

/// Returns the request for the library, without the API key, which it could log.
fn request_of(head: &Parts, body: Bytes) -> axum::http::Request<Full<Bytes>> {
    let mut request = axum::http::Request::new(Full::new(body));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = head.uri.clone();
    let headers = request.headers_mut();
    headers.clone_from(&head.headers);
    headers.remove(AUTHORIZATION);
    // A request of HTTP/1.0 has none, and the library requires one.
    headers.insert(HOST, HeaderValue::from_static("localhost"));
    if accepts_anything(headers) {
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    }
    request
}

/// Returns true if a client accepts every media type. The library looks for the names of two of them.
fn accepts_anything(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut ranges = values.flat_map(|value| value.split(','));
    // A weight of 0 would say that it does not.
    ranges.any(|range| range.trim() == "*/*")
}

/// Returns the response of the library as that of a route: a long answer holds room until it is sent, and a
/// plain text becomes an error of JSON-RPC.
async fn finished(
    (served, account): (&Served, &str),
    response: Response,
    id: Value,
) -> Result<Response, Refusal> {
    let (mut head, body) = response.into_parts();
    let content_type = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    if content_type == Some("text/event-stream") {
        // What it sends may contain anything.
        head.extensions.insert(StoredBytes);
        return Ok(Response::from_parts(head, body));
    }
    let is_json = content_type == Some("application/json");
    let bytes = body.collect().await.map_err(|error| Refusal::internal().because(error.to_string()))?;
    let bytes = bytes.to_bytes();
    if is_json || head.status.is_success() {
        let room = is_long(&bytes).then(|| served.answers.room_now(account, bytes.len())).flatten();
        let bytes = match room {
            Some(room) => room.hold(bytes),
            None => bytes,
        };
        return Ok(Response::from_parts(head, Body::from(bytes)));
    }
    let text = String::from_utf8_lossy(&bytes);
    // The library says so of JSON of another form, such as a number in place of a method.
    let status = match text.starts_with("fail to deserialize") {
        true => StatusCode::BAD_REQUEST,
        false => head.status,
    };
    let broken = BrokenMessage { id, code: INVALID_REQUEST, message: text.into_owned() };
    Ok(response_to(broken, status))
}

/// Returns the response to a message that `rmcp` does not get, or cannot read.
fn response_to(broken: BrokenMessage, status: StatusCode) -> Response {
    let BrokenMessage { id, code, message } = broken;
    let body = json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}});
    let json = HeaderValue::from_static("application/json");
    (status, [(CONTENT_TYPE, json)], body.to_string()).into_response()
}

/// Parses the envelope of a message; a long one on the threads that compute.
async fn parsed(
    served: &Served,
    account: &str,
    body: &Bytes,
) -> Result<Result<Envelope, BrokenMessage>, Refusal> {
    if body.len() <= SMALL_BODY {
        return Ok(Envelope::parse(body));
    }
    let (body, bytes) = (body.clone(), body.len());
    Ok(compute(served.home.env(), account, bytes, async move { Envelope::parse(&body) }).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_media_type_stands_for_both() {
        let accepts = |value: &'static str| {
            accepts_anything(&HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(value))]))
        };
        assert!(accepts("*/*") && accepts("application/json, */*"));
        assert!(!accepts("application/json") && !accepts("application/*") && !accepts("*/*;q=0"));
        assert!(!accepts_anything(&HeaderMap::new()));
    }
}
