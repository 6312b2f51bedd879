//! Arrays and objects of operations in JSON, with a limit on their items. Reading stops at the limit:
//! collected first and counted after, the items of a long text would take many times its bytes.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

/// Limit on the items. More than any of these arrays and objects may have: the tags and metadata of a node
/// are at most 256 KiB of JSON.
const MAX_ITEMS: usize = 100_000;

/// Reads an array. For `#[serde(deserialize_with)]`.
pub(super) fn items<'de, D, T>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    from.deserialize_seq(ItemsVisitor(PhantomData))
}

/// Reads an array that may be `null`. For `#[serde(deserialize_with)]`.
pub(super) fn items_or_null<'de, D, T>(from: D) -> Result<Option<Vec<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::<Items<T>>::deserialize(from)?.map(|Items(items)| items))
}

/// Reads an object. For `#[serde(deserialize_with)]`.
pub(super) fn entries<'de, D, V>(from: D) -> Result<BTreeMap<String, V>, D::Error>
where
    D: Deserializer<'de>,
    V: Deserialize<'de>,
{
    from.deserialize_map(EntriesVisitor(PhantomData))
}

struct Items<T>(Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Items<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        items(from).map(Self)
    }
}

struct ItemsVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ItemsVisitor<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = array.next_element()? {
            if items.len() == MAX_ITEMS {
                return Err(A::Error::custom(format!("an array has more than {MAX_ITEMS} items")));
            }
            items.push(item);
        }
        Ok(items)
    }
}

struct EntriesVisitor<V>(PhantomData<V>);

impl<'de, V: Deserialize<'de>> Visitor<'de> for EntriesVisitor<V> {
    type Value = BTreeMap<String, V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries = BTreeMap::new();
        while let Some((name, value)) = map.next_entry()? {
            if entries.len() == MAX_ITEMS {
                return Err(A::Error::custom(format!("an object has more than {MAX_ITEMS} names")));
            }
            entries.insert(name, value);
        }
        Ok(entries)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::model::{Op, Precondition};

    thread_local! {
        static READ: Cell<usize> = const { Cell::new(0) };
    }

    /// Item that counts how many were read.
    struct Counted;

    impl<'de> Deserialize<'de> for Counted {
        fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            READ.set(READ.get() + 1);
            serde::de::IgnoredAny::deserialize(from).map(|_| Self)
        }
    }

    #[test]
    fn reading_stops_at_the_limit() {
        for count in [2 * MAX_ITEMS, 4 * MAX_ITEMS] {
            let array = format!("[{}0]", "0,".repeat(count));
            let names: Vec<String> = (0..count).map(|name| format!("\"{name}\":0")).collect();
            let object = format!("{{{}}}", names.join(","));
            let mut read = [0; 2];
            READ.set(0);
            assert!(items::<_, Counted>(&mut serde_json::Deserializer::from_str(&array)).is_err());
            read[0] = READ.replace(0);
            assert!(entries::<_, Counted>(&mut serde_json::Deserializer::from_str(&object)).is_err());
            read[1] = READ.replace(0);
            assert_eq!(read, [MAX_ITEMS + 1; 2], "of {count}");
        }
    }

    #[test]
    fn long_arrays_and_objects_of_operations_are_refused() {
        let array = |item: &str| format!("[{}{item}]", format!("{item},").repeat(MAX_ITEMS));
        let object = |value: &str| {
            let entries: Vec<String> = (0..=MAX_ITEMS).map(|name| format!("\"{name}\":{value}")).collect();
            format!("{{{}}}", entries.join(","))
        };
        let attrs = |name: &str, value: &str| {
            format!(r#"{{"set_attrs":{{"at":{{"node":2}},"attrs":{{"{name}":{value}}}}}}}"#)
        };
        let append =
            |cuts: &str| format!(r#"{{"append":{{"at":{{"node":2}},"body":{{"bytes":""}},"cuts":{cuts}}}}}"#);
        for (long, short) in [
            (attrs("tags", &array("\"\"")), attrs("tags", "null")),
            (attrs("metadata", &object("\"\"")), attrs("metadata", r#"{"a":null}"#)),
            (attrs("xattrs", &object("[]")), attrs("xattrs", r#"{"a":[0]}"#)),
            (append(&array("0")), append("[0]")),
        ] {
            let error = serde_json::from_str::<Op>(&long).unwrap_err().to_string();
            assert!(error.contains("more than 100000"), "{error}");
            serde_json::from_str::<Op>(&short).unwrap();
        }
        let etags = format!(r#"{{"etag_in":{}}}"#, array(r#""ver_1-2""#));
        let error = serde_json::from_str::<Precondition>(&etags).unwrap_err().to_string();
        assert!(error.contains("more than 100000"), "{error}");
    }
}
