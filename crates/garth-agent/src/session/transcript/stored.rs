//! Reads the messages with which a transcript is aligned: those of a session, and of the sessions that it
//! continues.

use std::collections::VecDeque;

use super::compared::{self, Digest};
use super::format::TranscriptFormat;
use super::read::is_whole;
use crate::session::handle::Sessions;
use crate::session::log::draft::Draft;
use crate::session::log::lines::Select;
use crate::session::log::message::Native;
use crate::session::log::native::Reader;
use garth_engine::error::Result;

/// Limit on the messages of the user, and on the bytes of their contents, after which a result is searched.
const MAX_STEP: usize = 1_000;
const MAX_STEP_BYTES: usize = 20 << 20;

/// A message of the session or of a session before it in the chain.
pub(super) struct Stored {
    /// Index of its session in the chain.
    pub(super) session: usize,
    pub(super) number: u64,
    pub(super) draft: Draft,
    /// Line of its native form, if that has the format of the transcript.
    pub(super) native: Option<u64>,
    /// Digest of the native form, and the number of messages derived from it; only for the first of these
    /// messages. `None` if one of them was retracted, because the others then contain less than the native
    /// form.
    pub(super) came: Option<(Digest, usize)>,
}

impl Stored {
    /// Returns true for a system message of the format. Anthropic has system messages only before all others.
    pub(super) fn is_system(&self, format: TranscriptFormat) -> bool {
        let has_place = format != TranscriptFormat::Anthropic || self.native.is_some() || self.number == 1;
        has_place && self.draft.raw("role") == Some("\"system\"")
    }

    pub(super) fn is_result(&self) -> bool {
        self.draft.raw("role") == Some("\"tool\"")
    }

    /// Returns true for a message that is neither a result nor of the assistant.
    fn is_of_user(&self) -> bool {
        !self.is_result() && self.draft.raw("role") != Some("\"assistant\"")
    }

    /// Returns the length of its content.
    fn bytes(&self) -> usize {
        self.draft.value("content").map_or(0, |content| content.get().len())
    }
}

/// Reads the messages of a chain of sessions, without retracted ones.
pub(super) struct StoredReader<'a> {
    sessions: &'a Sessions<'a>,
    format: TranscriptFormat,
    /// Names of the sessions, oldest first.
    pub(super) chain: Vec<String>,
    session: usize,
    next: Option<u64>,
    page: VecDeque<(u64, String)>,
    /// Messages derived from one native line, or one message without a native line, and the message after
    /// them.
    pub(super) group: VecDeque<Stored>,
    after: Option<Stored>,
    /// Messages of the user that were read in search of a result, the bytes of their contents, and the
    /// message after them. The next search continues there: from the first of them on, many results after
    /// many messages would cost the product of their numbers.
    pub(super) ahead: VecDeque<Stored>,
    ahead_bytes: usize,
    pub(super) found: Option<Stored>,
    /// Reader of the native lines of a session.
    native: Option<(usize, Reader<'a>)>,
}

impl<'a> StoredReader<'a> {
    pub(super) fn new(sessions: &'a Sessions<'a>, format: TranscriptFormat, chain: Vec<String>) -> Self {
        Self {
            sessions,
            format,
            chain,
            session: 0,
            next: Some(1),
            page: VecDeque::new(),
            group: VecDeque::new(),
            after: None,
            ahead: VecDeque::new(),
            ahead_bytes: 0,
            found: None,
            native: None,
        }
    }

    pub(super) async fn next(&mut self) -> Result<Option<Stored>> {
        if let Some(one) = self.ahead.pop_front() {
            self.ahead_bytes -= one.bytes();
            return Ok(Some(one));
        }
        match self.found.take() {
            Some(one) => Ok(Some(one)),
            None => self.read_next().await,
        }
    }

    /// Searches the next result that an export has before the message `one`; true if it is in `found`.
    /// Anthropic has all results between two messages of the assistant before what the user says there.
    pub(super) async fn finds_result(&mut self, one: &Stored) -> Result<bool> {
        if self.format != TranscriptFormat::Anthropic || !one.is_of_user() {
            return Ok(false);
        }
        while self.found.is_none() && self.ahead.len() < MAX_STEP && self.ahead_bytes < MAX_STEP_BYTES {
            let Some(next) = self.read_next().await? else { break };
            if next.session == one.session && next.is_of_user() {
                self.ahead_bytes += next.bytes();
                self.ahead.push_back(next);
            } else {
                self.found = Some(next);
            }
        }
        Ok(self.found.as_ref().is_some_and(|found| found.session == one.session && found.is_result()))
    }

    async fn read_next(&mut self) -> Result<Option<Stored>> {
        if self.group.is_empty() {
            self.read_group().await?;
        }
        Ok(self.group.pop_front())
    }

    /// Reads a message, and all others that are derived from the same native line.
    async fn read_group(&mut self) -> Result<()> {
        let first = match self.after.take() {
            Some(one) => Some(one),
            None => self.read().await?,
        };
        let Some(first) = first else { return Ok(()) };
        let (session, native) = (first.session, first.native);
        self.group.push_back(first);
        let Some(line) = native else { return Ok(()) };
        while let Some(one) = self.read().await? {
            if (one.session, one.native) != (session, native) {
                self.after = Some(one);
                break;
            }
            self.group.push_back(one);
        }
        if self.native.as_ref().is_none_or(|(of, _)| *of != session) {
            let reader = Reader::new(self.sessions, &self.chain[session], self.format.as_str())?;
            self.native = Some((session, reader));
        }
        let (Some((_, reader)), parts) = (&mut self.native, self.group.len()) else { return Ok(()) };
        if let Some(text) = reader.line(line).await?
            && is_whole(self.format, text, parts)
            && let Some(first) = self.group.front_mut()
        {
            first.came = compared::as_it_came(self.format, text).map(|came| (came, parts));
        }
        Ok(())
    }

    async fn read(&mut self) -> Result<Option<Stored>> {
        let (number, text) = loop {
            if let Some(line) = self.page.pop_front() {
                break line;
            }
            let Some(from) = self.next else {
                if self.session + 1 >= self.chain.len() {
                    return Ok(None);
                }
                (self.session, self.next) = (self.session + 1, Some(1));
                continue;
            };
            let page = self.sessions.lines(self.name(), &Select::messages(from..=u64::MAX)).await?;
            self.next = page.next;
            self.page.extend(page.items.into_iter().map(|line| (line.number, line.text)));
            crate::retry::yield_now().await;
        };
        let draft = Draft::parse(&text)?;
        let place: Option<Native> = draft.raw("native").and_then(|raw| serde_json::from_str(raw).ok());
        let native = place.filter(|place| place.format == self.format.as_str()).map(|place| place.line);
        Ok(Some(Stored { session: self.session, number, draft, native, came: None }))
    }

    fn name(&self) -> &str {
        &self.chain[self.session]
    }

    pub(super) fn name_of(&self, one: &Stored) -> &str {
        &self.chain[one.session]
    }
}
