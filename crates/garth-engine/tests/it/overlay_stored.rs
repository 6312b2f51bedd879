//! Stored overlays of an account: reporting, applying and discarding their changes.

use std::collections::HashMap;
use std::sync::Arc;

use garth_engine::engine::memory::MemoryFs;
use garth_engine::fs::AccountStore;
use garth_engine::fs::store::{SYSTEM_MARK, system};
use garth_engine::model::{
    At, Author, Batch, ChangesQuery, Ino, NamesPage, Op, Page, SearchQuery, Seq, SetAttrs, Special,
    Timestamp, WalkPage,
};
use garth_engine::view::overlay::{DifferenceKind, LowerLayer, Side, StoredOverlay};
use garth_engine::view::{Overlay, Scope};
use garth_engine::{DataDir, Env, ErrorKind, FileSystem, FileSystemExt, TreePath};
use garth_testkit::data::random::Random;
use tempfile::TempDir;

fn p(path: &str) -> TreePath {
    TreePath::parse(path).unwrap()
}

async fn account(folder: &TempDir) -> (DataDir, Arc<dyn AccountStore>) {
    let data = DataDir::open(folder.path(), Env::system(), garth_engine::rule::sample::registry()).unwrap();
    if data.control().accounts().await.unwrap().is_empty() {
        data.create_account("a").await.unwrap();
    }
    let account = data.account("a").await.unwrap();
    (data, account)
}

fn lower(root: &str) -> LowerLayer {
    LowerLayer { root: p(root), as_of: None }
}

/// Returns a batch that fills the lower layer.
fn filled() -> Batch {
    let tags = SetAttrs::new().mode(0o640).tags(["kept"]).mtime(Timestamp(1_000_000));
    Batch::new([
        Op::write(p("/SKILL.md"), "# Cook\n").with_attrs(tags),
        Op::link(p("/SKILL.md"), p("/second.md")),
        Op::write(p("/d/a"), "a").with_parents(),
        Op::write(p("/d/sub/b"), "b").with_parents(),
        Op::mkdir(p("/empty")),
        Op::symlink(p("/link"), "SKILL.md"),
    ])
}

/// Two layers, of one store or of two.
struct Layers {
    below: Arc<dyn FileSystem>,
    over: Overlay,
    store: Arc<dyn FileSystem>,
}

async fn layers(one_store: bool) -> Layers {
    let store: Arc<dyn FileSystem> =
        Arc::new(MemoryFs::new(Env::system(), garth_engine::rule::sample::registry()));
    for dir in ["/below", "/above"] {
        store.mkdir_all(dir).await.unwrap();
    }
    let below: Arc<dyn FileSystem> = match one_store {
        true => Scope::open(&*store, &p("/below")).await.unwrap(),
        false => Arc::new(MemoryFs::new(Env::system(), garth_engine::rule::sample::registry())),
    };
    below.commit(filled()).await.unwrap();
    let above = Scope::open(&*store, &p("/above")).await.unwrap();
    let over = Overlay::of_layers(Arc::clone(&below), above).await.unwrap();
    Layers { below, over, store }
}

/// Returns the differences, as `A /path`, read in pages of one.
async fn diff(over: &Overlay) -> Vec<String> {
    let (mut found, mut page) = (Vec::new(), NamesPage::default().limit(1));
    loop {
        let listing = over.diff(&page).await.unwrap();
        for item in &listing.items {
            let letter = match item.change {
                DifferenceKind::Added => 'A',
                DifferenceKind::Modified => 'M',
                DifferenceKind::Removed => 'R',
            };
            found.push(format!("{letter} {}", item.path));
        }
        match listing.items.last() {
            Some(last) if listing.more => page = page.after(last.path.clone()),
            _ => break,
        }
    }
    // Pages must neither skip nor repeat a difference.
    let at_once = over.diff(&NamesPage::default()).await.unwrap().items;
    assert_eq!(at_once.len(), found.len());
    found
}

