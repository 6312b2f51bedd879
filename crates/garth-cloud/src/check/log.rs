//! The part of the check for the head row and the log that led to it.

use garth_engine::engine::relational::{answer_column, changes_column};
use garth_engine::fs::store::Fsck;
use garth_engine::{Error, ErrorKind, Result};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::{Check, ROWS, count, rows};
use crate::client::{Pages, param};
use crate::values::columns::{column, number};

/// Commits of a piece. Each may have 64 KiB of changes.
const COMMITS: i64 = 200;
/// Pieces of further changes that are read at a time.
const CHANGES: i64 = 50;

const HEAD: &str = "SELECT h.seq, h.next_ino, h.next_chunk, h.next_passage,
        (SELECT seq FROM garth.log WHERE account = $1 ORDER BY seq DESC LIMIT 1),
        (SELECT ino FROM garth.node WHERE account = $1 ORDER BY ino DESC LIMIT 1),
        (SELECT id FROM garth.chunk WHERE account = $1 ORDER BY id DESC LIMIT 1),
        (SELECT id FROM garth.passage WHERE account = $1 ORDER BY id DESC LIMIT 1)
    FROM garth.head h WHERE h.account = $1";
/// Commits, with the first that must be in the log: a removal of the past takes those before it.
const LOG: &str = "SELECT l.seq, l.changes, l.answer,
        greatest(h.folded, coalesce((SELECT max(till) FROM garth.fold WHERE account = $1), 0))
    FROM garth.head h
    CROSS JOIN LATERAL (SELECT seq, changes, answer FROM garth.log
        WHERE account = $1 AND seq > $2 ORDER BY seq LIMIT $3) l
    WHERE h.account = $1 ORDER BY l.seq";
const MORE: &str = "SELECT first, changes FROM garth.log_more
    WHERE account = $1 AND seq = $2 AND first > $3 ORDER BY first LIMIT $4";
const KEYS: &str = "SELECT i.owner, i.key, l.answer IS NULL
    FROM (SELECT owner, key, seq FROM garth.idempotency
        WHERE account = $1 AND (owner, key) > ($2, $3) ORDER BY owner, key LIMIT $4) i
    LEFT JOIN LATERAL (SELECT answer FROM garth.log WHERE account = $1 AND seq = i.seq OFFSET 0) l ON true
    ORDER BY i.owner, i.key";

impl Check<'_> {
    pub(super) async fn log(&mut self) -> Result<()> {
        let deleted = || Error::new(ErrorKind::NotFound, "the account does not exist, or was deleted");
        let head = self.piece(HEAD, Vec::new()).await?.pop().ok_or_else(deleted)?;
        let last = self.head(&head)?;
        let mut at = 0;
        loop {
            let conn = self.pool.connection().await?;
            let mut pages = Pages::new(&conn, self.committer.account);
            let next = commits(&mut pages, &mut self.report, at).await;
            let next = match next {
                Ok(next) => pages.end().await.map(|()| next),
                Err(error) => Err(error),
            };
            let next = conn.settle(next).await?;
            if next == at {
                break;
            }
            at = next;
        }
        // The log ended before the head.
        if at < last {
            self.report.add("head", format!("the head is at commit {last}, the last of the log is {at}"));
        }
        self.records().await
    }

    /// Checks the head row, which has the next numbers to assign. Returns the last commit.
    fn head(&mut self, row: &Row) -> Result<u64> {
        let seq = number(row, 0)?;
        let top = |at| Ok::<u64, Error>(column::<Option<i64>>(row, at)?.map_or(0, i64::cast_unsigned));
        let last = top(4)?;
        if last > seq {
            self.report.add("head", format!("the head is at commit {seq}, the last of the log is {last}"));
        }
        // A number that is already in use would be assigned twice.
        for (at, one, name) in [(1, "node", "inode"), (2, "chunk", "chunk"), (3, "passage", "passage")] {
            let (next, top) = (number(row, at)?, top(at + 4)?);
            if top >= next {
                self.report.add("head", format!("{one} {top} exists, but the next {name} is {next}"));
            }
        }
        Ok(seq)
    }

    /// Checks that each idempotency key has its commit.
    async fn records(&mut self) -> Result<()> {
        let (mut owner, mut key) = (-1_i64, Vec::<u8>::new());
        loop {
            let after = vec![param(owner, Type::INT8), param(key.clone(), Type::BYTEA), rows(ROWS)];
            let page = self.piece(KEYS, after).await?;
            let Some(last) = page.last() else { return Ok(()) };
            (owner, key) = (column(last, 0)?, column(last, 1)?);
            let mut lost = 0;
            for row in &page {
                lost += u64::from(column::<bool>(row, 2)?);
            }
            if lost > 0 {
                self.report.add("log", format!("{lost} idempotency keys have no stored result"));
            }
        }
    }
}

/// Checks the commits after one. Returns the last of them, or the same if there are none.
async fn commits(pages: &mut Pages<'_>, report: &mut Fsck, from: u64) -> Result<u64> {
    let mut at = from;
    for row in pages.query(LOG, vec![count(from), rows(COMMITS)]).await? {
        let (seq, begin) = (number(&row, 0)?, number(&row, 3)?);
        let before = at.max(begin.saturating_sub(1));
        if seq >= begin && seq != before + 1 {
            report.add("head", format!("the log has no commit between {before} and {seq}"));
        }
        match changes_column::from_json(column(&row, 1)?) {
            Ok((changes, more)) => further(pages, report, seq, (changes.len() as u64, more)).await?,
            Err(_) => report.add("log", format!("the changes of commit {seq} cannot be read")),
        }
        // Sizes are not checked: any is good enough to read the answer.
        let no_size = |_, _| -> Result<u64> { Ok(0) };
        let answer: Option<&str> = column(&row, 2)?;
        if answer.is_some_and(|json| answer_column::from_json(json, seq, no_size).is_err()) {
            report.add("log", format!("the answer of commit {seq} cannot be read"));
        }
        at = seq;
    }
    Ok(at)
}

/// Checks the pieces after the first changes of a commit: each follows the one before, and the last is marked
/// as such.
async fn further(
    pages: &mut Pages<'_>,
    report: &mut Fsck,
    seq: u64,
    (mut due, mut more): (u64, bool),
) -> Result<()> {
    let mut after = 0;
    while more {
        let page = pages.query(MORE, vec![count(seq), count(after), rows(CHANGES)]).await?;
        if page.is_empty() {
            report.add("log", format!("the changes of commit {seq} are missing from number {due} on"));
        }
        for row in &page {
            let first = number(row, 0)?;
            if !more || first != due {
                report.add("log", format!("the changes of commit {seq} before number {first} are missing"));
                return Ok(());
            }
            let Ok((changes, further)) = changes_column::from_json(column(row, 1)?) else {
                report.add("log", format!("the changes of commit {seq} cannot be read"));
                return Ok(());
            };
            (due, more, after) = (due + changes.len() as u64, further, first);
        }
        if page.is_empty() {
            return Ok(());
        }
    }
    Ok(())
}
