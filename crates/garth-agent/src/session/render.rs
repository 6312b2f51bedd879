//! Renders messages for a model. Content that was swapped out, cut or shown before, and secrets, are shown in
//! part or by a note. The same lines and rules always give the same bytes.

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use super::log::draft::Role;
use super::log::message::{Block, ImageSource, Message};
use super::store::swap_index::Swapped;
use crate::count::{Counter, count_to};
use crate::media::MediaKey;
use crate::one_word::word;
use crate::small_file::sha256;
use garth_engine::text::secret::{CONTEXT, masked, masked_in_context};

/// Length from which repeated tool output is shown once, 4 KiB: repeats refer to the first.
const REPEATED: usize = 4 << 10;

/// Tokens of an image: an estimate, since each provider has a formula of its own.
pub const IMAGE_TOKENS: u64 = 1600;

/// Result of a tool of which only head and tail are shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PackCut", deny_unknown_fields)]
pub struct Cut {
    /// Line of the message.
    pub line: u64,
    /// Id of the swap entry that leads to the complete result.
    pub swap: String,
    /// Bytes of the start that are shown.
    pub head: u64,
    /// Bytes of the end that are shown.
    pub tail: u64,
}

/// Rules by which messages are rendered.
#[derive(Clone, Debug, Default)]
pub(super) struct RenderRules {
    pub(super) swapped: Vec<Swapped>,
    pub(super) cuts: Vec<Cut>,
    /// Retracted messages.
    pub(super) retracted: Vec<RangeInclusive<u64>>,
}

/// A message as a model gets it.
#[derive(Clone, Debug)]
pub(super) struct RenderedMessage {
    pub(super) message: Message,
    /// Text of the message, under the line that names it.
    pub(super) text: String,
    pub(super) tokens: u64,
    /// True if some of the tokens are estimated.
    pub(super) estimated: bool,
}

/// Reason why a message is not shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HiddenReason {
    Retracted,
    Swapped,
    /// Its call is not shown.
    NoCall,
}

/// Messages that were rendered by themselves, with the hash of their line, by its number.
pub(super) type Known = HashMap<u64, (blake3::Hash, RenderedMessage)>;

/// Renders messages one after the other. The form of each depends on the previous ones.
#[derive(Debug)]
pub(super) struct Renderer<'a> {
    rules: RenderRules,
    tokens: &'a Counter<'a>,
    known: Option<&'a Known>,
    /// Calls so far.
    calls: HashSet<String>,
    /// Long outputs so far, by hash: the line that shows each.
    outputs: HashMap<String, u64>,
    /// Swap entries named so far.
    named: HashSet<String>,
}

impl<'a> Renderer<'a> {
    /// Returns a renderer. Messages in `known` are masked and counted already.
    pub(super) fn new(rules: RenderRules, tokens: &'a Counter<'a>, known: Option<&'a Known>) -> Self {
        let (calls, outputs, named) = (HashSet::new(), HashMap::new(), HashSet::new());
        Self { rules, tokens, known, calls, outputs, named }
    }

    /// Renders the next message, which `text` is the line of.
    pub(super) fn next(
        &mut self,
        (line, text): (u64, &str),
        mut message: Message,
    ) -> Result<RenderedMessage, HiddenReason> {
        if self.rules.retracted.iter().any(|lines| lines.contains(&line)) {
            return Err(HiddenReason::Retracted);
        }
        let swapped = self.rules.swapped.iter().find(|entry| entry.hides(line)).cloned();
        let is_result = message.result_of().is_some();
        // A swapped tool output stays a result, with a note in place of its text: without a result, its call
        // would be shown as interrupted.
        if let Some(entry) = swapped.as_ref().filter(|entry| entry.kind != "tool_output" || !is_result) {
            // One note for all messages of an entry.
            if !self.named.insert(entry.id.clone()) {
                return Err(HiddenReason::Swapped);
            }
            let lines = entry.range.as_deref().unwrap_or_default();
            let note = format!("[messages {lines} are swapped out: swap:{}: {}]", entry.id, entry.summary);
            message.role = Role::System;
            message.content = vec![Block::Text(masked(&note).into_owned())];
            return Ok(section(line, message, self.tokens));
        }
        // Providers refuse a result without its call, as at the beginning of a window.
        if message.result_of().is_some_and(|call| !self.calls.contains(call)) {
            return Err(HiddenReason::NoCall);
        }
        self.calls.extend(message.calls().map(str::to_owned));
        let mut in_part = vec![false; message.content.len()];
        for (block, in_part) in message.content.iter_mut().zip(&mut in_part) {
            if let Block::ToolResult { content, .. } = block
                && let Some(shorter) = self.in_part(line, swapped.as_ref(), content)
            {
                (*content, *in_part) = (vec![Block::Text(shorter)], true);
            }
        }
        // Shown whole, a message has the form that it has by itself.
        if !in_part.contains(&true)
            && let Some((hash, known)) = self.known.and_then(|known| known.get(&line))
            && *hash == blake3::hash(text.as_bytes())
        {
            return Ok(known.clone());
        }
        // A part of a result can look like a secret that the complete one does not have: lists search it
        // again.
        message.is_plain = !in_part.contains(&true);
        for (block, _) in message.content.iter_mut().zip(in_part).filter(|(_, in_part)| !in_part) {
            message.is_plain &= !mask_all(block);
        }
        Ok(section(line, message, self.tokens))
    }

