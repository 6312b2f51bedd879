//! Bindings, expiry, derivation and rotation of API keys.

use std::collections::BTreeSet;
use std::sync::Barrier;
use std::time::Duration;

use futures::executor::block_on;
use garth_engine::datadir::{ApiKey, Binding, KeyOrigin, KeysPage, NewKey, Rotation, Scope, Secret};
use garth_engine::env::ManualClock;
use garth_engine::model::Timestamp;
use garth_engine::{DataDir, Env, Error, ErrorKind, Home as _, TreePath};

const START: Timestamp = Timestamp(1_000_000_000_000_000_000);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

struct Home {
    data: DataDir,
    clock: ManualClock,
    _folder: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (env, clock) = Env::manual(START);
        let data = DataDir::open(folder.path(), env, garth_engine::rule::sample::registry()).unwrap();
        block_on(data.create_account("acme")).unwrap();
        Self { data, clock, _folder: folder }
    }

    fn issue(&self, new: NewKey) -> Result<(ApiKey, Secret), Error> {
        block_on(self.data.control().issue_key(new))
    }

    fn admitted(&self, secret: &Secret) -> Option<ApiKey> {
        block_on(self.data.control().authenticate(secret.reveal())).unwrap()
    }

    fn keys(&self, account: Option<&str>) -> Vec<ApiKey> {
        block_on(self.data.control().keys(account, &KeysPage::with_revoked())).unwrap().items
    }
}

fn new(scopes: &[Scope]) -> NewKey {
    NewKey::new(Some("acme"), scopes)
}

/// Returns a new key whose token is derived from a request.
fn derived(token: &str, idempotency_key: &str, request: u8) -> NewKey {
    let mut new = new(&[Scope::FilesRead]);
    new.origin = Some(KeyOrigin::new(token, idempotency_key, [request; 32]));
    new
}

fn scout() -> Binding {
    let mut binding = Binding::default();
    binding.agent = Some("scout".to_owned());
    binding
}

#[test]
fn stores_binding_expiry_and_maker() {
    let home = Home::new();
    let mut new = new(&[Scope::FilesWrite, Scope::FilesRead]);
    new.binding = scout();
    new.binding.prefix = Some(TreePath::parse("/notes").unwrap());
    new.binding.read_only = true;
    let (maker, _) = home.issue(NewKey::new(None, &[Scope::Admin])).unwrap();
    (new.expires, new.maker) = (Some(START.plus_seconds(60)), Some(maker.id));
    let (key, secret) = home.issue(new.clone()).unwrap();
    assert_eq!((&key.binding, key.expires, &key.maker), (&new.binding, new.expires, &new.maker));
    assert_eq!(key.scopes, [Scope::FilesRead, Scope::FilesWrite]);
    assert_eq!(home.admitted(&secret), Some(key.clone()));
    assert_eq!(home.keys(Some("acme")), [key]);
}

#[test]
fn read_only_key_has_no_write_scope() {
    let home = Home::new();
    let scopes =
        [Scope::MemoryRead, Scope::MemoryWrite, Scope::SearchRead, Scope::FilesRead, Scope::FilesWrite];
    let mut new = new(&scopes);
    let (free, _) = home.issue(new.clone()).unwrap();
    (new.binding, new.binding.read_only) = (scout(), true);
    let (bound, _) = home.issue(new).unwrap();
    let allowed = |key: &ApiKey| -> Vec<_> { Scope::ALL.into_iter().filter(|of| key.allows(*of)).collect() };
    assert_eq!(allowed(&free), scopes);
    assert_eq!(allowed(&bound), [Scope::MemoryRead, Scope::SearchRead, Scope::FilesRead]);
}

#[test]
fn rejects_contradictory_keys() {
    let home = Home::new();
    let mut bound = new(&[Scope::Admin, Scope::FilesRead]);
    bound.binding = scout();
    let mut of_folder = NewKey::new(None, &[Scope::FilesRead]);
    of_folder.binding = scout();
    let mut root = new(&[Scope::FilesRead]);
    root.binding.prefix = Some(TreePath::root());
    let mut past = new(&[Scope::FilesRead]);
    past.expires = Some(START);
    let of_folder_with = |scopes: &[Scope]| NewKey::new(None, scopes);
    let memory = of_folder_with(&[Scope::MemoryRead]);
    let (more, none) = (of_folder_with(&[Scope::Admin, Scope::MemoryRead]), of_folder_with(&[]));
    for new in [bound, of_folder, root, past, new(&[]), memory, more, none] {
        let shown = format!("{new:?}");
        assert_eq!(home.issue(new).unwrap_err().kind(), ErrorKind::InvalidArgument, "{shown}");
    }
    assert!(home.issue(NewKey::new(Some("nobody"), &[Scope::Admin])).unwrap_err().is(ErrorKind::NotFound));
    assert_eq!((home.keys(Some("acme")), home.keys(None)), (Vec::new(), Vec::new()));
}

