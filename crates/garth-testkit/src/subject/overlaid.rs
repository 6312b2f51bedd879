//! Subjects that are an overlay over an empty directory: the tests of a complete tree run on its upper layer.

use std::sync::Arc;

use garth_engine::engine::memory::MemoryFs;
use garth_engine::model::Ino;
use garth_engine::view::{Overlay, Scope};
use garth_engine::{Env, FileSystem, FileSystemExt};

use crate::subject::{START, Store, Subject};
use crate::tools::p;

impl Subject {
    /// Returns an overlay whose upper layer is a directory of this subject. The lower layer is a directory of
    /// the same store, or of another one.
    ///
    /// # Panics
    /// If it cannot be created.
    pub async fn overlaid(mut self, one_store: bool) -> Self {
        self.clock.set(START.plus_seconds(-86_400));
        for dir in ["/below", "/above"] {
            self.fs.mkdir_all(dir).await.expect("a directory is made");
        }
        let fs = overlay(&*self.fs, one_store).await;
        // The inode of the next node of the upper layer is known only by creating one.
        let last = fs.mkdir_all("/last").await.expect("a directory is made");
        fs.remove("/last").await.expect("it is removed");
        self.next = Ino(last.ino.0 + 1);
        self.clock.set(START);
        self.store = Store::Absent;
        self.head = fs.head().await.expect("a head").seq;
        self.fs = fs;
        self.on_reopening(move |fs| Box::pin(async move { overlay(&*fs, one_store).await }))
    }
}

async fn overlay(fs: &dyn FileSystem, one_store: bool) -> Arc<dyn FileSystem> {
    let scope = async |dir| Scope::open(fs, &p(dir)).await.expect("a scope");
    let below: Arc<dyn FileSystem> = match one_store {
        true => scope("/below").await,
        false => Arc::new(MemoryFs::new(Env::system(), garth_engine::rule::sample::registry())),
    };
    Overlay::open(below, scope("/above").await).await.expect("an overlay")
}
