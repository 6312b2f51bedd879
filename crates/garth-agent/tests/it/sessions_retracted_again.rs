//! Repeats of retractions: entries that were derived since stay, and their number does not raise the cost.

use std::sync::Arc;

use garth_agent::session::{Create, Sessions};
use garth_engine::model::{At, Batch, Op};
use garth_engine::view::overlay::{LowerLayer, Side, StoredOverlay};
use garth_engine::{ErrorKind, FileSystem, FileSystemExt as _, TreePath};
use garth_testkit::fs::counting::Counting;
use serde_json::json;

use super::sessions::{account, engines, path, sessions};
use super::sessions_retracted::{fact_ids, facts, say, source};

/// Events of a session that does not exist.
const NEW_EVENTS: &str = "/users/default/agents/coder/session/new/events.jsonl";

fn at(path: &str) -> TreePath {
    TreePath::parse(path).unwrap()
}

/// Returns the line of an event about the first message.
fn line(kind: &str) -> String {
    let (id, created_at) = (format!("ev-{kind}"), "2026-01-27T09:30:00Z");
    let mut event = json!({"id": id, "run": "r", "type": kind, "created_at": created_at});
    event["source"] = json!("messages:1-1");
    format!("{event}\n")
}

#[tokio::test]
async fn repeat_of_a_long_retraction_keeps_later_entries() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        say(&sessions, "default", (0..1300).map(|number| format!("Said {number}."))).await;
        sessions.create(&Create::new("other")).await.unwrap();
        let last = ("last", "default#messages:1300");
        sessions.derive("other", &facts(&[last, ("old", "default#messages:1-1300")])).await.unwrap();
        let retract = async |lines: &str| {
            sessions.retract("default", &source(lines), None).await.unwrap();
        };
        retract("messages:1-1200").await;
        assert_eq!(fact_ids(&*fs, "other").await, ["last"]);
        let of = [last, ("new", "default#messages:1-1300"), ("part", "default#messages:1200-1201")];
        sessions.derive("other", &facts(&of)).await.unwrap();
        for repeated in ["messages:1-1200", "messages:1-1200", "messages:1150-1200", "messages:7"] {
            retract(repeated).await;
            assert_eq!(fact_ids(&*fs, "other").await, ["last", "new", "part"], "{repeated}");
        }
        // Lines that were not retracted before.
        retract("messages:1202").await;
        assert_eq!(fact_ids(&*fs, "other").await, ["last", "part"]);
        retract("messages:1202").await;
        assert_eq!(fact_ids(&*fs, "other").await, ["last", "part"]);
    }
}

#[tokio::test]
async fn retraction_written_as_file_is_refused() {
    let (new, beside) = (at(NEW_EVENTS), at("/beside.jsonl"));
    for (fs, _kept) in engines().await {
        let (sessions, events) = (sessions(&*fs).await, path("events.jsonl"));
        say(&sessions, "default", ["Said.".to_owned()]).await;
        sessions.derive("default", &facts(&[("f1", "messages:1")])).await.unwrap();
        let after_another = line("tool.call") + &line("message.withdrawn");
        let unfinished = line("message.withdrawn").trim_end().to_owned();
        for lines in [line("message.withdrawn"), after_another, unfinished] {
            let write = Op::write(beside.clone(), lines.clone());
            let renamed = [write, Op::rename(beside.clone(), new.clone()).with_parents()];
            for ops in [vec![Op::append(events.clone(), lines)], renamed.to_vec()] {
                let refused = fs.commit(Batch::new(ops)).await.unwrap_err();
                assert!(refused.is(ErrorKind::RuleViolation), "{refused}");
                assert!(refused.message().contains("garth session retract"), "{refused}");
                assert!(!refused.failure().contains("`garth "), "{refused}");
            }
        }
        assert_eq!(fact_ids(&*fs, "default").await, ["f1"]);
        // A retraction by garth, earlier in the file, does not stop other events.
        sessions.retract("default", &source("messages:1"), None).await.unwrap();
        fs.commit(Batch::new([Op::append(events.clone(), line("tool.call"))])).await.unwrap();
        assert!(fact_ids(&*fs, "default").await.is_empty());
        assert!(fs.read_to_string(&events).await.unwrap().ends_with(&line("tool.call")));
    }
}

