//! Imports transcripts, each as a whole conversation or as a part of one.
//!
//! A *whole* transcript is aligned with the messages of the session, and the messages after the common ones
//! are appended. It can therefore be imported repeatedly while it grows. A *part* is appended; only messages
//! whose ids the session already has are skipped. Messages are appended in slices of up to 1,000; the first
//! slice of a rewind has up to 10,000. Each slice is a step of the request: one that an earlier try has
//! committed is not appended again.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::align::Alignment;
use super::format::TranscriptFormat;
use super::given::{Given, ImportNote, Skipped, SliceLimits};
use crate::boxed;
use crate::ids::uuid;
use crate::once::Outcome;
use crate::retry::retry;
use crate::session::handle::{Sessions, missing};
use crate::session::lifecycle::create::Create;
use crate::session::log::append::{Append, AppendedLines, Creation, refuse_reset};
use crate::session::log::draft::Draft;
use crate::session::log::native::Natives;
use crate::session::store::files::{Log, SYSTEM_PROMPT};
use crate::session::store::meta::Meta;
use garth_engine::error::{Advice, Error, ErrorKind, OptionalExt as _, Result};
use garth_engine::model::{Commit, Seq};

/// Type of the event for a transcript with a different system prompt.
const SYSTEM_CHANGED: &str = "system.changed";

/// Reason of a retraction by a transcript that differs from the session.
const REWOUND: &str = "rewound by a transcript";

/// Part of a conversation that a transcript contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ImportMode {
    /// All of it, from the first message of the session on.
    Whole,
    /// Messages to append.
    Part,
}

/// Transcript to import. Start from [`Import::new`] and set the options.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Import<'t> {
    /// Format of the text.
    pub format: TranscriptFormat,
    /// Transcript.
    pub text: &'t str,
    /// Part of the conversation that it contains. Default: the whole, for a session without messages. For a
    /// session with messages it must be set.
    pub mode: Option<ImportMode>,
    /// Retracts the messages of the session from the first one that differs. For whole transcripts only.
    pub rewind: bool,
    /// Leaves out messages that cannot be read.
    pub skip_bad: bool,
    /// Id of the last message that the caller knows. The import fails with `Conflict` if others follow it.
    /// For parts only.
    pub after: Option<String>,
    /// Creates the session if there is none.
    pub create: bool,
    /// Reports the result that an import of the whole transcript would have, and changes nothing.
    pub dry: bool,
}

impl<'t> Import<'t> {
    /// Returns an import of a transcript.
    pub fn new(format: TranscriptFormat, text: &'t str) -> Self {
        let (mode, after) = (None, None);
        Self { format, text, mode, rewind: false, skip_bad: false, after, create: false, dry: false }
    }

    /// Imports it as the whole conversation.
    #[must_use]
    pub fn whole(self) -> Self {
        Self { mode: Some(ImportMode::Whole), ..self }
    }

    /// Imports it as a part of the conversation.
    #[must_use]
    pub fn part(self) -> Self {
        Self { mode: Some(ImportMode::Part), ..self }
    }

    /// Retracts messages of the session that differ.
    #[must_use]
    pub fn rewind(self) -> Self {
        Self { rewind: true, ..self }
    }

    /// Leaves out messages that cannot be read.
    #[must_use]
    pub fn skip_bad(self) -> Self {
        Self { skip_bad: true, ..self }
    }

    /// Requires this message to be the last one of the session.
    #[must_use]
    pub fn after(self, id: impl Into<String>) -> Self {
        Self { after: Some(id.into()), ..self }
    }

    /// Creates the session if there is none.
    #[must_use]
    pub fn create(self) -> Self {
        Self { create: true, ..self }
    }

    /// Changes nothing.
    #[must_use]
    pub fn dry(self) -> Self {
        Self { dry: true, ..self }
    }
}

