//! Restores of directories in which something else has the name of a file whose content is gone, in both
//! engines.

use garth_engine::FileSystem;
use garth_engine::fs::restore::{RestoreResult, restore};
use garth_engine::model::{Batch, Moment, Op, Remove, Seq, Timestamp};
use garth_testkit::tools::{at, link, mkdir, p, remove, rename, symlink, write};

use super::retained_trees::{Tree, keeping_content, text};

/// Restores `/d` to the first commit.
async fn restored(fs: &dyn FileSystem) -> RestoreResult {
    restore(fs, &p("/d"), &Moment::Seq(Seq(1)), Timestamp(0), &Batch::default()).await.unwrap()
}

/// Commits the changes of a test to the files of the past, which have no history below `off`, and restores
/// `/d`. Returns the paths of the gone files.
async fn restored_after(tree: &Tree, files: &[&str], ops: Vec<Op>) -> (RestoreResult, Vec<String>) {
    tree.commit(Batch::new(files.iter().map(|path| write(path, "1").with_parents()))).await;
    tree.commit(Batch::new(ops)).await;
    for _ in 0..3 {
        tree.retain(keeping_content(&[("/**/off/**", 0)])).await;
    }
    let done = restored(tree.fs()).await;
    let paths = done.plan.gone_paths.iter().map(ToString::to_string).collect();
    let again = restored(tree.fs()).await;
    assert!(again.commit.is_none(), "{:?}", again.plan.changes);
    tree.assert_sound().await;
    (done, paths)
}

/// Asserts that nothing has a path.
async fn assert_missing(fs: &dyn FileSystem, path: &str) {
    let error = fs.stat(&at(path)).await.unwrap_err();
    assert!(error.is_absent(), "{path}: {error}");
}

#[tokio::test]
async fn directory_in_place_of_gone_file_stays() {
    for tree in Tree::both() {
        let files = ["/d/kept", "/d/sub/a", "/d/off/z"];
        let ops = vec![
            remove("/d/off/z", Remove::File),
            mkdir("/d/off/z"),
            write("/d/off/z/in", "2"),
            write("/d/off/z/deep/in", "2").with_parents(),
            rename("/d/kept", "/d/off/z/kept"),
            rename("/d/sub", "/d/off/z/sub"),
        ];
        let (done, gone) = restored_after(&tree, &files, ops).await;
        assert_eq!(gone, ["/d/off/z"]);
        assert_eq!(done.plan.removed, 0);
        let fs = tree.fs();
        for (path, content) in [
            ("/d/off/z/in", "2"),
            ("/d/off/z/deep/in", "2"),
            // It comes back, and stays where it was moved.
            ("/d/kept", "1"),
            ("/d/off/z/kept", "1"),
            // A directory has one name.
            ("/d/sub/a", "1"),
        ] {
            assert_eq!(text(fs, path).await, content, "{path}");
        }
        assert_missing(fs, "/d/off/z/sub").await;
        let [kept, moved] = ["/d/kept", "/d/off/z/kept"].map(at);
        assert_ne!(fs.stat(&kept).await.unwrap().ino, fs.stat(&moved).await.unwrap().ino);
    }
}

#[tokio::test]
async fn links_in_place_of_gone_files_stay() {
    for tree in Tree::both() {
        let files = ["/d/linked", "/d/same", "/d/off/hard", "/d/off/in", "/d/off/new", "/d/off/soft"];
        let ops = vec![
            remove("/d/off/soft", Remove::File),
            symlink("/d/off/soft", "/d/same"),
            remove("/d/off/hard", Remove::File),
            link("/d/linked", "/d/off/hard"),
            write("/d/linked", "2"),
            remove("/d/off/in", Remove::File),
            link("/d/same", "/d/off/in"),
            // A new file with two names, one of them that of a past file.
            remove("/d/off/new", Remove::File),
            write("/d/off/new", "2"),
            link("/d/off/new", "/d/added"),
        ];
        let (_, gone) = restored_after(&tree, &files, ops).await;
        assert_eq!(gone, ["/d/off/hard", "/d/off/in", "/d/off/new", "/d/off/soft"]);
        let fs = tree.fs();
        assert_eq!(fs.stat(&at("/d/off/soft")).await.unwrap().target.as_deref(), Some("/d/same"));
        let contents = [("/d/linked", "1"), ("/d/off/hard", "2"), ("/d/off/new", "2"), ("/d/off/in", "1")];
        for (path, content) in contents {
            assert_eq!(text(fs, path).await, content, "{path}");
        }
        assert_missing(fs, "/d/added").await;
        assert_eq!(fs.stat(&at("/d/same")).await.unwrap().nlink, 2);
    }
}

#[tokio::test]
async fn files_that_replaced_gone_files_stay() {
    for tree in Tree::both() {
        // The files are moved one further, as logs are.
        let files = ["/d/off/log", "/d/off/log.1", "/d/off/log.2", "/d/a", "/d/off/a"];
        let ops = vec![
            remove("/d/off/log.2", Remove::File),
            rename("/d/off/log.1", "/d/off/log.2"),
            rename("/d/off/log", "/d/off/log.1"),
            write("/d/off/log.1", "2"),
            write("/d/off/log.2", "2"),
            write("/d/off/log", "3"),
            // A file from elsewhere, whose content of the past is gone as well.
            remove("/d/off/a", Remove::File),
            rename("/d/a", "/d/off/a"),
            write("/d/off/a", "2"),
        ];
        let (done, gone) = restored_after(&tree, &files, ops).await;
        assert_eq!(gone, ["/d/a", "/d/off/a", "/d/off/log", "/d/off/log.1", "/d/off/log.2"]);
        assert_eq!((done.plan.restored, done.plan.removed), (0, 0));
        for (path, content) in
            [("/d/off/log", "3"), ("/d/off/log.1", "2"), ("/d/off/log.2", "2"), ("/d/off/a", "2")]
        {
            assert_eq!(text(tree.fs(), path).await, content, "{path}");
        }
    }
}

#[tokio::test]
async fn gone_file_below_a_file_is_not_created() {
    for tree in Tree::both() {
        let files = ["/d/up/off/z", "/d/up/kept"];
        let ops = vec![remove("/d/up", Remove::Tree), write("/d/up", "2")];
        let (done, gone) = restored_after(&tree, &files, ops).await;
        assert_eq!((gone, done.plan.removed), (vec!["/d/up/off/z".to_owned()], 1), "the file in the way");
        assert_eq!(text(tree.fs(), "/d/up/kept").await, "1");
        assert_missing(tree.fs(), "/d/up/off/z").await;
    }
}

#[tokio::test]
async fn file_stays_in_a_directory_that_was_exchanged() {
    for tree in Tree::both() {
        let files = ["/d/p/off/z", "/d/p/kept"];
        // The directory of the past has moved, and another one has its name.
        let ops = vec![
            remove("/d/p/off/z", Remove::File),
            rename("/d/p", "/d/q"),
            write("/d/p/off/z/in", "2").with_parents(),
        ];
        let (_, gone) = restored_after(&tree, &files, ops).await;
        assert_eq!(gone, ["/d/p/off/z"]);
        assert_eq!(text(tree.fs(), "/d/p/off/z/in").await, "2");
        assert_eq!(text(tree.fs(), "/d/p/kept").await, "1");
        assert_missing(tree.fs(), "/d/q").await;
    }
}
