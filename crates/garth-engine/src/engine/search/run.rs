//! Search in an index: finds the passages that contain the words of a question, and ranks them.
//!
//! A word that few passages contain is looked up completely; of a word that more passages contain than one
//! search can examine, the newest ones are. If the question has a rarer word as well, only passages with
//! that are candidates, and the frequent word is looked up among them. A search therefore reads a bounded
//! number of rows, whatever the account holds.

use std::collections::HashMap;

use super::around::{Around, NAMED};
use super::beginnings::beginnings;
use super::forms::{Newest, Totals, WordForm, exactly};
use super::judge::Shown;
use super::matches::{Matches, TermMatches, rows_of};
use super::names::add_titles;
use super::numbers::NumberMap;
use super::parts::{ByPart, weight_of};
use super::passage::Passage;
use super::postings::{
    CHUNK, FEW, JudgedFiles, Narrow, Place, Postings, ROWS, SMALL_SCOPE, Start, Started, SubtreeBound,
    SubtreePassages, WordLimits,
};
use super::score::{Candidate, NearWord, Ranked, english_share, near_words, rarity, saturated};
use crate::model::{Ino, SearchMode, SearchQuery};
use crate::text::question::{Part, Question, asking};
use crate::text::token::{of_word, words};

/// Rows of a word that are read to find out whether it is rare. In a question with a rare word, no more
/// rows of a frequent one are read.
const PROBE: usize = 4_096;
/// Rows of a word of a question, relative to those of a word of a statement beside it.
const ASKING_ROWS: usize = 4;
/// Rows that a quick search reads, approximately.
const QUICK_ROWS: usize = 384;
/// Words that a quick search looks up: the longest, which are seldom frequent. Each costs as much as a
/// hundred rows.
const QUICK_WORDS: usize = 6;
/// Names of a subtree that may be examined to search it instead of the matches.
const NAMES: usize = 20_000;
/// Most files of a search that are judged.
const JUDGED: usize = 10_000;
/// Rows of words near in meaning that one search reads, approximately, and the least of each.
const NEAR_ROWS: usize = 16_384;
const NEAR_LEAST: usize = 64;
/// Weight of a word near in meaning, relative to one of the question with the same meaning.
const NEAR: f64 = 0.3;
/// Passages whose text is compared with the question.
const COMPARED: usize = 100;
/// Minimum number of words for the meaning of a text that does not end with a question mark to count. One or
/// two are a name or a key that somebody looks up.
const SENTENCE: usize = 3;
/// Weight of a word that was found by its beginning alone.
const BY_BEGINNING: f64 = 0.5;
/// Hits with a smaller score are left out: a long question shares some word with any text by chance.
pub(crate) const MIN_SCORE: f64 = 0.05;

/// Parameters of a search.
#[derive(Clone, Copy, Debug)]
pub struct SearchParams<'a> {
    /// Question as asked.
    pub text: &'a str,
    /// Most passages in all.
    pub limit: usize,
    /// Most passages of one file.
    pub per_file: usize,
    /// True if a passage gains from its neighbours, and from the names of its file.
    pub neighbours: bool,
    /// True if texts in other words count.
    pub meaning: bool,
    /// True to read only a few rows.
    pub quick: bool,
}

impl<'a> SearchParams<'a> {
    /// Returns the parameters of a query.
    pub fn of(query: &'a SearchQuery) -> Self {
        let SearchQuery { limit, per_file, neighbours, quick, .. } = *query;
        let meaning = query.mode == SearchMode::Meaning && !quick;
        Self { text: &query.text, limit, per_file, neighbours, meaning, quick }
    }
}

/// One of the best passages of a file for a question.
#[derive(Clone, Debug, PartialEq)]
pub struct PassageHit<T> {
    /// The passage.
    pub passage: Passage,
    /// Share of the question's weight that it matches, 0 to 1.
    pub words: f64,
    /// Score that it gains from its neighbours and the names of its file; with `words` at most 1.
    pub neighbours: f64,
    /// Score for its meaning; with the others at most 1.
    pub meaning: f64,
    /// Number by which hits are ordered.
    pub rank: f64,
    /// Result of judging its file.
    pub file: T,
}

