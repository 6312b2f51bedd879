//! The table of routes: the reference that is made from it, the scopes that each call takes, fields that a call
//! does not have, and writes that run once.

use garth_server::reference::{self, BodyReference, CallReference, FieldReference};

use super::harness::Server;

/// Calls that take JSON.
fn json_calls() -> impl Iterator<Item = CallReference> {
    reference::calls().into_iter().filter(|call| call.body == BodyReference::Json)
}

/// Path of a call without `/v1/`, of agent `scout`.
fn path(call: &CallReference) -> String {
    call.path.trim_start_matches("/v1/").replace("{agent}", "scout")
}

#[test]
fn every_call_refuses_fields_that_it_does_not_have_and_names_the_nearest() {
    let server = Server::start();
    for call in json_calls() {
        for field in &call.fields {
            let (name, mistyped) = (field.name, format!("{}x", field.name));
            let message =
                server.post(&path(&call), format!("{{\"{mistyped}\":1}}")).refused(400, "VALIDATION_ERROR");
            let expected = format!("\"{mistyped}\" is not a field of this call; did you mean \"{name}\"?");
            assert_eq!(message, expected, "{}", call.path);
        }
    }
    let message = server.post("put", r#"{"path":"/a","value":1,"ttl":60}"#).refused(400, "VALIDATION_ERROR");
    assert_eq!(message, r#""ttl" is not a field of this call; did you mean "ttl_seconds"?"#);
    assert_eq!(server.get("/a"), r#"{"found":false}"#);
}

#[test]
fn every_call_refuses_a_field_that_is_given_twice_or_has_another_type() {
    let server = Server::start();
    for call in json_calls() {
        for field in call.fields.iter().filter(|field| !field.r#type.is_empty()) {
            let name = field.name;
            let twice = server.post(&path(&call), format!("{{\"{name}\":null,\"{name}\":null}}"));
            assert_eq!(twice.refused(400, "VALIDATION_ERROR"), format!("\"{name}\" is given twice"));
            let other = if field.r#type == "object" { "[\"\"]" } else { "{\"\":[]}" };
            let required = call.fields.iter().filter(|other| other.required && other.name != name);
            // Fields are read in the order of the declaration: those before have what their type takes.
            let required = required.map(|field| format!("\"{}\":{}", field.name, example(field)));
            let fields: Vec<String> = required.chain([format!("\"{name}\":{other}")]).collect();
            let message = server.post(&path(&call), format!("{{{}}}", fields.join(","))).envelope();
            assert!(message.starts_with(&format!("\"{name}\" must be ")), "{}: {message}", call.path);
        }
    }
}

/// A value of the type of a field.
fn example(field: &FieldReference) -> String {
    match (field.r#type, field.words.first()) {
        (_, Some(word)) => format!("\"{word}\""),
        ("integer" | "number", _) => "1".to_owned(),
        ("boolean", _) => "true".to_owned(),
        ("object", _) => "{}".to_owned(),
        ("array of strings" | "array of objects", _) => "[]".to_owned(),
        _ => "\"a\"".to_owned(),
    }
}

#[test]
fn a_query_on_a_call_in_json_is_refused_and_not_ignored() {
    let server = Server::start();
    let headers = format!("authorization: Bearer {}\r\n", server.key);
    for call in json_calls() {
        let target = format!("/v1/{}?limit=1", path(&call));
        let message = server.request("POST", &target, &headers, b"{}").refused(400, "VALIDATION_ERROR");
        assert!(message.contains("takes no query"), "{message}");
    }
}

#[test]
fn a_path_without_a_route_names_the_nearest_route() {
    let server = Server::start();
    for (path, nearest) in [
        ("sesions/append", "POST /v1/sessions/append"),
        ("gett", "POST /v1/get"),
        ("agents/scout/skill/list", "POST /v1/agents/{agent}/skills/list"),
        ("nodes/remove", "POST /v1/nodes/move"),
    ] {
        let message = server.post(path, "{}").refused(404, "NOT_FOUND");
        assert!(message.contains(&format!("did you mean {nearest}?")), "{path}: {message}");
    }
    let message = server.post("completely/other/things", "{}").refused(404, "NOT_FOUND");
    assert!(!message.contains("did you mean") && message.contains("http-reference"), "{message}");
}

#[test]
fn a_bad_idempotency_key_is_refused_by_every_write_and_ignored_by_every_read() {
    let server = Server::start();
    let headers = format!("authorization: Bearer {}\r\nidempotency-key: a b\r\n", server.key);
    for call in json_calls() {
        let message = server.request("POST", &format!("/v1/{}", path(&call)), &headers, b"{}").text();
        assert_eq!(message.contains("Idempotency-Key"), call.writes, "{}: {message}", call.path);
        assert_eq!(call.headers.iter().any(|header| header.name == "idempotency-key"), call.writes);
    }
    let upload = "/v1/agents/scout/media?session_key=agent:scout:main";
    let message = server.request("POST", upload, &headers, b"a").refused(400, "VALIDATION_ERROR");
    assert!(message.contains("Idempotency-Key"), "{message}");
}

/// Written by `GARTH_WRITE_REFERENCE=1 cargo nextest run -p garth-server the_reference_is_that_of_the_table`.
#[test]
fn the_reference_is_that_of_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/specs/http-reference.md");
    if std::env::var_os("GARTH_WRITE_REFERENCE").is_some() {
        std::fs::write(path, reference::page()).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap();
    let command =
        "GARTH_WRITE_REFERENCE=1 cargo nextest run -p garth-server the_reference_is_that_of_the_table";
    assert!(
        written == reference::page(),
        "docs/specs/http-reference.md is out of date; write it with\n{command}"
    );
}
