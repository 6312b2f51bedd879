//! Stored bytes: chunks in the database, or in pack files next to it. Each chunk is compared with its
//! checksum on every read: damage becomes an error, never wrong bytes.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use bytes::Bytes;
use rusqlite::Connection;

use crate::engine::planner::{DEDUP_FROM, MAX_EXTENT, SHORT_SUM, Staged, Stored as Known, sum_of};
use crate::engine::sqlite::schema::SUBJECT;
use crate::engine::sqlite::tables::chunks::{self, Location, RemovedChunk, StoredChunk, damaged};
use crate::engine::sqlite::tables::{chunk_refs, head, origins, packs, staged};
use crate::error::ErrorKind;
use crate::model::Timestamp;
use crate::runtime::budget::{IdleBudget, IdleOwner, Opened};
use crate::runtime::disk::{dir_of, failed, new_dir, sync_dir};
use crate::sqlite::DbResult;
use crate::threads::lock::lock;

/// Folder of the pack files in an account's folder.
pub(crate) const PACKS: &str = "packs";
/// Most pack files that one account holds open for reading: bounds descriptors.
const OPEN_PACKS: usize = 64;

/// The pack files of one account, opened on demand.
pub(crate) struct Packs {
    folder: PathBuf,
    /// True once the folder is known to exist durably.
    ready: AtomicBool,
    budget: Arc<IdleBudget>,
    open: Mutex<HashMap<String, Arc<Pack>>>,
    used: AtomicU64,
}

struct Pack {
    file: File,
    _opened: Opened,
}

impl fmt::Debug for Packs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packs").finish_non_exhaustive()
    }
}

/// Returns true if bytes match a stored checksum. An empty checksum matches none, or it would match
/// everything.
fn sum_matches(data: &[u8], sum: &[u8]) -> bool {
    !sum.is_empty() && blake3::hash(data).as_bytes().starts_with(sum)
}

