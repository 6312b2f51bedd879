//! Pauses after failures of a service. One that hangs would cost each request its timeout.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use garth_engine::env::Env;
use garth_engine::model::Timestamp;

/// Ratio of a pause to the time of the failed request. So a request that fails at once delays none.
const RATIO: i64 = 12;
/// Longest pause in nanoseconds, 10 minutes.
const LONGEST: i64 = 600_000_000_000;

/// Times at which accounts ask nothing. Each account has its own, because a request can fail for its texts.
#[derive(Debug, Default)]
pub(crate) struct Pauses(Mutex<HashMap<String, Range<Timestamp>>>);

/// Request of an account. If it is dropped before it is answered, a pause begins: a caller who does not wait
/// for a service that hangs drops it.
#[derive(Debug)]
pub(crate) struct PendingRequest<'p> {
    pauses: &'p Pauses,
    account: &'p str,
    env: &'p Env,
    begun: Timestamp,
    is_answered: bool,
}

impl Pauses {
    /// Begins a request of an account. Returns `None` during a pause.
    pub(crate) fn ask<'p>(&'p self, account: &'p str, env: &'p Env) -> Option<PendingRequest<'p>> {
        let begun = env.now();
        if self.lock().get(account).is_some_and(|pause| pause.contains(&begun)) {
            return None;
        }
        Some(PendingRequest { pauses: self, account, env, begun, is_answered: false })
    }

    /// Begins the pause of an account after a request that began at `begun` and failed at `now`.
    fn begin(&self, account: &str, begun: Timestamp, now: Timestamp) {
        let length = now.0.saturating_sub(begun.0).saturating_mul(RATIO).clamp(0, LONGEST);
        let end = Timestamp(now.0.saturating_add(length));
        let mut pauses = self.lock();
        // The start counts as well: if the clock is set back, no pause becomes longer by that.
        pauses.retain(|_, pause| pause.contains(&now));
        let pause = pauses.entry(account.to_owned()).or_insert(now..now);
        // Of concurrent requests, some may fail sooner.
        pause.end = pause.end.max(end);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Range<Timestamp>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PendingRequest<'_> {
    /// Ends the request without a pause.
    pub(crate) fn answered(mut self) {
        self.is_answered = true;
    }
}

impl Drop for PendingRequest<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.pauses.begin(self.account, self.begun, self.env.now());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NOW: Timestamp = Timestamp(1_769_472_000_000_000_000);

    #[test]
    fn pauses_are_relative_to_failed_requests() {
        let (env, clock) = Env::manual(NOW);
        let pauses = Pauses::default();
        let advance = |seconds| clock.advance(Duration::from_secs(seconds));
        let is_asked = |account: &str| pauses.ask(account, &env).map(PendingRequest::answered).is_some();
        let pending = pauses.ask("one", &env).unwrap();
        advance(5);
        drop(pending);
        assert!(!is_asked("one") && is_asked("two"));
        advance(59);
        assert!(!is_asked("one"));
        advance(1);
        assert!(is_asked("one"));
        // A request that fails at once begins no pause.
        drop(pauses.ask("one", &env).unwrap());
        assert!(is_asked("one"));
        // Neither does one that is answered slowly.
        let pending = pauses.ask("one", &env).unwrap();
        advance(5);
        pending.answered();
        assert!(is_asked("one"));
    }

    #[test]
    fn pauses_are_bounded_in_time_and_number() {
        let (env, clock) = Env::manual(NOW);
        let pauses = Pauses::default();
        let is_asked = |account: &str| pauses.ask(account, &env).map(PendingRequest::answered).is_some();
        // The clock was set forward by a day during the request.
        pauses.begin("one", NOW.plus_seconds(-86_400), NOW);
        assert!(!is_asked("one"));
        clock.set(NOW.plus_seconds(599));
        assert!(!is_asked("one"));
        clock.set(NOW.plus_seconds(600));
        assert!(is_asked("one"));
        // Set back after a failure, or during a request.
        clock.set(NOW.plus_seconds(-3600));
        assert!(is_asked("one"));
        pauses.begin("two", NOW.plus_seconds(60), NOW);
        clock.set(NOW);
        assert!(is_asked("two"));
        pauses.begin("three", NOW.plus_seconds(599), NOW.plus_seconds(600));
        // One that failed sooner does not end the pause.
        pauses.begin("three", NOW.plus_seconds(601), NOW.plus_seconds(601));
        clock.set(NOW.plus_seconds(611));
        assert!(!is_asked("three"));
        assert_eq!(pauses.lock().keys().collect::<Vec<_>>(), ["three"]);
    }
}
