//! Tokens: text as the index stores it. Questions are treated in the same way, so a word is always found by
//! the word as it is written. English words become their stem; runs of Chinese, Japanese and Korean letters
//! become pairs of letters; all others lose only case and diacritics.

use std::collections::HashMap;

use icu_normalizer::properties::CanonicalCombiningClassMapBorrowed;
use icu_normalizer::{ComposingNormalizerBorrowed, DecomposingNormalizerBorrowed};

use super::stem::stem;

/// Limit on the length of a token, in bytes. Longer words are cut off.
pub const MAX_TOKEN: usize = 128;
/// Limit on the words whose token is remembered.
const REMEMBERED: usize = 16 << 10;
/// Levels of a token in a passage, with the average number of occurrences up to the next level. If a
/// passage has a token at least `level` times, the index also stores the token marked with that level: it
/// knows only which passages have a token, not how often. The levels are chosen on the Cranfield
/// collection: ranking is as good as with exact numbers.
pub const LEVELS: [(u32, f64); 3] = [(2, 2.0), (3, 3.5), (5, 7.0)];
/// Separates a token from its level. It is not a letter, so it never occurs in a token.
const LEVEL_MARK: char = '^';

/// Returns the token for passages that have `token` at least `level` times.
pub fn at_level(token: &str, level: u32) -> String {
    format!("{token}{LEVEL_MARK}{level}")
}

/// Returns true if a token is marked with a level.
pub fn is_level(token: &str) -> bool {
    token.contains(LEVEL_MARK)
}

/// Makes tokens, and remembers those of the words that it has met.
#[derive(Debug, Default)]
pub struct Tokenizer {
    /// Number of the token of each word.
    words: HashMap<Box<str>, usize>,
    numbers: HashMap<String, usize>,
    tokens: Vec<String>,
    /// Number of occurrences of each token in the present passage.
    counts: Vec<u32>,
}

impl Tokenizer {
    /// Returns the tokens of a passage, each once, separated by spaces; tokens that occur more often also
    /// with their levels. Returns the number of all tokens, too.
    pub fn tokens(&mut self, passage: &str) -> (String, u64) {
        // Bounds the memory: all words are forgotten at once.
        if self.words.len() > REMEMBERED {
            *self = Self::default();
        }
        // Words are separated before they are folded, as in questions: `Linux™` is the word `Linux`, not
        // `linuxtm`.
        let folded = if passage.is_ascii() {
            fold(passage)
        } else {
            words(passage).map(|(_, word)| fold(word)).collect::<Vec<_>>().join(" ")
        };
        let mut here = Vec::new();
        for word in words(&folded).map(|(_, word)| word) {
            split(word, true, &mut |piece| {
                let number = self.words.get(piece).copied().unwrap_or_else(|| self.learn(piece));
                if self.counts[number] == 0 {
                    here.push(number);
                }
                self.counts[number] += 1;
            });
        }
        let mut all = 0;
        let mut fed = String::with_capacity(folded.len());
        for number in here {
            let (token, count) = (&self.tokens[number], std::mem::take(&mut self.counts[number]));
            all += u64::from(count);
            fed.push_str(token);
            fed.push(' ');
            for (level, _) in LEVELS.into_iter().take_while(|(level, _)| *level <= count) {
                fed.push_str(&at_level(token, level));
                fed.push(' ');
            }
        }
        (fed, all)
    }

    fn learn(&mut self, piece: &str) -> usize {
        let token = stem(piece);
        let number = *self.numbers.entry(token).or_insert_with_key(|token| {
            self.tokens.push(token.clone());
            self.counts.push(0);
            self.tokens.len() - 1
        });
        self.words.insert(piece.into(), number);
        number
    }
}

/// Returns the tokens to look for a word of a question by. A run of two or more Chinese, Japanese or Korean
/// letters becomes its pairs.
#[doc(hidden)]
pub fn of_word(word: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    for (_, word) in words(&fold(word)) {
        split(word, false, &mut |piece| tokens.push(stem(piece)));
    }
    tokens
}

