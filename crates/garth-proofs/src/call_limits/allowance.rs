//! Second implementation of the limits of a key: a bucket of time for each class of calls, from which each
//! admitted call takes its part of a minute. The server computes the time at which a bucket is full instead.

use std::time::Duration;

/// Nanoseconds of a minute.
const MINUTE: u64 = 60_000_000_000;

/// Calls of one class that a key may still make.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowance {
    per_minute: u64,
    /// Nanoseconds in the bucket.
    credit: u64,
}

impl Allowance {
    /// Returns a full bucket. `per_minute` is a divisor of a minute in nanoseconds.
    pub(super) fn new(per_minute: u64) -> Self {
        Self { per_minute, credit: MINUTE }
    }

    /// Lets time pass.
    pub(super) fn pass(&mut self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(MINUTE);
        self.credit = self.credit.saturating_add(nanos).min(MINUTE);
    }

    /// Makes calls at one time. Returns the number of those that are admitted.
    pub(super) fn admit(&mut self, calls: u64) -> u64 {
        let cost = MINUTE / self.per_minute;
        let admitted = calls.min(self.credit / cost);
        self.credit -= admitted * cost;
        admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_refills_with_time() {
        let mut allowance = Allowance::new(60);
        assert_eq!((allowance.admit(50), allowance.admit(50)), (50, 10));
        allowance.pass(Duration::from_millis(2500));
        assert_eq!((allowance.admit(9), allowance.admit(9)), (2, 0));
        allowance.pass(Duration::from_millis(500));
        assert_eq!(allowance.admit(9), 1);
        allowance.pass(Duration::from_secs(600));
        assert_eq!(allowance.admit(100), 60);
    }
}
