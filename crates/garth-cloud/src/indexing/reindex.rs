//! Derives the keys and passages of an account again, some nodes in each step.

use garth_engine::engine::planner::{FileToIndex, index_files, keys_of_nodes};
use garth_engine::rule::Registry;
use garth_engine::text::Tokenizer;
use garth_engine::{Error, ErrorKind, Result};
use tokio_postgres::types::Type;

use super::{FILES, ROUNDS, STEP, begin, finish, roll_back};
use crate::client::{Connection, Pipe, param};
use crate::commit::Committer;
use crate::rows::{DerivedWrites, PgRows, Writes};
use crate::values::columns::{column, int, number};

/// Most rounds of a step that derives keys. A long file takes one for every 8 MiB.
const ROUNDS_OF_KEYS: usize = 64;

/// Next inodes that have a node, or rows in another table that has its own.
macro_rules! next_inos {
    ($table:literal) => {
        concat!(
            "WITH RECURSIVE next(ino) AS (
                SELECT least((SELECT min(ino) FROM garth.node WHERE account = $1 AND ino > $2),
                    (SELECT min(ino) FROM garth.",
            $table,
            " WHERE account = $1 AND ino > $2))
                UNION ALL
                SELECT least((SELECT min(ino) FROM garth.node WHERE account = $1 AND ino > next.ino),
                    (SELECT min(ino) FROM garth.",
            $table,
            " WHERE account = $1 AND ino > next.ino))
                FROM next WHERE next.ino IS NOT NULL)
            SELECT ino FROM next WHERE ino IS NOT NULL LIMIT $3"
        )
    };
}

const WITH_PASSAGES: &str = next_inos!("passage");
const WITH_KEYS: &str = next_inos!("projected");
const VERSIONS: &str = "SELECT projections, keyed FROM garth.head WHERE account = $1";
const FENCE: &str = "UPDATE garth.head SET projections = $2 WHERE account = $1 AND projections < $2";
const KEYED: &str = "UPDATE garth.head SET keyed = $2 WHERE account = $1 AND keyed < $2";

/// Progress of deriving the rows of an account again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    phase: Phase,
    /// Last node that is done, or the one in progress.
    ino: u64,
    /// Byte of its text to continue from; 0 between two files.
    off: u64,
    /// Files indexed so far that search may see.
    pub files: u64,
    /// Files whose text could not be read. Their passages stay as they were.
    pub unread: u64,
}

/// Derived rows in progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Passages,
    Keys,
    Done,
}

impl Progress {
    /// Returns true once all rows are derived.
    pub fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }

    /// Returns the progress of deriving only keys.
    fn of_keys() -> Self {
        Self { phase: Phase::Keys, ..Self::default() }
    }
}

/// Derives some passages or keys of an account again, and removes those of no node. Begin with the default
/// progress, and call this with the progress that it returns until that is done. Between two steps, the rows
/// are complete: a commit that changes a node changes its derived rows with it.
///
/// # Errors
/// Errors of the database, and of reading content for keys; `TooLarge` for a file of more than about 500
/// MiB that has keys of its lines.
pub async fn reindex_step(
    conn: &Connection,
    account: i64,
    registry: &Registry,
    at: Progress,
) -> Result<Progress> {
    let sql = match at.phase {
        Phase::Passages => WITH_PASSAGES,
        Phase::Keys => WITH_KEYS,
        Phase::Done => return Ok(at),
    };
    let inos = if at.off > 0 { vec![at.ino] } else { next_inos(conn, account, sql, at.ino).await? };
    let Some(last) = inos.last().copied() else {
        let phase = if at.phase == Phase::Passages { Phase::Keys } else { Phase::Done };
        return Ok(Progress { phase, ino: 0, ..at });
    };
    let committer = Committer::of(account, registry);
    let mut rows = PgRows::new(conn, &committer);
    let derived = match at.phase {
        Phase::Passages => passages(&mut rows, &inos, at).await,
        _ => keys(&mut rows, &inos, registry).await.map(|writes| (writes, Progress { ino: last, ..at })),
    };
    let written = match derived {
        Ok((writes, next)) => {
            let head = rows.head().unwrap_or_default();
            rows.write(Writes::of(writes), head);
            rows.commit().await.map(|()| next)
        }
        Err(error) => Err(error),
    };
    if written.is_err() {
        roll_back(conn).await;
    }
    written
}

