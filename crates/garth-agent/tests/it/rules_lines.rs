//! JSON, JSON Lines and schemas as rules: a file is judged as it would be after the commit, by any operation.

use std::sync::Arc;

use futures::future::join_all;
use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::model::{Batch, Moment, Op, Seq};
use garth_engine::{AccountStore, Env, ErrorKind, FileSystem, FileSystemExt, TreePath};

use super::rules_set::{Tree, at, rule};

const FRAGMENTS: &str = "/agents/a/fragments.jsonl";
const GOOD: &str = r#"{"id": "1", "type": "persona", "text": "You are kind."}"#;
const BAD: &str = r#"{"id": "2", "type": "wish", "text": "x"}"#;

#[tokio::test]
async fn rejects_invalid_fragments_with_line() {
    for tree in Tree::all().await {
        let bad_second = format!("{GOOD}\n{BAD}\n");
        tree.given([
            Op::write(at(FRAGMENTS), format!("{GOOD}\n")).with_parents(),
            Op::write(at("/bad"), bad_second.clone()),
            Op::write(at("/t/fragments.jsonl"), bad_second.clone()).with_parents(),
            Op::mkdir(at("/agents/b")),
        ])
        .await;
        let (end, first) = (GOOD.len() as u64 + 1, FRAGMENTS);
        let ways = [
            (Op::write(at(FRAGMENTS), bad_second.clone()), first),
            (Op::append(at(FRAGMENTS), format!("{BAD}\n")), first),
            (Op::append(at(FRAGMENTS), BAD), first),
            (Op::append(at(FRAGMENTS), "{"), first),
            (Op::append(at(FRAGMENTS), format!("{GOOD}\n")), first),
            (Op::patch(at(FRAGMENTS), end, BAD), first),
            (Op::truncate(at(FRAGMENTS), end + 1), first),
            (Op::copy_range(at("/bad"), end, 100, at(FRAGMENTS), end), first),
            (Op::copy(at("/bad"), at(FRAGMENTS)).replace(), first),
            (Op::copy(at("/bad"), at("/agents/b/fragments.jsonl")), "/agents/b/fragments.jsonl"),
            (Op::copy_tree(at("/t"), at("/agents/c")), "/agents/c/fragments.jsonl"),
            (Op::link(at("/bad"), at("/agents/b/fragments.jsonl")), "/agents/b/fragments.jsonl"),
            (Op::rename(at("/bad"), at(FRAGMENTS)), first),
            (Op::exchange(at("/bad"), at(FRAGMENTS)), first),
            (Op::rename(at("/t"), at("/agents/b")), "/agents/b/fragments.jsonl"),
        ];
        for (op, path) in ways {
            let asked = format!("{op:?}");
            let error = tree.refusal(vec![op]).await;
            assert_eq!(error.path().map(TreePath::as_str), Some(path), "{asked}");
            assert!(error.message().contains("line 2: "), "{asked}: {error}");
        }
        for (op, line) in
            [(Op::punch(at(FRAGMENTS), 0, 3), "line 1: "), (Op::patch(at(FRAGMENTS), 1, "x"), "line 1: ")]
        {
            let error = tree.refusal(vec![op]).await;
            assert!(error.message().contains(line), "{error}");
        }
        assert_eq!(tree.fs().read_to_string(FRAGMENTS).await.unwrap(), format!("{GOOD}\n"));
        tree.given([Op::append(at(FRAGMENTS), "\n\n{\"id\": \"2\", \"type\": \"term\", \"text\": \"\"}")])
            .await;
        let large = format!("{{\"id\": \"3\", \"type\": \"term\", \"text\": \"{}\"}}\n", "é".repeat(4096));
        tree.given([Op::append(at(FRAGMENTS), format!("\n{large}"))]).await;
        let long = large.replace("\"3\"", "\"4\"").replace("é\"", "éx\"");
        let error = tree.refusal(vec![Op::append(at(FRAGMENTS), long)]).await;
        assert!(error.message().contains("line 6: /text"), "{error}");
        let whole: String = (0..200).map(|n| large.replace("\"3\"", &format!("\"n{n}\""))).collect();
        let error = tree.refusal(vec![Op::write(at(FRAGMENTS), whole)]).await;
        assert!(error.message().contains("at most 1048576 bytes"), "{error}");
    }
}

