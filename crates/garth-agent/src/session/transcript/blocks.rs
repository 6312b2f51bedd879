//! Shared code of the formats: reads content block by block, and writes blocks of a session.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use crate::media::data_url;
use crate::session::log::draft::{Draft, Role};
use crate::session::log::message::{Block, ImageSource};
use garth_engine::error::{Error, Result};

/// Longest type of a block that a placeholder names.
const MAX_KIND: usize = 64;

/// End of a placeholder.
const NOT_SHOWN: &str = ": not shown]";

/// A message parsed from a transcript.
#[derive(Clone)]
pub(super) struct ParsedMessage {
    pub(super) id: Option<String>,
    pub(super) role: Role,
    pub(super) created_at: Option<String>,
    pub(super) content: Vec<Block>,
}

impl ParsedMessage {
    pub(super) fn new(role: Role, content: Vec<Block>) -> Self {
        Self { id: None, role, created_at: None, content }
    }

    pub(super) fn draft(&self) -> Draft {
        let draft = match &*self.content {
            [Block::Text(text)] => Draft::message(self.role, text),
            blocks => Draft::message(self.role, &blocks.iter().map(kept).collect::<Vec<_>>()),
        };
        self.created_at.iter().fold(draft, |draft, time| draft.with("created_at", time))
    }
}

/// A block as a session stores it.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum StoredBlock<'a> {
    Text {
        text: &'a str,
    },
    Image {
        mime_type: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        data: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        url: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        path: Option<&'a str>,
    },
    Reasoning {
        #[serde(skip_serializing_if = "Option::is_none")]
        text: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        signature: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        redacted: Option<&'a str>,
    },
    ToolCall {
        id: &'a str,
        name: &'a str,
        arguments: &'a RawValue,
    },
    ToolResult {
        call_id: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<&'a str>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        error: bool,
        content: Box<RawValue>,
    },
}

fn kept(block: &Block) -> StoredBlock<'_> {
    match block {
        Block::Text(text) => StoredBlock::Text { text },
        Block::Image { mime_type, source } => {
            let [mut data, mut url, mut path] = [None; 3];
            match source {
                ImageSource::Data(at) => data = Some(at.as_str()),
                ImageSource::Url(at) => url = Some(at.as_str()),
                ImageSource::Path(at) => path = Some(at.as_str()),
            }
            StoredBlock::Image { mime_type, data, url, path }
        }
        Block::Reasoning { text, signature, redacted } => StoredBlock::Reasoning {
            text: text.as_deref(),
            signature: signature.as_deref(),
            redacted: redacted.as_deref(),
        },
        Block::ToolCall { id, name, arguments } => StoredBlock::ToolCall { id, name, arguments },
        Block::ToolResult { call_id, name, error, content } => {
            let content = match &**content {
                [Block::Text(text)] => json(text),
                blocks => json(&blocks.iter().map(kept).collect::<Vec<_>>()),
            };
            StoredBlock::ToolResult { call_id, name: name.as_deref(), error: *error, content }
        }
    }
}

/// Returns a value as JSON. It must have a JSON form.
pub(super) fn json(value: &(impl Serialize + ?Sized)) -> Box<RawValue> {
    to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// Returns a value as JSON text.
pub(super) fn text(value: &(impl Serialize + ?Sized)) -> String {
    json(value).get().to_owned()
}

/// Parses a value of a message.
pub(super) fn field<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Result<T> {
    serde_json::from_str(raw.get()).map_err(|error| {
        let said = error.to_string();
        Error::invalid(match said.starts_with("missing field `role`") {
            true => "has no `role`: it is not a message of this format".to_owned(),
            false => said,
        })
    })
}

/// Parses content: text, or blocks, each by its type. No content gives no blocks. `block` returns `None` for
/// a block that has no counterpart in a session: a placeholder stands for it.
pub(super) fn blocks(
    content: Option<&RawValue>,
    block: impl Fn(&str, &RawValue) -> Option<Block>,
) -> Result<Vec<Block>> {
    let Some(content) = content.filter(|content| content.get() != "null") else { return Ok(Vec::new()) };
    if content.get().starts_with('"') {
        return Ok(vec![Block::Text(field(content)?)]);
    }
    let items: Vec<&RawValue> =
        field(content).map_err(|_| Error::invalid("`content` is neither text nor a list of blocks"))?;
    let read = |item: &RawValue| match item.get().starts_with('"') {
        // Some programs write a list of texts in place of blocks.
        true => known(item).map(Block::Text),
        false => block(&kind_of(item), item),
    };
    let read = |item: &RawValue| read(item).unwrap_or_else(|| placeholder(item));
    Ok(items.into_iter().map(read).collect())
}

/// Returns the type of a block; empty for one without a type.
fn kind_of(block: &RawValue) -> Cow<'_, str> {
    #[derive(Deserialize)]
    struct TypeOnly<'a> {
        #[serde(rename = "type", borrow)]
        kind: Cow<'a, str>,
    }
    let typed = block.get().starts_with('{').then(|| serde_json::from_str::<TypeOnly<'_>>(block.get()));
    typed.and_then(Result::ok).map_or("".into(), |typed| typed.kind)
}

