//! Commits a group of batches in one transaction: in the round trips of one batch.

use std::sync::Arc;

use garth_engine::Result;
use garth_engine::engine::planner::{MAX_ROUNDS, Planned, plan_group};
use garth_engine::model::{Batch, Commit};
use garth_engine::rule::{Registry, Rules};

use crate::client::{Connection, Pipe};
use crate::rows::derived::{derive, derive_moved};
use crate::rows::{PgRows, Writes};

/// Commits batches of an account, in their order. A batch that cannot be committed gets its own error and
/// writes nothing; those after it are committed without it. Keys are those of attributes only.
///
/// A connection whose commit was dropped before its end has an open transaction, and must be closed.
///
/// # Errors
/// Errors of the database: then nothing of the group is committed. `Unavailable` if the connection is lost,
/// also while the transaction is being committed: then the group may be committed.
pub async fn commit(conn: &Connection, account: i64, batches: &[Batch]) -> Result<Vec<Result<Commit>>> {
    commit_keyed(conn, account, &Registry::empty(), batches).await
}

/// Commits batches as [`commit`] does, with the keys of the projections of a registry.
///
/// # Errors
/// As [`commit`].
pub async fn commit_keyed(
    conn: &Connection,
    account: i64,
    registry: &Registry,
    batches: &[Batch],
) -> Result<Vec<Result<Commit>>> {
    let mut rows = PgRows::new(conn, account, Arc::new(Rules::none())).with_registry(registry);
    let committed = match write(&mut rows, batches).await {
        Ok(results) => rows.commit().await.map(|()| results),
        Err(error) => Err(error),
    };
    if committed.is_err() {
        // The error that led here is returned, not one of the rollback.
        let mut pipe = Pipe::new(conn);
        pipe.simple("ROLLBACK");
        drop(pipe.run().await);
    }
    committed
}

/// Plans all batches and writes their rows, except that the last ones are sent with the commit.
async fn write(rows: &mut PgRows<'_>, batches: &[Batch]) -> Result<Vec<Result<Commit>>> {
    let batches: Vec<&Batch> = batches.iter().collect();
    let mut results = Vec::with_capacity(batches.len());
    while let Some(left) = batches.get(results.len()..).filter(|left| !left.is_empty()) {
        rows.announce(left);
        let mut planned = plan_group(rows, left, MAX_ROUNDS).await?;
        let begin = rows.head().unwrap_or_default();
        let mut writes = Writes::default();
        // The head row before and after the last batch that is written.
        let (mut before, mut last) = (begin, None);
        for (place, (batch, planned)) in left.iter().zip(&mut planned).enumerate() {
            let (result, is_refused) = match planned {
                Ok(Planned::Apply { delta, head, commit }) => match writes.add(delta, head, batch) {
                    Ok(()) => {
                        before = last.map_or(begin, |(_, head)| head);
                        last = Some((place, *head));
                        // True once the transaction is committed. Otherwise no result is returned.
                        commit.durable = true;
                        (Ok(commit.clone()), false)
                    }
                    // The batches behind it were planned with its changes: they are planned again.
                    Err(error) => (Err(error), true),
                },
                Ok(Planned::Replay(commit)) => (Ok(commit.clone()), false),
                Err(error) => (Err(error.clone()), false),
            };
            results.push(result);
            if is_refused {
                break;
            }
        }
        if let Some((place, head)) = last {
            planned.truncate(place + 1);
            writes.derive(derive(rows, begin, &planned).await?);
            rows.write(writes, head);
            rows.forget();
            if let Some(Ok(Planned::Apply { delta, head, .. })) = planned.last()
                && delta.moves_subtrees()
            {
                derive_moved(rows, before, (delta, *head)).await?;
            }
        }
        rows.forget();
    }
    Ok(results)
}
