//! Difference between two packs, and its cost.

use std::collections::{HashMap, HashSet};

use super::manifest::Item;
use super::packed::Packed;
use garth_engine::compute::working;

/// Difference between two packs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// Items that only the second pack has.
    pub added: Vec<Item>,
    /// Items that only the first pack has.
    pub removed: Vec<Item>,
    /// Items that both have, with different content.
    pub changed: Vec<Changed>,
    /// Tokens of the first and the second.
    pub tokens: [u64; 2],
    /// Length of the common prefix in bytes, which the prompt cache of a model can reuse.
    pub common_bytes: u64,
    /// Bytes of the first and the second.
    pub bytes: [u64; 2],
}

/// An item that both packs have, with different content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The item in the first pack.
    pub from: Item,
    /// The item in the second pack.
    pub to: Item,
}

impl Packed {
    /// Returns the difference to an earlier pack.
    pub fn since(&self, before: &Self) -> Difference {
        working(before.markdown.len() + self.markdown.len());
        let (old, new) = (keyed(&before.pack.items), keyed(&self.pack.items));
        let were: HashMap<Key<'_>, &Item> = old.iter().copied().collect();
        let are: HashSet<Key<'_>> = new.iter().map(|(key, _)| *key).collect();
        let (mut added, mut changed) = (Vec::new(), Vec::new());
        for (key, to) in new {
            match were.get(&key) {
                None => added.push(to.clone()),
                Some(from) if from.sha256 != to.sha256 || from.tokens != to.tokens => {
                    changed.push(Changed { from: (*from).clone(), to: to.clone() });
                }
                Some(_) => {}
            }
        }
        let removed = old.into_iter().filter(|(key, _)| !are.contains(key)).map(|(_, item)| item.clone());
        let removed = removed.collect();
        let pairs = self.markdown.bytes().zip(before.markdown.bytes());
        Difference {
            added,
            removed,
            changed,
            tokens: [before.pack.tokens, self.pack.tokens],
            common_bytes: pairs.take_while(|(new, old)| new == old).count() as u64,
            bytes: [before.markdown.len() as u64, self.markdown.len() as u64],
        }
    }
}

/// Kind and source of an item, and how many of both follow it: lines before the window and the window are two
/// parts of one source.
type Key<'a> = (&'a str, &'a str, usize);

/// Returns items by their keys.
fn keyed(items: &[Item]) -> Vec<(Key<'_>, &Item)> {
    let mut follow: HashMap<(&str, &str), usize> = HashMap::new();
    let mut keyed = Vec::with_capacity(items.len());
    // Counted from the end: lines before the window can be new in the second pack, the window itself is last.
    for item in items.iter().rev() {
        let of_both = follow.entry((&*item.kind, &*item.source)).or_default();
        keyed.push(((&*item.kind, &*item.source, *of_both), item));
        *of_both += 1;
    }
    keyed.reverse();
    keyed
}
