//! Commits of views: lowers a batch to the store that it ends in, and translates the answer into the terms of
//! the view.

use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::fs::lower::{LoweredAddress, Lowering, ShownNode, Store};
use crate::fs::{ATTEMPTS, FileSystem};
use crate::model::{Access, AddedOps, Answer, At, Batch, Commit, Op, Precondition, Within};
use crate::path::TreePath;

/// Commits a batch that is addressed to a view. `begin` starts a lowering of the view.
///
/// # Errors
/// - As [`FileSystem::commit`].
/// - `CrossesMounts`: the batch ends in two stores.
/// - `WouldBlock`: what the view reads for the batch changes before each attempt to commit.
pub(super) async fn commit(begin: &(dyn Fn() -> Box<dyn Lowering> + Sync), batch: &Batch) -> Result<Commit> {
    batch.check()?;
    for _ in 0..ATTEMPTS {
        let mut descent = BatchLowering::new(begin(), batch);
        // Assumptions of the batch itself are those of a view above, which has to look again.
        let overtaken = |error: &Error| error.is(ErrorKind::Stale) && batch.assumptions.is_empty();
        let lowered = match descent.batch(batch).await {
            Err(error) if overtaken(&error) => continue,
            lowered => lowered?,
        };
        let store = descent.store.unwrap_or_else(|| descent.lowering.home());
        match store.fs.commit(lowered).await {
            Err(error) if overtaken(&error) => {}
            answer => {
                return answer.map_err(|error| error.mapped(|path| descent.lowering.raise(store.id, path)));
            }
        }
    }
    Err(Error::new(ErrorKind::WouldBlock, "other clients keep changing the same files; try again"))
}

/// Lowering of one batch.
struct BatchLowering {
    lowering: Box<dyn Lowering>,
    /// Store of the addresses so far.
    store: Option<Store>,
    /// Handles to the store that the addresses came by.
    handles: Vec<Arc<dyn FileSystem>>,
    /// Part of the store that the addresses reach.
    within: Within,
    /// Operations that views have added, and what these may reach.
    added: AddedOps,
    assumptions: Vec<(At, Precondition)>,
    /// Node that the outcomes of operations on snapshots are about, as the view addresses it.
    asked_root: At,
    /// That node in the store, once there is such an operation.
    root: Option<At>,
}

impl BatchLowering {
    fn new(lowering: Box<dyn Lowering>, batch: &Batch) -> Self {
        Self {
            lowering,
            store: None,
            handles: Vec::new(),
            within: Within::nothing(),
            added: AddedOps::default(),
            assumptions: Vec::new(),
            asked_root: batch.root.clone().unwrap_or_else(|| At::Path(TreePath::root())),
            root: None,
        }
    }

    async fn batch(&mut self, batch: &Batch) -> Result<Batch> {
        let mut assumed = self.conditions(&batch.assumptions).await?;
        let preconditions = self.conditions(&batch.preconditions).await?;
        let (mut ops, mut done) = (Vec::with_capacity(batch.ops.len()), Vec::with_capacity(batch.ops.len()));
        for op in &batch.ops {
            done.push(self.op(op, &mut ops).await?);
        }
        let answers = match &batch.answers {
            Some(answers) => answers.iter().map(|told| nested(told, &done)).collect(),
            None => done,
        };
        let mut within = match &self.store {
            Some(_) => self.within.clone(),
            // A batch without addresses has the reach of the view itself.
            None => self.lowering.home().within,
        };
        if let Some(asked) = &batch.within {
            within = within.intersect(&self.within(asked).await?);
        }
        assumed.append(&mut self.assumptions);
        Ok(Batch {
            ops,
            preconditions,
            assumptions: assumed,
            within: Some(within),
            added: std::mem::take(&mut self.added),
            root: self.root.take(),
            answers: Some(answers),
            ..batch.clone()
        })
    }

    /// Lowers an operation, with those that views put before and after it. Returns how its outcome is shown.
    async fn op(&mut self, op: &Op, ops: &mut Vec<Op>) -> Result<Answer> {
        self.lowering.admit(op)?;
        self.lowering.begin(op.expires());
        let told = op.told_of().cloned();
        let (mut op, mut after, mut shown) = (op.clone(), Vec::new(), ShownNode::default());
        // An operation without an address (on snapshots) is one on the root, so that a view can refuse it.
        if op.addresses().is_empty() {
            let root = self.asked_root.clone();
            let lowered = self.address(&root, Access::Snapshot).await?;
            (shown, self.root) = (lowered.shown, Some(lowered.at));
        }
        let mut places = Vec::new();
        // A check is a condition, which the view may judge itself or turn into another one.
        if let Op::Check { at, that } = &mut op {
            let (lowered, judged) = self.lowering.condition(at, that).await?;
            (*at, *that) = (lowered.at.clone(), judged);
            places.push((told.is_some(), self.taken(lowered)?));
        } else {
            for (at, access) in op.addresses() {
                let is_told = told.as_ref() == Some(at);
                let lowered = self.address(at, access).await?;
                *at = lowered.at.clone();
                places.push((is_told, lowered));
            }
        }
        for (is_told, lowered) in places {
            // A node that moves to another part gets the inode of that part.
            let moved = matches!(op, Op::Rename { .. }) && lowered.shown.tag != shown.tag;
            if is_told || moved {
                shown = lowered.shown;
            }
            self.add(lowered.before, ops);
            after.extend(lowered.after);
        }
        ops.push(op);
        let place = ops.len() - 1;
        self.add(after, ops);
        Ok(Answer { op: place, created: shown.created, ino: shown.ino, tag: shown.tag })
    }

