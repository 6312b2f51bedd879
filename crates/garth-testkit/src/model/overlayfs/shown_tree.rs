//! Visible content of a tree, in terms that both sides share.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use garth_engine::TreePath;
use garth_engine::model::{At, ByteRange, Kind, Page, WalkPage};

use super::kernel_mount::{host, mtime};
use super::random_steps::NOW;
use crate::tools::{Fs, name};

/// Node at a path.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Shown {
    kind: Kind,
    mode: u32,
    owner: (u32, u32),
    /// Modification time if a step set it; `None` for one of the clock.
    mtime: Option<i64>,
    target: Option<String>,
    content: Vec<u8>,
    /// First path of the same node.
    node: TreePath,
    /// Names of a node that is not a directory.
    nlink: u64,
}

/// Visible nodes by path.
pub(super) type Tree = BTreeMap<TreePath, Shown>;

/// Returns the contents of a folder.
pub(super) fn of_folder(root: &Path) -> std::io::Result<Tree> {
    let (mut tree, mut nodes) = (Tree::new(), HashMap::new());
    let mut next = vec![TreePath::root()];
    while let Some(path) = next.pop() {
        let at = host(root, &path);
        let found = fs::symlink_metadata(&at)?;
        let kind = match found.file_type() {
            kind if kind.is_dir() => Kind::Directory,
            kind if kind.is_file() => Kind::File,
            kind if kind.is_symlink() => Kind::Symlink,
            kind if kind.is_fifo() => Kind::Fifo,
            _ => Kind::Whiteout,
        };
        if kind == Kind::Directory {
            for entry in fs::read_dir(&at)? {
                let name = name(&entry?.file_name().to_string_lossy());
                next.push(path.join(&name).map_err(std::io::Error::other)?);
            }
        }
        nodes.entry(found.ino()).or_insert_with(Vec::new).push(path.clone());
        let target = (kind == Kind::Symlink).then(|| fs::read_link(&at)).transpose()?;
        let shown = Shown {
            kind,
            mode: found.mode() & 0o7777,
            owner: (found.uid(), found.gid()),
            mtime: set_time(mtime(&found)),
            target: target.map(|target| target.to_string_lossy().into_owned()),
            content: if kind == Kind::File { fs::read(&at)? } else { Vec::new() },
            node: path.clone(),
            // Filesystems count the links of directories in different ways.
            nlink: if kind == Kind::Directory { 0 } else { found.nlink() },
        };
        tree.insert(path, shown);
    }
    group(&mut tree, nodes.into_values());
    Ok(tree)
}

/// Returns the content of an overlay. A node that is not copied up keeps the link count of the lower layer,
/// even if some of its names were removed with a directory: those are subtracted here.
pub(super) async fn of_overlay(fs: &Fs, below: &Fs) -> Result<Tree, String> {
    let mut tree = of_tree(fs).await?;
    let mut names: HashMap<TreePath, u64> = HashMap::new();
    for shown in tree.values() {
        *names.entry(shown.node.clone()).or_default() += 1;
    }
    for (path, shown) in &mut tree {
        let as_below =
            below.stat(&At::Path(path.clone())).await.is_ok_and(|entry| entry.nlink == shown.nlink);
        if as_below && shown.nlink > names[&shown.node] {
            shown.nlink = names[&shown.node];
        }
    }
    Ok(tree)
}

/// Returns the content of a filesystem by its listings; a walk must return the same paths.
pub(super) async fn of_tree(fs: &Fs) -> Result<Tree, String> {
    let told = |path: &TreePath| {
        let path = path.clone();
        move |error: garth_engine::Error| format!("{path} cannot be read: {error}")
    };
    let (mut tree, mut nodes) = (Tree::new(), HashMap::new());
    let mut next = vec![TreePath::root()];
    while let Some(path) = next.pop() {
        let at = At::Path(path.clone());
        let entry = fs.stat(&at).await.map_err(told(&path))?;
        if entry.is_dir() {
            let listing = fs.list(&at, &Page::default().limit(100)).await.map_err(told(&path))?;
            for item in listing.items {
                next.push(path.join(&item.name).map_err(|error| error.to_string())?);
            }
        }
        let mut content = Vec::new();
        if entry.is_file() {
            content = fs.read(&at, ByteRange::ALL).await.map_err(told(&path))?.to_vec();
        }
        nodes.entry(entry.ino).or_insert_with(Vec::new).push(path.clone());
        let shown = Shown {
            kind: entry.kind,
            mode: entry.mode,
            owner: (entry.uid, entry.gid),
            mtime: set_time(entry.mtime.0),
            target: entry.target,
            content,
            node: path.clone(),
            nlink: if entry.kind == Kind::Directory { 0 } else { entry.nlink },
        };
        tree.insert(path, shown);
    }
    group(&mut tree, nodes.into_values());
    let walk = fs.walk(&At::Path(TreePath::root()), &WalkPage::default().limit(1000)).await;
    let mut walked: Vec<_> =
        walk.map_err(told(&TreePath::root()))?.items.into_iter().map(|item| item.path).collect();
    // A walk returns what is below its directory.
    walked.push(TreePath::root());
    walked.sort();
    match walked.iter().eq(tree.keys()) {
        true => Ok(tree),
        false => Err(format!("a walk shows {walked:?}, listings {:?}", tree.keys())),
    }
}

fn set_time(nanoseconds: i64) -> Option<i64> {
    // The two clocks differ, so only times that a step has set are compared.
    (nanoseconds < NOW * 1_000_000_000).then_some(nanoseconds)
}

/// Sets `node` of each path to the first path of its node.
fn group(tree: &mut Tree, nodes: impl Iterator<Item = Vec<TreePath>>) {
    for mut paths in nodes {
        paths.sort();
        for path in &paths {
            if let Some(shown) = tree.get_mut(path) {
                shown.node = paths[0].clone();
            }
        }
    }
}

/// Returns the first difference between the overlay and the union mount of the kernel.
pub(super) fn difference(ours: &Tree, kernel: &Tree) -> Option<String> {
    let paths = ours.keys().chain(kernel.keys());
    let differs = paths.into_iter().find(|path| ours.get(*path) != kernel.get(*path))?;
    Some(format!("{differs}\n  overlay: {:?}\n  kernel:  {:?}", ours.get(differs), kernel.get(differs)))
}
