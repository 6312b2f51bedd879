//! Snippets: the few words of a passage that show why it was found. The index stores no text, so the
//! passage is read again and searched here.

use super::question::Question;
use super::token::{of_word, words};

/// Target length of a snippet in bytes: two or three lines of a terminal.
const LENGTH: usize = 240;
/// Length of the text before the first found word, in bytes.
const LEAD: usize = 60;

/// Returns a short piece of `passage` around the place with the largest number of distinct words of the
/// question. It is cut at words and marked with `…` where it is cut; white space and control characters are
/// folded. It has at most 240 bytes besides the marks.
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

/// Returns the start of the piece with the most different terms; it may be inside a character.
fn best_start(passage: &str, question: &Question) -> usize {
    let mut found = Vec::new();
    for (at, word) in words(passage) {
        for token in of_word(word) {
            // Only if no word is a term itself does the index look for words that begin with it, so both
            // count here.
            let term = question.terms().iter().position(|term| token.starts_with(&term.token));
            found.extend(term.map(|term| (at, term)));
        }
    }
    let mut best = (0, 0, 0);
    for (first, (at, _)) in found.iter().enumerate() {
        // Without the text before the first word, which is shown as well.
        let inside = found[first..].iter().take_while(|(next, _)| next - at < LENGTH - LEAD);
        let mut seen: Vec<usize> = inside.map(|(_, term)| *term).collect();
        let all = seen.len();
        seen.sort_unstable();
        seen.dedup();
        // Different words first, then how many.
        if (seen.len(), all) > (best.0, best.1) {
            best = (seen.len(), all, *at);
        }
    }
    // The last words of a passage are shown with as much before them as fits.
    best.2.saturating_sub(LEAD).min(passage.len() - LENGTH)
}

/// Returns the first start of a word at or after `at`; if none is near, `at` moved to a character.
fn word_start(passage: &str, at: usize) -> usize {
    let at = passage.ceil_char_boundary(at);
    if at == 0 || passage[..at].ends_with(' ') {
        return at;
    }
    let near = passage.floor_char_boundary((at + LEAD / 2).min(passage.len()));
    passage[at..near].find(' ').map_or(at, |space| at + space + 1)
}

/// Returns the last end of a word with at most [`LENGTH`] bytes after `start`.
fn word_end(passage: &str, start: usize) -> usize {
    let end = passage.floor_char_boundary((start + LENGTH).min(passage.len()));
    if end == passage.len() || passage[end..].starts_with(' ') {
        return end;
    }
    let far = passage.ceil_char_boundary(start + LENGTH / 2);
    passage[far..end].rfind(' ').map_or(end, |space| far + space)
}