    /// Returns what is shown of a result in its place, or `None` if it is shown whole.
    fn in_part(&mut self, line: u64, swapped: Option<&Swapped>, content: &[Block]) -> Option<String> {
        if let Some(entry) = swapped {
            let note = format!("[swapped out: swap:{}: {}]", entry.id, entry.summary);
            return Some(masked(&note).into_owned());
        }
        if let Some(cut) = self.rules.cuts.iter().find(|cut| cut.line == line) {
            return Some(head_and_tail(&flat(content), cut));
        }
        // Short results cost less than a note, and their hashes are not computed.
        if content.iter().map(length).sum::<usize>() < REPEATED {
            return None;
        }
        let hash = sha256(flat(content).as_bytes());
        if let Some(first) = self.outputs.get(&hash) {
            return Some(format!("[the same as the result in messages:{first}: sha256-{hash}]"));
        }
        self.outputs.insert(hash, line);
        None
    }

    /// Returns true if a message is not shown whole: it was retracted, or has a result whose call is not
    /// shown, or that was shown already.
    pub(super) fn is_short(&self, line: u64, message: &Message) -> bool {
        let is_retracted = self.rules.retracted.iter().any(|lines| lines.contains(&line));
        is_retracted
            || message.content.iter().any(|block| match block {
                Block::ToolResult { call_id, content, .. } => {
                    !self.calls.contains(call_id)
                        || self.outputs.contains_key(&sha256(flat(content).as_bytes()))
                }
                _ => false,
            })
    }
}

/// Renders a message by itself, without regard to the ones before it.
pub(super) fn whole(line: u64, mut message: Message, tokens: &Counter<'_>) -> RenderedMessage {
    message.is_plain = true;
    for block in &mut message.content {
        message.is_plain &= !mask_all(block);
    }
    section(line, message, tokens)
}

/// Returns the tokens of a result of which head and tail are shown. `message` has the result without its
/// text.
pub(super) fn cut_tokens(message: &Message, text: &str, cut: &Cut) -> u64 {
    let mut message = message.clone();
    for block in &mut message.content {
        if let Block::ToolResult { content, .. } = block {
            *content = vec![Block::Text(head_and_tail(text, cut))];
        }
    }
    section(cut.line, message, &Counter::default()).tokens
}

/// Returns true if a text is so long that it has more tokens than this without a count: no token of the
/// encoding has more bytes. False for shorter texts, of which masked secrets may leave little.
pub(super) fn is_beyond(bytes: usize, tokens: u64) -> bool {
    const LONGEST_TOKEN: u64 = 128;
    const LONG: usize = 256 << 10;
    bytes > LONG && bytes as u64 > tokens.saturating_mul(LONGEST_TOKEN)
}

/// Returns the number of tokens of a text, if they are at most `most`.
pub(super) fn fits(text: &str, most: u64) -> Option<u64> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    count_to(text, most).map(|tokens| tokens as u64)
}

/// Returns a text under a comment that names it. The text cannot open a comment of its own.
pub(super) fn part(what: &str, text: &str) -> String {
    // Otherwise a text could pass for another part of the pack, such as the system prompt.
    let text = text.replace("<!--", "<\\!--");
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    format!("<!-- {what} -->\n{text}{end}")
}

