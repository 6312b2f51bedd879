//! One write transaction: a group of commits, or one task. Limits the size of a group, and decides whether a
//! failure concerns one member, the whole group, or leaves the state of the disk unknown.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;

use crate::engine::planner::{ChangedNodes, HeadRow, Planned, plan};
#[cfg(debug_assertions)]
use crate::engine::planner::{Fetched, Rows, fetched};
use crate::engine::relational::confinement::Reach;
use crate::engine::relational::narrow::{mask, narrowed, shown};
use crate::engine::relational::open_nodes::OpenNodes;
use crate::engine::relational::reads::gate_files::GateFiles;
use crate::engine::sqlite::chunk_store::Packs;
use crate::engine::sqlite::commit::{stored, write_delta, write_subtrees};
use crate::engine::sqlite::control::ControlCache;
use crate::engine::sqlite::control::check_version;
use crate::engine::sqlite::fulltext::background::Chores;
use crate::engine::sqlite::fulltext::changed_files::{self, Edits};
use crate::engine::sqlite::planner_rows::PlannerRows;
use crate::engine::sqlite::planner_rows::row_cache::RowCache;
use crate::engine::sqlite::projections;
use crate::engine::sqlite::schema;
use crate::engine::sqlite::tables::{head, judged_prefixes, quotas};
use crate::engine::sqlite::tree_rows::SqliteRows;
use crate::error::{ErrorKind, Result};
use crate::model::{Batch, Body, Commit, Op, Timestamp};
use crate::rule::Registry;
use crate::runtime::Runtime;
use crate::runtime::budget::Opened;
use crate::sqlite::{Conn, DbError, DbResult};
use crate::stats::instant;
use crate::text::{Edit, Tokenizer};

/// Most commits of a group. Bounds the time that its first member waits for its last.
pub(super) const MAX_GROUP_COMMITS: usize = 512;
/// Most bytes of inline content of a group, for the same reason.
const MAX_GROUP_BYTES: u64 = 16 << 20;
/// Time that a group waits to become as large as the last one, whose callers got their results together and
/// often write again together. Less than the fsync that a second group would cost.
pub(super) const GATHER: Duration = Duration::from_micros(100);

/// Work inside a write transaction of its own.
pub(crate) type Task = Box<dyn FnOnce(&Connection) -> DbResult<()> + Send>;

/// A batch, with the reach of the handle that it was committed through.
pub(crate) struct BatchRequest {
    pub(crate) batch: Batch,
    pub(crate) reach: Arc<Reach>,
}

/// The connection that writes, with its caches.
pub(crate) struct WriteConn {
    pub(crate) conn: Conn,
    /// True if its commits are durable; `None` before the first transaction, and if the setting failed.
    durable: Option<bool>,
    row_cache: RowCache,
    tokenizer: Tokenizer,
    chores: Chores,
    /// True if the index may have changed after the last look for chores.
    index_changed: bool,
    _opened: Opened,
}

impl WriteConn {
    pub(crate) fn new(conn: Conn, opened: Opened) -> Self {
        Self {
            conn,
            durable: None,
            row_cache: RowCache::default(),
            tokenizer: Tokenizer::default(),
            chores: Chores::default(),
            index_changed: true,
            _opened: opened,
        }
    }

