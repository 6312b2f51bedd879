//! Messages of pi-ai: JSON Lines, each with a role of `user`, `assistant` or `toolResult`.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::blocks::{
    ParsedMessage, arguments, as_object, blocks, data, field, label, text, text_block, unknown, unknown_role,
};
use crate::session::log::draft::Role;
use crate::session::log::message::{Block, ImageSource, Message};
use garth_engine::error::{Error, Result};
use garth_engine::model::Timestamp;

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
    #[serde(default)]
    is_error: bool,
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
            (Role::Tool, vec![Block::ToolResult { call_id, name, error: line.is_error, content }])
        }
        role => return Err(unknown_role(role)),
    };
    let mut said = ParsedMessage::new(role, content);
    said.created_at = line.timestamp.and_then(|time| serde_json::from_str(time.get()).ok()).and_then(time);
    said.id = line.id.and_then(|id| field(id).ok());
    Ok(vec![said])
}

/// Returns a time given as milliseconds since 1970 in the form of a session.
fn time(millis: i64) -> Option<String> {
    Some(Timestamp(millis.checked_mul(1_000_000)?).to_rfc3339())
}

fn plain(kind: &str, raw: &RawValue, role: &str) -> Result<Block> {
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
            let image: Image = field(raw)?;
            let source = match (image.data.filter(|data| !data.is_empty()), image.r2_key) {
                (Some(data), _) => ImageSource::Data(data),
                (None, Some(key)) => ImageSource::Path(key),
                (None, None) => ImageSource::Data(String::new()),
            };
            Ok(Block::Image { mime_type: image.mime_type, source })
        }
        kind => Err(unknown(kind, role)),
    }
}

fn step(kind: &str, raw: &RawValue) -> Result<Block> {
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
            let Thinking { thinking, thinking_signature, redacted } = field(raw)?;
            Ok(match redacted {
                true => Block::Reasoning {
                    text: thinking.filter(|text| !text.is_empty()),
                    signature: None,
                    redacted: thinking_signature,
                },
                false => Block::Reasoning { text: thinking, signature: thinking_signature, redacted: None },
            })
        }
        "toolCall" => {
            let call: Call<'_> = field(raw)?;
            Ok(Block::ToolCall { id: call.id, name: call.name, arguments: arguments(call.arguments)? })
        }
        kind => Err(unknown(kind, "assistant")),
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
            // a message of this kind has a name
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
