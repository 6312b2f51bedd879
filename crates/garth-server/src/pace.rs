//! Least pace of a client. Without it, a client that sends or takes a byte at a time would hold the room of
//! its transfer for ever.

use std::time::Duration;

use crate::limits::Limits;

/// Time that a client has for its next bytes: to send those of a body, or to take those of an answer. Only
/// the time in which the server waits counts.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    stall_time: Duration,
    body_time: Duration,
    /// Rest of the time for the current MiB.
    left: Duration,
    /// Bytes of it that have passed.
    passed: usize,
}

impl Pace {
    /// Bytes that must pass within `body_time`. A deadline for each frame could be renewed for ever, a byte
    /// at a time.
    const STEP: usize = 1 << 20;

    pub(crate) fn new(limits: &Limits) -> Self {
        let Limits { stall_time, body_time, .. } = *limits;
        Self { stall_time, body_time, left: body_time, passed: 0 }
    }

    /// Returns the time to wait for the next bytes.
    pub(crate) fn wait(&self) -> Duration {
        self.left.min(self.stall_time)
    }

    /// Begins again, for another body or answer.
    pub(crate) fn renew(&mut self) {
        (self.passed, self.left) = (0, self.body_time);
    }

    /// Counts bytes and the time for which the server has waited for them.
    pub(crate) fn took(&mut self, time: Duration, bytes: usize) {
        self.left = self.left.saturating_sub(time);
        self.passed += bytes;
        if self.passed >= Self::STEP {
            (self.passed, self.left) = (self.passed % Self::STEP, self.body_time);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mib_has_its_own_time() {
        let second = Duration::from_secs(1);
        let mut pace = Pace::new(&Limits::default().body_time(10 * second).stall_time(4 * second));
        assert_eq!(pace.wait(), 4 * second);
        // A client that sends a byte every three seconds is not waited for after ten.
        for _ in 0..3 {
            pace.took(3 * second, 1);
        }
        assert_eq!(pace.wait(), second);
        pace.took(second, 1);
        assert_eq!(pace.wait(), Duration::ZERO);
        pace.took(Duration::ZERO, Pace::STEP);
        assert_eq!((pace.wait(), pace.left, pace.passed), (4 * second, 10 * second, 4));
    }
}
