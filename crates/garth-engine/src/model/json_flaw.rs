//! Reasons why a JSON text is not the form of a value, in words of JSON. The errors of `serde_json` name
//! types of Rust, and positions in a text that its author may have sent as a part of another one.

use std::fmt::Write as _;

use serde::de::IgnoredAny;
use serde_json::Error;

/// Longest text in bytes that is read again to explain an error. Of a longer one, less is explained.
const LONGEST: usize = 64 << 10;

/// Limit on the characters of a place, and of a reason that quotes the text.
const MAX_SHOWN: usize = 500;

/// Reads a text as the value that could not be read, and returns the error.
type Again<'a> = &'a dyn Fn(&str) -> Option<Error>;

/// Returns why `json` could not be read as a value: `"body.staged" must be an object`. `root` names the text,
/// and is empty if the caller does. `error` is that of reading it, and `again` reads another text in the same
/// way.
///
/// ```
/// use garth_engine::model::{Op, json_flaw};
///
/// let json = r#"{"truncate":{"at":{"path":"/a"},"size":"7"}}"#;
/// let again = |json: &str| serde_json::from_str::<Op>(json).err();
/// let error = again(json).expect("the size is a string");
/// let flaw = json_flaw("", json, &error, &again);
/// assert_eq!(flaw, r#""truncate.size" must be a whole number from 0"#);
/// ```
pub fn json_flaw(root: &str, json: &str, error: &Error, again: Again<'_>) -> String {
    let Flaw { place, text } = Flaw::of(json, error, again);
    let place = match (root, &*place) {
        ("", place) => place.to_owned(),
        (root, "") => root.to_owned(),
        (root, place) if place.starts_with('[') => format!("{root}{place}"),
        (root, place) => format!("{root}.{place}"),
    };
    match (&*place, text) {
        ("", Text::Must(text) | Text::Reason(text)) => text,
        (place, Text::Must(text)) => format!("\"{place}\" {text}"),
        (place, Text::Reason(text)) => format!("\"{place}\": {text}"),
    }
}

/// Flaw of a part of a text.
struct Flaw {
    /// Names and numbers that lead to the part, such as `ops[0].at`.
    place: String,
    text: Text,
}

enum Text {
    /// Words that follow the name of the part: `must be an object`.
    Must(String),
    /// Sentence about the part.
    Reason(String),
}

