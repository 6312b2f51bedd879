//! Alternatives of a schema as one schema. A generated client of a language without unions then has one type
//! with optional fields, and reads it without knowing the alternative first.

use serde_json::{Map, Value, json};

/// Returns the schema that a reference leads to; `None` for a schema that is no reference.
pub(super) type Referred<'r> = &'r dyn Fn(&Value) -> Option<Value>;

/// Returns a schema without alternatives, if they can be united: words as one enumeration, objects as one
/// object. `null` beside one schema stays as it is.
pub(super) fn unified(mut schema: Map<String, Value>, referred: Referred<'_>) -> Map<String, Value> {
    let keyword = if schema.contains_key("oneOf") { "oneOf" } else { "anyOf" };
    let Some(Value::Array(variants)) = schema.remove(keyword) else { return schema };
    let null = json!({"type": "null"});
    let (nulls, others): (Vec<Value>, Vec<Value>) =
        variants.into_iter().partition(|variant| *variant == null);
    if let Some(words) = words(&others).filter(|_| nulls.is_empty()) {
        return with_words(schema, &others, words);
    }
    let objects: Option<Vec<Map<String, Value>>> =
        others.iter().map(|variant| object(variant, referred)).collect();
    // One schema beside `null` stays a reference.
    let objects = objects.filter(|objects| objects.len() > 1 || (nulls.is_empty() && !objects.is_empty()));
    let Some(objects) = objects else {
        schema.insert(keyword.to_owned(), others.into_iter().chain(nulls).collect());
        return schema;
    };
    let description = schema.remove("description");
    let variants = objects.into_iter().reduce(|one, other| either(&one, &other, referred));
    let mut united = match nulls.is_empty() {
        true => both(schema, variants.unwrap_or_default()),
        false => {
            let variants = closed(variants.unwrap_or_default());
            schema.insert("anyOf".to_owned(), json!([variants, {"type": "null"}]));
            schema
        }
    };
    united.extend(description.map(|description| ("description".to_owned(), description)));
    united
}

/// Returns an object that has no fields but those that it lists, unless it is open.
fn closed(mut object: Map<String, Value>) -> Map<String, Value> {
    object.entry("additionalProperties").or_insert(json!(false));
    object
}

/// Returns the words of schemas that are all enumerations of words.
fn words(variants: &[Value]) -> Option<Vec<Value>> {
    let words = variants.iter().map(|variant| variant.get("enum")?.as_array().cloned());
    let words: Vec<Value> = words.collect::<Option<Vec<_>>>()?.concat();
    (!words.is_empty() && words.iter().all(Value::is_string)).then_some(words)
}

/// Returns an enumeration, whose description says what each word means.
fn with_words(mut schema: Map<String, Value>, variants: &[Value], words: Vec<Value>) -> Map<String, Value> {
    let meanings = variants.iter().filter_map(|variant| {
        let meaning = variant.get("description")?.as_str()?;
        let word = variant.get("enum")?.get(0)?.as_str()?;
        Some(format!("- `{word}`: {meaning}"))
    });
    let meanings: Vec<String> = meanings.collect();
    if !meanings.is_empty() {
        let own = schema.get("description").and_then(Value::as_str).unwrap_or_default();
        let description = format!("{own}\n\n{}", meanings.join("\n"));
        schema.insert("description".to_owned(), json!(description.trim_start()));
    }
    schema.insert("type".to_owned(), json!("string"));
    schema.insert("enum".to_owned(), Value::Array(words));
    schema
}

/// Returns a schema as an object with fields, after its reference; `None` if it is none.
fn object(schema: &Value, referred: Referred<'_>) -> Option<Map<String, Value>> {
    match referred(schema).unwrap_or_else(|| schema.clone()) {
        Value::Object(object) if object.get("type") == Some(&json!("object")) => Some(object),
        _ => None,
    }
}

/// Returns the fields of an object.
fn properties(object: &Map<String, Value>) -> Map<String, Value> {
    object.get("properties").and_then(Value::as_object).cloned().unwrap_or_default()
}

/// Returns the names of the fields that an object always has.
fn required(object: &Map<String, Value>) -> Vec<Value> {
    object.get("required").and_then(Value::as_array).cloned().unwrap_or_default()
}

/// Returns an object that is one of two: its fields are those of both, and it always has those that both
/// always have.
fn either(
    one: &Map<String, Value>,
    other: &Map<String, Value>,
    referred: Referred<'_>,
) -> Map<String, Value> {
    let mut fields = properties(one);
    for (name, schema) in properties(other) {
        let schema = match fields.remove(&name) {
            Some(first) => either_value(&first, &schema, referred),
            None => schema,
        };
        fields.insert(name, schema);
    }
    let names = required(other);
    let names: Vec<Value> = required(one).into_iter().filter(|name| names.contains(name)).collect();
    let mut united = Map::from_iter([("type".to_owned(), json!("object"))]);
    united.insert("properties".to_owned(), Value::Object(fields));
    if !names.is_empty() {
        united.insert("required".to_owned(), Value::Array(names));
    }
    let open = [one, other].into_iter().find_map(|object| {
        object.get("additionalProperties").filter(|additional| **additional != json!(false)).cloned()
    });
    united.extend(open.map(|open| ("additionalProperties".to_owned(), open)));
    united
}