/// Returns the visible tree without inodes: paths, kinds, modes, times of files, the first path of each node,
/// attributes, and text.
async fn shown(fs: &dyn FileSystem) -> Vec<String> {
    let walk = fs.walk(&At::Path(p("/")), &WalkPage::default().with_entries()).await.unwrap();
    let (mut found, mut nodes) = (Vec::new(), HashMap::new());
    for item in walk.items {
        let entry = item.entry.unwrap();
        let first = nodes.entry(entry.ino).or_insert_with(|| item.path.clone());
        // Times of directories differ between the layers, because each change of an entry sets them.
        let mtime = if entry.is_dir() { Timestamp(0) } else { entry.mtime };
        let text = fs.read_to_string(&item.path).await.unwrap_or_default();
        found.push(format!(
            "{} {:?} {:o} {first} {mtime:?} {:?} {:?} {text}",
            item.path, entry.kind, entry.mode, entry.target, entry.attributes
        ));
    }
    found
}

async fn head(fs: &dyn FileSystem) -> u64 {
    fs.head().await.unwrap().seq.0
}

#[tokio::test]
async fn stored_overlay_survives_reopening() {
    let folder = tempfile::tempdir().unwrap();
    {
        let (_data, account) = account(&folder).await;
        account.mkdir_all("/notes").await.unwrap();
        account.write("/notes/a", "below").await.unwrap();
        StoredOverlay::create(&*account, "draft", &lower("/notes"), &Batch::default()).await.unwrap();
        let tree = StoredOverlay::open(&*account, "draft").await.unwrap().tree();
        tree.append("/a", ", above").await.unwrap();
        tree.write("/b", "new").await.unwrap();
        let again = StoredOverlay::create(&*account, "draft", &lower("/notes"), &Batch::default()).await;
        assert_eq!(again.unwrap_err().kind(), ErrorKind::AlreadyExists);
    }
    let (_data, account) = account(&folder).await;
    let listed = StoredOverlay::list(&*account, &Page::default()).await.unwrap();
    assert_eq!(listed.items.iter().map(|item| item.id.as_str()).collect::<Vec<_>>(), ["draft"]);
    assert_eq!(listed.items[0].lower, lower("/notes"));
    let tree = StoredOverlay::open(&*account, "draft").await.unwrap().tree();
    assert_eq!(tree.read_to_string("/a").await.unwrap(), "below, above");
    assert_eq!(account.read_to_string("/notes/a").await.unwrap(), "below");
    let before = head(&*account).await;
    StoredOverlay::discard(&*account, "draft", &Batch::default()).await.unwrap();
    assert_eq!(head(&*account).await, before + 1);
    assert_eq!(StoredOverlay::open(&*account, "draft").await.unwrap_err().kind(), ErrorKind::NotFound);
    let again = StoredOverlay::discard(&*account, "draft", &Batch::default()).await;
    assert_eq!(again.unwrap_err().kind(), ErrorKind::NotFound);
    assert!(StoredOverlay::list(&*account, &Page::default()).await.unwrap().items.is_empty());
    for id in ["", ".", "..", "a/b", "a\n", &"x".repeat(129)] {
        let made = StoredOverlay::create(&*account, id, &lower("/notes"), &Batch::default()).await;
        assert_eq!(made.unwrap_err().kind(), ErrorKind::InvalidArgument, "{id:?}");
    }
}