/// Derives the keys of an account that has those of an older set of projections, or none. From the first step
/// on, servers with an older set cannot write to the account any more, as they would not keep the new keys up
/// to date.
///
/// # Errors
/// `NotFound` if the account does not exist; otherwise as [`reindex_step`].
pub async fn make_ready(conn: &Connection, account: i64, registry: &Registry) -> Result<()> {
    let version = int(registry.version());
    let (own, number) = (|| param(account, Type::INT8), || param(version, Type::INT8));
    let mut pipe = Pipe::new(conn);
    begin(&mut pipe, account);
    let versions = pipe.query(VERSIONS, vec![own()]);
    pipe.simple("COMMIT");
    let answers = finish(conn, pipe).await?;
    let missing = || Error::new(ErrorKind::NotFound, "the account does not exist, or was deleted");
    let known = answers.get(versions).and_then(|rows| rows.first()).ok_or_else(missing)?;
    let (projections, keyed): (i64, i64) = (column(known, 0)?, column(known, 1)?);
    if keyed >= version {
        return Ok(());
    }
    if projections < version {
        update(conn, account, FENCE, vec![own(), number()]).await?;
    }
    let mut at = Progress::of_keys();
    while !at.is_done() {
        at = reindex_step(conn, account, registry, at).await?;
    }
    update(conn, account, KEYED, vec![own(), number()]).await
}

async fn update(
    conn: &Connection,
    account: i64,
    sql: &'static str,
    params: Vec<crate::client::Param>,
) -> Result<()> {
    let mut pipe = Pipe::new(conn);
    begin(&mut pipe, account);
    pipe.query(sql, params);
    pipe.simple("COMMIT");
    finish(conn, pipe).await.map(drop)
}

async fn next_inos(conn: &Connection, account: i64, sql: &'static str, after: u64) -> Result<Vec<u64>> {
    let mut pipe = Pipe::new(conn);
    begin(&mut pipe, account);
    let params = vec![param(account, Type::INT8), param(int(after), Type::INT8), param(FILES, Type::INT8)];
    let found = pipe.query(sql, params);
    pipe.simple("COMMIT");
    let answers = finish(conn, pipe).await?;
    answers.get(found).into_iter().flatten().map(|row| number(row, 0)).collect()
}

/// Derives the passages of files again. Returns the changes, and the progress with them.
async fn passages(rows: &mut PgRows<'_>, inos: &[u64], at: Progress) -> Result<(DerivedWrites, Progress)> {
    let files: Vec<FileToIndex> =
        inos.iter().map(|ino| FileToIndex { ino: *ino, off: at.off, is_left: false }).collect();
    let parts = index_files(rows, &files, (STEP, ROUNDS), &mut Tokenizer::default()).await?;
    let (mut writes, mut next) = (DerivedWrites::default(), at);
    for (ino, part) in parts {
        (next.ino, next.off) = (ino, 0);
        match part {
            Ok(Some(part)) => {
                next.off = part.next.unwrap_or(0);
                next.files += u64::from(part.searchable && part.next.is_none());
                // Passages that follow cover the rest of the file until it is cut again.
                let left = part.next.filter(|_| !part.follows);
                writes.rebuild(ino, part, left);
            }
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(%error, ino, "the text of a file cannot be read to be indexed");
                next.unread += 1;
            }
        }
        // The others begin at their first byte.
        if next.off > 0 {
            break;
        }
    }
    Ok((writes, next))
}

/// Derives the keys of nodes again.
async fn keys(rows: &mut PgRows<'_>, inos: &[u64], registry: &Registry) -> Result<DerivedWrites> {
    let mut writes = DerivedWrites::default();
    for (ino, keys) in keys_of_nodes(rows, inos, registry, ROUNDS_OF_KEYS).await? {
        writes.replace_keys(ino, keys);
    }
    Ok(writes)
}
