//! Contract of [`garth_engine::Home`]: its promises as checks of any implementation.
#![allow(clippy::unwrap_used, reason = "a check panics where a promise does not hold")]

use std::sync::Arc;
use std::time::Duration;

use garth_engine::env::ManualClock;
use garth_engine::home::{AccountState, ApiKey, KeyOrigin, KeysPage, NewKey, Rotation, Scope};
use garth_engine::model::Seq;
use garth_engine::{ErrorKind, FileSystemExt as _, Home};

/// One home, as two processes open it, and the clock of both.
#[derive(Debug)]
pub struct HomeSubject {
    /// Home of the first process. It has no accounts and no keys.
    pub one: Arc<dyn Home>,
    /// Home of the second process.
    pub other: Arc<dyn Home>,
    /// Clock that both follow.
    pub clock: ManualClock,
}

/// Checks a home.
///
/// # Panics
/// If a promise does not hold.
pub async fn check(subject: &HomeSubject) {
    lists_accounts_in_pages(subject).await;
    other_process_reads_the_same_tree(subject).await;
    other_process_rejects_revoked_key(subject).await;
    deleted_account_takes_its_keys_along(subject).await;
    other_process_releases_deleted_account(subject).await;
    admitted_key_never_reaches_a_namesake(subject).await;
    key_of_the_home_opens_no_account(subject).await;
    keys_are_listed_in_pages(subject).await;
    repeat_of_a_request_returns_the_same_key(subject).await;
    rotated_key_ends_after_its_grace(subject).await;
    marks_and_sizes_open_nothing(subject).await;
    assert_eq!(subject.one.sealing_key(), subject.other.sealing_key());
    assert!(!subject.one.place().is_empty());
}

fn new(account: &str) -> NewKey {
    NewKey::new(Some(account), &[Scope::FilesRead])
}

fn ids(keys: &[ApiKey]) -> Vec<&str> {
    keys.iter().map(|key| &*key.id).collect()
}

async fn lists_accounts_in_pages(HomeSubject { one, other, .. }: &HomeSubject) {
    for name in ["page-b", "page", "page-a"] {
        one.create_account(name).await.unwrap();
    }
    assert!(one.create_account("page").await.unwrap_err().is(ErrorKind::AlreadyExists));
    assert!(one.create_account("a/b").await.unwrap_err().is(ErrorKind::InvalidArgument));
    let page = async |after: &str, limit| -> Vec<String> {
        let accounts = other.accounts(after, limit).await.unwrap();
        assert!(accounts.iter().all(|account| account.state == AccountState::Active));
        accounts.into_iter().map(|account| account.id).collect()
    };
    assert_eq!(page("", 2).await, ["page", "page-a"]);
    assert_eq!(page("page-a", 2).await, ["page-b"]);
    assert_eq!(page("page-b", 2).await, [""; 0]);
    assert_eq!(other.account("page").await.unwrap().id, "page");
    assert!(other.account("pag").await.unwrap_err().is(ErrorKind::NotFound));
}

async fn other_process_reads_the_same_tree(HomeSubject { one, other, .. }: &HomeSubject) {
    one.create_account("tree").await.unwrap();
    let tree = one.open("tree").await.unwrap();
    assert!(Arc::ptr_eq(&tree, &one.open("tree").await.unwrap()));
    tree.write("/note", "text\n").await.unwrap();
    assert_eq!(other.open("tree").await.unwrap().read_to_string("/note").await.unwrap(), "text\n");
    assert!(other.open("no-tree").await.unwrap_err().is(ErrorKind::NotFound));
}

