//! Judgements of entries, and their cost: in steps of SQLite, at two sizes of data that is hidden.

use std::sync::Arc;
use std::time::Duration;

use futures::executor::block_on;
use tempfile::TempDir;

use crate::engine::sqlite::query::read_view::ReadView;
use crate::engine::sqlite::{SqliteFs, schema};
use crate::env::Env;
use crate::error::ErrorKind;
use crate::fs::{AccountStore, FileSystem, Incoming};
use crate::model::quota::Limits;
use crate::model::{
    At, Batch, Confinement, Gate, HistoryPage, MAX_GATE_FILE, Moment, Op, Owner, Page, Seq, WalkPage, Within,
};
use crate::path::{Name, TreePath};
use crate::rule::PathPattern;
use crate::rule::retention::{ContentLimit, Retention};
use crate::rule::sample::{STATUS, registry};
use crate::sqlite::patience::Bound;
use crate::sqlite::{DbResult, steps};

const OPEN: &str = "ACTIVE";
const SHUT: &str = "PRIVATE";

fn path(text: &str) -> TreePath {
    TreePath::parse(text).unwrap()
}

fn at(text: &str) -> At {
    At::Path(path(text))
}

fn gate(keys: &[&str]) -> Gate {
    Gate {
        dir: path("/nodes"),
        file: Name::parse(".status").unwrap(),
        projection: STATUS,
        keys: keys.iter().map(|key| (*key).to_owned()).collect(),
        since: Seq(0),
    }
}

/// Returns the operations that create an entry.
fn entry(name: &str, status: &str) -> [Op; 2] {
    [(".status", status), ("log", "text")]
        .map(|(file, text)| Op::write(path(&format!("/nodes/{name}/{file}")), text.to_owned()).with_parents())
}

/// An account with entries in `/nodes`.
struct Account {
    fs: Arc<SqliteFs>,
    folder: TempDir,
}

impl Account {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let fs = SqliteFs::open(folder.path(), Env::system(), registry()).unwrap();
        let account = Self { fs, folder };
        account.apply([Op::mkdir(path("/nodes"))]);
        account
    }

    fn apply(&self, ops: impl IntoIterator<Item = Op>) {
        block_on(self.fs.commit(Batch::new(ops).visible())).unwrap();
    }

    fn put(&self, name: &str, status: &str) {
        self.apply(entry(name, status));
    }

    /// Returns a handle that sees the entries with these keys.
    fn gated(&self, keys: &[&str]) -> SqliteFs {
        let to = Confinement::new(Within::new([path("/nodes")]), Owner::new("view").unwrap());
        let reach = Arc::new(self.fs.reach.confined(&to.gated(vec![gate(keys)])).unwrap());
        SqliteFs { reach, ..SqliteFs::clone(&self.fs) }
    }

    /// Returns the steps of a read of a new handle that sees [`OPEN`] entries.
    fn count<T>(&self, read: impl FnOnce(&ReadView<'_>) -> DbResult<T>) -> u64 {
        let conn = schema::database(self.folder.path()).connect().unwrap();
        let view = self.gated(&[OPEN]);
        let (answer, steps) = steps::here(|| read(&view.view_on(&conn, None).unwrap()));
        answer.unwrap();
        steps
    }
}

#[test]
fn past_of_gated_entry_without_content_is_hidden() {
    let account = Account::new();
    account.put("a", OPEN);
    account.put("a", OPEN);
    let last = block_on(account.fs.head()).unwrap().seq;
    account.apply([Op::write(path("/nodes/a/.status"), OPEN)]);
    let shows = |seq: Seq| {
        // A new handle, which has judged nothing.
        let fs = SqliteFs::open(account.folder.path(), Env::system(), registry()).unwrap();
        let account = Account { fs, folder: tempfile::tempdir().unwrap() };
        let then = block_on(account.gated(&[OPEN]).as_of(&Moment::Seq(seq))).unwrap();
        block_on(then.stat(&at("/nodes/a/log"))).is_ok()
    };
    assert!(shows(last));
    let limit =
        ContentLimit { pattern: PathPattern::parse("/nodes/*/.status").unwrap(), keep: Duration::ZERO };
    block_on(account.fs.set_retention(Retention { content: vec![limit], ..Retention::default() })).unwrap();
    block_on(account.fs.gc(Duration::ZERO)).unwrap();
    assert!(!shows(last), "what decided then is not known any more");
    assert!(shows(Seq(last.0 + 1)));
}

