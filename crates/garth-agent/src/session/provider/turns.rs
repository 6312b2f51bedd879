//! Messages in the terms that all providers share: turns of the system, the user and the model, each call
//! with its result, all texts masked. The files of the formats only write these down.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::value::RawValue;

use super::ids::{self, Ids};
use crate::session::log::draft::Role;
use crate::session::log::message::{Block, ImageSource, Message};
use garth_engine::rule::json;
use garth_engine::text::secret::masked;

/// Text in place of the result of a call that has none.
pub(super) const INTERRUPTED: &str = "[interrupted: no result recorded]";
/// Text in place of an empty result.
const NO_OUTPUT: &str = "[no output]";
/// Text in place of the messages before the first, where a list has to start with the user.
pub(super) const EARLIER: &str = "[earlier messages are not shown]";

/// MIME types of images that providers accept.
const MIME_TYPES: [&str; 4] = ["image/jpeg", "image/png", "image/gif", "image/webp"];

/// Returns true if providers accept images of this type.
pub(crate) fn is_taken(mime_type: &str) -> bool {
    MIME_TYPES.contains(&mime_type)
}

/// A turn of one role; that of a model includes the results of its calls. No text is empty.
pub(super) enum Turn {
    System(String),
    User(Vec<Part>),
    Step(Vec<StepPart>),
}

/// A part of a message of the user, or of the output of a tool.
pub(super) enum Part {
    Text(String),
    Image(Image),
}

/// An image that providers accept.
pub(super) struct Image {
    pub(super) mime_type: String,
    pub(super) is_data: bool,
    /// Base64, or a URL.
    pub(super) source: String,
}

/// A part of a turn of the model.
pub(super) enum StepPart {
    Text(String),
    Thought { text: String, signature: String },
    Redacted(String),
    Call(Call),
}

/// A call with its result.
pub(super) struct Call {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: Arguments,
    pub(super) error: bool,
    pub(super) result: Vec<Part>,
}

/// The arguments of a call.
pub(super) enum Arguments {
    /// An object, as it was written.
    Object(Box<RawValue>),
    Text(String),
}

/// Position of a call: index of the message, and of the block in it.
type Place = (usize, usize);

pub(super) fn turns(messages: &[Message]) -> Vec<Turn> {
    let answers = answers(messages);
    let (mut ids, mut turns) = (Ids::default(), Vec::new());
    for (at, message) in messages.iter().enumerate() {
        match message.role {
            Role::System => {
                let texts: Vec<_> = message.content.iter().filter_map(as_text).collect();
                if !texts.is_empty() {
                    turns.push(Turn::System(texts.join("\n\n")));
                }
            }
            Role::User => {
                let parts = parts(&message.content);
                if !parts.is_empty() {
                    turns.push(Turn::User(parts));
                }
            }
            Role::Assistant => {
                let blocks = message.content.iter().enumerate();
                let said: Vec<_> = blocks
                    .filter_map(|(number, block)| said(block, answers.get(&(at, number)).copied(), &mut ids))
                    .collect();
                let has_more = said.iter().any(|said| matches!(said, StepPart::Text(_) | StepPart::Call(_)));
                if has_more {
                    turns.push(Turn::Step(said));
                }
            }
            // each is with its call
            Role::Tool => {}
        }
    }
    turns
}

/// The result of each call: of the calls before it that have its id and no result yet, a result is that of
/// the nearest, one of its own run before others; within one message, of the first.
fn answers(messages: &[Message]) -> HashMap<Place, &Block> {
    let mut answers = HashMap::new();
    let mut open: HashMap<&str, Vec<Place>> = HashMap::new();
    for (at, message) in messages.iter().enumerate() {
        for (number, block) in message.content.iter().enumerate() {
            match (message.role, block) {
                (Role::Assistant, Block::ToolCall { id, .. }) => {
                    open.entry(id).or_default().push((at, number));
                }
                (Role::Tool, Block::ToolResult { call_id, .. }) => {
                    let Some(calls) = open.get_mut(call_id.as_str()) else { continue };
                    let is_own = |call: &&Place| {
                        message.run.is_some() && messages.get(call.0).is_some_and(|of| of.run == message.run)
                    };
                    let Some(nearest) = calls.iter().rev().find(is_own).or(calls.last()).copied() else {
                        continue;
                    };
                    let first = calls.partition_point(|call| call.0 < nearest.0);
                    answers.insert(calls.remove(first), block);
                }
                _ => {}
            }
        }
    }
    answers
}

