//! Difference between two packs, and its cost.

use std::collections::{HashMap, HashSet};

use schemars::JsonSchema;
use serde::Serialize;

use super::manifest::Item;
use super::packed::Packed;
use garth_engine::compute::working;

/// Difference between two packs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "PackDifference", deny_unknown_fields)]
#[non_exhaustive]
pub struct Difference {
    /// Items that only the second pack has.
    pub added: Vec<Item>,
    /// Items that only the first pack has.
    pub removed: Vec<Item>,
    /// Items that both have, with different content.
    pub changed: Vec<Changed>,
    /// Tokens of the first and the second pack.
    pub tokens: [u64; 2],
    /// Length in bytes of the common prefix of both, which the prompt cache of a model can reuse.
    pub common_bytes: u64,
    /// Bytes of the form `markdown` of the first and the second pack.
    pub bytes: [u64; 2],
}

/// Item that both packs have, with different content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "PackItemChange", deny_unknown_fields)]
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

#[cfg(test)]
mod tests {
    use serde_json::{json, to_value};

    use super::*;
    use garth_engine::model::{Ino, Seq, VersionId};

    #[test]
    fn difference_leaves_out_missing_fields_only() {
        let version = VersionId { seq: Seq(1), ino: Ino(2) };
        let few: Item = serde_json::from_value(json!({
            "kind": "todo", "source": "todo.md", "tokens": 2, "sha256": "a", "bytes": [0, 9],
        }))
        .unwrap();
        let text = |text: &str| Some(text.to_owned());
        let all = Item { range: text("1-2"), version: Some(version), entry: text("e"), ..few.clone() };
        let difference = Difference {
            added: vec![few.clone()],
            removed: vec![all.clone()],
            changed: vec![Changed { from: few.clone(), to: all.clone() }],
            tokens: [1, 2],
            common_bytes: 3,
            bytes: [4, 5],
        };
        let few = json!({
            "kind": "todo", "source": "todo.md", "tokens": 2, "sha256": "a", "bytes": [0, 9],
        });
        let mut all = few.clone();
        all["range"] = json!("1-2");
        all["version"] = json!(version.to_string());
        all["entry"] = json!("e");
        let expected = json!({
            "added": [few], "removed": [all], "changed": [{"from": few, "to": all}],
            "tokens": [1, 2], "common_bytes": 3, "bytes": [4, 5],
        });
        assert_eq!(to_value(&difference).unwrap(), expected);
    }
}
