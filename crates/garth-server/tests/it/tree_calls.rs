//! Calls on the files of a tree, compared with the same methods of the library on the same store.

mod commits;
mod du;
mod methods;
mod operations;
mod paging;
mod reads;
mod restores;

use std::sync::Arc;

use futures::executor::block_on;
use garth_engine::model::{Batch, Commit, Confinement, Op, Owner, SetAttrs, Within};
use garth_engine::{FileSystem, TreePath};
use serde_json::{Value, json};

use super::harness::{Reply, Server};

/// A server, and the tree that its key with all scopes opens.
struct World {
    server: Server,
    fs: Arc<dyn FileSystem>,
}

impl World {
    /// Starts a server with an empty account.
    fn empty() -> Self {
        let server = Server::start();
        let account = block_on(server.home.account("acme")).unwrap();
        let to = Confinement::new(Within::everything(), Owner::new("files").unwrap());
        let fs = block_on(account.confined(&to)).unwrap();
        Self { server, fs }
    }

    /// Starts a server with files that have a past. The snapshot `before` is of the state between.
    fn new() -> Self {
        let world = Self::empty();
        let attrs = SetAttrs::new().tags(["plan", "old"]).metadata("due", "2026-02").mode(0o640);
        world.commit([
            Op::write(path("/notes/a.md"), "one\ntwo\nthree\n").with_parents().with_attrs(attrs),
            Op::write(path("/notes/b.md"), "four \"five\"\n"),
            Op::write(path("/notes/sub/c.md"), "six\n").with_parents(),
            Op::write(path("/bin"), b"\xff\x00\xfe".to_vec()),
            Op::symlink(path("/link"), "notes/a.md"),
            Op::symlink(path("/dir"), "notes"),
        ]);
        world.commit([Op::append(path("/notes/a.md"), "four\n")]);
        world.commit([Op::snapshot("before")]);
        let attrs = SetAttrs::new().tags(["plan"]).metadata("due", "2026-03");
        world.commit([
            Op::write(path("/notes/a.md"), "one\n2\nthree\nfour\n"),
            Op::rename(path("/notes/b.md"), path("/notes/d.md")),
            Op::set_attrs(path("/notes/d.md"), attrs),
            Op::remove_tree(path("/notes/sub")),
            Op::link(path("/notes/a.md"), path("/again.md")),
        ]);
        world
    }

    fn commit(&self, ops: impl IntoIterator<Item = Op>) -> Commit {
        block_on(self.fs.commit(Batch::new(ops))).unwrap()
    }

    /// Sends a call that must succeed.
    fn ok(&self, call: &str, body: &Value) -> Value {
        self.server.ok(&format!("tree/{call}"), body.to_string())
    }

    /// Sends a call.
    fn post(&self, call: &str, body: &Value) -> Reply {
        self.server.post(&format!("tree/{call}"), body.to_string())
    }

    /// Returns the inode of a path.
    fn ino(&self, text: &str) -> u64 {
        block_on(self.fs.stat(&path(text).into())).unwrap().ino.0
    }
}

fn path(text: &str) -> TreePath {
    TreePath::parse(text).unwrap()
}

/// Returns the fields of both objects.
fn with(one: &Value, more: Value) -> Value {
    let (mut all, Value::Object(more)) = (one.clone(), more) else { panic!("no object") };
    all.as_object_mut().unwrap().extend(more);
    all
}

/// Returns a body without its text, for a read of a path at a moment.
fn at(moment: Option<&str>, body: Value) -> Value {
    match moment {
        Some(moment) => with(&body, json!({"at": moment})),
        None => body,
    }
}
