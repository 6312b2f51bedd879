//! Lists for the Messages API of Anthropic.

use super::parts::{Arguments, Call, Part, Source, StepPart, Turn};
use super::turns::{EARLIER, string};

/// Blocks of one role, each as JSON.
struct Message {
    is_user: bool,
    blocks: Vec<Block>,
}

enum Block {
    Text(String),
    Thought(String),
    Other(String),
}

pub(super) fn list(turns: Vec<Turn>) -> String {
    let (mut system, mut messages): (Vec<String>, Vec<Message>) = (Vec::new(), Vec::new());
    for turn in turns {
        match turn {
            Turn::System(text) if messages.is_empty() => system.push(text),
            Turn::System(text) => said(&mut messages, true, vec![Block::Text(format!("[system] {text}"))]),
            Turn::User(parts) => said(&mut messages, true, parts.iter().filter_map(part).collect()),
            Turn::Step(step) => {
                let results = step.iter().filter_map(|said| match said {
                    StepPart::Call(call) => Some(Block::Other(result(call))),
                    _ => None,
                });
                // Results come right after the message with the calls, before anything else that the user
                // says.
                let results = results.collect();
                said(&mut messages, false, step.into_iter().filter_map(of_step).collect());
                said(&mut messages, true, results);
            }
        }
    }
    for message in &mut messages {
        // The API refuses a message that ends in thought.
        while matches!(message.blocks.last(), Some(Block::Thought(_))) {
            message.blocks.pop();
        }
    }
    // The API wants the user to begin. A window may begin with the model.
    if messages.first().is_none_or(|first| !first.is_user) {
        messages.insert(0, Message { is_user: true, blocks: vec![Block::Text(EARLIER.to_owned())] });
    }
    // The API refuses a last message of the model that ends in white space.
    if let Some(Message { is_user: false, blocks }) = messages.last_mut()
        && let Some(Block::Text(text)) = blocks.last_mut()
    {
        text.truncate(text.trim_end().len());
    }
    let messages: Vec<_> = messages.iter().map(Message::json).collect();
    let messages = format!(r#""messages":[{}]"#, messages.join(","));
    match system.join("\n\n") {
        system if system.trim().is_empty() => format!("{{{messages}}}"),
        system => format!(r#"{{"system":{},{messages}}}"#, string(&system)),
    }
}

/// Adds blocks to the last message if it has the same role, else as a new message.
fn said(messages: &mut Vec<Message>, is_user: bool, blocks: Vec<Block>) {
    let blocks = blocks.into_iter().filter(|block| !block.is_blank());
    // Roles take turns: results and what the user said next are of one role, and become one message.
    match messages.last_mut().filter(|last| last.is_user == is_user) {
        Some(last) => last.blocks.extend(blocks),
        None => {
            let blocks: Vec<_> = blocks.collect();
            let is_thought = blocks.iter().all(|block| matches!(block, Block::Thought(_)));
            if !is_thought {
                messages.push(Message { is_user, blocks });
            }
        }
    }
}

impl Message {
    fn json(&self) -> String {
        let role = if self.is_user { "user" } else { "assistant" };
        let block = |block: &Block| match block {
            Block::Text(text) => text_block(text),
            Block::Thought(json) | Block::Other(json) => json.clone(),
        };
        let blocks = self.blocks.iter().map(block).collect::<Vec<_>>().join(",");
        format!(r#"{{"role":"{role}","content":[{blocks}]}}"#)
    }
}

impl Block {
    fn is_blank(&self) -> bool {
        matches!(self, Self::Text(text) if text.trim().is_empty())
    }
}

fn text_block(text: &str) -> String {
    format!(r#"{{"type":"text","text":{}}}"#, string(text))
}

fn of_step(said: StepPart) -> Option<Block> {
    Some(match said {
        StepPart::Text(text) => Block::Text(text),
        StepPart::Thought { text, signature } => {
            let (text, signature) = (string(&text), string(&signature));
            Block::Thought(format!(r#"{{"type":"thinking","thinking":{text},"signature":{signature}}}"#))
        }
        StepPart::Redacted(data) => {
            Block::Thought(format!(r#"{{"type":"redacted_thinking","data":{}}}"#, string(&data)))
        }
        StepPart::Call(call) => {
            let input = match &call.arguments {
                Arguments::Object(object) => object.get().to_owned(),
                Arguments::Text(text) => format!(r#"{{"text":{}}}"#, string(text)),
            };
            let (id, name) = (string(&call.id), string(&call.name));
            Block::Other(format!(r#"{{"type":"tool_use","id":{id},"name":{name},"input":{input}}}"#))
        }
    })
}

fn part(part: &Part) -> Option<Block> {
    match part {
        Part::Text(text) => Some(Block::Text(text.clone())),
        Part::Image(image) => {
            let source = match &image.source {
                Source::Url(url) => format!(r#"{{"type":"url","url":{}}}"#, string(url)),
                _ => {
                    let (mime_type, data) = (string(&image.mime_type), string(&image.base64()));
                    format!(r#"{{"type":"base64","media_type":{mime_type},"data":{data}}}"#)
                }
            };
            Some(Block::Other(format!(r#"{{"type":"image","source":{source}}}"#)))
        }
    }
}

fn result(call: &Call) -> String {
    let block = |part: &Part| match part {
        Part::Text(text) if text.trim().is_empty() => None,
        Part::Text(text) => Some(text_block(text)),
        // The API accepts only text in a result with an error.
        Part::Image(image) if call.error => Some(text_block(&image.label())),
        Part::Image(_) => match self::part(part) {
            Some(Block::Other(json)) => Some(json),
            _ => None,
        },
    };
    let content = call.result.iter().filter_map(block).collect::<Vec<_>>().join(",");
    let error = if call.error { r#","is_error":true"# } else { "" };
    let id = string(&call.id);
    format!(r#"{{"type":"tool_result","tool_use_id":{id},"content":[{content}]{error}}}"#)
}
