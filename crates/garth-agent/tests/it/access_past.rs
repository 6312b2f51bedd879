//! Sessions with fewer listeners: hidden also if they are created while an access is open, and in the past
//! after they were removed.

use std::sync::Arc;

use garth_agent::session::{Append, Change, Create, Draft, Spawn, State};
use garth_agent::workspace::Reset;
use garth_agent::{Access, Caller, Class, Request};
use garth_engine::fs::restore::restore;
use garth_engine::model::{At, Author, Batch, ChangesQuery, HistoryPage, Moment, Op, SearchQuery, Seq};
use garth_engine::{Env, ErrorKind, FileSystem, FileSystemExt};
use serde_json::json;

use super::access::{Account, p, scout, walked};
use super::reach::bound;

const OWNER: &str = r#"{"owner":"ann"}"#;
const SECRET: &str = "a canary of main";

/// Returns the paths of a session in the tree.
fn places(session: &str) -> [String; 2] {
    [format!("/.user/session/{session}"), format!("/ctx/home/ann/agent/scout/session/{session}")]
}

/// Returns a request of the owner of the agent, in a class.
fn ann(class: Class) -> Request {
    scout().user("ann").class(class)
}

/// Creates a session with a message, and returns the last commit.
async fn say(account: &Account, access: &Access, session: &str, text: &str) -> Seq {
    access.sessions().create(&Create::new(session)).await.unwrap();
    access.sessions().append(session, &Append::messages([Draft::user(text)])).await.unwrap();
    account.store.head().await.unwrap().seq
}

async fn remove(access: &Access, session: &str) -> Seq {
    access.workspace().remove_session("ann", session).await.unwrap().seq
}

async fn names(access: &Access) -> Vec<String> {
    let (listed, _) = access.sessions().list(&Default::default()).await.unwrap();
    listed.into_iter().map(|session| session.name).collect()
}

/// Returns the paths in all changes that a tree shows.
async fn changed(tree: &dyn FileSystem) -> Vec<String> {
    let (mut query, mut paths) = (ChangesQuery::default(), Vec::new());
    loop {
        let page = tree.changes(&query).await.unwrap();
        let changes = page.commits.iter().flat_map(|commit| &commit.changes);
        paths.extend(changes.flat_map(|change| &change.paths).map(|path| path.to_string()));
        if page.until.seq >= page.head {
            return paths;
        }
        query.since = page.until;
    }
}

#[track_caller]
fn assert_none_of(paths: &[String], session: &str) {
    let found: Vec<_> = paths.iter().filter(|path| path.contains(&format!("/{session}"))).collect();
    assert!(found.is_empty(), "{found:?}");
}

#[tokio::test]
async fn running_access_hides_new_main_sessions() {
    let account = Account::new(OWNER).await;
    let (main, dm) = (account.access(&ann(Class::Main)).await, account.access(&ann(Class::Dm)).await);
    let tree = dm.tree().open().await.unwrap();
    // The tree, and the handle that features work with, were opened before.
    say(&account, &main, "tardy", SECRET).await;
    say(&account, &dm, "own", "hello").await;
    assert_none_of(&walked(&*tree).await, "tardy");
    assert_none_of(&changed(&*tree).await, "tardy");
    let inner = account.store.entry("/users/ann/agents/scout/session/tardy/messages.jsonl").await.unwrap();
    for at in places("tardy")
        .map(|dir| At::Path(p(&format!("{dir}/messages.jsonl"))))
        .iter()
        .chain([&At::Node(inner.ino)])
    {
        assert!(tree.stat(at).await.unwrap_err().is(ErrorKind::NotFound), "{at}");
    }
    assert!(tree.search(&SearchQuery::new("canary")).await.unwrap().hits.is_empty());
    assert!(dm.sessions().get("tardy").await.unwrap_err().is(ErrorKind::NotFound));
    assert_eq!(names(&dm).await, ["own"]);
    for dir in places("own") {
        assert!(tree.read_to_string(&format!("{dir}/messages.jsonl")).await.unwrap().contains("hello"));
    }
    // The name of a session that the access has seen gets another one.
    remove(&dm, "own").await;
    say(&account, &main, "own", SECRET).await;
    assert!(names(&dm).await.is_empty());
    assert_none_of(&walked(&*tree).await, "own");
    let taken = dm.sessions().create(&Create::new("own")).await.unwrap_err();
    assert!(taken.is(ErrorKind::AlreadyExists), "{taken}");
}

