//! Commits a group of batches: in one transaction, and in the round trips of one batch, unless batches depend
//! on rows that only the writes of those before them make.

mod bounds;
mod derive;

use std::sync::Arc;

use garth_engine::engine::planner::{HeadRow, Planned, plan_group};
use garth_engine::engine::relational::confinement::Reach;
use garth_engine::engine::relational::narrow::mask;
use garth_engine::model::{Batch, Commit, VersionId};
use garth_engine::rule::Registry;
use garth_engine::{Error, ErrorKind, Result};
use tokio_postgres::types::Type;

use crate::ahead::{Ahead, large_chunks};
use crate::client::{Connection, Pipe, Pool, begin_writes, param};
use crate::rows::{BatchTexts, PgRows, Writes};
use derive::{derive, derive_moved};

pub use crate::rows::committer::{Committer, Request};

/// Most round trips while the account is locked, `COMMIT` included.
const MAX_TRIPS: usize = 16;
/// Rounds of planning in a transaction: before `COMMIT`, one trip may be for the lengths of moved paths.
const MAX_ROUNDS: usize = MAX_TRIPS - 2;
/// Round trips after which a transaction plans no more batches: the next one has all of its trips for them.
const LAST_START: usize = MAX_TRIPS / 2;
/// Most connections that a commit loses before it fails.
const MAX_LOST: usize = 3;

/// A transaction whose answer is lost.
struct Attempt {
    /// Its last commit, with its random id.
    last: u64,
    token: Vec<u8>,
    /// Results of its batches if it is committed.
    results: Vec<Result<Commit>>,
}

/// Failure of a transaction.
enum Failure {
    /// Nothing of it is committed.
    RolledBack(Error),
    /// The connection was lost while it was being committed.
    Unanswered(Box<Attempt>, Error),
}

/// Commits batches of an account with the reach of the account, in their order, without rules of a registry.
/// A batch that cannot be committed gets its own error and writes nothing; those after it are committed
/// without it.
///
/// A connection whose commit was dropped before its end has an open transaction, and must be closed.
///
/// # Errors
/// As [`Committer::commit`]. `Unavailable` if the connection is lost: then batches may be committed.
pub async fn commit(conn: &Connection, account: i64, batches: &[Batch]) -> Result<Vec<Result<Commit>>> {
    commit_keyed(conn, account, &Registry::empty(), batches).await
}

/// Commits batches as [`commit`] does, with the rules of a registry and the keys of its projections.
///
/// # Errors
/// As [`commit`].
#[doc(hidden)]
pub async fn commit_keyed(
    conn: &Connection,
    account: i64,
    registry: &Registry,
    batches: &[Batch],
) -> Result<Vec<Result<Commit>>> {
    let committer = Committer::of(account, registry);
    let reach = Reach::everything();
    let requests: Vec<Request<'_>> = batches.iter().map(|batch| Request { batch, reach: &reach }).collect();
    let mut results = Vec::with_capacity(batches.len());
    while let Some(left) = requests.get(results.len()..).filter(|left| !left.is_empty()) {
        match committer.transaction(conn, left, None).await {
            Ok(done) => results.extend(done),
            Err(Failure::RolledBack(error) | Failure::Unanswered(_, error)) => {
                return ended(results, batches.len(), error);
            }
        }
    }
    Ok(results)
}

