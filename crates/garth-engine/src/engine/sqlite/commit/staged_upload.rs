//! Uploads. Content goes to a pack file next to the database before its commit, so that a slow upload holds
//! no lock and memory does not grow with its size. An upload costs one fsync of its file. Content of up to
//! one chunk stays in memory and goes into the database. Why: `docs/decisions/packs-beside-the-database.md`.

use std::fmt;
use std::fs::{self, File};
use std::io::Write as _;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use rusqlite::Connection;

use crate::engine::planner::{Staged, sum_of};
use crate::engine::relational::room::full;
use crate::engine::relational::uploads::{CHUNK, LEASE, broken, collected, too_long};
use crate::engine::sqlite::chunk_store::Packs;
use crate::engine::sqlite::commit::writer::Writer;
use crate::engine::sqlite::tables::staged::{self, pack_name};
use crate::engine::sqlite::tables::{chunks, packs};
use crate::error::{Error, ErrorKind, Result};
use crate::fs::Upload;
use crate::model::{MAX_FILE, StagedBody, Timestamp};
use crate::runtime::Runtime;
use crate::runtime::disk;
use crate::sqlite::DbResult;

/// Bytes after which an upload is synced while it arrives, so that the last sync is short: one of many GiB
/// would keep other uploads waiting.
const SYNCED: u64 = 64 << 20;

/// A chunk of the upload that is in the pack.
struct PlacedChunk {
    sum: Vec<u8>,
    pos: u64,
    len: u64,
}

/// An upload in progress.
pub(crate) struct SqliteUpload {
    writer: Arc<Writer>,
    id: u128,
    /// Key of the owner. No other owner can use the upload.
    owner: String,
    held: BytesMut,
    pack: Option<Pack>,
    placed: Vec<PlacedChunk>,
    /// Bytes with which it is counted as arriving: those of the pack, or as many as are expected.
    counted: u64,
    /// True once the pack may exist.
    begun: bool,
    /// True if a step failed or its future was dropped: the content of the pack is unknown.
    broken: bool,
    /// True if the upload is stored, or may be: dropping it removes nothing.
    finished: bool,
}

/// Pack file of an upload that is larger than one chunk.
struct Pack {
    name: String,
    file: Arc<File>,
    size: u64,
    /// Bytes that were not synced yet.
    unsynced: u64,
    /// End of the lease.
    lease: Timestamp,
}

impl fmt::Debug for SqliteUpload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteUpload").finish_non_exhaustive()
    }
}

fn failed(error: std::io::Error) -> Error {
    disk::failed("the upload could not be written")(error)
}

impl SqliteUpload {
    pub(crate) fn new(writer: Arc<Writer>, owner: String) -> Result<Self> {
        let id = u128::from_be_bytes(writer.runtime().env().random()?);
        writer.uploads().begin(&owner);
        writer.runtime().counters().uploads_open.add(1);
        Ok(Self {
            writer,
            id,
            owner,
            held: BytesMut::new(),
            pack: None,
            placed: Vec::new(),
            counted: 0,
            begun: false,
            broken: false,
            finished: false,
        })
    }

    fn runtime(&self) -> &Runtime {
        self.writer.runtime()
    }

    /// Returns the end of a lease that begins now.
    fn lease(&self) -> Timestamp {
        self.runtime().env().now().plus_seconds(LEASE)
    }

    /// Creates the pack, with a lease that keeps `gc` from it.
    async fn begin_pack(&mut self) -> Result<&mut Pack> {
        if self.pack.is_none() {
            let (id, owner, lease) = (self.id, self.owner.clone(), self.lease());
            // The row comes before the file: `gc` takes a pack file without a row for an orphan.
            self.writer.transact(false, move |conn| staged::begin(conn, id, &owner, lease)).await?;
            // The name is derived from the id, so `gc` knows the file of an upload from its row.
            let name = pack_name(id);
            self.begun = true;
            let (packs, path) = (Arc::clone(self.writer.packs()), self.writer.packs().folder().join(&name));
            let create = move || {
                packs.make_folder().map_err(failed)?;
                File::options().write(true).create_new(true).open(path).map_err(failed)
            };
            let created = self.runtime().upload(create).await;
            let file = Arc::new(created.map_err(|error| self.writer.explained(error))?);
            self.pack = Some(Pack { name, file, size: 0, unsynced: 0, lease });
        }
        self.pack.as_mut().ok_or_else(|| Error::new(ErrorKind::Io, "the upload has no file"))
    }