#[tokio::test]
async fn stored_overlay_content_is_hidden_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let (_data, account) = account(&folder).await;
    account.write("/a", "below").await.unwrap();
    let since = Seq(head(&*account).await);
    StoredOverlay::create(&*account, "draft", &lower("/"), &Batch::default()).await.unwrap();
    let tree = StoredOverlay::open(&*account, "draft").await.unwrap().tree();
    tree.write("/secret", "zebra").await.unwrap();
    let listed = account.list(&At::Path(p("/")), &Page::default()).await.unwrap();
    assert_eq!(listed.items.len(), 1);
    let walk = account.walk(&At::Path(p("/")), &WalkPage::default()).await.unwrap();
    assert_eq!(walk.items.len(), 1);
    assert!(account.search(&SearchQuery::new("zebra")).await.unwrap().hits.is_empty());
    let changes = account.changes(&ChangesQuery::since(since)).await.unwrap();
    assert!(changes.commits.iter().all(|commit| commit.changes.is_empty()), "{changes:?}");
    let raw = account.raw();
    let kept = raw.entry("/.garth/overlays/draft/tree/secret").await.unwrap();
    assert_eq!(account.stat(&At::Node(kept.ino)).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(account.entry("/.garth").await.unwrap_err().kind(), ErrorKind::NotFound);
    for op in [Op::write(p("/.garth/x"), "x"), Op::mkdir(p("/.garth"))] {
        assert_eq!(account.commit(op.into()).await.unwrap_err().kind(), ErrorKind::AccessDenied);
    }
    assert_eq!(tree.search(&SearchQuery::new("zebra")).await.unwrap().hits[0].path, p("/secret"));
    // An overlay of the complete account shows no private files of the account.
    assert_eq!(tree.entry("/.garth").await.unwrap_err().kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn rejects_system_directory_owned_by_user() {
    let folder = tempfile::tempdir().unwrap();
    let (data, account) = account(&folder).await;
    account.raw().write("/.garth", "mine").await.unwrap();
    drop((account, data));
    let (data, account) = self::account(&folder).await;
    assert_eq!(account.read_to_string("/.garth").await.unwrap(), "mine");
    for _ in 0..2 {
        let made = StoredOverlay::create(&*account, "draft", &lower("/"), &Batch::default()).await;
        let error = made.unwrap_err();
        assert_eq!((error.kind(), error.path()), (ErrorKind::AlreadyExists, Some(&p("/.garth"))));
        assert!(error.message().contains("open the account again"), "{error}");
        // After it is moved away, a system directory would still be visible to handles that were opened
        // before.
        if account.exists("/.garth").await.unwrap() {
            account.rename("/.garth", "/mine").await.unwrap();
        }
    }
    drop((account, data));
    let (_data, account) = self::account(&folder).await;
    StoredOverlay::create(&*account, "draft", &lower("/"), &Batch::default()).await.unwrap();
    assert!(!account.exists("/.garth").await.unwrap());
}

#[tokio::test]
async fn concurrent_creation_of_system_directory_succeeds() {
    let folder = tempfile::tempdir().unwrap();
    let (_data, account) = account(&folder).await;
    let makers: Vec<_> = (0..8)
        .map(|n| {
            let account = Arc::clone(&account);
            tokio::spawn(async move {
                system(&*account).await.unwrap();
                StoredOverlay::create(&*account, &format!("o{n}"), &lower("/"), &Batch::default())
                    .await
                    .unwrap();
            })
        })
        .collect();
    for maker in makers {
        maker.await.unwrap();
    }
    let mark = account.raw().entry("/.garth").await.unwrap().attributes.xattrs;
    assert!(mark.contains_key(SYSTEM_MARK));
    let page = Page::default().limit(3);
    let listed = StoredOverlay::list(&*account, &page).await.unwrap();
    assert!(listed.more && listed.items.len() == 3);
    let after = garth_engine::Name::parse("o2").unwrap();
    assert_eq!(StoredOverlay::list(&*account, &Page::default().after(after)).await.unwrap().items.len(), 5);
    // As an overlay that was discarded after its name was read.
    account.raw().mkdir_all("/.garth/overlays/a").await.unwrap();
    let listed = StoredOverlay::list(&*account, &Page::default().limit(1)).await.unwrap();
    assert_eq!((listed.items[0].id.as_str(), listed.more), ("o0", true));
}

#[tokio::test]
async fn fork_applies_to_the_present() {
    let folder = tempfile::tempdir().unwrap();
    let (_data, account) = account(&folder).await;
    account.commit(filled()).await.unwrap();
    // The fork shows this commit, not the write after it.
    let seq = Seq(head(&*account).await);
    account.write("/d/a", "later").await.unwrap();
    let fork = LowerLayer { root: p("/"), as_of: Some(seq) };
    StoredOverlay::create(&*account, "fork", &fork, &Batch::default()).await.unwrap();
    let stored = StoredOverlay::open(&*account, "fork").await.unwrap();
    let tree = stored.tree();
    assert_eq!(tree.read_to_string("/d/a").await.unwrap(), "a");
    tree.append("/SKILL.md", "more\n").await.unwrap();
    tree.rename("/empty", "/renamed").await.unwrap();
    tree.rename("/d/sub", "/sub").await.unwrap();
    account.write("/other", "by others").await.unwrap();
    assert!(!tree.exists("/other").await.unwrap());
    let before = head(&*account).await;
    let author = Author::agent("scout");
    let applied = stored.apply(Side::Neither, &Batch::default().author(author)).await.unwrap();
    assert_eq!(head(&*account).await, before + 1);
    assert_eq!(applied.commit.unwrap().seq.0, before + 1);
    assert_eq!(account.read_to_string("/second.md").await.unwrap(), "# Cook\nmore\n");
    assert_eq!(account.read_to_string("/d/a").await.unwrap(), "later", "not the fork's business");
    assert_eq!(account.read_to_string("/sub/b").await.unwrap(), "b");
    assert!(!account.exists("/empty").await.unwrap() && account.exists("/renamed").await.unwrap());
    tree.append("/d/a", "!").await.unwrap();
    let error = stored.apply(Side::Neither, &Batch::default()).await.unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::Conflict, Some(&p("/d/a"))));
}

