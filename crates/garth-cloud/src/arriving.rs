//! Rows of content that arrives before its commit: a row of `garth.staged`, and chunks with numbers beyond
//! all others. They are those of an [upload](crate::uploads), or of a commit that is [about to
//! begin](crate::ahead).

use bytes::Bytes;
use garth_engine::engine::planner::{SHORT_SUM, sum_of};
use garth_engine::engine::relational::uploads::{LEASE, collected};
use garth_engine::{Env, Result};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::client::{Param, param};
use crate::holds::Holds;
use crate::transaction::{Statements, deleted};
use crate::values::columns::{column, number};
use crate::values::labels;
use crate::values::parameters::{Blob, list, signed};
use crate::weights::stored_bytes;

/// Nanoseconds of the lease of an upload.
pub(crate) const LEASE_NANOS: i64 = LEASE * 1_000_000_000;
/// Smallest number of a chunk that arrives.
const FIRST: i64 = 1 << 62;
/// Bits of the number of a chunk within its upload: a file has at most 2^23 chunks.
const PLACE_BITS: u32 = 24;
/// Random bits of the numbers of an upload's chunks.
const RANDOM_BITS: u32 = 62 - PLACE_BITS;
/// Chunks that one transaction removes: some 64 MiB.
const REMOVED: i64 = 64;

/// Number of an owner, who gets one if there is none. The account is locked.
const OWNER: &str = "INSERT INTO garth.owner (account, id, hash, key)
    SELECT h.account, (SELECT coalesce(max(id), 0) FROM garth.owner WHERE account = $1) + 1, $2, $3
    FROM garth.head h WHERE h.account = $1 AND NOT EXISTS (
        SELECT FROM garth.owner o WHERE o.account = $1 AND o.hash = $2)";
/// Row of an upload. Without an account, there is none.
const BEGIN: &str = "INSERT INTO garth.staged (account, id, owner, pieces, length, lease, first, holder)
    SELECT h.account, $2::text::uuid, coalesce($7, (SELECT id FROM garth.owner WHERE account = $1 AND hash = $3), 0),
        NULL, 0, garth.now() + $4, $5, $6
    FROM garth.head h WHERE h.account = $1";
/// Chunks of an upload, whose lease begins again. The row is locked until the end of the transaction, so that
/// its removal finds these chunks.
const WRITE: &str = "WITH alive AS (UPDATE garth.staged SET lease = garth.now() + $3, length = $4
        WHERE account = $1 AND id = $2::text::uuid AND pieces IS NULL AND lease > garth.now() RETURNING first)
    INSERT INTO garth.chunk (account, id, sum, len, data)
    SELECT $1, a.first + k.place, k.sum, octet_length(k.data), k.data
    FROM alive a CROSS JOIN unnest($5::bigint[], $6::bytea[], $7::bytea[]) k(place, sum, data)
    RETURNING id";
/// Limit on the stored bytes of the account with those that are stored, and those of uploads that arrive at
/// other servers than `$2`.
const ROOM: &str = concat!(
    "SELECT t.stored, (SELECT ",
    stored_bytes!(),
    " FROM garth.head WHERE account = $1 OFFSET 0), CASE WHEN t.stored IS NULL THEN 0 ELSE
        (SELECT coalesce(sum(s.length), 0)::bigint FROM garth.staged s
            WHERE s.account = $1 AND s.first IS NOT NULL AND s.lease > garth.now() AND s.holder <> $2) END
    FROM garth.head h LEFT JOIN garth.retention t ON t.account = h.account WHERE h.account = $1"
);

/// No more chunks from now on.
const CLOSE: &str =
    "UPDATE garth.staged SET lease = 0 WHERE account = $1 AND id = $2::text::uuid AND pieces IS NULL";
/// Removes some of the chunks.
const REMOVE: &str = "DELETE FROM garth.chunk WHERE account = $1 AND id = ANY(ARRAY(
    SELECT c.id FROM (SELECT first FROM garth.staged
            WHERE account = $1 AND id = $2::text::uuid AND pieces IS NULL OFFSET 0) s
    CROSS JOIN LATERAL (SELECT id FROM garth.chunk
        WHERE account = $1 AND id >= s.first AND id < s.first + 16777216 ORDER BY id LIMIT $3) c))";
/// Removes the row once no chunk is left. Returns a row while there are some.
const FORGET: &str = "WITH gone AS (DELETE FROM garth.staged s
        WHERE s.account = $1 AND s.id = $2::text::uuid AND s.pieces IS NULL AND NOT EXISTS (SELECT FROM garth.chunk
            WHERE account = $1 AND id >= s.first AND id < s.first + 16777216) RETURNING s.id)
    SELECT FROM garth.staged s WHERE s.account = $1 AND s.id = $2::text::uuid AND s.pieces IS NULL
        AND NOT EXISTS (SELECT FROM gone)";
/// Gives chunks that have arrived their numbers and complete hashes. The last condition bounds the rows that
/// are read, whatever order of the join the database chooses.
pub(crate) const NUMBER_CHUNKS: &str = "UPDATE garth.chunk c SET id = k.id, sum = k.sum
    FROM unnest($2::bigint[], $3::bigint[], $4::bytea[]) k(arrived, id, sum)
    WHERE c.account = $1 AND c.id = k.arrived AND c.id = ANY($2)";