#[test]
fn listing_cost_ignores_hidden_entries() {
    steps::assert_same([100, 1000], |size| {
        let account = Account::new();
        account.apply(["a", "m", "z"].into_iter().flat_map(|name| entry(name, OPEN)));
        for before in ["h", "n"] {
            account.apply((0..size).flat_map(|n| entry(&format!("{before}{n:04}"), SHUT)));
        }
        account.count(|view| {
            let listed = view.list(&at("/nodes"), &Page::default().limit(10))?;
            assert_eq!((listed.items.len(), listed.more), (3, false));
            for page in [WalkPage::default().limit(20), WalkPage::default().limit(20).with_entries()] {
                let walk = view.walk(&at("/nodes"), &page)?;
                assert_eq!((walk.items.len(), walk.more), (9, false));
            }
            Ok(())
        })
    });
}

#[test]
fn listing_is_complete_with_many_open_entries() {
    // More than the index is asked for, and then fewer.
    for open in [60, 40] {
        let (account, mut ops, mut due) = (Account::new(), Vec::new(), Vec::new());
        for n in 0..180 {
            let (name, is_open) = (format!("e{n:03}"), n >= 100 && n - 100 < open);
            ops.extend(entry(&name, if is_open { OPEN } else { SHUT }));
            due.extend(is_open.then_some(name));
        }
        account.apply(ops);
        account.count(|view| {
            let listed = view.list(&at("/nodes"), &Page::default().limit(1000))?;
            assert_eq!(listed.items.iter().map(|item| item.name.as_str()).collect::<Vec<_>>(), due);
            let walk = view.walk(&at("/nodes"), &WalkPage::default().limit(1000))?;
            assert_eq!((walk.items.len(), walk.more), (3 * open, false));
            Ok(())
        });
    }
}

#[test]
fn history_cost_ignores_past_names() {
    steps::assert_same([100, 1000], |size| {
        let account = Account::new();
        account.put("a", OPEN);
        let ino = block_on(account.fs.stat(&at("/nodes/a/log"))).unwrap().ino;
        let names = ["/nodes/a/log", "/nodes/a/old"].map(path);
        for n in 0..size as usize {
            account.apply([Op::rename(names[n % 2].clone(), names[(n + 1) % 2].clone())]);
        }
        account.apply([Op::append(names[0].clone(), "more")]);
        account.count(|view| {
            let page = HistoryPage::default().limit(2);
            for at in [at("/nodes/a/log"), At::Node(ino)] {
                assert_eq!(view.history(&at, &page)?.items.len(), 2);
                view.at(&at)?;
            }
            Ok(())
        })
    });
}

#[test]
fn judgement_is_shared_by_readers_and_writer() {
    let account = Account::new();
    account.apply(["a", "b"].into_iter().flat_map(|name| entry(name, OPEN)));
    block_on(account.gated(&[OPEN]).stat(&at("/nodes/a/log"))).unwrap();
    // From now on, the files cannot be read.
    let raw = rusqlite::Connection::open(account.folder.path().join("tree.db")).unwrap();
    let damage = "UPDATE chunk SET data = zeroblob(len) WHERE data = CAST('ACTIVE' AS BLOB)";
    assert_eq!(raw.execute(damage, []).unwrap(), 2);
    let other = account.gated(&[OPEN]);
    for (name, is_known) in [("a", true), ("b", false)] {
        let log = path(&format!("/nodes/{name}/log"));
        assert_eq!(block_on(other.stat(&At::Path(log.clone()))).is_ok(), is_known, "{name}");
        assert_eq!(block_on(other.commit(Op::append(log, "!").into())).is_ok(), is_known, "{name}");
    }
    // Other keys are another question.
    assert!(block_on(account.gated(&[SHUT]).stat(&at("/nodes/a/log"))).is_err());
}

