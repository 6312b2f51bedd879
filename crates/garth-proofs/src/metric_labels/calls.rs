//! Calls of one account, with what they add to the metrics.

use std::time::Duration;

use garth_testkit::proof::{Proven, hold};
use serde_json::{Value, json};

use super::figures::HandCount;
use crate::in_process::InProcessServer;
use crate::served::{Connection, Request, broken_off};

/// Start of the names of accounts, agents, users, sessions, paths and methods.
pub(super) const NAME: &str = "canary";
/// Accounts among which one stores a large file.
const LARGE_EACH: u64 = 100;
/// Length of such a file.
const LARGE: usize = 300_000;
/// Time after which an address may send one more wrong key without a delay.
const WRONG_KEY_TIME: Duration = Duration::from_secs(6);

/// Call with its route, the label of its method, its status and the code of its refusal.
struct Call {
    request: Request,
    route: &'static str,
    method: &'static str,
    status: u16,
    code: Option<&'static str>,
}

impl Call {
    fn ok(request: Request, route: &'static str) -> Self {
        Self { request, route, method: "POST", status: 200, code: None }
    }

    fn refused(
        request: Request,
        (route, method): (&'static str, &'static str),
        (status, code): (u16, &'static str),
    ) -> Self {
        Self { request, route, method, status, code: Some(code) }
    }
}

/// Returns the name of an account.
pub(super) fn account(number: u64) -> String {
    format!("{NAME}{number}")
}

/// Makes the calls of an account and counts them. Returns their number.
///
/// # Errors
/// An answer with another status.
pub(super) fn make_calls(
    server: &InProcessServer,
    (number, key): (u64, &str),
    hand: &mut HandCount,
) -> Proven<u64> {
    // The wrong key of each account is refused without a delay.
    server.clock.advance(WRONG_KEY_TIME);
    let mut connection = Connection::open(&server.address)?;
    hand.add("garth_connections_total", 1);
    let mut calls = calls_of(&account(number), key);
    if number.is_multiple_of(LARGE_EACH) || number == 1 {
        let file = Request::new("PUT", format!("/v1/fs/{NAME}{number}/file")).key(key).body(vec![7; LARGE]);
        calls.push(Call { method: "PUT", status: 201, ..Call::ok(file, "/v1/fs/{*path}") });
        hand.add("garth_uploads_total", 1);
        hand.add("garth_upload_bytes_total", LARGE);
    }
    for call in &calls {
        let (request, read) = (&call.request, connection.bytes_read());
        let answer = connection.ask(request).map_err(|error| broken_off(request, &error))?;
        hold(answer.status == call.status, || format!("{} is answered {}", request.name(), answer.shown()))?;
        hand.add("garth_received_bytes_total", request.bytes().len());
        let answered = (call.route, call.method, call.status);
        hand.count_answer(answered, connection.bytes_read() - read, answer.body.len());
        if let Some(code) = call.code {
            hand.add(format!("garth_refusals_total{{code=\"{code}\"}}"), 1);
        }
    }
    hand.add("garth_wrong_keys_total", 1);
    Ok(calls.len() as u64)
}

/// Returns the calls of each account.
fn calls_of(name: &str, key: &str) -> Vec<Call> {
    let post = |call: &str, body: Value| Request::post(call, &body).key(key);
    let (path, session) = (format!("/{name}/secret"), json!({"agent": name, "user": name, "name": name}));
    let message = json!({
        "agent": name, "user": name, "name": name,
        "messages": [{"role": "user", "content": format!("Tea for {name}.")}],
    });
    let no_file = Request::new("GET", format!("/v1/fs/{name}/none")).key(key);
    let wrong = Request::post("list", &json!({})).key(&format!("garth_{name}"));
    vec![
        Call::ok(post("put", json!({"path": path, "value": 1, "agent_id": name})), "/v1/put"),
        Call::ok(post("get", json!({"path": path, "agent_id": name})), "/v1/get"),
        Call::ok(post("search", json!({"query": name})), "/v1/search"),
        Call::ok(post("sessions/create", session), "/v1/sessions/create"),
        Call::ok(post("sessions/append", message), "/v1/sessions/append"),
        Call::refused(post("get", json!({})), ("/v1/get", "POST"), (400, "VALIDATION_ERROR")),
        Call::refused(no_file, ("/v1/fs/{*path}", "GET"), (404, "NOT_FOUND")),
        Call::refused(Request::new("GET", format!("/{name}")), ("none", "GET"), (404, "NOT_FOUND")),
        Call::refused(
            Request::new(name.to_uppercase(), "/v1/put"),
            ("/v1/put", "other"),
            (405, "METHOD_NOT_ALLOWED"),
        ),
        Call::refused(wrong, ("/v1/list", "POST"), (401, "UNAUTHORIZED")),
    ]
}
