//! The part of the check that counts the references to chunks.
//!
//! Extents have no index by chunk, because every append would write to it. They are counted in one state of
//! the database, page by page, which holds up no commit: counts that differ are wrong.

use garth_engine::engine::planner::Staged;
use garth_engine::fs::store::Fsck;
use garth_engine::{Error, Result};
use tokio_postgres::Row;

use super::{Check, count, rows, text};
use crate::client::Pages;
use crate::values::columns::{column, number};

/// Chunks counted in one pass over the extents: bounds memory to 16 MiB.
const WINDOW: u64 = 4 << 20;
/// Rows of a page: about 20 ms of work.
const PAGE: i64 = 20_000;
/// Staged bodies of a page.
const BODIES: i64 = 100;
/// Limit on the findings.
const MOST: usize = 1000;

const NEXT_CHUNK: &str = "SELECT next_chunk FROM garth.head WHERE account = $1";
const EXTENTS: &str = "SELECT ino, off, chunk FROM garth.extent
    WHERE account = $1 AND (ino, off) > ($2, $3 - 1) ORDER BY ino, off LIMIT $4";
const PAST_EXTENTS: &str = "SELECT ino, till, off, chunk FROM garth.extent_past
    WHERE account = $1 AND (ino, till, off) > ($2, $3, $4) ORDER BY ino, till, off LIMIT $5";
const BODIES_AFTER: &str = "SELECT id::text, pieces FROM garth.staged
    WHERE account = $1 AND pieces IS NOT NULL AND id > $2::text::uuid ORDER BY id LIMIT $3";
/// Chunks with the counts of their references. Those of uploads that arrive are beyond all others, and
/// nothing refers to them.
const COUNTS: &str = "SELECT c.id, coalesce(r.count, 1) FROM (SELECT id FROM garth.chunk
        WHERE account = $1 AND id > $2 AND id < $4 ORDER BY id LIMIT $3) c
    LEFT JOIN LATERAL (SELECT count FROM garth.chunk_refs
        WHERE account = $1 AND chunk = c.id OFFSET 0) r ON true
    ORDER BY c.id";
const OF_NOTHING: &str = "SELECT r.chunk, c.id IS NULL FROM (SELECT chunk FROM garth.chunk_refs
        WHERE account = $1 AND chunk > $2 ORDER BY chunk LIMIT $3) r
    LEFT JOIN LATERAL (SELECT id FROM garth.chunk WHERE account = $1 AND id = r.chunk OFFSET 0) c ON true
    ORDER BY r.chunk";

/// Counts of references to the chunks of a window.
struct Counts {
    first: u64,
    counts: Vec<u32>,
}

impl Counts {
    fn new(first: u64, end: u64) -> Self {
        let size = usize::try_from(end.saturating_sub(first)).unwrap_or_default();
        Self { first, counts: vec![0; size] }
    }

    fn place(&self, chunk: u64) -> Option<usize> {
        usize::try_from(chunk.checked_sub(self.first)?).ok()
    }

    fn add(&mut self, chunk: u64) {
        let place = self.place(chunk);
        if let Some(count) = place.and_then(|place| self.counts.get_mut(place)) {
            *count = count.saturating_add(1);
        }
    }

    fn get(&self, chunk: u64) -> u64 {
        self.place(chunk).and_then(|place| self.counts.get(place)).copied().unwrap_or_default().into()
    }
}

impl Check<'_> {
    pub(super) async fn references(&mut self) -> Result<()> {
        self.stray_counts().await?;
        let mut first = 0;
        loop {
            let conn = self.pool.connection().await?;
            let mut pages = Pages::new(&conn, self.committer.account);
            let next = window(&mut pages, &mut self.report, first).await;
            let next = match next {
                Ok(next) => pages.end().await.map(|()| next),
                Err(error) => Err(error),
            };
            match conn.settle(next).await? {
                Some(next) => first = next,
                None => return Ok(()),
            }
        }
    }

    /// Reports counts that belong to no chunk.
    async fn stray_counts(&mut self) -> Result<()> {
        let mut chunk = 0;
        loop {
            let page = self.piece(OF_NOTHING, vec![count(chunk), rows(PAGE)]).await?;
            for row in &page {
                if column::<bool>(row, 1)? {
                    let id = number(row, 0)?;
                    let what = format!("references are counted for chunk {id}, which does not exist");
                    self.report.add("references", what);
                }
            }
            let Some(last) = page.last() else { return Ok(()) };
            chunk = number(last, 0)?;
        }
    }
}

