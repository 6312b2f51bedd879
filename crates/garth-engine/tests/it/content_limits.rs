//! Old content that ends before the log does, by path class, in both engines.

use std::sync::Arc;
use std::time::Duration;

use garth_engine::engine::memory::MemoryFs;
use garth_engine::fs::restore::{MAX_GONE_PATHS, RestoreResult, plan, restore};
use garth_engine::fs::store::system;
use garth_engine::model::{
    At, Batch, ByteRange, MAX_PAGE, Moment, Op, Owner, Remove, Seq, Timestamp, VersionId,
};
use garth_engine::path::Name;
use garth_engine::rule::retention::Retention;
use garth_engine::view::overlay::{LowerLayer, Side, StoredOverlay};
use garth_engine::view::{Mount, Overlay, Scope};
use garth_engine::{Error, ErrorKind, FileSystem};
use garth_testkit::tools::{append, at, copy, link, mkdir, mkdir_all, p, remove, rename, write};

use super::retained_trees::{Engine, GRACE, START, Tree, commits, history, keeping_content, past, text};

/// Path in the account of the file `/off/a` of an overlay.
const DRAFT: &str = "/.garth/overlays/draft/tree/off/a";

/// Returns a retention that keeps no old content of files below `/off`.
fn off() -> Retention {
    keeping_content(&[("/off/**", 0)])
}

#[track_caller]
fn assert_gone<T>(answer: Result<T, Error>) {
    let error = answer.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Gone, "{error}");
    assert!(error.message().contains("path class"), "{error}");
}

/// Asserts that an answer is gone, and names a path and a sequence number.
#[track_caller]
fn assert_names<T>(answer: Result<T, Error>, path: &str, seq: u64) {
    let error = answer.err().unwrap();
    assert_eq!((error.kind(), error.path()), (ErrorKind::Gone, Some(&p(path))), "{error}");
    let due = format!("the content at sequence number {seq} is no longer stored");
    assert!(error.message().starts_with(&due), "{error}");
}

/// Asserts that the reads of a file, which is addressed in one way, name a path and a sequence number.
async fn assert_reads_name(fs: &dyn FileSystem, place: &At, path: &str, seq: u64) {
    assert_names(fs.read(place, ByteRange::ALL).await, path, seq);
    assert_names(fs.fetch(place, ByteRange::ALL).await, path, seq);
    let mut items = fs.fetch_many(&[(place.clone(), ByteRange::ALL)]).await.unwrap().items;
    assert_names(items.remove(0), path, seq);
    let open = fs.open(place).await.unwrap();
    assert_names(open.read_at(0, 10).await, path, seq);
    assert_names(open.next_data(0).await, path, seq);
    assert_names(open.next_hole(0).await, path, seq);
}

/// Returns the content of a path after a commit; `None` if it is gone.
async fn content(fs: &dyn FileSystem, path: &str, seq: u64) -> Option<String> {
    let then = past(fs, seq).await.unwrap();
    match then.read(&at(path), ByteRange::ALL).await {
        Ok(bytes) => Some(String::from_utf8(bytes.to_vec()).unwrap()),
        Err(error) => {
            assert_gone::<()>(Err(error));
            None
        }
    }
}

/// Returns the content of a path after each of some commits; `-` where it is gone.
async fn contents(fs: &dyn FileSystem, path: &str, seqs: impl IntoIterator<Item = u64>) -> Vec<String> {
    let mut found = Vec::new();
    for seq in seqs {
        found.push(content(fs, path, seq).await.unwrap_or_else(|| "-".to_owned()));
    }
    found
}

/// Writes a file of the class of [`off`] and one of no class, in four commits.
async fn four_versions(tree: &Tree) {
    for n in 1..=4 {
        let ops = [write("/off/a", n.to_string()).with_parents(), write("/kept", n.to_string())];
        assert_eq!(tree.commit(Batch::new(ops)).await, Seq(n));
    }
}

