//! The limit on the stored bytes of an account, from the first refusal to the recovery.

use garth_engine::model::{Batch, Body, ByteRange, Confinement, Op, Owner, SetAttrs, Within};
use garth_engine::rule::retention::Retention;
use garth_engine::{AccountStore, Error, ErrorKind, FileSystem, TreePath};
use garth_testkit::tools::{at, mkdir, p, write, write_with};

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

/// Length of content that goes to a pack file.
const LONG: usize = 1_200_000;

/// Returns content for a pack file, which no other number has.
fn long(n: u8) -> Vec<u8> {
    std::iter::repeat_n([0, n, n.wrapping_mul(7)], LONG / 3).flatten().collect()
}

/// Returns a write of an upload that no index reads.
fn write_image(path: &str, content: Body) -> Op {
    write_with(path, content, SetAttrs::new().content_type("image/png"))
}

async fn upload(fs: &dyn FileSystem, path: &str, content: Vec<u8>) -> Result<Body, Error> {
    let mut upload = fs.stage(&at(path)).await?;
    upload.write(content.into()).await?;
    Ok(Body::Staged(upload.finish().await?))
}

async fn stored(account: &Account) -> u64 {
    account.fs.usage(&TreePath::root()).await.unwrap().stored()
}

/// Limits the stored bytes to those that are in use, and `more`.
async fn leave(account: &Account, more: u64) {
    let limit = Some(stored(account).await + more);
    account.fs.set_retention(Retention { stored: limit, ..Retention::default() }).await.unwrap();
}

#[track_caller]
fn assert_full<T>(result: Result<T, Error>) {
    assert_eq!(result.err().unwrap().kind(), ErrorKind::QuotaExceeded);
}

/// Creates an account with content that a view of the directory `/own` does not reach, and returns the view.
async fn with_content_of_others() -> (Account, std::sync::Arc<dyn FileSystem>) {
    let account = Account::new();
    account.commit(mkdir("/own")).await;
    account.commit(write_large(1)).await;
    let content = upload(&*account.fs, "/long", long(1)).await.unwrap();
    account.commit(write("/long", content)).await;
    let own = Confinement::new(Within::new([p("/own")]), Owner::new("her").unwrap());
    let view = account.fs.confined(&own).await.unwrap();
    (account, view)
}

#[tokio::test]
async fn content_that_others_have_needs_the_room_of_other_content() {
    let (account, view) = with_content_of_others().await;
    let content_of = |n: u8| match write_large(n) {
        Op::Write { body, .. } => body,
        other => panic!("{other:?}"),
    };
    for n in [1, 2] {
        let path = format!("/own/{n}");
        // Room for the index of the content and its rows, but not for the content.
        leave(&account, 80_000).await;
        assert_full(view.commit(write(&path, content_of(n)).into()).await);
        leave(&account, 200_000).await;
        view.commit(write(&path, content_of(n)).into()).await.unwrap();
    }
    account.assert_sound().await;
}

#[tokio::test]
async fn uploads_that_others_have_need_the_room_of_other_uploads() {
    let (account, view) = with_content_of_others().await;
    for n in [1, 2] {
        let path = format!("/own/{n}");
        // Room for the upload, but not for its index, of half its length, as well.
        leave(&account, LONG as u64 + 100_000).await;
        let body = upload(&*view, &path, long(n)).await.unwrap();
        assert_full(view.commit(write(&path, body.clone()).into()).await);
        let Body::Staged(staged) = body else { panic!("no upload") };
        view.discard(&at(&path), &staged).await.unwrap();
        leave(&account, 2 * LONG as u64).await;
        let body = upload(&*view, &path, long(n)).await.unwrap();
        view.commit(write(&path, body).into()).await.unwrap();
    }
    account.assert_sound().await;
}

#[tokio::test]
async fn content_that_is_uploaded_twice_counts_once() {
    let account = Account::new();
    account.commit(write("/a", "a")).await;
    let (before, long_bytes) = (stored(&account).await, LONG as u64);
    let first = upload(&*account.fs, "/first", long(1)).await.unwrap();
    let with_one = stored(&account).await;
    assert!(with_one >= before + long_bytes, "{before} {with_one}");
    let again = upload(&*account.fs, "/again", long(1)).await.unwrap();
    assert!(stored(&account).await < with_one + 50_000, "nothing has been collected");
    // The two do not refuse each other.
    let limit = Some(before + long_bytes + 100_000);
    account.fs.set_retention(Retention { stored: limit, ..Retention::default() }).await.unwrap();
    account.commit(write_image("/first", first)).await;
    // By its length, as content that another file does not have.
    assert_full(account.fs.commit(write_image("/again", again.clone()).into()).await);
    let Body::Staged(again) = again else { panic!("no upload") };
    account.fs.discard(&at("/again"), &again).await.unwrap();
    assert!(stored(&account).await < with_one + 50_000);
    assert!(account.fs.read(&at("/first"), ByteRange::ALL).await.unwrap() == long(1));
    account.assert_sound().await;
}

#[tokio::test]
async fn upload_makes_no_room_for_what_is_longer() {
    let account = Account::new();
    let waiting = upload(&*account.fs, "/waiting", long(1)).await.unwrap();
    let empty = upload(&*account.fs, "/empty", Vec::new()).await.unwrap();
    let short = upload(&*account.fs, "/short", vec![b'x'; 10_000]).await.unwrap();
    leave(&account, 20_000).await;
    for (path, body) in [("/empty", &empty), ("/short", &short)] {
        let batch = Batch::new([write_large(2), write_image(path, body.clone())]);
        assert_full(account.fs.commit(batch).await);
    }
    // An account over its limit does not grow by an empty upload either.
    leave(&account, 0).await;
    assert_full(account.fs.commit(write("/empty", empty).into()).await);
    // Those that wait give way to an upload of its length, with the rows that it needs.
    account.commit(write_image("/short", short)).await;
    leave(&account, 20_000).await;
    account.commit(write_image("/waiting", waiting)).await;
    account.assert_sound().await;
}