/// Returns the words of `text`, each with the offset of its first byte.
#[doc(hidden)]
pub fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + text[at..].find(is_word)?;
        let end = text[start..].find(|c| !is_word(c)).map_or(text.len(), |length| start + length);
        at = end;
        Some((start, &text[start..end]))
    })
}

/// Returns true if `c` belongs to a word: letters, digits, and marks on them.
fn is_word(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_alphanumeric();
    }
    c.is_alphanumeric() || combining_class(c) != 0 || is_ignored(c)
}

fn combining_class(c: char) -> u8 {
    CanonicalCombiningClassMapBorrowed::new().get_u8(c)
}

/// Returns true for the soft hyphen and for joiners, which are part of a word and do not matter.
fn is_ignored(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200c}' | '\u{200d}' | '\u{2060}')
}

/// Returns true if `c` is a diacritic. Marks that are letters of their own in Indic scripts, Thai or
/// Japanese are not. The classes are from the Unicode standard, section 4.3: overlays, Hebrew, Arabic and
/// Syriac points, marks above and below.
fn is_diacritic(c: char) -> bool {
    matches!(combining_class(c), 1 | 10..=36 | 200..=240)
}

/// Returns `text` without case, diacritics and variants of form (wide letters, ligatures).
fn fold(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    let mut folded = String::with_capacity(text.len());
    for c in DecomposingNormalizerBorrowed::new_nfkd().normalize_iter(text.chars()) {
        for c in c.to_lowercase() {
            match c {
                c if c.is_ascii() => folded.push(c),
                'ß' => folded.push_str("ss"),
                'ı' => folded.push('i'),
                // The final sigma is the same letter.
                'ς' => folded.push('σ'),
                c if is_diacritic(c) || is_ignored(c) => {}
                c => folded.push(c),
            }
        }
    }
    // Composes Korean syllables and voiced kana again.
    ComposingNormalizerBorrowed::new_nfc().normalize(&folded).into_owned()
}

/// Splits a folded word where Chinese, Japanese or Korean begins or ends, and splits such a run into its
/// pairs. With `singles`, it also gives single letters: the index has them, so that a question of one
/// letter finds it anywhere.
fn split(word: &str, singles: bool, each: &mut impl FnMut(&str)) {
    if word.is_ascii() {
        return each(cut_off(word));
    }
    let mut rest = word;
    while let Some(first) = rest.chars().next() {
        let cjk = is_cjk(first);
        // A run of one kind: words in other scripts have no pairs.
        let end = rest.find(|c| is_cjk(c) != cjk).unwrap_or(rest.len());
        let (run, after) = rest.split_at(end);
        rest = after;
        if !cjk {
            each(cut_off(run));
            continue;
        }
        let starts: Vec<usize> = run.char_indices().map(|(at, _)| at).chain([run.len()]).collect();
        for at in starts.windows(3) {
            each(&run[at[0]..at[2]]);
        }
        // A question of one letter has no pair to look for.
        if singles || starts.len() == 2 {
            for at in starts.windows(2) {
                each(&run[at[0]..at[1]]);
            }
        }
    }
}

fn cut_off(word: &str) -> &str {
    &word[..word.floor_char_boundary(MAX_TOKEN)]
}

/// Returns true if `c` is of a script that is written without spaces between words: Han, kana, bopomofo.
/// Also true for Hangul, whose words carry endings.
fn is_cjk(c: char) -> bool {
    matches!(c,
        '\u{1100}'..='\u{11ff}'
        | '\u{2e80}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}'
        | '\u{a960}'..='\u{a97f}'
        | '\u{ac00}'..='\u{d7ff}'
        | '\u{f900}'..='\u{faff}'
        | '\u{1aff0}'..='\u{1b2ff}'
        | '\u{20000}'..='\u{3ffff}'
    )
}
