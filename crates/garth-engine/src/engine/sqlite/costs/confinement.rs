//! Cost of judging an inode, counted in steps of SQLite, at two sizes of data that is not asked for.

use std::sync::Arc;

use futures::executor::block_on;
use tempfile::TempDir;

use crate::engine::sqlite::query::read_view::ReadView;
use crate::engine::sqlite::{SqliteFs, schema};
use crate::env::Env;
use crate::fs::FileSystem;
use crate::model::{At, Batch, Confinement, HistoryPage, Ino, NamesPage, Op, Owner, Page, WalkPage, Within};
use crate::path::TreePath;
use crate::sqlite::{DbResult, steps};

fn path(text: &str) -> TreePath {
    TreePath::parse(text).unwrap()
}

struct Account {
    fs: Arc<SqliteFs>,
    confined: SqliteFs,
    folder: TempDir,
}

/// Node 3 has a name in `/in`, and others in `/out`.
fn account() -> Account {
    account_within(Within::new([path("/in")]))
}

fn account_within(within: Within) -> Account {
    let folder = tempfile::tempdir().unwrap();
    let fs = SqliteFs::open(folder.path(), Env::system(), crate::rule::sample::registry()).unwrap();
    let ops = [Op::mkdir(path("/in")), Op::write(path("/in/f"), "x"), Op::mkdir(path("/out"))];
    block_on(fs.commit(Batch::new(ops))).unwrap();
    let to = Confinement::new(within, Owner::new("view").unwrap());
    let reach = Arc::new(fs.reach.confined(&to).unwrap());
    let confined = SqliteFs { reach, ..SqliteFs::clone(&fs) };
    Account { fs, confined, folder }
}

impl Account {
    fn apply(&self, ops: impl IntoIterator<Item = Op>) {
        for op in ops {
            block_on(self.fs.commit(Batch::from(op).visible())).unwrap();
        }
    }

    /// Returns the steps of a read of the confined handle.
    fn count<T>(&self, read: impl FnOnce(&ReadView<'_>) -> DbResult<T>) -> u64 {
        let conn = schema::database(self.folder.path()).connect().unwrap();
        let (answer, steps) = steps::here(|| read(&self.confined.view_on(&conn, None).unwrap()));
        answer.unwrap();
        steps
    }
}

#[track_caller]
fn assert_same(cost: impl Fn(u64) -> u64) {
    steps::assert_same([100, 1000], cost);
}

#[test]
fn inode_check_cost_ignores_names_outside_reach() {
    let node = At::Node(Ino(3));
    assert_same(|size| {
        let account = account();
        account.apply([Op::mkdir(path("/a"))]);
        for dir in ["/a", "/out"] {
            account.apply((0..size).map(|n| Op::link(path("/in/f"), path(&format!("{dir}/{n}")))));
        }
        account.count(|view| view.at(&node))
            + account.count(|view| view.names_page(&node, &NamesPage::default()))
    });
}

#[test]
fn history_cost_ignores_versions_out_of_reach() {
    assert_same(|size| {
        let account = account();
        // All versions but the first and the last ones are made out of reach.
        account.apply([Op::rename(path("/in/f"), path("/out/f"))]);
        account.apply((0..size).map(|_| Op::append(path("/out/f"), "x")));
        account.apply([Op::rename(path("/out/f"), path("/in/g")), Op::append(path("/in/g"), "x")]);
        let page = HistoryPage::default().limit(10);
        account.count(|view| {
            let shown = view.history(&At::Path(path("/in/g")), &page)?.items;
            assert_eq!(shown.len(), 3, "since it came, and what it was before it left");
            Ok(())
        })
    });
}

/// `/in` without `/in/out`, but with `/in/out/own`. More entries follow the excluded ones.
fn account_without() -> Account {
    let within = Within::new([path("/in")]).without([path("/in/out")]).with([path("/in/out/own")]);
    let account = account_within(within);
    account.apply([Op::mkdir(path("/in/out")), Op::mkdir(path("/in/out/deep")), Op::mkdir(path("/in/z"))]);
    account.apply([Op::write(path("/in/z/f"), "x"), Op::write(path("/in/out/own/f"), "x").with_parents()]);
    account
}

#[test]
fn walk_cost_ignores_excluded_entries() {
    let dir = At::Path(path("/in"));
    assert_same(|size| {
        let account = account_without();
        account.apply((0..size).map(|n| Op::write(path(&format!("/in/out/{n}")), "x")));
        account.apply((0..size).map(|n| Op::write(path(&format!("/in/out/deep/{n}")), "x")));
        account.count(|view| {
            let page = WalkPage::default().limit(10);
            let walk = view.walk(&dir, &page)?;
            assert_eq!((walk.items.len(), walk.more), (3, false), "two and what is behind");
            assert_eq!(view.walk(&dir, &page.with_entries())?.items.len(), 3);
            assert_eq!(view.list(&dir, &Page::default().limit(10))?.items.len(), 2);
            Ok(())
        })
    });
}

#[test]
fn inode_check_cost_ignores_excluded_names() {
    let node = At::Node(Ino(3));
    assert_same(|size| {
        let account = account_without();
        account.apply((0..size).map(|n| Op::link(path("/in/f"), path(&format!("/in/out/{n}")))));
        // The last name in order, after all that are left out.
        account.apply([Op::link(path("/in/f"), path("/in/out/own/g"))]);
        account.count(|view| {
            view.at(&node)?;
            let names = view.names_page(&node, &NamesPage::default())?.items;
            assert_eq!(names, [path("/in/f"), path("/in/out/own/g")]);
            Ok(())
        })
    });
}