#[tokio::test]
async fn old_content_of_class_is_gone_and_listed() {
    for tree in Tree::both() {
        four_versions(&tree).await;
        let fs = tree.fs();
        tree.retain(off()).await;
        assert_eq!(contents(fs, "/off/a", 1..=4).await, ["-", "-", "-", "4"]);
        assert_eq!(contents(fs, "/kept", 1..=4).await, ["1", "2", "3", "4"]);
        assert_eq!(commits(&history(fs, "/off/a").await.unwrap()), [4, 3, 2, 1], "versions are listed");
        let then = past(fs, 2).await.unwrap();
        let entry = then.stat(&at("/off/a")).await.unwrap();
        assert_eq!(entry.size, 1);
        assert_gone(then.fetch(&at("/off/a"), ByteRange::ALL).await);
        let several = [(at("/off/a"), ByteRange::ALL), (at("/kept"), ByteRange::ALL)];
        let mut items = then.fetch_many(&several).await.unwrap().items.into_iter();
        assert_gone(items.next().unwrap());
        assert_eq!(items.next().unwrap().unwrap().1, "2");
        assert_gone(then.blame(&at("/off/a"), ByteRange::ALL, MAX_PAGE).await);
        let open = then.open(&at("/off/a")).await.unwrap();
        assert_eq!(open.stat().await.unwrap(), entry);
        assert_gone(open.read_at(0, 10).await);
        assert_gone(open.next_data(0).await);
        assert_gone(open.next_hole(0).await);
        assert_eq!(text(fs, "/off/a").await, "4");
        tree.assert_sound().await;
    }
}

#[tokio::test]
async fn class_of_a_directory_alone_is_refused() {
    for tree in Tree::both() {
        four_versions(&tree).await;
        let set = async |classes: &[(&str, u64)]| match &tree.engine {
            Engine::Memory(fs) => fs.set_retention(keeping_content(classes)),
            Engine::Stored(fs) => fs.set_retention(keeping_content(classes)).await,
        };
        let refused = set(&[("/kept", 0), ("/off", 0)]).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
        assert!(refused.message().contains("write /off/**"), "{refused}");
        set(&[("/kept", 0), ("/later", 0), ("/off/**", 0)]).await.unwrap();
        // A class that is set may stay, whatever is at its path.
        tree.commit(mkdir("/later")).await;
        set(&[("/later", 60)]).await.unwrap();
        set(&[]).await.unwrap();
        assert!(set(&[("/later", 60)]).await.is_err());
        tree.assert_sound().await;
    }
}

#[tokio::test]
async fn class_without_a_file_is_reported() {
    for tree in Tree::both() {
        four_versions(&tree).await;
        let set = async |classes: &[(&str, u64)]| {
            let state = match &tree.engine {
                Engine::Memory(fs) => fs.set_retention(keeping_content(classes)),
                Engine::Stored(fs) => fs.set_retention(keeping_content(classes)).await,
            };
            state.unwrap().without_file.iter().map(|class| class.as_str().to_owned()).collect::<Vec<_>>()
        };
        let classes = [("/kept", 0), ("/cache", 0), ("/off/**", 0), ("/none/*", 0)];
        assert_eq!(set(&classes).await, ["/cache"], "nothing has the path");
        tree.commit(write("/cache/a", "1").with_parents()).await;
        assert_eq!(set(&classes).await, ["/cache"], "a directory has it");
        tree.commit(rename("/cache", "/moved")).await;
        tree.commit(write("/cache", "1")).await;
        assert_eq!(set(&classes).await, [""; 0]);
    }
}

