//! Cache of token counts and parsed skills, which go into prompts with every call.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;

use super::reading::Reading;
use super::skill_md::front_matter::SkillText;
use crate::count::{TokenCache, count, key_of};

/// Limit on the cached skills.
const SKILLS: NonZeroUsize = NonZeroUsize::new(2048).expect("it is not 0");
/// Limit on the bytes of front matter of all cached skills, 4 MiB. A parsed one takes at most about ten times
/// its text: values of one byte each.
const MAX_FRONTS: usize = 4 << 20;

/// Cache of token counts and parsed skills, of the texts used last. Threads share it. A prompt is the same
/// with and without it.
#[derive(Debug)]
pub struct PromptCache {
    counts: TokenCache,
    skills: Mutex<Skills>,
}

/// Skills by their texts, each with the length of its front matter.
#[derive(Debug)]
struct Skills {
    kept: LruCache<blake3::Hash, (Arc<SkillText>, usize)>,
    fronts: usize,
}

impl Default for PromptCache {
    fn default() -> Self {
        let skills = Skills { kept: LruCache::unbounded(), fronts: 0 };
        Self { counts: TokenCache::default(), skills: Mutex::new(skills) }
    }
}

impl PromptCache {
    /// Returns the part that counts tokens.
    pub fn tokens(&self) -> &TokenCache {
        &self.counts
    }
}

impl Skills {
    fn put(&mut self, key: blake3::Hash, skill: Arc<SkillText>, front: usize) {
        let replaced = self.kept.put(key, (skill, front));
        self.fronts = self.fronts + front - replaced.map_or(0, |(_, front)| front);
        while self.kept.len() > SKILLS.get() || self.fronts > MAX_FRONTS {
            let Some((_, (_, front))) = self.kept.pop_lru() else { return };
            self.fronts -= front;
        }
    }
}

/// Cache for the prompts of an account, if there is one, and the name of the account. The name is part of the
/// keys: the time that a prompt takes must not reveal the texts of other accounts.
#[derive(Clone, Debug, Default)]
pub(crate) struct AccountCache<'a>(pub(crate) Option<(&'a PromptCache, String)>);

impl AccountCache<'_> {
    /// Returns the number of tokens of a text.
    pub(crate) fn count(&self, text: &str) -> usize {
        self.0.as_ref().map_or_else(|| count(text), |(cache, account)| cache.counts.count(account, text))
    }

    /// Returns the parsed skill of a text, possibly without its body.
    pub(crate) fn skill(&self, text: &str, reading: Reading) -> Arc<SkillText> {
        let Some((cache, account)) = &self.0 else { return Arc::new(SkillText::parse_as(text, reading)) };
        let key = key_of(&[account, &format!("{reading:?}"), text]);
        if let Some((known, _)) = lock(&cache.skills).kept.get(&key) {
            return Arc::clone(known);
        }
        let mut skill = SkillText::parse_as(text, reading);
        // A rejected skill holds none of its front matter.
        let front = if skill.refused.is_some() { 0 } else { text.len().saturating_sub(skill.body.len()) };
        // Only the front matter is needed for a prompt; bodies may be long.
        skill.body = String::new();
        let skill = Arc::new(skill);
        lock(&cache.skills).put(key, Arc::clone(&skill), front);
        skill
    }
}

fn lock<T>(kept: &Mutex<T>) -> MutexGuard<'_, T> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::skill_md::front_matter::MAX_FRONT;

    #[test]
    fn prompt_cache_is_separate_by_account() {
        let cache = PromptCache::default();
        for (account, text, held) in [
            ("a", "hello world", 1),
            ("a", "hello world", 1),
            ("a", "", 2),
            ("b", "hello world", 3),
            // The account's name cannot pass for the beginning of a text.
            ("ahello", " world", 4),
            ("", "ahello world", 5),
        ] {
            let known = AccountCache(Some((&cache, account.to_owned())));
            assert_eq!(known.count(text), count(text), "{text}");
            let skill = SkillText { body: String::new(), ..SkillText::parse(text) };
            assert_eq!(*known.skill(text, Reading::Now), skill, "{text}");
            assert_eq!(lock(&cache.skills).kept.len(), held);
        }
    }

    #[test]
    fn prompt_cache_is_bounded() {
        let cache = PromptCache::default();
        let known = AccountCache(Some((&cache, "a".to_owned())));
        for n in 0..=SKILLS.get() {
            known.skill(&n.to_string(), Reading::Now);
        }
        assert_eq!(lock(&cache.skills).kept.len(), SKILLS.get());
        // Long front matter leaves room for fewer skills.
        for n in 0..MAX_FRONTS / MAX_FRONT + 1 {
            known.skill(
                &format!("---\nname: {n}\ndescription: {}\n---\n", "x".repeat(MAX_FRONT - 30)),
                Reading::Now,
            );
        }
        let skills = lock(&cache.skills);
        assert!(skills.fronts <= MAX_FRONTS && skills.fronts > MAX_FRONTS / 2, "{}", skills.fronts);
        assert_eq!(skills.fronts, skills.kept.iter().map(|(_, (_, front))| front).sum::<usize>());
    }

    #[test]
    fn prompt_cache_is_separate_by_reading() {
        let cache = PromptCache::default();
        let known = AccountCache(Some((&cache, "a".to_owned())));
        for _ in 0..2 {
            assert_eq!(known.skill("---\nname: yes\n---\n", Reading::Now).name.as_deref(), Some("yes"));
            assert_eq!(known.skill("---\nname: yes\n---\n", Reading::First).name, None);
        }
    }

    #[test]
    fn front_matter_is_read_once() {
        let cache = PromptCache::default();
        let known = AccountCache(Some((&cache, "a".to_owned())));
        let long = format!("---\nname: long\nb: [{}]\n---\n", "1,".repeat(1000));
        for text in [long.as_str(), "---\nname: &x refused\n---\n", "no front matter"] {
            assert!(
                Arc::ptr_eq(&known.skill(text, Reading::Now), &known.skill(text, Reading::Now)),
                "{text}"
            );
        }
    }
}
