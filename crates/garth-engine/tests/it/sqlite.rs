//! Promises of the SQLite engine beyond the contract: maintenance, uploads, several instances.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::env::ManualClock;
use garth_engine::model::{
    At, Batch, Body, ByteRange, Moment, Op, SearchQuery, Seq, SetAttrs, SnapshotsPage, Timestamp,
};
use garth_engine::{AccountStore, DataDir, Env, FileSystem, FileSystemExt};
use garth_testkit::tools::{p as path, text};
use tempfile::TempDir;

struct Account {
    fs: Arc<SqliteFs>,
    folder: TempDir,
    clock: ManualClock,
}

fn account() -> Account {
    let folder = tempfile::tempdir().unwrap();
    let (env, clock) = Env::manual(Timestamp(1_700_000_000_000_000_000));
    let fs = SqliteFs::open(folder.path(), env, garth_engine::rule::sample::registry()).unwrap();
    Account { fs, folder, clock }
}

fn write(at: &str, content: impl Into<Body>) -> Op {
    Op::write(path(at), content).with_parents()
}

#[tokio::test]
async fn fsck_finds_nothing_in_sound_account() {
    let Account { fs, folder: _folder, clock } = account();
    fs.commit(Batch::new([write("/a/b.md", "# One\nalpha beta\n"), write("/a/c.bin", vec![0; 200_000])]))
        .await
        .unwrap();
    fs.append(&path("/a/b.md"), Bytes::from_static(b"gamma delta\n")).await.unwrap();
    fs.rename("/a", "/z").await.unwrap();
    let link = Op::link(path("/z/b.md"), path("/hard"));
    fs.apply(link).await.unwrap();
    clock.advance(Duration::from_secs(1));
    fs.apply(Op::remove_tree(path("/z"))).await.unwrap();
    assert_eq!(text(&*fs, "/hard").await, "# One\nalpha beta\ngamma delta\n");
    let report = fs.fsck().await.unwrap();
    assert_eq!(report.findings, []);
    let query = SearchQuery::new("gamma");
    let hits = fs.search(&query).await.unwrap().hits;
    assert_eq!(hits.len(), 1);
    assert_eq!(hits[0].path, path("/hard"));
    assert_eq!(hits[0].lines, 1..4);
    assert_eq!(fs.reindex().await.unwrap(), 1);
    assert_eq!(fs.search(&query).await.unwrap().hits.len(), 1);
    assert_eq!(fs.fsck().await.unwrap().findings, []);
}

#[tokio::test]
async fn staged_upload_is_stored_once_in_pack() {
    let Account { fs, folder, .. } = account();
    let content: Vec<u8> = (0..5_000_000_u32).flat_map(|n| n.to_le_bytes()).collect();
    for name in ["/one", "/two"] {
        let mut upload = fs.stage(&path(name).into()).await.unwrap();
        for part in content.chunks(300_000) {
            upload.write(Bytes::copy_from_slice(part)).await.unwrap();
        }
        let body = Body::Staged(upload.finish().await.unwrap());
        fs.apply(Op::write(path(name), body).create_new()).await.unwrap();
    }
    assert_eq!(fs.gc(Duration::ZERO).await.unwrap().packs, 1, "the second upload brought nothing new");
    for name in ["/one", "/two"] {
        let range = ByteRange { offset: 3_999_999, length: 2_000_003 };
        let part = fs.read(&At::Path(path(name)), range).await.unwrap();
        assert!(part == content[3_999_999..6_000_002]);
    }
    assert_eq!(fs.fsck().await.unwrap().findings, []);
    assert_eq!(std::fs::read_dir(folder.path().join("packs")).unwrap().count(), 1);
}

#[tokio::test]
async fn instances_see_each_others_commits() {
    let Account { fs, folder, .. } = account();
    let other = SqliteFs::open(folder.path(), Env::system(), garth_engine::rule::sample::registry()).unwrap();
    for round in 0..50 {
        let (one, two): (&SqliteFs, &SqliteFs) = if round % 2 == 0 { (&fs, &other) } else { (&other, &fs) };
        one.write(&path("/note"), Bytes::from(format!("{round}"))).await.unwrap();
        assert_eq!(text(two, "/note").await, format!("{round}"));
    }
    assert_eq!(fs.head().await.unwrap().seq.0, 50);
}

