//! Import and export of transcripts: conversations in the formats of other tools. An imported message is
//! stored as it came, beside the messages derived from it. `docs/specs/transcripts.md` has the formats.

mod anthropic;
mod archive;
mod blocks;
mod export;
mod format;
mod ids;
mod markdown;
mod openai;
mod pi;
mod read;
mod split;

use std::ops::RangeInclusive;

use serde_json::value::RawValue;

pub(crate) use self::archive::{archived_in, archived_lines, archived_messages, archived_said};
pub use self::export::{Document, Export, Exported};
pub use self::format::TranscriptFormat;
use self::ids::{Ids, message_id};
use self::read::read;
use self::split::{RawMessage, split};
use super::handle::{Sessions, missing};
use super::log::append::{Append, MAX_APPENDED};
use super::log::draft::{Draft, compact};
use super::log::native::Natives;
use super::store::files::Log;
use crate::boxed;
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::model::Seq;

/// Bytes of lines at which a commit is full, 4 MiB.
const MAX_COMMIT: usize = 4 << 20;

/// Result of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Imported {
    /// Messages that the transcript contains.
    pub messages: u64,
    /// Number of these that were new.
    pub new: u64,
    /// Line numbers of the new ones.
    pub lines: Option<RangeInclusive<u64>>,
    /// The last commit; `None` if nothing was new.
    pub seq: Option<Seq>,
}

/// Messages that stand for one message of the transcript.
struct Unit {
    drafts: Vec<Draft>,
    native: Option<Box<RawValue>>,
    bytes: usize,
}

impl Sessions<'_> {
    /// Appends a transcript to a session, up to 1,000 messages a commit. All of it is checked before any is
    /// written. Existing messages are skipped, so that an import can be repeated.
    ///
    /// # Errors
    /// `InvalidArgument` for a text in another format; `Conflict` for an id that exists with other content;
    /// `NotFound`; `TooLarge`; from the filesystem.
    #[boxed]
    pub async fn import(&self, session: &str, format: TranscriptFormat, text: &str) -> Result<Imported> {
        let given = split(format, text)?;
        let mut ids = Ids::default();
        for (number, one) in (1_u64..).zip(&given) {
            unit(format, one, &mut ids).map_err(|error| of_message(number, &error))?;
            if number % 256 == 0 {
                crate::retry::yield_now().await;
            }
        }
        if !self.once.is_repeat() && !self.is_session(session).await? {
            return Err(missing(session));
        }
        let (mut done, mut ids) = (Imported::default(), Ids::default());
        let (mut waiting, mut slices) = (Append::default(), 0);
        let mut bytes = 0;
        for (number, one) in (1_u64..).zip(&given) {
            let unit = unit(format, one, &mut ids).map_err(|error| of_message(number, &error))?;
            let is_full =
                waiting.messages.len() + unit.drafts.len() > MAX_APPENDED || bytes + unit.bytes > MAX_COMMIT;
            if is_full && !waiting.messages.is_empty() {
                self.import_some(session, (slices, std::mem::take(&mut waiting)), &mut done).await?;
                (bytes, slices) = (0, slices + 1);
            }
            bytes += unit.bytes;
            if let Some(line) = unit.native {
                let natives = waiting
                    .native
                    .get_or_insert_with(|| Natives { format: format.to_string(), ..Natives::default() });
                let at = natives.lines.len();
                natives.lines.push(line);
                natives.of.extend(unit.drafts.iter().filter_map(|draft| Some((draft.text("id")?, at))));
            }
            waiting.messages.extend(unit.drafts);
        }
        // An empty transcript is an append of nothing.
        if !waiting.messages.is_empty() || slices == 0 {
            self.import_some(session, (slices, waiting), &mut done).await?;
        }
        Ok(done)
    }

    /// Appends a slice of a transcript. Each slice is a step of the request: one that an earlier try has
    /// committed is not appended again.
    async fn import_some(
        &self,
        session: &str,
        (slice, append): (usize, Append),
        done: &mut Imported,
    ) -> Result<()> {
        let once =
            if slice == 0 { self.once.clone() } else { self.once.step(format!("slice-{slice}")).await? };
        let appended = self.clone().once(once).append(session, &append).await;
        let appended = appended.map_err(|error| match done.new {
            0 => error,
            new => {
                let message =
                    format!("{}; {new} messages before are stored, and a repeat goes on", error.message());
                Error::new(error.kind(), message)
            }
        })?;
        done.messages += append.messages.len() as u64;
        if let Some(lines) = appended.lines {
            done.new += lines.end() - lines.start() + 1;
            let first = done.lines.as_ref().map_or(*lines.start(), |done| *done.start());
            done.lines = Some(first..=*lines.end());
        }
        done.seq = appended.seq.or(done.seq);
        Ok(())
    }

    async fn is_session(&self, session: &str) -> Result<bool> {
        match self.meta(session).await {
            Ok(_) => Ok(true),
            Err(error) if error.is(ErrorKind::NotFound) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn of_message(number: u64, error: &Error) -> Error {
    Error::invalid(format!("message {number}: {error}"))
}

/// Parses one message of a transcript.
fn unit(format: TranscriptFormat, given: &RawMessage<'_>, ids: &mut Ids) -> Result<Unit> {
    let (said, native, text) = match given {
        RawMessage::Native(raw) if format == TranscriptFormat::Garth => {
            // what it was made of stays in the session that it is from
            let draft = Draft::parse(raw.get())?.without("native");
            let line = draft.line();
            let draft = if draft.has("id") { draft } else { draft.with("id", &ids.of(format, &line, 0)) };
            check(&draft)?;
            return Ok(Unit { bytes: line.len(), drafts: vec![draft], native: None });
        }
        RawMessage::Native(raw) => {
            let native = compact(raw);
            let text = native.get().to_owned();
            (read(format, raw)?, Some(native), text)
        }
        RawMessage::Section(section) => (vec![section.said.clone()], None, section.key()),
    };
    let ordinal = ids.next(format, &text);
    let (mut drafts, alone) = (Vec::new(), said.len() == 1);
    for (part, said) in said.into_iter().enumerate() {
        let id = said.id.clone().filter(|id| alone && is_id(id));
        let id = id.unwrap_or_else(|| message_id(format, &text, ordinal, part));
        let draft = said.draft().with("id", &id);
        check(&draft)?;
        drafts.push(draft);
    }
    let native = native.filter(|_| !drafts.is_empty());
    let bytes = text.len() + drafts.iter().map(|draft| draft.line().len()).sum::<usize>();
    Ok(Unit { drafts, native, bytes })
}

/// Checks a message against its schema. Its time can still be missing.
fn check(draft: &Draft) -> Result<()> {
    let whole =
        if draft.has("created_at") { draft.clone() } else { draft.clone().with("created_at", SOME_TIME) };
    whole.check(Log::Messages)
}

const SOME_TIME: &str = "2026-01-01T00:00:00Z";

fn is_id(id: &str) -> bool {
    let rest = id.strip_prefix("msg-").unwrap_or_default();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=124).contains(&rest.len()) && rest.bytes().all(plain)
}
