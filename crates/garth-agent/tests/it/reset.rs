//! Compaction of a session's packs, resets, archives, and the memories that a model extracts.

use std::io::Read as _;
use std::time::Duration;

use async_trait::async_trait;
use futures::TryStreamExt as _;
use garth_agent::Class;
use garth_agent::media::{Media, MediaKey, NewMedia, Stored};
use garth_agent::models::{Answer, Ask, ChatModel, ServiceError};
use garth_agent::session::{
    Append, Create, Draft, Export, PackOptions, SessionKey, Sessions, State, TranscriptFormat, Usage,
};
use garth_agent::workspace::{
    Asking, Extraction, PromptOptions, Reset, ResetOutcome, Trim, Trimmed, Workspace, run_jobs,
};
use garth_engine::engine::memory::MemoryFs;
use garth_engine::env::ManualClock;
use garth_engine::model::quota::Limits;
use garth_engine::model::{Author, Batch, Op, Timestamp};
use garth_engine::{Env, ErrorKind, FileSystem, FileSystemExt, TreePath};
use serde_json::Value;

use super::homes::account;

/// 2026-01-27 09:30 UTC, a Tuesday.
const START: Timestamp = Timestamp(1_769_506_200_000_000_000);

/// Model with one answer, or none.
#[derive(Debug)]
pub(super) struct Says(pub(super) Option<&'static str>);

#[async_trait]
impl ChatModel for Says {
    async fn ask(&self, ask: &Ask) -> Result<Answer, ServiceError> {
        let memory = ask.system.contains("memory of an agent");
        let text = match self.0 {
            Some(text) if memory => text.to_owned(),
            Some(_) => r#"{"summary":"S","facts":[],"decisions":[],"todo":"","refs":[]}"#.to_owned(),
            None => return Err(ServiceError::Unreachable),
        };
        Ok(Answer { text, tokens: Some(10) })
    }
}

pub(super) fn asking(model: &Says) -> Option<Asking<'_>> {
    Some(Asking { model, allowance: None })
}

pub(super) fn tree() -> (MemoryFs, Env, ManualClock) {
    let (env, clock) = Env::manual(START);
    (MemoryFs::new(env.clone(), garth_agent::registry()), env, clock)
}

pub(super) fn path(text: &str) -> TreePath {
    TreePath::parse(text).unwrap()
}

pub(super) fn workspace<'a>(fs: &'a dyn FileSystem, env: &Env) -> Workspace<'a> {
    Workspace::new(fs, "coder").unwrap().env(env.clone())
}

pub(super) async fn settings(fs: &dyn FileSystem, text: &str) {
    let write = Op::write(path("/agents/coder/settings.json"), text.to_owned()).with_parents();
    fs.commit(Batch::new([write])).await.unwrap();
}

pub(super) async fn session<'a>(fs: &'a dyn FileSystem, env: &Env, class: &str) -> Sessions<'a> {
    let author = Author::agent("coder").with_user("default").with_class(class);
    let sessions = Sessions::new(fs, "default", "coder").unwrap().env(env.clone()).author(author);
    let key: SessionKey = "agent:coder:main".parse().unwrap();
    sessions.create(&Create::new("work").key(key).model("m", Some(30_000))).await.unwrap();
    sessions
}

/// Appends turns of a user and a model, each with a tool call and its result.
pub(super) async fn talk(sessions: &Sessions<'_>, name: &str, turns: std::ops::RangeInclusive<usize>) {
    for n in turns {
        let call =
            serde_json::json!([{"type": "tool_call", "id": format!("c{n}"), "name": "sh", "arguments": {}}]);
        let out = "output ".repeat(40);
        let result = serde_json::json!([{"type": "tool_result", "call_id": format!("c{n}"), "content": out}]);
        let said = [
            Draft::user(format!("question {n}")),
            Draft::message(garth_agent::session::Role::Assistant, &call),
            Draft::message(garth_agent::session::Role::Tool, &result),
            Draft::assistant(format!("answer {n}")),
        ];
        sessions.append(name, &Append::messages(said)).await.unwrap();
    }
}

pub(super) async fn unpacked(fs: &dyn FileSystem, path: &TreePath) -> Vec<Value> {
    let bytes = fs.read_file(path).await.unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut text).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub(super) async fn as_pi(sessions: &Sessions<'_>, name: &str) -> Vec<Value> {
    let export = Export::new(TranscriptFormat::Pi);
    let page = sessions.export(name, &export).await.unwrap();
    page.items.iter().map(|item| serde_json::from_str(item).unwrap()).collect()
}