#[tokio::test]
async fn version_of_class_without_history_is_gone() {
    for tree in Tree::both() {
        four_versions(&tree).await;
        let fs = tree.fs();
        let held = fs.open_version(fs.stat(&at("/off/a")).await.unwrap().version).await.unwrap();
        tree.commit(write("/off/a", "5")).await;
        tree.retain(off()).await;
        assert_eq!(held.read_at(0, 10).await.unwrap(), "4", "it was opened before");
        let ino = fs.stat(&at("/off/a")).await.unwrap().ino;
        let open = |seq| fs.open_version(VersionId { seq: Seq(seq), ino });
        assert_gone(open(2).await);
        assert!(open(4).await.is_ok(), "held by the handle");
        drop(held);
        tree.retain(off()).await;
        assert_gone(open(4).await);
        assert_eq!(open(5).await.unwrap().read_at(0, 10).await.unwrap(), "5");
    }
}

#[tokio::test]
async fn gone_content_names_path_and_sequence() {
    for tree in Tree::both() {
        four_versions(&tree).await;
        let fs = tree.fs();
        tree.commit(link("/off/a", "/off/z")).await;
        tree.commit(write("/off/a", "6")).await;
        tree.retain(off()).await;
        let then = past(fs, 5).await.unwrap();
        let (file, dir) = (then.stat(&at("/off/a")).await.unwrap(), then.stat(&at("/off")).await.unwrap());
        let child = At::Child(dir.ino, Name::parse("z").unwrap());
        let places = [(at("/off/a"), "/off/a"), (at("/off/z"), "/off/z"), (child, "/off/z")];
        for (place, path) in places.into_iter().chain([(At::from(file.ino), "/off/a")]) {
            assert_reads_name(&*then, &place, path, 5).await;
            assert_names(then.blame(&place, ByteRange::ALL, MAX_PAGE).await, path, 5);
            let op = Op::copy(place, at("/new")).as_of(Seq(5));
            assert_names(fs.commit(Batch::new([op])).await, path, 5);
        }
        let version = VersionId { seq: Seq(2), ino: file.ino };
        assert_names(then.open_version(version).await, "/off/a", 2);
        tree.commit(rename("/off/a", "/off/moved")).await;
        tree.commit(remove("/off/z", Remove::File)).await;
        assert_names(fs.open_version(version).await, "/off/moved", 2);
        tree.commit(remove("/off/moved", Remove::File)).await;
        assert_names(fs.open_version(version).await, "/off/a", 2);
    }
}

#[tokio::test]
async fn gone_content_has_the_path_of_the_view() {
    for tree in Tree::both() {
        for n in 1..=2 {
            tree.commit(write("/top/off/a", n.to_string()).with_parents()).await;
        }
        tree.commit(mkdir_all("/upper")).await;
        tree.retain(keeping_content(&[("/top/off/*", 0)])).await;
        let (fs, owner) = (tree.fs(), Owner::new("tree").unwrap());
        let scope = Scope::open(fs, &p("/top")).await.unwrap();
        let mount = Mount::builder(fs, &p("/top"), owner).open().await.unwrap();
        let nested = Scope::open(&*mount, &p("/off")).await.unwrap();
        for (view, path) in [(&*scope, "/off/a"), (&*mount, "/off/a"), (&*nested, "/a")] {
            let then = past(view, 1).await.unwrap();
            let file = then.stat(&at(path)).await.unwrap();
            for place in [at(path), At::from(file.ino)] {
                assert_reads_name(&*then, &place, path, 1).await;
                assert_names(then.blame(&place, ByteRange::ALL, MAX_PAGE).await, path, 1);
            }
            assert_names(view.open_version(file.version).await, path, 1);
        }
        let lower = Scope::open(&*past(fs, 1).await.unwrap(), &p("/top")).await.unwrap();
        let upper = Scope::open(fs, &p("/upper")).await.unwrap();
        let overlay = Overlay::open(lower, upper).await.unwrap();
        assert_reads_name(&*overlay, &at("/off/a"), "/off/a", 1).await;
    }
}