/// Returns a message as text, under the line that names it.
fn section(line: u64, message: Message, tokens: &Counter<'_>) -> RenderedMessage {
    let role = match message.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    };
    let (mut text, mut pictures) = (String::new(), 0);
    let mut add = |what: &str, said: &str| text.push_str(&part(what, said));
    let mut first = true;
    for block in &message.content {
        let head = if first { format!("messages:{line} {role}") } else { format!("messages:{line}") };
        first = false;
        match block {
            Block::Text(said) => add(&head, said),
            Block::Image { mime_type, source } => {
                pictures += u64::from(is_seen(source));
                add(&format!("{head} image"), &picture(mime_type, source));
            }
            Block::Reasoning { text, .. } => {
                add(&format!("{head} reasoning"), text.as_deref().unwrap_or_default());
            }
            Block::ToolCall { id, name, arguments } => {
                let text = serde_json::from_str::<String>(arguments.get());
                let what = format!("{head} call {} of {}", word(id), word(name));
                add(&what, text.as_deref().unwrap_or(arguments.get()));
            }
            Block::ToolResult { call_id, error, content, .. } => {
                pictures += content.iter().filter(|block| is_picture(block)).count() as u64;
                let failed = if *error { ", failed" } else { "" };
                add(&format!("{head} result of {}{failed}", word(call_id)), &flat(content));
            }
        }
    }
    if first {
        add(&format!("messages:{line} {role}"), "");
    }
    let tokens = tokens.count(&text) as u64 + pictures * IMAGE_TOKENS;
    RenderedMessage { message, text, tokens, estimated: pictures > 0 }
}

/// Returns true for an image that a model gets; the bytes of media are added when the list is built.
fn is_picture(block: &Block) -> bool {
    matches!(block, Block::Image { source, .. } if is_seen(source))
}

fn is_seen(source: &ImageSource) -> bool {
    match source {
        ImageSource::Path(path) => path.parse::<MediaKey>().is_ok(),
        ImageSource::Data(_) | ImageSource::Url(_) => true,
    }
}

fn picture(mime_type: &str, source: &ImageSource) -> String {
    match source {
        ImageSource::Data(data) => {
            format!("[{}, {} bytes in base64, sha256-{}]", mime_type, data.len(), sha256(data.as_bytes()))
        }
        ImageSource::Url(at) | ImageSource::Path(at) => format!("[{mime_type}, {at}]"),
    }
}

fn length(block: &Block) -> usize {
    match block {
        Block::Text(text) => text.len(),
        _ => 0,
    }
}

/// Returns the output of a tool as text.
pub(super) fn flat(content: &[Block]) -> String {
    let texts = content.iter().filter_map(|block| match block {
        Block::Text(text) => Some(text.clone()),
        Block::Image { mime_type, source } => Some(picture(mime_type, source)),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Returns head and tail of a text.
fn head_and_tail(text: &str, cut: &Cut) -> String {
    let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(text.len());
    let head = text.floor_char_boundary(place(cut.head));
    let tail = text.ceil_char_boundary(text.len() - place(cut.tail)).max(head);
    // A secret across the cut is not recognised by its shown piece alone: the text around decides, too.
    let around = |range: std::ops::Range<usize>| {
        let before = &text.as_bytes()[range.start.saturating_sub(CONTEXT)..range.start];
        let behind = &text.as_bytes()[range.end..(range.end + CONTEXT).min(text.len())];
        String::from_utf8_lossy(&masked_in_context(before, &text.as_bytes()[range], behind)).into_owned()
    };
    let out = tail - head;
    let (head, tail) = (around(0..head), around(tail..text.len()));
    format!("{head}\n[{out} bytes are left out: swap:{}]\n{tail}", cut.swap)
}

/// Masks secrets in a block, and in all blocks of a result. Returns true if there were any.
fn mask_all(block: &mut Block) -> bool {
    match block {
        Block::ToolResult { content, .. } => {
            let mut is_changed = false;
            for block in content {
                is_changed |= mask(block);
            }
            is_changed
        }
        other => mask(other),
    }
}

fn mask(block: &mut Block) -> bool {
    let text = match block {
        Block::Text(text) | Block::Reasoning { text: Some(text), .. } => &**text,
        Block::ToolCall { arguments, .. } => arguments.get(),
        _ => return false,
    };
    let shown = masked(text);
    if shown == text {
        return false;
    }
    let shown = shown.into_owned();
    match block {
        Block::Text(text) => *text = shown,
        // The signature is that of the text before it was masked.
        Block::Reasoning { text, signature, .. } => (*text, *signature) = (Some(shown), None),
        Block::ToolCall { arguments, .. } => {
            // A mask can break the JSON of arguments: then all of them become one string.
            let kept = RawValue::from_string(shown.clone());
            *arguments = kept.or_else(|_| to_raw_value(&shown)).unwrap_or_else(|_| RawValue::NULL.to_owned());
        }
        _ => {}
    }
    true
}
