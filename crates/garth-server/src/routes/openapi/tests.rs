//! The description against the table of routes. This file is not packaged.

use std::collections::BTreeSet;

use super::*;
use crate::errors::Code;

fn operations() -> Vec<(String, Value)> {
    let document = document();
    let paths = document["paths"].as_object().unwrap();
    let named = paths.iter().flat_map(|(path, item)| {
        let of_path = item.as_object().unwrap().iter();
        of_path
            .map(move |(method, operation)| (format!("{} {path}", method.to_uppercase()), operation.clone()))
    });
    named.collect()
}

/// Returns every schema in a value, also those in other schemas.
fn objects(value: &Value) -> Vec<&Map<String, Value>> {
    match value {
        Value::Object(object) => std::iter::once(object).chain(object.values().flat_map(objects)).collect(),
        Value::Array(items) => items.iter().flat_map(objects).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn description_has_every_call_with_its_fields() {
    let (document, operations) = (document(), operations());
    assert_eq!(operations.len(), routes().count());
    for route in routes() {
        let name = format!("{} {}", route.method.as_str(), template(route.path));
        let operation = &operations.iter().find(|(known, _)| *known == name).unwrap().1;
        let body = &operation["requestBody"]["content"]["application/json"]["schema"]["$ref"];
        let schema = body.as_str().map(|body| document.pointer(&body[1..]).unwrap());
        for field in route.field_groups().flatten() {
            let (shown, is_required) = match schema {
                Some(schema) => {
                    let required = schema["required"].as_array().cloned().unwrap_or_default();
                    (&schema["properties"][field.name], required.contains(&json!(field.name)))
                }
                None => {
                    let parameters = operation["parameters"].as_array().unwrap();
                    let is_this =
                        |parameter: &&Value| parameter["name"] == field.name && parameter["in"] == "query";
                    let parameter = parameters.iter().find(is_this).unwrap();
                    (&parameter["schema"], parameter["required"] == true)
                }
            };
            assert!(shown.is_object(), "{name}: {}", field.name);
            assert_eq!(is_required, field.is_required, "{name}: {}", field.name);
            assert_eq!(shown.get("default").cloned(), field.default.map(|default| default()), "{name}");
        }
    }
}

#[test]
fn operations_have_distinct_names_and_known_tags() {
    let mut ids = BTreeSet::new();
    for (name, operation) in operations() {
        let id = operation["operationId"].as_str().unwrap().to_owned();
        assert!(id.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}: {id}");
        assert!(ids.insert(id), "{name}");
        let tag = operation["tags"][0].as_str().unwrap().to_owned();
        assert!(tag != "service" || !name.contains("/v1/"), "{name} has no tag: add it to `TAGS`");
    }
    for id in ["kv_put", "tree_fetch_many", "recall", "fs_get", "fs_put", "uploads_put", "healthz"] {
        assert!(ids.contains(id), "{id}");
    }
}

#[test]
fn viewers_can_show_summaries_and_license_as_they_are() {
    for (name, operation) in operations() {
        assert!(!operation["summary"].as_str().unwrap().contains('`'), "{name}");
    }
    assert_eq!(document()["info"]["license"], json!({"name": "MIT OR Apache-2.0"}));
}

#[test]
fn references_lead_to_schemas_with_plain_names() {
    let document = document();
    for object in objects(&document) {
        if let Some(reference) = object.get("$ref").and_then(Value::as_str) {
            assert!(document.pointer(&reference[1..]).is_some(), "{reference}");
        }
    }
    for name in document["components"]["schemas"].as_object().unwrap().keys() {
        // A digit at the end is one that keeps two types of one name apart: rename one of them.
        assert!(name.bytes().all(|byte| byte.is_ascii_alphabetic()), "{name}");
        assert!(name.starts_with(|first: char| first.is_ascii_uppercase()), "{name}");
    }
}

#[test]
fn only_null_is_an_alternative() {
    let document = document();
    for object in objects(&document) {
        assert!(!object.contains_key("oneOf") && !object.contains_key("allOf"), "{object:?}");
        if let Some(variants) = object.get("anyOf").and_then(Value::as_array) {
            assert!(variants.len() == 2 && variants[1] == json!({"type": "null"}), "{object:?}");
        }
    }
}

#[test]
fn objects_say_whether_they_have_further_fields() {
    let document = document();
    let is_object = |schema: &&Map<String, Value>| schema.get("type") == Some(&json!("object"));
    for object in objects(&document).into_iter().filter(is_object) {
        assert!(object.contains_key("additionalProperties"), "{object:?}");
    }
}

#[test]
fn each_code_is_described_with_its_status() {
    let document = document();
    for row in Code::ALL.iter().map(|code| code.row()) {
        for status in [row.status].iter().chain(row.further_statuses) {
            let response = format!("Error{}", status.as_u16());
            let codes = document["components"]["responses"][&response]["x-codes"].as_array().unwrap();
            assert!(codes.contains(&json!(row.name)), "{}", row.name);
        }
    }
}

#[test]
fn calls_without_key_describe_their_refusals() {
    let document = document();
    let statuses = |path: &str| {
        let responses = document["paths"][path]["get"]["responses"].as_object().unwrap();
        responses.keys().map(String::as_str).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(statuses("/healthz"), "200 400 403 500 501");
    assert_eq!(statuses("/readyz"), "200 400 403 500 501 503");
    assert_eq!(statuses("/metrics"), "200 400 401 403 404 500 501");
}

#[test]
fn equal_builds_describe_the_same() {
    assert_eq!(text(), text());
    assert!(text().starts_with("{\n") && text().ends_with("}\n"));
}
