//! Excerpt of a text that is too long to show: the part that answers the question best.

use std::ops::Range;

use garth_engine::text::meaning::{Embedding, Weights, tokens};
use garth_engine::text::question::Question;
use garth_engine::text::token::{of_word, words};
use unicode_segmentation::UnicodeSegmentation as _;

/// Bytes of a text whose pieces are compared, 8 KiB. Of a longer one it is the part with the most different
/// words of the question.
const COMPARED: usize = 8 << 10;
/// Share of a neighbour's score that counts for a piece, as in the search.
const BESIDE: f64 = 0.5;

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

/// Returns a range of at most `most` bytes with the piece of the text that answers the question best, by its
/// words and its meaning, and with what is around it. It begins and ends with a line, or else with a sentence or
/// a word.
pub(super) fn excerpt(text: &str, question: &Question, found: &FoundTerms, most: usize) -> Range<usize> {
    if text.len() <= most {
        return 0..text.len();
    }
    let pieces = pieces(text, compared(text, found), most / 3);
    let scores = scores(text, question, found, &pieces);
    // An answer is often in the piece beside the one that names its subject.
    let beside = |place: usize| {
        let others = [place.checked_sub(1), Some(place + 1)].into_iter().flatten();
        others.filter_map(|other| scores.get(other)).fold(0.0, |most: f64, score| most.max(*score))
    };
    let scores = scores.iter().enumerate().map(|(place, score)| score + BESIDE * beside(place));
    // The first of equals.
    let best = scores.enumerate().fold((0, f64::MIN), |best, one| if one.1 > best.1 { one } else { best });
    around(&pieces, best.0, most)
}

/// Returns the part of a text whose pieces are compared: all of it, or the part of a long one that has the most
/// different words of the question.
fn compared(text: &str, found: &FoundTerms) -> Range<usize> {
    if text.len() <= COMPARED {
        return 0..text.len();
    }
    let start = text.floor_char_boundary(best_place(found, COMPARED / 2).saturating_sub(COMPARED / 4));
    start..text.floor_char_boundary((start + COMPARED).min(text.len()))
}

/// Divides a part of a text into lines, those longer than `most` bytes into sentences, and longer sentences at
/// spaces.
fn pieces(text: &str, part: Range<usize>, most: usize) -> Vec<Range<usize>> {
    let (mut pieces, mut start) = (Vec::new(), part.start);
    let mut add = |piece: &str| {
        pieces.push(start..start + piece.len());
        start += piece.len();
    };
    for line in text[part].split_inclusive('\n') {
        if line.len() <= most {
            add(line);
            continue;
        }
        for mut sentence in line.split_sentence_bounds() {
            while sentence.len() > most {
                let cut = sentence.floor_char_boundary(most).max(1);
                let cut = sentence[..cut].rfind(' ').map_or(cut, |space| space + 1);
                // A character can be longer than a piece.
                let cut = sentence.ceil_char_boundary(cut);
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

/// Returns how well each piece answers the question: the share of its words that the piece has, and the cosine
/// of their meanings.
fn scores(text: &str, question: &Question, found: &FoundTerms, pieces: &[Range<usize>]) -> Vec<f64> {
    let tokens_of = |text: &str| {
        let mut all = Vec::new();
        tokens(text, &mut all);
        all
    };
    let words: Vec<&str> = question.terms().iter().map(|term| term.word.as_str()).collect();
    let asked = tokens_of(&words.join(" "));
    let all: Vec<Vec<u32>> = pieces.iter().map(|piece| tokens_of(&text[piece.clone()])).collect();
    // By rarity in this text, so that no other text decides what is shown of it.
    let weights = Weights::by_rarity(all.iter().map(Vec::as_slice));
    let asked = Embedding::new(&asked, &weights);
    let mut rest = found.places.iter().peekable();
    let score = |(piece, tokens): (&Range<usize>, &Vec<u32>)| {
        let mut terms = 0_u128;
        while let Some((_, term)) = rest.next_if(|(at, _)| *at < piece.end) {
            terms |= 1 << term;
        }
        question.share_of(terms) + f64::from(Embedding::new(tokens, &weights).cosine(&asked)).max(0.0)
    };
    pieces.iter().zip(&all).map(score).collect()
}

/// Returns the piece at a place with as many of those around it as fit: in turn one before it and one after.
fn around(pieces: &[Range<usize>], place: usize, most: usize) -> Range<usize> {
    let (mut shown, mut after) = (place..place + 1, false);
    let length = |shown: &Range<usize>| pieces[shown.end - 1].end - pieces[shown.start].start;
    let grown = |shown: &Range<usize>, after: bool| {
        let grown = match after {
            true => shown.start..shown.end + 1,
            false => shown.start.checked_sub(1)?..shown.end,
        };
        (grown.end <= pieces.len() && length(&grown) <= most).then_some(grown)
    };
    while let Some(grown) = grown(&shown, after).or_else(|| grown(&shown, !after)) {
        after = !after;
        shown = grown;
    }
    pieces[shown.start].start..pieces[shown.end - 1].end
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
        text[excerpt(text, &question, &found(text, asked), most)].to_owned()
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
            let range = excerpt(&text, &question, &found(&text, "a b"), most);
            prop_assert!(text.get(range.clone()).is_some() && range.len() <= most, "{range:?}");
        }
    }
}
