//! JSON as rules read it: the check that a text is one value, and the values that schemas judge. The memory
//! for a text is bounded, and texts that readers of JSON understand differently are refused.

use std::cell::Cell;
use std::cmp::Ordering;
use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Limit on the values in a text that a schema judges, arrays, objects and their values counted: a million
/// values take up to about 64 MiB in addition to their text.
pub const MAX_VALUES: usize = 1_000_000;

/// Checks that a text is one JSON value. It stores no values, so that neither depth nor length matters; keys
/// may repeat, and numbers may be of any size.
///
/// # Errors
/// The flaw that keeps the text from being one.
pub(super) fn skip(text: &[u8]) -> Result<(), Flaw> {
    // The parser skips strings without checking their bytes.
    let text = utf8(text)?;
    serde_json::from_str::<IgnoredAny>(text).map(|_| ()).map_err(|error| Flaw::of(&error))
}

/// Reads one JSON value to be judged by a schema.
///
/// # Errors
/// For a text that is not one value, that has a key twice in one object, numbers beyond the range of a
/// double, half surrogates, more than [`MAX_VALUES`] values, or more than 127 nested arrays and objects.
pub fn read(text: &[u8]) -> Result<Value, Flaw> {
    let text = utf8(text)?;
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = Reader(&Cell::new(MAX_VALUES)).deserialize(&mut reader).map_err(|error| Flaw::of(&error))?;
    reader.end().map_err(|error| Flaw::of(&error))?;
    Ok(value)
}

/// Flaw of a text, and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw {
    /// Line, from 1.
    pub line: usize,
    /// Column in bytes, from 1; 0 at the very beginning of a line.
    pub column: usize,
    /// Description of the flaw.
    pub what: String,
}

impl Flaw {
    fn of(error: &serde_json::Error) -> Self {
        let (line, column) = (error.line(), error.column());
        let said = error.to_string();
        // The message ends with the position, which is shown on its own.
        let what = said.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&said);
        Self { line, column, what: what.to_owned() }
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at line {} column {}", self.what, self.line, self.column)
    }
}

fn utf8(text: &[u8]) -> Result<&str, Flaw> {
    std::str::from_utf8(text).map_err(|error| {
        let before = &text[..error.valid_up_to()];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        let column = 1 + before.iter().rev().take_while(|byte| **byte != b'\n').count();
        Flaw { line, column, what: "invalid UTF-8".to_owned() }
    })
}

/// JSON value. It takes less memory than a value of `serde_json`, whose objects take at least 600 bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    /// `null`
    Null,
    /// `true` and `false`
    Bool(bool),
    /// A number.
    Number(Number),
    /// A string.
    String(Box<str>),
    /// An array.
    Array(Box<[Value]>),
    /// An object, its keys in byte order.
    Object(Box<[(Box<str>, Value)]>),
}

/// Number. Numbers of one value are equal, however they were written.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    /// An integer from -2⁶³ to 2⁶³-1.
    Int(i64),
    /// An integer from 2⁶³ to 2⁶⁴-1.
    Large(u64),
    /// Any other finite number.
    Float(f64),
}

const TWO_64: f64 = 18_446_744_073_709_551_616.0;

impl Number {
    fn of(float: f64) -> Self {
        // Floats that are integers become integers, so that equal numbers have one form.
        if float.fract() == 0.0 && (-TWO_64 / 2.0..TWO_64 / 2.0).contains(&float) {
            Self::Int(float as i64)
        } else if float.fract() == 0.0 && (0.0..TWO_64).contains(&float) {
            Self::Large(float as u64)
        } else {
            Self::Float(float)
        }
    }

    /// Returns the number as an integer, if it is one of 64 bits.
    pub(super) fn whole(self) -> Option<i128> {
        match self {
            Self::Int(int) => Some(int.into()),
            Self::Large(int) => Some(int.into()),
            Self::Float(_) => None,
        }
    }

    /// Returns true if the number has no fraction.
    pub(super) fn is_whole(self) -> bool {
        match self {
            Self::Int(_) | Self::Large(_) => true,
            Self::Float(float) => float.fract() == 0.0,
        }
    }
}

