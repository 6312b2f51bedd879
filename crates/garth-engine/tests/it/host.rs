//! Host folders: nothing outside is reached, nothing inside breaks a read, and errors report the completed
//! operations of a batch.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::TryStreamExt;
use garth_engine::engine::host::{HostFs, Mode};
use garth_engine::fs::resolve::{Follow, resolve};
use garth_engine::model::{
    Batch, Body, ByteRange, Kind, MAX_READ, Op, Page, Precondition, Remove, SetAttrs, Special, WalkPage,
};
use garth_engine::{Env, ErrorKind, FileSystem};
use garth_testkit::tools::*;
use rustix::fs::{CWD, RenameFlags, mknodat, renameat_with};
use tempfile::TempDir;

/// A folder, and another one outside of it.
struct Two {
    folder: TempDir,
    outside: TempDir,
}

impl Two {
    fn new() -> Self {
        let [folder, outside] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        fs::write(outside.path().join("f"), "canary").unwrap();
        fs::create_dir(outside.path().join("sub")).unwrap();
        fs::write(outside.path().join("sub/g"), "canary").unwrap();
        Self { folder, outside }
    }

    fn path(&self, path: &str) -> std::path::PathBuf {
        self.folder.path().join(path)
    }

    fn open(&self, mode: Mode) -> Arc<HostFs> {
        HostFs::open(self.folder.path(), mode, Env::system()).unwrap()
    }

    /// Asserts that the outside folder is unchanged.
    #[track_caller]
    fn assert_untouched(&self) {
        let all = state(self.outside.path());
        assert_eq!(all, ["f 100600 canary", "sub 40700 ", "sub/g 100600 canary"].map(masked), "outside");
    }
}

/// Returns a line of [`state`] without the bits that the umask decides.
fn masked(line: &str) -> String {
    let mut parts = line.splitn(3, ' ');
    let (name, mode, content) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
    let mode = u32::from_str_radix(mode, 8).unwrap() & !0o077;
    format!("{name} {mode:o} {content}")
}

/// Returns everything in a folder, with modes and contents.
fn state(folder: &Path) -> Vec<String> {
    let (mut found, mut todo) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let (path, meta) = entry.map(|entry| (entry.path(), entry.metadata().unwrap())).unwrap();
            let content = if meta.is_file() {
                String::from_utf8(fs::read(&path).unwrap()).unwrap()
            } else {
                String::new()
            };
            let name = path.strip_prefix(folder).unwrap().to_string_lossy().into_owned();
            found.push(masked(&format!("{name} {:o} {content}", meta.permissions().mode())));
            if meta.is_dir() {
                todo.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Counts the result of a read or commit while a directory is a link from time to time: `[ok, not a
/// directory]`.
#[track_caller]
fn tally<T>(answer: garth_engine::Result<T>, counts: &mut [u32; 2]) -> Option<T> {
    match answer {
        Ok(answer) => {
            counts[0] += 1;
            Some(answer)
        }
        Err(error) => {
            let kind = error.kind();
            // The link and the directory are exchanged in between, so a path may lead through either.
            let due = [ErrorKind::NotADirectory, ErrorKind::NotFound, ErrorKind::AlreadyExists];
            assert!(due.contains(&kind) || kind == ErrorKind::WouldBlock, "{kind:?}: {error}");
            counts[1] += u32::from(kind == ErrorKind::NotADirectory);
            None
        }
    }
}

#[tokio::test]
async fn swapped_links_reach_nothing_outside() {
    let two = Two::new();
    fs::create_dir_all(two.path("d/sub")).unwrap();
    fs::write(two.path("d/f"), "inside").unwrap();
    symlink(two.outside.path(), two.path("l")).unwrap();
    let host = two.open(Mode::Writable);
    let stop = Arc::new(AtomicBool::new(false));
    let swapper = {
        let (stop, [d, l]) = (Arc::clone(&stop), ["d", "l"].map(|name| two.path(name)));
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                renameat_with(CWD, &d, CWD, &l, RenameFlags::EXCHANGE).unwrap();
            }
        })
    };
    let fs = &*host;
    let (mut reads, mut writes) = ([0; 2], [0; 2]);
    // Until each of the four outcomes has been met often: otherwise the swaps may have missed every call.
    for round in 0.. {
        if reads.iter().chain(&writes).all(|count| *count > 300) {
            break;
        }
        assert!(round < 100_000, "a swap was never met: {reads:?} {writes:?}");
        let read = tally(fs.read(&at("/d/f"), ByteRange::ALL).await, &mut reads);
        // `canary` is the content outside: reading it would mean that the link was followed.
        assert!(read.is_none_or(|bytes| !bytes.starts_with(b"canary")));
        let listed = tally(fs.list(&at("/d"), &Page::default().with_entries()).await, &mut reads);
        assert!(listed.is_none_or(|page| page.items.iter().all(|item| item.name.as_str() != "g")));
        let walk = tally(fs.walk(&at("/"), &WalkPage::default()).await, &mut reads);
        let below = walk.into_iter().flat_map(|walk| walk.items);
        assert!(below.into_iter().all(|item| item.path.name() != Some("g")));
        // Resolution follows `/l` and may be overtaken by the swap before the read.
        if let Ok(path) = resolve(fs, "/l/f", Follow::Yes).await {
            tally(fs.read(&path.into(), ByteRange::ALL).await, &mut reads);
        }
        let ops = [
            write("/d/f", "inside"),
            append("/d/f", "more"),
            write("/d/new", "x"),
            patch("/d/f", 0, "INSIDE"),
            set("/d/f", SetAttrs::new().mode(0o644)),
            mkdir_all("/d/sub/deep/er"),
            Op::symlink(at("/d/s"), "../../../../.."),
            rename("/d/new", "/d/sub/new"),
            remove("/d/sub", Remove::Tree),
            Op::remove_tree(at("/d/s")).if_exists(),
            copy("/d", "/copy"),
            Op::remove_tree(at("/copy")).if_exists(),
        ];
        for op in ops {
            tally(fs.commit(Batch::new([op]).visible()).await, &mut writes);
        }
    }
    stop.store(true, Ordering::Relaxed);
    swapper.join().unwrap();
    two.assert_untouched();
}

