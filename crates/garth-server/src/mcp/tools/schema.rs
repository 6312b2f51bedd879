//! JSON Schemas of tools, made from the fields that the parser reads and the types that are serialized. They
//! are a part of each request to a model, so they leave out what it does not need: the server checks bounds,
//! and its refusals name them.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::fields::{Field, MAX_INTEGER};
use crate::routes::openapi::requests::schema;
use crate::routes::route::AnswerSchema;

/// Keywords of output schemas that are left out.
const OMITTED: [&str; 6] = ["$schema", "title", "description", "format", "minimum", "required"];

/// Returns the schema of the arguments of a tool.
pub(super) fn input(groups: &[&[Field]]) -> Value {
    let fields = || groups.iter().copied().flatten();
    let properties: Map<String, Value> =
        fields().map(|field| (field.name.to_owned(), argument(field))).collect();
    let required: Vec<&str> = fields().filter(|field| field.is_required).map(|field| field.name).collect();
    let mut schema = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn argument(field: &Field) -> Value {
    let mut schema = schema(field);
    let least = schema.get("minimum").cloned();
    if let Some(object) = schema.as_object_mut() {
        object.retain(|keyword, value| match keyword.as_str() {
            "format" | "x-holds" | "minimum" | "minLength" | "maxLength" => false,
            "maximum" => value.as_u64() != Some(MAX_INTEGER),
            // A flag that is left out is not set, an array has no items, and a number is the least one.
            "default" => !(*value == json!(false) || *value == json!([]) || least.as_ref() == Some(&*value)),
            _ => true,
        });
    }
    // The commands of `memory` require fields of their own, so "none" would read as if they did not.
    let meaning = field.meaning.trim().trim_end_matches("Default: none.").trim_end();
    if !repeats(field.name, meaning) {
        schema["description"] = json!(meaning);
    }
    schema
}

/// Returns true if a meaning says no more than the name of its field.
fn repeats(name: &str, meaning: &str) -> bool {
    meaning.trim_end_matches('.').eq_ignore_ascii_case(&name.replace('_', " "))
}

/// Returns the schema of the structured answer of a tool, without references.
pub(super) fn output(answer: AnswerSchema) -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    short(answer(&mut settings.into_generator()).to_value())
}

/// Returns a schema without the keywords that a model does not need.
fn short(schema: Value) -> Value {
    match schema {
        Value::Object(object) => {
            let kept = object.into_iter().filter(|(keyword, value)| {
                // A property may have the name of a keyword; its schema is an object.
                value.is_object() || !OMITTED.contains(&keyword.as_str())
            });
            Value::Object(kept.map(|(keyword, value)| (keyword, short(value))).collect())
        }
        // A field that may be left out is never `null`.
        Value::Array(items) if items.contains(&json!("null")) => {
            items.into_iter().find(|item| *item != json!("null")).unwrap_or_default()
        }
        Value::Array(items) => Value::Array(items.into_iter().map(short).collect()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use schemars::JsonSchema;

    use super::*;
    use crate::fields::{flag, integer, string, string_of};
    use crate::routes::route::schema_of;

    const FIELDS: &[&[Field]] = &[
        &[
            Field::of::<Cow<'_, str>>("old_text", string(), None, " Old text."),
            Field::of::<u64>("from", integer(1, MAX_INTEGER), Some(|| json!(1)), " First line."),
            Field::of::<u64>("limit", integer(1, 9), Some(|| json!(5)), " Number of lines."),
        ],
        &[
            Field::of::<Option<Cow<'_, str>>>("path", string_of("path"), None, " Path of the file."),
            Field::of::<bool>("all", flag(), Some(|| json!(false)), " Replaces all."),
        ],
    ];

    #[test]
    fn input_has_what_a_model_needs() {
        let due = json!({
            "type": "object",
            "properties": {
                "old_text": {"type": "string"},
                "from": {"type": "integer", "description": "First line."},
                "limit": {"type": "integer", "maximum": 9, "default": 5, "description": "Number of lines."},
                "path": {"type": "string", "description": "Path of the file."},
                "all": {"type": "boolean", "description": "Replaces all."},
            },
            "required": ["old_text"],
        });
        assert_eq!(input(FIELDS), due);
    }

    /// Answer of the test.
    #[allow(dead_code)] // It has only a schema.
    #[derive(JsonSchema)]
    struct Answer {
        /// Title of the answer.
        title: String,
        /// Items.
        items: Vec<Item>,
        /// Next.
        #[schemars(skip_serializing_if = "Option::is_none")]
        next: Option<u64>,
    }

    #[allow(dead_code)] // As `Answer`.
    #[derive(JsonSchema)]
    struct Item {
        path: String,
    }

    #[test]
    fn output_has_no_references_and_no_prose() {
        let item = json!({"type": "object", "properties": {"path": {"type": "string"}}});
        let due = json!({
            "type": "object",
            "properties": {
                "title": {"type": "string"},
                "items": {"type": "array", "items": item},
                "next": {"type": "integer"},
            },
        });
        assert_eq!(output(schema_of::<Answer>), due);
    }
}
