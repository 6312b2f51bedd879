//! Aligns a whole transcript with the messages of a session: finds the first message that is new, or the
//! first that differs.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use super::compared::{self, Digest};
use super::export::anew;
use super::format::TranscriptFormat;
use super::given::{Given, in_format};
use super::hydrate::MAX_BYTES;
use super::stored::{Stored, StoredReader};
use super::system_prompt::{in_transcript, text_of};
use crate::media::{MediaKey, from_base64};
use crate::registry::session_lines::COLLECTED;
use crate::session::handle::Sessions;
use crate::session::log::draft::Draft;
use crate::session::log::message::Message;
use crate::session::store::files::Log;
use crate::session::store::meta::Meta;
use garth_engine::error::{Error, ErrorKind, OptionalExt as _, Result};
use garth_engine::fs::FileSystemExt as _;
use garth_engine::model::{At, Precondition};

/// Limit on the sessions in a chain of resets.
const MAX_CHAIN: usize = 10_000;

/// Limit on the retracted messages at the end of a session that are compared with new messages.
const MAX_SAID_AGAIN: u64 = 1_000;

/// Limit on the system messages of a transcript that are compared with retracted ones.
const MAX_SYSTEM: usize = 16;

/// Result of an alignment.
#[derive(Default)]
pub(super) struct Alignment {
    /// Number of messages of the transcript that the session already has.
    pub(super) there: usize,
    /// Line of a retracted message that equals the next message of the transcript.
    pub(super) said_again: Option<u64>,
    /// Lines to retract, because the transcript differs from there on.
    pub(super) retract: Option<RangeInclusive<u64>>,
    /// New system prompt.
    pub(super) system: Option<NewSystemPrompt>,
    /// Conditions under which the alignment is valid.
    pub(super) conditions: Vec<(At, Precondition)>,
}

/// System prompt that differs from that of the previous transcript.
pub(super) struct NewSystemPrompt {
    /// Content of each of its messages.
    pub(super) contents: Vec<Box<RawValue>>,
    pub(super) text: String,
    /// Lines of the session with the previous prompt.
    pub(super) before: Option<RangeInclusive<u64>>,
}

/// Results that were compared before messages of the user that precede them in the session.
struct Moved {
    /// Session and line of the first of these messages of the user, and the number of messages of the
    /// transcript before the results.
    first: (usize, u64, usize),
    /// Line of the last of the results.
    last: u64,
}

impl Moved {
    /// Returns true if the message is one of those of the user, or is among them.
    fn is_open(&self, one: &Stored) -> bool {
        one.session == self.first.0 && one.number < self.last
    }
}

