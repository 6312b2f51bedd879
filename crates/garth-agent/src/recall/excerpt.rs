//! Excerpt of a text that is too long to show: the part that answers the question best.

use std::ops::Range;

use garth_engine::text::meaning::{Embedding, Weights, tokens};
use garth_engine::text::question::Question;
use garth_engine::text::token::{of_word, words};
use unicode_segmentation::UnicodeSegmentation as _;

/// Bytes of a text whose pieces are compared, 8 KiB. Of a longer one it is the part with the most different
/// words of the question.
const COMPARED: usize = 8 << 10;
/// Bytes of a piece: a line or sentence of this length is not divided. A third of the shortest excerpt.
const PIECE: usize = 160;

/// Words of a question in a text. They are looked for once, however many excerpts there are.
#[derive(Debug)]
pub(super) struct FoundTerms {
    /// Start of each word in the text, and the index of its term.
    places: Vec<(usize, usize)>,
    /// Number of terms of the question.
    terms: usize,
}

impl FoundTerms {
    /// Finds the words of a question in a text.
    pub(super) fn of(text: &str, question: &Question) -> Self {
        let (terms, mut places) = (question.terms(), Vec::new());
        for (at, word) in words(text) {
            for token in of_word(word) {
                let same = terms.iter().position(|term| term.token == token);
                // The search may have found it by its beginning.
                let term = same.or_else(|| terms.iter().position(|term| token.starts_with(&term.token)));
                places.extend(term.map(|term| (at, term)));
            }
        }
        Self { places, terms: terms.len() }
    }

    /// Returns the share of the words of the question that were found, or of those of one part: the largest.
    pub(super) fn share_of(&self, question: &Question) -> f64 {
        question.share_of(self.places.iter().fold(0, |found, (_, term)| found | 1_u128 << term))
    }
}

/// Pieces of a text, to find the part that answers a question best.
#[derive(Debug)]
pub(super) struct Excerpts {
    /// Ranges of the pieces, which follow each other.
    pieces: Vec<Range<usize>>,
    /// Terms of the question in each piece: one bit for each.
    terms: Vec<u128>,
    /// Tokens of each piece, and their weights: by rarity in this text, so that no other text decides what is
    /// shown of it.
    tokens: Vec<Vec<u32>>,
    weights: Weights,
    asked: Embedding,
}

impl Excerpts {
    /// Divides a text, in which the words of the question were `found`.
    pub(super) fn of(text: &str, question: &Question, found: &FoundTerms) -> Self {
        let tokens_of = |text: &str| {
            let mut all = Vec::new();
            tokens(text, &mut all);
            all
        };
        let pieces = pieces(text, compared(text, found));
        let mut places = found.places.iter().peekable();
        let mut terms_before = |end: usize| {
            let mut terms = 0_u128;
            while let Some((_, term)) = places.next_if(|(at, _)| *at < end) {
                terms |= 1 << term;
            }
            terms
        };
        // Those before the first piece belong to none.
        terms_before(pieces.first().map_or(0, |first| first.start));
        let terms = pieces.iter().map(|piece| terms_before(piece.end)).collect();
        let tokens: Vec<Vec<u32>> = pieces.iter().map(|piece| tokens_of(&text[piece.clone()])).collect();
        let weights = Weights::by_rarity(tokens.iter().map(Vec::as_slice));
        let words: Vec<&str> = question.terms().iter().map(|term| term.word.as_str()).collect();
        let asked = Embedding::new(&tokens_of(&words.join(" ")), &weights);
        Self { pieces, terms, tokens, weights, asked }
    }

    /// Returns a range of at most `most` bytes: the pieces that answer the question best together, by its
    /// words and its meaning, in half of the bytes, and those around them. It begins and ends with a line, or
    /// else with a sentence or a word. Empty if no piece is so short.
    pub(super) fn best(&self, question: &Question, most: usize) -> Range<usize> {
        let mut best = (f64::MIN, 0..0);
        for first in 0..self.pieces.len() {
            let mut shown = first..first + 1;
            while shown.end < self.pieces.len() && self.length(&(first..shown.end + 1)) <= most / 2 {
                shown.end += 1;
            }
            let score = self.score(question, shown.clone());
            // The first of equals.
            if score > best.0 && self.length(&shown) <= most {
                best = (score, shown);
            }
        }
        self.around(best.1, most)
    }

    /// Returns how well some pieces answer the question: the share of its words that they have, and the
    /// cosine of their meanings.
    fn score(&self, question: &Question, shown: Range<usize>) -> f64 {
        let terms = self.terms[shown.clone()].iter().fold(0, |all, terms| all | terms);
        let meaning = Embedding::new(&self.tokens[shown].concat(), &self.weights).cosine(&self.asked);
        question.share_of(terms) + f64::from(meaning).max(0.0)
    }