#[test]
fn key_expires_at_its_time() {
    let home = Home::new();
    let mut new = new(&[Scope::FilesRead]);
    new.expires = Some(Timestamp(START.0 + 10));
    let (key, secret) = home.issue(new).unwrap();
    home.clock.set(Timestamp(START.0 + 9));
    assert_eq!(home.admitted(&secret), Some(key.clone()));
    assert!(key.is_valid(Timestamp(START.0 + 9)));
    home.clock.set(Timestamp(START.0 + 10));
    assert_eq!(home.admitted(&secret), None);
    assert!(!key.is_valid(Timestamp(START.0 + 10)));
    assert_eq!(home.keys(Some("acme")), [key], "it stays in the list");
    assert_eq!(block_on(home.data.control().count_keys(Some("acme"))).unwrap(), 0);
}

#[test]
fn key_of_data_folder_opens_no_account() {
    let home = Home::new();
    let (key, secret) = home.issue(NewKey::new(None, &[Scope::Admin])).unwrap();
    assert_eq!((&key.account, key.share()), (&None, ""));
    let admitted = block_on(home.data.admit(secret.reveal())).unwrap().unwrap();
    assert_eq!(admitted.tree(), "");
    assert!(block_on(home.data.open_admitted(&admitted)).unwrap_err().is(ErrorKind::AccessDenied));
    assert_eq!((home.keys(Some("acme")), home.keys(None)), (Vec::new(), vec![key.clone()]));
    let revoke = |account| block_on(home.data.control().revoke_key(account, &key.id));
    assert!(revoke(Some("acme")).unwrap_err().is(ErrorKind::NotFound));
    assert!(revoke(Some("")).unwrap_err().is(ErrorKind::NotFound));
    assert_eq!(home.admitted(&secret), Some(key.clone()));
    assert!(revoke(None).unwrap().revoked.is_some());
    assert_eq!(home.admitted(&secret), None);
}

#[test]
fn tree_differs_for_namesake_account() {
    let home = Home::new();
    let tree =
        |secret: &Secret| block_on(home.data.admit(secret.reveal())).unwrap().unwrap().tree().to_owned();
    let before = tree(&home.issue(new(&[Scope::FilesRead])).unwrap().1);
    block_on(home.data.delete_account("acme")).unwrap();
    block_on(home.data.create_account("acme")).unwrap();
    assert_ne!(before, tree(&home.issue(new(&[Scope::FilesRead])).unwrap().1));
}

#[test]
fn repeat_shows_the_same_token() {
    let home = Home::new();
    let (key, secret) = home.issue(derived("caller", "one", 1)).unwrap();
    home.clock.advance(DAY - Duration::from_nanos(1));
    let (again, same) = home.issue(derived("caller", "one", 1)).unwrap();
    assert_eq!((&again, same.reveal()), (&key, secret.reveal()));
    assert_eq!(home.admitted(&same), Some(key.clone()));
    assert_eq!(home.keys(Some("acme")), std::slice::from_ref(&key));
    home.clock.advance(Duration::from_nanos(1));
    let late = home.issue(derived("caller", "one", 1)).unwrap_err();
    assert!(late.is(ErrorKind::Conflict) && late.message().contains(&key.id), "{late}");
}

#[test]
fn repeat_after_expiry_or_revocation_shows_the_key_as_it_is() {
    let home = Home::new();
    let expiring = || {
        let mut new = derived("caller", "one", 1);
        new.expires = Some(START.plus_seconds(60));
        new
    };
    let (key, secret) = home.issue(expiring()).unwrap();
    home.clock.advance(Duration::from_secs(60));
    let (again, same) = home.issue(expiring()).unwrap();
    assert_eq!((&again, same.reveal()), (&key, secret.reveal()));
    let revoked = block_on(home.data.control().revoke_key(Some("acme"), &key.id)).unwrap();
    assert_eq!(home.issue(expiring()).unwrap().0, revoked);
    assert_eq!(home.admitted(&same), None);
}

