//! Renames: the promises of POSIX, and errors.
#![allow(clippy::unwrap_used, reason = "a check panics where a promise does not hold")]

use garth_engine::ErrorKind::{
    AlreadyExists, Busy, InvalidArgument, IsADirectory, NameTooLong, NotADirectory, NotEmpty, NotFound,
};
use garth_engine::model::RenameMode::{self, Exchange, NoReplace, Replace};
use garth_engine::model::{At, Batch, Entry, Kind, Op, Remove, WalkPage};

use super::suite::checks;
use crate::subject::Subject;
use crate::tools::*;

checks! {
    rename_keeps_inode_and_content
    renamed_directory_keeps_its_subtree
    rename_onto_a_file_replaces_it [links]
    rename_onto_an_empty_directory_replaces_it [nodes]
    rename_rejects_mismatched_kinds
    rename_rejects_directory_into_itself
    rename_rejects_target_above_source
    rename_to_same_node_does_nothing [links]
    no_replace_rejects_existing_target
    exchange_swaps_two_names_of_any_kind
    rename_accepts_directories_by_inode [nodes]
    rename_rejects_too_long_paths
    path_length_is_judged_within_batch [atomic]
}

const ALL: [RenameMode; 3] = [Replace, NoReplace, Exchange];

async fn rename_keeps_inode_and_content(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/d"), mkdir("/e"), write("/d/f", "x")]).await;
    let before = stat(fs, "/d/f").await;
    subject.clock.advance(std::time::Duration::from_secs(1));
    let (commit, outcome) = apply(fs, rename("/d/f", "/e/g")).await;
    assert_eq!((outcome.ino, outcome.created), (before.ino, false));
    let after = stat(fs, "/e/g").await;
    let mut expected = Entry { ctime: commit.time, version: commit.version(0), ..before };
    if !can(fs).log {
        // A host filesystem sets its own ctime, from which the etag derives.
        (expected.ctime, expected.etag) = (after.ctime, after.etag);
    }
    assert_eq!(after, expected);
    assert_eq!(text(fs, "/e/g").await, "x");
    assert!(!exists(fs, "/d/f").await);
    for dir in ["/d", "/e"] {
        let dir = stat(fs, dir).await;
        assert!(!can(fs).log || [dir.mtime, dir.ctime] == [commit.time; 2]);
    }
}

async fn renamed_directory_keeps_its_subtree(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir_all("/a/b/c"), write("/a/b/c/f", "x"), mkdir("/ab"), write("/ab/f", "y"), mkdir("/t")])
        .await;
    // Only the entry of the directory itself changes, whatever is below it.
    let (dir, file) = (stat(fs, "/a/b").await, stat(fs, "/a/b/c/f").await);
    given(fs, [rename("/a", "/t/new")]).await;
    assert_eq!(
        paths_below(fs, "/").await,
        ["/ab", "/t", "/ab/f", "/t/new", "/t/new/b", "/t/new/b/c", "/t/new/b/c/f"]
    );
    assert_eq!(stat(fs, "/t/new/b").await, dir, "what lies below did not change");
    assert_eq!(stat(fs, "/t/new/b/c/f").await, file);
    assert_eq!((stat(fs, "/").await.nlink, stat(fs, "/t").await.nlink), (4, 3));
}

async fn rename_onto_a_file_replaces_it(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [write("/f", "new"), write("/g", "old"), link("/g", "/kept"), symlink("/l", "t")]).await;
    let f = stat(fs, "/f").await.ino;
    let (commit, _) = apply(fs, rename("/f", "/g")).await;
    assert_eq!((stat(fs, "/g").await.ino, text(fs, "/g").await.as_str()), (f, "new"));
    // The replaced node lost a name, which is a change of the node.
    let kept = stat(fs, "/kept").await;
    assert_eq!(kept.nlink, 1);
    assert!(!can(fs).log || (kept.ctime, kept.version.seq) == (commit.time, commit.seq));
    assert_eq!(text(fs, "/kept").await, "old");
    given(fs, [rename("/l", "/g")]).await;
    assert_eq!(stat(fs, "/g").await.kind, Kind::Symlink);
    assert_eq!(names_in(fs, "/").await, ["g", "kept"]);
}

