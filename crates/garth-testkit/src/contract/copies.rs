//! Copies of the present and of the past.
#![allow(clippy::unwrap_used, reason = "a check panics where a promise does not hold")]

use std::time::Duration;

use garth_engine::ErrorKind::{
    AlreadyExists, InvalidArgument, IsADirectory, NotADirectory, NotFound, RuleViolation, TooLarge,
};
use garth_engine::model::{At, Batch, Ino, Kind, MAX_COPIED_NAMES, Op, Remove, SetAttrs, Special, Timestamp};

use super::suite::checks;
use crate::subject::{START, Subject};
use crate::tools::*;

checks! {
    copy_drops_notes_of_views [attributes]
    copy_keeps_what_cp_archive_keeps [special attributes expiry]
    copy_includes_the_complete_subtree [links]
    copied_directory_keeps_inner_hard_links [links]
    copy_of_past_drops_passed_expiry [history expiry]
    copy_checks_in_documented_order
    copy_onto_file_keeps_its_inode [links attributes expiry]
    copy_of_past_restores_content [nodes history]
    copied_tree_omits_expired_nodes [expiry links]
    batch_copies_are_limited_in_names
}

fn replace(from: &str, to: &str) -> Op {
    Op::copy(at(from), at(to)).replace()
}

fn plain(from: &str, to: &str) -> Op {
    Op::copy(at(from), at(to))
}

fn dressed() -> SetAttrs {
    SetAttrs::new()
        .owner(1, 2)
        .mode(0o640)
        .atime(Timestamp(11))
        .mtime(Timestamp(12))
        .tags(["t"])
        .expires_at(START.plus_seconds(1_000_000))
}

async fn copy_keeps_what_cp_archive_keeps(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [write_with("/f", "x", dressed()), symlink("/l", "t"), mknod("/c", Special::CharDevice(5))])
        .await;
    subject.clock.advance(Duration::from_secs(1));
    let (commit, outcome) = apply(fs, plain("/f", "/g")).await;
    let (f, g) = (stat(fs, "/f").await, stat(fs, "/g").await);
    // Two nodes were created in between.
    assert_eq!((outcome.ino, outcome.created), (Ino(f.ino.0 + 3), true));
    assert_eq!((g.mode, g.uid, g.gid, g.mtime), (0o640, 1, 2, Timestamp(12)));
    assert_eq!((&g.attributes, g.expires_at, g.size), (&f.attributes, f.expires_at, 1));
    assert_eq!([g.ctime, g.birthtime, g.atime], [commit.time; 3]);
    assert_eq!((g.version, g.etag, g.nlink), (commit.version(0), commit.version(0), 1));
    // Content is shared until one of the two changes.
    given(fs, [append("/g", "y"), plain("/l", "/l2"), plain("/c", "/c2")]).await;
    assert_eq!((text(fs, "/f").await.as_str(), text(fs, "/g").await.as_str()), ("x", "xy"));
    assert_eq!(stat(fs, "/l2").await.target.as_deref(), Some("t"));
    assert_eq!((stat(fs, "/c2").await.kind, stat(fs, "/c2").await.rdev), (Kind::CharDevice, 5));
}

async fn copy_includes_the_complete_subtree(subject: &Subject) {
    let fs = &*subject.fs;
    given(
        fs,
        [mkdir_all("/a/b"), write("/a/b/f", "x"), write("/a/g", "y"), link("/a/g", "/a/h"), mkdir("/ab")],
    )
    .await;
    let attrs = SetAttrs::new().mode(0o700).mtime(Timestamp(5));
    given(fs, [set("/a", attrs)]).await;
    let next = stat(fs, "/ab").await.ino.0 + 1;
    let (_, outcome) = apply(fs, copy("/a", "/c")).await;
    assert!(outcome.created);
    assert_eq!(paths_below(fs, "/c").await, ["/c/b", "/c/g", "/c/h", "/c/b/f"]);
    let mut inos = vec![outcome.ino.0];
    for path in ["/c/b", "/c/g", "/c/h", "/c/b/f"] {
        inos.push(stat(fs, path).await.ino.0);
    }
    assert_eq!(inos[2], inos[3]);
    if can(fs).nodes {
        let walked = [next, next + 1, next + 2, next + 2, next + 3];
        assert_eq!(inos, walked, "numbered in the order of a walk");
    }
    assert_eq!((stat(fs, "/c/g").await.nlink, stat(fs, "/a/g").await.nlink), (2, 2));
    assert_eq!((stat(fs, "/c").await.mode, stat(fs, "/c").await.mtime), (0o700, Timestamp(5)));
    assert_eq!(stat(fs, "/c").await.nlink, 3);
    // The copies share content, and must not share changes.
    given(fs, [write("/c/b/f", "changed")]).await;
    assert_eq!(text(fs, "/a/b/f").await, "x");
}