    /// Renews the lease once half of it is over: a write transaction for each chunk would cost too much.
    async fn renew(&mut self) -> Result<()> {
        let (id, lease) = (self.id, self.lease());
        let Some(pack) = &mut self.pack else { return Ok(()) };
        if lease < pack.lease.plus_seconds(LEASE / 2) {
            return Ok(());
        }
        pack.lease = lease;
        match self.writer.transact(false, move |conn| staged::renew(conn, id, lease)).await? {
            true => Ok(()),
            false => Err(collected()),
        }
    }

    /// Begins a step. Only its success clears `broken`, so a future dropped half-way leaves it set.
    fn step(&mut self) -> Result<()> {
        if let Some(refusal) = self.writer.refusal() {
            return Err(refusal);
        }
        if self.broken {
            return Err(broken());
        }
        self.broken = true;
        Ok(())
    }

    /// Counts `length` more bytes, or fails if the account has no room for them beside the other uploads in
    /// progress.
    fn take_room(&mut self, length: usize) -> Result<()> {
        let arrived = self.pack.as_ref().map_or(0, |pack| pack.size) + length as u64;
        let bytes = self.counted.max(arrived);
        let fits = self.writer.fit_upload(&self.owner, self.counted, bytes)?;
        self.counted = if fits { bytes } else { 0 };
        if fits { Ok(()) } else { Err(full()) }
    }

    /// Moves one chunk from memory to the pack.
    async fn flush_chunk(&mut self, length: usize) -> Result<()> {
        self.take_room(length)?;
        let data = self.held.split_to(length).freeze();
        // Before the write: content of an upload that `gc` has collected would go to a deleted file.
        self.renew().await?;
        self.begin_pack().await?;
        self.runtime().failpoints().pass("stage-write")?;
        let syncs = !self.runtime().fault().skips_every_sync();
        let pack = self.begin_pack().await?;
        pack.unsynced += length as u64;
        let (file, syncs) = (Arc::clone(&pack.file), syncs && pack.unsynced >= SYNCED);
        if syncs {
            pack.unsynced = 0;
        }
        // Not on the thread of the caller, which serves other connections: a write may wait for the disk.
        let write = move || {
            (&*file).write_all(&data).map_err(failed)?;
            if syncs {
                file.sync_data().map_err(failed)?;
            }
            // Content that needs a file is large, so its last chunk is shared as well, however short.
            Ok(sum_of(&data, true))
        };
        let sum = self.runtime().upload(write).await?;
        let pack = self.begin_pack().await?;
        let placed = PlacedChunk { sum, pos: pack.size, len: length as u64 };
        pack.size += length as u64;
        self.placed.push(placed);
        Ok(())
    }

    fn count(&mut self, bytes: u64) {
        self.writer.uploads().count(&self.owner, self.counted, bytes);
        self.counted = bytes;
    }

    fn size(&self) -> u64 {
        self.pack.as_ref().map_or(0, |pack| pack.size) + self.held.len() as u64
    }
}

