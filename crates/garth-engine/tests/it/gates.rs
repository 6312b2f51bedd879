//! Gates: a view sees only those entries of a directory whose file has a key, in each state of the tree.

use std::sync::Arc;

use futures::TryStreamExt as _;
use garth_engine::engine::memory::MemoryFs;
use garth_engine::model::{
    At, Author, Batch, ByteRange, ChangesQuery, Confinement, FindQuery, Gate, HistoryPage, Ino, Moment,
    NamesPage, Op, Owner, Page, Precondition, SearchQuery, Seq, SetAttrs, VersionId, WalkPage, Within,
};
use garth_engine::rule::sample::{STATUS, registry};
use garth_engine::view::{Mount, Scope};
use garth_engine::{AccountStore, Env, ErrorKind, FileSystem, FileSystemExt};
use garth_testkit::tools::{name, p};

use super::stores::{Kept, account_with};

pub(super) const OPEN: &str = "ACTIVE";
const SHUT: &str = "PRIVATE";

/// Entries of `/nodes`, and a view that sees those with the status [`OPEN`].
pub(super) struct World {
    pub(super) fs: Arc<dyn AccountStore>,
    pub(super) view: Arc<dyn FileSystem>,
    _kept: Kept,
}

fn to(gates: Vec<Gate>) -> Confinement {
    let within = Within::new([p("/nodes"), p("/free")]);
    Confinement::new(within, Owner::new("view").unwrap()).gated(gates)
}

fn gate() -> Gate {
    let (file, keys, since) = (name(".status"), vec![OPEN.to_owned()], Seq(0));
    Gate { dir: p("/nodes"), file, projection: STATUS, keys, since }
}

/// Returns the operations that create an entry. What is below `sub` can be searched in any entry.
fn entry(entry: &str, status: &str, text: &str) -> Vec<Op> {
    let files = [(".status", status), ("log", text), ("sub/.status", OPEN), ("sub/note.md", text)];
    let write = |(file, text): (&str, &str)| {
        Op::write(p(&format!("/nodes/{entry}/{file}")), text.to_owned()).with_parents()
    };
    files.map(write).to_vec()
}

impl World {
    async fn new() -> Self {
        Self::on(account_with((Env::system(), None), registry())).await
    }

    /// Creates the directories in an empty account.
    pub(super) async fn on((fs, kept): (Arc<dyn AccountStore>, Kept)) -> Self {
        fs.commit(Batch::new([Op::mkdir(p("/nodes")), Op::mkdir(p("/free"))])).await.unwrap();
        let view = fs.confined(&to(vec![gate()])).await.unwrap();
        Self { fs, view, _kept: kept }
    }

    /// Creates an entry, and returns the commit.
    pub(super) async fn put(&self, name: &str, status: &str, text: &str) -> Seq {
        self.fs.commit(Batch::new(entry(name, status, text))).await.unwrap().seq
    }

    async fn remove(&self, name: &str) -> Seq {
        let removed = Op::remove_tree(p(&format!("/nodes/{name}")));
        self.fs.commit(removed.into()).await.unwrap().seq
    }

    async fn ino(&self, path: &str) -> Ino {
        self.fs.entry(path).await.unwrap().ino
    }

    pub(super) async fn refused(&self, op: Op) -> ErrorKind {
        self.view.commit(op.into()).await.unwrap_err().kind()
    }
}

pub(super) async fn listed(fs: &dyn FileSystem) -> Vec<String> {
    fs.read_dir("/nodes").map_ok(|item| item.name.to_string()).try_collect().await.unwrap()
}

pub(super) async fn walked(fs: &dyn FileSystem) -> Vec<String> {
    fs.walk_all("/nodes").map_ok(|item| item.path.to_string()).try_collect().await.unwrap()
}

/// Returns the files of an entry, in the order of a walk.
pub(super) fn files(entry: &str) -> [String; 6] {
    ["", "/.status", "/log", "/sub", "/sub/.status", "/sub/note.md"]
        .map(|file| format!("/nodes/{entry}{file}"))
}