#[tokio::test]
async fn no_operation_writes_retractions_as_text() {
    let (new, new_events, text) = (at(NEW_EVENTS).parent().unwrap(), at(NEW_EVENTS), at("/t/events.jsonl"));
    let (events, retraction) = (path("events.jsonl"), line("message.withdrawn"));
    for (fs, _kept) in engines().await {
        let _sessions = sessions(&*fs).await;
        let setup = [
            Op::append(events.clone(), line("tool.call")),
            Op::link(events.clone(), at("/name.jsonl")),
            Op::write(text.clone(), retraction.clone()).with_parents(),
        ];
        fs.commit(Batch::new(setup)).await.unwrap();
        let past = fs.head().await.unwrap().seq;
        let entry = fs.stat(&At::Path(events.clone())).await.unwrap();
        let ways = [
            Op::append(At::Node(entry.ino), retraction.clone()),
            Op::append(at("/name.jsonl"), retraction.clone()),
            Op::patch(events.clone(), entry.size, retraction.clone()),
            Op::copy_range(text.clone(), 0, retraction.len() as u64, events.clone(), entry.size),
            Op::write(new_events.clone(), retraction.clone()).with_parents(),
            Op::link(text.clone(), new_events.clone()).with_parents(),
            Op::copy(text.clone(), new_events.clone()).with_parents(),
            Op::copy(text.clone(), new_events.clone()).as_of(past).with_parents(),
            Op::copy_tree(at("/t"), new.clone()),
            Op::rename(at("/t"), new.clone()),
        ];
        for op in ways {
            let asked = format!("{op:?}");
            let refused = fs.commit(Batch::new([op])).await.expect_err(&asked);
            assert!(refused.is(ErrorKind::RuleViolation), "{asked}: {refused}");
            assert!(refused.message().contains("garth session retract"), "{asked}: {refused}");
        }
        assert_eq!(fs.head().await.unwrap().seq, past);
    }
}

#[tokio::test]
async fn only_garth_applies_retractions_of_an_overlay() {
    let (account, _folder) = account().await;
    let lower = LowerLayer { root: TreePath::root(), as_of: None };
    StoredOverlay::create(&*account, "o", &lower, &Batch::default()).await.unwrap();
    let stored = StoredOverlay::open(&*account, "o").await.unwrap();
    let write = Op::write(at(NEW_EVENTS), line("message.withdrawn")).with_parents();
    stored.tree().commit(Batch::new([write])).await.unwrap();
    let refused = stored.apply(Side::Ours, &Batch::default()).await.unwrap_err();
    assert!(refused.is(ErrorKind::RuleViolation), "{refused}");
    let applied = stored.apply(Side::Ours, &Batch::default().by_garth()).await.unwrap();
    assert!(applied.commit.is_some());
}

#[tokio::test]
async fn repeat_reads_the_past_once_for_all_entries() {
    let (account, _folder) = account().await;
    let fs: Arc<dyn FileSystem> = account.clone();
    let counting = Counting::new(fs);
    let sessions = Sessions::new(&counting, "default", "coder").unwrap();
    let reads = async |name: &str, count: usize| {
        let (other, lines) = (format!("{name}-other"), format!("{name}#messages:1-3"));
        for name in [name, &other] {
            sessions.create(&Create::new(name)).await.unwrap();
        }
        say(&sessions, name, (0..4).map(|number| format!("Said {number}."))).await;
        sessions.retract(name, &source("messages:2"), None).await.unwrap();
        let ids: Vec<String> = (0..count).map(|number| format!("f{number}")).collect();
        let of: Vec<(&str, &str)> = ids.iter().map(|id| (&**id, &*lines)).collect();
        sessions.derive(&other, &facts(&of)).await.unwrap();
        counting.reads_since();
        sessions.retract(name, &source("messages:2"), None).await.unwrap();
        let reads = counting.reads_since();
        assert_eq!(fact_ids(&counting, &other).await, ids);
        reads
    };
    assert_eq!(reads("few", 2).await, reads("many", 200).await);
}
