//! Description of the HTTP API in OpenAPI 3.1, generated from the table of routes: the fields that the parser
//! reads, the schemas of the answers, and the codes of refusals. It is specified in
//! `docs/specs/http-description.md`.

mod items;
mod names;
pub(crate) mod requests;
mod responses;
mod schemas;
mod variants;

use serde_json::{Map, Value, json};

use self::names::{TAGS, operation_id, tag, template};
use self::requests::Requests;
use self::responses::{error_responses, responses_of};
use self::schemas::Answers;
use super::reference::{BodyReference, body_of};
use super::route::Route;
use super::table::{routes, routes_by_path};
use crate::limits::Limits;

/// Returns the description of every call. Equal builds return equal descriptions.
pub fn document() -> Value {
    let (mut answers, mut requests) = (Answers::new(), Requests::default());
    let mut paths = Map::new();
    for (path, routes) in routes_by_path() {
        let operations = routes.into_iter().map(|route| {
            let method = route.method.as_str().to_ascii_lowercase();
            (method, operation(route, &mut answers, &mut requests))
        });
        paths.insert(template(path), Value::Object(operations.collect()));
    }
    let used = TAGS.iter().filter(|(name, _)| routes().any(|route| tag(route) == *name));
    let tags: Vec<Value> =
        used.map(|(name, meaning)| json!({"name": name, "description": meaning})).collect();
    let (mut schemas, errors) = (answers.into_schemas(&Value::Object(paths.clone())), error_responses());
    schemas.insert("Error".to_owned(), responses::envelope());
    schemas.append(&mut requests.into_schemas());
    schemas.append(&mut items::schemas());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "garth",
            "version": env!("CARGO_PKG_VERSION"),
            "description": INTRODUCTION,
            // Without `identifier`: viewers link it as the name of one license.
            "license": {"name": "MIT OR Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "This server."}],
        "security": [{"bearer": []}],
        "tags": tags,
        "paths": paths,
        "components": {
            "securitySchemes": {"bearer": {
                "type": "http", "scheme": "bearer", "description": "API key. It selects the account.",
            }},
            "responses": errors,
            "schemas": schemas,
        },
    })
}

/// Returns the description as text, with a line feed at its end: `docs/openapi.json`.
pub fn text() -> String {
    format!("{:#}\n", document())
}

const INTRODUCTION: &str = "\
Durable home of AI agents: keys and values, files, memories, sessions, contexts, prompts and media.

A body in JSON is one object. A field that a call does not have, one that occurs twice, and one of another type or \
beyond its bounds is refused with `VALIDATION_ERROR`. `null` is the same as leaving a field out, unless the field \
accepts any JSON. A write can be repeated with the same `Idempotency-Key`: it is applied once, and each repeat gets \
the first answer. Lists return pages: while an answer has `next_cursor`, send it as `cursor` for the next page. Failed \
calls return a status, and a code in the envelope of `Error`. Where the server limits the calls of a key, each answer \
has the headers `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset`.";

fn operation(route: &Route, answers: &mut Answers, requests: &mut Requests) -> Value {
    let id = operation_id(route);
    let mut operation = Map::from_iter([
        ("operationId".to_owned(), json!(id)),
        ("tags".to_owned(), json!([tag(route)])),
        // Plain text: only the description is Markdown.
        ("summary".to_owned(), json!(route.summary.trim().replace('`', ""))),
        ("description".to_owned(), json!(description(route))),
        ("responses".to_owned(), responses_of(route, answers)),
    ]);
    let parameters = requests::parameters(route);
    if !parameters.is_empty() {
        operation.insert("parameters".to_owned(), Value::Array(parameters));
    }
    if let Some(body) = requests.body(route, &id) {
        operation.insert("requestBody".to_owned(), body);
    }
    match route.scopes {
        [] => operation.insert("security".to_owned(), json!([])),
        scopes => {
            let scopes: Vec<&str> = scopes.iter().map(|scope| scope.as_str()).collect();
            operation.insert("x-scopes".to_owned(), json!(scopes))
        }
    };
    if body_of(route) == BodyReference::Json {
        operation.insert("x-max-body-bytes".to_owned(), json!(route.max_body(&Limits::default())));
    }
    let prefixes = requests::header_prefixes(route);
    if !prefixes.is_empty() {
        operation.insert("x-header-prefixes".to_owned(), Value::Array(prefixes));
    }
    Value::Object(operation)
}

/// Returns the summary of a call and what it needs.
fn description(route: &Route) -> String {
    let scopes: Vec<String> = route.scopes.iter().map(|scope| format!("`{}`", scope.as_str())).collect();
    let needs = match &*scopes {
        [] => "Needs no key.".to_owned(),
        [one] => format!("Needs the scope {one}."),
        all => format!("Needs the scopes {}.", all.join(" and ")),
    };
    let mut text = format!("{}\n\n{needs}", route.summary.trim());
    for header in route.headers.iter().filter(|header| header.name.ends_with('*')) {
        text.push_str(&format!("\n\nHeaders `{}`: {}", header.name, header.meaning));
    }
    text
}

#[cfg(test)]
mod tests;
