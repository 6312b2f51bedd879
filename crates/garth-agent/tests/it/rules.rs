//! Rules below `agents/*/kv/`: every way to write is tried with content that is not allowed.

use std::sync::Arc;

use garth_agent::kv::{Kv, MAX_VALUE};
use garth_engine::engine::memory::MemoryFs;
use garth_engine::model::{At, Batch, Op, SetAttrs};
use garth_engine::view::Scope;
use garth_engine::{Env, Error, ErrorKind, FileSystem, FileSystemExt, TreePath};

use super::homes::{Kept, account};

fn at(path: &str) -> At {
    TreePath::parse(path).unwrap().into()
}

async fn given(fs: &dyn FileSystem, ops: impl IntoIterator<Item = Op>) {
    fs.commit(Batch::new(ops)).await.unwrap();
}

/// Returns the error of a batch, which must have changed nothing.
async fn refusal(fs: &dyn FileSystem, ops: Vec<Op>) -> Error {
    let before = fs.head().await.unwrap().seq;
    let asked = format!("{ops:?}");
    let error = fs.commit(Batch::new(ops)).await.expect_err(&asked);
    assert_eq!(error.kind(), ErrorKind::RuleViolation, "{asked}: {error}");
    assert_eq!(fs.head().await.unwrap().seq, before, "{asked}");
    error
}

/// Returns both engines, each empty.
async fn engines() -> Vec<(Arc<dyn FileSystem>, Option<Kept>)> {
    let (account, kept) = account().await;
    vec![(Arc::new(MemoryFs::new(Env::system(), garth_agent::registry())), None), (account, Some(kept))]
}

const VALUE: &str = "/agents/a/kv/x.json";

/// Creates a value, its directory, and files elsewhere: `/text` and `/t/kv/deep/text` are not JSON.
async fn filled(fs: &dyn FileSystem) {
    given(
        fs,
        [
            Op::write(at(VALUE), "{\"a\": 1}").with_parents(),
            Op::write(at("/text"), "not json"),
            Op::write(at("/t/kv/deep/text"), "not json").with_parents(),
            Op::write(at("/t/kv/good.json"), "1"),
            Op::mkdir(at("/agents/b")),
        ],
    )
    .await;
}

#[tokio::test]
async fn kv_rejects_invalid_json_everywhere() {
    for (fs, _folder) in engines().await {
        let fs = &*fs;
        filled(fs).await;
        let past = fs.head().await.unwrap().seq;
        let long = format!("\"{}\"", "x".repeat(MAX_VALUE - 1));
        let ways = [
            (Op::write(at(VALUE), "{"), VALUE),
            (Op::write(at(VALUE), long), VALUE),
            (Op::write(at("/agents/a/kv/new/y"), "").with_parents(), "/agents/a/kv/new/y"),
            (Op::append(at(VALUE), "x"), VALUE),
            (Op::patch(at(VALUE), 0, "["), VALUE),
            (Op::truncate(at(VALUE), 3), VALUE),
            (Op::truncate(at(VALUE), 9), VALUE),
            (Op::punch(at(VALUE), 0, 1), VALUE),
            (Op::copy_range(at("/text"), 0, 3, at(VALUE), 1), VALUE),
            (Op::copy(at("/text"), at(VALUE)).replace(), VALUE),
            (Op::copy(at("/text"), at("/agents/a/kv/y")), "/agents/a/kv/y"),
            (Op::copy(at("/text"), at("/agents/a/kv/y")).as_of(past), "/agents/a/kv/y"),
            (Op::copy_tree(at("/t"), at("/agents/c")), "/agents/c/kv/deep/text"),
            (Op::link(at("/text"), at("/agents/a/kv/y")), "/agents/a/kv/y"),
            (Op::rename(at("/text"), at(VALUE)), VALUE),
            (Op::exchange(at("/text"), at(VALUE)), VALUE),
            (Op::rename(at("/t"), at("/agents/b")), "/agents/b/kv/deep/text"),
            (Op::exchange(at("/t"), at("/agents/b")), "/agents/b/kv/deep/text"),
            (Op::rename(at("/t/kv"), at("/agents/b/kv")), "/agents/b/kv/deep/text"),
            (Op::rename(at("/t/kv/deep"), at("/agents/a/kv/deep")), "/agents/a/kv/deep/text"),
        ];
        for (op, path) in ways {
            let asked = format!("{op:?}");
            let error = refusal(fs, vec![op]).await;
            assert_eq!(error.path().map(TreePath::as_str), Some(path), "{asked}");
        }
        // An inode leads there as a path does.
        let ino = fs.stat(&at(VALUE)).await.unwrap().ino;
        refusal(fs, vec![Op::append(At::Node(ino), "x")]).await;
        // So does another name, which moves with its directory.
        given(fs, [Op::link(at(VALUE), at("/around/name")).with_parents()]).await;
        refusal(fs, vec![Op::write(at("/around/name"), "{"), Op::remove_tree(at("/around"))]).await;
        assert_eq!(fs.read_to_string(VALUE).await.unwrap(), "{\"a\": 1}");
    }
}

