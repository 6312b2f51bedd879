//! Merging small extents: fewer extents, and every version unchanged byte by byte.

use std::time::Duration;

use bytes::Bytes;
use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::model::{Batch, Blame, Body, ByteRange, Moment, Op, Seq, SetAttrs};
use garth_engine::{AccountStore, Env, FileSystem};
use garth_testkit::data::random::Random;
use garth_testkit::tools::{append, at};

/// Edits start and end at multiples of this, so that new extents are exactly where old ones were.
const BLOCK: u64 = 32;

async fn content(fs: &dyn FileSystem, path: &str) -> Vec<u8> {
    match fs.read(&at(path), ByteRange::ALL).await {
        Ok(bytes) => bytes.to_vec(),
        Err(error) if error.is(garth_engine::ErrorKind::NotFound) => b"missing".to_vec(),
        Err(error) => panic!("{path}: {error}"),
    }
}

/// Returns the blame of both files.
async fn blame(fs: &dyn FileSystem) -> [Blame; 2] {
    let whole = |path| fs.blame(path, ByteRange::ALL, 1000);
    let [one, two] = ["/one", "/two"].map(at);
    [whole(&one).await.unwrap(), whole(&two).await.unwrap()]
}

/// Returns an edit of one of two files with content `now`, and applies it to `now`.
fn edit(random: &mut Random, now: &mut [Vec<u8>; 2], path: [&str; 2], last: u64) -> Op {
    let which = random.below(2) as usize;
    let (file, to) = (&mut now[which], at(path[which]));
    let bytes: Vec<u8> = (0..BLOCK * (1 + random.below(3))).map(|_| random.below(256) as u8).collect();
    let offset = BLOCK * random.below(12);
    match random.below(20) {
        0 => {
            *file = bytes.clone();
            let (body, attrs) = (Body::Bytes(bytes.into()), SetAttrs::default());
            Op::write(to, body).with_attrs(attrs)
        }
        1 | 2 => {
            file.resize(offset as usize, 0);
            Op::truncate(to, offset)
        }
        3..8 => {
            let end = offset as usize + bytes.len();
            file.resize(file.len().max(end), 0);
            file[offset as usize..end].copy_from_slice(&bytes);
            Op::patch(to, offset, bytes)
        }
        8 => {
            let as_of = (last > 2).then(|| Seq(3 + random.below(last - 2)));
            let from = at(path[1 - which]);
            Op::Copy { from, as_of, to, recursive: false, replace: true, parents: false }
        }
        9 => Op::set_attrs(to, SetAttrs::new().mode(0o600)),
        _ => {
            file.extend_from_slice(&bytes);
            append(path[which], bytes)
        }
    }
}

#[tokio::test]
async fn merging_preserves_every_version() {
    const PATHS: [&str; 2] = ["/one", "/two"];
    for seed in 0..8 {
        let mut random = Random::new(seed);
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let fs =
            SqliteFs::open(folder.path(), Env::system(), garth_engine::rule::sample::registry()).unwrap();
        let mut now: [Vec<u8>; 2] = Default::default();
        let mut seen = Vec::new();
        let mut merged = 0;
        for path in PATHS {
            fs.commit(Batch::new([append(path, Bytes::new())])).await.unwrap();
        }
        for step in 0..600 {
            let last = seen.len() as u64 + 2;
            let op = edit(&mut random, &mut now, PATHS, last);
            if let Op::Copy { from, as_of, to, .. } = &op {
                let source = usize::from(*from == at(PATHS[1]));
                let then = as_of.map(|seq| {
                    let (known, both): &(Seq, [Vec<u8>; 2]) = &seen[seq.0 as usize - 3];
                    assert_eq!(*known, seq);
                    both[source].clone()
                });
                let copied = then.unwrap_or_else(|| now[source].clone());
                now[usize::from(*to == at(PATHS[1]))] = copied;
            }
            let commit = fs.commit(Batch::new([op.clone()])).await.unwrap();
            for (path, now) in PATHS.iter().zip(&now) {
                assert!(content(&*fs, path).await == *now, "seed {seed}, step {step}: {path} after {op:?}");
            }
            seen.push((commit.seq, now.clone()));
            let blamed = blame(&*fs).await;
            if random.one_in(40) {
                merged += fs.gc(Duration::ZERO).await.unwrap().merged;
                assert_eq!(blame(&*fs).await, blamed, "seed {seed}, step {step}");
                for (seq, then) in &seen {
                    let past = fs.as_of(&Moment::Seq(*seq)).await.unwrap();
                    for (path, then) in PATHS.iter().zip(then) {
                        let bytes = content(&*past, path).await;
                        assert!(bytes == *then, "seed {seed}, step {step}: {path} of commit {seq}");
                    }
                }
                assert_eq!(fs.fsck().await.unwrap().findings, [], "seed {seed}, step {step}");
            }
        }
        assert!(merged > 20, "seed {seed}: {merged} merged");
    }
}