/// Returns all paths in the changes that a handle sees.
async fn changed(fs: &dyn FileSystem) -> Vec<String> {
    let commits = fs.changes(&ChangesQuery::default()).await.unwrap().commits;
    let changes = commits.iter().flat_map(|commit| &commit.changes);
    changes.flat_map(|change| &change.paths).map(|path| path.to_string()).collect()
}

#[tokio::test]
async fn gate_hides_entries_from_every_read() {
    let world = World::new().await;
    world.put("seen", OPEN, "a canary").await;
    world.put("shut", SHUT, "a canary").await;
    // Without the file, an entry is unknown.
    world.fs.commit(Op::write(p("/nodes/bare/log"), "a canary").with_parents().into()).await.unwrap();
    let view = &*world.view;
    assert_eq!(listed(view).await, ["seen"]);
    assert_eq!(walked(view).await, files("seen"));
    let nodes = world.ino("/nodes").await;
    for path in files("shut").iter().map(String::as_str).chain(["/nodes/bare", "/nodes/bare/log"]) {
        let (page, limit) = (HistoryPage::default(), NamesPage::default());
        for at in [At::Path(p(path)), At::Node(world.ino(path).await)] {
            let missing = [
                view.stat(&at).await.err(),
                view.history(&at, &page).await.err(),
                view.names(&at, &limit).await.err(),
                view.list(&at, &Page::default()).await.err(),
                view.walk(&at, &WalkPage::default()).await.err(),
                view.fetch(&at, ByteRange::ALL).await.err(),
                view.fetch_many(&[(at.clone(), ByteRange::ALL)]).await.unwrap().items.remove(0).err(),
                view.blame(&at, ByteRange::ALL, 10).await.err(),
                view.hold(&at).await.err(),
                view.open(&at).await.err(),
            ];
            for error in missing {
                assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::NotFound), "{at}");
            }
        }
        let version = world.fs.entry(path).await.unwrap().version;
        assert!(view.open_version(version).await.is_err_and(|error| error.is(ErrorKind::NotFound)));
    }
    let child = At::Child(nodes, name("shut"));
    assert!(view.stat(&child).await.is_err_and(|error| error.is(ErrorKind::NotFound)));
    view.stat(&At::Child(nodes, name("seen"))).await.unwrap();
    let found = async |key: &str| {
        let items = view.find(&FindQuery::new(STATUS).equal(key)).await.unwrap().items;
        items.into_iter().map(|item| item.path.to_string()).collect::<Vec<_>>()
    };
    assert!(found(SHUT).await.is_empty());
    assert_eq!(found(OPEN).await, ["/nodes/seen/.status", "/nodes/seen/sub/.status"]);
    let hits = view.search(&SearchQuery::new("canary")).await.unwrap().hits;
    let hits: Vec<_> = hits.iter().map(|hit| hit.path.as_str()).collect();
    assert!(!hits.is_empty() && hits.iter().all(|path| path.starts_with("/nodes/seen/")), "{hits:?}");
    let changed = changed(view).await;
    assert!(changed.iter().any(|path| path == "/nodes/seen/log"), "{changed:?}");
    assert!(!changed.iter().any(|path| path.contains("shut") || path.contains("bare")), "{changed:?}");
    // A view of the view is no way around.
    let scope = Scope::open(view, &p("/nodes")).await.unwrap();
    assert!(scope.exists("/seen").await.unwrap() && !scope.exists("/shut").await.unwrap());
    assert!(view.confined(&to(Vec::new())).await.unwrap().lookup("/nodes/shut").await.unwrap().is_none());
}

