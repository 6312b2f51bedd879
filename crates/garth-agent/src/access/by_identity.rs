//! Cache of values that were opened for identities. A value is valid while the account has no commit after
//! the one at which it was opened.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use garth_engine::model::{Seq, Timestamp};
use lru::LruCache;

/// Limit on the values that are kept.
const MAX_KEPT: usize = 256;
/// Limit on the bytes that the values take together. Those of one agent each have its settings, up to 1 MiB.
const MAX_BYTES: usize = 16 << 20;
/// Time in nanoseconds after which a value is closed that no request uses: 10 s.
const MAX_UNUSED: i64 = 10_000_000_000;
/// Time in nanoseconds after which a value is opened again, because files that it depends on may have
/// expired, which is no commit: 60 s.
const MAX_AGE: i64 = 60_000_000_000;

/// Cache of values by the names of identities.
pub(super) struct Cache<T>(Mutex<Values<T>>);

struct Values<T> {
    by_name: LruCache<Arc<str>, Kept<T>>,
    bytes: usize,
}

struct Kept<T> {
    value: T,
    bytes: usize,
    /// Last commit of the account before the value was opened.
    seq: Seq,
    opened: Timestamp,
    used: Timestamp,
}

impl<T> Default for Cache<T> {
    fn default() -> Self {
        // Not with its full capacity at once, which would take memory that few servers need.
        Self(Mutex::new(Values { by_name: LruCache::unbounded(), bytes: 0 }))
    }
}

impl<T: Clone> Cache<T> {
    /// Returns the value of an identity, if it is valid at the commit `seq`.
    pub(super) fn get(&self, name: &str, seq: Seq, now: Timestamp) -> Option<T> {
        let mut values = self.values();
        let found = values.by_name.get_mut(name)?;
        if found.seq == seq && is_within(found.opened, now, MAX_AGE) {
            found.used = now;
            return Some(found.value.clone());
        }
        let outdated = values.take(name);
        // Unlocked first, because a value may hold the last handle of an account.
        drop(values);
        drop(outdated);
        None
    }

    /// Keeps a value of about `bytes` bytes that was opened at the commit `seq` or later.
    pub(super) fn put(&self, name: &str, seq: Seq, now: Timestamp, (value, bytes): (T, usize)) {
        let kept = Kept { value, bytes, seq, opened: now, used: now };
        let mut values = self.values();
        let replaced = values.take(name);
        values.bytes += bytes;
        values.by_name.put(Arc::from(name), kept);
        drop(values);
        drop(replaced);
        self.close_unused(now);
    }

    /// Closes the value of an identity.
    pub(super) fn forget(&self, name: &str) {
        let dropped = self.values().take(name);
        drop(dropped);
    }

    /// Closes the values for which `is_ended` returns true. Returns true if there was one.
    pub(super) fn close_ended(&self, is_ended: impl Fn(&T) -> bool) -> bool {
        let mut values = self.values();
        let ended = values.by_name.iter().filter(|(_, kept)| is_ended(&kept.value));
        let names: Vec<Arc<str>> = ended.map(|(name, _)| Arc::clone(name)).collect();
        let dropped: Vec<Kept<T>> = names.iter().filter_map(|name| values.take(name)).collect();
        drop(values);
        !dropped.is_empty()
    }

    /// Closes the values that no request has used for a while, and beyond the limits those that were used
    /// longest ago.
    pub(super) fn close_unused(&self, now: Timestamp) {
        let mut dropped = Vec::new();
        let mut values = self.values();
        while let Some((_, last)) = values.by_name.peek_lru()
            && (values.is_beyond_limits() || !is_within(last.used, now, MAX_UNUSED))
        {
            let Some((_, kept)) = values.by_name.pop_lru() else { break };
            values.bytes -= kept.bytes;
            dropped.push(kept);
        }
        drop(values);
        drop(dropped);
    }

    /// Returns the number of values.
    pub(super) fn len(&self) -> usize {
        self.values().by_name.len()
    }

    fn values(&self) -> MutexGuard<'_, Values<T>> {
        // A panic elsewhere leaves the map valid.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Values<T> {
    fn take(&mut self, name: &str) -> Option<Kept<T>> {
        let kept = self.by_name.pop(name)?;
        self.bytes -= kept.bytes;
        Some(kept)
    }

    fn is_beyond_limits(&self) -> bool {
        self.by_name.len() > MAX_KEPT || self.bytes > MAX_BYTES
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
        cache.put("ann", Seq(7), NOW, (1, 1));
        assert_eq!(cache.get("ann", Seq(7), NOW), Some(1));
        assert_eq!(cache.get("bob", Seq(7), NOW), None);
        assert_eq!(cache.get("ann", Seq(8), NOW), None);
        assert_eq!(cache.len(), 0, "an outdated value is closed");
    }

    #[test]
    fn unused_values_are_closed() {
        let cache = Cache::default();
        cache.put("ann", Seq(7), NOW, (1, 1));
        cache.put("bob", Seq(7), NOW.plus_seconds(6), (2, 1));
        cache.close_unused(NOW.plus_seconds(11));
        assert_eq!((cache.len(), cache.get("bob", Seq(7), NOW.plus_seconds(11))), (1, Some(2)));
        cache.close_unused(NOW);
        assert_eq!(cache.len(), 0, "after the clock was set back");
    }

    #[test]
    fn only_ended_values_are_closed() {
        let cache = Cache::default();
        for (name, value) in [("ann", 1), ("bob", 2), ("eve", 3)] {
            cache.put(name, Seq(7), NOW, (value, 1));
        }
        assert!(cache.close_ended(|value| *value != 2));
        assert!(!cache.close_ended(|value| *value != 2));
        assert_eq!((cache.len(), cache.get("bob", Seq(7), NOW)), (1, Some(2)));
    }

    #[test]
    fn value_in_use_is_opened_again_after_a_minute() {
        let cache = Cache::default();
        cache.put("ann", Seq(7), NOW, (1, 1));
        for seconds in 1..=60 {
            assert_eq!(cache.get("ann", Seq(7), NOW.plus_seconds(seconds)), Some(1));
        }
        assert_eq!(cache.get("ann", Seq(7), NOW.plus_seconds(61)), None);
    }

    #[test]
    fn keeps_a_bounded_number() {
        let cache = Cache::default();
        for number in 0..2 * MAX_KEPT {
            cache.put(&number.to_string(), Seq(7), NOW, (number, 1));
        }
        assert_eq!((cache.len(), cache.get("0", Seq(7), NOW)), (MAX_KEPT, None));
        let last = 2 * MAX_KEPT - 1;
        assert_eq!(cache.get(&last.to_string(), Seq(7), NOW), Some(last));
    }

    #[test]
    fn keeps_a_bounded_number_of_bytes() {
        let cache = Cache::default();
        for number in 0..8 {
            // The second time in place of the first.
            for _ in 0..2 {
                cache.put(&number.to_string(), Seq(7), NOW, (number, MAX_BYTES / 4));
            }
        }
        let get = |name| cache.get(name, Seq(7), NOW);
        assert_eq!((cache.len(), get("3"), get("4")), (4, None, Some(4)));
        cache.put("large", Seq(7), NOW, (8, MAX_BYTES + 1));
        assert_eq!(cache.len(), 0);
    }
}
