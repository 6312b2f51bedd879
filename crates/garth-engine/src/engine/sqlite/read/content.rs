//! Stored bytes: chunks in the database or in pack files beside it. Each is checked against its checksum on
//! every read: damage becomes an error, never wrong bytes.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use bytes::Bytes;
use rusqlite::{Connection, Row, params};

use crate::engine::planner::{DEDUP_FROM, ExtentRow, MAX_EXTENT, SHORT_SUM, Stored as Known, sum_of};
use crate::engine::sqlite::read::rows::{self, extents_sql};
use crate::engine::sqlite::schema::SUBJECT;
use crate::engine::sqlite::write::refs;
use crate::error::{Error, ErrorKind};
use crate::runtime::budget::{IdleBudget, IdleOwner, Opened};
use crate::runtime::disk::{dir_of, failed, make_dir, sync_dir};
use crate::runtime::lock::lock;
use crate::sqlite::DbResult;

/// Where a chunk lies and what it is checked against, as [`Stored::of`] reads it.
macro_rules! chunk_columns {
    () => {
        "chunk.sum, chunk.data, pack.file, chunk.pos, chunk.len"
    };
}

/// The statement of [`Packs::content`]: extents with their chunks. In any order, since each has its place.
macro_rules! content_sql {
    ($when:ident) => {
        concat!(
            "SELECT ",
            chunk_columns!(),
            ", extent.off, extent.len, extent.skip FROM (",
            extents_sql!($when, "off, len, skip, chunk"),
            ") AS extent LEFT JOIN chunk ON chunk.id = extent.chunk LEFT JOIN pack ON pack.id = chunk.pack"
        )
    };
}

/// Folder of the pack files in an account's folder.
pub(crate) const PACKS: &str = "packs";
/// Most pack files held open for reading by one account: bounds descriptors.
const OPEN_PACKS: usize = 64;

