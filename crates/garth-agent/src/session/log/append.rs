//! Appends messages and events to a session, in one commit.
//!
//! An append first reads which ids exist, where the log ends and what `meta.json` says. It commits on the
//! condition that this still holds, and starts again if another writer was faster. An append without ids only
//! holds `meta.json`, which most appends do not write, so appends rarely make each other start again.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::draft::{Draft, Role, cuts};
use super::images::ExtractedImages;
use super::lines::End;
use super::message::Message;
use super::native::Natives;
use super::retract::GivenRetraction;
use crate::boxed;
use crate::ids::uuid;
use crate::once::{Outcome, PENDING};
use crate::registry::projections::sessions::id_key;
use crate::registry::session_lines::COLLECTED;
use crate::retry::retry;
use crate::session::handle::Sessions;
use crate::session::store::files::{LATEST, Log, META, UPDATED_AT};
use crate::session::store::meta::{Meta, State, Usage};
use crate::small_file::as_read;
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::model::{At, Batch, ByteRange, Commit, MAX_INLINE_BODY, Moment, Op, Precondition, Seq};

/// Limit on the messages, and on the events, of one append. It bounds the ids that are looked up.
pub const MAX_APPENDED: usize = 1000;

/// Limit on the messages of an append that also retracts others: a rewind replaces them in one commit.
pub(crate) const MAX_REWOUND: usize = 10_000;

/// Messages and events to append. Start from [`Append::messages`] or [`Append::events`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Append {
    /// Messages, in the order in which they are appended.
    #[doc(hidden)]
    pub messages: Vec<Draft>,
    /// Events, in the order in which they are appended.
    #[doc(hidden)]
    pub events: Vec<Draft>,
    /// Run of the lines that name none. Without it, the events of one append share a generated run, and
    /// messages have none.
    #[doc(hidden)]
    pub run: Option<String>,
    /// Id of the last message that the caller knows. The append fails with `Conflict` if others follow it.
    #[doc(hidden)]
    pub after: Option<String>,
    /// Tokens to add to the usage of the session. A repeat, all of whose lines exist, adds none.
    #[doc(hidden)]
    pub usage: Option<Usage>,
    /// New state of the session.
    #[doc(hidden)]
    pub state: Option<State>,
    /// Native form of the messages, appended to `native/{format}.jsonl` in the same commit.
    pub(crate) native: Option<Natives>,
    /// Field of `meta.json` to set in the same commit.
    noted: Option<(&'static str, Value)>,
    /// Lines that events of this append retract, so that they are not the latest of the session.
    pub(crate) retracted: Option<RangeInclusive<u64>>,
    /// True if garth itself wrote the events that retract messages. Those of callers are judged.
    pub(crate) own_retractions: bool,
    /// Files of the session to write in the same commit, with their text.
    pub(crate) files: Vec<(&'static str, String)>,
    /// Further conditions of the commit.
    pub(crate) conditions: Vec<(At, Precondition)>,
    /// Creation of the session, in the same commit.
    pub(crate) creation: Option<Creation>,
}

/// Operations that create a session, and its `meta.json`.
#[derive(Clone, Debug)]
pub(crate) struct Creation {
    pub(crate) ops: Vec<Op>,
    pub(crate) conditions: Vec<(At, Precondition)>,
    pub(crate) meta: Meta,
}

impl Append {
    /// Returns an append of these messages.
    pub fn messages(messages: impl IntoIterator<Item = Draft>) -> Self {
        Self { messages: messages.into_iter().collect(), ..Self::default() }
    }

    /// Returns an append of these events.
    pub fn events(events: impl IntoIterator<Item = Draft>) -> Self {
        Self { events: events.into_iter().collect(), ..Self::default() }
    }

    /// Sets the events.
    #[must_use]
    pub fn and_events(self, events: impl IntoIterator<Item = Draft>) -> Self {
        Self { events: events.into_iter().collect(), ..self }
    }

    /// Sets the run of the lines that name none.
    #[must_use]
    pub fn run(self, run: impl Into<String>) -> Self {
        Self { run: Some(run.into()), ..self }
    }

    /// Requires this message to be the last one of the session.
    #[must_use]
    pub fn after(self, id: impl Into<String>) -> Self {
        Self { after: Some(id.into()), ..self }
    }

    /// Sets a field of `meta.json` in the same commit.
    pub(crate) fn noting(self, field: &'static str, value: Value) -> Self {
        Self { noted: Some((field, value)), ..self }
    }

    /// Sets the state of the session in the same commit.
    #[must_use]
    pub fn state(self, state: State) -> Self {
        Self { state: Some(state), ..self }
    }

    /// Adds tokens to the usage of the session.
    #[must_use]
    pub fn usage(self, usage: Usage) -> Self {
        Self { usage: Some(usage), ..self }
    }
}

/// Result of an append.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Appended {
    /// Ids of the given messages, in their order, skipped ones included.
    pub messages: Vec<String>,
    /// Ids of the given events, likewise.
    pub events: Vec<String>,
    /// Line numbers of the messages that were appended; `None` if all were skipped.
    pub lines: Option<RangeInclusive<u64>>,
    /// The commit; `None` if there was nothing to change.
    pub seq: Option<Seq>,
}