#[tokio::test]
async fn merging_reduces_appends_to_few_extents() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let fs = SqliteFs::open(folder.path(), Env::system(), garth_engine::rule::sample::registry()).unwrap();
    let line = |n: u64| format!("{n:0199}\n");
    for first in (0..10_000).step_by(100) {
        let batches = (first..first + 100).map(|n| fs.commit(Batch::new([append("/log", line(n))])));
        for commit in futures::future::join_all(batches).await {
            commit.unwrap();
        }
    }
    let before = fs.fsck().await.unwrap();
    let collected = fs.gc(Duration::ZERO).await.unwrap();
    let after = fs.fsck().await.unwrap();
    // Two million bytes in extents of 64 KiB each.
    assert_eq!((before.chunks, collected.merged, collected.chunks), (10_000, 9_969, 10_000));
    assert_eq!((after.chunks, after.findings), (31, vec![]));
    assert_eq!((after.versions, after.bytes), (before.versions, before.bytes));
    // Nothing is left to do.
    let again = fs.gc(Duration::ZERO).await.unwrap();
    assert_eq!((again.merged, again.chunks), (0, 0));
    for n in [1, 2, 327, 328, 329, 5_000, 10_000] {
        let past = fs.as_of(&Moment::Seq(Seq(n))).await.unwrap();
        let text: String = (0..n).map(line).collect();
        assert!(content(&*past, "/log").await == text.as_bytes(), "version {n}");
    }
}

#[tokio::test]
async fn gc_within_a_task_finishes() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let fs = SqliteFs::open(folder.path(), Env::system(), garth_engine::rule::sample::registry()).unwrap();
    // Each call blocks the thread of this task and never returns to the runtime, whose limit (128 operations
    // between yields) must not matter.
    for _ in 0..200 {
        fs.gc(Duration::ZERO).await.unwrap();
    }
}

#[tokio::test]
async fn copies_during_merging_keep_their_bytes() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let fs = SqliteFs::open(folder.path(), Env::system(), garth_engine::rule::sample::registry()).unwrap();
    let other = SqliteFs::open(folder.path(), Env::system(), garth_engine::rule::sample::registry()).unwrap();
    // Ends when this end of the channel is dropped, also by a failing assertion.
    let (go_on, told) = std::sync::mpsc::channel::<()>();
    let collector = tokio::spawn(async move {
        let mut merged = 0;
        while told.try_recv() != Err(std::sync::mpsc::TryRecvError::Disconnected) {
            merged += other.gc(Duration::ZERO).await.unwrap().merged;
        }
        merged
    });
    let text = |n: u32| (0..4).map(|part| format!("{n} {part};")).collect::<String>();
    for n in 0..300 {
        for part in 0..4 {
            let op = append(&format!("/log-{n}"), format!("{n} {part};"));
            fs.commit(Batch::new([op])).await.unwrap();
        }
        let (from, to) = (at(&format!("/log-{}", n - n % 3)), at(&format!("/copy-{n}")));
        let copy = Op::copy(from, to);
        fs.commit(Batch::new([copy])).await.unwrap();
    }
    drop(go_on);
    assert!(collector.await.unwrap() > 0, "nothing was merged meanwhile");
    for n in 0..300 {
        assert_eq!(content(&*fs, &format!("/log-{n}")).await, text(n).as_bytes());
        assert_eq!(content(&*fs, &format!("/copy-{n}")).await, text(n - n % 3).as_bytes());
    }
    assert_eq!(fs.fsck().await.unwrap().findings, []);
}
