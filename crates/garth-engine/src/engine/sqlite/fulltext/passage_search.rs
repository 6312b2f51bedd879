//! Search in the index: finds the passages that contain the words of a question, and ranks them.
//!
//! A word that few passages contain is looked up completely; of a word that more passages contain than one
//! search can examine, the newest ones are. If the question has a rarer word as well, only passages with
//! that are candidates, and the frequent word is looked up among them. A search therefore reads a bounded
//! number of rows, whatever the account holds.

use std::collections::HashMap;

use rusqlite::Connection;

use crate::engine::sqlite::fulltext::judge::{Judge, Shown};
use crate::engine::sqlite::fulltext::passages::{COLUMNS, Passage, passage};
use crate::engine::sqlite::fulltext::postings::{Form, Index, Matches, ROWS};
use crate::engine::sqlite::fulltext::ranking::{
    Candidate, NearWord, Ranked, add_cosines, add_neighbour_scores, near_words, saturated,
};
use crate::model::Ino;
use crate::sqlite::{DbResult, one};
use crate::text::meaning::tokens;
use crate::text::question::Question;
use crate::text::token::{of_word, words};

/// Rows of a word that are read to find out whether it is rare. In a question with a rare word, no more
/// rows of a frequent one are read.
const PROBE: usize = 4_096;
/// Rows that a quick search reads, approximately.
const QUICK_ROWS: usize = 384;
/// Words that a quick search looks up: the longest, which are seldom frequent. Each costs as much as a
/// hundred rows.
const QUICK_WORDS: usize = 6;
/// Names of a subtree that may be examined to search it instead of the matches.
const NAMES: usize = 20_000;
/// Up to this number, matches are always examined one by one, whatever the size of the subtree.
const FEW: usize = 256;
/// Candidates whose length is read and compared at a time.
const CHUNK: usize = 1_024;
/// Most files of a search that are judged.
pub(crate) const JUDGED: usize = 10_000;
/// Rows of words near in meaning that one search reads, approximately, and the least of each.
const NEAR_ROWS: usize = 16_384;
const NEAR_LEAST: usize = 64;
/// Weight of a word near in meaning, relative to one of the question with the same meaning.
const NEAR: f64 = 0.3;
/// Passages whose text is compared with the question.
const COMPARED: usize = 100;
/// If the query can reach no more passages than this, all of them are compared, whatever words they have.
const SCANNED: usize = 256;
/// Minimum number of words of a question for its meaning to count. One or two are a name or a key that
/// somebody looks up, and say too little of what is meant.
const SENTENCE: usize = 3;
/// Weight of a word that was found by its beginning alone.
const BY_BEGINNING: f64 = 0.5;
/// Hits with a smaller score are left out: a long question shares some word with any text by chance.
pub(crate) const MIN_SCORE: f64 = 0.05;

/// Parameters of a search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SearchParams<'a> {
    /// Question as asked.
    pub(crate) text: &'a str,
    /// Most passages in all.
    pub(crate) limit: usize,
    /// Most passages of one file.
    pub(crate) per_file: usize,
    /// True if a passage gains from its neighbours.
    pub(crate) neighbours: bool,
    /// True if texts in other words count.
    pub(crate) meaning: bool,
    /// True to read only a few rows.
    pub(crate) quick: bool,
}

/// One of the best passages of a file for a question, with the result of [`Judge::allow`].
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PassageHit<T> {
    pub(crate) passage: Passage,
    /// Share of the question's weight that it matches, 0 to 1.
    pub(crate) words: f64,
    /// Score that it gains from its neighbours; with `words` at most 1.
    pub(crate) neighbours: f64,
    /// Score for its meaning; with the others at most 1.
    pub(crate) meaning: f64,
    /// Result of `allow`.
    pub(crate) file: T,
}

/// Result of a search, best first.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer<T> {
    pub(crate) found: Vec<PassageHit<T>>,
    /// True if there may be more: the limit was reached, or not all matches could be examined.
    pub(crate) more: bool,
}

