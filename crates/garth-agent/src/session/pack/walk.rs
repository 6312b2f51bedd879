//! Walks back over the messages of a session, as far as a pack has use for them, and counts each once.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use super::long_result::LongResult;
use super::window::WindowSpec;
use crate::count::count;
use crate::session::handle::Sessions;
use crate::session::log::draft::Role;
use crate::session::log::lines::{End, Line};
use crate::session::log::message::Message;
use crate::session::log::tail_reader::TailReader;
use crate::session::render::{Known, is_beyond, whole};
use crate::session::store::files::Log;
use garth_engine::error::Result;

/// Lines whose retractions the first look-up covers. Each further one covers twice as many, up to
/// [`MAX_CHUNK`]: a look-up takes more steps among more retractions, so a long walk must not make many.
const CHUNK: u64 = 64;

/// Limit on the lines of one look-up.
const MAX_CHUNK: u64 = 2048;

/// Limit on the bytes before the unfinished step that are read: without it, a session of long results, each
/// shown in part, would be read far beyond the budget.
const MOST_BYTES: u64 = 16 << 20;

/// Limit on the tokens of a note on swapped messages, beside those of its summary.
const NOTE: u64 = 96;

/// A message that may be in the window.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) number: u64,
    /// Tokens if it is shown completely; estimated for long texts.
    pub(super) tokens: u64,
    /// Result that can be shown in part.
    pub(super) long: Option<LongResult>,
    /// True if a window can begin with it: it is shown, and no result of a call before it.
    is_start: bool,
}

/// Messages of a session, the last first.
pub(super) struct Walk<'a> {
    sessions: &'a Sessions<'a>,
    session: &'a str,
    spec: WindowSpec,
    back: TailReader<'a>,
    /// First line that may be in the window.
    first: u64,
    /// Tokens of a pack. Longer messages are estimated, not counted.
    room: u64,
    entries: Vec<Entry>,
    /// Messages that it has rendered.
    pub(super) known: Known,
    /// Retracted lines from a line on.
    gone: (u64, Vec<RangeInclusive<u64>>),
    /// Lines of the next look-up.
    chunk: u64,
    notes: HashSet<String>,
    /// Bytes read before the unfinished step.
    bytes: u64,
    /// True if the first line is among the entries.
    ended: bool,
}

impl<'a> Walk<'a> {
    /// Starts a walk at the end of the messages.
    pub(super) fn new(
        sessions: &'a Sessions<'a>,
        session: &'a str,
        spec: &WindowSpec,
        end: End,
        (first, room): (u64, u64),
    ) -> Result<Self> {
        Ok(Self {
            sessions,
            session,
            spec: spec.clone(),
            back: TailReader::new(sessions, session, Log::Messages, end)?,
            first,
            room,
            entries: Vec::new(),
            known: Known::new(),
            gone: (u64::MAX, Vec::new()),
            chunk: CHUNK,
            notes: HashSet::new(),
            bytes: 0,
            ended: false,
        })
    }

    /// Returns the messages that the walk has passed, the last first.
    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns true if the first `taken` entries are all that there are.
    pub(super) fn is_all(&self, taken: usize) -> bool {
        self.ended && taken == self.entries.len()
    }

    /// Walks back to a line. Returns the number of entries from there on.
    pub(super) async fn reach_line(&mut self, line: u64) -> Result<usize> {
        while self.entries.last().is_none_or(|entry| entry.number > line) {
            if self.back_one(false).await?.is_none() {
                break;
            }
        }
        Ok(self.entries.iter().take_while(|entry| entry.number >= line).count())
    }

    /// Returns the number of entries with which the unit after the first `taken` is complete: a message that
    /// is no result, with the results that follow it. `None` if there is no further unit, or the walk may not
    /// read it.
    pub(super) async fn unit(&mut self, taken: usize) -> Result<Option<usize>> {
        let mut at = taken;
        loop {
            while at >= self.entries.len() {
                // Stopped by its limit, the walk may be in the midst of a unit, which is not taken then. At
                // the first line, results that have no call are the rest.
                if self.back_one(true).await?.is_none() {
                    return Ok((self.ended && self.entries.len() > taken).then_some(self.entries.len()));
                }
            }
            at += 1;
            if self.entries[at - 1].is_start {
                return Ok(Some(at));
            }
        }
    }

