//! What is made of a session beside its messages: swap, dedup, children, and what is collected of them.

use garth::agent::session::{
    Append, Change, ChildChange, ChildStatus, Collection, Create, Derive, Draft, PackOptions, Sessions,
    Spawn, State,
};
use garth::model::{Author, Batch, LogPosition, Op};
use garth::{ErrorKind, FileSystem, FileSystemExt, TreePath};
use serde_json::{Value, json};

use super::packs::{budget, call, check, result};
use super::sessions::{account, engines, path, sessions};

const POLICY: &str = "context/gc.policy";

async fn say(sessions: &Sessions<'_>, messages: impl IntoIterator<Item = Draft>) {
    sessions.append("default", &Append::messages(messages)).await.unwrap();
}

async fn text(fs: &dyn FileSystem, name: &str) -> String {
    fs.read_to_string(&path(name)).await.unwrap()
}

async fn policy(fs: &dyn FileSystem, text: &str) {
    fs.write(&path(POLICY), text.to_owned()).await.unwrap();
}

fn removed(collection: &Collection) -> Vec<&str> {
    collection.removed.iter().map(|removed| &*removed.name).collect()
}

#[tokio::test]
async fn what_is_swapped_out_is_found_by_its_hash_and_comes_back() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        say(
            &sessions,
            [
                Draft::user("one"),
                call("a", "bash", &json!({})),
                result("a", "long output"),
                Draft::user("two"),
            ],
        )
        .await;
        let range =
            sessions.swap_out("default", &"messages:1-1".parse().unwrap(), "the beginning").await.unwrap();
        assert_eq!((range.kind.as_str(), range.range.as_deref()), ("message_range", Some("1-1")));
        let output = sessions.swap_out("default", &"tool:a".parse().unwrap(), "a log").await.unwrap();
        assert_eq!(output.kind, "tool_output");
        let chunk: Value =
            serde_json::from_str(&text(&*fs, &format!("context/swap/chunk/{}", range.id)).await).unwrap();
        assert_eq!(chunk["source"], "messages.jsonl");
        assert!(chunk["start_event"].as_str().unwrap().starts_with("msg-"));
        assert_eq!(chunk["hash"].as_str().unwrap().replace(':', "-"), range.id);
        let line: Value =
            serde_json::from_str(text(&*fs, "context/swap/index.jsonl").await.lines().next().unwrap())
                .unwrap();
        assert_eq!(
            (&line["id"], &line["source"], &line["range"]),
            (&json!(range.id), &json!("messages.jsonl"), &json!("1-1"))
        );
        let packed = sessions.pack("default", &PackOptions::default()).await.unwrap();
        check(&packed);
        assert!(!packed.markdown.contains("long output") && packed.markdown.contains("a log"));
        fs.write(&path("notes.md"), "of a file").await.unwrap();
        let file = sessions.swap_out("default", &"notes.md".parse().unwrap(), "notes").await.unwrap();
        fs.write(&path("notes.md"), "changed").await.unwrap();
        assert_eq!(sessions.swap_content("default", &file.id).await.unwrap(), b"of a file");
        let back = sessions.swap_in("default", &output.id).await.unwrap();
        assert!(String::from_utf8(back).unwrap().contains("long output"));
        assert!(
            sessions.pack("default", &PackOptions::default()).await.unwrap().markdown.contains("long output")
        );
        fs.write(&path(&format!("context/swap/chunk/{}", file.id)), "forged").await.unwrap();
        assert!(sessions.swap_in("default", &file.id).await.unwrap_err().is(ErrorKind::Corrupt));
    }
}

