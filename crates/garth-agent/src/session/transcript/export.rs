//! Exports sessions in the formats of other tools, page by page.

use std::ops::RangeInclusive;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::format::TranscriptFormat;
use super::hydrate::MAX_BYTES;
use super::read::is_whole;
use super::{anthropic, markdown, openai, pi};
use crate::boxed;
use crate::session::handle::Sessions;
use crate::session::log::draft::Role;
use crate::session::log::lines::{MAX_PAGE_BYTES, Select};
use crate::session::log::message::Message;
use crate::session::log::native::Reader;
use garth_engine::compute::working;
use garth_engine::error::Result;
use garth_engine::model::MAX_INLINE_BODY;

/// Bytes of lines at which a page ends even among the results of a step, 20 MiB. A message that was imported
/// as one has fewer, so that its original form is on one page.
const MAX_STEP: usize = MAX_INLINE_BODY + MAX_PAGE_BYTES;

/// Options of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Export {
    /// Format.
    pub format: TranscriptFormat,
    /// Lines of messages; the first is 1.
    pub lines: RangeInclusive<u64>,
    /// True to include retracted messages.
    pub retracted: bool,
    /// Bytes at which a page ends, 4 MiB by default.
    page_bytes: usize,
}

impl Export {
    /// Exports all messages, retracted ones left out.
    pub fn new(format: TranscriptFormat) -> Self {
        Self { format, lines: 1..=u64::MAX, retracted: false, page_bytes: MAX_PAGE_BYTES }
    }

    /// Selects lines.
    #[must_use]
    pub fn lines(self, lines: RangeInclusive<u64>) -> Self {
        Self { lines, ..self }
    }

    /// Sets the bytes at which a page ends.
    #[must_use]
    pub(crate) fn page_bytes(self, page_bytes: usize) -> Self {
        Self { page_bytes, ..self }
    }

    /// Includes retracted messages.
    #[must_use]
    pub fn with_retracted(self) -> Self {
        Self { retracted: true, ..self }
    }
}

/// A page of a transcript.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exported {
    /// Its messages, each as JSON, or as a section of Markdown.
    pub items: Vec<String>,
    /// Line at which the next page starts, if there is more.
    pub next: Option<u64>,
}

