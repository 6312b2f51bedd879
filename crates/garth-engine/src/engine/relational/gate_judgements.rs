//! Judgements of the files of gates, shared by all handles of an account, readers and the writer.

use std::collections::HashMap;
use std::sync::Mutex;

use crate::model::Gate;
use crate::threads::lock::lock;

/// Limit on the judgements of a generation. Two generations are stored, of about 100 bytes an entry.
const GENERATION: usize = 8192;

/// Identity of a gate, as far as judgements of a file depend on it: a hash of projection and keys.
pub type GateId = [u8; 32];

/// Content that was judged: gate, inode of the file, and commit of its content.
pub type JudgedContent = (GateId, u64, u64);

/// Returns the identity of a gate.
pub fn id_of(gate: &Gate) -> GateId {
    let mut hash = blake3::Hasher::new();
    hash.update(&gate.projection.number().to_le_bytes());
    for key in &gate.keys {
        // Lengths, so that no two lists of keys are the same bytes.
        hash.update(&(key.len() as u64).to_le_bytes()).update(key.as_bytes());
    }
    hash.finalize().into()
}

/// Judgements of contents. The content of a commit never changes, so a judgement of it holds for good.
/// Content of a commit that may still be rolled back must not be added: its inode and commit are then used
/// again.
#[derive(Debug, Default)]
pub struct Judgements(Mutex<Generations>);

/// Judgements that were used after the last change of generations, and those that were used before.
#[derive(Debug, Default)]
struct Generations {
    young: HashMap<JudgedContent, bool>,
    old: HashMap<JudgedContent, bool>,
}

impl Judgements {
    /// Returns true for content that opens its gate, false for other content; `None` if that is unknown.
    pub fn get(&self, content: &JudgedContent) -> Option<bool> {
        let mut known = lock(&self.0);
        if let Some(is_open) = known.young.get(content) {
            return Some(*is_open);
        }
        let is_open = known.old.remove(content)?;
        known.put(*content, is_open);
        Some(is_open)
    }

    /// Adds a judgement.
    pub fn put(&self, content: JudgedContent, is_open: bool) {
        lock(&self.0).put(content, is_open);
    }
}

impl Generations {
    fn put(&mut self, content: JudgedContent, is_open: bool) {
        if self.young.len() >= GENERATION {
            // Judgements that nobody has asked for during a generation are dropped.
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(content, is_open);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Projection, Seq};
    use crate::path::{Name, TreePath};

    #[test]
    fn used_judgements_outlive_a_generation() {
        let (known, content) = (Judgements::default(), |n: usize| ([0; 32], n as u64, 1));
        for n in 0..10 * GENERATION {
            known.put(content(n), n % 2 == 0);
            assert_eq!(known.get(&content(0)), Some(true), "{n}");
        }
        assert_eq!(known.get(&content(1)), None);
        assert_eq!(known.get(&content(10 * GENERATION - 1)), Some(false));
        let known = lock(&known.0);
        assert!(known.young.len() <= GENERATION && known.old.len() <= GENERATION);
    }

    #[test]
    fn gates_with_other_keys_have_other_ids() {
        let id = |number, keys: &[&str]| {
            id_of(&Gate {
                dir: TreePath::root(),
                file: Name::parse("f").unwrap(),
                projection: Projection::new(number),
                keys: keys.iter().map(|key| (*key).to_owned()).collect(),
                since: Seq(0),
            })
        };
        let ids =
            [id(7, &["ab", "c"]), id(7, &["a", "bc"]), id(7, &["abc"]), id(8, &["ab", "c"]), id(7, &[])];
        for (at, one) in ids.iter().enumerate() {
            assert!(!ids[..at].contains(one), "{at}");
        }
    }
}