#[tokio::test]
async fn content_stays_for_the_time_of_its_class() {
    for tree in Tree::both() {
        let fs = tree.fs();
        tree.retain(keeping_content(&[("/day/*", 100), ("/day/hour", 10)])).await;
        for n in 1..=3 {
            let files = ["/day/hour", "/day/long"].map(|path| write(path, n.to_string()).with_parents());
            tree.commit(Batch::new(files)).await;
        }
        tree.clock.advance(Duration::from_secs(9));
        tree.retain(keeping_content(&[("/day/*", 100), ("/day/hour", 10)])).await;
        // Replaced ten and nine seconds ago.
        assert_eq!(contents(fs, "/day/hour", 1..=3).await, ["-", "2", "3"]);
        assert_eq!(contents(fs, "/day/long", 1..=3).await, ["1", "2", "3"]);
        tree.clock.advance(Duration::from_secs(100));
        tree.retain(keeping_content(&[("/day/*", 100), ("/day/hour", 10)])).await;
        assert_eq!(contents(fs, "/day/hour", 1..=3).await, ["-", "-", "3"]);
        assert_eq!(contents(fs, "/day/long", 1..=3).await, ["-", "-", "3"]);
    }
}

#[tokio::test]
async fn class_that_is_set_later_searches_the_whole_log() {
    for tree in Tree::both() {
        four_versions(&tree).await;
        let fs = tree.fs();
        tree.retain(off()).await;
        assert_eq!(contents(fs, "/kept", 1..=4).await, ["1", "2", "3", "4"]);
        tree.retain(keeping_content(&[("/off/**", 0), ("/kept", 0)])).await;
        assert_eq!(contents(fs, "/kept", 1..=4).await, ["-", "-", "-", "4"]);
        tree.commit(write("/kept", "5")).await;
        tree.retain(keeping_content(&[])).await;
        assert_eq!(contents(fs, "/kept", 3..=5).await, ["-", "4", "5"], "what is gone does not return");
    }
}

#[tokio::test]
async fn snapshot_and_open_view_hold_content() {
    for tree in Tree::both() {
        four_versions(&tree).await;
        let fs = tree.fs();
        tree.commit(Op::snapshot("s")).await;
        for n in 6..=8 {
            tree.commit(write("/off/a", n.to_string())).await;
        }
        let view = past(fs, 7).await.unwrap();
        tree.commit(write("/off/a", "9")).await;
        tree.retain(off()).await;
        assert_eq!(contents(fs, "/off/a", [3, 4, 5, 6, 7, 8, 9]).await, ["-", "4", "4", "-", "7", "-", "9"]);
        drop(view);
        tree.retain(off()).await;
        assert_eq!(contents(fs, "/off/a", [5, 6, 7]).await, ["4", "-", "-"]);
        tree.commit(Op::drop_snapshot("s")).await;
        tree.retain(off()).await;
        assert_eq!(contents(fs, "/off/a", [3, 4, 5, 6, 7, 8, 9]).await, ["-", "-", "-", "-", "-", "-", "9"]);
        tree.assert_sound().await;
    }
}

#[tokio::test]
async fn copy_of_gone_content_fails() {
    for tree in Tree::both() {
        four_versions(&tree).await;
        let fs = tree.fs();
        tree.commit(copy("/off/a", "/copied")).await;
        tree.retain(off()).await;
        for from in ["/off/a", "/off"] {
            let op = Op::copy_tree(at(from), at("/new")).as_of(Seq(2));
            let error = fs.commit(Batch::new([op])).await.unwrap_err();
            assert_eq!(error.path(), Some(&p("/off/a")));
            assert_gone::<()>(Err(error));
        }
        assert_eq!(fs.head().await.unwrap().seq, Seq(5), "nothing is changed");
        assert_eq!(text(fs, "/copied").await, "4", "its bytes are shared");
        tree.commit(write("/off/a", "6")).await;
        tree.retain(off()).await;
        assert_eq!(text(fs, "/copied").await, "4");
        tree.commit(Op::copy(at("/kept"), at("/old")).as_of(Seq(2))).await;
        assert_eq!(text(fs, "/old").await, "2");
        tree.assert_sound().await;
    }
}

