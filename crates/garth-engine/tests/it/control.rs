//! Accounts, keys and the data folder, as an operator relies on them.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use futures::executor::block_on;
use garth_engine::datadir::{ApiKey, KeysPage, Scope};
use garth_engine::model::Timestamp;
use garth_engine::{DataDir, Env, ErrorKind, FileSystemExt as _, Home as _};

fn home(folder: &Path) -> DataDir {
    DataDir::open(folder, Env::system(), garth_engine::rule::sample::registry()).unwrap()
}

async fn with_account() -> (tempfile::TempDir, DataDir) {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path());
    home.create_account("acme").await.unwrap();
    (folder, home)
}

/// Returns the keys of `acme`, including revoked ones.
async fn keys(home: &DataDir) -> Vec<ApiKey> {
    home.control().keys(Some("acme"), &KeysPage::with_revoked()).await.unwrap().items
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn key_opens_its_account_and_survives_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let (env, _) = Env::manual(Timestamp(5));
    let home = DataDir::open(folder.path(), env.clone(), garth_engine::rule::sample::registry()).unwrap();
    home.create_account("acme").await.unwrap();
    let scopes = [Scope::SearchRead, Scope::MemoryRead, Scope::MemoryRead];
    let (key, secret) = home.control().create_key("acme", "laptop", &scopes).await.unwrap();
    assert_eq!((key.share(), key.label.as_str(), key.created), ("acme", "laptop", Timestamp(5)));
    assert_eq!(key.scopes, [Scope::MemoryRead, Scope::SearchRead], "sorted, each once");
    assert!(secret.reveal().starts_with(&format!("garth_{}.", key.id)));
    drop(home);

    let home = DataDir::open(folder.path(), env, garth_engine::rule::sample::registry()).unwrap();
    assert_eq!(home.control().authenticate(secret.reveal()).await.unwrap(), Some(key.clone()));
    assert_eq!(keys(&home).await, [key]);
}

#[tokio::test]
async fn scopes_round_trip_and_admin_allows_all() {
    for scope in Scope::ALL {
        assert_eq!(scope.to_string().parse::<Scope>().unwrap(), scope);
    }
    assert!("memory".parse::<Scope>().unwrap_err().is(ErrorKind::InvalidArgument));
    let (_folder, home) = with_account().await;
    let (admin, _) = home.control().create_key("acme", "", &[Scope::Admin]).await.unwrap();
    assert!(Scope::ALL.into_iter().all(|scope| admin.allows(scope)));
    let (reader, _) = home.control().create_key("acme", "", &[Scope::MemoryRead]).await.unwrap();
    let allowed: Vec<_> = Scope::ALL.into_iter().filter(|scope| reader.allows(*scope)).collect();
    assert_eq!(allowed, [Scope::MemoryRead]);
}

#[tokio::test]
async fn only_the_exact_token_authenticates() {
    let (_folder, home) = with_account().await;
    let (key, secret) = home.control().create_key("acme", "", &[Scope::Admin]).await.unwrap();
    let (other, _) = home.control().create_key("acme", "", &[Scope::Admin]).await.unwrap();
    let token = secret.reveal();
    // A secret that differs in its last digit only.
    let last = if token.ends_with('0') { '1' } else { '0' };
    let wrong = [
        format!("{}{last}", &token[..token.len() - 1]),
        token.replace(&key.id, &other.id),
        token.replace(&key.id, "0123456789abcdef"),
        token.replace("garth_", "Garth_"),
        token.to_uppercase(),
        format!("{token} "),
        format!("{token}0"),
        token[..token.len() - 1].to_owned(),
        format!("garth_{}.", key.id),
        token.replace('.', ""),
        key.id.clone(),
        "garth_%.%".to_owned(),
        String::new(),
        "é".repeat(40),
        "x".repeat(100_000),
    ];
    for wrong in wrong {
        assert_eq!(home.control().authenticate(&wrong).await.unwrap(), None, "{wrong:.100}");
    }
    assert_eq!(home.control().authenticate(token).await.unwrap(), Some(key));
}

