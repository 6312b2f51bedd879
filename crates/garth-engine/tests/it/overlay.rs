//! Overlays over directories with content: visible entries, copying up, and the unchanged lower layer.

use std::sync::Arc;

use futures::TryStreamExt;
use garth_engine::engine::host::{HostFs, Mode};
use garth_engine::engine::memory::MemoryFs;
use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::model::{
    At, Batch, ByteRange, Confinement, Ino, MAX_READ, NamesPage, Op, Owner, Page, Precondition, SearchQuery,
    SetAttrs, Special, Timestamp, WalkPage, Within,
};
use garth_engine::view::{Mount, Overlay, Scope};
use garth_engine::{Env, ErrorKind, FileSystem, FileSystemExt, TreePath};
use garth_testkit::data::random::Random;
use garth_testkit::fs::counting::Counting;
use tempfile::TempDir;

fn p(path: &str) -> TreePath {
    TreePath::parse(path).unwrap()
}

/// Two layers, of one store or of two.
pub(super) struct Layers {
    pub(super) below: Arc<dyn FileSystem>,
    pub(super) above: Arc<dyn FileSystem>,
    _folder: TempDir,
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

pub(super) async fn layers(one_store: bool) -> Layers {
    let folder = tempfile::tempdir().unwrap();
    let account =
        SqliteFs::open(folder.path(), Env::system(), garth_engine::rule::sample::registry()).unwrap();
    for dir in ["/below", "/above"] {
        account.mkdir_all(dir).await.unwrap();
    }
    let below: Arc<dyn FileSystem> = match one_store {
        true => Scope::open(&*account, &p("/below")).await.unwrap(),
        false => Arc::new(MemoryFs::new(Env::system(), garth_engine::rule::sample::registry())),
    };
    below.commit(filled()).await.unwrap();
    let above = Scope::open(&*account, &p("/above")).await.unwrap();
    Layers { below, above, _folder: folder }
}

impl Layers {
    pub(super) async fn tree(&self) -> Arc<dyn FileSystem> {
        Overlay::open(Arc::clone(&self.below), Arc::clone(&self.above)).await.unwrap()
    }
}

async fn names(fs: &dyn FileSystem, dir: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut page = Page::default().limit(2);
    loop {
        let listing = fs.list(&At::Path(p(dir)), &page).await.unwrap();
        names.extend(listing.items.iter().map(|item| item.name.to_string()));
        match listing.items.last() {
            Some(last) if listing.more => page = page.after(last.name.clone()),
            _ => return names,
        }
    }
}

/// Returns every path, with the text of files, from a walk in small pages.
async fn all(fs: &dyn FileSystem) -> Vec<String> {
    let (mut found, mut page) = (Vec::new(), WalkPage::default().limit(3));
    loop {
        let walk = fs.walk(&At::Path(p("/")), &page).await.unwrap();
        for item in &walk.items {
            let text = match fs.read_to_string(&item.path).await {
                Ok(text) => format!("={text}"),
                Err(_) => String::new(),
            };
            // A walk and a lookup must agree on the inode.
            assert_eq!(fs.entry(&item.path).await.unwrap().ino, item.ino, "{}", item.path);
            found.push(format!("{}{text}", item.path));
        }
        match walk.items.last() {
            Some(last) if walk.more => page = page.after(last.path.clone()),
            _ => return found,
        }
    }
}

#[tokio::test]
async fn search_finds_what_is_written_over_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let host = HostFs::open(folder.path(), Mode::ReadOnly, Env::system()).unwrap();
    let [below, above] =
        [(); 2].map(|()| Arc::new(MemoryFs::new(Env::system(), garth_engine::rule::sample::registry())));
    let lower = Mount::builder(&*below, &TreePath::root(), Owner::new("tree").unwrap());
    let lower = lower.mount(p("/folder"), host).open().await.unwrap();
    // As the overlay would write it.
    above.mkdir_all("/tree/folder").await.unwrap();
    above.write("/tree/folder/plan.md", "A quokka and a ferry.").await.unwrap();
    let tree = Overlay::open(lower, above).await.unwrap();
    let hits = tree.search(&SearchQuery::new("quokka")).await.unwrap().hits;
    let found: Vec<&str> = hits.iter().map(|hit| hit.path.as_str()).collect();
    assert_eq!(found, ["/folder/plan.md"]);
}

