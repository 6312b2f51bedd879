//! Cost of reads of the log, counted in steps of SQLite, at two sizes of data that they do not ask for.

use std::sync::Arc;

use futures::executor::block_on;
use tempfile::TempDir;

use crate::engine::sqlite::query::read_view::ReadView;
use crate::engine::sqlite::tables::{commit_log, idempotency};
use crate::engine::sqlite::{SqliteFs, schema};
use crate::env::Env;
use crate::fs::FileSystem;
use crate::model::{
    Author, Batch, Changes, ChangesQuery, CommitId, LogPosition, MAX_SCANNED, Op, Seq, SessionOf, SetAttrs,
    Timestamp,
};
use crate::path::TreePath;
use crate::sqlite::{DbResult, steps};

/// The two sizes.
const SIZES: [u64; 2] = [100, 1000];

struct Account {
    fs: Arc<SqliteFs>,
    folder: TempDir,
}

fn account() -> Account {
    let folder = tempfile::tempdir().unwrap();
    let fs = SqliteFs::open(folder.path(), Env::system(), crate::rule::sample::registry()).unwrap();
    Account { fs, folder }
}

impl Account {
    /// Commits batches, and waits for the last only to be durable. Returns its sequence number.
    fn commit(&self, batches: impl IntoIterator<Item = Batch>) -> Seq {
        let mut last = Seq(0);
        for batch in batches {
            last = block_on(self.fs.commit(batch.visible())).unwrap().seq;
        }
        last
    }

    fn apply(&self, ops: impl IntoIterator<Item = Op>) -> Seq {
        self.commit(ops.into_iter().map(Batch::from))
    }

