//! Symbolic links and `..`, resolved above the engine: they never lead out of the tree.
#![allow(clippy::unwrap_used, reason = "a check panics where a promise does not hold")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use garth_engine::ErrorKind::{
    InvalidArgument, NameTooLong, NotADirectory, NotFound, NotPermitted, SymlinkLoop,
};
use garth_engine::fs::resolve::{Follow, MAX_SYMLINKS, resolve, retry, stat as stat_path};
use garth_engine::model::{At, Batch, ByteRange, Confinement, Kind, Owner, Remove, RenameMode, Within};
use garth_engine::view::Scope;

use super::suite::checks;
use crate::fs::interfering::{Call, Interfering};
use crate::subject::Subject;
use crate::tools::*;

checks! {
    paths_are_normalised_and_links_followed
    rejects_invalid_paths
    follows_at_most_40_links
    paths_never_lead_above_root
    rest_of_path_after_link_stays_in_view [confinement]
    swapped_link_is_resolved_again
    swapped_final_link_is_followed
    unfollowed_final_link_causes_no_retry
    stat_never_returns_a_followed_link
    endlessly_changing_link_fails
    swapped_last_segment_leads_nowhere_outside [confinement]
}

async fn to(fs: &Fs, path: &str) -> String {
    resolve(fs, path, Follow::Yes).await.unwrap_or_else(|error| panic!("{path}: {error}")).to_string()
}

async fn paths_are_normalised_and_links_followed(subject: &Subject) {
    let fs = &*subject.fs;
    given(
        fs,
        [mkdir_all("/a/b"), write("/a/b/f", "x"), symlink("/abs", "/a/b"), symlink("/a/rel", "b/../b/f")],
    )
    .await;
    given(fs, [symlink("/a/up", "../a/b"), symlink("/dangling", "nowhere/x"), symlink("/chain", "abs/f")])
        .await;
    for (path, target) in [
        ("/", "/"),
        ("//a///b/", "/a/b"),
        ("/a/./b/.", "/a/b"),
        ("/a/b/../b/f", "/a/b/f"),
        ("/abs/f", "/a/b/f"),
        // `..` after a link is the parent of its target, as in POSIX.
        ("/abs/..", "/a"),
        ("/a/rel", "/a/b/f"),
        ("/a/up/f", "/a/b/f"),
        ("/chain", "/a/b/f"),
        ("/new", "/new"),
        ("/abs/new", "/a/b/new"),
        ("/dangling", "/nowhere/x"),
    ] {
        assert_eq!(to(fs, path).await, target, "{path}");
    }
    assert_eq!(resolve(fs, "/abs", Follow::No).await.unwrap(), p("/abs"));
    assert_eq!(
        resolve(fs, "/abs/", Follow::No).await.unwrap(),
        p("/a/b"),
        "a trailing slash asks for the directory"
    );
    assert_eq!(resolve(fs, "/a/up/f", Follow::No).await.unwrap(), p("/a/b/f"));
}

async fn rejects_invalid_paths(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/d"), write("/f", "x")]).await;
    for (path, kind) in [
        ("", InvalidArgument),
        ("d", InvalidArgument),
        ("./d", InvalidArgument),
        ("/a\0b", InvalidArgument),
        ("/f/x", NotADirectory),
        ("/f/", NotADirectory),
        ("/f/..", NotADirectory),
        ("/no/../d", NotFound),
    ] {
        let error = resolve(fs, path, Follow::Yes).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{path:?}");
    }
    let long = format!("/{}", "n".repeat(256));
    assert_eq!(resolve(fs, &long, Follow::Yes).await.unwrap_err().kind(), NameTooLong);
    let long = "/d".repeat(2049);
    assert_eq!(resolve(fs, &long, Follow::Yes).await.unwrap_err().kind(), NameTooLong);
}

