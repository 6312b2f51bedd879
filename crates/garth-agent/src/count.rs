//! Token counts of texts for language models.

use garth_engine::compute::working;

pub use garth_tokens::ENCODING;

/// Upper bound on the average bytes of a token, over more than a few of them.
const LONG_TOKEN: usize = 16;

/// Returns the number of tokens of a text. It takes about 30 ns for each byte: a server counts long texts
/// within [`Env::compute`](garth_engine::Env::compute).
#[allow(clippy::disallowed_methods)] // this is the one place
pub fn count(text: &str) -> usize {
    working(text.len());
    garth_tokens::count(text)
}

/// Returns the number of tokens of a text, or `None` if there are more than `limit`. Reads no more of a long
/// text than necessary.
#[allow(clippy::disallowed_methods)] // this is the one place
pub fn count_to(text: &str, limit: usize) -> Option<usize> {
    working(text.len().min(limit.saturating_mul(LONG_TOKEN)));
    garth_tokens::count_to(text, limit)
}

/// Parses a number of tokens as people write it: `32000`, `32k` (thousand) or `1M` (million). Returns `None`
/// for anything else.
pub fn parse_tokens(text: &str) -> Option<u64> {
    let (number, unit) = match text.char_indices().next_back()? {
        (at, 'k' | 'K') => (&text[..at], 1_000),
        (at, 'm' | 'M') => (&text[..at], 1_000_000),
        _ => (text, 1),
    };
    // `parse` alone takes a plus sign.
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    if digits { number.parse::<u64>().ok()?.checked_mul(unit) } else { None }
}