/// Restores a path to a commit.
async fn restored(fs: &dyn FileSystem, path: &str, seq: u64) -> Result<RestoreResult, Error> {
    restore(fs, &p(path), &Moment::Seq(Seq(seq)), Timestamp(0), &Batch::default()).await
}

/// Returns the numbers of a restore: restored, removed, unchanged, and left because their content is gone.
fn counts(restored: &RestoreResult) -> [u64; 4] {
    let plan = &restored.plan;
    [plan.restored, plan.removed, plan.unchanged, plan.gone]
}

#[tokio::test]
async fn restore_of_directory_leaves_gone_files() {
    for tree in Tree::both() {
        let fs = tree.fs();
        let files = ["/d/kept", "/d/off/changed", "/d/off/moved", "/d/off/removed", "/d/off/replaced"];
        tree.commit(Batch::new(files.map(|path| write(path, "1").with_parents()))).await;
        tree.commit(Batch::new([
            write("/d/kept", "2"),
            write("/d/off/changed", "2"),
            write("/d/off/moved", "2"),
            rename("/d/off/moved", "/d/off/elsewhere"),
            remove("/d/off/removed", Remove::File),
            remove("/d/off/replaced", Remove::File),
            write("/d/off/replaced", "2"),
            write("/d/off/added", "2"),
        ]))
        .await;
        for _ in 0..3 {
            tree.retain(keeping_content(&[("/d/off/*", 0)])).await;
        }
        let planned = plan(fs, &p("/d"), &Moment::Seq(Seq(1)), Timestamp(0)).await.unwrap();
        let done = restored(fs, "/d", 1).await.unwrap();
        assert_eq!(done.commit.as_ref().unwrap().seq, Seq(3), "one commit");
        assert_eq!(counts(&done), [2, 1, 1, 4]);
        let paths: Vec<&str> = done.plan.gone_paths.iter().map(|path| path.as_str()).collect();
        assert_eq!(paths, files[1..]);
        assert_eq!((planned.gone, planned.gone_paths), (4, done.plan.gone_paths));
        assert_eq!(text(fs, "/d/kept").await, "1");
        for path in ["/d/off/changed", "/d/off/moved", "/d/off/replaced"] {
            assert_eq!(text(fs, path).await, "2", "{path}");
        }
        for path in ["/d/off/removed", "/d/off/elsewhere", "/d/off/added"] {
            assert!(fs.stat(&at(path)).await.is_err_and(|error| error.is(ErrorKind::NotFound)), "{path}");
        }
        let again = restored(fs, "/d", 1).await.unwrap();
        assert_eq!((again.commit.is_none(), counts(&again)), (true, [0, 0, 2, 4]), "nothing else differs");
        tree.assert_sound().await;
    }
}

#[tokio::test]
async fn removed_directory_returns_without_gone_files() {
    for tree in Tree::both() {
        let fs = tree.fs();
        let off = (0..25).map(|n| write(&format!("/x/d/off/{n:02}"), "1").with_parents());
        let others = ["/x/d/kept", "/x/d/sub/a"].map(|path| write(path, "1").with_parents());
        tree.commit(Batch::new(off.chain(others))).await;
        let then = fs.stat(&at("/x/d/off")).await.unwrap();
        tree.commit(remove("/x", Remove::Tree)).await;
        for _ in 0..3 {
            tree.retain(keeping_content(&[("/x/d/off/*", 0)])).await;
        }
        let done = restored(fs, "/x/d", 1).await.unwrap();
        assert_eq!((counts(&done), done.plan.created), ([5, 0, 0, 25], true));
        assert_eq!(done.plan.gone_paths.len(), MAX_GONE_PATHS);
        assert_eq!(done.plan.gone_paths[19], p("/x/d/off/19"));
        assert_eq!((text(fs, "/x/d/kept").await, text(fs, "/x/d/sub/a").await), ("1".into(), "1".into()));
        let off = fs.stat(&at("/x/d/off")).await.unwrap();
        assert_eq!((off.mtime, off.mode), (then.mtime, then.mode));
        let again = restored(fs, "/x/d", 1).await.unwrap();
        assert_eq!((again.commit.is_none(), counts(&again)), (true, [0, 0, 4, 25]));
        tree.assert_sound().await;
    }
}