impl Ord for Number {
    fn cmp(&self, other: &Self) -> Ordering {
        let beside = |int: i128, float: f64| match float {
            _ if float >= TWO_64 => Ordering::Less,
            _ if float < -TWO_64 => Ordering::Greater,
            // A float without a fraction is beyond the integers here, because `of` makes the others integers.
            _ => int.cmp(&(float.floor() as i128)).then(Ordering::Less),
        };
        match (*self, *other) {
            // Neither NaN nor a zero with a sign gets here.
            (Self::Float(one), Self::Float(other)) => one.total_cmp(&other),
            (Self::Float(float), _) => beside(other.whole().unwrap_or_default(), float).reverse(),
            (_, Self::Float(float)) => beside(self.whole().unwrap_or_default(), float),
            _ => self.whole().cmp(&other.whole()),
        }
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Number {}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(int) => int.fmt(f),
            Self::Large(int) => int.fmt(f),
            Self::Float(float) => write!(f, "{float:e}"),
        }
    }
}

impl Value {
    /// Returns the value of an object under a key.
    pub fn get(&self, key: &str) -> Option<&Self> {
        let Self::Object(entries) = self else { return None };
        let found = entries.binary_search_by(|(other, _)| (**other).cmp(key)).ok()?;
        Some(&entries[found].1)
    }

    /// Takes the value of an object under a key out of it.
    pub(super) fn take(self, key: &str) -> Option<Self> {
        let Self::Object(entries) = self else { return None };
        entries.into_iter().find(|(other, _)| **other == *key).map(|(_, value)| value)
    }

    /// Returns the text of the value, cut after about 40 bytes.
    pub(super) fn quoted(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        cut(text, QUOTED)
    }

    fn write(&self, text: &mut String) {
        if text.len() > QUOTED {
            return;
        }
        match self {
            Self::Null => text.push_str("null"),
            Self::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
            Self::Number(number) => text.push_str(&number.to_string()),
            Self::String(string) => text.push_str(&quoted(string)),
            Self::Array(items) => {
                text.push('[');
                // Each takes at least one byte, so that more of them would be cut anyway.
                for (n, item) in items.iter().enumerate().take(QUOTED) {
                    text.push_str(if n == 0 { "" } else { "," });
                    item.write(text);
                }
                text.push(']');
            }
            Self::Object(entries) => {
                text.push('{');
                for (n, (key, value)) in entries.iter().enumerate().take(QUOTED) {
                    text.push_str(if n == 0 { "" } else { "," });
                    text.push_str(&quoted(key));
                    text.push(':');
                    value.write(text);
                }
                text.push('}');
            }
        }
    }
}

/// Bytes of a value that are quoted.
const QUOTED: usize = 40;

/// Returns a string as JSON, cut after about 40 bytes.
pub(super) fn quoted(string: &str) -> String {
    quoted_to(string, QUOTED)
}

/// Returns a string as JSON, cut after about `most` bytes.
pub(super) fn quoted_to(string: &str, most: usize) -> String {
    // Cut before it is escaped, because it may have 16 MiB.
    let short = cut(string[..string.floor_char_boundary(most + 1)].to_owned(), most);
    cut(serde_json::Value::String(short).to_string(), most + 5)
}

/// Returns a text cut after `most` bytes, with a mark where it was cut.
pub(super) fn cut(mut text: String, most: usize) -> String {
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most));
        text.push('…');
    }
    text
}