    /// Returns the result of a read, and the number of its steps.
    fn count<T>(&self, read: impl FnOnce(&ReadView<'_>) -> DbResult<T>) -> (T, u64) {
        let conn = schema::database(self.folder.path()).connect().unwrap();
        let (answer, steps) = steps::here(|| read(&self.fs.view_on(&conn, None).unwrap()));
        (answer.unwrap(), steps)
    }

    fn changes(&self, query: &ChangesQuery) -> (Changes, u64) {
        self.count(|view| view.changes(query))
    }
}

fn path(text: &str) -> TreePath {
    TreePath::parse(text).unwrap()
}

fn append(to: &str) -> Op {
    Op::append(path(to), "x").with_parents()
}

/// Asserts that a cost is the same for both sizes.
#[track_caller]
fn assert_same(cost: impl Fn(u64) -> u64) {
    steps::assert_same(SIZES, cost);
}

#[test]
fn changes_cost_ignores_length_of_log() {
    assert_same(|size| {
        let account = account();
        let before = account.apply((0..size).map(|_| append("/f")));
        account.apply((0..10 + size).map(|_| append("/g")));
        let (page, steps) = account.changes(&ChangesQuery::since(before).limit(10));
        assert_eq!(page.until.seq, Seq(before.0 + 10));
        steps
    });
}

#[test]
fn changes_cost_ignores_size_of_commit() {
    assert_same(|size| {
        let account = account();
        // Enough changes for many pieces.
        let ops = (0..size * 50).map(|_| Op::set_attrs(path("/"), SetAttrs::default()));
        account.commit([Batch::new(ops)]);
        let query = ChangesQuery {
            since: LogPosition { seq: Seq(0), changes: size * 40 },
            ..ChangesQuery::default()
        };
        let (page, steps) = account.changes(&query.limit(10));
        assert_eq!((page.commits[0].changes.len(), page.until.changes), (10, size * 40 + 10));
        steps
    });
}

#[test]
fn changes_cost_ignores_later_names() {
    assert_same(|size| {
        let account = account();
        let before = account.apply([append("/0"), append("/other")]);
        account.apply([append("/0")]);
        let rename = |number: u64| Op::rename(path(&format!("/{number}")), path(&format!("/{}", number + 1)));
        account.apply((0..size).map(rename));
        let (page, steps) = account.changes(&ChangesQuery::since(before).limit(1));
        assert_eq!(page.commits[0].changes[0].paths, [path("/0")]);
        steps
    });
}

#[test]
fn changes_cost_ignores_later_nodes_of_top() {
    assert_same(|size| {
        let account = account();
        let before = account.apply([Op::mkdir(path("/a")), Op::mkdir(path("/z"))]);
        account.apply([Op::rename(path("/a"), path("/b"))]);
        account.apply((0..size).flat_map(|_| [Op::mkdir(path("/b/top")), Op::remove(path("/b/top"))]));
        let query = ChangesQuery::since(before).within(path("/b/top")).limit(1);
        let (page, steps) = account.changes(&query);
        assert_eq!(page.commits[0].commit.seq, Seq(before.0 + 2), "what was not there did not come");
        steps
    });
}

#[test]
fn changes_of_subtree_scan_a_bounded_part() {
    steps::assert_same([1, 3], |size| {
        let account = account();
        account.apply([append("/in/f"), append("/out")]);
        let start = block_on(account.fs.head()).unwrap().seq;
        let ops = (0..size * MAX_SCANNED as u64).map(|_| Op::set_attrs(path("/out"), SetAttrs::default()));
        account.commit([Batch::new(ops)]);
        let (page, steps) = account.changes(&ChangesQuery::since(start).within(path("/in")));
        assert_eq!((page.commits.len(), page.until.changes), (0, MAX_SCANNED as u64 / 2));
        steps
    });
}

#[test]
fn commit_lookup_cost_ignores_length_of_log() {
    let id = CommitId(7);
    assert_same(|size| {
        let account = account();
        let record = crate::model::Idempotency::new("k", [1; 32], Timestamp(i64::MAX));
        account.commit([Batch::from(append("/f")).id(id).idempotency(record)]);
        let named = |number: u64| Batch::from(append("/f")).id(CommitId(u128::from(number) << 64));
        account.commit((1..size).map(named));
        let (by_id, first) = account.count(|view| commit_log::committed(view.conn, "", id));
        let (by_key, second) = account.count(|view| idempotency::get(view.conn, "", "k"));
        assert_eq!(by_key.map(|row| row.commit), by_id);
        first + second
    });
}

#[test]
fn session_changes_cost_ignores_other_sessions() {
    assert_same(|size| {
        let account = account();
        let said = |session: &str, at: u64| {
            let author = Author::agent("coder").with_user("ann").with_session(session);
            Batch::new([append(&format!("/{session}-{at}"))]).author(author)
        };
        account.commit([said("ours", 0)]);
        account.commit((0..size).map(|at| said("theirs", at)));
        // The commits of the other session are between the two.
        account.commit([said("ours", 1)]);
        let [user, agent, session] = ["ann", "coder", "ours"].map(str::to_owned);
        let query = ChangesQuery::default().session(SessionOf { user, agent, session });
        let (page, steps) = account.changes(&query);
        let paths: Vec<_> = page.commits.iter().flat_map(|commit| commit.changes[0].paths.clone()).collect();
        assert_eq!(paths, [path("/ours-0"), path("/ours-1")]);
        // Commits of others do not have to be read again.
        assert_eq!(page.until.seq, page.head);
        steps
    });
}

#[test]
fn audience_session_is_found_by_its_audience() {
    let account = account();
    let said = |author: Author, at: &str| Batch::new([append(at)]).author(author.with_session("work"));
    let group = Author::agent("coder").with_user("ann").with_audience(":slack:c1");
    account.commit([said(group, "/group"), said(Author::agent("coder").with_user("ann"), "/own")]);
    for (audience, only) in [("ann", "/own"), (":slack:c1", "/group")] {
        let [user, agent, session] = [audience, "coder", "work"].map(str::to_owned);
        let of = SessionOf { user, agent, session };
        let (page, _) = account.changes(&ChangesQuery::default().session(of.clone()));
        let found: Vec<_> = page.commits.iter().flat_map(|commit| commit.changes[0].paths.clone()).collect();
        assert_eq!(found, [path(only)], "{audience}");
        assert!(page.commits.iter().all(|commit| of.is_of(&commit.commit.author)), "as without an index");
    }
}