async fn rename_onto_an_empty_directory_replaces_it(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/d"), write("/d/f", "x"), mkdir("/e")]).await;
    let (d, e) = (stat(fs, "/d").await.ino, stat(fs, "/e").await.ino);
    given(fs, [rename("/d", "/e")]).await;
    assert_eq!((stat(fs, "/e").await.ino, text(fs, "/e/f").await.as_str()), (d, "x"));
    // The replaced directory has no name any more.
    assert_error(fs.stat(&At::Node(e)).await, NotFound, None);
    assert_eq!(stat(fs, "/").await.nlink, 3);
}

async fn rename_rejects_mismatched_kinds(subject: &Subject) {
    let fs = &*subject.fs;
    given(
        fs,
        [
            mkdir("/d"),
            write("/d/f", "x"),
            mkdir("/e"),
            mkdir("/full"),
            write("/full/x", ""),
            write("/f", "y"),
        ],
    )
    .await;
    refused(fs, rename("/d", "/f"), NotADirectory, "/f").await;
    refused(fs, rename("/f", "/e"), IsADirectory, "/e").await;
    refused(fs, rename("/f", "/full"), IsADirectory, "/full").await;
    refused(fs, rename("/d", "/full"), NotEmpty, "/full").await;
    refused(fs, rename("/e", "/full"), NotEmpty, "/full").await;
    refused(fs, rename("/no", "/f"), NotFound, "/no").await;
    // A missing source is found before the target is looked at.
    refused(fs, rename("/no", "/no/x"), NotFound, "/no").await;
    refused(fs, rename("/f", "/no/f"), NotFound, "/no/f").await;
    refused(fs, rename("/f", "/f/x"), NotADirectory, "/f").await;
    for path in ["/", "/d", "/f"] {
        for mode in ALL {
            refused(fs, rename_as("/", path, mode), Busy, "/").await;
            refused(fs, rename_as(path, "/", mode), Busy, "/").await;
        }
    }
    refused(fs, rename("/no", "/"), Busy, "/").await;
}

async fn rename_rejects_directory_into_itself(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir_all("/a/b/c"), write("/a/f", "x")]).await;
    for mode in ALL {
        // Whether the target exists or not, and whatever it is.
        for to in ["/a/x", "/a/b", "/a/b/c/d", "/a/no/x", "/a/f", "/a/f/x"] {
            refused(fs, rename_as("/a", to, mode), InvalidArgument, to).await;
        }
    }
    assert_eq!(paths_below(fs, "/").await, ["/a", "/a/b", "/a/f", "/a/b/c"]);
    // `/ab` begins with the text of `/a`.
    given(fs, [rename("/a", "/ab"), rename("/ab", "/a")]).await;
    assert_eq!(paths_below(fs, "/a").await.len(), 3, "a name that begins alike is no inside");
}

async fn rename_rejects_target_above_source(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir_all("/a/b/c"), write("/a/b/f", "x")]).await;
    for from in ["/a/b", "/a/b/c", "/a/b/f"] {
        refused(fs, rename_as(from, "/a", Replace), NotEmpty, "/a").await;
        refused(fs, rename_as(from, "/a", NoReplace), NotEmpty, "/a").await;
        refused(fs, rename_as(from, "/a", Exchange), InvalidArgument, "/a").await;
    }
}

