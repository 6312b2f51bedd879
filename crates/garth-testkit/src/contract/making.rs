//! Creation of directories, links, special nodes and further names.
#![allow(clippy::unwrap_used, reason = "a check panics where a promise does not hold")]

use garth_engine::ErrorKind::{
    AlreadyExists, InvalidArgument, NameTooLong, NotADirectory, NotFound, NotPermitted, TooManyLinks,
};
use garth_engine::model::{At, Batch, Ino, Kind, MAX_LINKS, MAX_TARGET, Op, Remove, SetAttrs, Special};

use super::suite::checks;
use crate::subject::Subject;
use crate::tools::*;

checks! {
    mkdir_creates_a_directory
    mkdir_rejects_existing_names
    mkdir_with_parents_accepts_existing_directory
    parents_are_created_only_on_request [links special]
    creating_a_name_updates_directory_times [log links]
    symlink_stores_any_text
    special_nodes_store_kind_and_device [special]
    hard_link_is_another_name_of_node [links special]
    link_checks_node_before_name [links nodes]
    node_has_at_most_65000_names [links]
    rejects_creation_by_inode [nodes links special]
    inodes_are_never_reused [nodes]
}

async fn mkdir_creates_a_directory(subject: &Subject) {
    let fs = &*subject.fs;
    let attrs = SetAttrs::new().owner(7, 8).mode(0o700);
    let op = Op::mkdir(at("/d")).with_attrs(attrs);
    let (commit, outcome) = apply(fs, op).await;
    assert!(outcome.created && (!can(fs).nodes || outcome.ino == subject.ino(2)));
    let entry = stat(fs, "/d").await;
    assert_eq!((entry.kind, entry.mode, entry.uid, entry.gid), (Kind::Directory, 0o700, 7, 8));
    assert_eq!((entry.nlink, entry.size, entry.rdev), (2, 0, 0));
    assert_eq!([entry.mtime, entry.atime], [commit.time; 2]);
    assert!(!can(fs).log || [entry.birthtime, entry.ctime] == [commit.time; 2]);
    assert_eq!((entry.version, entry.etag), (commit.version(0), commit.version(0)));
    // The new directory has an entry `..` that leads to its parent.
    assert_eq!(stat(fs, "/").await.nlink, 3);
}

async fn mkdir_rejects_existing_names(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/d"), write("/f", "x"), symlink("/l", "/d")]).await;
    for path in ["/", "/d", "/f", "/l"] {
        refused(fs, mkdir(path), AlreadyExists, path).await;
    }
    refused(fs, mkdir_all("/f"), AlreadyExists, "/f").await;
    // A link to a directory is not followed.
    refused(fs, mkdir_all("/l"), AlreadyExists, "/l").await;
    refused(fs, mkdir_all("/f/x"), NotADirectory, "/f").await;
}

async fn mkdir_with_parents_accepts_existing_directory(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/d")]).await;
    let before = stat(fs, "/d").await;
    let attrs = SetAttrs::new().mode(0o700);
    let (_, outcome) = apply(fs, Op::mkdir_all(at("/d")).with_attrs(attrs)).await;
    assert_eq!((outcome.ino, outcome.created), (before.ino, false));
    // Its attributes are not those of the operation, either.
    assert_eq!(stat(fs, "/d").await, before);
    let outcome = apply(fs, mkdir_all("/")).await.1;
    assert_eq!((outcome.ino, outcome.created), (Ino::ROOT, false));
}

async fn parents_are_created_only_on_request(subject: &Subject) {
    let fs = &*subject.fs;
    for op in [
        mkdir("/a/b"),
        write("/a/b", "x"),
        append("/a/b", "x"),
        symlink("/a/b", "t"),
        mknod("/a/b", Special::Fifo),
    ] {
        refused(fs, op, NotFound, "/a/b").await;
    }
    let (_, outcome) = apply(fs, mkdir_all("/a/b/c")).await;
    assert!(outcome.created);
    if can(fs).nodes {
        let found = [stat(fs, "/a").await.ino, stat(fs, "/a/b").await.ino, outcome.ino];
        assert_eq!(found, [2, 3, 4].map(|n| subject.ino(n)));
    }
    let parent = stat(fs, "/a").await;
    assert_eq!((parent.mode, parent.uid, parent.gid, parent.nlink), (0o755, 0, 0, 3));
    let attrs = SetAttrs::new().mode(0o600);
    let op =
        Op::Write { at: at("/x/y/f"), body: "1".into(), create: Default::default(), parents: true, attrs };
    apply(fs, op).await;
    // The attributes of the operation are those of the file, and not of its new parents.
    assert_eq!((stat(fs, "/x/y").await.mode, stat(fs, "/x/y/f").await.mode), (0o755, 0o600));
    given(fs, [write("/f", "x")]).await;
    let op = Op::Rename { from: at("/f"), to: at("/m/n/f"), mode: Default::default(), parents: true };
    apply(fs, op).await;
    apply(fs, Op::link(at("/m/n/f"), at("/o/f")).with_parents()).await;
    assert_eq!(stat(fs, "/o/f").await.nlink, 2);
    // The error is about the file, not about the missing names below it.
    refused(fs, mkdir_all("/o/f/g/h"), NotADirectory, "/o/f").await;
}

