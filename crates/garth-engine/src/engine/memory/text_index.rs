//! Index of the words of all files, for search. It is brought up to date by the search that needs it: only
//! files that have changed since the last one are read.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::ops::Range;

use super::content::Content;
use crate::engine::search::indexing::{FileText, Region, describe, each_passage};
use crate::engine::search::local::{Lookups, Step};
use crate::engine::search::{ENDINGS, Passage, Totals, WordForm};
use crate::error::{Error, Result};
use crate::model::{Ino, Seq, VersionId};
use crate::text::passage::{Form, MAX_TEXT, SNIFF, Span, is_text, lines};
use crate::text::question::Term;
use crate::text::token::{Tokenizer, is_level};

/// Passages of all searchable files in the newest state, and the words in them.
#[derive(Default)]
pub(super) struct TextIndex {
    tokenizer: Tokenizer,
    /// Passages that contain each word.
    words: BTreeMap<String, BTreeSet<i64>>,
    passages: BTreeMap<i64, IndexedPassage>,
    /// Version of each indexed file, and its passages in their order.
    files: BTreeMap<Ino, (VersionId, Vec<i64>)>,
    /// Number of the newest passage, which may have been removed.
    last: i64,
    /// Commit up to which files are indexed.
    seq: Option<Seq>,
}

struct IndexedPassage {
    passage: Passage,
    /// Number of line feeds before it in the file.
    before: u64,
    words: Vec<String>,
}

/// File that search may see.
#[derive(Clone, Copy)]
pub(super) struct SearchableFile<'a> {
    pub(super) ino: Ino,
    pub(super) version: VersionId,
    pub(super) content_type: Option<&'a str>,
    pub(super) content: &'a Content,
}

impl TextIndex {
    /// Returns true if the files are indexed as of a commit.
    pub(super) fn is_at(&self, seq: Seq) -> bool {
        self.seq == Some(seq)
    }

    /// Indexes the files as of a commit: those whose version is not indexed yet.
    pub(super) fn update(&mut self, seq: Seq, files: &BTreeMap<Ino, SearchableFile<'_>>) {
        let is_current = |(ino, (version, _)): &(&Ino, &(VersionId, Vec<i64>))| {
            files.get(ino).is_some_and(|file| file.version == *version)
        };
        let old = self.files.iter().filter(|known| !is_current(known)).map(|(ino, _)| *ino);
        for ino in old.collect::<Vec<_>>() {
            self.remove(ino);
        }
        let new = files.values().filter(|file| !self.files.contains_key(&file.ino));
        let mut new: Vec<&SearchableFile<'_>> = new.collect();
        // The newest text gets the highest numbers.
        new.sort_by_key(|file| (file.version.seq, file.ino));
        for file in new {
            self.add(file);
        }
        self.seq = Some(seq);
    }

    fn remove(&mut self, ino: Ino) {
        let Some((_, ids)) = self.files.remove(&ino) else { return };
        for id in ids {
            let Some(indexed) = self.passages.remove(&id) else { continue };
            for word in indexed.words {
                if let Some(passages) = self.words.get_mut(&word) {
                    passages.remove(&id);
                    if passages.is_empty() {
                        self.words.remove(&word);
                    }
                }
            }
        }
    }

    fn add(&mut self, file: &SearchableFile<'_>) {
        let (mut ids, mut before) = (Vec::new(), 0);
        for (passage, text) in passages_of(file) {
            self.last += 1;
            let (id, (words, count)) = (self.last, self.tokenizer.tokens(&text));
            let passage = Passage { id, words: count, ..passage };
            let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
            for word in &words {
                self.words.entry(word.clone()).or_default().insert(id);
            }
            self.passages.insert(id, IndexedPassage { passage, before, words });
            before += passage.line_feeds;
            ids.push(id);
        }
        self.files.insert(file.ino, (file.version, ids));
    }

    /// Returns the lines of a passage in its file.
    pub(super) fn lines(&self, passage: &Passage) -> Range<u64> {
        let before = self.passages.get(&passage.id).map_or(0, |indexed| indexed.before);
        lines(before, passage.line_feeds, passage.span.newline)
    }

    fn having(&self, form: &WordForm) -> Option<&BTreeSet<i64>> {
        self.words.get(&form.word)
    }

    /// Returns all passages of some files, newest first.
    fn all_of(&self, inos: &[u64]) -> Vec<i64> {
        let files = inos.iter().filter_map(|ino| self.files.get(&Ino(*ino)));
        let mut ids: Vec<i64> = files.flat_map(|(_, ids)| ids.iter().copied()).collect();
        ids.sort_unstable_by(|a, b| b.cmp(a));
        ids
    }
}

