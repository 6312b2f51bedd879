//! Aliases in a mounted tree: a directory of the base that two parts show is walked, found and restored once.

use std::sync::Arc;

use futures::TryStreamExt as _;
use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::fs::restore::restore;
use garth_engine::model::{At, Batch, FindQuery, Op, Owner, SetAttrs, WalkPage};
use garth_engine::view::{Mount, Scope};
use garth_engine::{Env, FileSystem, FileSystemExt, TreePath};
use tempfile::TempDir;

fn p(path: &str) -> TreePath {
    TreePath::parse(path).unwrap()
}

/// Account whose agent has a note with a tag.
struct Account {
    fs: Arc<SqliteFs>,
    _folder: TempDir,
}

impl Account {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let registry = garth_engine::rule::sample::registry();
        let fs = SqliteFs::open(folder.path(), Env::system(), registry).unwrap();
        for dir in ["/chat", "/agent/notes", "/other"] {
            fs.mkdir_all(dir).await.unwrap();
        }
        fs.write("/agent/notes/n.md", "one").await.unwrap();
        let tagged = SetAttrs::new().tags(["plan"]);
        fs.commit(Op::set_attrs(p("/agent/notes/n.md"), tagged).into()).await.unwrap();
        Self { fs, _folder: folder }
    }

    /// Returns a tree whose alias `/in/notes` is a directory that other parts show as well.
    async fn tree(&self, others: &[(&str, &str)]) -> Arc<dyn FileSystem> {
        let tree = Mount::builder(&*self.fs, &p("/chat"), Owner::new("tree").unwrap());
        let mut tree = tree.directory(p("/in/notes"), p("/agent/notes")).alias();
        for (at, root) in others {
            tree = tree.directory(p(at), p(root));
        }
        tree.open().await.unwrap()
    }
}

async fn walked(fs: &dyn FileSystem, dir: &str, limit: usize) -> Vec<String> {
    let (mut paths, mut page) = (Vec::new(), WalkPage::default().limit(limit));
    loop {
        let walk = fs.walk(&At::Path(p(dir)), &page).await.unwrap();
        paths.extend(walk.items.iter().map(|item| item.path.to_string()));
        let Some(last) = walk.items.last().filter(|_| walk.more) else { return paths };
        page = page.after(last.path.clone());
    }
}

#[tokio::test]
async fn walk_of_both_places_omits_the_alias() {
    let account = Account::new().await;
    // The alias comes after the other part, and before it.
    for other in ["/.agent", "/z"] {
        let tree = account.tree(&[(other, "/agent")]).await;
        let past = tree.as_of(&tree.head().await.unwrap().seq.into()).await.unwrap();
        let mut due = vec![other.to_owned(), "/in".to_owned()];
        due.sort();
        due.extend([format!("{other}/notes"), format!("{other}/notes/n.md")]);
        for fs in [&*tree, &*past] {
            for limit in [1, 2, 100] {
                assert_eq!(walked(fs, "/", limit).await, due, "{other} {limit}");
            }
        }
    }
}

#[tokio::test]
async fn alias_works_by_its_own_path() {
    let account = Account::new().await;
    let tree = account.tree(&[("/.agent", "/agent")]).await;
    let listed: Vec<_> = tree.read_dir("/in").try_collect().await.unwrap();
    assert_eq!(listed.iter().map(|item| item.name.as_str()).collect::<Vec<_>>(), ["notes"]);
    tree.write("/in/notes/n.md", "two").await.unwrap();
    assert_eq!(tree.read_to_string("/.agent/notes/n.md").await.unwrap(), "two");
    assert_eq!(walked(&*tree, "/in", 1).await, ["/in/notes", "/in/notes/n.md"]);
    assert_eq!(walked(&*tree, "/in/notes", 1).await, ["/in/notes/n.md"]);
    // A tree of the directory above the alias alone has no other place for its files.
    let scope = Scope::open(&*tree, &p("/in")).await.unwrap();
    assert_eq!(walked(&*scope, "/", 100).await, ["/notes", "/notes/n.md"]);
}

#[tokio::test]
async fn incomplete_originals_leave_the_alias_in_walks() {
    let account = Account::new().await;
    let alone = account.tree(&[]).await;
    assert_eq!(walked(&*alone, "/", 100).await, ["/in", "/in/notes", "/in/notes/n.md"]);
    // The other part hides `x` of the directory.
    account.fs.mkdir_all("/agent/notes/x").await.unwrap();
    account.fs.write("/agent/notes/x/deep.md", "deep").await.unwrap();
    let hidden = account.tree(&[("/.agent", "/agent"), ("/.agent/notes/x", "/other")]).await;
    let paths = walked(&*hidden, "/", 100).await;
    assert!(paths.contains(&"/in/notes/x/deep.md".to_owned()), "{paths:?}");
}

#[tokio::test]
async fn find_returns_aliased_files_once() {
    let account = Account::new().await;
    let tree = account.tree(&[("/.agent", "/agent")]).await;
    let found = async |query: FindQuery| {
        let items = tree.find(&query).await.unwrap().items;
        items.into_iter().map(|item| item.path.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(found(FindQuery::tag("plan")).await, ["/.agent/notes/n.md"]);
    assert_eq!(found(FindQuery::tag("plan").within(p("/in"))).await, ["/in/notes/n.md"]);
}

#[tokio::test]
async fn restore_changes_aliased_files_once() {
    let account = Account::new().await;
    let tree = account.tree(&[("/.agent", "/agent")]).await;
    let then = tree.head().await.unwrap().seq;
    tree.write("/.agent/notes/n.md", "two").await.unwrap();
    tree.write("/in/notes/new.md", "new").await.unwrap();
    let now = Env::system().now();
    let done = restore(&*tree, &TreePath::root(), &then.into(), now, &Batch::default()).await.unwrap();
    let mut paths: Vec<_> = done.plan.changes.iter().map(|change| change.path.as_str()).collect();
    paths.sort_unstable();
    assert_eq!((paths, done.plan.removed), (vec!["/.agent/notes/n.md", "/.agent/notes/new.md"], 1));
    assert_eq!(tree.read_to_string("/in/notes/n.md").await.unwrap(), "one");
    assert!(!tree.exists("/in/notes/new.md").await.unwrap());
}
