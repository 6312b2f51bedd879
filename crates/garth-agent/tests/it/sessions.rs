//! Sessions: append-only messages, on every engine that supports them.

use std::sync::Arc;

use garth_agent::session::{
    Append, Change, Create, Draft, List, MAX_APPENDED, Select, SessionKey, Sessions, State, Usage,
};
use garth_agent::{Access, Caller, Class, Request};
use garth_engine::engine::memory::MemoryFs;
use garth_engine::model::{Batch, Op, WalkPage};
use garth_engine::{Env, Error, ErrorKind, FileSystem, FileSystemExt, TreePath};
use garth_testkit::fs::counting::Counting;
use garth_testkit::fs::interfering::{Call, Interfering};

use super::homes::Kept;
pub(super) use super::homes::account;

pub(super) const DIR: &str = "/users/default/agents/coder/session/default";

/// Returns the engines that support sessions, with what they need while in use.
pub(super) async fn engines() -> Vec<(Arc<dyn FileSystem>, Option<Kept>)> {
    let (account, kept) = account().await;
    vec![(account, Some(kept)), (Arc::new(MemoryFs::new(Env::system(), garth_agent::registry())), None)]
}

/// Returns the sessions of the agent `coder` with the user `ann`, one of which is called `default`.
pub(super) async fn sessions(fs: &dyn FileSystem) -> Sessions<'_> {
    let sessions = Sessions::new(fs, "default", "coder").unwrap();
    sessions.create(&Create::new("default")).await.unwrap();
    sessions
}

pub(super) fn path(name: &str) -> TreePath {
    TreePath::parse(&format!("{DIR}/{name}")).unwrap()
}

/// Returns the texts of the messages of a session, without retracted ones.
pub(super) async fn said(sessions: &Sessions<'_>, session: &str) -> Vec<String> {
    let page = sessions.lines(session, &Select::messages(1..=u64::MAX)).await.unwrap();
    let content = |text: &str| {
        let message: serde_json::Value = serde_json::from_str(text).unwrap();
        message["content"].as_str().unwrap_or("(blocks)").to_owned()
    };
    page.items.iter().map(|line| content(&line.text)).collect()
}

fn assert_refused(result: Result<impl std::fmt::Debug, Error>, kind: ErrorKind, said: &str) {
    let error = result.unwrap_err();
    assert!(error.is(kind) && error.to_string().contains(said), "{error:?}");
}

#[tokio::test]
async fn create_writes_every_session_file() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        let walk = fs.walk(&(&TreePath::parse(DIR).unwrap()).into(), &WalkPage::default()).await.unwrap();
        let mut names: Vec<_> =
            walk.items.iter().map(|item| item.path.as_str()[DIR.len() + 1..].to_owned()).collect();
        names.sort();
        let due = [
            "context",
            "context/budget",
            "context/child",
            "context/decisions.jsonl",
            "context/dedup",
            "context/dedup/blob",
            "context/dedup/index.jsonl",
            "context/facts.jsonl",
            "context/pack.json",
            "context/pack.md",
            "context/pinned",
            "context/refs.jsonl",
            "context/summary.md",
            "context/swap",
            "context/swap/chunk",
            "context/swap/index.jsonl",
            "context/todo.md",
            "created_at",
            "cwd",
            "events.jsonl",
            "latest.md",
            "messages.jsonl",
            "meta.json",
            "state",
            "updated_at",
        ];
        assert_eq!(names, due);
        let found = sessions.get("default").await.unwrap();
        assert_eq!((found.state, found.cwd.as_str(), found.meta.class.as_str()), (State::Idle, "/", "main"));
        assert_eq!(fs.read_to_string(path("state")).await.unwrap(), "idle\n");
        let pack: serde_json::Value =
            serde_json::from_slice(&fs.read_file(path("context/pack.json")).await.unwrap()).unwrap();
        assert_eq!(pack["session"], "default");
        assert_refused(
            sessions.create(&Create::new("default")).await,
            ErrorKind::AlreadyExists,
            "append to it",
        );
        assert_refused(sessions.create(&Create::new("a/b")).await, ErrorKind::InvalidArgument, "session");
        assert_refused(sessions.get("other").await, ErrorKind::NotFound, "no such session");
        let relative = Create::new("b").cwd("work/../x");
        assert_refused(sessions.create(&relative).await, ErrorKind::InvalidArgument, "absolute");
    }
}

