//! Both layers of an overlay as one tree, `/lower` and `/upper`, so that one batch can change both.

use std::sync::Arc;

use async_trait::async_trait;

use crate::error::{Error, Result};
use crate::fs::FileSystem;
use crate::fs::lower::{LoweredAddress, Lowering, Store, StoreId};
use crate::model::{Access, At, Batch, Commit, Ino, Precondition};
use crate::path::{Name, TreePath};
use crate::view::lower;

/// Two filesystems under one root, for batches only.
#[derive(Debug)]
pub(super) struct Pair {
    lower: Arc<dyn FileSystem>,
    upper: Arc<dyn FileSystem>,
    below: TreePath,
    above: TreePath,
}

impl Pair {
    pub(super) fn new(lower: &Arc<dyn FileSystem>, upper: &Arc<dyn FileSystem>) -> Result<Self> {
        let top = |name| -> Result<TreePath> { Ok(TreePath::root().join(&Name::parse(name)?)?) };
        let (below, above) = (top("lower")?, top("upper")?);
        Ok(Self { lower: Arc::clone(lower), upper: Arc::clone(upper), below, above })
    }

    /// Returns true if one commit can change both layers.
    pub(super) fn is_one_store(&self) -> bool {
        // Equal, and not only of one store: a past state of it takes no commit.
        self.lower.view_base().lowering().home().id == self.upper.view_base().lowering().home().id
    }

    /// Returns the address of a path of the lower layer.
    pub(super) fn below(&self, path: &TreePath) -> Result<TreePath> {
        Ok(self.below.append(path)?)
    }

    /// Returns the address of a path of the upper layer.
    pub(super) fn above(&self, path: &TreePath) -> Result<TreePath> {
        Ok(self.above.append(path)?)
    }

    /// Commits to both layers, as the owner of the lower one.
    pub(super) async fn commit(&self, batch: &Batch) -> Result<Commit> {
        lower::commit(&|| Box::new(self.lowering()), batch).await
    }

    fn lowering(&self) -> PairLowering {
        let (below, above) = (self.below.clone(), self.above.clone());
        PairLowering {
            lower: self.lower.view_base().lowering(),
            upper: self.upper.view_base().lowering(),
            below,
            above,
        }
    }
}

#[derive(Debug)]
struct PairLowering {
    lower: Box<dyn Lowering>,
    upper: Box<dyn Lowering>,
    below: TreePath,
    above: TreePath,
}

impl PairLowering {
    /// Returns the layer that a path belongs to, and the path in that layer.
    fn side(&mut self, path: &TreePath) -> Result<(&mut dyn Lowering, TreePath)> {
        let root = TreePath::root();
        if let Some(path) = path.rebase(&self.below, &root) {
            return Ok((&mut *self.lower, path?));
        }
        match path.rebase(&self.above, &root) {
            Some(path) => Ok((&mut *self.upper, path?)),
            None => Err(Error::not_found(path)),
        }
    }

    fn at(&mut self, at: &At) -> Result<(&mut dyn Lowering, At)> {
        match at {
            At::Path(path) => self.side(path).map(|(side, path)| (side, At::Path(path))),
            // An inode does not identify the layer: both can have a node with it.
            At::Node(_) | At::Child(..) => Err(Error::no_node()),
        }
    }
}

#[async_trait]
impl Lowering for PairLowering {
    fn home(&self) -> Store {
        self.lower.home()
    }

    async fn lower(&mut self, at: &At, access: Access) -> Result<LoweredAddress> {
        let (side, at) = self.at(at)?;
        side.lower(&at, access).await
    }

    async fn condition(&mut self, at: &At, that: &Precondition) -> Result<(LoweredAddress, Precondition)> {
        let (side, at) = self.at(at)?;
        side.condition(&at, that).await
    }

    async fn number(&mut self, _: Ino) -> Result<Ino> {
        Err(Error::no_node())
    }

    async fn tops(&mut self, top: &TreePath) -> Result<Vec<(StoreId, TreePath)>> {
        let (side, top) = self.side(top)?;
        side.tops(&top).await
    }

    fn raise(&self, store: StoreId, path: &TreePath) -> Option<TreePath> {
        self.lower.raise(store, path)
    }
}
