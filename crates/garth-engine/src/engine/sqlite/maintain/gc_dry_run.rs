//! Report of what a garbage collection would remove. It reads only: nothing is marked, so a grace period that
//! has not begun does not begin.

use std::collections::HashMap;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _, params};

use crate::engine::sqlite::maintain::announce;
use crate::engine::sqlite::maintain::step::Times;
use crate::engine::sqlite::query::read_view::ReadView;
use crate::engine::sqlite::tables::{head, leases, staged};
use crate::engine::sqlite::{SqliteFs, chunk_store};
use crate::error::Result;
use crate::fs::store::Collectable;
use crate::sqlite::DbResult;

impl SqliteFs {
    /// Implements `AccountStore::gc_dry_run` on this thread.
    pub(crate) fn collectable(&self, grace: Duration) -> Result<Collectable> {
        let times = Times::new(self.inner.runtime.env().now(), grace);
        let mut report = self.with_view(|view| {
            let mut report =
                Collectable { expired: expired(view.conn, view.time)?, ..Collectable::default() };
            count_chunks(view.conn, times, &mut report)?;
            count_packs(view.conn, times, &mut report)?;
            report.unnamed = unnamed(view.conn, times)?;
            (report.waiting, report.waiting_bytes) = waiting(view.conn, times)?;
            (report.oldest, report.folded) = past(view, times)?;
            Ok(report)
        })?;
        self.count_past(times, &mut report)?;
        self.each_pack_file(|files| {
            let orphans = self.with_view(|view| Ok(chunk_store::orphan_files(view.conn, files)?.len()))?;
            report.packs += orphans as u64;
            Ok(())
        })?;
        Ok(report)
    }
}

/// Returns the first commit that would be readable, and the number of commits before it that the log has.
fn past(view: &ReadView<'_>, times: Times) -> DbResult<(u64, u64)> {
    let head = head::get(view.conn)?;
    let oldest = announce::next_oldest(view, times.now, true)?.unwrap_or(head.oldest);
    Ok((oldest, oldest - head.folded))
}

fn expired(conn: &Connection, time: i64) -> DbResult<u64> {
    Ok(conn.query_row("SELECT count(*) FROM expiry WHERE at <= ?1", [time], |row| row.get(0))?)
}

/// Counts the uploads that are due, and the chunks without a reference once those are removed.
fn count_chunks(conn: &Connection, times: Times, report: &mut Collectable) -> DbResult<()> {
    let sql =
        "SELECT count(*), coalesce(sum(len), 0) FROM chunk_refs JOIN chunk ON chunk.id = chunk_refs.chunk
         WHERE count = 0";
    (report.chunks, report.bytes) = conn.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut released: HashMap<u64, u64> = HashMap::new();
    for content in staged::due(conn, times.uploads())? {
        report.staged += 1;
        // An upload that never finished has no content, only a pack file, which is removed at once.
        report.packs += u64::from(content.is_none());
        for (chunk, _) in content.into_iter().flat_map(|content| content.0) {
            *released.entry(chunk).or_default() += 1;
        }
    }
    // A chunk without a row has one reference.
    let sql = "SELECT coalesce(count, 1), len FROM chunk LEFT JOIN chunk_refs ON chunk_refs.chunk = chunk.id
         WHERE chunk.id = ?1";
    for (chunk, references) in released {
        let row = |row: &rusqlite::Row<'_>| Ok((row.get::<_, u64>(0)?, row.get::<_, u64>(1)?));
        let found = conn.prepare_cached(sql)?.query_row([chunk], row).optional()?;
        if let Some((count, len)) = found
            && count == references
        {
            (report.chunks, report.bytes) = (report.chunks + 1, report.bytes + len);
        }
    }
    Ok(())
}

/// Counts the pack files and ranges that were marked before the grace period.
fn count_packs(conn: &Connection, times: Times, report: &mut Collectable) -> DbResult<()> {
    let sql = "SELECT count(*), coalesce(sum(size), 0) FROM pack WHERE doomed_at <= ?1";
    let doomed = |row: &rusqlite::Row<'_>| Ok((row.get::<_, u64>(0)?, row.get::<_, u64>(1)?));
    let (packs, bytes) = conn.query_row(sql, params![times.removed_before.0], doomed)?;
    // Ranges of the files above are part of their size.
    let sql = "SELECT coalesce(sum(len), 0) FROM hole JOIN pack ON pack.id = hole.pack
         WHERE freed_at <= ?1 AND doomed_at IS NULL";
    let holes: u64 = conn.query_row(sql, params![times.removed_before.0], |row| row.get(0))?;
    report.packs += packs;
    report.freed = bytes + holes;
    Ok(())
}

