//! Upgrade of an account in which agents have no owners yet, interrupted at each of its commits.

use std::sync::Arc;

use garth_agent::session::{Create, Meta, SessionKey, Sessions, Spawn, State};
use garth_agent::{Access, Caller, Request};
use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::model::{At, Batch, Op, WalkPage};
use garth_engine::runtime::failpoint::Failure;
use garth_engine::{AccountStore, Env, ErrorKind, FileSystem, FileSystemExt, TreePath};

const DIR: &str = "/users/bob/agents/door/session";

/// Returns an account in which Bob has the session of a channel, with a child and a grandchild.
async fn old(folder: &std::path::Path) -> Arc<SqliteFs> {
    std::fs::create_dir(folder).unwrap();
    let fs = SqliteFs::open(folder, Env::system(), garth_agent::registry()).unwrap();
    let sessions = Sessions::new(&*fs, "bob", "door").unwrap();
    sessions.create(&Create::new("hall")).await.unwrap();
    let child = sessions.spawn("hall", &Spawn::new("guide", "Show them in.")).await.unwrap();
    let grandchild = sessions.spawn(&child.session, &Spawn::new("cook", "Feed them.")).await.unwrap();
    assert_ne!(child.session, grandchild.session);
    let at = TreePath::parse(&format!("{DIR}/hall/meta.json")).unwrap();
    let mut meta = Meta::parse(fs.read_to_string(&at).await.unwrap().as_bytes()).unwrap();
    meta.session_key = Some("agent:door:web:room:1".to_owned());
    let write = Op::write(at, meta.to_json().unwrap());
    fs.overriding_rules().commit(Batch::new([write]).by_garth()).await.unwrap();
    fs
}

/// Returns the place of each session, with its class.
async fn places(fs: &dyn FileSystem) -> Vec<String> {
    let root = At::from(TreePath::parse("/users").unwrap());
    let walk = fs.walk(&root, &WalkPage::default()).await.unwrap();
    let mut places = Vec::new();
    for path in
        walk.items.into_iter().map(|item| item.path).filter(|path| path.as_str().ends_with("meta.json"))
    {
        let meta = Meta::parse(fs.read_to_string(&path).await.unwrap().as_bytes()).unwrap();
        places.push(format!("{path} {} {}", meta.user, meta.class));
    }
    places
}

async fn open(fs: &Arc<SqliteFs>) -> garth_engine::Result<Access> {
    let account: Arc<dyn AccountStore> = Arc::<SqliteFs>::clone(fs);
    Access::open(&account, &Env::system(), Caller::ApiKey, &Request::new("door").user("eve")).await
}

#[tokio::test]
async fn interrupted_upgrade_has_the_same_result() {
    let folder = tempfile::tempdir().unwrap();
    let whole = old(&folder.path().join("whole")).await;
    open(&whole).await.unwrap();
    let due = places(&*whole).await;
    assert_eq!(due.len(), 3, "{due:?}");
    assert!(due.iter().all(|place| place.ends_with(" :web:room:1 group")), "{due:?}");
    for commits in 0.. {
        let fs = old(&folder.path().join(commits.to_string())).await;
        fs.runtime().failpoints().arm("before-commit", Failure::Io, commits);
        let opened = open(&fs).await;
        if fs.runtime().failpoints().disarm() {
            opened.unwrap();
            assert_eq!(commits, 3, "each session is moved by a commit of its own");
            break;
        }
        assert!(opened.is_err(), "an access is given after {commits} commits");
        open(&fs).await.unwrap();
        assert_eq!(places(&*fs).await, due, "interrupted after {commits} commits");
    }
}

#[tokio::test]
async fn upgrade_keeps_sessions_of_named_users() {
    let folder = tempfile::tempdir().unwrap();
    let fs = SqliteFs::open(folder.path(), Env::system(), garth_agent::registry()).unwrap();
    let key: SessionKey = "agent:door:dm:x".parse().unwrap();
    let sessions = Sessions::new(&*fs, "mary", "door").unwrap();
    sessions.create(&Create::new("work")).await.unwrap();
    // As it was written before keys were judged.
    let at = TreePath::parse("/users/mary/agents/door/session/work/meta.json").unwrap();
    let mut meta = Meta::parse(fs.read_to_string(&at).await.unwrap().as_bytes()).unwrap();
    meta.session_key = Some(key.to_string());
    let write = Op::write(at, meta.to_json().unwrap());
    fs.overriding_rules().commit(Batch::new([write]).by_garth()).await.unwrap();
    let account: Arc<dyn AccountStore> = Arc::<SqliteFs>::clone(&fs);
    let request = Request::new("door").key(key.clone());
    for request in [request.clone().user("mary"), request.clone(), request.user("mary")] {
        let access = Access::open(&account, &Env::system(), Caller::ApiKey, &request).await.unwrap();
        access.make().await.unwrap();
        assert_ne!(sessions.get("work").await.unwrap().state, State::Done, "{request:?}");
    }
    assert_eq!(sessions.current(&key).await.unwrap().unwrap().name, "work");
}

#[tokio::test]
async fn upgrade_keeps_unreadable_settings() {
    let folder = tempfile::tempdir().unwrap();
    let settings = TreePath::parse("/agents/door/settings.json").unwrap();
    for (place, text) in [r#"{"owner":"ann",}"#, "garbage", "[]", r#"{"owner":5}"#].into_iter().enumerate() {
        let fs = old(&folder.path().join(place.to_string())).await;
        let sessions = Sessions::new(&*fs, "bob", "door").unwrap();
        sessions.create(&Create::new("without-a-key")).await.unwrap();
        let write = Op::write(settings.clone(), text).with_parents();
        fs.overriding_rules().commit(Batch::new([write]).by_garth()).await.unwrap();
        assert!(open(&fs).await.unwrap_err().is(ErrorKind::Corrupt), "{text}");
        assert_eq!(fs.read_to_string(&settings).await.unwrap(), text);
    }
}

#[tokio::test]
async fn obstacle_blocks_only_its_part_of_upgrade() {
    let folder = tempfile::tempdir().unwrap();
    let path = |text: &str| TreePath::parse(text).unwrap();
    let ways = [
        Op::mkdir(path("/agents/door/settings.json")).with_parents(),
        Op::symlink(path("/agents/door/settings.json"), "/elsewhere").with_parents(),
        Op::write(path("/agents/door"), "a file").with_parents(),
        Op::write(path("/users/:web:room:1"), "a file"),
    ];
    for (place, in_the_way) in ways.into_iter().enumerate() {
        let fs = old(&folder.path().join(place.to_string())).await;
        let batch = Batch::new([in_the_way.clone()]).by_garth();
        fs.overriding_rules().commit(batch).await.unwrap();
        let account: Arc<dyn AccountStore> = Arc::<SqliteFs>::clone(&fs);
        let other = Request::new("other").user("eve");
        let opened = Access::open(&account, &Env::system(), Caller::ApiKey, &other).await;
        assert!(opened.is_ok(), "{in_the_way:?}: {opened:?}");
        let places = places(&*fs).await;
        assert!(places.iter().all(|place| place.ends_with(" group")), "{in_the_way:?}: {places:?}");
    }
}
