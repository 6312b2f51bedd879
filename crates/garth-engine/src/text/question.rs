//! Questions in plain words, as tokens to look for. Nothing that a user types may reach the syntax of an
//! index: words are extracted, everything else is dropped.

use std::collections::HashSet;

use super::token::{of_word, words};

/// Limit on the tokens of a question; the first ones count. It bounds the work of one search.
pub const MAX_TERMS: usize = 128;

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

/// Words of a question that are worth looking for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    terms: Vec<Term>,
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
        (!terms.is_empty()).then_some(Self { terms })
    }

    /// Returns the terms: each token once, in the order of the words.
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }
}
