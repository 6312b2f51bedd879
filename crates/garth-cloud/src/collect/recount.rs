//! Counts the stored bytes of an account again, by the weights of its rows, and derives the keys and passages
//! again.

use garth_engine::engine::planner::HeadRow;
use garth_engine::{Error, Result};
use tokio_postgres::types::Type;

use super::index;
use super::step;
use crate::client::{Connection, Param, Pipe, begin_reads, param};
use crate::indexing::{Progress, reindex_step};
use crate::store::PgStore;
use crate::values::columns::{column, head, int, number};
use crate::weights::{
    attribute_weight, idempotency_weight, log_more_weight, log_weight, name_weight, node_weight,
};

/// Inodes, chunks or commits of a page.
const PAGE: u64 = 1 << 14;

/// Sum of the weights of a table, of the rows whose number is after `$2` up to `$3`.
macro_rules! sum {
    ($table:literal, $number:literal, $($weight:tt)+) => {
        concat!(
            "(SELECT coalesce(sum(",
            $($weight)+,
            "), 0) FROM garth.",
            $table,
            " t WHERE account = $1 AND ",
            $number,
            " > $2 AND ",
            $number,
            " <= $3)"
        )
    };
}
const HEAD: &str = "SELECT seq, time, next_ino, next_chunk, control, projections, oldest, folded, stored
    FROM garth.head WHERE account = $1";
const OF_NODES: &str = concat!(
    "SELECT (",
    sum!("name", "ino", name_weight!("t")),
    " + ",
    sum!("name_past", "ino", name_weight!("t")),
    " + ",
    sum!("node", "ino", node_weight!("t")),
    " + ",
    sum!("attribute", "ino", attribute_weight!("t")),
    " + ",
    sum!("extent", "ino", "160"),
    " + ",
    sum!("extent_past", "ino", "160"),
    ")::bigint"
);
const OF_CHUNKS: &str = concat!("SELECT ", sum!("chunk", "id", "t.len"), "::bigint");
const OF_COMMITS: &str = concat!(
    "SELECT (",
    sum!("log", "seq", log_weight!("t")),
    " + ",
    sum!("log_more", "seq", log_more_weight!("t")),
    " + ",
    sum!("idempotency", "seq", idempotency_weight!("t")),
    ")::bigint"
);
/// The next removal of the past looks at all nodes: it does not rely on table `replaced`. If small extents
/// were searched beyond the head, they are searched again from the beginning.
const SEARCH_ALL: &str =
    "UPDATE garth.head SET queued = seq, merged = CASE WHEN merged > seq THEN 0 ELSE merged END
    WHERE account = $1";
const SEARCH_LOST: &str = "DELETE FROM garth.content_age
    WHERE account = $1 AND seq > (SELECT seq FROM garth.head WHERE account = $1)";
/// Prefixes that no file can have, of the constraints and nodes after a key: a place beyond the content, more
/// lines than bytes, or content of a commit to come. A row of other content than the newest is not used, and
/// the size of that content may be gone.
const JUDGED: &str = "SELECT j.demand, j.ino, NOT (j.lines >= 1 AND j.lines - 1 <= j.until
        AND j.etag <= (SELECT seq FROM garth.head WHERE account = $1)
        AND j.until <= coalesce(v.size, j.until))
    FROM (SELECT * FROM garth.judged WHERE account = $1 AND (demand, ino) > ($2, $3)
        ORDER BY demand, ino LIMIT $4) j
    LEFT JOIN LATERAL (SELECT CASE WHEN content_seq = j.etag THEN size END AS size FROM garth.node
        WHERE account = $1 AND ino = j.ino ORDER BY seq DESC LIMIT 1) v ON true ORDER BY j.demand, j.ino";
const NOT_JUDGED: &str = "DELETE FROM garth.judged WHERE account = $1 AND demand = $2 AND ino = $3";
const STORED: &str = "UPDATE garth.head SET stored = greatest(stored + $2, 0) WHERE account = $1";
/// Prefixes of a page.
const PREFIXES: i64 = 256;

