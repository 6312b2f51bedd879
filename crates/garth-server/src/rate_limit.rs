//! Rate limits of API keys: how many calls of each class a key may make in a minute. A key may make them all
//! at once; each one is free again after its part of the minute (the generic cell rate algorithm).

use std::sync::{Mutex, PoisonError};

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use garth_engine::model::Timestamp;
use lru::LruCache;

use crate::errors::Refusal;
use crate::limits::Limits;

/// Calls of its class that a key may make in a minute.
const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
/// Calls of its class that the key may make now.
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
/// Seconds until the key may make all of them again.
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// Time for which the limits are given, in nanoseconds: a minute.
const WINDOW: i64 = 60 * SECOND;
const SECOND: i64 = 1_000_000_000;
/// Keys that are remembered.
const KEYS: usize = 50_000;
/// Forgotten keys per new one. With more than one, the number of remembered keys falls to those in use.
const SWEPT: usize = 2;

/// Class of a call, each with a limit of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallClass {
    /// Returns stored data.
    Read,
    /// Changes stored data.
    Write,
    /// Reads or computes much for a short request, such as a search.
    Search,
}

impl CallClass {
    /// Returns the name of the calls in messages.
    fn calls(self) -> &'static str {
        match self {
            Self::Read => "reads",
            Self::Write => "writes",
            Self::Search => "searches",
        }
    }
}

/// Value of each class.
#[derive(Clone, Copy, Debug, Default)]
struct PerClass {
    reads: i64,
    writes: i64,
    searches: i64,
}

impl PerClass {
    fn of(&self, class: CallClass) -> i64 {
        match class {
            CallClass::Read => self.reads,
            CallClass::Write => self.writes,
            CallClass::Search => self.searches,
        }
    }

    fn of_mut(&mut self, class: CallClass) -> &mut i64 {
        match class {
            CallClass::Read => &mut self.reads,
            CallClass::Write => &mut self.writes,
            CallClass::Search => &mut self.searches,
        }
    }

    fn largest(&self) -> i64 {
        self.reads.max(self.writes).max(self.searches)
    }
}

/// Keys by their ids, each with the times, in nanoseconds, at which all of its calls are free again.
type Keys = LruCache<Box<str>, PerClass>;

/// Calls of each key, and their limits.
#[derive(Debug)]
pub(crate) struct RateLimits {
    /// Calls of a key in a minute; 0 for no limit.
    per_minute: PerClass,
    keys: Mutex<Keys>,
}

impl RateLimits {
    pub(crate) fn new(limits: &Limits) -> Self {
        let calls = |limit: usize| i64::try_from(limit).unwrap_or(i64::MAX);
        let per_minute = PerClass {
            reads: calls(limits.reads_per_minute),
            writes: calls(limits.writes_per_minute),
            searches: calls(limits.searches_per_minute),
        };
        // Not with its full capacity at once, which would take memory that few servers need.
        Self { per_minute, keys: Mutex::new(LruCache::unbounded()) }
    }

    /// Counts a call of a key, unless its limit is used up. Returns `None` for a class without a limit.
    pub(crate) fn count(&self, key: &str, class: CallClass, now: Timestamp) -> Option<Allowance> {
        let per_minute = self.per_minute.of(class);
        if per_minute <= 0 {
            return None;
        }
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if keys.peek(key).is_none() {
            make_room(&mut keys, now);
            keys.put(key.into(), PerClass::default());
        }
        let end = keys.get_mut(key)?.of_mut(class);
        Some(spend(end, class, per_minute, now.0))
    }
}

/// Forgets keys before another one is remembered: those whose calls are all free again, and beyond [`KEYS`]
/// the one that called longest ago.
fn make_room(keys: &mut Keys, now: Timestamp) {
    for _ in 0..SWEPT {
        let Some((_, ends)) = keys.peek_lru() else { return };
        if keys.len() < KEYS && ends.largest() > now.0 {
            return;
        }
        keys.pop_lru();
    }
}

/// Counts a call if there is one left. `end` is the time at which all calls are free again.
fn spend(end: &mut i64, class: CallClass, per_minute: i64, now: i64) -> Allowance {
    // Time after which one call is free again, and the time for all of them.
    let cost = (WINDOW / per_minute).max(1);
    let full = cost.saturating_mul(per_minute);
    // Bounded, also if the clock was set back: a key is never refused for longer than a minute.
    let used = end.saturating_sub(now).clamp(0, full);
    let is_within = used + cost <= full;
    let spent = if is_within { used + cost } else { used };
    *end = now.saturating_add(spent);
    Allowance {
        class,
        limit: per_minute,
        remaining: (full - spent) / cost,
        reset: seconds(spent),
        retry_after: (!is_within).then(|| seconds(used + cost - full)),
    }
}

/// Returns a time in seconds, rounded up.
fn seconds(nanos: i64) -> i64 {
    nanos / SECOND + i64::from(nanos % SECOND > 0)
}

