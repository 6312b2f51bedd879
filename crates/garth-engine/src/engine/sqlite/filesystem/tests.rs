//! Threads that reads run on, and the time after which they end.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use futures::FutureExt;
use futures::executor::block_on;
use tempfile::TempDir;

use super::*;
use crate::engine::sqlite::tables::small_files::SMALL;
use crate::model::{
    Batch, ByteRange, FindQuery, Moment, Op, Page, Projection, SearchQuery, SetAttrs, WalkPage,
};
use crate::runtime::Limits;
use crate::sqlite::patience::{BYTES_PER_STEP, FILE};
use crate::sqlite::steps;

/// An account with this many names, on a runtime whose reads may take this long.
fn account(names: usize, read_time: Duration) -> (TempDir, Arc<SqliteFs>) {
    let folder = tempfile::tempdir().unwrap();
    let runtime = Runtime::with_limits(Env::system(), Limits { read_time, ..Limits::default() });
    let fs = SqliteFs::open_on(folder.path(), &runtime, crate::rule::sample::registry()).unwrap();
    let ops = (0..names).map(|n| Op::write(TreePath::parse(&format!("/{n:06}")).unwrap(), "some text\n"));
    block_on(fs.commit(Batch::new(ops))).unwrap();
    (folder, fs)
}

/// Returns the name of the thread on which a read of this many steps ends.
fn thread_of(fs: &SqliteFs, steps: u64) -> String {
    let name = fs.reading(&(), move |view, ()| {
        view.rows.patience.unwrap().spend_on(steps * BYTES_PER_STEP)?;
        Ok(thread::current().name().unwrap_or_default().to_owned())
    });
    block_on(name).unwrap()
}

#[test]
fn only_long_reads_leave_the_callers_thread() {
    let (_folder, fs) = account(3000, Duration::from_secs(60));
    let here = thread::current().name().unwrap_or_default().to_owned();
    assert_eq!((thread_of(&fs, SHORT / 2), thread_of(&fs, SHORT + 1)), (here, "garth-reader".to_owned()));
    // A list of 100 names or a read of a few KiB needs no thread.
    let root = At::Path(TreePath::root());
    let few = Page::default().limit(100);
    let listed = fs.list(&root, &few).now_or_never().expect("an answer at once").unwrap();
    assert_eq!(listed.items.len(), 100);
    let many = Page::default().limit(3000);
    // Counted in steps: whether the thread for long reads has finished by now depends on the machine.
    let on_this_thread = fs.inner.pool.read_within(Bound::Steps(SHORT), |conn, patience| {
        fs.view_on(conn, Some(patience))?.list(&root, &many)
    });
    assert!(on_this_thread.unwrap_err().is(ErrorKind::TimedOut));
    assert_eq!(block_on(fs.list(&root, &many)).unwrap().items.len(), 3000);
}

#[test]
fn long_list_begins_on_another_thread() {
    let (_folder, fs) = account(3000, Duration::from_secs(60));
    let root = At::Path(TreePath::root());
    for page in [Page::default().limit(3000), Page::default().limit(3000).with_entries()] {
        let (listed, steps) = steps::here(|| block_on(fs.list(&root, &page)).unwrap());
        assert_eq!(listed.items.len(), 3000);
        // This thread only counts as many names as it could list.
        assert!(steps < SHORT / 2, "{steps} steps");
    }
}

#[test]
fn list_looks_up_expiry_only_where_some_is_due() {
    const NAMES: usize = 150;
    let folder = tempfile::tempdir().unwrap();
    let (env, clock) = Env::manual(Timestamp(0));
    let fs = SqliteFs::open(folder.path(), env, crate::rule::sample::registry()).unwrap();
    let path = |n: usize| TreePath::parse(&format!("/{n:06}")).unwrap();
    let expires = SetAttrs::new().expires_at(Timestamp(0).plus_seconds(10));
    let mut ops: Vec<Op> = (0..NAMES).map(|n| Op::write(path(n), "text")).collect();
    ops.push(Op::write(path(NAMES), "text").with_attrs(expires));
    block_on(fs.commit(Batch::new(ops))).unwrap();
    let root = At::Path(TreePath::root());
    let (list, walk) = (Page::default().limit(300), WalkPage::default().limit(300));
    let read = || {
        let (listed, steps) = steps::here(|| block_on(fs.list(&root, &list)).unwrap());
        (listed.items.len(), block_on(fs.walk(&root, &walk)).unwrap().items.len(), steps as usize)
    };
    // The first call prepares the statements.
    read();
    let (listed, walked, steps) = read();
    assert_eq!((listed, walked), (NAMES + 1, NAMES + 1));
    // 8 steps to read a name. With its expiry it takes 18.
    assert!(steps < 12 * NAMES, "{steps} steps");
    clock.set(Timestamp(0).plus_seconds(10));
    let (listed, walked, steps) = read();
    assert_eq!((listed, walked), (NAMES, NAMES));
    assert!(steps > 12 * NAMES, "{steps} steps");
}

