//! The limit on the stored bytes of an account, from the first refusal to the recovery.

use std::time::Duration;

use futures::executor::block_on;
use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::model::{Batch, ByteRange, Op};
use garth_engine::rule::retention::Retention;
use garth_engine::rule::sample;
use garth_engine::{AccountStore, Env, ErrorKind, FileSystem, TreePath};

fn path(text: &str) -> TreePath {
    TreePath::parse(text).unwrap()
}

/// Returns a write of content that no index reads and that no other file has.
fn write(n: u8) -> Batch {
    let content: Vec<u8> = std::iter::repeat_n([0, n, n.wrapping_mul(7)], 33_000).flatten().collect();
    Batch::new([Op::write(path(&format!("/{n}")), content)])
}

#[test]
fn full_account_removes_collects_and_recovers() {
    let folder = tempfile::tempdir().unwrap();
    let fs = SqliteFs::open(folder.path(), Env::system(), sample::registry()).unwrap();
    let collect = || block_on(fs.gc(Duration::ZERO)).unwrap();
    for n in 0..10 {
        block_on(fs.commit(write(n))).unwrap();
    }
    let stored = block_on(fs.usage(&TreePath::root())).unwrap().stored() + 50_000;
    block_on(fs.set_retention(Retention { stored: Some(stored), ..Retention::default() })).unwrap();
    let refused = || block_on(fs.commit(write(100))).unwrap_err();
    assert_eq!(refused().kind(), ErrorKind::QuotaExceeded);
    for n in 0..9 {
        block_on(fs.commit(Batch::new([Op::remove(path(&format!("/{n}")))]))).unwrap();
    }
    collect();
    assert_eq!(refused().kind(), ErrorKind::QuotaExceeded, "history still has the content");
    let keep_little = Retention { commits: Some(0), stored: Some(stored), ..Retention::default() };
    block_on(fs.set_retention(keep_little)).unwrap();
    // One run announces, the next ones remove what the one before has marked.
    for _ in 0..3 {
        collect();
    }
    for n in 100..105 {
        block_on(fs.commit(write(n))).unwrap();
    }
    let kept = block_on(fs.read(&path("/9").into(), ByteRange { offset: 0, length: 3 })).unwrap();
    assert_eq!(&kept[..], [0, 9, 63]);
    let usage = block_on(fs.usage(&TreePath::root())).unwrap();
    assert!(usage.stored() <= stored && usage.history < 50_000, "{usage:?}");
    assert_eq!(block_on(fs.fsck()).unwrap().findings, []);
}