#[tokio::test]
async fn lookup_cost_does_not_grow_with_depth() {
    for one_store in [true, false] {
        let layers = layers(one_store).await;
        // 20 levels: a look-up that asked for each level would exceed the limits below.
        let deep: String = (0..20).map(|n| format!("/{n}")).collect();
        let write = Op::write(p(&format!("{deep}/f")), "deep").with_parents();
        layers.below.commit(Batch::new([write])).await.unwrap();
        let [below, above] = [&layers.below, &layers.above].map(|fs| Arc::new(Counting::new(Arc::clone(fs))));
        let tree = Overlay::open(below.clone(), above.clone()).await.unwrap();
        tree.write("/d/a", "changed").await.unwrap();
        tree.remove("/d/sub/b").await.unwrap();
        tree.write("/new", "x").await.unwrap();
        let deep = format!("{deep}/f");
        for path in ["/SKILL.md", "/d", "/d/a", "/d/sub/b", "/d/none", "/none/at/all", "/new", "/", &deep] {
            let at = At::Path(p(path));
            for call in ["stat", "fetch", "open"] {
                let _ = (below.reads_since(), above.reads_since());
                // Missing paths cost no more.
                let _ = match call {
                    "stat" => tree.stat(&at).await.map(drop),
                    "fetch" => tree.fetch(&at, ByteRange::ALL).await.map(drop),
                    _ => tree.open(&at).await.map(drop),
                };
                let [below, above] = [below.reads_since(), above.reads_since()];
                let most = if call == "stat" { [1, 1] } else { [1, 2] };
                assert!(
                    below <= most[0] && above <= most[1],
                    "{call} of {path}: {above} above, {below} below"
                );
            }
        }
    }
}

#[tokio::test]
async fn fetch_many_reads_each_layer_few_times() {
    for one_store in [true, false] {
        let layers = layers(one_store).await;
        let [below, above] = [&layers.below, &layers.above].map(|fs| Arc::new(Counting::new(Arc::clone(fs))));
        let tree = Overlay::open(below.clone(), above.clone()).await.unwrap();
        tree.write("/d/a", "changed").await.unwrap();
        tree.remove("/d/sub/b").await.unwrap();
        tree.write("/new", "x").await.unwrap();
        let paths =
            ["/SKILL.md", "/d", "/d/a", "/d/a/x", "/d/sub/b", "/d/sub/b/x", "/d/none", "/none/at/all"];
        let paths = paths.into_iter().chain(["/new", "/new/x", "/", "/link", "/SKILL.md"]);
        let items: Vec<_> = paths.map(|path| (At::Path(p(path)), ByteRange::ALL)).collect();
        let _ = (below.reads_since(), above.reads_since());
        let answers = tree.fetch_many(&items).await.unwrap().items;
        // The counters were reset above: these are the reads of one call.
        let [below, above] = [below.reads_since(), above.reads_since()];
        // The lower layer is read twice: a look-up of the original of `/d/a`, which tells if its copy keeps
        // the inode, and one `fetch_many` of all that only this layer has.
        assert!(below <= 2 && above <= 6, "{above} above, {below} below");
        assert_eq!(answers.len(), items.len());
        for ((at, range), answer) in items.iter().zip(answers) {
            let one = tree.fetch(at, *range).await;
            assert_eq!(format!("{answer:?}"), format!("{one:?}"), "{at:?}");
        }
    }
}

#[tokio::test]
async fn writes_leave_the_lower_layer_unchanged() {
    for one_store in [true, false] {
        let layers = layers(one_store).await;
        let (tree, before) = (layers.tree().await, all(&*layers.below).await);
        assert_eq!(all(&*tree).await, before);
        tree.append("/d/a", "!").await.unwrap();
        tree.write("/d/new", "new").await.unwrap();
        tree.remove("/d/sub/b").await.unwrap();
        tree.rename("/link", "/d/link").await.unwrap();
        // Changes go to the upper layer alone.
        assert_eq!(all(&*layers.below).await, before, "the lower layer stays");
        let now = [
            "/SKILL.md=# Cook\n",
            "/d",
            "/empty",
            "/second.md=# Cook\n",
            "/d/a=a!",
            "/d/link",
            "/d/new=new",
            "/d/sub",
        ];
        assert_eq!(all(&*tree).await, now, "{one_store}");
        assert_eq!(names(&*tree, "/d").await, ["a", "link", "new", "sub"]);
        // An overlay opened again shows the same.
        assert_eq!(all(&*layers.tree().await).await, now);
    }
}

