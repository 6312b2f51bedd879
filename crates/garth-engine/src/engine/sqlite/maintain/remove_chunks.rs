//! Removes chunks that nothing refers to, and gives the space of unused pack files and ranges back to the
//! disk.

use std::fs;
use std::io;

use futures::executor::block_on;
use rusqlite::Connection;

use crate::engine::sqlite::maintain::step::{Times, Turn};
use crate::engine::sqlite::tables::{chunk_refs, packs};
use crate::engine::sqlite::{SqliteFs, chunk_store};
use crate::error::Result;
use crate::fs::FileSystem;
use crate::fs::store::Collected;
use crate::model::Timestamp;
use crate::runtime::disk::{failed, punch_hole};
use crate::sqlite::DbResult;

/// Rows fetched, or files examined, at a time.
const PIECE: usize = 256;

impl SqliteFs {
    /// Removes the chunks that nothing refers to.
    pub(super) fn remove_chunks(&self, now: Timestamp, collected: &mut Collected) -> Result<()> {
        loop {
            let runtime = self.inner.runtime.clone();
            let (chunks, bytes, more) = self.step(move |conn, turn| {
                let removed = remove_chunks(conn, now, turn)?;
                runtime.failpoints().pass("gc-sweep")?;
                Ok(removed)
            })?;
            collected.chunks += chunks;
            collected.bytes += bytes;
            if !more {
                return Ok(());
            }
        }
    }

    /// Dooms files in the pack folder that have no row.
    pub(super) fn doom_orphans(&self) -> Result<()> {
        self.each_pack_file(|files| {
            // On a reader first: mostly there are none, and the writer is not needed.
            let files = self.with_view(|view| chunk_store::orphan_files(view.conn, files))?;
            if files.is_empty() {
                return Ok(());
            }
            let files: Vec<String> = files.into_iter().cloned().collect();
            self.step(move |conn, _| {
                for file in chunk_store::orphan_files(conn, &files)? {
                    // As old as any: no row has referred to it.
                    packs::insert_doomed(conn, file)?;
                }
                Ok(())
            })
        })
    }

    /// Gives the space of unused pack files and ranges back to the disk.
    pub(super) fn give_back(&self, times: Times, collected: &mut Collected) -> Result<()> {
        // Files and ranges that were marked until then are beyond the grace period.
        let before = times.removed_before.0;
        while self.remove_packs(before, collected)? {}
        while self.punch_holes(before, collected)? {}
        Ok(())
    }

    /// Makes the changes durable that left these files or ranges unused. After they were listed: some are due
    /// as soon as they are unused, and a loss of power could bring rows back that refer to removed bytes.
    fn settle_unused<T>(&self, listed: &[T]) -> Result<()> {
        if listed.is_empty() { Ok(()) } else { block_on(self.sync()).map(drop) }
    }

    /// Removes some of the empty pack files. Returns true if there were any.
    fn remove_packs(&self, before: i64, collected: &mut Collected) -> Result<bool> {
        let packs = self.with_view(|view| packs::doomed(view.conn, before, PIECE))?;
        self.settle_unused(&packs)?;
        let (failpoints, mut gone) = (self.inner.runtime.failpoints(), Vec::new());
        for (_, file, size) in packs {
            failpoints.pass("gc-unlink")?;
            match fs::remove_file(self.inner.packs.folder().join(&file)) {
                Ok(()) => (collected.packs, collected.freed) = (collected.packs + 1, collected.freed + size),
                // Removed by an earlier run that did not get to its row.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed("an unused pack file cannot be removed")(error)),
            }
            // This process may have it open, which would keep its space taken.
            self.inner.packs.close(&file);
            gone.push(file);
        }
        if gone.is_empty() {
            return Ok(false);
        }
        failpoints.pass("gc-forget")?;
        // What one step does not get to is found again.
        self.step(move |conn, turn| {
            for file in gone {
                while !turn.is_over() && !packs::remove(conn, &file, PIECE)? {}
            }
            Ok(())
        })?;
        Ok(true)
    }

    /// Gives some of the unused ranges of pack files back. Returns true if there were any.
    fn punch_holes(&self, before: i64, collected: &mut Collected) -> Result<bool> {
        let holes = self.with_view(|view| packs::holes(view.conn, before, PIECE))?;
        self.settle_unused(&holes)?;
        let mut punched = Vec::new();
        for hole in holes {
            self.inner.runtime.failpoints().pass("gc-punch")?;
            if let Some(file) = hole.file.as_ref().filter(|_| !hole.is_used) {
                let path = self.inner.packs.folder().join(file);
                let opened = fs::File::options().write(true).open(path);
                let done = opened.and_then(|file| punch_hole(&file, hole.pos, hole.len));
                collected.freed += given_back(done, hole.len)?;
            }
            punched.push(hole);
        }
        if punched.is_empty() {
            return Ok(false);
        }
        self.step(move |conn, _| {
            for hole in punched {
                packs::remove_hole(conn, &hole)?;
            }
            Ok(())
        })?;
        Ok(true)
    }

