//! Helpers of filesystem tests: paths, operations, reads and assertions.

use std::path::{Path, PathBuf};

use garth_engine::model::{
    At, Batch, Body, ByteRange, Commit, Create, Entry, HistoryPage, NamesPage, Op, Outcome, Page, Remove,
    RenameMode, Seq, SetAttrs, Snapshot, SnapshotsPage, Special, Version, VersionId, WalkPage,
};
use garth_engine::{Capabilities, ErrorKind, FileSystem, FileSystemExt, Name, TreePath};

/// Returns a folder on a disk, where syncs take time. Temporary files may be in memory, where a writer never
/// waits and concurrent work starves.
pub fn on_disk() -> PathBuf {
    let disk = Path::new("/var/tmp");
    if disk.is_dir() { disk.to_owned() } else { std::env::temp_dir() }
}

/// Returns a folder in memory, or the one for temporary files on a machine that has none.
pub fn in_memory() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() }
}

/// A filesystem under test.
pub type Fs = dyn FileSystem;

/// Returns the abilities of a filesystem.
pub fn can(fs: &Fs) -> Capabilities {
    fs.capabilities(&TreePath::root())
}

/// Parses a path that is known to be canonical.
pub fn p(path: &str) -> TreePath {
    TreePath::parse(path).expect("a canonical path")
}

/// Returns the address of a path.
pub fn at(path: &str) -> At {
    At::Path(p(path))
}

/// Parses a name that is known to be valid.
pub fn name(name: &str) -> Name {
    Name::parse(name).expect("a name")
}

/// Writes a file, created if missing.
pub fn write(path: &str, content: impl Into<Body>) -> Op {
    write_at(at(path), content)
}

/// Writes a file at an address, created if missing.
pub fn write_at(at: At, content: impl Into<Body>) -> Op {
    Op::write(at, content)
}

/// Writes a file with attributes.
pub fn write_with(path: &str, content: impl Into<Body>, attrs: SetAttrs) -> Op {
    Op::write(at(path), content).with_attrs(attrs)
}

/// Writes a file in the create mode `create`.
pub fn write_as(path: &str, content: impl Into<Body>, create: Create) -> Op {
    let (at, body) = (at(path), content.into());
    Op::Write { at, body, create, parents: false, attrs: SetAttrs::default() }
}

/// Appends to a file, created if missing.
pub fn append(path: &str, content: impl Into<Body>) -> Op {
    Op::append(at(path), content)
}

/// Writes a range of a file.
pub fn patch(path: &str, offset: u64, content: impl Into<Body>) -> Op {
    Op::patch(at(path), offset, content)
}

/// Cuts or extends a file.
pub fn truncate(path: &str, size: u64) -> Op {
    Op::truncate(at(path), size)
}

/// Creates a directory in an existing one.
pub fn mkdir(path: &str) -> Op {
    Op::mkdir(at(path))
}

/// Creates a directory and missing ones above it, like `mkdir -p`.
pub fn mkdir_all(path: &str) -> Op {
    Op::mkdir_all(at(path))
}

/// Creates a symbolic link.
pub fn symlink(path: &str, target: &str) -> Op {
    Op::symlink(at(path), target)
}

/// Creates a special node.
pub fn mknod(path: &str, node: Special) -> Op {
    Op::mknod(at(path), node)
}

/// Adds a name to a node.
pub fn link(from: &str, to: &str) -> Op {
    Op::link(at(from), at(to))
}

/// Removes an existing node.
pub fn remove(path: &str, what: Remove) -> Op {
    Op::Remove { at: at(path), what, missing_ok: false }
}

/// Renames like POSIX.
pub fn rename(from: &str, to: &str) -> Op {
    rename_as(from, to, RenameMode::Replace)
}

/// Renames in the mode `mode`.
pub fn rename_as(from: &str, to: &str, mode: RenameMode) -> Op {
    Op::Rename { from: at(from), to: at(to), mode, parents: false }
}

/// Copies a file, or a directory with its subtree, to a free name.
pub fn copy(from: &str, to: &str) -> Op {
    Op::copy_tree(at(from), at(to))
}

/// Copies a file over a file, in its state after a commit.
pub fn restore(from: &str, seq: Seq, to: &str) -> Op {
    Op::copy_tree(at(from), at(to)).replace().as_of(seq)
}

/// Changes attributes.
pub fn set(path: &str, attrs: SetAttrs) -> Op {
    Op::set_attrs(at(path), attrs)
}

/// Commits one operation that must succeed.
pub async fn apply(fs: &Fs, op: Op) -> (Commit, Outcome) {
    let what = format!("{op:?}");
    fs.apply(op).await.unwrap_or_else(|error| panic!("{what}: {:?}: {error}", error.kind()))
}

