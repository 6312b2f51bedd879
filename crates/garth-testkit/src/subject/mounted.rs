//! Subjects that are a part of a mounted tree: the tests of a complete tree run on what a mount shows.

use std::sync::Arc;

use garth_engine::engine::memory::MemoryFs;
use garth_engine::model::{Ino, Owner};
use garth_engine::view::{Mount, Scope};
use garth_engine::{Env, FileSystem, FileSystemExt};

use crate::subject::{START, Store, Subject};
use crate::tools::{given, p, write};

/// Part of a mounted tree under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The complete tree: a directory of the base, and nothing else.
    Root,
    /// Another directory of the base than the root, mounted below a directory that does not exist.
    Directory,
    /// A directory of the base inside one that is shown elsewhere, so that its inodes are marked.
    Twice,
}

const ONE: &str = "/tenant/one";
const TWO: &str = "/tenant/two";
const INSIDE: &str = "/tenant/two/inside";

impl Subject {
    /// Returns a part of a tree that is composed of directories of this subject and of another filesystem.
    ///
    /// # Panics
    /// If the tree cannot be created.
    pub async fn mounted(mut self, part: Part) -> Self {
        self.clock.set(START.plus_seconds(-86_400));
        // The root of the part is created last, like the root of a new tree.
        let roots: &[&str] = match part {
            Part::Root => &[TWO, ONE],
            Part::Directory => &[ONE, TWO],
            Part::Twice => &[ONE, TWO, INSIDE],
        };
        for root in roots {
            given(&*self.fs, [write(&format!("{root}b"), "canary").with_parents()]).await;
            let made = self.fs.mkdir_all(*root).await.expect("a directory is made");
            self.next = Ino(made.ino.0 + 1);
        }
        let tree = tree(&*self.fs, part).await;
        if part == Part::Twice {
            let shown = tree.1.expect("the root of the part is shown by a number");
            self.next = Ino(shown.0 + 1);
        }
        self.fs = tree.0;
        self.clock.set(START);
        self.store = Store::Absent;
        self.head = self.fs.head().await.expect("a head").seq;
        self.on_reopening(move |fs| Box::pin(async move { tree_of(&*fs, part).await }))
    }
}

async fn tree_of(fs: &dyn FileSystem, part: Part) -> Arc<dyn FileSystem> {
    tree(fs, part).await.0
}

/// Returns the part, and the inode of its root in the complete tree.
async fn tree(fs: &dyn FileSystem, part: Part) -> (Arc<dyn FileSystem>, Option<Ino>) {
    let owner = Owner::new("tree").expect("a label");
    let builder = Mount::builder(fs, &p(ONE), owner);
    if part == Part::Root {
        return (builder.open().await.expect("a tree"), None);
    }
    let other = Arc::new(MemoryFs::new(Env::system(), garth_engine::rule::sample::registry()));
    other.write("/elsewhere", "canary").await.expect("an empty tree takes a file");
    let builder = builder.directory(p("/in/a"), p(TWO)).mount(p("/in/o"), other);
    let (builder, shown) = match part {
        Part::Twice => (builder.directory(p("/in/t"), p(INSIDE)), "/in/t"),
        Part::Root | Part::Directory => (builder, "/in/a"),
    };
    let tree = builder.open().await.expect("a tree");
    let ino = tree.entry(shown).await.expect("it is shown").ino;
    (Scope::open(&*tree, &p(shown)).await.expect("a scope of a part"), Some(ino))
}