#[tokio::test]
async fn links_never_lead_outside_the_folder() {
    let two = Two::new();
    let outside = two.outside.path().to_str().unwrap();
    let host = two.open(Mode::Writable);
    let fs = &*host;
    let up = "../".repeat(40);
    for (name, target) in [
        ("abs", outside.to_owned()),
        ("up", format!("{up}{outside}")),
        ("chain", "abs".to_owned()),
        ("proc", "/proc/self/root".to_owned()),
        ("fd", "/proc/self/fd/1".to_owned()),
        ("cwd", "/proc/self/cwd".to_owned()),
    ] {
        symlink(target, two.path(name)).unwrap();
        // The link followed by the complete path outside, or by the name in its target.
        let (below, way) = (format!("/{name}{outside}/f"), format!("/{name}"));
        for path in [below, format!("/{name}/f")] {
            assert_error(fs.read(&at(&path), ByteRange::ALL).await, ErrorKind::NotADirectory, Some(&way));
            refused(fs, write(&path, "x"), ErrorKind::NotADirectory, &way).await;
            // Links are resolved against the root of the folder, where their targets are missing.
            if let Ok(inside) = resolve(fs, &path, Follow::Yes).await {
                assert_error(
                    fs.stat(&inside.clone().into()).await,
                    ErrorKind::NotFound,
                    Some(inside.as_str()),
                );
            }
        }
        assert_error(fs.read(&at(&way), ByteRange::ALL).await, ErrorKind::NotPermitted, Some(&way));
        refused(fs, write(&way, "x"), ErrorKind::NotPermitted, &way).await;
    }
    two.assert_untouched();
}

