//! Answers of calls on a tree: pages within a limit of bytes, and content as text or base64.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use garth_engine::compute::working;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;

use crate::errors::Refusal;

/// Limit on the bytes of the items of one answer, 4 MiB. An answer has at least one item, whatever its size.
pub(super) const MAX_ANSWER: usize = 4 << 20;

/// Array of JSON that is being filled, up to [`MAX_ANSWER`].
#[derive(Debug, Default)]
pub(super) struct Items {
    /// Items, with commas between them.
    text: Vec<u8>,
    count: usize,
}

impl Items {
    /// Adds an item. Returns false if it does not fit; then it is not added.
    pub(super) fn push(&mut self, item: &impl Serialize) -> Result<bool, Refusal> {
        let before = self.text.len();
        self.add(item)?;
        if self.count > 1 && self.text.len() > MAX_ANSWER {
            self.text.truncate(before);
            self.count -= 1;
            return Ok(false);
        }
        Ok(true)
    }

    /// Adds an item, whatever its size.
    pub(super) fn add(&mut self, item: &impl Serialize) -> Result<(), Refusal> {
        if self.count > 0 {
            self.text.push(b',');
        }
        self.count += 1;
        serde_json::to_writer(&mut self.text, item)
            .map_err(|error| Refusal::internal().because(format!("an item has no JSON form: {error}")))
    }

    /// Returns the number of bytes so far.
    pub(super) fn bytes(&self) -> usize {
        self.text.len()
    }
}

/// Object of JSON that is being written.
#[derive(Debug)]
pub(super) struct Answer(Vec<u8>);

impl Answer {
    /// Returns an object without fields.
    pub(super) fn new() -> Self {
        Self(b"{".to_vec())
    }

    /// Begins with an array.
    pub(super) fn of(name: &str, items: Items) -> Self {
        Self::new().items(name, items)
    }

    /// Adds an array.
    pub(super) fn items(mut self, name: &str, items: Items) -> Self {
        self.name(name);
        self.0.push(b'[');
        self.0.extend(items.text);
        self.0.push(b']');
        self
    }

    /// Adds a value.
    pub(super) fn with(mut self, name: &str, value: &impl Serialize) -> Result<Self, Refusal> {
        self.name(name);
        serde_json::to_writer(&mut self.0, value)
            .map_err(|error| Refusal::internal().because(format!("an answer has no JSON form: {error}")))?;
        Ok(self)
    }

    /// Ends with the cursor of the next page, if there is one.
    pub(super) fn page(self, next: Option<&str>) -> Result<Bytes, Refusal> {
        let mut done = match next {
            Some(next) => self.with("has_more", &true)?.with("next_cursor", &next)?,
            None => self,
        };
        done.0.push(b'}');
        working(done.0.len());
        // Without spare capacity, which would be held until the answer is sent.
        Ok(done.0.into_boxed_slice().into())
    }

    fn name(&mut self, name: &str) {
        if self.0.len() > 1 {
            self.0.push(b',');
        }
        // Names are those of fields, which need no escapes.
        self.0.extend_from_slice(format!("\"{name}\":").as_bytes());
    }
}

/// Returns a page of items. `more` says that the tree has further ones; `cursor` is that of the position
/// after an item.
pub(super) fn page<T: Serialize>(
    items: &[T],
    more: bool,
    cursor: impl FnOnce(&T) -> String,
) -> Result<Bytes, Refusal> {
    let (mut shown, mut last, mut more) = (Items::default(), None, more);
    for item in items {
        if !shown.push(item)? {
            more = true;
            break;
        }
        last = Some(item);
    }
    let next = last.filter(|_| more).map(cursor);
    Answer::of("items", shown).page(next.as_deref())
}

/// End of an answer with pages, as [`Answer::page`] writes it.
#[allow(dead_code)] // It only describes this end.
#[derive(JsonSchema)]
pub(super) struct NextPage {
    /// `true` if there is another page.
    #[schemars(skip_serializing_if = "Option::is_none")]
    has_more: Option<bool>,
    /// Cursor of the next page.
    #[schemars(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// Content of a file in an answer.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::routes) enum Content<'a> {
    /// UTF-8.
    Text(&'a str),
    /// Any other bytes.
    Base64(String),
}

/// Describes the content as two fields, of which an answer has one.
impl JsonSchema for Content<'_> {
    fn schema_name() -> Cow<'static, str> {
        Cow::Borrowed("Content")
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "properties": {
                "text": {"type": "string", "description": "Content, if it is text."},
                "base64": {"type": "string", "description": "Content that is not text, in base64."},
            },
        })
    }
}

/// Returns bytes as text, or in base64 if they are not UTF-8 or their escapes would more than double them.
pub(in crate::routes) fn content(bytes: &[u8]) -> Content<'_> {
    let escapes = |byte: &u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 1,
        // `\u0000`
        0..0x20 => 5,
        _ => 0,
    };
    match std::str::from_utf8(bytes) {
        Ok(text) if bytes.iter().map(escapes).sum::<usize>() <= bytes.len() => Content::Text(text),
        _ => Content::Base64(STANDARD.encode(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn shown(bytes: &Bytes) -> Value {
        serde_json::from_slice(bytes).unwrap()
    }

    #[test]
    fn page_ends_at_limit_of_bytes() {
        let items = ["a".repeat(3 << 20), "b".repeat(1 << 20), "c".to_owned()];
        let cursor = |item: &String| item[..1].to_owned();
        let first = shown(&page(&items, false, cursor).unwrap());
        assert_eq!((first["items"].as_array().unwrap().len(), &first["next_cursor"]), (1, &json!("a")));
        let rest = shown(&page(&items[1..], false, cursor).unwrap());
        assert_eq!((rest["items"].as_array().unwrap().len(), rest.get("has_more")), (2, None));
        let long = ["a".repeat(5 << 20)];
        assert_eq!(shown(&page(&long, true, cursor).unwrap())["has_more"], json!(true));
        assert_eq!(shown(&page::<String>(&[], false, cursor).unwrap()), json!({"items": []}));
    }

    #[test]
    fn content_is_at_most_doubled() {
        assert_eq!(content(b"a\n\"b\""), Content::Text("a\n\"b\""));
        assert_eq!(content("é\n".as_bytes()), Content::Text("é\n"));
        assert_eq!(content(b""), Content::Text(""));
        assert_eq!(content(b"\xff\x00"), Content::Base64("/wA=".to_owned()));
        assert_eq!(content(b"\0"), Content::Base64("AA==".to_owned()));
        for bytes in [&b"\"\\\n\t\r"[..], b"\x1b[1mbold\x1b[0m", b"\0\0abc", b"\x07\x08\x0c\x0b"] {
            let json = serde_json::to_string(&content(bytes)).unwrap();
            assert!(json.len() <= 2 * bytes.len() + r#"{"base64":"=="}"#.len(), "{json}");
        }
    }
}
