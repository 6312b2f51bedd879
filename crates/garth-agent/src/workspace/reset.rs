//! Reset: a session is put away and another goes on in its place. One commit writes the archive, ends the
//! session, makes the next one, and moves or removes media: nothing is put away that is not archived.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::archive;
use super::extract_memories::{Asking, extract};
use super::handle::Workspace;
use super::jobs::{Held, Job};
use crate::boxed;
use crate::identity::Class;
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

/// Attempts of a reset while messages keep coming. Fewer than of other changes, because each writes the
/// archive again.
pub(super) const MAX_ATTEMPTS: usize = 10;

/// How to reset a session.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Reset<'m> {
    /// The model that says what is to be remembered, if one is set.
    #[doc(hidden)]
    pub asking: Option<Asking<'m>>,
    /// The name of the next session; one that is free if none is given.
    #[doc(hidden)]
    pub name: Option<String>,
    /// Only if the policy of `settings.json` says so.
    #[doc(hidden)]
    pub if_due: bool,
    /// Class of the next session, if its key is judged otherwise now.
    pub(super) class: Option<Class>,
}

impl<'m> Reset<'m> {
    /// With this model.
    #[must_use]
    pub fn asking(self, asking: Option<Asking<'m>>) -> Self {
        Self { asking, ..self }
    }

    /// With this name of the next session.
    #[must_use]
    pub fn name(self, name: Option<String>) -> Self {
        Self { name, ..self }
    }

    /// Only if it is due.
    #[must_use]
    pub fn if_due(self) -> Self {
        Self { if_due: true, ..self }
    }
}

/// What a reset did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WasReset {
    /// The archive; none of a session in which nothing was said.
    pub archive: Option<TreePath>,
    /// How many messages it has.
    pub messages: u64,
    /// The session that goes on.
    pub next: Listed,
    /// What is remembered.
    pub memory: Held,
    /// The commit.
    pub seq: Seq,
}

/// `None` for a session that was not due.
impl Outcome for Option<WasReset> {
    fn committed(self, commit: &Commit) -> Self {
        self.map(|reset| WasReset { seq: commit.seq, ..reset })
    }
}

/// When a session is due by a policy: at a moment, or never.
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

/// What is to be remembered.
enum Found {
    Nothing,
    Text(String),
    /// The model did not answer.
    Unanswered,
}