    /// Adds operations of views. Their positions are noted, because they reach further than those of the
    /// caller.
    fn add(&mut self, added: Vec<Op>, ops: &mut Vec<Op>) {
        self.added.ops.extend(ops.len()..ops.len() + added.len());
        ops.extend(added);
    }

    async fn conditions(&mut self, conditions: &[(At, Precondition)]) -> Result<Vec<(At, Precondition)>> {
        let mut lowered = Vec::with_capacity(conditions.len());
        for (at, that) in conditions {
            let (place, that) = self.lowering.condition(at, that).await?;
            lowered.push((self.taken(place)?.at, that));
        }
        Ok(lowered)
    }

    /// Returns the confinement that a batch asks for, in paths of the store.
    async fn within(&mut self, asked: &Within) -> Result<Within> {
        let store = self.store.as_ref().map_or_else(|| self.lowering.home().id, |store| store.id);
        let mut within = Within::nothing();
        // `named` gives a subtree before what is left out of it, and that before an island in it.
        for (path, inside) in asked.named() {
            let below = self.lowering.tops(path).await?.into_iter();
            let below = below.filter(|(id, _)| *id == store).map(|(_, top)| top);
            within = if inside { within.with(below) } else { within.without(below) };
        }
        Ok(within)
    }

    async fn address(&mut self, at: &At, access: Access) -> Result<LoweredAddress> {
        let lowered = self.lowering.lower(at, access).await?;
        self.taken(lowered)
    }

    /// Adds a handle to those that the commit needs. Fails with `CrossesMounts` for another store.
    fn join(&mut self, to: &Store) -> Result<()> {
        let crosses = || {
            let message = "one commit cannot change two stores; copy, then remove";
            Error::new(ErrorKind::CrossesMounts, message)
        };
        // The commit belongs to the owner of the view's root, if that is in the store, whatever is addressed
        // first.
        let mut store = self.store.take().unwrap_or_else(|| {
            let home = self.lowering.home();
            if home.id == to.id { home } else { to.clone() }
        });
        if store.id != to.id {
            return Err(crosses());
        }
        if !self.handles.iter().any(|known| Arc::ptr_eq(known, &to.fs)) {
            let is_first = self.handles.is_empty() && Arc::ptr_eq(&store.fs, &to.fs);
            if !is_first {
                store.fs = store.fs.view_base().joined(&*to.fs).ok_or_else(crosses)?;
            }
            self.handles.push(Arc::clone(&to.fs));
        }
        self.store = Some(store);
        Ok(())
    }

    /// Adds a lowered address to the batch: its store, its reach and its assumptions.
    fn taken(&mut self, mut lowered: LoweredAddress) -> Result<LoweredAddress> {
        self.join(&lowered.store)?;
        self.within = self.within.union(&lowered.store.within);
        for store in std::mem::take(&mut lowered.besides) {
            self.join(&store)?;
            let within = self.added.within.take().unwrap_or_else(Within::nothing);
            self.added.within = Some(within.union(&store.within));
        }
        self.assumptions.append(&mut lowered.assumptions);
        Ok(lowered)
    }
}

/// Operations that a view adds, lowered through the filesystems under it.
#[derive(Debug, Default)]
pub(super) struct LoweredOps {
    ops: Vec<Op>,
    assumptions: Vec<(At, Precondition)>,
    /// Handles that these operations need.
    stores: Vec<Store>,
}

impl LoweredOps {
    /// Puts them before the operation of an address.
    pub(super) fn before(self, lowered: &mut LoweredAddress) {
        lowered.before.splice(..0, self.ops);
        lowered.assumptions.extend(self.assumptions);
        lowered.besides.extend(self.stores);
    }

    /// Puts them after the operation of an address.
    pub(super) fn after(self, lowered: &mut LoweredAddress) {
        lowered.after.extend(self.ops);
        lowered.assumptions.extend(self.assumptions);
        lowered.besides.extend(self.stores);
    }

    /// Adds the handles that reach an address.
    fn reach(&mut self, lowered: &mut LoweredAddress) {
        for store in std::mem::take(&mut lowered.besides).into_iter().chain([lowered.store.clone()]) {
            let same = |known: &Store| Arc::ptr_eq(&known.fs, &store.fs) && known.within == store.within;
            if !self.stores.iter().any(same) {
                self.stores.push(store);
            }
        }
    }

    /// Lowers operations, and the assumptions that they rely on.
    pub(super) async fn of(
        lowering: &mut dyn Lowering,
        ops: Vec<Op>,
        assumptions: Vec<(At, Precondition)>,
    ) -> Result<Self> {
        let mut through = Self::default();
        for (at, that) in assumptions {
            let (mut lowered, that) = lowering.condition(&at, &that).await?;
            through.reach(&mut lowered);
            through.assumptions.append(&mut lowered.assumptions);
            through.assumptions.push((lowered.at, that));
        }
        for mut op in ops {
            let mut after = Vec::new();
            for (at, access) in op.addresses() {
                let mut lowered = lowering.lower(at, access).await?;
                through.reach(&mut lowered);
                *at = lowered.at;
                through.ops.append(&mut lowered.before);
                through.assumptions.append(&mut lowered.assumptions);
                after.append(&mut lowered.after);
            }
            through.ops.push(op);
            through.ops.append(&mut after);
        }
        Ok(through)
    }
}

/// Returns an answer of a batch whose operations have been lowered again. The outer view decides on the
/// names.
fn nested(told: &Answer, done: &[Answer]) -> Answer {
    let below = done.get(told.op).copied().unwrap_or(*told);
    let (created, ino) = (told.created.or(below.created), told.ino.or(below.ino));
    Answer { created, ino, tag: told.tag | below.tag, ..below }
}

#[cfg(test)]
mod tests;
