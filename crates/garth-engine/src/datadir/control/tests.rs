//! Migration of control databases of format 2.

use futures::executor::block_on;
use rusqlite::Connection;

use crate::datadir::{ApiKey, Binding, DataDir, KeysPage, Scope};
use crate::env::Env;
use crate::error::{ErrorKind, Result};
use crate::model::{Timestamp, hex};

/// Key that keys the hashes of secrets.
const HASH_KEY: [u8; 32] = [3; 32];

/// Statement by which garth looked tokens up in format 2.
const OLD_ADMIT: &str = "SELECT k.id, k.account, k.label, k.scopes, k.created, k.revoked, k.hash, a.folder
    FROM api_key k JOIN account a ON a.id = k.account
    WHERE k.id = ?1 AND k.revoked IS NULL AND a.deleted = 0";

fn open(folder: &std::path::Path) -> Result<DataDir> {
    DataDir::open(folder, Env::system(), crate::rule::sample::registry())
}

fn token(id: &str) -> String {
    format!("garth_{id}.{}", hex(&[9; 32]))
}

/// Creates a control database of format 2 with an account and two keys, of which one is revoked. Returns the
/// connection.
fn format_2(folder: &std::path::Path) -> Connection {
    let conn = Connection::open(folder.join("control.db")).unwrap();
    conn.pragma_update(None, "journal_mode", "WAL").unwrap();
    conn.execute_batch(include_str!("v1.sql")).unwrap();
    conn.execute_batch(include_str!("v2.sql")).unwrap();
    conn.pragma_update(None, "application_id", 0x6772_7463).unwrap();
    conn.pragma_update(None, "user_version", 2).unwrap();
    conn.execute("INSERT INTO secret_hash (key) VALUES (?1)", [HASH_KEY]).unwrap();
    conn.execute("INSERT INTO account (id, folder, created) VALUES ('acme', 'f', 1)", []).unwrap();
    for (id, created, revoked) in [("00000000000000aa", 5, None), ("00000000000000bb", 6, Some(7))] {
        let hash = *blake3::keyed_hash(&HASH_KEY, token(id).as_bytes()).as_bytes();
        let sql = "INSERT INTO api_key (id, account, label, scopes, hash, created, revoked)
                   VALUES (?1, 'acme', 'old', 'memory:read search:read', ?2, ?3, ?4)";
        conn.execute(sql, (id, hash, created, revoked)).unwrap();
    }
    conn
}

#[test]
fn keys_of_format_2_keep_working() {
    let folder = tempfile::tempdir().unwrap();
    drop(format_2(folder.path()));
    let data = open(folder.path()).unwrap();
    let key = |id: &str, created: i64, revoked: Option<i64>| ApiKey {
        id: id.to_owned(),
        account: Some("acme".to_owned()),
        label: "old".to_owned(),
        scopes: vec![Scope::MemoryRead, Scope::SearchRead],
        binding: Binding::default(),
        created: Timestamp(created),
        expires: None,
        revoked: revoked.map(Timestamp),
        maker: None,
        is_damaged: false,
    };
    let (valid, revoked) = (key("00000000000000aa", 5, None), key("00000000000000bb", 6, Some(7)));
    let listed = block_on(data.control().keys(Some("acme"), &KeysPage::with_revoked())).unwrap();
    assert_eq!(listed.items, [valid.clone(), revoked.clone()]);
    assert_eq!(block_on(data.control().authenticate(&token(&valid.id))).unwrap(), Some(valid));
    assert_eq!(block_on(data.control().authenticate(&token(&revoked.id))).unwrap(), None);
}

#[test]
fn process_of_format_2_fails_after_the_migration() {
    let folder = tempfile::tempdir().unwrap();
    let old = format_2(folder.path());
    // Prepared before, as the statements of a running process are.
    let mut admit = old.prepare(OLD_ADMIT).unwrap();
    let mut admits = || admit.exists(["00000000000000aa"]).map_err(|error| error.to_string());
    assert_eq!(admits(), Ok(true));
    let data = open(folder.path()).unwrap();
    let error = admits().unwrap_err();
    assert!(error.contains("no such table"), "{error}");
    drop(data);
    assert!(open(folder.path()).is_ok(), "it is migrated once");
}

#[test]
fn unreadable_binding_is_not_taken_for_none() {
    let folder = tempfile::tempdir().unwrap();
    drop(format_2(folder.path()));
    let data = open(folder.path()).unwrap();
    let raw = Connection::open(folder.path().join("control.db")).unwrap();
    for damaged in ["", "{", r#"{"agents":"scout"}"#] {
        raw.execute("UPDATE access_key SET binding = ?1", [damaged]).unwrap();
        let error = block_on(data.control().authenticate(&token("00000000000000aa"))).unwrap_err();
        assert!(error.is(ErrorKind::Corrupt), "{error}");
    }
}

#[test]
fn damaged_key_is_listed_and_revoked() {
    for change in ["scopes = 'memory:read none'", "scopes = ''", "binding = '{'"] {
        let folder = tempfile::tempdir().unwrap();
        drop(format_2(folder.path()));
        let data = open(folder.path()).unwrap();
        let (sound, _) = block_on(data.control().create_key("acme", "", &[Scope::FilesRead])).unwrap();
        let raw = Connection::open(folder.path().join("control.db")).unwrap();
        let damaged = "00000000000000aa";
        raw.execute(&format!("UPDATE access_key SET {change} WHERE id = ?1"), [damaged]).unwrap();
        assert!(block_on(data.control().authenticate(&token(damaged))).is_err(), "{change}");
        let listed = block_on(data.control().keys(Some("acme"), &KeysPage::default())).unwrap().items;
        let shown: Vec<_> = listed.iter().map(|key| (&*key.id, key.is_damaged)).collect();
        assert_eq!(shown, [(damaged, true), (&*sound.id, false)], "{change}");
        let revoked = block_on(data.control().revoke_key(Some("acme"), damaged)).unwrap();
        assert!(revoked.revoked.is_some() && revoked.is_damaged, "{change}");
        assert_eq!(block_on(data.control().authenticate(&token(damaged))).unwrap(), None, "{change}");
        let listed = block_on(data.control().keys(Some("acme"), &KeysPage::default())).unwrap().items;
        assert_eq!(listed, [sound], "{change}");
    }
}

#[test]
fn lists_of_keys_are_read_by_index() {
    let folder = tempfile::tempdir().unwrap();
    let data = open(folder.path()).unwrap();
    let raw = Connection::open(folder.path().join("control.db")).unwrap();
    let plan = |by: &str, more: &str| -> String {
        let sql = format!(
            "EXPLAIN QUERY PLAN SELECT label FROM access_key {by}
             WHERE account IS ?1 AND (created, id) > (?2, ?3) {more} ORDER BY created, id LIMIT ?4"
        );
        let mut plan = raw.prepare(&sql).unwrap();
        let lines = plan.query_map((None::<&str>, 0, "", 9), |row| row.get::<_, String>(3)).unwrap();
        lines.map(|line| line.unwrap()).collect()
    };
    let plans = [
        ("access_key_of_account", plan("", "")),
        ("access_key_in_use", plan("INDEXED BY access_key_in_use", "AND revoked IS NULL")),
    ];
    for (index, plan) in plans {
        assert!(plan.contains(index) && !plan.contains("TEMP B-TREE"), "{plan}");
    }
    drop(data);
}