#[tokio::test]
async fn other_names_of_hidden_files_stay_visible() {
    let world = World::new().await;
    world.put("seen", OPEN, "seen").await;
    world.put("shut", SHUT, "shut").await;
    for to in ["/free/shut", "/nodes/seen/shut"] {
        world.fs.commit(Op::link(p("/nodes/shut/log"), p(to)).into()).await.unwrap();
    }
    let at = At::Node(world.ino("/nodes/shut/log").await);
    let names = world.view.names(&at, &NamesPage::default()).await.unwrap().items;
    assert_eq!(names, [p("/free/shut"), p("/nodes/seen/shut")]);
    assert_eq!(world.view.stat(&at).await.unwrap().nlink, 3);
    let past = Moment::Seq(world.fs.head().await.unwrap().seq);
    world.remove("seen").await;
    world.fs.remove("/free/shut").await.unwrap();
    assert!(world.view.stat(&at).await.is_err());
    let past = world.view.as_of(&past).await.unwrap();
    assert_eq!(past.names(&at, &NamesPage::default()).await.unwrap().items.len(), 2);
}

#[tokio::test]
async fn past_is_judged_by_its_own_file() {
    let world = World::new().await;
    let (fs, view) = (&*world.fs, &*world.view);
    let shut = world.put("work", SHUT, "an old secret").await;
    fs.append(&p("/nodes/work/log"), ", and more").await.unwrap();
    let (old, version) =
        (world.ino("/nodes/work/log").await, fs.entry("/nodes/work/log").await.unwrap().version);
    world.put("gone", OPEN, "gone").await;
    world.remove("work").await;
    let removed = world.remove("gone").await;
    world.put("work", OPEN, "new").await;
    assert_eq!(view.read_to_string("/nodes/work/log").await.unwrap(), "new");
    // The name leads to another entry now.
    let past = view.as_of(&Moment::Seq(shut)).await.unwrap();
    assert_eq!((listed(&*past).await, walked(&*past).await), (vec![], vec![]));
    assert!(past.lookup("/nodes/work/log").await.unwrap().is_none());
    assert!(past.stat(&At::Node(old)).await.is_err());
    // One that was visible then remains so.
    let past = view.as_of(&Moment::Seq(Seq(removed.0 - 1))).await.unwrap();
    assert_eq!(walked(&*past).await, files("gone"));
    assert_eq!(past.read_to_string("/nodes/gone/log").await.unwrap(), "gone");
    let page = HistoryPage::default();
    for (at, versions) in [("/nodes/work/log", 1), ("/nodes/work", 1), ("/nodes/gone/log", 2)] {
        let items = view.history(&At::Path(p(at)), &page).await.unwrap().items;
        assert_eq!(items.len(), versions, "{at}: {items:?}");
    }
    assert!(view.history(&At::Node(old), &page).await.is_err());
    assert!(view.open_version(version).await.is_err());
    // Nor is there a trace of an entry that no longer exists.
    world.put("secret", SHUT, "secret").await;
    world.remove("secret").await;
    let missing = async |path: &str| view.history(&At::Path(p(path)), &page).await.unwrap_err().to_string();
    let of = |path: String, name: &str| path.replace(name, "NAME");
    let (was, never) = (missing("/nodes/secret/log").await, missing("/nodes/never/log").await);
    assert_eq!(of(was, "secret"), of(never, "never"));
    for from in ["/nodes/work/log", "/nodes/work"] {
        let copy = Op::copy_tree(p(from), p("/free/copy")).as_of(shut);
        assert_eq!(world.refused(copy).await, ErrorKind::NotFound, "{from}");
    }
    let by_node = Op::copy(At::Node(old), p("/free/copy")).as_of(shut);
    assert_eq!(world.refused(by_node).await, ErrorKind::NotFound);
    let gone = Op::copy(p("/nodes/gone/log"), p("/free/gone")).as_of(Seq(removed.0 - 1));
    view.commit(gone.into()).await.unwrap();
    assert_eq!(view.read_to_string("/free/gone").await.unwrap(), "gone");
    let changed = changed(view).await;
    assert_eq!(changed.iter().filter(|path| path.as_str() == "/nodes/work").count(), 1, "{changed:?}");
    assert_eq!(changed.iter().filter(|path| path.as_str() == "/nodes/gone").count(), 2, "{changed:?}");
    assert!(!changed.iter().any(|path| path.contains("secret")), "{changed:?}");
}