/// Returns the best passages for `question`, best first. If the words of the question match no allowed
/// passage, words that begin like them are tried.
///
/// # Errors
/// Errors of SQLite or the judge. No question is an error.
pub(crate) fn search<J: Judge>(
    conn: &Connection,
    question: &Question,
    asked: SearchParams<'_>,
    judge: &mut J,
) -> DbResult<Answer<J::File>> {
    let index = Index::new(conn)?;
    let is_sentence = words(asked.text).take(SENTENCE).count() == SENTENCE;
    let asked = SearchParams { meaning: asked.meaning && is_sentence, ..asked };
    let mut wanted: Vec<Vec<Form>> = question.terms().iter().map(|term| index.exactly(term)).collect();
    if asked.quick {
        // The first form of a term is the plain word.
        wanted.sort_by_key(|forms| {
            std::cmp::Reverse(forms.first().map_or(0, |form| form.word.chars().count()))
        });
        wanted.truncate(QUICK_WORDS);
        wanted.iter_mut().for_each(|forms| forms.retain(Form::is_plain));
    }
    let near = if asked.meaning { near_words(question) } else { Vec::new() };
    let falls_back = !asked.quick;
    if let Some(answer) = Search::new(&index, wanted, &near, judge, asked)?.run(1.0, falls_back, asked)? {
        return Ok(answer);
    }
    let mut wanted = Vec::new();
    for term in question.terms() {
        wanted.push(index.by_beginning(term)?);
    }
    let answer = Search::new(&index, wanted, &near, judge, asked)?.run(BY_BEGINNING, false, asked)?;
    Ok(answer.unwrap_or(Answer { found: Vec::new(), more: false }))
}

/// A term in one round of a search.
struct TermMatches {
    /// Ways in which a passage may contain it.
    forms: Vec<Form>,
    matches: Matches,
    /// Part of its weight that counts: less than 1 for a word that is only near in meaning to one of the
    /// question.
    share: f64,
    /// Inverse document frequency, times the share.
    weight: f64,
}

/// One round of a search.
struct Search<'a, J: Judge> {
    index: &'a Index<'a>,
    judge: &'a mut J,
    wanted: Vec<TermMatches>,
    /// Words near in meaning to those of the question.
    near: Vec<TermMatches>,
    /// All passages that the query can reach, newest first, if they are known.
    reach: Option<Vec<i64>>,
    /// True if all of these are candidates, whatever words they have.
    compares_all: bool,
    /// Files that were judged; with the number of passages that may still be returned if they are allowed.
    files: HashMap<Ino, Option<(J::File, usize)>>,
    /// True if some matches are not examined.
    partial: bool,
}

impl<'a, J: Judge> Search<'a, J> {
    fn new(
        index: &'a Index<'a>,
        terms: Vec<Vec<Form>>,
        near: &[NearWord],
        judge: &'a mut J,
        asked: SearchParams<'_>,
    ) -> DbResult<Self> {
        // All words share the rows that one search may read.
        let each = |rows: usize| rows / terms.len().max(1);
        let most = if asked.quick { each(QUICK_ROWS).max(1) } else { each(ROWS).max(FEW) };
        // A question of one word has no rarer one, so there is no need to find out.
        let first = if terms.len() > 1 { most.min(PROBE) } else { most };
        let mut matches = Vec::new();
        for forms in &terms {
            matches.push(index.newest(forms, first, judge)?);
        }
        // Without a rare word the candidates are the newest matches of all words, so more of them are read.
        if most > first && !matches.iter().any(Matches::are_rare) {
            for (forms, matches) in terms.iter().zip(&mut matches).filter(|(_, matches)| !matches.complete) {
                *matches = index.newest(forms, most, judge)?;
            }
        }
        let wanted = terms.into_iter().zip(matches);
        let wanted = wanted.map(|(forms, matches)| TermMatches { forms, matches, share: 1.0, weight: 0.0 });
        let mut search = Self {
            index,
            judge,
            wanted: wanted.collect(),
            near: Vec::new(),
            reach: None,
            compares_all: false,
            files: HashMap::new(),
            partial: false,
        };
        if asked.meaning {
            search.find_scope()?;
        }
        search.look_for_near_words(near)?;
        Ok(search)
    }

    /// Looks for words near in meaning. One that many passages contain would bring too many candidates.
    fn look_for_near_words(&mut self, near: &[NearWord]) -> DbResult<()> {
        let most = (NEAR_ROWS / near.len().max(1)).max(NEAR_LEAST);
        for NearWord { token, cosine } in near {
            let forms = vec![Form::plain(token.clone())];
            let matches = match &self.reach {
                Some(ids) => {
                    let rows = self.index.among(&forms.iter().collect::<Vec<_>>(), ids, self.judge)?;
                    Matches { passages: rows.len() as f64, complete: true, rows }
                }
                None => self.index.newest(&forms, most, self.judge)?,
            };
            if matches.complete && !matches.rows.is_empty() {
                self.near.push(TermMatches { forms, matches, share: NEAR * cosine, weight: 0.0 });
            }
        }
        Ok(())
    }

