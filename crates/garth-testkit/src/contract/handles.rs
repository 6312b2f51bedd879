//! Open files: handles follow the node, as in POSIX; handles to a version never change.
#![allow(clippy::unwrap_used, reason = "a check panics where a promise does not hold")]

use garth_engine::ErrorKind::{IsADirectory, NotFound, NotPermitted, TooLarge};
use garth_engine::model::{
    At, Batch, ByteRange, Ino, MAX_READ, Moment, Op, Page, Remove, SetAttrs, Special, VersionId, WalkPage,
};
use garth_engine::{FileSystemExt, OpenFile};

use super::suite::checks;
use crate::subject::{START, Subject};
use crate::tools::*;

checks! {
    handle_sees_later_writes_and_renames [nodes]
    handle_outlives_removal [nodes]
    handle_sees_change_in_final_commit [nodes links]
    node_removed_with_tree_ends_unchanged [nodes links]
    node_removed_with_several_trees_has_changed [nodes links]
    removed_tree_directories_end_unchanged [nodes expiry]
    open_node_is_writable_without_name [nodes]
    handle_outlives_expiry [nodes expiry]
    version_content_never_changes [history]
    missing_version_is_not_found [history]
    removed_node_is_reachable_while_held [nodes special]
    held_removed_directory_is_empty_and_closed [nodes links]
    held_past_node_never_changes [nodes history]
}

async fn content(file: &dyn OpenFile) -> String {
    String::from_utf8(file.read_at(0, 1 << 20).await.unwrap().to_vec()).unwrap()
}

async fn handle_sees_later_writes_and_renames(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/d"), write("/d/f", "one")]).await;
    let file = fs.open(&at("/d/f")).await.unwrap();
    assert_eq!(file.ino(), stat(fs, "/d/f").await.ino);
    given(fs, [append("/d/f", " two"), rename("/d/f", "/g"), rename("/d", "/e"), write("/e/f", "other")])
        .await;
    assert_eq!(content(&*file).await, "one two");
    given(fs, [write("/g", "new")]).await;
    assert_eq!(content(&*file).await, "new");
    assert_eq!(file.stat().await.unwrap(), stat(fs, "/g").await);
    assert_eq!(file.read_at(1, 1).await.unwrap(), "e");
    assert!(file.read_at(3, 10).await.unwrap().is_empty());
    assert_error(file.read_at(0, MAX_READ + 1).await, TooLarge, None);
}

async fn handle_outlives_removal(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [write("/f", "x"), write("/g", "new")]).await;
    let removed = fs.open(&at("/f")).await.unwrap();
    let version = removed.stat().await.unwrap().version;
    // The new file has the same path, but is another node.
    given(fs, [remove("/f", Remove::File), write("/f", "another")]).await;
    let entry = removed.stat().await.unwrap();
    assert_eq!((entry.nlink, entry.version), (0, version));
    assert_eq!(content(&*removed).await, "x");
    let replaced = fs.open(&at("/f")).await.unwrap();
    given(fs, [rename("/g", "/f")]).await;
    assert_eq!(content(&*replaced).await, "another");
    given(fs, [mkdir("/d"), write("/d/h", "deep")]).await;
    let deep = fs.open(&at("/d/h")).await.unwrap();
    given(fs, [remove("/d", Remove::Tree)]).await;
    assert_eq!(content(&*deep).await, "deep");
}

async fn open_node_is_writable_without_name(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [write("/f", "x")]).await;
    let file = fs.open(&at("/f")).await.unwrap();
    let node = At::Node(file.ino());
    given(fs, [remove("/f", Remove::File)]).await;
    assert_eq!(fs.stat(&node).await.unwrap().nlink, 0);
    assert!(names_of(fs, &node).await.unwrap().is_empty());
    let op = Op::append(node.clone(), "y");
    let (commit, outcome) = apply(fs, op).await;
    assert_eq!((outcome.ino, outcome.created), (file.ino(), false));
    assert_eq!(content(&*file).await, "xy");
    assert_eq!(file.stat().await.unwrap().version, commit.version(0));
    assert_eq!(fs.read(&node, ByteRange::ALL).await.unwrap(), "xy");
    // As in POSIX, a removed node gets no new name.
    refused_outright(fs, Op::link(node.clone(), at("/again")), NotFound).await;
    let again = fs.open(&node).await.unwrap();
    drop(file);
    assert_eq!(content(&*again).await, "xy", "the second handle holds it too");
    drop(again);
    assert_error(fs.stat(&node).await, NotFound, None);
    refused_outright(fs, write_at(node, "z"), NotFound).await;
}

