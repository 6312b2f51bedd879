//! A transcript as the caller gave it: its checked messages, and the messages of a session derived from each.

use std::collections::BTreeSet;
use std::ops::Range;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

use super::blocks::{ParsedMessage, placeholders};
use super::compared::{self, Digest};
use super::format::TranscriptFormat;
use super::placed::RawMessage;
use super::read::read;
use super::split::split;
use super::surrogates::whole_pairs;
use crate::session::log::append::{MAX_APPENDED, MAX_REWOUND};
use crate::session::log::draft::{Draft, compact};
use crate::session::store::files::Log;
use garth_engine::error::{Advice, Error, Result};
use garth_engine::model::MAX_INLINE_BODY;

/// Bytes of lines at which a commit is full, 4 MiB.
const MAX_COMMIT: usize = 4 << 20;

/// Bytes of lines at which the commit of a rewind is full, 12 MiB. Ids and other fields make the lines
/// longer, and all lines of one append have to fit into [`MAX_INLINE_BODY`].
const MAX_REWIND: usize = 12 << 20;

/// Limit on the omitted messages that an answer names; it counts the others.
const MAX_NAMED: usize = 100;

/// Limit on the messages that a refusal names; it counts the others.
const MAX_REFUSED: usize = 5;

/// A message of a transcript that was left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
#[schemars(rename = "SkippedMessage", deny_unknown_fields)]
pub struct Skipped {
    /// Number of the message in the transcript; the first is 1.
    pub message: u64,
    /// Line where it begins; the first is 1.
    pub line: u64,
    /// Reason, a text for people.
    pub why: String,
}

/// Note on an imported message that may have been misread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
#[schemars(deny_unknown_fields)]
pub struct ImportNote {
    /// Number of the message in the transcript; the first is 1.
    pub message: u64,
    /// Line of the transcript; the first is 1.
    pub line: u64,
    /// Note, a text for people.
    pub why: String,
}

/// Note on a message with an unpaired surrogate.
const HALF_PAIR: &str = "has an unpaired surrogate, which is read as U+FFFD";

/// Messages of a session that were derived from one message of the transcript.
struct Unit {
    drafts: Vec<Draft>,
    native: Option<Box<RawValue>>,
    bytes: usize,
    /// Number of blocks that were replaced by placeholders.
    unknown: u64,
    has_half_pair: bool,
}

/// A message of a session, derived from the transcript.
pub(super) struct GivenMessage {
    /// Number of the message of the transcript from which it was derived; the first is 1, and skipped ones
    /// count.
    pub(super) number: u64,
    /// Index of that message among the readable ones. `part` is the index of this message among those derived
    /// from it.
    pub(super) unit: usize,
    pub(super) part: usize,
    pub(super) is_system: bool,
    pub(super) is_result: bool,
    pub(super) id: Option<String>,
    /// Digest of role and content. The first part also has the digest of the original form, in `came`.
    pub(super) said: Digest,
    pub(super) came: Option<Digest>,
}

/// A transcript whose messages were checked.
pub(super) struct Given<'a> {
    pub(super) format: TranscriptFormat,
    raw: Vec<RawMessage<'a>>,
    /// Number of blocks of each message that were replaced by placeholders.
    unknown: Vec<u64>,
    pub(super) messages: Vec<GivenMessage>,
    /// The first messages that were left out, and the number of all.
    pub(super) skipped: Vec<Skipped>,
    pub(super) skipped_count: u64,
    /// The first notes, and the number of all.
    pub(super) notes: Vec<ImportNote>,
    pub(super) note_count: u64,
}

/// Limits on the messages of one commit, and on the bytes of their lines.
#[derive(Clone, Copy)]
pub(super) struct SliceLimits {
    messages: usize,
    bytes: usize,
}

impl SliceLimits {
    /// Short commits, so that other writers need not wait for long.
    pub(super) const APPEND: Self = Self { messages: MAX_APPENDED, bytes: MAX_COMMIT };
    /// As much as one commit holds. After the first of several commits, readers would have neither the old
    /// messages nor all of the new ones.
    pub(super) const REWIND: Self = Self { messages: MAX_REWOUND, bytes: MAX_REWIND };
}

/// Messages of one commit.
pub(super) struct GivenSlice {
    pub(super) drafts: Vec<Draft>,
    pub(super) natives: Vec<Box<RawValue>>,
}

