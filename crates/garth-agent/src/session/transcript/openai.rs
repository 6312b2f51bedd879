//! Messages of Chat Completions.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::blocks::{
    ParsedMessage, blocks, data, field, json, known, label, object, placeholder, text, text_block,
    unknown_role,
};
use super::surrogates::whole_pairs;
use crate::media::{data_url, percent_decoded};
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
    name: Option<&'a RawValue>,
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
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    function: Option<Function<'a>>,
    custom: Option<Custom>,
}

#[derive(Deserialize)]
struct Function<'a> {
    name: String,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
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
            let mut content = blocks(line.content, |kind, raw| part(kind, raw, "assistant"))?;
            content.extend(line.refusal.filter(|refusal| !refusal.is_empty()).map(Block::Text));
            let calls = line.tool_calls.unwrap_or_default().into_iter();
            content.extend(calls.map(|raw| call(raw).unwrap_or_else(|| placeholder(raw))));
            if let Some(raw) = line.function_call.filter(|call| call.get() != "null") {
                content.push(function_call(raw).unwrap_or_else(|| placeholder(raw)));
            }
            (Role::Assistant, content)
        }
        role @ ("tool" | "function") => {
            let content = blocks(line.content, |kind, raw| part(kind, raw, "tool"))?;
            let (field, call_id) = match role {
                "tool" => ("tool_call_id", line.tool_call_id),
                _ => ("name", line.name.and_then(known)),
            };
            let call_id = call_id.ok_or_else(|| Error::invalid(format!("a {role} message has a {field}")))?;
            (Role::Tool, vec![Block::ToolResult { call_id, name: None, error: false, content }])
        }
        role => return Err(unknown_role(role)),
    };
    let mut said = ParsedMessage::new(role, content);
    said.id = line.id.and_then(|id| field(id).ok());
    Ok(vec![said])
}

fn call(raw: &RawValue) -> Option<Block> {
    let call: Call<'_> = known(raw)?;
    let (name, arguments) = match (call.kind.as_deref().unwrap_or_default(), call.function, call.custom) {
        ("function" | "", Some(Function { name, arguments }), _) => (name, of_function(arguments)?),
        ("custom", _, Some(Custom { name, input })) => (name, json(&input)),
        _ => return None,
    };
    Some(Block::ToolCall { id: call.id, name, arguments })
}

/// Parses a call as they were before there were ids: its result names the function, which serves as the id.
fn function_call(raw: &RawValue) -> Option<Block> {
    let Function { name, arguments } = known(raw)?;
    Some(Block::ToolCall { id: name.clone(), name, arguments: of_function(arguments)? })
}

/// Returns arguments, which come as a string with an object in it. Some servers give the object itself.
fn of_function(raw: Option<&RawValue>) -> Option<Box<RawValue>> {
    let Some(raw) = raw.filter(|raw| raw.get() != "null") else { return Some(json("")) };
    if raw.get().starts_with('{') {
        return Some(compact(raw));
    }
    let text: String = known(raw)?;
    // The arguments are JSON inside a JSON string. Only the surrogates of the outer text have been mended.
    let mended = whole_pairs(&text);
    let object = object(mended.as_deref().unwrap_or(&text));
    Some(object.map_or_else(|| json(&text), |object| compact(&object)))
}

fn part(kind: &str, raw: &RawValue, role: &str) -> Option<Block> {
    #[derive(Deserialize)]
    struct Image {
        image_url: Url,
    }
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Url {
        Object { url: String },
        Text(String),
    }
    #[derive(Deserialize)]
    struct Refusal {
        refusal: String,
    }
    match (kind, role) {
        ("text", _) => text_block(raw),
        ("refusal", "assistant") => Some(Block::Text(known::<Refusal>(raw)?.refusal)),
        ("image_url", "user" | "tool") => {
            let (Url::Object { url } | Url::Text(url)) = known::<Image>(raw)?.image_url;
            Some(match data_url(&url) {
                Some((mime_type, data)) => Block::Image {
                    mime_type: (if mime_type.is_empty() { ANY_IMAGE } else { mime_type }).to_owned(),
                    source: ImageSource::Data(percent_decoded(data).into_owned()),
                },
                None => Block::Image { mime_type: ANY_IMAGE.to_owned(), source: ImageSource::Url(url) },
            })
        }
        _ => None,
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
            // Chat Completions has no place for thoughts, and results are messages of their own.
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