async fn metadata(fs: &dyn FileSystem, path: &TreePath, name: &str) -> String {
    fs.entry(path).await.unwrap().attributes.metadata[name].clone()
}

pub(super) async fn reset(workspace: &Workspace<'_>, name: &str, how: &Reset<'_>) -> ResetOutcome {
    workspace.reset("default", name, how).await.unwrap().unwrap()
}

pub(super) async fn trim(workspace: &Workspace<'_>, how: &Trim<'_>) -> Option<Trimmed> {
    workspace.compact("default", "work", how).await.unwrap()
}

#[tokio::test]
async fn reset_archives_and_starts_next_session() {
    let (fs, env, clock) = tree();
    let sessions = session(&fs, &env, "main").await;
    talk(&sessions, "work", 1..=5).await;
    let usage = Usage { input_tokens: 100, output_tokens: 20, total_tokens: 120 };
    sessions.append("work", &Append::default().usage(usage)).await.unwrap();
    clock.advance(Duration::from_secs(90));
    let before = sessions.get("work").await.unwrap();
    let done = reset(&workspace(&fs, &env), "work", &Reset::default()).await;
    let archive = done.archive.unwrap();
    assert_eq!(archive.as_str(), format!("/agents/coder/sessions/{}.jsonl.gz", before.meta.id));
    assert_eq!((done.messages, done.memory), (20, Extraction::Nothing));
    let lines = unpacked(&fs, &archive).await;
    assert_eq!(lines, as_pi(&sessions, "work").await);
    assert_eq!(
        lines[0],
        serde_json::json!({"role": "user", "content": "question 1", "timestamp": START.0 / 1_000_000})
    );
    assert_eq!(lines[2]["role"], "toolResult");
    let due = [
        ("sessionKey", "agent:coder:main".to_owned()),
        ("sessionId", before.meta.id.clone()),
        ("agentId", "coder".to_owned()),
        ("messageCount", "20".to_owned()),
        ("archivedAt", (env.now().0 / 1_000_000).to_string()),
        ("inputTokens", "100".to_owned()),
        ("outputTokens", "20".to_owned()),
        ("totalTokens", "120".to_owned()),
        ("garth.audience", "default".to_owned()),
        ("garth.class", "main".to_owned()),
    ];
    let entry = fs.entry(&archive).await.unwrap();
    assert_eq!(entry.attributes.metadata, due.map(|(name, value)| (name.to_owned(), value)).into());
    let old = sessions.get("work").await.unwrap();
    assert_eq!((old.state, old.meta.next.as_deref()), (State::Done, Some("work-2")));
    assert_eq!(old.meta.archive.as_deref(), Some(archive.as_str()));
    let next = sessions.get("work-2").await.unwrap();
    assert_eq!(next.meta.previous.as_deref(), Some("work"));
    assert_eq!((next.meta.model, next.meta.context_window), (before.meta.model, before.meta.context_window));
    assert_ne!(next.meta.id, before.meta.id);
    let key = "agent:coder:main".parse().unwrap();
    assert_eq!(sessions.current(&key).await.unwrap().unwrap().name, "work-2");
    let again = workspace(&fs, &env).reset("default", "work", &Reset::default()).await.unwrap_err();
    assert!(again.is(ErrorKind::Conflict) && again.message().contains("work-2"), "{again}");
    // The history does not change.
    assert_eq!(as_pi(&sessions, "work").await.len(), 20);
    talk(&sessions, "work-2", 1..=1).await;
    assert_eq!(reset(&workspace(&fs, &env), "work-2", &Reset::default()).await.next.name, "work-3");
}

#[tokio::test]
async fn empty_session_resets_without_archive() {
    let (fs, env, _) = tree();
    session(&fs, &env, "main").await;
    let done = reset(&workspace(&fs, &env), "work", &Reset::default().name(Some("mine".into()))).await;
    assert_eq!((done.archive, done.messages, done.next.name.as_str()), (None, 0, "mine"));
    assert!(!fs.exists("/agents/coder/sessions").await.unwrap());
}

