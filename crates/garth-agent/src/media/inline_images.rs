//! Extraction of base64 images from the content of messages. In the content, a reference to a media file
//! replaces each image; the caller that appends the message writes the files (`InlineImage::op`).

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use super::attributes::attributes;
use super::encoded::from_base64;
use super::key::MediaKey;
use super::limit::{MAX_MEDIA, too_large};
use super::mime_types::extension;
use crate::ids::uuid_of;
use garth_engine::compute::working;
use garth_engine::env::Env;
use garth_engine::error::{Error, Result};
use garth_engine::model::{Body, Op};

/// Image that was inline in a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InlineImage {
    pub(crate) key: MediaKey,
    pub(crate) mime_type: String,
    pub(crate) bytes: Bytes,
}

impl InlineImage {
    /// Returns the write of the image's file. The file may exist already, with the same bytes.
    pub(crate) fn op(&self, env: &Env, session_id: &str, body: Body) -> Op {
        let attrs = attributes(env, &self.key, Some(session_id), (&self.mime_type, ""));
        Op::write(self.key.path(), body).with_parents().with_attrs(attrs)
    }
}

/// Fields of a block that identify an inline image.
#[derive(Deserialize)]
struct Block<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    mime_type: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    data: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

/// Replacement of a part of the content.
type Edit = (Range<usize>, String);

/// Extracts the images from the content of a message and from the tool results in it. The rest of the content
/// keeps its bytes. Returns `None` if there are no images.
///
/// The UUID of a file is derived from the session, the message, the image's position and its bytes, so that a
/// repeated message names the same files.
///
/// # Errors
/// `InvalidArgument` for content that is not a list of blocks; `TooLarge` for more than [`MAX_MEDIA`] bytes.
pub(crate) fn extract_images(
    session: (&str, &str),
    message: &str,
    content: &RawValue,
) -> Result<Option<(Box<RawValue>, Vec<InlineImage>)>> {
    let text = content.get();
    working(text.len());
    // Most messages have no image and skip the parser. A field name may be written with escapes, so `\u`
    // counts.
    if !text.starts_with('[') || !(text.contains("data") || text.contains("\\u")) {
        return Ok(None);
    }
    let (mut edits, mut images): (Vec<Edit>, Vec<InlineImage>) = (Vec::new(), Vec::new());
    for (at, raw) in items(text)?.into_iter().enumerate() {
        let block = block(raw)?;
        if &*block.kind == "tool_result" {
            let inner = block.content.map_or("", RawValue::get);
            for (within, part) in items(inner)?.into_iter().enumerate() {
                let place = format!("{at}.{within}");
                picture((session, message, &place), text, part, &mut edits, &mut images)?;
            }
        } else {
            picture((session, message, &at.to_string()), text, raw, &mut edits, &mut images)?;
        }
    }
    if images.is_empty() {
        return Ok(None);
    }
    // Edits are in the order of the text. Everything between them is copied, so numbers and escapes stay as
    // they were.
    let (mut out, mut from) = (String::new(), 0);
    for (range, with) in edits {
        out.push_str(&text[from..range.start]);
        out.push_str(&with);
        from = range.end;
    }
    out.push_str(&text[from..]);
    let content = RawValue::from_string(out).map_err(|error| Error::invalid(error.to_string()))?;
    Ok(Some((content, images)))
}

/// Returns the blocks of a content that is an array; an empty list for a string.
fn items(content: &str) -> Result<Vec<&RawValue>> {
    if !content.starts_with('[') {
        return Ok(Vec::new());
    }
    serde_json::from_str(content).map_err(|error| Error::invalid(format!("content: {error}")))
}

fn block(raw: &RawValue) -> Result<Block<'_>> {
    serde_json::from_str(raw.get()).map_err(|error| Error::invalid(format!("content: {error}")))
}

