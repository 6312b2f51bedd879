//! Key-value API on each engine: values, paths, races and files of other interfaces.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use garth_agent::kv::{
    Condition, CurrentValue, KeyKind, Kv, KvCode, KvError, KvResult, MAX_GETS, MAX_LISTED, MAX_PAGE_VALUES,
    MAX_VALUE, PageRequest, Paged, Past, Put, Search, Semantics, Written,
};
use garth_engine::engine::host::{HostFs, Mode};
use garth_engine::engine::memory::MemoryFs;
use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::env::ManualClock;
use garth_engine::model::{
    At, Author, Batch, ByteRange, ChangesQuery, Idempotency, Kind, Op, Seq, Timestamp, WalkPage,
};
use garth_engine::{Env, ErrorKind, FileSystem, FileSystemExt, TreePath};
use garth_testkit::tools::p as path;
use serde_json::value::RawValue;

/// 2026-01-27T00:00:00Z.
const START: Timestamp = Timestamp(1_769_472_000_000_000_000);

type Fs = Arc<dyn FileSystem>;

/// Defines each function as a test on each engine.
macro_rules! on_each_engine {
    ($($name:ident),* $(,)?) => {
        mod memory {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                let (env, clock) = super::Env::manual(super::START);
                super::$name(super::Arc::new(super::MemoryFs::new(env, garth_agent::registry())), clock).await;
            })*
        }

        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                let (env, clock) = super::Env::manual(super::START);
                let folder = tempfile::tempdir().unwrap();
                super::$name(super::SqliteFs::open(folder.path(), env, garth_agent::registry()).unwrap(), clock).await;
            })*
        }
    };
}

mod pages;
mod writes;

on_each_engine! {
    value_is_stored_verbatim_as_a_file,
    put_replaces_all_attributes_in_one_commit,
    agents_do_not_see_each_other,
    every_call_rejects_invalid_key_paths,
    key_may_have_value_and_children,
    a_conflict_names_the_key_in_the_way,
    delete_prunes_empty_directories,
    delete_keeps_nonempty_directories,
    concurrent_puts_survive_pruning,
    value_and_version_match_during_writes,
    expired_values_are_absent_everywhere,
    history_spans_delete_and_recreate,
    foreign_files_never_break_kv_calls,
    file_above_keys_is_a_path_conflict,
    lists_and_globs_are_sorted_by_segment,
    idempotent_retry_returns_the_first_write,
}

fn kv(fs: &Fs) -> Kv<'_> {
    Kv::new(fs, "x").unwrap().by_key("key1")
}

async fn put(fs: &Fs, key: &str, value: &str) -> Result<Written, KvError> {
    put_until(fs, key, value, None).await
}

async fn put_until(
    fs: &Fs,
    key: &str,
    value: &str,
    expires_at: Option<Timestamp>,
) -> Result<Written, KvError> {
    let value = RawValue::from_string(value.into()).unwrap();
    let put = Put {
        tags: Some(vec!["t".into()]),
        importance: Some(0.5),
        searchable: Some(true),
        expires_at: Some(expires_at),
        ..Put::new(key, &value)
    };
    kv(fs).put(&put, None).await
}

async fn get(fs: &Fs, key: &str) -> Option<String> {
    let found = kv(fs).get(key).await.unwrap()?;
    Some(text(&found.value))
}

fn text(value: &RawValue) -> String {
    value.get().to_owned()
}

fn texts(past: &[Past]) -> Vec<Option<String>> {
    past.iter().map(|past| past.value.as_deref().map(text)).collect()
}

async fn listed(fs: &Fs, prefix: &str) -> Vec<(String, KeyKind)> {
    let page = kv(fs).list(prefix, PageRequest::first(MAX_LISTED)).await.unwrap();
    page.items.into_iter().map(|item| (item.path, item.kind)).collect()
}

async fn globbed(fs: &Fs, pattern: &str, semantics: Semantics) -> Vec<String> {
    kv(fs).glob(pattern, semantics, PageRequest::first(MAX_LISTED)).await.unwrap().items
}

async fn history(fs: &Fs, key: &str, limit: usize) -> Vec<Past> {
    kv(fs).history(key, PageRequest::first(limit)).await.unwrap().items
}

