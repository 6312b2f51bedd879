//! How many tokens a text is to a language model.

/// The encoding whose tokens are counted.
pub const ENCODING: &str = "o200k_base";

/// Tokens of [`ENCODING`], exactly as its models count them. Others have some more or fewer.
pub fn count(text: &str) -> usize {
    bpe_openai::o200k_base().count(text)
}

/// The same, if they are at most so many: of a longer text no more is looked at than that takes.
pub fn count_to(text: &str, most: usize) -> Option<usize> {
    let tokenizer = bpe_openai::o200k_base();
    tokenizer.count_till_limit(&tokenizer.normalize(text), most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_those_of_the_encoding() {
        // as tiktoken counts them
        for (text, tokens) in [("", 0), ("hello world", 2), ("Alice likes her coffee black.\n", 6)] {
            assert_eq!((count(text), count_to(text, tokens)), (tokens, Some(tokens)), "{text}");
            assert_eq!(count_to(text, tokens.wrapping_sub(1)), (tokens == 0).then_some(0), "{text}");
        }
    }
}
