//! Handles of one store in one tree: a batch through several of them is one commit.

use std::sync::Arc;

use garth_engine::engine::memory::MemoryFs;
use garth_engine::model::{
    At, Author, Batch, Body, ByteRange, ChangesQuery, CommitId, Confinement, Idempotency, Moment, Op, Owner,
    Seq, Timestamp, Within,
};
use garth_engine::view::{Mount, Overlay, Scope};
use garth_engine::{Env, ErrorKind, FileSystem, FileSystemExt, TreePath};

use super::stores::{Kept, account_with};

fn p(path: &str) -> TreePath {
    TreePath::parse(path).unwrap()
}

fn owner(label: &str) -> Owner {
    Owner::new(label).unwrap()
}

/// Returns the engines that can join handles, each with what it needs while in use.
fn stores() -> Vec<(Arc<dyn FileSystem>, Option<Kept>)> {
    let (account, kept) = account_with((Env::system(), None), garth_engine::rule::sample::registry());
    vec![
        (Arc::new(MemoryFs::new(Env::system(), garth_engine::rule::sample::registry())), None),
        (account, Some(kept)),
    ]
}

/// Returns a tree of three handles: `/` is `/one`, `/two` is `/two` of another handle, and `/over` is an
/// overlay of `/below` and `/above`.
async fn tree(store: &dyn FileSystem) -> Arc<dyn FileSystem> {
    for dir in ["/one", "/two", "/below", "/above"] {
        store.mkdir_all(dir).await.unwrap();
    }
    store.write("/below/f", "lower").await.unwrap();
    let two = Scope::open(store, &p("/two")).await.unwrap();
    let [below, above] = ["/below", "/above"].map(|dir| async move { Scope::open(store, &p(dir)).await });
    let over = Overlay::open(below.await.unwrap(), above.await.unwrap()).await.unwrap();
    let tree = Mount::builder(store, &p("/one"), owner("tree")).mount(p("/two"), two).mount(p("/over"), over);
    tree.open().await.unwrap()
}

async fn text(fs: &dyn FileSystem, path: &str) -> String {
    let bytes = fs.read(&At::Path(p(path)), ByteRange::ALL).await.unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[tokio::test]
async fn batch_across_handles_is_one_commit() {
    for (store, _folder) in stores() {
        let tree = tree(&*store).await;
        let before = store.head().await.unwrap().seq.0;
        let ops = [
            Op::write(p("/two/a"), "a"),
            Op::append(p("/over/f"), " upper"),
            Op::write(p("/b"), "b"),
            Op::rename(p("/over/f"), p("/two/f")),
            Op::rename(p("/b"), p("/over/b")),
        ];
        // A retry must find the one commit, whichever handle stored the record.
        let record = Idempotency::new("k", [1; 32], Timestamp(i64::MAX));
        let batch = Batch::new(ops).idempotency(record);
        let first = tree.commit(batch.clone()).await.unwrap();
        let again = tree.commit(batch).await.unwrap();
        assert_eq!((again.seq, again.replayed, again.outcomes), (first.seq, true, first.outcomes));
        assert_eq!(store.head().await.unwrap().seq.0, before + 1);
        assert_eq!(text(&*tree, "/two/f").await, "lower upper");
        assert_eq!(text(&*store, "/two/f").await, "lower upper");
        // The overlay copied the file up before the rename.
        assert_eq!(text(&*store, "/below/f").await, "lower");
        assert_eq!(text(&*tree, "/over/b").await, "b");
        assert!(tree.stat(&At::Path(p("/over/f"))).await.is_err());
    }
}

#[tokio::test]
async fn batch_id_belongs_to_owner_of_tree() {
    for (store, _folder) in stores() {
        let tree = tree(&*store).await;
        let id = CommitId(7);
        let batch = Batch::new([Op::write(p("/two/a"), "a"), Op::write(p("/b"), "b")]).id(id);
        let first = tree.commit(batch).await.unwrap();
        assert_eq!(tree.committed(id).await.unwrap().map(|commit| commit.seq), Some(first.seq));
    }
}

#[tokio::test]
async fn joined_batch_uses_staged_and_held_nodes() {
    for (store, _folder) in stores() {
        let tree = tree(&*store).await;
        let stage = async |path: &str, bytes: &'static [u8]| {
            let mut upload = tree.stage(&At::Path(p(path))).await.unwrap();
            upload.write(bytes.into()).await.unwrap();
            Body::Staged(upload.finish().await.unwrap())
        };
        let (two, over) = (stage("/two/x", b"two").await, stage("/over/x", b"over").await);
        tree.write("/two/gone", "held").await.unwrap();
        let held = tree.open(&At::Path(p("/two/gone"))).await.unwrap();
        tree.remove("/two/gone").await.unwrap();
        let ops = [
            Op::write(p("/two/x"), two),
            Op::write(p("/over/x"), over),
            Op::append(At::Node(held.ino()), " on"),
            Op::mkdir(p("/d")),
        ];
        tree.commit(Batch::new(ops)).await.unwrap();
        assert_eq!(
            (text(&*tree, "/two/x").await, text(&*tree, "/over/x").await),
            ("two".into(), "over".into())
        );
        assert_eq!(held.read_at(0, 100).await.unwrap(), "held on");
        // Uploads and handles of another view are not found.
        let other = Scope::open_as(&*store, &p("/two"), owner("other")).await.unwrap();
        let held = other.open(&At::Path(p("/x"))).await.unwrap();
        other.remove("/x").await.unwrap();
        let ops = [Op::append(At::Node(held.ino()), "!"), Op::mkdir(p("/e"))];
        assert!(tree.commit(Batch::new(ops)).await.unwrap_err().is(ErrorKind::NotFound));
        let mut upload = other.stage(&At::Path(p("/y"))).await.unwrap();
        upload.write("other's".into()).await.unwrap();
        let foreign = Body::Staged(upload.finish().await.unwrap());
        let ops = [Op::write(p("/two/y"), foreign), Op::mkdir(p("/e"))];
        assert!(tree.commit(Batch::new(ops)).await.unwrap_err().is(ErrorKind::NotFound));
    }
}