async fn creating_a_name_updates_directory_times(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/d")]).await;
    subject.clock.advance(std::time::Duration::from_secs(5));
    for op in [
        write("/d/f", "x"),
        mkdir("/d/e"),
        symlink("/d/l", "t"),
        link("/d/f", "/d/g"),
        remove("/d/g", Remove::File),
    ] {
        let (commit, _) = apply(fs, op).await;
        let dir = stat(fs, "/d").await;
        assert_eq!((dir.mtime, dir.ctime), (commit.time, commit.time));
        assert_eq!((dir.version.seq, dir.etag.seq), (commit.seq, commit.seq));
    }
    let before = stat(fs, "/d").await;
    given(fs, [write("/d/f", "y"), set("/d/f", SetAttrs::new().mode(0o600))]).await;
    assert_eq!(stat(fs, "/d").await, before, "a change of a file is none of its directory");
}

async fn symlink_stores_any_text(subject: &Subject) {
    let fs = &*subject.fs;
    let long = "t".repeat(subject.longest_target);
    for (path, target) in [("/1", "/"), ("/2", "../../x"), ("/3", "a//b/./"), ("/4", &long), ("/5", "é %_*")]
    {
        let (_, outcome) = apply(fs, symlink(path, target)).await;
        let entry = stat(fs, path).await;
        assert_eq!((entry.ino, entry.kind, entry.mode, entry.nlink), (outcome.ino, Kind::Symlink, 0o777, 1));
        assert_eq!((entry.target.as_deref(), entry.size), (Some(target), target.len() as u64));
    }
    refused_outright(fs, symlink("/x", ""), InvalidArgument).await;
    refused_outright(fs, symlink("/x", "a\0"), InvalidArgument).await;
    refused_outright(fs, symlink("/x", &"t".repeat(MAX_TARGET + 1)), NameTooLong).await;
    refused(fs, symlink("/1", "y"), AlreadyExists, "/1").await;
    refused(fs, symlink("/", "y"), AlreadyExists, "/").await;
}

async fn special_nodes_store_kind_and_device(subject: &Subject) {
    let fs = &*subject.fs;
    let cases = [
        ("/fifo", Special::Fifo, Kind::Fifo, 0),
        ("/socket", Special::Socket, Kind::Socket, 0),
        ("/char", Special::CharDevice(u64::from(u32::MAX)), Kind::CharDevice, u64::from(u32::MAX)),
        ("/block", Special::BlockDevice(0x801), Kind::BlockDevice, 0x801),
        ("/gone", Special::Whiteout, Kind::Whiteout, 0),
    ];
    for (path, node, kind, rdev) in cases {
        apply(fs, mknod(path, node)).await;
        let entry = stat(fs, path).await;
        assert_eq!((entry.kind, entry.rdev, entry.mode, entry.size, entry.nlink), (kind, rdev, 0o644, 0, 1));
        refused(fs, mknod(path, node), AlreadyExists, path).await;
        refused(fs, write(path, "x"), NotPermitted, path).await;
        refused(fs, append(path, "x"), NotPermitted, path).await;
        refused(fs, patch(path, 0, "x"), NotPermitted, path).await;
        refused(fs, truncate(path, 0), NotPermitted, path).await;
        assert_error(fs.read(&at(path), garth_engine::model::ByteRange::ALL).await, NotPermitted, Some(path));
        assert_error(fs.open(&at(path)).await, NotPermitted, Some(path));
    }
}