/// The pack files of one account, opened as they are needed.
pub(crate) struct Packs {
    folder: PathBuf,
    /// Whether the folder is known to be there and durable.
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

/// Whether bytes match a stored checksum. An empty one would match anything.
pub(crate) fn sum_matches(data: &[u8], sum: &[u8]) -> bool {
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

    /// Makes the folder if it is missing, durably.
    pub(crate) fn make_folder(&self) -> std::io::Result<()> {
        if !self.ready.load(Ordering::Acquire) {
            make_dir(&self.folder)?;
            sync_dir(dir_of(&self.folder))?;
            self.ready.store(true, Ordering::Release);
        }
        Ok(())
    }

    fn file(&self, name: &str) -> DbResult<Arc<Pack>> {
        if let Some(pack) = lock(&self.open).get(name) {
            return Ok(Arc::clone(pack));
        }
        let _opened = self.budget.open();
        let file = File::open(self.folder.join(name)).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => damaged("is gone with its pack file").with_source(error),
            // out of descriptors or permission denied: no damage
            _ => failed("a pack file cannot be opened")(error),
        })?;
        let pack = Arc::new(Pack { file, _opened });
        let mut open = lock(&self.open);
        if open.len() >= OPEN_PACKS {
            self.clear(&mut open);
        }
        self.used.store(self.budget.add(), Ordering::Relaxed);
        if open.insert(name.to_owned(), Arc::clone(&pack)).is_some() {
            // another thread was faster
            self.budget.remove(1);
        }
        drop(open);
        self.budget.enforce();
        Ok(pack)
    }

    /// Closes all; readers in the midst of a chunk keep theirs open.
    fn clear(&self, open: &mut HashMap<String, Arc<Pack>>) {
        self.budget.remove(open.len());
        open.clear();
    }

    /// Closes a pack file that is removed: as long as it is open its space stays taken.
    pub(crate) fn close(&self, name: &str) {
        if lock(&self.open).remove(name).is_some() {
            self.budget.remove(1);
        }
    }

    /// A chunk's bytes, checked.
    pub(crate) fn chunk(&self, conn: &Connection, id: u64) -> DbResult<Bytes> {
        const SQL: &str = concat!(
            "SELECT ",
            chunk_columns!(),
            " FROM chunk LEFT JOIN pack ON pack.id = chunk.pack WHERE chunk.id = ?1"
        );
        let mut statement = conn.prepare_cached(SQL)?;
        let mut rows = statement.query([id])?;
        match rows.next()? {
            Some(row) => self.with_chunk(&Stored::of(row)?, |data| Ok(Bytes::copy_from_slice(data))),
            None => Err(damaged("is missing").into()),
        }
    }

    /// What is stored under a hash: its chunk is read, so that new bytes never refer to a damaged one.
    pub(crate) fn stored(&self, conn: &Connection, hash: &[u8]) -> DbResult<Known> {
        let Some(id) = rows::chunk_by_hash(conn, hash)? else { return Ok(Known::Nothing) };
        match self.chunk(conn, id).map_err(|error| error.describe(&SUBJECT)) {
            Ok(_) => Ok(Known::Sound(id)),
            Err(error) if error.is(ErrorKind::Corrupt) => Ok(Known::Damaged),
            // the read failed, which says nothing about the bytes
            Err(error) => Err(error.into()),
        }
    }

    /// Bytes `from..to` of a file, now or after a commit; `to` lies within the file. Holes are zeros.
    pub(crate) fn content(
        &self,
        conn: &Connection,
        ino: u64,
        as_of: Option<u64>,
        from: u64,
        to: u64,
    ) -> DbResult<Bytes> {
        let mut bytes = vec![0; usize::try_from(to - from).unwrap_or(usize::MAX)];
        let first = rows::first_overlap(conn, ino, from)?;
        let sql = if as_of.is_none() { content_sql!(now) } else { content_sql!(as_of) };
        let mut statement = conn.prepare_cached(sql)?;
        let mut rows = match as_of {
            None => statement.query(params![ino, first, to, from])?,
            Some(seq) => statement.query(params![ino, first, to, from, seq])?,
        };
        let mut left = to - from;
        while left > 0
            && let Some(row) = rows.next()?
        {
            let (off, len, skip): (u64, u64, u64) = (row.get(5)?, row.get(6)?, row.get(7)?);
            let part = ExtentRow { off, len, skip, since: 0, chunk: 0, written: 0 }.cut(from, to);
            let at = (part.off - from) as usize;
            self.copy(&Stored::of(row)?, part.skip as usize, &mut bytes[at..at + part.len as usize])?;
            left = left.saturating_sub(part.len);
        }
        Ok(bytes.into())
    }

    /// Copies what of a chunk begins at `skip`, checked.
    fn copy(&self, chunk: &Stored<'_>, skip: usize, into: &mut [u8]) -> DbResult<()> {
        if skip == 0 && chunk.len == into.len() {
            // a whole chunk, the common case: no copy in between
            return self.read_into(chunk, into);
        }
        self.with_chunk(chunk, |data| {
            let data =
                data.get(skip..skip + into.len()).ok_or_else(|| damaged("is shorter than its extent"))?;
            into.copy_from_slice(data);
            Ok(())
        })
    }

    /// Refers once more to an intact chunk with this hash, or has `insert` write one under a new id and the
    /// checksum it is given. Returns its id.
    pub(crate) fn keep(
        &self,
        conn: &Connection,
        sum: &[u8],
        insert: impl FnOnce(u64, &[u8]) -> rusqlite::Result<usize>,
    ) -> DbResult<u64> {
        let mut sum = sum.to_vec();
        if sum.len() > SHORT_SUM
            && let Some(id) = self.stored(conn, &sum)?.share(&mut sum)
        {
            refs::change(conn, id, 1)?;
            return Ok(id);
        }
        let id = next_chunk(conn)?;
        insert(id, &sum)?;
        Ok(id)
    }

    /// Keeps bytes in a chunk of their own, which is not found by its hash: who wrote them is told with it.
    pub(crate) fn keep_alone(conn: &Connection, data: &[u8]) -> DbResult<u64> {
        let sum = sum_of(data, false);
        let id = next_chunk(conn)?;
        insert_bytes(conn, id, &sum, data)?;
        Ok(id)
    }

    /// The same as [`Self::keep`] for bytes that go into the database.
    pub(crate) fn keep_bytes(&self, conn: &Connection, data: &[u8]) -> DbResult<u64> {
        self.keep(conn, &sum_of(data, data.len() >= DEDUP_FROM), |id, sum| insert_bytes(conn, id, sum, data))
    }

    /// Passes a chunk's checked bytes to `take`, without a copy if they are in the database.
    fn with_chunk<T>(&self, chunk: &Stored<'_>, take: impl FnOnce(&[u8]) -> DbResult<T>) -> DbResult<T> {
        match chunk.location {
            Location::Database(data) => {
                chunk.check(data)?;
                take(data)
            }
            Location::Pack { .. } => {
                if chunk.len > MAX_EXTENT {
                    return Err(damaged("has an impossible length").into());
                }
                let mut data = vec![0; chunk.len];
                self.read_into(chunk, &mut data)?;
                take(&data)
            }
        }
    }

    /// Reads all of a chunk of this length, checked.
    fn read_into(&self, chunk: &Stored<'_>, into: &mut [u8]) -> DbResult<()> {
        match chunk.location {
            Location::Database(data) if data.len() == into.len() => into.copy_from_slice(data),
            Location::Database(_) => return Err(damaged("has another length than its row says").into()),
            Location::Pack { file, pos } => {
                self.file(file)?.file.read_exact_at(into, pos).map_err(|error| match error.kind() {
                    std::io::ErrorKind::UnexpectedEof => {
                        damaged("is cut off in its pack file").with_source(error)
                    }
                    // the disk refused: that says nothing about the bytes
                    _ => failed("a pack file cannot be read")(error),
                })?;
            }
        }
        chunk.check(into)
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

/// A chunk as its row describes it, unchecked.
struct Stored<'a> {
    sum: &'a [u8],
    len: usize,
    location: Location<'a>,
}

