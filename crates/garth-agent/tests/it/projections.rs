//! Keys are written in the commit: with the account's set of projections, by every writer, and after any
//! damage to their table.

use std::sync::Arc;
use std::time::Duration;

use garth_agent::registry::projections;
use garth_engine::engine::memory::MemoryFs;
use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::model::quota::Limits;
use garth_engine::model::{Batch, FindQuery, Op, Projection, SetAttrs};
use garth_engine::rule::{Constraint, PathPattern, Rule};
use garth_engine::rule::{Registry, sample};
use garth_engine::{AccountStore, Env, ErrorKind, FileSystem, TreePath};
use tempfile::TempDir;

fn path(path: &str) -> TreePath {
    TreePath::parse(path).unwrap()
}

/// Returns the registry of agents with a simpler projection by line.
fn registry() -> Registry {
    garth_agent::registry().with_projection(sample::first_word())
}

fn open(folder: &TempDir) -> Arc<SqliteFs> {
    SqliteFs::open(folder.path(), Env::system(), registry()).unwrap()
}

/// Runs SQL on the account's database as another process would.
fn execute(folder: &TempDir, sql: &str) {
    rusqlite::Connection::open(folder.path().join("tree.db")).unwrap().execute_batch(sql).unwrap();
}

async fn commit(fs: &dyn FileSystem, ops: impl IntoIterator<Item = Op>) {
    fs.commit(Batch::new(ops)).await.unwrap();
}

async fn found(fs: &dyn FileSystem, query: FindQuery) -> Vec<String> {
    let answer = fs.find(&query).await.unwrap();
    assert_eq!(answer.next, None);
    answer.items.iter().map(|item| item.path.to_string()).collect()
}

fn tagged(at: &str, tag: &str) -> Op {
    Op::write(path(at), "text").with_attrs(SetAttrs::new().tags([tag]).metadata("k", "v")).with_parents()
}

/// Creates files, a directory and lines that the projection covers.
async fn filled() -> (TempDir, Arc<SqliteFs>) {
    let folder = tempfile::tempdir().unwrap();
    let fs = open(&folder);
    commit(&*fs, [tagged("/a", "x"), tagged("/d/b", "x"), tagged("/d/c", "y")]).await;
    commit(&*fs, [Op::set_attrs(path("/d"), SetAttrs::new().tags(["x"]))]).await;
    commit(&*fs, [Op::write(path("/kv/lines"), "one 1\n\ntwo 2\nthree").with_parents()]).await;
    assert_eq!(found(&*fs, FindQuery::tag("x")).await.len(), 3);
    (folder, fs)
}

#[tokio::test]
async fn older_projection_set_is_read_only() {
    let (folder, fs) = filled().await;
    let other = open(&folder);
    // As a newer garth does when it opens the account, while these handles have it open.
    execute(&folder, "UPDATE head SET projections = projections + 1");
    let head = fs.head().await.unwrap();
    for fs in [&fs, &other, &open(&folder)] {
        let refused = fs.commit(Batch::new([tagged("/new", "x")])).await.unwrap_err();
        assert!(
            refused.is(ErrorKind::Format) && refused.message().contains("use a newer garth"),
            "{refused}"
        );
        let rule = Rule::new(PathPattern::parse("/x").unwrap(), Constraint::AppendOnly);
        for refused in [
            fs.gc(Duration::ZERO).await.map(drop),
            fs.reindex().await.map(drop),
            fs.set_rule(rule, false).await.map(drop),
            fs.set_quota(&path("/x"), Limits::default().bytes(1)).await.map(drop),
        ] {
            assert!(refused.is_err_and(|error| error.is(ErrorKind::Format)));
        }
        assert_eq!(found(&**fs, FindQuery::tag("x")).await, ["/a", "/d", "/d/b"]);
        assert_eq!(fs.fsck().await.unwrap().findings, [], "what it does not know it does not judge");
    }
    assert_eq!(fs.head().await.unwrap(), head);
    execute(&folder, "UPDATE head SET projections = projections - 1");
    for (place, fs) in [&fs, &other].into_iter().enumerate() {
        commit(&**fs, [tagged(&format!("/new{place}"), "x")]).await;
    }
    assert_eq!(found(&*fs, FindQuery::tag("x")).await.len(), 5);
    assert_eq!(fs.fsck().await.unwrap().findings, []);
}

