//! Requests and chats: what the short ways do, and what a chat reaches.

use std::sync::Arc;

use garth::session::Create;
use garth::{Chat, Class, ErrorKind, FileSystem, FileSystemExt, Garth, Recall, TreePath};
use tempfile::TempDir;

const COFFEE: &str = "Takes her coffee black.";

fn data() -> (TempDir, Garth) {
    let folder = tempfile::tempdir().unwrap();
    let data = garth::open(folder.path().join("agents")).unwrap();
    (folder, data)
}

#[tokio::test]
async fn remembered_text_is_recalled() {
    let (_folder, data) = data();
    let alice = data.user("alice");
    let written = alice.remember(COFFEE).await.unwrap();
    assert!(written.created);
    let known = alice.recall("How does she take her coffee?").await.unwrap();
    assert!(known.text.contains(COFFEE), "{}", known.text);
    assert_eq!(known.items[0].source, written.meta.uri);
    let small = alice.recall(Recall::new("coffee").budget(1)).await.unwrap_err();
    assert!(small.is(ErrorKind::InvalidArgument), "{small}");
}

#[tokio::test]
async fn forgotten_memory_is_not_recalled() {
    let (_folder, data) = data();
    let alice = data.user("alice");
    let uri = alice.remember(COFFEE).await.unwrap().meta.uri;
    alice.forget(&uri).await.unwrap();
    assert!(alice.recall("coffee").await.unwrap().items.is_empty());
    assert!(alice.forget(&uri).await.unwrap_err().is(ErrorKind::NotFound));
    assert!(alice.forget(COFFEE).await.unwrap_err().is(ErrorKind::NotFound));
    assert!(alice.forget("ctx://x").await.unwrap_err().is(ErrorKind::InvalidArgument));
}

#[tokio::test]
async fn other_user_sees_nothing_of_memory() {
    let (_folder, data) = data();
    let uri = data.user("alice").remember(COFFEE).await.unwrap().meta.uri;
    let bob = data.user("bob").open().await.unwrap();
    assert!(bob.recall("coffee").await.unwrap().items.is_empty());
    assert!(!bob.files().exists("/ctx/users/alice").await.unwrap());
    assert!(!bob.forget(&uri).await.unwrap_err().is(ErrorKind::InvalidArgument));
    assert!(!data.user("alice").recall("coffee").await.unwrap().items.is_empty());
}

#[tokio::test]
async fn recall_before_first_write_finds_nothing() {
    let (_folder, data) = data();
    assert!(data.user("alice").recall("coffee").await.unwrap().items.is_empty());
    let account = data.dir().account("default").await.unwrap();
    assert!(!account.exists("/users/alice").await.unwrap(), "a recall creates no directory");
}

#[tokio::test]
async fn default_account_is_created_in_empty_folder_only() {
    let (_folder, data) = data();
    data.user("alice").open().await.unwrap();
    assert_eq!(data.dir().control().accounts().await.unwrap()[0].id, "default");

    let (_folder, data) = self::data();
    data.dir().create_account("acme").await.unwrap();
    let refused = data.user("alice").remember(COFFEE).await.unwrap_err();
    assert!(refused.is(ErrorKind::NotFound) && refused.message().contains("create_account"), "{refused}");
    assert!(data.account("acme").user("alice").remember(COFFEE).await.unwrap().created);
}

#[tokio::test]
async fn session_key_names_agent_and_listeners() {
    let (_folder, data) = data();
    let channel = data.key("agent:concierge:slack:channel:C1").open().await.unwrap();
    assert_eq!((channel.agent(), channel.class()), ("concierge", Class::Group));
    let other = data.key("agent:concierge:slack:channel:C1").agent("scout").open().await.unwrap_err();
    assert!(other.is(ErrorKind::InvalidArgument), "{other}");
    assert!(data.key("concierge").open().await.unwrap_err().is(ErrorKind::InvalidArgument));
}

#[tokio::test]
async fn chat_reaches_files_sessions_prompt_and_media() {
    let (_folder, data) = data();
    let chat = data.agent("concierge").user("alice").chat("lobby").open().await.unwrap();
    chat.files().write("/plan.md", "1. Breakfast.\n").await.unwrap();
    let account = data.dir().account("default").await.unwrap();
    assert_eq!(account.read_to_string("/chats/lobby/plan.md").await.unwrap(), "1. Breakfast.\n");

    chat.sessions().create(&Create::new("work")).await.unwrap();
    let in_session = data.agent("concierge").user("alice").session("work").open().await.unwrap();
    assert!(in_session.prompt().await.unwrap().event.is_some(), "the session notes its prompt");
    assert!(chat.prompt().await.unwrap().event.is_none());
    assert!(chat.media().list("work", None, 10).await.unwrap().0.is_empty());

    let other = data.agent("concierge").user("bob").chat("lobby").open().await.unwrap_err();
    assert!(other.is(ErrorKind::AccessDenied), "{other}");
}

#[tokio::test]
async fn class_of_more_listeners_hides_owners_memory() {
    let (_folder, data) = data();
    let owner = data.agent("concierge").open().await.unwrap();
    owner.files().write("/.agent/MEMORY.md", "The safe is behind the picture.\n").await.unwrap();
    let path = "/.agent/MEMORY.md";
    assert!(owner.files().exists(path).await.unwrap());
    let group = data.agent("concierge").class(Class::Group).chat("hall").open().await.unwrap();
    assert!(!group.files().exists(path).await.unwrap());
}

/// Reads through a generic function, and a trait object, as the code of a program does.
async fn read(files: &dyn FileSystem, path: &str) -> String {
    files.read_to_string(path).await.unwrap()
}

#[tokio::test]
async fn shared_filesystem_is_taken_by_reference() {
    let fs: Arc<dyn FileSystem> = garth::in_memory();
    fs.write("/a", "text").await.unwrap();
    assert_eq!(read(&fs, "/a").await, "text");
    assert_eq!(read(&Arc::new(Arc::clone(&fs)), "/a").await, "text");
    let (entry, bytes) =
        FileSystem::fetch(&fs, &TreePath::parse("/a").unwrap().into(), (0..).into()).await.unwrap();
    assert_eq!((entry.size, &bytes[..]), (4, &b"text"[..]));
}

#[test]
fn handles_are_shared_between_threads() {
    fn is_shared<T: Clone + Send + Sync + 'static>() {}
    is_shared::<Garth>();
    is_shared::<garth::ChatRequest>();
    is_shared::<Chat>();
    is_shared::<garth::AgentTree>();
}