/// Returns the text that people and models see in place of a block which a session cannot hold. The block
/// itself is kept with the message as it came.
pub(super) fn placeholder(block: &RawValue) -> Block {
    let kind = kind_of(block);
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let name = match kind.is_empty() || kind.len() > MAX_KIND || !kind.chars().all(plain) {
        true => "block of an unknown type",
        false => &kind,
    };
    Block::Text(format!("[{name}{NOT_SHOWN}"))
}

/// Returns the number of placeholders in messages. If the original message contains the text of a
/// placeholder, none is counted.
pub(super) fn placeholders(said: &[ParsedMessage], raw: &RawValue) -> u64 {
    fn count(blocks: &[Block]) -> u64 {
        let of = |block: &Block| match block {
            Block::Text(text) => u64::from(text.ends_with(NOT_SHOWN)),
            Block::ToolResult { content, .. } => count(content),
            _ => 0,
        };
        blocks.iter().map(of).sum()
    }
    if raw.get().contains(NOT_SHOWN) { 0 } else { said.iter().map(|said| count(&said.content)).sum() }
}

/// Parses a block of text.
pub(super) fn text_block(raw: &RawValue) -> Option<Block> {
    #[derive(Deserialize)]
    struct Text {
        text: String,
    }
    Some(Block::Text(known::<Text>(raw)?.text))
}

/// Parses a block, or a part of one; `None` for one of another shape.
pub(super) fn known<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Option<T> {
    serde_json::from_str(raw.get()).ok()
}

/// Returns the error for an unknown role.
pub(super) fn unknown_role(role: &str) -> Error {
    Error::invalid(format!("role `{role}` is unknown in this format"))
}

/// Returns a text as JSON if it is an object without repeated keys.
pub(super) fn object(text: &str) -> Option<Box<RawValue>> {
    let text = text.trim_matches([' ', '\t', '\n', '\r']);
    let is_object = text.starts_with('{') && garth_engine::rule::json::read(text.as_bytes()).is_ok();
    is_object.then(|| RawValue::from_string(text.to_owned()).ok())?
}

/// Parses the arguments of a call: an object or a text. Missing arguments and `null` give an empty object.
pub(super) fn arguments(raw: Option<&RawValue>) -> Option<Box<RawValue>> {
    match raw.map(|raw| (raw, raw.get().as_bytes().first())) {
        None | Some((_, Some(b'n'))) => Some(json(&serde_json::Map::new())),
        Some((raw, Some(b'{' | b'"'))) => Some(raw.to_owned()),
        Some(_) => None,
    }
}

/// Returns arguments as an object. A text that is not an object is put into one.
pub(super) fn as_object(arguments: &RawValue) -> Box<RawValue> {
    match serde_json::from_str::<String>(arguments.get()) {
        Ok(text) if text.trim().is_empty() => json(&serde_json::Map::new()),
        Ok(text) => object(&text).unwrap_or_else(|| json(&serde_json::json!({"text": text}))),
        Err(_) => arguments.to_owned(),
    }
}

/// Returns the text in place of an image where the format allows none.
pub(super) fn label(mime_type: &str, source: &ImageSource) -> String {
    match source {
        ImageSource::Data(_) => format!("[image: {mime_type}]"),
        ImageSource::Url(at) | ImageSource::Path(at) => format!("[image: {at}]"),
    }
}

/// Returns MIME type and base64 data of an image; `None` for an image that is only referred to by a URL or
/// path.
pub(super) fn data<'a>(mime_type: &'a str, source: &'a ImageSource) -> Option<(&'a str, &'a str)> {
    match source {
        ImageSource::Data(data) => Some((mime_type, data)),
        ImageSource::Url(url) => data_url(url),
        ImageSource::Path(_) => None,
    }
}