#[derive(Clone, Copy)]
enum Location<'a> {
    Database(&'a [u8]),
    Pack { file: &'a str, pos: u64 },
}

impl<'a> Stored<'a> {
    /// From a row that begins with the columns of a chunk.
    fn of(row: &'a Row<'_>) -> DbResult<Self> {
        let sum = row.get_ref(0)?.as_blob_or_null().map_err(rusqlite::Error::from)?;
        let sum = sum.ok_or_else(|| damaged("is missing"))?;
        let data = row.get_ref(1)?.as_blob_or_null().map_err(rusqlite::Error::from)?;
        let file = row.get_ref(2)?.as_str_or_null().map_err(rusqlite::Error::from)?;
        let location = match (data, file, row.get(3)?) {
            (Some(data), _, _) => Location::Database(data),
            (None, Some(file), Some(pos)) => Location::Pack { file, pos },
            (None, _, _) => return Err(damaged("has lost its location").into()),
        };
        Ok(Self { sum, len: row.get(4)?, location })
    }

    fn check(&self, data: &[u8]) -> DbResult<()> {
        if sum_matches(data, self.sum) { Ok(()) } else { Err(damaged("does not match its checksum").into()) }
    }
}

/// A number for a new chunk.
fn next_chunk(conn: &Connection) -> DbResult<u64> {
    let sql = "UPDATE head SET next_chunk = next_chunk + 1 RETURNING next_chunk - 1";
    Ok(conn.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
}

fn insert_bytes(conn: &Connection, id: u64, sum: &[u8], data: &[u8]) -> rusqlite::Result<usize> {
    conn.prepare_cached("INSERT INTO chunk (id, sum, data, len) VALUES (?1, ?2, ?3, ?4)")?.execute(params![
        id,
        sum,
        data,
        data.len()
    ])
}

fn damaged(what: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("stored content {what}; run `garth fsck`"))
}