#[tokio::test]
async fn revoked_key_fails_in_other_processes() {
    let (folder, home) = with_account().await;
    let (key, secret) = home.control().create_key("acme", "", &[Scope::MemoryRead]).await.unwrap();
    // A second instance stands for another process: it shares no memory with the first.
    let elsewhere =
        DataDir::open(folder.path(), Env::system(), garth_engine::rule::sample::registry()).unwrap();
    let elsewhere = elsewhere.control();
    assert_eq!(elsewhere.authenticate(secret.reveal()).await.unwrap(), Some(key.clone()));

    let revoked = home.control().revoke_key(Some("acme"), &key.id).await.unwrap();
    assert!(revoked.revoked.is_some());
    assert_eq!(elsewhere.authenticate(secret.reveal()).await.unwrap(), None);
    assert_eq!(
        elsewhere.revoke_key(Some("acme"), &key.id).await.unwrap(),
        revoked,
        "the first revocation stays"
    );
    assert_eq!(elsewhere.keys(Some("acme"), &KeysPage::with_revoked()).await.unwrap().items, [revoked]);
    assert!(
        home.control()
            .revoke_key(Some("acme"), "0123456789abcdef")
            .await
            .unwrap_err()
            .is(ErrorKind::NotFound)
    );
}

#[tokio::test]
async fn key_is_revoked_through_its_account_only() {
    let (_folder, home) = with_account().await;
    home.create_account("other").await.unwrap();
    let (key, secret) = home.control().create_key("acme", "", &[Scope::MemoryRead]).await.unwrap();
    for account in ["other", "none", ""] {
        let refused = home.control().revoke_key(Some(account), &key.id).await.unwrap_err();
        assert!(refused.is(ErrorKind::NotFound), "{account}: {refused}");
    }
    assert_eq!(home.control().authenticate(secret.reveal()).await.unwrap(), Some(key));
}

#[tokio::test]
async fn deleting_an_account_frees_its_name() {
    let (folder, home) = with_account().await;
    home.create_account("other").await.unwrap();
    let (_, secret) = home.control().create_key("acme", "", &[Scope::Admin]).await.unwrap();
    let (_, other) = home.control().create_key("other", "", &[Scope::Admin]).await.unwrap();
    let old = home.control().account("acme").await.unwrap();
    let tree = home.account("acme").await.unwrap();
    home.delete_account("acme").await.unwrap();

    let elsewhere =
        DataDir::open(folder.path(), Env::system(), garth_engine::rule::sample::registry()).unwrap();
    let elsewhere = elsewhere.control();
    assert_eq!(elsewhere.authenticate(secret.reveal()).await.unwrap(), None);
    assert!(elsewhere.authenticate(other.reveal()).await.unwrap().is_some());
    assert!(!folder.path().join("accounts").join(&old.folder).exists());
    for gone in [
        // Every call that names the deleted account fails with the same kind.
        home.account("acme").await.err(),
        home.delete_account("acme").await.err(),
        home.control().account("acme").await.err(),
        home.control().keys(Some("acme"), &KeysPage::default()).await.err(),
        home.control().create_key("acme", "", &[Scope::Admin]).await.err(),
    ] {
        assert!(gone.unwrap().is(ErrorKind::NotFound));
    }

    let new = home.create_account("acme").await.unwrap();
    assert_ne!(new.folder, old.folder);
    assert!(!Arc::ptr_eq(&tree, &home.account("acme").await.unwrap()), "another tree under the same name");
    assert_eq!(home.control().authenticate(secret.reveal()).await.unwrap(), None, "old keys stay dead");
}

#[tokio::test]
async fn admitted_key_never_reaches_namesake_account() {
    let folder = tempfile::tempdir().unwrap();
    let home = self::home(folder.path());
    home.create_account("acme").await.unwrap();
    let (_, secret) = home.control().create_key("acme", "", &[Scope::Admin]).await.unwrap();
    // The key is admitted before the account is deleted and created again.
    let admitted = home.admit(secret.reveal()).await.unwrap().unwrap();
    assert!(Arc::ptr_eq(&home.open_admitted(&admitted).await.unwrap(), &home.account("acme").await.unwrap()));
    home.delete_account("acme").await.unwrap();
    assert!(home.open_admitted(&admitted).await.unwrap_err().is(ErrorKind::NotFound));
    home.create_account("acme").await.unwrap();
    assert!(home.open_admitted(&admitted).await.unwrap_err().is(ErrorKind::NotFound));
}

