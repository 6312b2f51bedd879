//! Garbage collection and checks during writes: freed space, delays of writers, and content that must stay.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::model::{Batch, Body, ByteRange, Op, Seq, StagedBody, Timestamp};
use garth_engine::rule::retention::Retention;
use garth_engine::{AccountStore, Env, FileSystem};
use garth_testkit::tools::{append, at};

const MIB: usize = 1 << 20;
/// Longer than an upload is kept.
const LONG: Duration = Duration::from_secs(25 * 3600);
const GRACE: Duration = Duration::from_secs(600);
/// Commits of others between two collections.
const BETWEEN: u64 = 20;

/// Returns a folder on a filesystem that supports holes.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap()
}

async fn upload(fs: &SqliteFs, parts: &[u8]) -> StagedBody {
    let mut upload = fs.stage(&at("/z")).await.unwrap();
    for byte in parts {
        upload.write(Bytes::from(vec![*byte; MIB])).await.unwrap();
    }
    upload.finish().await.unwrap()
}

/// Returns the bytes that the pack files occupy on disk.
fn taken(folder: &Path) -> u64 {
    let packs = std::fs::read_dir(folder.join("packs")).unwrap();
    packs.map(|pack| pack.unwrap().metadata().unwrap().blocks() * 512).sum()
}

#[tokio::test]
async fn gc_frees_duplicate_parts_of_upload() {
    let folder = folder();
    let fs = SqliteFs::open(folder.path(), Env::system(), garth_engine::rule::sample::registry()).unwrap();
    let body = Body::Staged(upload(&fs, &[0; 50]).await);
    fs.commit(Batch::new([Op::write(at("/z"), body)])).await.unwrap();
    // The pack has all parts, although 49 of them are duplicates.
    assert!(taken(folder.path()) >= 49 * MIB as u64);
    let collected = fs.gc(GRACE).await.unwrap();
    assert_eq!((collected.freed, collected.waiting), (49 * MIB as u64, 0), "no read can need them");
    assert!(taken(folder.path()) <= MIB as u64 + 4096, "{}", taken(folder.path()));
    let bytes = fs.read(&at("/z"), ByteRange { offset: 49 * MIB as u64 - 3, length: 9 }).await.unwrap();
    assert_eq!(bytes, [0; 9][..]);
    assert_eq!(fs.stat(&at("/z")).await.unwrap().size, 50 * MIB as u64);
    assert_eq!(fs.fsck().await.unwrap().findings, []);
    assert_eq!(fs.gc(Duration::ZERO).await.unwrap().freed, 0);
}

#[tokio::test]
async fn gc_frees_unreferenced_pack_ranges_after_grace() {
    let folder = folder();
    let (env, clock) = Env::manual(Timestamp(1_700_000_000_000_000_000));
    let fs = SqliteFs::open(folder.path(), env, garth_engine::rule::sample::registry()).unwrap();
    // Three parts that nobody will use; the second is used by the file, too.
    upload(&fs, &[1, 2, 3]).await;
    // The first upload will be older than the limit, the second will not.
    clock.advance(LONG - Duration::from_secs(3600));
    let body = Body::Staged(upload(&fs, &[2, 4]).await);
    fs.commit(Batch::new([Op::write(at("/kept"), body)])).await.unwrap();
    clock.advance(Duration::from_secs(3600));
    let marked = fs.gc(GRACE).await.unwrap();
    assert_eq!((marked.staged, marked.chunks, marked.freed), (1, 2, MIB as u64), "what nobody ever read");
    assert_eq!((marked.waiting, marked.waiting_bytes), (1, 2 * MIB as u64));
    assert_eq!(fs.fsck().await.unwrap().findings, []);
    clock.advance(GRACE);
    assert_eq!(fs.gc(GRACE).await.unwrap().freed, 2 * MIB as u64);
    assert!(taken(folder.path()) <= 2 * MIB as u64 + 8192, "{}", taken(folder.path()));
    let bytes = fs.read(&at("/kept"), ByteRange::ALL).await.unwrap();
    assert!(bytes == [vec![2; MIB], vec![4; MIB]].concat());
    assert_eq!(fs.fsck().await.unwrap().findings, []);
}

