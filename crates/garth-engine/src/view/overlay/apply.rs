//! Applying an overlay: an ordinary commit gives the lower tree what the overlay shows, wherever the overlay
//! has changed it, and empties the upper layer.

mod plan;

use std::sync::Arc;

pub use self::plan::Side;
use self::plan::{Plan, Planner};
use super::Overlay;
use super::cursor::there;
use super::pair::Pair;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{ATTEMPTS, FileSystem};
use crate::model::{Batch, Commit, Op};
use crate::path::TreePath;

/// Result of applying an overlay.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Applied {
    /// Commit to the lower layer. If nothing changed there, the commit that emptied the upper layer; `None`
    /// if that was empty.
    pub commit: Option<Commit>,
    /// Number of paths of the lower layer that were changed. A removed directory counts once.
    pub changed: u64,
    /// Paths that both layers had changed, for which one side was taken.
    pub conflicts: Vec<TreePath>,
}

impl Overlay {
    /// Gives the lower layer what the overlay shows, wherever the overlay has changed it, and empties the
    /// upper layer. Author, message and other fields of the commit are those of `batch`, whose operations and
    /// preconditions are ignored.
    ///
    /// Layers of one store are changed in one commit. With two stores, a second commit empties the upper
    /// layer; if it is missing after a crash, applying again changes nothing more in the lower layer.
    ///
    /// A node that was copied up or hidden, and has changed in the lower layer since then, is a conflict.
    /// Changes below a removed directory are noticed if the lower layer keeps a log
    /// ([`Capabilities::log`](crate::fs::Capabilities)). If a layer changes while the plan is made, the plan
    /// is made again.
    ///
    /// A changed file stays the node that it is in the lower layer; a renamed one becomes a new node there.
    /// Hard links stay links.
    ///
    /// # Errors
    /// - `Conflict`: as [`Side`] says, or the layers changed before each attempt to commit.
    /// - `TooLarge`: the change takes more operations than a batch holds
    ///   ([`MAX_OPS`](crate::model::MAX_OPS)).
    /// - As [`FileSystem::commit`].
    pub async fn apply(&self, side: Side, batch: &Batch) -> Result<Applied> {
        self.apply_to(&self.lower, side, batch).await
    }

    /// Applies the overlay to a tree of which the lower layer is a past state.
    ///
    /// # Errors
    /// As [`Overlay::apply`].
    pub async fn apply_to(&self, lower: &Arc<dyn FileSystem>, side: Side, batch: &Batch) -> Result<Applied> {
        let pair = Pair::new(lower, &self.whole)?;
        let mut template = batch.clone();
        let mut done = Applied::default();
        let mut failed = Error::new(
            ErrorKind::Conflict,
            "the layers change faster than the overlay can be applied; try again",
        );
        for _ in 0..ATTEMPTS {
            let plan = match Planner::new(self, lower, &pair, side).plan().await {
                Err(error) if is_overtaken(&error) => {
                    failed = error;
                    continue;
                }
                plan => plan?,
            };
            let (changed, conflicts) = (plan.changed, plan.conflicts.clone());
            match self.commit_plan(lower, &pair, plan, &mut template, &mut done).await {
                Ok(()) => {
                    done.changed += changed;
                    done.conflicts = conflicts;
                    return Ok(done);
                }
                Err(error) if error.is(ErrorKind::Conflict) => {}
                Err(error) if is_overtaken(&error) => failed = error,
                Err(error) => return Err(error),
            }
        }
        Err(failed)
    }

    // Commits a plan. Fails with a conflict, or as `is_overtaken` says, if a layer has changed after it was
    // planned.
    async fn commit_plan(
        &self,
        lower: &Arc<dyn FileSystem>,
        pair: &Pair,
        plan: Plan,
        template: &mut Batch,
        done: &mut Applied,
    ) -> Result<()> {
        // An empty upper layer gives no preconditions (`guard`), so nothing that another client writes
        // meanwhile may be removed.
        let all = [&self.places.tree, &self.places.hidden, &self.places.nodes];
        let empty: Vec<&TreePath> = all.into_iter().filter(|_| !plan.above.is_empty()).collect();
        let Plan { mut ops, mut preconditions, above, .. } = plan;
        if pair.is_one_store() {
            if ops.is_empty() && empty.is_empty() {
                return Ok(());
            }
            for path in &empty {
                ops.push(Op::remove_tree(pair.above(path)?).if_exists());
            }
            for (path, that) in above {
                preconditions.push((pair.above(&path)?.into(), that));
            }
            done.commit = Some(pair.commit(&Batch { ops, preconditions, ..template.clone() }).await?);
            return Ok(());
        }
        if !ops.is_empty() {
            done.commit = Some(lower.commit(Batch { ops, preconditions, ..template.clone() }).await?);
            // They belong to the commit above. With them, the commit that follows, or that of another
            // attempt, would be taken for a retry and answered with its outcome.
            (template.id, template.idempotency) = (None, None);
        }
        if !empty.is_empty() {
            let ops = empty.into_iter().map(|path| Op::remove_tree(path).if_exists()).collect();
            let preconditions = above.into_iter().map(|(path, that)| (path.into(), that)).collect();
            let commit = self.whole.commit(Batch { ops, preconditions, ..template.clone() }).await?;
            done.commit.get_or_insert(commit);
        }
        Ok(())
    }

    /// Removes everything that the overlay has changed. Returns `None` if it has changed nothing.
    ///
    /// # Errors
    /// As [`FileSystem::commit`].
    pub async fn discard(&self, batch: &Batch) -> Result<Option<Commit>> {
        let mut ops = Vec::new();
        for place in [&self.places.tree, &self.places.hidden, &self.places.nodes] {
            // Looks first, because a commit takes a sequence number even if it changes nothing.
            if there(&*self.whole, place.clone()).await?.is_some() {
                ops.push(Op::remove_tree(place).if_exists());
            }
        }
        if ops.is_empty() {
            return Ok(None);
        }
        let batch = Batch { ops, preconditions: Vec::new(), ..batch.clone() };
        Ok(Some(self.whole.commit(batch).await?))
    }
}

/// Returns true if an error shows that a layer changed after it was read.
fn is_overtaken(error: &Error) -> bool {
    error.is_absent() || error.is(ErrorKind::AlreadyExists) || error.is(ErrorKind::Stale)
}