    /// Returns the best passages, where each term counts `by` of its weight. With `falls_back`, returns
    /// `None` if none of them has a word of the question.
    fn run(
        mut self,
        by: f64,
        falls_back: bool,
        asked: SearchParams<'_>,
    ) -> DbResult<Option<Answer<J::File>>> {
        let any_rare = self.wanted.iter().any(|term| term.matches.are_rare());
        // Before the frequent words: it makes some of them complete.
        if !asked.quick {
            self.look_in_subtree(any_rare)?;
        }
        if any_rare {
            self.look_among_rare_matches()?;
        }
        if let Some(ids) = &self.reach {
            for term in &mut self.near {
                term.matches.keep(ids);
            }
        }
        self.partial |= self.wanted.iter().any(|term| !term.matches.complete);
        self.weigh(&[], by);
        let mut rest = self.candidates();
        let mut found = Vec::new();
        let (mut is_first, mut withheld) = (true, 0);
        // In chunks, best first: mostly the first one fills the page, and the rest is never read.
        while !rest.is_empty() {
            let mut best = self.judged(&mut rest, &mut withheld, asked.per_file)?;
            let is_first = std::mem::take(&mut is_first);
            if is_first {
                self.weigh(&best.hidden, by);
            }
            self.rank(&mut best.shown, asked.neighbours);
            let has_words = best.shown.iter().any(|it| it.words > 0.0) || rest.iter().any(|it| it.terms != 0);
            if falls_back && is_first && !best.is_limited && !has_words {
                return Ok(None);
            }
            let total = self.wanted.iter().map(|term| term.weight).sum::<f64>() / by;
            let mut ranked = best.shown;
            ranked.sort_unstable_by(|a, b| b.order(a));
            ranked.iter_mut().for_each(|it| it.settle(total));
            if asked.meaning && is_first {
                self.compare(&mut ranked, asked)?;
                ranked.sort_unstable_by(|a, b| b.order(a));
            }
            for it in ranked {
                let (words, neighbours, meaning) = it.parts();
                if words + neighbours + meaning < MIN_SCORE {
                    continue;
                }
                if found.len() == asked.limit {
                    return Ok(Some(Answer { found, more: true }));
                }
                if let Some(Some((file, wanted @ 1..))) = self.files.get_mut(&it.passage.ino) {
                    *wanted -= 1;
                    let file = file.clone();
                    found.push(PassageHit { passage: it.passage, words, neighbours, meaning, file });
                }
            }
            if best.is_limited {
                return Ok(Some(Answer { found, more: true }));
            }
        }
        match falls_back && found.is_empty() && !self.partial {
            true => Ok(None),
            false => Ok(Some(Answer { found, more: self.partial })),
        }
    }

    /// Finds the passages that the query can reach. If they are few, makes them the only candidates, and
    /// limits all matches to them.
    fn find_scope(&mut self) -> DbResult<()> {
        let ids = match self.judge.below(4 * SCANNED)? {
            Some((inos, true)) => self.index.few_passages_of(&inos, SCANNED, self.judge)?,
            Some((_, false)) => return Ok(()),
            None => self.index.few(SCANNED, self.judge)?,
        };
        let Some(ids) = ids else { return Ok(()) };
        for term in &mut self.wanted {
            if term.matches.complete {
                term.matches.keep(&ids);
            } else {
                let forms: Vec<&Form> = term.forms.iter().collect();
                term.matches.rows = self.index.among(&forms, &ids, self.judge)?;
                term.matches.complete = true;
            }
            // Counts those of the scope. The number of all passages stays that of the account.
            term.matches.passages = term.matches.rows.len() as f64;
        }
        self.reach = Some(ids);
        self.compares_all = true;
        Ok(())
    }

    /// Computes the weights of all words, where those of the question count `by`. `hidden` has the passages
    /// that may not be shown, which do not count: otherwise scores would tell of them.
    fn weigh(&mut self, hidden: &[Hidden], by: f64) {
        let hidden: HashMap<i64, u128> = hidden.iter().map(|it| (it.id, it.terms)).collect();
        let (passages, words) = (self.index.passages, self.wanted.len());
        for (place, term) in self.wanted.iter_mut().chain(&mut self.near).enumerate() {
            let mut shown = term.matches.passages;
            if !hidden.is_empty() {
                let is_hidden = |(id, _): &&(i64, f64)| {
                    hidden.get(id).is_some_and(|terms| place >= words || terms >> place & 1 == 0)
                };
                shown -= term.matches.rows.iter().filter(is_hidden).count() as f64;
            }
            let share = if place < words { 1.0 } else { term.share / by };
            term.weight = (1.0 + passages / shown.max(0.5)).ln() * share;
        }
    }

