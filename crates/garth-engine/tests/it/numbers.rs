//! Inodes in overlays: the private nodes of the upper layer are not reachable by inode, and a tree with an
//! overlay keeps its past.

use std::sync::Arc;

use garth_engine::engine::memory::MemoryFs;
use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::model::{
    At, Batch, ByteRange, Confinement, Ino, Moment, NamesPage, Op, Owner, Page, WalkPage, Within,
};
use garth_engine::view::{Mount, Overlay, Scope};
use garth_engine::{Env, ErrorKind, FileSystem, FileSystemExt, Name};
use garth_testkit::tools::{at, given, p, write};
use tempfile::TempDir;

/// An account with a lower and an upper layer, their overlay, and the filesystem of the upper layer.
struct Layers {
    fs: Arc<SqliteFs>,
    upper: Arc<dyn FileSystem>,
    overlay: Arc<dyn FileSystem>,
    _folder: TempDir,
}

async fn layers(one_store: bool) -> Layers {
    let folder = tempfile::tempdir().unwrap();
    let fs = SqliteFs::open(folder.path(), Env::system(), garth_engine::rule::sample::registry()).unwrap();
    for dir in ["/chat", "/below/secret", "/above"] {
        fs.mkdir_all(dir).await.unwrap();
    }
    given(&*fs, [write("/below/secret/f", "canary"), write("/below/gone", "canary")]).await;
    let lower = Scope::open(&*fs, &p("/below")).await.unwrap();
    let upper: Arc<dyn FileSystem> = match one_store {
        true => Scope::open(&*fs, &p("/above")).await.unwrap(),
        false => Arc::new(MemoryFs::new(Env::system(), garth_engine::rule::sample::registry())),
    };
    let overlay = Overlay::open(lower, Arc::clone(&upper)).await.unwrap();
    Layers { fs, upper, overlay, _folder: folder }
}

/// Returns the inodes that an overlay would use for every node of its upper layer, visible or not: the inode
/// in the store, with the mark of a new file.
async fn numbers(layers: &Layers) -> Vec<(String, Ino)> {
    layers.overlay.write("/new", "clean").await.unwrap();
    // A new file shows the difference between the inodes of the overlay and of its store.
    let shown = layers.overlay.entry("/new").await.unwrap().ino;
    let raw = layers.upper.entry("/tree/new").await.unwrap().ino;
    let all = layers.upper.walk(&at("/"), &WalkPage::default()).await.unwrap().items;
    all.into_iter().map(|item| (item.path.to_string(), Ino(shown.0 - raw.0 + item.ino.0))).collect()
}

#[tokio::test]
async fn excluded_copies_are_unreachable_by_inode() {
    for one_store in [true, false] {
        let layers = layers(one_store).await;
        given(&*layers.overlay, [Op::append(p("/secret/f"), "canary"), write("/secret/g", "canary")]).await;
        let within = Within::everything().without([p("/secret")]);
        let to = Confinement::new(within, Owner::new("part").unwrap());
        let part = layers.overlay.confined(&to).await.unwrap();
        let (mut found, numbers) = (Vec::new(), numbers(&layers).await);
        for (path, ino) in &numbers {
            if part.stat(&At::Node(*ino)).await.is_ok() {
                found.push(path.as_str());
            }
            let read = part.fetch(&At::Node(*ino), ByteRange::ALL).await;
            assert!(read.is_err() || path == "/tree/new", "{path} {read:?}");
            let set = Op::append(At::Node(*ino), "x");
            assert!(part.commit(set.into()).await.is_err() || path == "/tree/new", "{path}");
        }
        assert_eq!(found, ["/tree", "/tree/new"], "one store: {one_store}, of {numbers:?}");
    }
}

#[tokio::test]
async fn overlay_notes_are_unreachable_by_inode() {
    for one_store in [true, false] {
        let layers = layers(one_store).await;
        given(&*layers.overlay, [Op::remove(p("/gone")), Op::append(p("/secret/f"), "x")]).await;
        for (path, ino) in numbers(&layers).await {
            let kept = ["/hidden", "/nodes"].iter().any(|place| path.starts_with(place));
            let stat = layers.overlay.stat(&At::Node(ino)).await;
            assert_eq!(stat.is_err(), kept, "{path} {stat:?}");
            let listed = layers.overlay.list(&At::Node(ino), &Page::default()).await;
            assert!(listed.is_err() || !kept, "{path} {listed:?}");
            if kept {
                let child = At::Child(ino, Name::parse("x").unwrap());
                let error = layers.overlay.commit(Op::mkdir(child).into()).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::NotFound, "{path}");
            }
        }
    }
}