async fn other_process_rejects_revoked_key(HomeSubject { one, other, .. }: &HomeSubject) {
    one.create_account("revoked").await.unwrap();
    let (key, secret) = one.issue_key(new("revoked")).await.unwrap();
    let admitted = other.admit(secret.reveal()).await.unwrap().unwrap();
    assert_eq!((admitted.key(), admitted.tree().is_empty()), (&key, false));
    let (own, named) = (other.open_admitted(&admitted).await.unwrap(), other.open("revoked").await.unwrap());
    assert!(Arc::ptr_eq(&own, &named));
    assert_eq!(one.count_keys(Some("revoked")).await.unwrap(), 1);
    assert!(one.revoke_key(Some("page"), &key.id).await.unwrap_err().is(ErrorKind::NotFound));
    let revoked = one.revoke_key(Some("revoked"), &key.id).await.unwrap();
    assert_eq!(one.revoke_key(Some("revoked"), &key.id).await.unwrap(), revoked);
    assert!(other.admit(secret.reveal()).await.unwrap().is_none());
    assert_eq!(other.count_keys(Some("revoked")).await.unwrap(), 0);
    for wrong in ["", "garth_", &secret.reveal()[..80]] {
        assert!(other.admit(wrong).await.unwrap().is_none(), "{wrong}");
    }
}

async fn deleted_account_takes_its_keys_along(HomeSubject { one, other, .. }: &HomeSubject) {
    one.create_account("deleted").await.unwrap();
    let (_, secret) = one.issue_key(new("deleted")).await.unwrap();
    one.delete_account("deleted").await.unwrap();
    assert!(other.admit(secret.reveal()).await.unwrap().is_none());
    assert!(other.open("deleted").await.unwrap_err().is(ErrorKind::NotFound));
    assert!(other.keys(Some("deleted"), &KeysPage::default()).await.unwrap_err().is(ErrorKind::NotFound));
    assert!(one.delete_account("deleted").await.unwrap_err().is(ErrorKind::NotFound));
    assert!(one.issue_key(new("deleted")).await.unwrap_err().is(ErrorKind::NotFound));
}

async fn other_process_releases_deleted_account(HomeSubject { one, other, .. }: &HomeSubject) {
    one.create_account("released").await.unwrap();
    let tree = other.open("released").await.unwrap();
    tree.write("/note", "text\n").await.unwrap();
    one.delete_account("released").await.unwrap();
    let head = tree.head().await.map_or(Seq(1), |head| head.seq);
    // A caller that waits for a commit learns of the deletion as well.
    let (waited, continued) = futures::join!(tree.wait(head), other.continue_deletions());
    continued.unwrap();
    assert!(waited.unwrap_err().is(ErrorKind::NotFound));
    assert!(tree.read_to_string("/note").await.unwrap_err().is(ErrorKind::NotFound));
    assert!(tree.write("/note", "more\n").await.unwrap_err().is(ErrorKind::NotFound));
    assert!(!other.finish_deletion("released").await.unwrap());
    let kept = Arc::downgrade(&tree);
    drop(tree);
    assert!(kept.upgrade().is_none(), "nobody keeps it open");
}

async fn admitted_key_never_reaches_a_namesake(HomeSubject { one, other, .. }: &HomeSubject) {
    one.create_account("namesake").await.unwrap();
    let (_, secret) = one.issue_key(new("namesake")).await.unwrap();
    let admitted = other.admit(secret.reveal()).await.unwrap().unwrap();
    one.delete_account("namesake").await.unwrap();
    let again = one.create_account("namesake").await.unwrap();
    assert_ne!(again.folder, admitted.tree());
    assert!(one.open_admitted(&admitted).await.unwrap_err().is(ErrorKind::NotFound));
}

async fn key_of_the_home_opens_no_account(HomeSubject { one, other, .. }: &HomeSubject) {
    let (key, secret) = one.issue_key(NewKey::new(None, &[Scope::Admin])).await.unwrap();
    let admitted = other.admit(secret.reveal()).await.unwrap().unwrap();
    assert_eq!((admitted.key(), admitted.tree()), (&key, ""));
    assert!(other.open_admitted(&admitted).await.unwrap_err().is(ErrorKind::AccessDenied));
    for scopes in [&[Scope::FilesRead][..], &[Scope::Admin, Scope::FilesRead]] {
        let refused = one.issue_key(NewKey::new(None, scopes)).await.unwrap_err();
        assert!(refused.is(ErrorKind::InvalidArgument), "{refused}");
    }
    assert_eq!(ids(&other.keys(None, &KeysPage::default()).await.unwrap().items), [&*key.id]);
    assert!(one.revoke_key(Some("page"), &key.id).await.unwrap_err().is(ErrorKind::NotFound));
    one.revoke_key(None, &key.id).await.unwrap();
    assert!(other.admit(secret.reveal()).await.unwrap().is_none());
}

