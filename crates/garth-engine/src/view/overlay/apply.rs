//! Applying an overlay: an ordinary commit that makes the lower tree what the overlay shows, where the
//! overlay has changed it, and empties the upper layer.

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

/// What applying an overlay did.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Applied {
    /// The commit to the lower layer; if nothing of it changed, the one that emptied the upper layer; `None`
    /// if that was empty.
    pub commit: Option<Commit>,
    /// Paths of the lower layer that were changed. Of a directory that was removed it is the top.
    pub changed: u64,
    /// Paths that both layers had changed, of which one side was taken.
    pub conflicts: Vec<TreePath>,
}

impl Overlay {
    /// Makes the lower layer what this shows, where this has changed it, and empties the upper layer: in one
    /// commit if both are of one store, with author, message and other fields of `batch`, whose operations
    /// and preconditions are not used. With two stores the upper layer is emptied in a commit of its own
    /// behind it; what stops in between is applied again without another change.
    ///
    /// It is a conflict if something that was copied up or hidden has changed in the lower layer since then.
    /// Below a directory that was taken away that is noticed if the layer keeps a log
    /// ([`Capabilities::log`](crate::fs::Capabilities)). If a layer changes meanwhile, it is planned again.
    ///
    /// Files that were changed stay the nodes they are in the lower layer; what was renamed gets there as a
    /// new node. Hard links stay links.
    ///
    /// # Errors
    /// `Conflict`, as [`Side`] says, or if the layers change each time before the commit; `TooLarge` if it
    /// takes more operations than a batch has ([`MAX_OPS`](crate::model::MAX_OPS)); those of
    /// [`FileSystem::commit`].
    pub async fn apply(&self, side: Side, batch: &Batch) -> Result<Applied> {
        self.apply_to(&self.lower, side, batch).await
    }

    /// The same for a tree of which the lower layer is a past state.
    ///
    /// # Errors
    /// As [`Overlay::apply`].
    pub async fn apply_to(&self, lower: &Arc<dyn FileSystem>, side: Side, batch: &Batch) -> Result<Applied> {
        let pair = Pair::new(lower, &self.whole)?;
        let mut template = batch.clone();
        let mut done = Applied::default();
        let mut failed = Error::new(ErrorKind::Conflict, "changes faster than it can be applied; try again");
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

    async fn commit_plan(
        &self,
        lower: &Arc<dyn FileSystem>,
        pair: &Pair,
        plan: Plan,
        template: &mut Batch,
        done: &mut Applied,
    ) -> Result<()> {
        // what was not there when it was planned is not held, and must not go
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

    /// Drops all that the overlay has changed; `None` if that is nothing.
    ///
    /// # Errors
    /// Those of [`FileSystem::commit`].
    pub async fn discard(&self, batch: &Batch) -> Result<Option<Commit>> {
        let mut ops = Vec::new();
        for place in [&self.places.tree, &self.places.hidden, &self.places.nodes] {
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

/// Returns true if it failed because a layer is not as it was a moment before.
fn is_overtaken(error: &Error) -> bool {
    error.is_absent() || error.is(ErrorKind::AlreadyExists) || error.is(ErrorKind::Stale)
}
