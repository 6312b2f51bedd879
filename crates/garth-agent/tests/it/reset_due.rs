//! Resets by the policy of an agent's settings: due times, and the process that finds due sessions.

use std::time::Duration;

use garth_agent::workspace::{Reset, due_resets};
use garth_engine::model::Timestamp;

use super::reset::{session, settings, talk, tree, workspace};

#[tokio::test]
async fn settings_reset_sessions_daily_or_idle() {
    let (fs, env, clock) = tree();
    let sessions = session(&fs, &env, "main").await;
    let (workspace, key) = (workspace(&fs, &env), "agent:coder:main".parse().unwrap());
    let current =
        async || workspace.current("default", &key, None, &Reset::default()).await.unwrap().unwrap();
    talk(&sessions, "work", 1..=1).await;
    clock.advance(Duration::from_secs(30 * 86_400));
    assert_eq!(current().await.session.name, "work", "by hand alone");
    settings(&fs, r#"{"time_zone":"Europe/Berlin","reset":{"policy":"daily","hour":4}}"#).await;
    assert_eq!(current().await.session.name, "work-2", "it was used last a month ago");
    let at = |text: &str| Timestamp::parse_rfc3339(text).unwrap();
    assert_eq!(current().await.session.name, "work-2", "nothing was said");
    clock.set(at("2026-03-02T02:30:00Z"));
    talk(&sessions, "work-2", 1..=1).await;
    clock.set(at("2026-03-02T02:59:59Z"));
    assert_eq!(current().await.session.name, "work-2");
    clock.set(at("2026-03-02T03:00:00Z"));
    assert_eq!(current().await.reset.unwrap().messages, 4);
    settings(&fs, r#"{"reset":{"policy":"idle","minutes":30}}"#).await;
    talk(&sessions, "work-3", 1..=1).await;
    clock.advance(Duration::from_secs(30 * 60 - 1));
    assert_eq!(current().await.session.name, "work-3");
    clock.advance(Duration::from_secs(1));
    assert_eq!(current().await.session.name, "work-4");
}

#[tokio::test]
async fn due_sessions_are_found_by_mark() {
    let (fs, env, clock) = tree();
    let sessions = session(&fs, &env, "main").await;
    let (workspace, key) = (workspace(&fs, &env), "agent:coder:main".parse().unwrap());
    settings(&fs, r#"{"reset":{"policy":"idle","minutes":30}}"#).await;
    talk(&sessions, "work", 1..=1).await;
    let how = Reset::default();
    workspace.current("default", &key, None, &how).await.unwrap().unwrap();
    let due = async || due_resets(&fs, env.now(), None).await.unwrap();
    assert_eq!((due().await.sessions.len(), due().await.next), (0, Some(env.now().plus_seconds(1800))));
    // A session that was used since is checked, and left until it is due.
    clock.advance(Duration::from_secs(600));
    talk(&sessions, "work", 2..=2).await;
    clock.advance(Duration::from_secs(1200));
    assert_eq!(due().await.sessions.len(), 1);
    assert_eq!(workspace.reset_if_due("default", "work", &how).await.unwrap(), None);
    assert_eq!((due().await.sessions.len(), due().await.next), (0, Some(env.now().plus_seconds(600))));
    clock.advance(Duration::from_secs(600));
    let found = due().await.sessions;
    assert_eq!((found[0].user.as_str(), found[0].session.as_str()), ("default", "work"));
    assert_eq!(workspace.reset_if_due("default", "work", &how).await.unwrap().unwrap().messages, 8);
    clock.advance(Duration::from_secs(86_400));
    let due = due().await;
    assert!(due.sessions.iter().all(|due| due.session == "work-2"), "{due:?}");
}
