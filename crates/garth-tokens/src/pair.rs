//! Counts the tokens of a piece by backtracking, in linear time.
//!
//! Byte-pair encoding merges the neighbours with the lowest token number until none are left. The same tokens
//! are found from left to right: a sequence is the encoding of its bytes if, and only if, each two neighbours
//! are the encoding of theirs. So the longest token that may follow the last one is taken, and taken back if
//! that leads nowhere. The method is that of the crate [`bpe`](https://github.com/github/rust-gems), whose
//! documentation has the proof.

use crate::vocabulary::{NO_TOKEN, Vocabulary};

/// Tokens above a limit at which the count of a piece is given up. Backtracking takes a few tokens back, so a
/// count that exceeds the limit for a moment may still end within it.
const BACKTRACKING: usize = 10;

/// Encodes pieces one after another; keeps its buffers in between.
pub(crate) struct Encoder<'a> {
    vocabulary: &'a Vocabulary,
    tokens: Vec<u32>,
    /// Bit for each position of the piece; set where no encoding of the rest can begin.
    dead: Vec<u64>,
}

impl<'a> Encoder<'a> {
    /// Returns an encoder.
    pub(crate) fn new(vocabulary: &'a Vocabulary) -> Self {
        Self { vocabulary, tokens: Vec::new(), dead: Vec::new() }
    }

    /// Returns the number of tokens of a piece, or `None` if there are more than `limit`.
    pub(crate) fn count(&mut self, piece: &[u8], limit: usize) -> Option<usize> {
        let tokens = if piece.is_empty() || self.vocabulary.is_word(piece) {
            usize::from(!piece.is_empty())
        } else {
            self.encode(piece, limit)?
        };
        (tokens <= limit).then_some(tokens)
    }

    fn encode(&mut self, piece: &[u8], limit: usize) -> Option<usize> {
        let vocabulary = self.vocabulary;
        let mut next = vocabulary.longest(piece);
        if next.1 == piece.len() {
            return Some(1);
        }
        self.tokens.clear();
        self.dead.clear();
        self.dead.resize(piece.len() / 64 + 1, 0);
        let mut at = 0;
        while at < piece.len() {
            if let Some((token, end)) = self.fitting(next, at) {
                self.tokens.push(token);
                if self.tokens.len() > limit.saturating_add(BACKTRACKING) {
                    return None;
                }
                at = end;
                if at < piece.len() {
                    next = vocabulary.longest(&piece[at..]);
                }
            } else {
                // No encoding continues from here: remove the last token and try a shorter one in its place.
                self.dead[at / 64] |= 1 << (at % 64);
                let last =
                    self.tokens.pop().expect("single bytes are tokens, so the first position always has one");
                next = (last, vocabulary.length(last));
                at -= next.1;
            }
        }
        Some(self.tokens.len())
    }

    /// Returns the longest of a token and its prefixes that may stand at a position, after the last token,
    /// and the position after it.
    fn fitting(&self, (mut token, mut length): (u32, usize), at: usize) -> Option<(u32, usize)> {
        let last = self.tokens.last();
        loop {
            let end = at + length;
            let dead = self.dead[end / 64] & (1 << (end % 64)) != 0;
            if !dead && last.is_none_or(|last| self.vocabulary.may_follow(*last, token)) {
                return Some((token, end));
            }
            token = self.vocabulary.prefix(token);
            if token == NO_TOKEN {
                return None;
            }
            length = self.vocabulary.length(token);
        }
    }
}
