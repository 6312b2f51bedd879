//! JSON values of a line, counted while they are read. Collected first and counted after, the values of a
//! long line would take many times its bytes.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Limit on the values of a line: more than the tags and metadata that a node can have.
pub(super) const MAX_VALUES: usize = 250_000;

/// Reads a value, and counts it with those in it. Fails beyond [`MAX_VALUES`].
#[derive(Clone, Copy)]
pub(super) struct Counting<'n>(pub(super) &'n Cell<usize>);

impl<'de> DeserializeSeed<'de> for Counting<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        self.0.set(self.0.get() + 1);
        if self.0.get() > MAX_VALUES {
            return Err(D::Error::custom(format!("it has more than {MAX_VALUES} values")));
        }
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Counting<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = array.next_element_seed(self)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            let value = map.next_value_seed(self)?;
            fields.insert(name, value);
        }
        Ok(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the value of a text as it is counted, and the count.
    fn read(text: &str) -> (serde_json::Result<Value>, usize) {
        let count = Cell::new(0);
        let mut from = serde_json::Deserializer::from_str(text);
        (Counting(&count).deserialize(&mut from), count.get())
    }

    #[test]
    fn values_are_read_as_by_serde() {
        let text = r#"{"a":[null,true,-1,18446744073709551615,0.5,1e300,"é\u0041"],"b":{"c":[]},"b":{}}"#;
        let (value, count) = read(text);
        assert_eq!(value.unwrap(), serde_json::from_str::<Value>(text).unwrap());
        assert_eq!(count, 12);
        assert!(read(&"[".repeat(200)).0.is_err());
    }

    #[test]
    fn reading_stops_at_the_limit() {
        for times in [1, 4] {
            let (value, count) = read(&format!("[{}\"\"]", "\"\",".repeat(times * MAX_VALUES)));
            assert!(value.unwrap_err().to_string().contains("more than 250000 values"));
            assert_eq!(count, MAX_VALUES + 1);
        }
    }
}