    /// Returns the range of some pieces with as many of those around them as fit: in turn one before and one
    /// after. An answer is often beside the words that name its subject.
    fn around(&self, mut shown: Range<usize>, most: usize) -> Range<usize> {
        let grown = |shown: &Range<usize>, after: bool| {
            let grown = match after {
                true => shown.start..shown.end + 1,
                false => shown.start.checked_sub(1)?..shown.end,
            };
            (grown.end <= self.pieces.len() && self.length(&grown) <= most).then_some(grown)
        };
        if shown.is_empty() {
            return 0..0;
        }
        let mut after = false;
        while let Some(grown) = grown(&shown, after).or_else(|| grown(&shown, !after)) {
            after = !after;
            shown = grown;
        }
        self.pieces[shown.start].start..self.pieces[shown.end - 1].end
    }

    /// Returns the bytes of some pieces.
    fn length(&self, shown: &Range<usize>) -> usize {
        self.pieces[shown.end - 1].end - self.pieces[shown.start].start
    }
}

/// Returns the part of a text whose pieces are compared: all of it, or the part of a long one that has the
/// most different words of the question.
fn compared(text: &str, found: &FoundTerms) -> Range<usize> {
    if text.len() <= COMPARED {
        return 0..text.len();
    }
    let start = text.floor_char_boundary(best_place(found, COMPARED / 2).saturating_sub(COMPARED / 4));
    start..text.floor_char_boundary((start + COMPARED).min(text.len()))
}

/// Divides a part of a text into lines, those longer than [`PIECE`] into sentences, and longer sentences at
/// spaces.
fn pieces(text: &str, part: Range<usize>) -> Vec<Range<usize>> {
    let (mut pieces, mut start) = (Vec::new(), part.start);
    let mut add = |piece: &str| {
        pieces.push(start..start + piece.len());
        start += piece.len();
    };
    for line in text[part].split_inclusive('\n') {
        if line.len() <= PIECE {
            add(line);
            continue;
        }
        for mut sentence in line.split_sentence_bounds() {
            while sentence.len() > PIECE {
                let cut = sentence.floor_char_boundary(PIECE);
                let cut = sentence[..cut].rfind(' ').map_or(cut, |space| space + 1);
                add(&sentence[..cut]);
                sentence = &sentence[cut..];
            }
            if !sentence.is_empty() {
                add(sentence);
            }
        }
    }
    pieces
}

/// Returns the start of the `length` bytes that have the most different terms.
fn best_place(found: &FoundTerms, length: usize) -> usize {
    let FoundTerms { places, terms } = found;
    let (mut counts, mut different, mut last) = (vec![0_u32; *terms], 0, 0);
    let mut best = (0, 0);
    // A window over the found terms: `counts` has those from `first` to `last`.
    for (first, (at, term)) in places.iter().enumerate() {
        while let Some((next, term)) = places.get(last).filter(|(next, _)| next - at < length) {
            debug_assert!(next >= at);
            counts[*term] += 1;
            different += usize::from(counts[*term] == 1);
            last += 1;
        }
        if different > best.0 {
            best = (different, *at);
        }
        if last > first {
            counts[*term] -= 1;
            different -= usize::from(counts[*term] == 0);
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(text: &str, asked: &str) -> FoundTerms {
        FoundTerms::of(text, &Question::parse(asked).unwrap())
    }

    fn of(text: &str, asked: &str, most: usize) -> String {
        let question = Question::parse(asked).unwrap();
        text[Excerpts::of(text, &question, &found(text, asked)).best(&question, most)].to_owned()
    }

    #[test]
    fn excerpt_has_complete_lines_around_the_words() {
        let text = "one line\n".repeat(40) + "Alice takes\nher coffee black\n" + &"more lines\n".repeat(40);
        let short = of(&text, "how does alice take her coffee", 60);
        assert!(short.contains("Alice takes\nher coffee black\n") && short.len() <= 60, "{short}");
        assert!(short.starts_with("one line\n") || short.starts_with("Alice"), "{short}");
        assert_eq!(of("short", "long", 60), "short");
    }

    proptest! {
        #[test]
        fn excerpt_is_bounded_and_valid_utf8(text in "(\\PC|[ab \n]){0,80}", most in 1_usize..60) {
            let question = Question::parse("a b").unwrap();
            let range = Excerpts::of(&text, &question, &found(&text, "a b")).best(&question, most);
            prop_assert!(text.get(range.clone()).is_some() && range.len() <= most, "{range:?}");
        }
    }
}
