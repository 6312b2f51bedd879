//! Methods that views need of a handle: [`ViewBase`].

use std::any::Any;
use std::sync::Arc;

use async_trait::async_trait;
use garth_engine::Result;
use garth_engine::fs::lower::{Lowering, Store, StoreId, StoreLowering};
use garth_engine::fs::{By, FileSystem, ViewBase};
use garth_engine::model::{At, Entry, Hit, KeySpace, Seq};
use garth_engine::path::TreePath;

use super::PgStore;

#[async_trait]
impl ViewBase for PgStore {
    async fn stat_first(&self, places: [&At; 2]) -> (usize, Result<Entry>) {
        let [one, other] = places;
        let found = self.reading(|_| {}, |view| view.first(one, other)).await;
        match found {
            Ok((place, found)) => (place, found),
            Err(error) => (0, Err(error)),
        }
    }

    fn joined(&self, with: &dyn FileSystem) -> Option<Arc<dyn FileSystem>> {
        let with = (with.view_base() as &dyn Any).downcast_ref::<Self>()?;
        if !Arc::ptr_eq(&self.inner, &with.inner) || self.as_of.is_some() || with.as_of.is_some() {
            return None;
        }
        if Arc::ptr_eq(&self.reach, &with.reach) {
            return Some(Arc::new(self.clone()));
        }
        Some(Arc::new(self.with_reach(self.reach.joined(&with.reach))))
    }

    async fn settle(&self, _seq: Seq) -> Result<()> {
        // A commit is durable before it is acknowledged.
        Ok(())
    }

    async fn found(&self, store: StoreId, hit: &Hit, _by: By) -> Result<Vec<Hit>> {
        let is_within = self.store_id() == store && self.reach.within.contains(&hit.path);
        // A handle with other gates may have found it.
        let is_shown = is_within
            && (!self.reach.gates.cover(&hit.path)
                || self.reading(|_| {}, |view| view.is_open(&hit.path)).await?);
        Ok(Vec::from_iter(is_shown.then(|| hit.clone())))
    }

    fn lowering(&self) -> Box<dyn Lowering> {
        Box::new(StoreLowering(Store {
            id: self.store_id(),
            fs: Arc::new(self.clone()),
            within: self.reach.within.clone(),
            gates: self.reach.gates.all(),
            keys: Some(KeySpace::new(&self.inner, self.reach.owner.clone())),
            registry: Some(self.inner.registry.clone()),
        }))
    }

    /// As the default, without a lowering: each call of an agent asks.
    fn keeps_path(&self, _: &TreePath) -> bool {
        true
    }

    fn link_root(&self, _: &TreePath) -> TreePath {
        TreePath::root()
    }
}