/// Result of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Imported {
    /// Number of messages in the transcript that were read; [`Imported::skipped_count`] counts the others.
    pub messages: u64,
    /// Number of these that the session had already.
    pub present: u64,
    /// Number of these that were new, at least in part.
    pub new: u64,
    /// Lines of the session that were appended. A message of the transcript can have several. If other
    /// writers appended meanwhile, their messages are among them.
    pub lines: Option<RangeInclusive<u64>>,
    /// Line numbers of the messages that were retracted.
    pub retracted: Option<RangeInclusive<u64>>,
    /// True if the system prompt has changed. The new one is stored in `context/system.md` and in an event.
    pub system_changed: bool,
    /// Number of blocks of the new messages that a session cannot store. Placeholders replace them.
    pub unknown_blocks: u64,
    /// Line of a retracted message that the transcript contains after the last common message, and that was
    /// therefore appended again.
    pub said_again: Option<u64>,
    /// Messages of the transcript that were left out, the first 100 of them.
    pub skipped: Vec<Skipped>,
    /// Number of all that were left out.
    pub skipped_count: u64,
    /// Notes on messages that may have been misread, the first 100 of them.
    pub notes: Vec<ImportNote>,
    /// Number of all notes.
    pub note_count: u64,
    /// True if a repeat would append the messages again: a part of which some messages have no id, imported
    /// without `after` and without an idempotency key.
    pub repeat_doubles: bool,
    /// The last commit; `None` if nothing was new.
    pub seq: Option<Seq>,
}

impl Imported {
    /// Counts messages that other writers have appended as present, for a slice that was aligned again. `at`
    /// is the number of messages that were known before. Returns the number that the session has now.
    fn aligned_again(&mut self, given: &Given<'_>, at: usize, slice: &Slice) -> usize {
        let there = usize::try_from(slice.there).unwrap_or(usize::MAX);
        self.present += given.count(at..there);
        let blocks = given.unknown_blocks(at).saturating_sub(given.unknown_blocks(there));
        self.unknown_blocks = self.unknown_blocks.saturating_sub(blocks);
        self.system_changed |= slice.new_system > 0;
        self.said_again = self.said_again.or(slice.said_again);
        there
    }
}

/// Outcome of the first slice, and of each further one.
#[derive(Debug, Serialize, Deserialize)]
struct Slice {
    #[serde(flatten)]
    lines: AppendedLines,
    /// True for a whole transcript.
    #[serde(default)]
    is_whole: bool,
    /// Messages of the transcript that the session had before this slice, if it was aligned.
    #[serde(default)]
    there: u64,
    /// True for a further slice that was aligned again, because another writer appended before it.
    #[serde(default)]
    is_aligned_again: bool,
    #[serde(default)]
    retracted: Option<(u64, u64)>,
    /// Messages of the system prompt, if it has changed.
    #[serde(default)]
    new_system: u64,
    #[serde(default)]
    said_again: Option<u64>,
    /// New ids of messages whose original ids were taken.
    #[serde(default, skip_serializing_if = "NewIds::is_empty")]
    new_ids: NewIds,
}

impl Outcome for Slice {
    fn committed(self, commit: &Commit) -> Self {
        Self { lines: self.lines.committed(commit), ..self }
    }
}

/// Input of the first slice.
struct FirstSlice<'n> {
    is_whole: bool,
    /// New ids of previous slices, if the transcript is aligned again.
    before: Option<&'n NewIds>,
    after: Option<String>,
    aligned: Alignment,
    creation: Option<Creation>,
}

/// New ids of messages, by their original ids.
type NewIds = BTreeMap<String, String>;