#[tokio::test]
async fn diff_reports_changes_but_no_copies() {
    for one_store in [true, false] {
        let Layers { below, over, .. } = layers(one_store).await;
        assert!(diff(&over).await.is_empty());
        over.write("/d/sub/new", "new").await.unwrap();
        over.remove("/d/sub/new").await.unwrap();
        over.append("/d/a", "!").await.unwrap();
        let mtime = below.entry("/d/a").await.unwrap().mtime;
        over.commit(Op::write(p("/d/a"), "a").with_attrs(SetAttrs::new().mtime(mtime)).into()).await.unwrap();
        assert!(diff(&over).await.is_empty(), "{:?}", diff(&over).await);
        over.write("/d/sub/new", "new").await.unwrap();
        over.commit(Op::set_attrs(p("/d"), SetAttrs::new().mode(0o700)).into()).await.unwrap();
        over.append("/d/a", "!").await.unwrap();
        over.commit(Op::remove_tree(p("/empty")).into()).await.unwrap();
        over.write("/empty", "a file now").await.unwrap();
        over.remove("/link").await.unwrap();
        over.commit(Op::link(p("/SKILL.md"), p("/third.md")).into()).await.unwrap();
        over.commit(Batch::new([Op::mkdir(p("/n")), Op::mknod(p("/n/pipe"), Special::Fifo)])).await.unwrap();
        let told =
            ["M /d", "M /d/a", "A /d/sub/new", "M /empty", "R /link", "A /n", "A /n/pipe", "A /third.md"];
        assert_eq!(diff(&over).await, told, "{one_store}");
        over.commit(Op::remove_tree(p("/d")).into()).await.unwrap();
        assert_eq!(diff(&over).await, ["R /d", "M /empty", "R /link", "A /n", "A /n/pipe", "A /third.md"]);
        over.mkdir_all("/d/sub").await.unwrap();
        assert_eq!(diff(&over).await[..2], ["R /d/a", "R /d/sub/b"]);
        assert!(over.discard(&Batch::default()).await.unwrap().is_some());
        assert!(over.discard(&Batch::default()).await.unwrap().is_none());
        assert_eq!(shown(&over).await, shown(&*below).await);
    }
}