    /// Runs `work` in a write transaction. The row cache survives only a transaction that committed.
    fn transaction<T>(
        &mut self,
        durable: bool,
        runtime: &Runtime,
        work: impl FnOnce(&Connection, &RowCache, &mut Tokenizer) -> DbResult<T>,
    ) -> DbResult<T> {
        let Self { conn, row_cache, tokenizer, .. } = self;
        let conn: &Connection = conn;
        // Taken out: if the setting fails, `None` remains, and the next transaction sets it again.
        if self.durable.take() != Some(durable) {
            schema::set_synchronous(conn, durable, runtime.fault())?;
        }
        self.durable = Some(durable);
        // IMMEDIATE: another process may have written, and SQLite does not let a read transaction on an older
        // state become a write transaction.
        conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        // The cache is validated inside the transaction: from here on no other connection can commit.
        let outcome =
            row_cache.begin(conn).and_then(|()| work(conn, row_cache, tokenizer)).and_then(|value| {
                runtime.failpoints().pass("before-commit")?;
                let mut commit = conn.prepare_cached("COMMIT")?;
                let begun = instant();
                commit.execute([]).map_err(|error| DbError::from(error).of_commit())?;
                if durable {
                    runtime.counters().syncs.record_time(begun.elapsed());
                }
                runtime.failpoints().pass("after-commit")?;
                Ok(value)
            });
        row_cache.end();
        if outcome.is_err() {
            // The cache may hold rows that the failed transaction wrote.
            row_cache.forget();
            if !conn.is_autocommit() {
                // Report the error that led here, not one of the rollback.
                let _ = conn.execute_batch("ROLLBACK");
            }
        }
        outcome
    }

    /// Runs a task in a transaction of its own. The task may write any row, past the row cache.
    pub(crate) fn run_task(&mut self, durable: bool, runtime: &Runtime, task: Task) -> DbResult<()> {
        let outcome = self.transaction(durable, runtime, |conn, _, _| task(conn));
        self.row_cache.forget();
        self.index_changed = true;
        outcome
    }

    /// Returns true if background work on the index is due; `None` if nothing has changed after the last
    /// look.
    pub(crate) fn look_for_chores(&mut self) -> DbResult<Option<bool>> {
        match std::mem::take(&mut self.index_changed) {
            true => Ok(Some(self.chores.due(&self.conn)?)),
            false => Ok(None),
        }
    }

    /// Runs one step of background work on the index.
    pub(crate) fn run_chore(
        &mut self,
        runtime: &Runtime,
        packs: &Packs,
        registry: &Registry,
    ) -> DbResult<()> {
        // Taken out, because `transaction` borrows all of `self`.
        let mut chores = std::mem::take(&mut self.chores);
        // Not durable: a power cut undoes the whole step, which is then due again.
        let outcome = self.transaction(false, runtime, |conn, _, tokenizer| {
            // Another process may have registered a newer set of projections, whose keys this one cannot
            // derive.
            check_version(head::get(conn)?.projections, registry)?;
            chores.step(conn, packs, tokenizer)
        });
        self.chores = chores;
        self.index_changed = true;
        outcome
    }

    /// Plans and writes a group of batches in one transaction. A batch that fails planning gets its own error
    /// and writes nothing; any other failure fails the group. `before_commit` sees the results before COMMIT.
    pub(crate) fn run_batches(
        &mut self,
        durable: bool,
        context: &GroupContext<'_>,
        batches: &[BatchRequest],
        before_commit: impl FnOnce(&[Result<Commit>]),
    ) -> DbResult<Vec<Result<Commit>>> {
        let runtime = context.runtime;
        let (mut results, indexed) = self.transaction(durable, runtime, |conn, row_cache, tokenizer| {
            let GroupContext { packs, open, control, .. } = *context;
            let head = head::get(conn)?;
            let (reach, rules) = (&Reach::everything(), &*control.at(conn, head.control)?.rules);
            let state = PlannerRows { conn, packs, row_cache, open, reach, rules };
            let planned = context.plan_group(&state, head, batches, tokenizer)?;
            before_commit(&planned.0);
            Ok(planned)
        })?;
        self.index_changed |= indexed;
        runtime.failpoints().pass("answer")?;
        // One sync covers the group: a member that asked for `Visible` is durable as well.
        for commit in results.iter_mut().flatten() {
            commit.durable = durable;
        }
        Ok(results)
    }
}

/// Edits of the index that are collected before they are applied. Only removed subtrees yield more.
const MAX_GROUP_EDITS: usize = 4096;

