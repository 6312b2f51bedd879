//! Removal of the past by retention: what stays readable is whole, and what holds it back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::fs::store::Hold;
use garth_engine::model::{
    Author, Batch, ByteRange, Entry, Idempotency, MAX_PAGE, Moment, NamesPage, Op, Remove, Seq, SetAttrs,
    Timestamp, WalkPage,
};
use garth_engine::rule::retention::Retention;
use garth_engine::runtime::failpoint::{Failure, POINTS};
use garth_engine::view::overlay::{LowerLayer, StoredOverlay};
use garth_engine::{AccountStore, Env, FileSystem};
use garth_testkit::tools::{
    append, at, copy, link, mkdir_all, p, patch, remove, rename, set, symlink, truncate, write,
};

use super::retention::account;

const GRACE: Duration = Duration::from_secs(600);

fn open(folder: &tempfile::TempDir, env: Env) -> Arc<SqliteFs> {
    SqliteFs::open(folder.path(), env, garth_engine::rule::sample::registry()).unwrap()
}

fn keeping(commits: u64) -> Retention {
    Retention { commits: Some(commits), ..Retention::default() }
}

/// Returns the commits of a history with every kind of change, by two authors in turn.
fn history() -> Vec<Vec<Op>> {
    let mut commits = vec![
        vec![mkdir_all("/d/e"), write("/d/f", "one\n"), write("/big", vec![7_u8; 200_000])],
        vec![append("/d/f", "two\n"), link("/d/f", "/hard"), symlink("/s", "d")],
        vec![set("/d/f", SetAttrs::new().mode(0o600).tags(["a"])), patch("/big", 70_000, "patched")],
        vec![copy("/d", "/copied"), write("/d/gone", "gone")],
        vec![rename("/d/e", "/moved"), append("/d/f", "three\n")],
        vec![remove("/d/gone", Remove::File), truncate("/big", 100_000)],
        vec![Op::exchange(at("/d/f"), at("/copied/f")), set("/hard", SetAttrs::new().tags(["b"]))],
        vec![remove("/copied", Remove::Tree), mkdir_all("/copied/again")],
        vec![rename("/d", "/moved/d"), write("/s2", "x")],
        vec![rename("/s2", "/s"), write("/moved/d/new", "new")],
    ];
    let line = |n: u64| vec![append("/hard", format!("line {n}\n")), write("/last", format!("{n}"))];
    commits.extend((0..10).map(line));
    commits
}

async fn commit_all(fs: &SqliteFs) {
    for (n, ops) in history().into_iter().enumerate() {
        let author = Author::agent(if n % 2 == 0 { "scout" } else { "clerk" });
        fs.commit(Batch { author, ..Batch::new(ops) }.visible()).await.unwrap();
    }
}

/// Everything that a state shows: of each path its entry, content, names, and the authors of its bytes.
type Shown = BTreeMap<String, (Entry, Option<Bytes>, Vec<String>, Vec<(ByteRange, Option<Author>)>)>;

async fn shown(fs: &dyn FileSystem) -> Shown {
    let mut shown = Shown::new();
    let walk = fs.walk(&at("/"), &WalkPage::default().limit(MAX_PAGE).with_entries()).await.unwrap();
    assert!(!walk.more);
    let mut entries = vec![("/".to_owned(), fs.stat(&at("/")).await.unwrap())];
    entries.extend(walk.items.into_iter().map(|item| (item.path.to_string(), *item.entry.unwrap())));
    for (path, entry) in entries {
        let (mut content, mut authors) = (None, Vec::new());
        if entry.is_file() {
            content = Some(fs.read(&at(&path), ByteRange::ALL).await.unwrap());
            let blame = fs.blame(&at(&path), ByteRange::ALL, 1000).await.unwrap();
            for run in &blame.runs {
                let commit = blame.commits.iter().find(|commit| Some(commit.seq) == run.commit);
                authors.push((run.range, commit.map(|commit| commit.author.clone())));
            }
        }
        let names = fs.names(&at(&path), &NamesPage::default()).await.unwrap();
        let names = names.items.iter().map(ToString::to_string).collect();
        shown.insert(path, (entry, content, names, authors));
    }
    shown
}

async fn state(fs: &SqliteFs, seq: u64) -> Shown {
    shown(&*fs.as_of(&Moment::Seq(Seq(seq))).await.unwrap()).await
}

async fn sound(fs: &SqliteFs) {
    assert_eq!(fs.fsck().await.unwrap().findings, []);
}

