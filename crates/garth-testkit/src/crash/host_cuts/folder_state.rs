//! Content of a tree as far as a power cut may not change it, and the states that an interrupted change in
//! place may leave.

use std::collections::BTreeMap;
use std::fmt::Write;

use bytes::Bytes;
use garth_engine::model::{At, ByteRange, Ino, Kind, Op, WalkPage};
use garth_engine::{ErrorKind, FileSystem, TreePath};
use sha2::{Digest, Sha256};

use crate::proof::Proven;

/// More names than a round creates.
const NAMES: usize = 10_000;
/// Nanoseconds of a second.
const SECOND: i64 = 1_000_000_000;
/// Number of differences in a message.
const TOLD: usize = 6;

/// A node by one of its names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    kind: Kind,
    mode: u32,
    /// Modification time of a file or link, in seconds: within one second, each engine counts operations in
    /// its own way.
    mtime: i64,
    target: Option<String>,
    content: Bytes,
    /// First path of the same node; equal for all of its names.
    first: TreePath,
}

/// Nodes at a path and below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct State(BTreeMap<TreePath, Shown>);

/// File that an operation changes in place.
#[derive(Debug)]
pub(super) struct InPlace {
    file: TreePath,
    /// True if it is empty in between.
    emptied: bool,
}

impl State {
    /// Reads the tree at a path; empty if it is missing.
    pub(super) async fn of(fs: &dyn FileSystem, top: &TreePath) -> Proven<Self> {
        let page = WalkPage::default().limit(NAMES).with_entries();
        let walk = match fs.walk(&At::from(top), &page).await {
            Err(error) if error.is(ErrorKind::NotFound) => return Ok(Self::default()),
            walk => walk?,
        };
        let mut entries = vec![(top.clone(), fs.stat(&At::from(top)).await?)];
        for item in walk.items {
            entries.extend(item.entry.map(|entry| (item.path, *entry)));
        }
        // Sorted, so that the first path of a node is the same on every walk.
        entries.sort_by(|one, other| one.0.cmp(&other.0));
        let mut firsts: BTreeMap<Ino, TreePath> = BTreeMap::new();
        let mut state = Self::default();
        for (path, entry) in entries {
            let first = firsts.entry(entry.ino).or_insert_with(|| path.clone()).clone();
            let content = match entry.kind {
                Kind::File => fs.fetch(&At::from(&path), ByteRange::ALL).await?.1,
                _ => Bytes::new(),
            };
            let shown = Shown {
                kind: entry.kind,
                // Links have no mode of their own.
                mode: if entry.kind == Kind::Symlink { 0 } else { entry.mode },
                // Times of directories are those of the host.
                mtime: if entry.kind == Kind::Directory { 0 } else { entry.mtime.0.div_euclid(SECOND) },
                target: entry.target,
                content,
                first,
            };
            state.0.insert(path, shown);
        }
        Ok(state)
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &TreePath> {
        self.0.keys()
    }

    pub(super) fn kind(&self, path: &TreePath) -> Option<Kind> {
        self.0.get(path).map(|shown| shown.kind)
    }

    pub(super) fn size(&self, path: &TreePath) -> u64 {
        self.0.get(path).map_or(0, |shown| shown.content.len() as u64)
    }

    fn has_several_names(&self, path: &TreePath) -> bool {
        let first = self.0.get(path).map(|shown| &shown.first);
        self.0.values().filter(|shown| Some(&shown.first) == first).count() > 1
    }

    /// Returns the file that an operation changes in place, which a crash may leave half-changed.
    pub(super) fn changed_in_place(&self, op: &Op) -> Option<InPlace> {
        let (at, emptied) = match op {
            Op::Append { at, .. } | Op::Patch { at, .. } | Op::Truncate { at, .. } => (at, false),
            Op::Write { at, .. } => (at, true),
            Op::Copy { to, .. } => (to, true),
            _ => return None,
        };
        let At::Path(path) = at else { return None };
        let is_file = self.kind(path) == Some(Kind::File);
        // A file with one name is replaced by a new one instead, which is atomic.
        (is_file && (!emptied || self.has_several_names(path)))
            .then(|| InPlace { file: path.clone(), emptied })
    }

    /// Returns true if this state is one that an interrupted change of a file in place may leave: everything
    /// else is as before, and each byte of the file is that of before or after. A byte that only one of them
    /// has may be 0: the host writes a new size before the content, and clears the end of a block before it
    /// truncates a file there.
    pub(super) fn is_between(
        &self,
        before: &Self,
        after: &Self,
        InPlace { file, emptied }: &InPlace,
    ) -> bool {
        let [Some(found), Some(old), Some(new)] = [self, before, after].map(|state| state.0.get(file)) else {
            return false;
        };
        let mut others = self.clone();
        for shown in others.0.values_mut().filter(|shown| shown.first == old.first) {
            // Another name with different content is detected below.
            if shown == found {
                *shown = old.clone();
            }
        }
        let mixed = |(place, byte): (usize, &u8)| {
            let [old, new] = [&old.content, &new.content].map(|content| content.get(place));
            let may_be_zero = *emptied || old.is_none() || new.is_none();
            old == Some(byte) || new == Some(byte) || (may_be_zero && *byte == 0)
        };
        others == *before
            && [old.mode, new.mode].contains(&found.mode)
            && found.content.len() <= old.content.len().max(new.content.len())
            && found.content.iter().enumerate().all(mixed)
    }

    /// Returns the paths at which another state differs.
    pub(super) fn differences<'a>(&'a self, other: &'a Self) -> Vec<&'a TreePath> {
        let mut paths: Vec<_> = self.0.keys().chain(other.0.keys()).collect();
        paths.sort();
        paths.dedup();
        paths.retain(|path| self.0.get(path) != other.0.get(path));
        paths
    }

    /// Describes the first differences from another state.
    pub(super) fn beside(&self, other: &Self) -> String {
        let mut told = String::new();
        for path in self.differences(other).into_iter().take(TOLD) {
            let _ = write!(told, "\n  {path}: {}, not {}", brief(self.0.get(path)), brief(other.0.get(path)));
        }
        told
    }
}

fn brief(shown: Option<&Shown>) -> String {
    let Some(Shown { kind, mode, mtime, target, content, first }) = shown else {
        return "nothing".to_owned();
    };
    let target = target.as_deref().unwrap_or_default();
    format!(
        "{kind:?} {mode:o} of {mtime} with {} bytes ({}) {target} as {first}",
        content.len(),
        sum(content)
    )
}

/// Returns a short hash that distinguishes contents.
fn sum(content: &[u8]) -> String {
    Sha256::digest(content)[..3].iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}