async fn rename_to_same_node_does_nothing(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [write("/x", "1"), link("/x", "/y"), mkdir("/d"), write("/d/f", "2")]).await;
    let before = (stat(fs, "/x").await, stat(fs, "/d").await, stat(fs, "/").await);
    for mode in [Replace, Exchange] {
        for (from, to) in [("/x", "/x"), ("/x", "/y"), ("/d", "/d"), ("/d/f", "/d/f")] {
            let ino = stat(fs, from).await.ino;
            let outcome = apply(fs, rename_as(from, to, mode)).await.1;
            assert_eq!((outcome.ino, outcome.created), (ino, false));
        }
    }
    refused(fs, rename_as("/x", "/x", NoReplace), AlreadyExists, "/x").await;
    assert_eq!((stat(fs, "/x").await, stat(fs, "/d").await, stat(fs, "/").await), before);
    assert_eq!(names_in(fs, "/").await, ["d", "x", "y"]);
    assert_eq!(text(fs, "/d/f").await, "2");
}

async fn no_replace_rejects_existing_target(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [write("/f", "x"), write("/g", "y"), mkdir("/d"), mkdir("/e")]).await;
    for (from, to) in [("/f", "/g"), ("/f", "/d"), ("/d", "/e"), ("/d", "/f")] {
        refused(fs, rename_as(from, to, NoReplace), AlreadyExists, to).await;
    }
    given(fs, [rename_as("/f", "/h", NoReplace)]).await;
    assert_eq!(names_in(fs, "/").await, ["d", "e", "g", "h"]);
}

async fn exchange_swaps_two_names_of_any_kind(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/d"), mkdir("/d/sub"), write("/d/sub/f", "x"), mkdir("/e"), write("/e/g", "y")]).await;
    let (sub, g) = (stat(fs, "/d/sub").await, stat(fs, "/e/g").await);
    subject.clock.advance(std::time::Duration::from_secs(1));
    let (commit, outcome) = apply(fs, rename_as("/d/sub", "/e/g", Exchange)).await;
    assert_eq!(outcome.ino, sub.ino);
    assert_eq!((stat(fs, "/e/g").await.ino, stat(fs, "/d/sub").await.ino), (sub.ino, g.ino));
    let times = [stat(fs, "/e/g").await.ctime, stat(fs, "/d/sub").await.ctime];
    assert!(!can(fs).log || times == [commit.time; 2]);
    assert_eq!((text(fs, "/e/g/f").await.as_str(), text(fs, "/d/sub").await.as_str()), ("x", "y"));
    assert_eq!((stat(fs, "/d").await.nlink, stat(fs, "/e").await.nlink), (2, 3));
    // Both names must exist.
    refused(fs, rename_as("/d/sub", "/no", Exchange), NotFound, "/no").await;
    given(fs, [rename_as("/d", "/e", Exchange)]).await;
    assert_eq!(paths_below(fs, "/").await, ["/d", "/e", "/d/g", "/d/g/f", "/e/sub"]);
}

async fn rename_accepts_directories_by_inode(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/d"), mkdir("/e"), write("/d/f", "x")]).await;
    let (d, e) = (stat(fs, "/d").await.ino, stat(fs, "/e").await.ino);
    // The inode leads to the directory, wherever it is now.
    given(fs, [rename("/d", "/moved")]).await;
    let (from, to) = (At::Child(d, name("f")), At::Child(e, name("g")));
    apply(fs, Op::Rename { from, to, mode: Replace, parents: false }).await;
    assert_eq!(text(fs, "/e/g").await, "x");
    given(fs, [remove("/moved", Remove::Directory)]).await;
    let op = Op::Rename { from: at("/e/g"), to: At::Child(d, name("f")), mode: Replace, parents: false };
    refused_outright(fs, op, NotFound).await;
}

/// Creates nested directories, `levels` levels of 256 bytes each. Returns the deepest path.
async fn chain(fs: &Fs, top: &str, levels: usize) -> String {
    let mut path = top.to_owned();
    apply(fs, mkdir(&path)).await;
    for _ in 0..levels {
        path = format!("{path}/{}", "n".repeat(255));
        apply(fs, mkdir(&path)).await;
    }
    path
}

