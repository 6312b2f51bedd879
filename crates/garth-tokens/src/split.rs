//! Cuts a text into the pieces that are encoded one by one: words, numbers, signs, white space.
//!
//! The encoding defines the pieces by a regular expression with a look-ahead, which an automaton does not
//! have. Here a second pattern matches the character that the look-ahead would see, and the piece ends before
//! it.

use regex_automata::meta::Regex;
use regex_automata::{Anchored, Input};

/// Patterns of a piece that need no look-ahead, in the order of the encoding's expression.
const PATTERNS: [&str; 6] = [
    concat!(
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    ),
    concat!(
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    ),
    r"\p{N}{1,3}",
    r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
    r"\s*[\r\n]+",
    r"\s+$",
];

/// Stands for `\s+(?!\S)`: the last character that it matches belongs to the next piece.
const LOOK_AHEAD: &str = r"\s+\s";

/// Position of [`LOOK_AHEAD`] among the patterns of [`Splitter::new`].
const LOOK_AHEAD_PATTERN: usize = 1;

/// Compiled patterns.
pub(crate) struct Splitter {
    pieces: Regex,
}

impl Splitter {
    /// Compiles the patterns.
    pub(crate) fn new() -> Self {
        let pieces =
            Regex::new_many(&[&PATTERNS.join("|"), LOOK_AHEAD, r"\s+"]).expect("the patterns are valid");
        Self { pieces }
    }

    /// Returns the pieces of a text, in order. Together they are the text.
    pub(crate) fn split<'a>(&'a self, text: &'a str) -> impl Iterator<Item = &'a str> {
        let mut rest = text;
        std::iter::from_fn(move || {
            let (piece, tail) = rest.split_at(self.piece(rest)?);
            rest = tail;
            Some(piece)
        })
    }

    /// Returns the length of the first piece, or `None` at the end of the text.
    fn piece(&self, text: &str) -> Option<usize> {
        if let Some(length) = ascii_word(text.as_bytes()) {
            return Some(length);
        }
        let found = self.pieces.find(Input::new(text).anchored(Anchored::Yes))?;
        let look_ahead = match found.pattern().as_usize() {
            LOOK_AHEAD_PATTERN => text[..found.end()].chars().next_back().map_or(0, char::len_utf8),
            _ => 0,
        };
        Some(found.end() - look_ahead)
    }
}

/// Returns the length of a piece that is a plain ASCII word, such as ` word`, `Word` or `_word`, without the
/// regular expression: most pieces of prose and code are. `None` stands for anything that it would have to
/// look at more closely.
fn ascii_word(text: &[u8]) -> Option<usize> {
    let before = match text.first()? {
        b'\r' | b'\n' | b'0'..=b'9' | 0x80.. => return None,
        b'a'..=b'z' | b'A'..=b'Z' => 0,
        _ => 1,
    };
    let run = |from: usize, of: fn(&u8) -> bool| from + text[from..].iter().take_while(|b| of(b)).count();
    let end = run(run(before, u8::is_ascii_uppercase), u8::is_ascii_lowercase);
    // A contraction (`'s`) and letters or marks beyond ASCII belong to the word.
    (end > before && text.get(end).is_none_or(|next| next.is_ascii() && *next != b'\'')).then_some(end)
}