/// Returns a schema of the values of two schemas, with the description of the first.
fn either_value(one: &Value, other: &Value, referred: Referred<'_>) -> Value {
    let united = match (bare(one), bare(other)) {
        (one, other) if one == other => one,
        (one, other) => match words(&[one.clone(), other.clone()]) {
            Some(words) => json!({"type": "string", "enum": distinct(words)}),
            None => match (object(&one, referred), object(&other, referred)) {
                (Some(one), Some(other)) => Value::Object(closed(either(&one, &other, referred))),
                _ => either_simple(&one, &other, referred),
            },
        },
    };
    described(united, one.get("description").or_else(|| other.get("description")))
}

/// Returns a schema of the values of two arrays or of two simple types; one of any JSON for all others.
fn either_simple(one: &Value, other: &Value, referred: Referred<'_>) -> Value {
    if let (Some(one), Some(other)) = (one.get("items"), other.get("items")) {
        return json!({"type": "array", "items": either_value(one, other, referred)});
    }
    let types = |schema: &Value| match schema.get("type") {
        Some(Value::Array(types)) => types.clone(),
        Some(name) => vec![name.clone()],
        None => Vec::new(),
    };
    let (first, second) = (types(one), types(other));
    if first.is_empty() || second.is_empty() {
        return json!({});
    }
    match &*distinct([first, second].concat()) {
        [only] => json!({"type": only}),
        all => json!({"type": all}),
    }
}

/// Returns values without repeats.
fn distinct(values: Vec<Value>) -> Vec<Value> {
    let mut distinct = Vec::new();
    for value in values {
        if !distinct.contains(&value) {
            distinct.push(value);
        }
    }
    distinct
}

/// Returns a schema without its description.
fn bare(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Some(object) = schema.as_object_mut() {
        object.remove("description");
    }
    schema
}

fn described(mut schema: Value, description: Option<&Value>) -> Value {
    if let (Some(object), Some(description)) = (schema.as_object_mut(), description) {
        object.insert("description".to_owned(), description.clone());
    }
    schema
}

/// Returns an object with the fields of two parts.
fn both(mut one: Map<String, Value>, other: Map<String, Value>) -> Map<String, Value> {
    let mut fields = properties(&one);
    fields.append(&mut properties(&other));
    let names = distinct([required(&one), required(&other)].concat());
    one.extend(other);
    one.insert("properties".to_owned(), Value::Object(fields));
    if names.is_empty() {
        one.remove("required");
    } else {
        one.insert("required".to_owned(), Value::Array(names));
    }
    one
}

#[cfg(test)]
mod tests {
    use super::*;

    fn united(schema: Value, known: Value) -> Value {
        let (Value::Object(schema), Value::Object(known)) = (schema, known) else { panic!("not objects") };
        let referred = |schema: &Value| {
            let name = schema.get("$ref")?.as_str()?.strip_prefix("#/components/schemas/")?;
            known.get(name).cloned()
        };
        Value::Object(unified(schema, &referred))
    }

    #[test]
    fn words_become_one_enumeration() {
        let word =
            |word: &str, meaning: &str| json!({"type": "string", "enum": [word], "description": meaning});
        let schema = json!({"description": "Kind.", "oneOf": [word("a", "First."), word("b", "Second.")]});
        let expected = json!({
            "type": "string", "enum": ["a", "b"], "description": "Kind.\n\n- `a`: First.\n- `b`: Second.",
        });
        assert_eq!(united(schema, json!({})), expected);
    }

    #[test]
    fn objects_become_one_with_optional_fields() {
        let known = json!({"Found": {
            "type": "object",
            "properties": {"found": {"type": "boolean"}, "value": {"type": "string"}},
            "required": ["found", "value"],
        }});
        let missing = json!({
            "type": "object", "properties": {"found": {"type": "boolean"}}, "required": ["found"],
            "additionalProperties": false,
        });
        let schema = json!({"anyOf": [{"$ref": "#/components/schemas/Found"}, missing]});
        let expected = json!({
            "type": "object",
            "properties": {"found": {"type": "boolean"}, "value": {"type": "string"}},
            "required": ["found"],
        });
        assert_eq!(united(schema, known), expected);
    }

    #[test]
    fn fields_beside_alternatives_are_kept() {
        let variant = |kind: &str, more: Value| {
            let mut variant = json!({
                "type": "object", "required": ["kind"],
                "properties": {"kind": {"type": "string", "enum": [kind]}},
            });
            variant["properties"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            variant
        };
        let schema = json!({
            "type": "object", "properties": {"ino": {"type": "integer"}}, "required": ["ino"],
            "oneOf": [variant("made", json!({})), variant("moved", json!({"from": {"type": "string"}}))],
        });
        let expected = json!({
            "type": "object", "required": ["ino", "kind"],
            "properties": {
                "from": {"type": "string"}, "ino": {"type": "integer"},
                "kind": {"type": "string", "enum": ["made", "moved"]},
            },
        });
        assert_eq!(united(schema, json!({})), expected);
    }

    #[test]
    fn null_beside_a_schema_stays() {
        let schema = json!({"anyOf": [{"$ref": "#/components/schemas/Found"}, {"type": "null"}]});
        assert_eq!(united(schema.clone(), json!({"Found": {"type": "object"}})), schema);
    }

    #[test]
    fn fields_of_several_types_take_each() {
        let variant = |of: Value| json!({"type": "object", "properties": {"size": of}, "required": ["size"]});
        let schema = json!({"anyOf": [variant(json!({"type": "integer"})), variant(json!({"type": ["string", "null"]}))]});
        let size = &united(schema, json!({}))["properties"]["size"];
        assert_eq!(size, &json!({"type": ["integer", "string", "null"]}));
    }
}
