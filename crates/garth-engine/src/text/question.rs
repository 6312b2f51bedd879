//! Questions in plain words, as tokens to look for. Nothing that a user types may reach the syntax of an
//! index: words are extracted, everything else is dropped.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::sentence::{Sentence, is_one_of, is_small_talk, sentences};
use super::token::words;

/// Limit on the tokens of a question; the first ones of the sentences that ask count, then the first ones of
/// the others. It bounds the work of one search.
pub const MAX_TERMS: usize = 128;
/// Tokens up to which a question is not divided, unless it has questions and statements that are parts.
const SHORT: usize = 12;
/// Minimum number of tokens of a statement that is a part. Fewer, such as a greeting, are joined.
const LEAST: usize = 4;
/// Number of tokens at which a part ends without the end of a sentence: more than a question needs.
const LONGEST: usize = 24;
/// Limit on the parts of a question, each of which ranks all candidates of a search.
const MAX_PARTS: usize = 16;
/// Weight of the statements in a message that asks something.
pub(crate) const BESIDE_QUESTION: f64 = 0.5;

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

/// Pronouns for the one who is asked.
const ADDRESSED: &str = "you your yours yourself yourselves";

/// Token to look for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// Token, as the index has it.
    pub token: String,
    /// Word of the token, as typed: letters, digits and marks only.
    pub word: String,
}

/// Part of a question: a sentence, several short ones, or a piece of a very long one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Ranges of its bytes in the question.
    pub text: Vec<Range<usize>>,
    /// Places of its terms among those of the question: one bit for each.
    pub terms: u128,
    /// Terms of the rest of the question, if it asks in a few words, such as `Is she allergic?`: they can say
    /// of what. 0 for other parts.
    pub about: u128,
    /// True if one of these terms is what a pronoun stands for.
    pub refers: bool,
    /// False for a statement in a text that asks something elsewhere.
    pub asks: bool,
}

impl Part {
    /// Returns a question that is not divided.
    pub fn whole(text: &str) -> Self {
        Self { terms: u128::MAX, asks: true, ..Self::of(0..text.len()) }
    }

    fn of(text: Range<usize>) -> Self {
        Self { text: vec![text], ..Self::default() }
    }

    /// Returns the number of its terms.
    fn count(&self) -> usize {
        self.terms.count_ones() as usize
    }

    fn join(&mut self, other: Self) {
        self.text.extend(other.text);
        self.terms |= other.terms;
        (self.about, self.refers) = (0, false);
    }
}

/// Words of a question that are worth looking for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    terms: Vec<Term>,
    parts: Vec<Part>,
    asks_nothing: bool,
}

impl Question {
    /// Extracts the words of `text`, which may be anything. Stop words are dropped, unless there are no
    /// others. Returns `None` if there is no letter or digit, so that nothing can match.
    pub fn parse(text: &str) -> Option<Self> {
        let stop_words: HashSet<&str> = STOP_WORDS.split_whitespace().collect();
        let is_stop = |word: &str| stop_words.contains(word.to_lowercase().as_str());
        // "To be or not to be" is a question as well.
        let only_stop_words = words(text).all(|(_, word)| is_stop(word));
        let sentences = sentences(text, |word| !only_stop_words && is_stop(word));
        let terms = terms(&sentences);
        let parts = parts(text, &sentences, &terms);
        let is_talk = words(text).all(|(_, word)| is_stop(word) || is_small_talk(word));
        let is_addressed = words(text).any(|(_, word)| is_one_of(ADDRESSED, word));
        let asks_nothing = only_stop_words || is_talk && is_addressed;
        (!terms.is_empty()).then_some(Self { terms, parts, asks_nothing })
    }

    /// Returns the terms: each token once, in the order of the words.
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// Returns the parts, each of which can be what is asked, those that ask first: a message says more than
    /// its question.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Returns true if nothing in it shows whether a text answers it: all its words are stop words, such as
    /// `who are you`, or it is small talk with somebody, such as `How are you today?`.
    pub fn asks_nothing(&self) -> bool {
        self.asks_nothing
    }

    /// Returns the share of the terms of a part that are in `found`, for the part with the largest share, 0
    /// to 1. A statement beside a question counts half.
    pub fn share_of(&self, found: u128) -> f64 {
        let share = |part: &Part| {
            let own = part.count().min(self.terms.len()).max(1);
            let share = f64::from((found & part.terms).count_ones()) / own as f64;
            if part.asks { share } else { share * BESIDE_QUESTION }
        };
        self.parts.iter().map(share).fold(0.0, f64::max)
    }
}

/// Returns the terms of the parts that ask: one bit for each.
pub fn asking(parts: &[Part]) -> u128 {
    parts.iter().filter(|part| part.asks).fold(0, |all, part| all | part.terms)
}

