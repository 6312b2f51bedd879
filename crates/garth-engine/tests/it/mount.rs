//! Trees composed of several parts: visible paths, commits across parts, and mount points that cannot move.

use std::sync::Arc;

use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::model::{
    At, Batch, ChangeKind, ChangesQuery, Confinement, HistoryPage, Ino, Kind, NamesPage, Op, Owner, Page,
    SearchQuery, Seq, SetAttrs, WalkPage, Within,
};
use garth_engine::view::Mount;
use garth_engine::{Env, ErrorKind, FileSystem, FileSystemExt, Name, TreePath};
use tempfile::TempDir;

fn p(path: &str) -> TreePath {
    TreePath::parse(path).unwrap()
}

fn owner() -> Owner {
    Owner::new("tree").unwrap()
}

/// An account with two chats and an agent, and another store.
struct Account {
    fs: Arc<SqliteFs>,
    other: Arc<SqliteFs>,
    _folders: [TempDir; 2],
}

impl Account {
    async fn new() -> Self {
        let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let [fs, other] = [0, 1].map(|n: usize| {
            SqliteFs::open(folders[n].path(), Env::system(), garth_engine::rule::sample::registry()).unwrap()
        });
        for dir in ["/chats/one", "/chats/two", "/agents/a/memory", "/skills/s"] {
            fs.mkdir_all(dir).await.unwrap();
        }
        fs.write("/chats/two/secret", "canary").await.unwrap();
        other.write("/SKILL.md", "# Cook\n").await.unwrap();
        Self { fs, other, _folders: folders }
    }

    /// Returns a tree: `/` is a chat, `/.agent` the agent, `/skills/s` a read-only directory of the account,
    /// `/skills/o` another store, and `/memory` a directory that `/.agent` shows, too.
    async fn tree(&self) -> Arc<dyn FileSystem> {
        let other: Arc<dyn FileSystem> = self.other.clone();
        let tree = Mount::builder(&*self.fs, &p("/chats/one"), owner())
            .directory(p("/.agent"), p("/agents/a"))
            .directory(p("/skills/s"), p("/skills/s"))
            .read_only()
            .mount(p("/skills/o"), other)
            .directory(p("/memory"), p("/agents/a/memory"));
        tree.open().await.unwrap()
    }
}

async fn names(fs: &dyn FileSystem, dir: &str) -> Vec<String> {
    let listing = fs.list(&At::Path(p(dir)), &Page::default().with_entries()).await.unwrap();
    assert!(listing.items.iter().all(|item| item.entry.as_ref().unwrap().ino == item.ino), "{listing:?}");
    listing.items.into_iter().map(|item| item.name.to_string()).collect()
}

async fn walked(fs: &dyn FileSystem, dir: &str, limit: usize) -> Vec<String> {
    let (mut paths, mut page) = (Vec::new(), WalkPage::default().limit(limit));
    loop {
        let walk = fs.walk(&At::Path(p(dir)), &page).await.unwrap();
        paths.extend(walk.items.iter().map(|item| item.path.to_string()));
        if !walk.more {
            return paths;
        }
        page = page.after(walk.items.last().unwrap().path.clone());
    }
}

async fn refused(fs: &dyn FileSystem, op: Op) -> ErrorKind {
    // A rejected operation must not be a commit either.
    let head = fs.head().await.unwrap();
    let error = fs.commit(op.clone().into()).await.unwrap_err();
    assert_eq!(fs.head().await.unwrap(), head, "{op:?}");
    error.kind()
}

#[tokio::test]
async fn snapshot_of_a_mount_reports_its_root() {
    let account = Account::new().await;
    let tree = account.tree().await;
    tree.write("/b.md", "b").await.unwrap();
    // In the account, the directory of the agent comes first. It changes after that of the chat.
    account.fs.write("/agents/a/later", "x").await.unwrap();
    for op in [Op::snapshot("s"), Op::drop_snapshot("s")] {
        let outcome = tree.commit(op.into()).await.unwrap().outcomes[0];
        let root = tree.entry("/").await.unwrap();
        assert_eq!((outcome.ino, outcome.version, outcome.size), (root.ino, root.version, root.size));
        assert!(outcome.changed && !outcome.created);
    }
}

