//! Compaction: when a prompt comes near the end of a model's window, older messages leave the packs of their
//! session. Their summary is updated, and a part archive stores them word for word, both in one commit. The
//! history of the session does not change.

use std::ops::RangeInclusive;

use super::extract_memories::{Asking, extract};
use super::handle::Workspace;
use super::jobs::Extraction;
use super::{archive, prompt};
use crate::boxed;
use crate::retry::retry;
use crate::session::{Compact, Listed, Meta, Sessions};
use crate::settings::Settings;
use garth_engine::error::Result;
use garth_engine::model::Seq;
use garth_engine::path::TreePath;

/// Options of a compaction.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Trim<'m> {
    /// Model that writes the summary and extracts memories, if one is configured.
    pub asking: Option<Asking<'m>>,
    /// True to compact only if the last prompt came near the end of the model's window.
    pub if_due: bool,
}

impl<'m> Trim<'m> {
    /// Compacts only if it is due.
    #[must_use]
    pub fn if_due(self) -> Self {
        Self { if_due: true, ..self }
    }

    /// Sets the model.
    #[must_use]
    pub fn asking(self, asking: Option<Asking<'m>>) -> Self {
        Self { asking, ..self }
    }
}

/// Result of a compaction.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Trimmed {
    /// First and last message that left the packs.
    pub lines: (u64, u64),
    /// Part archive with these messages.
    pub part: TreePath,
    /// Number of messages in the archive.
    pub messages: u64,
    /// True if a model wrote the summary.
    pub by_model: bool,
    /// File of daily memory to which a section was added.
    pub memory: Option<TreePath>,
    /// Job that adds memories later, because no file of the day had room.
    pub job: Option<String>,
    /// Commit.
    pub seq: Seq,
    /// True if more is to be compacted.
    pub more: bool,
}

/// Returns true if the last prompt of a session left fewer tokens of its window than are reserved.
pub(super) fn is_due(meta: &Meta, settings: &Settings) -> bool {
    let Some((tokens, window)) = meta.last_input_tokens.zip(meta.context_window) else { return false };
    tokens > window.saturating_sub(settings.compaction.reserve)
}

impl Workspace<'_> {
    /// Moves older messages of a session out of its packs, as many as one step allows. Steps with tools stay
    /// together, and the last turn stays. Returns `None` if there is nothing to do.
    ///
    /// # Errors
    /// - `NotFound`: the session does not exist.
    /// - `AccessDenied`: the session is of another class than the author's.
    /// - `InvalidArgument`, `Unavailable`: the model's answer is invalid or missing. Nothing has changed.
    /// - Errors of the filesystem.
    #[boxed]
    pub async fn compact(&self, user: &str, session: &str, trim: &Trim<'_>) -> Result<Option<Trimmed>> {
        retry(|| self.compact_once(user, session, trim)).await
    }

    async fn compact_once(&self, user: &str, session: &str, trim: &Trim<'_>) -> Result<Option<Trimmed>> {
        let (sessions, settings) = (self.sessions(self.fs, user)?, self.settings().await?);
        let (file, Listed { mut meta, .. }) = sessions.with_meta(session).await?;
        // Fails for a session that the author must not see.
        self.keeper(Some(&meta))?;
        if trim.if_due && !is_due(&meta, &settings) {
            return Ok(None);
        }
        let end = sessions.before_tail(session, settings.compaction.keep).await?;
        let first = meta.compacted_to.unwrap_or(0) + 1;
        let how = Compact { model: trim.asking.map(|asking| asking.model), ..Compact::default() };
        let how = Compact { allowance: trim.asking.and_then(|asking| asking.allowance), ..how };
        let made = sessions.compaction(session, &how, end).await?;
        let end = match &made {
            Some(made) if *made.lines.end() < first => {
                // The summary was replaced by an older one. It is brought up to this point first.
                sessions.derive(session, &made.derive).await?;
                return Box::pin(self.compact_once(user, session, trim)).await;
            }
            Some(made) => *made.lines.end(),
            None => end,
        };
        // The summary may cover more than the messages that left the packs.
        let last = if first > end { end } else { sessions.last_complete_step(session, first..=end).await? };
        if first > last {
            return Ok(None);
        }
        // Without a known class, nobody knows whose memory may have the text.
        let asking = trim.asking.filter(|_| meta.class.known().is_some());
        let memory = self.memory_of(&sessions, session, first..=last, asking).await?;
        // Parts sort by their number. It is a time, but always greater than the last one, even if the clock
        // went back.
        let now = u64::try_from(self.env.now().0 / 1_000_000).unwrap_or(0);
        let number = meta.last_part.map_or(now, |before| now.max(before + 1));
        let part = self.file(&format!("sessions/{}-part{number}{}", meta.id, archive::ENDING))?;
        let written = archive::write(&sessions, session, first..=last, self.fs, &part).await?;
        let mut metadata = archive::metadata(&meta, written.messages, self.env.now());
        metadata.insert("partNumber", number.to_string());
        (meta.compacted_to, meta.last_part) = (Some(last), Some(number));
        // The count is that of a prompt with the old messages. Kept, it would make the next compaction due at
        // once.
        meta.last_input_tokens = None;
        // A pinned prompt may change at a compaction.
        meta.other.remove(prompt::PINNED_SINCE);
        let of = meta.clone();
        let trimming =
            sessions.trim_plan(session, (&file, meta), made.as_ref(), (&(first..=last), &part)).await?;
        let (mut ops, mut conditions) = (trimming.ops, trimming.conditions);
        ops.push(written.op(&part, metadata));
        let held = match memory {
            Some(text) => {
                let zone = settings.zone()?;
                let day = (zone.day(self.env.now()), &zone);
                let to = (&mut ops, &mut conditions);
                // A later job would read the part, from its first line on.
                self.remember_or_later(&text, day, (&of, &part, 1), to).await?
            }
            None => Extraction::Nothing,
        };
        let (memory, job) = match held {
            Extraction::Added(path) => (Some(path), None),
            Extraction::Later(job) => (None, Some(job)),
            Extraction::Nothing => (None, None),
        };
        let batch = self.batch_of(&of, ops, "compact session");
        let batch = conditions.into_iter().fold(batch, |batch, (at, that)| batch.require(at, that));
        let seq = self.fs.commit(batch).await?.seq;
        let (by_model, more) = made.as_ref().map_or((false, false), |made| (made.by_model, made.more));
        let messages = written.messages;
        Ok(Some(Trimmed { lines: (first, last), part, messages, by_model, memory, job, seq, more }))
    }

    async fn memory_of(
        &self,
        sessions: &Sessions<'_>,
        session: &str,
        lines: RangeInclusive<u64>,
        asking: Option<Asking<'_>>,
    ) -> Result<Option<String>> {
        match asking {
            Some(asking) => extract(sessions, session, lines, asking).await,
            None => Ok(None),
        }
    }
}