    /// In a query limited to subtrees, uses the nodes of the subtrees if they are fewer than the matches,
    /// or if not all matches can be examined. Then only passages of the subtrees count as matches.
    fn look_in_subtree(&mut self, any_rare: bool) -> DbResult<()> {
        let rare =
            self.wanted.iter().filter(|term| term.matches.are_rare()).map(|term| term.matches.rows.len());
        let few = if any_rare { rare.sum() } else { NAMES };
        let is_known = self.reach.is_some() || self.wanted.iter().all(|term| term.matches.rows.is_empty());
        if few < FEW || is_known {
            return Ok(());
        }
        let Some((inos, all)) = self.judge.below(few.min(NAMES))? else { return Ok(()) };
        if !all && any_rare {
            return Ok(());
        }
        let (ids, whole) = self.index.passages_of(&inos, NAMES / self.wanted.len(), self.judge)?;
        for term in &mut self.wanted {
            if term.matches.complete {
                // All passages of the subtree are known: matches outside need not be judged one by one.
                let inside = |id: &i64| ids.binary_search_by(|it| id.cmp(it)).is_ok();
                term.matches.rows.retain(|(id, _)| !all || !whole || inside(id));
                continue;
            }
            // The frequency is looked up only where it costs little.
            let counted = ids.len() < FEW;
            let forms: Vec<&Form> = term.forms.iter().filter(|form| counted || form.is_plain()).collect();
            let rows = self.index.among(&forms, &ids, self.judge)?;
            if all {
                term.matches.rows = rows;
                term.matches.complete = true;
            } else {
                // Both are large: uses the newest matches, and those in a part of the subtree.
                term.matches.rows.extend(rows);
                term.matches.settle();
            }
        }
        self.partial |= !whole;
        if all && whole {
            self.reach = Some(ids);
        }
        Ok(())
    }

    /// If the question has a rare term, looks for the frequent ones only in its passages.
    fn look_among_rare_matches(&mut self) -> DbResult<()> {
        let (rare, frequent): (Vec<_>, Vec<_>) =
            self.wanted.iter_mut().partition(|term| term.matches.complete);
        let rare = rare.iter().filter(|term| term.matches.are_rare()).flat_map(|term| &term.forms);
        let rare: Vec<&Form> = rare.filter(|form| form.is_plain()).collect();
        for term in frequent {
            term.matches.rows = self.index.beside(&term.forms, &rare, self.judge)?;
            term.matches.complete = true;
        }
        Ok(())
    }

    /// Returns all passages that contain a term, in no order.
    fn candidates(&self) -> Vec<Candidate> {
        let mut candidates: HashMap<i64, Candidate> = HashMap::new();
        for (place, term) in self.wanted.iter().chain(&self.near).enumerate() {
            for (id, often) in &term.matches.rows {
                let candidate = candidates.entry(*id).or_insert_with(|| Candidate::new(*id));
                if place < self.wanted.len() {
                    candidate.terms |= 1 << place;
                }
                candidate.rank += term.weight * saturated(*often, 1.0);
            }
        }
        // Those with some everyday word of a long question.
        let total: f64 = self.wanted.iter().map(|term| term.weight).sum();
        candidates.retain(|_, candidate| candidate.rank / total >= MIN_SCORE);
        for id in self.reach.iter().flatten().filter(|_| self.compares_all) {
            candidates.entry(*id).or_insert_with(|| Candidate::new(*id));
        }
        candidates.into_values().collect()
    }