async fn handle_outlives_expiry(subject: &Subject) {
    let fs = &*subject.fs;
    let attrs = garth_engine::model::SetAttrs::new().expires_at(crate::subject::START.plus_seconds(10));
    given(fs, [write_with("/f", "x", attrs)]).await;
    let file = fs.open(&at("/f")).await.unwrap();
    subject.clock.advance(std::time::Duration::from_secs(10));
    assert!(!exists(fs, "/f").await);
    assert_eq!(content(&*file).await, "x");
    assert_eq!(file.stat().await.unwrap().nlink, 0);
    assert_eq!(fs.stat(&At::Node(file.ino())).await.unwrap(), file.stat().await.unwrap());
    given(fs, [write("/f", "new")]).await;
    assert_eq!(content(&*file).await, "x");
    assert_ne!(stat(fs, "/f").await.ino, file.ino());
}

async fn version_content_never_changes(subject: &Subject) {
    let fs = &*subject.fs;
    let first = put(fs, "/f", "one").await;
    let early = fs.open_version(first).await.unwrap();
    let entry = stat(fs, "/f").await;
    let second = put(fs, "/f", "two!").await;
    given(fs, [append("/f", "three"), rename("/f", "/g"), remove("/g", Remove::File)]).await;
    for file in [early, fs.open_version(first).await.unwrap()] {
        assert_eq!(content(&*file).await, "one");
        assert_eq!(file.stat().await.unwrap(), entry);
        assert_eq!(file.ino(), first.ino);
    }
    assert_eq!(content(&*fs.open_version(second).await.unwrap()).await, "two!");
}

async fn missing_version_is_not_found(subject: &Subject) {
    let fs = &*subject.fs;
    let first = put(fs, "/f", "one").await;
    let dir = fs.mkdir_all(&p("/d")).await.unwrap();
    let link = apply(fs, symlink("/l", "t")).await.0.version(0);
    let end = fs.remove(&p("/f")).await.unwrap();
    for version in [
        end,
        VersionId { seq: subject.seq(2), ino: first.ino },
        VersionId { seq: subject.seq(1000), ino: first.ino },
        VersionId { seq: subject.seq(1), ino: subject.ino(1000) },
        VersionId { seq: subject.seq(1), ino: Ino::NONE },
    ] {
        assert_error(fs.open_version(version).await, NotFound, None);
    }
    assert_error(fs.open_version(dir).await, IsADirectory, None);
    assert_error(fs.open_version(link).await, NotPermitted, None);
}

async fn handle_sees_change_in_final_commit(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [write("/f", "x"), link("/f", "/g"), write("/h", "y")]).await;
    let file = fs.open(&at("/f")).await.unwrap();
    let before = file.stat().await.unwrap();
    // The first removal changes the node, the second ends it.
    let batch = Batch::new([remove("/g", Remove::File), rename("/h", "/f")]);
    let commit = fs.commit(batch).await.unwrap();
    let after = file.stat().await.unwrap();
    assert_eq!((after.ctime, after.version.seq, after.etag), (commit.time, commit.seq, before.etag));
}

async fn node_removed_with_tree_ends_unchanged(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/d"), write("/d/a", "x"), link("/d/a", "/d/b")]).await;
    let file = fs.open(&at("/d/a")).await.unwrap();
    let before = file.stat().await.unwrap();
    given(fs, [remove("/d", Remove::Tree)]).await;
    let after = file.stat().await.unwrap();
    assert_eq!((after.nlink, after.ctime, after.version), (0, before.ctime, before.version));
}

async fn node_removed_with_several_trees_has_changed(subject: &Subject) {
    let fs = &*subject.fs;
    let tree = [mkdir("/d"), mkdir("/e"), write("/d/a", "x"), link("/d/a", "/d/b"), link("/d/a", "/e/c")];
    given(fs, tree).await;
    let file = fs.open(&at("/d/a")).await.unwrap();
    let ops = ["/d", "/e"].map(|dir| remove(dir, Remove::Tree));
    let commit = fs.commit(Batch::new(ops)).await.unwrap();
    // Without the first removal it still had a name.
    let after = file.stat().await.unwrap();
    assert_eq!((after.nlink, after.ctime, after.version.seq), (0, commit.time, commit.seq));
    // The same if a directory was renamed in between.
    given(fs, [mkdir("/d"), mkdir("/e"), write("/d/a", "x"), link("/d/a", "/e/c")]).await;
    let file = fs.open(&at("/d/a")).await.unwrap();
    let ops = [remove("/d", Remove::Tree), rename("/e", "/f"), remove("/f", Remove::Tree)];
    let commit = fs.commit(Batch::new(ops)).await.unwrap();
    let after = file.stat().await.unwrap();
    assert_eq!((after.nlink, after.ctime, after.version.seq), (0, commit.time, commit.seq));
}

