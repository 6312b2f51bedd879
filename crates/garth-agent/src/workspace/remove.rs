//! Removes a session: one commit archives its messages and deletes its directory, so that messages are never
//! deleted without an archive.

use serde::{Deserialize, Serialize};

use super::archive;
use super::handle::Workspace;
use super::reset::{MAX_ATTEMPTS, metadata};
use crate::boxed;
use crate::ids::uuid;
use crate::once::{Outcome, PENDING};
use crate::retry::retry_at_most;
use crate::session::CloseTarget;
use garth_engine::error::Result;
use garth_engine::fs::FileSystemExt as _;
use garth_engine::model::{At, Commit, Precondition, Seq};
use garth_engine::path::TreePath;

/// Result of the removal of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RemovedSession {
    /// Archive of its messages; `None` for a session without messages.
    pub archive: Option<TreePath>,
    /// Number of messages that this removal archived; 0 if they were archived before.
    pub messages: u64,
    /// Commit.
    pub seq: Seq,
}

impl Outcome for RemovedSession {
    fn committed(self, commit: &Commit) -> Self {
        Self { seq: commit.seq, ..self }
    }
}

impl Workspace<'_> {
    /// Removes a session, in one commit: archives its messages, unless a reset has done so; moves or removes
    /// its media as a reset does; cancels its unfinished children; and deletes its directory. Messages are
    /// append-only, so the commit overrides the rules of the account, and the log says so. The history of the
    /// tree keeps the directory.
    ///
    /// # Errors
    /// - `NotFound`: the session does not exist.
    /// - `AccessDenied`: the session is of another class than the author's.
    /// - `Conflict`: it is an unfinished child of another session, its messages are only archived in its own
    ///   directory, or messages keep coming.
    /// - Errors of the filesystem, if the archive cannot be written. Nothing has changed.
    #[boxed]
    pub async fn remove_session(&self, user: &str, session: &str) -> Result<RemovedSession> {
        let since = self.fs.head().await?.seq;
        self.once.run(retry_at_most(MAX_ATTEMPTS, || self.remove_once(user, session, since))).await
    }

    async fn remove_once(&self, user: &str, session: &str, since: Seq) -> Result<RemovedSession> {
        let (settings, sessions) = (self.settings().await?, self.sessions(self.fs, user)?);
        let target = sessions.close_target(session).await?;
        let meta = &target.listed.meta;
        // Fails for a session that the author must not see.
        self.keeper(Some(meta))?;
        let (mut ops, mut conditions) = sessions.removal(&target).await?;
        let (mut archive, mut messages) = (self.earlier_archive(&target).await?, 0);
        let mut written = None;
        if archive.is_none() && target.lines > 0 {
            let mut path = self.archive_file(&meta.id)?;
            // A copied or restored session has the id of an archived one, whose archive must stay.
            if self.fs.lookup(&path).await?.is_some() {
                path = self.archive_file(&uuid(&self.env)?)?;
            }
            let staged = archive::write(&sessions, session, 1..=target.lines, self.fs, &path).await?;
            messages = staged.messages;
            ops.insert(0, staged.op(&path, metadata(&target, messages, self.env.now())));
            // Another process may be archiving the same session.
            conditions.push((At::from(&path), Precondition::Absent));
            (archive, written) = (Some(path), Some(staged));
        }
        let media = self.media_ops(&sessions, &target, written.as_ref(), &settings, since).await?;
        ops.splice(0..0, media);
        let batch = self.batch_of(meta, ops, "remove session").overriding_rules();
        let batch = conditions.into_iter().fold(batch, |batch, (at, that)| batch.require(at, that));
        self.once.commit(self.fs, batch, RemovedSession { archive, messages, seq: PENDING }).await
    }

    /// Returns the archive that a reset of the session wrote, if it still exists.
    async fn earlier_archive(&self, target: &CloseTarget) -> Result<Option<TreePath>> {
        let Some(path) = &target.listed.meta.archive else { return Ok(None) };
        let path = TreePath::parse(path)?;
        Ok(self.fs.lookup(&path).await?.map(|_| path))
    }
}
