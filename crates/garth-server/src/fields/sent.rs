//! Fields of a request: one JSON object. A refusal names the field and its JSON type. `null` is the same as
//! leaving a field out.

use std::borrow::Cow;
use std::fmt;

use garth_agent::nearest::nearest;
use garth_engine::compute::working;
use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::cursor::{self, RequestHash};
use super::field::Field;
use super::kind::{Kind, Shape};
use super::slot::Slot;
use crate::errors::Refusal;

/// Names of fields in other interfaces, each with names that the same has here.
static SYNONYMS: [(&str, &[&str]); 12] = [
    ("content", &["text", "value"]),
    ("expression", &["pattern"]),
    ("in", &["path", "within"]),
    ("key", &["path"]),
    ("path", &["in", "within"]),
    ("pattern", &["expressions"]),
    ("q", &["query", "question"]),
    ("query", &["expressions", "question"]),
    ("question", &["query"]),
    ("regex", &["expressions", "pattern"]),
    ("text", &["content", "query", "question"]),
    ("within", &["in", "path"]),
];

/// Fields of a request, sorted by name. Each is declared by the call and occurs once.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    /// Path of the call.
    path: &'static str,
    /// Arguments of the path, such as `{agent}`, percent-decoded.
    arguments: &'a [(String, String)],
    /// Name of the tree that the cursors of the request belong to.
    tree: Cow<'a, str>,
    sent: Vec<(Cow<'a, str>, &'a RawValue)>,
}

impl<'a> Fields<'a> {
    /// Reads a body: one JSON object in UTF-8, with fields that the call at `path` declares.
    pub(crate) fn parse(
        (path, arguments): (&'static str, &'a [(String, String)]),
        body: &'a [u8],
        declared: &[&[Field]],
    ) -> Result<Self, Refusal> {
        working(body.len());
        let text = std::str::from_utf8(body).map_err(|_| Refusal::validation("the body must be UTF-8"))?;
        // An array or a string would get a message in the words of serde.
        if !text.trim_start_matches([' ', '\t', '\r', '\n']).starts_with('{') {
            return Err(Refusal::validation("the body must be a JSON object"));
        }
        let known = || declared.iter().copied().flatten().map(|field| field.name);
        let mut fields = sent_fields(text, known().count() + 1).map_err(|error| {
            Refusal::validation(format!("the body is not valid JSON: {}", reworded(&error)))
        })?;
        fields.sort_by(|a, b| a.0.cmp(&b.0));
        // JSON permits repeated names, and parsers differ in the one that they take.
        if let Some(twice) = fields.array_windows().find(|[one, next]| one.0 == next.0) {
            return Err(Refusal::validation(format!("\"{}\" occurs twice", twice[0].0)));
        }
        match fields.iter().find(|(name, _)| !known().any(|known| known == name)) {
            Some((name, _)) => Err(unknown(name, declared)),
            None => Ok(Self { path, arguments, tree: Cow::Borrowed(""), sent: fields }),
        }
    }

    /// Sets the tree that the request reads. Cursors are valid only for requests that read the same one.
    pub(crate) fn of_tree(self, tree: Cow<'a, str>) -> Self {
        Self { tree, ..self }
    }