/// Adds the edit and the image of a block, if it is an inline image that can be decoded.
fn picture(
    ((session_key, session_id), message, place): ((&str, &str), &str, &str),
    text: &str,
    raw: &RawValue,
    edits: &mut Vec<Edit>,
    images: &mut Vec<InlineImage>,
) -> Result<()> {
    let Block { kind, mime_type, data, .. } = block(raw)?;
    // A media file cannot be empty.
    let data = data.filter(|data| &*kind == "image" && !data.is_empty());
    let (Some(data), Some(mime_type)) = (data, mime_type) else { return Ok(()) };
    // By the length of the base64 first, so that a huge image is not decoded to be rejected.
    if data.len() as u64 > MAX_MEDIA.div_ceil(3) * 4 {
        return Err(too_large());
    }
    // An image that cannot be decoded stays in the message: a list for a model says so in its place.
    let Some(bytes) = from_base64(&data) else { return Ok(()) };
    if bytes.len() as u64 > MAX_MEDIA {
        return Err(too_large());
    }
    let id = id((session_id, message, place), &bytes);
    let key = MediaKey::new(session_key, &id, extension(&mime_type))?;
    let json = |text: &str| serde_json::Value::from(text).to_string();
    let (kind, path) = (json(&mime_type), json(&key.to_string()));
    // `raw` borrows from `text`, so the distance of their pointers is the offset of the block.
    let start = raw.get().as_ptr().addr() - text.as_ptr().addr();
    let range = start..start + raw.get().len();
    edits.push((range, format!(r#"{{"type":"image","mime_type":{kind},"path":{path}}}"#)));
    images.push(InlineImage { key, mime_type: mime_type.into_owned(), bytes: bytes.into() });
    Ok(())
}

fn id((session_id, message, place): (&str, &str, &str), bytes: &[u8]) -> String {
    // NUL separates the parts: no other parts join to the same bytes.
    let hash = Sha256::new().chain_update(format!("{session_id}\0{message}\0{place}\0")).chain_update(bytes);
    uuid_of(hash.finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use garth_engine::error::ErrorKind;

    const KEY: &str = "agent:a:main";

    fn taken(content: &str) -> Result<Option<(String, Vec<InlineImage>)>> {
        let raw: Box<RawValue> = serde_json::from_str(content).unwrap();
        let found = extract_images((KEY, "id"), "msg-1", &raw)?;
        Ok(found.map(|(content, taken)| (content.get().to_owned(), taken)))
    }

    #[test]
    fn image_extraction_keeps_other_content_unchanged() {
        let (text, call) =
            (r#"{"type":"text","text":"d\u00e4ta"}"#, r#"{"type":"tool_call","arguments":{"n":1.00}}"#);
        let picture = r#"{"data":"aGk=","type":"image","mime_type":"image/png; q=1"}"#;
        let content = &format!("[{text},{picture},{call}]");
        let before = text;
        let (text, taken) = taken(content).unwrap().unwrap();
        let [one] = &*taken else { panic!("{taken:?}") };
        assert_eq!((&*one.bytes, &*one.mime_type), (&b"hi"[..], "image/png; q=1"));
        let key = one.key.to_string();
        assert!(key.starts_with("media/agent:a:main/") && key.ends_with(".png"), "{key}");
        assert_eq!((&one.key.id()[14..15], key.parse::<MediaKey>().unwrap()), ("8", one.key.clone()));
        let picture = format!(r#"{{"type":"image","mime_type":"image/png; q=1","path":"{key}"}}"#);
        assert_eq!(text, format!("[{before},{picture},{call}]"));
    }

    #[test]
    fn extracts_images_from_tool_results() {
        let picture = r#"{"type":"image","mime_type":"image/gif","data":"aGk="}"#;
        let within = format!(r#"[{picture},{{"type":"text","text":"x"}},{picture}]"#);
        let content =
            &format!(r#"[{{"type":"tool_result","call_id":"c","content":{within},"error":false}}]"#);
        let (text, taken) = taken(content).unwrap().unwrap();
        assert_eq!(taken.len(), 2);
        assert_ne!(taken[0].key, taken[1].key, "each place has a file of its own");
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value[0]["content"][2]["path"], taken[1].key.to_string());
        assert!(!text.contains("data") && text.ends_with(r#","error":false}]"#), "{text}");
    }

    #[test]
    fn image_ids_are_derived_from_message_and_bytes() {
        let raw = |content: &str| serde_json::from_str::<Box<RawValue>>(content).unwrap();
        let image =
            |data: &str| raw(&format!(r#"[{{"type":"image","mime_type":"image/png","data":"{data}"}}]"#));
        let id = |session: &str, message: &str, content: &RawValue| {
            extract_images((KEY, session), message, content).unwrap().unwrap().1[0].key.id().to_owned()
        };
        let first = id("s", "msg-1", &image("aGk="));
        assert_eq!(first, id("s", "msg-1", &image("aGk=")));
        assert_ne!(first, id("s", "msg-2", &image("aGk=")));
        assert_ne!(first, id("t", "msg-1", &image("aGk=")), "that of another session with the same key");
        assert_ne!(first, id("s", "msg-1", &image("aGo=")));
        // No other parts join to the same text.
        assert_ne!(id("k", "msg-1", &image("aGk=")), id("k\u{a0}msg-1", "0", &image("aGk=")));
    }

    #[test]
    fn content_without_images_is_unchanged() {
        for content in [
            r#""data""#,
            "[]",
            r#"[{"type":"text","text":"data"}]"#,
            r#"[{"type":"image","mime_type":"image/png","data":""}]"#,
            r#"[{"type":"image","mime_type":"image/png","url":"data:image/png;base64,aGk="}]"#,
            r#"[{"type":"image","mime_type":"image/png","path":"media/data"}]"#,
            r#"[{"type":"tool_call","id":"c","arguments":{"type":"image","mime_type":"a/b","data":"aGk="}}]"#,
            r#"[{"type":"tool_result","call_id":"c","content":"data"}]"#,
        ] {
            assert_eq!(taken(content).unwrap(), None, "{content}");
        }
    }

    #[test]
    fn extracts_every_form_of_base64() {
        let content = |data: &str| format!(r#"[{{"type":"image","mime_type":"image/png","data":"{data}"}}]"#);
        for data in ["aGk", "aG k=", "aGk=\\n", "a-_="] {
            assert!(taken(&content(data)).unwrap().is_some(), "{data}");
        }
        for data in ["a", "@@@@", "aGk=aGk=", "é"] {
            assert!(taken(&content(data)).unwrap().is_none(), "{data}");
        }
    }

    #[test]
    fn rejects_images_over_25_mib() {
        let image = |bytes: usize| {
            let data = STANDARD.encode(vec![7_u8; bytes]);
            taken(&format!(r#"[{{"type":"image","mime_type":"image/png","data":"{data}"}}]"#))
        };
        assert_eq!(image(26_214_400).unwrap().unwrap().1[0].bytes.len(), 26_214_400);
        assert!(image(26_214_401).unwrap_err().is(ErrorKind::TooLarge));
    }
}
