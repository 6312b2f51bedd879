//! Subjects that are a scope: the tests of a complete tree run on a directory, in an account with canaries
//! around it.

use std::pin::Pin;
use std::sync::Arc;

use garth_engine::model::Ino;
use garth_engine::view::Scope;
use garth_engine::{FileSystem, FileSystemExt};

use crate::fs::shifted::Shifted;
use crate::subject::{Instance, Reopen, START, Store, Subject};
use crate::tools::{append, given, p, symlink, write};

/// Roots of the scopes, one inside the other. Next to each are names that look like it.
const ROOTS: [&str; 2] = ["/chat-a", "/c%_*"];

impl Subject {
    /// Returns a scope of this subject, which must be empty; `depth` nested scopes.
    ///
    /// # Panics
    /// If the scope cannot be created.
    pub async fn scoped(mut self, depth: usize) -> Self {
        // Before everything that a test does, so that its first commit is at START.
        self.clock.set(START.plus_seconds(-86_400));
        for root in &ROOTS[..depth] {
            let beside =
                [write(&format!("{root}b"), "canary"), symlink("/link", root), append("/log", "canary")];
            given(&*self.fs, beside).await;
            let made = self.fs.mkdir_all(*root).await.expect("a directory is made");
            self.next = Ino(made.ino.0 + 1);
            self.fs = Scope::open(&*self.fs, &p(root)).await.expect("a scope is opened");
        }
        self.clock.set(START);
        self.store = Store::Absent;
        self.head = self.fs.head().await.expect("a head").seq;
        self.on_reopening(move |mut fs| {
            Box::pin(async move {
                for root in &ROOTS[..depth] {
                    fs = Scope::open(&*fs, &p(root)).await.expect("a scope is opened again");
                }
                fs
            })
        })
    }

    /// Counts the inodes and sequence numbers of this subject from 1, for comparison with a fresh tree.
    ///
    /// # Panics
    /// If the root cannot be read.
    pub async fn counted_anew(mut self) -> Self {
        let last = Ino(self.next.0 - 1);
        let shifted = Arc::new(Shifted::new(Arc::clone(&self.fs), last).await.expect("there is a root"));
        self.fs = Arc::clone(&shifted) as Arc<dyn FileSystem>;
        self.on_reopening(move |fs| {
            let again: Arc<dyn FileSystem> = Arc::new(shifted.again(fs));
            Box::pin(std::future::ready(again))
        })
    }

    /// Applies `put` to the filesystem whenever it is opened again. It has an account then if it has one now.
    pub(crate) fn on_reopening(
        mut self,
        put: impl Fn(Arc<dyn FileSystem>) -> Opening + Send + Sync + Clone + 'static,
    ) -> Self {
        let has_account = self.has_account();
        self.reopen = self.reopen.map(|reopen| {
            Box::new(move || {
                let (opening, put) = (reopen(), put.clone());
                Box::pin(async move {
                    let Instance { fs, store } = opening.await;
                    let store = if has_account { store } else { Store::Absent };
                    Instance { fs: put(fs).await, store }
                }) as Pin<Box<dyn Future<Output = Instance> + Send>>
            }) as Reopen
        });
        self
    }
}

type Opening = Pin<Box<dyn Future<Output = Arc<dyn FileSystem>> + Send>>;
