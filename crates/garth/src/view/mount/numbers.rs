//! The numbers that a mounted tree shows. Nodes of the base keep theirs. Where two nodes could have one
//! number, that of a part is marked above [`BITS`] bits with a tag. Tags are made of paths, so that a number,
//! and a version that it is part of, means the same when the tree is put together again with other parts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::part::Part;
use crate::model::Ino;
use crate::path::TreePath;

/// Bits of a number without its tag: 2³⁸ nodes, so that a marked number is exact as a JSON number (2⁵³).
pub(super) const BITS: u32 = 38;
/// Bits of a tag.
const TAG_BITS: u32 = 14;
const TAGS: u64 = 1 << TAG_BITS;
const LOW: u64 = (1 << BITS) - 1;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Numbers {
    /// The tag of each path that is a part's or leads to one, and back.
    tags: HashMap<TreePath, u64>,
    paths: HashMap<u64, TreePath>,
    /// The part of each tag that is one's, and the tag of each part that has one.
    parts: HashMap<u64, usize>,
    root: TreePath,
    /// Tags for numbers of parts that are marked already, as they are first seen: of a tree in a tree.
    nested: Arc<Mutex<Nested>>,
}

#[derive(Debug, Default)]
struct Nested {
    /// By part and its own tag.
    tags: HashMap<(usize, u64), u64>,
    back: HashMap<u64, (usize, u64)>,
}

impl Numbers {
    /// Of these parts, and of all paths that lead to some.
    pub(super) fn new(parts: &[Part], leading: impl Iterator<Item = TreePath>) -> Self {
        let mut numbers = Self {
            tags: HashMap::new(),
            paths: HashMap::new(),
            parts: HashMap::new(),
            root: TreePath::root(),
            nested: Arc::default(),
        };
        let mut leading: Vec<TreePath> = leading.collect();
        leading.sort();
        for path in leading {
            let tag = numbers.free(hash(path.key()), &Nested::default());
            numbers.tags.insert(path.clone(), tag);
            numbers.paths.insert(tag, path);
        }
        for part in parts.iter().filter(|part| part.tagged) {
            if let Some(tag) = numbers.tags.get(&part.at) {
                numbers.parts.insert(*tag, part.index);
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

    /// The number that the tree shows for a number of a part.
    pub(super) fn shown(&self, part: &Part, ino: Ino) -> Ino {
        let (tag, low) = (ino.0 >> BITS, ino.0 & LOW);
        let own = if part.tagged { self.tags.get(&part.at).copied().unwrap_or(0) } else { 0 };
        if tag == 0 {
            return Ino(own << BITS | low);
        }
        let mut nested = self.nested();
        // all directories of the base have its numbers
        let key = (if part.tagged { part.index } else { 0 }, tag);
        if let Some(known) = nested.tags.get(&key) {
            return Ino(known << BITS | low);
        }
        let from = if part.tagged { hash(&format!("{own}/{tag}")) } else { tag };
        let new = self.free(from, &nested);
        nested.tags.insert(key, new);
        nested.back.insert(new, key);
        Ino(new << BITS | low)
    }

    /// The part that a number belongs to, and the number there.
    pub(super) fn node(&self, ino: Ino) -> Option<(usize, Ino)> {
        let (tag, low) = (ino.0 >> BITS, ino.0 & LOW);
        if tag == 0 {
            return Some((0, ino));
        }
        if let Some(part) = self.parts.get(&tag) {
            return Some((*part, Ino(low)));
        }
        let (part, tag) = *self.nested().back.get(&tag)?;
        Some((part, Ino(tag << BITS | low)))
    }

    /// The path whose number is the tree's own.
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

/// Where to look for a tag first.
fn hash(text: &str) -> u64 {
    let bytes = blake3::hash(text.as_bytes());
    u64::from_le_bytes(bytes.as_bytes()[..8].try_into().unwrap_or_default()) % TAGS
}