async fn removed_tree_directories_end_unchanged(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir_all("/d/e/f"), write("/d/e/x", "x"), mkdir_all("/t/e"), write("/t/e/x", "x")]).await;
    let mut held = Vec::new();
    for path in ["/d", "/d/e", "/d/e/f"] {
        let dir = fs.hold(&at(path)).await.unwrap();
        held.push((dir.stat().await.unwrap(), dir));
    }
    given(fs, [remove("/d", Remove::Tree)]).await;
    for (before, dir) in &held {
        let after = dir.stat().await.unwrap();
        assert_eq!((after.nlink, after.version), (0, before.version), "{before:?}");
        assert_eq!((after.mtime, after.ctime, after.etag), (before.mtime, before.ctime, before.etag));
    }
    // An expired entry is removed first, which changes its directory.
    let expires = SetAttrs::new().expires_at(START.plus_seconds(10));
    given(fs, [write_with("/t/old", "x", expires)]).await;
    subject.clock.advance(std::time::Duration::from_secs(10));
    let [top, below] = [fs.hold(&at("/t")).await.unwrap(), fs.hold(&at("/t/e")).await.unwrap()];
    let before = below.stat().await.unwrap();
    let commit = fs.commit(remove("/t", Remove::Tree).into()).await.unwrap();
    let after = top.stat().await.unwrap();
    assert_eq!((after.version.seq, after.etag.seq, after.mtime), (commit.seq, commit.seq, commit.time));
    assert_eq!(below.stat().await.unwrap().version, before.version);
}

async fn removed_node_is_reachable_while_held(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir_all("/d/e"), symlink("/d/l", "to"), mknod("/d/p", Special::Fifo), write("/d/f", "x")])
        .await;
    let mut held = Vec::new();
    for path in ["/d", "/d/e", "/d/l", "/d/p", "/d/f"] {
        held.push((fs.hold(&at(path)).await.unwrap(), stat(fs, path).await));
    }
    given(fs, [rename("/d", "/moved")]).await;
    assert_eq!(held[2].0.stat().await.unwrap(), stat(fs, "/moved/l").await, "it follows the node");
    // The root can be held like any node.
    let root = fs.hold(&At::Node(Ino::ROOT)).await.unwrap();
    given(fs, [remove("/moved", Remove::Tree)]).await;
    for (node, before) in &held {
        let by_number = fs.stat(&At::Node(node.ino())).await.unwrap();
        assert_eq!(node.stat().await.unwrap(), by_number);
        assert_eq!((by_number.ino, by_number.kind, by_number.nlink), (before.ino, before.kind, 0));
        assert_eq!((&by_number.target, by_number.size), (&before.target, before.size));
        assert!(names_of(fs, &At::Node(node.ino())).await.unwrap().is_empty());
    }
    assert_eq!(root.stat().await.unwrap(), stat(fs, "/").await);
    let link = At::Node(held[2].0.ino());
    let (commit, outcome) = apply(fs, Op::set_attrs(link.clone(), SetAttrs::new().mode(0o700))).await;
    assert_eq!((outcome.version, outcome.size), (commit.version(0), 2));
    assert_eq!(held[2].0.stat().await.unwrap().mode, 0o700);
    assert_error(fs.open(&link).await, NotPermitted, None);
    drop(held);
    assert_error(fs.stat(&link).await, NotFound, None);
}

async fn held_removed_directory_is_empty_and_closed(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/d"), write("/d/f", "x"), write("/g", "y")]).await;
    let held = fs.hold(&at("/d")).await.unwrap();
    let (dir, child) = (At::Node(held.ino()), At::Child(held.ino(), name("f")));
    // A new directory of the same path must not show through the old one.
    given(fs, [remove("/d", Remove::Tree), mkdir("/d"), write("/d/f", "another")]).await;
    let listing = fs.list(&dir, &Page::default()).await.unwrap();
    assert!(listing.items.is_empty() && !listing.more);
    let walk = fs.walk(&dir, &WalkPage::default()).await.unwrap();
    assert!(walk.items.is_empty() && !walk.more);
    assert_error(fs.stat(&child).await, NotFound, None);
    assert_error(fs.hold(&child).await, NotFound, None);
    for op in [
        write_at(child.clone(), "x"),
        Op::mkdir(child.clone()),
        Op::link(at("/g"), child.clone()),
        Op::rename(at("/g"), child.clone()),
        Op::remove(child.clone()),
    ] {
        refused_outright(fs, op, NotFound).await;
    }
    drop(held);
    assert_error(fs.list(&dir, &Page::default()).await, NotFound, None);
}

async fn held_past_node_never_changes(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/d"), symlink("/l", "one")]).await;
    let then = fs.as_of(&Moment::Seq(fs.head().await.unwrap().seq)).await.unwrap();
    let (link, before) = (then.hold(&at("/l")).await.unwrap(), stat(fs, "/l").await);
    given(fs, [remove("/l", Remove::File), symlink("/l", "two")]).await;
    assert_eq!(link.stat().await.unwrap(), before);
    assert_error(then.hold(&at("/no")).await, NotFound, Some("/no"));
}
