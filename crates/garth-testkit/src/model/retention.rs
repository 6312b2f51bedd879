//! Retention in a model run: limits on the past, drawn and set on both sides.

use std::time::Duration;

use garth_engine::engine::memory::MemoryFs;
use garth_engine::fs::store::{Collected, RetentionState};
use garth_engine::model::Author;
use garth_engine::rule::PathPattern;
use garth_engine::rule::retention::{ContentLimit, Retention};
use garth_engine::{Error, Result};

use super::comparisons::{Checked, same};
use crate::data::random::Random;
use crate::subject::Store;

/// Path classes to draw from. Some paths are of several of them.
const CLASSES: [&str; 6] = ["/**", "/d/**", "/kv/*", "/**/a", "/*", "/agents/**/b"];

/// Failure of a run that draws limits for a subject that has none.
pub(super) const NO_ACCOUNT: &str = "the subject has no account on which limits on the past can be set";

/// Draws limits on the past. Short ones remove all that other steps could compare, so most are longer.
pub(super) fn drawn(rng: &mut Random) -> Retention {
    let mut retention = Retention::default();
    if rng.one_in(3) {
        // The clock moves some 900 seconds in an episode.
        retention.age = Some(Duration::from_secs(rng.below(600)));
    }
    if rng.one_in(3) {
        let most = if rng.one_in(4) { 3 } else { 600 };
        retention.commits = Some(rng.below(most));
    }
    if rng.one_in(2) {
        for class in CLASSES {
            if rng.one_in(3) {
                let pattern = PathPattern::parse(class).expect("a pattern");
                // 0 is `off`.
                let keep = Duration::from_secs(rng.pick(&[0, 0, 20, 200]));
                retention.content.push(ContentLimit { pattern, keep });
            }
        }
    }
    retention
}

/// Returns one of a few authors of commits.
pub(super) fn author(number: u64) -> Author {
    match number % 4 {
        0 => Author::agent("scout").with_user("ann").with_class("main"),
        1 => Author::agent("scout").with_user("ann").with_class("group").with_audience("team"),
        2 => Author::key("k1"),
        _ => Author::default(),
    }
}

/// Sets the limits on both sides. Without an account, accepts only the limits that no test has changed.
pub(super) async fn set(store: &Store, model: &MemoryFs, to: &Retention) -> Checked {
    let state = match store {
        Store::Account(account) => account.set_retention(to.clone()).await,
        Store::Memory(memory) => memory.set_retention(to.clone()),
        Store::Absent if *to == Retention::default() => return Ok(()),
        Store::Absent => return Err(NO_ACCOUNT.to_owned()),
    };
    compared(state, model.set_retention(to.clone()))
}

/// Compares the limits and the oldest readable state of both sides. Without an account, nothing was limited.
pub(super) async fn same_retention(store: &Store, model: &MemoryFs) -> Checked {
    let state = match store {
        Store::Account(account) => account.retention().await,
        Store::Memory(memory) => Ok(memory.retention()),
        Store::Absent => return Ok(()),
    };
    compared(state, Ok(model.retention()))
}

/// Compares what both sides report, except for what is particular to a storage: the rows that are removed,
/// and what holds them.
fn compared(subject: Result<RetentionState>, model: Result<RetentionState>) -> Checked {
    let reported = |state: RetentionState| (state.set, state.without_file, state.oldest, state.oldest_time);
    same("the retention", subject.map(reported), model.map(reported)).map(drop)
}

/// Returns true if a collection under limits on the log would end expired entries. The memory engine leaves
/// them to the next commit, and without an account there are no limits.
pub(super) async fn any_expired(store: &Store) -> Result<bool> {
    match store {
        Store::Account(account) => Ok(account.gc_dry_run(Duration::ZERO).await?.expired > 0),
        Store::Memory(_) | Store::Absent => Ok(false),
    }
}

/// Collects on the subject without a grace period: what is open is open in this instance, so the collection
/// knows it. Then checks all rows.
pub(super) async fn collect_now(store: &Store) -> Checked<Collected> {
    let told = |error: Error| format!("collecting fails: {error}");
    let account = match store {
        Store::Account(account) => account,
        Store::Memory(memory) => {
            memory.collect_now();
            return Ok(Collected::default());
        }
        Store::Absent => return Err(NO_ACCOUNT.to_owned()),
    };
    let collected = account.gc(Duration::ZERO).await.map_err(told)?;
    let findings = account.fsck().await.map_err(told)?.findings;
    match findings.is_empty() {
        true => Ok(collected),
        false => Err(format!("after {collected:?} fsck finds {findings:?}")),
    }
}