#[tokio::test]
async fn file_in_recreated_directory_stays_if_gone() {
    for tree in Tree::both() {
        let fs = tree.fs();
        tree.commit(Batch::new(["/t/d/off", "/t/d/kept"].map(|path| write(path, "1").with_parents()))).await;
        tree.commit(remove("/t/d", Remove::Tree)).await;
        tree.commit(Batch::new([mkdir("/t/d"), write("/t/d/off", "2"), write("/t/d/kept", "2")])).await;
        for _ in 0..3 {
            tree.retain(keeping_content(&[("/t/d/off", 0)])).await;
        }
        let done = restored(fs, "/t", 1).await.unwrap();
        assert_eq!(done.plan.gone_paths, [p("/t/d/off")]);
        assert_eq!((text(fs, "/t/d/off").await, text(fs, "/t/d/kept").await), ("2".into(), "1".into()));
        tree.assert_sound().await;
    }
}

#[tokio::test]
async fn restore_of_gone_file_fails() {
    for tree in Tree::both() {
        four_versions(&tree).await;
        let fs = tree.fs();
        tree.retain(off()).await;
        assert_gone(restored(fs, "/off/a", 2).await);
        assert_gone(plan(fs, &p("/off/a"), &Moment::Seq(Seq(2)), Timestamp(0)).await);
        tree.commit(remove("/off/a", Remove::File)).await;
        assert_gone(restored(fs, "/off/a", 2).await);
        assert_eq!(fs.head().await.unwrap().seq, Seq(5), "nothing is changed");
    }
}

#[tokio::test]
async fn most_generous_name_keeps_content() {
    for tree in Tree::both() {
        four_versions(&tree).await;
        let fs = tree.fs();
        tree.commit(link("/off/a", "/name")).await;
        tree.commit(write("/off/a", "6")).await;
        tree.retain(off()).await;
        assert_eq!(contents(fs, "/off/a", 1..=6).await, ["1", "2", "3", "4", "4", "6"]);
        tree.commit(remove("/name", Remove::File)).await;
        tree.commit(write("/off/a", "8")).await;
        tree.retain(off()).await;
        // Judged by the names when it was looked at, once.
        assert_eq!(contents(fs, "/off/a", [1, 6, 7, 8]).await, ["1", "-", "-", "8"]);
        tree.commit(rename("/kept", "/off/b")).await;
        tree.retain(off()).await;
        assert_eq!(contents(fs, "/kept", 1..=4).await, ["1", "2", "3", "4"], "a rename changes nothing");
    }
}

#[tokio::test]
async fn removed_file_loses_its_last_content() {
    for tree in Tree::both() {
        four_versions(&tree).await;
        let fs = tree.fs();
        tree.commit(write("/off/dir/b", "b").with_parents()).await;
        let held = fs.open(&at("/off/a")).await.unwrap();
        tree.commit(remove("/off/a", Remove::File)).await;
        tree.commit(remove("/off/dir", Remove::Tree)).await;
        for _ in 0..3 {
            tree.retain(off()).await;
        }
        assert_eq!(contents(fs, "/off/a", [4, 5]).await, ["-", "-"]);
        assert_eq!(contents(fs, "/off/dir/b", [5, 6]).await, ["-", "-"]);
        assert_eq!(held.read_at(0, 10).await.unwrap(), "4", "an open file keeps its content");
        drop(held);
        for _ in 0..3 {
            tree.retain(off()).await;
        }
        assert_eq!(contents(fs, "/off/a", [4, 5]).await, ["-", "-"]);
        tree.assert_sound().await;
    }
}