/// Returns the passages of a file without their numbers and counts, and the text by which each is found.
fn passages_of(file: &SearchableFile<'_>) -> Vec<(Passage, String)> {
    let size = file.content.size().min(MAX_TEXT);
    let prefix = file.content.read(0, size.min(SNIFF) as usize);
    if size == 0 || !is_text(&prefix, file.content_type) {
        return Vec::new();
    }
    let (form, mut found) = (Form::of(&prefix), Vec::new());
    let region = Region { bytes: 0..size, form, open: false, size };
    let Ok(_) = each_passage(&mut NodeText(file.content), &region, &mut |cut| {
        let (line_feeds, newline) = describe(cut.bytes);
        let span = Span { off: cut.off, len: cut.bytes.len() as u64, newline };
        found.push((Passage { id: 0, ino: file.ino, span, line_feeds, form, words: 0 }, cut.text));
        Ok(())
    });
    found
}

/// Content whose passages are indexed from its start to its end.
struct NodeText<'a>(&'a Content);

impl FileText for NodeText<'_> {
    type Error = Infallible;

    fn read(&mut self, bytes: Range<u64>) -> Result<Vec<u8>, Infallible> {
        let length = bytes.end.min(self.0.size()).saturating_sub(bytes.start);
        Ok(self.0.read(bytes.start, usize::try_from(length).unwrap_or(usize::MAX)).to_vec())
    }

    fn begins_line(&mut self, off: u64) -> Result<bool, Infallible> {
        Ok(off > 0 && self.0.read(off - 1, 1) == b"\n"[..])
    }
}

impl Lookups for TextIndex {
    type Error = Error;

    fn totals(&self) -> Totals {
        let newest = self.passages.last_key_value().map_or(0, |(id, _)| *id);
        Totals { passages: self.passages.len() as u64, newest }
    }

    fn newest(&self, form: &WordForm, most: usize, _step: Step<'_, Error>) -> Result<Vec<i64>> {
        Ok(self.having(form).into_iter().flatten().rev().copied().take(most).collect())
    }

    fn few_with(&self, form: &WordForm, most: usize, step: Step<'_, Error>) -> Result<Option<Vec<i64>>> {
        let ids = self.newest(form, most, step)?;
        Ok((ids.len() < most).then_some(ids))
    }

    fn among(&self, form: &WordForm, ids: &[i64], _step: Step<'_, Error>) -> Result<Vec<i64>> {
        let Some(having) = self.having(form) else { return Ok(Vec::new()) };
        Ok(ids.iter().copied().filter(|id| having.contains(id)).collect())
    }

    fn beside(&self, form: &WordForm, rare: &[&WordForm], _step: Step<'_, Error>) -> Result<Vec<i64>> {
        let Some(having) = self.having(form) else { return Ok(Vec::new()) };
        let rare: BTreeSet<i64> =
            rare.iter().filter_map(|rare| self.having(rare)).flatten().copied().collect();
        Ok(rare.into_iter().filter(|id| having.contains(id)).collect())
    }

    fn few(&self, most: usize, _step: Step<'_, Error>) -> Result<Option<Vec<i64>>> {
        let is_few = self.passages.len() <= most;
        Ok(is_few.then(|| self.passages.keys().rev().copied().collect()))
    }

    fn few_passages_of(&self, inos: &[u64], most: usize, _step: Step<'_, Error>) -> Result<Option<Vec<i64>>> {
        let ids = self.all_of(inos);
        Ok((ids.len() <= most).then_some(ids))
    }

    fn passages_of(&self, inos: &[u64], most: usize, _step: Step<'_, Error>) -> Result<(Vec<i64>, bool)> {
        let mut ids = self.all_of(inos);
        let whole = ids.len() <= most;
        ids.truncate(most);
        Ok((ids, whole))
    }

    fn passages(&self, ids: &[i64], _step: Step<'_, Error>) -> Result<Vec<Passage>> {
        Ok(ids.iter().filter_map(|id| self.passages.get(id)).map(|indexed| indexed.passage).collect())
    }

    fn beginnings(&self, term: &Term) -> Result<Vec<WordForm>> {
        let words = self.words.range(term.token.clone()..).map(|(word, _)| word);
        let words = words.take_while(|word| word.starts_with(&term.token)).take(ENDINGS);
        Ok(words.filter(|word| !is_level(word)).cloned().map(WordForm::plain).collect())
    }
}
