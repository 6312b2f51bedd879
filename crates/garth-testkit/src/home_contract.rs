//! Contract of [`garth_engine::Home`]: its promises as checks of any implementation.
#![allow(clippy::unwrap_used, reason = "a check panics where a promise does not hold")]

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::join_all;
use garth_engine::home::{
    AccountRequest, AccountState, ApiKey, KeyOrigin, KeyOwner, KeysPage, NewKey, Rotation, Scope,
};
use garth_engine::model::Seq;
use garth_engine::{ErrorKind, FileSystemExt as _, Home};

/// Time for which a repeat of a request gets the result of the first attempt.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// One home, as two processes open it, and the clock of both.
pub struct HomeSubject {
    /// Home of the first process. It has no accounts and no keys.
    pub one: Arc<dyn Home>,
    /// Home of the second process.
    pub other: Arc<dyn Home>,
    /// Moves the clock forward that the home and the environments of both follow. It stands still otherwise.
    pub advance: Box<dyn Fn(Duration)>,
    /// Takes the first step of the deletion of an account, and no other one, as a crash leaves it.
    pub begin_deletion: Box<dyn Fn(&str)>,
}

impl fmt::Debug for HomeSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HomeSubject").field("one", &self.one).finish_non_exhaustive()
    }
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
    account_being_deleted_is_out_of_reach(subject).await;
    failed_deletion_is_continued(subject).await;
    concurrent_deletions_have_one_winner(subject).await;
    repeat_of_a_creation_creates_nothing(subject).await;
    repeat_of_a_deletion_spares_a_namesake(subject).await;
    dropped_calls_run_to_their_end(subject).await;
    admitted_key_never_reaches_a_namesake(subject).await;
    calls_by_tree_spare_a_namesake(subject).await;
    key_of_the_home_opens_no_account(subject).await;
    key_of_the_home_is_rotated(subject).await;
    keys_are_listed_in_pages(subject).await;
    keys_of_one_time_are_listed_once(subject).await;
    key_without_scopes_is_refused(subject).await;
    expired_key_is_rejected(subject).await;
    only_valid_keys_create_others(subject).await;
    repeat_of_a_request_returns_the_same_key(subject).await;
    repeat_of_a_rotation_returns_the_same_key(subject).await;
    rotated_key_ends_after_its_grace(subject).await;
    rotation_without_grace_revokes_at_once(subject).await;
    marks_and_sizes_open_nothing(subject).await;
    commit_changes_the_mark_of_its_account(subject).await;
    assert_eq!(subject.one.sealing_key(), subject.other.sealing_key());
    assert!(!subject.one.place().is_empty());
}

fn new(account: &str) -> NewKey {
    NewKey::new(Some(account), &[Scope::FilesRead])
}

fn ids(keys: &[ApiKey]) -> Vec<&str> {
    keys.iter().map(|key| &*key.id).collect()
}

fn of(account: &str) -> KeyOwner {
    KeyOwner::named(account)
}

/// Waits until a condition holds that a call in the background makes true.
async fn until(home: &dyn Home, holds: impl AsyncFn() -> bool) {
    for _ in 0..1000 {
        if holds().await {
            return;
        }
        home.env().sleep(Duration::from_millis(10));
    }
    panic!("the condition does not hold after 10 s");
}

