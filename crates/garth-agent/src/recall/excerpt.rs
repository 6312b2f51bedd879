//! Excerpt of a passage that is too long to show: the part that answers the question best.

use std::ops::Range;

use garth_engine::text::question::Question;
use garth_engine::text::token::{of_word, words};

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

/// Returns a range of at most `most` bytes around the place with the largest number of distinct words of the
/// question. It begins and ends with a line, or else with a word.
pub(super) fn excerpt(text: &str, found: &FoundTerms, most: usize) -> Range<usize> {
    if text.len() <= most {
        return 0..text.len();
    }
    // A quarter of the excerpt precedes the place, as context.
    let best = best_place(found, most - most / 4);
    let lead = text.floor_char_boundary(best.saturating_sub(most / 4));
    let before = &text[lead..best];
    let start = match (before.rfind('\n'), before.find(' ')) {
        (Some(line), _) => lead + line + 1,
        // The cut may be inside a word, which is left out.
        (None, Some(space)) if lead > 0 => lead + space + 1,
        (None, _) if lead == 0 => 0,
        (None, _) => best,
    };
    let reached = text.floor_char_boundary((start + most).min(text.len()));
    if reached == text.len() {
        return start..reached;
    }
    let inside = &text[start..reached];
    // Cut back in the second half only, so that a long line does not shorten the excerpt to little.
    let half = inside.floor_char_boundary(inside.len() / 2);
    let end = inside[half..].rfind('\n').or_else(|| inside[half..].rfind(' '));
    start..end.map_or(reached, |end| start + half + end + 1)
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
        text[excerpt(text, &found(text, asked), most)].to_owned()
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
            let range = excerpt(&text, &found(&text, "a b"), most);
            prop_assert!(text.get(range.clone()).is_some() && range.len() <= most, "{range:?}");
        }
    }
}