#[tokio::test]
async fn apply_writes_everything_in_one_commit() {
    for one_store in [true, false] {
        let Layers { below, over, store } = layers(one_store).await;
        let nodes = ["/SKILL.md", "/d/a"].map(|path| below.entry(path));
        let [skill, a] = nodes;
        let (skill, a) = (skill.await.unwrap().ino, a.await.unwrap().ino);
        over.append("/second.md", "more\n").await.unwrap();
        over.commit(Op::link(p("/SKILL.md"), p("/d/third.md")).into()).await.unwrap();
        let attrs = SetAttrs::new().owner(7, 8).tags(["x"]).xattr("user.k", "v").mtime(Timestamp(5));
        over.commit(Op::set_attrs(p("/d/a"), attrs).into()).await.unwrap();
        over.commit(Op::remove_tree(p("/empty")).into()).await.unwrap();
        over.symlink("/empty", "d/a").await.unwrap();
        over.rename("/d/sub/b", "/b").await.unwrap();
        over.commit(Op::remove_tree(p("/d/sub")).into()).await.unwrap();
        over.commit(Batch::new([
            Op::mkdir(p("/n")).with_attrs(SetAttrs::new().mode(0o700)),
            Op::mknod(p("/n/pipe"), Special::CharDevice(9)),
            Op::write(p("/n/one"), "linked"),
            Op::link(p("/n/one"), p("/two")),
        ]))
        .await
        .unwrap();
        // An application keeps the times of files and new directories.
        let time = over.entry("/n").await.unwrap().mtime;
        let (now, before) = (shown(&over).await, (head(&*below).await, head(&*store).await));
        let applied = over.apply(Side::Neither, &Batch::default().message("apply")).await.unwrap();
        assert_eq!(shown(&*below).await, now, "{one_store}");
        assert_eq!(shown(&over).await, now, "{one_store}");
        assert_eq!((head(&*below).await, head(&*store).await), (before.0 + 1, before.1 + 1));
        assert_eq!(applied.commit.unwrap().seq.0, before.0 + 1);
        assert_eq!(below.entry("/second.md").await.unwrap().ino, skill, "a file stays the node it is");
        assert_eq!(below.entry("/d/a").await.unwrap().ino, a);
        let same =
            async |one, other| below.entry(one).await.unwrap().ino == below.entry(other).await.unwrap().ino;
        assert!(same("/SKILL.md", "/d/third.md").await && same("/n/one", "/two").await);
        let a = below.entry("/d/a").await.unwrap();
        assert_eq!((a.uid, a.gid, a.mtime), (7, 8, Timestamp(5)));
        assert!(a.attributes.xattrs.keys().all(|name| name == "user.k"));
        assert_eq!(below.entry("/n").await.unwrap().mtime, time);
        assert!(diff(&over).await.is_empty());
        let again = over.apply(Side::Neither, &Batch::default()).await.unwrap();
        assert!(again.commit.is_none() && again.changed == 0);
    }
}

#[tokio::test]
async fn apply_conflicts_until_a_side_is_chosen() {
    // Change in the overlay, concurrent change in the lower layer, and the path of the conflict.
    let cases: [(&str, Op, Op, &str); 9] = [
        ("both write", Op::append(p("/d/a"), "!"), Op::write(p("/d/a"), "other"), "/d/a"),
        ("removed here", Op::remove(p("/d/a")), Op::write(p("/d/a"), "other"), "/d/a"),
        ("removed there", Op::append(p("/d/a"), "!"), Op::remove(p("/d/a")), "/d/a"),
        ("both make", Op::write(p("/new"), "here"), Op::write(p("/new"), "there"), "/new"),
        ("deep below", Op::remove_tree(p("/d")), Op::append(p("/d/sub/b"), "!"), "/d"),
        ("new below", Op::remove_tree(p("/d")), Op::write(p("/d/sub/new"), "x"), "/d"),
        ("moved with all", Op::rename(p("/d/sub"), p("/moved")), Op::append(p("/d/sub/b"), "!"), "/d/sub"),
        (
            "attributes",
            Op::set_attrs(p("/d"), SetAttrs::new().mode(0o700)),
            Op::set_attrs(p("/d"), SetAttrs::new().mode(0o711)),
            "/d",
        ),
        ("in what was removed", Op::write(p("/d/sub/x"), "x"), Op::remove_tree(p("/d/sub")), "/d/sub"),
    ];
    for (case, here, there, at) in cases {
        for one_store in [true, false] {
            for side in [Side::Ours, Side::Theirs] {
                let Layers { below, over, .. } = layers(one_store).await;
                let copies = matches!(here, Op::Rename { .. }) && !one_store;
                if copies {
                    // A directory of another store cannot be renamed.
                    continue;
                }
                over.commit(here.clone().into()).await.unwrap();
                over.write("/mine", "x").await.unwrap();
                below.commit(there.clone().into()).await.unwrap();
                let (ours, theirs) = (shown(&over).await, shown(&*below).await);
                let error = over.apply(Side::Neither, &Batch::default()).await.unwrap_err();
                assert_eq!((error.kind(), error.path()), (ErrorKind::Conflict, Some(&p(at))), "{case}");
                assert_eq!(shown(&*below).await, theirs, "{case}: nothing was applied");
                let applied = over.apply(side, &Batch::default()).await.unwrap();
                assert_eq!(applied.conflicts[..1], [p(at)], "{case}");
                if side == Side::Ours {
                    assert_eq!(shown(&*below).await, ours, "{case}");
                } else if case != "moved with all" {
                    let mut rest = shown(&*below).await;
                    rest.retain(|item| !item.starts_with("/mine "));
                    assert_eq!(rest, theirs, "{case}");
                }
                assert!(below.exists("/mine").await.unwrap(), "{case}");
                assert!(diff(&over).await.is_empty(), "{case}");
            }
        }
    }
}