#[tokio::test]
async fn create_keeps_existing_files() {
    for (fs, _kept) in engines().await {
        let line = r#"{"id":"msg-1","role":"user","created_at":"2026-01-27T09:30:00Z","content":"early"}"#;
        let early = Op::write(path("messages.jsonl"), line.to_owned()).with_parents();
        fs.commit(early.into()).await.unwrap();
        let sessions = sessions(&*fs).await;
        sessions.append("default", &Append::messages([Draft::user("late")])).await.unwrap();
        assert_eq!(said(&sessions, "default").await, ["early", "late"]);
        assert_eq!(fs.read_to_string(path("messages.jsonl")).await.unwrap().lines().count(), 2);
    }
}

#[tokio::test]
async fn messages_and_events_are_append_only() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        let both = Append::messages([Draft::user("kept")]).and_events([Draft::event("tool.started")]);
        sessions.append("default", &both).await.unwrap();
        for name in ["messages.jsonl", "events.jsonl"] {
            let before = fs.read_file(path(name)).await.unwrap();
            for op in [
                Op::write(path(name), ""),
                Op::truncate(path(name), 3),
                Op::patch(path(name), 0, "{"),
                Op::remove(path(name)),
                Op::rename(path(name), path("away")),
                Op::remove_tree(TreePath::parse(DIR).unwrap()),
                Op::rename(TreePath::parse(DIR).unwrap(), TreePath::parse("/elsewhere").unwrap()),
            ] {
                let error = fs.commit(op.clone().into()).await.unwrap_err();
                assert!(error.is(ErrorKind::RuleViolation), "{op:?}: {error}");
            }
            assert_eq!(fs.read_file(path(name)).await.unwrap(), before);
        }
        assert_eq!(said(&sessions, "default").await, ["kept"]);
    }
}

#[tokio::test]
async fn rejects_foreign_and_incomplete_lines() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        let whole = r#"{"id":"msg-1","role":"user","created_at":"2026-01-27T09:30:00Z","content":"whole"}"#;
        for bad in [
            "no JSON\n",
            &whole[..40],
            "{\"role\":\"user\",\"content\":\"no id\"}\n",
            &whole.replace("\"user\"", "\"developer\""),
            &whole.replace("}", ",\"tool_calls\":[]}"),
            &whole.replace("}", ",\"role\":\"user\"}"),
        ] {
            let error = fs.append(path("messages.jsonl"), bad.to_owned()).await.unwrap_err();
            assert!(error.is(ErrorKind::RuleViolation), "{bad}: {error}");
        }
        // A line without a line feed is complete: the next text begins a line.
        fs.append(path("messages.jsonl"), whole).await.unwrap();
        sessions.append("default", &Append::messages([Draft::assistant("next")])).await.unwrap();
        assert_eq!(said(&sessions, "default").await, ["whole", "next"]);
        assert_refused(
            sessions.append("default", &Append::messages([Draft::user("a").with("x", &1)])).await,
            ErrorKind::InvalidArgument,
            "message 1: /x",
        );
        assert_refused(
            sessions.append("default", &Append::messages([Draft::user("a").with("id", "m0")])).await,
            ErrorKind::InvalidArgument,
            r#"message 1: /id: "m0" does not match the pattern "^msg-[A-Za-z0-9._-]+$""#,
        );
    }
}

#[tokio::test]
async fn order_of_fields_hides_no_long_message() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        let content = format!(r#""content":"{}""#, "x".repeat(70_000));
        let (id, role, time) =
            (r#""id":"msg-long""#, r#""role":"user""#, r#""created_at":"2026-01-27T09:30:00Z""#);
        let line = |fields: [&str; 4]| format!("{{{}}}", fields.join(","));
        for late in [[&*content, id, role, time], [id, &*content, role, time], [time, role, &*content, id]] {
            let error = fs.append(path("messages.jsonl"), line(late)).await.unwrap_err();
            assert!(error.is(ErrorKind::RuleViolation), "{error}");
            assert!(error.message().contains("in the first 65536 bytes of the line"), "{error}");
        }
        fs.append(path("messages.jsonl"), line([time, role, id, &content])).await.unwrap();
        // Known by its id, also if it is sent with its fields in another order.
        let again = Draft::parse(&line([&content, id, time, role])).unwrap();
        sessions.append("default", &Append::messages([again])).await.unwrap();
        assert_eq!(said(&sessions, "default").await.len(), 1);
    }
}

