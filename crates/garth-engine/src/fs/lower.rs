//! Lowering: what an address of a view is in the store that its writes end in. A view that re-roots or
//! combines other filesystems lowers its addresses through theirs, so that a batch which is addressed through
//! any stack of views becomes one batch of one store. `crate::view::lower` does that;
//! `docs/decisions/lowering.md` says why.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::error::Result;
use crate::fs::FileSystem;
use crate::model::{Access, At, Ino, Op, Precondition, Seq, Within};
use crate::path::TreePath;

/// Which store: two addresses with the same can be in one commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StoreId {
    instance: usize,
    /// A past state of it is a store of its own, which takes no commit.
    as_of: Option<Seq>,
}

impl StoreId {
    /// The store whose state this is; it must be held as long as the id is used.
    pub fn of<T>(state: &Arc<T>, as_of: Option<Seq>) -> Self {
        Self { instance: Arc::as_ptr(state).addr(), as_of }
    }

    /// Whether both are states of one store, whenever: then no two of their nodes have one number.
    pub fn is_one_with(self, other: Self) -> bool {
        self.instance == other.instance
    }
}

/// Where writes end: no view, but what keeps the bytes.
#[derive(Clone, Debug)]
pub struct Store {
    /// Which.
    pub id: StoreId,
    /// It, as far as it may be reached from the view that was lowered.
    pub fs: Arc<dyn FileSystem>,
    /// The paths of it that may be reached.
    pub within: Within,
}

/// An address in terms of a store.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// The store.
    pub store: Store,
    /// The address there.
    pub at: At,
    /// What has to be done there before the operation, such as copying up what it changes.
    pub before: Vec<Op>,
    /// What has to be done after it, such as hiding what still lies below.
    pub after: Vec<Op>,
    /// By which handles, and within what, that is done, if not by the address's.
    pub besides: Vec<Store>,
    /// What was read on the way and must still hold at the commit, or the batch is lowered again.
    pub assumptions: Vec<(At, Precondition)>,
    /// What the view calls the node, where that is not as the store does.
    pub shown: Shown,
}

/// What a view calls a node of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// Its number there, if the view knows it.
    pub ino: Option<Ino>,
    /// What the view adds to the store's number if it does not.
    pub tag: u64,
    /// Whether it counts as made, if not as the operation says.
    pub created: Option<bool>,
}

impl Lowered {
    /// An address of a store as it is.
    pub fn new(store: Store, at: At) -> Self {
        let (before, after, besides, assumptions) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { store, at, before, after, besides, assumptions, shown: Shown::default() }
    }
}

/// One batch on its way down: remembers what its earlier operations do.
#[async_trait]
pub trait Lowering: Send + Sync + fmt::Debug {
    /// The store of what has no address: of snapshots, and of a batch that does nothing. A commit that ends
    /// there is its owner's, whatever it addresses first.
    fn home(&self) -> Store;

    /// Refuses an operation that the view takes from nobody, wherever it leads.
    ///
    /// # Errors
    /// `TooLarge` for content above a view's limit.
    fn admit(&self, _op: &Op) -> Result<()> {
        Ok(())
    }

    /// Begins an operation: whether what it writes is to expire.
    fn begin(&mut self, _expires: bool) {}

    /// What an address of the view is in its store.
    ///
    /// # Errors
    /// `NameTooLong` if it has no place there; what reading on the way fails with. Paths are the view's.
    async fn lower(&mut self, at: &At, access: Access) -> Result<Lowered>;

    /// A condition in terms of the store; what can be judged on the way may become one that is as true there.
    ///
    /// # Errors
    /// As for [`Lowering::lower`].
    async fn condition(&mut self, at: &At, that: &Precondition) -> Result<(Lowered, Precondition)> {
        let (lowered, mut that) = (self.lower(at, Access::Read).await?, that.clone());
        for version in that.versions() {
            version.ino = self.number(version.ino).await?;
        }
        Ok((lowered, that))
    }

    /// The number in the store of what the view shows by this number; of a version, too.
    ///
    /// # Errors
    /// What reading on the way fails with.
    async fn number(&mut self, ino: Ino) -> Result<Ino>;

    /// What makes up a path of the view and all below it: paths of stores.
    ///
    /// # Errors
    /// `NameTooLong` if it has no place there; what reading on the way fails with.
    async fn tops(&mut self, top: &TreePath) -> Result<Vec<(StoreId, TreePath)>>;

    /// The view's path of a path of the store, for an error about it; `None` if the view does not show it.
    fn raise(&self, store: StoreId, path: &TreePath) -> Option<TreePath>;
}

/// The lowering of a store: it is where it is.
#[derive(Debug)]
pub struct Itself(pub Store);

#[async_trait]
impl Lowering for Itself {
    fn home(&self) -> Store {
        self.0.clone()
    }

    async fn lower(&mut self, at: &At, _: Access) -> Result<Lowered> {
        Ok(Lowered::new(self.0.clone(), at.clone()))
    }

    async fn number(&mut self, ino: Ino) -> Result<Ino> {
        Ok(ino)
    }

    async fn tops(&mut self, top: &TreePath) -> Result<Vec<(StoreId, TreePath)>> {
        Ok(vec![(self.0.id, top.clone())])
    }

    fn raise(&self, store: StoreId, path: &TreePath) -> Option<TreePath> {
        (store == self.0.id).then(|| path.clone())
    }
}