#[tokio::test]
async fn equal_changes_do_not_conflict() {
    let Layers { below, over, .. } = layers(true).await;
    let same = Op::write(p("/d/a"), "same").with_attrs(SetAttrs::new().mtime(Timestamp(7)));
    over.commit(same.clone().into()).await.unwrap();
    over.write("/d/sub/x", "x").await.unwrap();
    below.commit(same.into()).await.unwrap();
    below.write("/d/sub/b", "other").await.unwrap();
    below.commit(Op::set_attrs(p("/d"), SetAttrs::new().mode(0o700)).into()).await.unwrap();
    over.apply(Side::Neither, &Batch::default()).await.unwrap();
    assert_eq!(below.read_to_string("/d/sub/b").await.unwrap(), "other");
    assert_eq!(below.entry("/d").await.unwrap().mode, 0o700, "the overlay had not changed it");
    assert_eq!(below.read_to_string("/d/sub/x").await.unwrap(), "x");
}

/// Returns operations on a few names, some of them several levels deep.
fn random_ops(random: &mut Random) -> Vec<Op> {
    const PATHS: [&str; 14] = [
        "/SKILL.md",
        "/second.md",
        "/d",
        "/d/a",
        "/d/sub",
        "/d/sub/b",
        "/d/new",
        "/empty",
        "/empty/x",
        "/link",
        "/n",
        "/n/a",
        "/n/sub",
        "/n/sub/b",
    ];
    let path = |random: &mut Random| p(random.pick(&PATHS));
    let op = |random: &mut Random| match random.below(13) {
        0 => Op::write(path(random), format!("{}", random.below(100))),
        1 => Op::append(path(random), "+"),
        2 => Op::mkdir(path(random)),
        3 | 4 => Op::remove(path(random)),
        5 => Op::remove_tree(path(random)),
        6 | 7 => Op::rename(path(random), path(random)),
        8 => Op::exchange(path(random), path(random)),
        9 => Op::link(path(random), path(random)),
        10 => Op::copy_tree(path(random), path(random)),
        11 => Op::set_attrs(path(random), SetAttrs::new().mode(0o700 + random.below(8) as u32)),
        _ => Op::write(path(random), "new").create_new().with_parents(),
    };
    (0..=random.below(3)).map(|_| op(random)).collect()
}

