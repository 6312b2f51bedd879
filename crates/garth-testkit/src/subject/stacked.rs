//! A subject behind several views, one over the other, drawn at random: each view may stand on any other.

use std::sync::Arc;

use garth_engine::model::{Confinement, Ino, Owner, Within};
use garth_engine::view::Scope;
use garth_engine::{FileSystem, FileSystemExt};

use crate::data::random::Random;
use crate::subject::mounted::Part;
use crate::subject::{START, Subject};
use crate::tools::{given, p, write};

/// One of the views that a stack is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// A scope of a directory.
    Scope,
    /// A part of a mounted tree.
    Part(Part),
    /// Directory through a confined handle.
    Confined,
    /// The upper layer of an overlay over nothing, in one store or over another.
    Overlay {
        /// True if both layers are of one store.
        one_store: bool,
    },
}

/// The views of a stack, the lowest first: two to five of those that `of` has.
pub fn drawn(seed: u64, of: &[View]) -> Vec<View> {
    let mut rng = Random::new(seed);
    (0..2 + rng.below(4)).map(|_| rng.pick(of)).collect()
}

impl View {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self::Scope,
        Self::Part(Part::Root),
        Self::Part(Part::Directory),
        Self::Part(Part::Twice),
        Self::Confined,
        Self::Overlay { one_store: true },
        Self::Overlay { one_store: false },
    ];

    /// Views through which random operations answer what they do without. Of what is shown twice a mount
    /// refuses some things before the store judges what comes before them, and an overlay has no past.
    pub const EQUAL: &[Self] =
        &[Self::Scope, Self::Part(Part::Root), Self::Part(Part::Directory), Self::Confined];
}

const INSIDE: &str = "/room/inside";
const BESIDE: &str = "/room/beside";

impl Subject {
    /// Puts several views on this subject, the lowest first.
    ///
    /// # Panics
    /// If a view cannot be made.
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
        // what the next node will be shown by, through all of them
        let last = self.fs.mkdir_all("/last").await.expect("a directory is made");
        self.fs.remove("/last").await.expect("it is removed");
        self.next = Ino(last.ino.0 + 1);
        self.clock.set(START);
        (self.ruled, self.slow) = (false, true);
        self.head = self.fs.head().await.expect("a head").seq;
        self
    }

    /// The directory [`INSIDE`] through a confined handle, with canaries around it.
    async fn inside(mut self) -> Self {
        self.clock.set(START.plus_seconds(-86_400));
        for dir in [BESIDE, INSIDE] {
            given(&*self.fs, [write(&format!("{dir}b"), "canary").with_parents()]).await;
            self.fs.mkdir_all(dir).await.expect("a directory is made");
        }
        self.fs = confined(self.fs).await;
        self.on_reopening(move |fs| Box::pin(confined(fs)))
    }
}

/// The directory through a handle that also reaches what is beside it.
async fn confined(fs: Arc<dyn FileSystem>) -> Arc<dyn FileSystem> {
    let owner = Owner::new("guest").expect("a label");
    let within = Within::new([p(BESIDE), p(INSIDE)]).without([p("/room/beside/hidden")]);
    let confined = fs.confined(&Confinement::new(within, owner)).await.expect("a confined handle");
    Scope::open(&*confined, &p(INSIDE)).await.expect("a scope of it")
}