#[test]
fn too_large_file_hides_its_entry() {
    let account = Account::new();
    let most = "a".repeat(usize::try_from(MAX_GATE_FILE).unwrap());
    let more = format!("{most}a");
    account.put("fits", &most);
    account.put("large", &more);
    let view = account.gated(&[&most, &more]);
    for (name, is_seen) in [("fits", true), ("large", false)] {
        let log = path(&format!("/nodes/{name}/log"));
        assert_eq!(block_on(view.stat(&At::Path(log.clone()))).is_ok(), is_seen, "{name}");
        assert_eq!(block_on(view.commit(Op::append(log, "!").into())).is_ok(), is_seen, "{name}");
    }
}

#[test]
fn reading_gate_files_uses_the_budget() {
    let account = Account::new();
    let status = "a".repeat(60 << 10);
    account.put("a", &status);
    let view = account.gated(&[&status]);
    let read = |steps: u64| {
        view.inner.pool.read_within(Bound::Steps(steps), |conn, patience| {
            view.view_on(conn, Some(patience))?.at(&at("/nodes/a/log")).map(drop)
        })
    };
    assert!(read(1000).unwrap_err().is(ErrorKind::TimedOut));
    read(10_000).unwrap();
    // It is judged once.
    read(1000).unwrap();
}

#[test]
fn quota_errors_tell_nothing_of_hidden_entries() {
    let account = Account::new();
    account.put("a", OPEN);
    account.put("b", SHUT);
    // Content of the visible entry counts in the hidden one as well.
    account.apply([Op::link(path("/nodes/a/log"), path("/nodes/b/link"))]);
    let view = account.gated(&[OPEN]);
    let content = |growth| Incoming { size: growth, growth, room: u64::MAX, ..Incoming::default() };
    let admit = |at: At| block_on(view.admit(&at, &content(20_000))).map_err(|error| (error.kind(), error));
    for (quota, is_above, is_named) in
        [("/nodes/b", false, false), ("/nodes", true, false), ("/", true, false), ("/nodes/a", true, true)]
    {
        block_on(account.fs.set_quota(&path(quota), Limits::default().bytes(10_000))).unwrap();
        let write = Op::write(path("/nodes/a/log"), "x".repeat(20_000));
        let refused = block_on(view.commit(write.into())).unwrap_err();
        let mut errors = vec![refused];
        match admit(at("/nodes/a/log")) {
            Err((_, error)) if is_above => errors.push(error),
            admitted => assert!(admitted.is_ok() && !is_above, "{quota}: {admitted:?}"),
        }
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::QuotaExceeded, "{quota}: {error}");
            assert_eq!(error.path(), is_named.then(|| path(quota)).as_ref(), "{quota}: {error}");
            let has_numbers = error.message().contains(|letter: char| letter.is_ascii_digit());
            assert_eq!(has_numbers, is_named, "{quota}: {error}");
        }
        block_on(account.fs.remove_quota(&path(quota))).unwrap();
    }
    block_on(account.fs.set_quota(&path("/"), Limits::default().bytes(10_000))).unwrap();
    for (out, kind) in
        [("/nodes/b/x", ErrorKind::AccessDenied), ("/x", ErrorKind::NotFound), ("/", ErrorKind::NotFound)]
    {
        assert_eq!(admit(at(out)).unwrap_err().0, kind, "{out}");
        if out != "/" {
            // As the commit that would use the content.
            assert_eq!(
                block_on(view.commit(Op::write(path(out), "x".to_owned()).into())).unwrap_err().kind(),
                kind
            );
        }
    }
}
