//! Text and names from which a passage gains: the passages beside it, and the names of its file.

use std::collections::HashMap;

use super::names::{Named, NamedFile, terms_of};
use super::postings::JudgedFiles;
use super::score::{NAMED, Ranked};
use crate::model::Ino;

/// Surroundings of some passages, which are numbered by their places.
#[derive(Debug, Default)]
pub(super) struct Around {
    /// Passages that follow each other.
    pub(super) pairs: Vec<Pair>,
    /// For each passage, the terms that the names of its file contain: one bit for each. Empty if names do
    /// not count.
    pub(super) named: Vec<u128>,
}

/// Two passages of which one follows the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    /// Place of the first one.
    pub(super) first: usize,
    /// Place of the one after it.
    pub(super) next: usize,
}

impl Around {
    /// Returns the surroundings of `passages`. Only these count: the others contain no term, or too little to
    /// matter, and need not be read. `words` has the terms of each word of the question.
    pub(super) fn new<F: NamedFile>(
        passages: &[Ranked],
        files: &JudgedFiles<F>,
        words: &HashMap<&str, u128>,
    ) -> Self {
        let named = if NAMED > 0.0 { named(passages, files, words) } else { Vec::new() };
        Self { pairs: pairs(passages), named }
    }

    /// Returns true if the names of a file contain a term.
    pub(super) fn has_names(&self) -> bool {
        self.named.iter().any(|terms| *terms != 0)
    }
}

/// Returns the passages that follow each other.
fn pairs(passages: &[Ranked]) -> Vec<Pair> {
    let starts: HashMap<(Ino, u64), usize> =
        passages.iter().zip(0..).map(|(it, place)| ((it.passage.ino, it.passage.span.off), place)).collect();
    // Neighbours touch: the next passage begins where this one ends.
    let next = |it: &Ranked| starts.get(&(it.passage.ino, it.passage.span.end())).copied();
    let pairs = passages.iter().enumerate();
    pairs.filter_map(|(first, it)| Some(Pair { first, next: next(it)? })).collect()
}

/// Returns for each passage the terms that the names of its file contain.
fn named<F: NamedFile>(
    passages: &[Ranked],
    files: &JudgedFiles<F>,
    words: &HashMap<&str, u128>,
) -> Vec<u128> {
    // Many files share a directory.
    let mut known: HashMap<&str, u128> = HashMap::new();
    let mut of_files: HashMap<Ino, u128> = HashMap::new();
    let mut all = Vec::with_capacity(passages.len());
    for it in passages {
        let ino = it.passage.ino;
        let terms = *of_files.entry(ino).or_insert_with(|| {
            let names = files.get(ino).and_then(NamedFile::named).map_or_else(Vec::new, Named::names);
            let terms = |name| *known.entry(name).or_insert_with(|| terms_of(name, words));
            names.into_iter().map(terms).fold(0, |all, terms| all | terms)
        });
        all.push(terms);
    }
    all
}