impl Committer {
    /// Commits batches in their order. A batch that cannot be committed gets its own error and writes
    /// nothing; those after it are committed without it. Mostly all of them are one transaction. Batches
    /// whose planning would hold the lock for too long are committed in the next one.
    ///
    /// If a connection is lost, the database is asked over another one whether the transaction was committed.
    /// If it was not, it is tried again.
    ///
    /// # Errors
    /// Errors of the database: then nothing is committed. If a part was committed before, the others have the
    /// error. `Unavailable` if the database cannot be asked: then batches may be committed, and their ids
    /// tell.
    pub async fn commit(&self, pool: &Arc<Pool>, requests: &[Request<'_>]) -> Result<Vec<Result<Commit>>> {
        let ahead = self.write_ahead(requests).await;
        let done = self.commit_all(pool, requests, ahead.as_ref()).await;
        if let (Some(ahead), Some(holds)) = (ahead, &self.holds) {
            ahead.remove_later(holds);
        }
        done
    }

    /// Writes large chunks before the account is locked. If that fails, the transaction sends them.
    async fn write_ahead(&self, requests: &[Request<'_>]) -> Option<Ahead> {
        let holds = self.holds.as_ref()?;
        let chunks = large_chunks(requests.iter().map(|request| request.batch));
        let ahead = Ahead::write(holds, chunks).await;
        ahead
            .inspect_err(|error| tracing::debug!(%error, "chunks could not be written before a commit"))
            .ok()?
    }

    async fn commit_all(
        &self,
        pool: &Arc<Pool>,
        requests: &[Request<'_>],
        ahead: Option<&Ahead>,
    ) -> Result<Vec<Result<Commit>>> {
        let (mut results, mut conn, mut lost) =
            (Vec::with_capacity(requests.len()), pool.connection().await?, 0);
        while let Some(left) = requests.get(results.len()..).filter(|left| !left.is_empty()) {
            let (attempt, error) = match self.transaction(&conn, left, ahead).await {
                Ok(done) => {
                    results.extend(done);
                    continue;
                }
                Err(Failure::RolledBack(error)) => (None, error),
                Err(Failure::Unanswered(attempt, error)) => (Some(attempt), error),
            };
            lost += 1;
            if !error.is(ErrorKind::Unavailable) || (lost > MAX_LOST && attempt.is_none()) {
                let error = conn.settle::<()>(Err(error)).await.err().unwrap_or_else(unanswered);
                return ended(results, requests.len(), error);
            }
            // First, so that it does not count against the limit of the pool.
            drop(conn);
            conn = match pool.connection().await {
                Ok(fresh) => fresh,
                Err(none) if attempt.is_some() => {
                    return ended(results, requests.len(), unanswered().with_source(none));
                }
                Err(_) => return ended(results, requests.len(), error),
            };
            let Some(attempt) = attempt else { continue };
            match self.is_committed(&conn, &attempt).await {
                Ok(true) => results.extend(attempt.results),
                Ok(false) if lost > MAX_LOST => return ended(results, requests.len(), error),
                Ok(false) => {}
                Err(error) => return ended(results, requests.len(), unanswered().with_source(error)),
            }
        }
        conn.release();
        Ok(results)
    }

    /// Commits the first batches in a transaction, at least one.
    async fn transaction(
        &self,
        conn: &Connection,
        requests: &[Request<'_>],
        ahead: Option<&Ahead>,
    ) -> Result<Vec<Result<Commit>>, Failure> {
        let mut rows = PgRows::new(conn, self).with_ahead(ahead);
        let results = match write(&mut rows, bounds::first_of(requests)).await {
            Ok(results) => results,
            Err(error) => return Err(rolled_back(conn, error).await),
        };
        let written = rows.written();
        match (rows.commit().await, written) {
            (Ok(()), _) => Ok(results),
            (Err(error), Some((last, token))) if error.is(ErrorKind::Unavailable) => {
                Err(Failure::Unanswered(Box::new(Attempt { last, token, results }), error))
            }
            (Err(error), _) => Err(rolled_back(conn, error).await),
        }
    }

    /// Returns true if a transaction whose answer is lost was committed.
    async fn is_committed(&self, conn: &Connection, attempt: &Attempt) -> Result<bool> {
        let mut pipe = Pipe::new(conn);
        pipe.simple(begin_writes(self.account));
        let account = || param(self.account, Type::INT8);
        // It may still be under way. The lock waits for its end, and a statement behind it sees the result.
        pipe.query("SELECT FROM garth.head WHERE account = $1 FOR UPDATE", vec![account()]);
        let last = i64::try_from(attempt.last).unwrap_or(i64::MAX);
        let found = pipe.query(
            "SELECT FROM garth.log WHERE account = $1 AND seq = $2 AND token = $3",
            vec![account(), param(last, Type::INT8), param(attempt.token.clone(), Type::BYTEA)],
        );
        pipe.simple("COMMIT");
        let answers = pipe.run().await?;
        Ok(answers.get(found).is_some_and(|rows| !rows.is_empty()))
    }
}

/// Returns the results so far, with an error for the other batches; the error if there is no result.
fn ended(mut results: Vec<Result<Commit>>, count: usize, error: Error) -> Result<Vec<Result<Commit>>> {
    if results.is_empty() {
        return Err(error);
    }
    results.resize_with(count, || Err(error.clone()));
    Ok(results)
}

/// Returns the error of commits of which nobody knows whether they were made.
fn unanswered() -> Error {
    let message = "the connection to the database was lost during a commit, which may have been made; ask for it \
                   by its id, or try again with the same id";
    Error::new(ErrorKind::Unavailable, message)
}

/// Rolls a transaction back that failed.
async fn rolled_back(conn: &Connection, error: Error) -> Failure {
    let mut pipe = Pipe::new(conn);
    pipe.simple("ROLLBACK");
    // The error that led here is returned, not one of the rollback.
    drop(pipe.run().await);
    Failure::RolledBack(error)
}

/// Plans the first batches, at least one, and writes their rows, except that the last ones are sent with the
/// commit.
async fn write<'c>(rows: &mut PgRows<'c>, requests: &'c [Request<'c>]) -> Result<Vec<Result<Commit>>> {
    let mut results = Vec::with_capacity(requests.len());
    while let Some(left) = requests.get(results.len()..).filter(|left| !left.is_empty()) {
        let is_first = results.is_empty();
        if !is_first && rows.trips() >= LAST_START {
            break;
        }
        let Some((first, _)) = left.split_first() else { break };
        if !first.reach.gates.is_empty() {
            rows.announce(std::slice::from_ref(first));
            results.push(write_gated(rows, first).await?);
            rows.forget();
            continue;
        }
        // Which entries gates hide depends on the batches before.
        let open = left.iter().take_while(|request| request.reach.gates.is_empty()).count();
        let left = left.get(..open).unwrap_or(left);
        rows.announce(left);
        let batches: Vec<&Batch> = left.iter().map(|request| request.batch).collect();
        let planned = plan_group(rows, &batches, MAX_ROUNDS - rows.trips()).await?;
        // Too many rounds for the rest of this transaction are not too many for one of its own.
        let is_cut_short = rows.trips() >= MAX_ROUNDS
            && planned.iter().all(|planned| matches!(planned, Err(error) if error.is(ErrorKind::TooLarge)));
        if is_cut_short && !is_first {
            break;
        }
        results.extend(write_run(rows, &batches, (planned, &[])).await?);
        rows.forget();
    }
    Ok(results)
}

/// Plans a batch of a handle with gates, and writes its rows. The entries that it addresses are judged first.
async fn write_gated(rows: &mut PgRows<'_>, request: &Request<'_>) -> Result<Result<Commit>> {
    let (batch, shown) = match rows.narrowed(request, MAX_ROUNDS).await? {
        Ok(narrowed) => narrowed,
        Err(error) => return Ok(Err(error)),
    };
    // At least one, which fails the batch if no trip is left.
    let rounds = MAX_ROUNDS.saturating_sub(rows.trips()).max(1);
    let planned = plan_group(rows, &[&batch], rounds).await?;
    let result = write_run(rows, &[&batch], (planned, &shown)).await?.pop();
    let missing = || Err(Error::new(ErrorKind::Io, "the batch was not planned"));
    Ok(result.unwrap_or_else(missing))
}

/// Writes the rows of batches that were planned together. Returns the results of those up to the first one
/// that cannot be written: those behind it were planned with its changes. `shown` are versions that replace
/// those of gated directories.
async fn write_run(
    rows: &mut PgRows<'_>,
    batches: &[&Batch],
    (mut planned, shown): (Vec<Result<Planned>>, &[VersionId]),
) -> Result<Vec<Result<Commit>>> {
    let mut results = Vec::with_capacity(planned.len());
    let begin = rows.head().unwrap_or_default();
    // The row changes, and those of the batches before one that moves subtrees.
    let (mut writes, mut earlier) = (Writes::default(), None);
    let mut heads = vec![begin];
    for (batch, planned) in batches.iter().zip(&mut planned) {
        let (delta, head, commit) = match planned {
            Ok(Planned::Apply { delta, head, commit }) => (delta, *head, commit),
            Ok(Planned::Replay(commit)) => {
                results.push(Ok(commit.clone()));
                continue;
            }
            Err(error) => {
                results.push(Err(error.clone()));
                continue;
            }
        };
        // True once the transaction is committed. Otherwise no result is returned.
        commit.durable = true;
        mask(shown, commit);
        let moves = delta.moves_subtrees();
        let can_move = !moves || rows.can_move(delta).await?;
        let texts = BatchTexts::new(delta, &head, (batch, commit), can_move);
        match rows.check_room((delta, batch), &mut writes).await?.and(texts) {
            Ok(texts) => {
                if moves {
                    earlier = Some(std::mem::take(&mut writes));
                }
                writes.add(delta, head.seq, batch, texts);
                heads.push(head);
                results.push(Ok(commit.clone()));
            }
            Err(error) => {
                results.push(Err(error));
                break;
            }
        }
    }
    planned.truncate(results.len());
    if results.last().is_some_and(Result::is_err) {
        // It was planned, and is not written.
        planned.pop();
    }
    write_planned(rows, &planned, (writes, earlier), &heads).await?;
    Ok(results)
}

/// Writes the rows of batches that were planned together, with the derived rows that follow from them.
/// `earlier` are those of the batches before the last one, if that moves subtrees, and `heads` the head rows
/// before the first batch and after each one that changes something.
async fn write_planned(
    rows: &mut PgRows<'_>,
    planned: &[Result<Planned>],
    (mut writes, earlier): (Writes, Option<Writes>),
    heads: &[HeadRow],
) -> Result<()> {
    let [begin, .., head] = *heads else { return Ok(()) };
    // First: the rows that it fetches are those before the group.
    let derived = derive(rows, begin, planned).await?;
    let moving = planned.iter().rev().find_map(|planned| match planned {
        Ok(Planned::Apply { delta, .. }) => Some(&**delta).filter(|_| earlier.is_some()),
        _ => None,
    });
    let before = heads.iter().rev().nth(1).copied().unwrap_or(begin);
    if let (Some(delta), Some(earlier)) = (moving, earlier) {
        // Its ranges apply to the rows that the batches before it have left.
        if before.seq > begin.seq {
            rows.write(earlier, before);
        }
        rows.write_subtrees(delta, &head);
    }
    writes.derive(derived);
    rows.write(writes, head);
    if let Some(delta) = moving {
        rows.forget();
        derive_moved(rows, before, (delta, head)).await?;
    }
    Ok(())
}