#[tokio::test]
async fn open_rebuilds_keys_of_older_sets() {
    let (folder, fs) = filled().await;
    let all = found(&*fs, FindQuery::new(Projection::METADATA)).await;
    execute(&folder, "DELETE FROM projected; UPDATE head SET projections = 0");
    assert!(found(&*fs, FindQuery::tag("x")).await.is_empty());
    let newer = open(&folder);
    for fs in [&fs, &newer] {
        assert_eq!(found(&**fs, FindQuery::tag("x")).await, ["/a", "/d", "/d/b"]);
        assert_eq!(found(&**fs, FindQuery::new(Projection::METADATA)).await, all);
        assert_eq!(fs.fsck().await.unwrap().findings, []);
        commit(&**fs, [tagged("/a", "y")]).await;
        commit(&**fs, [tagged("/a", "x")]).await;
    }
}

#[tokio::test]
async fn handles_share_projection_keys() {
    let (folder, fs) = filled().await;
    let other = open(&folder);
    commit(&*other, [Op::rename(path("/d"), path("/e")), tagged("/f", "x")]).await;
    assert_eq!(found(&*fs, FindQuery::tag("x")).await, ["/a", "/e", "/e/b", "/f"]);
    commit(&*fs, [Op::remove_tree(path("/e"))]).await;
    assert_eq!(found(&*other, FindQuery::tag("x")).await, ["/a", "/f"]);
    assert_eq!(found(&*other, FindQuery::metadata("k", "v")).await, ["/a", "/f"]);
    assert_eq!(fs.fsck().await.unwrap().findings, []);
    assert_eq!(other.gc(Duration::ZERO).await.unwrap().expired, 0);
    assert_eq!(fs.fsck().await.unwrap().findings, []);
}

#[tokio::test]
async fn check_repairs_damaged_keys() {
    for damage in [
        "DELETE FROM projected",
        "DELETE FROM projected WHERE key = 'x' AND ino = (SELECT max(ino) FROM projected WHERE key = 'x')",
        "UPDATE projected SET key = 'z' WHERE key = 'y'",
        "INSERT INTO projected SELECT projection, 'other', ino, line, off, len FROM projected WHERE key = 'y'",
        "INSERT INTO projected VALUES (1, 'x', 4711, 0, 0, 0)",
        "INSERT INTO projected VALUES (77, 'x', 2, 0, 0, 0)",
        "UPDATE projected SET len = len + 1 WHERE key = 'y'",
    ] {
        let (folder, fs) = filled().await;
        execute(&folder, damage);
        let findings = fs.fsck().await.unwrap().findings;
        assert!(
            !findings.is_empty() && findings.iter().all(|it| it.kind == "projection"),
            "{damage}: {findings:?}"
        );
        fs.reindex().await.unwrap();
        assert_eq!(fs.fsck().await.unwrap().findings, [], "{damage}");
        assert_eq!(found(&*fs, FindQuery::tag("x")).await, ["/a", "/d", "/d/b"], "{damage}");
    }
}

/// Projection by line that this test adds, for files in or below `/kv`.
mod by_line {
    use std::ops::Range;

    use super::*;

    fn words() -> FindQuery {
        FindQuery::new(sample::FIRST_WORD)
    }

    /// Returns words with their lines.
    async fn lines(fs: &dyn FileSystem) -> Vec<(String, u64, Range<u64>)> {
        let items = fs.find(&words()).await.unwrap().items;
        let mut lines: Vec<_> = items
            .into_iter()
            .map(|item| (item.key, item.line.as_ref().unwrap().number, item.line.unwrap().bytes))
            .collect();
        lines.sort_by_key(|(_, number, _)| *number);
        lines
    }

    fn line(word: &str, number: u64, bytes: Range<u64>) -> (String, u64, Range<u64>) {
        (word.to_owned(), number, bytes)
    }

    #[tokio::test]
    async fn line_keys_follow_every_write() {
        let (_folder, fs) = filled().await;
        let at = path("/kv/lines");
        let first = [line("one", 1, 0..5), line("two", 3, 7..12), line("three", 4, 13..18)];
        assert_eq!(lines(&*fs).await, first);
        for (op, due) in [
            (Op::append(&at, " 3\nfour\n\n"), line("four", 5, 21..25)),
            (Op::append(&at, "five"), line("five", 7, 27..31)),
            (Op::patch(&at, 27, "other"), line("other", 7, 27..32)),
            (Op::patch(&at, 7, "second\nand"), line("ande", 4, 14..20)),
            (Op::truncate(&at, 9), line("se", 3, 7..9)),
            (Op::punch(&at, 3, 2), line("one\0\0", 1, 0..5)),
        ] {
            commit(&*fs, [op.clone()]).await;
            let found = lines(&*fs).await;
            assert!(found.contains(&due), "{op:?}: {found:?}");
            assert_eq!(fs.fsck().await.unwrap().findings, [], "{op:?}");
        }
        commit(&*fs, [Op::append(&at, "\nlast"), Op::append(&at, " word\nmore")]).await;
        assert_eq!(lines(&*fs).await[2..], [line("last", 4, 10..19), line("more", 5, 20..24)]);
        commit(&*fs, [Op::write(&at, "new")]).await;
        assert_eq!(lines(&*fs).await, [line("new", 1, 0..3)]);
    }