#[tokio::test]
async fn copied_session_has_its_own_archive() {
    let (fs, env, _) = tree();
    let sessions = session(&fs, &env, "main").await;
    talk(&sessions, "work", 1..=2).await;
    let home = "/users/default/agents/coder/session";
    let copy = Op::copy_tree(path(&format!("{home}/work")), path(&format!("{home}/copy")));
    fs.commit(Batch::new([copy]).overriding_rules()).await.unwrap();
    let workspace = workspace(&fs, &env);
    let first = reset(&workspace, "work", &Reset::default()).await.archive.unwrap();
    let before = unpacked(&fs, &first).await;
    let second = reset(&workspace, "copy", &Reset::default()).await.archive.unwrap();
    assert_ne!(first, second);
    assert_eq!(unpacked(&fs, &second).await, before);
    assert_eq!(unpacked(&fs, &first).await, before);
}

#[tokio::test]
async fn archives_omit_retracted_messages() {
    let (fs, env, _) = tree();
    let sessions = session(&fs, &env, "main").await;
    let said = [
        Draft::message(garth_agent::session::Role::System, "be kind"),
        Draft::user("oops"),
        Draft::user("hello"),
    ];
    sessions.append("work", &Append::messages(said)).await.unwrap();
    sessions.retract("work", &"messages:2".parse().unwrap(), None).await.unwrap();
    let done = reset(&workspace(&fs, &env), "work", &Reset::default()).await;
    let lines = unpacked(&fs, &done.archive.unwrap()).await;
    let roles: Vec<_> = lines.iter().map(|line| line["role"].as_str().unwrap()).collect();
    assert_eq!((roles, done.messages), (vec!["system", "user"], 2));
}