#[test]
fn other_request_or_caller_does_not_get_the_token() {
    let home = Home::new();
    block_on(home.data.create_account("other")).unwrap();
    let (key, secret) = home.issue(derived("caller", "one", 1)).unwrap();
    let mismatch = home.issue(derived("caller", "one", 2)).unwrap_err();
    assert!(mismatch.is(ErrorKind::IdempotencyMismatch), "{mismatch}");
    let mut elsewhere = derived("caller", "one", 1);
    elsewhere.account = Some("other".to_owned());
    let mut tokens = BTreeSet::from([secret.reveal().to_owned()]);
    for new in [derived("another", "one", 1), derived("caller", "two", 1), elsewhere] {
        tokens.insert(home.issue(new).unwrap().1.reveal().to_owned());
    }
    assert_eq!(tokens.len(), 4);
    assert_eq!(home.admitted(&secret), Some(key));
}

/// As after a leak: the attacker has the old token and the idempotency key, but another data folder.
#[test]
fn old_token_does_not_lead_to_its_successor() {
    let rotated = |home: &Home| {
        let (old, _) = home.issue(NewKey::new(None, &[Scope::Admin])).unwrap();
        let mut rotation = Rotation::new(Duration::ZERO);
        rotation.origin = Some(KeyOrigin::new("leaked", "rotate-1", [1; 32]));
        block_on(home.data.control().rotate_key(None, &old.id, rotation)).unwrap().secret
    };
    let (home, other) = (Home::new(), Home::new());
    let (secret, guessed) = (rotated(&home), rotated(&other));
    assert_ne!(secret.reveal(), guessed.reveal());
    assert!(home.admitted(&secret).is_some());
    assert_eq!(home.admitted(&guessed), None);
}