#[tokio::test]
async fn mount_shows_parts_and_directories_above_them() {
    let account = Account::new().await;
    let tree = account.tree().await;
    tree.write("/b.md", "b").await.unwrap();
    assert_eq!(names(&*tree, "/").await, [".agent", "b.md", "memory", "skills"]);
    assert_eq!(names(&*tree, "/skills").await, ["o", "s"]);
    assert_eq!(names(&*tree, "/skills/o").await, ["SKILL.md"]);
    assert_eq!(tree.read_to_string("/skills/o/SKILL.md").await.unwrap(), "# Cook\n");
    // `/skills` is shown because parts are below it, and must not be created for that.
    let made = account.fs.exists("/chats/one/skills").await.unwrap();
    assert!(!made, "nothing is made by looking");
    for hidden in ["/secret", "/skills/x", "/skills/s/SKILL.md", "/.agent/a", "/agents"] {
        assert_eq!(tree.entry(hidden).await.unwrap_err().kind(), ErrorKind::NotFound, "{hidden}");
    }
    let skills = tree.entry("/skills").await.unwrap();
    let shown = tree.stat(&At::Node(skills.ino)).await.unwrap();
    // A directory that only leads to parts has an inode that can be used like any other.
    assert!(skills.is_dir() && shown == skills);
    let child = At::Child(skills.ino, Name::parse("o").unwrap());
    assert_eq!(tree.stat(&child).await.unwrap().ino, tree.entry("/skills/o").await.unwrap().ino);
    let agent = At::Child(Ino::ROOT, Name::parse(".agent").unwrap());
    assert_eq!(tree.stat(&agent).await.unwrap(), tree.entry("/.agent").await.unwrap());
    assert_eq!(
        tree.fetch(&At::Path(p("/skills")), garth_engine::model::ByteRange::ALL).await.unwrap_err().kind(),
        ErrorKind::IsADirectory
    );
}

#[tokio::test]
async fn missing_root_is_empty_on_request() {
    let account = Account::new().await;
    let before = account.fs.head().await.unwrap().seq;
    let tree = async |is_empty: bool| {
        let tree = Mount::builder(&*account.fs, &p("/chats/three"), owner()).empty_root(is_empty);
        tree.directory(p("/.agent"), p("/agents/a")).open().await.unwrap()
    };
    let (tree, other) = (tree(true).await, tree(false).await);
    let root = At::Path(p("/"));
    assert_eq!(other.stat(&root).await.unwrap_err().kind(), ErrorKind::NotFound);
    let entry = tree.stat(&root).await.unwrap();
    assert!(entry.is_dir() && entry.ino == Ino::ROOT && entry.version.ino == Ino::ROOT, "{entry:?}");
    assert_eq!(tree.stat(&At::Node(Ino::ROOT)).await.unwrap(), entry);
    assert_eq!(tree.hold(&root).await.unwrap().stat().await.unwrap(), entry);
    assert_eq!(tree.names(&root, &NamesPage::default()).await.unwrap().items, [p("/")]);
    // Other parts are shown as in a tree whose root exists.
    assert_eq!(names(&*tree, "/").await, [".agent"]);
    assert_eq!(walked(&*tree, "/", 1).await, ["/.agent", "/.agent/memory"]);
    let file = tree.fetch(&root, garth_engine::model::ByteRange::ALL).await.unwrap_err();
    assert!(file.is(ErrorKind::IsADirectory), "{file}");
    // Writes and the past know that nobody created it, and no error names a path of the base.
    for op in
        [Op::write(p("/f"), "x"), Op::mkdir(p("/d")), Op::remove_tree(p("/")), Op::write(Ino::ROOT, "x")]
    {
        let error = tree.commit(op.clone().into()).await.unwrap_err();
        assert!(error.is(ErrorKind::NotFound) && !error.to_string().contains("three"), "{op:?}: {error}");
    }
    assert!(tree.history(&root, &HistoryPage::default()).await.unwrap_err().is(ErrorKind::NotFound));
    // Out of reach it stays missing.
    let to = Confinement::new(Within::new([p("/.agent")]), Owner::new("view").unwrap());
    assert!(tree.confined(&to).await.unwrap().stat(&root).await.unwrap_err().is(ErrorKind::NotFound));

    account.fs.mkdir_all("/chats/three").await.unwrap();
    tree.write("/f", "x").await.unwrap();
    assert_eq!(names(&*tree, "/").await, [".agent", "f"]);
    let held = tree.hold(&root).await.unwrap();
    assert_eq!((held.ino(), held.stat().await.unwrap()), (Ino::ROOT, tree.stat(&root).await.unwrap()));
    let past = tree.as_of(&before.into()).await.unwrap();
    assert_eq!(
        (past.stat(&root).await.unwrap(), names(&*past, "/").await),
        (entry, vec![".agent".to_owned()])
    );
}