    /// A file may be longer than anyone could read: holes cost nothing.
    #[tokio::test]
    async fn projecting_holes_is_fast() {
        let (_folder, fs) = filled().await;
        let (at, far) = (path("/kv/lines"), 1 << 40);
        commit(&*fs, [Op::truncate(&at, far), Op::append(&at, "\nlast")]).await;
        let found = lines(&*fs).await;
        assert_eq!(found[..2], [line("one", 1, 0..5), line("two", 3, 7..12)]);
        assert_eq!((found[2].1, found[2].2.clone()), (4, 13..far));
        assert_eq!(found[3..], [line("last", 5, far + 1..far + 5)]);
        assert_eq!(fs.fsck().await.unwrap().findings, []);
        commit(&*fs, [Op::patch(&at, far / 2, "\nmid")]).await;
        assert_eq!(lines(&*fs).await[4], line("last", 6, far + 1..far + 5));
    }

    #[tokio::test]
    async fn line_keys_require_a_matching_name() {
        let (folder, fs) = filled().await;
        let paths = async || found(&*fs, words().equal("one")).await;
        assert_eq!(paths().await, ["/kv/lines"]);
        let steps: [(Op, &[&str]); 11] = [
            (Op::rename(path("/kv/lines"), path("/lines")), &[]),
            (Op::link(path("/lines"), path("/kv/other")), &["/kv/other"]),
            (Op::link(path("/lines"), path("/kv/d/more")).with_parents(), &["/kv/other", "/kv/d/more"]),
            (Op::rename(path("/kv/d"), path("/d2")), &["/kv/other"]),
            (Op::rename(path("/kv"), path("/elsewhere")), &[]),
            (Op::rename(path("/d2"), path("/kv")), &["/kv/more"]),
            (Op::exchange(path("/kv"), path("/elsewhere")), &["/kv/other"]),
            (Op::remove(path("/kv/other")), &[]),
            (Op::copy_tree(path("/elsewhere"), path("/kv/copy")), &["/kv/copy/more"]),
            (Op::remove_tree(path("/kv")), &[]),
            (Op::copy(path("/lines"), path("/kv")), &[]),
        ];
        for (op, due) in steps {
            commit(&*fs, [op.clone()]).await;
            assert_eq!(paths().await, due, "{op:?}");
            assert_eq!(fs.fsck().await.unwrap().findings, [], "{op:?}");
            assert_eq!(found(&*open(&folder), words().equal("one")).await, due, "{op:?}");
        }
    }

    #[tokio::test]
    async fn line_keys_follow_final_state_of_batch() {
        let (_folder, fs) = filled().await;
        let batch = [
            Op::rename(path("/kv"), path("/away")),
            Op::append(path("/away/lines"), "\nfour"),
            Op::write(path("/away/new"), "one"),
            Op::rename(path("/away"), path("/kv")),
            Op::link(path("/kv/lines"), path("/d/lines")),
            Op::rename(path("/d"), path("/kv/d")),
        ];
        commit(&*fs, batch).await;
        assert_eq!(found(&*fs, words().equal("one")).await, ["/kv/lines", "/kv/d/lines", "/kv/new"]);
        assert_eq!(found(&*fs, words().equal("four")).await, ["/kv/lines", "/kv/d/lines"]);
        assert_eq!(fs.fsck().await.unwrap().findings, []);
        commit(&*fs, [Op::rename(path("/kv/d"), path("/d")), Op::remove_tree(path("/kv"))]).await;
        assert!(found(&*fs, words()).await.is_empty());
        assert_eq!(fs.fsck().await.unwrap().findings, []);
    }