/// Result of a search, best first.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer<T> {
    /// Passages, the best first.
    pub found: Vec<PassageHit<T>>,
    /// True if there may be more: the limit was reached, or not all matches could be examined.
    pub more: bool,
}

/// Returns the best passages for `question`, best first. If the words of the question match no allowed
/// passage, words that begin like them are tried.
///
/// # Errors
/// Errors of `postings`. No question is an error.
pub async fn search<P: Postings>(
    postings: &mut P,
    question: &Question,
    asked: SearchParams<'_>,
) -> Result<Answer<P::File>, P::Error> {
    let is_sentence =
        asked.text.trim_end().ends_with('?') || words(asked.text).take(SENTENCE).count() == SENTENCE;
    let asked = SearchParams { meaning: asked.meaning && is_sentence, ..asked };
    let has_words = postings.has_words();
    let mut wanted: Vec<Vec<WordForm>> =
        question.terms().iter().map(|term| exactly(term, has_words)).collect();
    if asked.quick {
        // The first form of a term is the plain word.
        wanted.sort_by_key(|forms| {
            std::cmp::Reverse(forms.first().map_or(0, |form| form.word.chars().count()))
        });
        wanted.truncate(QUICK_WORDS);
        wanted.iter_mut().for_each(|forms| forms.retain(WordForm::is_plain));
    }
    let near = if asked.meaning { near_words(question) } else { Vec::new() };
    // A quick search drops and reorders the terms.
    let whole = [Part::whole(asked.text)];
    let parts = if asked.quick { &whole } else { question.parts() };
    let (falls_back, asking) = (!asked.quick, asking(parts));
    let search = Search::start(&mut *postings, (wanted, asking), &near, asked).await?;
    if let Some(answer) = search.run((parts, 1.0), falls_back, asked).await? {
        return Ok(answer);
    }
    let wanted = beginnings(postings, question.terms(), has_words).await?;
    let search = Search::start(postings, (wanted, asking), &near, asked).await?;
    let answer = search.run((parts, BY_BEGINNING), false, asked).await?;
    Ok(answer.unwrap_or(Answer { found: Vec::new(), more: false }))
}

/// One pass of a search: with the words of the question, or with words that begin like them.
struct Search<'a, P: Postings> {
    postings: &'a mut P,
    totals: Totals,
    wanted: Vec<TermMatches>,
    /// Words of `wanted` that ask: one bit for each.
    asking: u128,
    /// Words near in meaning to those of the question.
    near: Vec<TermMatches>,
    /// All passages that the query can reach, newest first, if they are known.
    reach: Option<Vec<i64>>,
    /// True if all of these are candidates, whatever words they have.
    compares_all: bool,
    /// Files that were judged.
    files: JudgedFiles<P::File>,
    /// Number of passages that may still be returned of each file, if it is not the limit.
    left: NumberMap<Ino, usize>,
    /// True if some matches are not examined.
    partial: bool,
}

