//! Large chunks of a commit, which are written before it locks the account: other commits do not wait for
//! their bytes.
//!
//! They arrive as those of an upload do. The commit gives them the numbers of its own chunks, in place of the
//! bytes. Chunks that it turns out not to need, for example because the batch is refused, are removed later.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use garth_engine::Result;
use garth_engine::engine::planner::{SHORT_SUM, chunks, sum_of};
use garth_engine::model::{Batch, Body, Op};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::arriving::{Arriving, LEASE_NANOS, remove};
use crate::client::{Param, param};
use crate::holds::Holds;
use crate::values::columns::column;
use crate::values::parameters::{Blob, list, signed};

/// Fewest bytes of large chunks for which a commit takes the round trip: they take longer than one to be sent
/// and written.
const FROM: usize = 256 << 10;

/// Chunks that are not stored yet. The row is locked until the end of the transaction, so that its removal
/// finds these chunks.
const WRITE: &str = "WITH alive AS (UPDATE garth.staged SET lease = garth.now() + $3
        WHERE account = $1 AND id = $2::text::uuid AND pieces IS NULL AND lease > garth.now() RETURNING first)
    INSERT INTO garth.chunk (account, id, sum, len, data)
    SELECT $1, a.first + k.place, substr(k.sum, 1, $4), octet_length(k.data), k.data
    FROM alive a CROSS JOIN unnest($5::bigint[], $6::bytea[], $7::bytea[]) k(place, sum, data)
    WHERE NOT EXISTS (SELECT FROM garth.chunk c
        WHERE c.account = $1 AND c.sum = k.sum AND octet_length(c.sum) = 32)
    RETURNING id";
/// Numbers of the chunks that are left.
const LEFT: &str = "SELECT c.id FROM (SELECT first FROM garth.staged
        WHERE account = $1 AND id = $2::text::uuid AND pieces IS NULL AND lease > garth.now() OFFSET 0) s
    CROSS JOIN LATERAL (SELECT id FROM garth.chunk
        WHERE account = $1 AND id >= s.first AND id < s.first + 16777216 OFFSET 0) c";

/// Hash and bytes of a chunk.
type LargeChunk = (Vec<u8>, Bytes);

/// Chunks of a commit that were written before it.
#[derive(Clone, Debug)]
pub(crate) struct Ahead {
    arriving: Arriving,
    /// Numbers by hash.
    numbers: HashMap<Vec<u8>, i64>,
}

impl Ahead {
    /// Writes [`large_chunks`], in one round trip. Returns `None` if they have few bytes.
    ///
    /// # Errors
    /// Errors of the database.
    pub(crate) async fn write(holds: &Holds, chunks: Vec<LargeChunk>) -> Result<Option<Self>> {
        if chunks.iter().map(|(_, data)| data.len()).sum::<usize>() < FROM {
            return Ok(None);
        }
        let arriving = Arriving::new(holds.env(), u128::from_be_bytes(holds.env().random()?))?;
        let places: Vec<i64> = (0..).take(chunks.len()).collect();
        let conn = holds.pool().connection().await?;
        let mut statements = holds.statements(&conn);
        arriving.begin(&mut statements, holds, None);
        statements.begin_unsynced();
        let params = vec![
            arriving.id(),
            param(LEASE_NANOS, Type::INT8),
            param(i32::try_from(SHORT_SUM).unwrap_or(i32::MAX), Type::INT4),
            signed(places.iter().copied()),
            list(chunks.iter().map(|(sum, _)| sum.clone()), Type::BYTEA_ARRAY),
            list(chunks.iter().map(|(_, data)| Blob(data.clone())), Type::BYTEA_ARRAY),
        ];
        let written = statements.query(WRITE, params);
        statements.commit();
        let answers = statements.run().await;
        let written = numbers(conn.settle(answers).await?.rows(written))?;
        let numbers = chunks.into_iter().zip(places).filter_map(|((sum, _), place)| {
            let number = arriving.number(place);
            written.contains(&number).then_some((sum, number))
        });
        let numbers = numbers.collect();
        Ok(Some(Self { arriving, numbers }))
    }

    /// Returns the statement that reads which chunks are left, with its parameters, behind the lock.
    pub(crate) fn left(&self) -> (&'static str, Vec<Param>) {
        (LEFT, vec![self.arriving.id()])
    }

    /// Returns the numbers of the chunks in the rows of [`left`](Self::left), by hash.
    ///
    /// # Errors
    /// `Corrupt` for a column of another type.
    pub(crate) fn of_left(&self, rows: &[Row]) -> Result<HashMap<Vec<u8>, i64>> {
        let left = numbers(rows)?;
        let own = self.numbers.iter().filter(|(_, number)| left.contains(number));
        Ok(own.map(|(sum, number)| (sum.clone(), *number)).collect())
    }

    /// Removes the chunks that no commit has used, later.
    pub(crate) fn remove_later(self, holds: &Arc<Holds>) {
        let (holds, id) = (Arc::clone(holds), self.arriving.id);
        let pool = Arc::clone(holds.pool());
        pool.run_later(async move {
            if let Err(error) = remove(&holds, id).await {
                tracing::debug!(%error, "chunks could not be removed; a collection removes them later");
            }
        });
    }
}

/// Returns the chunks of batches that are found by their hash, each once.
pub(crate) fn large_chunks<'b>(batches: impl Iterator<Item = &'b Batch>) -> Vec<LargeChunk> {
    let (mut found, mut known) = (Vec::new(), BTreeSet::new());
    for op in batches.flat_map(|batch| &batch.ops) {
        let Some(Body::Bytes(bytes)) = op.body() else { continue };
        let cuts = if let Op::Append { cuts, .. } = op { &cuts[..] } else { &[] };
        for (data, _) in chunks(bytes, cuts).filter(|(_, dedup)| *dedup) {
            let sum = sum_of(&data, true);
            if known.insert(sum.clone()) {
                found.push((sum, data));
            }
        }
    }
    found
}

fn numbers(rows: &[Row]) -> Result<BTreeSet<i64>> {
    rows.iter().map(|row| column(row, 0)).collect()
}