fn said(block: &Block, answer: Option<&Block>, ids: &mut Ids) -> Option<StepPart> {
    match block {
        Block::Text(_) | Block::Image { .. } => as_text(block).map(StepPart::Text),
        Block::Reasoning { redacted: Some(redacted), .. } if !redacted.is_empty() => {
            Some(StepPart::Redacted(redacted.clone()))
        }
        Block::Reasoning { text, signature: Some(signature), .. } if !signature.is_empty() => {
            let text = text.as_deref().unwrap_or_default();
            // a signature is of the text as it was: with a mark in it, it would be refused
            let is_plain = masked(text) == text;
            is_plain.then(|| StepPart::Thought { text: text.to_owned(), signature: signature.clone() })
        }
        Block::Reasoning { .. } | Block::ToolResult { .. } => None,
        Block::ToolCall { id, name, arguments } => {
            let (error, mut result) = match answer {
                Some(Block::ToolResult { error, content, .. }) => (*error, parts(content)),
                _ => (false, vec![Part::Text(INTERRUPTED.to_owned())]),
            };
            let is_blank = |part: &Part| matches!(part, Part::Text(text) if text.trim().is_empty());
            if result.iter().all(is_blank) {
                result = vec![Part::Text(NO_OUTPUT.to_owned())];
            }
            let (id, name) = (ids.of(id), ids::name(name));
            Some(StepPart::Call(Call { id, name, arguments: self::arguments(arguments), error, result }))
        }
    }
}

fn arguments(raw: &RawValue) -> Arguments {
    let text = match serde_json::from_str::<String>(raw.get()) {
        Ok(text) => text,
        Err(_) => raw.get().to_owned(),
    };
    let text = masked(&text).into_owned();
    if text.trim().is_empty() {
        return object("{}").map_or(Arguments::Text(text), Arguments::Object);
    }
    object(&text).map_or(Arguments::Text(text), Arguments::Object)
}

/// A text that is an object, with no key twice.
fn object(text: &str) -> Option<Box<RawValue>> {
    let text = text.trim_matches([' ', '\t', '\n', '\r']);
    let is_object = text.starts_with('{') && json::read(text.as_bytes()).is_ok();
    is_object.then(|| RawValue::from_string(text.to_owned()).ok())?
}

/// Returns the parts of content that a user message can have: texts that are not empty, and images.
fn parts(content: &[Block]) -> Vec<Part> {
    let part = |block: &Block| match block {
        Block::Image { mime_type, source } => {
            image(mime_type, source).map(Part::Image).or_else(|| as_text(block).map(Part::Text))
        }
        _ => as_text(block).map(Part::Text),
    };
    content.iter().filter_map(part).collect()
}

/// Returns a text that is not empty, or the name of an image.
fn as_text(block: &Block) -> Option<String> {
    match block {
        Block::Text(text) => Some(masked(text).into_owned()).filter(|text| !text.is_empty()),
        Block::Image { source: ImageSource::Path(path), .. } => Some(label(path)),
        Block::Image { mime_type, .. } => Some(label(mime_type)),
        _ => None,
    }
}

fn label(name: &str) -> String {
    format!("[image: {}]", masked(name))
}

/// Returns an image if every provider accepts it.
fn image(mime_type: &str, source: &ImageSource) -> Option<Image> {
    let (mime_type, is_data, source) = match source {
        ImageSource::Data(data) => (mime_type, true, data.as_str()),
        ImageSource::Url(url) => match url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"))
        {
            Some((mime_type, data)) => (mime_type, true, data),
            None => (mime_type, false, url.as_str()),
        },
        ImageSource::Path(_) => return None,
    };
    let goes = match is_data {
        true => is_taken(mime_type) && !source.is_empty() && STANDARD.decode(source).is_ok(),
        false => {
            let is_web = source.starts_with("https://") || source.starts_with("http://");
            is_web
                && !source.contains(|c: char| c.is_whitespace() || c.is_control())
                && masked(source) == source
        }
    };
    goes.then(|| Image { mime_type: mime_type.to_owned(), is_data, source: source.to_owned() })
}

impl Image {
    pub(super) fn label(&self) -> String {
        label(&self.mime_type)
    }
}

/// Returns a string as JSON.
pub(super) fn string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
