//! The numbers that a view made of several filesystems shows. Those of one of them, the first, stay as they
//! are. Where two nodes could have one number, that of another is marked above [`BITS`] bits with a tag. Tags
//! are made of paths, so that a number, and a version that it is part of, means the same when the view is put
//! together again with other parts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::model::{Entry, Ino, VersionId};
use crate::path::TreePath;

/// Bits of a number without its tag: 2³⁸ nodes, so that a marked number is exact as a JSON number (2⁵³).
pub(super) const BITS: u32 = 38;
/// Bits of a tag.
const TAG_BITS: u32 = 14;
const TAGS: u64 = 1 << TAG_BITS;
const LOW: u64 = (1 << BITS) - 1;

/// See the module. Without tags of its own it leaves numbers as they are, marked by a view below or not.
#[derive(Clone, Debug)]
pub(super) struct Numbers {
    /// The tag of each path that has one, and back.
    tags: HashMap<TreePath, u64>,
    paths: HashMap<u64, TreePath>,
    /// The tag of each part that has marked numbers, and back. Of all others the numbers are one space.
    parts: HashMap<usize, u64>,
    marked: HashMap<u64, usize>,
    root: TreePath,
    /// Tags for numbers of parts that are marked already, as they are first seen: of a view in a view.
    nested: Arc<Mutex<Nested>>,
}

#[derive(Debug, Default)]
struct Nested {
    /// By part and its own tag.
    tags: HashMap<(usize, u64), u64>,
    back: HashMap<u64, (usize, u64)>,
}

impl Numbers {
    /// With a tag for each of these paths; `marked`: the parts whose numbers are marked, each with its path.
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

    /// The first tag from this one on that nothing has.
    fn free(&self, from: u64, nested: &Nested) -> u64 {
        let taken = |tag: &u64| *tag == 0 || self.paths.contains_key(tag) || nested.back.contains_key(tag);
        (from..from + TAGS).map(|tag| tag % TAGS).find(|tag| !taken(tag)).unwrap_or(0)
    }

    /// The number that the view shows for a number of a part.
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
        let key = (if own.is_some() { part } else { 0 }, tag);
        if let Some(known) = nested.tags.get(&key) {
            return Ino(known << BITS | low);
        }
        let from = own.map_or(tag, |own| hash(&format!("{own}/{tag}")));
        let new = self.free(from, &nested);
        nested.tags.insert(key, new);
        nested.back.insert(new, key);
        Ino(new << BITS | low)
    }

    /// The part that a number belongs to, and the number there; of all that are not marked, part 0.
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

    /// The path whose number is the view's own.
    pub(super) fn own_path(&self, ino: Ino) -> Option<&TreePath> {
        match (ino.0 >> BITS, ino.0 & LOW) {
            _ if ino == Ino::ROOT => Some(&self.root),
            (tag, 0) if tag > 0 => self.paths.get(&tag),
            _ => None,
        }
    }

    /// The number of a path that leads to a part, and that nothing has made: a tag without a number.
    pub(super) fn own_number(&self, path: &TreePath) -> Ino {
        Ino(self.tags.get(path).copied().unwrap_or(0) << BITS)
    }
}

/// A node as a view shows it, by the number that it has there.
pub(super) fn renumbered(entry: Entry, ino: Ino) -> Entry {
    let version = |version| VersionId { ino, ..version };
    Entry { ino, version: version(entry.version), etag: version(entry.etag), ..entry }
}

/// Where to look for a tag first.
fn hash(text: &str) -> u64 {
    let bytes = blake3::hash(text.as_bytes());
    u64::from_le_bytes(bytes.as_bytes()[..8].try_into().unwrap_or_default()) % TAGS
}