#[tokio::test]
async fn older_pages_tell_nothing_of_hidden_past() {
    let world = World::new().await;
    world.put("seen", OPEN, "seen").await;
    let end = world.put("secret", SHUT, "secret").await;
    let before = HistoryPage::default().before(VersionId { seq: end, ino: Ino(u64::MAX) });
    world.remove("secret").await;
    let error = async |path: &str| {
        let found = world.view.history(&At::Path(p(path)), &before).await;
        found.unwrap_err().to_string().replace("secret", "NAME").replace("never", "NAME")
    };
    for file in ["", "/log", "/sub"] {
        let [was, never] = ["secret", "never"].map(|name| format!("/nodes/{name}{file}"));
        assert_eq!(error(&was).await, error(&never).await);
    }
    // The versions of a visible entry are all newer than its first one.
    let at = At::Path(p("/nodes/seen/log"));
    let first = world.view.history(&at, &HistoryPage::default()).await.unwrap().items.pop().unwrap();
    let older = world.view.history(&at, &HistoryPage::default().before(first.id)).await.unwrap();
    assert!(older.items.is_empty());
}

#[tokio::test]
async fn states_before_the_gate_are_hidden() {
    let world = World::new().await;
    let early = world.put("seen", OPEN, "early").await;
    let since = world.fs.write("/nodes/seen/log", "later").await.unwrap().seq;
    world.fs.write("/nodes/seen/log", "now").await.unwrap();
    let view = world.fs.confined(&to(vec![Gate { since, ..gate() }])).await.unwrap();
    let text = async |moment: Seq| {
        let past = view.as_of(&Moment::Seq(moment)).await.unwrap();
        past.read_to_string("/nodes/seen/log").await.ok()
    };
    assert_eq!((text(early).await, text(since).await), (None, Some("later".to_owned())));
    assert_eq!(view.read_to_string("/nodes/seen/log").await.unwrap(), "now");
    let copy = Op::copy(p("/nodes/seen/log"), p("/free/copy")).as_of(early);
    assert!(view.commit(copy.into()).await.unwrap_err().is(ErrorKind::NotFound));
}

#[tokio::test]
async fn entry_created_later_is_judged_as_well() {
    let world = World::new().await;
    let view = &*world.view;
    world.put("a", SHUT, "a").await;
    world.put("b", OPEN, "b").await;
    assert_eq!(listed(view).await, ["b"]);
    // The name of an entry that this handle has seen gets another entry.
    world.remove("b").await;
    world.put("b", SHUT, "other").await;
    assert!(listed(view).await.is_empty() && view.lookup("/nodes/b/log").await.unwrap().is_none());
    // The file decides, not the entry.
    world.fs.write("/nodes/b/.status", OPEN).await.unwrap();
    assert_eq!(view.read_to_string("/nodes/b/log").await.unwrap(), "other");
    world.fs.write("/nodes/b/.status", SHUT).await.unwrap();
    assert!(listed(view).await.is_empty());
}

