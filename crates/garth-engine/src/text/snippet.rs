//! The few words of a passage that show why it was found. The index keeps no text, so the passage
//! is read again and searched here.

use super::question::Question;
use super::token::{of_word, words};

/// Length in bytes that a snippet aims at: two or three lines of a terminal.
const LENGTH: usize = 240;
/// Text kept before the first word found, in bytes.
const LEAD: usize = 60;

/// A short piece of `passage` around the place with the most different words of the question,
/// cut at words, white space and control characters folded, `…` where it was cut. At most 240
/// bytes of text, besides the marks.
pub fn snippet(passage: &str, question: &Question) -> String {
    let words = passage.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let passage = words.collect::<Vec<_>>().join(" ");
    if passage.len() <= LENGTH {
        return passage;
    }
    let start = best_start(&passage, question);
    let start = word_start(&passage, start);
    let end = word_end(&passage, start);
    let before = if start > 0 { "…" } else { "" };
    let after = if end < passage.len() { "…" } else { "" };
    format!("{before}{}{after}", passage[start..end].trim())
}

/// Where the piece with the most different terms begins; any byte.
fn best_start(passage: &str, question: &Question) -> usize {
    let mut found = Vec::new();
    for (at, word) in words(passage) {
        for token in of_word(word) {
            // what begins like a term was found as such, if nothing else was
            let term = question.terms().iter().position(|term| token.starts_with(&term.token));
            found.extend(term.map(|term| (at, term)));
        }
    }
    let mut best = (0, 0, 0);
    for (first, (at, _)) in found.iter().enumerate() {
        let inside = found[first..].iter().take_while(|(next, _)| next - at < LENGTH - LEAD);
        let mut seen: Vec<usize> = inside.map(|(_, term)| *term).collect();
        let all = seen.len();
        seen.sort_unstable();
        seen.dedup();
        if (seen.len(), all) > (best.0, best.1) {
            best = (seen.len(), all, *at);
        }
    }
    // The last words of a passage are shown with as much before them as fits.
    best.2.saturating_sub(LEAD).min(passage.len() - LENGTH)
}

/// The first start of a word at or behind `at`; `at` moved to a character where there is none near.
fn word_start(passage: &str, at: usize) -> usize {
    let at = passage.ceil_char_boundary(at);
    if at == 0 || passage[..at].ends_with(' ') {
        return at;
    }
    let near = passage.floor_char_boundary((at + LEAD / 2).min(passage.len()));
    passage[at..near].find(' ').map_or(at, |space| at + space + 1)
}

/// The last end of a word so that at most [`LENGTH`] bytes lie behind `start`.
fn word_end(passage: &str, start: usize) -> usize {
    let end = passage.floor_char_boundary((start + LENGTH).min(passage.len()));
    if end == passage.len() || passage[end..].starts_with(' ') {
        return end;
    }
    let far = passage.ceil_char_boundary(start + LENGTH / 2);
    passage[far..end].rfind(' ').map_or(end, |space| far + space)
}