#[async_trait]
impl Upload for SqliteUpload {
    fn expects(&mut self, length: u64) {
        let arrived = self.pack.as_ref().map_or(0, |pack| pack.size);
        self.count(length.min(MAX_FILE).max(arrived));
    }

    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        // Before `step`: a refused write leaves the upload usable.
        if self.size() + bytes.len() as u64 > MAX_FILE {
            return Err(too_long());
        }
        self.step()?;
        for part in bytes.chunks(CHUNK) {
            self.held.extend_from_slice(part);
            // The last chunk stays in memory: content that fits into it needs no file.
            while self.held.len() > CHUNK {
                self.flush_chunk(CHUNK).await?;
            }
        }
        self.broken = false;
        Ok(())
    }

    async fn finish(mut self: Box<Self>) -> Result<StagedBody> {
        self.step()?;
        let body = StagedBody { id: self.id, size: self.size() };
        if self.pack.is_none() && !self.held.is_empty() {
            // It goes to the database now, whether a commit uses it or is refused.
            let rest = self.held.len();
            self.take_room(rest)?;
        }
        if self.pack.is_some() && !self.held.is_empty() {
            let rest = self.held.len();
            self.flush_chunk(rest).await?;
        }
        let pack = match &self.pack {
            None => None,
            Some(pack) => {
                self.runtime().failpoints().pass("stage-sync")?;
                if !self.runtime().fault().skips_every_sync() {
                    let (file, packs) = (Arc::clone(&pack.file), Arc::clone(self.writer.packs()));
                    // The file and its name are on disk before the database refers to them.
                    let sync = move || {
                        file.sync_all().map_err(failed)?;
                        disk::sync_dir(packs.folder()).map_err(failed)
                    };
                    let synced = self.runtime().upload(sync).await;
                    synced.map_err(|error| self.writer.explained(error))?;
                }
                Some((pack.name.clone(), pack.size))
            }
        };
        let finished = FinishedUpload {
            id: self.id,
            owner: self.owner.clone(),
            now: self.runtime().env().now(),
            pack,
            placed: std::mem::take(&mut self.placed),
            short: std::mem::take(&mut self.held).freeze(),
        };
        // From here on the outcome can be unknown, also to a caller that drops the future: the rows may be
        // committed, so the file has to stay.
        self.finished = true;
        let (packs, runtime) = (Arc::clone(self.writer.packs()), self.runtime().clone());
        let keep = move |conn: &Connection| {
            finished.keep(conn, &packs)?;
            Ok(runtime.failpoints().pass("stage-keep")?)
        };
        let kept = self.writer.transact(true, keep).await;
        // Any other error means that the transaction was rolled back: no row refers to the file, and Drop
        // removes it.
        if kept.as_ref().is_err_and(|error| !matches!(error.kind(), ErrorKind::Io | ErrorKind::Poisoned)) {
            self.finished = false;
        }
        kept?;
        let counters = self.runtime().counters();
        counters.uploads_finished.add(1);
        counters.upload_bytes.add(body.size);
        Ok(body)
    }
}

impl Drop for SqliteUpload {
    fn drop(&mut self) {
        self.writer.uploads().end(&self.owner, self.counted);
        self.runtime().counters().uploads_open.sub(1);
        if self.finished || !self.begun {
            return;
        }
        // If the file cannot be removed now, or is still to be created by a thread, `gc` removes it later: it
        // knows the file by its row.
        if fs::remove_file(self.writer.packs().folder().join(pack_name(self.id))).is_ok() {
            let id = self.id;
            self.writer.transact_later(move |conn| staged::forget(conn, id));
        }
    }
}

/// A finished upload whose bytes are synced, to be recorded in the database.
struct FinishedUpload {
    id: u128,
    owner: String,
    now: Timestamp,
    pack: Option<(String, u64)>,
    placed: Vec<PlacedChunk>,
    short: Bytes,
}

impl FinishedUpload {
    fn keep(self, conn: &Connection, store: &Packs) -> DbResult<()> {
        let mut pieces = Staged(Vec::new());
        let pack_id = match &self.pack {
            None => None,
            Some((name, size)) => Some(packs::insert(conn, name, *size)?),
        };
        let mut holes: Vec<Range<u64>> = Vec::new();
        for chunk in &self.placed {
            // A chunk that is stored already is not needed in this pack: its range becomes a hole, and
            // neighbours are one hole.
            let mut shared = true;
            let id = store.store(conn, &chunk.sum, |id, sum| {
                shared = false;
                chunks::insert_in_pack(conn, id, sum, pack_id, (chunk.pos, chunk.len))
            })?;
            pieces.0.push((id, chunk.len));
            match holes.last_mut() {
                _ if !shared => {}
                Some(hole) if hole.end == chunk.pos => hole.end += chunk.len,
                _ => holes.push(chunk.pos..chunk.pos + chunk.len),
            }
        }
        if let Some(pack) = pack_id {
            for hole in holes {
                // As old as any: no row has ever referred to the range, so no read can need it.
                packs::add_hole(conn, pack, hole.start, hole.end - hole.start, Timestamp(0))?;
            }
            // All chunks may have been stored before.
            packs::doom_if_empty(conn, pack, Timestamp(0))?;
        }
        if !self.short.is_empty() {
            pieces.0.push((store.store_bytes(conn, &self.short)?, self.short.len() as u64));
        }
        // A pack whose lease ran out is deleted or about to be; the row is missing then.
        let lease = self.now.plus_seconds(LEASE);
        match staged::finish(conn, self.id, &self.owner, &pieces, lease, self.pack.is_some())? {
            true => Ok(()),
            false => Err(collected().into()),
        }
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use std::sync::{Barrier, Mutex, mpsc};

    use futures::executor::block_on;
    use futures::future::poll_immediate;

    use super::*;
    use crate::engine::sqlite::SqliteFs;
    use crate::env::Env;
    use crate::fs::FileSystem;
    use crate::model::{At, Ino};
    use crate::runtime::UPLOAD_THREADS;
    use crate::runtime::failpoint::Failure;
    use crate::threads::lock::lock;
    use crate::threads::turns::AT_ONCE;

    #[test]
    fn upload_with_failed_sync_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let fs = SqliteFs::open(folder.path(), Env::system(), crate::rule::sample::registry()).unwrap();
        let mut upload = block_on(fs.stage(&At::Node(Ino::ROOT))).unwrap();
        block_on(upload.write(vec![7; 2 * CHUNK].into())).unwrap();
        fs.runtime().failpoints().arm("stage-sync", Failure::Io, 0);
        assert!(block_on(upload.finish()).unwrap_err().is(ErrorKind::Io));
        assert_eq!(fs.pack_files().unwrap(), [""; 0]);
        // Tasks run in the order in which they were queued.
        block_on(fs.sync()).unwrap();
        let rows = fs
            .inner
            .pool
            .with(|conn| Ok(conn.query_row("SELECT count(*) FROM staged", [], |row| row.get::<_, u64>(0))?));
        assert_eq!(rows.unwrap(), 0);
    }

