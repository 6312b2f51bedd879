//! Old content of path classes, and reports of what collections would remove.

use std::time::Duration;

use garth_engine::fs::store::{Collectable, Collected};
use garth_engine::model::{At, HistoryPage, Op};
use garth_engine::rule::PathPattern;
use garth_engine::rule::retention::{ContentLimit, Retention};
use garth_engine::{AccountStore as _, FileSystem as _};

use super::database::at;
use super::retention::{Account, LEFT_OVER, NOTHING, off, text};

#[tokio::test(flavor = "multi_thread")]
async fn old_content_of_a_class_leaves_no_extents() {
    let account = Account::new().await;
    account.retain(off(&["/off/**"])).await;
    for n in 0..10 {
        let mut ops = vec![Op::write(at("/off/a"), format!("a{n}")).with_parents()];
        ops.extend((n == 0).then(|| Op::write(at("/off/d/b"), "b").with_parents()));
        ops.extend((n == 9).then(|| Op::remove_tree(at("/off/d"))));
        account.commit(ops).await;
    }
    let extents = || {
        account.count("SELECT (SELECT count(*) FROM garth.extent) + (SELECT count(*) FROM garth.extent_past)")
    };
    let contents = account.gc().await.contents;
    assert_eq!(contents, 10);
    // The removed file waits until nobody can have it open.
    for _ in 0..2 {
        account.gc().await;
    }
    assert_eq!(extents(), 1);
    assert_eq!(account.count("SELECT count(*) FROM garth.content_gone"), 2, "one for each file");
    for seq in 1..10 {
        assert!(text(&*account.as_of(seq).await, "/off/a").await.starts_with("gone about Some(\"/off/a\")"));
    }
    assert!(text(&*account.as_of(10).await, "/off/a").await.contains("a9"));
    let history = account.fs.history(&At::Path(at("/off/a")), &HistoryPage::default()).await.unwrap();
    assert_eq!(history.items.len(), 10, "its versions stay");
    let idle = account.gc().await;
    assert_eq!((idle.contents, idle.content_bytes, idle.waiting_contents), (0, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn most_generous_name_and_shown_path_judge_a_file() {
    let account = Account::new().await;
    account.retain(off(&["/off/**"])).await;
    let about = at("/.garth/overlays/one/overlay.json");
    account
        .commit([
            Op::write(at("/off/a"), "one").with_parents(),
            Op::link(at("/off/a"), at("/kept")),
            Op::write(about, r#"{"root":"/off","as_of":null}"#).with_parents(),
            Op::write(at("/.garth/overlays/one/tree/b"), "one").with_parents(),
        ])
        .await;
    account
        .commit([Op::write(at("/off/a"), "two"), Op::write(at("/.garth/overlays/one/tree/b"), "two")])
        .await;
    assert_eq!(account.gc().await.contents, 1, "the file of the overlay, which shows it in /off");
    assert!(text(&*account.as_of(1).await, "/kept").await.contains("one"));
    account.commit([Op::remove_file(at("/kept"))]).await;
    account.commit([Op::write(at("/off/a"), "three")]).await;
    assert_eq!(account.gc().await.contents, 1, "what was replaced while it had another name stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn content_that_a_snapshot_showed_goes_after_it() {
    let account = Account::new().await;
    account.commit([Op::write(at("/a"), "one")]).await;
    account.commit([Op::snapshot("then")]).await;
    account.commit([Op::write(at("/a"), "two")]).await;
    account.retain(off(&["/a"])).await;
    assert_eq!(account.gc().await.contents, 0);
    account.commit([Op::drop_snapshot("then")]).await;
    assert_eq!(account.gc().await.contents, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn ages_follow_the_times_of_commits() {
    let account = Account::of_commits().await;
    // As if the first ten commits were made an hour ago.
    account.rows("UPDATE garth.log SET time = time - 3600000000000 WHERE seq <= 10");
    let keep = |pattern: &str, seconds| ContentLimit {
        pattern: PathPattern::parse(pattern).unwrap(),
        keep: Duration::from_secs(seconds),
    };
    let content = vec![keep("/f", 600), keep("/d/**", 86_400)];
    account.retain(Retention { content, ..Retention::default() }).await;
    let collected = account.gc().await;
    assert_eq!((collected.oldest, collected.contents), (0, 7), "what seven writes and appends replaced");
    account.retain(Retention { age: Some(Duration::from_secs(600)), ..Retention::default() }).await;
    assert_eq!(account.gc().await.oldest, 10, "the state that was current at this age stays");
    assert_eq!(account.rows(LEFT_OVER), NOTHING);
}

#[tokio::test(flavor = "multi_thread")]
async fn dry_run_counts_what_collections_remove() {
    let would = |report: &Collectable| {
        let Collectable { folded, ended_versions, ended_bytes, contents, content_bytes, .. } = *report;
        [folded, ended_versions, ended_bytes, contents, content_bytes]
    };
    let did = |report: &Collected| {
        let Collected { folded, ended_versions, ended_bytes, contents, content_bytes, .. } = *report;
        [folded, ended_versions, ended_bytes, contents, content_bytes]
    };
    for commits in [None, Some(12), Some(0)] {
        let account = Account::of_commits().await;
        for n in 1..=10 {
            account.commit([Op::write(at("/off/a"), "a".repeat(n)).with_parents()]).await;
        }
        account.commit([Op::remove(at("/off/a"))]).await;
        account.retain(Retention { commits, ..off(&["/off/**"]) }).await;
        let dry_run = || async { would(&account.fs.gc_dry_run(Duration::ZERO).await.unwrap()) };
        let before = dry_run().await;
        let mut removed = [0; 5];
        for _ in 0..5 {
            let collected = did(&account.gc().await);
            removed.iter_mut().zip(collected).for_each(|(sum, more)| *sum += more);
        }
        assert_eq!(before, removed, "{commits:?} are kept");
        assert_eq!(dry_run().await, [0; 5]);
        assert!(before[3] > 0, "{before:?}");
    }
}