#[tokio::test]
async fn copy_up_preserves_names_attributes_and_inode() {
    for one_store in [true, false] {
        let layers = layers(one_store).await;
        let tree = layers.tree().await;
        let before = tree.entry("/SKILL.md").await.unwrap();
        assert_eq!((before.nlink, before.mode, before.mtime), (2, 0o640, Timestamp(1_000_000)));
        let (root, held) =
            (tree.entry("/").await.unwrap(), tree.open(&At::Path(p("/SKILL.md"))).await.unwrap());
        let commit =
            tree.commit(Op::set_attrs(p("/second.md"), SetAttrs::new().mode(0o600)).into()).await.unwrap();
        assert_eq!((commit.outcomes[0].ino, commit.outcomes[0].created), (before.ino, false));
        let after = tree.entry("/SKILL.md").await.unwrap();
        assert_eq!(after, tree.entry("/second.md").await.unwrap());
        assert_eq!((after.ino, after.nlink, after.mode), (before.ino, 2, 0o600));
        assert_eq!((after.mtime, &after.attributes), (before.mtime, &before.attributes));
        assert_eq!(tree.entry("/").await.unwrap().mtime, root.mtime, "to be copied up is no change");
        assert_eq!(tree.stat(&At::Node(before.ino)).await.unwrap(), after);
        let paths = tree.names(&At::Node(before.ino), &NamesPage::default()).await.unwrap();
        assert_eq!(paths.items, [p("/SKILL.md"), p("/second.md")]);
        tree.append(before.ino, "more\n").await.unwrap();
        assert_eq!(
            held.read_at(0, 100).await.unwrap(),
            "# Cook\nmore\n",
            "{one_store}: a handle from before"
        );
        assert_eq!(held.ino(), before.ino);
        assert_eq!(tree.read_to_string("/second.md").await.unwrap(), "# Cook\nmore\n");
    }
}

#[tokio::test]
async fn removed_lower_entries_stay_hidden() {
    for one_store in [true, false] {
        let layers = layers(one_store).await;
        let tree = layers.tree().await;
        tree.commit(Op::remove_tree(p("/d")).into()).await.unwrap();
        assert_eq!(tree.entry("/d/a").await.unwrap_err().kind(), ErrorKind::NotFound);
        tree.mkdir_all("/d").await.unwrap();
        assert!(names(&*tree, "/d").await.is_empty(), "a new directory has nothing of the old one");
        tree.write("/d/a", "other").await.unwrap();
        tree.remove("/d/a").await.unwrap();
        assert_eq!(tree.entry("/d/a").await.unwrap_err().kind(), ErrorKind::NotFound);
        // An entry that expires uncovers nothing.
        let soon = SetAttrs::new().expires_at(Timestamp(1));
        tree.commit(Op::set_attrs(p("/SKILL.md"), soon).into()).await.unwrap();
        assert_eq!(tree.entry("/SKILL.md").await.unwrap_err().kind(), ErrorKind::NotFound);
        // Removed and created again in one batch.
        let again = [Op::remove(p("/link")), Op::write(p("/link"), "a file"), Op::append(p("/link"), "!")];
        tree.commit(Batch::new(again)).await.unwrap();
        assert_eq!(tree.read_to_string("/link").await.unwrap(), "a file!");
        assert_eq!(all(&*tree).await, ["/d", "/empty", "/link=a file!"], "{one_store}");
    }
}

#[tokio::test]
async fn rejects_removal_of_directory_filled_below() {
    for one_store in [true, false] {
        let layers = layers(one_store).await;
        let tree = layers.tree().await;
        for op in [Op::remove_dir(p("/d")), Op::rename(p("/empty"), p("/d"))] {
            let error = tree.commit(op.clone().into()).await.unwrap_err();
            assert_eq!((error.kind(), error.path()), (ErrorKind::NotEmpty, Some(&p("/d"))), "{op:?}");
        }
        tree.commit(Op::remove_dir(p("/empty")).into()).await.unwrap();
        tree.remove("/d/a").await.unwrap();
        tree.remove("/d/sub/b").await.unwrap();
        tree.commit(Op::remove_dir(p("/d/sub")).into()).await.unwrap();
        tree.commit(Op::remove_dir(p("/d")).into()).await.unwrap();
        assert_eq!(names(&*tree, "/").await, ["SKILL.md", "link", "second.md"]);
    }
}

