//! Removing names and trees.
#![allow(clippy::unwrap_used, reason = "a check panics where a promise does not hold")]

use garth_engine::ErrorKind::{Busy, IsADirectory, NotADirectory, NotEmpty, NotFound};
use garth_engine::model::{At, Ino, Op, Remove};

use super::suite::checks;
use crate::subject::Subject;
use crate::tools::*;

checks! {
    remove_rejects_other_kinds
    the_root_cannot_be_removed
    if_exists_accepts_missing_names [nodes]
    remove_tree_deletes_exactly_the_subtree [links nodes]
    remove_tree_accepts_a_file
    removed_name_can_be_created_again
    removing_a_hard_link_updates_only_ctime [log links]
}

async fn remove_rejects_other_kinds(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/d"), mkdir("/d/e"), write("/d/f", "x"), symlink("/l", "/d")]).await;
    refused(fs, remove("/d", Remove::File), IsADirectory, "/d").await;
    refused(fs, remove("/d", Remove::Directory), NotEmpty, "/d").await;
    refused(fs, remove("/d", Remove::Any), NotEmpty, "/d").await;
    refused(fs, remove("/d/f", Remove::Directory), NotADirectory, "/d/f").await;
    refused(fs, remove("/l", Remove::Directory), NotADirectory, "/l").await;
    for (path, what) in
        [("/l", Remove::File), ("/d/e", Remove::Directory), ("/d/f", Remove::Any), ("/d", Remove::Any)]
    {
        let ino = stat(fs, path).await.ino;
        // The outcome names the removed node, which callers can no longer look up.
        let outcome = apply(fs, remove(path, what)).await.1;
        assert_eq!((outcome.ino, outcome.created), (ino, false));
        assert!(!exists(fs, path).await, "{path}");
    }
    // The removed directories no longer count as links of their parent.
    assert_eq!(stat(fs, "/").await.nlink, 2);
}

async fn the_root_cannot_be_removed(subject: &Subject) {
    let fs = &*subject.fs;
    for what in [Remove::File, Remove::Directory, Remove::Any, Remove::Tree] {
        refused(fs, remove("/", what), Busy, "/").await;
        // Leniency covers missing names, and the root exists.
        refused(fs, Op::Remove { at: at("/"), what, missing_ok: true }, Busy, "/").await;
    }
}

async fn if_exists_accepts_missing_names(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/d"), write("/f", "x")]).await;
    let dead = stat(fs, "/d").await.ino;
    given(fs, [remove("/d", Remove::Directory)]).await;
    for what in [Remove::File, Remove::Directory, Remove::Any, Remove::Tree] {
        // Missing in different ways: name, directory, below a file, in a removed directory.
        for place in [at("/no"), at("/no/no"), at("/f/x"), At::Child(dead, name("x"))] {
            let before = fs.head().await.unwrap().seq;
            let (commit, outcome) = apply(fs, Op::Remove { at: place, what, missing_ok: true }).await;
            assert_eq!((outcome.ino, outcome.created), (Ino::NONE, false));
            assert_eq!(commit.seq.0, before.0 + 1, "it takes a sequence number all the same");
        }
    }
    // `if_exists` forgives a missing name only.
    refused(fs, Op::remove_dir(at("/f")).if_exists(), NotADirectory, "/f").await;
    refused(fs, remove("/no", Remove::Tree), NotFound, "/no").await;
}

async fn remove_tree_deletes_exactly_the_subtree(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/a"), mkdir("/a/b"), mkdir("/a/b/c"), write("/a/b/c/f", "x"), write("/a/b/g", "y")])
        .await;
    given(
        fs,
        [
            // Names that begin like the tree, or are patterns that would match it.
            mkdir("/ab"),
            write("/ab/f", "1"),
            mkdir("/a%"),
            write("/a%/f", "2"),
            mkdir("/a_"),
            write("/a0", "3"),
        ],
    )
    .await;
    given(fs, [link("/a/b/g", "/kept"), link("/a/b/c/f", "/a/b/f2")]).await;
    let inner = stat(fs, "/a/b").await.ino;
    let (commit, _) = apply(fs, remove("/a", Remove::Tree)).await;
    assert_eq!(paths_below(fs, "/").await, ["/a%", "/a0", "/a_", "/ab", "/kept", "/a%/f", "/ab/f"]);
    let kept = stat(fs, "/kept").await;
    assert_eq!((kept.nlink, kept.ctime, kept.version.seq), (1, commit.time, commit.seq));
    assert_eq!(text(fs, "/kept").await, "y");
    assert_error(fs.stat(&At::Node(inner)).await, NotFound, None);
    assert_eq!(stat(fs, "/").await.nlink, 5);
}

async fn remove_tree_accepts_a_file(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [write("/f", "x"), remove("/f", Remove::Tree)]).await;
    assert!(!exists(fs, "/f").await);
}

async fn removed_name_can_be_created_again(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [write("/n", "x"), remove("/n", Remove::Any), mkdir("/n"), write("/n/f", "y")]).await;
    given(fs, [remove("/n", Remove::Tree), symlink("/n", "t"), remove("/n", Remove::Any), write("/n", "z")])
        .await;
    assert_eq!(text(fs, "/n").await, "z");
    given(fs, [remove("/n", Remove::Any), mkdir("/n")]).await;
    assert!(names_in(fs, "/n").await.is_empty(), "what was below the old directory is not below the new one");
}

async fn removing_a_hard_link_updates_only_ctime(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [write("/f", "x"), link("/f", "/g")]).await;
    let before = stat(fs, "/f").await;
    subject.clock.advance(std::time::Duration::from_secs(1));
    let (commit, _) = apply(fs, remove("/g", Remove::File)).await;
    let after = stat(fs, "/f").await;
    assert_eq!((after.ctime, after.version, after.nlink), (commit.time, commit.version(0), 1));
    assert_eq!((after.mtime, after.etag), (before.mtime, before.etag));
}
