//! Lookup of names and nodes, and its errors.
#![allow(clippy::unwrap_used, reason = "a check panics where a promise does not hold")]

use garth_engine::ErrorKind::{NotADirectory, NotFound, NotPermitted, TooLarge};
use garth_engine::model::{At, ByteRange, HistoryPage, Ino, Kind, Op, Page, Remove, Seq, WalkPage};

use super::suite::checks;
use crate::subject::Subject;
use crate::tools::*;

checks! {
    empty_tree_has_root_at_sequence_0
    missing_segment_error_names_complete_path
    error_names_segment_that_is_no_directory
    engines_never_follow_a_link
    node_is_reached_by_inode [nodes links]
    unlinked_node_is_not_found [nodes]
    child_lookup_follows_moved_directory [nodes]
    names_lists_paths_in_walk_order [links]
    names_are_bytes_and_never_patterns
    longest_name_and_path_work
    error_names_requested_or_first_path [nodes links]
}

async fn empty_tree_has_root_at_sequence_0(subject: &Subject) {
    let fs = &*subject.fs;
    assert_eq!(fs.head().await.unwrap().seq, subject.seq(0));
    let root = stat(fs, "/").await;
    assert_eq!((root.ino, root.kind, root.mode, root.nlink), (Ino::ROOT, Kind::Directory, 0o755, 2));
    assert!(names_in(fs, "/").await.is_empty());
    assert!(paths_below(fs, "/").await.is_empty());
    assert_eq!(names_of(fs, &at("/")).await.unwrap(), [p("/")]);
    // A tree with earlier commits has a history of its root.
    if subject.head == Seq(0) && can(fs).history {
        assert!(history(fs, "/").await.is_empty());
    }
}

async fn missing_segment_error_names_complete_path(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/d")]).await;
    for path in ["/x", "/x/y/z", "/d/x", "/d/x/y"] {
        assert_error(fs.stat(&at(path)).await, NotFound, Some(path));
        assert_error(names_of(fs, &at(path)).await, NotFound, Some(path));
        assert_error(fs.list(&at(path), &Page::default()).await, NotFound, Some(path));
        assert_error(fs.walk(&at(path), &WalkPage::default()).await, NotFound, Some(path));
        assert_error(fs.read(&at(path), ByteRange::ALL).await, NotFound, Some(path));
        assert_error(fs.open(&at(path)).await, NotFound, Some(path));
        refused(fs, patch(path, 0, "x"), NotFound, path).await;
        refused(fs, truncate(path, 1), NotFound, path).await;
        refused(fs, remove(path, Remove::Any), NotFound, path).await;
    }
}

async fn error_names_segment_that_is_no_directory(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/d"), write("/d/f", "x"), symlink("/d/l", "/d")]).await;
    for (path, way) in [("/d/f/x", "/d/f"), ("/d/f/x/y", "/d/f"), ("/d/l/f", "/d/l")] {
        assert_error(fs.stat(&at(path)).await, NotADirectory, Some(way));
        assert_error(fs.read(&at(path), ByteRange::ALL).await, NotADirectory, Some(way));
        assert_error(fs.open(&at(path)).await, NotADirectory, Some(way));
        refused(fs, write(path, "x"), NotADirectory, way).await;
        refused(fs, mkdir(path), NotADirectory, way).await;
        refused(fs, mkdir_all(path), NotADirectory, way).await;
        refused(fs, remove(path, Remove::Any), NotADirectory, way).await;
        refused(fs, rename(path, "/z"), NotADirectory, way).await;
        refused(fs, rename("/d/f", path), NotADirectory, way).await;
    }
}

async fn engines_never_follow_a_link(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/d"), write("/d/f", "secret"), symlink("/l", "/d"), symlink("/m", "d/f")]).await;
    let link = stat(fs, "/m").await;
    assert_eq!((link.kind, link.target.as_deref(), link.size), (Kind::Symlink, Some("d/f"), 3));
    assert_error(fs.stat(&at("/l/f")).await, NotADirectory, Some("/l"));
    assert_error(fs.list(&at("/l"), &Page::default()).await, NotADirectory, Some("/l"));
    refused(fs, write("/l/new", "x"), NotADirectory, "/l").await;
    assert_eq!(names_in(fs, "/d").await, ["f"]);
}

async fn node_is_reached_by_inode(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/d"), write("/d/f", "x")]).await;
    let ino = stat(fs, "/d/f").await.ino;
    given(fs, [rename("/d/f", "/g"), link("/g", "/d/h")]).await;
    assert_eq!(fs.stat(&At::Node(ino)).await.unwrap().ino, ino);
    assert_eq!(names_of(fs, &At::Node(ino)).await.unwrap(), [p("/g"), p("/d/h")]);
    apply(fs, write_at(At::Node(ino), "y")).await;
    assert_eq!(text(fs, "/g").await, "y");
    assert_eq!(text(fs, "/d/h").await, "y");
}

