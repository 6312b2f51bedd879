//! Context of a search hit: the best line of the passage, and the lines around that line.

use std::ops::Range;

use super::question::Question;
use super::token::{of_word, words};

/// Part of a text: the lines around its best one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineContext {
    /// Range of bytes in the text.
    pub bytes: Range<usize>,
    /// Number of lines before the best one.
    pub before: usize,
    /// Number of lines.
    pub lines: usize,
}

/// Piece of a file.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// Bytes of the piece.
    pub bytes: &'a [u8],
    /// True if the piece begins the file.
    pub starts: bool,
    /// True if the piece ends the file.
    pub ends: bool,
}

/// Returns the index of the line that contains the largest number of distinct words of a question; the first
/// of equally good lines. `lines` are in readable form, with JSON escapes decoded.
pub fn best_line(lines: impl Iterator<Item = String>, question: &Question) -> usize {
    let mut best = (0, 0);
    for (place, line) in lines.enumerate() {
        let tokens: Vec<String> = words(&line).flat_map(|(_, word)| of_word(word)).collect();
        // The index matches words that begin with a term if no word equals the term, so a prefix counts here
        // too.
        let has = |token: &str| tokens.iter().any(|own| own.starts_with(token));
        let found = question.terms().iter().filter(|term| has(&term.token)).count();
        // The first of several lines that are equally good.
        if found > best.0 {
            best = (found, place);
        }
    }
    best.1
}

/// Returns the line that contains `best`, or as much of it as the piece has, with up to `most` complete
/// lines before and after it.
pub fn around(piece: Piece<'_>, best: Range<usize>, most: usize) -> LineContext {
    let text = piece.bytes;
    let (mut start, first) = line_start(piece, best.start);
    let mut before = 0;
    while first && before < most && start > 0 {
        // `start - 1` is the line feed of the line above.
        let (above, whole) = line_start(piece, start - 1);
        if !whole {
            break;
        }
        start = above;
        before += 1;
    }
    // `best` may include its line feed.
    let (mut end, mut last) = line_end(piece, best.end.saturating_sub(1).max(best.start));
    let mut behind = 0;
    while last && behind < most && end < text.len() {
        let (below, whole) = line_end(piece, end);
        last = whole;
        if whole {
            end = below;
            behind += 1;
        }
    }
    LineContext { bytes: start..end, before, lines: before + 1 + behind }
}

/// Returns the start of the line that contains the byte at `at`, and true. If the line begins before the
/// piece, returns `at` and false.
fn line_start(piece: Piece<'_>, at: usize) -> (usize, bool) {
    match piece.bytes[..at].iter().rposition(|byte| *byte == b'\n') {
        Some(feed) => (feed + 1, true),
        None if piece.starts => (0, true),
        None => (at, false),
    }
}

/// Returns the end of the line that contains the byte at `at`, and true. If the line ends after the piece,
/// returns the end of that byte and false.
fn line_end(piece: Piece<'_>, at: usize) -> (usize, bool) {
    match piece.bytes[at..].iter().position(|byte| *byte == b'\n') {
        Some(feed) => (at + feed + 1, true),
        None if piece.ends => (piece.bytes.len(), true),
        None => ((at + 1).min(piece.bytes.len()), false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: Piece<'_> = Piece { bytes: b"one\ntwo\n\nfour\nfive", starts: true, ends: true };

    fn text(piece: Piece<'_>, best: Range<usize>, most: usize) -> (String, usize, usize) {
        let around = around(piece, best, most);
        let text = String::from_utf8(piece.bytes[around.bytes.clone()].to_vec()).unwrap();
        (text, around.before, around.lines)
    }

    #[test]
    fn around_returns_complete_lines() {
        assert_eq!(text(WHOLE, 4..8, 0), ("two\n".into(), 0, 1));
        assert_eq!(text(WHOLE, 4..8, 1), ("one\ntwo\n\n".into(), 1, 3));
        assert_eq!(text(WHOLE, 4..8, 9), ("one\ntwo\n\nfour\nfive".into(), 1, 5));
        assert_eq!(text(WHOLE, 14..18, 2), ("\nfour\nfive".into(), 2, 3));
        assert_eq!(text(WHOLE, 5..6, 0), ("two\n".into(), 0, 1), "a part of a line stands for it");
        assert_eq!(text(WHOLE, 8..9, 1), ("two\n\nfour\n".into(), 1, 3), "an empty line is one");
    }

    #[test]
    fn around_omits_incomplete_lines_except_the_best() {
        let part = Piece { starts: false, ends: false, ..WHOLE };
        assert_eq!(text(part, 4..8, 9), ("two\n\nfour\n".into(), 0, 3));
        assert_eq!(text(part, 0..3, 9), ("one\ntwo\n\nfour\n".into(), 0, 4));
        assert_eq!(text(part, 15..17, 1), ("four\nfiv".into(), 1, 2));
        let long = Piece { bytes: b"xxxxx", starts: false, ends: false };
        assert_eq!(text(long, 1..4, 3), ("xxx".into(), 0, 1));
    }

    #[test]
    fn best_line_has_most_different_words() {
        let best = |lines: &[&str], question: &str| {
            best_line(lines.iter().map(|line| (*line).to_owned()), &Question::parse(question).unwrap())
        };
        let lines = ["heron heron heron", "nothing", "a grey heron", "grey herons, too"];
        assert_eq!(best(&lines, "grey heron"), 2);
        assert_eq!(best(&lines, "her"), 0, "by its beginning");
        assert_eq!(best(&lines, "absent"), 0);
    }
}
