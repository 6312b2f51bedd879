//! Ranking of the passages that contain terms of a question.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use super::around::{Around, FILE_BESIDE, NAMED};
use super::forms::WordForm;
use super::numbers::NumberMap;
use super::passage::Passage;
use crate::model::Ino;
use crate::text::meaning::{Embedding, nearest, share_in_english};
use crate::text::question::{Question, asking};
use crate::text::token::of_word;

/// The constants of BM25, as in SQLite and most other implementations.
const K1: f64 = 1.2;
const B: f64 = 0.75;
/// Weight of a term that a passage does not contain, but the passage before or after it in its file does. A
/// larger one makes results worse for texts that are not conversations: `docs/benchmarks.md` has the figures.
const BESIDE: f64 = 0.5;
/// Weight of a term that neither a passage nor its neighbours contain, but another passage of the file does:
/// a conversation about something does not name it in each message.
const IN_FILE: f64 = 0.2;
/// Weight of a term that only the name of the directory contains, relative to that. It is true of all files
/// in the directory, and must not make a text fit a question by itself.
const DIRECTORY: f64 = 0.4;

/// Weight of the words beside a short question in the order of passages.
const CONTEXT: f64 = 0.25;

/// Passages of general English that count beside those of the account: among its own alone, an everyday word
/// of a small account would be as rare as a name. In a large account they matter only for everyday words that
/// are much rarer there than elsewhere.
const BACKGROUND: f64 = 20.0;
/// Passages that count as having a term that none has.
const UNKNOWN: f64 = 0.5;

/// Weight of the meaning of a passage, relative to all words of the question.
const MEANING: f64 = 1.0;
/// Cosine up to which a text counts as unrelated: its meaning raises no score.
const UNRELATED: f64 = 0.3;
/// Cosine up to which the meaning of a text raises no rank. A lower one than for the score: it says which of
/// two texts is nearer to the question, even if neither of them is near.
const FAR: f64 = 0.15;
/// Part of a neighbour's meaning that counts for a passage.
const MEANING_BESIDE: f64 = 0.3;
/// Maximum number of words of a question for which words near in meaning are looked up. A long question has
/// words enough.
const EXPANDED: usize = 16;
/// Maximum number of near words for each of them.
const NEAREST: usize = 40;
/// Maximum number of near words for all.
const MOST_NEAR: usize = 128;
/// Minimum cosine of a near word.
const LEAST: f32 = 0.3;

/// A passage that may answer a question.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    /// Id of its row.
    pub(super) id: i64,
    /// BM25 as if all passages had the same length.
    pub(super) rank: f64,
    /// The terms that it contains: one bit for each.
    pub(super) terms: u128,
}

impl Candidate {
    pub(super) fn new(id: i64) -> Self {
        Self { id, rank: 0.0, terms: 0 }
    }

    /// Orders by BM25, then by row: the better one is greater.
    pub(super) fn order(&self, other: &Self) -> Ordering {
        self.rank.total_cmp(&other.rank).then(self.id.cmp(&other.id))
    }
}

/// A candidate that may be shown, with its score. Weights become shares of the question by
/// [`settle`](Self::settle).
#[derive(Clone, Copy, Debug)]
pub(super) struct Ranked {
    pub(super) passage: Passage,
    /// The terms that it contains: one bit for each.
    pub(super) terms: u128,
    /// True if only a part of it may be shown.
    pub(super) is_part: bool,
    /// Number of the words that may be shown.
    pub(super) length: f64,
    /// BM25 and what it gains, by which hits are ordered.
    pub(super) rank: f64,
    /// Weight of the terms that it contains.
    pub(super) words: f64,
    /// Weight that it gains from other passages of its file, and from the names of the file.
    pub(super) beside: f64,
    /// Weight of its words near in meaning, and of its meaning.
    pub(super) meaning: f64,
}

impl Ranked {
    pub(super) fn new(passage: Passage, terms: u128) -> Self {
        let length = passage.length();
        Self { passage, terms, is_part: false, length, rank: 0.0, words: 0.0, beside: 0.0, meaning: 0.0 }
    }