impl Sessions<'_> {
    /// Returns a page of a transcript. A message that was imported in this format is returned as it came,
    /// unless only a part of the messages derived from it is selected. The first page begins with the system
    /// prompt, if an import has changed it.
    ///
    /// # Errors
    /// `NotFound` for a missing session; from the filesystem.
    #[boxed]
    pub async fn export(&self, session: &str, export: &Export) -> Result<Exported> {
        let mut select = Select::messages(export.lines.clone());
        (select.retracted, select.page_bytes) = (export.retracted, export.page_bytes);
        let mut page = self.lines(session, &select).await?;
        // The results of a step are one message, so that a page must not end among them.
        let mut bytes: usize = page.items.iter().map(|line| line.text.len()).sum();
        while let (Some(next), Some(last)) = (page.next, page.items.last())
            && export.format == TranscriptFormat::Anthropic
            && bytes < MAX_STEP
            && Message::parse(&last.text)?.role == Role::Tool
        {
            select.lines = next..=*export.lines.end();
            let more = self.lines(session, &select).await?;
            bytes += more.items.iter().map(|line| line.text.len()).sum::<usize>();
            page.items.extend(more.items);
            page.next = more.next;
        }
        let mut exported = Exported { items: Vec::new(), next: page.next };
        if export.format == TranscriptFormat::Garth {
            exported.items = page.items.into_iter().map(|line| line.text).collect();
            return Ok(exported);
        }
        let messages = page.items.iter().map(|line| Ok((line.number, Message::parse(&line.text)?)));
        let mut messages = messages.collect::<Result<Vec<(u64, Message)>>>()?;
        if export.format == TranscriptFormat::Pi {
            self.name_results(session, &mut messages).await?;
        }
        let is_joined = |a: &(u64, Message), b: &(u64, Message)| {
            let is_answer = is_of_user(a) && is_of_user(b) && export.format == TranscriptFormat::Anthropic;
            is_answer || is_one(export.format, &a.1, &b.1)
        };
        let groups: Vec<_> = messages.chunk_by(is_joined).collect();
        // The next page can begin with further messages of the last group: then that page has all of the
        // group.
        let whole = if page.next.is_some() && groups.len() > 1 { groups.len() - 1 } else { groups.len() };
        let mut native = Reader::new(self, session, export.format.as_str())?;
        let mut bytes = 0;
        // The system prompt precedes all messages: later pages must not repeat it.
        if *export.lines.start() <= 1
            && let Some(system) = self.system_message(session).await?
        {
            exported.items = anew(export.format, &[(1, system)]);
        }
        for (at, group) in groups.iter().enumerate() {
            if at == whole || (at > 0 && bytes > export.page_bytes) {
                exported.next = group.first().map(|(number, _)| *number);
                break;
            }
            let room = export.page_bytes.saturating_sub(bytes);
            let (items, next) =
                self.written_group((session, export.format), group, (&mut native, room)).await?;
            bytes += items.iter().map(String::len).sum::<usize>();
            exported.items.extend(items);
            if next.is_some() {
                exported.next = next;
                break;
            }
        }
        Ok(exported)
    }

    /// Writes the messages between two of the assistant, or others that are one in a format. The API of
    /// Anthropic wants all results of a step in one message right after it. Lines can have them in several:
    /// after a rewind, between lines of the user, or imported one by one.
    ///
    /// Ends after `room` bytes, and returns the line of the next message then.
    async fn written_group(
        &self,
        (session, format): (&str, TranscriptFormat),
        group: &[(u64, Message)],
        (native, room): (&mut Reader<'_>, usize),
    ) -> Result<(Vec<String>, Option<u64>)> {
        let parts: Vec<_> = group.chunk_by(|a, b| is_one(format, &a.1, &b.1)).collect();
        let is_result = |one: &&(u64, Message)| one.1.role == Role::Tool;
        let has_results = |part: &&[(u64, Message)]| part.iter().any(|one| is_result(&one));
        let count = parts.iter().copied().filter(has_results).count();
        let is_split = count > 1 || count == 1 && !parts.first().is_some_and(has_results);
        let (mut items, mut moved, mut left) = (Vec::new(), 0, MAX_BYTES);
        if format == TranscriptFormat::Anthropic && is_split {
            let mut results: Vec<_> = group.iter().filter(is_result).cloned().collect();
            self.hydrate(session, format, &mut results, &mut left).await?;
            items = anew(format, &results);
            // The parts from which results were moved are on the page of these, or the next page would
            // have them again. These parts share the room for images, which no other limit bounds.
            moved = parts.iter().rposition(has_results).map_or(0, |last| last + 1);
        }
        let mut bytes: usize = items.iter().map(String::len).sum();
        for (at, part) in parts.into_iter().enumerate() {
            if at >= moved {
                if at > 0 && bytes > room {
                    return Ok((items, part.first().map(|(number, _)| *number)));
                }
                left = MAX_BYTES;
            }
            let written = if at < moved && has_results(&part) {
                let mut rest: Vec<_> = part.iter().filter(|one| !is_result(one)).cloned().collect();
                self.hydrate(session, format, &mut rest, &mut left).await?;
                anew(format, &rest)
            } else {
                self.written((session, format), part, (native, &mut left)).await?
            };
            bytes += written.iter().map(String::len).sum::<usize>();
            items.extend(written);
        }
        Ok((items, None))
    }

    async fn written(
        &self,
        (session, format): (&str, TranscriptFormat),
        group: &[(u64, Message)],
        (native, left): (&mut Reader<'_>, &mut u64),
    ) -> Result<Vec<String>> {
        let place = group.first().and_then(|(_, first)| own_line(format, first));
        if let Some(line) = place
            && let Some(text) = native.line(line).await?
            && is_whole(format, text, group.len())
            // An original form has its images, mostly in base64, where the lines name media.
            && let Some(rest) = left.checked_sub(text.len() as u64 / 4 * 3)
        {
            *left = rest;
            return Ok(vec![text.to_owned()]);
        }
        let mut group = group.to_vec();
        self.hydrate(session, format, &mut group, left).await?;
        Ok(anew(format, &group))
    }
}

/// Writes consecutive messages in a format.
pub(super) fn anew(format: TranscriptFormat, group: &[(u64, Message)]) -> Vec<String> {
    match format {
        TranscriptFormat::Anthropic => group
            .chunk_by(|a, b| a.1.role == Role::Tool && b.1.role == Role::Tool)
            .map(|step| {
                let messages: Vec<_> = step.iter().map(|(_, message)| message).collect();
                anthropic::write(&messages, step.first().is_some_and(|(number, _)| *number == 1))
            })
            .collect(),
        TranscriptFormat::Pi => group.iter().map(|(_, message)| pi::write(message)).collect(),
        TranscriptFormat::OpenAi => group.iter().map(|(_, message)| openai::write(message)).collect(),
        TranscriptFormat::Markdown => group.iter().map(|(_, message)| markdown::write(message)).collect(),
        // Lines are exported in this format as they are stored.
        TranscriptFormat::Garth => Vec::new(),
    }
}

/// Returns the line of the native file of a format that a message was derived from.
fn own_line(format: TranscriptFormat, message: &Message) -> Option<u64> {
    let native = message.native.as_ref().filter(|native| native.format == format.as_str())?;
    format.is_native().then_some(native.line)
}

/// Returns true for a message of the user's side. The system prompt has a place before all others.
fn is_of_user((number, message): &(u64, Message)) -> bool {
    match message.role {
        Role::User | Role::Tool => true,
        Role::System => *number != 1,
        Role::Assistant => false,
    }
}

/// Returns true if two consecutive messages are one in a format.
fn is_one(format: TranscriptFormat, a: &Message, b: &Message) -> bool {
    match (own_line(format, a), own_line(format, b)) {
        (None, None) => format == TranscriptFormat::Anthropic && a.role == Role::Tool && b.role == Role::Tool,
        (a, b) => a == b,
    }
}

/// Joins the pages of a transcript into a document: JSON Lines, one array, or text.
#[derive(Clone, Debug)]
pub struct Document {
    format: TranscriptFormat,
    begun: bool,
    items: u64,
    end: &'static str,
}

impl Document {
    /// Returns an empty document.
    pub fn new(format: TranscriptFormat) -> Self {
        Self { format, begun: false, items: 0, end: "" }
    }

    /// Returns the text of the next page.
    pub fn page(&mut self, items: &[String]) -> String {
        working(items.iter().map(String::len).sum());
        let mut text = String::new();
        for item in items {
            match self.format {
                TranscriptFormat::Garth | TranscriptFormat::Pi => text.extend([item.as_str(), "\n"]),
                TranscriptFormat::Markdown => text.push_str(item),
                TranscriptFormat::OpenAi | TranscriptFormat::Anthropic => self.element(item, &mut text),
            }
        }
        text
    }

    fn element(&mut self, item: &str, text: &mut String) {
        if !self.begun {
            self.begun = true;
            if let Some(system) = system(item).filter(|_| self.format == TranscriptFormat::Anthropic) {
                text.push_str(&format!(r#"{{"system":{},"messages":["#, system.get()));
                self.end = "]}\n";
                return;
            }
            text.push('[');
            self.end = "]\n";
        }
        text.push_str(if self.items == 0 { "\n" } else { ",\n" });
        text.push_str(item);
        self.items += 1;
    }

    /// Returns the text after the last page.
    pub fn end(self) -> String {
        let is_array = matches!(self.format, TranscriptFormat::OpenAi | TranscriptFormat::Anthropic);
        match (self.begun, self.items) {
            (false, _) => String::from(if is_array { "[]\n" } else { "" }),
            (true, 0) => self.end.to_owned(),
            (true, _) => format!("\n{}", self.end),
        }
    }
}

/// Returns the system prompt, if a message is nothing else.
fn system(item: &str) -> Option<&RawValue> {
    #[derive(Deserialize)]
    // The field `system` of an object has no place for other fields of a message, which would be lost.
    #[serde(deny_unknown_fields)]
    struct System<'a> {
        role: String,
        #[serde(borrow)]
        content: &'a RawValue,
    }
    let found: System<'_> = serde_json::from_str(item).ok()?;
    (found.role == "system").then_some(found.content)
}
