//! Collection of an account: removes what no version, snapshot, lease or open handle needs, and the past that
//! its retention ends.
//!
//! A run has a lease in the database, so that one server at a time collects an account. It works in steps,
//! each a short transaction that locks the account, and finds its work by indexes and queues that commits
//! feed: its cost depends on the garbage alone. Why: `docs/decisions/postgres-collecting.md`.
//!
//! - `step`: runs with their lease, and steps;
//! - `kept`: states that snapshots, overlays and open views need; `references`: counts of references to chunks;
//! - `fold`: removes the past before the first readable commit; `content_age`: old content of path classes.

mod content_age;
mod fold;
pub(crate) mod step;

use std::time::Duration;

use garth_engine::Result;
use garth_engine::fs::store::Collected;

use self::step::{Progress, Run};
use crate::store::PgStore;

/// Collects an account, exactly as its retention says, or once a step is worth while. Returns `None` if
/// another run collects it.
///
/// # Errors
/// Errors of the database: steps before stay.
pub(crate) async fn collect(store: &PgStore, grace: Duration, exact: bool) -> Result<Option<Collected>> {
    let Some(mut run) = Run::begin(store, grace, exact).await? else { return Ok(None) };
    let done = phases(&mut run).await;
    let ended = run.end().await;
    done.and(ended).map(|()| Some(run.collected))
}

/// The order lets one run collect what its earlier steps release: uploads, unnamed files and the past release
/// chunks. The past goes after merging and after the search for old content, which read the log.
async fn phases(run: &mut Run<'_>) -> Result<()> {
    let mut place = content_age::Place::default();
    while content_age::step(run, &mut place).await? == Progress::More {}
    while fold::step(run).await? == Progress::More {}
    Ok(())
}