#[tokio::test]
async fn append_is_judged_with_continued_line() {
    for tree in Tree::all().await {
        tree.set(rule("/**/*.jsonl", "json-lines", r#"{"schema": {"type": "object"}}"#)).await;
        let log = "/d/log.jsonl";
        tree.given([Op::write(at(log), "{}\n{\"a\":").with_parents(), Op::append(at(log), "1}")]).await;
        for (bad, line) in [("2", 2), ("{}", 2), (" \n3", 3), ("\n{}\n\n[]", 5)] {
            let error = tree.refusal(vec![Op::append(at(log), bad)]).await;
            assert!(error.message().contains(&format!("line {line}: ")), "{bad}: {error}");
        }
        tree.given([Op::append(at(log), "  \n\n{\"b\": 2}")]).await;
        // Text from before the rule is checked as well.
        let error = tree.refusal(vec![Op::patch(at(log), 0, "x")]).await;
        assert!(error.message().contains("line 1: "), "{error}");
        let bad = Batch::new([Op::patch(at(log), 0, "[]")]).overriding_rules();
        tree.fs().commit(bad).await.unwrap();
        let error = tree.refusal(vec![Op::append(at(log), "\n{}")]).await;
        assert!(error.message().contains("line 1: "), "{error}");
        tree.given([Op::patch(at(log), 0, "{}"), Op::append(at(log), "\n{}")]).await;
    }
}

#[tokio::test]
async fn files_are_judged_by_their_schema() {
    for tree in Tree::all().await {
        let schema = r#"{"schema": {"type": "object", "required": ["name"], "additionalProperties": false,
            "properties": {"name": {"type": "string", "pattern": "^[a-z]+$"}}}}"#;
        tree.set(rule("/people/*.json", "json", schema)).await;
        tree.given([Op::write(at("/people/a.json"), "{\"name\": \"ann\"}").with_parents()]).await;
        for (bad, why) in [
            ("{\"name\": \"Ann\"}", "/name"),
            ("{}", "name"),
            ("{\"name\": \"ann\", \"name\": \"bob\"}", "name"),
            ("{\"name\": \"ann\", \"age\": 1}", "age"),
            ("{\"name\": \"ann\"", "EOF"),
        ] {
            let error = tree.refusal(vec![Op::write(at("/people/a.json"), bad)]).await;
            assert!(error.message().contains(why), "{bad}: {error}");
        }
    }
}

