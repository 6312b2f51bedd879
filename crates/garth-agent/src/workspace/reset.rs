//! Reset: closes a session and starts another one in its place. One commit writes the archive, ends the
//! session, creates the next one, and moves or removes media, so that a session is never closed without an
//! archive.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::archive;
use super::extract_memories::{Asking, extract};
use super::handle::Workspace;
use super::jobs::{Extraction, Job};
use crate::boxed;
use crate::identity::{Class, StoredClass};
use crate::ids::uuid;
use crate::once::{Outcome, PENDING};
use crate::retry::retry_at_most;
use crate::session::{CloseTarget, Listed, Sessions};
use crate::settings::{ResetPolicy, ResetSettings};
use crate::time_zone::Zone;
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::fs::FileSystemExt as _;
use garth_engine::model::{At, Commit, Op, Precondition, Seq, Timestamp};
use garth_engine::path::TreePath;

/// Limit on the attempts of a reset while messages keep coming. Lower than for other changes, because each
/// attempt writes the archive again.
pub(super) const MAX_ATTEMPTS: usize = 10;

/// Options of a reset.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Reset<'m> {
    /// Model that extracts memories, if one is configured.
    #[doc(hidden)]
    pub asking: Option<Asking<'m>>,
    /// Name of the next session; `None` for a free one.
    #[doc(hidden)]
    pub name: Option<String>,
    /// True to reset only if the policy of `settings.json` says so.
    #[doc(hidden)]
    pub if_due: bool,
    /// Class of the next session, if the key leads to another one now.
    pub(super) class: Option<Class>,
}

impl<'m> Reset<'m> {
    /// Sets the model.
    #[must_use]
    pub fn asking(self, asking: Option<Asking<'m>>) -> Self {
        Self { asking, ..self }
    }

    /// Sets the name of the next session.
    #[must_use]
    pub fn name(self, name: Option<String>) -> Self {
        Self { name, ..self }
    }

    /// Resets only if it is due.
    #[must_use]
    pub fn if_due(self) -> Self {
        Self { if_due: true, ..self }
    }
}

/// Result of a reset.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ResetOutcome {
    /// Archive; `None` for a session without messages.
    pub archive: Option<TreePath>,
    /// Number of messages in the archive.
    pub messages: u64,
    /// Next session.
    pub next: Listed,
    /// Extracted memories.
    pub memory: Extraction,
    /// Commit.
    pub seq: Seq,
}

/// Outcome of a reset; `None` for a session that was not due.
impl Outcome for Option<ResetOutcome> {
    fn committed(self, commit: &Commit) -> Self {
        self.map(|reset| ResetOutcome { seq: commit.seq, ..reset })
    }
}

/// Returns when a session is due by a policy; `None` for never.
pub(super) fn due_at(settings: &ResetSettings, zone: &Zone, used: Timestamp) -> Option<Timestamp> {
    match settings.policy {
        ResetPolicy::Manual => None,
        ResetPolicy::Daily => Some(zone.next_hour(used, settings.hour)),
        ResetPolicy::Idle => {
            let seconds = i64::try_from(settings.minutes).unwrap_or(i64::MAX).saturating_mul(60);
            Some(used.plus_seconds(seconds))
        }
    }
}

/// Memories extracted by a model.
enum Found {
    Nothing,
    Text(String),
    /// The model did not answer.
    Unanswered,
}

