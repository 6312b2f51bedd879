//! Data derived from a session: swap, dedup, children, and their collection.

use std::time::Duration;

use futures::TryStreamExt as _;
use garth_agent::memory::{Level, Memories, Put, Uri};
use garth_agent::session::{
    Append, Change, ChildChange, ChildStatus, Collect, Collection, Create, Derive, Draft, Due, PackOptions,
    Sessions, Spawn, State,
};
use garth_engine::engine::memory::MemoryFs;
use garth_engine::model::{Author, Batch, Moment, Op, Seq, SetAttrs, Timestamp};
use garth_engine::{Env, ErrorKind, FileSystem, FileSystemExt, TreePath};
use serde_json::{Value, json};

use super::homes::account_on;
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

/// Returns type and own fields of each event of a session.
async fn noted(fs: &dyn FileSystem, session: &str) -> Vec<(String, Value)> {
    let file = path("events.jsonl").to_string().replace("/default/events", &format!("/{session}/events"));
    let events = fs.read_to_string(&TreePath::parse(&file).unwrap()).await.unwrap();
    let event = |line: &str| {
        let mut event: serde_json::Map<String, Value> = serde_json::from_str(line).unwrap();
        event.retain(|name, _| !["id", "run", "created_at"].contains(&&**name));
        let kind = event.remove("type").unwrap();
        (kind.as_str().unwrap().to_owned(), Value::from(event))
    };
    events.lines().map(event).collect()
}

#[tokio::test]
async fn state_changes_append_one_event_each() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        // As another interface may leave it.
        fs.append(
            &path("events.jsonl"),
            r#"{"id":"ev-1","run":"r","type":"x","created_at":"2026-01-27T09:30:00Z"}"#,
        )
        .await
        .unwrap();
        sessions.set("default", &Change::new().state(State::Active)).await.unwrap();
        sessions.set("default", &Change::new().state(State::Active)).await.unwrap();
        sessions.set("default", &Change::new().title("Trip")).await.unwrap();
        let mut append = Append::messages([Draft::user("Go.")]).and_events([Draft::event("own")]);
        append.state = Some(State::Done);
        sessions.append("default", &append).await.unwrap();
        let state =
            |state: &str, was: &str| ("session.state".to_owned(), json!({"state": state, "was": was}));
        let noted = noted(&*fs, "default").await;
        assert_eq!(noted[1], state("active", "idle"));
        assert_eq!(noted[2], ("own".to_owned(), json!({})));
        assert_eq!(noted[3..], [state("done", "active")]);
        // A removed log does not prevent changes of the state.
        fs.commit(Batch::new([Op::remove(path("events.jsonl"))]).overriding_rules()).await.unwrap();
        sessions.set("default", &Change::new().state(State::Idle)).await.unwrap();
    }
}

fn removed(collection: &Collection) -> Vec<&str> {
    collection.removed.iter().map(|removed| &*removed.name).collect()
}

#[tokio::test]
async fn swapped_content_is_restored_by_hash() {
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
        let whole = sessions.swap_content("default", &output.id).await.unwrap();
        assert!(String::from_utf8_lossy(&whole).contains("long output"));
        assert_eq!(sessions.swap_in("default", &output.id).await.unwrap(), whole.len());
        assert!(
            sessions.pack("default", &PackOptions::default()).await.unwrap().markdown.contains("long output")
        );
        fs.write(&path(&format!("context/swap/chunk/{}", file.id)), "forged").await.unwrap();
        assert!(sessions.swap_in("default", &file.id).await.unwrap_err().is(ErrorKind::Corrupt));
    }
}

#[tokio::test]
async fn repeated_content_is_stored_once() {
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
        assert!(found.iter().all(|entry| *entry == found[2]), "each as all of them leave it");
        assert_eq!(text(&*fs, "context/dedup/index.jsonl").await.lines().count(), 1);
        assert_eq!(text(&*fs, &format!("context/dedup/blob/{}", found[2].hash)).await, "same");
        policy(&*fs, "dedup_min_refs=4").await;
        let gone = sessions.collect("default", &Collect::default()).await.unwrap();
        assert_eq!(removed(&gone), [format!("context/dedup/blob/{}", found[0].hash)]);
        let index: Value = serde_json::from_str(&text(&*fs, "context/dedup/index.jsonl").await).unwrap();
        assert_eq!(index["refs"], json!(["tool:a", "tool:b"]), "references to raw history stay");
    }
}

