//! Reach of an API key: the effect of each part of its binding on the tree that its requests open.

use std::sync::Arc;

use bytes::Bytes;
use garth_agent::access::{Credential, Family, Grounds, OpenTrees, Reach};
use garth_agent::media::{Media, NewMedia};
use garth_agent::session::Create;
use garth_agent::{Access, Caller, Request};
use garth_engine::fs::resolve::{self, Follow};
use garth_engine::home::Binding;
use garth_engine::model::{At, Batch, HistoryPage, Op};
use garth_engine::view::overlay::{LowerLayer, StoredOverlay};
use garth_engine::{AccountStore, Env, Error, ErrorKind, FileSystem, FileSystemExt, Home};
use serde_json::{Value, json};

use super::access::{Account, p, scout};

fn binding(json: Value) -> Binding {
    serde_json::from_value(json).unwrap()
}

fn reach(account: &Account, binding: &Binding, is_admin: bool, asked: Request) -> Reach {
    let key = Credential { id: "0123456789abcdef", binding, is_admin };
    let store = Some(Arc::clone(&account.store));
    Reach::new(store, &Env::system(), key, Family::Files, asked).unwrap()
}

/// Opens what a bound key reaches without naming anything.
pub(super) async fn bound(account: &Account, json: Value) -> Grounds {
    let reach = reach(account, &binding(json), false, Request::default());
    reach.open(Family::Files).await.unwrap()
}