impl<'a> Given<'a> {
    /// Checks all of a transcript.
    ///
    /// # Errors
    /// `InvalidArgument`, which names the unreadable messages, unless `skip_bad` is set; `TooLarge`.
    pub(super) async fn read(format: TranscriptFormat, text: &'a str, skip_bad: bool) -> Result<Self> {
        let mut given = Self {
            format,
            raw: Vec::new(),
            unknown: Vec::new(),
            messages: Vec::new(),
            skipped: Vec::new(),
            skipped_count: 0,
            notes: Vec::new(),
            note_count: 0,
        };
        for (number, placed) in (1_u64..).zip(split(format, text)?) {
            if number % 256 == 0 {
                crate::retry::yield_now().await;
            }
            let line = placed.line;
            match placed.message.and_then(|raw| unit(format, &raw).map(|unit| (raw, unit))) {
                Ok((raw, unit)) => {
                    match placed.flaw {
                        Some(flaw) if skip_bad => given.note(number, line, flaw),
                        Some(flaw) => given.skip(number, line, flaw),
                        None => {}
                    }
                    if let RawMessage::Section(section) = &raw {
                        section.notes.iter().for_each(|(line, why)| given.note(number, *line, why));
                        given.note_count += section.more_notes;
                    }
                    if unit.has_half_pair {
                        given.note(number, line, HALF_PAIR);
                    }
                    given.take(number, raw, &unit);
                }
                Err(error) => given.skip(number, line, error.message()),
            }
        }
        if !skip_bad && given.skipped_count > 0 {
            return Err(given.refusal());
        }
        Ok(given)
    }

    fn skip(&mut self, message: u64, line: u64, why: &str) {
        self.skipped_count += 1;
        if self.skipped.len() < MAX_NAMED {
            self.skipped.push(Skipped { message, line, why: why.to_owned() });
        }
    }

    fn note(&mut self, message: u64, line: u64, why: &str) {
        self.note_count += 1;
        if self.notes.len() < MAX_NAMED {
            self.notes.push(ImportNote { message, line, why: why.to_owned() });
        }
    }

    fn take(&mut self, number: u64, raw: RawMessage<'a>, unit: &Unit) {
        let index = self.raw.len();
        let mut came =
            unit.native.as_ref().and_then(|native| compared::as_it_came(self.format, native.get()));
        for (part, draft) in unit.drafts.iter().enumerate() {
            self.messages.push(GivenMessage {
                number,
                unit: index,
                part,
                is_system: draft.raw("role") == Some("\"system\""),
                is_result: draft.raw("role") == Some("\"tool\""),
                id: draft.text("id"),
                said: compared::as_said(draft),
                came: came.take(),
            });
        }
        self.raw.push(raw);
        self.unknown.push(unit.unknown);
    }

    /// Returns the number of blocks that were replaced by placeholders, from message `from` on.
    pub(super) fn unknown_blocks(&self, from: usize) -> u64 {
        self.messages.get(from).map_or(0, |first| self.unknown[first.unit..].iter().sum())
    }

    /// Returns the number of messages of the transcript from which some messages of the session were derived:
    /// one can give several, such as the results of a step.
    pub(super) fn count(&self, derived: Range<usize>) -> u64 {
        let end = derived.end.min(self.messages.len());
        let derived = &self.messages[derived.start.min(end)..end];
        match (derived.first(), derived.last()) {
            (Some(first), Some(last)) => (last.unit - first.unit + 1) as u64,
            _ => 0,
        }
    }

    /// Returns the number of messages of the transcript that a session has with its first `there` messages,
    /// without the first `system` ones, which it has not. One of which it has a part is not among them.
    pub(super) fn present(&self, there: u64, system: u64) -> u64 {
        let [there, system] = [there, system].map(|at| usize::try_from(at).unwrap_or(usize::MAX));
        let begun = u64::from(self.messages.get(there).is_some_and(|next| next.part > 0));
        (self.count(0..there) - begun).saturating_sub(self.count(0..system))
    }

    fn refusal(&self) -> Error {
        let named: Vec<_> = self.skipped.iter().take(MAX_REFUSED).collect();
        let told: Vec<_> = named
            .iter()
            .map(|bad| format!("message {} (line {}): {}", bad.message, bad.line, bad.why))
            .collect();
        let rest = self.skipped_count - named.len() as u64;
        let more = if rest > 0 { format!("; and {rest} more") } else { String::new() };
        let advice = "correct the transcript, or skip such messages (`--skip-bad`, over HTTP `skip_bad`)";
        Error::invalid(format!("{}{more}", told.join("; "))).advising(Advice::Command, advice)
    }

    /// Returns the number of messages from `at` on that were derived from the same message of the transcript.
    pub(super) fn parts(&self, at: usize) -> usize {
        let Some(first) = self.messages.get(at) else { return 0 };
        self.messages[at..].iter().take_while(|message| message.unit == first.unit).count()
    }

    /// Returns true if the messages derived from one of the transcript have all of its content.
    pub(super) fn is_known(&self, at: usize) -> bool {
        self.messages.get(at).is_some_and(|message| self.unknown.get(message.unit) == Some(&0))
    }

    /// Fails if two messages have the same id. A part is appended with its ids, and an id names one message.
    pub(super) fn check_ids(&self) -> Result<()> {
        let mut seen = BTreeSet::new();
        for message in &self.messages {
            if let Some(id) = message.id.as_deref().filter(|id| !seen.insert(*id)) {
                return Err(Error::invalid(format!(
                    "message {}: its id {id} is given twice",
                    message.number
                )));
            }
        }
        Ok(())
    }

    /// Returns one message.
    pub(super) fn draft(&self, at: usize) -> Result<Option<Draft>> {
        let Some(given) = self.messages.get(at) else { return Ok(None) };
        Ok(unit(self.format, &self.raw[given.unit])?.drafts.into_iter().nth(given.part))
    }