impl Packs {
    pub(crate) fn new(account: &Path, budget: &Arc<IdleBudget>) -> Arc<Self> {
        let packs = Arc::new(Self {
            folder: account.join(PACKS),
            ready: AtomicBool::new(false),
            budget: Arc::clone(budget),
            open: Mutex::default(),
            used: AtomicU64::new(0),
        });
        let owner: Weak<dyn IdleOwner> = Arc::downgrade(&packs) as _;
        budget.register(owner);
        packs
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Creates the folder durably if it is missing. Fails if the folder of the account is missing: the
    /// account was deleted, and nothing would refer to a new one.
    pub(crate) fn make_folder(&self) -> std::io::Result<()> {
        if !self.ready.load(Ordering::Acquire) {
            if let Err(error) = new_dir(&self.folder)
                && error.kind() != std::io::ErrorKind::AlreadyExists
            {
                return Err(error);
            }
            sync_dir(dir_of(&self.folder))?;
            // Only after the sync: a second caller must not use a folder that a power cut may still remove.
            self.ready.store(true, Ordering::Release);
        }
        Ok(())
    }

    fn file(&self, name: &str) -> DbResult<Arc<Pack>> {
        if let Some(pack) = lock(&self.open).get(name) {
            return Ok(Arc::clone(pack));
        }
        // Counted before the file is opened, so that the budget can make room for it.
        let _opened = self.budget.open();
        let file = File::open(self.folder.join(name)).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                damaged("is missing: its pack file does not exist").with_source(error)
            }
            // Out of descriptors or permission denied: no damage.
            _ => failed("a pack file cannot be opened")(error),
        })?;
        let pack = Arc::new(Pack { file, _opened });
        let mut open = lock(&self.open);
        if open.len() >= OPEN_PACKS {
            self.clear(&mut open);
        }
        self.used.store(self.budget.add(), Ordering::Relaxed);
        if open.insert(name.to_owned(), Arc::clone(&pack)).is_some() {
            // Another thread was faster.
            self.budget.remove(1);
        }
        drop(open);
        self.budget.enforce();
        Ok(pack)
    }

    /// Closes all files. Readers in the middle of a chunk keep theirs open.
    fn clear(&self, open: &mut HashMap<String, Arc<Pack>>) {
        self.budget.remove(open.len());
        open.clear();
    }

    /// Closes a pack file that is removed: while it is open, its space stays taken.
    pub(crate) fn close(&self, name: &str) {
        if lock(&self.open).remove(name).is_some() {
            self.budget.remove(1);
        }
    }

    /// Returns the bytes of a chunk, checked.
    pub(crate) fn chunk(&self, conn: &Connection, id: u64) -> DbResult<Bytes> {
        let copy = |chunk: &StoredChunk<'_>| self.with_chunk(chunk, |data| Ok(Bytes::copy_from_slice(data)));
        Ok(chunks::with(conn, id, copy)?.ok_or_else(|| damaged("is missing"))?)
    }

    /// Looks up a hash. The chunk is read, so that new bytes never refer to a damaged one.
    pub(crate) fn stored(&self, conn: &Connection, hash: &[u8]) -> DbResult<Known> {
        let Some(id) = chunks::by_hash(conn, hash)? else { return Ok(Known::Nothing) };
        match self.chunk(conn, id).map_err(|error| error.describe(&SUBJECT)) {
            Ok(_) => Ok(Known::Sound(id)),
            Err(error) if error.is(ErrorKind::Corrupt) => Ok(Known::Damaged),
            // The read failed, which says nothing about the bytes.
            Err(error) => Err(error.into()),
        }
    }

    /// Returns bytes `from..to` of a file, now or after a commit. `to` is within the file. Holes are zeros.
    pub(crate) fn content(
        &self,
        conn: &Connection,
        ino: u64,
        as_of: Option<u64>,
        from: u64,
        to: u64,
    ) -> DbResult<Bytes> {
        if from == to {
            return Ok(Bytes::new());
        }
        let mut bytes = vec![0; usize::try_from(to - from).unwrap_or(usize::MAX)];
        let mut left = to - from;
        chunks::each_in_range(conn, ino, as_of, (from, to), &mut |part, chunk| {
            let at = (part.off - from) as usize;
            self.copy(chunk, part.skip as usize, &mut bytes[at..at + part.len as usize])?;
            left = left.saturating_sub(part.len);
            // The range is covered: further rows would not change it.
            Ok(left > 0)
        })?;
        Ok(bytes.into())
    }

    /// Copies the bytes of a chunk from `skip` on, checked.
    fn copy(&self, chunk: &StoredChunk<'_>, skip: usize, into: &mut [u8]) -> DbResult<()> {
        if skip == 0 && chunk.len == into.len() {
            // A complete chunk, the common case: no copy in between.
            return self.read_into(chunk, into);
        }
        self.with_chunk(chunk, |data| {
            let data =
                data.get(skip..skip + into.len()).ok_or_else(|| damaged("is shorter than its extent"))?;
            into.copy_from_slice(data);
            Ok(())
        })
    }

    /// Returns `len` bytes of a chunk from `skip` on, checked.
    pub(crate) fn part(&self, chunk: &StoredChunk<'_>, skip: u64, len: u64) -> DbResult<Bytes> {
        let (skip, len) = (skip as usize, len as usize);
        self.with_chunk(chunk, |data| {
            let part = data.get(skip..skip + len).ok_or_else(|| damaged("is shorter than its extent"))?;
            Ok(Bytes::copy_from_slice(part))
        })
    }

    /// Adds a reference to an intact chunk with this hash, or calls `insert` to write one, with a new id and
    /// the checksum to store. Returns its id.
    pub(crate) fn store(
        &self,
        conn: &Connection,
        sum: &[u8],
        insert: impl FnOnce(u64, &[u8]) -> rusqlite::Result<usize>,
    ) -> DbResult<u64> {
        let mut sum = sum.to_vec();
        // A short checksum does not identify bytes. For a damaged chunk, `share` cuts the sum short: hashes
        // are unique.
        if sum.len() > SHORT_SUM
            && let Some(id) = self.stored(conn, &sum)?.share(&mut sum)
        {
            chunk_refs::change(conn, id, 1)?;
            return Ok(id);
        }
        let id = head::next_chunk(conn)?;
        insert(id, &sum)?;
        Ok(id)
    }

    /// Stores bytes in a chunk of their own, which is not found by its hash, because the commits that wrote
    /// its bytes are recorded with it.
    pub(crate) fn store_unshared(conn: &Connection, data: &[u8]) -> DbResult<u64> {
        let sum = sum_of(data, false);
        let id = head::next_chunk(conn)?;
        chunks::insert_bytes(conn, id, &sum, data)?;
        Ok(id)
    }

    /// Stores bytes in the database, as [`Self::store`] does.
    pub(crate) fn store_bytes(&self, conn: &Connection, data: &[u8]) -> DbResult<u64> {
        self.store(conn, &sum_of(data, data.len() >= DEDUP_FROM), |id, sum| {
            chunks::insert_bytes(conn, id, sum, data)
        })
    }

    /// Passes the checked bytes of a chunk to `take`, without a copy if they are in the database.
    fn with_chunk<T>(&self, chunk: &StoredChunk<'_>, take: impl FnOnce(&[u8]) -> DbResult<T>) -> DbResult<T> {
        match chunk.location {
            Location::Database(data) => {
                check(chunk, data)?;
                take(data)
            }
            Location::Pack { .. } => {
                // A damaged length must not allocate any amount of memory.
                if chunk.len > MAX_EXTENT {
                    return Err(damaged("has an invalid length").into());
                }
                let mut data = vec![0; chunk.len];
                self.read_into(chunk, &mut data)?;
                take(&data)
            }
        }
    }

    /// Reads all of a chunk of this length, checked.
    fn read_into(&self, chunk: &StoredChunk<'_>, into: &mut [u8]) -> DbResult<()> {
        match chunk.location {
            Location::Database(data) if data.len() == into.len() => into.copy_from_slice(data),
            Location::Database(_) => return Err(damaged("does not have the length in its row").into()),
            Location::Pack { file, pos } => {
                self.file(file)?.file.read_exact_at(into, pos).map_err(|error| match error.kind() {
                    std::io::ErrorKind::UnexpectedEof => {
                        damaged("is cut off in its pack file").with_source(error)
                    }
                    // The disk refused the read, which says nothing about the bytes.
                    _ => failed("a pack file cannot be read")(error),
                })?;
            }
        }
        check(chunk, into)
    }
}