    /// Reads a field as its type. `default` is the value of a field that is left out.
    pub(crate) fn read<T: Slot<'a>>(
        &self,
        name: &str,
        kind: &Kind,
        default: Option<T>,
    ) -> Result<T, Refusal> {
        let sent = self.raw(name).filter(|json| T::TAKES_NULL || *json != "null");
        let Some(json) = sent else {
            let absent = default.or_else(T::absent);
            return absent.ok_or_else(|| Refusal::validation(format!("\"{name}\" is missing")));
        };
        T::read(json, kind).map_err(|flaw| {
            let quoted = json.strip_prefix('"').and_then(|json| json.strip_suffix('"'));
            // Its bounds, which it is within, would not say what is wrong.
            if quoted.is_some_and(|quoted| T::read(quoted, kind).is_ok()) {
                let plain = kind.without_bounds();
                return Refusal::validation(format!("\"{name}\" must be {plain}, not a string"));
            }
            Refusal::validation(flawed(name, kind, &flaw))
        })
    }

    /// Returns the position of a cursor that an earlier page of this request returned.
    pub(crate) fn position(&self, cursor: &str) -> Result<String, Refusal> {
        cursor::position(&self.hash(), cursor)
    }

    /// Returns the cursor of a position in the answers to this request.
    pub(crate) fn cursor_of(&self, position: &str) -> String {
        cursor::encoded(&self.hash(), position)
    }

    /// Returns a page of items. `next` is the position of the next page; the last page names none.
    pub(crate) fn page(&self, items: Vec<Value>, next: Option<&str>) -> Value {
        let mut page = Map::from_iter([("items".to_owned(), Value::Array(items))]);
        if let Some(next) = next {
            page.insert("has_more".to_owned(), true.into());
            page.insert("next_cursor".to_owned(), self.cursor_of(next).into());
        }
        Value::Object(page)
    }

    /// Returns the hash of this request, without the fields of its page, for a cursor that is sealed.
    pub(crate) fn hash_for_cursors(&self) -> [u8; 32] {
        self.hash().bytes()
    }

    fn hash(&self) -> RequestHash {
        working(self.sorted().map(|(_, json)| json.len()).sum());
        RequestHash::of(self.path, self.arguments, self.sorted()).in_tree(&self.tree)
    }

    /// Returns the name and the JSON of each field, in the order of names.
    pub(crate) fn sorted(&self) -> impl Iterator<Item = (&str, &'a str)> {
        self.sent.iter().map(|(name, json)| (&**name, json.get()))
    }

    fn raw(&self, name: &str) -> Option<&'a str> {
        // `parse` has sorted the fields.
        let at = self.sent.binary_search_by(|(field, _)| (**field).cmp(name)).ok()?;
        Some(self.sent[at].1.get())
    }
}

/// Returns why the value of a field is refused. The flaw of a part of an object or array stands alone: the
/// value is one, so it would be wrong to ask for one.
fn flawed(name: &str, kind: &Kind, flaw: &str) -> String {
    let has_parts = matches!(kind.shape(), Shape::Object | Shape::Array);
    match flaw.strip_prefix('"').filter(|_| has_parts) {
        Some(part) if part.starts_with('[') => format!("\"{name}{part}"),
        Some(part) => format!("\"{name}.{part}"),
        None if flaw.is_empty() => format!("\"{name}\" must be {kind}"),
        None => format!("\"{name}\" must be {kind}: {flaw}"),
    }
}

/// Returns a value that was parsed from the text of a field, or a refusal that names the field.
pub(crate) fn of_field<T, E: Into<Refusal>>(name: &str, parsed: Result<T, E>) -> Result<T, Refusal> {
    parsed.map_err(|error| {
        let refusal: Refusal = error.into();
        refusal.of_field(name)
    })
}

/// Returns the refusal of an unknown field. If it were ignored, a request with a mistyped `ttl_seconds` would
/// seem to work, and its value would never expire.
fn unknown(name: &str, declared: &[&[Field]]) -> Refusal {
    // A name may be as long as the body.
    let shown: String = name.chars().take(100).collect();
    let known: Vec<&str> = declared.iter().copied().flatten().map(|field| field.name).collect();
    let hint = match nearest(name, known.iter().copied()).or_else(|| synonym(name, &known)) {
        Some(meant) => format!("did you mean \"{meant}\"?"),
        None if known.is_empty() => "it has no fields".to_owned(),
        None => format!("its fields are {}", listed(declared)),
    };
    Refusal::validation(format!("{shown:?} is not a field of this call; {hint}"))
}

/// Returns the first known field that means the same as a name.
fn synonym<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    let (_, meant) = SYNONYMS.iter().find(|(other, _)| *other == name)?;
    known.iter().copied().find(|known| meant.contains(known))
}

/// Returns the names of fields, those that the call requires first.
fn listed(declared: &[&[Field]]) -> String {
    let (required, others): (Vec<&Field>, Vec<&Field>) =
        declared.iter().copied().flatten().partition(|field| field.is_required);
    let required = required.iter().map(|field| format!("\"{}\" (required)", field.name));
    let others = others.iter().map(|field| format!("\"{}\"", field.name));
    required.chain(others).collect::<Vec<_>>().join(", ")
}

/// Returns why a text is not JSON. serde's own words for a text that begins with no value name its functions.
pub(crate) fn reworded(error: &serde_json::Error) -> String {
    error.to_string().replace("expected ident", "expected a value")
}

/// Name and value of each field, as they were sent.
type SentFields<'a> = Vec<(Cow<'a, str>, &'a RawValue)>;

