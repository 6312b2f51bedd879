//! Passages as each part of a question ranks them, and as the part ranks them that they fit best.
//!
//! Parts have words in common, and there are many of them in a long question. So what does not depend on a
//! part is computed once for all.

use super::around::Around;
use super::matches::TermMatches;
use super::numbers::NumberMap;
use super::passage::Passage;
use super::score::{Ranked, add_cosines, saturated, terms_of_others};
use crate::text::meaning::{Embedding, Weights, tokens};
use crate::text::question::{BESIDE_QUESTION, Part};

/// Some passages, as each part of a question ranks them.
pub(super) struct ByPart<'a> {
    parts: &'a [Part],
    /// For each part all passages, in the same order.
    ranked: Vec<Vec<Ranked>>,
}

impl<'a> ByPart<'a> {
    /// Ranks passages by their words and length, and by what is around them, if it counts. Each term counts
    /// `by` of its weight.
    pub(super) fn new(
        (parts, by): (&'a [Part], f64),
        shown: &[Ranked],
        (wanted, near): (&[TermMatches], &[TermMatches]),
        around: Option<&Around>,
    ) -> Self {
        let gains = gains(shown, wanted, near);
        let others = around.map_or_else(Vec::new, |around| terms_of_others(shown, around));
        let ranked_by = |of_part: u128| {
            let mut ranked = shown.to_vec();
            let terms = wanted.iter().chain(near).zip(&gains).enumerate();
            for (number, (term, gains)) in terms.filter(|(_, (term, _))| term.terms & of_part != 0) {
                for (place, gain) in gains {
                    let it = &mut ranked[*place];
                    it.rank += gain;
                    match number < wanted.len() {
                        true => it.words += term.weight,
                        false => it.meaning += gain,
                    }
                }
            }
            for (it, others) in ranked.iter_mut().zip(&others) {
                it.add_neighbours(others, |terms| weight_of(wanted, terms & of_part));
            }
            ranked
        };
        let settled = |part: &Part| {
            let mut ranked = ranked_by(part.terms);
            let mut total = weight_of(wanted, part.terms);
            if part.about != 0 {
                for (it, about) in ranked.iter_mut().zip(ranked_by(part.about)) {
                    it.add_subject(&about, total, part.refers);
                }
                total *= if part.refers { 2.0 } else { 1.0 };
            }
            ranked.iter_mut().for_each(|it| it.settle(total / by));
            ranked
        };
        Self { parts, ranked: parts.iter().map(settled).collect() }
    }

    /// Returns each passage as the part ranks it that it fits best.
    pub(super) fn best(&self) -> Vec<Ranked> {
        let mut best: Vec<Ranked> = Vec::new();
        for (ranked, part) in self.ranked.iter().zip(self.parts) {
            let share = if part.asks { 1.0 } else { BESIDE_QUESTION };
            let ranked = ranked.iter().map(|it| it.share(share));
            if best.is_empty() {
                best.extend(ranked);
                continue;
            }
            for (best, other) in best.iter_mut().zip(ranked) {
                if other.rank > best.rank {
                    *best = other;
                }
            }
        }
        best
    }

    /// Returns the best `most` passages with their places, in the order of files.
    pub(super) fn first(&self, most: usize) -> Vec<(usize, Passage)> {
        let mut best: Vec<(usize, Ranked)> = self.best().into_iter().enumerate().collect();
        best.sort_unstable_by(|(_, one), (_, other)| other.order(one));
        best.truncate(most);
        best.sort_unstable_by_key(|(_, it)| (it.passage.ino, it.passage.span.off));
        best.into_iter().map(|(place, it)| (place, it.passage)).collect()
    }

    /// Compares the passages at `places`, which have these texts, with each part of the question.
    pub(super) fn add_meaning(
        &mut self,
        places: &[usize],
        texts: &[String],
        question: &str,
        around: Option<&Around>,
    ) {
        let tokens_of = |text: &str| {
            let mut all = Vec::new();
            tokens(text, &mut all);
            all
        };
        let texts: Vec<Vec<u32>> = texts.iter().map(|text| tokens_of(text)).collect();
        // By rarity in these texts alone, so that no other text has a part in the score.
        let weights = Weights::by_rarity(texts.iter().map(Vec::as_slice));
        let texts: Vec<Embedding> = texts.iter().map(|text| Embedding::new(text, &weights)).collect();
        for (part, ranked) in self.parts.iter().zip(&mut self.ranked) {
            let asked: Option<String> = part.text.iter().map(|range| question.get(range.clone())).collect();
            // The caller gives text and parts apart.
            let asked = Embedding::new(&tokens_of(asked.as_deref().unwrap_or(question)), &weights);
            add_cosines(ranked, places, &texts, &asked, around);
        }
    }
}

/// Returns for each term the places of the passages that contain it, with their gains. None of these depends
/// on the part of the question.
fn gains(shown: &[Ranked], wanted: &[TermMatches], near: &[TermMatches]) -> Vec<Vec<(usize, f64)>> {
    let words: f64 = shown.iter().map(|it| it.length).sum();
    let average = words / shown.len().max(1) as f64;
    let places: NumberMap<i64, usize> = shown.iter().map(|it| it.passage.id).zip(0..).collect();
    let of_term = |(number, term): (usize, &TermMatches)| {
        let rows = term.matches.rows.iter();
        let gains = rows.filter_map(|(id, often)| {
            let place = *places.get(id)?;
            let it = &shown[place];
            let is_shown = match number < wanted.len() {
                true => it.terms >> number & 1 == 1,
                false => !it.is_part,
            };
            // How often a word occurs is known of complete passages.
            let often = if it.is_part { 1.0 } else { *often };
            is_shown.then(|| (place, term.weight * saturated(often, it.length / average)))
        });
        gains.collect()
    };
    wanted.iter().chain(near).enumerate().map(of_term).collect()
}

/// Returns the weight of some terms: one bit for each.
pub(super) fn weight_of(wanted: &[TermMatches], terms: u128) -> f64 {
    // The sum of no numbers is -0.0, which would be visible in the score.
    let (mut sum, mut left) = (0.0, terms);
    while left != 0 {
        // A question that is not divided has more bits than terms.
        let Some(term) = wanted.get(left.trailing_zeros() as usize) else { break };
        sum += term.weight;
        left &= left - 1;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::search::matches::Matches;
    use crate::engine::search::score::near_words;
    use crate::model::Ino;
    use crate::text::passage::{Form, Span};
    use crate::text::question::Question;

    const STORY: &str = "Sorry for the late reply, the train to Porto stopped twice between two tunnels. ";
    const REST: &str = "My colleague repainted the kitchen and burned the lentils again. ";
    const QUESTION: &str = "Which drink does Alice take without milk in the morning?";

    fn term(place: usize, rows: &[(i64, f64)]) -> TermMatches {
        let matches = Matches { rows: rows.to_vec(), complete: true, passages: rows.len() as f64 };
        let terms = 1 << place;
        TermMatches { forms: Vec::new(), matches, terms, share: 1.0, in_english: 0.0, weight: 1.0 }
    }

    fn passage(id: u32, terms: u128) -> Ranked {
        let span = Span { off: 0, len: 60, newline: false };
        let (form, ino) = (Form::Text, Ino(u64::from(id)));
        Ranked::new(Passage { id: id.into(), ino, span, line_feeds: 0, form, words: 10 }, terms)
    }

    #[test]
    fn passages_are_compared_with_the_best_part() {
        let texts = ["Alice takes her coffee without milk.", "The harbour has two cranes."];
        let texts = texts.map(str::to_owned);
        let meaning = |message: &str| {
            let question = Question::parse(message).unwrap();
            let wanted: Vec<TermMatches> =
                (0..question.terms().len()).map(|place| term(place, &[])).collect();
            let shown = [passage(1, 0), passage(2, 0)];
            let mut by_part = ByPart::new((question.parts(), 1.0), &shown, (&wanted, &[]), None);
            by_part.add_meaning(&[0, 1], &texts, message, None);
            by_part.best()[0].meaning
        };
        let alone = meaning(QUESTION);
        assert!(alone > 0.0, "{alone}");
        assert_eq!(meaning(&format!("{STORY}{QUESTION}")), alone);
        assert_eq!(meaning(&format!("{STORY}{REST}{QUESTION}")), alone);
    }

    #[test]
    fn story_takes_no_near_words_of_question() {
        let near = |message: &str| -> Vec<(String, f64)> {
            let near = near_words(&Question::parse(message).unwrap());
            near.into_iter().map(|word| (word.token, word.cosine)).collect()
        };
        let alone = near(QUESTION);
        assert!(!alone.is_empty());
        assert_eq!(near(&format!("{STORY}{REST}{QUESTION}")), alone);
        assert_eq!(near(&format!("I had coffee and tea in that kitchen. {STORY}{QUESTION}")), alone);
    }

    #[test]
    fn statement_counts_half_in_every_number() {
        let part = |terms, asks| Part { terms, asks, ..Part::default() };
        let parts = [part(0b0011, false), part(0b1100, true)];
        let wanted: Vec<TermMatches> = (0..4).map(|place| term(place, &[(place as i64 / 2, 1.0)])).collect();
        let shown = [passage(0, 0b0011), passage(1, 0b1100), passage(2, 0)];
        let best = ByPart::new((&parts, 1.0), &shown, (&wanted, &[]), None).best();
        let [statement, asked, other] = best[..] else { panic!("{best:?}") };
        assert_eq!((asked.rank, asked.parts()), (1.0, (1.0, 0.0, 0.0)));
        assert_eq!((statement.rank, statement.parts()), (0.5, (0.5, 0.0, 0.0)));
        assert_eq!((other.rank, other.parts()), (0.0, (0.0, 0.0, 0.0)));
    }

    #[test]
    fn short_question_is_about_other_words() {
        let part = Part { terms: 0b001, about: 0b110, refers: true, asks: true, ..Part::default() };
        let rows: [&[(i64, f64)]; 3] = [&[(0, 1.0), (1, 1.0)], &[(1, 1.0), (2, 1.0)], &[(1, 1.0), (2, 1.0)]];
        let wanted: Vec<TermMatches> = rows.iter().zip(0..).map(|(rows, place)| term(place, rows)).collect();
        let shown = [passage(0, 0b001), passage(1, 0b111), passage(2, 0b110), passage(3, 0)];
        let best = |part: Part| -> (Vec<f64>, Vec<f64>) {
            let parts = [part];
            let best = ByPart::new((&parts, 1.0), &shown, (&wanted, &[]), None).best();
            best.iter().map(|it| (it.parts().0, it.rank)).unzip()
        };
        assert_eq!(best(part.clone()), (vec![0.5, 1.0, 0.0, 0.0], vec![0.5, 1.0, 0.0, 0.0]));
        // Without a pronoun, they decide between equals.
        let part = Part { refers: false, ..part };
        assert_eq!(best(part), (vec![1.0, 1.0, 0.0, 0.0], vec![1.0, 1.25, 0.0, 0.0]));
    }
}
