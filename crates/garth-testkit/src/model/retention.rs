//! Retention in a model run: limits on the past, drawn and set on both sides. Views have none, so nothing is
//! set there.

use std::any::Any;
use std::time::Duration;

use garth_engine::engine::memory::MemoryFs;
use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::fs::store::{Collected, RetentionState};
use garth_engine::model::Author;
use garth_engine::rule::PathPattern;
use garth_engine::rule::retention::{ContentLimit, Retention};
use garth_engine::{AccountStore, Error, Result};

use super::comparisons::{Checked, same};
use crate::data::random::Random;
use crate::fs::planted::Planted;
use crate::tools::Fs;

/// Path classes to draw from. Some paths are of several of them.
const CLASSES: [&str; 6] = ["/**", "/d/**", "/kv/*", "/**/a", "/*", "/agents/**/b"];

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

/// Returns the engine below a planted bug, or the filesystem itself.
fn engine(fs: &Fs) -> &Fs {
    (fs as &dyn Any).downcast_ref::<Planted>().map_or(fs, Planted::inner)
}

fn sqlite(fs: &Fs) -> Option<&SqliteFs> {
    (engine(fs) as &dyn Any).downcast_ref()
}

fn memory(fs: &Fs) -> Option<&MemoryFs> {
    (engine(fs) as &dyn Any).downcast_ref()
}

/// Sets the limits on both sides.
pub(super) async fn set(subject: &Fs, model: &MemoryFs, to: &Retention) -> Checked {
    let state = match (sqlite(subject), memory(subject)) {
        (Some(sqlite), _) => sqlite.set_retention(to.clone()).await,
        (None, Some(memory)) => memory.set_retention(to.clone()),
        (None, None) => return Ok(()),
    };
    compared(state, model.set_retention(to.clone()))
}

/// Compares the limits and the oldest readable state of both sides.
pub(super) async fn same_retention(subject: &Fs, model: &MemoryFs) -> Checked {
    let state = match (sqlite(subject), memory(subject)) {
        (Some(sqlite), _) => sqlite.retention().await,
        (None, Some(memory)) => Ok(memory.retention()),
        (None, None) => return Ok(()),
    };
    compared(state, Ok(model.retention()))
}

/// Compares what both sides report, except for what is particular to a storage: the rows that are removed,
/// and what holds them.
fn compared(subject: Result<RetentionState>, model: Result<RetentionState>) -> Checked {
    let reported = |state: RetentionState| (state.set, state.oldest, state.oldest_time);
    same("the retention", subject.map(reported), model.map(reported)).map(drop)
}

/// Returns true if a collection would end expired entries.
pub(super) async fn any_expired(subject: &Fs) -> Result<bool> {
    match sqlite(subject) {
        Some(sqlite) => Ok(sqlite.gc_dry_run(Duration::ZERO).await?.expired > 0),
        None => Ok(false),
    }
}

/// Collects on the subject without a grace period: what is open is open in this instance, so the collection
/// knows it. Then checks all rows.
pub(super) async fn collect_now(subject: &Fs) -> Checked<Collected> {
    let told = |error: Error| format!("collecting fails: {error}");
    let Some(sqlite) = sqlite(subject) else {
        memory(subject).into_iter().for_each(MemoryFs::collect_now);
        return Ok(Collected::default());
    };
    let collected = sqlite.gc(Duration::ZERO).await.map_err(told)?;
    let findings = sqlite.fsck().await.map_err(told)?.findings;
    match findings.is_empty() {
        true => Ok(collected),
        false => Err(format!("after {collected:?} fsck finds {findings:?}")),
    }
}