async fn follows_at_most_40_links(subject: &Subject) {
    let fs = &*subject.fs;
    put(fs, "/l0", "end").await;
    let ops =
        (1..=MAX_SYMLINKS + 1).map(|number| symlink(&format!("/l{number}"), &format!("l{}", number - 1)));
    fs.commit(Batch::new(ops)).await.unwrap();
    // `/lN` takes N links to reach `/l0`.
    assert_eq!(to(fs, &format!("/l{MAX_SYMLINKS}")).await, "/l0");
    let error = resolve(fs, &format!("/l{}", MAX_SYMLINKS + 1), Follow::Yes).await.unwrap_err();
    assert_eq!(error.kind(), SymlinkLoop);
    given(
        fs,
        [
            symlink("/self", "self"),
            symlink("/a", "/b"),
            symlink("/b", "a"),
            mkdir("/d"),
            symlink("/d/x", "x/x/x"),
        ],
    )
    .await;
    for path in ["/self", "/a", "/b/x", "/d/x"] {
        assert_eq!(resolve(fs, path, Follow::Yes).await.unwrap_err().kind(), SymlinkLoop, "{path}");
    }
    assert_eq!(resolve(fs, "/self", Follow::No).await.unwrap(), p("/self"));
}

async fn paths_never_lead_above_root(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir_all("/etc"), write("/etc/passwd", "canary of the tree"), mkdir_all("/a/b")]).await;
    let up = "../".repeat(50);
    given(fs, [symlink("/a/b/up", &format!("{up}etc/passwd")), symlink("/a/b/abs", "/etc/passwd")]).await;
    given(fs, [symlink("/a/b/root", "/"), symlink("/a/b/dots", "../../../../..")]).await;
    for path in [
        format!("/{up}etc/passwd"),
        format!("/a/{up}etc/passwd"),
        "/a/b/up".to_owned(),
        "/a/b/abs".to_owned(),
        "/a/b/root/etc/passwd".to_owned(),
        "/a/b/root/../../etc/passwd".to_owned(),
        "/a/b/dots/etc/passwd".to_owned(),
    ] {
        assert_eq!(to(fs, &path).await, "/etc/passwd", "{path}");
        assert_eq!(text(fs, &to(fs, &path).await).await, "canary of the tree");
    }
    for path in ["/proc/self/environ", "/../../../../proc/version", "/a/b/root/proc/version"] {
        let resolved = to(fs, path).await;
        // The path must mean the tree, even if the test runs on a host with `/proc`.
        assert!(!exists(fs, &resolved).await, "{path} is not of the host");
    }
}

async fn rest_of_path_after_link_stays_in_view(subject: &Subject) {
    let whole = &*subject.fs;
    given(whole, [mkdir_all("/in/a/b"), write("/in/f", "inside"), mkdir("/out"), write("/out/f", "canary")])
        .await;
    given(whole, [symlink("/in/top", "/"), symlink("/in/up", "../.."), symlink("/in/deep", "a/b")]).await;
    let scope = Scope::open(whole, &p("/in")).await.unwrap();
    let to = Confinement::new(Within::new([p("/in")]), Owner::new("part").unwrap());
    let part = whole.confined(&to).await.unwrap();
    for (fs, top) in [(&*scope, ""), (&*part, "/in")] {
        for path in
            ["/top/out/f", "/top/../out/f", "/up/../out/f", "/deep/../../../out/f", "/top/in/../../out/f"]
        {
            let found = stat_path(fs, &format!("{top}{path}"), Follow::Yes).await;
            assert!(found.as_ref().is_err_and(|error| error.is(NotFound)), "{top}{path}: {found:?}");
        }
        // Inside, `..` after a link is the parent of its target, as in POSIX.
        let (found, _) = stat_path(fs, &format!("{top}/deep/../b/../../f"), Follow::Yes).await.unwrap();
        assert_eq!(found, p(&format!("{top}/f")));
    }
}