#[tokio::test]
async fn child_result_reaches_parent_by_reference() {
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
        let order = ["child.spawned", "child.started", "child.ended"].map(|kind| events.find(kind).unwrap());
        assert!(order.is_sorted(), "{events}");
    }
}

#[tokio::test]
async fn ending_a_session_cancels_its_descendants() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        sessions.spawn("default", &Spawn::new("a", "do")).await.unwrap();
        sessions.spawn("a", &Spawn::new("b", "do")).await.unwrap();
        // A session that names its own ancestor as its child.
        let mut up = Spawn::new("up", "do");
        up.session = Some("default".to_owned());
        sessions.spawn("b", &up).await.unwrap();
        sessions.spawn("default", &Spawn::new("c", "do")).await.unwrap();
        sessions.set_child("default", "c", &ChildChange::done("ok")).await.unwrap();
        sessions.set("default", &Change::new().state(State::Done)).await.unwrap();
        for (session, state) in
            [("default", State::Done), ("a", State::Cancelled), ("b", State::Cancelled), ("c", State::Done)]
        {
            assert_eq!(sessions.get(session).await.unwrap().state, state, "{session}");
        }
        let status: Vec<_> =
            sessions.children("default").await.unwrap().into_iter().map(|child| child.status).collect();
        assert_eq!(status, [ChildStatus::Cancelled, ChildStatus::Done]);
        assert_eq!(text(&*fs, "context/child/a/handoff.md").await, "do");
        let noted = async |session: &str| noted(&*fs, session).await;
        let of = |kind: &str, fields: Value| (kind.to_owned(), fields);
        assert_eq!(
            noted("default").await[2..],
            [
                of("child.ended", json!({"child": "c", "status": "done"})),
                of("session.state", json!({"state": "done", "was": "idle"})),
                of("child.ended", json!({"child": "a", "status": "cancelled"})),
            ]
        );
        assert_eq!(
            noted("a").await[1..],
            [
                of("session.state", json!({"state": "cancelled", "was": "idle"})),
                of("child.ended", json!({"child": "b", "status": "cancelled"})),
            ]
        );
        assert_eq!(noted("c").await, [of("session.state", json!({"state": "done", "was": "idle"}))]);
        let late = sessions.spawn("default", &Spawn::new("d", "do")).await.unwrap_err();
        assert!(late.is(ErrorKind::Conflict), "{late:?}");
    }
}

#[tokio::test]
async fn collection_matches_its_dry_run() {
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
        let due = sessions.collect("default", &Collect::dry()).await.unwrap();
        assert_eq!(fs.head().await.unwrap().seq, head);
        assert_eq!(removed(&due)[..2], ["context/pack.json", "context/pack.md"]);
        assert_eq!(due.removed.len(), 3, "the chunk of what the pack had cut goes with it: {due:?}");
        let done = sessions.collect("default", &Collect::default()).await.unwrap();
        assert_eq!(removed(&done), removed(&due));
        assert_eq!(text(&*fs, "context/swap/index.jsonl").await, "");
        assert!(text(&*fs, "events.jsonl").await.contains("context.collected"));
        assert!(sessions.collect("default", &Collect::default()).await.unwrap().removed.is_empty());
        if fs.capabilities(&TreePath::root()).history {
            let error = sessions.replay("default", None).await.unwrap_err();
            assert!(error.is(ErrorKind::NotFound), "{error}");
            let at = error.message().split("--at ").nth(1).unwrap().split('`').next().unwrap();
            check(&sessions.replay("default", Some(&Moment::Seq(Seq(at.parse().unwrap())))).await.unwrap());
        }
        check(&sessions.pack("default", &budget(1000)).await.unwrap());
    }
}

