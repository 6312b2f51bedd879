//! Frequency of words in general English. A few texts do not show it: among them an everyday word can be as
//! rare as a name.
//!
//! The vocabulary of the table is ordered by frequency, so that a word's place in it is its rank. The
//! frequency follows from the rank by Zipf's law.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::table::Table;
use crate::text::token::of_word;

/// Number of words that count. For rarer ones the order of the vocabulary says little.
const COUNTED: usize = 20_000;
/// The word of rank r occurs `SCALE / (r + SHIFT)` times in each word of text.
/// `docs/decisions/background-frequency.md` compares this with messages.
const SCALE: f64 = 0.08;
const SHIFT: f64 = 1.7;
/// Length of a passage, in words.
const PASSAGE: f64 = 40.0;
static SHARES: LazyLock<HashMap<String, f64>> = LazyLock::new(shares);

/// Returns the share of passages of general English that contain a token of the index: that of the most
/// frequent word with this token. `None` for a token of no word among the 20,000 most frequent ones.
pub fn share_in_english(token: &str) -> Option<f64> {
    SHARES.get(token).copied()
}

fn shares() -> HashMap<String, f64> {
    // In the order of their frequency.
    let words = Table::get().beginnings().iter().map(|(word, _)| *word).filter(|word| is_word(word));
    let words = words.take(COUNTED);
    let mut shares = HashMap::with_capacity(COUNTED);
    for (rank, word) in (1_u32..).zip(words) {
        for token in of_word(word) {
            // The first word with a token is the most frequent one.
            shares.entry(token).or_insert_with(|| share_at(rank));
        }
    }
    shares
}

/// Returns true for English words. The vocabulary also has numbers, marks, other scripts, and all letters.
fn is_word(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_lowercase()) && (word.len() > 1 || matches!(word, "a" | "i"))
}

/// Returns the share of passages that contain the word of a rank, which counts from 1.
fn share_at(rank: u32) -> f64 {
    let occurrences = PASSAGE * SCALE / (f64::from(rank) + SHIFT);
    1.0 - (-occurrences).exp()
}
