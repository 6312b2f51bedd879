//! Overlays compared with overlayfs of the kernel, and cases that this comparison has found. `cargo xtask
//! prove overlayfs` runs more of it.

use std::sync::Arc;

use garth_engine::engine::host::{HostFs, Mode};
use garth_engine::engine::memory::MemoryFs;
use garth_engine::model::{Batch, Op, SetAttrs, Timestamp};
use garth_engine::view::Overlay;
use garth_engine::{Env, ErrorKind, FileSystem, FileSystemExt};
use garth_testkit::model::ModelConfig;
use garth_testkit::model::overlayfs::{Lower, Stats, run};
use garth_testkit::tools::p;

fn played(lower: Lower) -> Stats {
    let stats = run(ModelConfig { ops: 2_000, seed: 1 }, lower).unwrap_or_else(|failure| panic!("{failure}"));
    // Between a tenth and nine tenths: a run that succeeds or fails throughout compares little.
    assert!(stats.refused * 10 > stats.ops && stats.refused * 10 < stats.ops * 9, "{stats:?}");
    stats
}

#[test]
fn overlay_in_one_store_matches_the_kernel() {
    assert_eq!(played(Lower::SameStore).crossed, 0);
}

#[test]
fn overlay_over_another_store_matches_the_kernel() {
    assert!(played(Lower::OtherStore).crossed > 0);
}

#[test]
fn overlay_over_a_folder_matches_the_kernel() {
    assert!(played(Lower::Folder).crossed > 0);
}

/// Returns an overlay over a tree in memory that `ops` created, and that tree.
async fn overlay_over(ops: impl IntoIterator<Item = Op>) -> [Arc<dyn FileSystem>; 2] {
    let layers: [Arc<dyn FileSystem>; 2] =
        [(); 2].map(|()| Arc::new(MemoryFs::new(Env::system(), garth_engine::rule::sample::registry())) as _);
    layers[0].commit(Batch::new(ops)).await.unwrap();
    let tree = Overlay::open(Arc::clone(&layers[0]), Arc::clone(&layers[1])).await.unwrap();
    [tree, Arc::clone(&layers[0])]
}

#[tokio::test]
async fn path_below_lower_file_fails_naming_it() {
    let [tree, below] = overlay_over([Op::write(p("/d/f"), "f").with_parents()]).await;
    let (file, dir) = (tree.entry("/d/f").await.unwrap(), tree.entry("/d").await.unwrap());
    for op in [
        Op::write(p("/d/f/x"), ""),
        Op::mkdir_all(p("/d/f/x/y")),
        Op::truncate(p("/d/f/x"), 0),
        Op::set_attrs(p("/d/f/x"), SetAttrs::new().mode(0o600)),
        Op::remove(p("/d/f/x")),
        Op::remove_tree(p("/d/f/x")),
        Op::rename(p("/d/f/x"), p("/d/f")),
        Op::rename(p("/d/f"), p("/d/f/x")),
        Op::exchange(p("/d/f/x"), p("/d/f/y")),
        Op::link(p("/d/f/x"), p("/l")),
        Op::copy_tree(p("/d/f/x"), p("/c")),
    ] {
        let error = tree.commit(op.clone().into()).await.unwrap_err();
        assert_eq!((error.kind(), error.path()), (ErrorKind::NotADirectory, Some(&p("/d/f"))), "{op:?}");
    }
    let nothing = [Op::remove(p("/d/f/x")).if_exists(), Op::remove_tree(p("/d/f/y")).if_exists()];
    tree.commit(Batch::new(nothing)).await.unwrap();
    assert_eq!(tree.entry("/d/f").await.unwrap(), file);
    assert_eq!(tree.entry("/d").await.unwrap().mtime, dir.mtime);
    // A change below still shows, so no rejected operation has copied the file up.
    below.write("/d/f", "still below").await.unwrap();
    assert_eq!(tree.read_to_string("/d/f").await.unwrap(), "still below");
}

#[tokio::test]
async fn copy_up_preserves_directory_times() {
    let at = |path: &str| Op::set_attrs(p(path), SetAttrs::new().mtime(Timestamp(1_000_000_000)));
    let [tree, _] = overlay_over([
        Op::write(p("/a/f"), "f").with_parents(),
        Op::mkdir(p("/b")),
        Op::link(p("/a/f"), p("/b/g")),
        Op::write(p("/c/sub/f"), "f").with_parents(),
        at("/a"),
        at("/b"),
        at("/c"),
        at("/c/sub"),
        at("/"),
    ])
    .await;
    tree.append("/a/f", "!").await.unwrap();
    tree.append("/c/sub/f", "!").await.unwrap();
    for dir in ["/", "/a", "/b", "/c", "/c/sub"] {
        assert_eq!(tree.entry(dir).await.unwrap().mtime, Timestamp(1_000_000_000), "{dir}");
    }
    let [tree, _] =
        overlay_over([Op::write(p("/d/f"), "f").with_parents(), Op::write(p("/d/g"), "g"), at("/d")]).await;
    let made = [Op::write(p("/d/new"), "new"), Op::append(p("/d/f"), "!")];
    let commit = tree.commit(Batch::new(made)).await.unwrap();
    assert_eq!(tree.entry("/d").await.unwrap().mtime, commit.time, "a name was made in it");
}

#[tokio::test]
async fn copy_up_preserves_hard_links_of_host() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("d")).unwrap();
    std::fs::write(folder.path().join("f"), "f").unwrap();
    std::fs::hard_link(folder.path().join("f"), folder.path().join("d/g")).unwrap();
    let below = HostFs::open(folder.path(), Mode::ReadOnly, Env::system()).unwrap();
    let tree =
        Overlay::open(below, Arc::new(MemoryFs::new(Env::system(), garth_engine::rule::sample::registry())))
            .await
            .unwrap();
    tree.append("/d/g", "!").await.unwrap();
    assert_eq!(tree.read_to_string("/f").await.unwrap(), "f!");
    assert_eq!(tree.entry("/f").await.unwrap(), tree.entry("/d/g").await.unwrap());
    assert_eq!(tree.entry("/f").await.unwrap().nlink, 2);
    assert_eq!(std::fs::read(folder.path().join("f")).unwrap(), b"f");
}
