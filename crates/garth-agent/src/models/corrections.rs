//! Corrections of counted tokens in memory, until the next request of the account commits them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Differences between the tokens that requests used today and those that they reserved. The next
/// reservation of an account commits its difference, so that a request takes one commit. A command commits
/// it at its end. A restart of a server loses them: what was reserved counts as used then.
#[derive(Debug, Default)]
pub(crate) struct Corrections(Mutex<Day>);

/// Differences of one day.
#[derive(Debug, Default)]
struct Day {
    date: String,
    accounts: HashMap<String, i64>,
}

/// Correction of one account while a commit applies it. Concurrent requests do not see it, because it would
/// be applied twice.
#[derive(Debug)]
pub(crate) struct Correction<'c> {
    corrections: &'c Corrections,
    account: &'c str,
    date: String,
    tokens: i64,
}

impl Corrections {
    /// Takes the correction of an account for a day.
    pub(crate) fn take<'c>(&'c self, account: &'c str, date: String) -> Correction<'c> {
        let mut day = self.lock();
        let tokens = if day.date == date { day.accounts.remove(account) } else { None };
        Correction { corrections: self, account, date, tokens: tokens.unwrap_or_default() }
    }

    /// Returns true if an account has a correction.
    pub(crate) fn has(&self, account: &str) -> bool {
        self.lock().accounts.contains_key(account)
    }

    fn add(&self, account: &str, date: &str, tokens: i64) {
        if tokens == 0 {
            return;
        }
        let mut day = self.lock();
        if day.date != date {
            *day = Day { date: date.to_owned(), accounts: HashMap::new() };
        }
        let sum = day.accounts.entry(account.to_owned()).or_default();
        *sum = sum.saturating_add(tokens);
    }

    fn lock(&self) -> MutexGuard<'_, Day> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Correction<'_> {
    /// Returns the tokens to add to the count.
    pub(crate) fn tokens(&self) -> i64 {
        self.tokens
    }

    /// Puts it back, because nothing was committed.
    pub(crate) fn put_back(mut self) {
        self.corrections.add(self.account, &self.date, std::mem::take(&mut self.tokens));
    }

    /// Marks it as committed.
    pub(crate) fn committed(&mut self) {
        self.tokens = 0;
    }

    /// Sets the correction for the next request: `needed` tokens were used, `taken` were reserved. Without
    /// effect if `today` is another day, whose count begins at 0.
    pub(crate) fn settle(self, today: &str, taken: u64, needed: u64) {
        if self.date == today {
            let tokens = |count| i64::try_from(count).unwrap_or(i64::MAX);
            self.corrections.add(self.account, today, tokens(needed).saturating_sub(tokens(taken)));
        }
    }
}

impl Drop for Correction<'_> {
    /// Puts back what was used beyond the reservation. If nobody waited for the commit, it may have happened:
    /// applied twice, this counts too much, but tokens that are given back would count too little.
    fn drop(&mut self) {
        self.corrections.add(self.account, &self.date, self.tokens.max(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: &str = "2026-01-27";

    #[test]
    fn corrections_are_applied_once_and_today() {
        let corrections = Corrections::default();
        let take = |account| corrections.take(account, DAY.to_owned());
        take("one").settle(DAY, 10, 4);
        let mut taken = take("one");
        assert_eq!((taken.tokens(), take("one").tokens(), take("two").tokens()), (-6, 0, 0));
        taken.committed();
        drop(taken);
        assert_eq!(take("one").tokens(), 0);
        take("one").settle(DAY, 10, 4);
        take("one").put_back();
        assert_eq!(take("one").tokens(), -6);
        take("one").settle("2026-01-28", 10, 4);
        assert_eq!(take("one").tokens(), 0);
        // Concurrent requests add up.
        let (first, second) = (take("two"), take("two"));
        first.settle(DAY, 1, 4);
        second.settle(DAY, 1, 3);
        assert_eq!(take("two").tokens(), 5, "dropped, it is put back");
        assert_eq!(take("two").tokens(), 5);
        assert_eq!(corrections.take("two", "2026-01-28".to_owned()).tokens(), 0);
    }

    #[test]
    fn dropped_corrections_never_count_too_little() {
        let corrections = Corrections::default();
        let take = || corrections.take("one", DAY.to_owned());
        take().settle(DAY, 10, 4);
        drop(take());
        assert_eq!(take().tokens(), 0);
        take().settle(DAY, 4, 10);
        drop(take());
        assert_eq!(take().tokens(), 6);
    }
}