/// Append whose lines are not numbered yet: the commit decides on their numbers.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct AppendedLines {
    pub(crate) appended: Appended,
    /// Id of the first new message, and the number of the new ones.
    new: Option<(String, u64)>,
}

impl Outcome for AppendedLines {
    fn committed(mut self, commit: &Commit) -> Self {
        self.appended.seq = self.appended.seq.map(|_| commit.seq);
        self
    }
}

/// Lines of one log, completed and checked.
pub(crate) struct PreparedLines<'a> {
    log: Log,
    /// Drafts as the caller gave them. A repeat is recognised by these: `drafts` have new times on each call.
    given: &'a [Draft],
    ids: Vec<String>,
    /// Drafts with id, time and run filled in.
    drafts: Vec<Draft>,
    /// True if the caller gave some of the ids. Only a given id can be in the log already.
    with_ids: bool,
    /// Images that were moved from the messages to files.
    pictures: ExtractedImages,
}

/// Refuses to append to a session that was reset.
pub(crate) fn refuse_reset(session: &str, meta: &Meta) -> Result<()> {
    let Some(next) = &meta.next else { return Ok(()) };
    let message = format!("{session}: was reset; append to {next}, which goes on in its place");
    Err(Error::new(ErrorKind::Conflict, message))
}