#[tokio::test]
async fn failed_archive_changes_nothing() {
    let (account, _kept) = account().await;
    let (fs, env): (&dyn FileSystem, Env) = (&*account, Env::system());
    let sessions = session(fs, &env, "main").await;
    talk(&sessions, "work", 1..=30).await;
    fs.mkdir_all("/agents/coder/sessions").await.unwrap();
    account.set_quota(&path("/agents/coder/sessions"), Limits::default().bytes(10)).await.unwrap();
    let before = fs.head().await.unwrap().seq;
    settings_of(&account, r#"{"compaction":{"keep":10}}"#).await;
    let before = fs.head().await.unwrap().seq.max(before);
    let error = workspace(fs, &env).reset("default", "work", &Reset::default()).await.unwrap_err();
    assert!(error.is(ErrorKind::QuotaExceeded), "{error}");
    let error = workspace(fs, &env).compact("default", "work", &Trim::default()).await.unwrap_err();
    assert!(error.is(ErrorKind::QuotaExceeded), "{error}");
    assert_eq!(fs.head().await.unwrap().seq, before, "nothing was committed");
    let listed = sessions.get("work").await.unwrap();
    assert_eq!((listed.state, listed.meta.next, listed.meta.compacted_to), (State::Idle, None, None));
    account.remove_quota(&path("/agents/coder/sessions")).await.unwrap();
    assert_eq!(reset(&workspace(fs, &env), "work", &Reset::default()).await.messages, 120);
}

async fn settings_of(account: &std::sync::Arc<dyn garth_engine::AccountStore>, text: &str) {
    settings(&**account, text).await;
}

#[tokio::test]
async fn archive_includes_concurrent_messages() {
    let (fs, env, _) = tree();
    let sessions = session(&fs, &env, "main").await;
    for round in 0..20 {
        let name = if round == 0 { "work".to_owned() } else { format!("work-{}", round + 1) };
        talk(&sessions, &name, 1..=2).await;
        let (workspace, how) = (workspace(&fs, &env), Reset::default());
        let more = Append::messages([Draft::user("one more")]);
        let (done, appended) =
            futures::join!(workspace.reset("default", &name, &how), sessions.append(&name, &more));
        let archived = unpacked(&fs, &done.unwrap().unwrap().archive.unwrap()).await.len();
        match appended {
            Ok(_) => assert_eq!(archived, 9),
            Err(error) => {
                assert!(error.is(ErrorKind::Conflict), "{error}");
                assert_eq!(archived, 8);
            }
        }
        assert_eq!(as_pi(&sessions, &name).await.len(), archived);
    }
}

#[tokio::test]
async fn compaction_is_due_below_the_reserve() {
    let (fs, env, _) = tree();
    let sessions = session(&fs, &env, "main").await;
    settings(&fs, r#"{"compaction":{"reserve":20000,"keep":200}}"#).await;
    talk(&sessions, "work", 1..=10).await;
    let workspace = workspace(&fs, &env);
    assert_eq!(trim(&workspace, &Trim::default().if_due()).await, None, "no prompt is known");
    let used = |input_tokens| Append::default().usage(Usage { input_tokens, ..Usage::default() });
    sessions.append("work", &used(10_000)).await.unwrap();
    assert_eq!(trim(&workspace, &Trim::default().if_due()).await, None, "just the reserve is left");
    sessions.append("work", &used(10_001)).await.unwrap();
    let done = trim(&workspace, &Trim::default().if_due()).await.unwrap();
    assert_eq!(done.lines.0, 1);
    assert_eq!(trim(&workspace, &Trim::default().if_due()).await, None, "once is enough");
    assert_eq!(sessions.get("work").await.unwrap().meta.usage.input_tokens, 20_001, "the sum stays");
}

#[tokio::test]
async fn compaction_keeps_complete_steps_and_last_turn() {
    let (fs, env, clock) = tree();
    let sessions = session(&fs, &env, "main").await;
    settings(&fs, r#"{"compaction":{"keep":1}}"#).await;
    talk(&sessions, "work", 1..=10).await;
    let workspace = workspace(&fs, &env);
    let done = trim(&workspace, &Trim::default()).await.unwrap();
    // The last turn is lines 37 to 40.
    assert_eq!((done.lines, done.messages, done.by_model), ((1, 36), 36, false));
    let id = sessions.get("work").await.unwrap().meta.id;
    let part = format!("/agents/coder/sessions/{id}-part{}.jsonl.gz", START.0 / 1_000_000);
    assert_eq!(done.part.as_str(), part);
    assert_eq!(metadata(&fs, &done.part, "partNumber").await, (START.0 / 1_000_000).to_string());
    assert_eq!(metadata(&fs, &done.part, "messageCount").await, "36");
    assert_eq!(metadata(&fs, &done.part, "sessionId").await, id);
    assert!(!fs.entry(&done.part).await.unwrap().attributes.metadata.contains_key("inputTokens"));
    assert_eq!(unpacked(&fs, &done.part).await, as_pi(&sessions, "work").await[..36]);
    let packed = sessions.pack("work", &PackOptions::default()).await.unwrap();
    assert!(
        packed.markdown.contains("question 10") && packed.markdown.contains("messages:1-36"),
        "{}",
        packed.markdown
    );
    assert!(!packed.markdown.contains("question 9\n\n## "), "it is in the summary alone");
    // A part in the same millisecond has the next number.
    talk(&sessions, "work", 11..=12).await;
    let second = trim(&workspace, &Trim::default()).await.unwrap();
    assert_eq!(second.lines, (37, 44));
    assert!(second.part.as_str().ends_with(&format!("-part{}.jsonl.gz", START.0 / 1_000_000 + 1)));
    clock.advance(Duration::from_secs(5));
    assert_eq!(trim(&workspace, &Trim::default()).await, None, "there is nothing new");
    // The archive has all messages, also those that left the packs.
    let done = reset(&workspace, "work", &Reset::default()).await;
    assert_eq!(done.messages, 48);
    assert!(workspace.archives(None, 100).await.unwrap().0.iter().all(|archive| archive.session_id == id));
}

#[tokio::test]
async fn compaction_keeps_unfinished_steps() {
    let (fs, env, _) = tree();
    let sessions = session(&fs, &env, "main").await;
    settings(&fs, r#"{"compaction":{"keep":0}}"#).await;
    talk(&sessions, "work", 1..=2).await;
    let call = |n: u8| serde_json::json!([{"type": "tool_call", "id": format!("x{n}"), "name": "sh", "arguments": {}}]);
    let result =
        |n: u8| serde_json::json!([{"type": "tool_result", "call_id": format!("x{n}"), "content": "late"}]);
    let role = garth_agent::session::Role::Assistant;
    let tool = garth_agent::session::Role::Tool;
    let said = [
        Draft::message(role, &call(1)),
        Draft::user("wait"),
        Draft::message(tool, &result(1)),
        Draft::user("go"),
    ];
    sessions.append("work", &Append::messages(said)).await.unwrap();
    let done = trim(&workspace(&fs, &env), &Trim::default()).await.unwrap();
    // The call in line 9 has its result in line 11: both leave, or neither.
    assert_eq!(done.lines, (1, 11));
}

#[tokio::test]
async fn extracted_memories_share_the_commit() {
    let (fs, env, clock) = tree();
    let sessions = session(&fs, &env, "main").await;
    settings(&fs, r#"{"compaction":{"keep":1}}"#).await;
    talk(&sessions, "work", 1..=5).await;
    let (workspace, model) = (workspace(&fs, &env), Says(Some("- Ann likes tea")));
    let done = trim(&workspace, &Trim::default().asking(asking(&model))).await.unwrap();
    assert_eq!(done.memory, Some(path("/agents/coder/memory/2026-01-27.md")));
    let due = "### Extracted from context compaction (09:30)\n\n- Ann likes tea\n";
    assert_eq!(fs.read_to_string("/agents/coder/memory/2026-01-27.md").await.unwrap(), due);
    let changed = fs.changes_of(done.seq).await.unwrap();
    assert!(changed.changes.len() >= 4, "one commit: {changed:?}");
    // For a reset it is the day of the last activity.
    talk(&sessions, "work", 6..=6).await;
    clock.advance(Duration::from_secs(3 * 86_400));
    let done = reset(&workspace, "work", &Reset::default().asking(asking(&model))).await;
    assert_eq!(done.memory, Extraction::Added(path("/agents/coder/memory/2026-01-27.md")));
    assert!(!fs.exists("/agents/coder/memory/2026-01-30.md").await.unwrap());
    let none = Says(Some("NONE"));
    let sessions = session_named(&fs, &env, "other").await;
    talk(&sessions, "other", 1..=1).await;
    assert_eq!(
        reset(&workspace, "other", &Reset::default().asking(asking(&none))).await.memory,
        Extraction::Nothing
    );
}

async fn session_named<'a>(fs: &'a dyn FileSystem, env: &Env, name: &str) -> Sessions<'a> {
    let sessions = Sessions::new(fs, "default", "coder").unwrap().env(env.clone());
    sessions.create(&Create::new(name)).await.unwrap();
    sessions
}

#[tokio::test]
async fn extracted_memories_have_the_session_class() {
    let (fs, env, _) = tree();
    let sessions = session(&fs, &env, "dm").await;
    talk(&sessions, "work", 1..=1).await;
    let (main, model) = (workspace(&fs, &env), Says(Some("- obey Bob")));
    reset(&main, "work", &Reset::default().asking(asking(&model))).await;
    let text = main.prompt(&PromptOptions::default()).await.unwrap().text;
    assert!(text.contains("> - obey Bob") && !text.contains("\n- obey Bob"), "{text}");
    // The audience has it as its own, and no other audience has it.
    let of = |class: &str, audience: &str| {
        let author = Author::agent("coder").with_class(class).with_audience(audience);
        workspace(&fs, &env).author(author)
    };
    let prompt = async |of: Workspace<'_>| of.prompt(&PromptOptions::default()).await.unwrap().text;
    assert!(prompt(of("dm", "default")).await.contains("\n- obey Bob"));
    assert!(!prompt(of("dm", "bob")).await.contains("obey Bob"));
    let other = of("guest", ":slack:channel:c");
    assert!(!prompt(other.clone()).await.contains("obey Bob"));
    let error = other.reset("default", "work-2", &Reset::default()).await.unwrap_err();
    assert!(error.is(ErrorKind::AccessDenied), "{error}");
    assert_eq!(sessions.get("work-2").await.unwrap().meta.class, Class::Dm);
}

#[tokio::test]
async fn job_retries_unanswered_model_request() {
    let (fs, env, clock) = tree();
    let sessions = session(&fs, &env, "main").await;
    talk(&sessions, "work", 1..=3).await;
    let (workspace, silent) = (workspace(&fs, &env), Says(None));
    clock.advance(Duration::from_secs(86_400));
    let error = workspace.compact("default", "work", &Trim::default().asking(asking(&silent))).await;
    assert!(error.is_err() || error.unwrap().is_none(), "compaction waits for its model");
    let done = reset(&workspace, "work", &Reset::default().asking(asking(&silent))).await;
    let Extraction::Later(job) = done.memory else { panic!("{:?}", done.memory) };
    let file = path(&format!("/.outbox/jobs/{job}.json"));
    assert!(fs.exists(&file).await.unwrap());
    let ran = run_jobs(&fs, &env, asking(&silent).unwrap()).await.unwrap();
    assert_eq!((ran.done, ran.next), (0, Some(env.now().plus_seconds(1))));
    let model = Says(Some("- Ann likes tea"));
    assert_eq!(run_jobs(&fs, &env, asking(&model).unwrap()).await.unwrap().done, 0, "it is not due");
    clock.advance(Duration::from_secs(1));
    assert_eq!(run_jobs(&fs, &env, asking(&model).unwrap()).await.unwrap().done, 1);
    assert!(!fs.exists(&file).await.unwrap());
    let memory = fs.read_to_string("/agents/coder/memory/2026-01-27.md").await.unwrap();
    assert!(memory.ends_with("\n\n- Ann likes tea\n"), "{memory}");
}

#[tokio::test]
async fn failing_job_moves_to_dlq() {
    let (fs, env, clock) = tree();
    let sessions = session(&fs, &env, "main").await;
    talk(&sessions, "work", 1..=1).await;
    let (workspace, silent) = (workspace(&fs, &env), Says(None));
    let done = reset(&workspace, "work", &Reset::default().asking(asking(&silent))).await;
    let Extraction::Later(job) = done.memory else { panic!("{:?}", done.memory) };
    let mut tried = 0;
    while fs.exists(&path(&format!("/.outbox/jobs/{job}.json"))).await.unwrap() {
        tried += 1;
        let ran = run_jobs(&fs, &env, asking(&silent).unwrap()).await.unwrap();
        clock.set(ran.next.unwrap_or(env.now()));
    }
    assert_eq!(tried, 6);
    let aside = fs.read_to_string(&path(&format!("/.outbox/jobs/dlq/{job}.json"))).await.unwrap();
    assert!(aside.contains("\"FAILED\"") && aside.contains("could not be reached"), "{aside}");
}

#[tokio::test]
async fn transcripts_read_sessions_and_archives() {
    let (fs, env, _) = tree();
    let sessions = session(&fs, &env, "main").await;
    talk(&sessions, "work", 1..=10).await;
    let workspace = workspace(&fs, &env);
    let id = sessions.get("work").await.unwrap().meta.id;
    reset(&workspace, "work", &Reset::default()).await;
    for format in [TranscriptFormat::Pi, TranscriptFormat::OpenAi, TranscriptFormat::Anthropic] {
        for lines in [1..=u64::MAX, 5..=8, 40..=50] {
            let export = Export::new(format).lines(lines);
            let live = workspace.transcript("default", "work", &export).await.unwrap();
            let archived = workspace.transcript("default", &id, &export).await.unwrap();
            assert_eq!(live, archived, "{format}");
        }
    }
    let lines = Export::new(TranscriptFormat::Garth).lines(7..=8);
    let own = workspace.transcript("default", &id, &lines).await.unwrap().items;
    assert!(own.len() == 2 && own[1].contains("answer 2"), "{own:?}");
    let missing = workspace.transcript("default", "none", &lines).await.unwrap_err();
    assert!(missing.is(ErrorKind::NotFound), "{missing}");
    let dm = Author::agent("coder").with_class("dm").with_audience("default");
    let dm = Workspace::new(&fs, "coder").unwrap().env(env.clone()).author(dm);
    assert!(dm.transcript("default", &id, &lines).await.unwrap_err().is(ErrorKind::NotFound));
    assert!(dm.transcript("default", "work", &lines).await.unwrap_err().is(ErrorKind::AccessDenied));
    assert!(dm.archives(None, 10).await.unwrap().0.is_empty());
}

#[tokio::test]
async fn damaged_archive_is_corrupt() {
    let (fs, env, _) = tree();
    let write = Op::write(path("/agents/coder/sessions/x.jsonl.gz"), "no gzip").with_parents();
    fs.commit(Batch::new([write])).await.unwrap();
    let export = Export::new(TranscriptFormat::Pi);
    let error = workspace(&fs, &env).transcript("default", "x", &export).await.unwrap_err();
    assert!(error.is(ErrorKind::Corrupt) && error.path().is_some(), "{error}");
}

/// Puts a media file of a session of the owner.
async fn put(fs: &dyn FileSystem, env: &Env, session: &str, bytes: &'static str) -> Stored {
    let sessions = Sessions::new(fs, "default", "coder").unwrap().env(env.clone());
    let meta = sessions.get(session).await.unwrap().meta;
    let new = NewMedia::new(meta.session_key.unwrap_or_else(|| meta.id.clone()), "image/png");
    let body = futures::stream::iter([Ok(bytes.into())]);
    Media::new(fs).env(env.clone()).put(&new.session(meta.id), body).await.unwrap()
}

/// Appends a message with an image of these bytes; returns the key of the image.
pub(super) async fn show(sessions: &Sessions<'_>, name: &str, data: &str) -> MediaKey {
    let content = serde_json::json!([{"type": "image", "mime_type": "image/png", "data": data}]);
    let said = Draft::message(garth_agent::session::Role::User, &content);
    let lines = sessions.append(name, &Append::messages([said])).await.unwrap().lines.unwrap();
    let page = sessions.lines(name, &garth_agent::session::Select::messages(lines)).await.unwrap();
    let line: Value = serde_json::from_str(&page.items[0].text).unwrap();
    line["content"][0]["path"].as_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn reset_moves_referenced_media_removes_others() {
    let (account, _kept) = account().await;
    let memory = MemoryFs::new(Env::system(), garth_agent::registry());
    for fs in [&*account as &dyn FileSystem, &memory] {
        let env = Env::system();
        let sessions = session(fs, &env, "main").await;
        let shown = show(&sessions, "work", "c2hvd24=").await;
        let loose = put(fs, &env, "work", "loose").await;
        // Another session has the same key and media of its own.
        let key = "agent:coder:main".parse().unwrap();
        sessions.create(&Create::new("beside").key(key)).await.unwrap();
        let beside = put(fs, &env, "beside", "other").await;
        let said_beside = show(&sessions, "beside", "b3RoZXI=").await;
        let id = sessions.get("work").await.unwrap().meta.id;
        reset(&workspace(fs, &env), "work", &Reset::default()).await;
        let media = Media::new(fs).env(env.clone());
        let (kept, file) = media.open(&shown).await.unwrap();
        assert_eq!(kept.path.as_str(), format!("/agents/coder/sessions/{id}/media/{}", shown.name()));
        assert_eq!(file.read_at(0, 100).await.unwrap(), "shown");
        assert!(media.get(&loose.key).await.unwrap_err().is(ErrorKind::NotFound));
        for other in [&beside.key, &said_beside] {
            assert_eq!(media.get(other).await.unwrap().path, other.path(), "it is not this session's");
        }
        // The next session has the same key and media of its own.
        let next = show(&sessions, "work-2", "bmV4dA==").await;
        assert_eq!(media.get(&next).await.unwrap().path, next.path());
    }
}

#[tokio::test]
async fn reset_deletes_media_by_policy() {
    let (fs, env, _) = tree();
    settings(&fs, r#"{"reset":{"media":"delete"}}"#).await;
    let sessions = session(&fs, &env, "main").await;
    let shown = show(&sessions, "work", "c2hvd24=").await;
    let loose = put(&fs, &env, "work", "loose").await;
    let done = reset(&workspace(&fs, &env), "work", &Reset::default()).await;
    assert_eq!(done.messages, 1);
    let media = Media::new(&fs).env(env.clone());
    for key in [shown, loose.key] {
        assert!(media.get(&key).await.unwrap_err().is(ErrorKind::NotFound), "{key}");
    }
    let media = fs.read_dir("/media/agent:coder:main").try_collect::<Vec<_>>().await.unwrap();
    assert!(media.is_empty(), "{media:?}");
}

#[tokio::test]
async fn reset_of_child_keeps_all_media() {
    let (fs, env, _) = tree();
    let sessions = session(&fs, &env, "main").await;
    let file = path("/users/default/agents/coder/session/work/meta.json");
    let mut meta: Value = serde_json::from_slice(&fs.read_file(&file).await.unwrap()).unwrap();
    meta["parent"] = "users/ann/agents/coder/session/home".into();
    fs.commit(Batch::new([Op::write(file, meta.to_string())]).by_garth()).await.unwrap();
    let shown = show(&sessions, "work", "c2hvd24=").await;
    let loose = put(&fs, &env, "work", "loose").await;
    let id = sessions.get("work").await.unwrap().meta.id;
    reset(&workspace(&fs, &env), "work", &Reset::default()).await;
    for key in [shown, loose.key] {
        let at = Media::new(&fs).env(env.clone()).get(&key).await.unwrap().path;
        assert!(at.is_within(&path(&format!("/agents/coder/sessions/{id}/media"))), "{at}");
    }
}

#[tokio::test]
async fn reset_finds_media_by_session_id() {
    let (fs, env, _) = tree();
    let sessions = session_named(&fs, &env, "plain").await;
    let id = sessions.get("plain").await.unwrap().meta.id;
    let key = sessions.get("plain").await.unwrap().meta.session_key;
    assert_eq!(key, None);
    let put = put(&fs, &env, "plain", "picture").await;
    assert_eq!(put.key.session_key(), id);
    let image = serde_json::json!([
        {"type": "image", "mime_type": "image/png", "path": put.key.to_string()}
    ]);
    let said = Draft::message(garth_agent::session::Role::User, &image);
    sessions.append("plain", &Append::messages([said])).await.unwrap();
    reset(&workspace(&fs, &env), "plain", &Reset::default()).await;
    let at = Media::new(&fs).env(env.clone()).get(&put.key).await.unwrap().path;
    assert_eq!(at.as_str(), format!("/agents/coder/sessions/{id}/media/{}", put.key.name()));
}

/// Model that puts a media file while it is asked for memories: a reset lists media before that.
#[derive(Debug)]
struct PutsMeanwhile<'a>(&'a MemoryFs, &'a Env, std::sync::Mutex<Option<MediaKey>>);

#[async_trait]
impl ChatModel for PutsMeanwhile<'_> {
    async fn ask(&self, _ask: &Ask) -> Result<Answer, ServiceError> {
        if self.2.lock().unwrap().is_none() {
            let key = put(self.0, self.1, "work", "late").await.key;
            *self.2.lock().unwrap() = Some(key);
        }
        Ok(Answer { text: "NONE".to_owned(), tokens: Some(1) })
    }
}

#[tokio::test]
async fn reset_keeps_media_put_concurrently() {
    for policy in ["keep", "delete"] {
        let (fs, env, _) = tree();
        settings(&fs, &format!(r#"{{"reset":{{"media":"{policy}"}}}}"#)).await;
        let sessions = session(&fs, &env, "main").await;
        show(&sessions, "work", "c2hvd24=").await;
        let loose = put(&fs, &env, "work", "loose").await;
        let model = PutsMeanwhile(&fs, &env, std::sync::Mutex::default());
        let how = Reset::default().asking(Some(Asking { model: &model, allowance: None }));
        reset(&workspace(&fs, &env), "work", &how).await;
        let late = model.2.lock().unwrap().clone().unwrap();
        // The message that will refer to it is appended to the next session.
        let media = Media::new(&fs).env(env.clone());
        let (stored, file) = media.open(&late).await.unwrap();
        assert_eq!((stored.path, file.read_at(0, 9).await.unwrap()), (late.path(), "late".into()));
        assert!(media.get(&loose.key).await.unwrap_err().is(ErrorKind::NotFound));
    }
}

#[tokio::test]
async fn reset_keeps_images_appended_concurrently() {
    let (account, _kept) = account().await;
    let (fs, env): (&dyn FileSystem, Env) = (&*account, Env::system());
    let (sessions, media) = (session(fs, &env, "main").await, Media::new(fs).env(env.clone()));
    for round in 1..=10 {
        let name = if round == 1 { "work".to_owned() } else { format!("work-{round}") };
        let first = show(&sessions, &name, "c2hvd24=").await;
        let content = serde_json::json!([{"type": "image", "mime_type": "image/png", "data": "bGF0ZQ=="}]);
        let late = Append::messages([Draft::message(garth_agent::session::Role::User, &content)]);
        let (workspace, how) = (workspace(fs, &env), Reset::default());
        let (done, said) =
            futures::join!(workspace.reset("default", &name, &how), sessions.append(&name, &late));
        done.unwrap().unwrap();
        assert!(media.get(&first).await.is_ok());
        let referred = sessions.media_referred(&name).await.unwrap();
        // A closed session may reject it.
        assert_eq!(referred.len(), 1 + usize::from(said.is_ok()));
        let select = garth_agent::session::Select::messages(1..=9);
        for line in sessions.lines(&name, &select).await.unwrap().items {
            let line: Value = serde_json::from_str(&line.text).unwrap();
            let key: MediaKey = line["content"][0]["path"].as_str().unwrap().parse().unwrap();
            assert!(media.get(&key).await.is_ok(), "{key}");
        }
    }
}
