//! Appends with cut points: deduplication of repeated pieces, and the cost of an append.

use std::time::Duration;

use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::model::{Batch, Body, ByteRange, MAX_CUTS, Op};
use garth_engine::view::Scope;
use garth_engine::{AccountStore, Env, FileSystem, FileSystemExt};
use garth_testkit::data::random::Random;
use garth_testkit::tools::{append, at, p};
use tempfile::TempDir;

struct Account {
    fs: std::sync::Arc<SqliteFs>,
    folder: TempDir,
}

impl Account {
    fn new() -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        Self {
            fs: SqliteFs::open(folder.path(), Env::system(), garth_engine::rule::sample::registry()).unwrap(),
            folder,
        }
    }

    /// Returns the rows of `chunk`, the bytes in them, and the rows of `extent`.
    fn stored(&self) -> [u64; 3] {
        let raw = rusqlite::Connection::open(self.folder.path().join("tree.db")).unwrap();
        let one = |sql: &str| raw.query_row(sql, [], |row| row.get(0)).unwrap();
        [
            "SELECT count(*) FROM chunk",
            "SELECT coalesce(sum(len), 0) FROM chunk",
            "SELECT count(*) FROM extent",
        ]
        .map(one)
    }

    /// Returns what an operation adds to [`Self::stored`].
    async fn adds(&self, fs: &dyn FileSystem, op: Op) -> [u64; 3] {
        let before = self.stored();
        fs.apply(op).await.unwrap();
        let after = self.stored();
        std::array::from_fn(|of| after[of] - before[of])
    }
}

fn random_bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    (0..length.div_ceil(8)).flat_map(|_| random.next().to_le_bytes()).take(length).collect()
}

/// Returns an append of these pieces, with cut points between them.
fn pieces(path: &str, pieces: &[&[u8]]) -> Op {
    let ends = pieces.iter().scan(0, |end, piece| {
        *end += piece.len() as u64;
        Some(*end)
    });
    append(path, pieces.concat()).cut_at(ends)
}

#[tokio::test]
async fn repeated_piece_adds_only_new_bytes() {
    let account = Account::new();
    let fs = &*account.fs;
    fs.mkdir_all("/scope").await.unwrap();
    let scope = Scope::open(fs, &p("/scope")).await.unwrap();
    // The last one ends in an extent of 10 bytes.
    let sizes = [64 << 10, 100 << 10, 3 << 20, (1 << 20) + 10];
    let [least, some, large, odd] = sizes.map(|size| random_bytes(size as u64, size));
    let all: [&[u8]; 6] = [b"first", &least, &some, b"between", &large, &odd];
    // In the order of `stored`: 1 + 1 + 1 + 1 + 3 + 2.
    let bytes = all.concat().len() as u64;
    assert_eq!(account.adds(fs, pieces("/a", &all)).await, [9, bytes, 9]);

    assert_eq!(account.adds(fs, pieces("/a", &[b"x", &some, b"yy"])).await, [2, 3, 3], "in the same file");
    assert_eq!(account.adds(fs, pieces("/b", &[b"zzz", &odd, &large])).await, [1, 3, 6], "in another");
    assert_eq!(account.adds(&*scope, pieces("/c", &[b"1", &large, b"2"])).await, [2, 2, 5], "in a view");
    assert_eq!(account.adds(fs, pieces("/d", &[b"", &least])).await, [0, 0, 1], "at the start");
    assert_eq!(account.adds(fs, pieces("/e", &[&odd, &odd, &odd])).await, [0, 0, 6]);
    assert_eq!(account.adds(fs, Op::write(p("/f"), odd.clone())).await, [0, 0, 2], "content of its own");
    let mut upload = fs.stage(&at("/g")).await.unwrap();
    upload.write(odd.clone().into()).await.unwrap();
    let before = account.stored();
    let body = Body::Staged(upload.finish().await.unwrap());
    fs.apply(append("/g", body)).await.unwrap();
    assert_eq!(account.stored(), [before[0], before[1], before[2] + 2], "an upload");

    // Content without cut points is not searched for stored pieces.
    let [_, added, _] = account.adds(fs, append("/h", [b"x", &some[..]].concat())).await;
    assert_eq!(added, 1 + some.len() as u64);

    for _ in 0..2 {
        let contents = [
            ("/a", [&all.concat(), &b"x"[..], &some, b"yy"].concat()),
            ("/b", [b"zzz", &odd[..], &large].concat()),
            ("/scope/c", [b"1", &large[..], b"2"].concat()),
            ("/e", [&odd[..], &odd, &odd].concat()),
            ("/g", odd.clone()),
        ];
        for (path, content) in contents {
            assert!(fs.read(&at(path), ByteRange::ALL).await.unwrap() == content, "{path}");
        }
        fs.gc(Duration::ZERO).await.unwrap();
        assert_eq!(fs.fsck().await.unwrap().findings, []);
    }
}