impl Workspace<'_> {
    /// Puts a session away, in one commit. `None` if it should be due and is not.
    ///
    /// # Errors
    /// `NotFound`; `AccessDenied` for a session of another class than the author's; `InvalidArgument` for one
    /// that is at its end; `AlreadyExists` for a name that is taken; `Conflict` if messages keep coming; if
    /// the archive cannot be written, from the filesystem: then nothing has changed.
    #[boxed]
    pub async fn reset(&self, user: &str, session: &str, reset: &Reset<'_>) -> Result<Option<WasReset>> {
        self.once.run(self.reset_as(user, session, reset, |reset| reset)).await
    }

    /// Puts a session away, and records what `outcome` makes of it.
    pub(super) async fn reset_as<T: Outcome>(
        &self,
        user: &str,
        session: &str,
        reset: &Reset<'_>,
        outcome: impl Fn(Option<WasReset>) -> T + Send + Sync,
    ) -> Result<T> {
        let since = self.fs.head().await?.seq;
        retry_at_most(MAX_ATTEMPTS, || self.reset_once((user, session), reset, since, &outcome)).await
    }

    async fn reset_once<T: Outcome>(
        &self,
        (user, session): (&str, &str),
        reset: &Reset<'_>,
        since: Seq,
        outcome: &(impl Fn(Option<WasReset>) -> T + Send + Sync),
    ) -> Result<T> {
        let (settings, sessions) = (self.settings().await?, self.sessions(self.fs, user)?);
        let zone = settings.zone()?;
        let closed = sessions.close_target(session).await?;
        let meta = &closed.listed.meta;
        self.keeper(Some(meta))?;
        let used = Timestamp::parse_rfc3339(&closed.listed.updated_at).unwrap_or_else(|_| self.env.now());
        if reset.if_due {
            let due = due_at(&settings.reset, &zone, used).is_some_and(|due| due <= self.env.now());
            if !due || closed.lines == 0 || closed.listed.state.is_final() {
                let batch = self.batch_of(meta, Vec::new(), "leave session");
                return self.once.unchanged(self.fs, batch, outcome(None)).await;
            }
        }
        refuse_ended(&closed)?;
        let (mut ops, mut conditions, mut messages) = (Vec::new(), Vec::new(), 0);
        let mut path = self.archive_file(&meta.id)?;
        // A session that was copied or restored has the id of one that was archived, whose archive stays.
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
            conditions.push((At::from(&path), Precondition::Absent));
        }
        let archive = written.as_ref().map(|_| path);
        ops.extend(self.media_ops(&sessions, &closed, written.as_ref(), &settings, since).await?);
        let found = self.found(&sessions, &closed, reset.asking).await;
        let first = sessions.archived_line(session, meta.compacted_to.unwrap_or(0) + 1).await?;
        let of = (&closed, archive.as_ref(), first);
        let memory = self.held(found, of, (&zone, used), &mut ops, &mut conditions);
        let memory = memory.await?;
        let reason = match (reset.if_due, settings.reset.policy) {
            (true, ResetPolicy::Daily) => "daily",
            (true, ResetPolicy::Idle) => "idle",
            _ => "manual",
        };
        let class = reset.class.unwrap_or(meta.class);
        let next = (reset.name.as_deref(), class);
        let closing = sessions.succession(&closed, archive.as_ref(), next, reason).await?;
        ops.extend(closing.ops);
        conditions.extend(closing.conditions);
        let batch = self.batch_of(meta, ops, "reset session");
        let batch = conditions.into_iter().fold(batch, |batch, (at, that)| batch.require(at, that));
        let done = WasReset { archive, messages, next: closing.next, memory, seq: PENDING };
        self.once.commit(self.fs, batch, outcome(Some(done))).await
    }

    /// What a model finds worth remembering of what was said since the last compaction.
    async fn found(
        &self,
        sessions: &Sessions<'_>,
        closed: &CloseTarget,
        asking: Option<Asking<'_>>,
    ) -> Found {
        let first = closed.listed.meta.compacted_to.unwrap_or(0) + 1;
        let Some(asking) = asking.filter(|_| first <= closed.lines) else { return Found::Nothing };
        match extract(sessions, &closed.listed.name, first..=closed.lines, asking).await {
            Ok(Some(text)) => Found::Text(text),
            Ok(None) => Found::Nothing,
            Err(error) => {
                tracing::warn!(session = closed.listed.name, %error, "a model is asked later what to remember");
                Found::Unanswered
            }
        }
    }

    /// What keeps it: in the memory of the day on which the session was used last, or a job.
    async fn held(
        &self,
        found: Found,
        (closed, archive, first): (&CloseTarget, Option<&TreePath>, u64),
        (zone, used): (&Zone, Timestamp),
        ops: &mut Vec<Op>,
        conditions: &mut Vec<(At, Precondition)>,
    ) -> Result<Held> {
        let (meta, day) = (&closed.listed.meta, zone.day(used));
        match (found, archive) {
            (Found::Text(text), Some(archive)) => {
                let to = (ops, conditions);
                self.remember_or_later(&text, (day, zone), (meta, archive, first), to).await
            }
            (Found::Unanswered, Some(archive)) => {
                let job = Job::new(self, meta, (archive, first), day)?;
                ops.push(job.op()?);
                Ok(Held::Later(job.id))
            }
            (Found::Nothing, _) | (_, None) => Ok(Held::Nothing),
        }
    }
}

fn refuse_ended(closed: &CloseTarget) -> Result<()> {
    let Listed { name, state, meta, .. } = &closed.listed;
    let message = match &meta.next {
        Some(next) => format!("{name}: was reset before; {next} goes on in its place"),
        None if state.is_final() => {
            format!("{name}: is {state}, which stays; only a session that goes on is reset")
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
