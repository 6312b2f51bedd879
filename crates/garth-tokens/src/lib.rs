//! Counts the tokens that a text has in the encoding `o200k_base`, exactly as `tiktoken` does.
//!
//! A crate of its own, so that development builds compile it with optimisation: tests count a lot. The crates
//! that do the same embed their automatons ready-made, 32 MB of each program; here a table of 0.7 MB is
//! embedded, and the first count of a process builds the rest from it, in less than 0.1 s.
//!
//! [`split`] cuts a text into pieces, [`pair`] counts the tokens of a piece, [`vocabulary`] holds the tables.

mod pair;
mod split;
mod vocabulary;

use std::sync::LazyLock;

use crate::pair::Encoder;
use crate::split::Splitter;
use crate::vocabulary::Vocabulary;

/// The encoding whose tokens are counted.
pub const ENCODING: &str = "o200k_base";

static VOCABULARY: LazyLock<Vocabulary> = LazyLock::new(Vocabulary::load);
static SPLITTER: LazyLock<Splitter> = LazyLock::new(Splitter::new);

/// Returns the number of tokens of a text.
pub fn count(text: &str) -> usize {
    let mut encoder = Encoder::new(&VOCABULARY);
    let mut tokens = 0;
    for piece in SPLITTER.split(text) {
        // Without a limit there is always a count.
        tokens += encoder.count(piece.as_bytes(), usize::MAX).unwrap_or_default();
    }
    tokens
}

/// Returns the number of tokens of a text, or `None` if there are more than `limit`. Reads no more of a long
/// text than that takes.
pub fn count_to(text: &str, limit: usize) -> Option<usize> {
    let mut encoder = Encoder::new(&VOCABULARY);
    let mut tokens = 0;
    for piece in SPLITTER.split(text) {
        tokens += encoder.count(piece.as_bytes(), limit - tokens)?;
    }
    Some(tokens)
}

/// Runs the Rust of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "these are the functions under test")]
mod tests {
    use std::fmt::Write as _;

    use proptest::prelude::*;

    use super::*;

    /// Checks a text against another implementation.
    fn check(text: &str) {
        let tokens = bpe_openai::o200k_base().count(text);
        assert_eq!(count(text), tokens, "{text:?}");
        assert_eq!(count_to(text, tokens), Some(tokens), "{text:?}");
        if let Some(fewer) = tokens.checked_sub(1) {
            assert_eq!(count_to(text, fewer), None, "{text:?}");
        }
    }

    #[test]
    fn counts_known_texts() {
        // Counts of tiktoken.
        for (text, tokens) in [("", 0), ("hello world", 2), ("Alice likes her coffee black.\n", 6)] {
            assert_eq!((count(text), count_to(text, tokens)), (tokens, Some(tokens)), "{text}");
            assert_eq!(count_to(text, tokens.wrapping_sub(1)), (tokens == 0).then_some(0), "{text}");
        }
    }

    #[test]
    fn vocabulary_matches_the_published_one() {
        let theirs = &bpe_openai::o200k_base().bpe;
        assert_eq!(vocabulary::TOKENS, theirs.num_tokens());
        for id in 0..vocabulary::TOKENS as u32 {
            assert_eq!(VOCABULARY.bytes(id), theirs.token_bytes(id), "{id}");
        }
    }

    #[test]
    fn token_counts_match_tiktoken() {
        let mut text = String::new();
        for id in (0..vocabulary::TOKENS as u32).step_by(7) {
            let token = String::from_utf8_lossy(VOCABULARY.bytes(id)).into_owned();
            check(&token);
            write!(text, "{token}{}", if id % 3 == 0 { " " } else { "" }).expect("a string takes all");
            if text.len() > 2_000 {
                check(&text);
                text.clear();
            }
        }
    }

    #[test]
    fn counts_repeated_and_unbroken_text() {
        for unit in ["a", " ", "\n", " \n", "ab", "é", "日本", "😀", "'s", "A", "9", "-", "\u{301}", "zqxj"]
        {
            for times in [1, 2, 3, 7, 63, 64, 65, 500, 5_000] {
                check(&unit.repeat(times));
            }
        }
    }

    #[test]
    fn long_piece_exceeds_a_small_limit() {
        let text = "zqxj".repeat(1_000_000);
        assert_eq!(count_to(&text, 10), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn counts_any_text(text in any::<String>()) {
            check(&text);
        }

        #[test]
        fn counts_words_and_signs(text in "[ -~\\r\\n\\t]{0,80}") {
            check(&text);
        }

        #[test]
        fn counts_words_next_to_other_scripts(
            text in concat!(
                "([a-z]{1,6}|[A-Z]{1,3}| |'s|'LL|'|\\n|[0-9]{1,4}",
                "|[é\u{301}\u{2b0}ǅя日本あ한\u{a0}\u{3000}]|[😀-😎]|\u{200d}){0,40}",
            )
        ) {
            check(&text);
        }

        #[test]
        fn counts_chinese(text in "[\u{4e00}-\u{9fff}，。]{0,60}") {
            check(&text);
        }
    }
}
