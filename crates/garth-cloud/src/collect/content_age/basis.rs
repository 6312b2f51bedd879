//! Limits, and the states that snapshots and overlays show, as a search has read them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use garth_engine::engine::relational::content_search::{AgeSpan, all_commits};
use garth_engine::model::Timestamp;
use garth_engine::rule::retention::ContentLimits;
use garth_engine::{Error, ErrorKind, Result};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::client::param;
use crate::collect::limits;
use crate::collect::step::{Run, read};
use crate::store::PgStore;
use crate::values::columns::{column, head, int, number};
use crate::values::parameters::ints;

/// Most states that a step notes.
const STATES: usize = 1024;

/// Head row, how far ended rows may be removed, the time, and the commit after which the queue of replaced
/// nodes is complete.
const HEAD: &str = "SELECT seq, time, next_ino, next_chunk, control, projections, oldest, folded,
        greatest(folded, (SELECT till FROM garth.fold WHERE account = $1 AND phase > 0)), garth.now(), queued
    FROM garth.head WHERE account = $1";
const SNAPSHOTS: &str = "SELECT DISTINCT seq FROM garth.snapshot WHERE account = $1";
const HELD: &str = "SELECT seq FROM garth.held WHERE account = $1";
/// Commits up to which the log was searched, by age in seconds.
pub(super) const PLACES: &str = "SELECT keep, seq FROM garth.content_age WHERE account = $1";
const SEARCH_AGAIN: &str = "UPDATE garth.content_age SET seq = $2 WHERE account = $1 AND seq > $2";
const NOT_HELD: &str = "DELETE FROM garth.held WHERE account = $1 AND seq = ANY($2)";
const NOW_HELD: &str =
    "INSERT INTO garth.held (account, seq) SELECT $1, * FROM unnest($2::bigint[]) ON CONFLICT DO NOTHING";

/// Search for the old content of all ages.
#[derive(Clone, Debug)]
pub(crate) struct Search {
    pub(super) limits: Arc<ContentLimits>,
    /// Version of the control data that has the limits.
    pub(super) control: u64,
    /// States that snapshots and overlays show.
    pub(super) kept: Arc<BTreeSet<u64>>,
    /// Head when these were read. A later snapshot shows a later state.
    pub(super) head: u64,
    /// Commit after which the queue of replaced nodes is complete.
    pub(super) queued: u64,
    pub(super) ages: Vec<AgeSpan>,
    /// Commit up to which the log was searched before, by age.
    pub(super) places: BTreeMap<Duration, u64>,
    /// Commits that this part of the search reads: after the first, up to and including the last.
    pub(super) span: (u64, u64),
    /// First commit that replaced content which an open view of the past still reads, by age.
    pub(super) first_read: BTreeMap<Duration, u64>,
}

/// State with which a search begins.
struct Basis {
    limits: Arc<ContentLimits>,
    head: u64,
    control: u64,
    queued: u64,
    folded: u64,
    reached: u64,
    now: Timestamp,
    kept: BTreeSet<u64>,
    held: BTreeSet<u64>,
    places: BTreeMap<Duration, u64>,
}

impl Basis {
    /// Reads limits and states; `None` if no class limits content, or there are too many overlays to know
    /// which states they show.
    async fn read(store: &PgStore) -> Result<Option<Self>> {
        let [retention, content] = limits::statements();
        let own = |sql| (sql, Vec::new());
        let statements = [own(HEAD), retention, content, own(SNAPSHOTS), own(HELD), own(PLACES)];
        let [row, retention, content, snapshots, held, places] = read(store, statements).await?;
        let limits = Arc::new(ContentLimits::new(&limits::retention(&retention, &content)?.content));
        if limits.ages().is_empty() {
            return Ok(None);
        }
        let deleted = || Error::new(ErrorKind::NotFound, "the account does not exist, or was deleted");
        let row = row.first().ok_or_else(deleted)?;
        // Overlays of later states. One that was created or removed since the head was read is noticed
        // behind the lock.
        let Some(forks) = store.all_forks().await? else { return Ok(None) };
        let head = head(row)?;
        let mut kept = states(&snapshots)?;
        kept.extend(forks);
        Ok(Some(Self {
            limits,
            head: head.seq,
            control: head.control,
            folded: head.folded,
            reached: number(row, 8)?,
            now: Timestamp(column(row, 9)?),
            queued: number(row, 10)?,
            kept,
            held: states(&held)?,
            places: read_places(&places)?,
        }))
    }

