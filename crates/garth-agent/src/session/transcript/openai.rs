//! Messages of Chat Completions.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::blocks::{
    ParsedMessage, blocks, data, data_url, field, json, label, object, text, text_block, unknown,
    unknown_role,
};
use crate::session::log::draft::{Role, compact};
use crate::session::log::message::{Block, ImageSource, Message};
use garth_engine::error::{Error, Result};

/// MIME type of an image of which only a URL is known.
const ANY_IMAGE: &str = "image/*";

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    role: Cow<'a, str>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_calls: Option<Vec<&'a RawValue>>,
    function_call: Option<&'a RawValue>,
    refusal: Option<String>,
    tool_call_id: Option<String>,
}

#[derive(Deserialize)]
struct Call<'a> {
    id: String,
    #[serde(rename = "type", borrow, default)]
    kind: Cow<'a, str>,
    function: Option<Function>,
    custom: Option<Custom>,
}

#[derive(Deserialize)]
struct Function {
    name: String,
    #[serde(default)]
    arguments: String,
}

#[derive(Deserialize)]
struct Custom {
    name: String,
    #[serde(default)]
    input: String,
}

pub(super) fn read(raw: &RawValue) -> Result<Vec<ParsedMessage>> {
    let line: Line<'_> = field(raw)?;
    let (role, content) = match &*line.role {
        "system" | "developer" => {
            (Role::System, blocks(line.content, |kind, raw| part(kind, raw, "system"))?)
        }
        "user" => (Role::User, blocks(line.content, |kind, raw| part(kind, raw, "user"))?),
        "assistant" => {
            if line.function_call.is_some_and(|call| call.get() != "null") {
                return Err(Error::invalid("function_call is not taken; give tool_calls"));
            }
            let mut content = blocks(line.content, |kind, raw| part(kind, raw, "assistant"))?;
            content.extend(line.refusal.filter(|refusal| !refusal.is_empty()).map(Block::Text));
            for raw in line.tool_calls.unwrap_or_default() {
                content.push(call(raw)?);
            }
            (Role::Assistant, content)
        }
        "tool" => {
            let content = blocks(line.content, |kind, raw| part(kind, raw, "tool"))?;
            let call_id =
                line.tool_call_id.ok_or_else(|| Error::invalid("a tool message has a tool_call_id"))?;
            (Role::Tool, vec![Block::ToolResult { call_id, name: None, error: false, content }])
        }
        role => return Err(unknown_role(role)),
    };
    let mut said = ParsedMessage::new(role, content);
    said.id = line.id.and_then(|id| field(id).ok());
    Ok(vec![said])
}

fn call(raw: &RawValue) -> Result<Block> {
    let call: Call<'_> = field(raw)?;
    let (name, arguments) = match (&*call.kind, call.function, call.custom) {
        ("function" | "", Some(Function { name, arguments }), _) => {
            let arguments = object(&arguments).map_or_else(|| json(&arguments), |object| compact(&object));
            (name, arguments)
        }
        ("custom", _, Some(Custom { name, input })) => (name, json(&input)),
        (kind, ..) => return Err(Error::invalid(format!("a call of type {kind} is not taken"))),
    };
    Ok(Block::ToolCall { id: call.id, name, arguments })
}

fn part(kind: &str, raw: &RawValue, role: &str) -> Result<Block> {
    #[derive(Deserialize)]
    struct Image {
        image_url: Url,
    }
    #[derive(Deserialize)]
    struct Url {
        url: String,
    }
    #[derive(Deserialize)]
    struct Refusal {
        refusal: String,
    }
    match (kind, role) {
        ("text", _) => text_block(raw),
        ("refusal", "assistant") => Ok(Block::Text(field::<Refusal>(raw)?.refusal)),
        ("image_url", "user") => {
            let url = field::<Image>(raw)?.image_url.url;
            Ok(match data_url(&url) {
                Some((mime_type, data)) => Block::Image {
                    mime_type: mime_type.to_owned(),
                    source: ImageSource::Data(data.to_owned()),
                },
                None => Block::Image { mime_type: ANY_IMAGE.to_owned(), source: ImageSource::Url(url) },
            })
        }
        (kind, role) => Err(unknown(kind, role)),
    }
}

#[derive(Serialize)]
struct OutputMessage<'a> {
    role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
    content: Option<Content<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<OutputCall<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<Part<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: OutputUrl<'a> },
}

#[derive(Serialize)]
struct OutputUrl<'a> {
    url: Cow<'a, str>,
}

#[derive(Serialize)]
struct OutputCall<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    function: OutputFunction<'a>,
}

#[derive(Serialize)]
struct OutputFunction<'a> {
    name: &'a str,
    arguments: Cow<'a, str>,
}

pub(super) fn write(message: &Message) -> String {
    let (mut tool_call_id, mut tool_calls) = (None, Vec::new());
    let (role, blocks) = match (message.role, &*message.content) {
        (Role::System, blocks) => ("system", blocks),
        (Role::User, blocks) => ("user", blocks),
        (Role::Assistant, blocks) => ("assistant", blocks),
        (Role::Tool, [Block::ToolResult { call_id, content, .. }]) => {
            tool_call_id = Some(call_id.as_str());
            ("tool", &**content)
        }
        (Role::Tool, blocks) => ("tool", blocks),
    };
    let mut parts = Vec::new();
    for block in blocks {
        match block {
            Block::Text(text) => parts.push(Part::Text { text: text.into() }),
            Block::Image { mime_type, source } if role == "user" => parts.push(image(mime_type, source)),
            Block::Image { mime_type, source } => {
                parts.push(Part::Text { text: label(mime_type, source).into() });
            }
            Block::ToolCall { id, name, arguments } => {
                let arguments = match serde_json::from_str::<String>(arguments.get()) {
                    Ok(text) => text.into(),
                    Err(_) => arguments.get().into(),
                };
                let function = OutputFunction { name, arguments };
                tool_calls.push(OutputCall { id, kind: "function", function });
            }
            // there is no place for it
            Block::Reasoning { .. } | Block::ToolResult { .. } => {}
        }
    }
    let content = match &mut *parts {
        [Part::Text { text }] => Some(Content::Text(std::mem::take(text))),
        [] if !tool_calls.is_empty() => None,
        [] => Some(Content::Text("".into())),
        _ => Some(Content::Parts(parts)),
    };
    text(&OutputMessage { role, tool_call_id, content, tool_calls })
}

fn image<'a>(mime_type: &'a str, source: &'a ImageSource) -> Part<'a> {
    let url = match (data(mime_type, source), source) {
        (Some((mime_type, data)), _) => format!("data:{mime_type};base64,{data}").into(),
        (None, ImageSource::Url(url)) => url.into(),
        (None, source) => return Part::Text { text: label(mime_type, source).into() },
    };
    Part::ImageUrl { image_url: OutputUrl { url } }
}