/// Commits operations that must succeed, each on its own.
pub async fn given<const N: usize>(fs: &Fs, ops: [Op; N]) {
    for op in ops {
        apply(fs, op).await;
    }
}

/// Writes a file, created if missing, and returns its version.
pub async fn put(fs: &Fs, path: &str, content: impl Into<Body>) -> VersionId {
    apply(fs, write(path, content)).await.0.version(0)
}

/// Returns the complete content of a file of at most 16 MiB, as text.
pub async fn text(fs: &Fs, path: &str) -> String {
    let bytes = fs.read(&at(path), ByteRange::ALL).await.unwrap_or_else(|error| panic!("{path}: {error}"));
    String::from_utf8(bytes.to_vec()).expect("a test wrote text")
}

/// Returns the entry at a path.
pub async fn stat(fs: &Fs, path: &str) -> Entry {
    fs.stat(&at(path)).await.unwrap_or_else(|error| panic!("stat {path}: {error}"))
}

/// Returns true if a path exists.
pub async fn exists(fs: &Fs, path: &str) -> bool {
    match fs.stat(&at(path)).await {
        Ok(_) => true,
        Err(error) if error.is(ErrorKind::NotFound) => false,
        Err(error) => panic!("stat {path}: {error}"),
    }
}

/// Returns the names in a directory.
pub async fn names_in(fs: &Fs, path: &str) -> Vec<String> {
    let page = Page::default().limit(10_000);
    let listing = fs.list(&at(path), &page).await.unwrap_or_else(|error| panic!("list {path}: {error}"));
    listing.items.into_iter().map(|item| item.name.to_string()).collect()
}

/// Returns all paths below a directory, in the order of a walk.
pub async fn paths_below(fs: &Fs, path: &str) -> Vec<String> {
    let page = WalkPage::default().limit(10_000);
    let walk = fs.walk(&at(path), &page).await.unwrap_or_else(|error| panic!("walk {path}: {error}"));
    walk.items.into_iter().map(|item| item.path.to_string()).collect()
}

/// Returns the last 100 versions of a path.
pub async fn history(fs: &Fs, path: &str) -> Vec<Version> {
    let page = HistoryPage::default();
    fs.history(&at(path), &page).await.unwrap_or_else(|error| panic!("history {path}: {error}")).items
}

/// Returns the paths of a node, at most 1,000.
pub async fn names_of(fs: &Fs, of: &At) -> garth_engine::Result<Vec<TreePath>> {
    Ok(fs.names(of, &NamesPage::default()).await?.items)
}

/// Returns the snapshots, at most 1,000.
pub async fn snapshots(fs: &Fs) -> garth_engine::Result<Vec<Snapshot>> {
    Ok(fs.snapshots(&SnapshotsPage::default()).await?.items)
}

/// Asserts that a result is an error of this kind and path.
#[track_caller]
pub fn assert_error<T: std::fmt::Debug>(
    result: garth_engine::Result<T>,
    kind: ErrorKind,
    path: Option<&str>,
) {
    match result {
        Ok(answer) => panic!("{kind:?} was due, but it gave {answer:?}"),
        Err(error) => {
            let found = (error.kind(), error.path().map(TreePath::as_str));
            assert_eq!(found, (kind, path), "{error}");
        }
    }
}

/// Asserts that a batch fails with this kind and path, and takes no sequence number.
pub async fn batch_refused(fs: &Fs, batch: Batch, kind: ErrorKind, path: Option<&str>) {
    let what = format!("{batch:?}");
    // A rejected batch must leave no trace in the log.
    let before = fs.head().await.expect("a head");
    match fs.commit(batch).await {
        Ok(commit) => panic!("{kind:?} was due for {what}, but it gave {commit:?}"),
        Err(error) => {
            let found = (error.kind(), error.path().map(TreePath::as_str));
            assert_eq!(found, (kind, path), "{error}: {what}");
        }
    }
    assert_eq!(fs.head().await.expect("a head"), before, "a refused batch took a sequence number: {what}");
}

/// Asserts that an operation fails with this kind about this path, and takes no sequence number.
pub async fn refused(fs: &Fs, op: Op, kind: ErrorKind, path: &str) {
    batch_refused(fs, Batch::new([op]), kind, Some(path)).await;
}

/// Asserts that an operation fails with this kind and without a path.
pub async fn refused_outright(fs: &Fs, op: Op, kind: ErrorKind) {
    batch_refused(fs, Batch::new([op]), kind, None).await;
}
