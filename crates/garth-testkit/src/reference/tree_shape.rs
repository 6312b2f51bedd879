//! Shape of a tree without inodes and versions: a restored tree must have the shape of its past state.

use std::collections::HashMap;

use bytes::Bytes;
use garth_engine::model::{At, Attributes, ByteRange, Entry, Ino, Kind, Timestamp, WalkPage};
use garth_engine::{Result, TreePath};

use crate::tools::Fs;

/// Shape of one path. Names of one node have the same `node`: the first of its paths.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shape {
    pub(crate) path: TreePath,
    node: TreePath,
    kind: Kind,
    mode: u32,
    owner: (u32, u32),
    rdev: u64,
    mtime: Timestamp,
    target: Option<String>,
    attributes: Attributes,
    expires_at: Option<Timestamp>,
    pub(crate) size: u64,
    /// Content of files up to 1 MiB.
    content: Bytes,
}

/// Returns the shape of a path and its subtree. An expiry that has passed at `now` counts as none.
pub(crate) async fn shape(fs: &Fs, top: &TreePath, now: Timestamp) -> Result<Vec<Shape>> {
    let entry = fs.stat(&At::Path(top.clone())).await?;
    let directory = entry.kind == Kind::Directory;
    let mut nodes = HashMap::new();
    let mut all = vec![one(fs, top, entry, now, &mut nodes).await?];
    let mut page = WalkPage::default().limit(10_000).with_entries();
    let mut more = directory;
    while more {
        let walk = fs.walk(&top.into(), &page).await?;
        more = walk.more;
        page.after = walk.items.last().map(|item| item.path.clone());
        for item in walk.items {
            let entry = *item.entry.expect("entries were asked for");
            all.push(one(fs, &item.path, entry, now, &mut nodes).await?);
        }
    }
    Ok(all)
}

async fn one(
    fs: &Fs,
    path: &TreePath,
    entry: Entry,
    now: Timestamp,
    nodes: &mut HashMap<Ino, TreePath>,
) -> Result<Shape> {
    let mut content = Bytes::new();
    if entry.kind == Kind::File {
        // Of a large file the beginning, which fails as the rest does if the content is gone.
        let range = if entry.size <= 1 << 20 { ByteRange::ALL } else { ByteRange { offset: 0, length: 64 } };
        content = fs.read(&path.into(), range).await?;
    }
    Ok(Shape {
        path: path.clone(),
        node: nodes.entry(entry.ino).or_insert_with(|| path.clone()).clone(),
        kind: entry.kind,
        mode: entry.mode,
        owner: (entry.uid, entry.gid),
        rdev: entry.rdev,
        mtime: entry.mtime,
        target: entry.target,
        attributes: entry.attributes,
        size: entry.size,
        expires_at: entry.expires_at.filter(|at| *at > now),
        content,
    })
}