#[tokio::test]
async fn append_updates_derived_files_in_one_commit() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        let before = fs.head().await.unwrap().seq;
        let call = serde_json::json!([{"type": "tool_call", "id": "c", "name": "bash", "arguments": {}}]);
        let result = serde_json::json!([{"type": "tool_result", "call_id": "c", "content": "ok"}]);
        let mut append = Append::messages([
            Draft::user("Run the tests."),
            Draft::assistant("They **pass**.\n"),
            Draft::message(garth_agent::session::Role::Assistant, &call),
            Draft::message(garth_agent::session::Role::Tool, &result),
        ])
        .and_events([Draft::event("tool.started").with("tool", "bash")])
        .run("run-1")
        .usage(Usage { input_tokens: 10, output_tokens: 5, total_tokens: 0 });
        append.state = Some(State::Active);
        let done = sessions.append("default", &append).await.unwrap();
        assert_eq!((done.lines, done.messages.len(), done.events.len()), (Some(1..=4), 4, 1));
        assert_eq!(fs.head().await.unwrap().seq.0, before.0 + 1);
        assert_eq!(fs.read_to_string(path("latest.md")).await.unwrap(), "They **pass**.\n");
        let found = sessions.get("default").await.unwrap();
        assert_eq!((found.state, found.meta.usage.total_tokens), (State::Active, 15));
        let text = fs.read_to_string(path("messages.jsonl")).await.unwrap();
        assert!(
            text.lines().all(|line| line.starts_with("{\"id\":\"msg-") && line.contains("\"run\":\"run-1\""))
        );
        let more = sessions.append("default", &Append::messages([Draft::user("more")])).await.unwrap();
        assert_eq!(more.lines, Some(5..=5));
        assert_eq!(fs.read_to_string(path("latest.md")).await.unwrap(), "They **pass**.\n");
    }
}

#[tokio::test]
async fn append_is_idempotent_by_id() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        let some = |texts: &[&str]| {
            let texts = texts.iter().enumerate();
            Append::messages(texts.map(|(n, text)| Draft::user(*text).with("id", &format!("msg-{n}"))))
        };
        sessions.append("default", &some(&["a", "b"])).await.unwrap();
        let again = sessions.append("default", &some(&["a", "b"])).await.unwrap();
        assert_eq!((again.seq, again.messages), (None, vec!["msg-0".to_owned(), "msg-1".to_owned()]));
        // An SDK sends its complete conversation each time.
        let grown = sessions.append("default", &some(&["a", "b", "c"])).await.unwrap();
        assert_eq!(grown.lines, Some(3..=3));
        let other = sessions.append("default", &some(&["a", "B", "d"])).await;
        assert_refused(other, ErrorKind::Conflict, "msg-1 exists with other content, in line 2");
        let twice =
            Append::messages([Draft::user("x").with("id", "msg-x"), Draft::user("y").with("id", "msg-x")]);
        assert_refused(sessions.append("default", &twice).await, ErrorKind::InvalidArgument, "given twice");
        assert_eq!(said(&sessions, "default").await, ["a", "b", "c"]);
    }
}

/// Returns messages with these ids, each with its id as text.
fn with_ids(ids: impl IntoIterator<Item = String>) -> Append {
    Append::messages(ids.into_iter().map(|id| Draft::user(&*id).with("id", &id)))
}

#[tokio::test]
async fn append_with_many_ids_reads_little() {
    for (fs, _kept) in engines().await {
        sessions(&*fs).await;
        let counting = Counting::new(Arc::clone(&fs));
        let sessions = Sessions::new(&counting, "default", "coder").unwrap();
        let mut reads = Vec::new();
        for (round, count) in [2, 1000].into_iter().enumerate() {
            let append = with_ids((0..count).map(|n| format!("msg-{round}-{n}")));
            for is_new in [true, false] {
                counting.reads_since();
                let appended = sessions.append("default", &append).await.unwrap();
                assert_eq!(appended.seq.is_some(), is_new);
                reads.push(counting.reads_since());
            }
        }
        assert_eq!(reads[..2], reads[2..], "reads of a new append, and of one that is repeated");
        assert!(reads.iter().all(|reads| *reads < 12), "{reads:?}");
    }
}