async fn swapped_link_is_resolved_again(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/real"), write("/real/f", "right"), mkdir("/d"), write("/d/f", "old")]).await;
    let tries = AtomicUsize::new(0);
    let tries = &tries;
    let read = retry(fs, "/d/f", Follow::Yes, |path| async move {
        if tries.fetch_add(1, Ordering::SeqCst) == 0 {
            // Another client turns the directory into a link after the path was resolved.
            given(fs, [remove("/d", Remove::Tree), symlink("/d", "/real")]).await;
        }
        fs.read(&At::Path(path), ByteRange::ALL).await
    });
    assert_eq!(read.await.unwrap(), "right");
    assert_eq!(tries.load(Ordering::SeqCst), 2);
    // Without a link in the path, the error is returned at once.
    let honest = retry(fs, "/real/f", Follow::Yes, |path| async move {
        fs.stat(&At::Path(path.join(&name("below"))?)).await
    });
    assert_error(honest.await, NotADirectory, Some("/real/f"));
}

/// Replaces `/f` by a link to `/real`, as another client does after the path was resolved.
async fn swap_in_link(fs: &Fs) {
    given(fs, [remove("/f", Remove::Any), symlink("/f", "/real")]).await;
}

async fn swapped_final_link_is_followed(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [write("/real", "right"), write("/f", "old")]).await;
    let tries = AtomicUsize::new(0);
    let tries = &tries;
    let read = retry(fs, "/f", Follow::Yes, |path| async move {
        if tries.fetch_add(1, Ordering::SeqCst) == 0 {
            swap_in_link(fs).await;
        }
        fs.read(&At::Path(path), ByteRange::ALL).await
    });
    assert_eq!(read.await.unwrap(), "right");
    given(fs, [remove("/f", Remove::Any), write("/f", "old")]).await;
    let tries = AtomicUsize::new(0);
    let tries = &tries;
    let written = retry(fs, "/f", Follow::Yes, |path| async move {
        if tries.fetch_add(1, Ordering::SeqCst) == 0 {
            swap_in_link(fs).await;
        }
        fs.commit(Batch::new([write_at(At::Path(path), "new")])).await
    });
    written.await.unwrap();
    assert_eq!(
        text(fs, "/real").await,
        "new",
        "what the link names was written, as if it had always been there"
    );
    assert_eq!(tries.load(Ordering::SeqCst), 2);
}

async fn unfollowed_final_link_causes_no_retry(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [write("/real", "right"), write("/f", "old")]).await;
    let tries = AtomicUsize::new(0);
    let tries = &tries;
    let read = retry(fs, "/f", Follow::No, |path| async move {
        if tries.fetch_add(1, Ordering::SeqCst) == 0 {
            swap_in_link(fs).await;
        }
        fs.read(&At::Path(path), ByteRange::ALL).await
    });
    assert_error(read.await, NotPermitted, Some("/f"));
    assert_eq!(tries.load(Ordering::SeqCst), 1);
}

async fn stat_never_returns_a_followed_link(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [write("/real", "right"), write("/f", "old")]).await;
    let (path, entry) = stat_path(fs, "/f", Follow::Yes).await.unwrap();
    assert_eq!((path, entry.kind), (p("/f"), Kind::File));
    // The first lookup resolves, the second returns the entry.
    let swap = vec![remove("/f", Remove::Any), symlink("/f", "/real")];
    let swapping = Interfering::new(&subject.fs, Call::Stat, 1, swap);
    let (path, entry) = stat_path(&swapping, "/f", Follow::Yes).await.unwrap();
    assert_eq!((path, entry.kind, entry.size), (p("/real"), Kind::File, 5));
    let (path, entry) = stat_path(fs, "/f", Follow::No).await.unwrap();
    assert_eq!((path, entry.kind), (p("/f"), Kind::Symlink));
}