    #[test]
    fn file_is_written_on_other_threads() {
        let folder = tempfile::tempdir().unwrap();
        let fs = SqliteFs::open(folder.path(), Env::system(), crate::rule::sample::registry()).unwrap();
        let mut upload = block_on(fs.stage(&At::Node(Ino::ROOT))).unwrap();
        block_on(upload.write(vec![7; 2 * CHUNK].into())).unwrap();
        let barrier = Arc::new(Barrier::new(AT_ONCE + 1));
        let mut busy = [(); AT_ONCE].map(|()| {
            let barrier = Arc::clone(&barrier);
            Box::pin(fs.runtime().upload(move || {
                barrier.wait();
                Ok(())
            }))
        });
        for job in &mut busy {
            assert!(block_on(poll_immediate(job)).is_none());
        }
        // While all turns of the account are taken, a write waits and leaves the thread of its caller free.
        let mut write = upload.write(vec![8; 2 * CHUNK].into());
        assert!(block_on(poll_immediate(&mut write)).is_none());
        barrier.wait();
        block_on(write).unwrap();
        assert_eq!(block_on(upload.finish()).unwrap().size, 4 * CHUNK as u64);
    }

    #[test]
    fn uploads_of_one_account_leave_threads_to_others() {
        let folder = tempfile::tempdir().unwrap();
        let runtime = Runtime::new(Env::system());
        let open = |account: &str| {
            let (folder, runtime) = (folder.path().join(account), runtime.of_account(account));
            fs::create_dir(&folder).unwrap();
            SqliteFs::open_on(&folder, &runtime, crate::rule::sample::registry()).unwrap()
        };
        let (greedy, other) = (open("greedy"), open("other"));
        let (start, started) = mpsc::channel::<()>();
        let started = Arc::new(Mutex::new(started));
        let mut waiting = [(); 2 * UPLOAD_THREADS].map(|()| {
            let started = Arc::clone(&started);
            Box::pin(greedy.runtime().upload(move || {
                // Ends when the test has dropped the sender.
                let _ = lock(&started).recv();
                Ok(())
            }))
        });
        for job in &mut waiting {
            assert!(block_on(poll_immediate(job)).is_none());
        }
        let mut upload = block_on(other.stage(&At::Node(Ino::ROOT))).unwrap();
        block_on(upload.write(vec![7; 2 * CHUNK].into())).unwrap();
        assert_eq!(block_on(upload.finish()).unwrap().size, 2 * CHUNK as u64);
        drop(start);
        waiting.into_iter().for_each(|job| block_on(job).unwrap());
    }

    #[test]
    fn upload_with_refused_record_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let fs = SqliteFs::open(folder.path(), Env::system(), crate::rule::sample::registry()).unwrap();
        let mut upload = block_on(fs.stage(&At::Node(Ino::ROOT))).unwrap();
        block_on(upload.write(vec![7; 2 * CHUNK].into())).unwrap();
        // As after a lease that ran out.
        block_on(fs.inner.writer.transact(false, |conn| Ok(conn.execute("DELETE FROM staged", [])?)))
            .unwrap();
        assert!(block_on(upload.finish()).unwrap_err().is(ErrorKind::NotFound));
        assert_eq!(fs.pack_files().unwrap(), [""; 0]);
    }
}