impl Sessions<'_> {
    /// Aligns a transcript with a session and the sessions that it continues. With `rewind`, the messages
    /// after the last common one are to be retracted.
    ///
    /// # Errors
    /// `Conflict` for a transcript that differs; from the filesystem.
    pub(super) async fn align(
        &self,
        (session, meta): (&str, &Meta),
        given: &Given<'_>,
        rewind: bool,
    ) -> Result<Alignment> {
        let mut conditions = Vec::new();
        // The alignment is valid for these versions of both logs. They are read first, and the commit
        // requires them.
        for log in [Log::Messages, Log::Events] {
            let at = At::from(self.file(session, log.file())?);
            let etag = self.fs.stat(&at).await?.etag;
            conditions.push((at, Precondition::Etag(etag)));
        }
        let last = self.end(session, Log::Messages).await?.lines;
        let chain = self.chain(session, meta).await?;
        let known_system = self.known_system(&chain).await?;
        let mut stored = StoredReader::new(self, given.format, chain);
        let mut aligned = Alignment { conditions, ..Alignment::default() };
        let leading = given.messages.iter().take_while(|message| message.is_system).count();
        let (mut current, mut system, mut before) = (stored.next().await?, Vec::new(), None);
        if current.is_none() && known_system.is_none() {
            // The complete transcript is appended, with the system prompt first.
            aligned.said_again = self.said_again(&stored, given, &[0, leading], last).await?;
            return Ok(aligned);
        }
        while let Some(one) = current.take_if(|one| one.is_system(given.format)) {
            system.extend(one.draft.value("content").map(ToOwned::to_owned));
            // Only the last session of the chain is open: the prompts of those that were reset stay as they
            // are.
            if one.session + 1 == stored.chain.len() {
                let first = before.map_or(one.number, |lines: RangeInclusive<u64>| *lines.start());
                before = Some(first..=one.number);
            }
            current = stored.next().await?;
        }
        if leading > 0 {
            let contents = contents(given, leading)?;
            let has_file = known_system.is_some();
            let (text, known) = (text_of(&contents), known_system.unwrap_or_else(|| text_of(&system)));
            // After a change, the file has the prompt, and the messages with the earlier one are retracted.
            if text != known && !has_file && !rewind {
                self.check_system((&stored, current.as_ref()), given, leading).await?;
            }
            if text != known && Some(&text) != in_transcript(given.format, &known)?.as_ref() {
                aligned.system = Some(NewSystemPrompt { contents, text, before });
            }
        }
        aligned.there = leading;
        let moved = self.skip_equal((&mut stored, &mut current), given, &mut aligned.there).await?;
        let Some(other) = current else {
            aligned.said_again = self.said_again(&stored, given, &[aligned.there], last).await?;
            return Ok(aligned);
        };
        let Some(message) = given.messages.get(aligned.there) else {
            // The transcript is an older state of the session.
            if rewind && aligned.there == leading {
                return Err(Error::invalid(format!(
                    "the transcript has no messages of the conversation, so a rewind to it would retract all of \
                     {session}; if that is meant, retract messages:1-{last}"
                )));
            }
            if rewind {
                self.retract_from(&other, moved, (&stored, last), &mut aligned)?;
            }
            return Ok(aligned);
        };
        if rewind {
            self.retract_from(&other, moved, (&stored, last), &mut aligned)?;
            return Ok(aligned);
        }
        Err(self.difference(&stored, &other, (message.number, aligned.there == leading)).await?)
    }

    /// Passes the messages that the session and the transcript have in common, from message `there` of the
    /// transcript on. Returns the results that were compared out of order.
    async fn skip_equal(
        &self,
        (stored, current): (&mut StoredReader<'_>, &mut Option<Stored>),
        given: &Given<'_>,
        there: &mut usize,
    ) -> Result<Option<Moved>> {
        let mut moved: Option<Moved> = None;
        while let (Some(one), Some(message)) = (&*current, given.messages.get(*there)) {
            // If both messages have an original form and the forms are equal, all messages derived from them
            // are equal too.
            let equal = match (message.came, one.came) {
                (Some(this), Some((that, parts))) if this == that => Some((given.parts(*there), parts)),
                // If the forms differ but the messages derived from them are equal, the difference is in
                // fields that only the forms have. Otherwise one message in the transcript can be several in
                // the session, such as results that came one by one or with what the user said: its parts
                // are compared.
                (Some(_), Some((_, parts)))
                    if given.parts(*there) == parts
                        && (parts == 1 || self.are_said((given, *there), (&*stored, one), parts).await?) =>
                {
                    None
                }
                // A result equals only a result. Compared all the same, a long message of the user would be
                // parsed again for each result that an export has before it.
                _ if message.is_result == one.is_result()
                    && self.is_said((given, *there), (stored.name_of(one), one)).await? =>
                {
                    Some((1, 1))
                }
                _ => None,
            };
            if let Some((of_given, of_stored)) = equal {
                *there += of_given;
                for _ in 0..of_stored {
                    *current = stored.next().await?;
                }
                continue;
            }
            // An export writes the results that it moves again, without unknown blocks. Of a result that has
            // one, only the placeholder would be compared.
            if !message.is_result || !given.is_known(*there) || !stored.finds_result(one).await? {
                break;
            }
            let Some(result) = &stored.found else { break };
            if !self.is_said((given, *there), (stored.name_of(result), result)).await? {
                break;
            }
            let first = moved.take_if(|moved| moved.is_open(one));
            let first = first.map_or((one.session, one.number, *there), |moved| moved.first);
            moved = Some(Moved { first, last: result.number });
            stored.found = None;
            *there += 1;
        }
        Ok(moved)
    }

    /// Returns the error for the message `number` of a transcript, which differs from one of the session.
    async fn difference(
        &self,
        stored: &StoredReader<'_>,
        other: &Stored,
        (number, is_first): (u64, bool),
    ) -> Result<Error> {
        let (name, line) = (&stored.chain[other.session], other.number);
        // A transcript must omit retracted messages. If it contains some right before the difference, they
        // may be the cause, so the error names them.
        if line > 1 && !self.retracted(name, line - 1..=line - 1).await?.is_empty() {
            let first = self.run_start(name, line - 1, u64::MAX).await?;
            let message = format!(
                "message {} of the transcript is not what messages:{line} of {name} says; messages:{first}-{} \
                 before it are retracted: leave them out of the transcript, or rewind to store it as it is",
                number,
                line - 1
            );
            return Ok(Error::new(ErrorKind::Conflict, message));
        }
        // A rewind cannot retract messages that a reset has archived.
        let is_closed = other.session + 1 < stored.chain.len();
        let how = match is_first {
            _ if is_closed => "import it as a part, or into another session: what was reset stays as it is",
            true => "import it as a part if it begins later than the session, or rewind",
            false => {
                "import it into another session, or rewind to retract what the session has from there on"
            }
        };
        let message =
            format!("message {} of the transcript is not what messages:{line} of {name} says; {how}", number);
        Ok(Error::new(ErrorKind::Conflict, message))
    }

    /// Fails if one of the first system messages of the transcript was retracted from the beginning of the
    /// session, before the message `first`.
    async fn check_system(
        &self,
        (stored, first): (&StoredReader<'_>, Option<&Stored>),
        given: &Given<'_>,
        leading: usize,
    ) -> Result<()> {
        let name = &stored.chain[first.map_or(stored.chain.len() - 1, |first| first.session)];
        let end = first.map_or(MAX_SAID_AGAIN, |first| (first.number - 1).min(MAX_SAID_AGAIN));
        let gone = self.retracted(name, 1..=end).await?;
        if gone.is_empty() {
            return Ok(());
        }
        let mut next = Some(1);
        while let Some(from) = next.filter(|from| *from <= end) {
            let page = self.raw_lines(name, Log::Messages, from..=end, 1000).await?;
            next = page.next;
            for line in page.items {
                let number = line.number;
                if !gone.iter().any(|lines| lines.contains(&number)) {
                    continue;
                }
                let draft = Draft::parse(&line.text)?;
                let one = Stored { session: 0, number, draft, native: None, came: None };
                for at in 0..leading.min(MAX_SYSTEM) {
                    if self.is_said((given, at), (name, &one)).await? {
                        let message = format!(
                            "message {} of the transcript is messages:{number} of {name}, which is retracted: \
                             leave it out of the transcript, or rewind to store it as it is",
                            given.messages[at].number
                        );
                        return Err(Error::new(ErrorKind::Conflict, message));
                    }
                }
            }
            crate::retry::yield_now().await;
        }
        Ok(())
    }

    /// Returns the line of the first message retracted at the end of the session that equals one of
    /// `messages` of the transcript.
    async fn said_again(
        &self,
        stored: &StoredReader<'_>,
        given: &Given<'_>,
        messages: &[usize],
        last: u64,
    ) -> Result<Option<u64>> {
        let Some(name) = stored.chain.last().filter(|_| last > 0) else { return Ok(None) };
        if self.retracted(name, last..=last).await?.is_empty() {
            return Ok(None);
        }
        let first = self.run_start(name, last, u64::MAX).await?;
        let end = last.min(first.saturating_add(MAX_SAID_AGAIN - 1));
        for at in messages.iter().copied().filter(|at| *at < given.messages.len()) {
            let mut next = Some(first);
            while let Some(from) = next.filter(|from| *from <= end) {
                let page = self.raw_lines(name, Log::Messages, from..=end, 1000).await?;
                next = page.next;
                for line in page.items {
                    let (session, number) = (stored.chain.len() - 1, line.number);
                    let draft = Draft::parse(&line.text)?;
                    let one = Stored { session, number, draft, native: None, came: None };
                    if self.is_said((given, at), (name, &one)).await? {
                        return Ok(Some(number));
                    }
                }
                crate::retry::yield_now().await;
            }
        }
        Ok(None)
    }

    /// Has the lines of the session retracted from a message on. Results after it that were compared already
    /// are retracted with it, so they are imported again.
    fn retract_from(
        &self,
        other: &Stored,
        moved: Option<Moved>,
        (stored, last): (&StoredReader<'_>, u64),
        aligned: &mut Alignment,
    ) -> Result<()> {
        let mut from = other.number;
        if let Some(Moved { first: (_, number, there), .. }) = moved.filter(|moved| moved.is_open(other)) {
            (from, aligned.there) = (number, there);
        }
        if other.session + 1 == stored.chain.len() {
            aligned.retract = Some(from..=last);
            return Ok(());
        }
        let message = format!(
            "the transcript differs from messages:{from} of {}, which was reset and stays as it is; import it into \
             another session",
            stored.name_of(other)
        );
        Err(Error::new(ErrorKind::Conflict, message))
    }

    /// Returns the sessions that a session continues, oldest first, and the session itself. The chain ends at
    /// a session that this audience does not have.
    async fn chain(&self, session: &str, meta: &Meta) -> Result<Vec<String>> {
        let (mut chain, mut previous) = (vec![session.to_owned()], meta.previous.clone());
        let mut seen: BTreeSet<String> = chain.iter().cloned().collect();
        while let Some(name) = previous {
            let Some((_, meta)) = self.meta(&name).await.optional()? else { break };
            if chain.len() == MAX_CHAIN || !seen.insert(name.clone()) {
                let message = format!("{session}: goes on from more than {MAX_CHAIN} sessions");
                return Err(Error::new(ErrorKind::TooLarge, message));
            }
            let log = self.file(&name, Log::Messages.file())?;
            // Collected messages are no longer in the log, so they cannot be compared.
            if meta.other.contains_key(COLLECTED) || self.fs.lookup(&log).await?.is_none() {
                let message = format!(
                    "{session}: the messages of {name}, which it goes on from, are only in an archive; import a \
                     part"
                );
                return Err(Error::new(ErrorKind::Conflict, message));
            }
            previous = meta.previous;
            chain.push(name);
        }
        chain.reverse();
        Ok(chain)
    }

    /// Returns true if a message of the transcript equals a stored one.
    async fn is_said(
        &self,
        (given, at): (&Given<'_>, usize),
        (session, stored): (&str, &Stored),
    ) -> Result<bool> {
        let Some(message) = given.messages.get(at) else { return Ok(false) };
        if message.said == compared::as_said(&stored.draft) {
            return Ok(true);
        }
        if given.format == TranscriptFormat::Garth {
            return self.has_same_images((given, at), &stored.draft).await;
        }
        // The transcript lacks content that its format cannot represent, so the stored message is converted
        // as well.
        let as_written = |parsed: &[(u64, Message)]| {
            anew(given.format, parsed).pop().and_then(|text| in_format(given.format, &text))
        };
        let mut parsed = [(stored.number, Message::parse(&stored.draft.line())?)];
        // Transcripts exported without the bytes of media have a text in place of each image.
        let Some(there) = as_written(&parsed) else { return Ok(false) };
        if message.said == compared::as_said(&there) {
            return Ok(true);
        }
        if !self.hydrate(session, given.format, &mut parsed, &mut { MAX_BYTES }).await? {
            return self.has_same_images((given, at), &there).await;
        }
        let Some(there) = as_written(&parsed) else { return Ok(false) };
        if message.said == compared::as_said(&there) {
            return Ok(true);
        }
        self.has_same_images((given, at), &there).await
    }

    /// Returns true if messages of the transcript equal `one` of the session and those after it, `parts` in
    /// all.
    async fn are_said(
        &self,
        (given, at): (&Given<'_>, usize),
        (stored, one): (&StoredReader<'_>, &Stored),
        parts: usize,
    ) -> Result<bool> {
        // Those that were read and not returned yet.
        let rest = stored.ahead.iter().chain(&stored.found).chain(&stored.group);
        for (at, one) in (at..).zip(std::iter::once(one).chain(rest).take(parts)) {
            if !self.is_said((given, at), (stored.name_of(one), one)).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns true if a message of the transcript and another one have images, and differ at most in where
    /// the bytes of these are.
    async fn has_same_images(&self, (given, at): (&Given<'_>, usize), there: &Draft) -> Result<bool> {
        // Most messages have no image; then the message of the transcript is not parsed again.
        let Some(digest) = self.with_images(there).await? else { return Ok(false) };
        let Some(draft) = given.draft(at)? else { return Ok(false) };
        Ok(self.with_images(&draft).await? == Some(digest))
    }

    /// Returns the digest of a message in which each image is its bytes, whether they are in the message or
    /// in a media file; `None` for a message without images.
    async fn with_images(&self, draft: &Draft) -> Result<Option<Digest>> {
        let Some(content) = draft.value("content").filter(|content| content.get().contains("image")) else {
            return Ok(None);
        };
        let mut digests = BTreeMap::new();
        for path in compared::image_paths(content.get()) {
            let Ok(key) = path.parse::<MediaKey>() else { continue };
            if let Some(bytes) = self.fs.read_file(&key.path()).await.optional()? {
                digests.insert(path, Sha256::digest(&bytes).into());
            }
        }
        let of_data = |data: &str| from_base64(data).map(|bytes| Sha256::digest(bytes).into());
        Ok(compared::as_said_with_images(draft, &digests, of_data))
    }
}

/// Returns the contents of the leading messages.
fn contents(given: &Given<'_>, leading: usize) -> Result<Vec<Box<RawValue>>> {
    let mut contents = Vec::new();
    for at in 0..leading {
        let draft = given.draft(at)?;
        contents.extend(draft.as_ref().and_then(|draft| draft.value("content")).map(ToOwned::to_owned));
    }
    Ok(contents)
}
