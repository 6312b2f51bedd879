//! Questions in plain words, as tokens to look for. Nothing that a user types may reach the syntax of an
//! index: words are extracted, everything else is dropped.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;

use super::token::{of_word, words};

/// Limit on the tokens of a question; the first ones count. It bounds the work of one search.
pub const MAX_TERMS: usize = 128;
/// Tokens up to which a question is not divided.
const SHORT: usize = 12;
/// Minimum number of tokens of a part. Fewer, such as a greeting, are no question of their own.
const LEAST: usize = 4;
/// Number of tokens at which a part ends without the end of a sentence: more than a question needs.
const LONGEST: usize = 24;
/// Marks at the end of a question: Latin, Arabic, Greek, full width.
const QUESTION_MARKS: [char; 4] = ['?', '؟', '\u{37e}', '？'];
/// Limit on the parts of a question. The last one contains the rest.
const MAX_PARTS: usize = 16;

/// English words that occur in questions and say nothing about their subject: function words, what an
/// apostrophe leaves over ("what's", "don't"), and phrases such as "is it possible", "are any known". Verbs
/// that may be the subject ("make", "find") are not among them.
pub(super) const STOP_WORDS: &str = "
    a about above after again against all also although always am among an and any anybody anyone anything
    are aren as at available be because been before being below between both but by can cannot could couldn
    d did didn do does doesn doing don done down during each either else ever every exist exists few for
    from further give given had has hasn have haven having he her here hers herself him himself his how
    however i if in into is isn it its itself just know known less ll m many may me might more most much
    must my myself neither never no nor not now of off on once one only or other others otherwise ought our
    ours ourselves out over own perhaps please possible quite rather re s same several shall she should
    shouldn since so some somebody someone something still such t than that the their theirs them themselves
    then there these they this those though through thus to too under unless until up upon us ve very was
    wasn we were weren what when where whether which while who whom whose why will with within without would
    wouldn yet you your yours yourself yourselves
";

/// Token to look for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// Token, as the index has it.
    pub token: String,
    /// Word of the token, as typed: letters, digits and marks only.
    pub word: String,
}

/// Part of a question: a sentence, several short ones, or a piece of a very long one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Range of its bytes in the question.
    pub text: Range<usize>,
    /// Places of its terms among those of the question: one bit for each.
    pub terms: u128,
    /// False for a statement in a text that has a question mark elsewhere.
    pub asks: bool,
}

/// Words of a question that are worth looking for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    terms: Vec<Term>,
    parts: Vec<Part>,
}

impl Question {
    /// Extracts the words of `text`, which may be anything. Stop words are dropped, unless there are no
    /// others. Returns `None` if there is no letter or digit, so that nothing can match.
    pub fn parse(text: &str) -> Option<Self> {
        let stop_words: HashSet<&str> = STOP_WORDS.split_whitespace().collect();
        let is_stop = |word: &str| stop_words.contains(word.to_lowercase().as_str());
        let words: Vec<&str> = words(text).map(|(_, word)| word).collect();
        // "To be or not to be" is a question as well.
        let only_stop_words = words.iter().all(|word| is_stop(word));
        let mut seen = HashSet::new();
        let mut terms = Vec::new();
        for word in words.into_iter().filter(|word| only_stop_words || !is_stop(word)) {
            for token in of_word(word) {
                // Several words may have one token: `run`, `running`.
                if terms.len() < MAX_TERMS && seen.insert(token.clone()) {
                    terms.push(Term { token, word: word.to_owned() });
                }
            }
        }
        let parts = parts(text, &terms);
        (!terms.is_empty()).then_some(Self { terms, parts })
    }

    /// Returns the terms: each token once, in the order of the words.
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// Returns the parts, each of which can be what is asked: a long message says more than its question. A
    /// question of up to 12 tokens is one part.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }
}

fn parts(text: &str, terms: &[Term]) -> Vec<Part> {
    let all = Part { text: 0..text.len(), terms: u128::MAX, asks: true };
    if terms.len() <= SHORT {
        return vec![all];
    }
    let places: HashMap<&str, usize> = terms.iter().map(|term| term.token.as_str()).zip(0..).collect();
    let mut sentences = text.split_sentence_bound_indices().map(|(start, _)| start).peekable();
    let mut parts: Vec<Part> = Vec::new();
    let mut part = Part { text: 0..0, terms: 0, asks: false };
    let mut cut = Vec::new();
    for (start, word) in words(text) {
        let begins = sentences.next_if(|sentence| *sentence <= start).is_some();
        while sentences.next_if(|sentence| *sentence <= start).is_some() {}
        let count = part.terms.count_ones() as usize;
        if parts.len() + 1 < MAX_PARTS && (begins && count >= LEAST || count >= LONGEST) {
            part.text.end = start;
            if !begins {
                cut.push(parts.len());
            }
            parts.push(std::mem::replace(&mut part, Part { text: start..start, terms: 0, asks: false }));
        }
        let known = of_word(word).into_iter().filter_map(|token| places.get(token.as_str()).copied());
        part.terms = known.fold(part.terms, |terms, place| terms | 1 << place);
    }
    part.text.end = text.len();
    match parts.last_mut() {
        Some(last) if (part.terms.count_ones() as usize) < LEAST => {
            last.text.end = part.text.end;
            last.terms |= part.terms;
        }
        _ => parts.push(part),
    }
    let has_mark = |part: &Part| text[part.text.clone()].contains(QUESTION_MARKS);
    let any = parts.iter().any(has_mark);
    parts.iter_mut().for_each(|part| part.asks = !any || has_mark(part));
    // The mark is only in the last piece of a sentence that was cut.
    for place in cut.into_iter().rev() {
        parts[place].asks |= parts.get(place + 1).is_some_and(|next| next.asks);
    }
    parts
}