#[tokio::test]
async fn lower_directory_renames_only_within_one_store() {
    let layers1 = layers(true).await;
    let tree = layers1.tree().await;
    tree.write("/d/new", "new").await.unwrap();
    tree.rename("/d", "/moved").await.unwrap();
    let now = [
        "/SKILL.md=# Cook\n",
        "/empty",
        "/link=# Cook\n",
        "/moved",
        "/second.md=# Cook\n",
        "/moved/a=a",
        "/moved/new=new",
        "/moved/sub",
        "/moved/sub/b=b",
    ];
    let shown: Vec<String> = all(&*tree).await;
    let shown: Vec<&str> =
        shown.iter().map(|path| if path == "/link" { "/link=# Cook\n" } else { path }).collect();
    assert_eq!(shown, now);
    assert_eq!(all(&*layers1.below).await.len(), 8);
    let two = layers(false).await;
    let tree = two.tree().await;
    let error = tree.rename("/d", "/moved").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CrossesMounts);
    tree.rename("/d/a", "/a").await.unwrap();
    assert_eq!(tree.read_to_string("/a").await.unwrap(), "a");
}

#[tokio::test]
async fn rejects_names_below_lower_file() {
    for one_store in [true, false] {
        let tree = layers(one_store).await.tree().await;
        for op in [Op::write(p("/d/a/x"), "x").with_parents(), Op::mkdir_all(p("/link/x"))] {
            let error = tree.commit(op.clone().into()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotADirectory, "{op:?}");
        }
        assert_eq!(tree.read_to_string("/d/a").await.unwrap(), "a");
        tree.commit(Batch::new([Op::remove(p("/d/a")), Op::mkdir_all(p("/d/a/x"))])).await.unwrap();
    }
}

#[tokio::test]
async fn overlay_judges_conditions_on_merged_tree() {
    for one_store in [true, false] {
        let layers = layers(one_store).await;
        let tree = layers.tree().await;
        let (entry, at) = (tree.entry("/SKILL.md").await.unwrap(), At::Path(p("/SKILL.md")));
        let cases = [
            (Precondition::Exists, true),
            (Precondition::Absent, false),
            (Precondition::Etag(entry.etag), true),
            (Precondition::Version(entry.version), true),
            (Precondition::Not(Box::new(Precondition::Version(entry.version))), false),
        ];
        for (that, holds) in cases {
            let batch = Batch::new([Op::write(p("/out"), "x")]).require(at.clone(), that.clone());
            match (tree.commit(batch).await, holds) {
                (Ok(_), true) => {}
                (Err(error), false) => {
                    assert_eq!((error.kind(), error.path()), (ErrorKind::Conflict, Some(&p("/SKILL.md"))));
                }
                (answer, _) => panic!("{that:?}: {answer:?}"),
            }
        }
        let stale =
            Batch::new([Op::append(p("/SKILL.md"), "x")]).require(at.clone(), Precondition::Etag(entry.etag));
        tree.commit(stale.clone()).await.unwrap();
        assert_eq!(tree.commit(stale).await.unwrap_err().kind(), ErrorKind::Conflict);
    }
}

#[tokio::test]
async fn overlay_reads_long_files_completely() {
    let layers = layers(true).await;
    let tree = layers.tree().await;
    // More than one read returns.
    let long = vec![7; MAX_READ + 3];
    layers.below.write("/long", long.clone()).await.unwrap();
    assert_eq!(tree.read_file("/long").await.unwrap(), long);
    tree.append("/long", vec![8, 9]).await.unwrap();
    assert_eq!(tree.read_file("/long").await.unwrap(), [&long[..], &[8, 9]].concat());
}

