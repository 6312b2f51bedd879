//! What each call costs, in steps of SQLite's machine, beside few and beside many of everything that it does
//! not ask for. Steps and not time: they are the same on every run and machine. `docs/semantics.md` has the
//! table.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures::executor::block_on;
use tempfile::TempDir;

use super::SqliteFs;
use crate::env::Env;
use crate::fs::FileSystem;
use crate::model::{
    At, Batch, ByteRange, HistoryPage, Moment, NamesPage, Op, Page, Seq, SetAttrs, SnapshotsPage, VersionId,
    WalkPage,
};
use crate::path::TreePath;
use crate::sqlite::steps;

/// Few and many of what a test lets grow.
const FEW: usize = 20;
const MANY: usize = 2000;

/// How much more a call may take beside many: a look-up at each level of the tree of commits that is higher
/// by log₂(2000/20) < 7, each of them some 40 steps.
const MORE: u64 = 7 * 40;

struct Account {
    fs: std::sync::Arc<SqliteFs>,
    _folder: TempDir,
    /// The commit before anything grew.
    start: Seq,
}

fn path(path: &str) -> TreePath {
    TreePath::parse(path).expect("a canonical path")
}

fn at(text: &str) -> At {
    At::Path(path(text))
}

impl Account {
    /// A small tree, and what `grow` adds to it, one commit for each of its batches.
    fn grown(batches: impl IntoIterator<Item = Vec<Op>>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let fs = SqliteFs::open(folder.path(), Env::system()).expect("an account");
        let account = Self { fs, _folder: folder, start: Seq(3) };
        let files = (0..30).map(|n| Op::write(path(&format!("/d/sub/{n:02}")), "some text\n").with_parents());
        account.commit(files);
        account.commit([
            Op::write(path("/d/f"), "first\n"),
            Op::link(path("/d/f"), path("/hard")),
            Op::write(path("/big"), Bytes::from(vec![b'x'; 300_000])),
            Op::write(path("/other"), "other\n"),
            Op::write(path("/moving"), "moving\n"),
            Op::snapshot("kept"),
        ]);
        account.commit([Op::append(path("/d/f"), "second\n")]);
        for batch in batches {
            account.commit(batch);
        }
        // work on the search index would be counted with whatever runs beside it; the commit waits for its end
        account.fs.inner.writer.stop_chores();
        account.commit([Op::write(path("/last"), "last\n")]);
        account
    }

    fn commit(&self, ops: impl IntoIterator<Item = Op>) {
        let mut batch = Batch::new(ops);
        batch.durability = crate::model::Durability::Visible;
        block_on(self.fs.commit(batch)).expect("a commit");
    }