/// Reader of values that counts down the values it may still read.
#[derive(Clone, Copy)]
struct Reader<'a>(&'a Cell<usize>);

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        // Counted before it is read: no text may take the memory of more values.
        let left = self.0.get().checked_sub(1);
        self.0.set(left.ok_or_else(|| de::Error::custom(format!("more than {MAX_VALUES} values")))?);
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(Number::Int(value)))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(i64::try_from(value).map_or(Number::Large(value), Number::Int)))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Number(Number::of(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            all.push(item);
        }
        Ok(Value::Array(all.into_boxed_slice()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut all: Vec<(Box<str>, Value)> = Vec::new();
        while let Some(key) = entries.next_key::<Box<str>>()? {
            all.push((key, entries.next_value_seed(self)?));
        }
        // Sorted for `get`. A key that is there twice is refused, because readers differ in which value they
        // take.
        all.sort_by(|(one, _), (other, _)| one.cmp(other));
        match all.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            Some(pair) => Err(de::Error::custom(format!(
                "duplicate key {} in the object that ends here",
                quoted(&pair[0].0)
            ))),
            None => Ok(Value::Object(all.into_boxed_slice())),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB_16: usize = 16 << 20;

    fn flaw(text: &[u8]) -> String {
        read(text).expect_err("a flaw").to_string()
    }

    #[test]
    fn equal_numbers_are_equal_in_any_form() {
        for (one, other) in [
            ("-9223372036854775808", "-9223372036854775808.0"),
            ("9223372036854775808", "9223372036854775808.0"),
            ("-1", "-1.0"),
            ("0", "-0.0"),
        ] {
            assert_eq!(read(one.as_bytes()), read(other.as_bytes()), "{one}");
        }
    }

    #[test]
    fn skip_accepts_one_utf8_value_and_whitespace() {
        // The last one is beyond a double, which only `read` refuses.
        for text in ["1", " {\"a\" : [1, null, \"\\u00e9\"]}\n", "\"\"", "1e400"] {
            assert_eq!(skip(text.as_bytes()), Ok(()), "{text}");
        }
        let deep = "[".repeat(500_000) + &"]".repeat(500_000);
        assert_eq!(skip(deep.as_bytes()), Ok(()));
        for (text, line) in
            [("", "line 1"), ("{\n\"a\":\n}", "line 3"), ("1 2", "line 1"), ("{'a': 1}", "line 1")]
        {
            let said = skip(text.as_bytes()).expect_err(text).to_string();
            assert!(said.contains(line), "{said}");
        }
        let said = skip(b"[\n\"\xff\"]").expect_err("no UTF-8").to_string();
        assert!(said.contains("line 2"), "{said}");
    }

    #[test]
    fn rejects_texts_that_readers_interpret_differently() {
        for (text, said) in [
            (&b""[..], "EOF while parsing a value at line 1 column 0"),
            (b"\n", "EOF while parsing a value at line 2 column 0"),
            (b"\xef\xbb\xbf1", "expected value at line 1 column 1"),
            (b"1\x00", "trailing characters at line 1 column 2"),
            (b"[\n1\n2]", "at line 3 column 1"),
            (b"\"\xc3\"", "invalid UTF-8 at line 1 column 2"),
            (b"[1,\n \xff]", "invalid UTF-8 at line 2 column 2"),
            (b"\"\\ud800\"", "hex escape"),
            (b"\"\\udc00\\ud800\"", "surrogate"),
            (b"1e400", "number out of range at line 1"),
            (
                b"{\"a\": 1,\n\"b\": 2, \"\\u0061\": 3}",
                "duplicate key \"a\" in the object that ends here at line 2",
            ),
            (b"{\"b\": {\"\": 1, \"\": 1}}", "duplicate key \"\""),
            (b"NaN", "expected value"),
            (b"01", "invalid number"),
            (b"'a'", "expected value"),
            (b"[1,]", "trailing comma"),
        ] {
            let got = flaw(text);
            assert!(got.contains(said), "{got}");
        }
        read(b"\r\n\t {\"a\": [1], \"b\": {\"a\": \"\\ud83d\\ude00\"}}\r\n").unwrap();
        assert_eq!(flaw(format!("{{\"{0}\":1,\"{0}\":1}}", "k".repeat(9999)).as_bytes()).len(), 111);
    }

    #[test]
    fn read_limits_depth_and_number_of_values() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        read(nested(127).as_bytes()).unwrap();
        assert!(flaw(nested(128).as_bytes()).contains("recursion limit exceeded at line 1 column 128"));
        let items = |count: usize| format!("[{}0]", "0,".repeat(count - 2));
        read(items(MAX_VALUES).as_bytes()).unwrap();
        assert!(flaw(items(MAX_VALUES + 1).as_bytes()).contains("more than 1000000 values at line 1"));
    }

    #[test]
    fn large_documents_are_read_or_rejected_at_limit() {
        for (text, said) in [
            ("[".repeat(MIB_16), "recursion limit exceeded at line 1 column 128"),
            ("{\"a\":".repeat(MIB_16 / 5), "recursion limit exceeded"),
            (
                format!("[{}{{}}]", "{},".repeat(MIB_16 / 3)),
                "more than 1000000 values at line 1 column 29999",
            ),
            (format!("[{}1]", "1,".repeat(MIB_16 / 2)), "more than 1000000 values at line 1 column 199999"),
            (format!("\"{}", "a".repeat(MIB_16)), "EOF while parsing a string"),
        ] {
            let got = flaw(text.as_bytes());
            assert!(got.contains(said), "{got}");
        }
        let long = format!("\"{}\"", "a".repeat(MIB_16));
        assert!(matches!(read(long.as_bytes()), Ok(Value::String(string)) if string.len() == MIB_16));
        let digits = "1".repeat(MIB_16);
        assert!(flaw(digits.as_bytes()).contains("number out of range"));
    }

    #[test]
    fn numbers_compare_by_value() {
        let number = |text: &str| match read(text.as_bytes()).expect(text) {
            Value::Number(number) => number,
            other => panic!("{other:?}"),
        };
        let ordered = [
            "-1e300",
            "-18446744073709551616",
            "-9223372036854775809e1",
            "-9223372036854775808",
            "-1.5",
            "-1",
            "-0.5",
            "0",
            "1e-300",
            "0.5",
            "1",
            "1.5",
            "9007199254740992",
            "9007199254740993",
            "9223372036854775807",
            "9223372036854775808",
            "18446744073709551615",
            "18446744073709551616",
            "1e300",
        ];
        let mut ordered: Vec<Number> = ordered.map(number).to_vec();
        // -9.2e19 is less than -2⁶⁴.
        ordered.swap(1, 2);
        for (n, one) in ordered.iter().enumerate() {
            for (m, other) in ordered.iter().enumerate() {
                assert_eq!(one.cmp(other), n.cmp(&m), "{one} {other}");
            }
        }
        for (one, other) in
            [("1", "1.0"), ("-0", "0.0"), ("1e2", "100"), ("9223372036854775808", "9223372036854775808.0")]
        {
            assert_eq!(number(one), number(other), "{one}");
        }
    }

    fn any_value() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<u64>().prop_map(Into::into),
            any::<f64>().prop_map(Into::into),
            ".{0,6}".prop_map(Into::into),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
                prop::collection::btree_map(".{0,3}", inner, 0..4)
                    .prop_map(|entries| serde_json::Value::Object(entries.into_iter().collect())),
            ]
        })
    }

    /// Returns true if another reader reads the same value.
    fn same(one: &Value, other: &serde_json::Value) -> bool {
        match (one, other) {
            (Value::Null, serde_json::Value::Null) => true,
            (Value::Bool(one), serde_json::Value::Bool(other)) => one == other,
            (Value::Number(one), serde_json::Value::Number(other)) => match (one.whole(), other.as_i128()) {
                (Some(one), Some(other)) => one == other,
                (Some(one), None) => Some(one as f64) == other.as_f64(),
                _ => matches!(one, Number::Float(one) if Some(*one) == other.as_f64()),
            },
            (Value::String(one), serde_json::Value::String(other)) => **one == **other,
            (Value::Array(one), serde_json::Value::Array(other)) => {
                one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
            }
            (Value::Object(one), serde_json::Value::Object(other)) => {
                one.len() == other.len()
                    && other
                        .iter()
                        .all(|(key, other)| one.iter().any(|(own, one)| **own == **key && same(one, other)))
            }
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn read_agrees_with_serde_json(value in any_value()) {
            let text = value.to_string();
            let other: serde_json::Value = serde_json::from_str(&text).unwrap();
            let own = read(text.as_bytes()).unwrap();
            prop_assert!(same(&own, &other), "{own:?} {other:?}");
            prop_assert!(own.quoted().len() < 100);
            if let serde_json::Value::Object(entries) = &other {
                for (key, value) in entries {
                    prop_assert!(same(own.get(key).unwrap(), value));
                }
            }
        }
    }
}