#[tokio::test]
async fn appended_file_keeps_its_bytes() {
    for tree in Tree::both() {
        let fs = tree.fs();
        tree.commit(write("/off/log", "1").with_parents()).await;
        for n in 2..=9 {
            tree.commit(append("/off/log", n.to_string())).await;
        }
        tree.retain(off()).await;
        assert_eq!(text(fs, "/off/log").await, "123456789");
        assert_eq!(contents(fs, "/off/log", [5, 9]).await, ["-", "123456789"]);
        tree.commit(append("/off/log", "!")).await;
        tree.retain(off()).await;
        assert_eq!(text(fs, "/off/log").await, "123456789!");
        tree.assert_sound().await;
    }
}

#[tokio::test]
async fn overlay_holds_the_content_below_it() {
    let [_, tree] = Tree::both();
    let Engine::Stored(account) = &tree.engine else { unreachable!() };
    four_versions(&tree).await;
    let (lower, batch) = (LowerLayer { root: p("/"), as_of: Some(Seq(2)) }, Batch::new([]));
    StoredOverlay::create(&**account, "draft", &lower, &batch).await.unwrap();
    tree.retain(off()).await;
    assert_eq!(contents(tree.fs(), "/off/a", 1..=4).await, ["-", "2", "-", "4"]);
    StoredOverlay::discard(&**account, "draft", &batch).await.unwrap();
    tree.retain(off()).await;
    assert_eq!(contents(tree.fs(), "/off/a", 1..=4).await, ["-", "-", "-", "4"]);
    StoredOverlay::create(&**account, "late", &lower, &batch).await.unwrap();
    tree.retain(off()).await;
    assert_eq!(content(tree.fs(), "/off/a", 2).await, None, "what is gone does not return");
    tree.assert_sound().await;
}

#[tokio::test]
async fn files_of_overlays_are_judged_by_the_shown_path() {
    for tree in Tree::both() {
        let raw: Arc<dyn FileSystem> = match &tree.engine {
            Engine::Memory(fs) => Arc::<MemoryFs>::clone(fs),
            Engine::Stored(fs) => system(&**fs).await.unwrap(),
        };
        let commit = async |ops: Vec<Op>| raw.commit(Batch::new(ops)).await.unwrap().seq.0;
        let about = serde_json::to_vec(&LowerLayer { root: p("/d"), as_of: None }).unwrap();
        commit(vec![write("/.garth/overlays/o/overlay.json", about).with_parents()]).await;
        let [of_class, other] = ["off/a", "kept"].map(|name| format!("/.garth/overlays/o/tree/{name}"));
        let both =
            |text: &str| [&of_class, &other].map(|path| write(path, text.to_owned()).with_parents()).to_vec();
        let seqs = [commit(both("1")).await, commit(both("2")).await];
        let limits = || keeping_content(&[("/d/off/**", 0), ("/off/**", 0)]);
        tree.retain(limits()).await;
        assert_eq!(contents(&*raw, &of_class, seqs).await, ["-", "2"]);
        assert_eq!(contents(&*raw, &other, seqs).await, ["1", "2"]);
        assert_eq!(text(&*raw, &of_class).await, "2", "what it contains now stays");
        commit(vec![Op::remove_tree(p("/.garth/overlays/o"))]).await;
        tree.retain(limits()).await;
        assert_eq!(contents(&*raw, &of_class, seqs).await, ["-", "-"], "by the path that it had last");
        assert_eq!(contents(&*raw, &other, seqs).await, ["1", "2"]);
        tree.assert_sound().await;
    }
}