    fn reads(&self) -> BTreeMap<&'static str, u64> {
        let fs = &*self.fs;
        let then = block_on(fs.as_of(&Moment::Seq(self.start))).expect("a past");
        let ino = block_on(fs.stat(&at("/other"))).expect("an entry").ino;
        let version = VersionId { seq: Seq(2), ino };
        let open = block_on(fs.open(&at("/other"))).expect("a file");
        let few = ByteRange { offset: 150_000, length: 1000 };
        let (page, walk) =
            (Page::default().limit(10).with_entries(), WalkPage::default().limit(10).with_entries());
        let (names, snapshots) = (NamesPage::default().limit(10), SnapshotsPage::default().limit(10));
        let newest = HistoryPage::default().limit(5);
        let oldest = newest.clone().before_commit(Seq(3));
        let mut took = BTreeMap::new();
        let mut count = |name, call: &dyn Fn() -> crate::Result<()>| {
            took.insert(name, steps::of_call(|_| call().expect("an answer")));
        };
        count("head", &|| block_on(fs.head()).map(drop));
        count("stat", &|| block_on(fs.stat(&at("/d/f"))).map(drop));
        count("stat of a node", &|| block_on(fs.stat(&At::Node(ino))).map(drop));
        count("stat of a child", &|| {
            let name = crate::path::Name::parse("f")?;
            block_on(fs.stat(&At::Child(block_on(fs.stat(&at("/d")))?.ino, name))).map(drop)
        });
        count("names", &|| block_on(fs.names(&at("/hard"), &names)).map(drop));
        count("list", &|| block_on(fs.list(&at("/d/sub"), &page)).map(drop));
        count("walk", &|| block_on(fs.walk(&at("/d/sub"), &walk)).map(drop));
        count("fetch", &|| block_on(fs.fetch(&at("/other"), ByteRange::ALL)).map(drop));
        count("fetch of a range", &|| block_on(fs.fetch(&at("/big"), few)).map(drop));
        count("open", &|| block_on(fs.open(&at("/other"))).map(drop));
        count("open_version", &|| block_on(fs.open_version(version)).map(drop));
        count("read_at", &|| block_on(open.read_at(0, 100)).map(drop));
        count("history", &|| block_on(fs.history(&at("/d/f"), &newest)).map(drop));
        count("history of a node", &|| block_on(fs.history(&At::Node(ino), &newest)).map(drop));
        count("history from a version", &|| block_on(fs.history(&at("/d/f"), &oldest)).map(drop));
        count("as_of", &|| block_on(fs.as_of(&Moment::Seq(self.start))).map(drop));
        count("as_of a time", &|| block_on(fs.as_of(&Moment::Time(crate::model::Timestamp(1)))).map(drop));
        count("as_of a snapshot", &|| block_on(fs.as_of(&Moment::Snapshot("kept".into()))).map(drop));
        count("snapshots", &|| block_on(fs.snapshots(&snapshots)).map(drop));
        count("past stat", &|| block_on(then.stat(&at("/d/f"))).map(drop));
        count("past names", &|| block_on(then.names(&at("/hard"), &names)).map(drop));
        count("past list", &|| block_on(then.list(&at("/d"), &page)).map(drop));
        count("past walk", &|| block_on(then.walk(&at("/d"), &walk)).map(drop));
        count("past fetch", &|| block_on(then.fetch(&at("/d/f"), ByteRange::ALL)).map(drop));
        count("past fetch of a range", &|| block_on(then.fetch(&at("/big"), few)).map(drop));
        count("past history", &|| block_on(then.history(&at("/d/f"), &newest)).map(drop));
        took
    }

    /// Each write is of something of its own, so that one does not change what another costs.
    fn writes(&self) -> BTreeMap<&'static str, u64> {
        let mut took = BTreeMap::new();
        let mut count = |name, op: &dyn Fn(u32) -> Op| {
            took.insert(name, steps::of_call(|n| self.commit([op(n)])));
        };
        count("write", &|n| Op::write(path(&format!("/d/new-{n}")), "new\n"));
        count("write over", &|n| Op::write(path("/d/f"), format!("{n}\n")));
        count("append", &|n| Op::append(path("/big"), format!("{n}\n")));
        count("patch", &|n| Op::patch(path("/big"), 150_000, format!("{n}\n")));
        count("truncate", &|n| Op::truncate(path("/other"), n.into()));
        count("mkdir", &|n| Op::mkdir(path(&format!("/d/dir-{n}"))));
        count("symlink", &|n| Op::symlink(path(&format!("/d/symlink-{n}")), "f"));
        count("link", &|n| Op::link(path("/other"), path(&format!("/d/link-{n}"))));
        count("rename", &|n| Op::rename(path(&format!("/d/link-{n}")), path(&format!("/d/moved-{n}"))));
        count("exchange", &|_| Op::exchange(path("/d/moved-1"), path("/d/new-1")));
        count("copy", &|n| Op::copy(path("/d/new-2"), path(&format!("/d/copy-{n}"))));
        count("set attributes", &|n| Op::set_attrs(path("/other"), SetAttrs::new().tags([n.to_string()])));
        count("remove", &|n| Op::remove(path(&format!("/d/copy-{n}"))));
        count("rename a directory", &|n| {
            Op::rename(path(&format!("/d/dir-{n}")), path(&format!("/d/gone-{n}")))
        });
        count("remove a tree", &|n| Op::remove_tree(path(&format!("/d/gone-{n}"))));
        count("snapshot", &|n| Op::snapshot(format!("snapshot-{n}")));
        took
    }
}

/// Compares all calls beside few and beside many of what `grow` makes so many of; those in `but` ask for what
/// grows.
#[track_caller]
fn assert_same_cost<B: IntoIterator<Item = Vec<Op>>>(grow: impl Fn(usize) -> B, but: &[&str]) {
    let [few, many] = [FEW, MANY].map(|count| Account::grown(grow(count)));
    let reads = (few.reads(), many.reads());
    let writes = (few.writes(), many.writes());
    let mut dearer = Vec::new();
    for (few, many) in [reads, writes] {
        for (call, few) in few {
            let many = many[call];
            if many > few + few / 4 + MORE && !but.contains(&call) {
                dearer.push(format!("{call}: {few} steps beside {FEW}, {many} beside {MANY}"));
            }
        }
    }
    assert!(dearer.is_empty(), "{dearer:#?}");
}