impl<'a, P: Postings> Search<'a, P> {
    async fn start(
        postings: &'a mut P,
        (words, asking): (Vec<Vec<WordForm>>, u128),
        near: &[NearWord],
        asked: SearchParams<'_>,
    ) -> Result<Self, P::Error> {
        let limits = limits(words.len(), asking, asked.quick);
        let near_most = (NEAR_ROWS / near.len().max(1)).max(NEAR_LEAST);
        let near_forms = near.iter().map(|word| WordForm::plain(word.token.clone())).collect();
        let reach = asked.meaning.then_some(SMALL_SCOPE);
        let asked = Start { words, limits, asking, near: near_forms, near_most, reach };
        let mut found = postings.start(&asked).await?;
        if found.reach.is_none() {
            asked.cut(&mut found);
        } else {
            complete_in_reach(postings, &asked, &mut found).await?;
        }
        let Started { totals, reach, words, near: near_found } = found;
        let matches = |forms: &[WordForm], found: &[Newest]| match &reach {
            // Counts those in reach. The number of all passages stays that of the account.
            Some(ids) => Matches::of_reach(forms, found, ids),
            None => Matches::of_newest(forms, found, totals),
        };
        let wanted = asked.words.into_iter().zip(words).enumerate().map(|(place, (forms, found))| {
            let (matches, in_english) = (matches(&forms, &found), english_share(&forms));
            TermMatches { forms, matches, terms: 1 << place, share: 1.0, in_english, weight: 0.0 }
        });
        let wanted: Vec<TermMatches> = wanted.collect();
        // A near word that many passages contain would bring too many candidates.
        let near = near.iter().zip(asked.near).zip(near_found).filter_map(|((word, form), found)| {
            let forms = vec![form];
            let (matches, in_english) = (matches(&forms, &[found]), english_share(&forms));
            let (terms, share) = (word.terms, NEAR * word.cosine);
            let is_rare = matches.are_rare();
            is_rare.then_some(TermMatches { forms, matches, terms, share, in_english, weight: 0.0 })
        });
        let near = near.collect();
        let compares_all = reach.is_some();
        let (files, left) = (JudgedFiles::new(JUDGED), NumberMap::default());
        Ok(Self { postings, totals, wanted, asking, near, reach, compares_all, files, left, partial: false })
    }