#[tokio::test]
async fn discarded_overlay_leaves_no_content_of_a_class() {
    let [_, tree] = Tree::both();
    let Engine::Stored(account) = &tree.engine else { unreachable!() };
    tree.commit(mkdir("/off")).await;
    let (lower, batch) = (LowerLayer { root: p("/"), as_of: None }, Batch::new([]));
    StoredOverlay::create(&**account, "draft", &lower, &batch).await.unwrap();
    let overlay = StoredOverlay::open(&**account, "draft").await.unwrap();
    let shown = overlay.tree();
    let mut written = Vec::new();
    for text in ["secret", "later"] {
        written.push(shown.commit(write("/off/a", text).into()).await.unwrap().seq.0);
    }
    let raw = system(&**account).await.unwrap();
    let read = async |seq| past(&*raw, seq).await.unwrap().read(&at(DRAFT), ByteRange::ALL).await;
    assert_eq!(read(written[0]).await.unwrap(), "secret");
    tree.retain(keeping_content(&[("/**", 0)])).await;
    assert_gone(read(written[0]).await);
    assert_eq!(text(&*shown, "/off/a").await, "later", "a live overlay is read as before");
    overlay.apply(Side::Ours, &batch).await.unwrap();
    StoredOverlay::discard(&**account, "draft", &batch).await.unwrap();
    tree.retain(keeping_content(&[("/**", 0)])).await;
    for seq in written {
        assert_gone(read(seq).await);
    }
    assert_eq!(text(tree.fs(), "/off/a").await, "later");
    tree.assert_sound().await;
}

#[tokio::test]
async fn commit_of_a_clock_ahead_keeps_no_content_without_history() {
    for tree in Tree::both() {
        four_versions(&tree).await;
        tree.clock.advance(Duration::from_secs(86_400));
        let write_both = |n: u64| Batch::new([write("/off/a", n.to_string()), write("/kept", n.to_string())]);
        tree.commit(write_both(5)).await;
        tree.clock.set(START.plus_seconds(60));
        tree.commit(write_both(6)).await;
        tree.retain(keeping_content(&[("/off/**", 0), ("/kept", 10)])).await;
        assert_eq!(contents(tree.fs(), "/off/a", 1..=6).await, ["-", "-", "-", "-", "-", "6"]);
        let dated = ["-", "-", "-", "4", "5", "6"];
        assert_eq!(contents(tree.fs(), "/kept", 1..=6).await, dated, "their times are to come");
        tree.retain(Retention { age: Some(Duration::ZERO), ..Retention::default() }).await;
        assert!(past(tree.fs(), 5).await.is_err(), "only the newest state stays");
        tree.assert_sound().await;
    }
}

#[tokio::test]
async fn content_is_removed_after_the_grace_period() {
    let [_, tree] = Tree::both();
    let Engine::Stored(account) = &tree.engine else { unreachable!() };
    account.set_retention(off()).await.unwrap();
    for n in 1..=4_u8 {
        tree.commit(write("/off/a", vec![n; 100_000]).with_parents()).await;
    }
    let marked = account.gc(GRACE).await.unwrap();
    assert_eq!((marked.contents, marked.chunks), (3, 0));
    assert_eq!(content(tree.fs(), "/off/a", 1).await, None);
    tree.clock.advance(GRACE);
    let removed = account.gc(GRACE).await.unwrap();
    assert_eq!(removed.contents, 0);
    assert!(removed.bytes >= 300_000, "{removed:?}");
    assert_eq!(account.gc(GRACE).await.unwrap().chunks, 0);
    tree.commit(remove("/off/a", Remove::File)).await;
    for _ in 0..3 {
        tree.clock.advance(GRACE);
        account.gc(GRACE).await.unwrap();
    }
    assert!(account.usage(&p("/")).await.unwrap().history < 50_000, "its content is gone");
    assert_eq!(commits(&history(tree.fs(), "/off/a").await.unwrap()), [5, 4, 3, 2, 1]);
    tree.assert_sound().await;
}
