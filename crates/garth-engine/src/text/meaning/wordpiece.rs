//! Tokens of the model that the table was made of: words without case and accents, as the longest pieces that
//! the vocabulary has.

use icu_normalizer::DecomposingNormalizerBorrowed;

use super::table::Table;
use super::unicode::{is_dropped, is_ideograph, is_mark, is_punctuation};

/// Limit on the characters of a word. The model does not know longer ones.
const MAX_WORD: usize = 100;

/// Appends the numbers of the tokens of `text` to `out`. Words that the vocabulary cannot spell have
/// none, nor have punctuation marks: without them more evidence is found.
pub fn tokens(text: &str, out: &mut Vec<u32>) {
    let table = Table::get();
    let mut folded = String::new();
    if text.is_ascii() && !text.bytes().any(is_dropped_byte) {
        folded.push_str(text);
        folded.make_ascii_lowercase();
        return ascii_words(table, &folded, out);
    }
    for run in text.split(is_space) {
        // Each ideograph is a word, before it is folded.
        let mut rest = run;
        while let Some(first) = rest.chars().next() {
            let alone = is_ideograph(first);
            let end = if alone { first.len_utf8() } else { rest.find(is_ideograph).unwrap_or(rest.len()) };
            fold(&rest[..end], &mut folded);
            words(table, &folded, out);
            rest = &rest[end..];
        }
    }
}

/// Returns true for control characters that do not separate words.
fn is_dropped_byte(byte: u8) -> bool {
    byte.is_ascii_control() && !matches!(byte, b'\t' | b'\n' | b'\r')
}

/// Splits ASCII at whitespace and punctuation marks.
fn ascii_words(table: &Table, folded: &str, out: &mut Vec<u32>) {
    let separates = |byte: &u8| !byte.is_ascii_alphanumeric();
    let mut rest = folded;
    while let Some(at) = rest.as_bytes().iter().position(separates) {
        word(table, &rest[..at], out);
        rest = &rest[at + 1..];
    }
    word(table, rest, out);
}

/// Returns true for whitespace. Unicode's next line, form feed and vertical tab count as control characters.
fn is_space(c: char) -> bool {
    c.is_whitespace() && !is_dropped(c)
}

/// Writes `run` without case, accents and control characters.
fn fold(run: &str, folded: &mut String) {
    folded.clear();
    let kept = run.chars().filter(|c| !is_dropped(*c));
    let decomposed = DecomposingNormalizerBorrowed::new_nfd().normalize_iter(kept);
    folded.extend(decomposed.filter(|c| !is_mark(*c)).flat_map(char::to_lowercase));
}

/// Splits at punctuation marks.
fn words(table: &Table, folded: &str, out: &mut Vec<u32>) {
    if folded.is_ascii() {
        return ascii_words(table, folded, out);
    }
    for piece in folded.split(is_punctuation) {
        word(table, piece, out);
    }
}

/// Appends the tokens of a word: the longest that begins it, then the longest that continues it, and so on. A
/// rest without token makes the word unknown.
fn word(table: &Table, word: &str, out: &mut Vec<u32>) {
    let before = out.len();
    if word.len() > MAX_WORD && word.chars().nth(MAX_WORD).is_some() {
        return;
    }
    let mut rest = word;
    while !rest.is_empty() {
        let Some((token, length)) = table.longest(rest, rest.len() == word.len()) else {
            out.truncate(before);
            return;
        };
        out.push(token);
        rest = &rest[length..];
    }
}
