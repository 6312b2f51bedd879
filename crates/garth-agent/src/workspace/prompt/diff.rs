//! What one prompt has and another has not.

use super::parts::{Part, Prompt};
use garth_engine::compute::working;

/// How two prompts differ.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Difference {
    /// Parts that came.
    pub appeared: Vec<Changed>,
    /// Parts that are not there any more.
    pub went: Vec<Changed>,
    /// Parts that are in both, and say something else.
    pub changed: Vec<Changed>,
    /// Tokens of the first and the second.
    pub tokens: [u64; 2],
    /// Bytes of the first and the second.
    pub bytes: [u64; 2],
    /// How many bytes both begin with: what a model's cache keeps.
    pub common_bytes: u64,
}

/// A part that is not the same in two prompts.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Changed {
    /// As it is in the first, also where it only says why it is not there.
    pub from: Part,
    /// As it is in the second.
    pub to: Part,
    /// What it says in the first and the second; nothing where it is not there.
    pub texts: [String; 2],
}

impl Prompt {
    /// What a part of this prompt says; nothing if it is not there.
    pub fn said(&self, part: &Part) -> &str {
        self.text.get(part.range.clone()).unwrap_or_default()
    }

    /// What this has that a prompt before it has not, and the other way round.
    pub fn since(&self, before: &Self) -> Difference {
        working(before.text.len() + self.text.len());
        let (mut appeared, mut went, mut changed) = (Vec::new(), Vec::new(), Vec::new());
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
                (false, true) => &mut appeared,
                (true, false) => &mut went,
                (true, true) if texts[0] != texts[1] => &mut changed,
                _ => continue,
            };
            list.push(Changed { from, to, texts });
        }
        let pairs = self.text.bytes().zip(before.text.bytes());
        Difference {
            appeared,
            went,
            changed,
            tokens: [before.tokens, self.tokens],
            bytes: [before.text.len() as u64, self.text.len() as u64],
            common_bytes: pairs.take_while(|(new, old)| new == old).count() as u64,
        }
    }

    /// A part, also one that this prompt knows nothing of.
    fn part(&self, name: &'static str) -> Part {
        let found = self.parts.iter().find(|part| part.name == name).cloned();
        found.unwrap_or_else(|| Part::none(name, "no part of this prompt"))
    }
}