#[tokio::test]
async fn rules_judge_the_final_state() {
    for (fs, _folder) in engines().await {
        let fs = &*fs;
        filled(fs).await;
        // Invalid in between, valid at the end.
        given(fs, [Op::truncate(at(VALUE), 0), Op::append(at(VALUE), "[1"), Op::append(at(VALUE), "]")])
            .await;
        given(fs, [Op::rename(at("/text"), at("/agents/a/kv/t")), Op::remove(at("/agents/a/kv/t"))]).await;
        given(fs, [Op::rename(at("/t"), at("/agents/c")), Op::remove_tree(at("/agents/c/kv/deep"))]).await;
        assert_eq!(fs.read_to_string("/agents/c/kv/good.json").await.unwrap(), "1");
        // Between directories, out of sight, and in a batch with several violations the smallest path.
        given(fs, [Op::write(at("/s/in/kv/bad"), "no").with_parents(), Op::write(at("/s/in/kv/a"), "no")])
            .await;
        let moves = [("/s/in", "/agents/x"), ("/agents/x/kv", "/agents/b/kv"), ("/agents/b", "/agents/y")];
        let moves = moves.map(|(from, to)| Op::rename(at(from), at(to)));
        let error = refusal(fs, moves.to_vec()).await;
        assert_eq!(error.path().unwrap().as_str(), "/agents/y/kv/a");
        let away = [("/s/in", "/agents/x"), ("/agents/x", "/elsewhere")];
        given(fs, away.map(|(from, to)| Op::rename(at(from), at(to)))).await;
    }
}

#[tokio::test]
async fn kv_accepts_valid_json_everywhere() {
    for (fs, _folder) in engines().await {
        let fs = &*fs;
        filled(fs).await;
        given(fs, [Op::copy_tree(at("/agents/a"), at("/agents/c"))]).await;
        given(fs, [Op::rename(at("/agents/a"), at("/agents/d"))]).await;
        given(fs, [Op::rename(at("/agents/c/kv"), at("/agents/d/kv/more"))]).await;
        given(fs, [Op::link(at("/agents/d/kv/x.json"), at("/agents/d/kv/y"))]).await;
        given(fs, [Op::mkdir(at("/agents/d/kv/dir"))]).await;
        given(fs, [Op::set_attrs(at("/agents/d/kv/y"), SetAttrs::new().tags(["t"]))]).await;
        let exact = format!("\"{}\"", "x".repeat(MAX_VALUE - 2));
        given(fs, [Op::write(at("/agents/d/kv/long"), exact)]).await;
        // Paths next to the pattern.
        for path in ["/agents/kv/x", "/agents/d/kvx/y", "/agents/d/e/kv/x", "/agents/d/kv-x"] {
            given(fs, [Op::write(at(path), "no json").with_parents()]).await;
        }
    }
}