/// Checks the chunks from one on, as many as a window has. Returns the first of the next window.
async fn window(pages: &mut Pages<'_>, report: &mut Fsck, first: u64) -> Result<Option<u64>> {
    let head = pages.query(NEXT_CHUNK, Vec::new()).await?;
    // The account was deleted meanwhile.
    let Some(head) = head.first() else { return Ok(None) };
    let next_chunk = number(head, 0)?;
    let end = next_chunk.min(first + WINDOW);
    let mut counts = Counts::new(first, end);
    each_extent(pages, |chunk| counts.add(chunk)).await?;
    each_staged(pages, |chunk| counts.add(chunk)).await?;
    let (mut id, mut wrong) = (first.saturating_sub(1), 0);
    loop {
        let page = pages.query(COUNTS, vec![count(id), rows(PAGE), count(end)]).await?;
        for row in &page {
            let (id, counted) = (number(row, 0)?, number(row, 1)?);
            let found = counts.get(id);
            if found != counted && wrong < MOST {
                wrong += 1;
                let what = format!("chunk {id} has reference count {counted}, but {found} references");
                report.add("references", what);
            }
        }
        let Some(last) = page.last() else { break };
        id = number(last, 0)?;
    }
    Ok((end < next_chunk).then_some(end))
}

/// Passes the chunk of each extent to `take`.
async fn each_extent(pages: &mut Pages<'_>, mut take: impl FnMut(u64)) -> Result<()> {
    let (mut ino, mut off) = (0, 0);
    loop {
        let page = pages.query(EXTENTS, vec![count(ino), count(off), rows(PAGE)]).await?;
        chunks(&page, 2, &mut take)?;
        let Some(last) = page.last() else { break };
        (ino, off) = (number(last, 0)?, number(last, 1)? + 1);
    }
    let (mut ino, mut till, mut off) = (0, 0, 0);
    loop {
        let after = vec![count(ino), count(till), count(off), rows(PAGE)];
        let page = pages.query(PAST_EXTENTS, after).await?;
        chunks(&page, 3, &mut take)?;
        let Some(last) = page.last() else { return Ok(()) };
        (ino, till, off) = (number(last, 0)?, number(last, 1)?, number(last, 2)?);
    }
}

fn chunks(page: &[Row], at: usize, take: &mut impl FnMut(u64)) -> Result<()> {
    page.iter().try_for_each(|row| {
        take(number(row, at)?);
        Ok(())
    })
}

/// Passes each chunk of the staged bodies to `take`.
async fn each_staged(pages: &mut Pages<'_>, mut take: impl FnMut(u64)) -> Result<()> {
    let mut id = "00000000-0000-0000-0000-000000000000".to_owned();
    loop {
        let page = pages.query(BODIES_AFTER, vec![text(&id), rows(BODIES)]).await?;
        for row in &page {
            let damaged = |e| Error::damaged("a staged body is damaged").with_source(e);
            let Staged(pieces) = serde_json::from_str(column(row, 1)?).map_err(damaged)?;
            pieces.into_iter().for_each(|(chunk, _)| take(chunk));
        }
        let Some(last) = page.last() else { return Ok(()) };
        id = column(last, 0)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_counted_in_their_window() {
        let mut counts = Counts::new(10, 13);
        [9, 10, 12, 12, 13, u64::MAX].into_iter().for_each(|chunk| counts.add(chunk));
        assert_eq!([9, 10, 11, 12, 13].map(|chunk| counts.get(chunk)), [0, 1, 0, 2, 0]);
        assert_eq!(Counts::new(5, 3).get(4), 0);
    }
}
