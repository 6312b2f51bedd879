//! Returns free pages of the database to the disk, so that its file follows what is stored. Why:
//! `docs/decisions/files-shrink-in-steps.md`.

use rusqlite::Connection;

use crate::engine::sqlite::SqliteFs;
use crate::engine::sqlite::commit::stored::{self, Pages};
use crate::engine::sqlite::maintain::step::Turn;
use crate::error::Result;
use crate::fs::store::Collected;
use crate::sqlite::DbResult;
use crate::sqlite::migrate::INCREMENTAL;

/// A file shrinks if more than this part of it is free, a quarter. Fewer pages are left to later writes,
/// which then need not make the file longer again.
const PART: u64 = 4;
/// Bytes that must be free for a file to shrink.
const LEAST: u64 = 1 << 20;
/// Pages moved in one step: 1 MiB in new accounts. Each also changes the page that leads to it, and both go
/// to the WAL.
const PAGES: usize = 512;

impl SqliteFs {
    /// Moves pages from the end of the database to free ones, and cuts the file off after the last one, while
    /// much of it is free.
    pub(super) fn shrink(&self, collected: &mut Collected) -> Result<()> {
        // On a reader first: mostly little is free, and the writer is not needed.
        if !self.with_view(|view| is_due(view.conn))? {
            return Ok(());
        }
        loop {
            let runtime = self.inner.runtime.clone();
            let returned = self.step(move |conn, turn| {
                let returned = return_pages(conn, turn)?;
                runtime.failpoints().pass("gc-shrink")?;
                Ok(returned)
            })?;
            collected.shrunk += returned;
            if returned == 0 {
                break;
            }
        }
        // The file is cut off once the WAL is copied. If a reader needs older pages, a later checkpoint does
        // it.
        self.inner.writer.checkpoint()
    }
}

/// Returns true if so much of the file is free that it shrinks. A file that an older garth created does not:
/// it lacks the pages by which SQLite finds what leads to a page.
pub(super) fn is_due(conn: &Connection) -> DbResult<bool> {
    let Pages { used, free } = stored::pages(conn)?;
    if free < LEAST || free <= (used + free) / PART {
        return Ok(false);
    }
    let mode: i64 = conn.prepare_cached("PRAGMA auto_vacuum")?.query_row([], |row| row.get(0))?;
    Ok(mode == INCREMENTAL)
}