#[tokio::test]
async fn what_comes_again_is_one_entry_with_all_that_refer_to_it() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        say(
            &sessions,
            [
                call("a", "x", &json!({})),
                result("a", "same"),
                call("b", "x", &json!({})),
                result("b", "same"),
            ],
        )
        .await;
        fs.write(&path("notes.md"), "same").await.unwrap();
        let sources = ["tool:a", "tool:b", "notes.md"].map(|source| source.parse().unwrap());
        let found = sessions.dedup("default", &sources).await.unwrap();
        assert_eq!(found[2].refs, ["tool:a", "tool:b", "notes.md"]);
        assert_eq!(text(&*fs, "context/dedup/index.jsonl").await.lines().count(), 1);
        assert_eq!(text(&*fs, &format!("context/dedup/blob/{}", found[2].hash)).await, "same");
        policy(&*fs, "dedup_min_refs=4").await;
        let gone = sessions.collect("default", false).await.unwrap();
        assert_eq!(removed(&gone), [format!("context/dedup/blob/{}", found[0].hash)]);
        let index: Value = serde_json::from_str(&text(&*fs, "context/dedup/index.jsonl").await).unwrap();
        assert_eq!(index["refs"], json!(["tool:a", "tool:b"]), "references to raw history stay");
    }
}

#[tokio::test]
async fn a_child_gets_a_handoff_and_its_result_comes_to_the_parent_by_reference() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        say(&sessions, [Draft::user("Review it.")]).await;
        let child = sessions.spawn("default", &Spawn::new("rev-1", "Read the parser.")).await.unwrap();
        assert_eq!(
            (child.agent.as_str(), child.session.as_str(), child.status),
            ("coder", "rev-1", ChildStatus::Pending)
        );
        assert_eq!(text(&*fs, "context/child/rev-1/handoff.md").await, "Read the parser.");
        let again = sessions.spawn("default", &Spawn::new("rev-1", "")).await.unwrap_err();
        assert!(again.is(ErrorKind::AlreadyExists), "{again:?}");
        sessions
            .append("rev-1", &Append::messages([Draft::assistant("SECRET THOUGHTS OF THE CHILD")]))
            .await
            .unwrap();
        sessions.set_child("default", "rev-1", &ChildChange::status(ChildStatus::Active)).await.unwrap();
        fs.write(&path("patch.diff"), "+ fixed").await.unwrap();
        let mut done = ChildChange::done("The parser is fine.\nDetails.\n");
        done.artifacts = vec![("patch.diff".to_owned(), path("patch.diff"))];
        done.refs =
            Some(r#"{"id":"r1","path":"/src/parse.rs","kind":"file","summary":"the parser"}"#.to_owned());
        sessions.set_child("default", "rev-1", &done).await.unwrap();
        assert_eq!(text(&*fs, "context/child/rev-1/status").await, "done\n");
        assert_eq!(text(&*fs, "context/child/rev-1/artifact/patch.diff").await, "+ fixed");
        assert_eq!(sessions.get("rev-1").await.unwrap().state, State::Done);
        let refs = text(&*fs, "context/refs.jsonl").await;
        for part in [
            "context/child/rev-1/result.md",
            "artifact/patch.diff",
            "context/child/rev-1/refs.jsonl",
            "The parser is fine.",
        ] {
            assert!(refs.contains(part), "{refs}");
        }
        for next in [ChildStatus::Active, ChildStatus::Error] {
            let error = sessions.set_child("default", "rev-1", &ChildChange::status(next)).await.unwrap_err();
            assert!(error.is(ErrorKind::Conflict), "{error:?}");
        }
        let packed = sessions.pack("default", &budget(2000)).await.unwrap();
        check(&packed);
        assert!(
            packed
                .markdown
                .contains("<!-- child_result context/child/rev-1/result.md -->\nThe parser is fine.")
        );
        assert!(
            !packed.markdown.contains("SECRET THOUGHTS"),
            "a child's messages never enter its parent's pack"
        );
        let events = text(&*fs, "events.jsonl").await;
        assert!(events.contains("child.spawned") && events.contains("child.ended"));
    }
}

