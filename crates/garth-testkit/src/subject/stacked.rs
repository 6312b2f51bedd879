//! Subjects behind a random stack of views: any view may be over any other.

use std::sync::Arc;

use garth_engine::model::{Confinement, Ino, Owner, Within};
use garth_engine::view::Scope;
use garth_engine::{FileSystem, FileSystemExt};

use crate::data::random::Random;
use crate::subject::mounted::Part;
use crate::subject::{START, Store, Subject};
use crate::tools::{given, p, write};

/// A view of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// A scope of a directory.
    Scope,
    /// Part of a mounted tree.
    Part(Part),
    /// Directory through a confined handle.
    Confined,
    /// Upper layer of an overlay over an empty lower layer.
    Overlay {
        /// True if both layers are of one store.
        one_store: bool,
    },
}

/// Returns the views of a stack, the lowest first: two to five of `of`.
pub fn drawn(seed: u64, of: &[View]) -> Vec<View> {
    let mut rng = Random::new(seed);
    (0..2 + rng.below(4)).map(|_| rng.pick(of)).collect()
}

impl View {
    /// All views.
    pub const ALL: &[Self] = &[
        Self::Scope,
        Self::Part(Part::Root),
        Self::Part(Part::Directory),
        Self::Part(Part::Twice),
        Self::Confined,
        Self::Overlay { one_store: true },
        Self::Overlay { one_store: false },
    ];

    /// Views through which random operations have the same results as without them. A mount that shows a
    /// directory twice rejects some operations before the store judges those before them, and an overlay has
    /// no past.
    pub const EQUAL: &[Self] =
        &[Self::Scope, Self::Part(Part::Root), Self::Part(Part::Directory), Self::Confined];
}

const INSIDE: &str = "/room/inside";
const BESIDE: &str = "/room/beside";

impl Subject {
    /// Puts several views on this subject, the lowest first.
    ///
    /// # Panics
    /// If a view cannot be created.
    pub async fn stacked(mut self, views: &[View]) -> Self {
        for view in views {
            self = match *view {
                View::Scope => self.scoped(1).await,
                View::Part(part) => self.mounted(part).await,
                View::Overlay { one_store } => self.overlaid(one_store).await,
                View::Confined => self.inside().await,
            };
        }
        self.clock.set(START.plus_seconds(-86_400));
        // The inode of the next node, through all views, is known only by creating one.
        let last = self.fs.mkdir_all("/last").await.expect("a directory is made");
        self.fs.remove("/last").await.expect("it is removed");
        self.next = Ino(last.ino.0 + 1);
        self.clock.set(START);
        (self.store, self.slow) = (Store::Absent, true);
        self.head = self.fs.head().await.expect("a head").seq;
        self
    }

    /// Returns the directory [`INSIDE`] through a confined handle, with canaries around it.
    async fn inside(mut self) -> Self {
        self.clock.set(START.plus_seconds(-86_400));
        for dir in [BESIDE, INSIDE] {
            given(&*self.fs, [write(&format!("{dir}b"), "canary").with_parents()]).await;
            self.fs.mkdir_all(dir).await.expect("a directory is made");
        }
        self.fs = confined(self.fs).await;
        self.store = Store::Absent;
        self.on_reopening(move |fs| Box::pin(confined(fs)))
    }
}

/// Returns the directory through a handle that also reaches the one next to it.
async fn confined(fs: Arc<dyn FileSystem>) -> Arc<dyn FileSystem> {
    let owner = Owner::new("guest").expect("a label");
    let within = Within::new([p(BESIDE), p(INSIDE)]).without([p("/room/beside/hidden")]);
    let confined = fs.confined(&Confinement::new(within, owner)).await.expect("a confined handle");
    Scope::open(&*confined, &p(INSIDE)).await.expect("a scope of it")
}
