//! Text and names from which a passage gains: the passages beside it, also in the next file, and the names of
//! its file.

use std::collections::HashMap;

use super::names::{Named, NamedFile, terms_of};
use super::numbers::NumberMap;
use super::passage::Passage;
use super::postings::JudgedFiles;
use crate::model::Ino;

/// Gain from the file before or after in the directory, if files are numbered, relative to that from the
/// passage before or after in the file. With 0, numbers do not count.
pub(super) const FILE_BESIDE: f64 = 1.0;
/// Weight of a term that neither a passage nor its neighbours contain, but the name of its file does. With 0,
/// no names count, nor do they for the meaning.
pub(super) const NAMED: f64 = 0.5;

/// Surroundings of some passages, which are numbered by their places.
#[derive(Debug, Default)]
pub(super) struct Around {
    /// Passages that follow each other.
    pub(super) pairs: Vec<Pair>,
    /// For each passage, the terms that the names of its file contain. Empty if names do not count.
    pub(super) named: Vec<NameTerms>,
}

/// Terms that the names of a file contain: one bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct NameTerms {
    /// Terms in its own name; in that of its directory if this names it.
    pub(super) own: u128,
    /// Terms in the name of the directory above.
    pub(super) directory: u128,
}

/// Two passages of which one follows the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    /// Place of the first one.
    pub(super) first: usize,
    /// Place of the one after it.
    pub(super) next: usize,
    /// True if the first one ends its file, and the other begins the next file of the directory.
    pub(super) crosses_files: bool,
}

impl Around {
    /// Returns the surroundings of `passages`. Only these count: the others contain no term, or too little to
    /// matter, and need not be read. `words` has the terms of each word of the question.
    pub(super) fn new<F: NamedFile>(
        passages: &[Passage],
        files: &JudgedFiles<F>,
        words: &HashMap<&str, u128>,
    ) -> Self {
        let named = if NAMED > 0.0 { named(passages, files, words) } else { Vec::new() };
        let mut pairs = pairs(passages);
        if FILE_BESIDE > 0.0 {
            pairs.extend(across_files(passages, files));
        }
        Self { pairs, named }
    }

    /// Returns true if the own name of a file contains a term.
    pub(super) fn has_names(&self) -> bool {
        self.named.iter().any(|terms| terms.own != 0)
    }
}

/// Returns the passages of a file that follow each other.
fn pairs(passages: &[Passage]) -> Vec<Pair> {
    let starts: HashMap<(Ino, u64), usize> =
        passages.iter().zip(0..).map(|(it, place)| ((it.ino, it.span.off), place)).collect();
    // Neighbours touch: the next passage begins where this one ends.
    let next = |it: &Passage| starts.get(&(it.ino, it.span.end())).copied();
    let places = passages.iter().enumerate();
    places.filter_map(|(first, it)| Some(Pair { first, next: next(it)?, crosses_files: false })).collect()
}

/// Returns the passages that end a file, each with the one that begins the next file of the directory. Such
/// files are often the turns of a conversation.
fn across_files<F: NamedFile>(passages: &[Passage], files: &JudgedFiles<F>) -> Vec<Pair> {
    let named = |it: &Passage| files.get(it.ino).and_then(NamedFile::named);
    let begin = passages.iter().enumerate().filter(|(_, it)| it.span.off == 0);
    let begin: HashMap<&str, usize> =
        begin.filter_map(|(place, it)| Some((named(it)?.key()?, place))).collect();
    let next = |it: &Passage| {
        let named = named(it).filter(|named| named.size == it.span.end())?;
        let after = named.key_after()?;
        begin.get(after.as_str()).copied()
    };
    let places = passages.iter().enumerate();
    places.filter_map(|(first, it)| Some(Pair { first, next: next(it)?, crosses_files: true })).collect()
}

