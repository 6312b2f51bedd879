//! Difference between two packs, and its cost.

use super::manifest::Item;
use super::packed::Packed;

/// Difference between two packs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// Items that only the second pack has.
    pub entered: Vec<Item>,
    /// Items that only the first pack has.
    pub left: Vec<Item>,
    /// Items that both have, with different content.
    pub changed: Vec<Changed>,
    /// Tokens of the first and the second.
    pub tokens: [u64; 2],
    /// Length of the common prefix in bytes: what the prompt cache of a model can reuse.
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
        let (old, new) = (&before.pack.items, &self.pack.items);
        // lines before the window and the window are two parts of one source
        let key = |items: &[Item], at: usize| {
            let item = &items[at];
            let same = items[..at].iter().filter(|other| is_of(other, item)).count();
            let all = items.iter().filter(|other| is_of(other, item)).count();
            (item.kind.clone(), item.source.clone(), all - same)
        };
        let keyed = |items: &[Item]| {
            let keys = (0..items.len()).map(|at| (key(items, at), items[at].clone()));
            keys.collect::<Vec<_>>()
        };
        let (old, new) = (keyed(old), keyed(new));
        let (mut entered, mut changed) = (Vec::new(), Vec::new());
        for (key, to) in &new {
            match old.iter().find(|(other, _)| other == key) {
                None => entered.push(to.clone()),
                Some((_, from)) if from.sha256 != to.sha256 || from.tokens != to.tokens => {
                    changed.push(Changed { from: from.clone(), to: to.clone() });
                }
                Some(_) => {}
            }
        }
        let is_gone = |key: &(String, String, usize)| !new.iter().any(|(other, _)| other == key);
        let left = old.iter().filter(|(key, _)| is_gone(key)).map(|(_, item)| item.clone()).collect();
        let pairs = self.markdown.bytes().zip(before.markdown.bytes());
        Difference {
            entered,
            left,
            changed,
            tokens: [before.pack.tokens, self.pack.tokens],
            common_bytes: pairs.take_while(|(new, old)| new == old).count() as u64,
            bytes: [before.markdown.len() as u64, self.markdown.len() as u64],
        }
    }
}

fn is_of(one: &Item, other: &Item) -> bool {
    one.kind == other.kind && one.source == other.source
}