#[tokio::test]
async fn append_finds_known_ids_among_many_others() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        let id = |n: usize| format!("msg-{n:04}");
        // Every third id is in the log, between those of others.
        for from in [0, 1500] {
            sessions.append("default", &with_ids((from..from + 1500).step_by(3).map(id))).await.unwrap();
        }
        let known: Vec<_> = said(&sessions, "default").await;
        let given: Vec<_> = (0..3000).step_by(7).map(id).collect();
        sessions.append("default", &with_ids(given.clone())).await.unwrap();
        let new = given.into_iter().filter(|id| !known.contains(id));
        assert_eq!(said(&sessions, "default").await[known.len()..], new.collect::<Vec<_>>());
        let changed = Draft::user("other").with("id", &id(21));
        let append = Append::messages([Draft::user(id(1)).with("id", &id(1)), changed]);
        let refused = sessions.append("default", &append).await;
        assert_refused(refused, ErrorKind::Conflict, "exists with other content, in line 8 of");
    }
}

#[tokio::test]
async fn append_after_stale_message_conflicts() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        let first = sessions.append("default", &Append::messages([Draft::user("a")])).await.unwrap();
        let behind = |id: &str, text: &str| Append::messages([Draft::user(text)]).after(id);
        sessions.append("default", &behind(&first.messages[0], "b")).await.unwrap();
        let late = sessions.append("default", &behind(&first.messages[0], "c")).await;
        assert_refused(late, ErrorKind::Conflict, "messages:2-2 follow it");
        assert_refused(
            sessions.append("default", &behind("msg-no", "c")).await,
            ErrorKind::NotFound,
            "msg-no",
        );
        assert_eq!(said(&sessions, "default").await, ["a", "b"]);
    }
}

#[tokio::test]
async fn append_rejects_excess_and_missing_session() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        let many = Append::messages((0..=MAX_APPENDED).map(|_| Draft::user("a")));
        assert_refused(sessions.append("default", &many).await, ErrorKind::TooLarge, "1000");
        let long = Append::messages([Draft::user("x".repeat(17 << 20))]);
        assert!(sessions.append("default", &long).await.is_err());
        assert_refused(
            sessions.append("no", &Append::messages([Draft::user("a")])).await,
            ErrorKind::NotFound,
            "no such session",
        );
        assert_refused(
            sessions.append("no", &Append::default()).await,
            ErrorKind::NotFound,
            "no such session",
        );
        assert_eq!(sessions.append("default", &Append::default()).await.unwrap().seq, None);
    }
}