#[tokio::test]
async fn mount_hides_base_entries_at_its_points() {
    let account = Account::new().await;
    // Both names exist in the tree below the mounts, with other nodes.
    account.fs.write("/chats/one/skills", "a file where a directory leads on").await.unwrap();
    account.fs.mkdir_all("/chats/one/.agent/hidden").await.unwrap();
    let tree = account.tree().await;
    assert!(tree.entry("/skills").await.unwrap().is_dir());
    assert_eq!(names(&*tree, "/skills").await, ["o", "s"]);
    assert_eq!(names(&*tree, "/.agent").await, ["memory"]);
    assert_eq!(
        walked(&*tree, "/", 100).await,
        ["/.agent", "/memory", "/skills", "/.agent/memory", "/skills/o", "/skills/s", "/skills/o/SKILL.md"]
    );
}

#[tokio::test]
async fn mount_shows_file_and_link_parts() {
    let folder = tempfile::tempdir().unwrap();
    let registry = garth_engine::rule::sample::registry();
    let base = SqliteFs::open(folder.path(), Env::system(), registry).unwrap();
    base.write("/soul.md", "Be brief.").await.unwrap();
    base.symlink("/link", "soul.md").await.unwrap();
    base.mkdir_all("/root").await.unwrap();
    let tree = Mount::builder(&*base, &p("/root"), owner())
        // The parent directory exists only because parts are below it.
        .directory(p("/.agent/SOUL.md"), p("/soul.md"))
        .directory(p("/.agent/link"), p("/link"))
        .open()
        .await
        .unwrap();
    let kind = async |path: &str| tree.stat(&At::from(p(path))).await.unwrap().kind;
    assert_eq!((kind("/.agent/SOUL.md").await, kind("/.agent/link").await), (Kind::File, Kind::Symlink));
    assert_eq!(tree.read_to_string("/.agent/SOUL.md").await.unwrap(), "Be brief.");
    assert_eq!(names(&*tree, "/.agent").await, ["SOUL.md", "link"]);
    let listed = tree.list(&At::from(p("/.agent")), &Page::default()).await.unwrap().items;
    assert_eq!(listed.iter().map(|item| item.kind).collect::<Vec<_>>(), [Kind::File, Kind::Symlink]);
    let walk = tree.walk(&At::from(p("/")), &WalkPage::default()).await.unwrap().items;
    let kinds: Vec<_> = walk.iter().map(|item| item.kind).collect();
    assert_eq!(kinds, [Kind::Directory, Kind::File, Kind::Symlink]);
    let below = tree.list(&At::from(p("/.agent/SOUL.md")), &Page::default()).await.unwrap_err();
    assert!(below.is(ErrorKind::NotADirectory), "{below}");
    let found = tree.names(&At::from(p("/.agent/SOUL.md")), &NamesPage::default()).await.unwrap();
    assert_eq!(found.items, [p("/.agent/SOUL.md")]);
    assert_eq!(refused(&*tree, Op::remove(p("/.agent/SOUL.md"))).await, ErrorKind::Busy);
}