#[tokio::test]
async fn backup_opens_with_all_accounts() {
    let folder = tempfile::tempdir().unwrap();
    let home =
        DataDir::open(&folder.path().join("data"), Env::system(), garth_engine::rule::sample::registry())
            .unwrap();
    let mut waiting = Vec::new();
    for account in ["one", "two"] {
        home.create_account(account).await.unwrap();
        let fs = home.account(account).await.unwrap();
        fs.write(&path("/note"), Bytes::from(account)).await.unwrap();
        let mut upload = fs.stage(&path("/big").into()).await.unwrap();
        upload.write(Bytes::from(vec![7; 3 << 20])).await.unwrap();
        let body = Body::Staged(upload.finish().await.unwrap());
        fs.apply(Op::write(path("/big"), body).create_new()).await.unwrap();
        // The same content again: a pack of its own, with nothing in it.
        let mut upload = fs.stage(&At::Path(path("/again"))).await.unwrap();
        upload.write(Bytes::from(vec![7; 3 << 20])).await.unwrap();
        let body = Body::Staged(upload.finish().await.unwrap());
        fs.apply(Op::write(path("/again"), body).create_new()).await.unwrap();
        // The file of an upload that waits may be removed while it would be copied.
        let mut upload = fs.stage(&path("/waiting").into()).await.unwrap();
        upload.write(Bytes::from(vec![9; 3 << 20])).await.unwrap();
        waiting.push(Body::Staged(upload.finish().await.unwrap()));
    }
    let (_, secret) =
        home.control().create_key("one", "", &[garth_engine::datadir::Scope::Admin]).await.unwrap();
    let copy = folder.path().join("copy");
    assert_eq!(home.backup(&copy).await.unwrap().len(), 2);
    assert!(home.backup(&copy).await.unwrap_err().is(garth_engine::ErrorKind::AlreadyExists));
    home.account("one").await.unwrap().write(&path("/note"), Bytes::from("later")).await.unwrap();
    let journal_mode = |file: &std::path::Path| -> String {
        let conn = rusqlite::Connection::open(file).unwrap();
        conn.query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap()
    };
    assert_eq!(journal_mode(&copy.join("control.db")), "wal");
    let accounts = home.control().accounts().await.unwrap().into_iter();
    let folders = accounts.map(|account| copy.join("accounts").join(account.folder));
    for private in folders.flat_map(|dir| [dir.join("packs"), dir]) {
        let mode = std::fs::metadata(&private).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{}", private.display());
        assert!(private.ends_with("packs") || journal_mode(&private.join("tree.db")) == "wal");
    }

    let copied = DataDir::open(&copy, Env::system(), garth_engine::rule::sample::registry()).unwrap();
    for (account, body) in ["one", "two"].into_iter().zip(waiting) {
        let fs = copied.account(account).await.unwrap();
        assert_eq!(text(&*fs, "/note").await, account);
        assert_eq!(fs.stat(&At::Path(path("/big"))).await.unwrap().size, 3 << 20);
        let unknown = fs.apply(Op::write(path("/waiting"), body).create_new()).await.unwrap_err();
        assert!(unknown.is(garth_engine::ErrorKind::NotFound), "{unknown}");
        assert_eq!(fs.fsck().await.unwrap().findings, []);
    }
    assert!(copied.control().authenticate(secret.reveal()).await.unwrap().is_some());
}

#[tokio::test]
async fn content_of_damaged_chunk_is_stored_again() {
    let Account { fs, folder, .. } = account();
    let content: Vec<u8> = (0..100_000_u32).map(|n| (n % 251) as u8).collect();
    fs.write(&path("/one"), Bytes::from(content.clone())).await.unwrap();
    let raw = rusqlite::Connection::open(folder.path().join("tree.db")).unwrap();
    assert_eq!(raw.execute("UPDATE chunk SET data = zeroblob(len)", []).unwrap(), 1);
    fs.write(&path("/two"), Bytes::from(content.clone())).await.unwrap();
    let mut upload = fs.stage(&path("/three").into()).await.unwrap();
    upload.write(Bytes::from(content.clone())).await.unwrap();
    let body = Body::Staged(upload.finish().await.unwrap());
    fs.apply(Op::write(path("/three"), body).create_new()).await.unwrap();
    for name in ["/two", "/three"] {
        assert!(fs.read(&At::Path(path(name)), ByteRange::ALL).await.unwrap() == content);
    }
    assert!(
        fs.read(&At::Path(path("/one")), ByteRange::ALL)
            .await
            .unwrap_err()
            .is(garth_engine::ErrorKind::Corrupt)
    );
}

const TABLES: [&str; 8] =
    ["name", "name_past", "node", "dir_time_past", "attribute", "extent", "chunk", "log"];

/// Returns the number of rows of each of [`TABLES`].
fn rows(account: &Account) -> [i64; 8] {
    let raw = rusqlite::Connection::open(account.folder.path().join("tree.db")).unwrap();
    TABLES.map(|table| raw.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap())
}

/// Returns the rows that one operation adds. A moved name does not change the number of live ones.
async fn added(account: &Account, op: Op) -> [i64; 8] {
    let before = rows(account);
    account.fs.apply(op).await.unwrap();
    let after = rows(account);
    std::array::from_fn(|table| after[table] - before[table])
}