fn each(count: usize, op: impl Fn(usize) -> Vec<Op>) -> impl Iterator<Item = Vec<Op>> {
    (0..count).map(op)
}

#[test]
fn no_call_costs_more_beside_many_versions_of_a_file() {
    assert_same_cost(|count| each(count, |n| vec![Op::write(path("/d/f"), format!("{n}\n"))]), &[]);
}

#[test]
fn no_call_costs_more_beside_many_extents_of_a_file() {
    let grow =
        |count| each(1, move |_| (0..count).map(|n| Op::append(path("/big"), format!("{n}\n"))).collect());
    assert_same_cost(grow, &[]);
}

#[test]
fn no_call_costs_more_beside_many_commits() {
    assert_same_cost(|count| each(count, |n| vec![Op::write(path("/elsewhere"), format!("{n}\n"))]), &[]);
}

#[test]
fn no_call_costs_more_beside_many_names() {
    let grow = |count| {
        each(1, move |_| {
            let beside = (0..count).map(|n| Op::write(path(&format!("/d/x{n}")), "x"));
            let before = (0..count).map(|n| Op::write(path(&format!("/a/x{n}/y")), "x").with_parents());
            before.chain(beside).collect()
        })
    };
    // the names that a directory got later are passed over while they live
    assert_same_cost(grow, &["past list", "past walk"]);
}

#[test]
fn no_call_costs_more_beside_many_names_that_are_gone() {
    // two at a time: what was there at a few other commits is looked at, too
    let grow = |count| {
        each(count, |n| {
            let names = [0, 1].map(|m| path(&format!("/d/e{}-{m}", n / 2)));
            match n % 2 {
                0 => names.map(|name| Op::write(name, "x")).into(),
                _ => names.map(Op::remove).into(),
            }
        })
    };
    assert_same_cost(grow, &[]);
}

#[test]
fn no_call_costs_more_beside_many_lives_of_a_path() {
    let grow = |count| {
        each(count, |n| match n % 2 {
            0 => vec![Op::remove(path("/d/f"))],
            _ => vec![Op::write(path("/d/f"), "again")],
        })
    };
    assert_same_cost(grow, &[]);
}

#[test]
fn no_call_costs_more_beside_many_nodes_that_were_moved_to_a_path() {
    let grow = |count| {
        each(count, |n| match n % 2 {
            0 => vec![Op::write(path("/d/tmp"), format!("{n}\n"))],
            _ => vec![Op::rename(path("/d/tmp"), path("/d/f"))],
        })
    };
    assert_same_cost(grow, &[]);
}

#[test]
fn no_call_costs_more_beside_many_past_names_of_a_node() {
    let grow = |count| {
        each(count, |n| match n % 2 {
            0 => vec![
                Op::rename(path("/other"), path(&format!("/o{n}"))),
                Op::rename(path("/d/f"), path("/d/g")),
            ],
            _ => vec![
                Op::rename(path(&format!("/o{}", n - 1)), path("/other")),
                Op::rename(path("/d/g"), path("/d/f")),
            ],
        })
    };
    assert_same_cost(grow, &[]);
}

#[test]
fn no_call_costs_more_beside_many_snapshots() {
    let grow = |count| each(1, move |_| (0..count).map(|n| Op::snapshot(format!("s{n}"))).collect());
    assert_same_cost(grow, &[]);
}

#[test]
fn a_batch_of_many_names_in_a_directory_writes_its_node_once() {
    for names in [FEW, MANY] {
        let account = Account::grown([]);
        let versions = |dir: &str| -> usize {
            let sql =
                "SELECT count(*) FROM node WHERE ino = (SELECT ino FROM name WHERE dir = '' AND name = ?1)";
            let pool = &account.fs.inner.pool;
            pool.with(|conn| Ok(conn.query_row(sql, [dir], |row| row.get(0))?)).expect("a count")
        };
        let before = versions("d");
        assert!(before > 0);
        let made = (0..names).map(|n| Op::write(path(&format!("/d/new-{n}")), "text"));
        account.commit(made);
        assert_eq!(versions("d"), before + 1, "{names} names");
    }
}
