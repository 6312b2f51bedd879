//! Place of a search in the log, for each age.

use garth_engine::Result;
use tokio_postgres::types::Type;

use super::basis::{PLACES, Search, read_places};
use crate::client::param;
use crate::collect::step::Run;
use crate::values::columns::int;

const SEARCHED: &str = "INSERT INTO garth.content_age (account, keep, seq) VALUES ($1, $2, $3)
    ON CONFLICT (account, keep) DO UPDATE SET seq = excluded.seq";

/// Notes that the log is searched up to a commit, for the ages whose search has begun there. Content that an
/// open view of the past reads is looked for again. Returns false if the limits or the places were changed
/// meanwhile.
///
/// # Errors
/// As [`Run::step`].
pub(super) async fn set_searched(run: &mut Run<'_>, search: &mut Search, to: u64) -> Result<bool> {
    let (mut step, [places]) = run.step([(PLACES, Vec::new())]).await?;
    let stored = read_places(&places)?;
    // A stricter limit, or the end of a snapshot, has the log searched again from an earlier commit.
    let mut is_same = step.head.control == search.control;
    let mut changes = Vec::new();
    for span in &search.ages {
        let reached = to.min(span.to);
        if reached <= span.from {
            continue;
        }
        let first = search.first_read.get(&span.age);
        let reached = first.map_or(reached, |first| reached.min(first.saturating_sub(1)));
        let before = search.places.get(&span.age).copied().unwrap_or(0);
        is_same = is_same && stored.get(&span.age).copied().unwrap_or(0) == before;
        changes.push((span.age, before, reached));
    }
    for (age, before, reached) in changes {
        if is_same && before != reached {
            step.add(SEARCHED, [int(age.as_secs()), int(reached)].map(|it| param(it, Type::INT8)).into());
            search.places.insert(age, reached);
        }
    }
    run.commit(step).await?;
    Ok(is_same)
}