#[tokio::test]
async fn metadata_changes_write_few_rows() {
    let account = account();
    let batch = (0..100).map(|n| write(&format!("/d/sub/{n}"), vec![b'x'; 3000]));
    account.fs.commit(Batch::new(batch)).await.unwrap();
    for _ in 0..50 {
        account.fs.append(&path("/d/sub/1"), Bytes::from_static(b"a line\n")).await.unwrap();
    }
    let append = Op::append(path("/d/sub/1"), Bytes::from_static(b"a line\n")).must_exist();
    // In the order of TABLES: the version of the node, one extent of one chunk, the log.
    assert_eq!(added(&account, append).await, [0, 0, 1, 0, 0, 1, 1, 1]);
    let tags = SetAttrs::new().tags(["t"]);
    let set = Op::set_attrs(path("/d/sub/1"), tags);
    assert_eq!(added(&account, set).await, [0, 0, 1, 0, 1, 0, 0, 1]);
    let rename = Op::rename(path("/d/sub"), path("/moved"));
    // 101 names become past; versions of the directory, its old parent and the root, and of nothing below.
    assert_eq!(added(&account, rename).await, [0, 101, 3, 0, 0, 0, 0, 1]);
    let copy = Op::copy(path("/moved/2"), path("/copy"));
    // The extent of the copy points at the same chunk; the root has only new times.
    assert_eq!(added(&account, copy).await, [1, 0, 1, 1, 0, 1, 0, 1]);
}

#[tokio::test]
async fn copy_range_and_punch_write_no_content() {
    let account = account();
    // 4 MiB in four extents each.
    let content = |salt: u32| (0..1 << 20).flat_map(|n: u32| (n ^ salt).to_le_bytes()).collect::<Vec<u8>>();
    for (name, salt) in [("/one", 1), ("/two", 77)] {
        account.fs.write(name, content(salt)).await.unwrap();
    }
    // In the order of TABLES: a version, three parts of the source and two remainders of the target, the log.
    let copy = Op::copy_range(path("/one"), 1 << 19, 2 << 20, path("/two"), 100);
    assert_eq!(added(&account, copy).await, [0, 0, 1, 0, 0, 5, 0, 1]);
    // One extent is removed, two leave a remainder.
    let punch = Op::punch(path("/one"), 1 << 19, 2 << 20);
    assert_eq!(added(&account, punch).await, [0, 0, 1, 0, 0, 2, 0, 1]);
    let mut expected = content(77);
    expected[100..100 + (2 << 20)].copy_from_slice(&content(1)[1 << 19..(1 << 19) + (2 << 20)]);
    assert!(account.fs.read_file("/two").await.unwrap() == expected);
    account.fs.remove("/one").await.unwrap();
    account.fs.gc(Duration::ZERO).await.unwrap();
    assert!(account.fs.read_file("/two").await.unwrap() == expected);
    assert_eq!(account.fs.fsck().await.unwrap().findings, []);
}

#[tokio::test]
async fn merging_skips_files_with_revocable_writes() {
    let Account { fs, folder: _folder, .. } = account();
    fs.commit(Batch::new([write("/gone", "one"), write("/late", "one")])).await.unwrap();
    for at in ["/gone", "/late"] {
        fs.append(&path(at), Bytes::from_static(b"two")).await.unwrap();
    }
    let held = fs.open(&At::Path(path("/late"))).await.unwrap();
    for at in ["/gone", "/late"] {
        fs.apply(Op::remove_file(path(at))).await.unwrap();
    }
    let body = Body::Bytes(Bytes::from_static(b"three"));
    let late = Op::append(held.ino(), body).must_exist();
    fs.apply(late).await.unwrap();
    // Two extents of the removed file become one; the last write to the other is dropped once nobody holds
    // it.
    let collected = fs.gc(Duration::ZERO).await.unwrap();
    assert_eq!((collected.merged, collected.versions), (1, 0));
    assert_eq!(held.read_at(0, 100).await.unwrap(), "onetwothree");
    drop(held);
    fs.sync().await.unwrap();
    let collected = fs.gc(Duration::ZERO).await.unwrap();
    assert_eq!((collected.merged, collected.versions), (1, 1), "taken back, then merged");
    assert_eq!(fs.gc(Duration::ZERO).await.unwrap().merged, 0);
    for at in ["/gone", "/late"] {
        let past = fs.as_of(&Moment::Seq(Seq(3))).await.unwrap();
        assert_eq!(text(&*past, at).await, "onetwo");
    }
    assert_eq!(fs.fsck().await.unwrap().findings, []);
}

