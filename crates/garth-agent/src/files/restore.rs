//! Restore of a path to an earlier state, as a request that may be sent again. One commit restores the state.
//! If other clients commit meanwhile, further ones follow, each recorded as a step of the request.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::handle::Files;
use crate::boxed;
use crate::once::{Once, Outcome};
use garth_engine::error::{Error, ErrorKind, OptionalExt as _, Result};
use garth_engine::fs::FileSystem;
use garth_engine::fs::resolve::{self, Follow};
use garth_engine::fs::restore::{self, Restoration, RestorePlan};
use garth_engine::model::{
    At, Batch, Commit, MAX_PAGE, Moment, Precondition, Seq, Timestamp, VersionId, WalkPage,
};
use garth_engine::path::TreePath;

/// Limit on the names below a path that [`Files::restore`] compares, in each of the two states: names that
/// differ are held in memory.
pub const MAX_RESTORED: usize = 20_000;

/// Limit on the changes that a [`RestoreReport`] lists.
const MAX_LISTED: usize = 100;
/// Attempts of one step that other writers overtake.
const ATTEMPTS: usize = 8;
/// Limit on the steps of one restore.
const STEPS: usize = 8;

/// Restore of a path to an earlier state.
///
/// ```
/// use garth_agent::files::FileRestore;
/// use garth_engine::model::Seq;
///
/// let restore = FileRestore::to(Seq(7));
/// # let _ = restore;
/// ```
#[derive(Clone, Debug)]
pub struct FileRestore {
    /// State to restore; `None` for a repeat, whose record has it.
    moment: Option<Moment>,
    version: Option<VersionId>,
}

impl FileRestore {
    /// Returns the restore of the state at a moment. A time means the state after the last commit that is not
    /// later.
    pub fn to(moment: impl Into<Moment>) -> Self {
        Self { moment: Some(moment.into()), version: None }
    }

    /// Returns the restore of a request that has committed before: its record has the state, whose name may
    /// be gone by now.
    #[doc(hidden)]
    pub fn repeat() -> Self {
        Self { moment: None, version: None }
    }

    /// Makes the restore fail with `Conflict` unless this is the current version of the path.
    #[must_use]
    pub fn if_version(self, version: impl Into<Option<VersionId>>) -> Self {
        Self { version: version.into(), ..self }
    }
}

/// Effect of a restore.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct RestoreReport {
    /// Path, without links on the way.
    pub path: TreePath,
    /// Commit whose state was restored.
    pub at: Seq,
    /// Version of the path after the restore; `None` if history no longer has it.
    pub version: Option<VersionId>,
    /// True if the path did not exist before.
    pub created: bool,
    /// Last commit of the restore; `None` if nothing differed.
    pub seq: Option<Seq>,
    /// Time of that commit.
    pub time: Option<Timestamp>,
    /// Number of names that came back, or whose nodes changed.
    pub restored: u64,
    /// Number of names that were removed.
    pub removed: u64,
    /// Number of names that stayed as they were.
    pub unchanged: u64,
    /// Number of names whose files were left as they are, or missing, because the content that they had is no
    /// longer stored.
    #[serde(default)]
    pub gone: u64,
    /// First 20 of these names.
    #[serde(default)]
    pub gone_paths: Vec<TreePath>,
    /// First 100 changes. A record for repeats has the numbers alone, so the report of a repeat has none.
    #[serde(skip)]
    pub changes: Vec<Restoration>,
}

impl RestoreReport {
    fn of(path: &TreePath, version: Option<VersionId>, plan: &RestorePlan) -> Self {
        Self {
            path: path.clone(),
            at: plan.at,
            version,
            created: plan.created,
            seq: None,
            time: None,
            restored: plan.restored,
            removed: plan.removed,
            unchanged: plan.unchanged,
            gone: plan.gone,
            gone_paths: plan.gone_paths.clone(),
            changes: plan.changes.iter().take(MAX_LISTED).cloned().collect(),
        }
    }