async fn paths(fs: &Fs) -> Vec<String> {
    let walk = fs.walk(&At::Path(TreePath::root()), &WalkPage::default()).await.unwrap();
    walk.items.into_iter().map(|item| item.path.to_string()).collect()
}

fn code<T: std::fmt::Debug>(answer: Result<T, KvError>) -> KvCode {
    answer.unwrap_err().code()
}

async fn value_is_stored_verbatim_as_a_file(fs: Fs, _: ManualClock) {
    let deep = format!("{}1{}", "[".repeat(20_000), "]".repeat(20_000));
    let digits = format!("{}.{}e-7", "9".repeat(40), "0".repeat(40));
    let values = [
        "null",
        "true",
        "1.10",
        "-0",
        "1E400",
        &digits,
        r#""\ud800\u0000é""#,
        "{ \"b\" : 1.0,\n\t\"a\":[ ] }",
        &deep,
        r#"{"a":1,"a":2}"#,
        "\"\"",
    ];
    for value in values {
        let written = put(&fs, "/a/b", value).await.unwrap();
        let found = kv(&fs).get("//a/b/").await.unwrap().unwrap();
        assert_eq!(text(&found.value), value);
        assert_eq!((found.path.as_str(), found.version), ("/a/b", written.version));
        assert_eq!((found.created_at, found.expires_at), (written.created_at, None));
        assert_eq!(found.tags, ["t"]);
        let file = fs.read(&path("/agents/x/kv/a/b.json").into(), ByteRange::ALL).await.unwrap();
        assert_eq!(file, value.as_bytes());
    }
}

async fn put_replaces_all_attributes_in_one_commit(fs: Fs, _: ManualClock) {
    let end = START.plus_seconds(60);
    let written = put_until(&fs, "/a/b/c", "1", Some(end)).await.unwrap();
    assert_eq!(written.version.seq, Seq(1));
    let value = RawValue::from_string("2".into()).unwrap();
    let plain = Put::anew("/a/b/c", &value);
    kv(&fs).put(&plain, None).await.unwrap();
    let entry = fs.stat(&path("/agents/x/kv/a/b/c.json").into()).await.unwrap();
    assert_eq!(entry.attributes.content_type.as_deref(), Some("application/json"));
    assert_eq!((entry.attributes.tags.len(), entry.attributes.importance), (0, 0.0));
    assert_eq!((entry.attributes.searchable, entry.expires_at), (Some(false), None));
    let log = fs.changes(&ChangesQuery::since(Seq(0))).await.unwrap();
    assert_eq!(log.commits.len(), 2);
    let author = Author::agent("x").with_key("key1");
    assert!(log.commits.iter().all(|commit| commit.commit.author == author));
}

async fn agents_do_not_see_each_other(fs: Fs, _: ManualClock) {
    put(&fs, "/a", "1").await.unwrap();
    for other in ["y", "X", "xx", "x%", "_"] {
        let kv = Kv::new(&*fs, other).unwrap();
        assert!(kv.get("/a").await.unwrap().is_none());
        assert_eq!(kv.list("/", PageRequest::first(9)).await.unwrap().items, []);
        assert!(kv.glob("/**", Semantics::Whole, PageRequest::first(9)).await.unwrap().items.is_empty());
        assert!(kv.history("/a", PageRequest::first(9)).await.unwrap().items.is_empty());
        kv.delete("/a", None).await.unwrap();
    }
    assert_eq!(get(&fs, "/a").await.as_deref(), Some("1"));
    let long = "a".repeat(129);
    for bad in ["", ".", "..", "a/b", "a\0", "a\n", long.as_str()] {
        assert_eq!(code(Kv::new(&*fs, bad)), KvCode::Validation, "{bad:?}");
    }
}

