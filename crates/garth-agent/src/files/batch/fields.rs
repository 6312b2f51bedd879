//! Fields of a line of a batch, a JSON object. They are taken one by one, so that an error names the field
//! and its JSON type.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;

use garth_engine::model::json_flaw;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::Value;

use super::value::{Counting, MAX_VALUES};

/// Result of parsing; an error is a message about the line.
pub(super) type Result<T, E = String> = std::result::Result<T, E>;

/// Fields of an object that were not taken yet.
pub(super) struct Fields {
    /// Prefix of the field names in errors, such as `attrs.`.
    within: &'static str,
    values: BTreeMap<String, Value>,
}

impl Fields {
    /// Reads a line: one JSON object in UTF-8.
    pub(super) fn parse(line: &[u8]) -> Result<Self> {
        let text = std::str::from_utf8(line).map_err(|_| "not UTF-8, which JSON requires")?;
        if !text.trim_start().starts_with('{') {
            return Err(r#"expected a JSON object, such as {"op":"mkdir","path":"/notes"}"#.into());
        }
        let count = Cell::new(0);
        let mut from = serde_json::Deserializer::from_str(text);
        let read = Object(&count).deserialize(&mut from);
        match read.and_then(|values| from.end().map(|()| values)) {
            Ok(values) => Ok(Self { within: "", values }),
            Err(_) if count.get() > MAX_VALUES => Err(format!("has more than {MAX_VALUES} values")),
            // serde's own words for a text that begins with no value name its functions.
            Err(error) => {
                let why = error.to_string().replace("expected ident", "expected a value");
                Err(format!("not valid JSON: {why}"))
            }
        }
    }

    /// Fails if a field was not taken, because it is unknown.
    pub(super) fn end(self) -> Result<()> {
        match self.values.first_key_value() {
            Some((name, _)) => Err(format!("unknown field {}", self.named(name))),
            None => Ok(()),
        }
    }

    /// Takes a field as it is, including `null`.
    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        self.values.remove(name)
    }

    pub(super) fn required<T>(&self, name: &str, value: Option<T>) -> Result<T> {
        value.ok_or_else(|| format!("{} is missing", self.named(name)))
    }

    pub(super) fn text(&mut self, name: &str) -> Result<Option<String>> {
        self.typed(name, "a string", |value| match value {
            Value::String(text) => Some(text),
            _ => None,
        })
    }

    pub(super) fn required_text(&mut self, name: &str) -> Result<String> {
        let text = self.text(name)?;
        self.required(name, text)
    }

    /// Takes `true` or `false`; `default` if it is left out.
    pub(super) fn flag(&mut self, name: &str, default: bool) -> Result<bool> {
        Ok(self.typed(name, "true or false", |value| value.as_bool())?.unwrap_or(default))
    }

    pub(super) fn number(&mut self, name: &str) -> Result<Option<f64>> {
        self.typed(name, "a number", |value| value.as_f64())
    }

    /// Takes an id of a user or group.
    pub(super) fn id(&mut self, name: &str) -> Result<Option<u32>> {
        let id = |value: Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
        self.typed(name, "an integer from 0 to 4294967295", id)
    }

    pub(super) fn texts(&mut self, name: &str) -> Result<Option<Vec<String>>> {
        self.typed(name, "an array of strings", |value| serde_json::from_value(value).ok())
    }

    /// Takes an object whose fields are strings or `null`.
    pub(super) fn map(&mut self, name: &str) -> Result<Option<BTreeMap<String, Option<String>>>> {
        self.typed(name, "an object of strings and nulls", |value| serde_json::from_value(value).ok())
    }

    /// Takes an object with fields of its own, which errors name with the prefix `within`.
    pub(super) fn object(&mut self, name: &str, within: &'static str) -> Result<Option<Self>> {
        self.typed(name, "an object", |value| match value {
            Value::Object(values) => Some(Self { within, values: values.into_iter().collect() }),
            _ => None,
        })
    }

    /// Takes a string, or `null`, which clears the attribute.
    pub(super) fn nullable_text(&mut self, name: &str) -> Result<Option<Option<String>>> {
        self.typed(name, "a string or null", |value| match value {
            Value::String(text) => Some(Some(text)),
            Value::Null => Some(None),
            _ => None,
        })
    }

    /// Takes `true`, `false`, or `null`, which clears the attribute.
    pub(super) fn nullable_flag(&mut self, name: &str) -> Result<Option<Option<bool>>> {
        self.typed(name, "true, false or null", |value| match value {
            Value::Null => Some(None),
            value => value.as_bool().map(Some),
        })
    }

    /// Takes a string and parses it with `read`.
    pub(super) fn parsed<T, E: fmt::Display>(
        &mut self,
        name: &str,
        read: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<Option<T>> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        read(&text).map(Some).map_err(|why| format!("{}: {why}", self.named(name)))
    }

    fn typed<T>(
        &mut self,
        name: &str,
        must: &str,
        read: impl FnOnce(Value) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(value) = self.take(name) else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| format!("{} must be {must}", self.named(name)))
    }

    pub(super) fn named(&self, name: &str) -> String {
        format!("\"{}{name}\"", self.within)
    }
}

/// Reads a field as a value of the tree. The error names the part that is wrong.
pub(super) fn read<T: DeserializeOwned>(name: &str, value: &Value) -> Result<T> {
    let (json, read) = (value.to_string(), |json: &str| serde_json::from_str::<T>(json));
    read(&json).map_err(|error| json_flaw(name, &json, &error, &|json: &str| read(json).err()))
}

/// Reads an object in which no field occurs twice, and counts its values.
struct Object<'n>(&'n Cell<usize>);

impl<'de> DeserializeSeed<'de> for Object<'_> {
    type Value = BTreeMap<String, Value>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> std::result::Result<Self::Value, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Object<'_> {
    type Value = BTreeMap<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Self::Value, A::Error> {
        let mut values = BTreeMap::new();
        while let Some(name) = map.next_key()? {
            let value = map.next_value_seed(Counting(self.0))?;
            match values.entry(name) {
                Entry::Vacant(place) => drop(place.insert(value)),
                Entry::Occupied(twice) => {
                    return Err(A::Error::custom(format!("\"{}\" occurs twice", twice.key())));
                }
            }
        }
        Ok(values)
    }
}