#[tokio::test]
async fn applied_random_batches_match_the_overlay() {
    for seed in 0..150 {
        let Layers { below, over, store } = layers(seed % 3 != 0).await;
        let mut random = Random::new(seed);
        for round in 0..4 {
            let mut done = Vec::new();
            for _ in 0..12 {
                let ops = random_ops(&mut random);
                if over.commit(Batch::new(ops.clone())).await.is_ok() {
                    done.push(format!("{ops:?}"));
                }
            }
            let (now, told) = (shown(&over).await, diff(&over).await);
            let (before, in_store) = (shown(&*below).await, head(&*store).await);
            let applied = over.apply(Side::Neither, &Batch::default()).await;
            let context = format!("seed {seed}, round {round}: {told:?} {done:#?} {before:#?}");
            assert!(applied.is_ok(), "{applied:?} {context}");
            // At most one commit, also if nothing had to be applied.
            assert!(head(&*store).await <= in_store + 1, "{context}");
            assert_eq!(shown(&*below).await, now, "{context}");
            assert_eq!(told.is_empty(), before == now, "{context}");
            assert_eq!(shown(&over).await, now, "{context}");
            assert!(diff(&over).await.is_empty(), "{context}");
            assert_eq!(over.stat(&At::Node(Ino::ROOT)).await.unwrap().ino, Ino::ROOT);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn apply_loses_no_concurrent_write() {
    let folder = tempfile::tempdir().unwrap();
    let (_data, account) = account(&folder).await;
    account.mkdir_all("/d").await.unwrap();
    StoredOverlay::create(&*account, "draft", &lower("/"), &Batch::default()).await.unwrap();
    let stored = StoredOverlay::open(&*account, "draft").await.unwrap();
    let (above, below) = (stored.tree(), Arc::clone(&account));
    let writers = [
        tokio::spawn(async move {
            for n in 0..40 {
                while let Err(error) = above.write(p(&format!("/d/above{n}")), "x").await {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock);
                }
            }
        }),
        tokio::spawn(async move {
            for n in 0..40 {
                below.write(p(&format!("/d/below{n}")), "x").await.unwrap();
            }
        }),
    ];
    while writers.iter().any(|writer| !writer.is_finished()) {
        match stored.apply(Side::Neither, &Batch::default()).await {
            Ok(_) => {}
            Err(error) => assert_eq!((error.kind(), error.path()), (ErrorKind::Conflict, None), "{error}"),
        }
        tokio::task::yield_now().await;
    }
    for writer in writers {
        writer.await.unwrap();
    }
    stored.apply(Side::Neither, &Batch::default()).await.unwrap();
    let listed = account.list(&At::Path(p("/d")), &Page::default()).await.unwrap();
    assert_eq!(listed.items.len(), 80);
}

#[tokio::test]
async fn root_overlay_rejects_reserved_name() {
    let folder = tempfile::tempdir().unwrap();
    let (_data, account) = account(&folder).await;
    account.write("/n", "n").await.unwrap();
    StoredOverlay::create(&*account, "all", &lower("/"), &Batch::default()).await.unwrap();
    let overlay = StoredOverlay::open(&*account, "all").await.unwrap();
    let tree = overlay.tree();
    for op in [Op::write(p("/.garth"), "x"), Op::mkdir(p("/.garth")), Op::rename(p("/n"), p("/.garth"))] {
        assert_eq!(tree.commit(op.into()).await.unwrap_err().kind(), ErrorKind::AccessDenied);
    }
    tree.write("/n", "changed").await.unwrap();
    let applied = overlay.apply(Side::Neither, &Batch::default()).await.unwrap();
    assert_eq!((applied.changed, account.read_to_string("/n").await.unwrap().as_str()), (1, "changed"));
}

#[tokio::test]
async fn equal_creations_do_not_conflict() {
    for one_store in [true, false] {
        let layers = layers(one_store).await;
        let time = |time| SetAttrs::new().mtime(Timestamp(time));
        // The contents are equal, and only the times differ.
        for (fs, at) in [(&layers.over as &dyn FileSystem, 1), (&*layers.below, 2)] {
            let made = Op::write(p("/x"), "same").with_attrs(time(at));
            let changed = Op::write(p("/d/a"), "also").with_attrs(time(at));
            fs.commit(Batch::new([made, changed])).await.unwrap();
        }
        let applied = layers.over.apply(Side::Neither, &Batch::default()).await.unwrap();
        assert_eq!((applied.changed, applied.conflicts), (0, Vec::new()));
        assert_eq!(diff(&layers.over).await, Vec::<String>::new());
    }
}

#[tokio::test]
async fn search_continues_past_hidden_files() {
    let folder = tempfile::tempdir().unwrap();
    let (_data, account) = account(&folder).await;
    for n in 0..60 {
        // Hidden and changed files have the better scores, so they fill the first results of the lower layer.
        let text = if n < 50 { "needle needle needle" } else { "many other words and one needle among them" };
        let write = Op::write(p(&format!("/many/{n:02}.md")), format!("{text} {n}")).with_parents();
        account.commit(write.into()).await.unwrap();
    }
    StoredOverlay::create(&*account, "s", &lower("/many"), &Batch::default()).await.unwrap();
    let tree = StoredOverlay::open(&*account, "s").await.unwrap().tree();
    for n in 0..50 {
        let path = p(&format!("/{n:02}.md"));
        let op = if n % 2 == 0 { Op::remove(path) } else { Op::write(path, "something else") };
        tree.commit(op.into()).await.unwrap();
    }
    let found = tree.search(&SearchQuery::new("needle")).await.unwrap();
    let mut paths: Vec<_> = found.hits.iter().map(|hit| hit.path.to_string()).collect();
    paths.sort();
    assert_eq!(paths, (50..60).map(|n| format!("/{n}.md")).collect::<Vec<_>>());
}