#[tokio::test]
async fn collection_keeps_results_and_referenced_files() {
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
        let gone = sessions.collect("default", &Collect::default()).await.unwrap();
        assert_eq!(removed(&gone), [format!("context/swap/chunk/{}", ids[1])]);
        assert_eq!(text(&*fs, "context/child/rev-1/result.md").await, "ok");
        assert_eq!(sessions.why("default", "f1").await.unwrap().sources.len(), 1);
    }
}

#[tokio::test]
async fn collecting_messages_requires_rule_override() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        say(&sessions, [Draft::user("one")]).await;
        policy(&*fs, "keep_messages=0\nhistory=delete\nhistory_ttl=0s\n").await;
        sessions.set("default", &Change::new().state(State::Done)).await.unwrap();
        assert_eq!(removed(&sessions.collect("default", &Collect::dry()).await.unwrap()), ["messages.jsonl"]);
        let refused = sessions.collect("default", &Collect::default()).await.unwrap_err();
        assert!(
            refused.is(ErrorKind::RuleViolation) && refused.message().contains("override"),
            "{refused:?}"
        );
        assert!(text(&*fs, "messages.jsonl").await.contains("one"));
    }
}

#[tokio::test]
async fn collection_keeps_messages_without_a_policy() {
    let (account, _folder) = account().await;
    let fs = account.overriding_rules();
    let sessions = sessions(&*fs).await;
    say(&sessions, [Draft::user("one")]).await;
    policy(&*fs, "keep_messages=0\n").await;
    assert!(sessions.collect("default", &Collect::default()).await.unwrap_err().is(ErrorKind::Corrupt));
    policy(&*fs, "keep_messages=0\nhistory=archive\nhistory_ttl=0s\n").await;
    assert!(
        sessions.collect("default", &Collect::default()).await.unwrap().removed.is_empty(),
        "it is not at its end"
    );
    sessions.set("default", &Change::new().state(State::Done)).await.unwrap();
    let before = text(&*fs, "messages.jsonl").await;
    let done = sessions.collect("default", &Collect::default()).await.unwrap();
    assert_eq!(removed(&done), ["messages.jsonl"]);
    assert_eq!(text(&*fs, "archive/messages.jsonl").await, before);
    assert_eq!(text(&*fs, "messages.jsonl").await, "");
    assert!(text(&*fs, "events.jsonl").await.contains("\"history\":\"archive\""));
    assert!(text(&*fs, "events.jsonl").await.contains("context.collected"));
}

#[tokio::test]
async fn collected_messages_stay_in_archives() {
    let (account, _folder) = account().await;
    let fs = account.overriding_rules();
    let sessions = sessions(&*fs).await;
    policy(&*fs, "keep_messages=0\nkeep_events=0\nhistory=archive\nhistory_ttl=0s\n").await;
    sessions.set("default", &Change::new().state(State::Done)).await.unwrap();
    say(&sessions, [Draft::user("said")]).await;
    let (messages, mut events) = (vec![text(&*fs, "messages.jsonl").await], Vec::new());
    for (word, due) in [("first", 2), ("second", 1), ("third", 1)] {
        sessions.append("default", &Append::events([Draft::event(word)])).await.unwrap();
        events.push(text(&*fs, "events.jsonl").await);
        let done = sessions.collect("default", &Collect::default()).await.unwrap();
        assert_eq!(removed(&done), ["messages.jsonl", "events.jsonl"][2 - due..]);
    }
    // Line numbers would start again, so that references to old lines would lead to new ones.
    let error = sessions.append("default", &Append::messages([Draft::user("more")])).await.unwrap_err();
    assert!(error.is(ErrorKind::Conflict) && error.message().contains("were collected"), "{error}");
    let items: Vec<_> = fs.read_dir(path("archive")).try_collect().await.unwrap();
    let names: Vec<String> =
        items.into_iter().map(|item: garth_engine::model::Item| item.name.to_string()).collect();
    let of = async |log: &str| {
        let mut texts = Vec::new();
        for name in names.iter().filter(|name| name.starts_with(log)) {
            texts.push(text(&*fs, &format!("archive/{name}")).await);
        }
        // The first has the plain name, the others sort before it by their number.
        texts.rotate_right(1);
        texts
    };
    assert_eq!((of("messages").await, of("events").await), (messages, events), "{names:?}");
}