#[test]
fn fetching_many_files_begins_as_long_read() {
    const FILES: u64 = 40;
    let (_folder, fs) = account(FILES as usize, Duration::from_secs(60));
    let of = |name: u64| At::Path(TreePath::parse(&format!("/{name:06}")).unwrap());
    let items: Vec<_> = (0..FILES).map(|name| (of(name), ByteRange { offset: 0, length: 2048 })).collect();
    let steps = steps::here(|| block_on(fs.fetch_many(&items)).unwrap()).1;
    assert!((FILE * 3 / 4..=FILE * 5 / 4).contains(&(steps / FILES)), "{steps} steps");
}

#[test]
fn fetch_returns_what_read_returns() {
    let (_folder, fs) = account(1, Duration::from_secs(60));
    let path = |name: &str| TreePath::parse(name).unwrap();
    let text = |size: usize| b"0123456789".iter().copied().cycle().take(size).collect::<Vec<u8>>();
    let small = usize::try_from(SMALL).unwrap();
    let written = [
        Op::write(path("/empty"), ""),
        Op::write(path("/zeros"), ""),
        Op::write(path("/small"), text(small)),
        Op::write(path("/large"), text(small + 1)),
        Op::write(path("/appended"), "data"),
        Op::write(path("/holes"), "data"),
        Op::write(path("/cut"), text(50_000)),
        Op::write(path("/part"), ""),
    ];
    let changed = [
        Op::truncate(path("/zeros"), 100),
        Op::append(path("/appended"), "more"),
        Op::patch(path("/holes"), 1000, "data"),
        Op::truncate(path("/cut"), 10),
        Op::copy_range(path("/small"), 105, 50, path("/part"), 0),
    ];
    block_on(fs.commit(Batch::new(written))).unwrap();
    block_on(fs.commit(Batch::new(changed))).unwrap();
    for name in ["/empty", "/zeros", "/small", "/large", "/appended", "/holes", "/cut", "/part"] {
        let at = At::Path(path(name));
        for (offset, length) in [(0, u64::MAX), (0, 4), (2, 5), (45, 1 << 20), (999, 3), (1 << 40, 1)] {
            let range = ByteRange { offset, length };
            let (entry, bytes) = block_on(fs.fetch(&at, range)).unwrap();
            assert_eq!(bytes, block_on(fs.read(&at, range)).unwrap(), "{name} {offset} {length}");
            assert_eq!(entry, block_on(fs.stat(&at)).unwrap(), "{name}");
        }
    }
}

#[test]
fn fetch_of_a_small_file_takes_one_statement() {
    let (_folder, fs) = account(1, Duration::from_secs(60));
    let at = At::Path(TreePath::parse("/000000").unwrap());
    let entry = block_on(fs.stat(&at)).unwrap();
    // The first call prepares the statements.
    let steps_of = |call: &dyn Fn()| {
        call();
        steps::here(call).1
    };
    let fetch = steps_of(&|| drop(block_on(fs.fetch(&at, ByteRange::ALL)).unwrap()));
    let stat = steps_of(&|| drop(block_on(fs.stat(&at)).unwrap()));
    let read = steps_of(&|| {
        let read = |conn: &Connection| fs.view_on(conn, None)?.read(entry.ino.0, entry.size, ByteRange::ALL);
        drop(fs.inner.pool.with(read).unwrap());
    });
    assert!(fetch < stat + read, "{fetch} steps, {stat} and {read} in two statements");
}

#[test]
fn fetch_reports_damage_with_its_path() {
    let (folder, fs) = account(1, Duration::from_secs(60));
    let raw = Connection::open(folder.path().join(schema::DATABASE)).unwrap();
    assert_eq!(raw.execute("UPDATE chunk SET data = zeroblob(len)", []).unwrap(), 1);
    let path = TreePath::parse("/000000").unwrap();
    let error = block_on(fs.fetch(&At::from(&path), ByteRange::ALL)).unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::Corrupt, Some(&path)));
}