async fn hard_link_is_another_name_of_node(subject: &Subject) {
    let fs = &*subject.fs;
    let version = put(fs, "/f", "x").await;
    subject.clock.advance(std::time::Duration::from_secs(1));
    let (commit, outcome) = apply(fs, link("/f", "/g")).await;
    assert_eq!((outcome.ino, outcome.created), (version.ino, false));
    let (f, g) = (stat(fs, "/f").await, stat(fs, "/g").await);
    assert_eq!(f, g);
    assert_eq!((f.nlink, f.version), (2, commit.version(0)));
    assert!(!can(fs).log || (f.ctime, f.etag) == (commit.time, version));
    given(fs, [append("/g", "y")]).await;
    assert_eq!(text(fs, "/f").await, "xy");
    given(fs, [remove("/f", Remove::File)]).await;
    assert_eq!((stat(fs, "/g").await.nlink, text(fs, "/g").await.as_str()), (1, "xy"));
    given(fs, [symlink("/l", "t"), link("/l", "/l2"), mknod("/p", Special::Fifo), link("/p", "/p2")]).await;
    assert_eq!(stat(fs, "/l2").await.nlink, 2);
}

async fn link_checks_node_before_name(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/d"), write("/f", "x"), write("/g", "y")]).await;
    refused(fs, link("/no", "/f"), NotFound, "/no").await;
    refused(fs, link("/d", "/f"), NotPermitted, "/d").await;
    refused(fs, link("/", "/f"), NotPermitted, "/").await;
    refused(fs, link("/f", "/g"), AlreadyExists, "/g").await;
    refused(fs, link("/f", "/f"), AlreadyExists, "/f").await;
    refused(fs, link("/f", "/d"), AlreadyExists, "/d").await;
    refused(fs, link("/f", "/"), AlreadyExists, "/").await;
    refused(fs, link("/f", "/no/g"), NotFound, "/no/g").await;
    refused(fs, link("/f", "/g/h"), NotADirectory, "/g").await;
    let ino = stat(fs, "/f").await.ino;
    refused_outright(fs, Op::link(at("/f"), At::Node(ino)), InvalidArgument).await;
    apply(fs, Op::link(At::Node(ino), at("/h"))).await;
    assert_eq!(stat(fs, "/h").await.ino, ino);
}

async fn node_has_at_most_65000_names(subject: &Subject) {
    let fs = &*subject.fs;
    // 65,000 links take too long there.
    if subject.slow {
        return;
    }
    given(fs, [mkdir("/d"), write("/f", "x")]).await;
    let links = (1..MAX_LINKS).map(|number| link("/f", &format!("/d/{number}")));
    fs.commit(Batch::new(links)).await.unwrap();
    assert_eq!(stat(fs, "/f").await.nlink, MAX_LINKS);
    refused(fs, link("/f", "/f"), AlreadyExists, "/f").await;
    refused(fs, link("/f", "/one-more"), TooManyLinks, "/f").await;
    given(fs, [remove("/d/1", Remove::File), link("/f", "/one-more")]).await;
}

async fn rejects_creation_by_inode(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/d"), write("/f", "x")]).await;
    for ino in [stat(fs, "/d").await.ino, stat(fs, "/f").await.ino, Ino::ROOT, subject.ino(1000)] {
        let (at_node, attrs) = (At::Node(ino), SetAttrs::default());
        let ops = [
            Op::mkdir_all(at_node.clone()).with_attrs(attrs.clone()),
            Op::symlink(at_node.clone(), "t").with_attrs(attrs.clone()),
            Op::mknod(at_node.clone(), Special::Fifo).with_attrs(attrs),
            Op::remove_tree(at_node.clone()).if_exists(),
            Op::Rename { from: at_node.clone(), to: at("/z"), mode: Default::default(), parents: false },
            Op::Rename { from: at("/f"), to: at_node.clone(), mode: Default::default(), parents: false },
            Op::copy(at("/f"), at_node.clone()).replace(),
            Op::link(at("/f"), at_node),
        ];
        for op in ops {
            refused_outright(fs, op, InvalidArgument).await;
        }
    }
}

async fn inodes_are_never_reused(subject: &Subject) {
    let fs = &*subject.fs;
    let mut seen = std::collections::BTreeSet::from([Ino::ROOT]);
    for _ in 0..5 {
        for path in ["/a", "/b"] {
            assert!(seen.insert(put(fs, path, "x").await.ino), "a number came back");
            given(fs, [remove(path, Remove::File)]).await;
        }
        let _ = fs.commit(Batch::new([mkdir("/d"), mkdir("/no/no")])).await.unwrap_err();
    }
    assert_eq!(seen.last(), Some(&subject.ino(11)), "numbers are dense: a failed batch takes none");
}