    /// Returns a passage of which only a part with this number of `words` may be shown.
    pub(super) fn of_part(passage: Passage, terms: u128, words: usize) -> Self {
        Self { is_part: true, length: words as f64, ..Self::new(passage, terms) }
    }

    /// Orders by rank, then by file and place, which do not depend on when a passage was indexed.
    pub(super) fn order(&self, other: &Self) -> Ordering {
        let place = |it: &Self| (it.passage.ino, it.passage.span.off);
        self.rank.total_cmp(&other.rank).then(place(self).cmp(&place(other)))
    }

    /// Adds what it gains by the terms around it. `weight` returns that of some terms.
    pub(super) fn add_neighbours(&mut self, others: &TermsOfOthers, weight: impl Fn(u128) -> f64) {
        // Each term counts once, with the largest share.
        let mut counted = self.terms;
        for (share, terms) in others.by_share() {
            self.beside += share * weight(terms & !counted);
            counted |= terms;
        }
        self.rank += self.beside;
    }

    /// Adds what it has of the words beside a short question, up to `most`, if it has some of the question.
    /// `subject` has its weights for these words. They raise its score only if the question `refers` to them.
    pub(super) fn add_subject(&mut self, subject: &Self, most: f64, refers: bool) {
        if self.words + self.beside > 0.0 {
            self.rank += subject.rank.min(most) * if refers { 1.0 } else { CONTEXT };
            self.words += if refers { subject.words.min(most) } else { 0.0 };
        }
    }

    /// Divides all weights by that of the question.
    pub(super) fn settle(&mut self, total: f64) {
        self.rank /= total;
        self.words /= total;
        self.beside /= total;
        self.meaning /= total;
    }

    /// Returns it with this share of its rank and of its score.
    pub(super) fn share(&self, share: f64) -> Self {
        // Before they are shared, so that a share of 0.5 leaves a score of at most 0.5.
        let (words, beside, meaning) = self.parts();
        let (rank, words) = (self.rank * share, words * share);
        Self { rank, words, beside: beside * share, meaning: meaning * share, ..*self }
    }

    /// Returns the score with its parts `words`, `neighbours` and `meaning`. Together they are at most 1.
    pub(super) fn parts(&self) -> (f64, f64, f64) {
        let words = self.words.min(1.0);
        let beside = self.beside.min(1.0 - words);
        (words, beside, self.meaning.min(1.0 - words - beside))
    }
}

/// Returns the share of passages of general English that contain a term with these forms. 0 if it has no
/// everyday English word, so that it weighs at least as much as any other that as many passages contain.
pub(super) fn english_share(forms: &[WordForm]) -> f64 {
    let plain = forms.iter().filter(|form| form.is_plain());
    plain.filter_map(|form| share_in_english(&form.word)).fold(0.0, f64::max)
}

/// Returns the inverse document frequency of a term that `having` of `all` passages contain, and the share
/// `in_english` of those of general English.
pub(super) fn rarity(all: f64, having: f64, in_english: f64) -> f64 {
    (1.0 + (all + BACKGROUND) / (having.max(UNKNOWN) + BACKGROUND * in_english)).ln()
}

/// A word near in meaning to one of the question.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NearWord {
    pub(super) token: String,
    /// Terms of the question that it is near to: one bit for each.
    pub(super) terms: u128,
    pub(super) cosine: f64,
}

/// Returns words near in meaning to those of a question. Statements beside a question have none: they would
/// take the place of its words.
pub(super) fn near_words(question: &Question) -> Vec<NearWord> {
    let asking = asking(question.parts());
    let terms = question.terms().iter().enumerate().filter(|(number, _)| asking >> number & 1 == 1);
    let own: HashSet<&str> = terms.clone().map(|(_, term)| term.token.as_str()).collect();
    let mut near: Vec<NearWord> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut known = HashSet::new();
    let terms = terms.filter(|(_, term)| known.insert(term.word.as_str())).take(EXPANDED);
    let (numbers, words): (Vec<usize>, Vec<&str>) =
        terms.map(|(number, term)| (number, term.word.as_str())).unzip();
    for (number, nearest) in numbers.into_iter().zip(nearest(&words, NEAREST, LEAST)) {
        for (word, cosine) in nearest {
            for token in of_word(word).into_iter().filter(|token| !own.contains(token.as_str())) {
                let place = *places.entry(token.clone()).or_insert_with(|| {
                    near.push(NearWord { token, terms: 0, cosine: 0.0 });
                    near.len() - 1
                });
                near[place].terms |= 1 << number;
                near[place].cosine = near[place].cosine.max(f64::from(cosine));
            }
        }
    }
    near.sort_by(|one, other| other.cosine.total_cmp(&one.cosine));
    near.truncate(MOST_NEAR);
    near
}

