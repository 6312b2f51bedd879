//! Check of the answers that the tests get against the description of the API.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock, Mutex};

use garth_engine::rule::schema::{Budget, Schema};
use serde_json::{Map, Value, json};

use super::harness::Reply;

static DOCUMENT: LazyLock<Value> = LazyLock::new(garth_server::openapi::document);
/// Compiled schemas, by their text in the description.
static COMPILED: Mutex<BTreeMap<String, Arc<Schema>>> = Mutex::new(BTreeMap::new());

/// Place of the schemas in the description.
const PLACE: &str = "#/components/schemas/";

/// Headers that only some refusals have.
const OF_REFUSALS: [&str; 4] = ["allow", "content-range", "retry-after", "www-authenticate"];

/// Panics if the answer to a request is not as the description says. Answers that are not JSON, and those to
/// bytes that are no request, pass.
pub(crate) fn check(request: &[u8], reply: &Reply) {
    if reply.header("content-type") != Some("application/json") || reply.body.is_empty() {
        return;
    }
    let Some((method, path)) = line(request) else { return };
    let name = format!("{method} {path}: {}", reply.status);
    let responses = operation(&method, &path).map(|operation| &operation["responses"]);
    let described = responses.map(|responses| &responses[reply.status.to_string()]);
    if reply.status >= 400 {
        let of_all = &DOCUMENT["components"]["responses"][format!("Error{}", reply.status)];
        // Refusals of requests that reach no call are those of no operation.
        let is_of_call = described.is_none_or(|described| *described != Value::Null);
        assert!(is_of_call || [405, 414, 431].contains(&reply.status), "{name} is not described");
        judge(&name, &of_all["content"]["application/json"]["schema"], reply);
        let code = &reply.json()["error"]["code"];
        let codes = of_all["x-codes"].as_array().unwrap_or_else(|| panic!("{name} is not described"));
        assert!(codes.contains(code), "{name}: {code} is not described");
        let headers = of_all["headers"].as_object().unwrap();
        for (header, _) in reply.headers.iter().filter(|(header, _)| OF_REFUSALS.contains(&&**header)) {
            let is_known = headers.keys().any(|known| known.eq_ignore_ascii_case(header));
            assert!(is_known, "{name}: {header} is not described");
        }
        return;
    }
    // The path of a page, which is no call.
    let Some(described) = described else { return };
    assert!(described.is_object(), "{name} is not described");
    // The content of a file in JSON has no schema.
    if let Some(content) = described["content"].get("application/json") {
        judge(&name, &content["schema"], reply);
    }
}

/// Returns the method and the path of a request.
fn line(request: &[u8]) -> Option<(String, String)> {
    let end = request.windows(2).position(|bytes| bytes == b"\r\n")?;
    let line = std::str::from_utf8(&request[..end]).ok()?;
    let mut parts = line.strip_suffix(" HTTP/1.1")?.split(' ');
    let (method, target) = (parts.next()?, parts.next()?);
    let path = target.split('?').next()?;
    (parts.next().is_none() && path.starts_with('/')).then(|| (method.to_lowercase(), path.to_owned()))
}

/// Returns the operation of a request: that of the path with the fewest arguments.
fn operation(method: &str, path: &str) -> Option<&'static Value> {
    let paths = DOCUMENT["paths"].as_object().unwrap();
    let fitting = paths.iter().filter(|(template, item)| fits(template, path) && item.get(method).is_some());
    let (_, item) = fitting.min_by_key(|(template, _)| template.matches('{').count())?;
    item.get(method)
}

fn fits(template: &str, path: &str) -> bool {
    // The path of a file has any number of segments.
    if let Some(start) = template.strip_suffix("{path}") {
        return path.starts_with(start);
    }
    let (asked, known): (Vec<&str>, Vec<&str>) = (path.split('/').collect(), template.split('/').collect());
    let fits = |(asked, known): (&&str, &&str)| known.starts_with('{') || asked == known;
    asked.len() == known.len() && asked.iter().zip(&known).all(fits)
}