impl Flaw {
    fn of(json: &str, error: &Error, again: Again<'_>) -> Self {
        let is_valid = error.is_data() || serde_json::from_str::<IgnoredAny>(json).is_ok();
        if !is_valid {
            // serde's own words for a text that begins with no value name its functions.
            let reason = error.to_string().replace("expected ident", "expected a value");
            return Self { place: String::new(), text: Text::Reason(reason) };
        }
        let (said, spot) = (said(error), Spot::of(json, error));
        if let Some(name) = said.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`')) {
            return spot.missing(name, again);
        }
        if said.starts_with("unknown variant ") {
            return spot.variants(&expected_names(&said), again);
        }
        // An enum that is neither a string nor an object with one field.
        if said == "expected value" {
            return spot.no_variant(error, again);
        }
        let text = if said.starts_with("unknown field ") {
            Text::Must(format!("is not a field here; the fields are {}", quoted(&expected_names(&said))))
        } else if said.starts_with("duplicate field ") {
            Text::Must("occurs twice".to_owned())
        } else if let Some((_, expected)) = said.rsplit_once(", expected ")
            && said.starts_with("invalid ")
        {
            Text::Must(format!("must be {}", in_json(expected)))
        } else {
            return Self { place: spot.inner_place(), text: Text::Reason(shown(&said)) };
        };
        Self { place: spot.place(), text }
    }
}

/// Returns the message of an error without its position.
fn said(error: &Error) -> String {
    let mut said = error.to_string();
    said.truncate(said.rfind(" at line ").unwrap_or(said.len()));
    said
}

/// Returns the beginning of a text that may be as long as the one that is read.
fn shown(text: &str) -> String {
    text.chars().take(MAX_SHOWN).collect()
}

/// Returns the names that a message expects: `b` and `c` of "unknown field `a`, expected `b` or `c`".
fn expected_names(said: &str) -> Vec<String> {
    let expected = said.rsplit_once(", expected ").map_or("", |(_, expected)| expected);
    expected.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Returns names in quotes, with commas between them.
fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ")
}

/// Returns one of some names: `one of "a", "b"`.
fn one_of(names: &[String]) -> String {
    match names {
        [name] => format!("\"{name}\""),
        names => format!("one of {}", quoted(names)),
    }
}

/// Returns what serde expects, in words of JSON.
fn in_json(expected: &str) -> String {
    let kind = match expected {
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "u128" | "usize" => "a whole number from 0",
        "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        "a map" => "an object",
        "a sequence" => "an array",
        "unit" => "null",
        "string" | "a borrowed string" => "a string",
        "newtype variant" | "tuple variant" | "struct variant" => "an object with one field",
        _ if expected.starts_with("struct ") => "an object",
        _ if expected.starts_with("tuple ") => match expected.rsplit_once(" with ") {
            Some((_, elements)) => return format!("an array of {}", elements.replace("element", "item")),
            None => "an array",
        },
        _ => match expected.strip_prefix("a tuple of size ") {
            Some(size) => return format!("an array of {size} items"),
            None => expected,
        },
    };
    shown(kind)
}

/// Object or array that is open at a position.
struct Open<'j> {
    start: usize,
    /// Last name of an object; `None` for an array, and before the first name.
    name: Option<&'j str>,
    /// Number of the item of an array, from 0.
    index: usize,
    is_array: bool,
}

/// Position of an error in a valid text.
struct Spot<'j> {
    json: &'j str,
    end: usize,
    /// Objects and arrays that are open at the position, from the outermost.
    open: Vec<Open<'j>>,
    /// Object or array that ends at the position.
    closed: Option<Open<'j>>,
    /// Start of the last string, object, array or other value before the position.
    token: usize,
    /// True if a name of an object is before the position, and not a value.
    is_name: bool,
}

impl<'j> Spot<'j> {
    fn of(json: &'j str, error: &Error) -> Self {
        let lines = json.split_inclusive('\n').take(error.line().saturating_sub(1));
        let end = lines.map(str::len).sum::<usize>().saturating_add(error.column()).min(json.len());
        let mut spot = Self { json, end, open: Vec::new(), closed: None, token: 0, is_name: false };
        let (bytes, mut at, mut expects_name) = (json.as_bytes(), 0, false);
        while at < end {
            match bytes[at] {
                byte @ (b'{' | b'[') => {
                    let is_array = byte == b'[';
                    spot.open.push(Open { start: at, name: None, index: 0, is_array });
                    (spot.token, spot.is_name, expects_name) = (at, false, !is_array);
                }
                b'}' | b']' => {
                    let closed = spot.open.pop();
                    spot.token = closed.as_ref().map_or(at, |closed| closed.start);
                    spot.closed = closed.filter(|_| at + 1 == end);
                    (spot.is_name, expects_name) = (false, false);
                }
                b',' => match spot.open.last_mut() {
                    Some(open) if open.is_array => open.index += 1,
                    _ => expects_name = true,
                },
                b'"' => {
                    let close = end_of_string(bytes, at);
                    if let Some(open) = spot.open.last_mut().filter(|_| expects_name) {
                        open.name = json.get(at + 1..close);
                    }
                    (spot.token, spot.is_name, expects_name) = (at, expects_name, false);
                    at = close;
                }
                b':' => spot.is_name = false,
                b' ' | b'\t' | b'\r' | b'\n' => {}
                _ => (spot.token, spot.is_name) = (at, false),
            }
            at += 1;
        }
        spot
    }

    /// Returns the place of the value, or of the name, before the position.
    fn place(&self) -> String {
        place(&self.open)
    }

    /// Returns the place of a value that a type refused by itself. serde reports the last one of an object
    /// after the end of the object.
    fn inner_place(&self) -> String {
        place(self.open.iter().chain(&self.closed))
    }

    /// Returns the flaw of an object without a field, with what the field must be.
    fn missing(&self, name: &str, again: Again<'_>) -> Flaw {
        let place = match self.place() {
            within if within.is_empty() => name.to_owned(),
            within => format!("{within}.{name}"),
        };
        let text = match self.expected_of(&place, name, again) {
            Some(Text::Must(must)) => Text::Must(format!("is missing; it {must}")),
            Some(Text::Reason(reason)) => Text::Must(format!("is missing: {reason}")),
            None => Text::Must("is missing".to_owned()),
        };
        Flaw { place, text }
    }

    /// Returns what a missing field must be. No error says it, so the object is read again with an empty
    /// string as the field.
    fn expected_of(&self, place: &str, name: &str, again: Again<'_>) -> Option<Text> {
        // serde reports a missing field after the end of the object.
        let brace = self.end.checked_sub(1).filter(|at| self.json.as_bytes()[*at] == b'}')?;
        let (before, after) = self.json.split_at(brace);
        let comma = if before.trim_end().ends_with('{') { "" } else { "," };
        let filled = format!("{before}{comma}\"{name}\":\"\"{after}");
        let error = if filled.len() <= LONGEST { again(&filled) } else { return None };
        match error {
            Some(error) if !said(&error).starts_with("missing field ") => {
                let flaw = Flaw::of(&filled, &error, again);
                (flaw.place == place).then_some(flaw.text)
            }
            _ => Some(Text::Must("must be a string".to_owned())),
        }
    }

    /// Returns the flaw of a value that must be one of some names, or an object with one of them.
    fn variants(&self, names: &[String], again: Again<'_>) -> Flaw {
        let (place, start) = match self.open.split_last() {
            Some((object, outer)) if self.is_name => (place(outer), object.start),
            _ => (self.place(), self.token),
        };
        let is_object = |name: &String| {
            let error = again(&self.replaced(start, &format!("\"{name}\"")));
            error.is_some_and(|error| said(&error).starts_with("invalid type: unit variant"))
        };
        let (objects, texts): (Vec<String>, Vec<String>) = match self.json.len() <= LONGEST {
            true => names.iter().cloned().partition(is_object),
            false => (Vec::new(), names.to_vec()),
        };
        let text = match (&*texts, &*objects) {
            (texts, []) => format!("must be {}", one_of(texts)),
            ([], objects) => format!("must be an object with {}", one_of(objects)),
            (texts, objects) => {
                format!("must be {}, or an object with {}", one_of(texts), one_of(objects))
            }
        };
        Flaw { place, text: Text::Must(text) }
    }

    /// Returns the flaw of a value in place of a name or an object with one name.
    fn no_variant(&self, error: &Error, again: Again<'_>) -> Flaw {
        // serde reports such a value after its first byte, and a second field after the value of the first.
        let before = self.json.get(..self.end).unwrap_or_default().trim_end();
        if !before.ends_with(['}', ']', '"']) {
            // The names are in the error of a text that is none of them.
            let other = self.replaced(self.token, "\"\"");
            let named = (other.len() <= LONGEST).then(|| again(&other)).flatten();
            if let Some(error) = named.filter(|error| said(error).starts_with("unknown variant ")) {
                return Flaw::of(&other, &error, again);
            }
        }
        let has_more = self.json.as_bytes().get(self.end) == Some(&b',');
        match self.open.split_last().filter(|_| has_more) {
            Some((_, outer)) => {
                let text = Text::Must("must be an object with one field".to_owned());
                Flaw { place: place(outer), text }
            }
            None => Flaw { place: self.place(), text: Text::Reason(said(error)) },
        }
    }

    /// Returns the text with another value in place of the one that begins at `start`.
    fn replaced(&self, start: usize, value: &str) -> String {
        let end = end_of_value(self.json.as_bytes(), start);
        // A start and an end are next to ASCII.
        let part = |range: std::ops::Range<usize>| self.json.get(range).unwrap_or_default();
        format!("{}{value}{}", part(0..start), part(end..self.json.len()))
    }
}

fn place<'o, 'j: 'o>(open: impl IntoIterator<Item = &'o Open<'j>>) -> String {
    let mut place = String::new();
    for Open { name, index, is_array, .. } in open {
        match name {
            _ if *is_array => {
                // Writing to a `String` does not fail.
                let _ = write!(place, "[{index}]");
            }
            Some(name) if place.is_empty() => place.push_str(name),
            Some(name) => {
                place.push('.');
                place.push_str(name);
            }
            None => {}
        }
    }
    shown(&place)
}

/// Returns the position of the quote that ends the string which begins at `start`.
fn end_of_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    loop {
        match bytes.get(at) {
            Some(b'\\') => at += 2,
            Some(b'"') => return at,
            Some(_) => at += 1,
            None => return bytes.len() - 1,
        }
    }
}

/// Returns the end of the value that begins at `start`.
fn end_of_value(bytes: &[u8], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0_usize);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' | b',' if depth == 0 => return at,
            b'}' | b']' => depth -= 1,
            b'"' => at = end_of_string(bytes, at),
            _ => {}
        }
        at += 1;
        let is_closed = matches!(byte, b'}' | b']' | b'"');
        if depth == 0 && is_closed {
            return at;
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde::de::DeserializeOwned;

    use super::*;
    use crate::model::{Op, Precondition};

    fn flaw<T: DeserializeOwned>(root: &str, json: &str) -> String {
        let again = |json: &str| serde_json::from_str::<T>(json).err();
        json_flaw(root, json, &again(json).expect(json), &again)
    }

    #[test]
    fn flaws_name_the_place_in_words_of_json() {
        for (json, expected) in [
            (
                r#"{"write":{"at":{"path":"/a"},"body":{"staged":3}}}"#,
                r#""write.body.staged" must be an object"#,
            ),
            (
                r#"{"write":{"at":{"path":"/a"},"body":{"staged":{"id":3}}}}"#,
                r#""write.body.staged.id" must be a string"#,
            ),
            (
                r#"{"patch":{"at":{"path":"/a"},"offset":-1,"body":{"bytes":""}}}"#,
                r#""patch.offset" must be a whole number from 0"#,
            ),
            (
                r#"{"set_attrs":{"at":{"path":"/a"},"attrs":{"mtime":"x"}}}"#,
                r#""set_attrs.attrs.mtime" must be a whole number"#,
            ),
            (
                "{\"set_attrs\": {\n  \"at\": {\"path\": \"/é\"},\n  \"attrs\": {\"uid\": -1}\n}}",
                r#""set_attrs.attrs.uid" must be a whole number from 0 to 4294967295"#,
            ),
            (r#"{"mkdir":3}"#, r#""mkdir" must be an object"#),
            (r#"{"mkdir":{"at":{"path":"a"}}}"#, r#""mkdir.at.path": a path starts with `/`"#),
            (
                r#"{"mkdir":{"at":{"path":"/a"},"mode":1}}"#,
                r#""mkdir.mode" is not a field here; the fields are "at", "parents", "attrs""#,
            ),
            (
                r#"{"append":{"at":{"path":"/a"},"body":{"bytes":""},"cuts":[1,"2"]}}"#,
                r#""append.cuts[1]" must be a whole number from 0"#,
            ),
            (r#"{"mkdir":{"at":{"child":[7]}}}"#, r#""mkdir.at.child" must be an array of 2 items"#),
        ] {
            assert_eq!(flaw::<Op>("", json), expected, "{json}");
        }
    }

    #[test]
    fn flaws_list_the_words_of_a_value() {
        let at = r#"an object with one of "path", "node", "child""#;
        let what = r#"one of "file", "directory", "any", "tree""#;
        for (json, expected) in [
            (r#"{"remove":{"at":{"path":"/a"},"what":"x"}}"#, format!(r#""remove.what" must be {what}"#)),
            (r#"{"remove":{"at":{"path":"/a"}}}"#, format!(r#""remove.what" is missing; it must be {what}"#)),
            (r#"{"remove":{"at":{"path":"/a"},"what":3}}"#, format!(r#""remove.what" must be {what}"#)),
            (r#"{"remove":{}}"#, format!(r#""remove.at" is missing; it must be {at}"#)),
            (r#"{"mkdir":{"at":{"pa":"/a"}}}"#, format!(r#""mkdir.at" must be {at}"#)),
            (r#"{"mkdir":{"at":"/a"}}"#, format!(r#""mkdir.at" must be {at}"#)),
            (r#"{"mkdir":{"at":7}}"#, format!(r#""mkdir.at" must be {at}"#)),
            (r#"{"snapshot":{}}"#, r#""snapshot.name" is missing; it must be a string"#.to_owned()),
            (r#"{"mkdir":{"at":{"path":"/a"}},"remove":{}}"#, "must be an object with one field".to_owned()),
        ] {
            assert_eq!(flaw::<Op>("", json), expected, "{json}");
        }
        let unknown = flaw::<Op>("", r#"{"op":"rm","path":"/a"}"#);
        assert!(unknown.starts_with(r#"must be an object with one of "write", "append", "#), "{unknown}");
        let condition = r#"must be one of "absent", "exists", or an object with one of "version", "etag", "#;
        for json in [r#""abs""#, r#"{"abs":1}"#, "3"] {
            let found = flaw::<Precondition>("that", json);
            assert!(found.starts_with(&format!("\"that\" {condition}")), "{json}: {found}");
        }
        assert_eq!(flaw::<Precondition>("that", r#"{"etag":3}"#), r#""that.etag" must be a string"#);
    }

    #[test]
    fn flaws_of_other_texts_stay_readable() {
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Pair {
            #[serde(rename = "one")]
            _one: bool,
            #[serde(rename = "texts")]
            _texts: BTreeMap<String, String>,
        }
        for (json, expected) in [
            (r#"{"one":1}"#, r#""one" must be true or false"#),
            (r#"{"one":true}"#, r#""texts" is missing; it must be an object"#),
            (r#"{"one":true,"one":true}"#, r#""one" occurs twice"#),
            (r#"{"one":true,"texts":{"a\"}":"{","b":null}}"#, r#""texts.b" must be a string"#),
            ("3", "must be an object"),
            (r#"{"one": nope}"#, "expected a value at line 1 column 10"),
        ] {
            assert_eq!(flaw::<Pair>("", json), expected, "{json}");
        }
        let long = format!(r#"{{"{}":1}}"#, "x".repeat(100_000));
        assert!(flaw::<Pair>("", &long).len() < 2 * MAX_SHOWN);
        assert_eq!(flaw::<Vec<Pair>>("edges", "[3]"), r#""edges[0]" must be an object"#);
    }
}
