//! The table of token vectors: its vocabulary and its file.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Dimensions of a vector. `crates/garth-engine/data/README.md` has the figures for others.
pub(super) const DIMENSIONS: usize = 128;
/// Start of the file, with its version.
const MAGIC: [u8; 8] = *b"garthtv1";
/// Hash of the vocabulary that belongs to the model.
const SHA256: &str = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037";
/// Marks a token that continues a word.
const CONTINUATION: &str = "##";

/// Token of the model.
pub(super) struct Token {
    pub(super) id: usize,
    text: String,
}

/// Tokens that have a vector.
pub(super) struct Vocabulary {
    /// Tokens that begin a word, then those that continue one.
    pub(super) tokens: Vec<Token>,
    beginnings: usize,
}

impl Vocabulary {
    /// Reads the tokens of a `tokenizer.json`, without those that never occur in text, such as `[CLS]` and
    /// `[unused7]`.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let hash = sha256(&bytes);
        ensure!(hash == SHA256, "{}: SHA-256 is {hash}, expected {SHA256}", path.display());
        let tokenizer: Value = serde_json::from_slice(&bytes)?;
        Self::of(&tokenizer["model"]["vocab"])
    }

    fn of(vocabulary: &Value) -> Result<Self> {
        let all = vocabulary.as_object().context("the tokenizer has no vocabulary")?;
        let mut tokens = Vec::new();
        for (text, id) in all {
            let id = id.as_u64().with_context(|| format!("{text:?} has no id"))? as usize;
            if !(text.len() > 1 && text.starts_with('[') && text.ends_with(']')) {
                tokens.push(Token { id, text: text.clone() });
            }
        }
        tokens.sort_by_key(|token| (continues(&token.text), token.id));
        let beginnings = tokens.partition_point(|token| !continues(&token.text));
        Ok(Self { tokens, beginnings })
    }
}

fn continues(token: &str) -> bool {
    token.len() > CONTINUATION.len() && token.starts_with(CONTINUATION)
}

/// Returns the file: magic and version; the numbers of dimensions, of tokens and of tokens that begin a word,
/// and the length of the vocabulary, as 32-bit little-endian; the vocabulary, each token with a line feed and
/// without `##`; the vectors as signed bytes, row by row.
pub(super) fn encode(vocabulary: &Vocabulary, vectors: &[f32]) -> Vec<u8> {
    let mut words = String::new();
    for token in &vocabulary.tokens {
        let text = &*token.text;
        words.push_str(if continues(text) { &text[CONTINUATION.len()..] } else { text });
        words.push('\n');
    }
    let mut file = MAGIC.to_vec();
    for number in [DIMENSIONS, vocabulary.tokens.len(), vocabulary.beginnings, words.len()] {
        file.extend((number as u32).to_le_bytes());
    }
    file.extend(words.into_bytes());
    // One scale for all: the lengths of vectors say how much a token means, and cosines need no unit.
    let most = vectors.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
    file.extend(vectors.iter().map(|x| ((x / most * 127.0).round() as i8).to_le_bytes()[0]));
    file
}

/// Returns the SHA-256 of `bytes` in hexadecimal.
pub(super) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vocabulary_drops_tokens_that_never_occur() {
        let all =
            serde_json::json!({"[CLS]": 0, "##ing": 1, "[": 2, "##": 3, "]": 4, "walk": 5, "[unused1]": 6});
        let vocabulary = Vocabulary::of(&all).unwrap();
        let texts: Vec<&str> = vocabulary.tokens.iter().map(|token| &*token.text).collect();
        assert_eq!((texts, vocabulary.beginnings), (vec!["[", "##", "]", "walk", "##ing"], 4));
    }

    #[test]
    fn largest_number_becomes_127() {
        let vocabulary = Vocabulary::of(&serde_json::json!({"a": 0})).unwrap();
        let mut vector = vec![0.5; DIMENSIONS];
        vector[1] = -2.0;
        let file = encode(&vocabulary, &vector);
        assert_eq!(file[file.len() - DIMENSIONS..][..2], [32, 129]);
        assert_eq!(&file[24..26], b"a\n");
    }
}
