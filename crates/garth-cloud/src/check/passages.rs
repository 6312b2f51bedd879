//! The part of the check for the search index: the passages of each file with text cover it, and nothing else
//! has any. `reindex` corrects what it finds.

use std::collections::BTreeMap;
use std::ops::Range;

use garth_engine::engine::planner::{bytes_of_files, files_with_text};
use garth_engine::engine::search::indexing::{describe, hash};
use garth_engine::text::passage::{MAX, MAX_TEXT};
use garth_engine::{ErrorKind, Result};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::{Check, count, rows};
use crate::client::{Pages, param};
use crate::rows::PgRows;
use crate::values::columns::{column, number};
use crate::values::parameters::ints;

/// Passages of a piece: at most 1 MiB of text.
const PASSAGES: i64 = 256;
/// Files of a piece.
const FILES: i64 = 100;
/// Passages of a page that are only counted.
const PAGE: i64 = 50_000;
/// Most rounds of a piece, of which it usually takes one or two.
const ROUNDS: usize = 12;

const COUNT: &str = "SELECT count(*), max(id) FROM (SELECT id FROM garth.passage
    WHERE account = $1 AND id > $2 ORDER BY id LIMIT $3) p";
const COUNTED: &str = "SELECT passages FROM garth.head WHERE account = $1";
/// Passages with the end of the one before them, and the newest version of their node.
const CHECKED: &str =
    "SELECT p.ino, p.off, p.len, p.lines, p.newline, p.hash, coalesce(b.till, 0), v.kind, v.nlink, v.size
    FROM (SELECT ino, off, len, lines, newline, hash FROM garth.passage
        WHERE account = $1 AND (ino, off) > ($2, $3) ORDER BY ino, off LIMIT $4) p
    LEFT JOIN LATERAL (SELECT off + len AS till FROM garth.passage
        WHERE account = $1 AND ino = p.ino AND off < p.off ORDER BY off DESC LIMIT 1) b ON true
    LEFT JOIN LATERAL (SELECT kind, nlink, size FROM garth.node
        WHERE account = $1 AND ino = p.ino ORDER BY seq DESC LIMIT 1) v ON true
    ORDER BY p.ino, p.off";
/// Next nodes.
pub(super) const INOS: &str = "WITH RECURSIVE next(ino) AS (
        SELECT min(ino) FROM garth.node WHERE account = $1 AND ino > $2
        UNION ALL
        SELECT (SELECT min(ino) FROM garth.node WHERE account = $1 AND ino > next.ino)
        FROM next WHERE next.ino IS NOT NULL)
    SELECT ino FROM next WHERE ino IS NOT NULL LIMIT $3";
/// Ends of the indexed text of files, and of what is to be indexed now.
const ENDS: &str = "SELECT k.ino, p.till, least(v.size, $3, u.off)
    FROM unnest($2::bigint[]) k(ino)
    CROSS JOIN LATERAL (SELECT size FROM garth.node
        WHERE account = $1 AND ino = k.ino ORDER BY seq DESC LIMIT 1) v
    LEFT JOIN LATERAL (SELECT off FROM garth.unindexed WHERE account = $1 AND ino = k.ino OFFSET 0) u ON true
    LEFT JOIN LATERAL (SELECT off + len AS till FROM garth.passage
        WHERE account = $1 AND ino = k.ino ORDER BY off DESC LIMIT 1) p ON true";

/// A passage as its row describes it.
struct Described {
    ino: u64,
    bytes: Range<u64>,
    lines: u64,
    newline: bool,
    hash: i64,
}

