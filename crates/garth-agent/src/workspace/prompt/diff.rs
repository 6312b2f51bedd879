//! Differences of two prompts.

use super::parts::{Part, Prompt};
use garth_engine::compute::working;

/// Differences of two prompts.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Difference {
    /// Parts that only the second has.
    pub added: Vec<Changed>,
    /// Parts that only the first has.
    pub removed: Vec<Changed>,
    /// Parts of both with different texts.
    pub changed: Vec<Changed>,
    /// Tokens of the first and the second.
    pub tokens: [u64; 2],
    /// Bytes of the first and the second.
    pub bytes: [u64; 2],
    /// Length of the common prefix in bytes, which a model's cache can reuse.
    pub common_bytes: u64,
}

/// Part that differs between two prompts.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Changed {
    /// Part of the first prompt; if it is missing there, with the reason.
    pub from: Part,
    /// Part of the second prompt.
    pub to: Part,
    /// Texts in the first and the second; empty where the part is missing.
    pub texts: [String; 2],
}

impl Prompt {
    /// Returns the text of a part of this prompt; empty if the part is missing.
    pub fn said(&self, part: &Part) -> &str {
        self.text.get(part.range.clone()).unwrap_or_default()
    }

    /// Returns the differences from an earlier prompt.
    pub fn since(&self, before: &Self) -> Difference {
        working(before.text.len() + self.text.len());
        let (mut added, mut removed, mut changed) = (Vec::new(), Vec::new(), Vec::new());
        let names = self.parts.iter().chain(&before.parts).map(|part| part.name);
        let mut seen = Vec::new();
        for name in names {
            if seen.contains(&name) {
                continue;
            }
            seen.push(name);
            let (from, to) = (before.part(name), self.part(name));
            let texts = [before.said(&from), self.said(&to)].map(str::to_owned);
            let list = match (from.included, to.included) {
                (false, true) => &mut added,
                (true, false) => &mut removed,
                (true, true) if texts[0] != texts[1] => &mut changed,
                _ => continue,
            };
            list.push(Changed { from, to, texts });
        }
        let pairs = self.text.bytes().zip(before.text.bytes());
        Difference {
            added,
            removed,
            changed,
            tokens: [before.tokens, self.tokens],
            bytes: [before.text.len() as u64, self.text.len() as u64],
            common_bytes: pairs.take_while(|(new, old)| new == old).count() as u64,
        }
    }

    /// Returns a part by its name, also one that this prompt does not list.
    fn part(&self, name: &'static str) -> Part {
        let found = self.parts.iter().find(|part| part.name == name).cloned();
        found.unwrap_or_else(|| Part::none(name, "no part of this prompt"))
    }
}
