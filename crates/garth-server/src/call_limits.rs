//! Limits on the calls of admitted requests: calls of a key in a minute, and calls of an account that run at
//! once. The calls of a minute are checked before the body of a request is read, turns are taken after it has
//! arrived and before the account is opened.

use garth_engine::model::Timestamp;

use crate::answers::{Room, Rooms};
use crate::errors::Refusal;
use crate::limits::Limits;
use crate::rate_limit::{Allowance, CallClass, RateLimits};

/// Limits on calls. The default has none.
#[derive(Debug, Default)]
pub(crate) struct CallLimits(Option<Enforced>);

#[derive(Debug)]
struct Enforced {
    rates: RateLimits,
    turns: Rooms,
}

impl CallLimits {
    /// Returns the limits of a server that enforces them.
    pub(crate) fn enforcing(limits: &Limits) -> Self {
        Self(Some(Enforced { rates: RateLimits::new(limits), turns: Rooms::for_calls(limits) }))
    }

    /// Counts a call of a key, and returns the state of its limit, if it has one.
    pub(crate) fn count(&self, key: &str, class: Option<CallClass>, now: Timestamp) -> Option<Allowance> {
        self.0.as_ref()?.rates.count(key, class?, now)
    }

    /// Waits for the turn of a call among those of its account. Returns `None` without limits. The turn ends
    /// when it is dropped.
    ///
    /// # Errors
    /// `RATE_LIMITED` after `room_wait`.
    pub(crate) async fn turn(&self, account: &str) -> Result<Option<Room>, Refusal> {
        match &self.0 {
            Some(limits) => limits.turns.call(account).await.map(Some),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errors::Code;

    #[tokio::test(start_paused = true)]
    async fn calls_of_an_account_wait_only_for_their_own() {
        let calls = CallLimits::enforcing(&Limits::default().account_calls(2));
        let held = [calls.turn("a").await.unwrap(), calls.turn("a").await.unwrap()];
        assert!(held.iter().all(Option::is_some));
        let refused = calls.turn("a").await.unwrap_err();
        assert_eq!((refused.code, refused.status.as_u16()), (Code::RateLimited, 429));
        assert!(calls.turn("b").await.is_ok());
        drop(held);
        assert!(calls.turn("a").await.is_ok());
    }

    #[tokio::test]
    async fn default_has_no_limits() {
        let calls = CallLimits::default();
        for _ in 0..100_000 {
            assert_eq!(calls.count("a", Some(CallClass::Write), Timestamp(0)), None);
        }
        assert!(calls.turn("a").await.unwrap().is_none());
    }
}
