//! A subject that is a part of a mounted tree: the tests of a whole tree, put to what a mount shows of it.

use std::sync::Arc;

use garth_engine::engine::memory::MemoryFs;
use garth_engine::model::{Ino, Owner};
use garth_engine::view::{Mount, Scope};
use garth_engine::{Env, FileSystem, FileSystemExt};

use crate::subject::{START, Subject};
use crate::tools::{given, p, write};

/// Part of a mounted tree that the tests are put to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it: a directory of the base, and nothing else.
    Root,
    /// A directory of the base beside the one that is the root, below a directory that nothing has made.
    Directory,
    /// A directory of the base inside one that is shown elsewhere, so that its numbers are marked.
    Twice,
}

const ONE: &str = "/tenant/one";
const TWO: &str = "/tenant/two";
const INSIDE: &str = "/tenant/two/inside";

impl Subject {
    /// A part of a tree that is made of directories of this subject, and of another filesystem.
    ///
    /// # Panics
    /// If the tree cannot be made.
    pub async fn mounted(mut self, part: Part) -> Self {
        self.clock.set(START.plus_seconds(-86_400));
        // the root of the part comes last, as the root of a new tree does
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
        self.ruled = false;
        self.head = self.fs.head().await.expect("a head").seq;
        self.on_reopening(move |fs| Box::pin(async move { tree_of(&*fs, part).await }))
    }
}

async fn tree_of(fs: &dyn FileSystem, part: Part) -> Arc<dyn FileSystem> {
    tree(fs, part).await.0
}

/// The part, and the number by which the whole tree shows its root.
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
