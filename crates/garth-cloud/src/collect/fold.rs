//! Removes what no readable state shows: rows that ended at or before the oldest readable commit, nodes
//! that had lost their last name by then, and the commits before it.
//!
//! A pass removes what ended up to one commit, `till`, in the phases of
//! [`fold_pass`](garth_engine::engine::relational::fold_pass). A step writes its place in the transaction
//! that does its work, and works only while the pass is in its phase: a run whose lease was lost changes
//! nothing.
//!
//! States before `till` may be half removed meanwhile. New readers of them have been refused since the
//! oldest commit was raised. A pass begins after the grace period, when earlier readers have leases, and
//! goes up to the first state that one of them reads. The state at `till` itself stays complete. Why:
//! `docs/decisions/postgres-folding.md`.
//!
//! - `pass`: the pass in progress; `candidates`: nodes with ended versions; `ended_keys`: ended names and
//!   times; `ended_versions`: ended versions and extents; `ended_commits`: commits of the log.

mod candidates;
mod ended_commits;
mod ended_keys;
mod ended_versions;
mod pass;

use garth_engine::Result;
use garth_engine::engine::relational::fold_pass::{Pass, PastState, Phase};

use super::read_states;
use super::step::Run;
use crate::values::columns::{column, number};

/// True if a pass is in progress or can begin. Mostly there is none, and the account need not be locked.
const IS_LEFT: &str = "SELECT h.oldest > h.folded OR EXISTS (SELECT FROM garth.fold WHERE account = $1)
    FROM garth.head h WHERE h.account = $1";
const STATE: &str = "SELECT oldest_since, merged, folded < queued FROM garth.head WHERE account = $1";

/// Removes the past before the oldest readable commit, once readers that may be left have had their grace
/// period. Counts what it removed in `run.collected`.
///
/// # Errors
/// As [`Run::step`]. The next run goes on.
pub(crate) async fn fold(run: &mut Run<'_>) -> Result<()> {
    while let Some(pass) = begin(run).await? {
        let mut pass = Some(pass);
        while let Some(place) = pass {
            pass = phase(run, place).await?;
        }
    }
    Ok(())
}

/// Completes a phase. Returns the pass in the next one; `None` if the pass has ended, or another run has
/// gone on with it.
async fn phase(run: &mut Run<'_>, pass: Pass) -> Result<Option<Pass>> {
    match pass.phase {
        Phase::Waiting => Ok(None),
        Phase::Candidates => candidates::find(run, pass).await,
        Phase::Names => ended_keys::remove_names(run, pass).await,
        Phase::Times => ended_keys::remove_times(run, pass).await,
        Phase::Nodes => ended_versions::remove(run, pass).await,
        Phase::Log => ended_commits::remove(run, pass).await.map(|()| None),
    }
}

/// Returns the pass to go on with; `None` if nothing is to be removed yet.
async fn begin(run: &mut Run<'_>) -> Result<Option<Pass>> {
    let [left] = run.read([(IS_LEFT, Vec::new())]).await?;
    if !left.first().map_or(Ok(false), |row| column(row, 0))? {
        return Ok(None);
    }
    let statements = [pass::statement(), (STATE, Vec::new()), read_states::statement(run.store)];
    let (mut step, [known, state, leases]) = run.step(statements).await?;
    let Some(row) = state.first() else { return Ok(None) };
    let state = PastState {
        oldest: step.head.oldest,
        oldest_since: column(row, 0)?,
        folded: step.head.folded,
        pass: pass::read(&known)?,
        // Merging finds the files that were written by the log.
        limit: number(row, 1)?,
        read: read_states::all(run.store, &leases)?.first().copied(),
    };
    let next = match column(row, 2)? {
        // The queue of replaced nodes is not complete, so the search is by inode.
        true => state.next_pass(step.times.now, step.times.removed_before).by_inode(),
        false => state.next_pass(step.times.now, step.times.removed_before),
    };
    if let Some(begun) = next.write {
        pass::put(&mut step, begun);
    }
    run.commit(step).await?;
    Ok(next.go_on)
}