async fn rename_rejects_too_long_paths(subject: &Subject) {
    let fs = &*subject.fs;
    let (long, short) = (chain(fs, "/d", 15).await, chain(fs, "/f", 3).await);
    chain(fs, "/e", 15).await;
    given(fs, [rename("/e", &format!("{long}/e"))]).await;
    // The deepest path would exceed the limit for stored paths.
    let too_long = Op::rename(p("/d"), p(&format!("{short}/d")));
    let error = fs.commit(too_long.into()).await.unwrap_err();
    assert_eq!((error.kind(), error.path()), (NameTooLong, None));
    let copied = Op::copy_tree(p("/d"), p(&format!("{short}/d")));
    assert_eq!(fs.commit(copied.into()).await.unwrap_err().kind(), NameTooLong);
    // A little shorter, and within the limit.
    given(fs, [rename("/d", "/f/d")]).await;
    let walk = fs.walk(&at("/f"), &WalkPage::default()).await.unwrap();
    assert_eq!((walk.items.len(), paths_below(fs, &short).await.len()), (35, 0));
    let longest = walk.items.iter().max_by_key(|item| item.path.as_str().len()).unwrap();
    assert_eq!(
        longest.path.as_str().len(),
        "/f/d/e".len() + 30 * 256,
        "longer than can be asked for as text"
    );
    assert_eq!(fs.stat(&At::Path(longest.path.clone())).await.unwrap().ino, longest.ino, "and found by it");
}

async fn path_length_is_judged_within_batch(subject: &Subject) {
    let fs = &*subject.fs;
    let (long, short) = (chain(fs, "/d", 15).await, chain(fs, "/f", 3).await);
    chain(fs, "/e", 15).await;
    given(fs, [rename("/e", &format!("{long}/e"))]).await;
    let walk = fs.walk(&at("/d"), &WalkPage::default()).await.unwrap();
    let mut deep: Vec<_> = walk.items.into_iter().map(|item| item.path).collect();
    deep.sort_by_key(|path| path.as_str().len());
    let [last, above] = [deep.pop().unwrap(), deep.pop().unwrap()];
    let refused = async |ops: Vec<Op>| {
        let error = fs.commit(Batch::new(ops)).await.unwrap_err();
        assert_eq!((error.kind(), error.path()), (NameTooLong, None));
    };
    let to = p(&format!("{short}/d"));
    let moved = || Op::rename(p("/d"), to.clone());
    // Too long because of existing paths, and of those that the batch has created or moved.
    refused(vec![moved()]).await;
    refused(vec![Op::remove_dir(last.clone()), moved()]).await;
    let again = [Op::remove_tree(above.clone()), Op::mkdir(above.clone()), Op::mkdir(last.clone())];
    refused(again.into_iter().chain([moved()]).collect()).await;
    let brought = [Op::rename(above.clone(), p("/x")), Op::rename(p("/x"), above.clone()), moved()];
    refused(brought.into()).await;
    refused(vec![Op::remove_dir(last.clone()), mkdir_all("/y"), Op::exchange(p("/d"), p("/y")), {
        Op::rename(p("/y"), to.clone())
    }])
    .await;
    // Paths that the batch has removed do not count.
    let kept = deep.pop().unwrap();
    for ops in [
        vec![Op::remove_dir(last.clone()), Op::remove_dir(above.clone())],
        vec![Op::remove_tree(above.clone())],
        vec![Op::rename(above.clone(), p("/out"))],
    ] {
        let back = [Op::rename(to.clone(), p("/d")), Op::mkdir(above.clone()), Op::mkdir(last.clone())];
        let away = Op::remove_tree(p("/out")).if_exists();
        fs.commit(Batch::new(ops.into_iter().chain([moved()]))).await.unwrap();
        let now = kept.rebase(&p("/d"), &to).unwrap().unwrap();
        assert_eq!(fs.stat(&At::Path(now.clone())).await.unwrap().nlink, 2);
        assert_eq!(paths_below(fs, &short).await.len(), 30);
        fs.commit(Batch::new(back.into_iter().chain([away]))).await.unwrap();
        assert_eq!(fs.stat(&At::Path(last.clone())).await.unwrap().nlink, 2);
    }
}