    #[tokio::test]
    async fn open_rebuilds_line_keys_of_older_sets() {
        let (folder, fs) = filled().await;
        let due = lines(&*fs).await;
        execute(&folder, "DELETE FROM projected; UPDATE head SET projections = 0");
        let fs = open(&folder);
        assert_eq!(lines(&*fs).await, due);
        execute(&folder, "UPDATE projected SET off = off + 1 WHERE key = ''");
        assert_eq!(fs.fsck().await.unwrap().findings.len(), 1);
        fs.reindex().await.unwrap();
        assert_eq!(lines(&*fs).await, due);
        assert_eq!(fs.fsck().await.unwrap().findings, []);
    }
}

/// Keys of complete files: the status, relations and events of memories.
mod by_file {
    use super::*;

    fn meta(status: &str) -> String {
        format!(r#"{{"status":"{status}"}}"#)
    }

    #[tokio::test]
    async fn file_keys_require_a_matching_name() {
        let (_folder, fs) = filled().await;
        let at = |name: &str| path(&format!("/users/a/memories/{name}"));
        let of = async |status: &str| {
            let query = FindQuery::new(projections::MEMORY_STATUS).equal(status);
            let mut paths = found(&*fs, query).await;
            paths.sort();
            paths
        };
        let file = at("events/x/.meta.json");
        let shown = ["/users/a/memories/events/x/.meta.json"];
        let steps: [(Op, &[&str]); 10] = [
            (Op::write(&file, meta("ACTIVE")).with_parents(), &shown),
            (Op::patch(&file, 11, "BROKEN"), &[]),
            (Op::write(&file, meta("ACTIVE")), &shown),
            (Op::append(&file, "x"), &[]),
            (Op::truncate(&file, meta("ACTIVE").len() as u64), &shown),
            (Op::rename(at("events/x"), path("/away")), &[]),
            (
                Op::link(path("/away/.meta.json"), at("profile/.meta.json")).with_parents(),
                &["/users/a/memories/profile/.meta.json"],
            ),
            (
                Op::rename(path("/away"), at("events/x")),
                &["/users/a/memories/events/x/.meta.json", "/users/a/memories/profile/.meta.json"],
            ),
            (Op::remove_tree(at("profile")), &shown),
            (Op::remove(&file), &[]),
        ];
        for (op, due) in steps {
            commit(&*fs, [op.clone()]).await;
            assert_eq!(of("ACTIVE").await, due, "{op:?}");
            assert_eq!(fs.fsck().await.unwrap().findings, [], "{op:?}");
        }
        // A file that exceeds the limit for keys has none.
        let long = format!(r#"{{"status":"ACTIVE","x":"{}"}}"#, "x".repeat(1 << 20));
        commit(&*fs, [Op::write(&file, long).with_parents()]).await;
        assert!(of("ACTIVE").await.is_empty());
        fs.reindex().await.unwrap();
        assert!(of("ACTIVE").await.is_empty());
    }

    #[tokio::test]
    async fn engines_derive_the_same_keys() {
        let (_folder, fs) = filled().await;
        let in_memory = MemoryFs::new(Env::system(), registry());
        let memory = "/users/a/memories/events/x";
        let edges = r#"[{"to_uri":"ctx://a/1"},{"to_uri":"ctx://a/2"},{"to_uri":"ctx://a/1"}]"#;
        let event =
            r#"{"uri":"ctx://a/1","created_at":"2026-01-01T00:00:00Z","payload":{"new_uri":"ctx://a/3"}}"#;
        let ops = [
            Op::write(path(&format!("{memory}/.relations.json")), edges).with_parents(),
            Op::write(path(&format!("{memory}/.outbox/e.json")), event).with_parents(),
            Op::write(path("/.outbox/dlq/f.json"), r#"{"status":"FAILED"}"#).with_parents(),
            Op::write(path(&format!("{memory}/.meta.json")), meta("PENDING")),
        ];
        for fs in [&*fs as &dyn FileSystem, &in_memory] {
            commit(fs, ops.clone()).await;
            for (projection, due) in [
                (projections::RELATION_TARGET, vec!["ctx://a/1", "ctx://a/2"]),
                (projections::EVENT_MEMORY, vec!["ctx://a/1", "ctx://a/3"]),
                (projections::EVENT_DUE, vec!["failed\u{0}000000000000000", "waiting\u{0}001767225600000"]),
                (projections::MEMORY_STATUS, vec!["PENDING"]),
            ] {
                let answer = fs.find(&FindQuery::new(projection)).await.unwrap();
                let keys: Vec<&str> = answer.items.iter().map(|item| item.key.as_str()).collect();
                assert_eq!(keys, due, "{projection:?}");
            }
        }
    }
}
