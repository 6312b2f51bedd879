//! Removal of sessions: archived data, deleted data, and rejected sessions.

use garth_agent::media::{Media, MediaKey};
use garth_agent::session::{Append, ChildStatus, Draft, Export, Sessions, Spawn, State, TranscriptFormat};
use garth_agent::workspace::Reset;
use garth_engine::model::quota::Limits;
use garth_engine::model::{Batch, Op};
use garth_engine::{ErrorKind, FileSystem, FileSystemExt as _};

use super::reset::{as_pi, path, reset, session, settings, show, talk, tree, unpacked, workspace};

const DIR: &str = "/users/default/agents/coder/session/work";

#[tokio::test]
async fn removal_archives_messages_and_deletes_the_directory() {
    let (fs, env, _) = tree();
    let sessions = session(&fs, &env, "main").await;
    talk(&sessions, "work", 1..=2).await;
    let (said, before) = (as_pi(&sessions, "work").await, fs.head().await.unwrap().seq);
    let id = sessions.get("work").await.unwrap().meta.id;
    let done = workspace(&fs, &env).remove_session("default", "work").await.unwrap();
    assert_eq!((done.messages, done.seq.0), (8, before.0 + 1), "one commit");
    let archive = done.archive.unwrap();
    assert_eq!(archive.as_str(), format!("/agents/coder/sessions/{id}.jsonl.gz"));
    assert_eq!(unpacked(&fs, &archive).await, said);
    assert!(!fs.exists(DIR).await.unwrap());
    assert!(sessions.get("work").await.unwrap_err().is(ErrorKind::NotFound));
    assert!(sessions.current(&"agent:coder:main".parse().unwrap()).await.unwrap().is_none());
    let export = Export::new(TranscriptFormat::Garth);
    assert_eq!(workspace(&fs, &env).transcript("default", &id, &export).await.unwrap().items.len(), 8);
    let again = workspace(&fs, &env).remove_session("default", "work").await.unwrap_err();
    assert!(again.is(ErrorKind::NotFound), "{again}");
    let log = fs.changes_of(done.seq).await.unwrap();
    assert!(log.commit.overrides_rules, "the log says that the commit overrode append-only");
}

#[tokio::test]
async fn removal_keeps_the_archive_of_a_reset() {
    let (fs, env, _) = tree();
    let sessions = session(&fs, &env, "main").await;
    talk(&sessions, "work", 1..=1).await;
    let workspace = workspace(&fs, &env);
    let first = reset(&workspace, "work", &Reset::default()).await;
    let done = workspace.remove_session("default", "work").await.unwrap();
    assert_eq!((done.archive, done.messages), (first.archive, 0));
    assert_eq!(workspace.archives(None, 10).await.unwrap().0.len(), 1);
    assert_eq!(sessions.get(&first.next.name).await.unwrap().name, first.next.name, "the next one stays");
}

#[tokio::test]
async fn removal_of_an_empty_session_writes_no_archive() {
    let (fs, env, _) = tree();
    session(&fs, &env, "main").await;
    let done = workspace(&fs, &env).remove_session("default", "work").await.unwrap();
    assert_eq!((done.archive, done.messages), (None, 0));
    assert!(!fs.exists(DIR).await.unwrap() && !fs.exists("/agents/coder/sessions").await.unwrap());
}

#[tokio::test]
async fn removal_moves_archived_media_to_the_archive() {
    let (fs, env, _) = tree();
    let sessions = session(&fs, &env, "main").await;
    let key: MediaKey = show(&sessions, "work", "aGk=").await;
    let id = sessions.get("work").await.unwrap().meta.id;
    workspace(&fs, &env).remove_session("default", "work").await.unwrap();
    let (kept, _) = Media::new(&fs).env(env.clone()).open(&key).await.unwrap();
    assert_eq!(kept.path.as_str(), format!("/agents/coder/sessions/{id}/media/{}", key.name()));
}

#[tokio::test]
async fn copied_session_leaves_media_of_its_original() {
    for policy in ["keep", "delete"] {
        let (fs, env, _) = tree();
        settings(&fs, &format!(r#"{{"reset":{{"media":"{policy}"}}}}"#)).await;
        let sessions = session(&fs, &env, "main").await;
        let early = show(&sessions, "work", "aGk=").await;
        for name in ["copy", "copy-of-all"] {
            let to = path(&format!("/users/default/agents/coder/session/{name}"));
            fs.commit(Batch::new([Op::copy_tree(path(DIR), to)]).overriding_rules()).await.unwrap();
        }
        // The copies do not refer to it.
        let late = show(&sessions, "work", "bGF0ZQ==").await;
        let (workspace, media) = (workspace(&fs, &env), Media::new(&fs).env(env.clone()));
        reset(&workspace, "copy", &Reset::default()).await;
        for key in [&early, &late] {
            assert_eq!(media.get(key).await.unwrap().path, key.path(), "{policy}");
        }
        // Now the archive of the original refers to them.
        let kept = reset(&workspace, "work", &Reset::default()).await.archive.unwrap();
        for name in ["work", "copy-of-all", "copy"] {
            workspace.remove_session("default", name).await.unwrap();
        }
        assert_eq!(unpacked(&fs, &kept).await.len(), 2);
        for key in [&early, &late] {
            assert_eq!(media.get(key).await.unwrap().path, key.path(), "{policy}");
        }
    }
}

#[tokio::test]
async fn removal_ends_children_and_rejects_unfinished_ones() {
    let (fs, env, _) = tree();
    let sessions = session(&fs, &env, "main").await;
    sessions.spawn("work", &Spawn::new("rev-1", "review")).await.unwrap();
    let workspace = workspace(&fs, &env);
    let refused = workspace.remove_session("default", "rev-1").await.unwrap_err();
    assert!(refused.is(ErrorKind::Conflict), "{refused}");
    assert!(refused.message().contains("garth context child set work rev-1"), "{refused}");
    assert_eq!(sessions.children("work").await.unwrap()[0].status, ChildStatus::Pending);
    workspace.remove_session("default", "work").await.unwrap();
    assert_eq!(sessions.get("rev-1").await.unwrap().state, State::Cancelled);
    workspace.remove_session("default", "rev-1").await.unwrap();
}

#[tokio::test]
async fn removal_rejects_session_with_collected_messages() {
    let (fs, env, _) = tree();
    session(&fs, &env, "main").await;
    fs.mkdir_all(&format!("{DIR}/archive")).await.unwrap();
    let refused = workspace(&fs, &env).remove_session("default", "work").await.unwrap_err();
    assert!(refused.is(ErrorKind::Conflict) && refused.message().contains("archive"), "{refused}");
    assert!(fs.exists(DIR).await.unwrap());
}

#[tokio::test]
async fn removal_without_room_for_the_archive_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let data = garth::builder().open(dir.path()).unwrap();
    data.create_account("a").await.unwrap();
    let (account, env) = (data.account("a").await.unwrap(), data.env().clone());
    let sessions: Sessions<'_> = session(&*account, &env, "main").await;
    sessions.append("work", &Append::messages([Draft::user("hello")])).await.unwrap();
    account.mkdir_all("/agents/coder/sessions").await.unwrap();
    account.set_quota(&path("/agents/coder/sessions"), Limits::default().bytes(10)).await.unwrap();
    let before = account.head().await.unwrap().seq;
    let refused = workspace(&*account, &env).remove_session("default", "work").await.unwrap_err();
    assert!(refused.is(ErrorKind::QuotaExceeded), "{refused}");
    assert_eq!(account.head().await.unwrap().seq, before);
    assert_eq!(as_pi(&sessions, "work").await.len(), 1);
}