    /// Takes the best of `rest` and returns those that may be shown. `withheld` counts passages without any
    /// line that may be shown.
    fn judged(
        &mut self,
        rest: &mut Vec<Candidate>,
        withheld: &mut usize,
        per_file: usize,
    ) -> DbResult<Judged> {
        let from = rest.len().saturating_sub(CHUNK);
        if from > 0 {
            rest.select_nth_unstable_by(from, Candidate::order);
        }
        let sql = format!("SELECT {COLUMNS} FROM passage WHERE id = ?1");
        let mut judged = Judged::default();
        let mut best: Vec<Candidate> = rest.drain(from..).collect();
        best.sort_unstable_by(|a, b| b.order(a));
        for Candidate { id, terms, .. } in best {
            self.judge.step()?;
            // A row of the index of format 2 may belong to a passage that was deleted.
            let Some(passage) = one(self.index.conn, &sql, [id], passage)? else { continue };
            if !self.files.contains_key(&passage.ino) {
                if self.files.len() == JUDGED {
                    judged.is_limited = true;
                    break;
                }
                let file = self.judge.allow(passage.ino)?;
                self.files.insert(passage.ino, file.map(|file| (file, per_file)));
            }
            let shown = match &self.files[&passage.ino] {
                Some((file, _)) => self.judge.shows(file, &passage)?,
                None => Shown::Nothing,
            };
            match shown {
                Shown::All => judged.shown.push(Ranked::new(passage, terms)),
                Shown::Part(text) => {
                    let terms = self.terms_in(&text) & terms;
                    // Its withheld lines must not make it a candidate.
                    if terms != 0 || self.compares_all {
                        judged.shown.push(Ranked::of_part(passage, terms, words(&text).count()));
                    }
                    judged.hidden.push(Hidden { id, terms });
                }
                Shown::Nothing => {
                    judged.hidden.push(Hidden { id, terms: 0 });
                    // Without this bound a search over withheld lines alone would read all matches.
                    *withheld += usize::from(self.files[&passage.ino].is_some());
                    if *withheld == JUDGED {
                        judged.is_limited = true;
                        break;
                    }
                }
            }
        }
        Ok(judged)
    }

    /// Returns the terms that a text has: one bit for each.
    fn terms_in(&self, text: &str) -> u128 {
        let mut known = HashMap::new();
        for (place, term) in self.wanted.iter().enumerate() {
            for form in &term.forms {
                *known.entry(form.word.as_str()).or_default() |= 1_u128 << place;
            }
        }
        let tokens = words(text).flat_map(|(_, word)| of_word(word));
        tokens.filter_map(|token| known.get(token.as_str())).fold(0, |all, terms| all | terms)
    }

    /// Ranks passages by their words and length, and by their neighbours.
    fn rank(&self, shown: &mut [Ranked], neighbours: bool) {
        let words: f64 = shown.iter().map(|it| it.length).sum();
        let average = words / shown.len().max(1) as f64;
        let places: HashMap<i64, usize> = shown.iter().map(|it| it.passage.id).zip(0..).collect();
        for (number, term) in self.wanted.iter().chain(&self.near).enumerate() {
            for (id, often) in &term.matches.rows {
                let Some(place) = places.get(id) else { continue };
                let it = &mut shown[*place];
                let is_shown = match number < self.wanted.len() {
                    true => it.terms >> number & 1 == 1,
                    false => !it.is_part,
                };
                if !is_shown {
                    continue;
                }
                // How often a word occurs is known of complete passages.
                let often = if it.is_part { 1.0 } else { *often };
                let gain = term.weight * saturated(often, it.length / average);
                it.rank += gain;
                match number < self.wanted.len() {
                    true => it.words += term.weight,
                    false => it.meaning += gain,
                }
            }
        }
        if neighbours {
            let weights: Vec<f64> = self.wanted.iter().map(|term| term.weight).collect();
            add_neighbour_scores(shown, &weights);
        }
    }

    /// Adds the cosine with the question to the first passages.
    fn compare(&mut self, ranked: &mut [Ranked], asked: SearchParams<'_>) -> DbResult<()> {
        let most = if self.compares_all { SCANNED } else { COMPARED };
        let first = ranked.len().min(most);
        let first = &mut ranked[..first];
        // In the order of files, each of which is read once.
        first.sort_unstable_by_key(|it| (it.passage.ino, it.passage.span.off));
        let mut texts = Vec::new();
        for of_file in first.chunk_by(|one, other| one.passage.ino == other.passage.ino) {
            let Some(Some((file, _))) = self.files.get(&of_file[0].passage.ino) else {
                texts.resize_with(texts.len() + of_file.len(), Vec::new);
                continue;
            };
            let passages: Vec<Passage> = of_file.iter().map(|it| it.passage).collect();
            for text in self.judge.texts(file, &passages)? {
                self.judge.step()?;
                let mut all = Vec::new();
                tokens(&text, &mut all);
                texts.push(all);
            }
        }
        debug_assert_eq!(first.len(), texts.len(), "a text for each passage");
        add_cosines(first, asked.text, &texts, asked.neighbours);
        Ok(())
    }
}

/// Result of judging candidates.
#[derive(Debug, Default)]
struct Judged {
    /// Candidates that may be shown, at least in part.
    shown: Vec<Ranked>,
    /// All others, and those of which only a part is shown.
    hidden: Vec<Hidden>,
    /// True if no more may be judged in this search.
    is_limited: bool,
}

/// Passage that may not be shown, or only in part.
#[derive(Clone, Copy, Debug)]
struct Hidden {
    id: i64,
    /// Terms of the part that is shown.
    terms: u128,
}
