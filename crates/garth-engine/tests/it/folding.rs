//! Removal of the past by retention: what stays readable is whole, and what holds it back.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::fs::store::Hold;
use garth_engine::model::{
    Author, Batch, ByteRange, Entry, Idempotency, MAX_PAGE, Moment, NamesPage, Op, Remove, Seq, SetAttrs,
    WalkPage,
};
use garth_engine::runtime::failpoint::{Failure, POINTS};
use garth_engine::view::overlay::{LowerLayer, StoredOverlay};
use garth_engine::{AccountStore, Env, FileSystem};
use garth_testkit::tools::{
    append, at, copy, link, mkdir_all, p, patch, remove, rename, set, symlink, truncate, write,
};

use super::retained_accounts::{Account, account};
use super::retained_trees::{GRACE, keeping_commits};

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

async fn commit_all(account: &Account) {
    for (n, ops) in history().into_iter().enumerate() {
        let author = Author::agent(if n % 2 == 0 { "scout" } else { "clerk" });
        account.commit(Batch { author, ..Batch::new(ops) }.visible()).await;
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

#[tokio::test]
async fn states_from_the_oldest_on_stay_whole() {
    let head = history().len() as u64;
    for oldest in 1..=head {
        let account = Account::new();
        let fs = &*account.fs;
        commit_all(&account).await;
        // Merged before, so that the comparison is of the removal alone.
        account.collect_at_once().await;
        let mut before = Vec::new();
        for seq in oldest..=head {
            before.push(state(fs, seq).await);
        }
        fs.set_retention(keeping_commits(head - oldest)).await.unwrap();
        let collected = account.collect_at_once().await;
        assert_eq!((collected.folded, collected.oldest), (oldest, oldest));
        account.assert_sound().await;
        // The second run removes the nodes that lost their last name.
        assert_eq!(account.collect_at_once().await.folded, 0);
        account.assert_sound().await;
        for (seq, before) in (oldest..=head).zip(before) {
            assert_eq!(state(fs, seq).await, before, "state {seq} from {oldest} on");
        }
        assert_eq!(shown(fs).await, state(fs, head).await);
    }
}

#[tokio::test]
async fn account_is_folded_again_and_again() {
    let account = Account::new();
    let fs = &*account.fs;
    fs.set_retention(keeping_commits(3)).await.unwrap();
    let mut folded = 0;
    for (n, ops) in history().into_iter().chain(history().into_iter().skip(10)).enumerate() {
        account.commit(Batch::new(ops)).await;
        let head = n as u64 + 1;
        let before = state(fs, head.saturating_sub(3).max(1)).await;
        folded += account.collect_at_once().await.folded;
        assert_eq!(folded, head.saturating_sub(3));
        assert_eq!(state(fs, head.saturating_sub(3).max(1)).await, before, "after commit {head}");
        account.assert_sound().await;
    }
}

#[tokio::test]
async fn removed_past_leaves_no_rows() {
    let account = Account::new();
    let fs = &*account.fs;
    commit_all(&account).await;
    account.commit(Batch::new(["/moved", "/copied"].map(|path| remove(path, Remove::Tree)))).await;
    fs.set_retention(keeping_commits(0)).await.unwrap();
    for _ in 0..2 {
        account.collect_at_once().await;
    }
    account.assert_sound().await;
    let conn = account.database();
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
    fs.set_retention(keeping_commits(1)).await.unwrap();
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
    let account = Account::new();
    let fs = &*account.fs;
    commit_all(&account).await;
    fs.set_retention(keeping_commits(15)).await.unwrap();
    let would = fs.gc_dry_run(GRACE).await.unwrap();
    assert_eq!((would.folded, would.oldest), (5, 5));
    let announced = fs.gc(GRACE).await.unwrap();
    assert_eq!((announced.folded, announced.oldest), (0, 5));
    let state = fs.retention().await.unwrap();
    assert_eq!((state.oldest, state.folded), (Seq(5), Seq(0)));
    // A later announcement does not delay the first one.
    account.commit(write("/one-more", "x")).await;
    account.clock.advance(GRACE / 2);
    assert_eq!(fs.gc(GRACE).await.unwrap().oldest, 6);
    account.clock.advance(GRACE / 2);
    assert_eq!(fs.gc(GRACE).await.unwrap().folded, 5);
    account.clock.advance(GRACE / 2);
    assert_eq!(fs.gc(GRACE).await.unwrap().folded, 1);
    account.assert_sound().await;
}

#[tokio::test]
async fn answers_to_retries_outlive_their_commits() {
    let account = Account::new();
    let fs = &*account.fs;
    let record = Idempotency::new("k".to_owned(), [1; 32], account.env.now().plus_seconds(3600));
    let batch = Batch { idempotency: Some(record), ..Batch::new([write("/f", "0")]) };
    let first = fs.commit(batch.clone()).await.unwrap();
    for n in 1..9 {
        fs.commit(Batch::new([write("/f", format!("{n}"))])).await.unwrap();
    }
    fs.set_retention(keeping_commits(0)).await.unwrap();
    assert_eq!(account.collect_at_once().await.folded, 9);
    assert_eq!(fs.commit(batch).await.unwrap().seq, first.seq);
    account.assert_sound().await;
    account.clock.advance(Duration::from_secs(7200));
    account.collect_at_once().await;
    let conn = account.database();
    let logged: u64 = conn.query_row("SELECT count(*) FROM log", [], |row| row.get(0)).unwrap();
    assert_eq!(logged, 1, "only the last commit is left");
    account.assert_sound().await;
}

#[tokio::test]
async fn interrupted_removal_goes_on() {
    for point in POINTS.into_iter().filter(|point| point.starts_with("fold-")) {
        for after in 0..2 {
            let account = Account::new();
            let fs = &*account.fs;
            commit_all(&account).await;
            account.collect_at_once().await;
            let before = state(fs, 13).await;
            fs.set_retention(keeping_commits(8)).await.unwrap();
            fs.runtime().failpoints().arm(point, Failure::Io, after);
            // Some points are passed once.
            let failed = fs.gc(Duration::ZERO).await.is_err();
            assert_eq!(failed, !fs.runtime().failpoints().disarm(), "{point}");
            assert!(failed || after > 0, "{point} is never passed");
            account.assert_sound().await;
            let account = account.reopened();
            let fs = &*account.fs;
            account.commit(write("/after", "x")).await;
            for _ in 0..2 {
                account.collect_at_once().await;
            }
            account.assert_sound().await;
            assert_eq!(fs.retention().await.unwrap().folded, Seq(13), "{point}");
            assert_eq!(state(fs, 13).await, before, "{point}");
        }
    }
}