/// Adds the meaning of the passages at `places`, which have these texts.
pub(super) fn add_cosines(
    ranked: &mut [Ranked],
    places: &[usize],
    texts: &[Embedding],
    asked: &Embedding,
    around: Option<&Around>,
) {
    let cosines: Vec<f64> = texts.iter().map(|text| f64::from(text.cosine(asked))).collect();
    let numbers: NumberMap<usize, usize> = places.iter().copied().zip(0..).collect();
    let mut beside = vec![0.0_f64; places.len()];
    for pair in around.into_iter().flat_map(|around| &around.pairs) {
        if let (Some(first), Some(next)) = (numbers.get(&pair.first), numbers.get(&pair.next)) {
            let share = if pair.crosses_files { FILE_BESIDE } else { 1.0 };
            beside[*first] = beside[*first].max(share * cosines[*next]);
            beside[*next] = beside[*next].max(share * cosines[*first]);
        }
    }
    for ((place, cosine), beside) in places.iter().zip(cosines).zip(beside) {
        let above = |floor: f64| (cosine - floor).max(0.0) + MEANING_BESIDE * (beside - floor).max(0.0);
        let it = &mut ranked[*place];
        it.meaning += MEANING * above(UNRELATED);
        it.rank += MEANING * above(FAR);
    }
}

/// Returns the BM25 factor of a term. `often` is its frequency in a passage, `length` that of the passage
/// relative to the average.
pub(super) fn saturated(often: f64, length: f64) -> f64 {
    often * (K1 + 1.0) / (often + K1 * (1.0 - B + B * length))
}

/// Terms around a passage, some of which it may contain itself: one bit for each.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TermsOfOthers {
    /// Terms of the passage before or after it.
    beside: u128,
    /// Terms of the passage before or after it in another file.
    file_beside: u128,
    /// Terms in the name of its file.
    named: u128,
    /// Terms in the name of the directory.
    directory: u128,
    /// Terms of all passages of its file.
    in_file: u128,
}

impl TermsOfOthers {
    /// Returns the terms with the share that each counts of one that the passage contains once, the largest
    /// first.
    fn by_share(&self) -> [(f64, u128); 5] {
        let mut all = [
            (BESIDE, self.beside),
            (BESIDE * FILE_BESIDE, self.file_beside),
            (NAMED, self.named),
            (NAMED * DIRECTORY, self.directory),
            (IN_FILE, self.in_file),
        ];
        all.sort_by(|one, other| other.0.total_cmp(&one.0));
        all
    }
}

