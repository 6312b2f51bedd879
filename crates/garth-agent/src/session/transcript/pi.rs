//! Messages of pi-ai: JSON Lines, each with a role of `user`, `assistant` or `toolResult`.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::blocks::{
    ParsedMessage, arguments, as_object, blocks, data, field, known, label, text, text_block, unknown_role,
};
use crate::session::log::draft::Role;
use crate::session::log::message::{Block, ImageSource, Message};
use garth_engine::error::{Error, Result};
use garth_engine::model::Timestamp;

/// Milliseconds up to which a number with a fraction is a time: all that a timestamp can hold.
const MAX_MILLIS: f64 = 9.2e12;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    #[serde(borrow)]
    role: Cow<'a, str>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    timestamp: Option<&'a RawValue>,
    id: Option<&'a RawValue>,
    tool_call_id: Option<String>,
    tool_name: Option<String>,
    is_error: Option<bool>,
}

pub(super) fn read(raw: &RawValue) -> Result<Vec<ParsedMessage>> {
    let line: Line<'_> = field(raw)?;
    let (role, content) = match &*line.role {
        "system" => (Role::System, blocks(line.content, |kind, raw| plain(kind, raw, "system"))?),
        "user" => (Role::User, blocks(line.content, |kind, raw| plain(kind, raw, "user"))?),
        "assistant" => (Role::Assistant, blocks(line.content, step)?),
        "toolResult" => {
            let content = blocks(line.content, |kind, raw| plain(kind, raw, "tool"))?;
            let call_id = line.tool_call_id.ok_or_else(|| Error::invalid("a toolResult has a toolCallId"))?;
            let name = line.tool_name.filter(|name| !name.is_empty());
            (
                Role::Tool,
                vec![Block::ToolResult { call_id, name, error: line.is_error.unwrap_or(false), content }],
            )
        }
        role => return Err(unknown_role(role)),
    };
    let mut said = ParsedMessage::new(role, content);
    said.created_at = line.timestamp.map_or(Ok(None), time)?;
    said.id = line.id.and_then(|id| field(id).ok());
    Ok(vec![said])
}

/// Returns a time in the form of a session: milliseconds since 1970, as a number or in a text, or a text of
/// RFC 3339.
fn time(raw: &RawValue) -> Result<Option<String>> {
    let text = match serde_json::from_str::<String>(raw.get()) {
        Ok(text) => text,
        Err(_) if raw.get() == "null" => return Ok(None),
        Err(_) => raw.get().to_owned(),
    };
    let text = text.trim();
    let millis = text.parse::<i64>().ok().or_else(|| {
        let millis = text.parse::<f64>().ok()?;
        (millis.abs() < MAX_MILLIS).then_some(millis as i64)
    });
    let time = match millis {
        Some(millis) => millis.checked_mul(1_000_000).map(Timestamp),
        None => Timestamp::parse_rfc3339(text).ok(),
    };
    let time = time.ok_or_else(|| {
        Error::invalid("its timestamp is no time; give milliseconds since 1970, or a text of RFC 3339")
    })?;
    Ok(Some(time.to_rfc3339()))
}

fn plain(kind: &str, raw: &RawValue, role: &str) -> Option<Block> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Image {
        #[serde(default)]
        mime_type: String,
        data: Option<String>,
        r2_key: Option<String>,
    }
    match kind {
        "text" => text_block(raw),
        "image" if role != "system" => {
            let image: Image = known(raw)?;
            let source = match (image.data.filter(|data| !data.is_empty()), image.r2_key) {
                (Some(data), _) => ImageSource::Data(data),
                (None, Some(key)) => ImageSource::Path(key),
                (None, None) => ImageSource::Data(String::new()),
            };
            Some(Block::Image { mime_type: image.mime_type, source })
        }
        _ => None,
    }
}

fn step(kind: &str, raw: &RawValue) -> Option<Block> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Thinking {
        thinking: Option<String>,
        thinking_signature: Option<String>,
        #[serde(default)]
        redacted: bool,
    }
    #[derive(Deserialize)]
    struct Call<'a> {
        id: String,
        name: String,
        #[serde(borrow)]
        arguments: Option<&'a RawValue>,
    }
    match kind {
        "text" => text_block(raw),
        "thinking" => {
            let Thinking { thinking, thinking_signature, redacted } = known(raw)?;
            Some(match redacted {
                true => Block::Reasoning {
                    text: thinking.filter(|text| !text.is_empty()),
                    signature: None,
                    redacted: thinking_signature,
                },
                false => Block::Reasoning { text: thinking, signature: thinking_signature, redacted: None },
            })
        }
        "toolCall" => {
            let call: Call<'_> = known(raw)?;
            Some(Block::ToolCall { id: call.id, name: call.name, arguments: arguments(call.arguments)? })
        }
        _ => None,
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OutputMessage<'a> {
    role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_name: Option<&'a str>,
    content: Content<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    is_error: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<i64>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(&'a str),
    Blocks(Vec<Part<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
enum Part<'a> {
    Text {
        text: Cow<'a, str>,
    },
    Image {
        #[serde(skip_serializing_if = "Option::is_none")]
        data: Option<&'a str>,
        mime_type: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        r2_key: Option<&'a str>,
    },
    Thinking {
        thinking: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        thinking_signature: Option<&'a str>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        redacted: bool,
    },
    ToolCall {
        id: &'a str,
        name: &'a str,
        arguments: Box<RawValue>,
    },
}

pub(super) fn write(message: &Message) -> String {
    let timestamp = Timestamp::parse_rfc3339(&message.created_at).ok();
    let mut written = OutputMessage {
        role: match message.role {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "toolResult",
        },
        tool_call_id: None,
        tool_name: None,
        content: Content::Blocks(Vec::new()),
        is_error: None,
        timestamp: timestamp.map(|time| time.0.div_euclid(1_000_000)),
    };
    written.content = match (message.role, &*message.content) {
        (Role::Tool, [Block::ToolResult { call_id, name, error, content }]) => {
            (written.tool_call_id, written.is_error) = (Some(call_id.as_str()), Some(*error));
            // The format requires a name of the tool in a result.
            written.tool_name = Some(name.as_deref().unwrap_or_default());
            Content::Blocks(content.iter().filter_map(part).collect())
        }
        (Role::System | Role::User, [Block::Text(text)]) => Content::Text(text),
        (_, content) => Content::Blocks(content.iter().filter_map(part).collect()),
    };
    text(&written)
}

fn part(block: &Block) -> Option<Part<'_>> {
    Some(match block {
        Block::Text(text) => Part::Text { text: text.into() },
        Block::Image { mime_type, source } => match (data(mime_type, source), source) {
            (Some((mime_type, data)), _) => Part::Image { data: Some(data), mime_type, r2_key: None },
            (None, ImageSource::Path(key)) => Part::Image { data: None, mime_type, r2_key: Some(key) },
            (None, source) => Part::Text { text: label(mime_type, source).into() },
        },
        Block::Reasoning { text, redacted: Some(redacted), .. } => Part::Thinking {
            thinking: text.as_deref().unwrap_or_default(),
            thinking_signature: Some(redacted),
            redacted: true,
        },
        Block::Reasoning { text, signature, .. } => Part::Thinking {
            thinking: text.as_deref().unwrap_or_default(),
            thinking_signature: signature.as_deref(),
            redacted: false,
        },
        Block::ToolCall { id, name, arguments } => {
            Part::ToolCall { id, name, arguments: as_object(arguments) }
        }
        Block::ToolResult { .. } => return None,
    })
}
