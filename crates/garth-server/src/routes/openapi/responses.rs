//! Responses in the description: the answer of each call, and the refusals that all calls share.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use garth_engine::ErrorKind;
use serde_json::{Map, Value, json};

use super::schemas::Answers;
use crate::errors::Code;
use crate::routes::route::{Method, Route, Run};
use crate::routes::tree_calls::stream::LAST_EVENT_ID;

/// Statuses of refusals of requests that reach no call.
const OF_NO_CALL: [StatusCode; 3] =
    [StatusCode::METHOD_NOT_ALLOWED, StatusCode::URI_TOO_LONG, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE];

/// Statuses of refusals of any request, also without a key.
const OF_ANY_REQUEST: [StatusCode; 4] = [
    StatusCode::BAD_REQUEST,
    StatusCode::FORBIDDEN,
    StatusCode::INTERNAL_SERVER_ERROR,
    StatusCode::NOT_IMPLEMENTED,
];

/// Returns the responses of a call, by status.
pub(super) fn responses_of(route: &Route, answers: &mut Answers) -> Value {
    let mut responses = successes(route, answers);
    for status in refusals(route) {
        let name = format!("#/components/responses/{}", response_name(status));
        responses.insert(status.as_str().to_owned(), json!({"$ref": name}));
    }
    Value::Object(responses)
}

fn successes(route: &Route, answers: &mut Answers) -> Map<String, Value> {
    let mut responses = Map::new();
    if route.headers.iter().any(|header| header.name == LAST_EVENT_ID) {
        let content = json!({"text/event-stream": {"schema": {"type": "string"}}});
        let description = "Server-sent events, until the client closes the connection.";
        responses.insert("200".to_owned(), json!({"description": description, "content": content}));
        return responses;
    }
    if matches!(route.run, Run::Download(_)) {
        let schema = json!({"type": "string", "format": "binary"});
        // The type is the stored one. Clients look for one that they handle.
        let content = json!({"*/*": {"schema": schema}, "application/octet-stream": {"schema": schema}});
        let headers =
            json!({"ETag": {"description": "Entity tag of the bytes.", "schema": {"type": "string"}}});
        for (status, description) in
            [("200", "All bytes."), ("206", "The range of bytes that was asked for.")]
        {
            let response = json!({"description": description, "headers": headers, "content": content});
            responses.insert(status.to_owned(), response);
        }
        let known = json!({"description": "The client has these bytes.", "headers": headers});
        responses.insert("304".to_owned(), known);
        return responses;
    }
    let content = match route.run {
        // Of the calls without key, only the metrics are no JSON.
        Run::Keyless(..) if route.answer.is_none() => json!({"text/plain": {"schema": {"type": "string"}}}),
        _ => json!({"application/json": {"schema": answers.schema(route)}}),
    };
    responses.insert("200".to_owned(), json!({"description": "Success.", "content": content}));
    if matches!((route.method, &route.run), (Method::Put | Method::Patch, Run::Upload(_))) {
        let created = json!({"description": "The file was created.", "content": content});
        responses.insert("201".to_owned(), created);
    }
    responses
}

/// Returns the statuses of the refusals of a call.
fn refusals(route: &Route) -> Vec<StatusCode> {
    if let Run::Keyless(_, further) = route.run {
        return [&OF_ANY_REQUEST[..], further].concat();
    }
    let has = |name: &str| route.headers.iter().any(|header| header.name == name);
    let further = [
        (StatusCode::PRECONDITION_FAILED, has("if-match")),
        (StatusCode::RANGE_NOT_SATISFIABLE, has("range")),
    ];
    let statuses = codes().into_keys().filter(|status| !OF_NO_CALL.contains(status));
    let statuses = statuses.filter(|status| {
        let known = further.iter().find(|(further, _)| further == status);
        known.is_none_or(|(_, is_possible)| *is_possible)
    });
    statuses.collect()
}

/// Returns the codes of each status.
fn codes() -> BTreeMap<StatusCode, Vec<&'static str>> {
    let mut codes: BTreeMap<StatusCode, Vec<&'static str>> = BTreeMap::new();
    for row in Code::ALL.iter().map(|code| code.row()) {
        for status in [row.status].iter().chain(row.further_statuses) {
            codes.entry(*status).or_default().push(row.name);
        }
    }
    codes
}

fn response_name(status: StatusCode) -> String {
    format!("Error{}", status.as_u16())
}

/// Returns the responses of refusals, by name.
pub(super) fn error_responses() -> Map<String, Value> {
    let response = |(status, codes): (StatusCode, Vec<&'static str>)| {
        let listed: Vec<String> = codes.iter().map(|code| format!("`{code}`")).collect();
        let reason = status.canonical_reason().unwrap_or("Failure");
        let id = [("X-Request-Id", "Id of the request, also in the log.")];
        let headers = id.iter().chain(headers_of(status)).map(|(name, meaning)| {
            ((*name).to_owned(), json!({"description": meaning, "schema": {"type": "string"}}))
        });
        let response = json!({
            "description": format!("{reason}: {}.", listed.join(", ")),
            "x-codes": codes,
            "headers": Value::Object(headers.collect()),
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
        });
        (response_name(status), response)
    };
    codes().into_iter().map(response).collect()
}

/// Returns the headers of the refusals with a status, with their meanings.
fn headers_of(status: StatusCode) -> &'static [(&'static str, &'static str)] {
    match status {
        StatusCode::UNAUTHORIZED => &[("WWW-Authenticate", "`Bearer`.")],
        StatusCode::METHOD_NOT_ALLOWED => &[("Allow", "Methods of the route.")],
        StatusCode::RANGE_NOT_SATISFIABLE => &[("Content-Range", "Size of the file: `bytes */1000`.")],
        StatusCode::TOO_MANY_REQUESTS => &[
            ("Retry-After", "Seconds after which to repeat the call."),
            ("X-RateLimit-Limit", "Calls of this class that the key may make in a minute."),
            ("X-RateLimit-Remaining", "Calls of this class that the key may make now."),
            ("X-RateLimit-Reset", "Seconds until the key may make all of them."),
        ],
        StatusCode::SERVICE_UNAVAILABLE => {
            &[("Retry-After", "Seconds after which to repeat the call, where the server can tell.")]
        }
        _ => &[],
    }
}

/// Returns the schema of the envelope of refusals.
pub(super) fn envelope() -> Value {
    let codes: Vec<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
    let kinds: Vec<&str> = ErrorKind::ALL.iter().map(|kind| kind.as_str()).collect();
    json!({
        "type": "object",
        "description": "Envelope of a refusal.",
        "required": ["error"],
        "additionalProperties": false,
        "properties": {"error": {
            "type": "object",
            "description": "Reason for the refusal.",
            "required": ["code", "kind", "message", "request_id"],
            "additionalProperties": false,
            "properties": {
                "code": {"type": "string", "enum": codes, "description": "Code, by which a client decides what to do."},
                "kind": {"type": "string", "enum": kinds, "description": "Kind of the error, as in the library."},
                "path": {"type": "string", "description": "Path or key that the error is about, where it may be named."},
                "message": {"type": "string", "description": "Reason, and what to do. Its words may change."},
                "request_id": {"type": "string", "description": "Id of the request, also in the log."},
            },
        }},
    })
}
