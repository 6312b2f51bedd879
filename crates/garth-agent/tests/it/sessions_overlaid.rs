//! Sessions in an overlay: they are read, and written in the account alone.

use std::sync::Arc;

use garth_agent::session::{Append, Create, Draft, Import, PackOptions, Sessions, TranscriptFormat};
use garth_agent::workspace::{Reset, Workspace};
use garth_engine::engine::memory::MemoryFs;
use garth_engine::model::{Batch, NamesPage, SearchQuery};
use garth_engine::view::overlay::{LowerLayer, StoredOverlay};
use garth_engine::view::{Overlay, Scope};
use garth_engine::{AccountStore, Env, Error, ErrorKind, FileSystem, FileSystemExt as _, TreePath};

use super::sessions::{account, path, said, sessions};
use super::sessions_retracted::{say, source};

/// A message as it is stored.
const LINE: &str = concat!(
    r#"{"id":"msg-own","role":"user","content":"The ferry waits.","created_at":"2026-01-27T09:30:00Z"}"#,
    "\n"
);

/// Returns a new overlay of the account.
async fn overlay(account: &Arc<dyn AccountStore>) -> StoredOverlay {
    let lower = LowerLayer { root: TreePath::root(), as_of: None };
    StoredOverlay::create(&**account, "o", &lower, &Batch::default()).await.unwrap();
    StoredOverlay::open(&**account, "o").await.unwrap()
}

fn assert_refused<T: std::fmt::Debug>(what: &str, answer: Result<T, Error>) {
    let error = answer.expect_err(what);
    assert!(error.is(ErrorKind::Unsupported) && error.message().contains("--overlay"), "{what}: {error}");
}

async fn assert_unchanged(overlay: &StoredOverlay) {
    let changes = overlay.diff(&NamesPage::default()).await.unwrap();
    assert!(changes.items.is_empty(), "{:?}", changes.items);
}

#[tokio::test]
async fn retraction_in_overlay_is_refused() {
    let (account, _folder) = account().await;
    say(&sessions(&*account).await, "default", ["One.", "Two."].map(str::to_owned)).await;
    let overlay = overlay(&account).await;
    let tree = overlay.tree();
    let drafted = Sessions::new(&*tree, "default", "coder").unwrap();
    assert_refused("retract", drafted.retract("default", &source("messages:2"), None).await);
    assert_unchanged(&overlay).await;
    // Reads do not change the overlay either.
    assert_eq!(said(&drafted, "default").await, ["One.", "Two."]);
    let pack = drafted.pack("default", &PackOptions::default()).await.unwrap();
    assert!(pack.markdown.contains("Two."), "{}", pack.markdown);
    assert_unchanged(&overlay).await;
    // A retraction in the account is effective in the overlay.
    let of_account = Sessions::new(&*account, "default", "coder").unwrap();
    of_account.retract("default", &source("messages:2"), None).await.unwrap();
    assert_eq!(said(&drafted, "default").await, ["One."]);
}

#[tokio::test]
async fn refused_writes_in_overlay_store_nothing() {
    let (account, _folder) = account().await;
    say(&sessions(&*account).await, "default", ["One.".to_owned()]).await;
    let overlay = overlay(&account).await;
    let tree = overlay.tree();
    let drafted = Sessions::new(&*tree, "default", "coder").unwrap();
    for _ in 0..2 {
        let again = Append::messages([Draft::user("again")]);
        assert_refused("append", drafted.append("default", &again).await);
        let event = Append::events([Draft::event("tool.call")]);
        assert_refused("event", drafted.append("default", &event).await);
        let import = Import::new(TranscriptFormat::OpenAi, r#"[{"role":"user","content":"again"}]"#).part();
        assert_refused("import", drafted.import("default", &import).await);
        assert_refused("create", drafted.create(&Create::new("other")).await);
        assert_refused("pin", drafted.pin("default", "note", Some("again")).await);
        let workspace = Workspace::new(&*tree, "coder").unwrap();
        assert_refused("reset", workspace.reset("default", "default", &Reset::default()).await);
        assert_unchanged(&overlay).await;
    }
    assert_eq!(said(&drafted, "default").await, ["One."]);
}

#[tokio::test]
async fn search_omits_session_logs_of_overlays() {
    let (account, _folder) = account().await;
    let of_account = sessions(&*account).await;
    let texts = ["The harbour is closed.", "The quokka lives on Rottnest island."];
    say(&of_account, "default", texts.map(str::to_owned)).await;
    let overlay = overlay(&account).await;
    let tree: Arc<dyn FileSystem> = overlay.tree();
    let found = async |text: &str| -> Vec<TreePath> {
        let hits = tree.search(&SearchQuery::new(text)).await.unwrap().hits;
        hits.into_iter().map(|hit| hit.path).collect()
    };
    assert_eq!(found("harbour").await, [path("messages.jsonl")]);
    // The log is copied up, so that the retraction has no keys for the copy.
    tree.append(&path("messages.jsonl"), LINE).await.unwrap();
    tree.write("/draft.md", "A quokka and a ferry.").await.unwrap();
    of_account.retract("default", &source("messages:2"), None).await.unwrap();
    let draft = [TreePath::parse("/draft.md").unwrap()];
    for text in ["quokka", "ferry"] {
        assert_eq!(found(text).await, draft, "{text}");
    }
    assert!(found("harbour").await.is_empty());
}

#[tokio::test]
async fn search_omits_session_logs_in_other_stores() {
    let (account, _folder) = account().await;
    let of_account = sessions(&*account).await;
    say(&of_account, "default", ["The quokka lives on Rottnest island.".to_owned()]).await;
    let user = TreePath::parse("/users/default").unwrap();
    let whole: Arc<dyn FileSystem> = Arc::<dyn AccountStore>::clone(&account);
    let mut overlays = Vec::new();
    for (lower, root) in [(whole, TreePath::root()), (Scope::open(&*account, &user).await.unwrap(), user)] {
        let upper = Arc::new(MemoryFs::new(Env::system(), garth_agent::registry()));
        let tree = Overlay::open(lower, upper).await.unwrap();
        let of_session = |name: &str| path(name).rebase(&root, &TreePath::root()).unwrap().unwrap();
        tree.append(&of_session("messages.jsonl"), LINE).await.unwrap();
        tree.write(&of_session("latest.md"), "A quokka and a ferry.").await.unwrap();
        tree.write("/draft.md", "A quokka and a ferry.").await.unwrap();
        overlays.push(tree);
    }
    of_account.retract("default", &source("messages:1"), None).await.unwrap();
    for tree in overlays {
        for text in ["quokka", "ferry"] {
            let hits = tree.search(&SearchQuery::new(text)).await.unwrap().hits;
            let found: Vec<&str> = hits.iter().map(|hit| hit.path.as_str()).collect();
            assert_eq!(found, ["/draft.md"], "{text}");
        }
    }
}
