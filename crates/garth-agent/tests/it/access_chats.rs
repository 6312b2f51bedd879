//! Chats: their owners, names, creation and deletion.

use futures::TryStreamExt as _;
use garth_agent::files::{Diff, Files, Glob, Grep};
use garth_agent::session::{Create, Source};
use garth_agent::{Caller, Class, chat};
use garth_engine::fs::restore::restore;
use garth_engine::model::{
    At, Attributes, Author, Batch, FindQuery, HistoryPage, Moment, Op, Seq, SnapshotsPage,
};
use garth_engine::{Env, ErrorKind, FileSystemExt, TreePath};

use super::access::{Account, by_key, scout};

#[tokio::test]
async fn chat_belongs_to_its_creator() {
    let account = Account::new(r#"{"owner":"ann"}"#).await;
    let trip = |user: &str| scout().user(user).chat("trip");
    account.tree(&trip("ann")).await.write("/plan.md", "pack").await.unwrap();
    for other in [trip("bob"), scout().chat("trip"), by_key("dm:x").chat("trip"), by_key("else").chat("trip")]
    {
        let error = account.tried(Caller::ApiKey, &other).await.unwrap_err();
        assert!(error.is(ErrorKind::AccessDenied), "{other:?}: {error}");
    }
    // The default chat cannot be opened by its name either.
    account.tree(&scout().user("ann").chat("bob")).await.write("/f", "x").await.unwrap();
    assert!(!account.tree(&scout().user("bob")).await.exists("/f").await.unwrap());
    // The owner can open it.
    let bob = account.tried(Caller::Holder, &scout().user("bob")).await.unwrap();
    bob.own_chat("trip").await.unwrap();
    let program = account.tried(Caller::ApiKey, &scout().user("bob")).await.unwrap();
    assert!(program.own_chat("trip").await.unwrap_err().is(ErrorKind::AccessDenied));
    assert_eq!(account.tree(&trip("bob")).await.read_to_string("/plan.md").await.unwrap(), "pack");
    assert!(account.tried(Caller::ApiKey, &trip("ann")).await.is_err());
    // A chat without an owner waits for `own`.
    account.put("/chats/old/f", "x").await;
    let error = account.tried(Caller::ApiKey, &scout().user("ann").chat("old")).await.unwrap_err();
    assert!(error.is(ErrorKind::AccessDenied) && error.message().contains("garth chat own"), "{error}");
    // The default chat is named after the audience.
    account.tree(&by_key("slack:channel:C1")).await.write("/f", "of C1").await.unwrap();
    assert_eq!(account.text("/chats/:slack:channel:C1/f").await, "of C1");
}

#[tokio::test]
async fn unwritten_chat_reads_as_empty() {
    let account = Account::new(r#"{"owner":"ann"}"#).await;
    let (own, root) = ("/.agent/SOUL.md", At::from(&TreePath::root()));
    account.put("/agents/scout/SOUL.md", "kind").await;
    account.put("/chats/second/secret.md", "canary").await;
    let main = scout().user("ann");
    // The first access to an account may write a record of its own.
    account.tried(Caller::Holder, &main).await.unwrap();
    let before = account.store.head().await.unwrap().seq;
    for request in [main.clone(), main.clone().chat("new"), main.clone().class(Class::Dm), by_key("dm:x")] {
        let access = account.tried(Caller::ApiKey, &request).await.unwrap();
        let tree = access.tree().create(false).open().await.unwrap();
        let entry = tree.stat(&root).await.unwrap();
        assert!(entry.is_dir() && entry.attributes == Attributes::default(), "{request:?}: {entry:?}");
        let names = tree.read_dir("/").map_ok(|item| item.name.to_string());
        assert_eq!(names.try_collect::<Vec<_>>().await.unwrap(), [".agent", ".user", "ctx"], "{request:?}");
        assert_eq!(tree.read_to_string(own).await.unwrap(), "kind");
        // The operations on files begin at the root.
        let files = Files::new(&*tree);
        let found = files.grep(&Grep::new("kind|canary")).await.unwrap().files;
        assert_eq!(found.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(), [own]);
        let found = files.glob(&Glob::new("/**/*.md")).await.unwrap().items;
        assert_eq!(found.iter().map(|item| item.path.as_str()).collect::<Vec<_>>(), [own]);
        assert!(files.diff(&Diff::since("/", before)).await.unwrap().items.is_empty());
        assert!(tree.find(&FindQuery::tag("none")).await.unwrap().items.is_empty());
        // A directory that nobody created has no history, and is as empty at any time.
        let history = tree.history(&root, &HistoryPage::default()).await.unwrap_err();
        assert!(history.is(ErrorKind::NotFound), "{history}");
        assert_eq!(tree.wait(Seq(0)).await.unwrap().seq, before);
        let past = tree.as_of(&Moment::Seq(Seq(0))).await.unwrap();
        assert!(past.stat(&root).await.unwrap().is_dir() && past.read_to_string(own).await.is_err());
        assert_eq!(account.store.head().await.unwrap().seq, before, "reads create nothing");
    }
    // Once the chat exists, its directory is shown, and the past is as empty as it was.
    let tree = account.tree(&main).await;
    tree.write("/f", "x").await.unwrap();
    assert_ne!(tree.stat(&root).await.unwrap().attributes, Attributes::default());
    let past = tree.as_of(&Moment::Seq(before)).await.unwrap();
    assert!(past.stat(&root).await.unwrap().is_dir() && !past.exists("/f").await.unwrap());
    // Nothing is restored to a time at which nobody had created it.
    let now = Env::system().now();
    let refused = restore(&*tree, &TreePath::root(), &Moment::Seq(before), now, &Batch::default()).await;
    assert!(refused.unwrap_err().is(ErrorKind::NotFound));
    assert!(tree.exists("/f").await.unwrap());
}

#[tokio::test]
async fn deleted_chat_reads_as_empty() {
    let account = Account::new(r#"{"owner":"ann"}"#).await;
    let tree = account.tree(&scout().user("ann").chat("trip")).await;
    tree.write("/f", "x").await.unwrap();
    chat::delete(&*account.store, "trip", Author::default()).await.unwrap();
    let root = At::from(&TreePath::root());
    assert!(tree.stat(&root).await.unwrap().is_dir() && !tree.exists("/f").await.unwrap());
    let history = tree.history(&root, &HistoryPage::default()).await.unwrap();
    assert!(history.items[0].entry.is_none(), "{history:?}");
}

#[tokio::test]
async fn restore_keeps_the_chat_owner() {
    let account = Account::new(r#"{"owner":"ann"}"#).await;
    let trip = |user: &str| scout().user(user).chat("trip");
    account.tree(&scout().user("cal")).await.write("/own.md", "x").await.unwrap();
    account.tree(&trip("bob")).await.write("/a.md", "of bob").await.unwrap();
    let then = account.store.head().await.unwrap().seq;
    account.tried(Caller::Holder, &scout().user("cal")).await.unwrap().own_chat("trip").await.unwrap();
    let cals = account.tree(&trip("cal")).await;
    cals.write("/cal.md", "of cal").await.unwrap();
    let (root, now) = (TreePath::root(), Env::system().now());
    restore(&*cals, &root, &Moment::Seq(then), now, &Batch::default()).await.unwrap();
    assert!(!cals.exists("/cal.md").await.unwrap());
    assert!(account.tried(Caller::ApiKey, &trip("bob")).await.is_err());
    account.tried(Caller::ApiKey, &trip("cal")).await.unwrap();
}

#[tokio::test]
async fn only_owners_share_a_named_chat() {
    let account = Account::new(r#"{"owner":"*"}"#).await;
    account.tree(&scout().user("ann").chat("trip")).await.write("/plan.md", "pack").await.unwrap();
    let bobs = account.tree(&scout().user("bob").chat("trip")).await;
    assert_eq!(bobs.read_to_string("/plan.md").await.unwrap(), "pack");
    let group = account.tried(Caller::ApiKey, &by_key("else").chat("trip")).await;
    assert!(group.unwrap_err().is(ErrorKind::AccessDenied));
}

#[tokio::test]
async fn past_of_deleted_chat_stays_hidden() {
    let account = Account::new("{}").await;
    let trip = |user: &str| scout().user(user).chat("trip");
    account.tree(&trip("ann")).await.write("/plan.md", "a canary").await.unwrap();
    let then = account.store.head().await.unwrap().seq;
    chat::delete(&*account.store, "trip", Author::default()).await.unwrap();
    match account.tried(Caller::ApiKey, &trip("bob")).await {
        Err(error) => assert!(error.is(ErrorKind::AccessDenied), "{error}"),
        Ok(access) => {
            let tree = access.tree().open().await.unwrap();
            let past = tree.as_of(&Moment::Seq(then)).await.unwrap();
            assert!(!past.exists("/plan.md").await.unwrap());
        }
    }
    // Its own audience may use it again.
    account.tree(&trip("ann")).await.write("/plan.md", "again").await.unwrap();
}

#[tokio::test]
async fn default_chats_cannot_be_taken_in_advance() {
    let account = Account::new(r#"{"owner":"ann"}"#).await;
    account.tree(&scout().user("eve").chat("ann")).await.write("/f", "of eve").await.unwrap();
    let ann = scout().user("ann");
    account.tree(&ann).await.write("/f", "of ann").await.unwrap();
    assert_eq!(account.text("/chats/:user:ann/f").await, "of ann");
    // Also when the name is free again: her files stay where they are.
    chat::delete(&*account.store, "ann", Author::default()).await.unwrap();
    assert_eq!(account.tree(&ann).await.read_to_string("/f").await.unwrap(), "of ann");
    let eve = account.tree(&scout().user("eve").chat("ann")).await;
    assert!(!eve.exists("/f").await.unwrap());
}

#[tokio::test]
async fn sessions_cannot_reach_foreign_chats() {
    let account = Account::new("{}").await;
    account.put("/chats/bob/notes.md", "a canary").await;
    let bob = account.access(&scout().user("bob")).await;
    bob.make().await.unwrap();
    let sessions = bob.sessions();
    sessions.create(&Create::new("work")).await.unwrap();
    for source in ["/notes.md", "/chats/bob/notes.md"] {
        let resolved = sessions.resolve("work", &source.parse::<Source>().unwrap()).await;
        assert!(resolved.is_err(), "{source}: {resolved:?}");
    }
    assert!(bob.tree().open().await.unwrap_err().message().contains("garth chat own"));
}

#[tokio::test]
async fn snapshots_are_hidden_from_wider_classes() {
    let account = Account::new(r#"{"owner":"ann"}"#).await;
    let main = account.tree(&scout().user("ann")).await;
    main.write("/f", "x").await.unwrap();
    main.commit(Batch::new([Op::Snapshot { name: "canary".to_owned() }])).await.unwrap();
    let dm = account.tree(&scout().user("ann").class(Class::Dm)).await;
    assert!(dm.snapshots(&SnapshotsPage::default()).await.unwrap().items.is_empty());
    assert_eq!(main.snapshots(&SnapshotsPage::default()).await.unwrap().items.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_chat_creation_has_one_winner() {
    let account = std::sync::Arc::new(Account::new("{}").await);
    for round in 0..20 {
        let writers = (0..4).map(|user| {
            let account = std::sync::Arc::clone(&account);
            tokio::spawn(async move {
                let request = scout().user(format!("u{user}")).chat(format!("race{round}"));
                let tree = account.tried(Caller::ApiKey, &request).await?.tree().open().await?;
                tree.write(format!("/u{user}.md").as_str(), "a canary").await
            })
        });
        let mut written = 0;
        for writer in writers.collect::<Vec<_>>() {
            match writer.await.unwrap() {
                Ok(_) => written += 1,
                Err(error) => assert!(error.is(ErrorKind::AccessDenied), "{error}"),
            }
        }
        let files =
            account.store.read_dir(format!("/chats/race{round}").as_str()).try_collect::<Vec<_>>().await;
        assert_eq!((written, files.unwrap().len()), (1, 1), "round {round}");
    }
}

#[tokio::test]
async fn default_chats_of_owners_are_separate() {
    let account = Account::new(r#"{"owner":"*"}"#).await;
    account.tree(&scout().user("ann")).await.write("/notes.md", "a canary").await.unwrap();
    for other in [scout().user("bob").chat("ann"), scout().chat("ann")] {
        assert!(account.tried(Caller::ApiKey, &other).await.unwrap_err().is(ErrorKind::AccessDenied));
    }
    assert!(account.tree(&scout().user("ann").chat("ann")).await.exists("/notes.md").await.unwrap());
}

#[tokio::test]
async fn owner_chats_are_separate_by_agent() {
    let account = Account::new(r#"{"owner":"*"}"#).await;
    account.put("/agents/two/settings.json", r#"{"owner":"*"}"#).await;
    account.tree(&scout().user("ann").chat("team")).await.write("/t.md", "a canary").await.unwrap();
    let two = garth_agent::Request::new("two").user("zoe").chat("team");
    assert!(account.tried(Caller::ApiKey, &two).await.unwrap_err().is(ErrorKind::AccessDenied));
}