    /// Returns the effect of this restore and a further step.
    fn and(self, next: &Self) -> Self {
        let changes = self.changes.iter().chain(&next.changes).take(MAX_LISTED).cloned().collect();
        Self {
            changes,
            version: next.version,
            seq: next.seq.or(self.seq),
            time: next.time.or(self.time),
            restored: self.restored + next.restored,
            removed: self.removed + next.removed,
            unchanged: next.unchanged,
            gone: next.gone,
            gone_paths: next.gone_paths.clone(),
            ..self
        }
    }
}

/// One commit of a restore.
#[derive(Debug, Serialize, Deserialize)]
struct Step {
    report: RestoreReport,
    /// Last commit before the tree was read.
    head: Seq,
    changes: bool,
    /// True if no other client has committed since the tree was read, so that nothing else can differ.
    is_last: bool,
}

impl Outcome for Step {
    fn committed(mut self, commit: &Commit) -> Self {
        if self.changes {
            (self.report.seq, self.report.time) = (Some(commit.seq), Some(commit.time));
            self.is_last = commit.seq.0 == self.head.0 + 1;
        }
        self
    }
}

/// Plan of a restore, and the state for which it was made.
struct Planned {
    plan: RestorePlan,
    /// Last commit before the tree was read.
    head: Seq,
    /// Current version of the path.
    version: Option<VersionId>,
}

