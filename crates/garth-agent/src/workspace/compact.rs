//! Compaction: once a prompt comes near the end of a model's window, older messages leave the packs of their
//! session. What they said is in the summary and, word for word, in a part archive, both in one commit; the
//! history of the session stays as it is.

use std::ops::RangeInclusive;

use super::extract_memories::{Asking, extract};
use super::handle::Workspace;
use super::jobs::Held;
use super::{archive, prompt};
use crate::boxed;
use crate::retry::retry;
use crate::session::{Compact, Listed, Meta, Sessions};
use crate::settings::Settings;
use garth_engine::error::Result;
use garth_engine::model::Seq;
use garth_engine::path::TreePath;

/// How to compact a session.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Trim<'m> {
    /// The model that writes the summary and says what is to be remembered, if one is set.
    pub asking: Option<Asking<'m>>,
    /// Only if the last prompt came near the end of the model's window.
    pub if_due: bool,
}

impl<'m> Trim<'m> {
    /// Only if it is due.
    #[must_use]
    pub fn if_due(self) -> Self {
        Self { if_due: true, ..self }
    }

    /// With this model.
    #[must_use]
    pub fn asking(self, asking: Option<Asking<'m>>) -> Self {
        Self { asking, ..self }
    }
}

/// What a compaction did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Trimmed {
    /// The first and last message that left the packs.
    pub lines: (u64, u64),
    /// The part archive that has them.
    pub part: TreePath,
    /// How many messages it has.
    pub messages: u64,
    /// Whether a model wrote the summary.
    pub by_model: bool,
    /// The daily memory to which something was added.
    pub memory: Option<TreePath>,
    /// The job that adds something to it later, because no file of the day took it.
    pub job: Option<String>,
    /// The commit.
    pub seq: Seq,
    /// Whether there is more to compact.
    pub more: bool,
}

/// Whether the last prompt of a session left less of its window than is reserved.
pub(super) fn is_due(meta: &Meta, settings: &Settings) -> bool {
    let Some((tokens, window)) = meta.last_input_tokens.zip(meta.context_window) else { return false };
    tokens > window.saturating_sub(settings.compaction.reserve)
}

impl Workspace<'_> {
    /// Takes older messages of a session out of its packs, as many as one step takes: whole steps with tools
    /// together, and the last turn stays. `None` if there is nothing to do.
    ///
    /// # Errors
    /// `NotFound`; `AccessDenied` for a session of another class than the author's; `InvalidArgument`,
    /// `Unavailable` for what the model answers: then nothing has changed; from the filesystem.
    #[boxed]
    pub async fn compact(&self, user: &str, session: &str, trim: &Trim<'_>) -> Result<Option<Trimmed>> {
        retry(|| self.compact_once(user, session, trim)).await
    }

    async fn compact_once(&self, user: &str, session: &str, trim: &Trim<'_>) -> Result<Option<Trimmed>> {
        let (sessions, settings) = (self.sessions(self.fs, user)?, self.settings().await?);
        let (file, Listed { mut meta, .. }) = sessions.with_meta(session).await?;
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
                // somebody wrote the summary anew: it is brought up to here first
                sessions.derive(session, &made.derive).await?;
                return Box::pin(self.compact_once(user, session, trim)).await;
            }
            Some(made) => *made.lines.end(),
            None => end,
        };
        // the summary may be further than what left the packs
        let last = if first > end { end } else { sessions.last_complete_step(session, first..=end).await? };
        if first > last {
            return Ok(None);
        }
        let memory = self.memory_of(&sessions, session, first..=last, trim.asking).await?;
        let now = u64::try_from(self.env.now().0 / 1_000_000).unwrap_or(0);
        let number = meta.last_part.map_or(now, |before| now.max(before + 1));
        let part = self.file(&format!("sessions/{}-part{number}{}", meta.id, archive::ENDING))?;
        let written = archive::write(&sessions, session, first..=last, self.fs, &part).await?;
        let mut metadata = archive::metadata(&meta, written.messages, self.env.now());
        metadata.insert("partNumber", number.to_string());
        (meta.compacted_to, meta.last_part) = (Some(last), Some(number));
        meta.last_input_tokens = None;
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
                self.remember_or_later(&text, day, (&of, &part, 1), to).await?
            }
            None => Held::Nothing,
        };
        let (memory, job) = match held {
            Held::Added(path) => (Some(path), None),
            Held::Later(job) => (None, Some(job)),
            Held::Nothing => (None, None),
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