#[tokio::test]
async fn commits_reach_no_hidden_entry() {
    let world = World::new().await;
    let view = &*world.view;
    world.put("seen", OPEN, "seen").await;
    world.put("shut", SHUT, "shut").await;
    let (log, dir) = (p("/nodes/shut/log"), p("/nodes/shut"));
    let node = At::Node(world.ino("/nodes/shut/log").await);
    for (op, kind) in [
        (Op::write(log.clone(), "x"), ErrorKind::AccessDenied),
        (Op::append(node.clone(), "x"), ErrorKind::NotFound),
        (Op::set_attrs(node.clone(), SetAttrs::new().mode(0o600)), ErrorKind::NotFound),
        (Op::remove(log.clone()), ErrorKind::NotFound),
        (Op::remove_tree(dir.clone()), ErrorKind::NotFound),
        (Op::rename(dir.clone(), p("/free/x")), ErrorKind::NotFound),
        (Op::copy(node.clone(), p("/free/x")), ErrorKind::NotFound),
        (Op::link(node.clone(), p("/free/x")), ErrorKind::NotFound),
        (Op::copy(p("/nodes/seen/log"), log.clone()), ErrorKind::AccessDenied),
        (Op::write(At::Child(world.ino("/nodes").await, name("shut")), "x"), ErrorKind::AccessDenied),
        // What is hidden in it would go along.
        (Op::rename(p("/nodes"), p("/free/x")), ErrorKind::Busy),
        (Op::copy_tree(p("/nodes"), p("/free/x")), ErrorKind::Busy),
        (Op::remove_tree(p("/nodes")), ErrorKind::Busy),
        (Op::check(log.clone(), Precondition::Exists), ErrorKind::Conflict),
    ] {
        assert_eq!(world.refused(op.clone()).await, kind, "{op:?}");
    }
    // Visible entries change as they would without a gate, and new ones can be created.
    view.append("/nodes/seen/log", "!").await.unwrap();
    view.rename("/nodes/seen", "/nodes/moved").await.unwrap();
    view.commit(Batch::new(entry("new", OPEN, "new"))).await.unwrap();
    view.append("/nodes/new/log", "!").await.unwrap();
    assert_eq!(listed(view).await, ["moved", "new"]);
    // Commits of one group see what the one before it has created.
    let said = (0..8).map(|n| {
        let view = Arc::clone(&world.view);
        let ops = entry(&format!("g{n}"), OPEN, "g");
        async move {
            view.commit(Batch::new(ops)).await?;
            view.append(&p(&format!("/nodes/g{n}/log")), "!").await
        }
    });
    futures::future::try_join_all(said).await.unwrap();
    assert_eq!(listed(view).await.len(), 10);
}

#[tokio::test]
async fn file_with_many_names_changes_only_by_path() {
    let world = World::new().await;
    world.put("seen", OPEN, "seen").await;
    let log = p("/nodes/seen/log");
    let link = |n: u32| Op::link(log.clone(), p(&format!("/nodes/seen/{n}")));
    world.fs.commit(Batch::new((1..1000).map(link))).await.unwrap();
    let node = At::Node(world.ino("/nodes/seen/log").await);
    world.view.commit(Op::append(node.clone(), "!").into()).await.unwrap();
    // To judge more names than these would hold up other commits.
    world.fs.commit(link(1000).into()).await.unwrap();
    assert_eq!(world.refused(Op::append(node.clone(), "!")).await, ErrorKind::NotFound);
    world.view.commit(Op::append(log, "!").into()).await.unwrap();
    // A read stops at the first visible name.
    assert_eq!(world.view.stat(&node).await.unwrap().nlink, 1001);
}

#[tokio::test]
async fn search_joins_no_handles_with_other_gates() {
    let world = World::new().await;
    world.put("seen", OPEN, "a canary").await;
    world.put("shut", SHUT, "a canary").await;
    let all = Scope::open(&*world.fs, &p("/nodes")).await.unwrap();
    let tree = Mount::builder(&*world.view, &p("/nodes"), Owner::new("tree").unwrap()).mount(p("/all"), all);
    let tree = tree.open().await.unwrap();
    let hits = tree.search(&SearchQuery::new("canary")).await.unwrap().hits;
    let hits: Vec<_> = hits.iter().map(|hit| hit.path.as_str()).collect();
    assert!(hits.iter().any(|path| path.starts_with("/all/shut/")), "{hits:?}");
    assert!(!hits.iter().any(|path| path.starts_with("/shut/")), "{hits:?}");
    let found = tree.find(&FindQuery::new(STATUS).equal(SHUT)).await.unwrap().items;
    assert_eq!(found.iter().map(|item| item.path.as_str()).collect::<Vec<_>>(), ["/all/shut/.status"]);
}