/// State of a limit after a call was counted or refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allowance {
    class: CallClass,
    limit: i64,
    remaining: i64,
    reset: i64,
    /// Seconds until the next call is free, if this one is refused.
    retry_after: Option<i64>,
}

impl Allowance {
    /// Fails if the call is beyond the limit.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        let Some(seconds) = self.retry_after else { return Ok(()) };
        let message = format!(
            "this API key has made the {} {} that it may make in a minute; repeat the call after {seconds} s",
            self.limit,
            self.class.calls()
        );
        Err(Refusal::rate_limited(&message, seconds))
    }

    /// Adds the headers of the limit to an answer.
    pub(crate) fn write(&self, headers: &mut HeaderMap) {
        headers.insert(LIMIT, HeaderValue::from(self.limit));
        headers.insert(REMAINING, HeaderValue::from(self.remaining));
        headers.insert(RESET, HeaderValue::from(self.reset));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_769_472_000_000_000_000);

    fn limits(reads: usize) -> RateLimits {
        RateLimits::new(
            &Limits::default().reads_per_minute(reads).writes_per_minute(1).searches_per_minute(0),
        )
    }

    /// Returns what a read shows: remaining calls, reset, and the seconds to wait if it is refused.
    fn read(limits: &RateLimits, key: &str, now: Timestamp) -> (i64, i64, Option<i64>) {
        let allowance = limits.count(key, CallClass::Read, now).unwrap();
        assert_eq!(allowance.check().is_err(), allowance.retry_after.is_some());
        (allowance.remaining, allowance.reset, allowance.retry_after)
    }

    fn after(seconds: i64) -> Timestamp {
        Timestamp(NOW.0 + seconds * SECOND)
    }

    #[test]
    fn calls_of_a_minute_may_be_made_at_once() {
        let limits = limits(3);
        assert_eq!(read(&limits, "a", NOW), (2, 20, None));
        assert_eq!(read(&limits, "a", NOW), (1, 40, None));
        assert_eq!(read(&limits, "a", NOW), (0, 60, None));
        for _ in 0..100 {
            assert_eq!(read(&limits, "a", NOW), (0, 60, Some(20)), "a refused call costs nothing");
        }
        assert_eq!(read(&limits, "a", after(19)), (0, 41, Some(1)));
        assert_eq!(read(&limits, "a", after(20)), (0, 60, None));
        assert_eq!(read(&limits, "a", after(80)), (2, 20, None));
    }

    #[test]
    fn each_key_and_class_has_its_own_limit() {
        let limits = limits(1);
        assert_eq!(read(&limits, "a", NOW), (0, 60, None));
        assert_eq!(read(&limits, "a", NOW).2, Some(60));
        assert_eq!(read(&limits, "b", NOW), (0, 60, None));
        assert!(limits.count("a", CallClass::Write, NOW).unwrap().check().is_ok());
        assert!(limits.count("a", CallClass::Write, NOW).unwrap().check().is_err());
        assert_eq!(limits.count("a", CallClass::Search, NOW), None, "no limit");
    }

    #[test]
    fn high_limits_are_exact() {
        for reads in [7, 6000, 999_999, 10_000_000] {
            let limits = limits(reads);
            let count = i64::try_from(reads).unwrap();
            assert_eq!(read(&limits, "a", NOW).0, count - 1);
            let end = NOW.0 + WINDOW / count * count;
            *limits.keys.lock().unwrap().get_mut("a").unwrap().of_mut(CallClass::Read) = end;
            assert_eq!((read(&limits, "a", NOW).0, read(&limits, "a", NOW).2.is_some()), (0, true));
        }
    }

    #[test]
    fn clock_set_back_refuses_for_a_minute_at_most() {
        let limits = limits(1);
        read(&limits, "a", NOW);
        assert_eq!(read(&limits, "a", Timestamp(SECOND)).2, Some(60));
        assert_eq!(read(&limits, "a", Timestamp(61 * SECOND)).2, None);
        assert_eq!(read(&limits, "b", Timestamp(i64::MAX)).2, None);
    }

    #[test]
    fn remembers_a_bounded_number_of_keys() {
        let limits = limits(1);
        for n in 0..KEYS + 100 {
            read(&limits, &n.to_string(), NOW);
        }
        assert_eq!(limits.keys.lock().unwrap().len(), KEYS);
        // The first ones were forgotten, not the last ones.
        assert_eq!(read(&limits, "0", NOW).2, None);
        assert_eq!(read(&limits, &(KEYS + 99).to_string(), NOW).2, Some(60));
    }

    #[test]
    fn keys_without_recent_calls_are_forgotten() {
        let limits = limits(1);
        for n in 0..1000 {
            read(&limits, &n.to_string(), NOW);
        }
        for n in 0..1000 {
            read(&limits, &format!("later {n}"), after(61));
        }
        assert_eq!(limits.keys.lock().unwrap().len(), 1000);
    }
}