#[tokio::test]
async fn states_from_the_oldest_on_stay_whole() {
    let head = history().len() as u64;
    for oldest in 1..=head {
        let folder = tempfile::tempdir().unwrap();
        let fs = open(&folder, Env::system());
        commit_all(&fs).await;
        // Merged before, so that the comparison is of the removal alone.
        fs.gc(Duration::ZERO).await.unwrap();
        let mut before = Vec::new();
        for seq in oldest..=head {
            before.push(state(&fs, seq).await);
        }
        fs.set_retention(keeping(head - oldest)).await.unwrap();
        let collected = fs.gc(Duration::ZERO).await.unwrap();
        assert_eq!((collected.folded, collected.oldest), (oldest, oldest));
        sound(&fs).await;
        // The second run removes the nodes that lost their last name.
        assert_eq!(fs.gc(Duration::ZERO).await.unwrap().folded, 0);
        sound(&fs).await;
        for (seq, before) in (oldest..=head).zip(before) {
            assert_eq!(state(&fs, seq).await, before, "state {seq} from {oldest} on");
        }
        assert_eq!(shown(&*fs).await, state(&fs, head).await);
    }
}

#[tokio::test]
async fn account_is_folded_again_and_again() {
    let folder = tempfile::tempdir().unwrap();
    let fs = open(&folder, Env::system());
    fs.set_retention(keeping(3)).await.unwrap();
    let mut folded = 0;
    for (n, ops) in history().into_iter().chain(history().into_iter().skip(10)).enumerate() {
        fs.commit(Batch::new(ops)).await.unwrap();
        let head = n as u64 + 1;
        let before = state(&fs, head.saturating_sub(3).max(1)).await;
        folded += fs.gc(Duration::ZERO).await.unwrap().folded;
        assert_eq!(folded, head.saturating_sub(3));
        assert_eq!(state(&fs, head.saturating_sub(3).max(1)).await, before, "after commit {head}");
        sound(&fs).await;
    }
}

#[tokio::test]
async fn removed_past_leaves_no_rows() {
    let folder = tempfile::tempdir().unwrap();
    let fs = open(&folder, Env::system());
    commit_all(&fs).await;
    fs.commit(Batch::new(["/moved", "/copied"].map(|path| remove(path, Remove::Tree)))).await.unwrap();
    fs.set_retention(keeping(0)).await.unwrap();
    for _ in 0..2 {
        fs.gc(Duration::ZERO).await.unwrap();
    }
    sound(&fs).await;
    let conn = rusqlite::Connection::open(folder.path().join("tree.db")).unwrap();
    let count = |sql: &str| conn.query_row(sql, [], |row| row.get::<_, u64>(0)).unwrap();
    for table in ["name_past", "dir_time_past", "fold", "fold_node", "replaced", "unnamed"] {
        assert_eq!(count(&format!("SELECT count(*) FROM {table}")), 0, "{table}");
    }
    assert_eq!(count("SELECT count(*) FROM log"), 1, "the last commit has the time of the oldest state");
    assert_eq!(count("SELECT count(*) FROM extent WHERE till > 0"), 0);
    // Those of the root and of each name.
    let nodes = count("SELECT count(DISTINCT ino) FROM name") + 1;
    assert_eq!(count("SELECT count(*) FROM node"), nodes);
}

#[tokio::test]
async fn snapshot_and_overlay_keep_their_states() {
    let folder = tempfile::tempdir().unwrap();
    let fs = account(folder.path(), Env::system());
    for n in 0..4 {
        fs.commit(Batch::new([write("/f", format!("{n}"))])).await.unwrap();
    }
    let lower = LowerLayer { root: p("/"), as_of: Some(Seq(3)) };
    StoredOverlay::create(&*fs, "o", &lower, &Batch::new([])).await.unwrap();
    let snapshot = fs.commit(Batch::new([Op::snapshot("s")])).await.unwrap().seq;
    for n in 4..9 {
        fs.commit(Batch::new([write("/f", format!("{n}"))])).await.unwrap();
    }
    fs.set_retention(keeping(1)).await.unwrap();
    let held = fs.retention().await.unwrap().held_by;
    assert_eq!(held, Some(Hold::Fork { id: "o".to_owned() }));
    assert_eq!(fs.gc(Duration::ZERO).await.unwrap().oldest, 3);
    let overlay = StoredOverlay::open(&*fs, "o").await.unwrap();
    assert_eq!(overlay.tree().read(&at("/f"), ByteRange::ALL).await.unwrap(), "2");
    StoredOverlay::discard(&*fs, "o", &Batch::new([])).await.unwrap();
    let held = fs.retention().await.unwrap().held_by;
    assert_eq!(held, Some(Hold::Snapshot { owner: None, name: "s".to_owned() }));
    assert_eq!(fs.gc(Duration::ZERO).await.unwrap().oldest, snapshot.0);
    let then = fs.as_of(&Moment::Snapshot("s".to_owned())).await.unwrap();
    assert_eq!(then.read(&at("/f"), ByteRange::ALL).await.unwrap(), "3");
    let last = fs.commit(Batch::new([Op::drop_snapshot("s")])).await.unwrap().seq;
    assert_eq!(fs.gc(Duration::ZERO).await.unwrap().oldest, last.0 - 1);
    drop((then, overlay));
    assert_eq!(fs.retention().await.unwrap().held_by, None);
    assert_eq!(fs.fsck().await.unwrap().findings, []);
}

