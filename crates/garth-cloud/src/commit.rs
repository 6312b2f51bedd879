//! Commits a group of batches in one transaction: in the round trips of one batch.

use std::sync::Arc;

use garth_engine::Result;
use garth_engine::engine::planner::{MAX_ROUNDS, Planned, plan_group};
use garth_engine::model::{Batch, Commit};
use garth_engine::rule::Rules;

use crate::client::{Connection, Pipe};
use crate::rows::{PgRows, Writes};

/// Commits batches of an account, in their order. A batch that cannot be committed gets its own error and
/// writes nothing; those after it are committed without it. Text is indexed later: the files are marked.
///
/// A connection whose commit was dropped before its end has an open transaction, and must be closed.
///
/// # Errors
/// Errors of the database: then nothing of the group is committed. `Unavailable` if the connection is lost,
/// also while the transaction is being committed: then the group may be committed.
pub async fn commit(conn: &Connection, account: i64, batches: &[Batch]) -> Result<Vec<Result<Commit>>> {
    commit_indexed(conn, account, batches, &|_| {}).await
}

/// Commits batches as [`commit`] does. Calls `index` with the row changes before they are written, to which
/// it may add passages: for measurements, until passages are derived in the commit.
///
/// # Errors
/// As [`commit`].
#[doc(hidden)]
pub async fn commit_indexed(
    conn: &Connection,
    account: i64,
    batches: &[Batch],
    index: &(dyn Fn(&mut Writes) + Sync),
) -> Result<Vec<Result<Commit>>> {
    let mut rows = PgRows::new(conn, account, Arc::new(Rules::none()));
    let committed = match write(&mut rows, batches, index).await {
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
async fn write(
    rows: &mut PgRows<'_>,
    batches: &[Batch],
    index: &(dyn Fn(&mut Writes) + Sync),
) -> Result<Vec<Result<Commit>>> {
    let batches: Vec<&Batch> = batches.iter().collect();
    let mut results = Vec::with_capacity(batches.len());
    while let Some(left) = batches.get(results.len()..).filter(|left| !left.is_empty()) {
        rows.announce(left);
        let planned = plan_group(rows, left, MAX_ROUNDS).await?;
        let (mut writes, mut last) = (Writes::default(), None);
        for (batch, planned) in left.iter().zip(planned) {
            let (result, is_refused) = match planned {
                Ok(Planned::Apply { delta, head, mut commit }) => match writes.add(&delta, &head, batch) {
                    Ok(()) => {
                        last = Some(head);
                        // True once the transaction is committed. Otherwise no result is returned.
                        commit.durable = true;
                        (Ok(commit), false)
                    }
                    // The batches behind it were planned with its changes: they are planned again.
                    Err(error) => (Err(error), true),
                },
                Ok(Planned::Replay(commit)) => (Ok(commit), false),
                Err(error) => (Err(error), false),
            };
            results.push(result);
            if is_refused {
                break;
            }
        }
        if let Some(head) = last {
            index(&mut writes);
            rows.write(writes, head);
        }
        rows.forget();
    }
    Ok(results)
}
