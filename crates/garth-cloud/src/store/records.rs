//! Commits that are found again, by their id or an idempotency key.

use garth_engine::engine::relational::answer_column;
use garth_engine::model::{Commit, CommitId, KeyRecord, Seq, Timestamp};
use garth_engine::{Error, Result};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::PgStore;
use crate::client::{Param, Pipe, begin_writes, param};
use crate::values::columns::column;
use crate::values::labels;

/// Number of the owner whose hash is `$2`: 0 for the account itself, which has none.
macro_rules! owner {
    () => {
        "(SELECT 0::bigint AS id WHERE octet_length($2::bytea) = 0
            UNION ALL SELECT id FROM garth.owner WHERE account = $1 AND hash = $2) o"
    };
}

/// Commit with an id, unless it is before the oldest readable state: how long its row stays then is open.
const COMMITTED: &str = concat!(
    "SELECT l.seq, l.time, l.answer FROM ",
    owner!(),
    " CROSS JOIN LATERAL (SELECT seq, time, answer FROM garth.log
        WHERE account = $1 AND owner = o.id AND id = $3::text::uuid
            AND seq >= (SELECT oldest FROM garth.head WHERE account = $1) OFFSET 0) l"
);
/// Record of an idempotency key, unless it has expired at the time `$4`, or now.
const RECORDED: &str = concat!(
    "SELECT l.seq, l.time, l.answer, i.hash, i.note FROM ",
    owner!(),
    " CROSS JOIN LATERAL (SELECT hash, note, seq FROM garth.idempotency
        WHERE account = $1 AND owner = o.id AND key = $3 AND keep_until > coalesce($4, garth.now()) OFFSET 0) i
    LEFT JOIN LATERAL (SELECT seq, time, answer FROM garth.log WHERE account = $1 AND seq = i.seq OFFSET 0) l ON true"
);

/// Reads a commit as its caller got it: columns `seq, time, answer`.
fn answered(row: &Row) -> Result<Commit> {
    let lost = || Error::damaged("the commit of an idempotency key is missing");
    let seq = column::<Option<i64>>(row, 0)?.ok_or_else(lost)?.cast_unsigned();
    let unsized_outcome = |_, _| Err(Error::damaged("the answer of a commit lacks the size of a file"));
    let answer: Option<&str> = column(row, 2)?;
    let outcomes =
        answer.map_or(Ok(Vec::new()), |json| answer_column::from_json(json, seq, unsized_outcome))?;
    Ok(Commit::of_log(Seq(seq), Timestamp(column(row, 1)?), outcomes))
}

impl PgStore {
    /// Returns the commit of an id, after the commits that are being made.
    pub(super) async fn find_commit(&self, id: CommitId) -> Result<Option<Commit>> {
        let owner = param(labels::owner(self.reach.owner_key()), Type::BYTEA);
        let params = vec![owner, param(labels::uuid(id.0), Type::TEXT)];
        let row = self.record(COMMITTED, params, self.as_of.is_none()).await?;
        row.map(|row| answered(&row)).transpose()
    }

    /// Returns the record of an idempotency key that counts now, or at the time of the past that is shown.
    pub(super) async fn find_record(&self, key: &str) -> Result<Option<KeyRecord>> {
        let labels = [labels::owner(self.reach.owner_key()), labels::idempotency(key)];
        let mut params: Vec<Param> = labels.map(|label| param(label, Type::BYTEA)).into();
        params.push(param(self.as_of.as_deref().map(|past| past.time), Type::INT8));
        let Some(row) = self.record(RECORDED, params, false).await? else { return Ok(None) };
        let damaged = || Error::damaged("the record of an idempotency key is damaged");
        let mut commit = answered(&row)?;
        commit.note = String::from_utf8(column(&row, 4)?).map_err(|e| damaged().with_source(e))?;
        let hash: Vec<u8> = column(&row, 3)?;
        let hash = hash.try_into().map_err(|_| damaged())?;
        Ok(Some(KeyRecord::new(hash, commit)))
    }

    /// Returns the first row of a statement whose first parameter is the account. With `waits`, commits of
    /// the account that hold its lock end before.
    async fn record(&self, sql: &'static str, params: Vec<Param>, waits: bool) -> Result<Option<Row>> {
        let account = self.inner.account;
        let conn = self.inner.pool.connection().await?;
        let mut pipe = Pipe::new(&conn);
        pipe.simple(begin_writes(account));
        if waits {
            // A statement of its own, so that the next one sees what was committed meanwhile.
            pipe.query(
                "SELECT FROM garth.head WHERE account = $1 FOR KEY SHARE",
                vec![param(account, Type::INT8)],
            );
        }
        let params = [param(account, Type::INT8)].into_iter().chain(params).collect();
        let place = pipe.query(sql, params);
        pipe.simple("COMMIT");
        let answers = pipe.run().await;
        let mut answers = conn.settle(answers).await?;
        Ok(answers.get_mut(place).filter(|rows| !rows.is_empty()).map(|rows| rows.swap_remove(0)))
    }
}
