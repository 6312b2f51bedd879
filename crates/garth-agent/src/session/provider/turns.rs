//! Messages in the terms that all providers share: turns of the system, the user and the model, each call
//! with its result, all texts masked. The files of the formats only write these down.

use std::collections::HashMap;

use serde_json::value::RawValue;

use super::ids::{self, Ids};
use super::images::{Images, label};
use super::parts::{Arguments, Call, Part, StepPart, Turn};
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

/// Part of a message; true if a search found no secrets in any text of the message.
type Plain<'a, T> = (&'a T, bool);

/// Position of a call: index of the message, and of the block in it.
type Place = (usize, usize);

/// Returns the turns of messages, with as many images as a list has room for.
pub(super) fn turns(messages: &[Message], images: &Images<'_>) -> Vec<Turn> {
    // Found beforehand, because providers want each result right after its call, wherever the session has it.
    let answers = answers(messages);
    let (mut ids, mut turns) = (Ids::default(), Vec::new());
    for (at, message) in messages.iter().enumerate() {
        match message.role {
            Role::System => {
                let texts = message.content.iter().filter_map(|block| as_text(block, message.is_plain));
                let texts: Vec<_> = texts.collect();
                if !texts.is_empty() {
                    turns.push(Turn::System(texts.join("\n\n")));
                }
            }
            Role::User => {
                let parts = parts((&message.content, message.is_plain), images);
                if !parts.is_empty() {
                    turns.push(Turn::User(parts));
                }
            }
            Role::Assistant => {
                let blocks = message.content.iter().enumerate();
                let said: Vec<_> = blocks
                    .filter_map(|(number, block)| {
                        let answer = answers.get(&(at, number)).copied();
                        said((block, message.is_plain), answer, images, &mut ids)
                    })
                    .collect();
                // Providers refuse a message without text or calls.
                let has_more = said.iter().any(|said| matches!(said, StepPart::Text(_) | StepPart::Call(_)));
                if has_more {
                    turns.push(Turn::Step(said));
                }
            }
            // Results are written with their calls.
            Role::Tool => {}
        }
    }
    // Last, when all images of the list are known: the newest ones are preferred.
    images.fit(&mut turns);
    turns
}

/// Returns the result of each call. A result belongs to a call before it that has its id and no result yet:
/// to the nearest, one of its own run before others; within one message, to the first.
fn answers(messages: &[Message]) -> HashMap<Place, Plain<'_, Block>> {
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
                    // Ids of calls can repeat from run to run.
                    let is_own = |call: &&Place| {
                        message.run.is_some() && messages.get(call.0).is_some_and(|of| of.run == message.run)
                    };
                    let Some(nearest) = calls.iter().rev().find(is_own).or(calls.last()).copied() else {
                        continue;
                    };
                    // Parallel calls of one message with the same id get their results in order.
                    let first = calls.partition_point(|call| call.0 < nearest.0);
                    answers.insert(calls.remove(first), (block, message.is_plain));
                }
                _ => {}
            }
        }
    }
    answers
}

fn said(
    (block, is_plain): Plain<'_, Block>,
    answer: Option<Plain<'_, Block>>,
    images: &Images<'_>,
    ids: &mut Ids,
) -> Option<StepPart> {
    match block {
        Block::Text(_) | Block::Image { .. } => as_text(block, is_plain).map(StepPart::Text),
        Block::Reasoning { redacted: Some(redacted), .. } if !redacted.is_empty() => {
            Some(StepPart::Redacted(redacted.clone()))
        }
        Block::Reasoning { text, signature: Some(signature), .. } if !signature.is_empty() => {
            let text = text.as_deref().unwrap_or_default();
            // The signature is that of the text as it was: the provider would refuse a text with a mark in
            // it.
            let is_plain = is_plain || masked(text) == text;
            is_plain.then(|| StepPart::Thought { text: text.to_owned(), signature: signature.clone() })
        }
        Block::Reasoning { .. } | Block::ToolResult { .. } => None,
        Block::ToolCall { id, name, arguments } => {
            let (error, mut result) = match answer {
                Some((Block::ToolResult { error, content, .. }, is_plain)) => {
                    (*error, parts((content, is_plain), images))
                }
                _ => (false, vec![Part::Text(INTERRUPTED.to_owned())]),
            };
            let is_blank = |part: &Part| matches!(part, Part::Text(text) if text.trim().is_empty());
            // Providers refuse an empty result.
            if result.iter().all(is_blank) {
                result = vec![Part::Text(NO_OUTPUT.to_owned())];
            }
            let (id, name) = (ids.of(id), ids::name(name));
            Some(StepPart::Call(Call {
                id,
                name,
                arguments: self::arguments(arguments, is_plain),
                error,
                result,
            }))
        }
    }
}

fn arguments(raw: &RawValue, is_plain: bool) -> Arguments {
    let text = match serde_json::from_str::<String>(raw.get()) {
        // Escapes can hide a secret from the search of the text as it is written.
        Ok(text) => masked(&text).into_owned(),
        Err(_) => shown(raw.get(), is_plain),
    };
    // A blank text means no arguments.
    if text.trim().is_empty() {
        return object("{}").map_or(Arguments::Text(text), Arguments::Object);
    }
    object(&text).map_or(Arguments::Text(text), Arguments::Object)
}

/// Returns a text that is a JSON object without repeated keys.
fn object(text: &str) -> Option<Box<RawValue>> {
    let text = text.trim_matches([' ', '\t', '\n', '\r']);
    let is_object = text.starts_with('{') && json::read(text.as_bytes()).is_ok();
    is_object.then(|| RawValue::from_string(text.to_owned()).ok())?
}

/// Returns the parts of content that a user message can have: texts that are not empty, and images.
fn parts((content, is_plain): Plain<'_, [Block]>, images: &Images<'_>) -> Vec<Part> {
    let part = |block: &Block| match block {
        Block::Image { mime_type, source } => Some(images.part(mime_type, source)),
        _ => as_text(block, is_plain).map(Part::Text),
    };
    content.iter().filter_map(part).collect()
}

/// Returns a text that is not empty, or the name of an image.
fn as_text(block: &Block, is_plain: bool) -> Option<String> {
    match block {
        Block::Text(text) => Some(shown(text, is_plain)).filter(|text| !text.is_empty()),
        Block::Image { source: ImageSource::Path(path), .. } => Some(label(path)),
        Block::Image { mime_type, .. } => Some(label(mime_type)),
        _ => None,
    }
}

/// Returns a text with its secrets masked. A plain one has none.
fn shown(text: &str, is_plain: bool) -> String {
    if is_plain { text.to_owned() } else { masked(text).into_owned() }
}

/// Returns a string as JSON.
pub(super) fn string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