#[tokio::test]
async fn special_files_are_listed_and_block_nothing() {
    let two = Two::new();
    let mode = rustix::fs::Mode::from_raw_mode(0o644);
    mknodat(CWD, two.path("fifo"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let _socket = UnixListener::bind(two.path("socket")).unwrap();
    let host = two.open(Mode::Writable);
    let fs = &*host;
    for (path, kind) in [("/fifo", Kind::Fifo), ("/socket", Kind::Socket)] {
        assert_eq!(stat(fs, path).await.kind, kind);
        assert_error(fs.read(&at(path), ByteRange::ALL).await, ErrorKind::NotPermitted, Some(path));
        // Opening a FIFO without a writer would block for ever.
        assert_error(fs.open(&at(path)).await, ErrorKind::NotPermitted, Some(path));
        for op in [write(path, "x"), append(path, "x"), patch(path, 0, "x"), truncate(path, 0)] {
            refused(fs, op, ErrorKind::NotPermitted, path).await;
        }
        let moved = format!("{path}2");
        given(fs, [set(path, SetAttrs::new().mode(0o600)), rename(path, &moved), copy(&moved, path)]).await;
        assert_eq!((stat(fs, path).await.kind, stat(fs, path).await.mode), (kind, 0o600));
        let hash = Op::check(at(path), Precondition::Sha256([0; 32]).negated());
        given(fs, [hash, remove(path, Remove::File)]).await;
    }
    assert_eq!(names_in(fs, "/").await, ["fifo2", "socket2"]);
    let device = fs.commit(mknod("/null", Special::CharDevice(0x103)).into()).await;
    // Creating a device takes privileges, which not every test machine has.
    match device {
        Ok(_) => {
            assert_error(fs.read(&at("/null"), ByteRange::ALL).await, ErrorKind::NotPermitted, Some("/null"));
        }
        Err(error) => assert!(error.is(ErrorKind::NotPermitted), "without privilege: {error}"),
    }
}

#[tokio::test]
async fn names_outside_utf8_are_omitted() {
    let two = Two::new();
    let odd = OsStr::from_bytes(b"\xff\xfeodd");
    fs::create_dir_all(two.path("d").join(odd)).unwrap();
    fs::write(two.path("d").join(odd).join("f"), "x").unwrap();
    fs::create_dir(two.path("full")).unwrap();
    fs::write(two.path("full").join(odd), "x").unwrap();
    fs::write(two.path("f"), "x").unwrap();
    symlink(odd, two.path("link")).unwrap();
    let host = two.open(Mode::Writable);
    let fs = &*host;
    assert_eq!(paths_below(fs, "/").await, ["/d", "/f", "/full", "/link"]);
    assert!(names_in(fs, "/d").await.is_empty());
    // The link exists, but its target is not UTF-8 and cannot be shown.
    assert_eq!((stat(fs, "/link").await.kind, stat(fs, "/link").await.target), (Kind::Symlink, None));
    // The hidden name still counts: a directory that contains it is not empty.
    refused(fs, remove("/full", Remove::Directory), ErrorKind::NotEmpty, "/full").await;
    refused(fs, rename("/d", "/full"), ErrorKind::NotEmpty, "/full").await;
    given(fs, [rename("/d", "/e"), copy("/e", "/c"), remove("/full", Remove::Tree)]).await;
    assert!(two.path("e").join(odd).is_dir(), "it moved along");
    given(fs, [remove("/e", Remove::Tree), remove("/c", Remove::Tree)]).await;
    assert_eq!(names_in(fs, "/").await, ["f", "link"]);
    assert_eq!(fs::read_dir(two.path(".garth-tmp")).unwrap().count(), 1, "only the lock is left");
}

#[tokio::test]
async fn mounted_filesystem_in_folder_is_excluded() {
    // `/proc` is another filesystem on every Linux machine, and takes no privileges to mount.
    let host = HostFs::open(Path::new("/"), Mode::ReadOnly, Env::system()).unwrap();
    assert_error(host.stat(&at("/proc")).await, ErrorKind::CrossesMounts, Some("/proc"));
    assert_error(host.stat(&at("/proc/version")).await, ErrorKind::CrossesMounts, Some("/proc/version"));
    assert!(!names_in(&*host, "/").await.contains(&"proc".to_owned()));
}

#[tokio::test]
async fn read_only_open_changes_nothing() {
    let two = Two::new();
    fs::create_dir_all(two.path("d")).unwrap();
    fs::write(two.path("d/f"), "x").unwrap();
    let before = state(two.folder.path());
    let host = two.open(Mode::ReadOnly);
    assert!(!can(&*host).write);
    assert_eq!((text(&*host, "/d/f").await.as_str(), paths_below(&*host, "/").await.len()), ("x", 2));
    for op in [write("/d/f", "y"), mkdir("/new"), remove("/no", Remove::Any)] {
        batch_refused(&*host, op.into(), ErrorKind::ReadOnly, None).await;
    }
    assert_error(host.stage(&at("/f")).await, ErrorKind::ReadOnly, None);
    assert_error(host.sync().await, ErrorKind::ReadOnly, None);
    assert_eq!(state(two.folder.path()), before);
}

#[tokio::test]
async fn error_counts_completed_operations() {
    let two = Two::new();
    let host = two.open(Mode::Writable);
    let batch =
        Batch::new([mkdir("/d"), write("/d/f", "x"), remove("/no", Remove::Any), write("/late", "y")]);
    let error = host.commit(batch).await.unwrap_err();
    assert_eq!((error.kind(), error.path().unwrap().as_str()), (ErrorKind::NotFound, "/no"));
    assert!(
        (error.done() == Some(2)) && error.message().contains("2 of 4 operations were completed"),
        "{error}"
    );
    assert_eq!(paths_below(&*host, "/").await, ["/d", "/d/f"]);
    // Checked for the complete batch in advance, so that no operation is done before.
    let unsupported = Batch::new([write("/late", "y"), set("/d/f", SetAttrs::new().tags(["t"]))]);
    let error = host.commit(unsupported).await.unwrap_err();
    assert_eq!((error.kind(), error.done()), (ErrorKind::Unsupported, None), "told before anything is done");
    let judged = Batch::new([write("/late", "y")]).require(at("/d"), Precondition::Absent);
    assert_eq!(host.commit(judged).await.unwrap_err().done(), None);
    assert!(!exists(&*host, "/late").await);
}

#[tokio::test]
async fn open_removes_leftovers_of_a_crash() {
    let two = Two::new();
    // A deep directory, which has to be removed from its end.
    let deep = format!(".garth-tmp/left{}", "/d".repeat(300));
    fs::create_dir_all(two.path(&deep)).unwrap();
    fs::write(two.path(&deep).join("f"), "x").unwrap();
    fs::write(two.path(".garth-tmp/file"), "x").unwrap();
    symlink(two.outside.path(), two.path(".garth-tmp/link")).unwrap();
    // A recent upload may belong to another process that still runs, so it stays.
    fs::write(two.path(".garth-tmp/staged-1"), "an upload of another process").unwrap();
    let host = two.open(Mode::Writable);
    let mut left: Vec<_> =
        fs::read_dir(two.path(".garth-tmp")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["lock", "staged-1"]);
    let fs = &*host;
    assert!(names_in(fs, "/").await.is_empty() && paths_below(fs, "/").await.is_empty());
    assert_eq!(stat(fs, "/").await.nlink, 2);
    for path in ["/.garth-tmp", "/.garth-tmp/lock"] {
        assert_error(fs.stat(&at(path)).await, ErrorKind::NotFound, Some(path));
        refused(fs, write(path, "x"), ErrorKind::InvalidArgument, path).await;
        refused(fs, remove(path, Remove::Tree), ErrorKind::NotFound, path).await;
    }
    two.assert_untouched();
}

#[tokio::test]
async fn rejects_link_as_temporary_folder() {
    let two = Two::new();
    symlink(two.outside.path(), two.path(".garth-tmp")).unwrap();
    let opened = HostFs::open(two.folder.path(), Mode::Writable, Env::system());
    assert_eq!(opened.unwrap_err().kind(), ErrorKind::Unavailable);
    fs::remove_file(two.path(".garth-tmp")).unwrap();
    let host = two.open(Mode::Writable);
    symlink(two.outside.path(), two.path(".garth-tmp")).unwrap();
    batch_refused(&*host, write("/f", "x").into(), ErrorKind::Unavailable, None).await;
    two.assert_untouched();
}

#[tokio::test]
async fn host_shows_changes_of_other_programs() {
    let two = Two::new();
    let host = two.open(Mode::Writable);
    let fs = &*host;
    let version = put(fs, "/f", "mine").await;
    assert_eq!(stat(fs, "/f").await.etag, version, "a writer knows the etag of what it wrote");
    let handle = fs.open(&at("/f")).await.unwrap();
    // Overwrites the file in place, so the handle shows the new content, too.
    fs::write(two.path("f"), "theirs").unwrap();
    assert_eq!(
        (text(fs, "/f").await.as_str(), &handle.read_at(0, 9).await.unwrap()[..]),
        ("theirs", &b"theirs"[..])
    );
    let lost = Batch::new([write("/f", "lost")]).require(at("/f"), Precondition::Etag(version));
    batch_refused(fs, lost, ErrorKind::Conflict, Some("/f")).await;
    put(fs, "/f", "mine again").await;
    assert_eq!(handle.read_at(0, 9).await.unwrap(), "theirs", "it was put in another's place");
    fs::remove_file(two.path("f")).unwrap();
    assert!(!exists(fs, "/f").await);
}

#[tokio::test]
async fn instances_of_one_folder_serialize_writes() {
    let two = Two::new();
    let writers = (0..4).map(|writer| {
        let host = two.open(Mode::Writable);
        tokio::spawn(async move {
            for line in 0..50 {
                // Read before each commit, so that a failure shows the size that the writer saw.
                let found = stat_or_none(&*host, "/log").await;
                let batch = Batch::new([append("/log", format!("{writer}:{line}\n"))]).visible();
                host.commit(batch).await.unwrap_or_else(|error| panic!("{found:?}: {error}"));
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    assert_eq!(fs::read_to_string(two.path("log")).unwrap().lines().count(), 200);
}

async fn stat_or_none(fs: &Fs, path: &str) -> Option<u64> {
    fs.stat(&at(path)).await.ok().map(|entry| entry.size)
}

#[tokio::test]
async fn huge_directory_is_listed_in_ordered_pages() {
    let two = Two::new();
    // In no particular order, so that sorting is up to the listing.
    let names: Vec<String> = (0..20_000).map(|number| format!("{:05}", number * 7_919 % 20_000)).collect();
    for name in &names {
        fs::write(two.path(name), "").unwrap();
    }
    let host = two.open(Mode::ReadOnly);
    let (mut page, mut found) = (Page::default().limit(999), Vec::new());
    loop {
        let listing = host.list(&at("/"), &page).await.unwrap();
        page = page.after(listing.items.last().map(|item| item.name.clone()));
        found.extend(listing.items.iter().map(|item| item.name.to_string()));
        if !listing.more {
            break;
        }
    }
    let mut sorted = names;
    sorted.sort();
    assert_eq!(found, sorted);
}

#[tokio::test]
async fn long_files_are_copied_with_holes() {
    let two = Two::new();
    let host = two.open(Mode::Writable);
    let fs = &*host;
    let size = 3 * MAX_READ as u64 + 5;
    given(fs, [write("/f", "begin"), patch("/f", size - 3, "end"), copy("/f", "/g")]).await;
    for path in ["/f", "/g"] {
        let file = fs.open(&at(path)).await.unwrap();
        let pieces: Vec<_> = file.stream(ByteRange::ALL).try_collect().await.unwrap();
        let all = pieces.concat();
        assert_eq!((all.len() as u64, &all[..5], &all[all.len() - 3..]), (size, &b"begin"[..], &b"end"[..]));
    }
    // The copy must not fill the hole in the middle.
    let kept = std::os::unix::fs::MetadataExt::blocks(&fs::metadata(two.path("g")).unwrap());
    assert!(kept * 512 < 1 << 20, "a hole takes no space: {kept} blocks");
    let mut upload = fs.stage(&at("/h")).await.unwrap();
    upload.write(vec![7; 3 << 20].into()).await.unwrap();
    let body = Body::Staged(upload.finish().await.unwrap());
    given(fs, [Op::write(at("/h"), body)]).await;
    assert_eq!(fs::read(two.path("h")).unwrap(), vec![7; 3 << 20]);
    assert_eq!(fs::read_dir(two.path(".garth-tmp")).unwrap().count(), 1, "only the lock is left");
}

#[tokio::test]
async fn error_of_unopenable_folder_hides_its_path() {
    let two = Two::new();
    fs::write(two.path("f"), "").unwrap();
    for (path, kind) in [("no", ErrorKind::NotFound), ("f", ErrorKind::NotADirectory)] {
        let error = HostFs::open(&two.path(path), Mode::ReadOnly, Env::system()).unwrap_err();
        assert_eq!(error.kind(), kind);
        assert!(!error.to_string().contains(two.folder.path().to_str().unwrap()), "{error}");
    }
    let host = two.open(Mode::Writable);
    fs::remove_file(two.path("f")).unwrap();
    // The folder is removed while it is open.
    fs::remove_dir_all(two.folder.path()).unwrap();
    let error = host.commit(write("/f", "x").into()).await.unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::NotFound, None));
}
