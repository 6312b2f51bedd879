//! Token counts of texts for language models.

use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};

use garth_engine::compute::working;
use lru::LruCache;

pub use garth_tokens::ENCODING;

/// Limit on the cached token counts, of about 100 bytes each.
const COUNTS: NonZeroUsize = NonZeroUsize::new(16_384).expect("it is not 0");

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

/// Cache of the token counts of the texts counted last. Threads share it.
///
/// A server gives it to [`Sessions::cache`](crate::session::Sessions::cache): packs of a session contain mostly
/// the messages of the pack before.
#[derive(Debug)]
pub struct TokenCache(Mutex<LruCache<blake3::Hash, usize>>);

impl Default for TokenCache {
    fn default() -> Self {
        // A cache created with its size allocates all of it at once.
        let mut counts = LruCache::unbounded();
        counts.resize(COUNTS);
        Self(Mutex::new(counts))
    }
}

impl TokenCache {
    /// Returns the number of tokens of a text. The owner is part of the key: the time that a count takes must
    /// not reveal the texts of other owners.
    pub(crate) fn count(&self, owner: &str, text: &str) -> usize {
        let key = key_of(&[owner, text]);
        if let Some(known) = self.counts().get(&key) {
            return *known;
        }
        // Counted without the lock, so that others are not delayed. Two may count the same text.
        let tokens = count(text);
        self.counts().put(key, tokens);
        tokens
    }

    fn counts(&self) -> MutexGuard<'_, LruCache<blake3::Hash, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counter of the tokens of an owner's texts, with a cache if there is one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counter<'a>(pub(crate) Option<(&'a TokenCache, String)>);

impl Counter<'_> {
    /// Returns the number of tokens of a text.
    pub(crate) fn count(&self, text: &str) -> usize {
        match &self.0 {
            Some((cache, owner)) => cache.count(owner, text),
            None => count(text),
        }
    }
}

/// Returns the hash of some texts, each with its length, so that none can pass for a part of its neighbour.
pub(crate) fn key_of(texts: &[&str]) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    for text in texts {
        hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
    }
    hasher.finalize()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_cache_is_separate_by_owner() {
        let cache = TokenCache::default();
        for (owner, text, held) in [
            ("a", "hello world", 1),
            ("a", "hello world", 1),
            ("a", "", 2),
            ("b", "hello world", 3),
            // The owner's name cannot pass for the beginning of a text.
            ("ahello", " world", 4),
            ("", "ahello world", 5),
        ] {
            assert_eq!(Counter(Some((&cache, owner.to_owned()))).count(text), count(text), "{text}");
            assert_eq!(cache.counts().len(), held, "{owner} {text}");
        }
    }

    #[test]
    fn token_cache_is_bounded() {
        let cache = TokenCache::default();
        for n in 0..=COUNTS.get() {
            cache.count("a", &n.to_string());
        }
        assert_eq!(cache.counts().len(), COUNTS.get());
    }
}