/// Returns the number of unnamed files whose later writes would be taken back.
fn unnamed(conn: &Connection, times: Times) -> DbResult<u64> {
    let (mut files, mut from) = (0, 0);
    while let Some((ino, doomed_at)) = leases::next_unleased(conn, from)? {
        // A run with a grace period of 0 marks a file and takes it back at once.
        files += u64::from(doomed_at.unwrap_or(times.now.0) <= times.removed_before.0);
        from = ino + 1;
    }
    Ok(files)
}

/// Returns the number of files that wait for the grace period, and the bytes that pack files will give back.
/// A run has removed what is due before it counts these, so there every range waits.
fn waiting(conn: &Connection, times: Times) -> DbResult<(u64, u64)> {
    let sql = "WITH late AS (
             SELECT hole.pack, hole.len FROM hole JOIN pack ON pack.id = hole.pack
                 WHERE freed_at > ?1 AND pack.doomed_at IS NULL
             UNION ALL
             SELECT id, size FROM pack WHERE doomed_at > ?1
         )
         SELECT count(DISTINCT pack) + (SELECT count(*) FROM unnamed WHERE doomed_at > ?1),
             coalesce(sum(len), 0) FROM late";
    Ok(conn.query_row(sql, [times.removed_before.0], |row| Ok((row.get(0)?, row.get(1)?)))?)
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;

    use super::*;
    use crate::engine::sqlite::maintain::sample_account::{GRACE, SampleAccount, at};
    use crate::fs::FileSystem;
    use crate::fs::store::Collected;
    use crate::model::{Op, SetAttrs};

    /// Returns an account with an expired entry and two uploads whose leases have ended, one of them
    /// unfinished.
    fn account() -> SampleAccount {
        let account = SampleAccount::new();
        let expires = SetAttrs::new().expires_at(account.now().plus_seconds(60));
        account.commit([Op::write(at("/expires"), "x").with_attrs(expires), Op::write(at("/stays"), "x")]);
        // Longer than a chunk, so that it goes to a pack file.
        account.upload("/a", vec![1; 1_200_000]);
        account.abandon_upload("/b", vec![2; 1_200_000]);
        account.clock.advance(Duration::from_secs(25 * 3600));
        account
    }

    fn fields(report: &Collectable) -> [u64; 6] {
        [report.expired, report.staged, report.chunks, report.bytes, report.packs, report.freed]
    }

    fn removed(report: &Collected) -> [u64; 6] {
        [report.expired, report.staged, report.chunks, report.bytes, report.packs, report.freed]
    }

    #[test]
    fn dry_run_reports_what_gc_removes() {
        let account = account();
        let first = account.fs.collectable(GRACE).unwrap();
        assert_eq!([first.expired, first.staged, first.packs], [1, 2, 1]);
        assert!(first.chunks > 0 && first.bytes == 1_200_000, "{first:?}");
        assert_eq!(fields(&first), removed(&account.collect()));
        // The pack file of the finished upload is empty now and waits.
        let waits = account.fs.collectable(GRACE).unwrap();
        assert_eq!((fields(&waits), waits.waiting), ([0; 6], 1));
        assert!(waits.waiting_bytes >= 1_200_000, "{waits:?}");
        account.clock.advance(GRACE);
        let second = account.fs.collectable(GRACE).unwrap();
        assert_eq!((second.packs, second.waiting), (1, 0));
        assert_eq!(fields(&second), removed(&account.collect()));
        assert_eq!(account.fs.collectable(GRACE).unwrap(), Collectable::default());
    }

    #[test]
    fn dry_run_changes_nothing() {
        let account = account();
        let before = account.fs.collectable(GRACE).unwrap();
        let (head, files) = (block_on(account.fs.head()).unwrap(), account.fs.pack_files().unwrap());
        account.clock.advance(GRACE);
        assert_eq!(account.fs.collectable(GRACE).unwrap(), before);
        assert_eq!(
            (block_on(account.fs.head()).unwrap().seq, account.fs.pack_files().unwrap()),
            (head.seq, files)
        );
        account.assert_sound();
    }
}