    /// Passes the names in the pack folder to `take`, some at a time. Skips names that are not UTF-8: names
    /// that garth gives are ASCII.
    pub(crate) fn each_pack_file(&self, mut take: impl FnMut(&[String]) -> Result<()>) -> Result<()> {
        let failed = failed("the pack files cannot be listed");
        let entries = match fs::read_dir(self.inner.packs.folder()) {
            // No upload has needed a pack file yet.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other.map_err(&failed)?,
        };
        let mut files = Vec::with_capacity(PIECE);
        for entry in entries {
            files.extend(entry.map_err(&failed)?.file_name().into_string().ok());
            if files.len() == PIECE {
                take(&files)?;
                files.clear();
            }
        }
        take(&files)
    }
}

#[cfg(test)]
impl SqliteFs {
    /// Returns all names in the folder of pack files.
    pub(crate) fn pack_files(&self) -> Result<Vec<String>> {
        let mut all = Vec::new();
        self.each_pack_file(|files| {
            all.extend_from_slice(files);
            Ok(())
        })?;
        Ok(all)
    }
}

/// Returns the bytes that a range has given back, which is then forgotten.
fn given_back(done: io::Result<()>, len: u64) -> Result<u64> {
    match done {
        Ok(()) => Ok(len),
        Err(error) => match error.kind() {
            // Removed with its file; or this filesystem cannot punch holes, so that a pack gives its space
            // back only with its file. If the range stayed listed, it would wait for ever, and a collection
            // would be due each minute.
            io::ErrorKind::NotFound | io::ErrorKind::Unsupported => Ok(0),
            _ => Err(failed("a pack file cannot give space back")(error)),
        },
    }
}

/// Returns the number of chunks removed, their bytes, and true if there are more.
pub(super) fn remove_chunks(
    conn: &Connection,
    now: Timestamp,
    turn: &mut Turn,
) -> DbResult<(u64, u64, bool)> {
    let (mut chunks, mut bytes) = (0, 0);
    while let Some(id) = chunk_refs::any_unused(conn)? {
        if let Some(len) = chunk_store::remove_chunk(conn, id, now)? {
            (chunks, bytes) = (chunks + 1, bytes + len);
        }
        if turn.is_over() {
            return Ok((chunks, bytes, true));
        }
    }
    Ok((chunks, bytes, false))
}

#[cfg(all(test, debug_assertions))]
#[allow(clippy::unwrap_used, reason = "the helpers of tests stop at what must not happen")]
mod tests {
    use super::*;
    use crate::engine::sqlite::maintain::sample_account::{GRACE, SampleAccount, at};
    use crate::error::ErrorKind;
    use crate::model::{Body, ByteRange, Op};
    use crate::runtime::failpoint::Failure;

    /// Longer than a chunk, so that it goes to a pack file.
    const LONG: usize = 3 << 20;

    /// Returns content whose chunks differ from each other.
    fn content(byte: u8) -> Vec<u8> {
        (0..LONG).map(|at| if at % (1 << 20) == 0 { (at >> 20) as u8 } else { byte }).collect()
    }

    fn discard(account: &SampleAccount, upload: Body) -> Result<()> {
        match upload {
            Body::Staged(upload) => block_on(account.fs.discard(&at("/a"), &upload)),
            body => panic!("{body:?} is not staged"),
        }
    }

    /// Discards an upload without giving its file back to the disk.
    fn discard_half(account: &SampleAccount) {
        let upload = account.upload("/a", content(1));
        account.fs.runtime().failpoints().arm("gc-unlink", Failure::Io, 0);
        discard(account, upload).unwrap_err();
    }

    fn assert_stored(account: &SampleAccount, path: &str, byte: u8) {
        let range = ByteRange::ALL;
        assert!(block_on(account.fs.read(&at(path), range)).unwrap() == content(byte), "{path}");
        account.assert_sound();
    }

    #[test]
    fn pack_with_a_reused_id_keeps_its_content() {
        for point in ["gc-unlink", "gc-forget", "gc-punch"] {
            let account = SampleAccount::new();
            let upload = account.upload("/a", content(1));
            account.fs.runtime().failpoints().arm(point, Failure::Io, 0);
            let _ = discard(&account, upload);
            account.fs.runtime().failpoints().disarm();
            let body = account.upload("/b", content(2));
            account.commit([Op::write(at("/b"), body)]);
            for _ in 0..2 {
                account.collect();
                account.clock.advance(GRACE);
                assert_stored(&account, "/b", 2);
            }
            assert_eq!(account.count("SELECT count(*) FROM hole"), 0, "{point}");
        }
    }