#[test]
fn concurrent_equal_requests_create_one_key() {
    const TRIES: usize = 64;
    let home = Home::new();
    let barrier = Barrier::new(TRIES);
    let created: Vec<(ApiKey, String)> = std::thread::scope(|scope| {
        let one = || {
            barrier.wait();
            let (key, secret) = home.issue(derived("caller", "one", 1)).unwrap();
            (key, secret.reveal().to_owned())
        };
        let tries: Vec<_> = (0..TRIES).map(|_| scope.spawn(one)).collect();
        tries.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert!(created.iter().all(|one| *one == created[0]));
    assert_eq!(home.keys(Some("acme")), [created[0].0.clone()]);
}

#[test]
fn rotated_key_stays_valid_through_the_grace() {
    let home = Home::new();
    let mut first = new(&[Scope::FilesRead]);
    (first.label, first.binding) = ("scout".to_owned(), scout());
    first.expires = Some(START.plus_seconds(1000));
    let (old, old_secret) = home.issue(first).unwrap();
    let (maker, _) = home.issue(NewKey::new(Some("acme"), &[Scope::Admin])).unwrap();
    let mut rotation = Rotation::new(Duration::from_secs(60));
    rotation.maker = Some(maker.id.clone());
    let rotated = block_on(home.data.control().rotate_key(Some("acme"), &old.id, rotation)).unwrap();
    let key = &rotated.key;
    assert_eq!((&key.label, &key.scopes, &key.binding), (&old.label, &old.scopes, &old.binding));
    assert_eq!((key.expires, key.maker.as_ref()), (old.expires, Some(&maker.id)));
    assert_ne!(key.id, old.id);
    assert_eq!((rotated.old.expires, rotated.old.revoked), (Some(START.plus_seconds(60)), None));
    home.clock.set(Timestamp(START.plus_seconds(60).0 - 1));
    assert_eq!(home.admitted(&old_secret), Some(rotated.old.clone()));
    home.clock.set(START.plus_seconds(60));
    assert_eq!(home.admitted(&old_secret), None);
    assert_eq!(home.admitted(&rotated.secret), Some(rotated.key));
}

#[test]
fn rotation_without_grace_revokes_at_once() {
    let home = Home::new();
    let (old, old_secret) = home.issue(new(&[Scope::FilesRead])).unwrap();
    let rotate = |id: &str| block_on(home.data.control().rotate_key(Some("acme"), id, Rotation::default()));
    let rotated = rotate(&old.id).unwrap();
    assert_eq!((rotated.old.revoked, rotated.old.expires), (Some(START), None));
    assert_eq!(home.admitted(&old_secret), None);
    assert_eq!(home.admitted(&rotated.secret), Some(rotated.key.clone()));
    let again = rotate(&old.id).unwrap_err();
    assert!(again.is(ErrorKind::Conflict) && again.message().contains(&rotated.key.id), "{again}");
    block_on(home.data.control().revoke_key(Some("acme"), &rotated.key.id)).unwrap();
    assert!(rotate(&rotated.key.id).unwrap_err().is(ErrorKind::Conflict), "it is revoked");
    assert!(rotate("0123456789abcdef").unwrap_err().is(ErrorKind::NotFound));
    assert_eq!(home.keys(Some("acme")).len(), 2);
}

#[test]
fn grace_never_extends_a_key() {
    let home = Home::new();
    let mut short = new(&[Scope::FilesRead]);
    short.expires = Some(START.plus_seconds(60));
    let (old, _) = home.issue(short).unwrap();
    let rotation = Rotation::new(Duration::MAX);
    let rotated = block_on(home.data.control().rotate_key(Some("acme"), &old.id, rotation)).unwrap();
    assert_eq!((rotated.old.expires, rotated.key.expires), (old.expires, old.expires));
    home.clock.advance(Duration::from_secs(60));
    let late = block_on(home.data.control().rotate_key(Some("acme"), &rotated.key.id, Rotation::default()));
    assert!(late.unwrap_err().is(ErrorKind::Conflict), "it has expired");
}

#[test]
fn repeated_rotation_shows_the_same_token() {
    let home = Home::new();
    let (old, _) = home.issue(new(&[Scope::FilesRead])).unwrap();
    let rotate = |request: u8| {
        let mut rotation = Rotation::new(Duration::from_secs(60));
        rotation.origin = Some(KeyOrigin::new("caller", "one", [request; 32]));
        block_on(home.data.control().rotate_key(Some("acme"), &old.id, rotation))
    };
    let first = rotate(1).unwrap();
    home.clock.advance(Duration::from_secs(10));
    let again = rotate(1).unwrap();
    assert_eq!((&again.key, again.secret.reveal()), (&first.key, first.secret.reveal()));
    assert_eq!(again.old, first.old, "the grace is not extended");
    assert!(rotate(2).unwrap_err().is(ErrorKind::IdempotencyMismatch));
    let create = home.issue(derived("caller", "one", 3)).unwrap_err();
    assert!(create.is(ErrorKind::IdempotencyMismatch), "the key was used to rotate");
    assert_eq!(home.keys(Some("acme")).len(), 2);
}

#[test]
fn concurrent_rotations_have_one_winner() {
    let home = Home::new();
    let (old, _) = home.issue(new(&[Scope::FilesRead])).unwrap();
    let barrier = Barrier::new(8);
    let done: Vec<_> = std::thread::scope(|scope| {
        let one = || {
            barrier.wait();
            let rotation = Rotation::new(Duration::from_secs(60));
            block_on(home.data.control().rotate_key(Some("acme"), &old.id, rotation)).is_ok()
        };
        let tries: Vec<_> = (0..8).map(|_| scope.spawn(one)).collect();
        tries.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(done.into_iter().filter(|done| *done).count(), 1);
    assert_eq!(home.keys(Some("acme")).len(), 2);
}

#[test]
fn pages_list_each_key_once() {
    let home = Home::new();
    // At one time, so that ids decide the order.
    let created: BTreeSet<String> =
        (0..7).map(|_| home.issue(new(&[Scope::FilesRead])).unwrap().0.id).collect();
    let revoked = created.iter().nth(3).unwrap();
    block_on(home.data.control().revoke_key(Some("acme"), revoked)).unwrap();
    let in_use: Vec<&String> = created.iter().filter(|id| *id != revoked).collect();
    for (all, expected) in [(true, created.iter().collect()), (false, in_use)] {
        let first = if all { KeysPage::with_revoked() } else { KeysPage::default() };
        let (mut page, mut seen) = (first.clone().limit(2), Vec::new());
        loop {
            let listed = block_on(home.data.control().keys(Some("acme"), &page)).unwrap();
            assert!(listed.items.len() <= 2 && (listed.items.len() == 2 || !listed.more));
            seen.extend(listed.items.iter().map(|key| key.id.clone()));
            match listed.items.last().filter(|_| listed.more) {
                Some(last) => page = page.after(last),
                None => break,
            }
        }
        assert_eq!(seen.iter().collect::<Vec<_>>(), expected);
    }
    assert_eq!(block_on(home.data.control().count_keys(Some("acme"))).unwrap(), 6);
}

#[test]
fn deleted_account_takes_its_keys_along() {
    let home = Home::new();
    let (_, secret) = home.issue(derived("caller", "one", 1)).unwrap();
    let (of_folder, _) = home.issue(NewKey::new(None, &[Scope::Admin])).unwrap();
    block_on(home.data.delete_account("acme")).unwrap();
    block_on(home.data.create_account("acme")).unwrap();
    assert_eq!((home.keys(Some("acme")), home.keys(None)), (Vec::new(), vec![of_folder]));
    let (_, other) = home.issue(derived("caller", "one", 1)).unwrap();
    assert_ne!(other.reveal(), secret.reveal(), "the token of another account of the name");
}