#[tokio::test]
async fn concurrent_appends_keep_every_line_in_order() {
    const EACH: usize = 5;
    let (account, _folder) = account().await;
    sessions(&*account).await;
    let appenders = (0..64).map(|n| {
        let account = Arc::clone(&account);
        tokio::spawn(async move {
            let sessions = Sessions::new(&*account, "default", "coder").unwrap();
            for m in 0..EACH {
                let draft = Draft::user(format!("{n} {m}"));
                // Some give ids, and only these need lookups.
                let draft = if n % 8 == 0 { draft.with("id", &format!("msg-{n}-{m}")) } else { draft };
                sessions.append("default", &Append::messages([draft])).await.unwrap();
            }
        })
    });
    for appender in appenders.collect::<Vec<_>>() {
        appender.await.unwrap();
    }
    let sessions = Sessions::new(&*account, "default", "coder").unwrap();
    let said = said(&sessions, "default").await;
    assert_eq!(said.len(), 64 * EACH);
    for n in 0..64 {
        let own: Vec<_> = said.iter().filter(|text| text.split(' ').next() == Some(&n.to_string())).collect();
        assert_eq!(own, (0..EACH).map(|m| format!("{n} {m}")).collect::<Vec<_>>().iter().collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn session_key_leads_to_newest_open_session() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        let key: SessionKey = "agent:coder:main".parse().unwrap();
        assert_eq!(sessions.current(&key).await.unwrap(), None);
        let (first, made) = sessions.by_key(&key, &Create::new("one")).await.unwrap();
        assert!(made && first.name == "one");
        assert_eq!(sessions.by_key(&key, &Create::new("two")).await.unwrap().0.name, "one");
        sessions.set("one", &Change::new().state(State::Done)).await.unwrap();
        assert_eq!(sessions.current(&key).await.unwrap(), None);
        let (second, _) = sessions.by_key(&key, &Create::new("")).await.unwrap();
        assert_eq!((second.meta.name.len(), second.name == second.meta.name), (36, true));
        // Any interface may end it.
        fs.write(
            TreePath::parse(&format!("{DIR}/../{}/state", second.name).replace("/default/..", "")).unwrap(),
            "error\n",
        )
        .await
        .unwrap();
        assert_eq!(sessions.current(&key).await.unwrap(), None);
        sessions.set("one", &Change::new().state(State::Active)).await.unwrap();
        assert_eq!(sessions.current(&key).await.unwrap().unwrap().name, "one");
        // Other users and agents have their own.
        let others = Sessions::new(&*fs, "bob", "coder").unwrap();
        assert_eq!(others.current(&key).await.unwrap(), None);
    }
}

#[tokio::test]
async fn session_key_follows_concurrent_reset() {
    let (fs, _folder) = account().await;
    let fs: Arc<dyn FileSystem> = fs;
    let key: SessionKey = "agent:coder:main".parse().unwrap();
    let sessions = Sessions::new(&*fs, "default", "coder").unwrap();
    sessions.create(&Create::new("old").key(key.clone())).await.unwrap();
    sessions.create(&Create::new("new")).await.unwrap();
    let at = |name: &str| TreePath::parse(&format!("/users/default/agents/coder/session/{name}")).unwrap();
    let open = fs.head().await.unwrap().seq;
    sessions.set("old", &Change::new().state(State::Done)).await.unwrap();
    let done = fs.head().await.unwrap().seq;
    let old_as_of = |seq| {
        let files = ["old/meta.json", "old/state"].map(at);
        files.map(|file| Op::copy(file.clone(), file).replace().as_of(seq))
    };
    fs.commit(Batch::new(old_as_of(open)).by_garth()).await.unwrap();
    assert_eq!(sessions.current(&key).await.unwrap().unwrap().name, "old");

    let meta = fs.read_to_string(at("new/meta.json")).await.unwrap();
    let mut meta: serde_json::Value = serde_json::from_str(&meta).unwrap();
    meta["session_key"] = key.as_str().into();
    let mut reset = old_as_of(done).to_vec();
    reset.push(Op::write(at("new/meta.json"), meta.to_string()));
    let beside = Interfering::new(&fs, Call::FetchMany, 0, reset);
    let sessions = Sessions::new(&beside, "default", "coder").unwrap();
    let (found, made) = sessions.by_key(&key, &Create::new("third")).await.unwrap();
    assert_eq!((found.name.as_str(), made), ("new", false));
}

#[tokio::test]
async fn session_list_is_paged_and_filtered() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        for n in 0..7 {
            sessions.create(&Create::new(format!("s{n}")).title(format!("T{n}"))).await.unwrap();
        }
        sessions.set("s3", &Change::new().state(State::Done)).await.unwrap();
        fs.mkdir_all("/users/default/agents/coder/session/none").await.unwrap();
        let (mut list, mut names) = (List::default(), Vec::new());
        list.limit = 3;
        loop {
            let (items, next) = sessions.list(&list).await.unwrap();
            assert!(items.len() <= 3);
            names.extend(items.into_iter().map(|session| session.name));
            match next {
                Some(next) => list.after = Some(next),
                None => break,
            }
        }
        assert_eq!(names, ["default", "s0", "s1", "s2", "s3", "s4", "s5", "s6"]);
        let mut done = List::default();
        done.state = Some(State::Done);
        assert_eq!(sessions.list(&done).await.unwrap().0.len(), 1);
        let mut bad = List::default();
        bad.limit = 0;
        assert!(sessions.list(&bad).await.is_err());
    }
}