#[tokio::test]
async fn unlinked_node_keeps_changes_while_held() {
    let folder = tempfile::tempdir().unwrap();
    let (env, _clock) = Env::manual(Timestamp(1_700_000_000_000_000_000));
    let [fs, other] = [(); 2].map(|()| {
        SqliteFs::open(folder.path(), env.clone(), garth_engine::rule::sample::registry()).unwrap()
    });
    fs.symlink("/link", "to").await.unwrap();
    fs.mkdir_all("/dir").await.unwrap();
    let held = [fs.hold(&path("/link").into()).await.unwrap(), fs.hold(&path("/dir").into()).await.unwrap()];
    for (node, name) in held.iter().zip(["/link", "/dir"]) {
        fs.remove(name).await.unwrap();
        fs.set_attrs(node.ino(), SetAttrs::new().mode(0o700)).await.unwrap();
    }
    assert_eq!(other.gc(Duration::ZERO).await.unwrap().versions, 0, "both have leases");
    for node in &held {
        assert_eq!(node.stat().await.unwrap().mode, 0o700);
    }
    drop(held);
    fs.sync().await.unwrap();
    assert_eq!(other.gc(Duration::ZERO).await.unwrap().versions, 2);
    assert_eq!(fs.fsck().await.unwrap().findings, []);
}

#[cfg(debug_assertions)]
#[tokio::test]
async fn expired_lease_restarts_the_grace() {
    let folder = tempfile::tempdir().unwrap();
    let (env, clock) = Env::manual(Timestamp(1_700_000_000_000_000_000));
    let [fs, other] = [(); 2].map(|()| {
        SqliteFs::open(folder.path(), env.clone(), garth_engine::rule::sample::registry()).unwrap()
    });
    fs.commit(Batch::new([write("/a", "before;")])).await.unwrap();
    let [ours, theirs] = [fs.open(&path("/a").into()).await, other.open(&path("/a").into()).await];
    let (ours, theirs) = (ours.unwrap(), theirs.unwrap());
    fs.apply(Op::remove_file(path("/a"))).await.unwrap();
    let body = Body::Bytes(Bytes::from_static(b"after;"));
    fs.apply(Op::append(ours.ino(), body).must_exist()).await.unwrap();
    drop(ours);
    fs.sync().await.unwrap();
    let grace = Duration::from_secs(600);
    let collected = fs.gc(grace).await.unwrap();
    assert_eq!((collected.versions, collected.waiting), (0, 1));
    other.runtime().tick();
    other.sync().await.unwrap();
    // As if the holder had slept: neither its lease nor the earlier report counts.
    clock.advance(Duration::from_secs(3600));
    assert_eq!(fs.gc(grace).await.unwrap().versions, 0);
    assert_eq!(theirs.read_at(0, 100).await.unwrap(), "before;after;");
    clock.advance(grace);
    assert_eq!(fs.gc(grace).await.unwrap().versions, 1);
}

#[tokio::test]
async fn gc_reports_packs_waiting_for_grace() {
    let Account { fs, clock, folder: _folder } = account();
    let mut upload = fs.stage(&path("/one").into()).await.unwrap();
    upload.write(Bytes::from(vec![7; 1_200_000])).await.unwrap();
    upload.finish().await.unwrap();
    clock.advance(Duration::from_secs(25 * 3600));
    let grace = Duration::from_secs(600);
    for _ in 0..2 {
        // No commit has used the upload, whose lease has ended.
        let collected = fs.gc(grace).await.unwrap();
        assert_eq!((collected.packs, collected.waiting), (0, 1));
        assert!(collected.waiting_bytes >= 1_200_000, "{collected:?}");
    }
    clock.advance(grace);
    let collected = fs.gc(grace).await.unwrap();
    assert_eq!((collected.packs, collected.waiting, collected.waiting_bytes), (1, 0, 0));
}

#[tokio::test]
async fn legacy_snapshot_name_can_be_dropped() {
    let Account { fs, folder, clock: _ } = account();
    fs.write(&path("/f"), Bytes::from_static(b"old")).await.unwrap();
    let raw = rusqlite::Connection::open(folder.path().join("tree.db")).unwrap();
    raw.execute("INSERT INTO snapshot (owner, name, seq) VALUES ('', '1h', 1)", []).unwrap();
    fs.write(&path("/f"), Bytes::from_static(b"new")).await.unwrap();
    let past = fs.as_of(&Moment::Snapshot("1h".to_owned())).await.unwrap();
    assert_eq!(text(&*past, "/f").await, "old");
    fs.apply(Op::drop_snapshot("1h")).await.unwrap();
    assert!(fs.snapshots(&SnapshotsPage::default()).await.unwrap().items.is_empty());
}

#[tokio::test]
async fn fsck_accepts_unchanged_root() {
    let account = account();
    for _ in 0..3 {
        account.fs.commit(Batch::new([])).await.unwrap();
    }
    for name in ["/a", "/b"] {
        account.fs.write(name, "x").await.unwrap();
    }
    assert_eq!(account.fs.fsck().await.unwrap().findings, []);
}