#[tokio::test]
async fn the_end_of_a_parent_cancels_its_children_and_theirs_and_deletes_nothing() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        sessions.spawn("default", &Spawn::new("a", "do")).await.unwrap();
        sessions.spawn("a", &Spawn::new("b", "do")).await.unwrap();
        // one that names its own ancestor as its child
        let mut up = Spawn::new("up", "do");
        up.session = Some("default".to_owned());
        sessions.spawn("b", &up).await.unwrap();
        sessions.spawn("default", &Spawn::new("c", "do")).await.unwrap();
        sessions.set_child("default", "c", &ChildChange::done("ok")).await.unwrap();
        sessions.set("default", &Change::state(State::Done)).await.unwrap();
        for (session, state) in
            [("default", State::Done), ("a", State::Cancelled), ("b", State::Cancelled), ("c", State::Done)]
        {
            assert_eq!(sessions.get(session).await.unwrap().state, state, "{session}");
        }
        let status: Vec<_> =
            sessions.children("default").await.unwrap().into_iter().map(|child| child.status).collect();
        assert_eq!(status, [ChildStatus::Cancelled, ChildStatus::Done]);
        assert_eq!(text(&*fs, "context/child/a/handoff.md").await, "do");
        let late = sessions.spawn("default", &Spawn::new("d", "do")).await.unwrap_err();
        assert!(late.is(ErrorKind::Conflict), "{late:?}");
    }
}

#[tokio::test]
async fn a_dry_run_changes_nothing_and_a_run_removes_what_it_told() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        say(
            &sessions,
            [Draft::user("Go."), call("a", "bash", &json!({})), result("a", &"x y ".repeat(4000))],
        )
        .await;
        sessions.pack("default", &budget(1000)).await.unwrap();
        policy(&*fs, "pack_ttl=0s\nswap_ttl=0s\n").await;
        let head = fs.head().await.unwrap().seq;
        let due = sessions.collect("default", true).await.unwrap();
        assert_eq!(fs.head().await.unwrap().seq, head);
        assert_eq!(removed(&due)[..2], ["context/pack.json", "context/pack.md"]);
        assert_eq!(due.removed.len(), 3, "the chunk of what the pack had cut goes with it: {due:?}");
        let done = sessions.collect("default", false).await.unwrap();
        assert_eq!(removed(&done), removed(&due));
        assert_eq!(text(&*fs, "context/swap/index.jsonl").await, "");
        assert!(text(&*fs, "events.jsonl").await.contains("context.collected"));
        assert!(sessions.collect("default", false).await.unwrap().removed.is_empty());
        check(&sessions.pack("default", &budget(1000)).await.unwrap());
    }
}

#[tokio::test]
async fn gc_must_not_delete_a_child_result_or_what_derived_files_refer_to() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        say(&sessions, [Draft::user("one"), Draft::user("two"), Draft::user("three")]).await;
        sessions.spawn("default", &Spawn::new("rev-1", "do")).await.unwrap();
        sessions.set_child("default", "rev-1", &ChildChange::done("ok")).await.unwrap();
        let mut ids = Vec::new();
        for source in ["messages:1", "messages:2"] {
            ids.push(sessions.swap_out("default", &source.parse().unwrap(), "s").await.unwrap().id);
        }
        let mut derive = Derive::default();
        derive.facts =
            Some(json!({"id": "f1", "text": "a", "source": format!("swap:{}", ids[0])}).to_string());
        sessions.derive("default", &derive).await.unwrap();
        for id in &ids {
            sessions.swap_in("default", id).await.unwrap();
        }
        policy(&*fs, "pack_ttl=0s\nswap_ttl=0s\n").await;
        let gone = sessions.collect("default", false).await.unwrap();
        assert_eq!(removed(&gone), [format!("context/swap/chunk/{}", ids[1])]);
        assert_eq!(text(&*fs, "context/child/rev-1/result.md").await, "ok");
        assert_eq!(sessions.why("default", "f1").await.unwrap().sources.len(), 1);
    }
}

