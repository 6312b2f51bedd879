//! Unusual entries in host folders: fifos and sockets block nothing, names outside UTF-8 break nothing, and
//! neither do files that are swapped for a link or a fifo while in use.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use garth_engine::engine::host::{HostFs, Mode};
use garth_engine::model::{
    Batch, ByteRange, Confinement, NamesPage, Op, Owner, Page, Precondition, Remove, RenameMode, SearchQuery,
    WalkPage, Within,
};
use garth_engine::{Env, ErrorKind, FileSystem};
use garth_testkit::tools::*;
use rustix::fs::{CWD, FileType, RenameFlags, mknodat, renameat_with};
use tempfile::TempDir;

fn open() -> (TempDir, Arc<HostFs>) {
    let folder = tempfile::tempdir().unwrap();
    let host = HostFs::open(folder.path(), Mode::Writable, Env::system()).unwrap();
    (folder, host)
}

fn fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o644), 0).unwrap();
}

/// Runs the work and fails if it does not end in time.
async fn in_time<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), work).await.expect("something blocks")
}

/// Swaps two paths until the flag is set. Returns the number of swaps.
fn swapping(one: &Path, other: &Path, stop: &Arc<AtomicBool>) -> std::thread::JoinHandle<u32> {
    let (one, other, stop) = (one.to_owned(), other.to_owned(), Arc::clone(stop));
    std::thread::spawn(move || {
        let mut swaps = 0;
        // An even number of swaps, so that the paths end as they began.
        while !stop.load(Ordering::Relaxed) || swaps % 2 == 1 {
            swaps += u32::from(renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).is_ok());
        }
        swaps
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn fifo_blocks_no_read_or_commit() {
    let (folder, host) = open();
    fs::create_dir_all(folder.path().join("d/sub")).unwrap();
    fs::write(folder.path().join("d/f"), "text").unwrap();
    for place in ["d/fifo", "d/sub/fifo", "fifo"] {
        fifo(&folder.path().join(place));
    }
    // A second name, so that a search for names meets the fifo as well.
    fs::hard_link(folder.path().join("fifo"), folder.path().join("d/again")).unwrap();
    let _socket = UnixListener::bind(folder.path().join("d/socket")).unwrap();
    let fs = &*host;
    in_time(async {
        let walk = fs.walk(&at("/"), &WalkPage::default().with_entries()).await.unwrap();
        assert_eq!(walk.items.len(), 8);
        assert_eq!(names_in(fs, "/d").await, ["again", "f", "fifo", "socket", "sub"]);
        let names = fs.names(&at("/fifo"), &NamesPage::default()).await.unwrap();
        assert_eq!(names.items, [p("/fifo"), p("/d/again")]);
        let many = [(at("/fifo"), ByteRange::ALL), (at("/d/f"), ByteRange::ALL)];
        let fetched = fs.fetch_many(&many).await.unwrap().items;
        assert!(fetched[0].as_ref().is_err_and(|error| error.is(ErrorKind::NotPermitted)));
        assert_eq!(fetched[1].as_ref().unwrap().1, "text");
        assert_eq!(fs.search(&SearchQuery::new("text")).await.unwrap_err().kind(), ErrorKind::Unsupported);
        let hash = Op::check(at("/fifo"), Precondition::Sha256([1; 32]).negated());
        given(fs, [hash, copy("/d", "/c"), copy("/fifo", "/c/copy"), rename("/c", "/e")]).await;
        refused(fs, write("/d/fifo", "x"), ErrorKind::NotPermitted, "/d/fifo").await;
        let onto = Op::copy(at("/d/f"), at("/fifo")).replace();
        refused(fs, onto, ErrorKind::AlreadyExists, "/fifo").await;
        given(fs, [rename("/d/f", "/fifo"), remove("/d", Remove::Tree), remove("/e", Remove::Tree)]).await;
        fs.commit(Batch::new([append("/fifo", "!")])).await.unwrap();
        assert_eq!(text(fs, "/fifo").await, "text!");
        fs.sync().await.unwrap();
    })
    .await;
    assert_eq!(fs::read_dir(folder.path().join(".garth-tmp")).unwrap().count(), 1, "only the lock is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn file_swapped_for_fifo_blocks_nothing() {
    let (folder, host) = open();
    let (file, other) = (folder.path().join("f"), folder.path().join("fifo"));
    fs::write(&file, "text").unwrap();
    fifo(&other);
    let stop = Arc::new(AtomicBool::new(false));
    let swapper = swapping(&file, &other, &stop);
    let mut met = [0_u32; 2];
    in_time(async {
        for _ in 0..500 {
            let answers = [
                host.read(&at("/f"), ByteRange::ALL).await.map(drop),
                host.open(&at("/f")).await.map(drop),
                host.commit(Batch::new([patch("/f", 0, "TEXT")]).visible()).await.map(drop),
                host.commit(Batch::new([append("/f", "x"), truncate("/f", 4)]).visible()).await.map(drop),
            ];
            for answer in answers {
                met[usize::from(answer.is_err())] += 1;
                if let Err(error) = answer {
                    assert!(error.is(ErrorKind::NotPermitted) || error.is(ErrorKind::NotFound), "{error}");
                }
            }
        }
    })
    .await;
    stop.store(true, Ordering::Relaxed);
    // Both outcomes must have occurred, or the swaps proved nothing.
    assert!(swapper.join().unwrap() > 0 && met.iter().all(|count| *count > 0), "{met:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn file_swapped_for_link_is_never_followed() {
    let (folder, host) = open();
    let outside = tempfile::tempdir().unwrap();
    let (file, link, secret) = (folder.path().join("f"), folder.path().join("l"), outside.path().join("f"));
    fs::write(&secret, "canary").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o644)).unwrap();
    let (fs, mut met, mut swaps) = (&*host, [0_u32; 2], 0);
    // A write may replace the link instead of the file, so both are created again until enough calls have met
    // the link.
    for round in 0..2000 {
        if round >= 100 && met.iter().all(|count| *count > 100) {
            break;
        }
        let _ = (fs::remove_file(&file), fs::remove_file(&link));
        fs::write(&file, "inside").unwrap();
        symlink(&secret, &link).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let swapper = swapping(&file, &link, &stop);
        for _ in 0..10 {
            let read = fs.read(&at("/f"), ByteRange::ALL).await;
            met[usize::from(read.is_err())] += 1;
            assert!(read.is_err() || read.is_ok_and(|bytes| !bytes.starts_with(b"canary")), "round {round}");
            let ops = [
                write("/f", "inside"),
                append("/f", "more"),
                patch("/f", 0, "IN"),
                truncate("/f", 4),
                set("/f", garth_engine::model::SetAttrs::new().mode(0o600)),
                copy("/f", "/c"),
                Op::copy(at("/c"), at("/f")).replace(),
                Op::link(at("/f"), at("/h")),
                write("/h", "inside"),
                Op::remove_tree(at("/h")).if_exists(),
                Op::remove_tree(at("/c")).if_exists(),
            ];
            for op in ops {
                let answer = fs.commit(Batch::new([op]).visible()).await;
                met[usize::from(answer.is_err())] += 1;
            }
        }
        stop.store(true, Ordering::Relaxed);
        swaps += swapper.join().unwrap();
    }
    assert!(swaps > 0 && met.iter().all(|count| *count > 100), "{met:?}");
    let mode = fs::metadata(&secret).unwrap().permissions().mode();
    assert_eq!((fs::read_to_string(&secret).unwrap().as_str(), mode & 0o777), ("canary", 0o644));
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn names_outside_utf8_break_no_operation() {
    let (folder, host) = open();
    let odd = |name: &[u8]| OsStr::from_bytes(name).to_owned();
    let dir = folder.path().join("d");
    fs::create_dir(&dir).unwrap();
    for name in [&b"\x80"[..], b"b\xff", b"\xf0\x28\x8c\xbc", b"z\xc3"] {
        fs::create_dir_all(dir.join(odd(name)).join(odd(b"\xfe")).join("deep")).unwrap();
        fs::write(dir.join(odd(name)).join(odd(b"\xfe\xfe")), "x").unwrap();
    }
    for name in ["a", "b", "y"] {
        fs::write(dir.join(name), "text").unwrap();
    }
    fs::hard_link(dir.join("a"), dir.join(odd(b"\xffa"))).unwrap();
    let fs = &*host;
    let (mut page, mut found) = (Page::default().limit(1), Vec::new());
    loop {
        let listing = fs.list(&at("/d"), &page).await.unwrap();
        found.extend(listing.items.iter().map(|item| item.name.to_string()));
        page = page.after(listing.items.last().map(|item| item.name.clone()));
        if !listing.more {
            break;
        }
    }
    assert_eq!(found, ["a", "b", "y"]);
    assert_eq!(paths_below(fs, "/").await, ["/d", "/d/a", "/d/b", "/d/y"]);
    assert_eq!(fs.names(&at("/d/a"), &NamesPage::default()).await.unwrap().items, [p("/d/a")]);
    given(fs, [append("/d/a", "!"), mkdir("/e"), rename_as("/d", "/e", RenameMode::Exchange)]).await;
    assert_eq!(fs::read_to_string(folder.path().join("e").join(odd(b"\xffa"))).unwrap(), "text!");
    given(fs, [copy("/e", "/copy"), rename("/e", "/d/deeper"), remove("/d/deeper/b", Remove::File)]).await;
    assert_eq!(names_in(fs, "/copy").await, ["a", "b", "y"]);
    refused(fs, remove("/d/deeper", Remove::Directory), ErrorKind::NotEmpty, "/d/deeper").await;
    given(fs, [remove("/d/deeper", Remove::Tree)]).await;
    assert!(names_in(fs, "/d").await.is_empty());
    // Leftovers of a crash with such names are removed, too.
    fs::create_dir_all(folder.path().join(".garth-tmp").join(odd(b"\xff")).join(odd(b"\xfe"))).unwrap();
    let again = HostFs::open(folder.path(), Mode::Writable, Env::system()).unwrap();
    assert_eq!(names_in(&*again, "/").await, ["copy", "d"]);
    assert_eq!(fs::read_dir(folder.path().join(".garth-tmp")).unwrap().count(), 1, "only the lock is left");
}

#[tokio::test]
async fn confined_folder_rejects_like_any_tree() {
    let (_folder, host) = open();
    given(&*host, [mkdir("/d"), write("/d/f", "x")]).await;
    let within = Within::everything().without([p("/d")]);
    let part = host.confined(&Confinement::new(within, Owner::new("part").unwrap())).await.unwrap();
    for path in ["/d", "/d/f", "/d/none"] {
        refused(&*part, write(path, "x").must_exist(), ErrorKind::NotFound, path).await;
        refused(&*part, append(path, "x").must_exist(), ErrorKind::NotFound, path).await;
        refused(&*part, write(path, "x"), ErrorKind::AccessDenied, path).await;
    }
    given(&*host, [mkdir("/e"), write("/g", "x")]).await;
    let within = Within::everything().without([p("/d/f")]);
    let part = host.confined(&Confinement::new(within, Owner::new("part").unwrap())).await.unwrap();
    let taken = rename_as("/e", "/d", RenameMode::NoReplace);
    refused(&*part, taken, ErrorKind::AlreadyExists, "/d").await;
    refused(&*part, rename("/e", "/d"), ErrorKind::Busy, "/d").await;
    refused(&*part, rename_as("/g", "/d", RenameMode::Exchange), ErrorKind::Busy, "/d").await;
    let within = Within::everything().without([p("/g/out")]).with([p("/g/out/in")]);
    let part = host.confined(&Confinement::new(within, Owner::new("part").unwrap())).await.unwrap();
    refused(&*part, mkdir_all("/g/out/in"), ErrorKind::NotFound, "/g/out/in").await;
    refused(&*part, mkdir_all("/g/in"), ErrorKind::NotADirectory, "/g").await;
}