/// Reads the first `most` fields of an object, and only checks the syntax of the others: with more fields
/// than a call has, one of the first is unknown or occurs twice. Collected, they would take many times the
/// bytes of a long body.
fn sent_fields(text: &str, most: usize) -> serde_json::Result<SentFields<'_>> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let fields = deserializer.deserialize_map(Object { most })?;
    deserializer.end()?;
    Ok(fields)
}

struct Object {
    most: usize,
}

impl<'de> Visitor<'de> for Object {
    type Value = SentFields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::with_capacity(8);
        while let Some(Name(name)) = map.next_key::<Name<'de>>()? {
            if fields.len() < self.most {
                fields.push((name, map.next_value()?));
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(fields)
    }
}

/// A name, borrowed from the body where it has no escapes.
#[derive(serde::Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::{FieldGroup as _, fields, number_in, string};

    fields! {
        /// Fields of the test.
        struct Some<'a> {
            /// A number.
            a: Option<f64> = number_in(f64::MIN, f64::MAX);
            /// Another.
            b: f64 = number_in(f64::MIN, f64::MAX), or 2.0;
            /// A string.
            c: Cow<'a, str> = string();
        }
    }

    fn read(body: &str) -> Result<(Option<f64>, f64, String), String> {
        let fields = Fields::parse(("/v1/some", &[]), body.as_bytes(), Some::FIELDS)
            .map_err(|refusal| refusal.message)?;
        let some = Some::read(&fields).map_err(|refusal| refusal.message)?;
        Ok((some.a, some.b, some.c.into_owned()))
    }

    #[test]
    fn reads_fields_in_any_order_with_defaults() {
        assert_eq!(read(r#"{"\u0063":"x","a":null}"#), Ok((None, 2.0, "x".to_owned())));
        assert_eq!(read(r#"{"b":1,"c":"\n","a":-1.5}"#), Ok((Option::Some(-1.5), 1.0, "\n".to_owned())));
    }

    #[test]
    fn holds_no_more_fields_than_a_call_has() {
        let many = format!("{{{}\"a\":1}}", "\"x\":{},".repeat(1000));
        assert_eq!(sent_fields(&many, 4).unwrap().len(), 4);
        assert!(sent_fields(&many.replace("\"a\":1", "\"a\":"), 4).is_err());
        assert_eq!(read(&many).unwrap_err(), r#""x" occurs twice"#);
        let names: String = (0..1000).map(|number| format!("\"x{number}\":1,")).collect();
        let unknown = read(&format!("{{{names}\"c\":\"\"}}")).unwrap_err();
        assert!(unknown.contains("is not a field of this call"), "{unknown}");
    }

    #[test]
    fn flaw_of_a_part_names_the_part() {
        let object = Kind::Object { of: "binding", max: usize::MAX };
        let array = Kind::Array { of: "edges", max: usize::MAX };
        for (kind, flaw, due) in [
            (object, r#""read_only" must be true or false"#, r#""f.read_only" must be true or false"#),
            (array, r#""[1].to" is missing"#, r#""f[1].to" is missing"#),
            (object, "", r#""f" must be an object"#),
            (Kind::Flag, "", r#""f" must be true or false"#),
        ] {
            assert_eq!(flawed("f", &kind, flaw), due);
        }
    }

    #[test]
    fn rejects_wrong_fields_by_name() {
        for (body, message) in [
            (r#"{"a":1,"a":2,"c":""}"#, r#""a" occurs twice"#),
            (r#"{"a":1,"\u0061":1,"c":""}"#, r#""a" occurs twice"#),
            (r#"{"a":1}"#, r#""c" is missing"#),
            (r#"{"c":null}"#, r#""c" is missing"#),
            (r#"{"c":1}"#, r#""c" must be a string"#),
            (r#"{"c":"","a":"1"}"#, r#""a" must be a number, not a string"#),
            (r#"{"c":"","a":"x"}"#, r#""a" must be a number"#),
            (r#"{"c":"","B":1}"#, r#""B" is not a field of this call; did you mean "b"?"#),
            (
                r#"{"c":"","more":null}"#,
                r#""more" is not a field of this call; its fields are "c" (required), "a", "b""#,
            ),
            (r#"{"c": nope}"#, "the body is not valid JSON: expected a value at line 1 column 8"),
        ] {
            assert_eq!(read(body).unwrap_err(), message, "{body}");
        }
    }
}