    /// Returns the best passages for any of the parts of the question, where each term counts `by` of its
    /// weight. With `falls_back`, returns `None` if none of them has a word of the question.
    async fn run(
        mut self,
        (parts, by): (&[Part], f64),
        falls_back: bool,
        asked: SearchParams<'_>,
    ) -> Result<Option<Answer<P::File>>, P::Error> {
        self.narrow(asked.quick).await?;
        if let Some(ids) = &self.reach {
            for term in &mut self.near {
                term.matches.keep(ids);
            }
        }
        self.partial |= self.wanted.iter().any(|term| !term.matches.complete);
        self.weigh(&[], by);
        let mut rest = self.candidates(parts);
        let mut found = Vec::new();
        let (mut is_first, mut withheld) = (true, 0);
        // In chunks, best first: mostly the first one fills the page, and the rest is never read.
        while !rest.is_empty() {
            let best = self.judged(&mut rest, &mut withheld).await?;
            let is_first = std::mem::take(&mut is_first);
            if is_first {
                self.weigh(&best.hidden, by);
            }
            let terms = (&self.wanted[..], &self.near[..]);
            let around = asked.neighbours.then(|| {
                let passages: Vec<Passage> = best.shown.iter().map(|it| it.passage).collect();
                Around::new(&passages, &self.files, &self.terms_of_words())
            });
            let around = around.as_ref();
            let mut by_part = ByPart::new((parts, by), &best.shown, terms, around);
            let has_words = best.shown.iter().any(|it| it.terms != 0)
                || rest.iter().any(|it| it.terms != 0)
                || around.is_some_and(Around::has_names);
            if falls_back && is_first && !best.is_limited && !has_words {
                return Ok(None);
            }
            if asked.meaning && is_first {
                self.compare(&mut by_part, around, asked.text).await?;
            }
            let mut ranked = by_part.best();
            ranked.sort_unstable_by(|a, b| b.order(a));
            for it in ranked {
                let (words, neighbours, meaning) = it.parts();
                if words + neighbours + meaning < MIN_SCORE {
                    continue;
                }
                if found.len() == asked.limit {
                    return Ok(Some(Answer { found, more: true }));
                }
                let left = self.left.entry(it.passage.ino).or_insert(asked.per_file);
                if *left > 0
                    && let Some(file) = self.files.get(it.passage.ino).cloned()
                {
                    *left -= 1;
                    found.push(PassageHit {
                        passage: it.passage,
                        words,
                        neighbours,
                        meaning,
                        rank: it.rank,
                        file,
                    });
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

    /// Looks for frequent words in a subtree that is not larger than the matches, or else among the matches
    /// of the rare words. In a query limited to subtrees, only their passages count as matches if all of them
    /// are known.
    async fn narrow(&mut self, is_quick: bool) -> Result<(), P::Error> {
        let any_rare = self.wanted.iter().any(|term| term.matches.are_rare());
        let subtree = if is_quick { None } else { self.subtree(any_rare) };
        let frequent = self.wanted.iter().filter(|term| !term.matches.complete);
        let words: Vec<Vec<WordForm>> = frequent.map(|term| term.forms.clone()).collect();
        let mut rare = Vec::new();
        if !words.is_empty() {
            let terms = self.wanted.iter().filter(|term| term.matches.are_rare());
            let forms = terms.flat_map(|term| &term.forms);
            rare.extend(forms.filter(|form| form.is_plain()).cloned());
        }
        let has_rare = !rare.is_empty();
        if subtree.is_none() && !has_rare {
            return Ok(());
        }
        let place = Place::Matches { subtree, rare };
        let found = self.postings.narrow(&Narrow { place, words }).await?;
        if let Some(subtree) = found.subtree {
            self.use_subtree(subtree, found.words);
        } else if has_rare {
            let asking = self.asking;
            let asks = |term: &TermMatches| term.terms & asking != 0;
            let asks_rare = self.wanted.iter().any(|term| asks(term) && term.matches.are_rare());
            let frequent = self.wanted.iter_mut().filter(|term| !term.matches.complete);
            for (term, found) in frequent.zip(found.words) {
                let rows = rows_of(&term.forms, found.iter().map(Vec::as_slice));
                if asks(term) && !asks_rare {
                    // A rare word of a statement does not say where the question is answered.
                    term.matches.rows.extend(rows);
                    term.matches.settle();
                } else {
                    term.matches.rows = rows;
                    term.matches.complete = true;
                }
            }
        }
        Ok(())
    }

    /// Adds the passages of the subtrees of the query. `found` has those of each frequent word.
    fn use_subtree(&mut self, subtree: SubtreePassages, found: Vec<Vec<Vec<i64>>>) {
        let SubtreePassages { ids, all_nodes, all_passages } = subtree;
        let is_whole = all_nodes && all_passages;
        // An engine may return more forms. They count only where each engine looks them up.
        let counted = ids.len() < FEW;
        let mut found = found.into_iter();
        for term in &mut self.wanted {
            if term.matches.complete {
                // All passages of the subtree are known: matches outside need not be judged one by one.
                if is_whole {
                    term.matches.keep(&ids);
                }
                continue;
            }
            let found = found.next().unwrap_or_default();
            let lists = term.forms.iter().zip(&found);
            let lists = lists.map(|(form, ids)| if counted || form.is_plain() { &ids[..] } else { &[] });
            let rows = rows_of(&term.forms, lists);
            if all_nodes {
                term.matches.rows = rows;
                term.matches.complete = true;
            } else {
                // Both are large: uses the newest matches, and those in a part of the subtree.
                term.matches.rows.extend(rows);
                term.matches.settle();
            }
        }
        self.partial |= !all_passages;
        if is_whole {
            self.reach = Some(ids);
        }
    }

    /// Returns the limits within which the nodes of the subtrees of the query are used: if they are fewer
    /// than the matches, or if not all matches can be examined.
    fn subtree(&self, any_rare: bool) -> Option<SubtreeBound> {
        let rare =
            self.wanted.iter().filter(|term| term.matches.are_rare()).map(|term| term.matches.rows.len());
        let few = if any_rare { rare.sum() } else { NAMES };
        let is_known = self.reach.is_some() || self.wanted.iter().all(|term| term.matches.rows.is_empty());
        if few < FEW || is_known || !self.postings.is_limited() {
            return None;
        }
        let passages = NAMES / self.wanted.len();
        Some(SubtreeBound { nodes: few.min(NAMES), must_fit: any_rare, passages })
    }

    /// Computes the weights of all words, where those of the question count `by`. `hidden` has the passages
    /// that may not be shown, which do not count: otherwise scores would tell of them.
    fn weigh(&mut self, hidden: &[Hidden], by: f64) {
        let hidden: NumberMap<i64, u128> = hidden.iter().map(|it| (it.id, it.terms)).collect();
        let (passages, words) = (self.totals.all(), self.wanted.len());
        for (place, term) in self.wanted.iter_mut().chain(&mut self.near).enumerate() {
            let mut shown = term.matches.passages;
            if !hidden.is_empty() {
                let is_hidden = |(id, _): &&(i64, f64)| {
                    hidden.get(id).is_some_and(|terms| place >= words || terms >> place & 1 == 0)
                };
                shown -= term.matches.rows.iter().filter(is_hidden).count() as f64;
            }
            let share = if place < words { 1.0 } else { term.share / by };
            term.weight = rarity(passages, shown, term.in_english) * share;
        }
    }

    /// Returns all passages that contain a term, in no order.
    fn candidates(&self, parts: &[Part]) -> Vec<Candidate> {
        let terms = || self.wanted.iter().chain(&self.near);
        let mut candidates: NumberMap<i64, Candidate> = NumberMap::default();
        candidates.reserve(terms().map(|term| term.matches.rows.len()).max().unwrap_or(0));
        for (place, term) in terms().enumerate() {
            for (id, often) in &term.matches.rows {
                let candidate = candidates.entry(*id).or_insert_with(|| Candidate::new(*id));
                if place < self.wanted.len() {
                    candidate.terms |= 1 << place;
                }
                candidate.rank += term.weight * saturated(*often, 1.0);
            }
        }
        // Without those that have some everyday word of a long question.
        let least =
            parts.iter().map(|part| weight_of(&self.wanted, part.terms)).fold(f64::INFINITY, f64::min);
        candidates.retain(|_, candidate| candidate.rank >= MIN_SCORE * least);
        for id in self.reach.iter().flatten().filter(|_| self.compares_all) {
            candidates.entry(*id).or_insert_with(|| Candidate::new(*id));
        }
        candidates.into_values().collect()
    }

    /// Takes the best of `rest` and returns those that may be shown. `withheld` counts passages without any
    /// line that may be shown.
    async fn judged(&mut self, rest: &mut Vec<Candidate>, withheld: &mut usize) -> Result<Judged, P::Error> {
        let from = rest.len().saturating_sub(CHUNK);
        if from > 0 {
            rest.select_nth_unstable_by(from, Candidate::order);
        }
        let mut best: Vec<Candidate> = rest.drain(from..).collect();
        best.sort_unstable_by(|a, b| b.order(a));
        let ids: Vec<i64> = best.iter().map(|candidate| candidate.id).collect();
        let found = self.postings.candidates(&ids, &mut self.files).await?;
        let mut judged = Judged { is_limited: found.is_limited, ..Judged::default() };
        let terms: NumberMap<i64, u128> = best.iter().map(|it| (it.id, it.terms)).collect();
        let of_words = self.terms_of_words();
        for (passage, shown) in found.passages {
            let (id, ino) = (passage.id, passage.ino);
            let terms = terms.get(&id).copied().unwrap_or(0);
            match shown {
                Shown::All => judged.shown.push(Ranked::new(passage, terms)),
                Shown::Part(text) => {
                    let terms = terms_in(&text, &of_words) & terms;
                    // Its withheld lines must not make it a candidate.
                    if terms != 0 || self.compares_all {
                        judged.shown.push(Ranked::of_part(passage, terms, words(&text).count()));
                    }
                    judged.hidden.push(Hidden { id, terms });
                }
                Shown::Nothing => {
                    judged.hidden.push(Hidden { id, terms: 0 });
                    // Without this bound a search over withheld lines alone would read all matches.
                    *withheld += usize::from(self.files.get(ino).is_some());
                    if *withheld == JUDGED {
                        judged.is_limited = true;
                        break;
                    }
                }
            }
        }
        Ok(judged)
    }

    /// Returns the terms that each word stands for: one bit for each.
    fn terms_of_words(&self) -> HashMap<&str, u128> {
        let mut known = HashMap::new();
        for (place, term) in self.wanted.iter().enumerate() {
            for form in &term.forms {
                *known.entry(form.word.as_str()).or_default() |= 1_u128 << place;
            }
        }
        known
    }

    /// Adds the cosine with each part of the question to the passages that are best for any.
    async fn compare(
        &mut self,
        by_part: &mut ByPart<'_>,
        around: Option<&Around>,
        question: &str,
    ) -> Result<(), P::Error> {
        let first = by_part.first(if self.compares_all { SMALL_SCOPE.passages } else { COMPARED });
        let mut files = Vec::new();
        // In the order of files, each of which is read once.
        for of_file in first.chunk_by(|(_, one), (_, other)| one.ino == other.ino) {
            // Only passages of files that may be shown are ranked.
            let Some(file) = of_file.first().and_then(|(_, passage)| self.files.get(passage.ino)) else {
                continue;
            };
            files.push((file.clone(), of_file.iter().map(|(_, passage)| *passage).collect::<Vec<_>>()));
        }
        if files.is_empty() {
            return Ok(());
        }
        let mut texts = self.postings.texts(&files).await?;
        debug_assert_eq!(first.len(), texts.len(), "a text for each passage");
        if around.is_some() && NAMED > 0.0 {
            add_titles(&mut texts, &files);
        }
        let places: Vec<usize> = first.into_iter().map(|(place, _)| place).collect();
        by_part.add_meaning(&places, &texts, question, around);
        Ok(())
    }
}

/// Returns the limits of each word of a question. All words share the rows that one search may read.
fn limits(words: usize, asking: u128, is_quick: bool) -> Vec<WordLimits> {
    let share = |place: usize| if asking >> place & 1 == 1 { ASKING_ROWS } else { 1 };
    let all: usize = (0..words).map(share).sum();
    let of_word = |place: usize| {
        let most = match is_quick {
            true => (QUICK_ROWS * share(place) / all).max(1),
            false => (ROWS * share(place) / all).max(FEW),
        };
        // A question of one word has no rarer one, so there is no need to find out.
        WordLimits { probe: if words > 1 { most.min(PROBE) } else { most }, most }
    };
    (0..words).map(of_word).collect()
}

/// Returns the terms that a text has: one bit for each. `known` has those of each word of the question.
fn terms_in(text: &str, known: &HashMap<&str, u128>) -> u128 {
    let tokens = words(text).flat_map(|(_, word)| of_word(word));
    tokens.filter_map(|token| known.get(token.as_str())).fold(0, |all, terms| all | terms)
}

impl Start {
    /// Drops what an engine may leave out: if a word is rare, all but the newest `probe` passages of each
    /// form.
    fn cut(&self, found: &mut Started) {
        let is_rare = |(word, limits): (&Vec<Newest>, &WordLimits)| {
            word.iter().all(|form| form.complete && form.ids.len() < limits.probe)
                && word.iter().any(|form| !form.ids.is_empty())
        };
        let has_rare = found.words.iter().zip(&self.limits).any(is_rare);
        let cut = |form: &mut Newest, most: usize| {
            if form.ids.len() >= most {
                form.ids.truncate(most);
                form.complete = false;
            }
        };
        for (word, limits) in found.words.iter_mut().zip(&self.limits) {
            let most = if has_rare { limits.probe } else { limits.most };
            word.iter_mut().for_each(|form| cut(form, most));
        }
        found.near.iter_mut().for_each(|form| cut(form, self.near_most));
    }
}

/// Looks up, in the passages in reach, the forms of which not all passages are known.
async fn complete_in_reach<P: Postings>(
    postings: &mut P,
    asked: &Start,
    found: &mut Started,
) -> Result<(), P::Error> {
    let Some(ids) = &found.reach else { return Ok(()) };
    let words = asked.words.iter().flatten().zip(found.words.iter_mut().flatten());
    let near = asked.near.iter().zip(&mut found.near);
    let missing: Vec<(&WordForm, &mut Newest)> =
        words.chain(near).filter(|(_, found)| !found.complete).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let words = missing.iter().map(|(form, _)| vec![(*form).clone()]).collect();
    let narrowed = postings.narrow(&Narrow { place: Place::Passages(ids.clone()), words }).await?;
    for ((_, form), ids) in missing.into_iter().zip(narrowed.words) {
        *form = Newest { ids: ids.into_iter().flatten().collect(), complete: true };
    }
    Ok(())
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