async fn lists_accounts_in_pages(HomeSubject { one, other, .. }: &HomeSubject) {
    // In the order of a language, capital and accented letters are next to plain ones.
    for name in ["é", "page-b", "a", "page", "B", "page-a"] {
        one.create_account(name).await.unwrap();
    }
    assert!(one.create_account("page").await.unwrap_err().is(ErrorKind::AlreadyExists));
    assert!(one.create_account("a/b").await.unwrap_err().is(ErrorKind::InvalidArgument));
    let page = async |after: &str, limit| -> Vec<String> {
        let accounts = other.accounts(after, limit).await.unwrap();
        assert!(accounts.iter().all(|account| account.state == AccountState::Active));
        accounts.into_iter().map(|account| account.id).collect()
    };
    assert_eq!(page("", 3).await, ["B", "a", "page"]);
    assert_eq!(page("page", 1).await, ["page-a"]);
    assert_eq!(page("page-a", 3).await, ["page-b", "é"]);
    assert_eq!(page("é", 2).await, [""; 0]);
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
    assert_eq!(one.count_keys(&of("revoked")).await.unwrap(), 1);
    assert!(one.revoke_key(&of("page"), &key.id).await.unwrap_err().is(ErrorKind::NotFound));
    let revoked = one.revoke_key(&of("revoked"), &key.id).await.unwrap();
    assert_eq!(one.revoke_key(&of("revoked"), &key.id).await.unwrap(), revoked);
    assert!(other.admit(secret.reveal()).await.unwrap().is_none());
    assert_eq!(other.count_keys(&of("revoked")).await.unwrap(), 0);
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
    assert!(other.keys(&of("deleted"), &KeysPage::default()).await.unwrap_err().is(ErrorKind::NotFound));
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

async fn account_being_deleted_is_out_of_reach(subject: &HomeSubject) {
    let HomeSubject { one, other, .. } = subject;
    one.create_account("ending").await.unwrap();
    let (key, secret) = one.issue_key(new("ending")).await.unwrap();
    let admitted = other.admit(secret.reveal()).await.unwrap().unwrap();
    (subject.begin_deletion)("ending");
    for home in [one, other] {
        let listed = home.accounts("", 100).await.unwrap();
        let state = listed.iter().find(|account| account.id == "ending").map(|account| account.state);
        assert_eq!(state, Some(AccountState::Deleted), "it is listed until it is deleted");
        assert!(home.admit(secret.reveal()).await.unwrap().is_none());
        // Its tree may still be open. A deletion that began after the key was admitted may go unnoticed.
        let opened = home.open_admitted(&admitted).await;
        assert!(opened.is_ok() || opened.unwrap_err().is(ErrorKind::NotFound));
        for gone in [
            home.account("ending").await.err(),
            home.open("ending").await.err(),
            home.keys(&of("ending"), &KeysPage::default()).await.err(),
            home.count_keys(&of("ending")).await.err(),
            home.issue_key(new("ending")).await.err(),
            home.revoke_key(&of("ending"), &key.id).await.err(),
        ] {
            assert!(gone.unwrap().is(ErrorKind::NotFound));
        }
        assert!(home.create_account("ending").await.unwrap_err().is(ErrorKind::AlreadyExists));
        let request = AccountRequest::new("caller", "create-ending", [1; 32]);
        let refused = home.create_account_once("ending", &request).await.unwrap_err();
        assert!(refused.is(ErrorKind::AlreadyExists), "{refused}");
    }
}

/// The deletion of `ending` has begun, and nobody finishes it.
async fn failed_deletion_is_continued(subject: &HomeSubject) {
    let HomeSubject { one, other, .. } = subject;
    let again = other.delete_account("ending").await;
    assert!(again.unwrap_err().is(ErrorKind::NotFound), "another call has begun it");
    assert!(one.accounts("", 100).await.unwrap().iter().all(|account| account.id != "ending"));
    let request = AccountRequest::new("caller", "create-ending", [1; 32]);
    assert!(one.create_account_once("ending", &request).await.unwrap().1, "refusals are not recorded");
    (subject.begin_deletion)("ending");
    let request = AccountRequest::new("caller", "delete-ending", [1; 32]);
    assert!(!one.delete_account_once("ending", &request).await.unwrap());
    assert!(other.create_account("ending").await.is_ok());
}

async fn concurrent_deletions_have_one_winner(HomeSubject { one, other, .. }: &HomeSubject) {
    one.create_account("contended").await.unwrap();
    let calls = (0..16).map(|n| [one, other][n % 2].delete_account("contended"));
    let (deleted, refused): (Vec<_>, Vec<_>) = join_all(calls).await.into_iter().partition(Result::is_ok);
    assert_eq!((deleted.len(), refused.len()), (1, 15));
    assert!(refused.into_iter().all(|refused| refused.unwrap_err().is(ErrorKind::NotFound)));
}

async fn repeat_of_a_creation_creates_nothing(HomeSubject { one, other, advance, .. }: &HomeSubject) {
    let request = |key: &str, hash| AccountRequest::new("caller", key, [hash; 32]);
    let (first, late) = (request("create-1", 1), request("create-2", 1));
    let created = one.create_account_once("once", &first).await.unwrap();
    assert!(created.1 && one.account("once").await.unwrap() == created.0);
    assert_eq!(other.create_account_once("once", &first).await.unwrap(), created);
    let found = (created.0.clone(), false);
    assert_eq!(other.create_account_once("once", &late).await.unwrap(), found);
    let mismatch = other.create_account_once("once", &request("create-1", 2)).await.unwrap_err();
    assert!(mismatch.is(ErrorKind::IdempotencyMismatch), "{mismatch}");
    one.delete_account("once").await.unwrap();
    assert_eq!(other.create_account_once("once", &first).await.unwrap(), created);
    assert_eq!(other.create_account_once("once", &late).await.unwrap(), found);
    assert!(one.account("once").await.unwrap_err().is(ErrorKind::NotFound), "nothing was created");
    advance(DAY);
    let again = other.create_account_once("once", &first).await.unwrap();
    assert!(again.1 && again.0.folder != created.0.folder, "after a day it is another request");
    let invalid = one.create_account_once("a/b", &request("create-3", 1)).await.unwrap_err();
    assert!(invalid.is(ErrorKind::InvalidArgument), "{invalid}");
}

async fn repeat_of_a_deletion_spares_a_namesake(HomeSubject { one, other, .. }: &HomeSubject) {
    let request = |caller: &str, hash| AccountRequest::new(caller, "delete-1", [hash; 32]);
    one.create_account("spared").await.unwrap();
    assert!(one.delete_account_once("spared", &request("caller", 1)).await.unwrap());
    let namesake = one.create_account("spared").await.unwrap();
    for home in [one, other] {
        assert!(home.delete_account_once("spared", &request("caller", 1)).await.unwrap());
        assert_eq!(home.account("spared").await.unwrap(), namesake);
    }
    let mismatch = other.delete_account_once("spared", &request("caller", 2)).await.unwrap_err();
    assert!(mismatch.is(ErrorKind::IdempotencyMismatch), "{mismatch}");
    assert!(other.delete_account_once("spared", &request("another caller", 1)).await.unwrap());
    assert!(one.account("spared").await.unwrap_err().is(ErrorKind::NotFound));
    let none = AccountRequest::new("caller", "delete-2", [1; 32]);
    assert!(!one.delete_account_once("spared", &none).await.unwrap(), "there is no such account");
    one.create_account("spared").await.unwrap();
    assert!(!other.delete_account_once("spared", &none).await.unwrap());
    assert!(one.account("spared").await.is_ok());
}

async fn dropped_calls_run_to_their_end(HomeSubject { one, other, .. }: &HomeSubject) {
    // Each is polled once, and has ended already if it needs no more.
    let _ = one.create_account("dropped").now_or_never();
    until(&**one, async || other.account("dropped").await.is_ok()).await;
    let _ = one.issue_key(new("dropped")).now_or_never();
    until(&**one, async || other.count_keys(&of("dropped")).await.unwrap() == 1).await;
    let keys = other.keys(&of("dropped"), &KeysPage::default()).await.unwrap();
    let _ = one.revoke_key(&of("dropped"), &keys.items[0].id).now_or_never();
    until(&**one, async || other.count_keys(&of("dropped")).await.unwrap() == 0).await;
    let _ = one.delete_account("dropped").now_or_never();
    until(&**one, async || other.create_account("dropped").await.is_ok()).await;
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

async fn calls_by_tree_spare_a_namesake(HomeSubject { one, other, .. }: &HomeSubject) {
    one.create_account("recreated").await.unwrap();
    let (_, secret) = one.issue_key(new("recreated")).await.unwrap();
    let owner = other.admit(secret.reveal()).await.unwrap().unwrap().owner();
    assert_eq!(owner, KeyOwner::from(&one.account("recreated").await.unwrap()));
    assert_eq!(other.count_keys(&owner).await.unwrap(), 1);
    one.delete_account("recreated").await.unwrap();
    let namesake = KeyOwner::from(&one.create_account("recreated").await.unwrap());
    let (theirs, _) = one.issue_key(NewKey::of(&namesake, &[Scope::Admin])).await.unwrap();
    for refused in [
        other.keys(&owner, &KeysPage::default()).await.err(),
        other.count_keys(&owner).await.err(),
        other.issue_key(NewKey::of(&owner, &[Scope::Admin])).await.err(),
        other.rotate_key(&owner, &theirs.id, Rotation::default()).await.err(),
        other.revoke_key(&owner, &theirs.id).await.err(),
    ] {
        assert!(refused.unwrap().is(ErrorKind::NotFound));
    }
    let listed = other.keys(&namesake, &KeysPage::with_revoked()).await.unwrap();
    assert_eq!(listed.items, [theirs]);
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
    assert_eq!(ids(&other.keys(&KeyOwner::home(), &KeysPage::default()).await.unwrap().items), [&*key.id]);
    assert!(one.revoke_key(&of("page"), &key.id).await.unwrap_err().is(ErrorKind::NotFound));
    assert_eq!(admitted.owner(), KeyOwner::home());
    one.revoke_key(&KeyOwner::home(), &key.id).await.unwrap();
    assert!(other.admit(secret.reveal()).await.unwrap().is_none());
}

async fn key_of_the_home_is_rotated(HomeSubject { one, other, .. }: &HomeSubject) {
    let home = KeyOwner::home();
    let (key, secret) = one.issue_key(NewKey::new(None, &[Scope::Admin])).await.unwrap();
    let elsewhere = one.rotate_key(&of("page"), &key.id, Rotation::default()).await;
    assert!(elsewhere.unwrap_err().is(ErrorKind::NotFound), "no account has it");
    let rotated = one.rotate_key(&home, &key.id, Rotation::default()).await.unwrap();
    assert_eq!((&rotated.key.account, &*rotated.key.scopes), (&None, &[Scope::Admin][..]));
    assert!(other.admit(secret.reveal()).await.unwrap().is_none());
    let admitted = other.admit(rotated.secret.reveal()).await.unwrap().unwrap();
    assert_eq!((admitted.key(), admitted.tree()), (&rotated.key, ""));
    one.revoke_key(&home, &rotated.key.id).await.unwrap();
}

async fn keys_are_listed_in_pages(HomeSubject { one, other, advance, .. }: &HomeSubject) {
    one.create_account("keys").await.unwrap();
    let mut made = Vec::new();
    for _ in 0..3 {
        advance(Duration::from_nanos(1));
        made.push(one.issue_key(new("keys")).await.unwrap().0);
    }
    let first = other.keys(&of("keys"), &KeysPage::default().limit(2)).await.unwrap();
    assert_eq!((ids(&first.items), first.more), (ids(&made[..2]), true));
    let rest = KeysPage::default().limit(2).after(&first.items[1]);
    let rest = other.keys(&of("keys"), &rest).await.unwrap();
    assert_eq!((ids(&rest.items), rest.more), (ids(&made[2..]), false));
    one.revoke_key(&of("keys"), &made[0].id).await.unwrap();
    let all = other.keys(&of("keys"), &KeysPage::with_revoked()).await.unwrap();
    let valid = other.keys(&of("keys"), &KeysPage::default()).await.unwrap();
    assert_eq!((ids(&all.items), ids(&valid.items)), (ids(&made), ids(&made[1..])));
}

async fn keys_of_one_time_are_listed_once(HomeSubject { one, other, .. }: &HomeSubject) {
    one.create_account("ties").await.unwrap();
    let mut made = Vec::new();
    for _ in 0..5 {
        made.push(one.issue_key(new("ties")).await.unwrap().0);
    }
    assert!(made.iter().all(|key| key.created == made[0].created), "the clock stands still");
    made.sort_by(|a, b| a.id.cmp(&b.id));
    let (mut page, mut seen) = (KeysPage::default().limit(2), Vec::new());
    loop {
        let listed = other.keys(&of("ties"), &page).await.unwrap();
        seen.extend(listed.items.iter().cloned());
        match listed.items.last().filter(|_| listed.more) {
            Some(last) => page = page.after(last),
            None => break,
        }
    }
    assert_eq!(seen, made);
}

async fn key_without_scopes_is_refused(HomeSubject { one, .. }: &HomeSubject) {
    for account in [Some("page"), None] {
        let refused = one.issue_key(NewKey::new(account, &[])).await.unwrap_err();
        assert!(refused.is(ErrorKind::InvalidArgument), "{refused}");
    }
}

async fn expired_key_is_rejected(HomeSubject { one, other, advance, .. }: &HomeSubject) {
    one.create_account("expiring").await.unwrap();
    let mut expiring = new("expiring");
    expiring.expires = Some(one.env().now().plus_seconds(1));
    let (key, secret) = one.issue_key(expiring.clone()).await.unwrap();
    advance(Duration::from_nanos(999_999_999));
    assert_eq!(other.admit(secret.reveal()).await.unwrap().unwrap().key(), &key);
    assert_eq!(other.count_keys(&of("expiring")).await.unwrap(), 1);
    advance(Duration::from_nanos(1));
    assert!(other.admit(secret.reveal()).await.unwrap().is_none());
    assert_eq!(other.count_keys(&of("expiring")).await.unwrap(), 0);
    let listed = other.keys(&of("expiring"), &KeysPage::default()).await.unwrap();
    assert_eq!(listed.items, std::slice::from_ref(&key), "it stays in the list");
    assert!(one.issue_key(expiring).await.unwrap_err().is(ErrorKind::InvalidArgument), "it is past");
    let late = one.rotate_key(&of("expiring"), &key.id, Rotation::default()).await;
    assert!(late.unwrap_err().is(ErrorKind::Conflict));
}

async fn only_valid_keys_create_others(HomeSubject { one, other, advance, .. }: &HomeSubject) {
    let admin = |account| NewKey::new(account, &[Scope::Admin]);
    one.create_account("makers").await.unwrap();
    let (victim, _) = one.issue_key(new("makers")).await.unwrap();
    let (operator, _) = one.issue_key(admin(None)).await.unwrap();
    let (own, _) = one.issue_key(admin(Some("makers"))).await.unwrap();
    let (elsewhere, _) = one.issue_key(admin(Some("page"))).await.unwrap();
    let mut expiring = admin(Some("makers"));
    expiring.expires = Some(one.env().now().plus_seconds(1));
    let (expired, _) = one.issue_key(expiring).await.unwrap();
    let by = |maker: &ApiKey| {
        let mut new = new("makers");
        new.maker = Some(maker.id.clone());
        new
    };
    for maker in [&operator, &own, &expired] {
        assert_eq!(other.issue_key(by(maker)).await.unwrap().0.maker.as_ref(), Some(&maker.id));
    }
    one.revoke_key(&of("makers"), &own.id).await.unwrap();
    one.revoke_key(&KeyOwner::home(), &operator.id).await.unwrap();
    advance(Duration::from_secs(1));
    for maker in [&operator, &own, &expired, &elsewhere] {
        let refused = other.issue_key(by(maker)).await.unwrap_err();
        assert!(refused.is(ErrorKind::AccessDenied), "{refused}");
        let mut rotation = Rotation::default();
        rotation.maker = Some(maker.id.clone());
        let refused = other.rotate_key(&of("makers"), &victim.id, rotation).await.unwrap_err();
        assert!(refused.is(ErrorKind::AccessDenied), "{refused}");
    }
    let mut of_home = admin(None);
    of_home.maker = Some(elsewhere.id.clone());
    let refused = other.issue_key(of_home).await.unwrap_err();
    assert!(refused.is(ErrorKind::AccessDenied), "a key of an account makes none of the home: {refused}");
}

async fn repeat_of_a_request_returns_the_same_key(HomeSubject { one, other, advance, .. }: &HomeSubject) {
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
    advance(DAY);
    assert!(other.issue_key(request("a", 1)).await.unwrap_err().is(ErrorKind::Conflict));
}

async fn repeat_of_a_rotation_returns_the_same_key(HomeSubject { one, other, advance, .. }: &HomeSubject) {
    one.create_account("rotated-once").await.unwrap();
    let owner = of("rotated-once");
    let (old, _) = one.issue_key(new("rotated-once")).await.unwrap();
    let request = |hash| {
        let mut rotation = Rotation::new(Duration::from_secs(60));
        rotation.origin = Some(KeyOrigin::new("token of the caller", "rotate", [hash; 32]));
        rotation
    };
    advance(Duration::from_millis(1));
    let first = one.rotate_key(&owner, &old.id, request(1)).await.unwrap();
    advance(Duration::from_millis(1));
    let again = other.rotate_key(&owner, &old.id, request(1)).await.unwrap();
    assert_eq!((&again.key, again.secret.reveal()), (&first.key, first.secret.reveal()));
    assert_eq!(again.old, first.old, "the grace is not extended");
    let mismatch = other.rotate_key(&owner, &old.id, request(2)).await.unwrap_err();
    assert!(mismatch.is(ErrorKind::IdempotencyMismatch), "{mismatch}");
    advance(DAY);
    assert!(other.rotate_key(&owner, &old.id, request(1)).await.unwrap_err().is(ErrorKind::Conflict));
    assert_eq!(
        ids(&other.keys(&owner, &KeysPage::with_revoked()).await.unwrap().items),
        [&*old.id, &*first.key.id]
    );
}

async fn rotated_key_ends_after_its_grace(HomeSubject { one, other, advance, .. }: &HomeSubject) {
    one.create_account("rotated").await.unwrap();
    let (key, secret) = one.issue_key(new("rotated")).await.unwrap();
    let grace = Duration::from_secs(60);
    let rotated = one.rotate_key(&of("rotated"), &key.id, Rotation::new(grace)).await.unwrap();
    assert_eq!((&rotated.old.id, &rotated.key.scopes), (&key.id, &key.scopes));
    assert!(other.admit(secret.reveal()).await.unwrap().is_some());
    let again = one.rotate_key(&of("rotated"), &key.id, Rotation::default()).await;
    assert!(again.unwrap_err().is(ErrorKind::Conflict));
    advance(grace);
    assert!(other.admit(secret.reveal()).await.unwrap().is_none());
    assert!(other.admit(rotated.secret.reveal()).await.unwrap().is_some());
}

async fn rotation_without_grace_revokes_at_once(HomeSubject { one, other, .. }: &HomeSubject) {
    one.create_account("replaced").await.unwrap();
    let owner = of("replaced");
    let (key, secret) = one.issue_key(new("replaced")).await.unwrap();
    let rotated = one.rotate_key(&owner, &key.id, Rotation::default()).await.unwrap();
    assert_eq!((rotated.old.revoked, rotated.old.expires), (Some(one.env().now()), None));
    assert!(other.admit(secret.reveal()).await.unwrap().is_none());
    assert!(other.admit(rotated.secret.reveal()).await.unwrap().is_some());
    assert_eq!(other.count_keys(&owner).await.unwrap(), 1);
    for (owner, id) in
        [(&owner, "0123456789abcdef"), (&of("page"), &*rotated.key.id), (&of("none"), &*key.id)]
    {
        let none = other.rotate_key(owner, id, Rotation::default()).await.unwrap_err();
        assert!(none.is(ErrorKind::NotFound), "{none}");
    }
    one.revoke_key(&owner, &rotated.key.id).await.unwrap();
    let revoked = other.rotate_key(&owner, &rotated.key.id, Rotation::default()).await;
    assert!(revoked.unwrap_err().is(ErrorKind::Conflict));
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

async fn commit_changes_the_mark_of_its_account(HomeSubject { one, other, .. }: &HomeSubject) {
    let (first, second) = (one.account("mark").await.unwrap(), one.account("page").await.unwrap());
    let tree = one.open("mark").await.unwrap();
    tree.write("/note", "before\n").await.unwrap();
    let before = other.marks(vec![first.clone()]).await.unwrap();
    // Longer than a tick of the clock that marks follow.
    one.env().sleep(Duration::from_millis(20));
    tree.write("/note", "after\n").await.unwrap();
    let after = other.marks(vec![first.clone()]).await.unwrap();
    assert_ne!(before, after);
    assert!(after[0].changed() > before[0].changed());
    // Work in the background may change a mark once more, but not for ever.
    until(&**one, async || {
        let forwards = other.marks(vec![first.clone(), second.clone()]).await.unwrap();
        let mut backwards = other.marks(vec![second.clone(), first.clone()]).await.unwrap();
        backwards.reverse();
        forwards == backwards && forwards[0] != forwards[1]
    })
    .await;
}
