//! Counts of the work of a home, compared with a count by hand.

use bytes::Bytes;
use futures::executor::block_on;
use garth_engine::model::{At, Batch, Op};
use garth_engine::rule::sample;
use garth_engine::stats::{HomeStats, QueueStats};
use garth_engine::{DataDir, Env, ErrorKind, Home, TreePath};

fn home(folder: &tempfile::TempDir) -> DataDir {
    DataDir::open(folder.path(), Env::system(), sample::registry()).unwrap()
}

fn queue<'s>(stats: &'s HomeStats, name: &str) -> &'s QueueStats {
    stats.queues.iter().find(|queue| queue.name == name).expect("a queue of that name")
}

fn path(text: &str) -> TreePath {
    TreePath::parse(text).unwrap()
}

#[test]
fn commits_equal_a_count_by_hand() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(&folder);
    block_on(home.create_account("a")).unwrap();
    let tree = block_on(home.account("a")).unwrap();
    let before = home.stats();
    for number in 0..5 {
        block_on(tree.commit(Batch::new([Op::write(path(&format!("/{number}")), "x")]))).unwrap();
    }
    let again = Batch::new([Op::write(path("/0"), "x").create_new()]);
    assert!(block_on(tree.commit(again)).unwrap_err().is(ErrorKind::AlreadyExists));
    block_on(tree.commit(Batch::new([Op::write(path("/6"), "x")]).visible())).unwrap();
    let after = home.stats();
    let (commits, earlier) = (&after.commits, &before.commits);
    assert_eq!(commits.committed - earlier.committed, 6);
    assert_eq!(commits.refused - earlier.refused, 1);
    assert_eq!(commits.failed, 0);
    // One after another, so each is a group of its own.
    assert_eq!(commits.group_sizes.count() - earlier.group_sizes.count(), 7);
    assert_eq!(commits.group_sizes.sum - earlier.group_sizes.sum, 7);
    // Each but the last.
    assert_eq!(commits.syncs.count() - earlier.syncs.count(), 6);
    assert!(commits.syncs.sum > earlier.syncs.sum);
    let (waited, earlier) = (queue(&after, "commit"), queue(&before, "commit"));
    assert_eq!(waited.waits.count() - earlier.waits.count(), 7);
    assert_eq!(waited.waiting, 0);
}

#[cfg(debug_assertions)]
#[test]
fn failed_commits_are_counted() {
    use garth_engine::FileSystem as _;
    use garth_engine::engine::sqlite::SqliteFs;
    use garth_engine::runtime::failpoint::Failure;
    let folder = tempfile::tempdir().unwrap();
    let fs = SqliteFs::open(folder.path(), Env::system(), sample::registry()).unwrap();
    fs.runtime().failpoints().arm("before-commit", Failure::Io, 0);
    let failed = block_on(fs.commit(Batch::new([Op::write(path("/a"), "x")])));
    assert!(failed.unwrap_err().is(ErrorKind::Io));
    let stats = fs.runtime().stats();
    assert_eq!((stats.commits.failed, stats.commits.committed), (1, 0));
    assert_eq!(stats.commits.group_sizes.count(), 0);
}

#[test]
fn accounts_and_connections_are_counted_while_open() {
    let folder = tempfile::tempdir().unwrap();
    let home = DataDir::builder(sample::registry()).open_trees(2).open(folder.path()).unwrap();
    for account in ["a", "b", "c", "d"] {
        block_on(home.create_account(account)).unwrap();
    }
    let held = ["a", "b", "c", "d"].map(|account| block_on(home.account(account)).unwrap());
    assert_eq!(home.stats().open_accounts, 4);
    block_on(held[0].commit(Batch::new([Op::write(path("/a"), "x")]))).unwrap();
    assert!(home.stats().connections > 0);
    drop(held);
    // A thread of the writer may hold an account a little longer. As many as stay open unused are left.
    while home.stats().open_accounts != 2 {
        std::thread::yield_now();
    }
}

#[cfg(debug_assertions)]
#[test]
fn stored_bytes_are_counted_while_accounts_are_open() {
    use garth_engine::FileSystem as _;
    use garth_engine::engine::sqlite::SqliteFs;
    use garth_engine::runtime::Runtime;
    let folder = tempfile::tempdir().unwrap();
    let runtime = Runtime::new(Env::system());
    let fs = SqliteFs::open_on(folder.path(), &runtime, sample::registry()).unwrap();
    let opened = runtime.stats().stored_bytes;
    assert!(opened > 0);
    block_on(fs.commit(Batch::new([Op::write(path("/a"), vec![7; 500_000])]))).unwrap();
    assert_eq!(runtime.stats().stored_bytes, opened, "counted once a minute");
    runtime.tick();
    // On another thread, and without another write.
    while runtime.stats().stored_bytes < opened + 400_000 {
        std::thread::yield_now();
    }
    drop(fs);
    // A thread of the writer may hold the account a little longer.
    while runtime.stats().stored_bytes != 0 {
        std::thread::yield_now();
    }
}

#[test]
fn uploads_equal_a_count_by_hand() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(&folder);
    block_on(home.create_account("a")).unwrap();
    let tree = block_on(home.account("a")).unwrap();
    let stage = || block_on(tree.stage(&At::Path(path("/file")))).unwrap();
    let (mut first, second) = (stage(), stage());
    assert_eq!(home.stats().uploads.open, 2);
    block_on(first.write(Bytes::from(vec![7; 5_000_000]))).unwrap();
    block_on(first.finish()).unwrap();
    drop(second);
    let uploads = home.stats().uploads;
    assert_eq!((uploads.open, uploads.finished, uploads.bytes), (0, 1, 5_000_000));
    assert!(queue(&home.stats(), "upload").waits.count() > 0);
}

#[test]
fn checkpoints_are_counted_by_kind() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(&folder);
    block_on(home.create_account("a")).unwrap();
    let tree = block_on(home.account("a")).unwrap();
    block_on(tree.commit(Batch::new([Op::write(path("/first"), "x")]))).unwrap();
    let checkpoints = home.stats().checkpoints;
    assert_eq!((checkpoints.restart, checkpoints.failures), (1, 0), "the one before the first commit");
    assert_eq!(checkpoints.times.count(), checkpoints.passive + checkpoints.restart);
}

#[test]
fn free_space_of_a_data_folder_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(&folder);
    let home: &dyn Home = &home;
    assert!(block_on(home.free_space()).unwrap().is_some_and(|bytes| bytes > 0));
}
