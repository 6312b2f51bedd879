//! Work on derived rows outside of commits, in steps that each fit into a short transaction: text that was
//! too much for its commit or could not be read then, and keys and passages that are derived again.
//!
//! Several servers may do so at once. A server leases the files of a step by the clock of the database, and
//! indexes them while it holds the account, as a commit does: a step that another server has done meanwhile
//! finds another record, and leaves it alone.

mod reindex;

use garth_engine::Result;
use garth_engine::engine::planner::{FileToIndex, IndexedPart, index_files};
use garth_engine::rule::Registry;
use garth_engine::text::Tokenizer;
use tokio_postgres::types::Type;

pub use reindex::{Progress, make_ready, reindex_step};

use crate::client::{Connection, Pipe, param};
use crate::commit::Committer;
use crate::rows::{DerivedWrites, PgRows, Writes};
use crate::values::columns::{column, number};
use crate::values::parameters::ints;

/// Bytes of text that one step indexes, 256 KiB: about 20 ms of work while the account is locked.
const STEP: u64 = 256 << 10;
/// Most files that one step examines.
const FILES: i64 = 32;
/// Most rounds of a step, of which it usually takes one or two.
const ROUNDS: usize = 12;
/// Length of a lease in nanoseconds, 30 s: as long as a statement may take.
const LEASE: i64 = 30_000_000_000;
/// Time in nanoseconds after which a file that cannot be read is tried again: one hour.
const RETRY: i64 = 3_600_000_000_000;

/// Time of the database in nanoseconds. It does not change within a statement, so that an index can be read
/// up to it.
macro_rules! now {
    () => {
        "(extract(epoch FROM statement_timestamp()) * 1000000)::bigint * 1000"
    };
}

// Rows that another server is leasing at this moment are skipped, not waited for.
const LEASED: &str = concat!(
    "UPDATE garth.unindexed SET until = ",
    now!(),
    " + $2 WHERE account = $1 AND ino = ANY(ARRAY(SELECT ino FROM garth.unindexed
        WHERE account = $1 AND until <= ",
    now!(),
    " ORDER BY until, ino LIMIT $3 FOR UPDATE SKIP LOCKED))
    RETURNING ino, off, until"
);
const IS_MARKED: &str = "SELECT unindexed > 0 AND NOT EXISTS (SELECT FROM garth.unindexed WHERE account = $1)
    FROM garth.head WHERE account = $1";
const LOCK: &str = "SELECT FROM garth.head WHERE account = $1 FOR UPDATE";
const UNMARK: &str = "UPDATE garth.head SET unindexed = 0
    WHERE account = $1 AND NOT EXISTS (SELECT FROM garth.unindexed WHERE account = $1)";
const RELEASED: &str = "UPDATE garth.unindexed SET until = 0
    WHERE account = $1 AND ino = ANY($2) AND until = $3";
const UNREAD: &str =
    concat!("UPDATE garth.unindexed SET until = ", now!(), " + $3 WHERE account = $1 AND ino = ANY($2)");
const MARKED: &str =
    "SELECT account FROM garth.head WHERE unindexed > 0 AND account > $1 ORDER BY account LIMIT $2";

/// Files that were leased, and the end of the lease.
struct Lease {
    files: Vec<FileToIndex>,
    until: i64,
}

/// Returns at most `limit` accounts after one that may have text which is not indexed yet.
///
/// # Errors
/// Errors of the database.
pub async fn accounts_to_index(conn: &Connection, after: i64, limit: i64) -> Result<Vec<i64>> {
    let mut pipe = Pipe::new(conn);
    begin(&mut pipe, 0);
    let found = pipe.query(MARKED, vec![param(after, Type::INT8), param(limit, Type::INT8)]);
    pipe.simple("COMMIT");
    let answers = finish(conn, pipe).await?;
    answers.get(found).into_iter().flatten().map(|row| column(row, 0)).collect()
}

