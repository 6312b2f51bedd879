//! Sentences of a question: where each begins, whether it asks for something that is stored, and its words.

use std::borrow::Cow;
use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;

use super::token::{of_word, words};

/// Question marks: Latin, Greek, Armenian, Arabic, Ethiopic, Limbu, several in one character, pictures, Old
/// Nubian, reversed, Vai, Bamum, those of East Asian text, Chakma.
const QUESTION_MARKS: &str = "?\u{37e}\u{55e}\u{61f}\u{1367}\u{1945}\u{203d}\u{2047}\u{2048}\u{2049}\u{2753}\
    \u{2754}\u{2cfa}\u{2cfb}\u{2e2e}\u{a60f}\u{a6f7}\u{fe16}\u{fe56}\u{ff1f}\u{11143}";
/// Armenian mark, which is on the word that is asked for and ends no sentence.
const INNER_MARK: char = '\u{55e}';
/// Bytes that are divided into sentences at once: as many as a request may have. In one block, a full stop
/// before many spaces takes time that grows with the square of their number.
const BLOCK: usize = 8 << 10;
/// English pronouns for what another sentence names.
const PRONOUNS: &str = "he her hers him his it its she their theirs them they";
/// English words of questions that ask for nothing that is stored: `Can you help?`, `Do you remember?`.
pub(super) const SMALL_TALK: &str = "
    agree correct day feel feeling fine going good guess hear hello help hey hi idea ideas mean ok okay really
    remember right sense sorry sure tell think thoughts today understand wonder wrong yes
";

/// Sentence of a question.
#[derive(Debug)]
pub(super) struct Sentence<'a> {
    /// Range of its bytes.
    pub(super) text: Range<usize>,
    /// True if it has a question mark, and a word that is not small talk.
    pub(super) asks: bool,
    /// True if a pronoun comes before its words: another sentence says what it is about.
    pub(super) refers: bool,
    /// Words to look for.
    pub(super) words: Vec<Word<'a>>,
}

/// Word to look for.
#[derive(Debug)]
pub(super) struct Word<'a> {
    /// Offset of its first byte in the question.
    pub(super) at: usize,
    pub(super) text: &'a str,
    pub(super) tokens: Vec<String>,
}

/// Returns the sentences of a text, without the words for which `is_left_out` returns true.
pub(super) fn sentences(text: &str, is_left_out: impl Fn(&str) -> bool) -> Vec<Sentence<'_>> {
    let starts = starts(text);
    let mut rest = words(text).peekable();
    let mut sentences = Vec::with_capacity(starts.len());
    for (place, (start, has_mark)) in starts.iter().enumerate() {
        let end = starts.get(place + 1).map_or(text.len(), |(next, _)| *next);
        let mut sentence = Sentence { text: *start..end, asks: false, refers: false, words: Vec::new() };
        while let Some((at, word)) = rest.next_if(|(at, _)| *at < end) {
            if is_left_out(word) {
                sentence.refers |= sentence.words.is_empty() && is_one_of(PRONOUNS, word);
            } else {
                sentence.words.push(Word { at, text: word, tokens: of_word(word) });
            }
        }
        let says = |word: &Word<'_>| !word.tokens.is_empty() && !is_small_talk(word.text);
        sentence.asks = *has_mark && sentence.words.iter().any(says);
        sentences.push(sentence);
    }
    sentences
}

/// Returns the start of each sentence, and whether it has a question mark.
fn starts(text: &str) -> Vec<(usize, bool)> {
    // Who writes no capital letters begins no sentence with one.
    let is_small = !text.contains(char::is_uppercase);
    let joined = if is_small { Cow::Borrowed(text) } else { Cow::Owned(unwrapped(text)) };
    let (mut starts, mut in_address) = (Vec::new(), false);
    for (start, sentence) in by_standard(&joined) {
        let end = start + sentence.len();
        let (mut from, mut has_mark) = (start, false);
        for (at, c) in sentence.char_indices() {
            let after = start + at + c.len_utf8();
            let next = joined[after..].chars().next();
            // A mark may be in an address: `https://example.org/?id=5`.
            in_address = !c.is_whitespace() && (in_address || sentence[at..].starts_with("://"));
            let is_inside = in_address && next.is_some_and(|next| next.is_ascii_alphanumeric());
            let is_mark = QUESTION_MARKS.contains(c) && !is_inside;
            has_mark |= is_mark;
            // The standard ends a sentence after some of the marks, and no full stop before a small letter.
            let is_stop = is_small && c == '.' && next.is_some_and(char::is_whitespace);
            if is_mark && c != INNER_MARK || is_stop {
                starts.push((from, has_mark));
                (from, has_mark) = (after, false);
            }
        }
        if from < end {
            starts.push((from, has_mark));
        }
    }
    starts
}

/// Returns the sentences of the standard (UAX 29), each with its offset. The end of a block ends one, too.
fn by_standard(text: &str) -> Vec<(usize, &str)> {
    let (mut sentences, mut from) = (Vec::new(), 0);
    while from < text.len() {
        let end = text.floor_char_boundary(from + BLOCK);
        let block = text[from..end].split_sentence_bound_indices();
        sentences.extend(block.map(|(start, sentence)| (from + start, sentence)));
        from = end;
    }
    sentences
}

/// Returns the text with spaces in place of line ends inside of a sentence: before a line that goes on with a
/// small letter. Every character keeps its place.
fn unwrapped(text: &str) -> String {
    let mut joined = String::with_capacity(text.len());
    let mut lines = text.split_inclusive('\n').peekable();
    while let Some(line) = lines.next() {
        let said = line.trim_end();
        let is_open = said.ends_with(|c: char| c.is_alphanumeric() || c == ',');
        if is_open && lines.peek().is_some_and(|next| next.trim_start().starts_with(char::is_lowercase)) {
            joined.push_str(said);
            joined.extend(std::iter::repeat_n(' ', line.len() - said.len()));
        } else {
            joined.push_str(line);
        }
    }
    joined
}

/// Returns true if a word is small talk, in capital or small letters.
pub(super) fn is_small_talk(word: &str) -> bool {
    is_one_of(SMALL_TALK, word)
}

/// Returns true if a word is in a list, in capital or small letters.
pub(super) fn is_one_of(list: &str, word: &str) -> bool {
    let word = word.to_lowercase();
    list.split_whitespace().any(|it| it == word)
}