#[tokio::test]
async fn file_renamed_below_differs_from_its_copy() {
    for one_store in [true, false] {
        let layers = layers(one_store).await;
        let tree = layers.tree().await;
        let number = tree.entry("/d/a").await.unwrap().ino;
        tree.write("/d/a", "draft").await.unwrap();
        assert_eq!(tree.entry("/d/a").await.unwrap().ino, number);
        // The copy in the upper layer has the inode of a file that now has another name.
        layers.below.rename("/d/a", "/d/z").await.unwrap();
        let [copy, other] = [tree.entry("/d/a").await.unwrap(), tree.entry("/d/z").await.unwrap()];
        assert_ne!(copy.ino, other.ino);
        for (entry, text) in [(&copy, "draft"), (&other, "a")] {
            assert_eq!(tree.read_file(entry.ino).await.unwrap(), text);
            let open = tree.open(&At::Node(entry.ino)).await.unwrap();
            assert_eq!(open.read_at(0, 100).await.unwrap(), text);
        }
        let open = tree.open(&At::Path(p("/d/z"))).await.unwrap();
        tree.append("/d/z", ", changed").await.unwrap();
        assert_eq!(open.read_at(0, 100).await.unwrap(), "a, changed");
        tree.rename("/d/z", "/d/y").await.unwrap();
        assert_eq!(tree.read_to_string("/d/y").await.unwrap(), "a, changed");
        assert_eq!(tree.read_to_string("/d/a").await.unwrap(), "draft");
        let listed: Vec<_> = tree.read_dir("/d").map_ok(|item| item.ino).try_collect().await.unwrap();
        assert_eq!(listed.iter().collect::<std::collections::HashSet<_>>().len(), listed.len());
        tree.remove("/d/a").await.unwrap();
        assert!(!tree.exists("/d/a").await.unwrap());
    }
}

#[tokio::test]
async fn write_returns_inode_of_merged_file() {
    for one_store in [true, false] {
        let layers = layers(one_store).await;
        let tree = layers.tree().await;
        let shown = async |path: &str| tree.entry(path).await.unwrap().ino;
        let number = shown("/SKILL.md").await;
        for text in ["copies it up", "meets the copy", "meets it again"] {
            let commit = tree.commit(Op::write(p("/SKILL.md"), text).into()).await.unwrap();
            assert_eq!((commit.outcomes[0].ino, commit.outcomes[0].created), (number, false), "{text}");
        }
        let over = Op::copy(p("/d/a"), p("/SKILL.md")).replace();
        assert_eq!(tree.commit(over.into()).await.unwrap().outcomes[0].ino, number);
        assert_eq!(shown("/SKILL.md").await, number);

        let taken = [vec![Op::remove(p("/SKILL.md"))], vec![Op::rename(p("/SKILL.md"), p("/elsewhere"))]];
        for mut ops in taken {
            ops.push(Op::append(p("/SKILL.md"), "of another node"));
            let commit = tree.commit(Batch::new(ops)).await.unwrap();
            assert_eq!(commit.outcomes[1].ino, shown("/SKILL.md").await, "{one_store}: {commit:?}");
        }
        // The directory above is removed and created again.
        tree.write("/d/a", "copied up").await.unwrap();
        let again = Op::write(p("/d/a"), "new").with_parents();
        let commit = tree.commit(Batch::new([Op::remove_tree(p("/d")), again])).await.unwrap();
        assert_eq!(commit.outcomes[1].ino, shown("/d/a").await);
    }
}

#[tokio::test]
async fn inode_survives_rename_after_copy_up() {
    for one_store in [true, false] {
        let layers = layers(one_store).await;
        let tree = layers.tree().await;
        let number = tree.entry("/d/a").await.unwrap().ino;
        let open = tree.open(&At::Path(p("/d/a"))).await.unwrap();
        tree.append("/d/a", "1").await.unwrap();
        tree.rename("/d/a", "/b").await.unwrap();
        tree.append(number, "2").await.unwrap();
        assert_eq!(open.read_at(0, 100).await.unwrap(), "a12");
        tree.rename("/b", "/c").await.unwrap();
        assert_eq!(tree.read_file(number).await.unwrap(), "a12");
        let names = tree.names(&At::Node(number), &NamesPage::default()).await.unwrap();
        assert_eq!(names.items, [p("/c")]);
    }
}