/// Returns for each passage the terms around it.
pub(super) fn terms_of_others(best: &[Ranked], around: &Around) -> Vec<TermsOfOthers> {
    let mut files: NumberMap<Ino, u128> = NumberMap::default();
    for it in best {
        *files.entry(it.passage.ino).or_default() |= it.terms;
    }
    let in_file = best.iter().map(|it| files.get(&it.passage.ino).copied().unwrap_or(0));
    let mut others: Vec<TermsOfOthers> =
        in_file.map(|in_file| TermsOfOthers { in_file, ..TermsOfOthers::default() }).collect();
    for (others, named) in others.iter_mut().zip(&around.named) {
        (others.named, others.directory) = (named.own, named.directory);
    }
    for pair in &around.pairs {
        for (place, other) in [(pair.first, pair.next), (pair.next, pair.first)] {
            let Some(others) = others.get_mut(place) else { continue };
            let beside = if pair.crosses_files { &mut others.file_beside } else { &mut others.beside };
            *beside |= best.get(other).map_or(0, |it| it.terms);
        }
    }
    others
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::search::around::Pair;
    use crate::text::meaning::{Weights, tokens};
    use crate::text::passage::{Form, Span};

    fn passage(id: u32, terms: u128) -> Ranked {
        let span = Span { off: 0, len: 60, newline: false };
        let (form, ino) = (Form::Text, Ino(u64::from(id)));
        Ranked::new(Passage { id: id.into(), ino, span, line_feeds: 0, form, words: 10 }, terms)
    }

    fn tokens_of(text: &str) -> Vec<u32> {
        let mut all = Vec::new();
        tokens(text, &mut all);
        all
    }

    #[test]
    fn term_around_counts_once_with_largest_share() {
        let (directory, in_file) = (0b1111, 0b11_1111);
        let others = TermsOfOthers { beside: 0b1, file_beside: 0b11, named: 0b111, directory, in_file };
        let mut ranked = passage(1, 0b10_0000);
        ranked.add_neighbours(&others, |terms| f64::from(terms.count_ones()));
        let expected = BESIDE * (1.0 + FILE_BESIDE) + NAMED * (1.0 + DIRECTORY) + IN_FILE;
        assert!((ranked.beside - expected).abs() < 1e-9, "{ranked:?}");
        assert_eq!(ranked.rank, ranked.beside);
    }

    #[test]
    fn passage_gains_by_meaning_of_next_file() {
        let harbour = "The harbour has two cranes.";
        let texts = ["Alice takes her coffee without milk.", harbour, harbour].map(tokens_of);
        let weights = Weights::by_rarity(texts.iter().map(Vec::as_slice));
        let asked = Embedding::new(&tokens_of("Which drink does Alice take without milk?"), &weights);
        let texts = texts.map(|text| Embedding::new(&text, &weights));
        let gains = |pairs: Vec<Pair>| {
            let mut ranked = [passage(1, 0), passage(2, 0), passage(3, 0)];
            let around = Around { pairs, named: Vec::new() };
            add_cosines(&mut ranked, &[0, 1, 2], &texts, &asked, Some(&around));
            ranked.map(|it| it.meaning)
        };
        let alone = gains(Vec::new());
        assert!(alone[0] > alone[1] && alone[1] == alone[2], "{alone:?}");
        for crosses_files in [false, true] {
            let [_, beside, apart] = gains(vec![Pair { first: 0, next: 1, crosses_files }]);
            assert!(beside > apart && apart == alone[2], "{beside} and {apart}");
        }
    }

    #[test]
    fn meaning_of_texts_that_are_not_near_raises_rank_alone() {
        let question = "Alice drinks coffee";
        // Each text is a little farther from the question than the one before it.
        let texts = (0..12).map(|more| tokens_of(&format!("{question}{}", " granite railway".repeat(more))));
        let texts: Vec<Vec<u32>> = texts.collect();
        let weights = Weights::by_rarity(texts.iter().map(Vec::as_slice));
        let asked = Embedding::new(&tokens_of(question), &weights);
        let texts: Vec<Embedding> = texts.iter().map(|text| Embedding::new(text, &weights)).collect();
        let mut ranked: Vec<Ranked> = (0..12).map(|id| passage(id, 0)).collect();
        let places: Vec<usize> = (0..texts.len()).collect();
        add_cosines(&mut ranked, &places, &texts, &asked, None);
        let cosines = texts.iter().map(|text| f64::from(text.cosine(&asked)));
        let of_each = cosines.zip(&ranked).map(|(cosine, it)| (cosine, it.rank, it.meaning));
        let between = |cosine: f64| cosine > FAR + 0.01 && cosine < UNRELATED - 0.01;
        let far: Vec<_> = of_each.filter(|(cosine, ..)| between(*cosine)).collect();
        assert!(
            far.len() > 2 && far.iter().all(|(_, rank, meaning)| *rank > 0.0 && *meaning == 0.0),
            "{far:?}"
        );
        assert!(far.is_sorted_by(|one, other| one.1 > other.1), "{far:?}");
    }
}
