//! Schemas of answers in the description, as clients and generators of clients read them best: alternatives
//! of an answer become one object with optional fields, words become an enumeration, and an object has no
//! fields but those that it lists.

use std::collections::BTreeSet;

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::variants::unified;
use crate::routes::route::Route;

/// Place of the schemas in the description.
const PLACE: &str = "#/components/schemas/";

/// Schemas of the answers so far.
pub(super) struct Answers(SchemaGenerator);

impl Answers {
    /// Returns an empty set.
    pub(super) fn new() -> Self {
        let settings = SchemaSettings::draft2020_12().for_serialize().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        });
        Self(settings.into_generator())
    }

    /// Returns the schema of the answer of a call, usually a reference.
    pub(super) fn schema(&mut self, route: &Route) -> Value {
        match route.answer {
            Some(answer) => {
                let schema = answer(&mut self.0).to_value();
                plain(schema, self.0.definitions())
            }
            None => json!({}),
        }
    }

    /// Returns the schemas that `paths` refer to, and those that they refer to, by name.
    pub(super) fn into_schemas(mut self, paths: &Value) -> Map<String, Value> {
        let known = self.0.take_definitions(false);
        let all = known.iter().map(|(name, schema)| (renamed(name), plain(schema.clone(), &known)));
        let mut all: Map<String, Value> = all.collect();
        let (mut named, mut found) = (BTreeSet::new(), names(paths));
        while let Some(name) = found.pop() {
            if let Some(schema) = all.get(&name).filter(|_| named.insert(name.clone())) {
                found.append(&mut names(schema));
            }
        }
        all.retain(|name, _| named.contains(name));
        all
    }
}

/// Returns the names of the schemas that a value refers to.
fn names(value: &Value) -> Vec<String> {
    match value {
        Value::Object(object) => {
            let reference = object.get("$ref").and_then(Value::as_str);
            let own = reference.and_then(|reference| reference.strip_prefix(PLACE)).map(str::to_owned);
            own.into_iter().chain(object.values().flat_map(names)).collect()
        }
        Value::Array(items) => items.iter().flat_map(names).collect(),
        _ => Vec::new(),
    }
}

/// Returns the name of a schema in the description. Generic types of the standard library have long names.
fn renamed(name: &str) -> String {
    match name {
        "Range_of_uint64" => "Range".to_owned(),
        name => name.to_owned(),
    }
}

/// Returns the schema that a reference of `schemars` leads to.
fn referred<'k>(schema: &Value, known: &'k Map<String, Value>) -> Option<&'k Value> {
    known.get(schema.get("$ref")?.as_str()?.strip_prefix(PLACE)?)
}

/// Returns a schema of `schemars` in the form of the description. `known` are the schemas by name, as
/// `schemars` wrote them.
fn plain(schema: Value, known: &Map<String, Value>) -> Value {
    let mut object = match schema {
        Value::Object(object) => object,
        // Any JSON.
        Value::Bool(true) => return json!({}),
        other => return other,
    };
    for (keyword, value) in &mut object {
        let part = value.take();
        *value = match &**keyword {
            "properties" => match part {
                Value::Object(parts) => {
                    let parts = parts.into_iter().map(|(name, part)| (name, plain(part, known)));
                    Value::Object(parts.collect())
                }
                other => other,
            },
            "anyOf" | "oneOf" | "allOf" | "prefixItems" => match part {
                Value::Array(parts) => parts.into_iter().map(|part| plain(part, known)).collect(),
                other => other,
            },
            "items" => plain(part, known),
            // Here, `true` and `false` are clearer than schemas.
            "additionalProperties" if part.is_object() => plain(part, known),
            "$ref" => part.as_str().map_or(Value::Null, |reference| json!(of_name(reference))),
            "format" => part.as_str().map_or(Value::Null, |format| json!(of_format(format))),
            "description" => part.as_str().map_or(Value::Null, |text| json!(prose(text))),
            _ => part,
        };
    }
    // Generators of clients handle an enumeration better.
    if let Some(word) = object.remove("const") {
        object.insert("enum".to_owned(), json!([word]));
    }
    let mut object = unified(object, &|schema: &Value| Some(plain(referred(schema, known)?.clone(), known)));
    let has_parts = ["anyOf", "oneOf", "allOf"].iter().any(|keyword| object.contains_key(*keyword));
    if object.contains_key("properties") && !has_parts && !object.contains_key("additionalProperties") {
        object.insert("additionalProperties".to_owned(), json!(false));
    }
    Value::Object(object)
}

/// Returns a reference with the name that the schema has in the description.
fn of_name(reference: &str) -> String {
    match reference.strip_prefix(PLACE) {
        Some(name) => format!("{PLACE}{}", renamed(name)),
        None => reference.to_owned(),
    }
}

/// Returns a format that OpenAPI defines. Unsigned numbers have formats of `schemars` alone, and a generator
/// of clients takes a number of an unknown format for one of 32 bits.
fn of_format(format: &str) -> &str {
    match format {
        "uint" | "uint32" | "uint64" | "int" => "int64",
        "uint8" | "uint16" | "int8" | "int16" => "int32",
        format => format,
    }
}

/// Returns a doc comment as prose: without line feeds inside a paragraph, and without links to code.
fn prose(comment: &str) -> String {
    let paragraphs = comment.split("\n\n").map(|paragraph| {
        let lines: Vec<&str> = paragraph.lines().map(str::trim).collect();
        without_links(&lines.join(" "))
    });
    paragraphs.collect::<Vec<_>>().join("\n\n")
}

/// Returns a text with the labels of links in place of links: a code span in brackets is one.
fn without_links(text: &str) -> String {
    let (mut shown, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once('[') {
        let Some((label, after)) = after.split_once(']') else { break };
        shown.push_str(before);
        let target = after.strip_prefix('(').and_then(|target| target.split_once(')'));
        match target {
            Some((_, after)) => {
                shown.push_str(label);
                rest = after;
            }
            None if label.starts_with('`') => {
                shown.push_str(label);
                rest = after;
            }
            None => {
                shown.push_str(&format!("[{label}]"));
                rest = after;
            }
        }
    }
    shown + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_become_prose() {
        assert_eq!(
            prose("One\nline, see [`Hit::score`](crate::Hit).\n\nTwo."),
            "One line, see `Hit::score`.\n\nTwo."
        );
        assert_eq!(prose("See [`Other`] and `[7,\"a\"]`."), "See `Other` and `[7,\"a\"]`.");
        assert_eq!(prose("No end of ["), "No end of [");
    }

    #[test]
    fn formats_and_any_json_become_those_of_openapi() {
        let schema = json!({
            "type": "object",
            "properties": {
                "any": true, "n": {"type": "integer", "format": "uint64"}, "w": {"type": "string", "const": "a"},
            },
        });
        let expected = json!({
            "type": "object", "additionalProperties": false,
            "properties": {
                "any": {}, "n": {"type": "integer", "format": "int64"}, "w": {"type": "string", "enum": ["a"]},
            },
        });
        assert_eq!(plain(schema, &Map::new()), expected);
        let open = json!({"type": "object", "properties": {}, "additionalProperties": true});
        assert_eq!(plain(open.clone(), &Map::new()), open);
    }
}