#[tokio::test]
async fn a_policy_that_lets_go_of_messages_takes_the_right_to_override_rules() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        say(&sessions, [Draft::user("one")]).await;
        policy(&*fs, "keep_messages=0\nhistory=delete\nhistory_ttl=0s\n").await;
        sessions.set("default", &Change::state(State::Done)).await.unwrap();
        assert_eq!(removed(&sessions.collect("default", true).await.unwrap()), ["messages.jsonl"]);
        let refused = sessions.collect("default", false).await.unwrap_err();
        assert!(
            refused.is(ErrorKind::RuleViolation) && refused.message().contains("override"),
            "{refused:?}"
        );
        assert!(text(&*fs, "messages.jsonl").await.contains("one"));
    }
}

#[tokio::test]
async fn gc_must_not_delete_messages_or_events_unless_a_policy_says_so() {
    let (account, _folder) = account().await;
    let fs = account.overriding_rules();
    let sessions = sessions(&*fs).await;
    say(&sessions, [Draft::user("one")]).await;
    policy(&*fs, "keep_messages=0\n").await;
    assert!(sessions.collect("default", false).await.unwrap_err().is(ErrorKind::InvalidArgument));
    policy(&*fs, "keep_messages=0\nhistory=archive\nhistory_ttl=0s\n").await;
    assert!(sessions.collect("default", false).await.unwrap().removed.is_empty(), "it is not at its end");
    sessions.set("default", &Change::state(State::Done)).await.unwrap();
    let before = text(&*fs, "messages.jsonl").await;
    let done = sessions.collect("default", false).await.unwrap();
    assert_eq!(removed(&done), ["messages.jsonl"]);
    assert_eq!(text(&*fs, "archive/messages.jsonl").await, before);
    assert_eq!(text(&*fs, "messages.jsonl").await, "");
    assert!(text(&*fs, "events.jsonl").await.contains("context.collected"));
}

#[tokio::test]
async fn sessions_of_children_say_whose_they_are() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        sessions.create(&Create::new("other")).await.unwrap();
        let mut spawn = Spawn::new("rev-1", "do");
        spawn.agent = Some("reviewer".to_owned());
        sessions.spawn("default", &spawn).await.unwrap();
        let reviewer = Sessions::new(&*fs, "ann", "reviewer", garth::Env::system()).unwrap();
        assert_eq!(reviewer.get("rev-1").await.unwrap().meta.other["parent"], "coder/default#rev-1");
        let own = sessions.spawn("default", &Spawn::new("default", "do")).await.unwrap_err();
        assert!(own.is(ErrorKind::InvalidArgument), "{own:?}");
    }
}

#[tokio::test]
async fn all_that_a_session_wrote_anywhere_is_listed_with_its_bytes() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        let batch = |session: &str, op: Op| {
            let author = Author::agent("coder").with_user("ann").with_session(session);
            Batch::new([op.with_parents()]).author(author)
        };
        let at = |path: &str| TreePath::parse(path).unwrap();
        fs.commit(batch("other", Op::write(at("/src/a.rs"), "fn a() {}\n"))).await.unwrap();
        fs.commit(batch("default", Op::append(at("/src/a.rs"), "fn b() {}\n"))).await.unwrap();
        fs.commit(batch("default", Op::write(at("/src/gone.rs"), "x"))).await.unwrap();
        fs.commit(batch("default", Op::write(at("/src/old.rs"), "old"))).await.unwrap();
        fs.commit(batch("other", Op::write(at("/src/old.rs"), "new"))).await.unwrap();
        fs.remove(&at("/src/gone.rs")).await.unwrap();
        fs.rename(&at("/src/a.rs"), &at("/src/named.rs")).await.unwrap();
        let (files, next) = sessions.wrote("default", LogPosition::default()).await.unwrap();
        assert_eq!(next, None);
        let src: Vec<_> = files.iter().filter(|file| file.path.as_str().starts_with("/src")).collect();
        assert_eq!(src.len(), 1, "{files:?}");
        assert_eq!((src[0].path.as_str(), src[0].size, src[0].bytes.len()), ("/src/named.rs", 20, 1));
        assert_eq!(src[0].bytes[0], 10..20);
        assert!(files.iter().any(|file| file.path == path("meta.json")));
    }
}