#[tokio::test]
async fn mount_points_cannot_be_moved_or_removed() {
    let account = Account::new().await;
    let tree = account.tree().await;
    tree.mkdir_all("/d").await.unwrap();
    for point in ["/.agent", "/skills", "/skills/s", "/skills/o", "/memory", "/"] {
        let path = p(point);
        assert_eq!(refused(&*tree, Op::remove(&path)).await, ErrorKind::Busy, "{point}");
        if !path.is_root() {
            assert_eq!(refused(&*tree, Op::rename(&path, p("/x"))).await, ErrorKind::Busy, "{point}");
            assert_eq!(refused(&*tree, Op::rename(p("/d"), &path)).await, ErrorKind::Busy, "{point}");
            assert_eq!(refused(&*tree, Op::exchange(p("/d"), &path)).await, ErrorKind::Busy, "{point}");
            // Of the parts only `/skills/s` is read-only, which is checked first.
            let kind = if point == "/skills/s" { ErrorKind::ReadOnly } else { ErrorKind::AlreadyExists };
            assert_eq!(refused(&*tree, Op::mkdir(&path)).await, kind, "{point}");
        }
    }
    let skills = tree.entry("/skills").await.unwrap().ino;
    let child = At::Child(skills, Name::parse("o").unwrap());
    assert_eq!(refused(&*tree, Op::remove(child)).await, ErrorKind::Busy);
    let kind = refused(&*tree, Op::copy_tree(p("/skills"), p("/copy"))).await;
    assert_eq!(kind, ErrorKind::CrossesMounts, "what is mounted would be left out");
}

#[tokio::test]
async fn batch_across_stores_is_rejected() {
    let account = Account::new().await;
    let tree = account.tree().await;
    tree.write("/draft.md", "text").await.unwrap();
    let commit = tree
        .commit(Batch::new([
            Op::rename(p("/draft.md"), p("/.agent/memory/kept.md")),
            Op::write(p("/note.md"), "moved"),
            Op::copy(p("/.agent/memory/kept.md"), p("/again.md")),
        ]))
        .await
        .unwrap();
    assert_eq!(account.fs.head().await.unwrap().seq, commit.seq);
    assert_eq!(account.fs.read_to_string("/agents/a/memory/kept.md").await.unwrap(), "text");
    assert_eq!(tree.read_to_string("/memory/kept.md").await.unwrap(), "text");
    // The moved file is the same node and keeps its history.
    let history =
        tree.history(&At::Path(p("/.agent/memory/kept.md")), &HistoryPage::default()).await.unwrap();
    assert_eq!(history.items.len(), 2);
    for op in [
        Op::rename(p("/note.md"), p("/skills/o/note.md")),
        Op::copy(p("/skills/o/SKILL.md"), p("/SKILL.md")),
        Op::link(p("/note.md"), p("/skills/o/note.md")),
        // Also within one store: both names would be in different parts.
        Op::link(p("/note.md"), p("/.agent/note.md")),
        Op::link(tree.entry("/note.md").await.unwrap().ino, p("/.agent/note.md")),
    ] {
        assert_eq!(refused(&*tree, op.clone()).await, ErrorKind::CrossesMounts, "{op:?}");
    }
    // Within one part a link is possible.
    tree.apply(Op::link(p("/note.md"), p("/link.md"))).await.unwrap();
    let other = tree.write("/skills/o/new.md", "elsewhere").await;
    other.unwrap();
    assert_eq!(account.other.read_to_string("/new.md").await.unwrap(), "elsewhere");
}