#[tokio::test]
async fn inode_survives_rename_during_copy_up() {
    let layers = layers(true).await;
    let tree = layers.tree().await;
    let [file, other, dir, deep] = ["/d/a", "/SKILL.md", "/d/sub", "/d/sub/b"].map(|path| tree.entry(path));
    let [file, other] = [file.await.unwrap().ino, other.await.unwrap().ino];
    let [dir, deep] = [dir.await.unwrap().ino, deep.await.unwrap().ino];
    let open = tree.open(&At::Path(p("/d/a"))).await.unwrap();
    tree.rename("/d/a", "/renamed").await.unwrap();
    tree.append(file, "1").await.unwrap();
    assert_eq!(open.read_at(0, 100).await.unwrap(), "a1");
    // Twice in one commit, and two directories exchanged.
    tree.commit(Batch::new([
        Op::append(p("/SKILL.md"), "2"),
        Op::rename(p("/SKILL.md"), p("/once")),
        Op::rename(p("/once"), p("/twice")),
        Op::exchange(p("/d"), p("/empty")),
        Op::rename(p("/empty"), p("/moved")),
    ]))
    .await
    .unwrap();
    for (number, path) in
        [(file, "/renamed"), (other, "/second.md"), (dir, "/moved/sub"), (deep, "/moved/sub/b")]
    {
        let names = tree.names(&At::Node(number), &NamesPage::default()).await.unwrap().items;
        assert_eq!(names[0], p(path));
        assert_eq!(tree.entry(path).await.unwrap().ino, number);
    }
    tree.append(deep, "3").await.unwrap();
    assert_eq!(tree.read_to_string("/moved/sub/b").await.unwrap(), "b3");
}

#[tokio::test]
async fn overlay_bounds_hash_conditions_on_lower_files() {
    let layers = layers(true).await;
    layers
        .below
        .commit(Batch::new([Op::write(p("/large"), ""), Op::truncate(p("/large"), 65 << 20)]))
        .await
        .unwrap();
    let tree = layers.tree().await;
    let batch = Batch::new([]).require(p("/large"), Precondition::Sha256([0; 32]));
    let error = tree.commit(batch).await.unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::TooLarge, Some(&p("/large"))));
}

#[tokio::test]
async fn confined_overlay_hides_the_rest() {
    for one_store in [true, false] {
        let layers = layers(one_store).await;
        let tree = layers.tree().await;
        tree.append("/SKILL.md", "canary").await.unwrap();
        tree.append("/d/sub/b", "canary").await.unwrap();
        let [outside, left_out, below] =
            [tree.entry("/SKILL.md"), tree.entry("/d/sub/b"), tree.entry("/link")];
        let numbers = [outside.await.unwrap().ino, left_out.await.unwrap().ino, below.await.unwrap().ino];
        let within = Within::new([p("/d")]).without([p("/d/sub")]);
        let part = tree.confined(&Confinement::new(within, Owner::new("part").unwrap())).await.unwrap();
        for path in ["/SKILL.md", "/d/sub", "/d/sub/b", "/link", "/"] {
            assert_eq!(part.entry(path).await.unwrap_err().kind(), ErrorKind::NotFound, "{path}");
            let error = part.append(path, "x").await.unwrap_err();
            assert!(
                [ErrorKind::NotFound, ErrorKind::AccessDenied].contains(&error.kind()),
                "{path}: {error}"
            );
        }
        for number in numbers {
            assert_eq!(
                part.stat(&At::Node(number)).await.unwrap_err().kind(),
                ErrorKind::NotFound,
                "{number:?}"
            );
            assert!(part.commit(Op::append(number, "x").must_exist().into()).await.is_err());
        }
        assert_eq!(names(&*part, "/d").await, ["a"]);
        let walk = part.walk(&At::Path(p("/d")), &WalkPage::default()).await.unwrap();
        assert_eq!(walk.items.iter().map(|item| item.path.as_str()).collect::<Vec<_>>(), ["/d/a"]);
        part.append("/d/a", "!").await.unwrap();
        let within = Some(Within::new([p("/d")]).without([p("/d/sub")]));
        let batch = |path| Batch { within: within.clone(), ..Batch::new([Op::append(p(path), "?")]) };
        tree.commit(batch("/d/a")).await.unwrap();
        assert_eq!(tree.commit(batch("/second.md")).await.unwrap_err().kind(), ErrorKind::NotFound);
        let error = tree.commit(batch("/d/sub/new")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AccessDenied);
        assert_eq!(tree.read_to_string("/d/a").await.unwrap(), "a!?");
    }
}

