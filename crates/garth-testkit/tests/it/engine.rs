//! Regression tests of the SQLite engine under failures. They are not in the crate of the engine, because
//! they need failpoints and change the database from outside.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::env::ManualClock;
use garth_engine::model::{At, Batch, Body, ByteRange, Op, Timestamp};
use garth_engine::runtime::Runtime;
use garth_engine::runtime::failpoint::Failure;
use garth_engine::{AccountStore, Env, ErrorKind, FileSystem, FileSystemExt, Upload};
use garth_testkit::tools::{p as path, text};
use rusqlite::Connection;
use tempfile::TempDir;

fn open(folder: &Path) -> (Arc<SqliteFs>, ManualClock) {
    let (env, clock) = Env::manual(Timestamp(1_700_000_000_000_000_000));
    (SqliteFs::open(folder, env, garth_engine::rule::sample::registry()).unwrap(), clock)
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

async fn upload(fs: &SqliteFs, bytes: Vec<u8>) -> Box<dyn Upload> {
    let mut upload = fs.stage(&path("/file").into()).await.unwrap();
    upload.write(bytes.into()).await.unwrap();
    upload
}

/// Changes the database of an account that nobody has open any more.
fn behind_its_back(fs: Arc<SqliteFs>, folder: &Path, sql: &str) {
    drop(fs);
    let conn = Connection::open(folder.join("tree.db")).unwrap();
    // Exclusively: a thread that closes the account may still use the file.
    conn.busy_timeout(Duration::from_secs(60)).unwrap();
    conn.pragma_update(None, "locking_mode", "EXCLUSIVE").unwrap();
    conn.execute_batch(sql).unwrap();
    assert!(conn.changes() > 0, "nothing was changed");
}

#[tokio::test]
async fn failed_upload_stays_failed() {
    let folder = folder();
    let (fs, _) = open(folder.path());
    let mut upload = fs.stage(&path("/file").into()).await.unwrap();
    fs.runtime().failpoints().arm("stage-write", Failure::Io, 0);
    let part = Bytes::from(vec![7; 1_500_000]);
    assert!(upload.write(part.clone()).await.unwrap_err().is(ErrorKind::Io));
    assert!(upload.write(part).await.is_err(), "what came before would be missing");
    assert!(upload.finish().await.is_err(), "a part is missing");
    fs.write(&path("/next"), "fine").await.unwrap();
    assert_eq!(fs.fsck().await.unwrap().findings, []);
}

#[tokio::test]
async fn slow_upload_keeps_its_lease() {
    let folder = folder();
    let (fs, clock) = open(folder.path());
    let mut slow = upload(&fs, vec![1; 2_000_000]).await;
    for part in 2..5 {
        clock.advance(Duration::from_secs(20 * 3600));
        slow.write(vec![part; 2_000_000].into()).await.unwrap();
        assert_eq!(fs.gc(Duration::ZERO).await.unwrap().staged, 0);
    }
    let body = Body::Staged(slow.finish().await.unwrap());
    fs.apply(Op::write(path("/slow"), body).create_new()).await.unwrap();
    let range = ByteRange { offset: 5_999_990, length: 20 };
    let bytes = fs.read(&path("/slow").into(), range).await.unwrap();
    assert_eq!(bytes[..], [[3; 10], [4; 10]].concat());
    assert_eq!(fs.fsck().await.unwrap().findings, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn fsck_finds_nothing_during_uploads() {
    let folder = folder();
    let (fs, _) = open(folder.path());
    let stop = Arc::new(AtomicBool::new(false));
    let checks = Arc::new(AtomicU64::new(0));
    let uploads: Vec<_> = [false, true]
        .into_iter()
        .map(|given_up| {
            let (fs, stop, checks) = (Arc::clone(&fs), Arc::clone(&stop), Arc::clone(&checks));
            tokio::spawn(async move {
                let mut n = 0_u64;
                while !stop.load(Ordering::Acquire) {
                    // A check reads all that was uploaded: without a limit, a slow one would never end.
                    if n > 5 * checks.load(Ordering::Acquire) {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                        continue;
                    }
                    let begun = upload(&fs, n.to_le_bytes().repeat(150_000)).await;
                    if !given_up {
                        let body = Body::Staged(begun.finish().await.unwrap());
                        fs.apply(Op::write(path("/file"), body)).await.unwrap();
                    }
                    n += 1;
                }
                n
            })
        })
        .collect();
    let checked = tokio::spawn(async move {
        for _ in 0..40 {
            checks.fetch_add(1, Ordering::AcqRel);
            assert_eq!(fs.fsck().await.unwrap().findings, []);
        }
    });
    checked.await.unwrap();
    stop.store(true, Ordering::Release);
    for task in uploads {
        assert!(task.await.unwrap() > 0, "nothing was uploaded meanwhile");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_fails_only_the_commit_it_affects() {
    let folder = folder();
    let (fs, _) = open(folder.path());
    // Without a line feed at the end: search has to read the line again when something is appended.
    fs.write(&path("/note"), "some text").await.unwrap();
    behind_its_back(fs, folder.path(), "UPDATE chunk SET data = x'00'");
    let (fs, _) = open(folder.path());
    let commits: Vec<_> = (0..40)
        .map(|n| {
            let fs = Arc::clone(&fs);
            let to = if n % 4 == 3 { "/note".to_owned() } else { format!("/file-{n}") };
            tokio::spawn(async move { fs.append(&path(&to), format!("{n}\n")).await.map(drop) })
        })
        .collect();
    for (n, commit) in commits.into_iter().enumerate() {
        match commit.await.unwrap() {
            Ok(()) => assert!(n % 4 != 3, "the index cannot know the text before"),
            Err(error) => assert!(n % 4 == 3 && error.is(ErrorKind::Corrupt), "{n}: {error}"),
        }
    }
    for n in (0..40).filter(|n| n % 4 != 3) {
        assert_eq!(text(&*fs, &format!("/file-{n}")).await, format!("{n}\n"));
    }
    fs.write(&path("/note"), "new text\n").await.unwrap();
    assert_eq!(text(&*fs, "/note").await, "new text\n");
}

#[tokio::test]
async fn impossible_row_is_reported_as_damage() {
    let folder = folder();
    let (fs, _) = open(folder.path());
    let ino = fs.write(&path("/note"), "some text\n").await.unwrap().ino.0;
    behind_its_back(fs, folder.path(), &format!("UPDATE node SET kind = 99, size = -1 WHERE ino = {ino}"));
    let (fs, _) = open(folder.path());
    let at = At::Path(path("/note"));
    assert!(fs.stat(&at).await.unwrap_err().is(ErrorKind::Corrupt));
    assert!(fs.read(&at, ByteRange::ALL).await.unwrap_err().is(ErrorKind::Corrupt));
    assert!(fs.append(&path("/note"), "more").await.unwrap_err().is(ErrorKind::Corrupt));
    fs.write(&path("/other"), "fine").await.unwrap();
    assert!(!fs.fsck().await.unwrap().findings.is_empty());
}

#[tokio::test]
async fn gc_of_late_writes_spares_other_holders() {
    let folder = folder();
    let (fs, _) = open(folder.path());
    let (other, _) = open(folder.path());
    fs.write(&path("/file"), "before").await.unwrap();
    let (writer, reader) =
        (fs.open(&path("/file").into()).await.unwrap(), other.open(&path("/file").into()).await.unwrap());
    fs.apply(Op::remove_file(path("/file"))).await.unwrap();
    let patch = Op::patch(writer.ino(), 0, Body::from("AFTER"));
    fs.commit(Batch::new([patch])).await.unwrap();
    assert_eq!(reader.read_at(0, 100).await.unwrap(), "AFTERe");
    drop(writer);
    fs.sync().await.unwrap();
    assert_eq!(fs.gc(Duration::ZERO).await.unwrap().versions, 1);
    assert_eq!(reader.read_at(0, 100).await.unwrap(), "before");
    assert_eq!(fs.fsck().await.unwrap().findings, []);
}

#[tokio::test]
async fn panicking_writer_hangs_no_caller() {
    let folder = folder();
    let runtime = Runtime::new(Env::system());
    // More than the writer threads of the runtime.
    for n in 0..12 {
        let one = folder.path().join(n.to_string());
        std::fs::create_dir(&one).unwrap();
        let fs = SqliteFs::open_on(&one, &runtime, garth_engine::rule::sample::registry()).unwrap();
        fs.write(&path("/kept"), "kept").await.unwrap();
        runtime.failpoints().arm("apply", Failure::Panic, 0);
        assert!(fs.write(&path("/lost"), "lost").await.unwrap_err().is(ErrorKind::Io));
        fs.write(&path("/later"), "later").await.unwrap();
        assert_eq!(text(&*fs, "/kept").await, "kept");
        assert!(fs.stat(&path("/lost").into()).await.unwrap_err().is(ErrorKind::NotFound));
        assert_eq!(fs.fsck().await.unwrap().findings, []);
    }
}

#[tokio::test]
async fn fsck_finds_nothing_during_index_merges() {
    let folder = folder();
    let (fs, _) = open(folder.path());
    for n in 0..60 {
        fs.write(&path(&format!("/{n}")), format!("word{n} and more\n")).await.unwrap();
        assert_eq!(fs.fsck().await.unwrap().findings, [], "after commit {n}");
    }
}