#[tokio::test]
async fn file_schema_rules_bound_file_size() {
    let [tree, _] = Tree::all().await;
    tree.set(rule("/x", "json", "{}")).await;
    let half = "1".repeat(8 << 20);
    tree.given([Op::write(at("/x"), half.clone())]).await;
    let error = tree.refusal(vec![Op::append(at("/x"), half + "1")]).await;
    assert!(error.message().contains("16777216"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_partial_appends_stay_parsable() {
    let folder = tempfile::tempdir().unwrap();
    let fs = SqliteFs::open(folder.path(), Env::system(), garth_agent::registry()).unwrap();
    fs.commit(Op::write(at("/log.jsonl"), "").into()).await.unwrap();
    assert!(fs.set_rule(rule("/log.jsonl", "json-lines", "{}"), false).await.unwrap().set);
    let writer = |writer: usize| {
        let fs = Arc::clone(&fs);
        tokio::spawn(async move {
            let (mut taken, mut refused) = (0, 0);
            for n in 0..10 {
                let line = format!("{{\"writer\": {writer}, \"n\": {n}}}\n");
                let (half, rest) = line.split_at(line.len() / 2);
                for piece in [half, rest, line.trim_end(), "\n", &line] {
                    match fs.commit(Op::append(at("/log.jsonl"), piece.to_owned()).into()).await {
                        Ok(_) => taken += 1,
                        Err(error) if error.is(ErrorKind::RuleViolation) => refused += 1,
                        Err(error) => panic!("{error}"),
                    }
                }
            }
            (taken, refused)
        })
    };
    let counts: Vec<(u64, u64)> =
        join_all((0..64).map(writer)).await.into_iter().map(Result::unwrap).collect();
    let (taken, refused) = counts.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    assert!(taken >= 640 && refused >= 64 * 20, "{taken} taken, {refused} refused");
    let head = fs.head().await.unwrap().seq.0;
    assert_eq!(head, taken + 1);
    for seq in 2..=head {
        let then = fs.as_of(&Moment::Seq(Seq(seq))).await.unwrap();
        let text = then.read_to_string("/log.jsonl").await.unwrap();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            serde_json::from_str::<serde_json::Value>(line).unwrap();
        }
    }
}

#[tokio::test]
async fn rule_set_lists_violations_without_force() {
    let folder = tempfile::tempdir().unwrap();
    let fs = SqliteFs::open(folder.path(), Env::system(), garth_agent::registry()).unwrap();
    let ops = ["/a/1.json", "/a/b/2.json", "/c/3.json", "/a/good.json", "/a/text"];
    let text = |path: &str| if path.contains("good") { "1" } else { "no json" };
    fs.commit(Batch::new(ops.map(|path| Op::write(at(path), text(path)).with_parents()))).await.unwrap();
    let new = rule("/a/**/*.json", "json", "{}");
    let refused = fs.set_rule(new.clone(), false).await.unwrap();
    let paths: Vec<_> = refused.violations.iter().map(|violation| violation.path.as_str()).collect();
    assert!(!refused.set && !refused.more);
    assert_eq!(paths, ["/a/1.json", "/a/b/2.json"]);
    assert!(fs.rules().await.unwrap().iter().all(|rule| rule.is_built_in()));
    assert!(fs.set_rule(new.clone(), true).await.unwrap().set);
    // Another process or handle follows it from its next commit on.
    let other = SqliteFs::open(folder.path(), Env::system(), garth_agent::registry()).unwrap();
    let error = other.commit(Op::append(at("/a/1.json"), "x").into()).await.unwrap_err();
    assert!(error.is(ErrorKind::RuleViolation), "{error}");
    assert!(other.remove_rule(new.pattern(), "json").await.unwrap());
    fs.commit(Op::append(at("/a/1.json"), "x").into()).await.unwrap();
    assert!(!fs.remove_rule(new.pattern(), "json").await.unwrap());
}

#[tokio::test]
async fn a_file_of_many_names_is_read_once() {
    let [tree, sqlite] = Tree::all().await;
    for tree in [tree, sqlite] {
        let value = format!("\"{}\"", "x".repeat((1 << 20) - 2));
        tree.given([Op::write(at("/agents/a/kv/0"), "1").with_parents()]).await;
        let links = (1..300).map(|n| Op::link(at("/agents/a/kv/0"), at(&format!("/agents/a/kv/{n}"))));
        tree.given(links).await;
        tree.given([Op::write(at("/agents/a/kv/7"), value)]).await;
        let error = tree.refusal(vec![Op::append(at("/agents/a/kv/7"), "x")]).await;
        assert_eq!(error.path().map(TreePath::as_str), Some("/agents/a/kv/0"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn change_rules_can_be_set_during_writes() {
    let folder = tempfile::tempdir().unwrap();
    let fs = SqliteFs::open(folder.path(), Env::system(), garth_agent::registry()).unwrap();
    let made = (0..2000).map(|n| Op::write(at(&format!("/logs/{n}.log")), "1\n").with_parents());
    fs.commit(Batch::new(made)).await.unwrap();
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let writer = tokio::spawn({
        let (fs, stop) = (Arc::clone(&fs), Arc::clone(&stop));
        async move {
            let mut written = 0_u64;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                fs.commit(Op::append(at("/logs/7.log"), "2\n").into()).await.unwrap();
                written += 1;
            }
            written
        }
    });
    for constraint in ["append-only", "json-lines"] {
        let set = fs.set_rule(rule("/logs/**", constraint, "{}"), false).await.unwrap();
        assert!(set.set, "{constraint}: {set:?}");
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(writer.await.unwrap() > 0);
    // A write in between is checked: it would violate the rule.
    let error = fs.commit(Op::append(at("/logs/7.log"), "no").into()).await.unwrap_err();
    assert!(error.is(ErrorKind::RuleViolation), "{error}");
}
