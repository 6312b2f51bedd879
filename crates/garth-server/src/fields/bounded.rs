//! Arrays and objects with a limit on their items. Reading stops at the limit: collected first and counted
//! after, the items of a long body would take many times its bytes.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

/// Reads a JSON array of at most `max` items.
pub(crate) fn items<'a, T: Deserialize<'a>>(json: &'a str, max: usize) -> serde_json::Result<Vec<T>> {
    read(json, Items(max, PhantomData))
}

/// Reads a JSON object of at most `max` strings, and refuses a repeated name.
pub(super) fn texts(json: &str, max: usize) -> serde_json::Result<BTreeMap<String, String>> {
    read(json, Texts(max))
}

fn read<'a, S: DeserializeSeed<'a>>(json: &'a str, seed: S) -> serde_json::Result<S::Value> {
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let read = seed.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(read)
}

struct Items<T>(usize, PhantomData<T>);

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for Items<T> {
    type Value = Vec<T>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Items<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = array.next_element()? {
            if items.len() == self.0 {
                return Err(A::Error::custom(format!("it has more than {} items", self.0)));
            }
            items.push(item);
        }
        Ok(items)
    }
}

struct Texts(usize);

impl<'de> DeserializeSeed<'de> for Texts {
    type Value = BTreeMap<String, String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Texts {
    type Value = BTreeMap<String, String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of strings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut texts = BTreeMap::new();
        while let Some((name, text)) = map.next_entry::<String, String>()? {
            if texts.contains_key(&name) {
                return Err(A::Error::custom("occurs twice"));
            }
            if texts.len() == self.0 {
                return Err(A::Error::custom(format!("it has more than {} names", self.0)));
            }
            texts.insert(name, text);
        }
        Ok(texts)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        static READ: Cell<usize> = const { Cell::new(0) };
    }

    /// Item that counts how many were read.
    #[derive(Debug)]
    struct Counted;

    impl<'de> Deserialize<'de> for Counted {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            READ.set(READ.get() + 1);
            serde::de::IgnoredAny::deserialize(deserializer).map(|_| Self)
        }
    }

    #[test]
    fn reading_stops_at_the_limit() {
        let array = format!("[{}{{}}]", "{},".repeat(999));
        assert_eq!(items::<Counted>(&array, 1000).unwrap().len(), 1000);
        READ.set(0);
        let error = items::<Counted>(&array, 10).unwrap_err();
        assert!(error.to_string().contains("more than 10 items"), "{error}");
        assert_eq!(READ.get(), 11);
    }

    #[test]
    fn object_of_texts_is_bounded_and_names_are_unique() {
        assert_eq!(texts(r#"{"a":"1","b":"2"}"#, 2).unwrap().len(), 2);
        assert!(texts(r#"{"a":"1","b":"2"}"#, 1).unwrap_err().to_string().contains("more than 1 names"));
        assert!(texts(r#"{"a":"1","a":"2"}"#, 2).unwrap_err().to_string().contains("occurs twice"));
        assert!(texts(r#"{"a":1}"#, 2).is_err() && texts("{} {}", 2).is_err());
    }
}
