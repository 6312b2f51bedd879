//! Lowering: translation of the addresses of a view into those of the store in which its writes end. A view
//! lowers its addresses through the filesystems under it, so that a batch that is addressed through any stack
//! of views becomes one batch of one store. `crate::view::lower` does that; `docs/decisions/lowering.md`
//! gives the reasons.

use async_trait::async_trait;

pub use super::filesystem::{LoweredAddress, Lowering, ShownNode, Store, StoreId};
use crate::error::Result;
use crate::model::{Access, At, Ino};
use crate::path::TreePath;

/// Lowering of a store: its addresses are its own.
#[derive(Debug)]
pub struct StoreLowering(pub Store);

#[async_trait]
impl Lowering for StoreLowering {
    fn home(&self) -> Store {
        self.0.clone()
    }

    async fn lower(&mut self, at: &At, _: Access) -> Result<LoweredAddress> {
        Ok(LoweredAddress::new(self.0.clone(), at.clone()))
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
