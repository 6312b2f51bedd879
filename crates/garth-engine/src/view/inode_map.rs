//! Inodes that a view of several filesystems shows. Those of the first filesystem stay as they are. Where two
//! nodes could have one inode, that of the other filesystem gets a tag above [`BITS`] bits. Tags are derived
//! from paths, so that an inode, and a version that contains it, means the same when the view is built again
//! with other parts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::model::{Entry, Ino, VersionId};
use crate::path::TreePath;

/// Bits of an inode without its tag: 2³⁸ nodes, so that a tagged inode is exact as a JSON number (2⁵³).
pub(super) const BITS: u32 = 38;
/// Bits of a tag.
const TAG_BITS: u32 = 14;
const TAGS: u64 = 1 << TAG_BITS;
const LOW: u64 = (1 << BITS) - 1;

/// Translation of inodes between a view and its parts. Without tags it leaves inodes as they are, whether or
/// not a view below has tagged them.
#[derive(Clone, Debug)]
pub(super) struct InodeMap {
    /// Tag of each path that has one, and back.
    tags: HashMap<TreePath, u64>,
    paths: HashMap<u64, TreePath>,
    /// Tag of each part whose inodes are tagged, and back. The inodes of all other parts are one space.
    parts: HashMap<usize, u64>,
    marked: HashMap<u64, usize>,
    root: TreePath,
    /// Tags for inodes that a view below has tagged already, given when they are first seen.
    nested: Arc<Mutex<Nested>>,
}

#[derive(Debug, Default)]
struct Nested {
    /// Tag of the view, by part and the part's own tag.
    tags: HashMap<(usize, u64), u64>,
    back: HashMap<u64, (usize, u64)>,
}

impl InodeMap {
    /// Returns a translation with a tag for each of `paths`. `marked` names the parts whose inodes are
    /// tagged, each with its path.
    pub(super) fn new(
        paths: impl IntoIterator<Item = TreePath>,
        marked: impl IntoIterator<Item = (usize, TreePath)>,
    ) -> Self {
        let mut numbers = Self {
            tags: HashMap::new(),
            paths: HashMap::new(),
            parts: HashMap::new(),
            marked: HashMap::new(),
            root: TreePath::root(),
            nested: Arc::default(),
        };
        let mut paths: Vec<TreePath> = paths.into_iter().collect();
        // Sorted, so that the tags do not depend on the order in which parts are given.
        paths.sort();
        for path in paths {
            let tag = numbers.free(hash(path.key()), &Nested::default());
            numbers.tags.insert(path.clone(), tag);
            numbers.paths.insert(tag, path);
        }
        for (part, path) in marked {
            if let Some(tag) = numbers.tags.get(&path) {
                numbers.parts.insert(part, *tag);
                numbers.marked.insert(*tag, part);
            }
        }
        numbers
    }

    fn nested(&self) -> MutexGuard<'_, Nested> {
        self.nested.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the first tag from `from` on that is not taken.
    fn free(&self, from: u64, nested: &Nested) -> u64 {
        // 0 means that an inode has no tag.
        let taken = |tag: &u64| *tag == 0 || self.paths.contains_key(tag) || nested.back.contains_key(tag);
        (from..from + TAGS).map(|tag| tag % TAGS).find(|tag| !taken(tag)).unwrap_or(0)
    }

    /// Returns the inode that the view shows for an inode of a part.
    pub(super) fn shown(&self, part: usize, ino: Ino) -> Ino {
        let (tag, low) = (ino.0 >> BITS, ino.0 & LOW);
        let own = self.parts.get(&part).copied();
        if self.paths.is_empty() {
            return ino;
        }
        if tag == 0 {
            return Ino(own.unwrap_or(0) << BITS | low);
        }
        let mut nested = self.nested();
        // Parts without a tag share one space of inodes, so the same tag means the same there.
        let key = (if own.is_some() { part } else { 0 }, tag);
        if let Some(known) = nested.tags.get(&key) {
            return Ino(known << BITS | low);
        }
        // Inodes of a part without a tag keep the tag that the view below gave them, if it is free.
        let from = own.map_or(tag, |own| hash(&format!("{own}/{tag}")));
        let new = self.free(from, &nested);
        nested.tags.insert(key, new);
        nested.back.insert(new, key);
        Ino(new << BITS | low)
    }

    /// Returns the part that an inode belongs to, and the inode there. Untagged inodes belong to part 0.
    pub(super) fn node(&self, ino: Ino) -> Option<(usize, Ino)> {
        let (tag, low) = (ino.0 >> BITS, ino.0 & LOW);
        if tag == 0 || self.paths.is_empty() {
            return Some((0, ino));
        }
        if let Some(part) = self.marked.get(&tag) {
            return Some((*part, Ino(low)));
        }
        let (part, tag) = *self.nested().back.get(&tag)?;
        Some((part, Ino(tag << BITS | low)))
    }

    /// Returns the path whose inode is the view's own.
    pub(super) fn own_path(&self, ino: Ino) -> Option<&TreePath> {
        // No node has inode 0, so a tag alone is the view's own.
        match (ino.0 >> BITS, ino.0 & LOW) {
            _ if ino == Ino::ROOT => Some(&self.root),
            (tag, 0) if tag > 0 => self.paths.get(&tag),
            _ => None,
        }
    }

    /// Returns the inode of a directory that leads to a part and that nobody created: a tag alone.
    pub(super) fn own_number(&self, path: &TreePath) -> Ino {
        Ino(self.tags.get(path).copied().unwrap_or(0) << BITS)
    }
}

/// Returns an entry with another inode, in its versions as well.
pub(super) fn renumbered(entry: Entry, ino: Ino) -> Entry {
    let version = |version| VersionId { ino, ..version };
    Entry { ino, version: version(entry.version), etag: version(entry.etag), ..entry }
}

/// Returns the tag with which the search for a free one starts.
fn hash(text: &str) -> u64 {
    let bytes = blake3::hash(text.as_bytes());
    u64::from_le_bytes(bytes.as_bytes()[..8].try_into().unwrap_or_default()) % TAGS
}