impl Files<'_> {
    /// Makes a path equal to its state at an earlier moment, as
    /// [`restore`](garth_engine::fs::restore::restore) does. If nothing differs there is no commit. Links
    /// above the path are resolved in that state; a link at its end is restored itself.
    ///
    /// Commits of other clients below the path, made after it was read, are reverted by further commits. The
    /// restore has succeeded with its first commit, so a failure of a further one is no error.
    ///
    /// # Errors
    /// - `NotFound`: the path did not exist at that time.
    /// - `Gone`: the path is a file whose content is no longer stored.
    /// - `Conflict`: the path has another version than the required one, or changes before each attempt.
    /// - `TooLarge`: more than [`MAX_RESTORED`] names are below the path, or the restore takes more
    ///   operations than a batch has.
    /// - As [`FileSystem::as_of`] and [`FileSystem::commit`].
    #[boxed]
    pub async fn restore(&self, path: &str, asked: &FileRestore, now: Timestamp) -> Result<RestoreReport> {
        let Step { mut report, mut is_last, .. } = self.once.run(self.first_step(path, asked, now)).await?;
        for number in 2..=STEPS {
            if is_last {
                break;
            }
            let Ok(next) = self.further_step(number, &report, now).await else { break };
            (report, is_last) = (report.and(&next.report), next.is_last);
        }
        if let Some(seq) = report.seq {
            // Not in the record: it is known only after the commit. The log has it for a repeat as well.
            report.version = self.version_at(seq, &report.path).await.ok();
        }
        Ok(report)
    }

    /// Returns the path without links and the changes that [`Files::restore`] would make now.
    ///
    /// # Errors
    /// As [`Files::restore`].
    #[boxed]
    pub async fn plan_restore(
        &self,
        path: &str,
        asked: &FileRestore,
        now: Timestamp,
    ) -> Result<(TreePath, RestorePlan)> {
        let (path, at) = self.past_place(path, asked).await?;
        let planned = self.planned(&path, at, asked.version, now).await?;
        Ok((path, planned.plan))
    }

    async fn first_step(&self, path: &str, asked: &FileRestore, now: Timestamp) -> Result<Step> {
        let (path, at) = self.past_place(path, asked).await?;
        self.restore_step(&self.once, (&path, at), asked.version, now).await
    }

    async fn further_step(&self, number: usize, before: &RestoreReport, now: Timestamp) -> Result<Step> {
        let once = self.once.step(number).await?;
        // The version that was required is that before the first step.
        once.run(self.restore_step(&once, (&before.path, before.at), None, now)).await
    }

    /// Makes one commit of a restore, or none if nothing differs.
    async fn restore_step(
        &self,
        once: &Once,
        (path, at): (&TreePath, Seq),
        version: Option<VersionId>,
        now: Timestamp,
    ) -> Result<Step> {
        let message = match &*self.message {
            "" => format!("restore {path} as of {at}"),
            message => message.to_owned(),
        };
        let batch = Batch::new([]).author(self.author.clone()).message(message);
        let mut failed =
            Error::at(ErrorKind::Conflict, path, "changes faster than it can be restored; try again");
        for left in (0..ATTEMPTS).rev() {
            let Planned { plan, head, version: current } = self.planned(path, at, version, now).await?;
            let (report, changes) = (RestoreReport::of(path, current, &plan), !plan.is_empty());
            let step = Step { report, head, changes, is_last: true };
            if !changes {
                // Commits of other clients may have changed what was read before.
                if left > 0 && self.fs.head().await?.seq != head {
                    continue;
                }
                return once.unchanged(self.fs, batch, step).await;
            }
            let planned = version.into_iter().fold(plan.batch(&batch), |batch, version| {
                batch.require(path, Precondition::Version(version))
            });
            match once.commit(self.fs, planned, step).await {
                Err(error) if error.is(ErrorKind::Conflict) => {}
                Err(error) if error.is_absent() || error.is(ErrorKind::AlreadyExists) => failed = error,
                done => return done,
            }
        }
        Err(failed)
    }

    /// Returns the path without links in the state to restore, and the commit of that state.
    async fn past_place(&self, path: &str, asked: &FileRestore) -> Result<(TreePath, Seq)> {
        let Some(moment) = &asked.moment else {
            let message = "the record of the first request has expired; send it under a new key";
            return Err(Error::new(ErrorKind::Gone, message));
        };
        let past = self.fs.as_of(moment).await?;
        let seq = past.head().await?.seq;
        let found = resolve::stat(&*past, path, Follow::No).await;
        let (path, entry) = found.map_err(|error| match error.path() {
            Some(path) if error.is(ErrorKind::NotFound) => {
                Error::at(ErrorKind::NotFound, path, format!("did not exist at sequence number {seq}"))
            }
            _ => error,
        })?;
        if entry.is_dir() {
            check_names(&*past, &path).await?;
        }
        Ok((path, seq))
    }

    /// Plans a restore of the current state.
    async fn planned(
        &self,
        path: &TreePath,
        at: Seq,
        version: Option<VersionId>,
        now: Timestamp,
    ) -> Result<Planned> {
        let mut left = ATTEMPTS;
        loop {
            left -= 1;
            let head = self.fs.head().await?.seq;
            let there = self.fs.stat(&At::from(path)).await.optional()?;
            let current = there.as_ref().map(|entry| entry.version);
            if version.is_some() && version != current {
                return Err(changed(path, current));
            }
            if there.is_some_and(|entry| entry.is_dir()) {
                // Removed meanwhile: then there is nothing to count.
                check_names(self.fs, path).await.optional()?;
            }
            match restore::plan(self.fs, path, &Moment::Seq(at), now).await {
                // The tree has changed while it was read.
                Err(error) if error.is(ErrorKind::Conflict) && left > 0 => {}
                plan => return Ok(Planned { plan: plan?, head, version: current }),
            }
        }
    }

    async fn version_at(&self, seq: Seq, path: &TreePath) -> Result<VersionId> {
        let then = self.fs.as_of(&Moment::Seq(seq)).await?;
        Ok(then.stat(&At::from(path)).await?.version)
    }
}

/// Fails for a directory with more names below it than a restore compares.
async fn check_names(fs: &dyn FileSystem, dir: &TreePath) -> Result<()> {
    let (mut page, mut count) = (WalkPage::default().limit(MAX_PAGE), 0);
    loop {
        let walk = fs.walk(&At::from(dir), &page).await?;
        count += walk.items.len();
        if count > MAX_RESTORED {
            let message = format!(
                "has more than {MAX_RESTORED} names below it, in one of the two states; restore the \
                 directories in it one by one"
            );
            return Err(Error::at(ErrorKind::TooLarge, dir, message));
        }
        match walk.items.last() {
            Some(last) if walk.more => page = page.after(last.path.clone()),
            _ => return Ok(()),
        }
    }
}

fn changed(path: &TreePath, current: Option<VersionId>) -> Error {
    let message = match current {
        Some(current) => format!("was changed to version {current}; read it before it is restored"),
        None => "does not exist, so it has no version".to_owned(),
    };
    Error::at(ErrorKind::Conflict, path, message)
}