#[tokio::test]
async fn gated_directory_does_not_show_its_changes() {
    let world = World::new().await;
    let (fs, view) = (&*world.fs, &*world.view);
    let at = At::Path(p("/nodes"));
    let before = view.stat(&at).await.unwrap();
    let history = view.history(&at, &HistoryPage::default()).await.unwrap();
    world.put("shut", SHUT, "x").await;
    world.put("other", SHUT, "x").await;
    assert_eq!(view.stat(&at).await.unwrap(), before);
    assert_eq!(view.stat(&At::Node(before.ino)).await.unwrap(), before);
    assert_eq!(view.history(&at, &HistoryPage::default()).await.unwrap(), history);
    let [only] = &*history.items else { panic!("{history:?}") };
    assert_eq!((only.id, &*only.commit.message), (before.version, ""));
    assert_eq!(only.commit.author, Author::default());
    let next = HistoryPage::default().before(only.id);
    assert!(view.history(&at, &next).await.unwrap().items.is_empty());
    let real = fs.stat(&at).await.unwrap();
    assert_ne!((real.version, real.nlink), (before.version, before.nlink));
    assert!(view.open_version(real.version).await.is_err_and(|error| error.is(ErrorKind::NotFound)));
    // A condition compares with the version that the view shows, and with no other.
    let on = async |version| {
        let batch = Batch::new([Op::write(p("/free/f"), "x")]);
        view.commit(batch.require(at.clone(), Precondition::Version(version))).await.is_ok()
    };
    assert!(on(before.version).await && !on(real.version).await);
    // Nor does a commit answer with another one.
    let narrow = Confinement::new(Within::new([p("/nodes")]), Owner::new("narrow").unwrap());
    let narrow = fs.confined(&narrow.gated(vec![gate()])).await.unwrap();
    let node = At::Node(before.ino);
    for op in [
        Op::check(at.clone(), Precondition::Exists),
        Op::check(node.clone(), Precondition::Exists),
        Op::mkdir_all(at.clone()),
        Op::snapshot("kept"),
        Op::set_attrs(node, SetAttrs::new().mode(0o700)),
    ] {
        let commit = narrow.commit(op.clone().into()).await.unwrap();
        assert_eq!(commit.version(0), before.version, "{op:?}");
    }
}

#[tokio::test]
async fn condition_on_a_child_is_on_the_version_shown() {
    let world = World::new().await;
    world.fs.commit(Op::mkdir(p("/free/in")).into()).await.unwrap();
    let view = world.fs.confined(&to(vec![Gate { dir: p("/free/in"), ..gate() }])).await.unwrap();
    let shown = view.entry("/free/in").await.unwrap().version;
    world.fs.write("/free/in/file", "hidden").await.unwrap();
    let real = world.fs.entry("/free/in").await.unwrap().version;
    assert_ne!(shown, real);
    let (above, child) = (world.ino("/free").await, name("in"));
    for at in [At::Path(p("/free/in")), At::Node(shown.ino), At::Child(above, child)] {
        let on = async |version| {
            let batch = Batch::new([Op::write(p("/free/f"), "x")]);
            view.commit(batch.require(at.clone(), Precondition::Version(version))).await.is_ok()
        };
        assert!(on(shown).await && !on(real).await, "{at}");
        let checked = async |version| {
            view.commit(Op::check(at.clone(), Precondition::Version(version)).into()).await.is_ok()
        };
        assert!(checked(shown).await && !checked(real).await, "{at}");
    }
}