#[tokio::test]
async fn past_of_removed_main_session_stays_hidden() {
    let account = Account::new(OWNER).await;
    let main = account.access(&ann(Class::Main)).await;
    // The directories of the tree exist before.
    account.tree(&ann(Class::Dm)).await;
    let then = say(&account, &main, "work", SECRET).await;
    let at = "/users/ann/agents/scout/session/work/messages.jsonl";
    let (ino, version) = {
        let entry = account.store.entry(at).await.unwrap();
        (entry.ino, entry.version)
    };
    remove(&main, "work").await;
    let tree = account.tree(&ann(Class::Dm)).await;
    let past = tree.as_of(&Moment::Seq(then)).await.unwrap();
    assert_none_of(&walked(&*past).await, "work");
    assert!(past.stat(&At::Node(ino)).await.is_err());
    assert_none_of(&changed(&*tree).await, "work");
    let missing = async |path: &str| {
        let missing = tree.history(&At::Path(p(path)), &HistoryPage::default()).await;
        missing.unwrap_err().to_string().replace("/work", "/NAME").replace("/never", "/NAME")
    };
    for dir in places("work") {
        let file = format!("{dir}/messages.jsonl");
        assert!(past.lookup(&file).await.unwrap().is_none(), "{file}");
        assert_eq!(missing(&file).await, missing(&file.replace("/work", "/never")).await);
        for from in [p(&file), p(&dir)] {
            let copy = Op::copy_tree(from, p("/copy")).as_of(then);
            let error = tree.commit(copy.into()).await.unwrap_err();
            assert!(error.is(ErrorKind::NotFound), "{dir}: {error}");
        }
        let (moment, now) = (Moment::Seq(then), Env::system().now());
        restore(&*tree, &p(&file), &moment, now, &Batch::default()).await.ok();
        assert!(!account.store.exists(at).await.unwrap());
    }
    assert!(tree.history(&At::Node(ino), &HistoryPage::default()).await.is_err());
    assert!(tree.open_version(version).await.is_err());
    let copy = Op::copy(At::Node(ino), p("/copy")).as_of(then);
    assert!(tree.commit(copy.into()).await.unwrap_err().is(ErrorKind::NotFound));
    // Nothing is lost for the owner.
    let past = account.tree(&ann(Class::Main)).await.as_of(&Moment::Seq(then)).await.unwrap();
    let file = format!("{}/messages.jsonl", places("work")[0]);
    assert!(past.read_to_string(&file).await.unwrap().contains(SECRET));
}

#[tokio::test]
async fn removed_session_stays_visible_to_its_class() {
    let account = Account::new(OWNER).await;
    let dm = account.access(&ann(Class::Dm)).await;
    account.tree(&ann(Class::Dm)).await;
    let then = say(&account, &dm, "own", "hello").await;
    remove(&dm, "own").await;
    let tree = dm.tree().open().await.unwrap();
    let past = tree.as_of(&Moment::Seq(then)).await.unwrap();
    let file = format!("{}/messages.jsonl", places("own")[0]);
    assert!(past.read_to_string(&file).await.unwrap().contains("hello"));
    let versions = tree.history(&At::Path(p(&file)), &HistoryPage::default()).await.unwrap().items;
    // Created, appended to, removed.
    assert_eq!(versions.len(), 3, "{versions:?}");
    assert!(versions[0].entry.is_none() && versions[1].entry.is_some(), "{versions:?}");
}

#[tokio::test]
async fn new_session_of_a_name_shows_no_past_of_another() {
    let account = Account::new(OWNER).await;
    let (main, dm) = (account.access(&ann(Class::Main)).await, account.access(&ann(Class::Dm)).await);
    account.tree(&ann(Class::Dm)).await;
    let then = say(&account, &main, "work", SECRET).await;
    let removed = remove(&main, "work").await;
    say(&account, &dm, "work", "hello").await;
    let own = json!({"agent": "scout", "user": "ann", "class": "dm", "session": "work"});
    let of_session = bound(&account, own).await.tree(false).await.unwrap();
    let trees: [Arc<dyn FileSystem>; 2] = [dm.tree().open().await.unwrap(), of_session];
    for tree in trees {
        let past = tree.as_of(&Moment::Seq(then)).await.unwrap();
        assert_none_of(&walked(&*past).await, "work/");
        let file = format!("{}/messages.jsonl", places("work")[1]);
        assert!(tree.read_to_string(&file).await.unwrap().contains("hello"));
        assert!(past.lookup(&file).await.unwrap().is_none());
        let versions = tree.history(&At::Path(p(&file)), &HistoryPage::default()).await.unwrap().items;
        assert!(versions.iter().all(|version| version.id.seq > removed), "{versions:?}");
        let copy = Op::copy(p(&file), p("/copy")).as_of(then);
        assert!(tree.commit(copy.into()).await.unwrap_err().is(ErrorKind::NotFound));
    }
}