async fn unlinked_node_is_not_found(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/d"), write("/d/f", "x")]).await;
    let (dir, file) = (stat(fs, "/d").await.ino, stat(fs, "/d/f").await.ino);
    given(fs, [remove("/d", Remove::Tree)]).await;
    // Removed, never used, and no inode at all.
    for ino in [dir, file, subject.ino(1000), Ino::NONE] {
        assert_error(fs.stat(&At::Node(ino)).await, NotFound, None);
        assert_error(names_of(fs, &At::Node(ino)).await, NotFound, None);
        refused_outright(fs, write_at(At::Node(ino), "y"), NotFound).await;
    }
    assert_error(fs.list(&At::Node(dir), &Page::default()).await, NotFound, None);
    assert_error(fs.stat(&At::Child(dir, name("f"))).await, NotFound, None);
    refused_outright(fs, write_at(At::Child(dir, name("n")), "y"), NotFound).await;
}

async fn child_lookup_follows_moved_directory(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/d"), mkdir("/e"), write("/d/f", "x")]).await;
    let dir = stat(fs, "/d").await.ino;
    let file = stat(fs, "/d/f").await.ino;
    given(fs, [rename("/d", "/e/moved")]).await;
    assert_eq!(fs.stat(&At::Child(dir, name("f"))).await.unwrap().ino, file);
    // The inode stays valid although the path changed.
    apply(fs, write_at(At::Child(dir, name("g")), "y")).await;
    assert_eq!(text(fs, "/e/moved/g").await, "y");
    assert_error(fs.stat(&At::Child(dir, name("no"))).await, NotFound, Some("/e/moved/no"));
    assert_error(fs.stat(&At::Child(file, name("x"))).await, NotADirectory, Some("/e/moved/f"));
    assert_error(fs.stat(&At::Child(subject.ino(1000), name("x"))).await, NotFound, None);
}

async fn names_lists_paths_in_walk_order(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/b"), mkdir("/b/c"), write("/z", "x"), link("/z", "/b/c/n"), link("/z", "/a")]).await;
    // Paths are computed from directories as they are now.
    given(fs, [rename("/b", "/y")]).await;
    assert_eq!(names_of(fs, &at("/z")).await.unwrap(), [p("/a"), p("/z"), p("/y/c/n")]);
    assert_eq!(names_of(fs, &at("/y/c")).await.unwrap(), [p("/y/c")]);
    given(fs, [remove("/a", Remove::File)]).await;
    assert_eq!(names_of(fs, &at("/z")).await.unwrap(), [p("/z"), p("/y/c/n")]);
}

async fn names_are_bytes_and_never_patterns(subject: &Subject) {
    let fs = &*subject.fs;
    let odd = [
        "/%",
        "/_",
        "/*",
        "/a",
        "/a%",
        "/a_",
        "/ab",
        "/A",
        "/a ",
        "/é",
        // The same letter as the one before, in another Unicode normalization.
        "/e\u{301}",
        "/日本",
        "/\u{1f600}",
        "/a\\",
        "/'; --",
        "/\n",
    ];
    for path in odd {
        put(fs, path, path.as_bytes().to_vec()).await;
    }
    for path in odd {
        assert_eq!(text(fs, path).await, path);
    }
    let mut sorted: Vec<String> = odd.iter().map(|path| path[1..].to_owned()).collect();
    sorted.sort();
    assert_eq!(names_in(fs, "/").await, sorted);
    // Used as patterns, these would remove other names as well.
    given(fs, [remove("/%", Remove::Any), remove("/_", Remove::Tree), remove("/*", Remove::Any)]).await;
    assert_eq!(names_in(fs, "/").await.len(), odd.len() - 3);
}

async fn longest_name_and_path_work(subject: &Subject) {
    let fs = &*subject.fs;
    let long = "n".repeat(255);
    let mut path = String::new();
    // 15 levels of 256 bytes leave room for one more name below the limit of 4,096.
    for _ in 0..15 {
        path = format!("{path}/{long}");
        apply(fs, mkdir(&path)).await;
    }
    path = format!("{path}/{}", "m".repeat(4096 - path.len() - 1));
    put(fs, &path, "deep").await;
    assert_eq!(path.len(), 4096);
    assert_eq!(text(fs, &path).await, "deep");
    assert_eq!(paths_below(fs, "/").await.len(), 16);
    assert_eq!(history_len(fs, &path).await, can(fs).history.then_some(1));
}

async fn history_len(fs: &Fs, path: &str) -> Option<usize> {
    fs.history(&at(path), &HistoryPage::default()).await.ok().map(|versions| versions.items.len())
}

async fn error_names_requested_or_first_path(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/d"), write("/d/f", "x"), link("/d/f", "/a"), truncate("/d/f", 1 << 40)]).await;
    assert_error(fs.read(&at("/d/f"), ByteRange::ALL).await, TooLarge, Some("/d/f"));
    let node = At::Node(stat(fs, "/d/f").await.ino);
    // A node with several names is reported under the first one, in the order of a walk.
    assert_error(fs.read(&node, ByteRange::ALL).await, TooLarge, Some("/a"));
    let directory = At::Node(stat(fs, "/d").await.ino);
    refused(fs, Op::link(directory, at("/l")), NotPermitted, "/d").await;
}