#[tokio::test]
async fn joins_only_present_handles_of_one_store() {
    let stores = stores();
    let [(one, _), (other, _folder)] = &stores[..] else { panic!("two stores") };
    assert!(one.view_base().joined(&**other).is_none() && other.view_base().joined(&**one).is_none());
    for (store, _) in &stores {
        store.write("/f", "x").await.unwrap();
        let past = store.as_of(&Moment::Seq(Seq(1))).await.unwrap();
        assert!(store.view_base().joined(&*past).is_none() && past.view_base().joined(&**store).is_none());
        assert!(store.view_base().joined(&**store).is_some());
    }
}

#[tokio::test]
async fn handle_author_overrides_batch_author() {
    for (store, _folder) in stores() {
        store.mkdir_all("/d").await.unwrap();
        let author = Author::agent("scout").with_user("ann");
        let to = Confinement::new(Within::new([p("/d")]), owner("view")).author(author);
        let view = store.confined(&to).await.unwrap();
        let inner = Confinement::new(Within::everything(), owner("inner"))
            .author(Author::agent("liar").with_session("s"));
        let inner = view.confined(&inner).await.unwrap();
        let said = Author::agent("other").with_key("k").with_user("bob").with_session("mine");
        inner.commit(Batch::new([Op::write(p("/d/f"), "x")]).author(said)).await.unwrap();
        let changes = store.changes(&ChangesQuery::default()).await.unwrap();
        let author = &changes.commits.last().unwrap().commit.author;
        let is = Author::agent("scout").with_user("ann").with_session("s").with_key("k");
        assert_eq!(*author, is);
    }
}

#[tokio::test]
async fn scope_writes_to_lower_part_of_overlay() {
    for (store, _folder) in stores() {
        let tree = tree(&*store).await;
        store.mkdir_all("/below/a/b").await.unwrap();
        store.write("/below/a/b/f", "lower").await.unwrap();
        let part = Scope::open(&*tree, &p("/over/a/b")).await.unwrap();
        part.append("/f", " upper").await.unwrap();
        part.write("/g", "new").await.unwrap();
        assert_eq!(text(&*part, "/f").await, "lower upper");
        assert_eq!(text(&*store, "/above/tree/a/b/g").await, "new");
        // The extra operations of the views grant the caller no access.
        for path in ["/over/f", "/above/nodes", "/below/f"] {
            assert!(part.write(path, "x").await.is_err(), "{path}");
        }
        let outside = tree.entry("/over/f").await.unwrap().ino;
        let ops = [Op::append(At::Node(outside), "!"), Op::append(p("/g"), "!")];
        assert!(part.commit(Batch::new(ops)).await.unwrap_err().is(ErrorKind::NotFound));
        assert_eq!(text(&*tree, "/over/f").await, "lower");
    }
}
