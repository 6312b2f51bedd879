//! Messages of Anthropic. There results of tools are blocks of the user; here they are messages of their own.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::blocks::{
    ParsedMessage, arguments, as_object, blocks, data, field, known, label, text, text_block, unknown_role,
};
use crate::session::log::draft::Role;
use crate::session::log::message::{Block, ImageSource, Message};
use garth_engine::error::Result;

/// MIME type of an image of which only a URL is known.
const ANY_IMAGE: &str = "image/*";

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    role: Cow<'a, str>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    id: Option<&'a RawValue>,
}

pub(super) fn read(raw: &RawValue) -> Result<Vec<ParsedMessage>> {
    let line: Line<'_> = field(raw)?;
    let (role, content) = match &*line.role {
        "system" => (Role::System, blocks(line.content, |kind, raw| plain(kind, raw, "system"))?),
        "user" => (Role::User, blocks(line.content, user)?),
        "assistant" => (Role::Assistant, blocks(line.content, step)?),
        role => return Err(unknown_role(role)),
    };
    let had_some = !content.is_empty();
    // A session has each result as a message of its own. Results come first, right after their calls.
    let (results, rest): (Vec<_>, Vec<_>) =
        content.into_iter().partition(|block| matches!(block, Block::ToolResult { .. }));
    let mut said: Vec<_> =
        results.into_iter().map(|result| ParsedMessage::new(Role::Tool, vec![result])).collect();
    // A message with results alone leaves nothing of the user; one without content stays a message.
    if !rest.is_empty() || !had_some {
        said.push(ParsedMessage::new(role, rest));
    }
    // Several messages cannot share the id of the one that they come from.
    if let [only] = &mut *said {
        only.id = line.id.and_then(|id| field(id).ok());
    }
    Ok(said)
}

fn user(kind: &str, raw: &RawValue) -> Option<Block> {
    #[derive(Deserialize)]
    struct Answer<'a> {
        tool_use_id: String,
        #[serde(borrow)]
        content: Option<&'a RawValue>,
        is_error: Option<bool>,
    }
    if kind != "tool_result" {
        return plain(kind, raw, "user");
    }
    let answer: Answer<'_> = known(raw)?;
    let content = blocks(answer.content, |kind, raw| plain(kind, raw, "tool")).ok()?;
    let error = answer.is_error.unwrap_or(false);
    Some(Block::ToolResult { call_id: answer.tool_use_id, name: None, error, content })
}

fn plain(kind: &str, raw: &RawValue, role: &str) -> Option<Block> {
    #[derive(Deserialize)]
    struct Image {
        source: Source,
    }
    #[derive(Deserialize)]
    struct Source {
        #[serde(rename = "type")]
        kind: String,
        media_type: Option<String>,
        data: Option<String>,
        url: Option<String>,
    }
    match kind {
        "text" => text_block(raw),
        "image" if role != "system" => match known::<Image>(raw)?.source {
            Source { kind, media_type: Some(mime_type), data: Some(data), .. } if kind == "base64" => {
                Some(Block::Image { mime_type, source: ImageSource::Data(data) })
            }
            Source { kind, url: Some(url), .. } if kind == "url" => {
                Some(Block::Image { mime_type: ANY_IMAGE.to_owned(), source: ImageSource::Url(url) })
            }
            // Other sources, such as a file that the provider stores, become placeholders.
            Source { .. } => None,
        },
        _ => None,
    }
}

fn step(kind: &str, raw: &RawValue) -> Option<Block> {
    #[derive(Deserialize)]
    struct Thinking {
        thinking: String,
        signature: Option<String>,
    }
    #[derive(Deserialize)]
    struct Redacted {
        data: String,
    }
    #[derive(Deserialize)]
    struct Call<'a> {
        id: String,
        name: String,
        #[serde(borrow)]
        input: Option<&'a RawValue>,
    }
    match kind {
        "text" => text_block(raw),
        "thinking" => {
            let Thinking { thinking, signature } = known(raw)?;
            Some(Block::Reasoning { text: Some(thinking), signature, redacted: None })
        }
        "redacted_thinking" => {
            let redacted = Some(known::<Redacted>(raw)?.data);
            Some(Block::Reasoning { text: None, signature: None, redacted })
        }
        "tool_use" => {
            let call: Call<'_> = known(raw)?;
            Some(Block::ToolCall { id: call.id, name: call.name, arguments: arguments(call.input)? })
        }
        _ => None,
    }
}

#[derive(Serialize)]
struct OutputMessage<'a> {
    role: &'static str,
    content: Content<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(Cow<'a, str>),
    Blocks(Vec<Part<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    Text {
        text: Cow<'a, str>,
    },
    Image {
        source: OutputSource<'a>,
    },
    Thinking {
        thinking: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        signature: Option<&'a str>,
    },
    RedactedThinking {
        data: &'a str,
    },
    ToolUse {
        id: &'a str,
        name: &'a str,
        input: Box<RawValue>,
    },
    ToolResult {
        tool_use_id: &'a str,
        content: Box<Content<'a>>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum OutputSource<'a> {
    Base64 { media_type: &'a str, data: &'a str },
    Url { url: &'a str },
}

/// Writes one message, or the results of one step.
pub(super) fn write(messages: &[&Message], is_first: bool) -> String {
    let (mut role, mut in_midst) = ("user", false);
    if let [message] = messages {
        match message.role {
            Role::Assistant => role = "assistant",
            // The API has a place for the system before all other messages only.
            Role::System if is_first => role = "system",
            Role::System => in_midst = true,
            Role::User | Role::Tool => {}
        }
    }
    let blocks = messages.iter().flat_map(|message| &message.content);
    let mut content = content(blocks, role == "user");
    if in_midst {
        match &mut content {
            Content::Text(text) => *text = format!("[system] {text}").into(),
            Content::Blocks(parts) => parts.insert(0, Part::Text { text: "[system]".into() }),
        }
    }
    text(&OutputMessage { role, content })
}

fn content<'a>(blocks: impl Iterator<Item = &'a Block>, with_images: bool) -> Content<'a> {
    let mut parts: Vec<_> = blocks.map(|block| part(block, with_images)).collect();
    match &mut *parts {
        [Part::Text { text }] => Content::Text(std::mem::take(text)),
        _ => Content::Blocks(parts),
    }
}

fn part(block: &Block, with_images: bool) -> Part<'_> {
    match block {
        Block::Text(text) => Part::Text { text: text.into() },
        Block::Image { mime_type, source } => match (data(mime_type, source), source) {
            (Some((media_type, data)), _) if with_images => {
                Part::Image { source: OutputSource::Base64 { media_type, data } }
            }
            (None, ImageSource::Url(url)) if with_images => Part::Image { source: OutputSource::Url { url } },
            (_, source) => Part::Text { text: label(mime_type, source).into() },
        },
        Block::Reasoning { redacted: Some(data), .. } => Part::RedactedThinking { data },
        Block::Reasoning { text, signature, .. } => {
            Part::Thinking { thinking: text.as_deref().unwrap_or_default(), signature: signature.as_deref() }
        }
        Block::ToolCall { id, name, arguments } => Part::ToolUse { id, name, input: as_object(arguments) },
        Block::ToolResult { call_id, error, content, .. } => Part::ToolResult {
            tool_use_id: call_id,
            content: Box::new(self::content(content.iter(), true)),
            is_error: *error,
        },
    }
}