impl Sessions<'_> {
    /// Appends messages and events in one commit. A line whose id exists with the same content is skipped, so
    /// that an append with ids can be repeated.
    ///
    /// # Errors
    /// `InvalidArgument` for a line that does not match its schema, and for an id that is given twice;
    /// `Conflict` for an id that exists with other content, if other messages follow `after`, and for a
    /// session that was reset or whose messages were collected; `NotFound`; `TooLarge`; for an event that
    /// retracts messages, as [`Self::retract`]; from the filesystem.
    #[boxed]
    pub async fn append(&self, session: &str, append: &Append) -> Result<Appended> {
        let lines = self.once.run(self.append_as(session, append, |lines| lines)).await?;
        // After the record: a repeat finishes this after a crash.
        let is_repeat = self.once.is_repeat() || lines.appended.seq.is_none();
        self.remove_retracted_elsewhere(session, &append.events, is_repeat).await?;
        self.numbered(session, lines).await
    }

    /// Returns an append with the numbers that its commit gave to the lines.
    pub(crate) async fn numbered(&self, session: &str, lines: AppendedLines) -> Result<Appended> {
        let AppendedLines { mut appended, new } = lines;
        if let Some((id, count)) = new {
            let line = self.keyed(session, Log::Messages, &id_key(&id), 0, 1).await?;
            // Only the commit decides on line numbers, because appends without ids do not hold the log.
            appended.lines = match (line.into_iter().find_map(|item| item.line), appended.seq) {
                (Some(line), _) => Some(line.number..=line.number + count - 1),
                (None, Some(seq)) => Some(self.last_lines_at(session, seq, count).await?),
                (None, None) => None,
            };
        }
        Ok(appended)
    }

    /// Returns the numbers of the last messages that the log had after a commit: they answer a repeat, even
    /// if the log was collected or deleted since.
    async fn last_lines_at(&self, session: &str, seq: Seq, count: u64) -> Result<RangeInclusive<u64>> {
        let (at, then) = (At::from(self.file(session, Log::Messages.file())?), Moment::Seq(seq));
        let then = self.fs.as_of(&then).await?;
        let (mut lines, mut range) = (0_u64, ByteRange { offset: 0, length: 1 << 20 });
        loop {
            let piece = then.read(&at, range).await?;
            if piece.is_empty() {
                return Ok((lines + 1).saturating_sub(count)..=lines);
            }
            lines += piece.iter().filter(|byte| **byte == b'\n').count() as u64;
            range.offset += piece.len() as u64;
        }
    }

    /// Appends messages and events, and records the outcome that `outcome` builds. Events that retract
    /// messages need [`Self::append`].
    pub(crate) async fn append_as<T: Outcome>(
        &self,
        session: &str,
        append: &Append,
        outcome: impl Fn(AppendedLines) -> T + Send + Sync,
    ) -> Result<T> {
        self.check_writable(session)?;
        // Once for all attempts: the path of an image is derived from the id of its message.
        let [messages, events] = self.prepare(session, append).await?;
        retry(|| self.append_once(session, append, [&messages, &events], &outcome)).await
    }

    /// Completes and checks the lines of an append, and moves images out of them.
    pub(crate) async fn prepare<'d>(
        &self,
        session: &str,
        append: &'d Append,
    ) -> Result<[PreparedLines<'d>; 2]> {
        let given = append.messages.len().max(append.events.len());
        let limit = if append.retracted.is_some() { MAX_REWOUND } else { MAX_APPENDED };
        if given > limit {
            let message = format!("one append has at most {limit} messages and as many events");
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        append.usage.as_ref().map_or(Ok(()), Usage::check)?;
        let mut messages = self.ready(Log::Messages, &append.messages, append)?;
        // The session does not exist yet if this commit creates it: its key is known by the creation alone.
        let meta = append.creation.as_ref().map(|creation| &creation.meta);
        messages.pictures = self.extract_images((session, meta), &messages.ids, &mut messages.drafts).await?;
        let events = self.ready(Log::Events, &append.events, append)?;
        Ok([messages, events])
    }

    /// Fills in missing ids, times and runs. Rejects lines that do not match the schema of the log.
    fn ready<'d>(&self, log: Log, given: &'d [Draft], append: &Append) -> Result<PreparedLines<'d>> {
        let now = self.env.now().to_rfc3339();
        let (mut run, mut seen) = (append.run.clone(), BTreeSet::new());
        let mut ready = PreparedLines {
            log,
            given,
            ids: Vec::new(),
            drafts: Vec::new(),
            with_ids: false,
            pictures: ExtractedImages::default(),
        };
        for (number, draft) in (1..).zip(given) {
            let mut draft = draft.clone();
            if draft.has("id") {
                ready.with_ids = true;
            } else {
                draft = draft.with("id", &format!("{}{}", log.prefix(), uuid(&self.env)?));
            }
            if !draft.has("created_at") {
                draft = draft.with("created_at", &now);
            }
            if log == Log::Messages && draft.raw("role") == Some("\"user\"") && !draft.has("from") {
                draft = self.speaker().iter().fold(draft, |draft, speaker| draft.with("from", speaker));
            }
            if !draft.has("run") {
                // The schema requires a run of events only. The events of one append belong together.
                if run.is_none() && log == Log::Events {
                    run = Some(format!("run-{}", uuid(&self.env)?));
                }
                draft = run.iter().fold(draft, |draft, run| draft.with("run", run));
            }
            if log == Log::Messages {
                draft = draft.with_call_first();
            }
            let what = || format!("{} {number}", log.name().trim_end_matches('s'));
            // The rule of the log refuses such a line as well, but here the error names the message of the
            // caller.
            let retraction = if log == Log::Events { GivenRetraction::of(&draft).map(drop) } else { Ok(()) };
            retraction
                .and_then(|()| draft.check(log))
                .map_err(|error| Error::new(error.kind(), format!("{}: {error}", what())))?;
            let id = draft.text("id").unwrap_or_default();
            // No rule keeps ids unique: both lines would look new, and both would be appended.
            if !seen.insert(id.clone()) {
                return Err(Error::invalid(format!("{}: its id {id} is given twice", what())));
            }
            ready.ids.push(id);
            ready.drafts.push(draft);
        }
        Ok(ready)
    }

    /// Makes one attempt of an append.
    pub(crate) async fn append_once<T: Outcome>(
        &self,
        session: &str,
        append: &Append,
        all: [&PreparedLines<'_>; 2],
        outcome: &(impl Fn(AppendedLines) -> T + Send + Sync),
    ) -> Result<T> {
        let mut appended =
            Appended { messages: all[0].ids.clone(), events: all[1].ids.clone(), ..Appended::default() };
        let (mut ops, mut conditions) = (Vec::new(), append.conditions.clone());
        let (mut first_new, mut latest, mut ends) = (None, None, Vec::new());
        let mut gone: Vec<RangeInclusive<u64>> = append.retracted.iter().cloned().collect();
        for ready in all.into_iter().filter(|ready| !ready.drafts.is_empty()) {
            let file = self.file(session, ready.log.file())?;
            let is_after = ready.log == Log::Messages && append.after.is_some();
            if (ready.with_ids || is_after) && append.creation.is_none() {
                // Read before the lookups and held until the commit: of two clients that send the same new id
                // at once, the second must not commit on lookups that missed the first.
                let entry = self.fs.stat(&At::from(&file)).await;
                let entry = entry.map_err(|error| match error.is(ErrorKind::NotFound) {
                    true => crate::session::handle::missing(session),
                    false => error,
                })?;
                conditions.push((At::from(&file), Precondition::Etag(entry.etag)));
            }
            let mut new = match &append.creation {
                // The commit creates the log, and fails if it exists by then: there are no ids to look up.
                Some(_) => ready.drafts.clone(),
                None => self.new_of(session, ready).await?,
            };
            if new.is_empty() {
                continue;
            }
            let end = match &append.creation {
                Some(_) => End::default(),
                None => self.end(session, ready.log).await?,
            };
            // For `why_refused`, which distinguishes a race at the last line from a line that the rule
            // refuses.
            ends.push((ready.log, end.open));
            if let Some(native) = append.native.as_ref().filter(|_| ready.log == Log::Messages) {
                let (op, condition) = self.with_native(session, native, &mut new).await?;
                ops.push(op);
                conditions.push(condition);
            }
            if let Some(after) = append.after.as_ref().filter(|_| is_after) {
                self.check_last(session, after, end).await?;
            }
            if ready.log == Log::Messages {
                // New messages only: a repeat must neither set `latest.md` back nor store its images again.
                // New messages are the last ones when they are committed, so that no condition is needed.
                first_new = new.first().and_then(|draft| draft.text("id")).zip(Some(new.len() as u64));
                latest = latest_of(&new);
                ops.extend(self.image_ops(&ready.pictures, &new).await?);
            }
            if ready.log == Log::Events && append.creation.is_none() {
                // Any caller may append an event that retracts messages. Everything derived from these is
                // removed in the same commit.
                if !append.own_retractions {
                    let (lines, held) = self.judged_retractions(session, &new).await?;
                    gone.extend(lines);
                    conditions.extend(held);
                }
                let derived = self.without_retracted(session, &new).await?;
                ops.extend(derived.ops);
                conditions.extend(derived.conditions);
            }
            // Other interfaces may leave out the last line feed. Without one, the first new line would
            // continue that line.
            let start = if end.open { "\n" } else { "" };
            let lines: String = new.iter().map(|draft| draft.line() + "\n").collect();
            let body = format!("{start}{lines}");
            if body.len() > MAX_INLINE_BODY {
                let message = format!("the lines of one append have at most {MAX_INLINE_BODY} bytes");
                return Err(Error::new(ErrorKind::TooLarge, message));
            }
            // Long strings become extents of their own, so that the same tool output is stored once.
            let cuts = cuts(&body, 0);
            ops.insert(0, Op::append(file, body).must_exist().cut_at(cuts));
        }
        // Events can retract the latest answer without a new one: the one before it becomes the latest.
        if latest.is_none() && !gone.is_empty() {
            latest = Some(self.latest_without(session, &gone).await?);
        }
        if let Some(text) = latest {
            ops.push(Op::write(self.file(session, LATEST)?, text));
        }
        // A repeat appends no line, and must not count its tokens again. An append of usage alone has no
        // lines.
        let adds_usage = append.usage.filter(|_| !ops.is_empty() || all.iter().all(|all| all.ids.is_empty()));
        if ops.is_empty() && adds_usage.is_none() && append.state.is_none() && append.creation.is_none() {
            // There is nothing to commit, but a missing session is still an error.
            self.meta(session).await?;
            let batch = self.batch(session, Vec::new(), "append nothing to session")?;
            return self.once.unchanged(self.fs, batch, outcome(AppendedLines { appended, new: None })).await;
        }
        let batch = self.with_rest(session, append, adds_usage, ops).await?;
        let batch = conditions.into_iter().fold(batch, |batch, (at, that)| batch.require(at, that));
        appended.seq = Some(PENDING);
        let done =
            self.once.commit(self.fs, batch, outcome(AppendedLines { appended, new: first_new })).await;
        match done {
            Err(error) if error.is(ErrorKind::RuleViolation) && append.creation.is_none() => {
                Err(self.why_refused(session, &ends, error).await?)
            }
            done => done,
        }
    }

    /// Returns the error of a commit that a rule refused: a conflict if another writer has left half a line
    /// since the ends were read, with which the first new line would be one.
    async fn why_refused(&self, session: &str, ends: &[(Log, bool)], error: Error) -> Result<Error> {
        for (log, was_open) in ends {
            if self.end(session, *log).await?.open != *was_open {
                let file = self.file(session, log.file())?;
                return Ok(Error::at(
                    ErrorKind::Conflict,
                    &file,
                    "another writer left half a line; try again",
                ));
            }
        }
        Ok(error)
    }

    /// Builds the batch: `ops`, state, usage and `updated_at`, on the condition that `meta.json` has not
    /// changed.
    async fn with_rest(
        &self,
        session: &str,
        append: &Append,
        usage: Option<Usage>,
        more: Vec<Op>,
    ) -> Result<Batch> {
        let now = self.env.now().to_rfc3339();
        let meta_file = self.file(session, META)?;
        let (mut ops, mut conditions, file, mut meta) = match &append.creation {
            Some(Creation { ops, conditions, meta }) => (ops.clone(), conditions.clone(), None, meta.clone()),
            None => {
                let (file, meta) = self.meta(session).await?;
                (Vec::new(), Vec::new(), Some(file), meta)
            }
        };
        ops.extend(more);
        refuse_reset(session, &meta)?;
        // Sources name lines by number. After a collection new messages would have the numbers of collected
        // ones.
        if !append.messages.is_empty() && meta.other.contains_key(COLLECTED) {
            let message = format!(
                "{session}: its messages were collected, and line numbers must not start again; reset it, or append to another session"
            );
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        let before = meta.clone();
        if let Some(usage) = usage {
            meta.usage = meta.usage.plus(usage);
            // Usage without input is not that of a prompt: the size of the newest prompt stays.
            if usage.input_tokens > 0 {
                meta.last_input_tokens = Some(usage.input_tokens);
            }
        }
        if let Some((field, value)) = &append.noted {
            meta.other.insert((*field).to_owned(), value.clone());
        }
        if let Some(state) = append.state {
            conditions.extend(self.enter_state(session, &mut meta, state, &mut ops).await?);
        }
        // Appends hold `meta.json`: each write of it makes those that run at the same time start again.
        if meta != before {
            ops.push(self.meta_op(session, &meta)?);
        }
        for (name, text) in &append.files {
            ops.push(Op::write(self.file(session, name)?, text.clone()).with_parents());
        }
        ops.push(Op::write(self.file(session, UPDATED_AT)?, format!("{now}\n")));
        // A reset changes `meta.json`. A line that is appended after its archive was written would be in no
        // archive.
        let batch = self.batch(session, ops, "append to session")?.require(meta_file, as_read(file.as_ref()));
        Ok(conditions.into_iter().fold(batch, |batch, (at, that)| batch.require(at, that)))
    }

    /// Returns the drafts whose id is not in the log.
    ///
    /// # Errors
    /// `Conflict` for an id that the log has with other content; from the filesystem.
    async fn new_of(&self, session: &str, ready: &PreparedLines<'_>) -> Result<Vec<Draft>> {
        if !ready.with_ids {
            return Ok(ready.drafts.clone());
        }
        let keys: Vec<String> = ready.ids.iter().map(|id| id_key(id)).collect();
        let places = self.places_of(session, ready.log, &keys).await?;
        let (mut new, mut known) = (Vec::new(), Vec::new());
        for (((id, draft), given), place) in ready.ids.iter().zip(&ready.drafts).zip(ready.given).zip(places)
        {
            match place {
                None => new.push(draft.clone()),
                Some(place) => known.push((id, given, place)),
            }
        }
        // In portions: the lines of a log can be longer together than may be held.
        let mut left = &known[..];
        while !left.is_empty() {
            let lines: Vec<_> = left.iter().map(|(.., place)| place.bytes.clone()).collect();
            let texts = self.first_texts(session, ready.log, &lines).await?;
            // An empty answer would repeat the same read for ever.
            if texts.is_empty() {
                return Err(Error::new(ErrorKind::Io, "the storage returned no answer"));
            }
            for ((id, given, place), text) in left.iter().zip(&texts) {
                if !given.is_said_by(text) && !ready.pictures.is_said_by(id, given, text) {
                    let message = format!(
                        "{id} exists with other content, in line {} of {}; give the new message another id",
                        place.number,
                        ready.log.file()
                    );
                    return Err(Error::new(ErrorKind::Conflict, message));
                }
            }
            left = &left[texts.len()..];
        }
        Ok(new)
    }

    /// Returns the ids that messages of the log have, among some.
    pub(crate) async fn taken_ids(
        &self,
        session: &str,
        ids: impl Iterator<Item = &str>,
    ) -> Result<BTreeSet<String>> {
        let ids: Vec<&str> = ids.collect();
        let keys: Vec<String> = ids.iter().map(|id| id_key(id)).collect();
        let places = self.places_of(session, Log::Messages, &keys).await?;
        let taken = ids.into_iter().zip(places).filter(|(_, place)| place.is_some());
        Ok(taken.map(|(id, _)| id.to_owned()).collect())
    }

    /// Checks that `after` is the last message. Fails with `Conflict`, naming the lines that follow it.
    async fn check_last(&self, session: &str, after: &str, end: End) -> Result<()> {
        let Some(line) = self.line_with(session, Log::Messages, &id_key(after)).await? else {
            return Err(Error::new(ErrorKind::NotFound, format!("{after}: {session} has no such message")));
        };
        if line.number == end.lines {
            return Ok(());
        }
        let message = format!(
            "{after} is not the last message: messages:{}-{} follow it; read them first",
            line.number + 1,
            end.lines
        );
        Err(Error::new(ErrorKind::Conflict, message))
    }
}

/// Returns the text of the last of some new messages of the assistant that has some.
fn latest_of(new: &[Draft]) -> Option<String> {
    // By the role alone first: messages of others can be long, and are not parsed.
    let said = new.iter().rev().filter(|draft| draft.text("role").as_deref() == Some("assistant"));
    let messages = said.filter_map(|draft| Message::parse(&draft.line()).ok());
    let mut texts = messages.filter(|message| message.role == Role::Assistant).map(|said| said.text());
    texts.find(|text| !text.is_empty())
}