/// Derives the keys and passages of an account again, in steps between which others commit, and recounts its
/// stored bytes and quotas. Returns the number of files that search may see.
///
/// # Errors
/// Errors of the database: the steps before stay.
pub(crate) async fn reindex(store: &PgStore) -> Result<u64> {
    let mut at = Progress::default();
    while !at.is_done() {
        let conn = store.pool().connection().await?;
        let next = reindex_step(&conn, store.account(), store.registry(), at).await;
        at = conn.settle(next).await?;
    }
    index(store, &store.env().random::<16>()?, None).await?;
    recount(store).await?;
    store.recount_quotas().await?;
    forget_prefixes(store).await?;
    let (mut step, []) = step::begin(store, []).await?;
    step.add(SEARCH_LOST, Vec::new());
    step.add(SEARCH_ALL, Vec::new());
    step.commit().await?;
    Ok(at.files)
}

/// Recounts the stored bytes. They are summed up in one state, without a lock; commits change them by
/// differences meanwhile, so what was wrong by then is wrong by as much now.
async fn recount(store: &PgStore) -> Result<()> {
    let conn = store.pool().connection().await?;
    let counted = difference(&conn, store.account()).await;
    let difference = conn.settle(counted).await?;
    if difference == 0 {
        return Ok(());
    }
    tracing::warn!(difference, "the stored bytes of the account were wrong");
    let (mut step, []) = step::begin(store, []).await?;
    step.add(STORED, vec![param(difference, Type::INT8)]);
    step.commit().await
}

/// Returns by how much the stored bytes of one state differ from those that its head row has.
///
/// # Errors
/// Errors of the database: then the connection has an open transaction.
pub(crate) async fn difference(conn: &Connection, account: i64) -> Result<i64> {
    let mut pipe = Pipe::new(conn);
    pipe.simple(begin_reads(account, step::READ_TIME));
    let found = pipe.query(HEAD, vec![param(account, Type::INT8)]);
    let answers = pipe.run().await?;
    let missing = || Error::damaged("the head row of the account is missing");
    let row = answers.get(found).and_then(|rows| rows.first()).ok_or_else(missing)?;
    let (HeadRow { next_ino, next_chunk, seq, .. }, stored) = (head(row)?, column::<i64>(row, 8)?);
    let mut sum = 0_u64;
    for (sql, last) in [(OF_NODES, next_ino), (OF_CHUNKS, next_chunk), (OF_COMMITS, seq)] {
        let mut from = 0;
        while from < last {
            let to = from.saturating_add(PAGE).min(last);
            let params: Vec<Param> =
                [account, int(from), int(to)].into_iter().map(|number| param(number, Type::INT8)).collect();
            let mut pipe = Pipe::new(conn);
            let place = pipe.query(sql, params);
            let answers = pipe.run().await?;
            let rows = answers.get(place).and_then(|rows| rows.first());
            sum = sum.saturating_add(rows.map_or(Ok(0), |row| number(row, 0))?);
            from = to;
        }
    }
    let mut pipe = Pipe::new(conn);
    pipe.simple("COMMIT");
    pipe.run().await?;
    Ok(int(sum).saturating_sub(stored))
}

/// Forgets how far files satisfy rules, where that cannot be: the next write to such a file is judged from
/// its start.
async fn forget_prefixes(store: &PgStore) -> Result<()> {
    let mut after = (Vec::<u8>::new(), 0_i64);
    loop {
        let params = vec![
            param(after.0.clone(), Type::BYTEA),
            param(after.1, Type::INT8),
            param(PREFIXES, Type::INT8),
        ];
        let (mut step, [rows]) = step::begin(store, [(JUDGED, params)]).await?;
        for row in &rows {
            after = (column(row, 0)?, column(row, 1)?);
            if column(row, 2)? {
                step.add(NOT_JUDGED, vec![param(after.0.clone(), Type::BYTEA), param(after.1, Type::INT8)]);
            }
        }
        step.commit().await?;
        if rows.is_empty() {
            return Ok(());
        }
    }
}