#[tokio::test]
async fn rejects_upper_layer_with_foreign_files() {
    let layers = layers(true).await;
    layers.above.write("/notes.md", "x").await.unwrap();
    let error = Overlay::open(Arc::clone(&layers.below), Arc::clone(&layers.above)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert_eq!(layers.above.read_to_string("/notes.md").await.unwrap(), "x");
}

#[tokio::test]
async fn copies_up_large_files_and_special_nodes() {
    let layers = layers(false).await;
    let content: Vec<u8> = (0..3_000_000u32).flat_map(u32::to_le_bytes).collect();
    layers.below.write("/large", content.clone()).await.unwrap();
    layers.below.commit(Op::mknod(p("/fifo"), Special::Fifo).into()).await.unwrap();
    let tree = layers.tree().await;
    tree.append("/large", "end").await.unwrap();
    tree.rename("/fifo", "/pipe").await.unwrap();
    let (entry, bytes) =
        tree.fetch(&At::Path(p("/large")), ByteRange::from(11_999_996..12_000_003)).await.unwrap();
    assert_eq!((entry.size, &bytes[4..]), (12_000_003, &b"end"[..]));
    assert_eq!(tree.entry("/pipe").await.unwrap().kind, garth_engine::model::Kind::Fifo);
    assert_eq!(tree.stat(&At::Node(Ino::ROOT)).await.unwrap().ino, Ino::ROOT);
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
    let op = |random: &mut Random| match random.below(14) {
        0 => Op::write(path(random), format!("{}", random.below(100))),
        1 => Op::append(path(random), "+"),
        2 => Op::mkdir(path(random)),
        3 => Op::remove(path(random)),
        4 => Op::remove_file(path(random)),
        5 => Op::remove_dir(path(random)),
        6 => Op::remove_tree(path(random)),
        7 | 8 => Op::rename(path(random), path(random)),
        9 => Op::exchange(path(random), path(random)),
        10 => Op::link(path(random), path(random)),
        11 => Op::copy_tree(path(random), path(random)),
        12 => Op::set_attrs(path(random), SetAttrs::new().mode(0o700 + random.below(8) as u32)),
        _ => Op::write(path(random), "new").create_new().with_parents(),
    };
    (0..=random.below(3)).map(|_| op(random)).collect()
}

/// Returns the visible tree without inodes and times: paths, kinds, modes, links of files, and text.
async fn shown(fs: &dyn FileSystem) -> Vec<String> {
    let walk = fs.walk(&At::Path(p("/")), &WalkPage::default().with_entries()).await.unwrap();
    let mut found = Vec::new();
    for item in walk.items {
        let entry = item.entry.unwrap();
        let links = if entry.is_dir() { 0 } else { entry.nlink };
        let text = fs.read_to_string(&item.path).await.unwrap_or_default();
        found.push(format!("{} {:?} {:o} {links} {text}", item.path, entry.kind, entry.mode));
    }
    found
}

#[tokio::test]
async fn random_batches_on_overlay_match_one_tree() {
    for seed in 0..60 {
        let layers = layers(true).await;
        let (tree, plain) =
            (layers.tree().await, MemoryFs::new(Env::system(), garth_engine::rule::sample::registry()));
        plain.commit(filled()).await.unwrap();
        let below = shown(&*layers.below).await;
        let mut random = Random::new(seed);
        let mut done = Vec::new();
        for _ in 0..40 {
            let ops = random_ops(&mut random);
            done.push(format!("{ops:?}"));
            let [one, two] =
                [tree.commit(Batch::new(ops.clone())).await, plain.commit(Batch::new(ops)).await];
            let kinds = [one, two].map(|answer| answer.map(drop).map_err(|error| error.kind()));
            // Only success is compared: of several errors each engine may find another one first.
            assert_eq!(kinds[0].is_ok(), kinds[1].is_ok(), "{kinds:?} of seed {seed}: {done:#?}");
            assert_eq!(shown(&*tree).await, shown(&plain).await, "seed {seed}: {done:#?}");
        }
        assert_eq!(shown(&*layers.below).await, below, "the lower layer stays");
    }
}