    async fn back_one(&mut self, is_limited: bool) -> Result<Option<()>> {
        // The mandatory parts of a pack are read, however long they are. Only optional parts are limited.
        if self.ended || (is_limited && self.bytes >= MOST_BYTES) {
            return Ok(None);
        }
        let last = self.entries.last().map(|entry| entry.number);
        // The lines before the first one were compacted away, and need not be read.
        let line = if last.is_some_and(|last| last <= self.first) { None } else { self.next_line().await? };
        let Some(line) = line.filter(|line| line.number >= self.first) else {
            self.ended = true;
            return Ok(None);
        };
        if is_limited {
            self.bytes += line.text.len() as u64;
        }
        let entry = self.entry(line).await?;
        self.entries.push(entry);
        Ok(Some(()))
    }

    /// Returns the line before. Steps over a run of retracted lines that is longer than a look-up.
    async fn next_line(&mut self) -> Result<Option<Line>> {
        let Some(line) = self.back.next().await? else { return Ok(None) };
        let (sessions, events) = (self.sessions, self.spec.events);
        // One look-up of retractions serves many lines. Lines are met in descending order, so that whatever
        // lies before the last look-up needs another one.
        if line.number < self.gone.0 {
            let first = line.number.saturating_sub(self.chunk - 1).max(1);
            self.chunk = (2 * self.chunk).min(MAX_CHUNK);
            let gone = sessions.retracted_by(self.session, first..=line.number, events).await?;
            self.gone = (first, gone);
        }
        let (first, gone) = &self.gone;
        let Some(run) = gone.iter().find(|run| run.contains(&line.number)) else { return Ok(Some(line)) };
        // The run starts within the look-up: it is short enough to be passed line by line.
        if run.start() > first || *first == 1 {
            return Ok(Some(line));
        }
        let start = sessions.run_start(self.session, line.number, events).await?;
        if start >= *first {
            return Ok(Some(line));
        }
        // The reader starts again before the run. The bytes of the run are not read, however long it is.
        let page = sessions.raw_lines(self.session, Log::Messages, start..=start, 1).await?;
        let bytes = page.items.first().map_or(0, |line| line.bytes.start);
        let end = End { lines: start - 1, bytes, open: false };
        self.back = TailReader::new(sessions, self.session, Log::Messages, end)?;
        // The look-up is about lines that were stepped over. Rendering looks up all lines again.
        self.gone = (u64::MAX, Vec::new());
        self.back.next().await
    }

    async fn entry(&mut self, line: Line) -> Result<Entry> {
        let number = line.number;
        let hidden = Entry { number, tokens: 0, long: None, is_start: false };
        if self.gone.1.iter().any(|lines| lines.contains(&number)) {
            return Ok(hidden);
        }
        let Ok(message) = Message::parse(&line.text) else { return Ok(hidden) };
        // A window that starts at a result has no call for it, and a result without its call is not shown.
        let is_start = message.role != Role::Tool;
        // All messages of a swap entry are shown as one note, so that only the first one met is counted.
        if let Some(entry) = self.spec.swapped.iter().find(|entry| entry.hides(number)) {
            let is_new = self.notes.insert(entry.id.clone());
            let tokens = if is_new { NOTE + count(&entry.summary) as u64 } else { 0 };
            return Ok(Entry { tokens, is_start, ..hidden });
        }
        let long = LongResult::of(&line, &message);
        // A result beyond the budget is shown in part at best: its exact tokens change no choice.
        if let Some(tokens) = long.as_ref().and_then(|long| long.estimate_beyond(self.room)) {
            return Ok(Entry { tokens, long, is_start, ..hidden });
        }
        // No token has more than 128 bytes, so that a quarter of these bytes is beyond the budget as well.
        if is_beyond(message.shown_bytes(), self.room) {
            let tokens = message.shown_bytes() as u64 / 4;
            return Ok(Entry { tokens, long, is_start, ..hidden });
        }
        // Counted by itself, because the messages before it are not known yet: output that is repeated, and
        // so shown once, counts each time. `fill_window` chooses again where this was too much.
        let shown = whole(number, message, &self.sessions.tokens);
        let tokens = shown.tokens;
        self.known.insert(number, (blake3::hash(line.text.as_bytes()), shown));
        Ok(Entry { tokens, long, is_start, ..hidden })
    }
}