#[tokio::test]
async fn replay_fails_after_messages_are_collected() {
    let (account, _folder) = account().await;
    let fs = account.overriding_rules();
    let sessions = sessions(&*fs).await;
    policy(&*fs, "keep_messages=0\nkeep_events=0\nhistory=delete\nhistory_ttl=0s\n").await;
    say(&sessions, [Draft::user("a"), Draft::assistant("b")]).await;
    sessions.pack("default", &PackOptions::default()).await.unwrap();
    let then = fs.head().await.unwrap().seq;
    sessions.set("default", &Change::new().state(State::Done)).await.unwrap();
    sessions.collect("default", &Collect::default()).await.unwrap();
    for at in [None, Some(Moment::Seq(then))] {
        let error = sessions.replay("default", at.as_ref()).await.unwrap_err();
        assert!(error.is(ErrorKind::Gone), "{error}");
    }
}

#[tokio::test]
async fn reports_the_least_pack_budget() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        say(&sessions, [Draft::user("hi ".repeat(100)), Draft::assistant("ok")]).await;
        let error = sessions.pack("default", &budget(5)).await.unwrap_err();
        let least = error.message().split("budget of ").nth(1).unwrap();
        let least: u64 = least.split(' ').next().unwrap().parse().unwrap();
        assert!(least > 100, "{error}");
        assert!(sessions.pack("default", &budget(least - 1)).await.is_err());
        assert!(sessions.pack("default", &budget(least)).await.is_ok(), "{least}");
    }
}

#[tokio::test]
async fn swap_id_is_a_source_of_its_lines() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        say(&sessions, [Draft::user("a"), Draft::assistant("b")]).await;
        let id = sessions.swap_out("default", &"messages:1".parse().unwrap(), "s").await.unwrap().id;
        let named = format!("swap:{id}");
        let found = sessions.resolve("default", &named.parse().unwrap()).await.unwrap();
        assert_eq!(found.fixed(), "default#messages:1-1");
        let content = sessions.swap_content("default", &id).await.unwrap();
        assert_eq!(sessions.swap_content("default", &named).await.unwrap(), content);
        assert_eq!(sessions.swap_in("default", &named).await.unwrap(), content.len());
    }
}

#[tokio::test]
async fn child_sessions_name_their_parent() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        sessions.create(&Create::new("other")).await.unwrap();
        let mut spawn = Spawn::new("rev-1", "do");
        spawn.agent = Some("reviewer".to_owned());
        sessions.spawn("default", &spawn).await.unwrap();
        let reviewer = Sessions::new(&*fs, "default", "reviewer").unwrap();
        assert_eq!(reviewer.get("rev-1").await.unwrap().meta.other["parent"], "coder/default#rev-1");
        let own = sessions.spawn("default", &Spawn::new("default", "do")).await.unwrap_err();
        assert!(own.is(ErrorKind::InvalidArgument), "{own:?}");
    }
}

#[tokio::test]
async fn lists_everything_a_session_wrote() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        let batch = |session: &str, op: Op| {
            let author = Author::agent("coder").with_user("default").with_session(session);
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
        let page = sessions.wrote("default", None).await.unwrap();
        assert_eq!((page.next, page.oldest), (None, None));
        let files = page.items;
        let src: Vec<_> = files.iter().filter(|file| file.path.as_str().starts_with("/src")).collect();
        assert_eq!(src.len(), 1, "{files:?}");
        assert_eq!((src[0].path.as_str(), src[0].size, src[0].bytes.len()), ("/src/named.rs", 20, 1));
        assert_eq!(src[0].bytes[0], 10..20);
        assert!(files.iter().any(|file| file.path == path("meta.json")));
    }
}

