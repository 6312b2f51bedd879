//! Data of a released garth opens in this version with the same content. `tests/data/format-2` holds a data
//! folder of format 2, the output of its garth about it (`shown.json`), and the script that created both
//! (`make`).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use garth_agent::kv::{CurrentValue, Kv};
use garth_engine::model::{
    At, ByteRange, ChangeKind, ChangesQuery, CommitChanges, Entry, HistoryPage, Kind, MAX_PAGE, Moment,
    NamesPage, SearchQuery, Seq, SnapshotsPage, Timestamp, Version, WalkPage,
};
use garth_engine::{DataDir, Env, FileSystem, TreePath};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

/// Limit above the number of entries, versions, commits and hits in the data.
const MANY: usize = 1000;

/// Returns a data folder of an older garth.
fn test_data(name: &str) -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where the crate is");
    Path::new(&here).join("tests/data").join(name)
}

/// Returns a copy of an old data folder.
pub(super) fn data_of(name: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut tar = Command::new("tar");
    tar.arg("-xzf").arg(test_data(name).join("data.tar.gz")).arg("-C").arg(folder.path());
    assert!(tar.status().expect("tar, which is part of every Debian").success());
    folder
}

/// Returns the recorded output of an old garth about its data.
pub(super) fn told_of(name: &str, file: &str) -> Value {
    serde_json::from_slice(&std::fs::read(test_data(name).join(file)).unwrap()).unwrap()
}

/// Returns a copy of the data folder of format 2.
fn old_data() -> TempDir {
    data_of("format-2")
}

/// Returns the recorded output of the garth of format 2.
fn shown() -> Value {
    told_of("format-2", "shown.json")
}

fn items(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap()
}

/// Compares item by item, so that a failure shows the one that differs.
#[track_caller]
fn assert_equal(found: impl IntoIterator<Item = Value>, expected: &Value, what: &str) {
    let found: Vec<_> = found.into_iter().collect();
    for (found, expected) in found.iter().zip(items(expected)) {
        assert_eq!(found, expected, "{what}");
    }
    assert_eq!(found.len(), items(expected).len(), "{what}");
}

