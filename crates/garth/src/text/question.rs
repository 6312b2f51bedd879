//! From a question in plain words to an expression of the index. Nothing a user types may reach the syntax of
//! the index: words are taken out and quoted, everything else is dropped.

use std::collections::HashSet;

/// English words that questions are made of and that say nothing about the subject: function words, what an
/// apostrophe leaves behind ("what's", "don't"), and phrases such as "is it possible", "are any known". Verbs
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

/// The words of a question that are worth looking for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    terms: Vec<String>,
}

impl Question {
    /// Takes the words out of `text`, which may be anything. Stop words go, unless nothing else is there.
    /// `None` if there is no letter or digit: nothing can match.
    pub fn parse(text: &str) -> Option<Self> {
        let mut seen = HashSet::new();
        let words = words(text).map(|(_, word)| word);
        let mut terms: Vec<String> =
            words.filter(|word| seen.insert(word.to_lowercase())).map(str::to_owned).collect();
        let stop_words: HashSet<&str> = STOP_WORDS.split_whitespace().collect();
        let is_stop = |term: &String| stop_words.contains(term.to_lowercase().as_str());
        if !terms.iter().all(is_stop) {
            terms.retain(|term| !is_stop(term));
        }
        (!terms.is_empty()).then_some(Self { terms })
    }

    /// The words as typed, each once, in order.
    pub fn terms(&self) -> &[String] {
        &self.terms
    }

    /// FTS5 expression: passages with any of the words.
    pub fn any_term(&self) -> String {
        self.join(|term| format!("\"{term}\""))
    }

    /// FTS5 expression: passages with a word that begins like any of the words. For when nothing else
    /// matches. A single Latin letter stays a word: it would match almost everything.
    pub fn any_prefix(&self) -> String {
        self.join(|term| if term.len() > 1 { format!("\"{term}\"*") } else { format!("\"{term}\"") })
    }

    fn join(&self, quote: impl Fn(&String) -> String) -> String {
        // Terms are letters, digits and accents only (see `is_word`), so quotes cannot be closed from inside.
        self.terms.iter().map(quote).collect::<Vec<_>>().join(" OR ")
    }
}

/// The words of `text` with the offset of their first byte.
pub(super) fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + text[at..].find(is_word)?;
        let end = text[start..].find(|c| !is_word(c)).map_or(text.len(), |length| start + length);
        at = end;
        Some((start, &text[start..end]))
    })
}

/// Whether `c` belongs to a word, as the tokenizer `unicode61` sees it or a little wider: what it splits
/// further becomes a phrase. Combining accents belong to the letter before them.
fn is_word(c: char) -> bool {
    c.is_alphanumeric() || ('\u{300}'..='\u{36f}').contains(&c)
}