async fn copied_directory_keeps_inner_hard_links(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir_all("/a/b"), write("/a/f", "x"), link("/a/f", "/a/b/g"), link("/a/f", "/outside")])
        .await;
    given(fs, [symlink("/a/l", "t"), link("/a/l", "/a/b/l")]).await;
    let before = fs.head().await.unwrap().seq;
    given(fs, [copy("/a", "/c")]).await;
    let (f, g) = (stat(fs, "/c/f").await, stat(fs, "/c/b/g").await);
    assert_eq!((f.ino, f.nlink), (g.ino, 2), "the name outside is not copied");
    assert_eq!(stat(fs, "/a/f").await.nlink, 3);
    assert_eq!(stat(fs, "/c/l").await.ino, stat(fs, "/c/b/l").await.ino);
    given(fs, [append("/c/f", "y")]).await;
    assert_eq!((text(fs, "/c/b/g").await.as_str(), text(fs, "/a/f").await.as_str()), ("xy", "x"));
    if can(fs).history {
        given(fs, [remove("/a", Remove::Tree), restore("/a", before, "/a")]).await;
        let (f, g) = (stat(fs, "/a/f").await, stat(fs, "/a/b/g").await);
        assert_eq!((f.ino, f.nlink), (g.ino, 2));
        // A restored copy is a new node, and not linked to the name outside.
        assert_ne!(f.ino, stat(fs, "/outside").await.ino);
    }
}

async fn copy_of_past_drops_passed_expiry(subject: &Subject) {
    let fs = &*subject.fs;
    let expires = |seconds| SetAttrs::new().expires_at(START.plus_seconds(seconds));
    given(
        fs,
        [mkdir("/d"), write_with("/d/soon", "x", expires(10)), write_with("/d/late", "y", expires(1000))],
    )
    .await;
    let before = fs.head().await.unwrap().seq;
    subject.clock.advance(Duration::from_secs(20));
    given(fs, [restore("/d", before, "/e"), restore("/d/soon", before, "/f")]).await;
    for path in ["/e/soon", "/f"] {
        assert_eq!((text(fs, path).await.as_str(), stat(fs, path).await.expires_at), ("x", None), "{path}");
    }
    assert_eq!(stat(fs, "/e/late").await.expires_at, Some(START.plus_seconds(1000)));
}

async fn copied_tree_omits_expired_nodes(subject: &Subject) {
    let fs = &*subject.fs;
    let soon = SetAttrs::new().expires_at(START.plus_seconds(10));
    given(fs, [mkdir_all("/d/e"), write_with("/d/f", "x", soon), link("/d/f", "/d/e/g"), link("/d/f", "/h")])
        .await;
    subject.clock.advance(Duration::from_secs(20));
    let (commit, _) = apply(fs, copy("/d", "/c")).await;
    assert_eq!(paths_below(fs, "/").await, ["/c", "/d", "/c/e", "/d/e"]);
    for dir in ["/d", "/c", "/d/e", "/c/e"] {
        // The expired names are removed first, in the original as well.
        assert_eq!(stat(fs, dir).await.mtime, commit.time, "{dir} lost a name before it was copied");
    }
}

async fn copy_checks_in_documented_order(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir_all("/d/e"), write("/f", "x"), write("/g", "y"), symlink("/l", "t")]).await;
    refused(fs, plain("/no", "/d/e"), NotFound, "/no").await;
    // Without `recursive` a directory is rejected, wherever it would go.
    refused(fs, plain("/d", "/d/x"), IsADirectory, "/d").await;
    refused(fs, copy("/d", "/d/x"), InvalidArgument, "/d/x").await;
    refused(fs, copy("/d", "/d/e/x"), InvalidArgument, "/d/e/x").await;
    refused(fs, copy("/", "/x"), InvalidArgument, "/x").await;
    refused(fs, copy("/f", "/no/x"), NotFound, "/no/x").await;
    refused(fs, copy("/f", "/g/x"), NotADirectory, "/g").await;
    refused(fs, copy("/d", "/d"), AlreadyExists, "/d").await;
    for to in ["/f", "/g", "/d", "/l", "/"] {
        refused(fs, plain("/f", to), AlreadyExists, to).await;
    }
    for (from, to) in [("/f", "/d"), ("/f", "/l"), ("/l", "/f"), ("/f", "/"), ("/l", "/l")] {
        refused(fs, replace(from, to), AlreadyExists, to).await;
    }
    let op = Op::copy_tree(at("/d"), at("/f")).replace();
    refused(fs, op, AlreadyExists, "/f").await;
    let op = Op::copy(at("/f"), at("/p/q/f")).with_parents();
    given(fs, [op, copy("/d", "/dd")]).await;
    assert_eq!(text(fs, "/p/q/f").await, "x");
}