#[tokio::test]
async fn rounds_continue_interrupted_deletion() {
    let (folder, home) = with_account().await;
    let (_, secret) = home.control().create_key("acme", "", &[Scope::Admin]).await.unwrap();
    let account = home.control().account("acme").await.unwrap();
    let tree = folder.path().join("accounts").join(&account.folder);
    // A leftover file, as of a removal that was interrupted.
    fs::write(tree.join("left"), "over").unwrap();
    let raw = rusqlite::Connection::open(folder.path().join("control.db")).unwrap();
    // The first step of a deletion, as a crash leaves it.
    raw.execute("UPDATE account SET deleted = 1", []).unwrap();

    assert_eq!(home.control().authenticate(secret.reveal()).await.unwrap(), None);
    assert!(home.account("acme").await.unwrap_err().is(ErrorKind::NotFound));
    assert!(home.create_account("acme").await.unwrap_err().is(ErrorKind::AlreadyExists), "not yet free");
    let reopened = self::home(folder.path());
    assert!(tree.exists(), "opening a data folder does not wait for it");
    reopened.continue_deletions().await.unwrap();
    for _ in 0..2000 {
        if reopened.control().accounts().await.unwrap().is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(fs::read_dir(folder.path().join("accounts")).unwrap().count(), 0);
    reopened.create_account("acme").await.unwrap();
}

#[tokio::test]
async fn concurrent_account_creation_has_one_winner() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    // All start at once, so that they meet in the creation of the control data as well.
    let barrier = Barrier::new(8);
    let made: Vec<_> = std::thread::scope(|scope| {
        let makers: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    barrier.wait();
                    block_on(home(&path).create_account("acme"))
                })
            })
            .collect();
        makers.into_iter().map(|maker| maker.join().unwrap()).collect()
    });
    let home = home(&path);
    let (won, lost): (Vec<_>, Vec<_>) = made.into_iter().partition(Result::is_ok);
    assert_eq!(won.len(), 1);
    assert!(lost.into_iter().all(|lost| lost.unwrap_err().is(ErrorKind::AlreadyExists)));
    assert_eq!(home.control().accounts().await.unwrap(), [won.into_iter().next().unwrap().unwrap()]);
    assert_eq!(fs::read_dir(path.join("accounts")).unwrap().count(), 1, "the losers leave no folder");
}

#[tokio::test]
async fn existing_account_is_found_before_a_tree_is_built() {
    let (folder, home) = with_account().await;
    let accounts = folder.path().join("accounts");
    fs::rename(&accounts, folder.path().join("elsewhere")).unwrap();
    assert!(home.create_account("acme").await.unwrap_err().is(ErrorKind::AlreadyExists));
    assert!(!accounts.exists(), "nothing was created");
    home.create_account("other").await.unwrap();
    assert!(accounts.exists(), "a new account has its folder there");
}

#[tokio::test]
async fn lists_accounts_and_rejects_bad_names() {
    let (_folder, home) = with_account().await;
    for id in ["zoë", "a b", "%", "Acme"] {
        home.create_account(id).await.unwrap();
    }
    let accounts = home.control().accounts().await.unwrap();
    let ids: Vec<_> = accounts.iter().map(|account| account.id.as_str()).collect();
    // By bytes: capital letters come before small ones.
    assert_eq!(ids, ["%", "Acme", "a b", "acme", "zoë"]);
    assert_eq!(accounts.iter().map(|account| &account.folder).collect::<HashSet<_>>().len(), 5);
    for bad in ["", ".", "..", "a/b", "a\0b", "a\nb", "acme ", "acme\u{200b}", "zoe\u{308}", &"x".repeat(129)]
    {
        assert!(home.create_account(bad).await.unwrap_err().is(ErrorKind::InvalidArgument), "{bad:?}");
    }
    assert!(home.account("acm").await.unwrap_err().is(ErrorKind::NotFound));
}

#[tokio::test]
async fn accounts_with_older_names_stay_usable() {
    let (folder, home) = with_account().await;
    home.account("acme").await.unwrap().write("/note", "text").await.unwrap();
    let raw = rusqlite::Connection::open(folder.path().join("control.db")).unwrap();
    for older in ["acme\u{200b}", "default ", "zoe\u{308}"] {
        raw.execute("UPDATE account SET id = ?1", [older]).unwrap();
        let listed = home.control().accounts().await.unwrap();
        assert_eq!(listed.iter().map(|account| &*account.id).collect::<Vec<_>>(), [older]);
        assert_eq!(home.account(older).await.unwrap().read_to_string("/note").await.unwrap(), "text");
        home.control().create_key(older, "", &[Scope::FilesRead]).await.unwrap();
        assert!(home.create_account(older).await.unwrap_err().is(ErrorKind::AlreadyExists), "{older:?}");
        raw.execute("DELETE FROM access_key", []).unwrap();
    }
    home.delete_account("zoe\u{308}").await.unwrap();
    assert_eq!(home.control().accounts().await.unwrap(), []);
}