#[tokio::test]
async fn update_changes_only_given_fields() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        let mut change = Change::new().title("The parser");
        (change.model, change.context_window) = (Some("m".to_owned()), Some(200_000));
        change.cwd = Some("/home/src".to_owned());
        let set = sessions.set("default", &change).await.unwrap();
        assert_eq!((set.cwd.as_str(), set.meta.title.as_deref()), ("/home/src", Some("The parser")));
        // Unknown fields are preserved.
        let mut meta: serde_json::Value =
            serde_json::from_slice(&fs.read_file(path("meta.json")).await.unwrap()).unwrap();
        meta["x_own"] = 7.into();
        fs.write(path("meta.json"), meta.to_string()).await.unwrap();
        let set = sessions.set("default", &Change::new().state(State::Done)).await.unwrap();
        assert_eq!((set.meta.other["x_own"].as_i64(), set.meta.model.as_deref()), (Some(7), Some("m")));
        assert!(set.meta.finished_at.is_some());
        assert!(
            sessions
                .set("default", &Change::new().state(State::Idle))
                .await
                .unwrap()
                .meta
                .finished_at
                .is_none()
        );
        for bad in [
            Change::new().title("a\nb"),
            Change::new().cwd("x"),
            Change::new().cwd("/a/../b"),
            Change::new().title("x".repeat(2000)),
        ] {
            assert_refused(sessions.set("default", &bad).await, ErrorKind::InvalidArgument, "");
        }
        let broken = Op::write(path("meta.json"), "{");
        assert_refused(fs.commit(broken.clone().into()).await, ErrorKind::RuleViolation, "garth alone");
        fs.commit(Batch::new([broken]).by_garth()).await.unwrap();
        assert_refused(sessions.get("default").await, ErrorKind::Corrupt, "garth repair");
        assert!(sessions.list(&List::default()).await.unwrap().0.is_empty());
    }
}

#[tokio::test]
async fn identity_sees_sessions_of_its_class() {
    let (account, _folder) = account().await;
    let ann = Sessions::new(&*account, "ann", "coder").unwrap();
    ann.create(&Create::new("default")).await.unwrap();
    let bob = Sessions::new(&*account, "bob", "coder").unwrap();
    bob.create(&Create::new("default")).await.unwrap();
    let open = async |request: Request| {
        Access::open(&account, &Env::system(), Caller::Holder, &request).await.unwrap()
    };
    let access = open(Request::new("coder").user("ann").chat("trip").class(Class::Main)).await;
    let own = access.sessions();
    own.append("default", &Append::messages([Draft::user("mine")])).await.unwrap();
    assert_eq!(said(&own, "default").await, ["mine"]);

    // In a group, the sessions of the group are visible.
    let key: SessionKey = "agent:coder:slack:channel:c".parse().unwrap();
    let access = open(Request::new("coder").user("ann").key(key)).await;
    access.make().await.unwrap();
    let group = access.sessions();
    group.create(&Create::new("g")).await.unwrap();
    group.append("g", &Append::messages([Draft::user("hi all")])).await.unwrap();
    assert_eq!(said(&group, "g").await, ["hi all"]);
    let names: Vec<_> = group.list(&List::default()).await.unwrap().0;
    assert_eq!(names.iter().map(|session| session.name.as_str()).collect::<Vec<_>>(), ["g"]);
    assert_eq!(names[0].meta.class, Class::Group);
    assert_eq!(names[0].meta.user, ":slack:channel:c");
    assert_refused(group.get("default").await, ErrorKind::NotFound, "");
    let channel = Sessions::new(&*account, ":slack:channel:c", "coder").unwrap();
    assert_eq!(said(&channel, "g").await, ["hi all"]);

    // In a direct message, those of the class `main` are hidden.
    let access = open(Request::new("coder").user("ann").class(Class::Dm)).await;
    let dm = access.sessions();
    dm.create(&Create::new("d")).await.unwrap();
    let names: Vec<_> = dm.list(&List::default()).await.unwrap().0;
    assert_eq!(names.iter().map(|session| session.name.as_str()).collect::<Vec<_>>(), ["d", "default"]);
    // Ann is not the owner, so her sessions are of the class `dm` themselves.
    assert_eq!(names[1].meta.class, Class::Dm);
    let main = open(Request::new("coder").user("ann").class(Class::Main)).await;
    main.sessions().create(&Create::new("m")).await.unwrap();
    let access = open(Request::new("coder").user("ann").class(Class::Dm)).await;
    assert_refused(access.sessions().get("m").await, ErrorKind::NotFound, "");
    assert_eq!(access.sessions().list(&List::default()).await.unwrap().0.len(), 2);
    assert_eq!(main.sessions().list(&List::default()).await.unwrap().0.len(), 3);
}