/// Indexes some text of an account that its commits have left, at most about 512 KiB. Returns false if no
/// such text is left, apart from what other servers are indexing and what cannot be read, which is tried
/// again after an hour.
///
/// # Errors
/// Errors of the database: then the step is done again once its lease has ended.
pub async fn index_next(conn: &Connection, account: i64, registry: &Registry) -> Result<bool> {
    let lease = lease(conn, account).await?;
    if lease.files.is_empty() {
        return Ok(false);
    }
    let committer = Committer::of(account, registry);
    let mut rows = PgRows::new(conn, &committer);
    let mut tokenizer = Tokenizer::default();
    let parts = index_files(&mut rows, &lease.files, (STEP, ROUNDS), &mut tokenizer).await;
    let written = match parts {
        Ok(parts) => {
            write(&mut rows, &lease, parts);
            rows.commit().await
        }
        Err(error) => Err(error),
    };
    if written.is_err() {
        roll_back(conn).await;
    }
    written.map(|()| true)
}

/// Leases files that are due. Without any, takes back the mark of the account if it has none at all.
async fn lease(conn: &Connection, account: i64) -> Result<Lease> {
    let own = || param(account, Type::INT8);
    let mut pipe = Pipe::new(conn);
    begin(&mut pipe, account);
    let leased = pipe.query(LEASED, vec![own(), param(LEASE, Type::INT8), param(FILES, Type::INT8)]);
    let marked = pipe.query(IS_MARKED, vec![own()]);
    pipe.simple("COMMIT");
    let answers = finish(conn, pipe).await?;
    let mut lease = Lease { files: Vec::new(), until: 0 };
    for row in answers.get(leased).into_iter().flatten() {
        lease.files.push(FileToIndex { ino: number(row, 0)?, off: number(row, 1)?, is_left: true });
        lease.until = column(row, 2)?;
    }
    let mark = answers.get(marked).and_then(|rows| rows.first());
    if lease.files.is_empty() && mark.map_or(Ok(false), |row| column(row, 0))? {
        let mut pipe = Pipe::new(conn);
        begin(&mut pipe, account);
        // A statement of its own: the next one then sees what the commit left that this one waited for.
        pipe.query(LOCK, vec![own()]);
        pipe.query(UNMARK, vec![own()]);
        pipe.simple("COMMIT");
        finish(conn, pipe).await?;
    }
    Ok(lease)
}

/// Adds the changes that follow from the parts that were indexed, and gives the other files back.
fn write(rows: &mut PgRows<'_>, lease: &Lease, parts: Vec<(u64, IndexedPart)>) {
    let (mut writes, mut unread) = (DerivedWrites::default(), Vec::new());
    let rest: Vec<u64> = lease.files.iter().skip(parts.len()).map(|file| file.ino).collect();
    for (ino, part) in parts {
        match part {
            Ok(Some(part)) => {
                let next = part.next;
                writes.rebuild(ino, part, next);
            }
            // Another server has indexed it, or a commit has changed what is left.
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(%error, ino, "the text of a file cannot be read to be indexed");
                unread.push(ino);
            }
        }
    }
    let head = rows.head().unwrap_or_default();
    rows.write(Writes::of(writes), head);
    if !rest.is_empty() {
        rows.add(RELEASED, vec![ints(rest.into_iter()), param(lease.until, Type::INT8)]);
    }
    if !unread.is_empty() {
        rows.add(UNREAD, vec![ints(unread.into_iter()), param(RETRY, Type::INT8)]);
    }
}

/// Adds the statements that begin a transaction.
fn begin(pipe: &mut Pipe<'_>, account: i64) {
    pipe.simple(format!(
        "BEGIN; SELECT set_config('garth.account', '{account}', true), \
         set_config('statement_timeout', '30000', true), set_config('lock_timeout', '10000', true)"
    ));
}

/// Sends statements that end with `COMMIT`, and rolls back if one of them fails.
async fn finish(conn: &Connection, pipe: Pipe<'_>) -> Result<Vec<Vec<tokio_postgres::Row>>> {
    let answers = pipe.run().await;
    if answers.is_err() {
        roll_back(conn).await;
    }
    answers
}

/// Rolls back. The error that led here is returned, not one of the rollback.
async fn roll_back(conn: &Connection) {
    let mut pipe = Pipe::new(conn);
    pipe.simple("ROLLBACK");
    drop(pipe.run().await);
}