impl Workspace<'_> {
    /// Resets a session, in one commit. Returns `None` if only a due session is to be reset, and this one is
    /// not due.
    ///
    /// # Errors
    /// - `NotFound`: the session does not exist.
    /// - `AccessDenied`: the session is of another class than the author's.
    /// - `Conflict`: the session has ended, or messages keep coming.
    /// - `AlreadyExists`: the name of the next session is taken.
    /// - Errors of the filesystem, if the archive cannot be written. Nothing has changed.
    #[boxed]
    pub async fn reset(&self, user: &str, session: &str, reset: &Reset<'_>) -> Result<Option<ResetOutcome>> {
        self.once.run(self.reset_as(user, session, reset, |reset| reset)).await
    }

    /// Resets a session, and records the value that `outcome` returns.
    pub(super) async fn reset_as<T: Outcome>(
        &self,
        user: &str,
        session: &str,
        reset: &Reset<'_>,
        outcome: impl Fn(Option<ResetOutcome>) -> T + Send + Sync,
    ) -> Result<T> {
        // Before all attempts: media that are uploaded from now on may belong to a message that is still to
        // be appended.
        let since = self.fs.head().await?.seq;
        retry_at_most(MAX_ATTEMPTS, || self.reset_once((user, session), reset, since, &outcome)).await
    }

    async fn reset_once<T: Outcome>(
        &self,
        (user, session): (&str, &str),
        reset: &Reset<'_>,
        since: Seq,
        outcome: &(impl Fn(Option<ResetOutcome>) -> T + Send + Sync),
    ) -> Result<T> {
        let (settings, sessions) = (self.settings().await?, self.sessions(self.fs, user)?);
        let zone = settings.zone()?;
        let closed = sessions.close_target(session).await?;
        let meta = &closed.listed.meta;
        // Fails for a session that the author must not see.
        self.keeper(Some(meta))?;
        let used = Timestamp::parse_rfc3339(&closed.listed.updated_at).unwrap_or_else(|_| self.env.now());
        if reset.if_due {
            let due = due_at(&settings.reset, &zone, used).is_some_and(|due| due <= self.env.now());
            // Without messages there is nothing to archive, so an unused session stays current.
            if !due || closed.lines == 0 || closed.listed.state.is_final() {
                let batch = self.batch_of(meta, Vec::new(), "leave session");
                return self.once.unchanged(self.fs, batch, outcome(None)).await;
            }
        }
        refuse_ended(&closed)?;
        let (mut ops, mut conditions, mut messages) = (Vec::new(), Vec::new(), 0);
        let mut path = self.archive_file(&meta.id)?;
        // A copied or restored session has the id of an archived one, whose archive must stay.
        if self.fs.lookup(&path).await?.is_some() {
            path = self.archive_file(&uuid(&self.env)?)?;
        }
        let written = match closed.lines {
            0 => None,
            last => Some(archive::write(&sessions, session, 1..=last, self.fs, &path).await?),
        };
        if let Some(written) = &written {
            messages = written.messages;
            ops.push(written.op(&path, metadata(&closed, messages, self.env.now())));
            // The lookup above may be outdated when the batch is committed.
            conditions.push((At::from(&path), Precondition::Absent));
        }
        let archive = written.as_ref().map(|_| path);
        ops.extend(self.media_ops(&sessions, &closed, written.as_ref(), &settings, since).await?);
        // An error of the model does not stop the reset: a job asks again later.
        let found = self.found(&sessions, &closed, reset.asking).await;
        // A line of the archive, which has no retracted messages: the job reads that, not the session.
        let first = sessions.archived_line(session, meta.compacted_to.unwrap_or(0) + 1).await?;
        let of = (&closed, archive.as_ref(), first);
        let memory = self.held(found, of, (&zone, used), &mut ops, &mut conditions);
        let memory = memory.await?;
        let reason = match (reset.if_due, settings.reset.policy) {
            (true, ResetPolicy::Daily) => "daily",
            (true, ResetPolicy::Idle) => "idle",
            _ => "manual",
        };
        let class = reset.class.map_or_else(|| meta.class.clone(), StoredClass::from);
        let next = (reset.name.as_deref(), class);
        let closing = sessions.succession(&closed, archive.as_ref(), next, reason).await?;
        ops.extend(closing.ops);
        conditions.extend(closing.conditions);
        let batch = self.batch_of(meta, ops, "reset session");
        let batch = conditions.into_iter().fold(batch, |batch, (at, that)| batch.require(at, that));
        let done = ResetOutcome { archive, messages, next: closing.next, memory, seq: PENDING };
        self.once.commit(self.fs, batch, outcome(Some(done))).await
    }

    /// Extracts memories from the messages since the last compaction.
    async fn found(
        &self,
        sessions: &Sessions<'_>,
        closed: &CloseTarget,
        asking: Option<Asking<'_>>,
    ) -> Found {
        let meta = &closed.listed.meta;
        let first = meta.compacted_to.unwrap_or(0) + 1;
        // Without a known class, nobody knows whose memory may have the text.
        let is_due = first <= closed.lines && meta.class.known().is_some();
        let Some(asking) = asking.filter(|_| is_due) else { return Found::Nothing };
        match extract(sessions, &closed.listed.name, first..=closed.lines, asking).await {
            Ok(Some(text)) => Found::Text(text),
            Ok(None) => Found::Nothing,
            Err(error) => {
                tracing::warn!(session = closed.listed.name, %error, "a job will ask the model again");
                Found::Unanswered
            }
        }
    }

    /// Adds the operations that store extracted memories: in the day on which the session was last used, or
    /// in a job.
    async fn held(
        &self,
        found: Found,
        (closed, archive, first): (&CloseTarget, Option<&TreePath>, u64),
        (zone, used): (&Zone, Timestamp),
        ops: &mut Vec<Op>,
        conditions: &mut Vec<(At, Precondition)>,
    ) -> Result<Extraction> {
        let (meta, day) = (&closed.listed.meta, zone.day(used));
        match (found, archive) {
            (Found::Text(text), Some(archive)) => {
                let to = (ops, conditions);
                self.remember_or_later(&text, (day, zone), (meta, archive, first), to).await
            }
            (Found::Unanswered, Some(archive)) => {
                let job = Job::new(self, meta, (archive, first), day)?;
                ops.push(job.op()?);
                Ok(Extraction::Later(job.id))
            }
            (Found::Nothing, _) | (_, None) => Ok(Extraction::Nothing),
        }
    }
}

fn refuse_ended(closed: &CloseTarget) -> Result<()> {
    let Listed { name, state, meta, .. } = &closed.listed;
    let message = match &meta.next {
        Some(next) => format!("{name}: was reset before; its successor is {next}"),
        None if state.is_final() => {
            format!("{name}: is {state}; only an open session can be reset")
        }
        None => return Ok(()),
    };
    Err(Error::new(ErrorKind::Conflict, message))
}

/// Returns the metadata of the archive of a session.
pub(super) fn metadata(
    closed: &CloseTarget,
    messages: u64,
    now: Timestamp,
) -> BTreeMap<&'static str, String> {
    let meta = &closed.listed.meta;
    let mut metadata = archive::metadata(meta, messages, now);
    let usage = meta.usage;
    for (name, tokens) in [
        ("inputTokens", usage.input_tokens),
        ("outputTokens", usage.output_tokens),
        ("totalTokens", usage.total_tokens),
    ] {
        metadata.insert(name, tokens.to_string());
    }
    metadata
}