    /// Returns the messages of one commit, from one of them on.
    ///
    /// # Errors
    /// As the check in `read`. That check has passed, so there are none.
    pub(super) fn slice(&self, from: usize, limits: SliceLimits) -> Result<GivenSlice> {
        let (mut slice, mut bytes) = (GivenSlice { drafts: Vec::new(), natives: Vec::new() }, 0);
        let Some(first) = self.messages.get(from) else { return Ok(slice) };
        // An alignment can end between the messages derived from one native message.
        let mut skip = first.part;
        for raw in &self.raw[first.unit..] {
            let mut unit = unit(self.format, raw)?;
            let is_full =
                slice.drafts.len() + unit.drafts.len() > limits.messages || bytes + unit.bytes > limits.bytes;
            // A message that alone has more bytes than a commit should take is appended by itself.
            if is_full && !slice.drafts.is_empty() {
                break;
            }
            bytes += unit.bytes;
            let at = slice.natives.len();
            let has_native = unit.native.is_some();
            slice.natives.extend(unit.native.take());
            let drafts = unit.drafts.into_iter().skip(std::mem::take(&mut skip));
            slice.drafts.extend(drafts.map(|draft| if has_native { draft.of_native(at) } else { draft }));
        }
        Ok(slice)
    }
}

/// Parses one message of a transcript.
fn unit(format: TranscriptFormat, given: &RawMessage<'_>) -> Result<Unit> {
    let mut has_half_pair = false;
    let (said, native) = match given {
        RawMessage::Native(raw) if format == TranscriptFormat::Garth => {
            // `native` refers to a line of the session that was exported, which this session does not have.
            let mended = whole_pairs(raw.get());
            let draft = Draft::parse(mended.as_deref().unwrap_or(raw.get()))?.without("native");
            let (bytes, has_half_pair) = (check(&draft)?, mended.is_some());
            return Ok(Unit { bytes, drafts: vec![draft], native: None, unknown: 0, has_half_pair });
        }
        RawMessage::Native(raw) => {
            // The value is stored as one line, so it must not contain line feeds.
            let native = compact(raw);
            has_half_pair = whole_pairs(native.get()).is_some();
            (read(format, &native)?, Some(native))
        }
        RawMessage::Section(section) => (vec![section.said.clone()], None),
    };
    let alone = said.len() == 1;
    let unknown = native.as_ref().map_or(0, |raw| placeholders(&said, raw));
    let mut bytes = native.as_ref().map_or(0, |native| native.get().len());
    if bytes > MAX_BYTES {
        return Err(too_long(bytes));
    }
    let mut drafts = Vec::with_capacity(said.len());
    for said in said {
        // Messages derived from one native message need ids of their own.
        let id = said.id.clone().filter(|id| alone && is_id(id));
        let draft = id.iter().fold(said.draft(), |draft, id| draft.with("id", id));
        bytes += check(&draft)?;
        drafts.push(draft);
    }
    if drafts.len() > MAX_APPENDED {
        let message = format!("has {} results; at most {MAX_APPENDED} are appended at once", drafts.len());
        return Err(Error::invalid(message));
    }
    Ok(Unit { drafts, native, bytes, unknown, has_half_pair })
}

/// Checks a message against its schema, and returns its length. Its id and its time can still be missing.
fn check(draft: &Draft) -> Result<usize> {
    let filled = [("id", SOME_ID), ("created_at", SOME_TIME)];
    let missing = filled.into_iter().filter(|(field, _)| !draft.has(field));
    let whole = missing.fold(draft.clone(), |draft, (field, value)| draft.with(field, value));
    whole.check(Log::Messages)?;
    let bytes = whole.line().len();
    if bytes > MAX_BYTES { Err(too_long(bytes)) } else { Ok(bytes) }
}

fn too_long(bytes: usize) -> Error {
    let message = format!(
        "has {bytes} bytes as a line of the session, and at most {MAX_BYTES} are imported; store what is long \
         as media or as a file, and name it"
    );
    Error::invalid(message)
}

const SOME_ID: &str = "msg-1";
const SOME_TIME: &str = "2026-01-01T00:00:00Z";

/// Bytes by which an append makes a line longer: its id, speaker and the place of its native form.
const MAX_FILLED: usize = 1 << 10;

/// Limit on a message before the append makes its line longer.
const MAX_BYTES: usize = MAX_INLINE_BODY - MAX_FILLED;

/// Returns true for the id of a line. Ids of providers name an answer, which can have several lines.
fn is_id(id: &str) -> bool {
    let rest = id.strip_prefix("msg-").unwrap_or_default();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=124).contains(&rest.len()) && rest.bytes().all(plain)
}

/// Converts a message of a session from its form in another format. Content that the format cannot represent
/// is lost.
pub(super) fn in_format(format: TranscriptFormat, written: &str) -> Option<Draft> {
    let said: Option<ParsedMessage> = match format {
        TranscriptFormat::Markdown => {
            super::markdown::read(written).ok()?.into_iter().next().map(|it| it.said)
        }
        _ => read(format, serde_json::from_str(written).ok()?).ok()?.into_iter().next(),
    };
    Some(said?.draft())
}