#[tokio::test]
async fn create_key_rejects_invalid_arguments() {
    let (_folder, home) = with_account().await;
    let refused = async |account: &str, label: &str, scopes: &[Scope]| {
        home.control().create_key(account, label, scopes).await.unwrap_err().kind()
    };
    assert_eq!(refused("nobody", "", &[Scope::Admin]).await, ErrorKind::NotFound);
    assert_eq!(refused("acme", "", &[]).await, ErrorKind::InvalidArgument);
    assert_eq!(refused("acme", "two\nlines", &[Scope::Admin]).await, ErrorKind::InvalidArgument);
    assert_eq!(refused("acme", &"x".repeat(257), &[Scope::Admin]).await, ErrorKind::InvalidArgument);
    assert_eq!(keys(&home).await, []);
}

#[tokio::test]
async fn secrets_appear_in_no_file_or_debug_output() {
    let (folder, home) = with_account().await;
    let (key, secret) = home.control().create_key("acme", "laptop", &[Scope::Admin]).await.unwrap();
    let text = secret.reveal().split_once('.').unwrap().1;
    // The secret could be stored in hexadecimal form or as raw bytes.
    let raw: Vec<u8> =
        (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect();
    let mut files = 0;
    for file in fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path()) {
        if !file.is_file() {
            continue;
        }
        let bytes = fs::read(&file).unwrap();
        let holds = |what: &[u8]| bytes.windows(what.len()).any(|window| window == what);
        assert!(!holds(text.as_bytes()) && !holds(&raw), "{}", file.display());
        files += usize::from(holds(key.id.as_bytes()));
    }
    // Otherwise the search might have missed the file with the keys.
    assert!(files > 0, "the key itself was looked at");
    let shown = format!("{secret:?} {key:?} {home:?} {:?}", home.control());
    assert!(!shown.contains(text) && !shown.contains(&folder.path().display().to_string()), "{shown}");
}

#[tokio::test]
async fn created_files_are_private_to_owner() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("deep/data");
    let home = home(&data);
    let account = home.create_account("acme").await.unwrap();
    home.control().create_key("acme", "", &[Scope::Admin]).await.unwrap();
    for made in [folder.path().join("deep"), data.clone(), data.join("accounts").join(&account.folder)] {
        assert_eq!(mode(&made), 0o700, "{}", made.display());
    }
    let files: Vec<_> =
        fs::read_dir(&data).unwrap().map(|file| file.unwrap().path()).filter(|f| f.is_file()).collect();
    assert!(files.iter().any(|file| file.ends_with("control.db")));
    assert!(files.iter().all(|file| mode(file) == 0o600));
}

#[tokio::test]
async fn rejects_newer_or_foreign_control_database() {
    let foreign = "CREATE TABLE notes (text); INSERT INTO notes VALUES ('mine')";
    for change in ["PRAGMA user_version = 9999", "PRAGMA application_id = 1", foreign] {
        let folder = tempfile::tempdir().unwrap();
        if change != foreign {
            home(folder.path());
        }
        let raw = rusqlite::Connection::open(folder.path().join("control.db")).unwrap();
        raw.execute_batch(change).unwrap();
        // Without WAL, the complete database is in one file that can be compared.
        raw.pragma_update(None, "journal_mode", "DELETE").unwrap();
        drop(raw);
        let before = fs::read(folder.path().join("control.db")).unwrap();
        let error =
            DataDir::open(folder.path(), Env::system(), garth_engine::rule::sample::registry()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Format, "{error}");
        assert_eq!(fs::read(folder.path().join("control.db")).unwrap(), before);
    }
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join("control.db"),
        "not a database at all, but long enough to be read as a header".repeat(20),
    )
    .unwrap();
    assert_eq!(
        DataDir::open(folder.path(), Env::system(), garth_engine::rule::sample::registry())
            .unwrap_err()
            .kind(),
        ErrorKind::Format
    );
}

#[tokio::test]
async fn data_folder_errors_hide_its_path() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("taken");
    fs::write(&file, "").unwrap();
    let error = DataDir::open(&file, Env::system(), garth_engine::rule::sample::registry()).unwrap_err();
    assert!(!error.to_string().contains("taken") && error.is(ErrorKind::Io), "{error}");
    assert!(std::error::Error::source(&error).is_some());
}

#[tokio::test]
async fn account_has_one_instance_while_held() {
    let (_folder, home) = with_account().await;
    home.create_account("other").await.unwrap();
    let first = home.account("acme").await.unwrap();
    assert!(Arc::ptr_eq(&first, &home.clone().account("acme").await.unwrap()));
    assert!(!Arc::ptr_eq(&first, &home.account("other").await.unwrap()));
}
