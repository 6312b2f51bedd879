//! From text to the tokens that the index holds. Questions go the same way, so whatever is done to a word
//! here, it is found by the word as written: English words become their stem, runs of Chinese, Japanese and
//! Korean letters pairs of letters, and all else stays as it is but for case and diacritics.

use std::collections::HashMap;

use icu_normalizer::properties::CanonicalCombiningClassMapBorrowed;
use icu_normalizer::{ComposingNormalizerBorrowed, DecomposingNormalizerBorrowed};

use super::stem::stem;

/// No token is longer, in bytes: of a longer word the beginning counts.
pub const MAX_TOKEN: usize = 128;
/// Words of which the token is remembered, in all.
const REMEMBERED: usize = 16 << 10;
/// In a passage that has a token at least so often, the index has the token marked with that number, too: it
/// knows which passages have a token, and this is how it also knows which are full of it. With what such a
/// passage has on average up to the next level, chosen on the Cranfield collection: ranks are as good as with
/// exact numbers.
pub const LEVELS: [(u32, f64); 3] = [(2, 2.0), (3, 3.5), (5, 7.0)];
/// Joins a token and its level. Never in a token, as it is no letter.
const LEVEL_MARK: char = '^';

/// The token of a passage that has `token` at least `level` times.
pub fn at_level(token: &str, level: u32) -> String {
    format!("{token}{LEVEL_MARK}{level}")
}

/// Whether the index made this of a token and a level.
pub fn is_level(token: &str) -> bool {
    token.contains(LEVEL_MARK)
}

/// Makes tokens, and remembers those of the words it has met.
#[derive(Debug, Default)]
pub struct Tokenizer {
    /// The number of the token that a word becomes.
    words: HashMap<Box<str>, usize>,
    numbers: HashMap<String, usize>,
    tokens: Vec<String>,
    /// How often each token is in the present passage.
    counts: Vec<u32>,
}

impl Tokenizer {
    /// The tokens of a passage, each once, with spaces between; those that it has more often also with their
    /// level.
    pub fn tokens(&mut self, passage: &str) -> String {
        if self.words.len() > REMEMBERED {
            *self = Self::default();
        }
        // Cut before it is folded, as questions are: `Linux™` is the word `Linux`, and no `linuxtm`.
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
        let mut fed = String::with_capacity(folded.len());
        for number in here {
            let (token, count) = (&self.tokens[number], std::mem::take(&mut self.counts[number]));
            fed.push_str(token);
            fed.push(' ');
            for (level, _) in LEVELS.into_iter().take_while(|(level, _)| *level <= count) {
                fed.push_str(&at_level(token, level));
                fed.push(' ');
            }
        }
        fed
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

/// The tokens by which a word of a question is looked for: of a run of two and more Chinese, Japanese or
/// Korean letters its pairs.
#[doc(hidden)]
pub fn of_word(word: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    for (_, word) in words(&fold(word)) {
        split(word, false, &mut |piece| tokens.push(stem(piece)));
    }
    tokens
}

/// The words of `text` with the offset of their first byte.
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

/// Whether `c` belongs to a word: letters, digits, and marks on them.
fn is_word(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_alphanumeric();
    }
    c.is_alphanumeric() || combining_class(c) != 0 || is_ignored(c)
}

fn combining_class(c: char) -> u8 {
    CanonicalCombiningClassMapBorrowed::new().get_u8(c)
}

/// Soft hyphen, and what forbids or asks for joined letters: part of a word, and of no account.
fn is_ignored(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200c}' | '\u{200d}' | '\u{2060}')
}

/// Whether `c` is a diacritic: not the marks that are letters of their own in Indic scripts, Thai or
/// Japanese. The classes are those of the Unicode standard, section 4.3: overlays, Hebrew, Arabic and Syriac
/// points, marks above and below.
fn is_diacritic(c: char) -> bool {
    matches!(combining_class(c), 1 | 10..=36 | 200..=240)
}

/// `text` without case, diacritics and variants of form (wide letters, ligatures).
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
                'ς' => folded.push('σ'),
                c if is_diacritic(c) || is_ignored(c) => {}
                c => folded.push(c),
            }
        }
    }
    // puts Korean syllables and voiced kana together again
    ComposingNormalizerBorrowed::new_nfc().normalize(&folded).into_owned()
}

/// Splits a folded word where Chinese, Japanese or Korean begins or ends, and such a run into its pairs. The
/// index also has `singles`, so that a question of one letter finds it anywhere.
fn split(word: &str, singles: bool, each: &mut impl FnMut(&str)) {
    if word.is_ascii() {
        return each(cut_off(word));
    }
    let mut rest = word;
    while let Some(first) = rest.chars().next() {
        let cjk = is_cjk(first);
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

/// Whether `c` is of a script that is written without spaces between words: Han, kana, bopomofo; Hangul too,
/// whose words carry endings.
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
