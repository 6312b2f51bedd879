//! The protocol over HTTP: `POST /mcp`. Each request stands alone. It is admitted, counted and takes its turn
//! as those of routes do; `rmcp` then checks its headers against its message, and calls the handler.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use bytes::Bytes;
use garth_engine::home::{Admitted, Scope};
use http_body_util::{BodyExt as _, Full};
use rmcp::ServerHandler;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::choice::ToolChoice;
use super::identity::identity_of;
use super::tools::TOOLS;
use crate::answers::is_long;
use crate::auth::authorize;
use crate::body::{BodyLimit, drain, read_body};
use crate::compute::compute;
use crate::errors::{Code, Refusal};
use crate::metrics::Routed;
use crate::rate_limit::{Allowance, CallClass};
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
/// Longest id of a message in bytes that an answer to a broken message repeats.
const MAX_ID: usize = 1 << 10;
/// Tools that read or compute much for a short request, besides those that need `search:read`.
const SEARCHES: [&str; 2] = ["glob", "grep"];

/// Code of JSON-RPC for a text that is not JSON.
const PARSE_ERROR: i32 = -32700;
/// Code of JSON-RPC for a message that is no request.
const INVALID_REQUEST: i32 = -32600;

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
        Err(broken) => return Ok(broken.into_response()),
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
    request
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
    Ok(BrokenMessage { status, id, code: INVALID_REQUEST, message: text.into_owned() }.into_response())
}

/// Message that `rmcp` does not get, or cannot read.
struct BrokenMessage {
    status: StatusCode,
    id: Value,
    code: i32,
    message: String,
}

impl BrokenMessage {
    fn into_response(self) -> Response {
        let Self { status, id, code, message } = self;
        let body = json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}});
        let json = HeaderValue::from_static("application/json");
        (status, [(CONTENT_TYPE, json)], body.to_string()).into_response()
    }
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

/// Part of a message by which its limits are chosen.
#[derive(Debug)]
struct Envelope {
    id: Value,
    method: String,
    /// Name of the tool that is called.
    tool: Option<String>,
}

#[derive(Deserialize)]
struct SentMessage<'a> {
    #[serde(default)]
    id: Value,
    #[serde(default)]
    method: String,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct SentParams {
    name: String,
}

impl Envelope {
    fn parse(body: &[u8]) -> Result<Self, BrokenMessage> {
        let broken = |code, message: String| BrokenMessage {
            status: StatusCode::BAD_REQUEST,
            id: Value::Null,
            code,
            message,
        };
        // An array would be read as the fields of the message, in their order.
        if body.trim_ascii_start().starts_with(b"[") {
            let message = "a request has one message; send those of a batch one by one";
            return Err(broken(INVALID_REQUEST, message.to_owned()));
        }
        let sent: SentMessage<'_> = serde_json::from_slice(body).map_err(|error| match error.is_data() {
            true => broken(INVALID_REQUEST, format!("the body is not a message of JSON-RPC: {error}")),
            false => broken(PARSE_ERROR, format!("the body is not valid JSON: {error}")),
        })?;
        let params = sent.params.filter(|_| sent.method == "tools/call");
        let params = params.and_then(|params| serde_json::from_str::<SentParams>(params.get()).ok());
        let id =
            Some(sent.id).filter(|id| id.is_number() || id.as_str().is_some_and(|id| id.len() <= MAX_ID));
        let tool = params.map(|params| params.name);
        Ok(Self { id: id.unwrap_or_default(), method: sent.method, tool })
    }

    /// Returns the class of the call, by which its key is limited.
    fn class(&self) -> CallClass {
        let tool = self.tool.as_deref().and_then(|name| TOOLS.iter().find(|tool| tool.name == name));
        match tool {
            Some(tool) if tool.scopes.contains(&Scope::SearchRead) || SEARCHES.contains(&tool.name) => {
                CallClass::Search
            }
            Some(tool) if tool.effect.writes() => CallClass::Write,
            // As the route that builds a prompt.
            None if self.method == "prompts/get" => CallClass::Search,
            _ => CallClass::Read,
        }
    }

    fn listens(&self) -> bool {
        self.method == "subscriptions/listen"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn envelope(body: &str) -> Result<Envelope, i32> {
        Envelope::parse(body.as_bytes()).map_err(|broken| broken.code)
    }

    #[test]
    fn envelope_chooses_the_limits_of_a_message() {
        let ls = r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"ls","arguments":{}}}"#;
        let ls = envelope(ls).unwrap();
        assert_eq!(
            (ls.id.clone(), ls.tool.as_deref(), ls.class()),
            ("a".into(), Some("ls"), CallClass::Read)
        );
        let listen = envelope(r#"{"id":1,"method":"subscriptions/listen"}"#).unwrap();
        assert!(listen.listens() && !ls.listens());
        let prompt = envelope(r#"{"id":1,"method":"prompts/get","params":{"name":"workspace"}}"#).unwrap();
        assert_eq!((prompt.class(), prompt.tool), (CallClass::Search, None));
    }

    #[test]
    fn broken_messages_have_codes() {
        for (body, code) in [
            ("", PARSE_ERROR),
            ("{", PARSE_ERROR),
            ("nope", PARSE_ERROR),
            ("[]", INVALID_REQUEST),
            (r#" [{"id":1,"method":"ping"}]"#, INVALID_REQUEST),
            (r#"{"method":1}"#, INVALID_REQUEST),
            ("1", INVALID_REQUEST),
        ] {
            assert_eq!(envelope(body).map(|_| ()), Err(code), "{body}");
        }
    }

    #[test]
    fn long_ids_are_not_repeated() {
        let long = format!(r#"{{"id":"{}","method":"ping"}}"#, "x".repeat(MAX_ID + 1));
        assert_eq!(envelope(&long).unwrap().id, Value::Null);
        assert_eq!(envelope(r#"{"id":{},"method":"ping"}"#).unwrap().id, Value::Null);
        assert_eq!(envelope(r#"{"id":7,"method":"ping"}"#).unwrap().id, 7);
    }
}
