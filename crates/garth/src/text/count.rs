//! How many tokens a text is to a language model.

/// Tokens of the encoding `o200k_base`, exactly as its models count them. Others have some more or fewer.
pub fn count(text: &str) -> usize {
    bpe_openai::o200k_base().count(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_those_of_the_encoding() {
        // as tiktoken counts them
        for (text, tokens) in [("", 0), ("hello world", 2), ("Alice likes her coffee black.\n", 6)] {
            assert_eq!(count(text), tokens, "{text}");
        }
    }
}