#[tokio::test]
async fn read_only_part_rejects_writes() {
    let account = Account::new().await;
    account.fs.write("/skills/s/SKILL.md", "# Bake\n").await.unwrap();
    let tree = account.tree().await;
    let node = tree.entry("/skills/s/SKILL.md").await.unwrap().ino;
    assert!(!tree.capabilities(&p("/skills/s/x")).write && tree.capabilities(&p("/x")).write);
    for op in [
        Op::write(p("/skills/s/SKILL.md"), "x"),
        Op::append(node, "x").must_exist(),
        Op::remove(p("/skills/s/SKILL.md")),
        Op::rename(p("/skills/s/SKILL.md"), p("/stolen")),
        Op::set_attrs(node, SetAttrs::new().mode(0o777)),
        Op::mkdir(p("/skills/s/new")),
        Op::write(At::Child(tree.entry("/skills/s").await.unwrap().ino, Name::parse("n").unwrap()), "x"),
    ] {
        assert_eq!(refused(&*tree, op.clone()).await, ErrorKind::ReadOnly, "{op:?}");
    }
    tree.apply(Op::copy(p("/skills/s/SKILL.md"), p("/mine.md"))).await.unwrap();
    assert_eq!(tree.read_to_string("/mine.md").await.unwrap(), "# Bake\n");
}

#[tokio::test]
async fn names_next_to_parts_go_to_base() {
    let account = Account::new().await;
    let tree = account.tree().await;
    // The parent is now created in the base, under a new inode.
    tree.write("/skills/list.md", "one").await.unwrap();
    assert_eq!(account.fs.read_to_string("/chats/one/skills/list.md").await.unwrap(), "one");
    assert_eq!(names(&*tree, "/skills").await, ["list.md", "o", "s"]);
    assert_eq!(
        tree.entry("/skills").await.unwrap().ino,
        account.fs.entry("/chats/one/skills").await.unwrap().ino
    );
    let error = tree.write("/nowhere/list.md", "x").await.unwrap_err();
    assert_eq!((error.kind(), error.path().cloned()), (ErrorKind::NotFound, Some(p("/nowhere/list.md"))));
}

#[tokio::test]
async fn mounted_nodes_keep_stable_inodes() {
    let account = Account::new().await;
    account.fs.write("/agents/a/memory/m.md", "m").await.unwrap();
    let tree = account.tree().await;
    let node = account.fs.entry("/agents/a/memory/m.md").await.unwrap().ino;
    assert_eq!(tree.entry("/.agent/memory/m.md").await.unwrap().ino, node);
    let [twice, other] = [tree.entry("/memory/m.md"), tree.entry("/skills/o/SKILL.md")];
    let (twice, other) = (twice.await.unwrap(), other.await.unwrap());
    // Their inodes have a tag above 38 bits, and stay exact as JSON numbers, below 2^53.
    assert!(twice.ino != node && other.ino.0 > 1 << 38 && twice.ino.0 < 1 << 53);
    assert_eq!(twice.version.ino, twice.ino);
    let names = tree.names(&At::Node(twice.ino), &garth_engine::model::NamesPage::default()).await.unwrap();
    assert_eq!(names.items, [p("/memory/m.md")]);
    let names = tree.names(&At::Node(node), &garth_engine::model::NamesPage::default()).await.unwrap();
    assert_eq!(names.items, [p("/.agent/memory/m.md")]);
    let mut version = tree.open_version(twice.version).await.unwrap().read_at(0, 10).await.unwrap();
    assert_eq!(version.split_to(1), "m");
    let smaller = Mount::builder(&*account.fs, &p("/chats/two"), owner())
        .mount(p("/skills/o"), account.other.clone())
        .open()
        .await
        .unwrap();
    // The tag depends on the mount point, and not on the other parts.
    assert_eq!(smaller.entry("/skills/o/SKILL.md").await.unwrap().ino, other.ino);
    let outcome = tree.commit(Op::append(p("/memory/m.md"), "more").into()).await.unwrap();
    assert_eq!(outcome.outcomes[0].ino, twice.ino);
    assert_eq!(tree.stat(&At::Node(twice.ino)).await.unwrap().version, outcome.version(0));
}

#[tokio::test]
async fn page_of_names_continues_past_hidden_ones() {
    let account = Account::new().await;
    account.other.mkdir_all("/hidden").await.unwrap();
    account.other.mkdir_all("/z").await.unwrap();
    account.other.write("/z/shown", "text").await.unwrap();
    for name in ["a", "b", "c"] {
        account.other.commit(Op::link(p("/z/shown"), p(&format!("/hidden/{name}"))).into()).await.unwrap();
    }
    let tree = Mount::builder(&*account.fs, &p("/chats/one"), owner())
        .mount(p("/o"), account.other.clone())
        .directory(p("/o/hidden"), p("/skills/s"))
        .open()
        .await
        .unwrap();
    for limit in [1, 2, 10] {
        let names = tree.names(&At::Path(p("/o/z/shown")), &NamesPage::default().limit(limit)).await.unwrap();
        assert_eq!((names.items, names.more), (vec![p("/o/z/shown")], false), "{limit}");
    }
}