async fn copy_onto_file_keeps_its_inode(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [write_with("/f", "new", dressed()), write("/g", "old"), link("/g", "/h")]).await;
    let before = stat(fs, "/g").await;
    let (commit, outcome) = apply(fs, replace("/f", "/g")).await;
    assert_eq!((outcome.ino, outcome.created), (before.ino, false));
    let after = stat(fs, "/g").await;
    assert_eq!((after.mode, after.uid, after.mtime, after.nlink), (0o640, 1, Timestamp(12), 2));
    assert_eq!((after.attributes, after.etag), (stat(fs, "/f").await.attributes, commit.version(0)));
    assert_eq!((after.ctime, after.birthtime), (commit.time, before.birthtime));
    assert_eq!(text(fs, "/h").await, "new");
    let before = stat(fs, "/h").await;
    // `/h` is another name of the same node.
    given(fs, [replace("/g", "/g"), replace("/g", "/h")]).await;
    assert_eq!(stat(fs, "/h").await, before, "onto itself nothing happens");
}

async fn copy_of_past_restores_content(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/d")]).await;
    let good = put(fs, "/d/f", "good").await;
    given(fs, [write("/d/f", "bad"), restore("/d/f", good.seq, "/d/f")]).await;
    assert_eq!((text(fs, "/d/f").await.as_str(), stat(fs, "/d/f").await.ino), ("good", good.ino));
    given(
        fs,
        [remove("/d", Remove::Tree), restore("/d", good.seq, "/d"), restore("/d", good.seq, "/d/inside")],
    )
    .await;
    assert_eq!(text(fs, "/d/f").await, "good");
    assert_eq!(text(fs, "/d/inside/f").await, "good", "a past directory may go anywhere");
    assert_ne!(stat(fs, "/d/f").await.ino, good.ino);
    refused(fs, restore("/d/f", subject.seq(1), "/x"), NotFound, "/d/f").await;
    refused(fs, restore("/d/f", subject.seq(0), "/x"), NotFound, "/d/f").await;
    refused_outright(fs, restore("/d/f", subject.seq(1000), "/x"), NotFound).await;
    // The inode no longer exists, but did at that time.
    let op = Op::copy(At::Node(good.ino), at("/by-node")).as_of(good.seq);
    given(fs, [op]).await;
    assert_eq!(text(fs, "/by-node").await, "good");
}

async fn batch_copies_are_limited_in_names(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/a"), write("/a/f", "x"), mkdir("/b")]).await;
    // Each directory is copied into the other in turn, and so grows each time.
    let (mut ops, mut copies) = (Vec::new(), vec![("/a/f".to_owned(), 1)]);
    let (mut sizes, mut room) = ([2, 1], MAX_COPIED_NAMES);
    for step in 0..10 {
        let (from, to) = (step % 2, (step + 1) % 2);
        let path = format!("{}/{step}", ["/a", "/b"][to]);
        ops.push(copy(["/a", "/b"][from], &path));
        copies.push((path, sizes[from]));
        room -= sizes[from];
        sizes[to] += sizes[from];
    }
    // Then the largest as often as it fits, and so on down to the last name.
    for (number, (from, size)) in copies.iter().enumerate().rev() {
        for again in 0..room / size {
            ops.push(copy(from, &format!("/c{number}-{again}")));
        }
        room %= size;
    }
    assert_eq!(room, 0);
    ops.push(plain("/a/f", "/over"));
    batch_refused(fs, Batch::new(ops), TooLarge, Some("/over")).await;
    if can(fs).atomic {
        assert_eq!(paths_below(fs, "/").await, ["/a", "/b", "/a/f"]);
    }
    given(fs, [copy("/a", "/over")]).await;
}

async fn copy_drops_notes_of_views(subject: &Subject) {
    let fs = &*subject.fs;
    let noted = |note: &str| SetAttrs::new().xattr("garth.note", note).xattr("user.color", "red");
    let ops = [
        write_with("/a", "a", noted("of a")),
        write_with("/b", "b", noted("of b")),
        mkdir("/d"),
        set("/d", noted("of d")),
    ];
    // Callers may not write notes themselves.
    batch_refused(fs, Batch::new(ops.clone()), RuleViolation, None).await;
    fs.commit(Batch::new(ops).by_garth()).await.expect("garth notes what it likes");
    for op in [copy("/a", "/copy"), Op::copy(p("/a"), p("/b")).replace(), Op::copy_tree(p("/d"), p("/e"))] {
        apply(fs, op).await;
    }
    for (path, note) in [("/a", Some("of a")), ("/copy", None), ("/b", Some("of b")), ("/e", None)] {
        let xattrs = stat(fs, path).await.attributes.xattrs;
        assert_eq!(xattrs.get("garth.note").map(Vec::as_slice), note.map(str::as_bytes), "{path}");
        assert_eq!(xattrs.get("user.color").map(Vec::as_slice), Some(&b"red"[..]), "{path}");
    }
}