#[tokio::test]
async fn unlinked_copy_is_reachable_while_open() {
    for one_store in [true, false] {
        let layers = layers(one_store).await;
        given(&*layers.overlay, [Op::append(p("/secret/f"), "!")]).await;
        let open = layers.overlay.open(&at("/secret/f")).await.unwrap();
        given(&*layers.overlay, [Op::remove(p("/secret/f"))]).await;
        assert_eq!(layers.overlay.stat(&At::Node(open.ino())).await.unwrap().size, 7);
        given(&*layers.overlay, [Op::append(At::Node(open.ino()), "?")]).await;
        assert_eq!(open.read_at(0, 9).await.unwrap(), "canary!?");
    }
}

#[tokio::test]
async fn mount_with_overlay_keeps_its_past() {
    let layers = layers(true).await;
    let tree = Mount::builder(&*layers.fs, &p("/chat"), Owner::new("tree").unwrap())
        .mount(p("/skill"), Arc::clone(&layers.overlay));
    let tree = tree.open().await.unwrap();
    let seq = tree.commit(Batch::new([write("/note", "old")])).await.unwrap().seq;
    tree.write("/note", "new").await.unwrap();
    let then = tree.as_of(&Moment::Seq(seq)).await.unwrap();
    assert_eq!(then.read_to_string("/note").await.unwrap(), "old");
    let error = then.entry("/skill/gone").await.unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::Unsupported, Some(&p("/skill"))));
}

#[tokio::test]
async fn names_of_copied_file_come_in_pages() {
    for one_store in [true, false] {
        let layers = layers(one_store).await;
        given(&*layers.overlay, [Op::append(p("/gone"), "!"), Op::link(p("/gone"), p("/secret/too"))]).await;
        let (mut page, mut names) = (NamesPage::default().limit(1), Vec::new());
        loop {
            let found = layers.overlay.names(&at("/gone"), &page).await.unwrap();
            names.extend(found.items.iter().map(ToString::to_string));
            match found.items.into_iter().last().filter(|_| found.more) {
                Some(last) => page = page.after(last),
                None => break,
            }
        }
        assert_eq!(names, ["/gone", "/secret/too"]);
        // A tree with this overlay asks for the name of the inode to find its mounts.
        let tree = Mount::builder(&*layers.fs, &p("/chat"), Owner::new("tree").unwrap())
            .mount(p("/skill"), Arc::clone(&layers.overlay));
        let tree = tree.open().await.unwrap();
        let file = tree.entry("/skill/gone").await.unwrap().ino;
        let child = At::Child(file, Name::parse("skill").unwrap());
        assert_eq!(tree.stat(&child).await.unwrap_err().kind(), ErrorKind::NotADirectory);
    }
}

#[tokio::test]
async fn base_inodes_do_not_reach_overlay_layers() {
    let layers = layers(true).await;
    given(&*layers.overlay, [Op::append(p("/secret/f"), "canary")]).await;
    let kept = layers.upper.entry("/tree/secret/f").await.unwrap().ino;
    let tree = Mount::builder(&*layers.fs, &p("/chat"), Owner::new("tree").unwrap())
        .mount(p("/skill"), Arc::clone(&layers.overlay));
    let within = Within::everything().without([p("/skill/secret")]);
    let to = Confinement::new(within, Owner::new("part").unwrap());
    let tree = tree.open().await.unwrap().confined(&to).await.unwrap();
    let hidden = layers.upper.entry("/nodes").await.unwrap().ino;
    for number in [kept, hidden] {
        let stolen = p("/stolen");
        let mode = garth_engine::model::SetAttrs::new().mode(0o700);
        for op in [
            Op::check(number, garth_engine::model::Precondition::Exists),
            Op::append(number, "x"),
            Op::set_attrs(number, mode),
            Op::copy(number, &stolen),
            Op::link(number, &stolen),
            Op::mkdir(At::Child(number, Name::parse("x").unwrap())),
        ] {
            let batch = Batch::new([write("/skill/new", "x"), op.clone()]);
            assert!(tree.commit(batch).await.is_err(), "{op:?}");
        }
    }
    assert_eq!(layers.upper.read_to_string("/tree/secret/f").await.unwrap(), "canarycanary");
}