#[tokio::test]
async fn mount_limits_changes_search_and_past() {
    let account = Account::new().await;
    let tree = account.tree().await;
    let since = tree.head().await.unwrap().seq;
    tree.write("/garden.md", "tomatoes in the garden").await.unwrap();
    account.fs.write("/chats/two/garden.md", "canary of a garden").await.unwrap();
    tree.write("/.agent/soil.md", "soil of the garden").await.unwrap();
    account.other.write("/plants.md", "plants for a garden").await.unwrap();
    tree.rename("/garden.md", "/.agent/garden.md").await.unwrap();
    let changes = tree.changes(&ChangesQuery::since(since)).await.unwrap();
    let told: Vec<_> = changes.commits.iter().flat_map(|commit| &commit.changes).collect();
    assert_eq!(told.len(), 3, "{told:?}");
    assert_eq!(told[2].paths, [p("/.agent/garden.md")]);
    assert_eq!(told[2].kind, ChangeKind::Renamed { from: p("/garden.md") });
    // Seen from one part, a file that moves in is created.
    let inside = ChangesQuery::since(since).within(p("/.agent"));
    let changes = tree.changes(&inside).await.unwrap();
    let last = &changes.commits.last().unwrap().changes[0];
    assert_eq!((&last.kind, &last.paths[..]), (&ChangeKind::Created, &[p("/.agent/garden.md")][..]));
    let paths = |answer: garth_engine::model::SearchAnswer| {
        let mut paths: Vec<_> = answer.hits.iter().map(|hit| hit.path.to_string()).collect();
        paths.sort();
        paths
    };
    let found = tree.search(&SearchQuery::new("garden")).await.unwrap();
    assert_eq!(paths(found), ["/.agent/garden.md", "/.agent/soil.md", "/skills/o/plants.md"]);
    let found = tree.search(&SearchQuery::new("garden").within(p("/skills"))).await.unwrap();
    assert_eq!(paths(found), ["/skills/o/plants.md"]);
    // The past is that of the base; another store has other sequence numbers.
    let past = tree.as_of(&Seq(since.0 + 1).into()).await.unwrap();
    assert_eq!(past.read_to_string("/garden.md").await.unwrap(), "tomatoes in the garden");
    assert_eq!(past.entry("/skills/o/plants.md").await.unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(names(&*past, "/skills").await, ["o", "s"]);
    let error = tree.history(&At::Path(p("/skills/o/plants.md")), &HistoryPage::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

#[tokio::test]
async fn hits_of_several_stores_are_ordered_by_rank() {
    let account = Account::new().await;
    let tree = account.tree().await;
    tree.write("/often.md", "Tomatoes, tomatoes, tomatoes.").await.unwrap();
    for n in 0..4 {
        account.other.write(format!("/short{n}.md").as_str(), "garden").await.unwrap();
    }
    let long = format!("{}tomatoes in the garden", "much more ".repeat(100));
    account.other.write("/long.md", long).await.unwrap();
    let hits = tree.search(&SearchQuery::new("tomatoes garden")).await.unwrap().hits;
    let (first, last) = (hits.first().unwrap(), hits.last().unwrap());
    let paths = (hits.len(), first.path.to_string(), last.path.to_string());
    assert_eq!(paths, (6, "/often.md".to_owned(), "/skills/o/long.md".to_owned()), "{hits:?}");
    // A search by score would have the opposite order.
    assert!(first.score < last.score, "{hits:?}");
}

#[tokio::test]
async fn text_of_several_stores_starts_at_position() {
    let account = Account::new().await;
    let tree = account.tree().await;
    for n in 0..3 {
        let text = format!("a garden{}", " and more".repeat(n));
        tree.write(format!("/a{n}.md").as_str(), text.clone()).await.unwrap();
        account.other.write(format!("/b{n}.md").as_str(), text).await.unwrap();
    }
    let query = SearchQuery::new("garden");
    let all = tree.search(&query).await.unwrap().hits;
    assert!(all.len() == 6 && all.iter().all(|hit| hit.snippet.contains("garden")), "{all:?}");
    for from in [0, 1, 3, 5, usize::MAX] {
        let mut due = all.clone();
        // Each store has three hits, so within one store none has a position of 3 or more.
        due.iter_mut().take(from).for_each(|hit| hit.snippet.clear());
        assert_eq!(tree.search(&query.clone().text_from(from)).await.unwrap().hits, due, "text from {from}");
    }
}

#[tokio::test]
async fn mount_walk_order_is_independent_of_pages() {
    let account = Account::new().await;
    let tree = account.tree().await;
    for file in
        ["/.agent-x/f", "/.agent/a/f", "/.agent/memory/m", "/.agent0/f", "/skills/o/z/f", "/skills-x/f", "/z"]
    {
        tree.commit(Op::write(p(file), "x").with_parents().into()).await.unwrap();
    }
    let all = walked(&*tree, "/", 1000).await;
    let mut sorted = all.clone();
    sorted.sort_by_key(|path| {
        let (dir, name) = path.rsplit_once('/').unwrap();
        (dir.to_owned(), name.to_owned())
    });
    assert_eq!(all, sorted);
    for path in
        ["/.agent", "/.agent-x/f", "/.agent/memory/m", "/memory/m", "/skills/o/SKILL.md", "/skills/o/z/f"]
    {
        assert_eq!(all.iter().filter(|found| *found == path).count(), 1, "{path} in {all:?}");
    }
    for limit in 1..all.len() {
        assert_eq!(walked(&*tree, "/", limit).await, all, "{limit}");
    }
    assert_eq!(
        walked(&*tree, "/skills", 2).await,
        ["/skills/o", "/skills/s", "/skills/o/SKILL.md", "/skills/o/z", "/skills/o/z/f"]
    );
}

#[tokio::test]
async fn exclusions_of_a_mount_apply_to_parts() {
    let account = Account::new().await;
    let tree = account.tree().await;
    tree.write("/.agent/memory/f", "canary").await.unwrap();
    tree.write("/.agent/f", "x").await.unwrap();
    let within = Within::everything().without(["/skills/o", "/.agent/memory", "/memory"].map(p));
    let to = Confinement::new(within, Owner::new("view").unwrap());
    let view = &*tree.confined(&to).await.unwrap();
    assert_eq!(names(view, "/").await, [".agent", "skills"]);
    assert_eq!(names(view, "/.agent").await, ["f"]);
    assert_eq!(names(view, "/skills").await, ["s"]);
    for limit in [1, 2, 100] {
        assert_eq!(walked(view, "/", limit).await, ["/.agent", "/skills", "/.agent/f", "/skills/s"]);
    }
    for path in
        ["/skills/o", "/skills/o/SKILL.md", "/.agent/memory", "/.agent/memory/f", "/memory", "/memory/f"]
    {
        let error = view.stat(&At::Path(p(path))).await.unwrap_err();
        assert_eq!((error.kind(), error.path()), (ErrorKind::NotFound, Some(&p(path))));
        let error = view.commit(Op::write(p(path), "x").into()).await.unwrap_err();
        assert_eq!((error.kind(), error.path()), (ErrorKind::AccessDenied, Some(&p(path))));
        assert_eq!(refused(view, Op::remove(p(path))).await, ErrorKind::NotFound);
    }
    for path in ["/.agent", "/skills"] {
        // They lead to excluded paths, which would move with them.
        assert_eq!(refused(view, Op::rename(p(path), p("/x"))).await, ErrorKind::Busy);
    }
    assert!(refused(view, Op::copy_tree(p("/.agent"), p("/x"))).await == ErrorKind::Busy);
}