fn judge(name: &str, schema: &Value, reply: &Reply) {
    let compiled = Arc::clone(
        COMPILED
            .lock()
            .unwrap()
            .entry(schema.to_string())
            .or_insert_with(|| Arc::new(compiled(name, schema))),
    );
    if let Err(wrong) = compiled.check_text(&reply.body, &mut Budget::new(u64::MAX)) {
        // The judge does not read numbers and nesting beyond those of common parsers, which values may have.
        let is_unread = wrong.what.starts_with("has to be JSON");
        assert!(is_unread, "{name} is not as described: {wrong}\n{}", reply.text());
    }
}

/// Compiles a schema, with those that it refers to.
fn compiled(name: &str, schema: &Value) -> Schema {
    let schemas = DOCUMENT["components"]["schemas"].as_object().unwrap();
    let (mut defined, mut found) = (BTreeSet::new(), referred(schema));
    let mut all = Map::new();
    while let Some(reference) = found.pop() {
        if defined.insert(reference.clone()) {
            found.extend(referred(&schemas[&reference]));
            all.insert(reference.clone(), judged(&schemas[&reference]));
        }
    }
    let mut text = judged(schema);
    text["$defs"] = Value::Object(all);
    Schema::compile(&text.to_string()).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn referred(schema: &Value) -> Vec<String> {
    match schema {
        Value::Object(object) => {
            let own = object.get("$ref").and_then(Value::as_str);
            let own = own.map(|reference| reference.strip_prefix(PLACE).unwrap().to_owned());
            own.into_iter().chain(object.values().flat_map(referred)).collect()
        }
        Value::Array(items) => items.iter().flat_map(referred).collect(),
        _ => Vec::new(),
    }
}

/// Returns a schema in the dialect of the judge: with its references, and its formats alone.
fn judged(schema: &Value) -> Value {
    let object = match schema {
        Value::Object(object) => object,
        Value::Array(items) => return items.iter().map(judged).collect(),
        other => return other.clone(),
    };
    let keywords = object.iter().filter_map(|(keyword, value)| {
        let value = match keyword.as_str() {
            "properties" => {
                let fields = value.as_object()?.iter();
                Value::Object(fields.map(|(name, schema)| (name.clone(), judged(schema))).collect())
            }
            "$ref" => json!(value.as_str()?.replace(PLACE, "#/$defs/")),
            "format" if value != "date-time" => return None,
            "enum" | "required" | "default" | "examples" => value.clone(),
            _ => judged(value),
        };
        Some((keyword.clone(), value))
    });
    Value::Object(keywords.collect())
}

#[test]
fn wrong_answers_are_found() {
    let reply = |status: u16, body: &str| Reply {
        status,
        headers: vec![("content-type".to_owned(), "application/json".to_owned())],
        body: body.as_bytes().to_vec(),
    };
    let request = b"POST /v1/put HTTP/1.1\r\n\r\n";
    let right = r#"{"ok":true,"version_id":"ver_1-2","created_at":"2026-01-27T00:00:00.000Z"}"#;
    check(request, &reply(200, right));
    for (status, body) in [
        (200, r#"{"ok":true,"version_id":"ver_1-2"}"#.to_owned()),
        (200, right.replace("true", "1")),
        (200, right.replace("{", r#"{"more":1,"#)),
        (201, right.to_owned()),
        (404, r#"{"error":{"code":"NOT_FOUND","message":"x"}}"#.to_owned()),
        (404, r#"{"error":{"code":"CONFLICT","message":"x","request_id":"req_1"}}"#.to_owned()),
    ] {
        let found = std::panic::catch_unwind(|| check(request, &reply(status, &body)));
        assert!(found.is_err(), "{status} {body}");
    }
}
