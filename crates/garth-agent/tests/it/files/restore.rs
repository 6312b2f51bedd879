//! Restores of a path as requests: repeats, changes of other clients, conditions and limits. The contract
//! suite of the engine tests what a restore does to a tree.

use garth_agent::Once;
use garth_agent::files::{FileRestore, MAX_RESTORED, RestoreReport};
use garth_engine::fs::restore::RestoreAction;
use garth_engine::model::{Idempotency, Seq, Timestamp};
use garth_engine::{ErrorKind, FileSystemExt, Result};
use garth_testkit::fs::interfering::{Call, Interfering};

use super::*;

async fn begin(fs: &Fs) -> Once {
    let record = Idempotency::new("k", [1; 32], Timestamp(i64::MAX));
    Once::begin(Arc::clone(fs), record).await.unwrap()
}

async fn restore(fs: &Fs, at: &str, asked: &FileRestore) -> Result<RestoreReport> {
    Files::new(fs).restore(at, asked, Env::system().now()).await
}

async fn head(fs: &Fs) -> Seq {
    fs.head().await.unwrap().seq
}

async fn text(fs: &Fs, at: &str) -> String {
    fs.read_to_string(at).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn restore_is_one_commit_with_its_version() {
    each(async |fs: Fs| {
        write(&fs, &[("/d/a", "one"), ("/d/b", "one")]).await;
        let then = head(&fs).await;
        write(&fs, &[("/d/a", "two"), ("/d/new", "two")]).await;
        let report = restore(&fs, "/d", &FileRestore::to(then)).await.unwrap();
        assert_eq!((report.restored, report.removed, report.unchanged), (1, 1, 1));
        let removed = report.changes.iter().filter(|change| change.action == RestoreAction::Removed);
        assert_eq!(removed.map(|change| change.path.as_str()).collect::<Vec<_>>(), ["/d/new"]);
        assert_eq!((report.at, report.seq), (then, Some(Seq(then.0 + 2))));
        assert_eq!(report.version, Some(fs.entry("/d").await.unwrap().version));
        assert_eq!((text(&fs, "/d/a").await, head(&fs).await), ("one".to_owned(), Seq(then.0 + 2)));
        let again = restore(&fs, "/d", &FileRestore::to(then)).await.unwrap();
        assert_eq!((again.seq, again.restored, again.unchanged), (None, 0, 2));
        assert_eq!(head(&fs).await, Seq(then.0 + 2));
    })
    .await;
}

#[tokio::test]
async fn repeat_gets_report_of_all_steps() {
    let fs = memory();
    write(&fs, &[("/t/f", "old"), ("/t/g", "old")]).await;
    let then = head(&fs).await;
    write(&fs, &[("/t/f", "new")]).await;
    // Another client changes what the plan has found unchanged.
    let busy: Fs = Arc::new(Interfering::new(&fs, Call::Commit, 0, vec![Op::write(path("/t/g"), "new")]));
    let now = Env::system().now();
    let files = Files::new(&busy).once(begin(&fs).await);
    let mut report = files.restore("/t", &FileRestore::to(then), now).await.unwrap();
    assert_eq!((text(&fs, "/t/f").await, text(&fs, "/t/g").await), ("old".to_owned(), "old".to_owned()));
    assert_eq!((report.restored, report.removed, report.seq), (2, 0, Some(Seq(then.0 + 4))));
    assert_eq!(report.changes.len(), 2);
    // The record has numbers alone.
    report.changes.clear();
    write(&fs, &[("/t/f", "newest"), ("/t/g", "newest")]).await;
    let (before, once) = (head(&fs).await, begin(&fs).await);
    assert!(once.is_repeat());
    for asked in [FileRestore::to(then), FileRestore::repeat()] {
        let again = Files::new(&fs).once(once.clone()).restore("/t", &asked, now).await.unwrap();
        assert_eq!(again, report);
    }
    assert_eq!((head(&fs).await, text(&fs, "/t/g").await), (before, "newest".to_owned()));
}

#[tokio::test]
async fn unchanged_restore_is_recorded() {
    let fs = memory();
    write(&fs, &[("/a", "one")]).await;
    let (then, now) = (head(&fs).await, Env::system().now());
    let first =
        Files::new(&fs).once(begin(&fs).await).restore("/a", &FileRestore::to(then), now).await.unwrap();
    assert_eq!((first.seq, first.unchanged, head(&fs).await), (None, 1, Seq(then.0 + 1)));
    write(&fs, &[("/a", "two")]).await;
    let again =
        Files::new(&fs).once(begin(&fs).await).restore("/a", &FileRestore::to(then), now).await.unwrap();
    assert_eq!((again, text(&fs, "/a").await), (first, "two".to_owned()));
}

#[tokio::test]
async fn restore_of_another_version_is_a_conflict() {
    let fs = memory();
    write(&fs, &[("/a", "one")]).await;
    let (then, old) = (head(&fs).await, fs.entry("/a").await.unwrap().version);
    write(&fs, &[("/a", "two")]).await;
    let (before, current) = (head(&fs).await, fs.entry("/a").await.unwrap().version);
    let refused = restore(&fs, "/a", &FileRestore::to(then).if_version(old)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    assert!(refused.to_string().contains(&current.to_string()), "{refused}");
    assert_eq!(head(&fs).await, before);
    // The version is judged in the commit as well.
    let busy: Fs = Arc::new(Interfering::new(&fs, Call::Commit, 0, vec![Op::append(path("/a"), "!")]));
    let refused = restore(&busy, "/a", &FileRestore::to(then).if_version(current)).await.unwrap_err();
    assert_eq!((refused.kind(), text(&fs, "/a").await), (ErrorKind::Conflict, "two!".to_owned()));
    let current = fs.entry("/a").await.unwrap().version;
    restore(&fs, "/a", &FileRestore::to(then).if_version(current)).await.unwrap();
    assert_eq!(text(&fs, "/a").await, "one");
}

#[tokio::test]
async fn restore_of_large_directory_is_refused() {
    let fs = memory();
    fs.apply(Op::mkdir(path("/d"))).await.unwrap();
    let small = head(&fs).await;
    let ops = (0..=MAX_RESTORED).map(|n| Op::mkdir(path(&format!("/d/{n}"))));
    fs.commit(Batch::new(ops)).await.unwrap();
    let large = head(&fs).await;
    // Large now, then in both states.
    for moment in [small, large] {
        let refused = restore(&fs, "/d", &FileRestore::to(moment)).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::TooLarge, "{refused}");
    }
    assert_eq!(head(&fs).await, large);
    fs.apply(Op::remove(path("/d/7"))).await.unwrap();
    restore(&fs, "/d/7", &FileRestore::to(large)).await.unwrap();
    assert!(fs.entry("/d/7").await.unwrap().is_dir());
}