#[test]
fn past_at_head_reads_newest_state() {
    let (_folder, fs) = account(20, Duration::from_secs(60));
    let root = At::Path(TreePath::root());
    let (page, now) = (Page::default().limit(20), Moment::Time(Timestamp(i64::MAX)));
    let list = |fs: &dyn FileSystem| steps::here(|| block_on(fs.list(&root, &page)).unwrap());
    let (live, steps) = list(&*fs);
    let past = block_on(fs.as_of(&now)).unwrap();
    let (then, as_now) = list(&*past);
    assert!(then == live && as_now <= steps + 50, "{as_now} steps, and {steps} now");
    // The same handle stays at its commit.
    block_on(fs.commit(Op::write(TreePath::parse("/more").unwrap(), "text").into())).unwrap();
    let (then, as_past) = list(&*past);
    assert!(then == live && as_past > as_now, "{as_past} steps, and {as_now} before");
}

#[test]
fn past_view_hides_unnamed_open_nodes() {
    let (_folder, fs) = account(1, Duration::from_secs(60));
    let path = TreePath::parse("/000000").unwrap();
    let held = block_on(fs.hold(&At::from(&path))).unwrap();
    block_on(fs.commit(Op::remove(path).into())).unwrap();
    let node = At::Node(held.ino());
    assert!(block_on(fs.stat(&node)).is_ok());
    let head = block_on(fs.head()).unwrap().seq;
    let past = block_on(fs.as_of(&Moment::Seq(head))).unwrap();
    assert!(block_on(past.stat(&node)).unwrap_err().is(ErrorKind::NotFound));
    let keys = FindQuery::new(Projection::TAG).equal("a");
    assert!(block_on(past.find(&keys)).unwrap_err().is(ErrorKind::Unsupported));
}

#[test]
fn long_read_times_out() {
    let (_folder, fs) = account(3000, Duration::ZERO);
    let root = At::Path(TreePath::root());
    let error = block_on(fs.list(&root, &Page::default().limit(3000))).unwrap_err();
    assert!(error.is(ErrorKind::TimedOut), "{error}");
    let error = block_on(fs.search(&SearchQuery::new("text"))).unwrap_err();
    assert!(error.is(ErrorKind::TimedOut), "{error}");
    assert_eq!(block_on(fs.list(&root, &Page::default().limit(10))).unwrap().items.len(), 10);
}

#[test]
fn abandoned_read_ends() {
    let (_folder, fs) = account(10, Duration::from_secs(3600));
    let (begun, has_begun) = std::sync::mpsc::channel();
    let (ended, has_ended) = std::sync::mpsc::channel();
    let endless = fs.read_long((), move |view, ()| {
        begun.send(()).ok();
        while view.rows.patience.unwrap().spend_on(1).is_ok() {
            thread::yield_now();
        }
        ended.send(()).ok();
        Ok(())
    });
    let mut endless = Box::pin(endless);
    assert!(endless.as_mut().now_or_never().is_none());
    has_begun.recv().unwrap();
    drop(endless);
    has_ended.recv().unwrap();
}

/// Returns the number of files of this name in a folder that the process has open.
fn open_files(folder: &TempDir, name: &str) -> usize {
    let open = std::fs::read_dir("/proc/self/fd").expect("open files").flatten();
    let path = folder.path().join(name);
    open.filter(|file| std::fs::read_link(file.path()).is_ok_and(|open| open == path)).count()
}

#[test]
fn lock_files_close_with_the_write_connection() {
    let folder = tempfile::tempdir().expect("a folder");
    let fs =
        SqliteFs::open(folder.path(), Env::system(), crate::rule::sample::registry()).expect("an account");
    let open = || ["turn.lock", "writer.lock"].map(|name| open_files(&folder, name));
    assert_eq!(open(), [0, 0], "made, and not written to");
    let write = Op::write(TreePath::parse("/f").expect("a path"), "text");
    block_on(fs.commit(Batch::new([write]))).expect("a commit");
    assert_eq!(open(), [1, 1]);
    // Work after the commit may still hold the connection.
    block_on(fs.sync()).expect("a sync behind it");
    let begun = Env::system().instant();
    while open() != [0, 0] {
        fs.inner.runtime.conns().shrink(0);
        assert!(begun.elapsed() < Duration::from_secs(60), "the connection was closed: {:?}", open());
        thread::yield_now();
    }
}