#[tokio::test]
async fn collection_reads_only_due_sessions() {
    let (env, clock) = Env::manual(Timestamp(1_769_472_000_000_000_000));
    let (fs, _kept) = account_on(env.clone(), &clock).await;
    let sessions = Sessions::new(&*fs, "default", "coder").unwrap().env(env.clone());
    let due = async || {
        let due = Due::find(&*fs, env.now(), None).await.unwrap();
        let names: Vec<String> = due.sessions.iter().map(ToString::to_string).collect();
        (names.join(" "), due.next.is_some())
    };
    for name in ["default", "other", "quiet"] {
        sessions.create(&Create::new(name)).await.unwrap();
        sessions.append(name, &Append::messages([Draft::user("one")])).await.unwrap();
    }
    assert_eq!(due().await, (String::new(), false));
    policy(&*fs, "pack_ttl=1h\nswap_ttl=3h\n").await;
    sessions.pack("default", &budget(1000)).await.unwrap();
    sessions.pack("other", &budget(1000)).await.unwrap();
    sessions.swap_out("default", &"messages:1".parse().unwrap(), "s").await.unwrap();
    let hours = |count: u64| Duration::from_secs(count * 3600);
    assert_eq!(due().await, (String::new(), true));
    clock.advance(hours(1) + Duration::from_secs(200));
    assert_eq!(due().await, ("default/coder/default".to_owned(), true));
    assert_eq!(
        removed(&sessions.collect("default", &Collect::default()).await.unwrap()),
        ["context/pack.json", "context/pack.md"]
    );
    assert_eq!(due().await, (String::new(), true), "the chunk is not due yet");
    // Content that is still swapped out is checked again after `swap_ttl`.
    clock.advance(hours(3));
    assert_eq!(due().await.0, "default/coder/default");
    let (head, events) = (fs.head().await.unwrap().seq, text(&*fs, "events.jsonl").await);
    assert!(sessions.collect("default", &Collect::default()).await.unwrap().removed.is_empty());
    assert_eq!(fs.head().await.unwrap().seq.0, head.0 + 1, "it says when to look again");
    assert_eq!(text(&*fs, "events.jsonl").await, events, "and nothing else");
    assert_eq!(due().await, (String::new(), true));
    sessions.collect("default", &Collect::default()).await.unwrap();
    assert_eq!(fs.head().await.unwrap().seq.0, head.0 + 1, "what is not due is left");
    // A session that cannot be collected is left alone for an hour.
    policy(&*fs, "no policy").await;
    clock.advance(hours(4));
    assert_eq!(due().await.0, "default/coder/default");
    assert!(sessions.collect("default", &Collect::default()).await.is_err());
    sessions.pack("default", &budget(1000)).await.unwrap();
    sessions.postpone("default").await.unwrap();
    assert_eq!(due().await, (String::new(), true));
    clock.advance(hours(24));
    assert_eq!(due().await.0, "default/coder/default default/coder/other");
    // A session that ends is checked at once, for messages to collect.
    sessions.set("quiet", &Change::new().state(State::Done)).await.unwrap();
    assert!(due().await.0.contains("quiet"));
    assert!(sessions.collect("quiet", &Collect::default()).await.unwrap().removed.is_empty());
    assert!(!due().await.0.contains("quiet"));
    // A file that others mark is not a session.
    let mark = SetAttrs::new().metadata("garth.collect_at", "2020-01-01T00:00:00Z");
    fs.commit(
        Batch::new([Op::write(TreePath::parse("/users/default/x").unwrap(), "x")
            .with_parents()
            .with_attrs(mark)])
        .by_garth(),
    )
    .await
    .unwrap();
    assert!(!due().await.0.contains('x'));
}

#[tokio::test]
async fn collection_can_keep_history() {
    let (account, _folder) = account().await;
    let fs = account.overriding_rules();
    let sessions = sessions(&*fs).await;
    say(&sessions, [Draft::user("one")]).await;
    policy(&*fs, "keep_messages=0\nhistory=delete\nhistory_ttl=0s\n").await;
    sessions.set("default", &Change::new().state(State::Done)).await.unwrap();
    let mut how = Collect::default();
    how.keep_history = true;
    assert!(sessions.collect("default", &how).await.unwrap().removed.is_empty());
    assert!(text(&*fs, "messages.jsonl").await.contains("one"));
    let later = Due::find(&*fs, Env::system().now(), None).await.unwrap();
    assert!(later.sessions.is_empty() && later.next.is_some(), "it is asked again: {later:?}");
}