async fn every_call_rejects_invalid_key_paths(fs: Fs, _: ManualClock) {
    let (chars, segments) = ("/é".repeat(257), "/a".repeat(65));
    let (folded_chars, folded_segments) =
        (format!("/a{}", "/".repeat(511)), format!("/a{}", "//b".repeat(32)));
    let segment = format!("/{}", "é".repeat(126));
    for bad in [
        "",
        "a",
        "a/b",
        "/",
        "//",
        "/.",
        "/..",
        "/a/../b",
        "/a/./b",
        "/a\0",
        "/a/..",
        &chars,
        &segments,
        &folded_chars,
        &folded_segments,
        &segment,
    ] {
        assert_eq!(code(put(&fs, bad, "1").await), KvCode::InvalidPath, "{bad:?}");
        assert_eq!(code(kv(&fs).get(bad).await), KvCode::InvalidPath, "{bad:?}");
        assert_eq!(code(kv(&fs).delete(bad, None).await), KvCode::InvalidPath, "{bad:?}");
        assert_eq!(code(kv(&fs).history(bad, PageRequest::first(1)).await), KvCode::InvalidPath, "{bad:?}");
        if !matches!(bad, "/" | "//") {
            assert_eq!(code(kv(&fs).list(bad, PageRequest::first(1)).await), KvCode::InvalidPath, "{bad:?}");
        }
    }
    let (chars, segments) = (format!("{}/bc", "/é".repeat(50)), "/a".repeat(64));
    let segment = format!("/{}", "é".repeat(125));
    let longest = format!("/{0}/{0}/{1}", "é".repeat(125), "🦀".repeat(62));
    for good in [
        chars.as_str(),
        &segments,
        &segment,
        &longest,
        "/...",
        "/.a",
        "/ ",
        "/\n",
        "/%2e%2e",
        "/a.json",
        "/.json",
    ] {
        put(&fs, good, "1").await.unwrap();
        assert_eq!(get(&fs, good).await.as_deref(), Some("1"), "{good:?}");
    }
    for reserved in ["/sys", "/sys/", "//sys//a", "/sys/a/b"] {
        assert_eq!(code(put(&fs, reserved, "1").await), KvCode::ReservedPath);
        assert_eq!(get(&fs, reserved).await, None);
    }
    put(&fs, "/system", "1").await.unwrap();
    let big = format!("\"{}\"", "a".repeat(MAX_VALUE - 1));
    assert_eq!(code(put(&fs, "/a", &big).await), KvCode::TooLarge);
    assert_eq!(code(kv(&fs).history("/a", PageRequest::first(0)).await), KvCode::Validation);
    assert_eq!(code(kv(&fs).history("/a", PageRequest::first(101)).await), KvCode::Validation);
}

async fn key_may_have_value_and_children(fs: Fs, _: ManualClock) {
    for key in ["/a", "/a/b", "/a/b/c"] {
        put(&fs, key, &format!("\"{key}\"")).await.unwrap();
    }
    assert_eq!(get(&fs, "/a/b").await.as_deref(), Some("\"/a/b\""));
    assert_eq!(listed(&fs, "/").await, [("/a".to_owned(), KeyKind::Value)]);
    kv(&fs).delete("/a", None).await.unwrap();
    assert_eq!(listed(&fs, "/").await, [("/a".to_owned(), KeyKind::Directory)]);
    assert_eq!(get(&fs, "/a/b/c").await.as_deref(), Some("\"/a/b/c\""));
}

async fn a_conflict_names_the_key_in_the_way(fs: Fs, _: ManualClock) {
    put(&fs, "/d/a", "1").await.unwrap();
    let error = put(&fs, "/d/a.json/b", "2").await.unwrap_err();
    assert_eq!((error.code(), error.message()), (KvCode::PathConflict, "`/d/a` is in the way of this key"));
    put(&fs, "/e/a.json/b", "1").await.unwrap();
    let error = put(&fs, "/e/a", "2").await.unwrap_err();
    assert_eq!(
        (error.code(), error.message()),
        (KvCode::PathConflict, "`/e/a.json` is in the way of this key")
    );
    let head = fs.head().await.unwrap().seq;
    let deleted = kv(&fs).delete("/e/a", None).await.unwrap();
    assert_eq!(deleted.version.seq.0, head.0 + 1, "ending what has no value is a commit, too");
    assert_eq!((get(&fs, "/e/a").await, get(&fs, "/d/a.json/b").await), (None, None));
    assert_eq!(get(&fs, "/e/a.json/b").await.as_deref(), Some("1"));
    assert!(history(&fs, "/e/a", 20).await.is_empty(), "a directory is no past of a value");
    assert!(history(&fs, "/d/a.json/b", 20).await.is_empty());
    kv(&fs).delete("/e/a.json/b", None).await.unwrap();
    put(&fs, "/e/a", "3").await.unwrap();
    assert_eq!(texts(&history(&fs, "/e/a", 20).await), [Some("3".to_owned())]);
}

