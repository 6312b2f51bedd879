//! Forms of the words of a question, and what an index knows of each.

use crate::text::question::Term;
use crate::text::token::{LEVELS, at_level};

/// Words that an index has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vocabulary {
    /// Tokens that `text/token.rs` makes.
    Tokens,
    /// Words as they are written, from which the index makes its own tokens: that of format 2, for passages
    /// that are not indexed again yet.
    Words,
}

/// One way in which a passage can contain a term.
#[derive(Clone, Debug, PartialEq)]
pub struct WordForm {
    /// Words among which to look for it.
    pub vocabulary: Vocabulary,
    /// A word of the index. It consists of letters, digits and a mark of its level.
    pub word: String,
    /// Times that a passage contains it, approximately.
    pub often: f64,
}

impl WordForm {
    /// Returns the form of a token itself.
    pub fn plain(word: String) -> Self {
        Self { vocabulary: Vocabulary::Tokens, word, often: 1.0 }
    }

    /// Returns true for the form that stands for the word itself, not for its frequency in a passage.
    pub fn is_plain(&self) -> bool {
        self.often <= 1.0
    }
}

/// Returns the forms of a term as it is. `has_words` is true for an index with [`Vocabulary::Words`].
pub(super) fn exactly(term: &Term, has_words: bool) -> Vec<WordForm> {
    let mut forms = vec![WordForm::plain(term.token.clone())];
    let levels = LEVELS.map(|(level, often)| (at_level(&term.token, level), often));
    forms.extend(levels.map(|(word, often)| WordForm { often, ..WordForm::plain(word) }));
    if has_words {
        forms.push(WordForm { vocabulary: Vocabulary::Words, word: term.word.clone(), often: 1.0 });
    }
    forms
}

/// Newest passages that contain a form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Newest {
    /// Passages, newest first.
    pub ids: Vec<i64>,
    /// True if these are all.
    pub complete: bool,
}

/// Size of an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Number of passages.
    pub passages: u64,
    /// Number of the newest passage.
    pub newest: i64,
}

impl Totals {
    /// Returns the number of passages, at least 1.
    pub(super) fn all(self) -> f64 {
        self.passages.max(1) as f64
    }
}