impl Check<'_> {
    pub(super) async fn passages(&mut self) -> Result<()> {
        self.count_passages().await?;
        let (mut ino, mut off) = (0, -1_i64);
        loop {
            let next = self.piece_of_passages((ino, off)).await?;
            match next {
                Some(next) => (ino, off) = next,
                None => break,
            }
        }
        let mut ino = 0;
        while let Some(next) = self.piece_of_files(ino).await? {
            ino = next;
        }
        Ok(())
    }

    /// Compares the number of passages with that of the head row, in one state.
    async fn count_passages(&mut self) -> Result<()> {
        let conn = self.pool.connection().await?;
        let mut pages = Pages::new(&conn, self.account());
        let counted = counted(&mut pages).await;
        let counted = match counted {
            Ok(counted) => pages.end().await.map(|()| counted),
            Err(error) => Err(error),
        };
        let (counted, found) = conn.settle(counted).await?;
        if counted != found {
            let what =
                format!("the search index counts {counted} passages, but has {found}; run `garth reindex`");
            self.report.add("index", what);
        }
        Ok(())
    }

    /// Checks the passages after one of a file. Returns the last of them.
    async fn piece_of_passages(&mut self, (ino, off): (u64, i64)) -> Result<Option<(u64, i64)>> {
        let conn = self.pool.connection().await?;
        let mut database = PgRows::of_snapshot(&conn, self.committer);
        let piece = self.check_passages(&mut database, (ino, off)).await;
        let piece = match piece {
            Ok(piece) => database.commit().await.map(|()| piece),
            Err(error) => Err(error),
        };
        conn.settle(piece).await
    }

    async fn check_passages(
        &mut self,
        database: &mut PgRows<'_>,
        (ino, off): (u64, i64),
    ) -> Result<Option<(u64, i64)>> {
        database.begin().await?;
        let params = vec![count(ino), param(off, Type::INT8), rows(PASSAGES)];
        let page = database.query(CHECKED, params).await?;
        let Some(last) = page.last() else { return Ok(None) };
        let next = (number(last, 0)?, column(last, 1)?);
        let mut sound = Vec::new();
        for row in &page {
            sound.extend(self.place(row)?);
        }
        let ranges: Vec<_> = sound.iter().map(|passage| (passage.ino, passage.bytes.clone())).collect();
        let read = bytes_of_files(database, &ranges, ROUNDS).await?;
        for (passage, bytes) in sound.iter().zip(read) {
            let Described { ino, bytes: span, lines, newline, hash: stored } = passage;
            match bytes {
                Ok(bytes) if hash(&bytes) == *stored && describe(&bytes) == (*lines, *newline) => {}
                Ok(_) => {
                    let what = format!("the passage of node {ino} at byte {} is out of date", span.start);
                    self.report.add("index", what);
                }
                // The check of the chunks reports damaged content.
                Err(error) if error.is(ErrorKind::Corrupt) => {
                    self.report.add("index", format!("node {ino} cannot be compared: {error}"));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Some(next))
    }

    /// Checks the place of a passage. Returns the passage if it is in its file.
    fn place(&mut self, row: &Row) -> Result<Option<Described>> {
        let report = &mut self.report;
        let (ino, off, len) = (number(row, 0)?, number(row, 1)?, number(row, 2)?);
        let optional =
            |at| Ok::<_, garth_engine::Error>(column::<Option<i64>>(row, at)?.map(i64::cast_unsigned));
        if column::<Option<i16>>(row, 7)? != Some(0) {
            report.add("index", format!("node {ino} is in the search index but is not a file"));
            return Ok(None);
        }
        if optional(8)? == Some(0) {
            report.add("index", format!("node {ino} is wrongly in the search index, or missing from it"));
            return Ok(None);
        }
        let (before, size) = (number(row, 6)?, optional(9)?.unwrap_or(0).min(MAX_TEXT));
        let end = off.saturating_add(len);
        if before != off || len == 0 || len > MAX as u64 || end > size {
            report.add("index", format!("the passages of node {ino} do not cover it at byte {off}"));
            return Ok(None);
        }
        let (lines, newline, hash) = (number(row, 3)?, column(row, 4)?, column(row, 5)?);
        Ok(Some(Described { ino, bytes: off..end, lines, newline, hash }))
    }

    /// Checks that each of the files after one has passages up to its end if it has text, and none otherwise.
    /// Returns the last of them.
    async fn piece_of_files(&mut self, after: u64) -> Result<Option<u64>> {
        let conn = self.pool.connection().await?;
        let mut database = PgRows::of_snapshot(&conn, self.committer);
        let piece = self.check_files(&mut database, after).await;
        let piece = match piece {
            Ok(piece) => database.commit().await.map(|()| piece),
            Err(error) => Err(error),
        };
        conn.settle(piece).await
    }

    async fn check_files(&mut self, database: &mut PgRows<'_>, after: u64) -> Result<Option<u64>> {
        database.begin().await?;
        let page = database.query(INOS, vec![count(after), rows(FILES)]).await?;
        let inos = page.iter().map(|row| number(row, 0)).collect::<Result<Vec<u64>>>()?;
        let Some(last) = inos.last().copied() else { return Ok(None) };
        let params = vec![ints(inos.iter().copied()), count(MAX_TEXT)];
        let mut ends = BTreeMap::new();
        for row in database.query(ENDS, params).await? {
            let indexed = column::<Option<i64>>(&row, 1)?.map(i64::cast_unsigned);
            ends.insert(number(&row, 0)?, (indexed, number(&row, 2)?));
        }
        for (ino, has_text) in files_with_text(database, &inos, ROUNDS).await? {
            let Some((indexed, end)) = ends.get(&ino).copied() else { continue };
            let report = &mut self.report;
            match has_text {
                Ok(has_text) if indexed.is_none() == (has_text && end > 0) => {
                    report.add(
                        "index",
                        format!("node {ino} is wrongly in the search index, or missing from it"),
                    );
                }
                Ok(_) if indexed.is_some_and(|indexed| indexed < end) => {
                    let at = indexed.unwrap_or_default();
                    report.add("index", format!("the passages of node {ino} do not cover it at byte {at}"));
                }
                Ok(_) => {}
                Err(error) if error.is(ErrorKind::Corrupt) => {
                    report.add("index", format!("node {ino} cannot be compared: {error}"));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Some(last))
    }
}

/// Returns the number of passages that the head row has, and that of the rows.
async fn counted(pages: &mut Pages<'_>) -> Result<(u64, u64)> {
    let head = pages.query(COUNTED, Vec::new()).await?;
    let counted = head.first().map_or(Ok(0), |row| number(row, 0))?;
    let (mut id, mut found) = (0_i64, 0);
    loop {
        let page = pages.query(COUNT, vec![param(id, Type::INT8), rows(PAGE)]).await?;
        let Some(row) = page.first() else { break };
        found += number(row, 0)?;
        match column::<Option<i64>>(row, 1)? {
            Some(last) => id = last,
            None => break,
        }
    }
    Ok((counted, found))
}
