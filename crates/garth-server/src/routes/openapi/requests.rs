//! Requests in the description: parameters and bodies, from the fields and headers that a call declares.

use serde_json::{Map, Value, json};

use super::items;
use super::names::{request_name, template};
use crate::fields::{Field, Kind};
use crate::routes::header::Header;
use crate::routes::reference::{BodyReference, body_of};
use crate::routes::route::Route;

/// Arguments of paths, with their meanings.
const ARGUMENTS: [(&str, &str); 4] = [
    ("agent", "Agent."),
    ("session_key", "Session key of the file."),
    ("file", "Name of the file."),
    ("path", "Path of the file without its first slash. A slash in it may be sent as `%2F`."),
];

/// Schemas of bodies, by name.
#[derive(Default)]
pub(super) struct Requests(Map<String, Value>);

impl Requests {
    /// Returns the body of a call, if it has one, and adds its schema.
    pub(super) fn body(&mut self, route: &Route, operation: &str) -> Option<Value> {
        match body_of(route) {
            BodyReference::None => None,
            BodyReference::Bytes => Some(json!({
                "required": true,
                "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
            })),
            BodyReference::Json => {
                let name = request_name(operation);
                let reference = format!("#/components/schemas/{name}");
                self.0.insert(name, object(route));
                Some(json!({
                    "required": true,
                    "content": {"application/json": {"schema": {"$ref": reference}}},
                }))
            }
        }
    }

    /// Returns the schemas.
    pub(super) fn into_schemas(self) -> Map<String, Value> {
        self.0
    }
}

/// Returns the schema of a body in JSON.
fn object(route: &Route) -> Value {
    let fields = || route.field_groups().flatten();
    let properties: Map<String, Value> =
        fields().map(|field| (field.name.to_owned(), described(field))).collect();
    let required: Vec<&str> = fields().filter(|field| field.is_required).map(|field| field.name).collect();
    let mut object = json!({
        "type": "object",
        "description": format!("Body of `{}`.", route.name()),
        "properties": properties,
        "additionalProperties": false,
    });
    if !required.is_empty() {
        object["required"] = json!(required);
    }
    object
}

/// Returns the parameters of a call in its path, its query and its headers.
pub(super) fn parameters(route: &Route) -> Vec<Value> {
    let path = template(route.path);
    let arguments = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let arguments = arguments.map(|name| {
        let meaning = ARGUMENTS.iter().find(|(known, _)| *known == name).map_or("", |(_, meaning)| *meaning);
        let schema = json!({"type": "string"});
        json!({"name": name, "in": "path", "required": true, "description": meaning, "schema": schema})
    });
    let is_query = body_of(route) != BodyReference::Json;
    let query = route.field_groups().flatten().filter(|_| is_query).map(|field| {
        let schema = schema(field);
        let (required, meaning) = (field.is_required, field.meaning.trim());
        json!({
            "name": field.name, "in": "query", "required": required, "description": meaning, "schema": schema,
        })
    });
    let headers = route.headers.iter().filter(|header| is_parameter(header)).map(|header| {
        let (required, schema) = (header.is_required, json!({"type": "string"}));
        json!({
            "name": header.name, "in": "header", "required": required, "description": header.meaning,
            "schema": schema,
        })
    });
    arguments.chain(query).chain(headers).collect()
}

/// Returns true if OpenAPI describes a header as a parameter: it takes the type of the content from the body,
/// and has no names with any ending.
fn is_parameter(header: &Header) -> bool {
    header.name != "content-type" && !header.name.ends_with('*')
}

/// Returns the beginnings of header names that a call accepts with any ending.
pub(super) fn header_prefixes(route: &Route) -> Vec<Value> {
    let prefixes = route.headers.iter().filter_map(|header| {
        let prefix = header.name.strip_suffix('*')?;
        Some(json!({"prefix": prefix, "description": header.meaning}))
    });
    prefixes.collect()
}

/// Returns the schema of a field with its meaning.
fn described(field: &Field) -> Value {
    let mut schema = schema(field);
    schema["description"] = json!(field.meaning.trim());
    schema
}

/// Returns the schema of a field: its type, bounds and default.
pub(crate) fn schema(field: &Field) -> Value {
    let mut schema = match field.kind {
        Kind::Text { of, min, max } => holding(of, text(min, max)),
        // A sequence may also be an integer. Clients get one type.
        Kind::Moment => holding("moment", json!({"type": "string"})),
        Kind::Words(words) => json!({"type": "string", "enum": words}),
        Kind::Time { .. } => json!({"type": "string", "format": "date-time"}),
        Kind::Integer { min, max } => integer(json!(min), json!(max)),
        Kind::Signed { min, max } => integer(json!(min), json!(max)),
        Kind::Pair { min, max } => {
            let mut pair = array(integer(json!(min), json!(max)), 2);
            pair["minItems"] = json!(2);
            pair
        }
        Kind::Number { min, max } => number(min, max),
        Kind::Flag => json!({"type": "boolean"}),
        Kind::Texts { of, max } => holding(of, array(json!({"type": "string"}), max)),
        Kind::Array { of, max } => holding(of, array(items::object(of), max)),
        Kind::Object { of, max } => {
            let mut object = json!({"type": "object", "additionalProperties": true});
            if max != usize::MAX {
                object["maxProperties"] = json!(max);
            }
            holding(of, object)
        }
        Kind::Json => json!({}),
    };
    if let Some(default) = field.default {
        schema["default"] = default();
    }
    schema
}

/// Adds the content of a string, of an object, or of each item of an array.
fn holding(of: &str, mut schema: Value) -> Value {
    if !of.is_empty() {
        schema["x-holds"] = json!(of);
    }
    schema
}

fn text(min: usize, max: usize) -> Value {
    let mut schema = json!({"type": "string"});
    if min > 0 {
        schema["minLength"] = json!(min);
    }
    if max != usize::MAX {
        schema["maxLength"] = json!(max);
    }
    schema
}

/// Returns the schema of an integer: 64 bits hold every bound.
fn integer(min: Value, max: Value) -> Value {
    let mut schema = json!({"type": "integer", "format": "int64"});
    schema["minimum"] = min;
    schema["maximum"] = max;
    schema
}

fn number(min: f64, max: f64) -> Value {
    let mut schema = json!({"type": "number", "format": "double"});
    if min > f64::MIN {
        schema["minimum"] = json!(min);
    }
    if max < f64::MAX {
        schema["maximum"] = json!(max);
    }
    schema
}

fn array(items: Value, max: usize) -> Value {
    let mut schema = json!({"type": "array"});
    schema["items"] = items;
    if max != usize::MAX {
        schema["maxItems"] = json!(max);
    }
    schema
}