    #[test]
    fn holes_of_an_earlier_pack_remove_no_content() {
        let account = SampleAccount::new();
        let sql = |sql: &'static str| {
            block_on(account.fs.inner.writer.transact(false, move |conn| Ok(conn.execute_batch(sql)?)))
                .unwrap();
        };
        // As versions left them that removed the row of a pack before its holes.
        sql("INSERT INTO hole (pack, pos, len, freed_at) VALUES (1, 0, 3145728, 0), (7, 0, 10, 0)");
        let body = account.upload("/b", content(2));
        account.commit([Op::write(at("/b"), body)]);
        account.collect();
        assert_stored(&account, "/b", 2);
        // In the beginning, in the middle and at the end of chunks.
        sql(
            "INSERT INTO hole (pack, pos, len, freed_at) VALUES (1, 0, 1, 0), (1, 5, 3145728, 0), (1, 3145727, 9, 0)",
        );
        account.collect();
        assert_stored(&account, "/b", 2);
        assert_eq!(account.count("SELECT count(*) FROM hole"), 0);
    }

    #[test]
    fn late_collector_removes_no_row_of_a_new_pack() {
        let account = SampleAccount::new();
        discard_half(&account);
        let read =
            |sql: fn(&Connection) -> DbResult<()>| account.fs.with_view(|view| sql(view.conn)).unwrap();
        let doomed = account.fs.with_view(|view| packs::doomed(view.conn, i64::MAX, 9)).unwrap();
        let holes = account.fs.with_view(|view| packs::holes(view.conn, i64::MAX, 9)).unwrap();
        assert!(!doomed.is_empty() && !holes.is_empty());
        // Another collector is done before this one writes.
        account.collect();
        let body = account.upload("/b", content(2));
        account.commit([Op::write(at("/b"), body)]);
        let same = account.count("SELECT id FROM pack");
        assert!(doomed.iter().any(|(id, ..)| *id == same.cast_signed()), "the id is given again");
        let late = account.fs.inner.writer.transact(false, move |conn| {
            packs::add_hole(conn, same.cast_signed(), 0, 9, Timestamp(0))?;
            for (_, file, _) in doomed {
                packs::remove(conn, &file, PIECE)?;
            }
            holes.iter().try_for_each(|hole| packs::remove_hole(conn, hole))
        });
        block_on(late).unwrap();
        assert_eq!(account.count("SELECT count(*) FROM hole"), 1);
        read(|conn| packs::all_files(conn).map(|packs| assert_eq!(packs.len(), 1)));
        account.collect();
        assert_stored(&account, "/b", 2);
    }

    #[test]
    fn uploads_beside_discarded_ones_keep_their_content() {
        const ROUNDS: u8 = 30;
        let account = SampleAccount::new();
        std::thread::scope(|scope| {
            for thread in 0..4_u8 {
                let account = &account;
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let byte = 4 * round + thread;
                        let path = format!("/{byte}");
                        let upload = account.upload(&path, content(byte));
                        if thread % 2 == 0 {
                            discard(account, upload).unwrap();
                        } else {
                            account.commit([Op::write(at(&path), upload)]);
                        }
                    }
                });
            }
        });
        account.collect();
        for byte in (0..4 * ROUNDS).filter(|byte| byte % 2 == 1) {
            assert_eq!(
                block_on(account.fs.read(&at(&format!("/{byte}")), ByteRange::ALL)).unwrap(),
                content(byte)
            );
        }
        account.assert_sound();
    }

    #[test]
    fn range_without_holes_in_files_waits_for_nothing() {
        let done = |kind: io::ErrorKind| given_back(Err(kind.into()), 5).map_err(|error| error.kind());
        assert_eq!(given_back(Ok(()), 5).unwrap(), 5);
        assert_eq!([io::ErrorKind::Unsupported, io::ErrorKind::NotFound].map(done), [Ok(0), Ok(0)]);
        // Tried again by the next collection.
        assert_eq!(done(io::ErrorKind::StorageFull), Err(ErrorKind::NoSpace));
        assert_eq!(done(io::ErrorKind::Other), Err(ErrorKind::Io));
    }

    #[test]
    fn pack_with_many_holes_is_removed_in_steps() {
        let account = SampleAccount::new();
        discard_half(&account);
        let many = account.fs.inner.writer.transact(false, |conn| {
            (0..10_000).try_for_each(|pos| packs::add_hole(conn, 1, 8 * pos, 4, Timestamp(0)))
        });
        block_on(many).unwrap();
        assert_eq!(account.collect().packs, 1);
        assert_eq!(account.count("SELECT (SELECT count(*) FROM hole) + (SELECT count(*) FROM pack)"), 0);
    }

    #[test]
    fn unused_bytes_are_removed_after_a_sync_that_follows_their_list() {
        let account = SampleAccount::new();
        let (syncs, mut collected) = (|| account.count("SELECT syncs FROM head"), Collected::default());
        let before = syncs();
        let mut remove = || {
            assert!(!account.fs.punch_holes(0, &mut collected).unwrap());
            account.fs.remove_packs(0, &mut collected).unwrap()
        };
        assert!(!remove());
        assert_eq!(syncs(), before, "nothing is due");
        // Due at once, and perhaps not durable.
        account.fs.step(|conn, _| packs::insert_doomed(conn, "file.pack")).unwrap();
        assert!(remove());
        assert_eq!(syncs(), before + 1);
        account.fs.step(|conn, _| packs::add_hole(conn, 7, 0, 1, Timestamp(0))).unwrap();
        assert!(account.fs.punch_holes(0, &mut collected).unwrap());
        assert_eq!(syncs(), before + 2);
    }
}
