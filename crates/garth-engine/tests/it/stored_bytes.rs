//! The limit on the stored bytes of an account, from the first refusal to the recovery.

use garth_engine::model::{ByteRange, Op};
use garth_engine::rule::retention::Retention;
use garth_engine::{AccountStore, ErrorKind, FileSystem, TreePath};
use garth_testkit::tools::{at, write};

use super::retained_accounts::Account;
use super::retained_trees::keeping_commits;

/// Returns a write of content that no index reads and that no other file has.
fn write_large(n: u8) -> Op {
    let content: Vec<u8> = std::iter::repeat_n([0, n, n.wrapping_mul(7)], 33_000).flatten().collect();
    write(&format!("/{n}"), content)
}

#[tokio::test]
async fn full_account_removes_collects_and_recovers() {
    let account = Account::new();
    let fs = &*account.fs;
    for n in 0..10 {
        account.commit(write_large(n)).await;
    }
    let stored = fs.usage(&TreePath::root()).await.unwrap().stored() + 50_000;
    fs.set_retention(Retention { stored: Some(stored), ..Retention::default() }).await.unwrap();
    let refused = async || fs.commit(write_large(100).into()).await.unwrap_err();
    assert_eq!(refused().await.kind(), ErrorKind::QuotaExceeded);
    for n in 0..9 {
        account.commit(Op::remove(at(&format!("/{n}")))).await;
    }
    account.collect_at_once().await;
    assert_eq!(refused().await.kind(), ErrorKind::QuotaExceeded, "history still has the content");
    fs.set_retention(Retention { stored: Some(stored), ..keeping_commits(0) }).await.unwrap();
    // One run announces, the next ones remove what the one before has marked.
    for _ in 0..3 {
        account.collect_at_once().await;
    }
    for n in 100..105 {
        account.commit(write_large(n)).await;
    }
    let kept = fs.read(&at("/9"), ByteRange { offset: 0, length: 3 }).await.unwrap();
    assert_eq!(&kept[..], [0, 9, 63]);
    let usage = fs.usage(&TreePath::root()).await.unwrap();
    assert!(usage.stored() <= stored && usage.history < 50_000, "{usage:?}");
    account.assert_sound().await;
}
