//! Cache of values that were opened for identities. A value is valid while the account has no commit after
//! the one at which it was opened.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use garth_engine::model::{Seq, Timestamp};
use lru::LruCache;

/// Limit on the values that are kept.
const MAX_KEPT: usize = 256;
/// Time in nanoseconds after which a value is closed that no request uses: 10 s.
const MAX_UNUSED: i64 = 10_000_000_000;
/// Time in nanoseconds after which a value is opened again, because files that it depends on may have
/// expired, which is no commit: 60 s.
const MAX_AGE: i64 = 60_000_000_000;

/// Cache of values by the names of identities.
pub(super) struct Cache<T>(Mutex<LruCache<Arc<str>, Kept<T>>>);

struct Kept<T> {
    value: T,
    /// Last commit of the account before the value was opened.
    seq: Seq,
    opened: Timestamp,
    used: Timestamp,
}

impl<T> Default for Cache<T> {
    fn default() -> Self {
        // Not with its full capacity at once, which would take memory that few servers need.
        Self(Mutex::new(LruCache::unbounded()))
    }
}

impl<T: Clone> Cache<T> {
    /// Returns the value of an identity, if it is valid at the commit `seq`.
    pub(super) fn get(&self, name: &str, seq: Seq, now: Timestamp) -> Option<T> {
        let mut kept = self.kept();
        let found = kept.get_mut(name)?;
        if found.seq == seq && is_within(found.opened, now, MAX_AGE) {
            found.used = now;
            return Some(found.value.clone());
        }
        let outdated = kept.pop(name);
        // Unlocked first, because a value may hold the last handle of an account.
        drop(kept);
        drop(outdated);
        None
    }

    /// Keeps a value that was opened at the commit `seq` or later.
    pub(super) fn put(&self, name: &str, seq: Seq, now: Timestamp, value: T) {
        let kept = Kept { value, seq, opened: now, used: now };
        let dropped = self.kept().put(Arc::from(name), kept);
        drop(dropped);
        self.close(now, MAX_KEPT);
    }

    /// Closes the value of an identity.
    pub(super) fn forget(&self, name: &str) {
        let dropped = self.kept().pop(name);
        drop(dropped);
    }

    /// Closes the values for which `is_ended` returns true. Returns true if there was one.
    pub(super) fn close_ended(&self, is_ended: impl Fn(&T) -> bool) -> bool {
        let mut kept = self.kept();
        let ended = kept.iter().filter(|(_, found)| is_ended(&found.value));
        let names: Vec<Arc<str>> = ended.map(|(name, _)| Arc::clone(name)).collect();
        let dropped: Vec<Kept<T>> = names.iter().filter_map(|name| kept.pop(&**name)).collect();
        drop(kept);
        !dropped.is_empty()
    }

    /// Closes the values that no request has used for a while.
    pub(super) fn close_unused(&self, now: Timestamp) {
        self.close(now, MAX_KEPT);
    }

    /// Returns the number of values.
    pub(super) fn len(&self) -> usize {
        self.kept().len()
    }

    /// Closes unused values, and beyond `most` those that were used longest ago.
    fn close(&self, now: Timestamp, most: usize) {
        let mut dropped = Vec::new();
        let mut kept = self.kept();
        while let Some((_, last)) = kept.peek_lru()
            && (kept.len() > most || !is_within(last.used, now, MAX_UNUSED))
        {
            dropped.extend(kept.pop_lru());
        }
        drop(kept);
        drop(dropped);
    }

    fn kept(&self) -> MutexGuard<'_, LruCache<Arc<str>, Kept<T>>> {
        // A panic elsewhere leaves the map valid.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns true if `now` is at most `most` after `since`. A clock that was set back counts as later.
fn is_within(since: Timestamp, now: Timestamp, most: i64) -> bool {
    (0..=most).contains(&now.0.saturating_sub(since.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_769_472_000_000_000_000);

    #[test]
    fn commit_outdates_a_value() {
        let cache = Cache::default();
        cache.put("ann", Seq(7), NOW, 1);
        assert_eq!(cache.get("ann", Seq(7), NOW), Some(1));
        assert_eq!(cache.get("bob", Seq(7), NOW), None);
        assert_eq!(cache.get("ann", Seq(8), NOW), None);
        assert_eq!(cache.len(), 0, "an outdated value is closed");
    }

    #[test]
    fn unused_values_are_closed() {
        let cache = Cache::default();
        cache.put("ann", Seq(7), NOW, 1);
        cache.put("bob", Seq(7), NOW.plus_seconds(6), 2);
        cache.close_unused(NOW.plus_seconds(11));
        assert_eq!((cache.len(), cache.get("bob", Seq(7), NOW.plus_seconds(11))), (1, Some(2)));
        cache.close_unused(NOW);
        assert_eq!(cache.len(), 0, "after the clock was set back");
    }

    #[test]
    fn only_ended_values_are_closed() {
        let cache = Cache::default();
        for (name, value) in [("ann", 1), ("bob", 2), ("eve", 3)] {
            cache.put(name, Seq(7), NOW, value);
        }
        assert!(cache.close_ended(|value| *value != 2));
        assert!(!cache.close_ended(|value| *value != 2));
        assert_eq!((cache.len(), cache.get("bob", Seq(7), NOW)), (1, Some(2)));
    }

    #[test]
    fn value_in_use_is_opened_again_after_a_minute() {
        let cache = Cache::default();
        cache.put("ann", Seq(7), NOW, 1);
        for seconds in 1..=60 {
            assert_eq!(cache.get("ann", Seq(7), NOW.plus_seconds(seconds)), Some(1));
        }
        assert_eq!(cache.get("ann", Seq(7), NOW.plus_seconds(61)), None);
    }

    #[test]
    fn keeps_a_bounded_number() {
        let cache = Cache::default();
        for number in 0..2 * MAX_KEPT {
            cache.put(&number.to_string(), Seq(7), NOW, number);
        }
        assert_eq!((cache.len(), cache.get("0", Seq(7), NOW)), (MAX_KEPT, None));
        let last = 2 * MAX_KEPT - 1;
        assert_eq!(cache.get(&last.to_string(), Seq(7), NOW), Some(last));
    }
}