/// Returns for each passage the terms that the names of its file contain.
fn named<F: NamedFile>(
    passages: &[Passage],
    files: &JudgedFiles<F>,
    words: &HashMap<&str, u128>,
) -> Vec<NameTerms> {
    // Many files share a directory.
    let mut known: HashMap<&str, u128> = HashMap::new();
    let mut of_files: NumberMap<Ino, NameTerms> = NumberMap::default();
    let mut all = Vec::with_capacity(passages.len());
    for it in passages {
        let ino = it.ino;
        let terms = *of_files.entry(ino).or_insert_with(|| {
            let names = files.get(ino).and_then(NamedFile::named).map_or_else(Vec::new, Named::names);
            let terms = |name| *known.entry(name).or_insert_with(|| terms_of(name, words));
            let mut terms = names.into_iter().map(terms);
            NameTerms { own: terms.next().unwrap_or(0), directory: terms.next().unwrap_or(0) }
        });
        all.push(terms);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::search::files::{FileNode, FoundFile};
    use crate::model::{Seq, Timestamp, VersionId};
    use crate::path::TreePath;
    use crate::rule::Naming;
    use crate::text::passage::{Form, Span};

    fn file(ino: u64, path: &str, size: u64) -> FoundFile {
        let version = VersionId { seq: Seq(1), ino: Ino(ino) };
        let node = FileNode { ino: Ino(ino), size, version, changed: Timestamp(0), attributes: 0 };
        let (path, naming) = (TreePath::parse(path).unwrap(), Naming { fixed: 1, by_directory: false });
        FoundFile { node, path, withholds: false, naming }
    }

    fn passage(ino: u64, off: u64, len: u64) -> Passage {
        let (span, form) = (Span { off, len, newline: false }, Form::Text);
        Passage { id: 1, ino: Ino(ino), span, line_feeds: 0, form, words: 10 }
    }

    fn around(files: &[FoundFile], passages: &[Passage], words: &HashMap<&str, u128>) -> Around {
        let mut judged = JudgedFiles::new(100);
        files.iter().for_each(|file| judged.insert(file.node.ino, Some(file.clone())));
        Around::new(passages, &judged, words)
    }

    #[test]
    fn end_of_file_meets_begin_of_next() {
        let files = [
            file(1, "/chat/1.md", 60),
            file(2, "/chat/2.md", 90),
            file(3, "/chat/3.md", 40),
            file(4, "/chat/5.md", 40),
            file(5, "/other/4.md", 40),
            // Its name is not shown.
            file(6, "/9.md", 40),
            file(7, "/10.md", 40),
        ];
        let spans = [(2, 50, 40), (1, 0, 60), (2, 0, 30), (2, 30, 20), (3, 0, 40), (4, 0, 40), (5, 0, 40)];
        let mut passages = spans.map(|(ino, off, len)| passage(ino, off, len)).to_vec();
        passages.extend([passage(6, 0, 40), passage(7, 0, 40)]);
        let mut found = around(&files, &passages, &HashMap::new()).pairs;
        found.sort_by_key(|pair| (pair.first, pair.next));
        let pair = |first, next, crosses_files| Pair { first, next, crosses_files };
        assert_eq!(found, [pair(0, 4, true), pair(1, 2, true), pair(2, 3, false), pair(3, 0, false)]);
    }

    #[test]
    fn all_passages_of_a_file_have_its_name() {
        let files = [file(1, "/users/plans/green-tea.md", 90), file(2, "/users/plans/x.md", 40)];
        let passages = [passage(1, 0, 60), passage(2, 0, 40), passage(1, 60, 30)];
        let words = HashMap::from([("plan", 1), ("tea", 2), ("user", 4), ("md", 8)]);
        let found = around(&files, &passages, &words);
        let [tea, other] = [2, 0].map(|own| NameTerms { own, directory: 1 });
        assert_eq!(found.named, [tea, other, tea]);
        assert!(found.has_names());
        assert!(!around(&files, &passages, &HashMap::from([("plan", 1), ("user", 4)])).has_names());
    }
}
