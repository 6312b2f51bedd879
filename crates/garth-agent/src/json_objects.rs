//! Deserialization of JSON objects. Serde's derived code also accepts a list, as the fields in their order:
//! values of a caller would be assigned to names that nobody wrote.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Struct that is only read from an object.
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(OfObject(PhantomData))
    }
}

struct OfObject<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for OfObject<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Object)
    }
}

/// Reads a list of structs, each from an object. For `#[serde(deserialize_with)]`.
///
/// # Errors
/// From the deserializer.
pub(crate) fn objects<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    Ok(Vec::<Object<T>>::deserialize(deserializer)?.into_iter().map(|Object(one)| one).collect())
}

/// Reads texts by name, each name once. For `#[serde(deserialize_with)]`.
///
/// # Errors
/// From the deserializer; an error if a name is given twice.
pub(crate) fn texts<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, String>, D::Error> {
    deserializer.deserialize_map(OfTexts)
}

struct OfTexts;

impl<'de> Visitor<'de> for OfTexts {
    type Value = BTreeMap<String, String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of strings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut texts = BTreeMap::new();
        while let Some((name, text)) = map.next_entry::<String, String>()? {
            // A map would silently keep the last one.
            if texts.contains_key(&name) {
                return Err(A::Error::custom(format!("{name:?} is given twice")));
            }
            texts.insert(name, text);
        }
        Ok(texts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    struct Two {
        a: u8,
        b: u8,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    struct List(#[serde(deserialize_with = "objects")] Vec<Two>);

    #[test]
    fn structs_are_only_read_from_objects() {
        assert_eq!(
            serde_json::from_str::<List>(r#"[{"b":2,"a":1}]"#).unwrap(),
            List(vec![Two { a: 1, b: 2 }])
        );
        assert!(serde_json::from_str::<List>("[[1,2]]").is_err());
        assert!(serde_json::from_str::<Vec<Two>>("[[1,2]]").is_ok(), "what serde derives takes a list");
    }
}