#[tokio::test]
async fn merging_keeps_cut_pieces_separate() {
    let account = Account::new();
    let fs = &*account.fs;
    let [some, odd] = [100 << 10, (1 << 20) + 10].map(|size| random_bytes(size as u64, size));
    let mut content = Vec::new();
    for line in 0..20_u8 {
        // Each once, so that nothing else refers to it.
        let body: [&[u8]; 3] = match line {
            5 => [b"five;", &some, b"\n"],
            9 => [b"nine;", &odd, b"\n"],
            _ => [b"line ", &[line], b"\n"],
        };
        content.extend(body.concat());
        fs.apply(pieces("/log", &body)).await.unwrap();
    }
    let blame = fs.blame(&at("/log"), ByteRange::ALL, 100).await.unwrap();
    assert_eq!(blame.runs.len(), 20);
    // Of 22 short extents the runs before, between and after the pieces remain.
    let collected = fs.gc(Duration::ZERO).await.unwrap();
    assert_eq!(collected.merged, 22 - 3);
    assert_eq!(account.stored()[2], 3 + 1 + 2);
    assert_eq!(account.adds(fs, pieces("/log", &[b"again", &odd, b"and", &some])).await, [2, 8, 5]);
    content.extend([b"again", &odd[..], b"and", &some].concat());
    assert!(fs.read(&at("/log"), ByteRange::ALL).await.unwrap() == content);
    let after = fs.blame(&at("/log"), ByteRange::ALL, 100).await.unwrap();
    assert_eq!((&after.runs[..20], after.runs.len()), (&blame.runs[..], 21), "each commit is still named");
    let extents = account.stored()[2];
    // Only "again" is merged with the extent before it; shared pieces stay separate, too.
    assert_eq!((fs.gc(Duration::ZERO).await.unwrap().merged, account.stored()[2]), (1, extents - 1));
    assert_eq!(fs.blame(&at("/log"), ByteRange::ALL, 100).await.unwrap(), after);
    assert_eq!(fs.fsck().await.unwrap().findings, []);
}

#[tokio::test]
async fn append_with_cuts_adds_proportional_rows() {
    let account = Account::new();
    let fs = &*account.fs;
    let piece = random_bytes(1, 70_000);
    for beside in [1, 200] {
        // A long file of many extents, and as much other stored content.
        for n in 0..beside {
            let one = random_bytes(n + 2, 70_000);
            fs.commit(Batch::new([pieces("/log", &[b"x", &one]), append("/log", "short")])).await.unwrap();
        }
        let line = append("/log", vec![b'x'; MAX_CUTS]).cut_at(1..=MAX_CUTS as u64);
        assert_eq!(account.adds(fs, line).await, [1, MAX_CUTS as u64, 1], "no row for a cut");
        let new = [random_bytes(beside + 1000, 70_000), random_bytes(beside + 2000, 80_000)];
        let added = account.adds(fs, pieces("/log", &[b"1", &new[0], b"2", b"3", &new[1]])).await;
        assert_eq!(added, [4, 150_003, 4]);
        fs.apply(pieces("/log", &[&piece])).await.unwrap();
        assert_eq!(account.adds(fs, pieces("/log", &[&piece, b"\n"])).await, [1, 1, 2]);
    }
    assert_eq!(fs.fsck().await.unwrap().findings, []);
}