impl IdleOwner for Packs {
    fn idle_since(&self) -> Option<u64> {
        (!lock(&self.open).is_empty()).then(|| self.used.load(Ordering::Relaxed))
    }

    fn close_one(&self) -> bool {
        let mut open = lock(&self.open);
        let any = !open.is_empty();
        self.clear(&mut open);
        any
    }
}

impl Drop for Packs {
    fn drop(&mut self) {
        self.budget.remove(lock(&self.open).len());
    }
}

fn check(chunk: &StoredChunk<'_>, data: &[u8]) -> DbResult<()> {
    if sum_matches(data, chunk.sum) { Ok(()) } else { Err(damaged("does not match its checksum").into()) }
}

/// Removes a chunk without references. Returns its length; `None` if it does not exist.
pub(crate) fn remove_chunk(conn: &Connection, id: u64, now: Timestamp) -> DbResult<Option<u64>> {
    chunk_refs::remove(conn, id)?;
    origins::remove(conn, id)?;
    let Some(RemovedChunk { len, place }) = chunks::remove(conn, id)? else { return Ok(None) };
    if let Some((pack, pos)) = place {
        packs::add_hole(conn, pack, pos, len, now)?;
        packs::doom_if_empty(conn, pack, now)?;
    }
    Ok(Some(len))
}

/// Gives up a finished upload until `enough` returns true. Bytes that only uploads have used need no grace
/// period, as no read can need them: those of its own pack file, or of an earlier upload with the same
/// content. Returns false if some references are left.
pub(crate) fn discard_upload(conn: &Connection, id: u128, enough: impl FnMut() -> bool) -> DbResult<bool> {
    let remove = |chunk| -> DbResult<()> {
        if chunk_refs::is_unused(conn, chunk)? && chunks::is_in_unused_pack(conn, chunk)? {
            remove_chunk(conn, chunk, Timestamp(0))?;
        }
        Ok(())
    };
    staged::give_up(conn, id, remove, enough)
}

/// Records that a commit uses these uploads, and chunks that were stored before. From then on reads of other
/// processes, and backups, may need the pack files that have their bytes.
pub(crate) fn use_packs(
    conn: &Connection,
    uploads: &[(u128, Staged)],
    shared: impl IntoIterator<Item = u64>,
) -> DbResult<()> {
    for (id, _) in uploads {
        packs::use_file(conn, &staged::pack_name(*id))?;
    }
    let pieces = uploads.iter().flat_map(|(_, pieces)| &pieces.0).map(|(chunk, _)| *chunk);
    let mut chunks = pieces.chain(shared).peekable();
    // Mostly no other upload waits. Otherwise it may have been the first to store some of these chunks.
    if chunks.peek().is_some() && packs::any_unused(conn)? {
        for chunk in chunks {
            packs::use_file_of(conn, chunk)?;
        }
    }
    Ok(())
}

/// Returns those of `files` that belong to no pack and to no upload. List them before the transaction on
/// `conn` begins: an upload writes its row before its file, so a listed file has its row by then.
pub(crate) fn orphan_files<'a>(conn: &Connection, files: &'a [String]) -> DbResult<Vec<&'a String>> {
    let mut orphans = Vec::new();
    for file in files {
        if !packs::has_file(conn, file)? && !staged::owns_pack(conn, file)? {
            orphans.push(file);
        }
    }
    Ok(orphans)
}