async fn endlessly_changing_link_fails(subject: &Subject) {
    let fs = &*subject.fs;
    given(
        fs,
        [mkdir("/real"), write("/real/f", "x"), mkdir("/d"), write("/d/f", "y"), symlink("/d2", "/real")],
    )
    .await;
    let swap = || rename_as("/d", "/d2", RenameMode::Exchange);
    let answer = retry(fs, "/d/f", Follow::Yes, |path| async move {
        // Any resolved path is a link again by the time it is used.
        if stat(fs, "/d").await.kind == garth_engine::model::Kind::Directory {
            given(fs, [swap()]).await;
        }
        let result = fs.stat(&At::Path(p("/d/f"))).await;
        given(fs, [swap()]).await;
        given(fs, [swap()]).await;
        let _ = path;
        result
    });
    assert_error(answer.await, NotADirectory, Some("/d"));
}

/// Counts the result of a read or commit while the last segment is a link from time to time.
fn counted<T>(answer: garth_engine::Result<T>, counts: &mut [u32; 2]) -> Option<T> {
    counts[usize::from(answer.is_err())] += 1;
    if let Err(error) = &answer {
        let due = [NotPermitted, NotFound, NotADirectory, garth_engine::ErrorKind::WouldBlock];
        assert!(due.contains(&error.kind()), "{error}");
    }
    answer.ok()
}

async fn swapped_last_segment_leads_nowhere_outside(subject: &Subject) {
    let whole = &*subject.fs;
    given(whole, [mkdir("/in"), write("/in/f", "inside"), mkdir("/out"), write("/out/f", "canary")]).await;
    given(whole, [symlink("/in/l", "../out/f"), symlink("/in/m", "/out/f")]).await;
    let scope = Scope::open(whole, &p("/in")).await.unwrap();
    let (fs, stop) = (&*scope, Arc::new(AtomicBool::new(false)));
    let swapper = {
        let (whole, stop) = (Arc::clone(&subject.fs), Arc::clone(&stop));
        std::thread::spawn(move || {
            while !stop.load(Ordering::SeqCst) {
                for link in ["/in/l", "/in/m"] {
                    for _ in 0..2 {
                        // A view may give up if others are faster each time.
                        let swap = Batch::new([rename_as("/in/f", link, RenameMode::Exchange)]).visible();
                        let _ = futures::executor::block_on(whole.commit(swap));
                    }
                }
            }
        })
    };
    let (mut reads, mut writes) = ([0; 2], [0; 2]);
    for round in 0..3000 {
        // Enough of each outcome: the swaps have met reads and writes in both states.
        if reads.iter().chain(&writes).all(|count| *count > 50) {
            break;
        }
        let read = counted(fs.read(&at("/f"), ByteRange::ALL).await, &mut reads);
        assert!(read.is_none_or(|bytes| !bytes.starts_with(b"canary")), "round {round}");
        if let Some(file) = counted(fs.open(&at("/f")).await, &mut reads) {
            assert!(!file.read_at(0, 10).await.unwrap().starts_with(b"canary"), "round {round}");
        }
        let followed =
            retry(
                fs,
                "/f",
                Follow::Yes,
                |path| async move { fs.read(&At::Path(path), ByteRange::ALL).await },
            );
        assert!(counted(followed.await, &mut reads).is_none_or(|bytes| !bytes.starts_with(b"canary")));
        for op in [write("/f", "inside"), append("/f", "more"), patch("/f", 0, "IN"), truncate("/f", 3)] {
            counted(fs.commit(Batch::new([op]).visible()).await, &mut writes);
        }
        let written = retry(fs, "/f", Follow::Yes, |path| async move {
            fs.commit(Batch::new([write_at(At::Path(path), "inside")]).visible()).await
        });
        counted(written.await, &mut writes);
    }
    stop.store(true, Ordering::SeqCst);
    swapper.join().unwrap();
    assert!(reads.iter().chain(&writes).all(|count| *count > 0), "never met: {reads:?} {writes:?}");
    assert_eq!(text(whole, "/out/f").await, "canary");
    assert_eq!(names_in(whole, "/out").await, ["f"]);
}