/// Data for planning a group, apart from the connection.
pub(crate) struct GroupContext<'a> {
    pub(crate) runtime: &'a Runtime,
    pub(crate) packs: &'a Packs,
    pub(crate) open: &'a OpenNodes,
    pub(crate) control: &'a ControlCache,
}

impl GroupContext<'_> {
    /// Plans the batches and writes their rows. Returns the results, and true if the index changed.
    fn plan_group(
        &self,
        state: &PlannerRows<'_>,
        mut head: HeadRow,
        batches: &[BatchRequest],
        tokenizer: &mut Tokenizer,
    ) -> DbResult<(Vec<Result<Commit>>, bool)> {
        let (conn, failpoints, env) = (state.conn, self.runtime.failpoints(), self.runtime.env());
        let registry = self.control.registry();
        check_version(head.projections, registry)?;
        let (begin, limit) = (head, self.control.at(conn, head.control)?.retention.stored);
        let (mut edits, mut changed) = (Edits::new(), ChangedNodes::new(begin.next_ino));
        let mut results = Vec::with_capacity(batches.len());
        let (mut replayed, mut indexed, mut unwritten) = (false, false, 0);
        let mut ahead = PlannedAhead::default();
        for (place, BatchRequest { batch, reach }) in batches.iter().enumerate() {
            // Each batch is judged by the reach of its own handle.
            let rows = PlannerRows { reach, ..*state };
            failpoints.pass("plan")?;
            let (mut of_gates, mut versions) = (None::<Batch>, Vec::new());
            let batch = match reach.gates.is_empty() {
                true => batch,
                false => {
                    // Members of this group may be rolled back.
                    let (control, settled) = (self.control, begin.seq);
                    let rows = SqliteRows { conn, packs: state.packs, control, patience: None };
                    let files = GateFiles { rows, settled };
                    let quotas = state.row_cache.quotas(|| quotas::all_of(conn))?;
                    versions = shown(rows, &reach.gates)?;
                    of_gates.insert(narrowed(&files, reach, &quotas, batch)?)
                }
            };
            let planned = ahead.plan(&rows, (head, env.now()), batch, &batches[place + 1..]);
            match planned.and_then(|planned| stored::check(&rows, planned, limit, batch, &mut unwritten)) {
                // A repeat of an earlier commit, perhaps one of this group: its rows are written already.
                Ok(Planned::Replay(commit)) => {
                    replayed = true;
                    results.push(Ok(commit));
                }
                Ok(Planned::Apply { delta, head: next, mut commit }) => {
                    mask(&versions, &mut commit);
                    if !delta.subtrees.is_empty() {
                        // Ranges of rows are written without updating the row cache, from which the index
                        // reads nodes, so the cache is cleared. Removed files are taken out of the index in
                        // pieces, to bound the memory.
                        state.row_cache.clear();
                        let mut ended = |ino, edit| {
                            judged_prefixes::remove(conn, ino)?;
                            add(&mut edits, ino, edit);
                            if edits.len() < MAX_GROUP_EDITS {
                                return Ok(());
                            }
                            indexed = true;
                            changed_files::apply(state, &std::mem::take(&mut edits), None, tokenizer)
                                .map(drop)
                        };
                        let changed = (registry, &mut changed);
                        write_subtrees::write(conn, &delta, &next, changed, &mut ended)?;
                    }
                    write_delta::delta(conn, &delta, &next, batch, &commit)?;
                    changed.by(registry, &delta);
                    state.row_cache.apply(&delta, next.seq);
                    failpoints.pass("apply")?;
                    // In the transaction of the write: `gc` must never see an unnamed node without the lease
                    // of its writer.
                    self.open.written(conn, delta.unnamed.iter().copied(), env.now())?;
                    for (ino, edit) in &delta.index {
                        add(&mut edits, *ino, *edit);
                    }
                    head = next;
                    results.push(Ok(commit));
                }
                // The disk failed, not the batch: the rows read so far cannot be trusted, so the group is
                // rolled back.
                Err(error) if error.is(ErrorKind::Io) => return Err(error.into()),
                Err(error) => {
                    // Those behind it may have been planned with its changes.
                    ahead = PlannedAhead::default();
                    results.push(Err(error));
                }
            }
        }
        if replayed {
            // The first attempt may have been `Visible`, and this batch may ask for `Durable`: without a
            // write nothing would be synced.
            head::touch(conn)?;
        }
        if head.seq > begin.seq {
            head::put(conn, &head)?;
        }
        // Once a group, on its final state: a file that many batches append to is read and indexed once.
        failpoints.pass("index")?;
        projections::update::write(state, registry, &changed)?;
        let begin = (!indexed).then_some(&begin);
        indexed |= changed_files::apply(state, &edits, begin, tokenizer)?;
        Ok((results, indexed))
    }
}

