//! Parts of an agent's tree: sessions that it shows at two paths, and skills of an account without any.

use futures::TryStreamExt as _;
use garth_agent::files::{Du, Files, Glob};
use garth_engine::model::{Op, SearchQuery};
use garth_engine::{ErrorKind, FileSystem, FileSystemExt};

use super::access::{Account, p, scout, walked};

/// Path of a file of a session, in each of the two places.
const SHOWN: [&str; 2] = ["/.user/session/s1/todo.md", "/ctx/home/ann/agent/scout/session/s1/todo.md"];

/// Returns the bytes below a path.
async fn bytes(fs: &dyn FileSystem, path: &str) -> u64 {
    Files::new(fs).du(&Du::new(path)).await.unwrap().items.last().unwrap().bytes
}

/// Returns the paths that match a pattern.
async fn matches(fs: &dyn FileSystem, pattern: &str) -> Vec<String> {
    let page = Files::new(fs).glob(&Glob::new(pattern)).await.unwrap();
    page.items.iter().map(|found| found.path.to_string()).collect()
}

#[tokio::test]
async fn sessions_are_walked_and_counted_once() {
    let account = Account::new(r#"{"owner":"ann"}"#).await;
    let tree = account.tree(&scout().user("ann").chat("trip")).await;
    account.put("/users/ann/agents/scout/session/s1/todo.md", "Feed the quokka.").await;
    let past = tree.as_of(&tree.head().await.unwrap().seq.into()).await.unwrap();
    for fs in [&*tree, &*past] {
        let paths: Vec<_> = walked(fs).await.into_iter().filter(|path| path.ends_with("/todo.md")).collect();
        assert_eq!(paths, [SHOWN[0]]);
        assert_eq!(matches(fs, "/**/todo.md").await, [SHOWN[0]]);
        assert_eq!(matches(fs, "/ctx/**/todo.md").await, [SHOWN[1]]);
        let settings = bytes(fs, "/.agent").await;
        assert_eq!((bytes(fs, "/.user").await, bytes(fs, "/").await), (16, settings + 16));
        assert_eq!(bytes(fs, "/ctx").await, 16);
        for path in SHOWN {
            assert_eq!(fs.read_to_string(path).await.unwrap(), "Feed the quokka.");
        }
    }
    let hits = tree.search(&SearchQuery::new("quokka")).await.unwrap().hits;
    assert_eq!(hits.iter().map(|hit| hit.path.as_str()).collect::<Vec<_>>(), [SHOWN[0]]);
}

#[tokio::test]
async fn first_account_skill_hides_no_written_file() {
    let account = Account::new(r#"{"owner":"ann"}"#).await;
    let tree = account.tree(&scout().user("ann").chat("trip")).await;
    let skill = "/ctx/skills/pdf/SKILL.md";
    let listed: Vec<_> = tree.read_dir("/ctx").try_collect().await.unwrap();
    assert!(listed.iter().any(|item| item.name.as_str() == "skills"), "{listed:?}");
    let listed: Vec<_> = tree.read_dir("/ctx/skills").try_collect().await.unwrap();
    assert!(listed.is_empty(), "{listed:?}");
    let error = tree.commit(Op::write(p(skill), "mine").with_parents().into()).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NotFound | ErrorKind::AccessDenied), "{error}");
    assert!(!account.store.exists("/chats/trip/ctx/skills").await.unwrap());
    // A tree that is open shows the skill as well.
    account.put("/skills/pdf/SKILL.md", "of the account").await;
    assert_eq!(tree.read_to_string(skill).await.unwrap(), "of the account");
    let removed = account.store.head().await.unwrap().seq;
    account.store.remove_tree("/skills").await.unwrap();
    let past = tree.as_of(&removed.into()).await.unwrap();
    assert_eq!(past.read_to_string(skill).await.unwrap(), "of the account");
}