async fn keys_are_listed_in_pages(HomeSubject { one, other, clock }: &HomeSubject) {
    one.create_account("keys").await.unwrap();
    let mut made = Vec::new();
    for _ in 0..3 {
        clock.advance(Duration::from_secs(1));
        made.push(one.issue_key(new("keys")).await.unwrap().0);
    }
    let first = other.keys(Some("keys"), &KeysPage::default().limit(2)).await.unwrap();
    assert_eq!((ids(&first.items), first.more), (ids(&made[..2]), true));
    let rest = KeysPage::default().limit(2).after(&first.items[1]);
    let rest = other.keys(Some("keys"), &rest).await.unwrap();
    assert_eq!((ids(&rest.items), rest.more), (ids(&made[2..]), false));
    one.revoke_key(Some("keys"), &made[0].id).await.unwrap();
    let all = other.keys(Some("keys"), &KeysPage::with_revoked()).await.unwrap();
    let valid = other.keys(Some("keys"), &KeysPage::default()).await.unwrap();
    assert_eq!((ids(&all.items), ids(&valid.items)), (ids(&made), ids(&made[1..])));
}

async fn repeat_of_a_request_returns_the_same_key(HomeSubject { one, other, clock }: &HomeSubject) {
    one.create_account("repeat").await.unwrap();
    let request = |key: &str, hash| {
        let mut new = new("repeat");
        new.origin = Some(KeyOrigin::new("token of the caller", key, [hash; 32]));
        new
    };
    let (key, secret) = one.issue_key(request("a", 1)).await.unwrap();
    let (again, same) = other.issue_key(request("a", 1)).await.unwrap();
    assert_eq!((again, same.reveal()), (key, secret.reveal()));
    assert!(other.issue_key(request("a", 2)).await.unwrap_err().is(ErrorKind::IdempotencyMismatch));
    assert_ne!(other.issue_key(request("b", 1)).await.unwrap().1.reveal(), secret.reveal());
    clock.advance(Duration::from_secs(24 * 60 * 60));
    assert!(other.issue_key(request("a", 1)).await.unwrap_err().is(ErrorKind::Conflict));
}

async fn rotated_key_ends_after_its_grace(HomeSubject { one, other, clock }: &HomeSubject) {
    one.create_account("rotated").await.unwrap();
    let (key, secret) = one.issue_key(new("rotated")).await.unwrap();
    let grace = Duration::from_secs(60);
    let rotated = one.rotate_key(Some("rotated"), &key.id, Rotation::new(grace)).await.unwrap();
    assert_eq!((&rotated.old.id, &rotated.key.scopes), (&key.id, &key.scopes));
    assert!(other.admit(secret.reveal()).await.unwrap().is_some());
    let again = one.rotate_key(Some("rotated"), &key.id, Rotation::default()).await;
    assert!(again.unwrap_err().is(ErrorKind::Conflict));
    clock.advance(grace);
    assert!(other.admit(secret.reveal()).await.unwrap().is_none());
    assert!(other.admit(rotated.secret.reveal()).await.unwrap().is_some());
}

async fn marks_and_sizes_open_nothing(HomeSubject { one, other, .. }: &HomeSubject) {
    let account = one.create_account("mark").await.unwrap();
    one.open("mark").await.unwrap().write("/note", "text\n").await.unwrap();
    let marks = other.marks(vec![account.clone(), other.account("page").await.unwrap()]).await.unwrap();
    assert_eq!(marks.len(), 2);
    assert!(marks.iter().all(|mark| mark.changed().is_some()), "{marks:?}");
    let size = other.size(&account).await.unwrap();
    assert!(size.bytes > 0 && size.packs == 0 && !size.more_packs, "{size:?}");
}
