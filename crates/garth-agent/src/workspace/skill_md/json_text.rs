//! JSON in a text, as people write it into front matter.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::workspace::reading::Reading;

/// Reads JSON in which commas may stand at the ends of lists and objects. A key that is there twice is an
/// error: of two, nobody can tell which one is meant.
pub(super) fn parse(text: &str, reading: Reading) -> serde_json::Result<Value> {
    let text = without_trailing_commas(text);
    match reading {
        Reading::First => serde_json::from_str(&text),
        Reading::Now => serde_json::from_str(&text).map(|Unique(value)| value),
    }
}

/// JSON without the commas behind which nothing comes.
fn without_trailing_commas(json: &str) -> String {
    let (mut text, mut in_string, mut escaped) = (String::with_capacity(json.len()), false, false);
    for (at, character) in json.char_indices() {
        if character == ',' && !in_string {
            let behind = json[at + 1..].trim_start();
            if behind.starts_with([']', '}']) {
                continue;
            }
        }
        text.push(character);
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = in_string,
            '"' => in_string = !in_string,
            _ => {}
        }
    }
    text
}

/// A value whose objects have each key once.
struct Unique(Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueVisitor).map(Self)
    }
}

struct UniqueVisitor;

impl<'de> Visitor<'de> for UniqueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Unique(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some((key, Unique(value))) = fields.next_entry::<String, _>()? {
            if object.contains_key(&key) {
                return Err(A::Error::custom(format!("`{key}` is there twice")));
            }
            object.insert(key, value);
        }
        Ok(object.into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn trailing_commas_do_not_matter() {
        assert_eq!(without_trailing_commas(r#"{"a": ",]", "b": [1 , ]}"#), r#"{"a": ",]", "b": [1  ]}"#);
    }

    #[test]
    fn a_key_that_is_there_twice_is_an_error_at_any_depth() {
        let good = r#"{"a": [1, -2, 0.5, "x", true, null, {"b": {"c": {}}}], "b": 1}"#;
        assert_eq!(parse(good, Reading::Now).unwrap(), parse(good, Reading::First).unwrap());
        for bad in [r#"{"a": 1, "a": 2}"#, r#"{"a": [{"b": {}, "b": 1}]}"#, r#"{"a": 1, "\u0061": 2}"#] {
            let error = parse(bad, Reading::Now).unwrap_err();
            assert!(error.to_string().contains("is there twice"), "{error}");
        }
        assert_eq!(parse(r#"{"a": 1, "a": 2}"#, Reading::First).unwrap(), json!({"a": 2}));
    }
}