/// Plans the batches of a group, each once those before it are written. Tests can select the variant that
/// fetches rows in rounds, which a remote database needs: it plans batches before any of them is written.
#[derive(Default)]
struct PlannedAhead {
    /// Results of the next batches.
    #[cfg(debug_assertions)]
    results: std::collections::VecDeque<Result<Planned>>,
}

impl PlannedAhead {
    /// Plans a batch. `behind` are those after it.
    fn plan(
        &mut self,
        rows: &PlannerRows<'_>,
        (head, now): (HeadRow, Timestamp),
        batch: &Batch,
        behind: &[BatchRequest],
    ) -> Result<Planned> {
        #[cfg(debug_assertions)]
        if fetched::is_asked_for() {
            if self.results.is_empty() {
                self.results = planned_ahead(rows, Fetched { head, now }, batch, behind)?.into();
            }
            if let Some(planned) = self.results.pop_front() {
                return planned;
            }
        }
        #[cfg(not(debug_assertions))]
        let _ = (self, behind);
        plan(rows, head, now, batch)
    }
}

/// Plans a batch, and as many of those behind it as can be planned before it is written, only from the rows
/// that are fetched for them.
#[cfg(debug_assertions)]
fn planned_ahead(
    rows: &PlannerRows<'_>,
    state: Fetched,
    batch: &Batch,
    behind: &[BatchRequest],
) -> Result<Vec<Result<Planned>>> {
    // Which entries gates hide depends on the batches before.
    let behind: Vec<_> = behind.iter().take_while(|request| request.reach.gates.is_empty()).collect();
    let batches: Vec<&Batch> =
        [batch].into_iter().chain(behind.iter().map(|request| &request.batch)).collect();
    let is_open = |place: usize, ino| match place.checked_sub(1).and_then(|place| behind.get(place)) {
        Some(request) => Ok(request.reach.holds(ino, rows.open)),
        None => rows.is_open(ino),
    };
    fetched::plan_group_fetched(rows, state, &batches, &is_open).0
}

fn add(edits: &mut Edits, ino: u64, edit: Edit) {
    edits.entry(ino).and_modify(|before| *before = before.then(edit)).or_insert(edit);
}

/// Returns true if a batch joins a group that has `count` commits with `bytes` bytes of content.
pub(super) fn fits(batch: &Batch, count: usize, bytes: u64) -> bool {
    count < MAX_GROUP_COMMITS && bytes + weight(batch) <= MAX_GROUP_BYTES
}

/// Returns the bytes that a batch counts towards its group: its content. A batch that hashes stored content
/// has a group of its own, because hashing alone may take as long as a whole group.
pub(super) fn weight(batch: &Batch) -> u64 {
    if batch.hashes() {
        return MAX_GROUP_BYTES + 1;
    }
    batch.ops.iter().filter_map(Op::body).map(Body::size).sum()
}

/// Returns true if one member may have caused the failure of a group. Each member is then tried alone.
pub(crate) fn may_be_of_one_member(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Corrupt | ErrorKind::NoSpace)
}