async fn delete_prunes_empty_directories(fs: Fs, _: ManualClock) {
    put(&fs, "/a/b/c", "1").await.unwrap();
    put(&fs, "/a/x", "2").await.unwrap();
    let before = fs.head().await.unwrap().seq.0;
    let deleted = kv(&fs).delete("/a/b/c", None).await.unwrap();
    assert_eq!(deleted.version.seq.0, before + 1);
    assert_eq!(fs.head().await.unwrap().seq.0, before + 1, "one commit");
    assert_eq!(
        paths(&fs).await,
        ["/agents", "/agents/x", "/agents/x/kv", "/agents/x/kv/a", "/agents/x/kv/a/x.json"]
    );
    kv(&fs).delete("/a/x", None).await.unwrap();
    kv(&fs).delete("/a/x", None).await.unwrap();
    assert_eq!(paths(&fs).await, ["/agents", "/agents/x", "/agents/x/kv"]);
    let past = history(&fs, "/a/b/c", 20).await;
    assert_eq!(texts(&past), [None, Some("1".to_owned())]);
    assert_eq!((past[0].version, past[0].created_at), (deleted.version, deleted.created_at));
}

async fn delete_keeps_nonempty_directories(fs: Fs, _: ManualClock) {
    put(&fs, "/a/b", "1").await.unwrap();
    fs.write(&path("/agents/x/kv/a/note.txt"), Bytes::from("1234")).await.unwrap();
    kv(&fs).delete("/a/b", None).await.unwrap();
    assert_eq!(fs.stat(&path("/agents/x/kv/a/note.txt").into()).await.unwrap().size, 4);
    assert_eq!(listed(&fs, "/").await, []);
}

async fn concurrent_puts_survive_pruning(fs: Fs, _: ManualClock) {
    for round in 0..50 {
        put(&fs, "/a/b/old", "1").await.unwrap();
        let key = format!("/a/b/new{round}");
        let writer = tokio::spawn({
            let (fs, key) = (fs.clone(), key.clone());
            async move { put(&fs, &key, "2").await.map(|_| ()) }
        });
        let deleted = tokio::spawn({
            let fs = fs.clone();
            async move { kv(&fs).delete("/a/b/old", None).await.map(|_| ()) }
        });
        writer.await.unwrap().unwrap();
        deleted.await.unwrap().unwrap();
        assert_eq!(get(&fs, &key).await.as_deref(), Some("2"));
        assert_eq!(get(&fs, "/a/b/old").await, None);
        kv(&fs).delete(&key, None).await.unwrap();
    }
    assert_eq!(listed(&fs, "/").await, []);
}

async fn value_and_version_match_during_writes(fs: Fs, _: ManualClock) {
    put(&fs, "/a", "0").await.unwrap();
    let writer = tokio::spawn({
        let fs = fs.clone();
        async move {
            for number in 1..300 {
                put(&fs, "/a", &number.to_string()).await.unwrap();
            }
        }
    });
    while !writer.is_finished() {
        let found = kv(&fs).get("/a").await.unwrap().unwrap();
        let number: u64 = text(&found.value).parse().unwrap();
        assert_eq!(found.version.seq.0, number + 1);
    }
    writer.await.unwrap();
}

async fn expired_values_are_absent_everywhere(fs: Fs, clock: ManualClock) {
    let end = START.plus_seconds(60);
    put_until(&fs, "/a/b", "1", Some(end)).await.unwrap();
    put_until(&fs, "/c.json/d", "1", Some(end)).await.unwrap();
    put_until(&fs, "/e", "1", Some(end)).await.unwrap();
    assert_eq!(kv(&fs).get("/a/b").await.unwrap().unwrap().expires_at, Some(end));
    clock.advance(Duration::from_secs(60));
    assert_eq!(get(&fs, "/a/b").await, None);
    assert_eq!((listed(&fs, "/").await, listed(&fs, "/a").await), (vec![], vec![]));
    assert_eq!(globbed(&fs, "/**", Semantics::Whole).await, Vec::<String>::new());
    put(&fs, "/c", "2").await.unwrap();
    put(&fs, "/e.json/f", "2").await.unwrap();
    assert_eq!(globbed(&fs, "/**", Semantics::Whole).await, ["/c", "/e.json/f"]);
    let past = history(&fs, "/a/b", 20).await;
    assert_eq!((texts(&past), past[0].expires_at), (vec![Some("1".to_owned())], Some(end)));
    kv(&fs).delete("/a/b", None).await.unwrap();
    assert!(!paths(&fs).await.contains(&"/agents/x/kv/a".to_owned()));
}

