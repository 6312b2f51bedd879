//! What was found out about texts that go into prompts with every call, so that it is found out once.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;

use super::skill_md::front_matter::SkillText;
use crate::count::count;

/// Counts of tokens that are kept, of about 100 bytes each.
const COUNTS: NonZeroUsize = NonZeroUsize::new(16_384).expect("it is not 0");

/// Skills that are kept, and the longest front matter of one, in bytes.
const SKILLS: NonZeroUsize = NonZeroUsize::new(2048).expect("it is not 0");
const MAX_FRONT: usize = 2048;

/// Keeps how many tokens texts have and what skills say, of those that were in prompts last. Threads share
/// it. A prompt is the same with it and without it.
#[derive(Debug)]
pub struct PromptCache {
    counts: Mutex<LruCache<blake3::Hash, usize>>,
    skills: Mutex<LruCache<blake3::Hash, Arc<SkillText>>>,
}

impl Default for PromptCache {
    fn default() -> Self {
        // one that is made with its size takes memory for all at once
        let (mut counts, mut skills) = (LruCache::unbounded(), LruCache::unbounded());
        counts.resize(COUNTS);
        skills.resize(SKILLS);
        Self { counts: Mutex::new(counts), skills: Mutex::new(skills) }
    }
}

/// The cache that a prompt is built with, if there is one, and the name of its account. The name keeps what
/// is known of others apart: how long a prompt takes tells nobody what is in another account.
#[derive(Clone, Debug, Default)]
pub(crate) struct AccountCache<'a>(pub(crate) Option<(&'a PromptCache, String)>);

impl AccountCache<'_> {
    /// How many tokens a text has.
    pub(crate) fn count(&self, text: &str) -> usize {
        let Some((cache, account)) = &self.0 else { return count(text) };
        let key = key(account, text);
        if let Some(known) = lock(&cache.counts).get(&key) {
            return *known;
        }
        let tokens = count(text);
        lock(&cache.counts).put(key, tokens);
        tokens
    }

    /// What the text of a skill says, maybe without its body.
    pub(crate) fn skill(&self, text: &str) -> Arc<SkillText> {
        let Some((cache, account)) = &self.0 else { return Arc::new(SkillText::parse(text)) };
        let key = key(account, text);
        if let Some(known) = lock(&cache.skills).get(&key) {
            return Arc::clone(known);
        }
        let mut skill = SkillText::parse(text);
        let front = text.len().saturating_sub(skill.body.len());
        skill.body = String::new();
        let skill = Arc::new(skill);
        if front <= MAX_FRONT {
            lock(&cache.skills).put(key, Arc::clone(&skill));
        }
        skill
    }
}

fn key(account: &str, text: &str) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&(account.len() as u64).to_le_bytes());
    hasher.update(account.as_bytes()).update(text.as_bytes()).finalize()
}

fn lock<T>(kept: &Mutex<T>) -> MutexGuard<'_, T> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_the_same_and_each_account_has_its_own() {
        let cache = PromptCache::default();
        for (account, text, held) in [
            ("a", "hello world", 1),
            ("a", "hello world", 1),
            ("a", "", 2),
            ("b", "hello world", 3),
            // the name of an account is no beginning of a text
            ("ahello", " world", 4),
            ("", "ahello world", 5),
        ] {
            let known = AccountCache(Some((&cache, account.to_owned())));
            assert_eq!(known.count(text), count(text), "{text}");
            let skill = SkillText { body: String::new(), ..SkillText::parse(text) };
            assert_eq!(*known.skill(text), skill, "{text}");
            assert_eq!((lock(&cache.counts).len(), lock(&cache.skills).len()), (held, held));
        }
    }

    #[test]
    fn it_keeps_so_many_and_nothing_that_is_long() {
        let cache = PromptCache::default();
        let known = AccountCache(Some((&cache, "a".to_owned())));
        for n in 0..=COUNTS.get() {
            known.count(&n.to_string());
        }
        for n in 0..=SKILLS.get() {
            known.skill(&n.to_string());
        }
        assert_eq!((lock(&cache.counts).len(), lock(&cache.skills).len()), (COUNTS.get(), SKILLS.get()));
        let first = || lock(&cache.skills).peek_mru().map(|(key, _)| *key);
        let before = first();
        let long = format!("---\nname: long\ndescription: {}\n---\n", "x".repeat(MAX_FRONT));
        assert_eq!((known.skill(&long).name.as_deref(), first()), (Some("long"), before));
        known.skill(&format!("---\nname: short\n---\n{}", "x".repeat(MAX_FRONT)));
        assert_ne!(first(), before);
    }
}