#[tokio::test]
async fn rejects_links_to_unchecked_content() {
    const EVENTS: &str = "/users/u/agents/a/session/s/events.jsonl";
    for (fs, _folder) in engines().await {
        let fs = &*fs;
        filled(fs).await;
        let session = TreePath::parse(EVENTS).unwrap().parent().unwrap();
        given(fs, [Op::mkdir_all(session), Op::mkdir(at("/agents/b/kv"))]).await;
        given(fs, [Op::symlink(at("/link"), "/text"), Op::mkdir(at("/dir/kv")).with_parents()]).await;
        given(fs, [Op::symlink(at("/dir/kv/deep"), "/text")]).await;
        let guarded =
            [VALUE, "/agents/a/kv/new", "/agents/a/kv/dir/new", "/agents/a/fragments.jsonl", EVENTS];
        for path in guarded {
            let there = if path == VALUE { vec![Op::remove(at(path))] } else { Vec::new() };
            let ways = [
                Op::symlink(at(path), "/text").with_parents(),
                Op::rename(at("/link"), at(path)),
                Op::copy(at("/link"), at(path)),
                Op::link(at("/link"), at(path)),
            ];
            for way in ways {
                let parent = TreePath::parse(path).unwrap().parent().unwrap();
                let ops = there.iter().cloned().chain([Op::mkdir_all(parent), way]).collect();
                let error = refusal(fs, ops).await;
                assert!(error.message().contains("symbolic link"), "{path}: {error}");
            }
        }
        for way in [
            Op::rename(at("/dir/kv"), at("/agents/b/kv/more")),
            Op::copy_tree(at("/dir"), at("/agents/c")),
            Op::rename(at("/dir"), at("/agents/c")),
        ] {
            refusal(fs, vec![way]).await;
        }
        given(fs, [Op::symlink(at("/agents/a/link"), "/text")]).await;
    }
}

#[tokio::test]
async fn key_values_are_not_read_through_links() {
    for (fs, _folder) in engines().await {
        let fs = &*fs;
        filled(fs).await;
        given(fs, [Op::mkdir(at("/stuff")), Op::write(at("/stuff/x.json"), "2")]).await;
        // A link above the paths of a rule is allowed, and commands follow it.
        given(fs, [Op::symlink(at("/agents/b/kv"), "/stuff")]).await;
        for (agent, readable) in [("a", true), ("b", false)] {
            let value = Kv::new(fs, agent).unwrap().get("/x").await.unwrap();
            assert_eq!(value.is_some(), readable, "{agent}");
        }
    }
}

#[tokio::test]
async fn other_names_cannot_evade_rules() {
    for (fs, _folder) in engines().await {
        filled(&*fs).await;
        given(&*fs, [Op::link(at(VALUE), at("/mine")), Op::mkdir(at("/home"))]).await;
        let error = refusal(&*fs, vec![Op::append(at("/mine"), "x")]).await;
        assert_eq!(error.path().unwrap().as_str(), VALUE);
        // A caller who does not reach that name is rejected as well, and learns nothing about it.
        given(&*fs, [Op::link(at(VALUE), at("/home/mine"))]).await;
        let scope = Scope::open(&*fs, &TreePath::parse("/home").unwrap()).await.unwrap();
        let error = refusal(&*scope, vec![Op::append(at("/mine"), "x")]).await;
        assert_eq!(error.path(), None);
        assert!(!error.to_string().contains("agents"), "{error}");
        // Paths are those of the account, not of the view.
        given(&*scope, [Op::write(at(VALUE), "no json").with_parents()]).await;
        let agent = Scope::open(&*fs, &TreePath::parse("/agents/a").unwrap()).await.unwrap();
        let error = refusal(&*agent, vec![Op::write(at("/kv/x.json"), "no json")]).await;
        assert_eq!(error.path().unwrap().as_str(), "/kv/x.json");
    }
}

#[tokio::test]
async fn only_administrators_override_rules() {
    let text = r#"{"ops": [], "overrides_rules": true}"#;
    assert!(serde_json::from_str::<Batch>(text).is_err());
    for (fs, _folder) in engines().await {
        filled(&*fs).await;
        let batch = Batch::new([Op::write(at(VALUE), "no json")]);
        assert!(!serde_json::to_string(&batch.clone().overriding_rules()).unwrap().contains("overrid"));
        fs.commit(batch.overriding_rules()).await.unwrap();
        // It stays if only its directory changes, and is rejected if it changes itself.
        given(&*fs, [Op::rename(at("/agents/a"), at("/agents/c"))]).await;
        refusal(&*fs, vec![Op::append(at("/agents/c/kv/x.json"), "x")]).await;
        given(&*fs, [Op::rename(at("/agents/c/kv/x.json"), at("/away"))]).await;
        let again = Batch::new([Op::copy(at("/away"), at(VALUE)).with_parents()]).overriding_rules();
        fs.commit(again).await.unwrap();
        given(&*fs, [Op::remove(at(VALUE))]).await;
    }
}
