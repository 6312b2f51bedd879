//! Collection of an account: removes what no version, snapshot, lease or open handle needs, and the past that
//! its retention ends.
//!
//! A run has a lease in the database, so that one server at a time collects an account. It works in steps,
//! each a short transaction that locks the account, and finds its work by indexes and queues that commits
//! feed: its cost depends on the garbage alone. Why: `docs/decisions/postgres-collecting.md`.
//!
//! - `step`: runs with their lease, and steps;
//! - `limits`, `kept`: the retention, and states that snapshots, overlays and open views need;
//! - `announce`: raises the first readable commit;
//! - `ended`: records whose time has ended; `times`: times of a clock that was ahead;
//! - `unnamed`: files that have lost their names; `merge`: small extents; `chunks`: content without a
//!   reference;
//! - `fold`: removes the past before the first readable commit; `content_age`: old content of path classes;
//!   `logged`: nodes with ended versions; `read_states`: states that open views show; `overlays`: the last
//!   change of one; `removed_extents`: extents that a step removes;
//! - `due`: the time from which a collection is due, and collections without an operator;
//! - `dry_run`, `collectable_past`: report of what a collection would remove; `usage`: what takes the
//!   space of an account;
//! - `recount`: stored bytes that are counted again, with all derived rows.

pub(crate) mod announce;
mod chunks;
mod collectable_past;
mod content_age;
mod dry_run;
mod due;
mod ended;
mod fold;
pub(crate) mod kept;
pub(crate) mod limits;
mod logged;
mod merge;
mod overlays;
mod read_states;
mod recount;
mod removed_extents;
pub(crate) mod step;
mod times;
mod unnamed;
mod usage;

use std::time::Duration;

use garth_engine::Result;
use garth_engine::fs::store::Collected;
use tokio_postgres::types::Type;

use self::step::{Progress, Run, held};
use crate::client::param;
use crate::indexing::index_next;
use crate::search::merge as passages;
use crate::store::PgStore;
use crate::values::columns::number;

pub(crate) use dry_run::collectable;
pub(crate) use due::collect_next;
pub(crate) use recount::{difference, reindex};
pub(crate) use usage::usage;

/// Pause between two attempts to get the lease of an account.
const PAUSE: Duration = Duration::from_millis(50);
/// Attempts to get it, for about 30 seconds.
const ATTEMPTS: usize = 600;

/// Files that wait for the grace period, and the chunks that do, with their bytes.
const WAITING: &str =
    "SELECT (SELECT count(*) FROM garth.unnamed WHERE account = $1 AND doomed_at IS NOT NULL),
    (SELECT coalesce(sum(c.len), 0)::bigint FROM garth.chunk_refs r
        JOIN garth.chunk c ON c.account = $1 AND c.id = r.chunk
        WHERE r.account = $1 AND r.count = 0 AND r.marked IS NOT NULL),
    (SELECT count(DISTINCT ino) FROM garth.content_gone WHERE account = $1 AND marked IS NOT NULL),
    greatest(oldest - folded, 0)
    FROM garth.head WHERE account = $1";
const SEARCHED: &str = "UPDATE garth.collecting SET searched = $2 WHERE account = $1";

/// Collects an account for an operator, exactly as its retention says. Waits while another run collects it.
///
/// # Errors
/// `WouldBlock` if the other run takes too long; errors of the database: the steps before stay.
pub(crate) async fn gc(store: &PgStore, grace: Duration) -> Result<Collected> {
    let (store, pool) = (store.whole(), store.pool().clone());
    pool.run(async move {
        for _ in 0..ATTEMPTS {
            if let Some(collected) = collect(&store, grace, true).await? {
                return Ok(collected);
            }
            tokio::time::sleep(PAUSE).await;
        }
        Err(held())
    })
    .await
}

/// Collects an account, exactly as its retention says, or in the background, once a step is worth while.
/// Returns `None` if another run collects it.
///
/// # Errors
/// Errors of the database: the steps before stay.
async fn collect(store: &PgStore, grace: Duration, exact: bool) -> Result<Option<Collected>> {
    let Some(mut run) = Run::begin(store, grace, exact).await? else { return Ok(None) };
    let done = phases(&mut run).await;
    let ended = run.end().await;
    done.and(ended).map(|()| Some(run.collected))
}

/// The order lets one run collect what its earlier steps release: uploads, unnamed files and the past release
/// chunks. The past goes after merging and after the search for old content, which read the log.
async fn phases(run: &mut Run<'_>) -> Result<()> {
    ended::record_expired(run).await?;
    announce::announce(run).await?;
    while times::correct(run).await? == Progress::More {}
    while ended::forget_records(run).await? == Progress::More {}
    while ended::forget_constraints(run).await? == Progress::More {}
    while ended::forget_uploads(run).await? == Progress::More {}
    let files = unnamed::take_back(run).await?;
    merge::merge(run, files).await?;
    content_age::age_content(run).await?;
    note_search(run).await?;
    fold::fold(run).await?;
    let holder = run.holder().to_vec();
    index(run.store, &holder, Some(&mut *run)).await?;
    while chunks::mark(run).await? == Progress::More {}
    while chunks::remove(run).await? == Progress::More {}
    report(run).await
}

/// Notes the time of the search for old content, for [`due`].
async fn note_search(run: &mut Run<'_>) -> Result<()> {
    let (mut step, []) = run.step([]).await?;
    let now = param(step.times.now.0, Type::INT8);
    let [_noted] = step.query([(SEARCHED, vec![now])]).await?;
    run.commit(step).await
}

/// Indexes text that commits have left, and merges the passages of the index, during a run or without one. A
/// server that is doing so already goes on alone.
async fn index(store: &PgStore, holder: &[u8], mut run: Option<&mut Run<'_>>) -> Result<()> {
    loop {
        if let Some(run) = &mut run {
            run.keep_lease().await?;
        }
        let conn = store.pool().connection().await?;
        let done = index_next(&conn, store.account(), store.registry()).await;
        if !conn.settle(done).await? {
            break;
        }
    }
    loop {
        if let Some(run) = &mut run {
            run.keep_lease().await?;
        }
        let conn = store.pool().connection().await?;
        let done = passages::step(&conn, store.account(), holder).await;
        if conn.settle(done).await? != passages::Step::Merged {
            return Ok(());
        }
    }
}

/// Counts what waits for a later run.
async fn report(run: &mut Run<'_>) -> Result<()> {
    let [rows] = run.read([(WAITING, Vec::new())]).await?;
    let Some(row) = rows.first() else { return Ok(()) };
    run.collected.waiting = number(row, 0)?;
    run.collected.waiting_bytes = number(row, 1)?;
    run.collected.waiting_contents = number(row, 2)?;
    run.collected.waiting_commits = number(row, 3)?;
    Ok(())
}