/// Returns some of the free pages to the disk, if much of the file is free. Returns their bytes.
fn return_pages(conn: &Connection, turn: &mut Turn) -> DbResult<u64> {
    if !is_due(conn)? {
        return Ok(0);
    }
    let before = stored::pages(conn)?.free;
    let mut statement = conn.prepare_cached("PRAGMA incremental_vacuum")?;
    let mut rows = statement.query([])?;
    let mut pages = 0;
    // SQLite returns a row after each page. What is done so far stays when the statement ends before.
    while pages < PAGES && rows.next()?.is_some() {
        pages += 1;
        if turn.is_over() {
            break;
        }
    }
    drop(rows);
    Ok(before.saturating_sub(stored::pages(conn)?.free))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use futures::executor::block_on;

    use super::*;
    use crate::engine::sqlite::maintain::sample_account::{SampleAccount, at, keeping_commits};
    use crate::fs::FileSystem as _;
    use crate::model::{Batch, ByteRange, Op};

    /// Bytes of a file: fewer than go to a pack file.
    const LEN: usize = 100_000;

    fn write(name: &str, n: u8) -> Op {
        // Content that no index reads and that no other file has.
        let content: Vec<u8> = [0, n].into_iter().cycle().take(LEN).collect();
        Op::write(at(name), content)
    }

    /// Writes 100 files, and removes all but 5 and the past with them.
    fn filled(account: SampleAccount) -> SampleAccount {
        for n in 0..100 {
            account.commit([write(&format!("/{n}"), n)]);
        }
        account.commit((5..100).map(|n| Op::remove(at(&format!("/{n}")))));
        account.retain(keeping_commits(0));
        account
    }

    /// Collects twice, and returns the bytes that were returned: the second run removes nodes.
    fn gc(account: &SampleAccount) -> u64 {
        (0..2).map(|_| account.collect_at_once().shrunk).sum()
    }

    fn file(account: &SampleAccount) -> PathBuf {
        account.folder.path().join("tree.db")
    }

    /// Returns the bytes of the database, with those that are not copied from the WAL yet.
    fn pages(account: &SampleAccount) -> u64 {
        let Pages { used, free } = account.fs.with_view(|view| stored::pages(view.conn)).unwrap();
        used + free
    }

    fn assert_sound(account: &SampleAccount) {
        account.assert_sound();
        for n in 0..5_u8 {
            let bytes = block_on(account.fs.read(&at(&format!("/{n}")), ByteRange::ALL)).unwrap();
            assert!(bytes.len() == LEN && bytes[1] == n);
        }
    }

    fn mode(file: &std::path::Path) -> i64 {
        let conn = Connection::open(file).unwrap();
        conn.query_row("PRAGMA auto_vacuum", [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn file_shrinks_when_the_past_is_removed() {
        let account = filled(SampleAccount::new());
        let before = pages(&account);
        assert!(before > 95 * LEN as u64, "{before}");
        let returned = gc(&account);
        assert!(returned > 80 * LEN as u64, "{returned}");
        let length = std::fs::metadata(file(&account)).unwrap().len();
        assert!(length < 3 << 20, "{length} of {before} bytes are left");
        assert_eq!(length, pages(&account));
        assert_sound(&account);
        assert!(!account.fs.with_view(|view| is_due(view.conn)).unwrap());
        assert_eq!(gc(&account), 0);
    }

    #[test]
    fn file_shrinks_while_others_read_and_write() {
        let account = filled(SampleAccount::new());
        let stop = Arc::new(AtomicBool::new(false));
        let work: Vec<_> = [Arc::clone(&account.fs), account.other()]
            .into_iter()
            .map(|fs| {
                let stop = Arc::clone(&stop);
                std::thread::spawn(move || {
                    let mut rounds = 0;
                    while rounds == 0 || !stop.load(Ordering::Relaxed) {
                        let bytes = block_on(fs.read(&at("/4"), ByteRange::ALL)).unwrap();
                        assert!(bytes.len() == LEN && bytes[1] == 4);
                        block_on(fs.commit(Batch::new([write("/own", 200)]))).unwrap();
                        rounds += 1;
                    }
                })
            })
            .collect();
        let (before, returned) = (pages(&account), gc(&account));
        stop.store(true, Ordering::Relaxed);
        work.into_iter().for_each(|thread| thread.join().unwrap());
        // Fewer than without the others, whose commits use free pages.
        assert!(returned > 60 * LEN as u64, "{returned} of {before}");
        assert_sound(&account);
    }

    #[cfg(debug_assertions)]
    #[test]
    fn interrupted_shrinking_goes_on() {
        use std::time::Duration;

        use crate::runtime::failpoint::{Failure, SHRINK};
        for after in [0, 3] {
            let account = filled(SampleAccount::new());
            account.collect_at_once();
            account.fs.inner.runtime.failpoints().arm(SHRINK, Failure::Io, after);
            assert!(account.fs.collect(Duration::ZERO).is_err());
            assert_sound(&account);
            gc(&account);
            assert_sound(&account);
            let length = std::fs::metadata(file(&account)).unwrap().len();
            assert!(length < 3 << 20, "{length}");
        }
    }

    #[test]
    fn account_of_older_garth_shrinks_as_a_backup() {
        let folder = tempfile::tempdir().unwrap();
        // The first page of the file has the mode.
        let conn = Connection::open(folder.path().join("tree.db")).unwrap();
        conn.execute_batch("PRAGMA journal_mode = WAL").unwrap();
        drop(conn);
        let account = filled(SampleAccount::open_in(folder));
        assert_eq!((gc(&account), mode(&file(&account))), (0, 0));
        assert!(pages(&account) > 95 * LEN as u64);
        assert_sound(&account);
        let copies = tempfile::tempdir().unwrap();
        let copy = copies.path().join("copy");
        account.fs.backup(&copy).unwrap();
        assert_eq!((mode(&file(&account)), mode(&copy.join("tree.db"))), (0, INCREMENTAL));
        assert!(std::fs::metadata(copy.join("tree.db")).unwrap().len() < 3 << 20);
    }
}
