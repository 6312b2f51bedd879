//! Children and media: the audience of a child's session, and the images that a message shows.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use garth_agent::media::{Hydrator, MediaKey, NewMedia};
use garth_agent::session::{
    Append, ChildChange, ChildStatus, Create, Draft, Format, PackOptions, Role, Sessions, Spawn, State,
};
use garth_agent::workspace::Reset;
use garth_agent::{Access, Class, Request};
use garth_engine::{ErrorKind, FileSystem, FileSystemExt};
use serde_json::{Value, json};

use super::access::{Account, by_key, p, scout};
use super::media::png;

const GONE: &str = "[Image no longer available]";

fn spawn(id: &str, agent: Option<&str>, session: Option<&str>) -> Spawn {
    let mut spawn = Spawn::new(id, "do it");
    (spawn.agent, spawn.session) = (agent.map(str::to_owned), session.map(str::to_owned));
    spawn
}

async fn with_session(account: &Account, request: &Request, name: &str) -> String {
    let access = account.access(request).await;
    access.sessions().create(&Create::new(name)).await.unwrap();
    access.identity().audience().to_owned()
}

fn of<'a>(fs: &'a dyn FileSystem, audience: &str, agent: &str) -> Sessions<'a> {
    Sessions::new(fs, audience, agent).unwrap()
}