#[tokio::test]
async fn published_fact_names_its_messages() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        say(&sessions, [Draft::user("I like tea."), Draft::user("No: coffee.")]).await;
        let mut derive = Derive::default();
        derive.facts = Some(
            json!({"id": "f1", "text": "Ann likes coffee.", "source": ["messages:1-2", "user:latest"]})
                .to_string(),
        );
        derive.refs = Some(json!({"id": "r1", "path": "/x", "kind": "file", "summary": "s"}).to_string());
        sessions.derive("default", &derive).await.unwrap();
        let memories = Memories::new(&*fs, "default");
        let uri: Uri = "ctx://default/users/default/memories/preferences/coffee".parse().unwrap();
        let put = sessions.to_publish("default", "f1").await.unwrap();
        let written = memories.put(&uri, &put).await.unwrap();
        let meta = memories.get(&uri, Level::Content).await.unwrap().meta;
        assert_eq!(meta, written.meta);
        let from = meta.provenance.unwrap();
        assert_eq!(
            (&*from.user, &*from.agent, &*from.session, &*from.entry),
            ("default", "coder", "default", "f1")
        );
        assert_eq!(from.sources, ["default#messages:1-2", "default#messages:2-2"]);
        for source in &from.sources {
            sessions.resolve(&from.session, &source.parse().unwrap()).await.unwrap();
        }
        assert_eq!(memories.put(&uri, &put).await.unwrap().seq, None, "it is there");
        // A text of another origin does not name these messages.
        let same = memories.put(&uri, &Put::new("Ann likes coffee.\n")).await.unwrap();
        assert_eq!((same.seq, same.meta.provenance), (None, Some(from)));
        assert_eq!(memories.put(&uri, &Put::new("Ann likes cocoa.")).await.unwrap().meta.provenance, None);
        let out = sessions.swap_out("default", &"messages:1".parse().unwrap(), "tea").await.unwrap();
        let mut derive = Derive::default();
        let source = format!("swap:{}", out.id);
        derive.facts = Some(json!({"id": "f3", "text": "She liked tea.", "source": source}).to_string());
        sessions.derive("default", &derive).await.unwrap();
        let put = sessions.to_publish("default", "f3").await.unwrap();
        assert_eq!(put.provenance.unwrap().sources, ["default#messages:1-1"], "the lines, not the chunk");
        assert!(sessions.to_publish("default", "r1").await.unwrap_err().is(ErrorKind::InvalidArgument));
        assert!(sessions.to_publish("default", "f2").await.unwrap_err().is(ErrorKind::NotFound));
    }
}

#[tokio::test]
async fn later_collection_finishes_the_rest() {
    let (env, clock) = Env::manual(Timestamp(1_769_472_000_000_000_000));
    let fs = MemoryFs::new(env.clone(), garth_agent::registry());
    let sessions = Sessions::new(&fs, "default", "coder").unwrap().env(env.clone());
    sessions.create(&Create::new("default")).await.unwrap();
    say(&sessions, [Draft::user("one")]).await;
    policy(&fs, "swap_ttl=0s\n").await;
    let out = sessions.swap_out("default", &"messages:1".parse().unwrap(), "s").await.unwrap();
    sessions.swap_in("default", &out.id).await.unwrap();
    for first in (0..10_500).step_by(500) {
        let stray = |n| Op::write(path(&format!("context/swap/chunk/stray-{n:05}")), "x");
        fs.commit(Batch::new((first..first + 500).map(stray))).await.unwrap();
    }
    clock.advance(Duration::from_secs(10));
    assert_eq!(Due::find(&fs, env.now(), None).await.unwrap().sessions.len(), 1);
    let first = sessions.collect("default", &Collect::default()).await.unwrap();
    assert!(first.more && first.removed.len() < 10_501, "{}", first.removed.len());
    assert!(Due::find(&fs, env.now(), None).await.unwrap().sessions.is_empty());
    clock.advance(Duration::from_secs(3601));
    assert_eq!(Due::find(&fs, env.now(), None).await.unwrap().sessions.len(), 1);
    let second = sessions.collect("default", &Collect::default()).await.unwrap();
    assert_eq!(first.removed.len() + second.removed.len(), 10_501);
}