#[tokio::test]
async fn directory_of_sessions_tells_of_no_hidden_one() {
    let account = Account::new(OWNER).await;
    let main = account.access(&ann(Class::Main)).await;
    let tree = account.tree(&ann(Class::Dm)).await;
    let (dir, page) = (At::Path(p("/.user/session")), HistoryPage::default());
    let seen = async || (tree.stat(&dir).await.unwrap(), tree.history(&dir, &page).await.unwrap().items);
    let before = seen().await;
    say(&account, &main, "work", SECRET).await;
    say(&account, &main, "other", SECRET).await;
    remove(&main, "other").await;
    assert_eq!(seen().await, before);
    let [only] = &*before.1 else { panic!("{before:?}") };
    assert_eq!(only.commit.author, Author::default());
    // One session for each key, although the versions of the directory do not show it.
    let key: garth_agent::session::SessionKey = "agent:scout:slack:channel:C1".parse().unwrap();
    let group = scout().key(key.clone());
    let calls = (0..4).map(|_| {
        let (account, group, key) = (&account, group.clone(), key.clone());
        async move {
            let access = account.access(&group).await;
            let (session, created) = access.sessions().by_key(&key, &Create::new("")).await.unwrap();
            (session.name, created)
        }
    });
    let found = futures::future::join_all(calls).await;
    assert_eq!(found.iter().filter(|(_, created)| *created).count(), 1, "{found:?}");
}

#[tokio::test]
async fn session_of_unknown_class_is_hidden() {
    let account = Account::new(OWNER).await;
    let main = account.access(&ann(Class::Main)).await;
    let tree = account.tree(&ann(Class::Dm)).await;
    say(&account, &main, "work", SECRET).await;
    let meta = p("/users/ann/agents/scout/session/work/meta.json");
    let known = account.text(meta.as_str()).await.replace("\"class\": \"main\"", "\"class\": \"group\"");
    let file = format!("{}/messages.jsonl", places("work")[0]);
    for (class, is_seen) in [
        ("\"class\": \"group\"", true),
        ("\"class\": \"channel\"", false),
        ("\"class\": 3", false),
        ("\"class\": \"group\", \"class\": \"group\"", false),
        ("\"no_class\": \"group\"", false),
    ] {
        let text = known.replace("\"class\": \"group\"", class);
        assert!(text.contains(class), "{text}");
        account.store.commit(Batch::new([Op::write(meta.clone(), text)]).by_garth()).await.unwrap();
        assert_eq!(tree.exists(&file).await.unwrap(), is_seen, "{class}");
    }
}

#[tokio::test]
async fn writes_keep_an_unknown_class() {
    let account = Account::new(OWNER).await;
    let main = account.access(&ann(Class::Main)).await;
    let tree = account.tree(&ann(Class::Dm)).await;
    say(&account, &main, "work", SECRET).await;
    let meta = p("/users/ann/agents/scout/session/work/meta.json");
    let text = account.text(meta.as_str()).await.replace("\"class\": \"main\"", "\"class\": \"channel\"");
    account.store.commit(Batch::new([Op::write(meta, text)]).by_garth()).await.unwrap();
    let sessions = main.sessions();
    sessions.set("work", &Change::new().title("Trip").state(State::Active)).await.unwrap();
    sessions.append("work", &Append::messages([Draft::user(SECRET)])).await.unwrap();
    let next = main.workspace().reset("ann", "work", &Reset::default()).await.unwrap().unwrap().next.name;
    sessions.spawn(&next, &Spawn::new("child", SECRET)).await.unwrap();
    for session in ["work", next.as_str(), "child"] {
        let text = account.text(&format!("/users/ann/agents/scout/session/{session}/meta.json")).await;
        assert!(text.contains("\"class\": \"channel\""), "{text}");
        let file = format!("{}/messages.jsonl", places(session)[0]);
        assert!(!tree.exists(&file).await.unwrap(), "{session}");
    }
    // The archive is of this class, too.
    let dm = account.access(&ann(Class::Dm)).await;
    assert!(dm.workspace().archives(None, 10).await.unwrap().0.is_empty());
    assert_eq!(main.workspace().archives(None, 10).await.unwrap().0.len(), 1);
}

#[tokio::test]
async fn damaged_session_is_not_opened_as_main() {
    let account = Account::new(OWNER).await;
    let dm = account.access(&ann(Class::Dm)).await;
    say(&account, &dm, "talk", "hello").await;
    let meta = p("/users/ann/agents/scout/session/talk/meta.json");
    account.store.commit(Batch::new([Op::write(meta.clone(), "{")]).by_garth()).await.unwrap();
    let of = async |caller, class| {
        let request = ann(class).session("talk");
        account.tried(caller, &request).await
    };
    let error = of(Caller::ApiKey, Class::Main).await.unwrap_err();
    assert!(error.is(ErrorKind::Corrupt) && error.path() == Some(&meta), "{error}");
    assert!(error.message().contains("garth repair"), "{error}");
    // To others the session is hidden, and no error tells of it.
    let dm = of(Caller::ApiKey, Class::Dm).await.unwrap();
    assert_eq!(dm.identity().class(), Class::Group);
    assert!(!dm.tree().open().await.unwrap().exists(&places("talk")[0]).await.unwrap());
    let holder = of(Caller::Holder, Class::Main).await.unwrap();
    assert_eq!(holder.identity().class(), Class::Main);
    // A request that does not name it restores it.
    let main = account.access(&ann(Class::Main)).await;
    main.sessions().set("talk", &Change::new().title("Trip")).await.unwrap();
    let restored = of(Caller::ApiKey, Class::Main).await.unwrap();
    assert_eq!(restored.identity().class(), Class::Dm);
}