#[tokio::test]
async fn tree_that_is_kept_open_follows_each_commit() {
    let account = Account::new(r#"{"owner":"ann"}"#).await;
    let (trees, env) = (Arc::new(OpenTrees::default()), Env::system());
    let key = binding(json!({"agent": "scout"}));
    let kept = |user: &str| reach(&account, &key, false, scout().user(user)).kept_in(&trees, "tree");
    let classes = async || {
        let mut classes = Vec::new();
        for user in ["ann", "bob"] {
            let grounds = kept(user).open(Family::Files).await.unwrap();
            grounds.tree(false).await.unwrap();
            classes.push(grounds.identity().unwrap().class().to_string());
        }
        classes
    };
    for _ in 0..3 {
        assert_eq!(classes().await, ["main", "dm"]);
    }
    assert_eq!(trees.len(), 2);
    let settings = Op::write(p("/agents/scout/settings.json"), r#"{"owner":"bob"}"#);
    account.store.commit(Batch::new([settings])).await.unwrap();
    assert_eq!(classes().await, ["dm", "main"]);
    // Another key, and another account under the name, have trees of their own.
    kept("ann").open(Family::Files).await.unwrap();
    let other = reach(&account, &Binding::default(), false, scout().user("ann")).kept_in(&trees, "tree");
    other.open(Family::Files).await.unwrap();
    let again = reach(&account, &key, false, scout().user("ann")).kept_in(&trees, "other");
    again.open(Family::Files).await.unwrap();
    assert_eq!(trees.len(), 4);
    trees.close_unused(&env);
    assert_eq!(trees.len(), 4, "they were just used");
}

#[tokio::test]
async fn tree_that_is_kept_open_serves_its_own_request_only() {
    let account = Account::new(r#"{"owner":"ann"}"#).await;
    let trees = Arc::new(OpenTrees::default());
    let kept = |key: &Binding, asked| reach(&account, key, false, asked).kept_in(&trees, "tree");
    let (free, narrow) = (Binding::default(), binding(json!({"agent": "scout", "prefix": "/notes"})));
    kept(&free, scout().user("ann")).open(Family::Files).await.unwrap();
    // An empty name is an invalid one, and not a missing one.
    let refused = kept(&free, scout().user("ann").chat("")).open(Family::Files).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
    let narrow = kept(&narrow, Request::default());
    narrow.open(Family::Files).await.unwrap();
    let refused = narrow.open(Family::Sessions).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::AccessDenied, "{refused}");
}

#[tokio::test]
async fn trees_under_long_settings_do_not_all_stay_open() {
    let part = "x".repeat(64);
    let users: Vec<String> = (0..4200).map(|n| format!(r#""{part}:{part}:dm:{n:064}":"u""#)).collect();
    let account = Account::new(&format!(r#"{{"identities":{{{}}}}}"#, users.join(","))).await;
    let trees = Arc::new(OpenTrees::default());
    for number in 0..16 {
        let asked = scout().user(format!("u{number}"));
        let reach = reach(&account, &Binding::default(), false, asked).kept_in(&trees, "tree");
        reach.open(Family::Files).await.unwrap();
    }
    assert!((2..16).contains(&trees.len()), "{}", trees.len());
}

#[tokio::test]
async fn writes_work_through_a_tree_that_is_kept_open() {
    let account = Account::new("{}").await;
    let trees = Arc::new(OpenTrees::default());
    for number in 0..3 {
        let key = Binding::default();
        let reach = reach(&account, &key, false, scout().user("ann")).kept_in(&trees, "tree");
        let tree = reach.open(Family::Files).await.unwrap().tree(true).await.unwrap();
        let path = p(&format!("/new/{number}.md"));
        tree.commit(Batch::new([Op::write(path, "x").with_parents()])).await.unwrap();
        let tree = reach.open(Family::Files).await.unwrap().tree(false).await.unwrap();
        assert!(tree.exists(format!("/new/{number}.md").as_str()).await.unwrap());
    }
}

#[tokio::test]
async fn holder_is_the_owner_without_a_key() {
    let account = Account::new(r#"{"owner":"ann"}"#).await;
    let store = Arc::clone(&account.store);
    let reach = Reach::of_holder(store, &Env::system(), Family::Files, Request::new("scout"));
    let who = reach.open(Family::Files).await.unwrap();
    let who = who.identity().unwrap();
    assert_eq!((who.audience(), who.class().to_string()), ("ann", "main".to_owned()));
    let tree = reach.open(Family::Files).await.unwrap().tree(true).await.unwrap();
    let commit = tree.commit(Op::write(p("/a.md"), "x").into()).await.unwrap();
    let versions = tree.history(&At::from(p("/a.md")), &HistoryPage::default()).await.unwrap();
    let author = &versions.items[0].commit.author;
    assert_eq!(versions.items[0].commit.seq, commit.seq);
    assert_eq!((author.key.as_deref(), author.agent.as_deref()), (None, Some("scout")));
}

/// Returns the tree of ann, who owns the agent, with a file of hers.
async fn of_ann(account: &Account) -> Arc<dyn FileSystem> {
    let tree = account.access(&scout().user("ann")).await.tree().open().await.unwrap();
    tree.commit(Batch::new([
        Op::write(p("/notes/plan.md"), "plan").with_parents(),
        Op::write(p("/secret.md"), "secret"),
    ]))
    .await
    .unwrap();
    tree
}

#[tokio::test]
async fn bound_key_never_works_outside_of_sessions() {
    // Without an owner, whoever names nobody owns the agent.
    let account = Account::new("{}").await;
    let settings = || Op::write(p("/.agent/settings.json"), r#"{"owner":"eve"}"#);
    let grounds = bound(&account, json!({"agent": "scout"})).await;
    let tree = grounds.tree(true).await.unwrap();
    let refused = tree.commit(settings().into()).await.unwrap_err();
    let is_refused = matches!(refused.kind(), ErrorKind::RuleViolation | ErrorKind::AccessDenied);
    assert!(is_refused, "{refused}");
    let free = reach(&account, &Binding::default(), false, scout());
    let tree = free.open(Family::Files).await.unwrap().tree(true).await.unwrap();
    tree.commit(settings().into()).await.unwrap();
}

#[tokio::test]
async fn bound_key_never_opens_the_account() {
    let account = Account::new(r#"{"owner":"ann"}"#).await;
    for json in [json!({"agent": "scout"}), json!({"user": "ann"}), json!({"class": "main"})] {
        let grounds = bound(&account, json.clone()).await;
        assert!(grounds.identity().is_some(), "{json}");
        assert!(grounds.account().is_err(), "{json}");
    }
    let key = binding(json!({"agent": "scout"}));
    let key = Credential { id: "0123456789abcdef", binding: &key, is_admin: true };
    let store = Some(Arc::clone(&account.store));
    let refused = Reach::new(store, &Env::system(), key, Family::Admin, Request::default()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::AccessDenied);
}

#[tokio::test]
async fn only_free_admin_keys_open_overlays() {
    let account = Account::new(r#"{"owner":"ann"}"#).await;
    let lower = LowerLayer { root: p("/"), as_of: None };
    StoredOverlay::create(&*account.store, "draft", &lower, &Batch::default()).await.unwrap();
    let (free, bound) = (Binding::default(), binding(json!({"agent": "scout"})));
    for (binding, is_admin, asked, kind) in [
        (&free, false, Request::default(), ErrorKind::AccessDenied),
        (&bound, true, Request::default(), ErrorKind::AccessDenied),
        (&free, true, scout(), ErrorKind::InvalidArgument),
    ] {
        let refused = reach(&account, binding, is_admin, asked).in_overlay(Some("draft")).unwrap_err();
        assert_eq!(refused.kind(), kind, "{refused}");
    }
    let opened = reach(&account, &free, true, Request::default()).in_overlay(Some("draft")).unwrap();
    let tree = opened.open(Family::Files).await.unwrap().tree(true).await.unwrap();
    tree.write("/new.md", "x").await.unwrap();
    assert_eq!(tree.read_to_string("/new.md").await.unwrap(), "x");
    assert!(!account.store.exists("/new.md").await.unwrap());
}

#[tokio::test]
async fn bound_key_sees_nothing_of_damaged_settings() {
    let account = Account::new("{}").await;
    let bad = Op::write(p("/agents/scout/settings.json"), r#"{"identities":{"dm:canary":":y"}}"#);
    account.store.overriding_rules().commit(bad.into()).await.unwrap();
    let binding = binding(json!({"agent": "scout", "user": "bob"}));
    for (binding, is_quoted) in [(&binding, false), (&Binding::default(), true)] {
        let reach = reach(&account, binding, false, scout());
        for error in [reach.open(Family::Files).await.unwrap_err(), reach.judge().await.unwrap_err()] {
            assert!(error.is(ErrorKind::Corrupt) && error.path().is_some(), "{error}");
            assert_eq!(error.to_string().contains("canary"), is_quoted, "{error}");
        }
    }
}

/// The engine stores such bindings if nobody has checked them.
#[tokio::test]
async fn invalid_binding_opens_nothing() {
    let account = Account::new(r#"{"owner":"ann"}"#).await;
    for json in [
        json!({"read_only": true}),
        json!({"prefix": "/notes"}),
        json!({"user": "default"}),
        json!({"key": "scout"}),
        json!({"agent": "scout", "class": "none"}),
    ] {
        let bound = binding(json.clone());
        let key = Credential { id: "0123456789abcdef", binding: &bound, is_admin: false };
        let store = Some(Arc::clone(&account.store));
        let opened = Reach::new(store, &Env::system(), key, Family::Files, Request::default());
        assert_eq!(opened.unwrap_err().kind(), ErrorKind::InvalidArgument, "{json}");
    }
}

/// Reads a file of the account `acme` by a call on files that names nobody, as an operator does.
async fn read_as_operator(
    home: &Arc<dyn Home>,
    store: Option<Arc<dyn AccountStore>>,
    binding: &Binding,
    is_admin: bool,
) -> Result<String, Error> {
    let key = Credential { id: "0123456789abcdef", binding, is_admin };
    let reach = Reach::new(store, home.env(), key, Family::Files, Request::default())?.reading(home);
    let tree = reach.open(Family::Files).await?.tree(false).await?;
    tree.read_to_string("/accounts/acme/note").await
}

#[tokio::test]
async fn only_free_admin_keys_of_the_home_read_all_accounts() {
    let folder = tempfile::tempdir().unwrap();
    let data = garth::builder().open(&folder.path().join("data")).unwrap();
    data.create_account("acme").await.unwrap();
    let store = data.account("acme").await.unwrap();
    store.write("/note", "tea").await.unwrap();
    let home: Arc<dyn Home> = Arc::new(data);
    let (free, bound) = (Binding::default(), binding(json!({"agent": "scout"})));
    assert_eq!(read_as_operator(&home, None, &free, true).await.unwrap(), "tea");
    // Keys of the data folder that older versions created may lack `admin`.
    for (binding, is_admin) in [(&free, false), (&bound, true)] {
        let refused = read_as_operator(&home, None, binding, is_admin).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::AccessDenied, "{binding:?}: {refused}");
    }
    let missing = read_as_operator(&home, Some(store), &free, true).await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound, "{missing}");
}

#[tokio::test]
async fn rest_of_path_after_link_stays_in_the_tree() {
    let account = Account::new(r#"{"owner":"ann"}"#).await;
    for canary in ["/chats/other/f", "/users/bob/agents/scout/f", "/f"] {
        account.put(canary, "canary").await;
    }
    let tree = of_ann(&account).await;
    tree.commit(Op::symlink(p("/notes/top"), "/").into()).await.unwrap();
    for rest in
        ["../other/f", "../chats/other/f", "../../f", "../users/bob/agents/scout/f", ".user/../../bob/f"]
    {
        let path = format!("/notes/top/{rest}");
        let found = resolve::stat(&*tree, &path, Follow::Yes).await;
        assert!(found.as_ref().is_err_and(|error| error.is(ErrorKind::NotFound)), "{path}: {found:?}");
    }
    let (found, _) = resolve::stat(&*tree, "/notes/top/../notes/top/secret.md", Follow::Yes).await.unwrap();
    assert_eq!(found, p("/secret.md"));
}

#[tokio::test]
async fn prefix_limits_the_tree_to_a_directory() {
    let account = Account::new(r#"{"owner":"ann"}"#).await;
    of_ann(&account).await;
    let grounds = bound(&account, json!({"agent": "scout", "user": "ann", "prefix": "/notes"})).await;
    let tree = grounds.tree(true).await.unwrap();
    assert_eq!(tree.read_to_string("/notes/plan.md").await.unwrap(), "plan");
    tree.write("/notes/more.md", "more").await.unwrap();
    for path in ["/secret.md", "/", "/.agent/settings.json", "/.user", "/ctx"] {
        let missing = tree.stat(&At::Path(p(path))).await.unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound, "{path}: {missing}");
    }
    assert!(tree.write("/new.md", "x").await.is_err());
    assert!(tree.commit(Op::remove_tree(p("/notes")).into()).await.is_err());
    for (name, to) in [("top", "/"), ("up", "../.."), ("here", ".")] {
        tree.commit(Op::symlink(p(&format!("/notes/{name}")), to).into()).await.unwrap();
        for rest in ["secret.md", "../secret.md", "../../secret.md"] {
            let path = format!("/notes/{name}/{rest}");
            let found = resolve::stat(&*tree, &path, Follow::Yes).await;
            assert!(found.as_ref().is_err_and(|error| error.is(ErrorKind::NotFound)), "{path}: {found:?}");
        }
    }
    assert_eq!(tree.read_to_string("/notes/plan.md").await.unwrap(), "plan");
}

#[tokio::test]
async fn prefix_of_several_parts_shows_each_of_them() {
    let account = Account::new(r#"{"owner":"ann"}"#).await;
    account.put("/users/bob/memories/f", "tea").await;
    account.put("/skills/pdf/SKILL.md", "pdf").await;
    account.access(&scout().user("bob")).await;
    let grounds = bound(&account, json!({"agent": "scout", "user": "bob", "prefix": "/ctx"})).await;
    let tree = grounds.tree(false).await.unwrap();
    assert_eq!(tree.read_to_string("/ctx/users/bob/memories/f").await.unwrap(), "tea");
    assert_eq!(tree.read_to_string("/ctx/skills/pdf/SKILL.md").await.unwrap(), "pdf");
    assert!(tree.stat(&At::Path(p("/.user"))).await.is_err());
}

#[tokio::test]
async fn read_only_and_prefix_keys_create_no_directories() {
    let account = Account::new(r#"{"owner":"ann"}"#).await;
    account.access(&scout().user("ann")).await;
    let before = account.store.head().await.unwrap().seq;
    for limit in [json!({"read_only": true}), json!({"prefix": "/notes"})] {
        let mut json = json!({"agent": "scout", "user": "new"});
        json.as_object_mut().unwrap().extend(limit.as_object().unwrap().clone());
        let grounds = bound(&account, json).await;
        grounds.make().await.unwrap();
        grounds.tree(true).await.unwrap();
    }
    assert_eq!(account.store.head().await.unwrap().seq, before);
}

#[tokio::test]
async fn read_only_key_changes_nothing_through_its_tree() {
    let account = Account::new(r#"{"owner":"ann"}"#).await;
    of_ann(&account).await;
    let grounds = bound(&account, json!({"agent": "scout", "user": "ann", "read_only": true})).await;
    let tree = grounds.tree(true).await.unwrap();
    assert_eq!(tree.read_to_string("/secret.md").await.unwrap(), "secret");
    for op in [
        Op::write(p("/secret.md"), "x"),
        Op::write(p("/new.md"), "x"),
        Op::remove(p("/notes/plan.md")),
        Op::write(p("/.user/new.md"), "x"),
    ] {
        let refused = tree.commit(op.into()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::AccessDenied, "{refused}");
    }
    // The features of agents write by another handle.
    let refused = grounds.sessions().unwrap().create(&Create::new("new")).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::AccessDenied, "{refused}");
}

#[tokio::test]
async fn session_key_shows_no_other_session_in_its_tree() {
    let account = Account::new(r#"{"owner":"ann"}"#).await;
    let access = account.access(&scout().user("ann")).await;
    for name in ["one", "two"] {
        access.sessions().create(&Create::new(name)).await.unwrap();
    }
    account.put("/agents/scout/sessions/old.jsonl.gz", "archive").await;
    let grounds = bound(&account, json!({"agent": "scout", "user": "ann", "session": "one"})).await;
    let tree = grounds.tree(false).await.unwrap();
    let shown = |path: String| {
        let tree = Arc::clone(&tree);
        async move { tree.stat(&At::Path(p(&path))).await.is_ok() }
    };
    for top in ["/ctx/home/ann/agent/scout/session", "/.user/session"] {
        assert!(!shown(format!("{top}/two/meta.json")).await, "{top}");
    }
    assert!(shown("/ctx/home/ann/agent/scout/session/one/meta.json".to_owned()).await);
    assert!(!shown("/.agent/sessions/old.jsonl.gz".to_owned()).await);
}

#[tokio::test]
async fn key_that_fixes_a_name_reads_no_media_of_other_places() {
    let account = Account::new(r#"{"owner":"ann","identities":{"dm:a":"ann"}}"#).await;
    // As an import or an older version stores them.
    let put = async |place: &str| {
        let new = NewMedia::new(format!("agent:scout:{place}"), "image/png");
        let body = futures::stream::iter([Ok::<_, Error>(Bytes::from("x"))]);
        Media::new(&*account.store).put(&new, body).await.unwrap().key
    };
    let keys = [
        put("main").await,
        put("dm:a").await,
        put("dm:bob").await,
        put("slack:channel:C1").await,
        put("elsewhere").await,
    ];
    let fixed = |json: Value| reach(&account, &binding(json), false, Request::default());
    let asked = |json: Value| reach(&account, &binding(json), false, Request::default().user("ann"));
    let channel = "agent:scout:slack:channel:C1";
    for (reach, seen) in [
        (fixed(json!({"agent": "scout", "user": "ann"})), [true, true, false, false, false]),
        (fixed(json!({"key": "agent:scout:main"})), [true, true, false, false, false]),
        (fixed(json!({"key": "agent:scout:dm:a"})), [true, true, false, false, false]),
        (asked(json!({"agent": "scout", "chat": "trip"})), [true, true, false, false, false]),
        (asked(json!({"agent": "scout", "session": "work"})), [false; 5]),
        (asked(json!({"agent": "scout", "class": "dm"})), [false; 5]),
        (fixed(json!({"agent": "scout", "user": "bob"})), [false; 5]),
        (fixed(json!({"key": channel})), [false; 5]),
        // The owner of the agent, who also reads the archives of all audiences.
        (asked(json!({"agent": "scout"})), [true; 5]),
    ] {
        let grounds = reach.open(Family::Media).await.unwrap();
        for (key, is_seen) in keys.iter().zip(seen) {
            match grounds.media().unwrap().get(key).await {
                Ok(_) => assert!(is_seen, "{reach:?} sees {key}"),
                Err(error) => assert!(!is_seen && error.is(ErrorKind::NotFound), "{reach:?} {key}: {error}"),
            }
        }
    }
}

#[tokio::test]
async fn narrower_key_shares_no_snapshot_with_the_identity() {
    let account = Account::new(r#"{"owner":"ann"}"#).await;
    let tree = of_ann(&account).await;
    tree.commit(Op::snapshot("mine").into()).await.unwrap();
    account.store.commit(Op::snapshot("of-the-account").into()).await.unwrap();
    let of = |json: Value| reach(&account, &binding(json), false, Request::default());
    let same = of(json!({"agent": "scout", "user": "ann"}));
    let narrower = of(json!({"agent": "scout", "user": "ann", "prefix": "/notes"}));
    same.snapshot("mine").await.unwrap();
    for (reach, name) in [(&same, "of-the-account"), (&narrower, "mine"), (&narrower, "of-the-account")] {
        assert_eq!(reach.snapshot(name).await.unwrap_err().kind(), ErrorKind::NotFound, "{name}");
    }
    // A free key names a snapshot of its own tree first, then one of the account.
    let free = reach(&account, &Binding::default(), false, scout().user("ann"));
    free.snapshot("mine").await.unwrap();
    free.snapshot("of-the-account").await.unwrap();
}

#[tokio::test]
async fn free_key_writes_files_of_the_account_under_its_name() {
    let account = Account::new(r#"{"owner":"ann"}"#).await;
    account.put("/skills/pdf/SKILL.md", "pdf").await;
    Access::open(&account.store, &Env::system(), Caller::ApiKey, &scout()).await.unwrap();
    let of = async |is_admin| {
        let reach = reach(&account, &Binding::default(), is_admin, Request::default());
        reach.open(Family::Files).await.unwrap().tree(true).await.unwrap()
    };
    let tree = of(false).await;
    tree.write("/notes.md", "x").await.unwrap();
    let page = HistoryPage::default();
    let history = account.store.history(&At::Path(p("/notes.md")), &page).await.unwrap();
    assert_eq!(history.items[0].commit.author.key.as_deref(), Some("0123456789abcdef"));
    // Garth keeps its own data there.
    assert!(tree.stat(&At::Path(p("/.garth"))).await.is_err());
    assert!(tree.write("/.garth/x", "x").await.is_err());
    let skill = || Op::write(p("/skills/pdf/SKILL.md"), "other");
    let refused = tree.commit(skill().into()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::AccessDenied, "{refused}");
    of(true).await.commit(skill().into()).await.unwrap();
}