impl Sessions<'_> {
    /// Imports a transcript into a session, up to 1,000 messages a commit, and up to 10,000 in the first
    /// commit of a rewind. The complete transcript is checked before any message is written. A whole
    /// transcript can be imported again, also by several callers at once.
    ///
    /// # Errors
    /// `InvalidArgument` for a text in another format, with the numbers of the messages; `Conflict` for a
    /// whole transcript that differs from the session, for an id that exists with other content, for a
    /// session with messages if the mode is not set, and for a session that was reset; `NotFound`;
    /// `TooLarge`; from the filesystem.
    #[boxed]
    pub async fn import(&self, session: &str, import: &Import<'_>) -> Result<Imported> {
        import.check()?;
        let given = Given::read(import.format, import.text, import.skip_bad).await?;
        if import.mode == Some(ImportMode::Part) || import.after.is_some() {
            given.check_ids()?;
        }
        if import.dry {
            return self.preview(session, import, &given).await;
        }
        self.check_writable(session)?;
        let first = self.once.run(retry(|| self.first_slice(session, import, &given, None))).await?;
        let is_whole = first.is_whole;
        // After the record: a repeat finishes this after a crash. A repeat without a record retracts nothing:
        // it rewinds, has nothing new, or has more messages than one slice.
        let retracts = first.retracted.is_some() || first.new_system > 0;
        let appended = &first.lines.appended;
        let goes_on =
            first.there.saturating_add(appended.messages.len() as u64) < given.messages.len() as u64;
        if retracts || is_whole && (import.rewind || goes_on || appended.seq.is_none()) {
            self.finish_retractions(session).await?;
        }
        let mut done = Imported {
            messages: given.count(0..given.messages.len()),
            present: given.present(first.there, first.new_system),
            retracted: first.retracted.map(|(from, to)| from..=to),
            system_changed: first.new_system > 0,
            said_again: first.said_again,
            skipped: given.skipped.clone(),
            skipped_count: given.skipped_count,
            notes: given.notes.clone(),
            note_count: given.note_count,
            repeat_doubles: import.repeat_doubles(&given, is_whole) && !self.once.records(),
            ..Imported::default()
        };
        let mut at = usize::try_from(first.there).unwrap_or(usize::MAX);
        done.unknown_blocks = given.unknown_blocks(at);
        let (mut slice, mut ids, mut number) = (first, NewIds::new(), 0_u64);
        loop {
            if slice.is_aligned_again {
                at = done.aligned_again(&given, at, &slice);
            }
            ids.append(&mut slice.new_ids);
            let appended = self.numbered(session, slice.lines).await?;
            let from = at;
            at = at.saturating_add(appended.messages.len());
            let appended_lines = appended.lines.as_ref().map_or(0, |lines| lines.end() - lines.start() + 1);
            // Only messages with an id of a line can be there, and each of these is one line.
            let present = (appended.messages.len() as u64).saturating_sub(appended_lines);
            done.present += present;
            done.new += given.count(from..at).saturating_sub(present);
            if let Some(lines) = appended.lines {
                let start = done.lines.as_ref().map_or(*lines.start(), |done| *done.start());
                done.lines = Some(start..=*lines.end());
            }
            done.seq = appended.seq.or(done.seq);
            let Some(last) = appended.messages.last().filter(|_| at < given.messages.len()) else {
                return Ok(done);
            };
            number += 1;
            // A part may be anywhere, unless the caller named the message before it.
            let after = (is_whole || import.after.is_some()).then_some(last.as_str());
            let next = match self.next_slice(session, (&given, at), (is_whole, after), (number, &ids)).await {
                // Another writer appended meanwhile, perhaps the same transcript. The caller named no last
                // message, so the rest is aligned again.
                Err(error) if is_whole && error.is(ErrorKind::Conflict) => {
                    self.align_again(session, import, &given, (number, &ids)).await
                }
                next => next,
            };
            slice = next.map_err(|error| match done.new {
                0 => error,
                new => {
                    let rest = match is_whole {
                        true => "a repeat goes on".to_owned(),
                        false => format!("import the rest after {last}"),
                    };
                    let told = error.message();
                    let message = format!("{told}; {new} messages before are stored, and {rest}");
                    Error::new(error.kind(), message)
                }
            })?;
        }
    }

    /// Returns the result that an import of a whole transcript would have. A part cannot be previewed: it is
    /// not compared with the session.
    async fn preview(&self, session: &str, import: &Import<'_>, given: &Given<'_>) -> Result<Imported> {
        let meta = match self.meta(session).await.optional()? {
            Some((_, meta)) => Some(meta),
            None if import.create => None,
            None => return Err(missing(session)),
        };
        if self.mode_of(session, import, meta.as_ref()).await? == ImportMode::Part {
            return Err(Error::invalid(
                "a dry run compares a whole transcript with the session; a part is appended as it is",
            ));
        }
        let (aligned, end) = match &meta {
            Some(meta) => (
                self.align((session, meta), given, import.rewind).await?,
                self.end(session, Log::Messages).await?.lines,
            ),
            None => (Alignment::default(), 0),
        };
        let derived = given.messages.len();
        let lines = derived.saturating_sub(aligned.there) as u64;
        let system = aligned.system.as_ref().map_or(0, |system| system.contents.len() as u64);
        if let Some(meta) = meta.as_ref().filter(|_| lines > 0) {
            refuse_reset(session, meta)?;
        }
        Ok(Imported {
            messages: given.count(0..derived),
            present: given.present(aligned.there as u64, system),
            // Messages of a whole transcript after the common ones are new, whatever ids they have.
            new: given.count(aligned.there..derived),
            lines: (lines > 0).then_some(end + 1..=end + lines),
            retracted: aligned.retract.clone(),
            system_changed: aligned.system.is_some(),
            unknown_blocks: given.unknown_blocks(aligned.there),
            said_again: aligned.said_again,
            skipped: given.skipped.clone(),
            skipped_count: given.skipped_count,
            notes: given.notes.clone(),
            note_count: given.note_count,
            ..Imported::default()
        })
    }

    /// Appends the first slice of a transcript, in one attempt. `before` contains the new ids of previous
    /// slices if the transcript is aligned again after these.
    async fn first_slice(
        &self,
        session: &str,
        import: &Import<'_>,
        given: &Given<'_>,
        before: Option<&NewIds>,
    ) -> Result<Slice> {
        let found = self.meta(session).await.optional()?;
        let creation = match &found {
            Some(_) => None,
            None if import.create && given.messages.is_empty() => {
                return Err(Error::invalid("the transcript has no messages; no session was created"));
            }
            None if import.create => {
                let (ops, conditions, created) = self.create_ops(&Create::new(session)).await?;
                Some(Creation { ops, conditions, meta: created.meta })
            }
            None => return Err(missing(session)),
        };
        let meta = found.map(|(_, meta)| meta);
        let mode = self.mode_of(session, import, meta.as_ref()).await?;
        let aligned = match (mode, &meta) {
            (ImportMode::Whole, Some(meta)) => self.align((session, meta), given, import.rewind).await?,
            _ => Alignment::default(),
        };
        let (after, is_whole) = (import.after.clone(), mode == ImportMode::Whole);
        let first = FirstSlice { is_whole, before, after, aligned, creation };
        if first.aligned.retract.is_some() {
            match self.append_first(session, given, &first, SliceLimits::REWIND).await {
                // Rules may allow less in one commit. Then the first messages replace the old ones, and
                // further commits append the rest.
                Err(error) if error.is(ErrorKind::TooLarge) || error.is(ErrorKind::RuleViolation) => {}
                done => return done,
            }
        }
        self.append_first(session, given, &first, SliceLimits::APPEND).await
    }

    /// Appends the first slice, with the retractions of its alignment.
    async fn append_first(
        &self,
        session: &str,
        given: &Given<'_>,
        first: &FirstSlice<'_>,
        limits: SliceLimits,
    ) -> Result<Slice> {
        let FirstSlice { is_whole, before, after, aligned, creation } = first;
        let (is_new, mut new_ids) = (creation.is_some(), NewIds::new());
        let mut append = slice_of(given, aligned.there, limits)?;
        if *is_whole {
            let before = before.unwrap_or(&new_ids);
            new_ids = self.free_ids((session, is_new), &mut append.messages, before).await?;
        }
        if let Some(system) = &aligned.system {
            append.events.push(Draft::event(SYSTEM_CHANGED).with("content", &system.contents));
            append.files.push((SYSTEM_PROMPT, system.text.clone()));
            // The old prompt is retracted in the same commit, or packs would show both.
            if let Some(lines) = &system.before {
                append.events.extend(self.retractions(session, lines, Some(SYSTEM_CHANGED)).await?);
            }
        }
        if let Some(lines) = &aligned.retract {
            append.events.extend(self.retractions(session, lines, Some(REWOUND)).await?);
        }
        append.retracted.clone_from(&aligned.retract);
        append.own_retractions = true;
        (append.after, append.creation) = (after.clone(), creation.clone());
        append.conditions.clone_from(&aligned.conditions);
        let [messages, events] = self.prepare(session, &append).await?;
        let outcome = |lines| Slice {
            lines,
            is_whole: *is_whole,
            there: aligned.there as u64,
            is_aligned_again: before.is_some(),
            retracted: aligned.retract.as_ref().map(|lines| (*lines.start(), *lines.end())),
            new_system: aligned.system.as_ref().map_or(0, |system| system.contents.len() as u64),
            said_again: aligned.said_again,
            new_ids: new_ids.clone(),
        };
        self.append_once(session, &append, [&messages, &events], &outcome).await
    }

    /// Aligns a whole transcript again, and appends the first slice of the messages that are still missing.
    async fn align_again(
        &self,
        session: &str,
        import: &Import<'_>,
        given: &Given<'_>,
        (number, ids): (u64, &NewIds),
    ) -> Result<Slice> {
        let sessions = self.clone().once(self.once.step(format!("slice-{number}")).await?);
        // Without `rewind`, of two imports that differ one fails. With it, each would retract the messages of
        // the other in turn.
        let rest = Import { mode: Some(ImportMode::Whole), rewind: false, create: false, ..import.clone() };
        sessions.once.run(retry(|| sessions.first_slice(session, &rest, given, Some(ids)))).await
    }

    /// Appends a further slice: of a whole transcript, after the last message of the previous slice.
    async fn next_slice(
        &self,
        session: &str,
        (given, at): (&Given<'_>, usize),
        (is_whole, after): (bool, Option<&str>),
        (number, ids): (u64, &NewIds),
    ) -> Result<Slice> {
        // Each slice has a record of its own: a repeat skips the slices that an earlier try has committed.
        let sessions = self.clone().once(self.once.step(format!("slice-{number}")).await?);
        let (mut append, mut new_ids) = (slice_of(given, at, SliceLimits::APPEND)?, NewIds::new());
        if is_whole {
            new_ids = self.free_ids((session, false), &mut append.messages, ids).await?;
        }
        append.after = after.map(ToOwned::to_owned);
        let outcome = |lines| {
            let (there, retracted, new_system, said_again) = (0, None, 0, None);
            let new_ids = new_ids.clone();
            let is_aligned_again = false;
            Slice { lines, is_whole, there, is_aligned_again, retracted, new_system, said_again, new_ids }
        };
        sessions.once.run(sessions.append_as(session, &append, outcome)).await
    }

    /// Returns the mode of an import.
    async fn mode_of(&self, session: &str, import: &Import<'_>, meta: Option<&Meta>) -> Result<ImportMode> {
        let implied = if import.after.is_some() { Some(ImportMode::Part) } else { None };
        let rewinds = import.rewind.then_some(ImportMode::Whole);
        if let Some(mode) = import.mode.or(implied).or(rewinds) {
            return Ok(mode);
        }
        // This includes a session that continues another one after a reset. A whole transcript begins before
        // the reset; one that begins later fails with a conflict, so the default cannot duplicate messages.
        let is_new = match meta {
            Some(_) => self.end(session, Log::Messages).await?.lines == 0,
            None => true,
        };
        if is_new {
            return Ok(ImportMode::Whole);
        }
        let advice = "import the transcript as the whole conversation (`--whole`, over HTTP `mode`: `whole`), or as \
                      a part to append (`--part`, `part`)";
        let error = Error::new(ErrorKind::Conflict, format!("{session} has messages"));
        Err(error.advising(Advice::Command, advice))
    }

    /// Gives new ids to messages whose ids are taken, because a transcript may repeat a retracted message.
    /// Returns the new ids; `before` contains those of the previous slices.
    async fn free_ids(
        &self,
        (session, is_new): (&str, bool),
        drafts: &mut [Draft],
        before: &NewIds,
    ) -> Result<NewIds> {
        let mut new_ids = NewIds::new();
        let ids: Vec<Option<String>> = drafts.iter().map(|draft| draft.text("id")).collect();
        let taken = match is_new {
            true => BTreeSet::new(),
            false => self.taken_ids(session, ids.iter().flatten().map(String::as_str)).await?,
        };
        // Messages of one transcript can share an id as well.
        let mut seen = BTreeSet::new();
        for (draft, id) in drafts.iter_mut().zip(ids) {
            if let Some(id) = id
                && (taken.contains(&id) || !seen.insert(id.clone()))
            {
                let new = format!("msg-{}", uuid(&self.env)?);
                *draft = draft.clone().with("id", &new);
                new_ids.insert(id, new);
            }
            // If the parent of a message has a new id, the message refers to that.
            let parent = draft.text("parent");
            if let Some(parent) = parent.and_then(|id| new_ids.get(&id).or_else(|| before.get(&id))) {
                *draft = draft.clone().with("parent", parent);
            }
        }
        Ok(new_ids)
    }
}

impl Import<'_> {
    fn check(&self) -> Result<()> {
        match (self.mode, self.rewind, &self.after) {
            (Some(ImportMode::Part), true, _) | (_, true, Some(_)) => {
                Err(Error::invalid("only a whole transcript rewinds a session"))
            }
            (Some(ImportMode::Whole), _, Some(_)) => Err(Error::invalid(
                "a whole transcript is aligned with the session; give `after` with a part",
            )),
            _ => Ok(()),
        }
    }

    fn repeat_doubles(&self, given: &Given<'_>, is_whole: bool) -> bool {
        !is_whole && self.after.is_none() && given.messages.iter().any(|message| message.id.is_none())
    }
}

/// Returns the append of a slice.
fn slice_of(given: &Given<'_>, at: usize, limits: SliceLimits) -> Result<Append> {
    let slice = given.slice(at, limits)?;
    let mut append = Append::messages(slice.drafts);
    let natives = Natives { format: given.format.to_string(), lines: slice.natives };
    append.native = Some(natives).filter(|native| !native.lines.is_empty());
    Ok(append)
}
