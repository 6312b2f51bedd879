//! Restore of a path to an earlier state, in one commit that changes only what differs. It works on any
//! [`FileSystem`] with history: it reads both states page by page ([`diff`]) and plans a batch from the
//! differences ([`mod@plan`]). The reasons: `docs/decisions/restore-is-a-batch.md`.

mod changes;
mod diff;
mod plan;
mod state;

use std::sync::Arc;

pub use self::changes::{MAX_GONE_PATHS, Restoration, RestoreAction, RestorePlan};
pub use self::state::{MAX_COMPARED, is_uncreated_root};

pub(crate) use self::state::difference;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{ATTEMPTS, FileSystem};
use crate::model::{Batch, Commit, Moment, Timestamp};
use crate::path::TreePath;

/// Result of a restore.
#[derive(Clone, Debug)]
pub struct RestoreResult {
    /// Changes that were made.
    pub plan: RestorePlan,
    /// Commit, the last one if there were several; `None` if there was nothing to do.
    pub commit: Option<Commit>,
}

/// Makes `path` equal to its state at `moment`: names, hard links among them, kinds, content, link targets,
/// mode, owner, `mtime` and attributes. It is one commit with the author, message and other fields of
/// `batch`, whose operations and preconditions are ignored. If nothing differs there is no commit
/// ([`MAX_COMPARED`] is the size up to which newer content is compared).
///
/// - A node that does not differ is not touched: it keeps its version.
/// - A node that is still below `path` is moved back and changed in place. A node that was removed comes back
///   as a new node, its content by reference. A node that was added is removed.
/// - Nothing outside `path` changes. A node that also has names outside is not changed: where the inside must
///   differ, it gets a node of its own.
/// - An expiry that has passed at `now` is not restored, or the entry would vanish at once.
/// - A file below `path` whose content is no longer stored, by the retention of its path class, keeps the
///   content and attributes that it has now; one that was removed does not come back
///   ([`RestorePlan::gone`]). A restore of that file alone fails.
///
/// If the tree changes in between, the restore is planned again. A commit holds what it touches, but commits
/// of others may have changed paths that were read before. So after such commits the tree is read once more,
/// and a further commit (without the id and the idempotency record of `batch`) restores what differs. A time
/// means the state right after the last commit that is not later: entries that have expired since come back.
///
/// ```
/// # use garth_engine as garth;
/// # use garth::{Env, FileSystem, FileSystemExt, TreePath, engine::memory::MemoryFs};
/// # use garth::fs::restore::restore;
/// # use garth::model::{Batch, Moment, Seq};
/// # fn main() -> garth::Result<()> { futures::executor::block_on(async {
/// let env = Env::system();
/// let fs = MemoryFs::new(env.clone(), garth::rule::Registry::empty());
/// let notes = TreePath::parse("/notes.md")?;
/// let first = fs.write(&notes, "one").await?;
/// fs.write(&notes, "two").await?;
/// let restored = restore(&fs, &notes, &Moment::Seq(first.seq), env.now(), &Batch::default()).await?;
/// assert_eq!((restored.plan.restored, restored.plan.unchanged), (1, 0));
/// # Ok(()) }) }
/// ```
///
/// # Errors
/// - `NotFound`: the path did not exist at that time.
/// - `NotADirectory`: a path above is a file now.
/// - `Gone`: `path` is a file whose content is no longer stored.
/// - `TooLarge`: the restore takes more operations than a batch has ([`crate::model::MAX_OPS`]), or copies
///   or names more than a batch may ([`MAX_COPIED_NAMES`](crate::model::MAX_COPIED_NAMES),
///   [`MAX_COPIED_PIECES`](crate::model::MAX_COPIED_PIECES),
///   [`MAX_NEW_PATH_BYTES`](crate::model::MAX_NEW_PATH_BYTES)). Restore the directories below one by one.
/// - `Conflict`: the tree changes before each attempt to commit. Then further commits are not made.
/// - As [`FileSystem::as_of`] and [`FileSystem::commit`].
pub async fn restore<F: FileSystem + ?Sized>(
    fs: &F,
    path: &TreePath,
    moment: &Moment,
    now: Timestamp,
    batch: &Batch,
) -> Result<RestoreResult> {
    let past = past_of(fs, moment).await?;
    let mut template = batch.clone();
    let mut done: Option<RestoreResult> = None;
    let mut failed =
        Error::at(ErrorKind::Conflict, path, "changes faster than it can be restored; try again");
    for left in (0..ATTEMPTS).rev() {
        let head = fs.head().await?.seq;
        let plan = match plan::plan(fs, &*past, path, now).await {
            Err(error) if error.is(ErrorKind::Conflict) => continue,
            plan => plan?,
        };
        // Alone: no other client has committed since the tree was read, so nothing else can differ.
        let (alone, commit) = if plan.is_empty() {
            (fs.head().await?.seq == head, None)
        } else {
            match fs.commit(plan.batch(&template)).await {
                Ok(commit) => (commit.replayed || commit.seq.0 == head.0 + 1, Some(commit)),
                Err(error) if error.is(ErrorKind::Conflict) => continue,
                Err(error) if is_overtaken(&error) => {
                    failed = error;
                    continue;
                }
                Err(error) => return Err(error),
            }
        };
        if commit.is_some() {
            // They belong to the first commit: a further one is not a retry of it.
            (template.id, template.idempotency) = (None, None);
        }
        let restored = RestoreResult::after(done.take(), plan, commit);
        // After the last attempt the tree may still differ; what was restored is reported nonetheless.
        if alone || left == 0 {
            return Ok(restored);
        }
        done = Some(restored);
    }
    Err(failed)
}

/// Returns true if a commit failed because the tree changed after it was planned.
fn is_overtaken(error: &Error) -> bool {
    error.is_absent() || error.is(ErrorKind::AlreadyExists)
}

/// Returns the state to restore. Copies of the past name a commit, so a time becomes the commit before it.
async fn past_of<F: FileSystem + ?Sized>(fs: &F, moment: &Moment) -> Result<Arc<dyn FileSystem>> {
    let past = fs.as_of(moment).await?;
    match moment {
        Moment::Time(_) => fs.as_of(&Moment::Seq(past.head().await?.seq)).await,
        Moment::Seq(_) | Moment::Snapshot(_) => Ok(past),
    }
}

/// Returns the changes that [`restore`] would make now.
///
/// # Errors
/// As for [`restore`]; `Conflict` if the tree changes while it is read.
pub async fn plan<F: FileSystem + ?Sized>(
    fs: &F,
    path: &TreePath,
    moment: &Moment,
    now: Timestamp,
) -> Result<RestorePlan> {
    let past = past_of(fs, moment).await?;
    plan::plan(fs, &*past, path, now).await
}

impl RestoreResult {
    /// Returns the sum of the rounds so far and one more.
    fn after(before: Option<Self>, plan: RestorePlan, commit: Option<Commit>) -> Self {
        let Some(mut all) = before else { return Self { plan, commit } };
        all.plan.changes.extend(plan.changes);
        all.plan.restored += plan.restored;
        all.plan.removed += plan.removed;
        all.plan.unchanged = plan.unchanged;
        (all.plan.gone, all.plan.gone_paths) = (plan.gone, plan.gone_paths);
        Self { plan: all.plan, commit: commit.or(all.commit) }
    }
}