#[tokio::test]
async fn child_inherits_audience_and_class() {
    let account = Account::new(r#"{"owner":"ann"}"#).await;
    account.put("/agents/cook/settings.json", r#"{"owner":"bob"}"#).await;
    account.put("/agents/twin/settings.json", r#"{"owner":"ann"}"#).await;
    let cases = [
        // A child of another agent has the class that this agent gives the audience.
        (scout().user("ann"), None, Class::Main),
        (scout().user("ann"), Some("twin"), Class::Main),
        (scout().user("ann"), Some("cook"), Class::Dm),
        (scout().user("ann"), Some("new"), Class::Dm),
        (scout(), Some("new"), Class::Dm),
        (scout().user("bob"), None, Class::Dm),
        (scout().user("bob"), Some("cook"), Class::Dm),
        (by_key("slack:channel:C1"), None, Class::Group),
        (by_key("slack:channel:C1"), Some("cook"), Class::Group),
        (by_key("dm:x"), Some("cook"), Class::Dm),
    ];
    for (n, (request, agent, class)) in cases.iter().enumerate() {
        let (parent, child) = (format!("p{n}"), format!("c{n}"));
        let audience = with_session(&account, request, &parent).await;
        let access = account.access(request).await;
        access.sessions().spawn(&parent, &spawn(&child, *agent, None)).await.unwrap();
        let agent = agent.unwrap_or("scout");
        let meta = of(&*account.store, &audience, agent).get(&child).await.unwrap().meta;
        assert_eq!(meta.class, *class, "{request:?}");
        assert_eq!((&meta.user, &*meta.agent), (&audience, agent), "{request:?}");
        assert_eq!(meta.session_key, None);
    }
    // The same holds on the account itself.
    let holder = of(&*account.store, "ann", "scout");
    holder.spawn("p0", &spawn("h", Some("cook"), None)).await.unwrap();
    assert_eq!(of(&*account.store, "ann", "cook").get("h").await.unwrap().meta.class, Class::Dm);
}

#[tokio::test]
async fn rejects_unsuitable_sessions_as_children() {
    let account = Account::new(r#"{"owner":"ann"}"#).await;
    for name in ["home", "other", "free"] {
        with_session(&account, &scout().user("ann"), name).await;
    }
    let dm = scout().user("ann").class(Class::Dm);
    with_session(&account, &dm, "low").await;
    let access = account.access(&dm).await;
    let error = access.sessions().spawn("low", &spawn("c", None, Some("home"))).await.unwrap_err();
    // Hidden sessions are not found, and their names cannot be taken.
    let kinds = [ErrorKind::NotFound, ErrorKind::AccessDenied, ErrorKind::AlreadyExists];
    assert!(kinds.contains(&error.kind()), "{error}");
    let main = account.access(&scout().user("ann")).await;
    assert_eq!(main.sessions().get("home").await.unwrap().meta.other.get("parent"), None);
    // An existing session keeps its parent.
    main.sessions().spawn("home", &spawn("c", None, Some("free"))).await.unwrap();
    assert_eq!(main.sessions().get("free").await.unwrap().meta.other.get("parent"), None);
    main.sessions().spawn("home", &spawn("d", None, Some("new"))).await.unwrap();
    let error = main.sessions().spawn("other", &spawn("d", None, Some("new"))).await.unwrap_err();
    assert!(error.is(ErrorKind::Conflict), "{error}");
}

#[tokio::test]
async fn hidden_session_of_other_agent_is_no_child() {
    let account = Account::new(r#"{"owner":"ann"}"#).await;
    account.put("/agents/twin/settings.json", r#"{"owner":"ann"}"#).await;
    let main = Request::new("twin").user("ann").key("agent:twin:main".parse().unwrap());
    with_session(&account, &main, "home").await;
    let key = show(&account.access(&main).await, "home", "of main").await;
    let dm = scout().user("ann").class(Class::Dm);
    with_session(&account, &dm, "low").await;
    let access = account.access(&dm).await;
    let sessions = access.sessions();
    let error = sessions.spawn("low", &spawn("c", Some("twin"), Some("home"))).await.unwrap_err();
    // As for a hidden session of its own agent: nothing tells who listens.
    assert!(
        error.is(ErrorKind::AlreadyExists) && error.message().starts_with("home: the session exists"),
        "{error}"
    );
    // Files can name any session, and its media are not handed over.
    sessions.spawn("low", &spawn("d", Some("twin"), None)).await.unwrap();
    account.put("/users/ann/agents/scout/session/low/context/child/d/session", "home\n").await;
    let error = sessions.set_child("low", "d", &ChildChange::default().media(key)).await.unwrap_err();
    assert!(error.is(ErrorKind::NotFound), "{error}");
    let id = sessions.get("low").await.unwrap().meta.id;
    assert!(access.media().list(&id, None, 10).await.unwrap().0.is_empty());
}

#[tokio::test]
async fn cancelling_a_child_ends_only_its_session() {
    let account = Account::new("{}").await;
    for name in ["home", "free"] {
        with_session(&account, &scout(), name).await;
    }
    let main = account.access(&scout()).await;
    let sessions = main.sessions();
    sessions.spawn("home", &spawn("c", None, Some("taken"))).await.unwrap();
    sessions.spawn("home", &spawn("d", Some("cook"), None)).await.unwrap();
    // Files can name any session.
    account.put("/users/default/agents/scout/session/home/context/child/c/session", "free\n").await;
    sessions.set_child("home", "c", &ChildChange::status(ChildStatus::Cancelled)).await.unwrap();
    assert_eq!(sessions.get("free").await.unwrap().state, State::Idle);
    sessions.set_child("home", "d", &ChildChange::status(ChildStatus::Cancelled)).await.unwrap();
    assert_eq!(of(&*account.store, "default", "cook").get("d").await.unwrap().state, State::Cancelled);
}

fn image(key: &MediaKey) -> Value {
    json!({"type": "image", "mime_type": "image/png", "path": key.to_string()})
}

/// Appends a message with an image; returns the key of the image.
async fn show(access: &Access, session: &str, bytes: &str) -> MediaKey {
    let data = STANDARD.encode(png(bytes));
    let picture = json!([{"type": "image", "mime_type": "image/png", "data": data}]);
    let sessions = access.sessions();
    let said = Append::messages([Draft::message(Role::User, &picture)]);
    let lines = sessions.append(session, &said).await.unwrap().lines.unwrap();
    let page = sessions.lines(session, &garth_agent::session::Select::messages(lines)).await.unwrap();
    let line: Value = serde_json::from_str(&page.items[0].text).unwrap();
    line["content"][0]["path"].as_str().unwrap().parse().unwrap()
}

/// Returns the message for a model that names an image.
async fn named(access: &Access, session: &str, key: &MediaKey) -> String {
    let sessions = access.sessions();
    let said = Draft::message(Role::User, &json!([image(key)]));
    sessions.append(session, &Append::messages([said])).await.unwrap();
    let packed = sessions.pack(session, &PackOptions::default()).await.unwrap();
    let with = sessions.hydrated(&packed, Format::OpenAi, &Hydrator::default(), "default").await.unwrap();
    with.list(Format::OpenAi)
}

#[tokio::test]
async fn messages_show_media_of_session_and_parents() {
    let account = Account::new("{}").await;
    let channel = by_key("slack:channel:C1");
    with_session(&account, &scout(), "main").await;
    for name in ["g", "beside", "alone"] {
        with_session(&account, &channel, name).await;
    }
    let main = account.access(&scout().key("agent:scout:main".parse().unwrap())).await;
    main.sessions().create(&Create::new("keyed")).await.unwrap();
    let of_main = show(&main, "keyed", "of main").await;
    let access = account.access(&channel).await;
    let (own, beside) = (show(&access, "g", "own").await, show(&access, "beside", "beside").await);
    let has = |list: &str, bytes: &str| list.contains(&STANDARD.encode(png(bytes)));
    let list = named(&access, "g", &own).await;
    assert!(has(&list, "own") && !list.contains(GONE), "{list}");
    for (key, bytes) in [(&of_main, "of main"), (&beside, "beside")] {
        let list = named(&access, "alone", key).await;
        assert!(list.contains(GONE) && !has(&list, bytes), "{list}");
    }
    // A child shows the media of its parent, but not the other way round.
    access.sessions().spawn("g", &spawn("c", None, None)).await.unwrap();
    let list = named(&access, "c", &own).await;
    assert!(has(&list, "own") && !list.contains(GONE), "{list}");
    let new = NewMedia::new(access.sessions().get("c").await.unwrap().meta.id, "image/png");
    let id = new.session_key.clone();
    let body = futures::stream::iter([Ok(png("of the child").into())]);
    let put = access.media().put(&new.session(id), body).await.unwrap();
    assert!(has(&named(&access, "c", &put.key).await, "of the child"));
    let list = named(&access, "g", &put.key).await;
    assert!(!has(&list, "of the child") && list.contains(GONE), "{list}");
    // A missing file is reported in the same way.
    let none: MediaKey =
        own.to_string().replace(own.id(), "01234567-89ab-4def-8123-456789abcdef").parse().unwrap();
    assert!(named(&access, "alone", &none).await.contains(GONE));
}

#[tokio::test]
async fn media_access_follows_session_visibility() {
    let account = Account::new("{}").await;
    let (channel, other) = (by_key("slack:channel:C1"), by_key("dm:x"));
    with_session(&account, &channel, "g").await;
    with_session(&account, &other, "d").await;
    let [access, stranger] = [account.access(&channel).await, account.access(&other).await];
    let key = show(&access, "g", "own").await;
    let id = access.sessions().get("g").await.unwrap().meta.id;
    assert_eq!(access.media().list(&id, None, 10).await.unwrap().0.len(), 1);
    assert!(stranger.media().list(&id, None, 10).await.unwrap().0.is_empty());
    for error in [stranger.media().get(&key).await.err(), stranger.media().remove(&key).await.err()] {
        assert!(error.unwrap().is(ErrorKind::NotFound));
    }
    assert!(stranger.media().open(&key).await.err().unwrap().is(ErrorKind::NotFound));
    // No tree of an agent reaches them by path, and no file in one becomes theirs.
    for tree in [access.tree().open().await.unwrap(), stranger.tree().open().await.unwrap()] {
        let ino = account.store.entry(&key.path()).await.unwrap().ino;
        assert!(tree.stat(&garth_engine::model::At::Node(ino)).await.is_err());
    }
    // After a reset it is found next to its archive by the same key.
    access.workspace().reset(":slack:channel:C1", "g", &Reset::default()).await.unwrap().unwrap();
    let (moved, file) = access.media().open(&key).await.unwrap();
    assert!(moved.path.is_within(&p(&format!("/agents/scout/sessions/{id}/media"))), "{}", moved.path);
    assert_eq!(file.read_at(0, 99).await.unwrap(), png("own"));
    assert!(stranger.media().get(&key).await.is_err());
}

#[tokio::test]
async fn reset_keeps_media_of_sessions_sharing_a_key() {
    let account = Account::new("{}").await;
    let channel = by_key("slack:channel:C1");
    for name in ["one", "two"] {
        with_session(&account, &channel, name).await;
    }
    let access = account.access(&channel).await;
    let keys = [show(&access, "one", "first").await, show(&access, "two", "second").await];
    assert_eq!(keys[0].session_key(), keys[1].session_key());
    access.workspace().reset(":slack:channel:C1", "one", &Reset::default()).await.unwrap().unwrap();
    let [one, two] =
        [access.media().get(&keys[0]).await.unwrap(), access.media().get(&keys[1]).await.unwrap()];
    assert!(one.path != keys[0].path() && two.path == keys[1].path(), "{} {}", one.path, two.path);
    let list = named(&access, "two", &keys[1]).await;
    assert!(list.contains(&STANDARD.encode(png("second"))) && !list.contains(GONE), "{list}");
}

#[tokio::test]
async fn adopted_session_outlives_its_child() {
    let account = Account::new("{}").await;
    let channel = by_key("slack:channel:C1");
    let (parent, two) = (account.access(&channel).await, Request::new("two"));
    parent.sessions().create(&Create::new("parent")).await.unwrap();
    let two = account.access(&two.key("agent:two:slack:channel:C1".parse().unwrap())).await;
    two.sessions().create(&Create::new("standup")).await.unwrap();
    let given = spawn("k", Some("two"), Some("standup"));
    parent.sessions().spawn("parent", &given).await.unwrap();
    parent.sessions().spawn("parent", &spawn("own", None, None)).await.unwrap();
    parent.sessions().set("parent", &garth_agent::session::Change::new().state(State::Done)).await.unwrap();
    assert_ne!(two.sessions().get("standup").await.unwrap().state, State::Cancelled);
    assert_eq!(parent.sessions().get("own").await.unwrap().state, State::Cancelled);
}

#[tokio::test]
async fn reset_skips_names_of_hidden_sessions() {
    let account = Account::new(r#"{"owner":"ann"}"#).await;
    let (main, dm) = (scout().user("ann"), scout().user("ann").class(Class::Dm));
    with_session(&account, &main, "nd-2").await;
    with_session(&account, &dm, "nd").await;
    let access = account.access(&dm).await;
    let error = access.sessions().create(&Create::new("nd-2")).await.unwrap_err();
    // The text is that for any other session, so that it tells nothing of a hidden one.
    assert!(
        error.is(ErrorKind::AlreadyExists) && error.message().starts_with("nd-2: the session exists"),
        "{error}"
    );
    let reset = access.workspace().reset("ann", "nd", &Reset::default()).await.unwrap().unwrap();
    assert_eq!(reset.next.name, "nd-3");
}