/// Commits operations of every kind that changes references to chunks until `stop` is set. Returns their
/// number.
async fn write_on(fs: &SqliteFs, worker: u64, stop: &AtomicBool) -> u64 {
    let name = |what: &str| format!("/{what}-{worker}");
    let mut commits = 0;
    while !stop.load(Ordering::Relaxed) {
        let n = commits;
        // Few different contents, so that chunks are shared and freed again.
        let large = vec![(n % 5) as u8; 70_000];
        fs.commit(Batch::new([append(&name("log"), format!("line {n}\n"))])).await.unwrap();
        fs.commit(Batch::new([Op::write(at(&name("large")), large)])).await.unwrap();
        fs.commit(Batch::new([Op::patch(at(&name("large")), n % 60_000, "xyz")])).await.unwrap();
        let copy = Op::copy(at(&name("log")), at(&format!("/d-{worker}/copy-{n}"))).with_parents();
        fs.commit(Batch::new([copy])).await.unwrap();
        if n % 5 == 4 {
            let tree = Op::copy_tree(at(&format!("/d-{worker}")), at(&format!("/t-{worker}-{n}")));
            fs.commit(Batch::new([tree])).await.unwrap();
            fs.commit(Batch::new([Op::remove_tree(at(&format!("/d-{worker}")))])).await.unwrap();
            let body = Body::Staged(upload(fs, &[worker as u8, (n % 3) as u8, 9]).await);
            fs.commit(Batch::new([Op::write(at(&name("upload")), body)])).await.unwrap();
        }
        commits += 1;
    }
    commits
}

/// Checks an account several times while two processes write and a third one collects.
async fn check_meanwhile(retention: Retention) {
    let folder = folder();
    let stop = Arc::new(AtomicBool::new(false));
    let open =
        || SqliteFs::open(folder.path(), Env::system(), garth_engine::rule::sample::registry()).unwrap();
    let fs = open();
    fs.set_retention(retention).await.unwrap();
    let mut work = Vec::new();
    for worker in 0..2 {
        let (fs, stop) = (if worker == 0 { Arc::clone(&fs) } else { open() }, Arc::clone(&stop));
        work.push(tokio::spawn(async move { write_on(&fs, worker, &stop).await }));
    }
    let collector = tokio::spawn({
        let (fs, stop) = (open(), Arc::clone(&stop));
        async move {
            loop {
                // Read before `stop`: the final commits of the test come after it and end the wait.
                let head = fs.head().await.unwrap().seq;
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                fs.gc(Duration::ZERO).await.unwrap();
                fs.wait(Seq(head.0 + BETWEEN)).await.unwrap();
            }
        }
    });
    let checker = Arc::clone(&fs);
    let found = tokio::spawn(async move {
        for _ in 0..8 {
            let check = checker.fsck().await.unwrap();
            if !check.findings.is_empty() {
                return Some(check);
            }
        }
        None
    });
    let found = found.await.unwrap();
    stop.store(true, Ordering::Relaxed);
    let mut commits = 0;
    for work in work {
        commits += work.await.unwrap();
    }
    // The collector may wait for the next commits of others.
    for _ in 0..=BETWEEN {
        fs.commit(Batch::new([]).visible()).await.unwrap();
    }
    collector.await.unwrap();
    assert_eq!(found, None);
    assert!(commits > 0, "nothing was written meanwhile");
    fs.gc(Duration::ZERO).await.unwrap();
    assert_eq!(fs.fsck().await.unwrap().findings, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn fsck_reports_nothing_during_writes_and_gc() {
    check_meanwhile(Retention::default()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn fsck_reports_nothing_while_the_past_is_removed() {
    check_meanwhile(Retention { commits: Some(2 * BETWEEN), ..Retention::default() }).await;
}