    /// Returns the search of the commits that are due.
    async fn search(self, store: &PgStore) -> Result<Search> {
        let (head, places) = (self.head, self.places);
        let searched = |age: Duration| (age, places.get(&age).copied().unwrap_or(0));
        let ages: Vec<(Duration, u64)> = self.limits.ages().into_iter().map(searched).collect();
        let mut ages = store.spans_to_search(&ages, self.reached, self.now).await?;
        for span in &mut ages {
            // What later commits replaced may be in a snapshot that is not known here.
            span.to = span.to.min(head);
        }
        Ok(Search {
            limits: self.limits,
            control: self.control,
            kept: Arc::new(self.kept),
            head,
            queued: self.queued,
            span: all_commits(&ages),
            ages,
            places,
            first_read: BTreeMap::new(),
        })
    }
}

/// Returns the next search; `None` if all content stays. Notes which states are kept.
///
/// # Errors
/// As [`Run::step`].
pub(super) async fn begin(run: &mut Run<'_>) -> Result<Option<Search>> {
    let Some(mut basis) = Basis::read(run.store).await? else { return Ok(None) };
    note_held(run, &mut basis).await?;
    Ok(Some(basis.search(run.store).await?))
}

/// Returns the search that a collection would make once it has raised the first readable commit to
/// `oldest`; `None` if all content stays.
///
/// # Errors
/// Errors of the database.
pub(crate) async fn search_to_come(store: &PgStore, oldest: u64) -> Result<Option<Search>> {
    // Without one, all content stays.
    let Some(basis) = Basis::read(store).await? else { return Ok(None) };
    // Content that only a state showed which is not kept any more is looked for again.
    let lost = basis.held.difference(&basis.kept).next().copied();
    let (folded, head) = (basis.folded, basis.head);
    let mut search = basis.search(store).await?;
    for span in &mut search.ages {
        span.from = lost.map_or(span.from, |lost| span.from.min(lost).max(folded));
        span.to = span.to.max(oldest).min(head);
    }
    search.span = all_commits(&search.ages);
    Ok(Some(search))
}

/// Notes which states are kept. Content that only the dropped ones kept is looked for again.
async fn note_held(run: &mut Run<'_>, basis: &mut Basis) -> Result<()> {
    let dropped: Vec<u64> = basis.held.difference(&basis.kept).copied().collect();
    let added: Vec<u64> = basis.kept.difference(&basis.held).copied().collect();
    if let Some(first) = dropped.first() {
        // Content that a state shows was replaced by a later commit.
        basis.places.values_mut().for_each(|place| *place = (*place).min(*first));
    }
    for (sql, states) in [(NOT_HELD, &dropped), (NOW_HELD, &added)] {
        for piece in states.chunks(STATES) {
            let (mut step, []) = run.step([]).await?;
            if let Some(first) = dropped.first() {
                step.add(SEARCH_AGAIN, vec![param(int(*first), Type::INT8)]);
            }
            step.add(sql, vec![ints(piece.iter().copied())]);
            run.commit(step).await?;
        }
    }
    Ok(())
}

fn states(rows: &[Row]) -> Result<BTreeSet<u64>> {
    rows.iter().map(|row| number(row, 0)).collect()
}

/// Reads the commits up to which the log was searched, by age.
pub(super) fn read_places(rows: &[Row]) -> Result<BTreeMap<Duration, u64>> {
    rows.iter().map(|row| Ok((Duration::from_secs(number(row, 0)?), number(row, 1)?))).collect()
}
