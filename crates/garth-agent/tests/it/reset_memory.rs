//! Tool names in archives, extracted memories when a day has no room, and text that outlasts retractions.

use garth_agent::memory::{Level, Memories, Uri};
use garth_agent::session::{Derive, Export, Import, TranscriptFormat};
use std::sync::Arc;
use std::time::Duration;

use garth_agent::workspace::{Extraction, Reset, Trim, run_jobs};
use garth_engine::model::Op;
use garth_engine::{ErrorKind, FileSystem, FileSystemExt};
use garth_testkit::fs::interfering::{Call, Interfering};
use serde_json::Value;

use super::reset::{
    Says, as_pi, asking, path, reset, session, settings, talk, tree, trim, unpacked, workspace,
};

#[tokio::test]
async fn archived_results_name_their_tools() {
    let (fs, env, _clock) = tree();
    let sessions = session(&fs, &env, "main").await;
    let call = |id: &str, name: &str| {
        let function = serde_json::json!({"name": name, "arguments": "{}"});
        serde_json::json!({"role": "assistant", "tool_calls": [{"id": id, "type": "function", "function": function}]})
    };
    let result = |id: &str| serde_json::json!({"role": "tool", "tool_call_id": id, "content": "done"});
    let mut said = vec![call("a", "sh"), call("b", "grep")];
    // More than are read at once lie between a call and its result.
    said.extend((0..120).map(|n| serde_json::json!({"role": "user", "content": format!("wait {n}")})));
    said.extend([result("b"), result("a"), call("a", "find"), result("a"), result("nobody")]);
    let said = serde_json::json!({ "messages": said }).to_string();
    sessions.import("work", &Import::new(TranscriptFormat::OpenAi, &said)).await.unwrap();
    let names = |lines: &[Value]| {
        let results = lines.iter().filter(|line| line["role"] == "toolResult");
        results.map(|line| line["toolName"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let due = ["grep", "sh", "find", ""];
    assert_eq!(names(&as_pi(&sessions, "work").await), due);
    // What an export adds is no other message when it comes again.
    let again: String = as_pi(&sessions, "work").await.iter().map(|line| format!("{line}\n")).collect();
    let again = Import::new(TranscriptFormat::Pi, &again).whole();
    assert_eq!(sessions.import("work", &again).await.unwrap().new, 0);
    // A page that begins after the calls looks back for them.
    let page = Export::new(TranscriptFormat::Pi).lines(123..=u64::MAX);
    let page = sessions.export("work", &page).await.unwrap().items;
    let page: Vec<Value> = page.iter().map(|item| serde_json::from_str(item).unwrap()).collect();
    assert_eq!(names(&page), due);
    let done = reset(&workspace(&fs, &env), "work", &Reset::default()).await;
    assert_eq!(names(&unpacked(&fs, &done.archive.unwrap()).await), due);
}

/// Blocks the files of today, from the first to `last`.
async fn block(fs: &dyn FileSystem, how: &str, last: usize) {
    fs.mkdir_all("/agents/coder/memory").await.unwrap();
    fs.write("/agents/coder/elsewhere.md", "notes").await.unwrap();
    for number in 1..=last {
        let day = match number {
            1 => path("/agents/coder/memory/2026-01-27.md"),
            number => path(&format!("/agents/coder/memory/2026-01-27-{number}.md")),
        };
        let op = match how {
            "full" => Op::write(day, "full\n".repeat((1 << 20) / 5)),
            "too long" => Op::write(day, "x".repeat((1 << 20) + 1)),
            "directory" => Op::mkdir_all(day),
            "link" => Op::symlink(day, "/agents/coder/elsewhere.md"),
            _ => Op::link(path("/agents/coder/elsewhere.md"), day),
        };
        fs.commit(op.into()).await.unwrap();
    }
}

#[tokio::test]
async fn full_day_stops_neither_compaction_nor_reset() {
    for how in ["full", "too long", "directory", "link", "other names"] {
        let (fs, env, _clock) = tree();
        let sessions = session(&fs, &env, "main").await;
        settings(&fs, r#"{"compaction":{"keep":1}}"#).await;
        block(&fs, how, 1).await;
        talk(&sessions, "work", 1..=5).await;
        let (workspace, model) = (workspace(&fs, &env), Says(Some("- Ann likes tea")));
        let next = path("/agents/coder/memory/2026-01-27-2.md");
        let done = trim(&workspace, &Trim::default().asking(asking(&model))).await.unwrap();
        assert_eq!((done.memory, done.job), (Some(next.clone()), None), "{how}");
        talk(&sessions, "work", 6..=6).await;
        let done = reset(&workspace, "work", &Reset::default().asking(asking(&model))).await;
        assert_eq!(done.memory, Extraction::Added(next.clone()), "{how}");
        let text = fs.read_to_string(&next).await.unwrap();
        assert_eq!(text.matches("- Ann likes tea\n").count(), 2, "{how}: {text}");
        assert_eq!(fs.read_to_string("/agents/coder/elsewhere.md").await.unwrap(), "notes");
    }
}

#[tokio::test]
async fn text_outside_the_session_outlasts_retractions() {
    let (fs, env, _clock) = tree();
    let sessions = session(&fs, &env, "main").await;
    settings(&fs, r#"{"compaction":{"keep":1}}"#).await;
    talk(&sessions, "work", 1..=3).await;
    let mut derive = Derive::default();
    let fact = serde_json::json!({"id": "f1", "text": "Ann asked question 1.", "source": "messages:1"});
    derive.facts = Some(fact.to_string());
    sessions.derive("work", &derive).await.unwrap();
    let uri: Uri = "ctx://default/users/default/memories/events/question".parse().unwrap();
    let memories = Memories::new(&fs, "default").env(env.clone());
    memories.put(&uri, &sessions.to_publish("work", "f1").await.unwrap()).await.unwrap();
    let (workspace, model) = (workspace(&fs, &env), Says(Some("- Ann asked question 1")));
    let done = trim(&workspace, &Trim::default().asking(asking(&model))).await.unwrap();
    let day = done.memory.unwrap();
    let (noted, archived) = (fs.read_to_string(&day).await.unwrap(), unpacked(&fs, &done.part).await);
    assert!(noted.contains("- Ann asked question 1\n"), "{noted}");
    assert_eq!(archived[0]["content"], "question 1");
    sessions.retract("work", &"messages:1".parse().unwrap(), None).await.unwrap();
    // A memory leads to the lines; the other two do not name them.
    let kept = memories.get(&uri, Level::Content).await.unwrap();
    assert!(kept.text.contains("Ann asked question 1."), "{}", kept.text);
    assert_eq!(kept.meta.provenance.unwrap().sources, ["work#messages:1-1"]);
    assert_eq!(fs.read_to_string(&day).await.unwrap(), noted);
    assert_eq!(unpacked(&fs, &done.part).await, archived);
}

#[tokio::test]
async fn full_day_leaves_a_job() {
    let (fs, env, clock) = tree();
    let sessions = session(&fs, &env, "main").await;
    settings(&fs, r#"{"compaction":{"keep":1}}"#).await;
    block(&fs, "full", 4).await;
    talk(&sessions, "work", 1..=5).await;
    let (workspace, model) = (workspace(&fs, &env), Says(Some("- Ann likes tea")));
    let done = trim(&workspace, &Trim::default().asking(asking(&model))).await.unwrap();
    assert!(done.memory.is_none() && done.job.is_some(), "{done:?}");
    talk(&sessions, "work", 6..=6).await;
    let done = reset(&workspace, "work", &Reset::default().asking(asking(&model))).await;
    assert!(matches!(done.memory, Extraction::Later(_)), "{:?}", done.memory);
    // A request to remember something fails with the reason.
    let error = workspace.add_daily("2026-01-27".parse().ok(), "tea").await.unwrap_err();
    assert!(error.is(ErrorKind::TooLarge), "{error}");
    // The jobs wait until somebody makes room.
    let ran = run_jobs(&fs, &env, asking(&model).unwrap()).await.unwrap();
    assert_eq!((ran.done, ran.failed, ran.next), (0, 0, Some(env.now().plus_seconds(3600))));
    fs.write("/agents/coder/memory/2026-01-27-3.md", "- room\n").await.unwrap();
    clock.advance(Duration::from_secs(3600));
    assert_eq!(run_jobs(&fs, &env, asking(&model).unwrap()).await.unwrap().done, 2);
    let text = fs.read_to_string("/agents/coder/memory/2026-01-27-3.md").await.unwrap();
    assert_eq!(text.matches("- Ann likes tea\n").count(), 2, "{text}");
}

#[tokio::test]
async fn conflicting_job_is_released_immediately() {
    let (fs, env, clock) = tree();
    let sessions = session(&fs, &env, "main").await;
    talk(&sessions, "work", 1..=1).await;
    let done = reset(&workspace(&fs, &env), "work", &Reset::default().asking(asking(&Says(None)))).await;
    assert!(matches!(done.memory, Extraction::Later(_)), "{:?}", done.memory);
    let day = path("/agents/coder/memory/2026-01-27.md");
    let (model, other) =
        (Says(Some("- Ann likes tea")), vec![Op::write(day.clone(), "- mine\n").with_parents()]);
    let fs: Arc<dyn FileSystem> = Arc::new(fs);
    // The first commit claims the job.
    let raced = Interfering::new(&fs, Call::Commit, 1, other);
    let ran = run_jobs(&raced, &env, asking(&model).unwrap()).await.unwrap();
    assert_eq!((ran.done, ran.failed, ran.next), (0, 0, Some(env.now().plus_seconds(1))));
    clock.advance(Duration::from_secs(1));
    assert_eq!(run_jobs(&*fs, &env, asking(&model).unwrap()).await.unwrap().done, 1);
    let text = fs.read_to_string(&day).await.unwrap();
    assert!(text.starts_with("- mine\n") && text.ends_with("- Ann likes tea\n"), "{text}");
}

#[tokio::test]
async fn reset_never_overwrites_archives() {
    let (fs, env, _clock) = tree();
    let sessions = session(&fs, &env, "main").await;
    talk(&sessions, "work", 1..=1).await;
    let id = sessions.get("work").await.unwrap().meta.id;
    let archive = path(&format!("/agents/coder/sessions/{id}.jsonl.gz"));
    fs.commit(Op::write(archive.clone(), "earlier").with_parents().into()).await.unwrap();
    let workspace = workspace(&fs, &env);
    let other = reset(&workspace, "work", &Reset::default()).await.archive.unwrap();
    assert!(other != archive && fs.exists(&other).await.unwrap());
    assert_eq!(fs.read_to_string(&archive).await.unwrap(), "earlier");
}