/// Upload whose row is to be written, or was.
#[derive(Clone, Debug)]
pub(crate) struct Arriving {
    pub(crate) id: u128,
    /// Number of its first chunk.
    pub(crate) first: i64,
}

/// Chunk that arrives: its place in the upload, its hash, and its bytes.
#[derive(Clone, Debug)]
pub(crate) struct NewChunk {
    pub(crate) place: i64,
    pub(crate) sum: Vec<u8>,
    pub(crate) data: Bytes,
}

impl NewChunk {
    /// Returns a chunk of an upload. Its hash is complete if `dedup` is set.
    pub(crate) fn new(place: u64, data: Bytes, dedup: bool) -> Self {
        Self { place: i64::try_from(place).unwrap_or(i64::MAX), sum: sum_of(&data, dedup), data }
    }
}

impl Arriving {
    /// Returns an upload with random numbers.
    pub(crate) fn new(env: &Env, id: u128) -> Result<Self> {
        let random = u64::from_be_bytes(env.random()?) >> (64 - RANDOM_BITS);
        let base = i64::try_from(random << PLACE_BITS).unwrap_or_default();
        Ok(Self { id, first: FIRST | base })
    }

    /// Returns the number of a chunk that arrives.
    pub(crate) fn number(&self, place: i64) -> i64 {
        self.first.saturating_add(place)
    }

    /// Returns the id as a parameter.
    pub(crate) fn id(&self) -> Param {
        param(labels::uuid(self.id), Type::TEXT)
    }

    /// Adds a transaction that writes the row. It locks the account for its time on the server alone. `owner`
    /// is `None` for chunks of a commit.
    pub(crate) fn begin(&self, statements: &mut Statements<'_>, holds: &Holds, owner: Option<&str>) {
        // The end of the upload is synced.
        statements.begin_unsynced();
        statements.lock();
        let hash = labels::owner(owner.unwrap_or_default());
        let hash = || param(hash.clone(), Type::BYTEA);
        if let Some(owner) = owner.filter(|owner| !owner.is_empty()) {
            statements.query(OWNER, vec![hash(), param(owner.as_bytes().to_vec(), Type::BYTEA)]);
        }
        let number = owner.is_none().then_some(-1_i64);
        statements.query(
            BEGIN,
            vec![
                self.id(),
                hash(),
                param(LEASE_NANOS, Type::INT8),
                param(self.first, Type::INT8),
                holds.holder(),
                param(number, Type::INT8),
            ],
        );
        statements.commit();
    }

    /// Adds a transaction that writes chunks. `length` are the bytes that the upload may have. Returns the
    /// place of its answer, to be passed to [`written`](Self::written).
    pub(crate) fn write(&self, statements: &mut Statements<'_>, chunks: &[NewChunk], length: u64) -> usize {
        statements.begin_unsynced();
        let short = |chunk: &NewChunk| chunk.sum.iter().copied().take(SHORT_SUM).collect::<Vec<u8>>();
        let written = statements.query(
            WRITE,
            vec![
                self.id(),
                param(LEASE_NANOS, Type::INT8),
                param(i64::try_from(length).unwrap_or(i64::MAX), Type::INT8),
                signed(chunks.iter().map(|chunk| chunk.place)),
                list(chunks.iter().map(short), Type::BYTEA_ARRAY),
                list(chunks.iter().map(|chunk| Blob(chunk.data.clone())), Type::BYTEA_ARRAY),
            ],
        );
        statements.commit();
        written
    }

    /// Fails if `chunks` were not written.
    pub(crate) fn written(rows: &[Row], chunks: &[NewChunk]) -> Result<()> {
        if rows.len() == chunks.len() { Ok(()) } else { Err(collected()) }
    }

    /// Adds a statement that reads the room of the account. Returns its place in the answers.
    pub(crate) fn room(statements: &mut Statements<'_>, holds: &Holds) -> usize {
        statements.query(ROOM, vec![holds.holder()])
    }

    /// Reads the room of the account for uploads of this process; `None` without a limit.
    pub(crate) fn room_of(row: Option<&Row>) -> Result<Option<u64>> {
        let row = row.ok_or_else(deleted)?;
        let Some(limit) = column::<Option<i64>>(row, 0)? else { return Ok(None) };
        let used = number(row, 1)?.saturating_add(number(row, 2)?);
        Ok(Some(limit.cast_unsigned().saturating_sub(used)))
    }
}

/// Removes an upload that was not finished, with its chunks, some in each transaction.
///
/// # Errors
/// Errors of the database: the rest is removed once its lease has ended, which it has then.
pub(crate) async fn remove(holds: &Holds, id: u128) -> Result<()> {
    while remove_some(holds, id).await? {}
    Ok(())
}

/// Removes some chunks of an upload that was not finished. Returns true if there are more.
async fn remove_some(holds: &Holds, id: u128) -> Result<bool> {
    let conn = holds.pool().connection().await?;
    let id = || param(labels::uuid(id), Type::TEXT);
    let mut statements = holds.statements(&conn);
    statements.begin();
    // A commit that uses such chunks has locked the account.
    statements.lock();
    statements.query(CLOSE, vec![id()]);
    statements.query(REMOVE, vec![id(), param(REMOVED, Type::INT8)]);
    let left = statements.query(FORGET, vec![id()]);
    statements.commit();
    let answers = statements.run().await;
    let answers = conn.settle(answers).await?;
    Ok(!answers.rows(left).is_empty())
}