/// Returns the terms of sentences, as far as the limit allows.
fn terms(sentences: &[Sentence<'_>]) -> Vec<Term> {
    let mut chosen = HashSet::new();
    for asks in [true, false] {
        let words = sentences.iter().filter(|sentence| sentence.asks == asks).flat_map(|it| &it.words);
        for token in words.flat_map(|word| &word.tokens) {
            if chosen.len() < MAX_TERMS {
                chosen.insert(token.as_str());
            }
        }
    }
    let mut terms = Vec::with_capacity(chosen.len());
    for word in sentences.iter().flat_map(|sentence| &sentence.words) {
        for token in &word.tokens {
            // Several words may have one token: `run`, `running`.
            if chosen.remove(token.as_str()) {
                terms.push(Term { token: token.clone(), word: word.text.to_owned() });
            }
        }
    }
    terms
}

/// Divides a question. The order of its sentences matters only where a long text or sentence is cut.
fn parts(text: &str, sentences: &[Sentence<'_>], terms: &[Term]) -> Vec<Part> {
    let places: HashMap<&str, usize> = terms.iter().map(|term| term.token.as_str()).zip(0..).collect();
    let all = places.values().fold(0, |all, place| all | 1_u128 << *place);
    let (mut parts, mut statements, mut short) = (Vec::new(), Vec::new(), Vec::new());
    for sentence in sentences {
        let mut pieces = pieces(sentence, &places);
        if let [piece] = &mut pieces[..]
            && sentence.asks
            && piece.count() < LEAST
        {
            piece.about = all & !piece.terms;
            piece.refers = sentence.refers && piece.about != 0;
        }
        for piece in pieces {
            match piece.count() {
                _ if piece.asks => parts.push(piece),
                LEAST.. => statements.push(piece),
                _ => short.push(piece),
            }
        }
    }
    add_short(text, &mut statements, short);
    // A few words beside a question say more about it.
    if terms.len() <= SHORT && (parts.is_empty() || statements.is_empty()) {
        return vec![Part::whole(text)];
    }
    if parts.is_empty() {
        statements.iter_mut().for_each(|part| part.asks = true);
    }
    // At least one part: joined with a question, statements would be asked as much as that.
    let statements = joined(text, statements, MAX_PARTS.saturating_sub(parts.len()).max(1));
    let mut parts = joined(text, parts, MAX_PARTS - statements.len());
    parts.extend(statements);
    parts
}

/// Joins parts if they are more than `most`. The ones with the fewest words go to the others in turn: a part
/// of many questions would fit none of their answers.
fn joined(text: &str, mut parts: Vec<Part>, most: usize) -> Vec<Part> {
    if parts.len() > most {
        parts.sort_by_key(|part| (Reverse(part.count()), start(text, part)));
        for (number, part) in parts.split_off(most).into_iter().enumerate() {
            parts[most - 1 - number % most].join(part);
        }
    }
    parts
}

/// Returns the text with which a part begins. Among equals it decides, because it does not depend on the
/// order of the sentences.
fn start<'t>(text: &'t str, part: &Part) -> Option<&'t str> {
    part.text.first().and_then(|range| text.get(range.clone())).map(str::trim)
}

/// Returns a sentence as a part, or a very long one as several. A sentence without any of the terms is none.
fn pieces(sentence: &Sentence<'_>, places: &HashMap<&str, usize>) -> Vec<Part> {
    let asks = sentence.asks;
    let mut pieces: Vec<Part> = Vec::new();
    let mut from = sentence.text.start;
    let mut terms = 0_u128;
    for word in &sentence.words {
        if terms.count_ones() as usize >= LONGEST {
            pieces.push(Part { terms, asks, ..Part::of(from..word.at) });
            (from, terms) = (word.at, 0);
        }
        let known = word.tokens.iter().filter_map(|token| places.get(token.as_str()));
        terms = known.fold(terms, |terms, place| terms | 1_u128 << *place);
    }
    let last = Part { terms, asks, ..Part::of(from..sentence.text.end) };
    match pieces.last_mut() {
        Some(before) if last.count() < LEAST => before.join(last),
        None if terms == 0 => {}
        _ => pieces.push(last),
    }
    pieces
}

/// Joins the short statements, and adds them to the others. If they are few words, they go to the shortest of
/// the others. Beside questions alone they are left out: a greeting is not what is asked.
fn add_short(text: &str, statements: &mut Vec<Part>, short: Vec<Part>) {
    let mut rest = Part::default();
    for part in short {
        rest.join(part);
        if rest.count() >= LONGEST {
            statements.push(std::mem::take(&mut rest));
        }
    }
    if rest.count() >= LEAST {
        statements.push(rest);
        return;
    }
    if let Some(shortest) = statements.iter_mut().min_by_key(|part| (part.count(), start(text, part))) {
        shortest.join(rest);
    }
}