/// Returns the fields of an object; none for `null`, which stands for an empty list of them.
fn fields(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn time(at: Timestamp) -> String {
    at.to_rfc3339()
}

fn kind(kind: Kind) -> String {
    format!("{kind:?}").to_lowercase()
}

async fn sum(fs: &dyn FileSystem, path: &TreePath, kind: Kind) -> Option<String> {
    if kind != Kind::File {
        return None;
    }
    let bytes = fs.read(&At::from(path), ByteRange::ALL).await.unwrap();
    Some(Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Returns every path with its entry, in byte order of the paths, which is that of `shown.json`.
async fn tree(fs: &dyn FileSystem) -> Vec<(TreePath, Entry)> {
    let root = fs.stat(&At::Path(TreePath::root())).await.unwrap();
    let page = WalkPage::default().limit(MANY).with_entries();
    let walk = fs.walk(&At::Path(TreePath::root()), &page).await.unwrap();
    assert!(!walk.more);
    let below = walk.items.into_iter().map(|item| (item.path, *item.entry.unwrap()));
    let mut tree: Vec<_> = std::iter::once((TreePath::root(), root)).chain(below).collect();
    tree.sort_by(|(a, _), (b, _)| a.as_str().cmp(b.as_str()));
    tree
}

/// Returns an entry in the format of the old `stat --json`.
async fn stat(fs: &dyn FileSystem, path: &TreePath, entry: &Entry) -> Value {
    let mut names = fs.names(&At::from(path), &NamesPage::default()).await.unwrap().items;
    names.sort();
    json!({
        "path": path.as_str(),
        "name": path.split().map(|(_, name)| name.to_string()),
        "names": names.iter().map(TreePath::as_str).collect::<Vec<_>>(),
        "kind": kind(entry.kind),
        "ino": entry.ino.0,
        "mode": format!("{:04o}", entry.mode),
        "uid": entry.uid,
        "gid": entry.gid,
        "rdev": entry.rdev,
        "nlink": entry.nlink,
        "size": entry.size,
        "atime": time(entry.atime),
        "mtime": time(entry.mtime),
        "ctime": time(entry.ctime),
        "birthtime": time(entry.birthtime),
        "target": entry.target,
        "attributes": serde_json::to_value(&entry.attributes).unwrap(),
        "expires_at": entry.expires_at.map(time),
        "version": entry.version.to_string(),
        "etag": entry.etag.to_string(),
        "sha256": sum(fs, path, entry.kind).await,
    })
}

async fn entries(fs: &dyn FileSystem) -> Vec<Value> {
    let mut entries = Vec::new();
    for (path, entry) in tree(fs).await {
        entries.push(stat(fs, &path, &entry).await);
    }
    entries
}

/// Returns a summary of the tree after a commit.
async fn past(fs: &dyn FileSystem, seq: Seq) -> Vec<Value> {
    let fs = fs.as_of(&Moment::Seq(seq)).await.unwrap();
    let mut entries = Vec::new();
    for (path, entry) in tree(&*fs).await {
        entries.push(json!({
            "path": path.as_str(),
            "kind": kind(entry.kind),
            "version": entry.version.to_string(),
            "size": entry.size,
            "sha256": sum(&*fs, &path, entry.kind).await,
        }));
    }
    entries
}

fn commit(commit: &garth_engine::model::CommitInfo) -> Value {
    let author = [("agent", &commit.author.agent), ("key", &commit.author.key)];
    let author =
        author.into_iter().filter_map(|(field, name)| Some((field.to_owned(), json!(name.as_ref()?))));
    json!({
        "seq": commit.seq.0,
        "time": time(commit.time),
        "id": commit.id.map(|id| id.to_string()),
        "author": author.collect::<serde_json::Map<_, _>>(),
        "message": commit.message,
    })
}

/// Returns a commit in the format of the old `log --json`.
fn log(logged: &CommitChanges) -> Value {
    let changes = logged.changes.iter().map(|change| {
        let mut shown = json!({"ino": change.ino.0, "path": change.path().map(TreePath::as_str)});
        let word = match &change.kind {
            ChangeKind::Renamed { from } => {
                shown["from"] = json!(from.as_str());
                "renamed".to_owned()
            }
            ChangeKind::Snapshot { name } => {
                shown["name"] = json!(name);
                "snapshot".to_owned()
            }
            ChangeKind::SnapshotDropped { name } => {
                shown["name"] = json!(name);
                "snapshot_dropped".to_owned()
            }
            plain => format!("{plain:?}").to_lowercase(),
        };
        shown["kind"] = json!(word);
        shown
    });
    let mut shown = commit(&logged.commit);
    shown["changes"] = changes.collect();
    shown
}

/// Returns a version in the format of the old `log --json PATH`.
fn version(version: &Version) -> Value {
    let entry = version.entry.as_deref();
    json!({
        "version": version.id.to_string(),
        "commit": commit(&version.commit),
        "deleted": entry.is_none(),
        "kind": entry.map(|entry| kind(entry.kind)),
        "size": entry.map(|entry| entry.size),
        "etag": entry.map(|entry| entry.etag.to_string()),
    })
}

/// Returns a value in the format of the old `kv get --json`.
fn value(found: &CurrentValue) -> Value {
    json!({
        "path": found.path,
        "value": serde_json::from_str::<Value>(found.value.get()).unwrap(),
        "version_id": found.version.to_string(),
        "created_at": time(found.created_at),
        "expires_at": found.expires_at.map(time),
        "tags": found.tags,
    })
}

/// Compares an account with the recorded output.
async fn assert_same(fs: &dyn FileSystem, shown: &Value) {
    assert_equal(entries(fs).await, &shown["entries"], "entries");
    let page = fs.changes(&ChangesQuery::since(Seq(0)).limit(MAX_PAGE)).await.unwrap();
    assert_eq!(page.until.seq, page.head);
    let mut commits = page.commits;
    commits.reverse();
    assert_equal(commits.iter().map(log), &shown["log"], "log");
    for (path, versions) in fields(&shown["histories"]) {
        let page = HistoryPage::default().limit(MANY);
        let found = fs.history(&At::Path(TreePath::parse(path).unwrap()), &page).await.unwrap().items;
        assert_equal(found.iter().map(version), versions, path);
    }
    for (seq, tree) in fields(&shown["past"]) {
        assert_equal(past(fs, Seq(seq.parse().unwrap())).await, tree, &format!("after commit {seq}"));
    }
    let snapshots = fs.snapshots(&SnapshotsPage::default()).await.unwrap().items;
    let snapshots = snapshots.iter().map(|s| json!({"name": s.name, "seq": s.seq.0, "time": time(s.time)}));
    assert_equal(snapshots, &shown["snapshots"], "snapshots");
    for (agent, values) in fields(&shown["kv"]) {
        let kv = Kv::new(fs, agent).unwrap();
        for expected in items(values) {
            let found = kv.get(expected["path"].as_str().unwrap()).await.unwrap();
            assert_eq!(value(&found.expect("a value")), *expected, "{agent}");
        }
    }
    for (words, paths) in fields(&shown["searches"]) {
        let query = SearchQuery::new(words.clone()).limit(MANY);
        let hits = fs.search(&query).await.unwrap().hits;
        // Compares the set of files: their ranking is not a property of the data.
        let found: BTreeSet<_> = hits.iter().map(|hit| hit.path.as_str()).collect();
        let expected = items(paths).iter().map(|path| path.as_str().unwrap()).collect();
        assert_eq!(found, expected, "{words}");
    }
}

async fn assert_same_keys(data: &DataDir, shown: &Value) {
    for (label, expected) in fields(&shown["keys"]) {
        let key = data.control().authenticate(expected["key"].as_str().unwrap()).await.unwrap();
        if label == "lost" {
            assert_eq!(key, None, "it was revoked");
            continue;
        }
        let key = key.expect("a key that was made");
        let found = json!({
            "account": key.account, "id": key.id, "label": key.label, "created": time(key.created),
            "scopes": key.scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>(),
            "revoked": key.revoked.map(time), "key": expected["key"],
        });
        assert_eq!(found, *expected);
    }
}

#[tokio::test]
async fn format_2_data_reads_unchanged() {
    let (folder, shown) = (old_data(), shown());
    let data = garth::builder().open(folder.path()).unwrap();
    let accounts = data.control().accounts().await.unwrap();
    assert!(accounts.iter().map(|account| &account.id).eq(fields(&shown["accounts"]).map(|(name, _)| name)));
    assert_same_keys(&data, &shown).await;
    for (name, shown) in fields(&shown["accounts"]) {
        let fs = data.account(name).await.unwrap();
        assert_same(&*fs, shown).await;
        assert_eq!(fs.fsck().await.unwrap().findings, [], "{name}");
    }
}

#[tokio::test]
async fn format_2_data_supports_all_operations() {
    let (folder, shown) = (old_data(), shown());
    let data = garth::builder().open(folder.path()).unwrap();
    for (name, shown) in fields(&shown["accounts"]) {
        let fs = data.account(name).await.unwrap();
        fs.reindex().await.unwrap();
        assert_same(&*fs, shown).await;
        // It only marks versions that have just ended; what it then removes is in no version.
        let (past, head) = (past(&*fs, fs.head().await.unwrap().seq).await, fs.head().await.unwrap().seq);
        fs.gc(std::time::Duration::ZERO).await.unwrap();
        fs.gc(std::time::Duration::ZERO).await.unwrap();
        assert_eq!(self::past(&*fs, head).await, past);
        let path = TreePath::parse("/new").unwrap();
        garth_engine::FileSystemExt::write(&*fs, &path, "written now: basil").await.unwrap();
        let query = SearchQuery::new("basil").limit(1);
        assert_eq!(fs.search(&query).await.unwrap().hits[0].path, path);
        assert_eq!(fs.fsck().await.unwrap().findings, [], "{name}");
    }
}

#[tokio::test]
async fn format_2_index_is_rebuilt_in_background() {
    let (folder, shown) = (old_data(), shown());
    let data = garth::builder().open(folder.path()).unwrap();
    let shown = &shown["accounts"]["default"];
    let account = data.control().account("default").await.unwrap();
    let database = folder.path().join("accounts").join(account.folder).join("tree.db");
    let fs = data.account("default").await.unwrap();
    let old_passages = || -> i64 {
        let sql =
            "SELECT count(*) + (SELECT count(*) FROM passage, old_index WHERE id <= until) FROM old_index";
        rusqlite::Connection::open(&database).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
    };
    let same_hits = async || {
        for (words, paths) in fields(&shown["searches"]) {
            let query = SearchQuery::new(words.clone()).limit(MANY);
            let hits = fs.search(&query).await.unwrap().hits;
            let found: BTreeSet<_> = hits.iter().map(|hit| hit.path.as_str()).collect();
            let expected: BTreeSet<_> = items(paths).iter().map(|path| path.as_str().unwrap()).collect();
            assert_eq!(found, expected, "{words}");
        }
    };
    same_hits().await;
    assert!(old_passages() > 1, "who only reads leaves it as it is");
    let path = TreePath::parse("/aside").unwrap();
    garth_engine::FileSystemExt::write(&*fs, &path, "zyx").await.unwrap();
    while old_passages() > 0 {
        same_hits().await;
    }
    same_hits().await;
    assert_eq!(fs.fsck().await.unwrap().findings, []);
}

#[cfg(debug_assertions)]
#[tokio::test]
async fn failed_migration_keeps_format_2_data() {
    use garth_engine::engine::sqlite::SqliteFs;
    use garth_engine::runtime::Runtime;
    use garth_engine::runtime::failpoint::{self, Failure};

    let (folder, shown) = (old_data(), shown());
    let database = {
        let account = garth::builder().open(folder.path()).unwrap();
        let account = account.control().account("default").await.unwrap();
        folder.path().join("accounts").join(account.folder).join("tree.db")
    };
    let format = || {
        let tree = rusqlite::Connection::open(&database).unwrap();
        tree.query_row("PRAGMA user_version", [], |row| row.get::<_, i32>(0)).unwrap()
    };
    assert_eq!(format(), 2);
    let runtime = Runtime::new(Env::system());
    runtime.failpoints().arm(failpoint::MIGRATE, Failure::Io, 0);
    let opened = SqliteFs::open_on(database.parent().unwrap(), &runtime, garth_agent::registry());
    let passed = !runtime.failpoints().disarm();
    assert_eq!(format(), 2, "either it is the present format, or the migration was taken back");
    match opened {
        Ok(_) => assert!(!passed, "the failure was told"),
        Err(error) => assert!(passed && error.is(garth_engine::ErrorKind::Io), "{error:?}"),
    }
    let data = garth::builder().open(folder.path()).unwrap();
    assert_same(&*data.account("default").await.unwrap(), &shown["accounts"]["default"]).await;
}