#[tokio::test]
async fn rows_go_after_the_grace_period() {
    let folder = tempfile::tempdir().unwrap();
    let (env, clock) = Env::manual(Timestamp(1_700_000_000_000_000_000));
    let fs = open(&folder, env);
    commit_all(&fs).await;
    fs.set_retention(keeping(15)).await.unwrap();
    let would = fs.gc_dry_run(GRACE).await.unwrap();
    assert_eq!((would.folded, would.oldest), (5, 5));
    let announced = fs.gc(GRACE).await.unwrap();
    assert_eq!((announced.folded, announced.oldest), (0, 5));
    let state = fs.retention().await.unwrap();
    assert_eq!((state.oldest, state.folded), (Seq(5), Seq(0)));
    // A later announcement does not delay the first one.
    fs.commit(Batch::new([write("/one-more", "x")])).await.unwrap();
    clock.advance(GRACE / 2);
    assert_eq!(fs.gc(GRACE).await.unwrap().oldest, 6);
    clock.advance(GRACE / 2);
    assert_eq!(fs.gc(GRACE).await.unwrap().folded, 5);
    clock.advance(GRACE / 2);
    assert_eq!(fs.gc(GRACE).await.unwrap().folded, 1);
    sound(&fs).await;
}

#[tokio::test]
async fn answers_to_retries_outlive_their_commits() {
    let folder = tempfile::tempdir().unwrap();
    let (env, clock) = Env::manual(Timestamp(1_700_000_000_000_000_000));
    let fs = open(&folder, env.clone());
    let record = Idempotency::new("k".to_owned(), [1; 32], env.now().plus_seconds(3600));
    let batch = Batch { idempotency: Some(record), ..Batch::new([write("/f", "0")]) };
    let first = fs.commit(batch.clone()).await.unwrap();
    for n in 1..9 {
        fs.commit(Batch::new([write("/f", format!("{n}"))])).await.unwrap();
    }
    fs.set_retention(keeping(0)).await.unwrap();
    assert_eq!(fs.gc(Duration::ZERO).await.unwrap().folded, 9);
    assert_eq!(fs.commit(batch).await.unwrap().seq, first.seq);
    sound(&fs).await;
    clock.advance(Duration::from_secs(7200));
    fs.gc(Duration::ZERO).await.unwrap();
    let conn = rusqlite::Connection::open(folder.path().join("tree.db")).unwrap();
    let logged: u64 = conn.query_row("SELECT count(*) FROM log", [], |row| row.get(0)).unwrap();
    assert_eq!(logged, 1, "only the last commit is left");
    sound(&fs).await;
}

#[tokio::test]
async fn interrupted_removal_goes_on() {
    for point in POINTS.into_iter().filter(|point| point.starts_with("fold-")) {
        for after in 0..2 {
            let folder = tempfile::tempdir().unwrap();
            let fs = open(&folder, Env::system());
            commit_all(&fs).await;
            fs.gc(Duration::ZERO).await.unwrap();
            let before = state(&fs, 13).await;
            fs.set_retention(keeping(8)).await.unwrap();
            fs.runtime().failpoints().arm(point, Failure::Io, after);
            // Some points are passed once.
            let failed = fs.gc(Duration::ZERO).await.is_err();
            assert_eq!(failed, !fs.runtime().failpoints().disarm(), "{point}");
            assert!(failed || after > 0, "{point} is never passed");
            sound(&fs).await;
            drop(fs);
            let fs = open(&folder, Env::system());
            fs.commit(Batch::new([write("/after", "x")])).await.unwrap();
            for _ in 0..2 {
                fs.gc(Duration::ZERO).await.unwrap();
            }
            sound(&fs).await;
            assert_eq!(fs.retention().await.unwrap().folded, Seq(13), "{point}");
            assert_eq!(state(&fs, 13).await, before, "{point}");
        }
    }
}