async fn history_spans_delete_and_recreate(fs: Fs, _: ManualClock) {
    for number in 0..3 {
        put(&fs, "/a", &number.to_string()).await.unwrap();
    }
    kv(&fs).delete("/a", None).await.unwrap();
    put(&fs, "/a", "4").await.unwrap();
    let past = history(&fs, "/a", 20).await;
    let value = |number: u32| Some(number.to_string());
    assert_eq!(texts(&past), [value(4), None, value(2), value(1), value(0)]);
    assert!(past.windows(2).all(|pair| pair[0].version.seq > pair[1].version.seq));
    for limit in 1..5 {
        assert_eq!(texts(&history(&fs, "/a", limit).await), texts(&past[..limit]));
    }
    assert!(history(&fs, "/never", 20).await.is_empty());
}

async fn foreign_files_never_break_kv_calls(fs: Fs, _: ManualClock) {
    put(&fs, "/good", "1").await.unwrap();
    let bad: [(&str, &[u8]); 6] = [
        ("/agents/x/kv/text.json", b"not json"),
        ("/agents/x/kv/empty.json", b""),
        ("/agents/x/kv/latin.json", b"\"\xff\""),
        ("/agents/x/kv/two.json", b"1 2"),
        ("/agents/x/kv/.json", b"1"),
        ("/agents/x/kv/...json", b"1"),
    ];
    // Data from before the rule.
    let mut older: Vec<Op> = Vec::new();
    older.extend(bad.map(|(file, content)| Op::write(path(file), Bytes::from_static(content))));
    let big = Bytes::from(format!("\"{}\"", "a".repeat(MAX_VALUE)));
    older.push(Op::write(path("/agents/x/kv/big.json"), big));
    fs.commit(Batch::new(older).overriding_rules()).await.unwrap();
    fs.write(&path("/agents/x/kv/spaced.json"), Bytes::from_static(b" {\"a\" : 1}\n")).await.unwrap();
    fs.write(&path("/agents/x/kv/note.txt"), Bytes::from_static(b"1")).await.unwrap();
    fs.write(&path("/secret.json"), Bytes::from_static(b"1")).await.unwrap();
    for (at, target) in [("/agents/x/kv/link.json", "/secret.json"), ("/agents/x/kv/dir", "/agents")] {
        let op = Op::symlink(path(at), target);
        fs.commit(Batch::new([op]).overriding_rules()).await.unwrap();
    }
    for key in ["/text", "/empty", "/latin", "/two", "/big", "/link", "/note", "/note.txt", "/dir/x"] {
        assert_eq!(get(&fs, key).await, None, "{key}");
        assert_eq!(texts(&history(&fs, key, 20).await), [], "{key}");
    }
    assert_eq!(get(&fs, "/spaced").await.as_deref(), Some("{\"a\" : 1}"));
    let shown = ["/big", "/empty", "/good", "/latin", "/spaced", "/text", "/two"];
    assert_eq!(globbed(&fs, "/**", Semantics::Whole).await, shown);
    let items = listed(&fs, "/").await;
    assert_eq!(items.iter().map(|item| item.0.as_str()).collect::<Vec<_>>(), shown);
    for key in ["/link", "/dir/x"] {
        assert_eq!(code(put(&fs, key, "1").await), KvCode::PathConflict, "{key}");
    }
    put(&fs, "/text", "1").await.unwrap();
    assert_eq!(texts(&history(&fs, "/text", 20).await), [Some("1".to_owned())]);
    kv(&fs).delete("/link", None).await.unwrap();
    put(&fs, "/link", "1").await.unwrap();
    assert_eq!(fs.stat(&path("/secret.json").into()).await.unwrap().kind, Kind::File);
}