#[tokio::test]
async fn pages_are_full_whatever_is_hidden() {
    let world = World::new().await;
    let ops = (0..40).flat_map(|n| entry(&format!("e{n:02}"), if n % 10 == 9 { OPEN } else { SHUT }, "x"));
    world.fs.commit(Batch::new(ops)).await.unwrap();
    let seen = ["e09", "e19", "e29", "e39"];
    let due: Vec<String> = {
        let tops = seen.iter().map(|entry| format!("/nodes/{entry}"));
        let below = seen.iter().flat_map(|entry| files(entry).into_iter().skip(1));
        tops.chain(below).collect()
    };
    let past = Moment::Seq(world.fs.head().await.unwrap().seq);
    world.put("later", OPEN, "x").await;
    world.remove("later").await;
    let past = world.view.as_of(&past).await.unwrap();
    for view in [&*world.view, &*past] {
        for limit in [1, 2, 3, 100] {
            let (mut names, mut page) = (Vec::new(), Page::default().limit(limit));
            loop {
                let found = view.list(&At::Path(p("/nodes")), &page).await.unwrap();
                assert!(found.items.len() == limit || !found.more, "a page is full");
                page.after = found.items.last().map(|item| item.name.clone());
                names.extend(found.items.into_iter().map(|item| item.name.to_string()));
                if !found.more {
                    break;
                }
            }
            assert_eq!(names, seen, "{limit}");
            let (mut paths, mut page) = (Vec::new(), WalkPage::default().limit(limit));
            loop {
                let found = view.walk(&At::Path(p("/nodes")), &page).await.unwrap();
                page.after = found.items.last().map(|item| item.path.clone());
                paths.extend(found.items.into_iter().map(|item| item.path.to_string()));
                if !found.more {
                    break;
                }
            }
            // Entries of `sub` come after those of its directory.
            paths.sort();
            let mut due = due.clone();
            due.sort();
            assert_eq!(paths, due, "{limit}");
        }
    }
}

#[tokio::test]
async fn walk_skips_hidden_entries_and_not_their_neighbours() {
    let world = World::new().await;
    // In the order of keys, `a-b` is between `a` and what is below `a/sub`, and `a0` follows that.
    let all = [("a", SHUT), ("a-b", OPEN), ("a0", OPEN), ("b", SHUT), ("c", SHUT), ("c.d", OPEN)];
    for (name, status) in all {
        world.put(name, status, "x").await;
        let many = (0..150).map(|n| Op::write(p(&format!("/nodes/{name}/sub/{n:03}")), "x"));
        world.fs.commit(Batch::new(many)).await.unwrap();
    }
    let now = walked(&*world.view).await;
    assert_eq!(now.len(), 3 * (6 + 150));
    let seen = ["/nodes/a-b", "/nodes/a0", "/nodes/c.d"];
    assert!(now.iter().all(|path| seen.into_iter().any(|top| path.starts_with(top))), "{now:?}");
    let past = Moment::Seq(world.fs.head().await.unwrap().seq);
    // Some names of this state end, and others stay.
    for name in ["a", "a0", "c"] {
        world.remove(name).await;
    }
    let past = world.view.as_of(&past).await.unwrap();
    assert_eq!(walked(&*past).await, now);
    for limit in [7, 100] {
        let (mut paths, mut page) = (Vec::new(), WalkPage::default().limit(limit));
        loop {
            let found = past.walk(&At::Path(p("/nodes")), &page).await.unwrap();
            page.after = found.items.last().map(|item| item.path.clone());
            paths.extend(found.items.into_iter().map(|item| item.path.to_string()));
            if !found.more {
                break;
            }
        }
        assert_eq!(paths, now, "{limit}");
    }
}

#[tokio::test]
async fn only_stores_of_accounts_have_gates() {
    let memory = MemoryFs::new(Env::system(), registry());
    let refused = memory.confined(&to(vec![gate()])).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported, "{refused}");
    let world = World::new().await;
    let scope = Scope::open(&*world.fs, &p("/nodes")).await.unwrap();
    assert_eq!(scope.confined(&to(vec![gate()])).await.unwrap_err().kind(), ErrorKind::Unsupported);
}