async fn file_above_keys_is_a_path_conflict(fs: Fs, _: ManualClock) {
    fs.mkdir_all(&path("/agents/x")).await.unwrap();
    fs.write(&path("/agents/x/kv"), Bytes::from_static(b"in the way")).await.unwrap();
    let error = put(&fs, "/a", "1").await.unwrap_err();
    assert_eq!(error.code(), KvCode::PathConflict);
    assert_eq!(error.message(), "another file occupies the directory of this agent's keys");
    assert_eq!(get(&fs, "/a").await, None);
    assert_eq!(listed(&fs, "/").await, []);
    assert_eq!(globbed(&fs, "/*", Semantics::Whole).await, Vec::<String>::new());
    kv(&fs).delete("/a", None).await.unwrap();
}

async fn lists_and_globs_are_sorted_by_segment(fs: Fs, _: ManualClock) {
    for key in ["/user/b", "/user/a", "/user/a-b", "/user/a/c", "/users2/x", "/user", "/us_r/x", "/us%r/x"] {
        put(&fs, key, "1").await.unwrap();
    }
    let keys = |items: Vec<(String, KeyKind)>| items.into_iter().map(|item| item.0).collect::<Vec<_>>();
    assert_eq!(keys(listed(&fs, "/user").await), ["/user/a", "/user/a-b", "/user/b"]);
    assert_eq!(keys(listed(&fs, "/us_r").await), ["/us_r/x"]);
    assert_eq!(keys(listed(&fs, "/us%").await), Vec::<String>::new());
    assert_eq!(
        globbed(&fs, "/user/**", Semantics::Whole).await,
        ["/user/a", "/user/a-b", "/user/a/c", "/user/b"]
    );
    assert_eq!(globbed(&fs, "/user/*", Semantics::Segment).await, ["/user/a", "/user/a-b", "/user/b"]);
    assert_eq!(globbed(&fs, "/us_r/*", Semantics::Whole).await, ["/us_r/x"]);
    assert_eq!(globbed(&fs, "/us%r/?", Semantics::Whole).await, ["/us%r/x"]);
    assert_eq!(globbed(&fs, "/user/a", Semantics::Whole).await, ["/user/a"]);
    assert_eq!(globbed(&fs, "/USER/*", Semantics::Whole).await, Vec::<String>::new());
    for bad in ["", "a*", "*", "/a/../*", "/./*", "/\0*", &"/*".repeat(65), &format!("/{}", "*".repeat(512))]
    {
        assert_eq!(
            code(kv(&fs).glob(bad, Semantics::Whole, PageRequest::first(1)).await),
            KvCode::InvalidGlob,
            "{bad:?}"
        );
    }
}

async fn idempotent_retry_returns_the_first_write(fs: Fs, clock: ManualClock) {
    let value = RawValue::from_string("1".into()).unwrap();
    let put = Put::anew("/a/b", &value);
    let record = |hash: u8, key: &str| {
        let keep_until = START.plus_seconds(86_400);
        Some(Idempotency::new(key, [hash; 32], keep_until))
    };
    let first = kv(&fs).put(&put, record(1, "k")).await.unwrap();
    clock.advance(Duration::from_secs(5));
    assert_eq!(kv(&fs).put(&put, record(1, "k")).await.unwrap(), first);
    assert_eq!(code(kv(&fs).put(&put, record(2, "k")).await), KvCode::IdempotencyMismatch);
    assert_eq!(code(kv(&fs).delete("/a/b", record(2, "k")).await), KvCode::IdempotencyMismatch);
    let deleted = kv(&fs).delete("/a/b", record(3, "d")).await.unwrap();
    let again = kv(&fs).put(&put, None).await.unwrap();
    assert_eq!(kv(&fs).delete("/a/b", record(3, "d")).await.unwrap(), deleted);
    assert_eq!(kv(&fs).get("/a/b").await.unwrap().unwrap().version, again.version);
}

#[tokio::test]
async fn kv_search_reports_missing_support() {
    let folder = tempfile::tempdir().unwrap();
    let fs: Fs = HostFs::open(folder.path(), Mode::Writable, Env::system()).unwrap();
    let kv = kv(&fs);
    let search = async |query: &'static str, limit| {
        let search = Search { query, path_prefix: None, tags_any: vec![] };
        code(kv.search(&search, PageRequest::first(limit)).await)
    };
    assert_eq!(search("q", 10).await, KvCode::FileSystem(ErrorKind::Unsupported));
    for (query, limit) in [("", 10), ("q", 0), ("q", 51)] {
        assert_eq!(search(query, limit).await, KvCode::Validation);
    }
}
