//! The embedded engine: one SQLite database for each account, in a folder of its own.
//!
//! Writes go through one writer per process, which groups them ([`writer`]); reads take a connection from a pool and
//! run on the caller's thread. Whether a handle shows the present or the past is one field ([`SqliteFs::as_of`]).
//! `docs/format.md` draws the tables, `docs/durability.md` says what survives what.

mod apply;
mod backup;
mod content;
#[cfg(feature = "faults")]
pub mod fail;
#[cfg(not(feature = "faults"))]
mod fail;
mod fault;
mod fsck;
mod gc;
mod history;
mod known;
mod look;
mod merge;
mod open;
mod pool;
mod read;
mod readers;
mod reindex;
mod renew;
mod schema;
mod search;
mod sql;
mod stage;
mod state;
mod turn;
mod writer;

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use rusqlite::Connection;

pub use backup::Backup;
pub use fsck::{Finding, Fsck};
pub use gc::Collected;

use content::Packs;
use fault::Fault;
use look::{Look, check_kind};
use open::OpenNodes;
use readers::Readers;
use stage::Uploading;
use turn::Turnstile;
use writer::Writer;

use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{Capabilities, FileSystem, OpenFile, Upload};
use crate::model::batch::{Batch, Commit};
use crate::model::query::{
    ByteRange, Changes, Head, HistoryPage, Hit, Listing, MAX_READ, Moment, Page, SearchQuery, Version, Walk,
    WalkPage,
};
use crate::model::{At, Entry, Ino, Kind, Seq, Snapshot, Timestamp, VersionId};
use crate::path::TreePath;

/// Does at once what is done once a minute for what this process holds open: leases are renewed, and taken where `gc` waits.
#[cfg(feature = "faults")]
pub fn renew_leases() {
    renew::renew();
}

/// An account's tree in a folder; or, from `as_of`, what it was.
#[derive(Clone, Debug)]
pub struct SqliteFs {
    inner: Arc<Inner>,
    /// The commit after which to look, and its time; `None` for now.
    then: Option<(u64, i64)>,
}

#[derive(Debug)]
struct Inner {
    readers: Arc<Readers>,
    packs: Arc<Packs>,
    open: Arc<OpenNodes>,
    writer: Arc<Writer>,
    env: Env,
}

impl SqliteFs {
    /// Opens the account in `folder`, which must be there; makes its database if that is missing. Other processes may have
    /// it open too.
    ///
    /// # Errors
    /// `Format` for data of a newer garth or of something else; `Io`, `NoSpace`, `ReadOnly` from the storage.
    pub fn open(folder: &Path, env: Env) -> Result<Arc<Self>> {
        let turnstile = Turnstile::open(folder)?;
        schema::ready(folder, &turnstile)?;
        let packs = Arc::new(Packs::new(folder));
        let open = Arc::new(OpenNodes::new(env.random()?));
        let readers = Arc::new(Readers::new(folder.to_owned()));
        let writer = Arc::new(Writer::new(
            folder.to_owned(),
            turnstile,
            env.clone(),
            Arc::clone(&packs),
            Arc::clone(&open),
            Arc::clone(&readers),
        ));
        renew::watch(&writer);
        Ok(Arc::new(Self { inner: Arc::new(Inner { readers, packs, open, writer, env }), then: None }))
    }

    /// Runs a read in a transaction of its own, on this thread.
    fn look<T>(&self, read: impl FnOnce(&Look<'_>) -> Result<T>) -> Result<T> {
        self.inner.readers.with(|conn| read(&self.view(conn)))
    }

    fn view<'a>(&'a self, conn: &'a Connection) -> Look<'a> {
        let inner = &*self.inner;
        Look {
            conn,
            packs: &inner.packs,
            open: &inner.open,
            then: self.then.map(|(seq, _)| seq),
            time: self.then.map_or_else(|| inner.env.now().0, |(_, time)| time),
        }
    }

    fn writable(&self) -> Result<()> {
        match self.then {
            None => Ok(()),
            Some(_) => Err(Error::new(ErrorKind::ReadOnly, "a view of the past cannot be written")),
        }
    }
}

#[async_trait]
impl FileSystem for SqliteFs {
    fn capabilities(&self) -> Capabilities {
        let now = self.then.is_none();
        Capabilities { write: now, atomic: true, history: true, search: now, durable: true }
    }

    async fn head(&self) -> Result<Head> {
        self.look(|look| {
            let row = read::head(look.conn)?;
            let (seq, time) = self.then.unwrap_or((row.seq, row.time));
            Ok(Head { seq: Seq(seq), time: Timestamp(time) })
        })
    }

    async fn stat(&self, at: &At) -> Result<Entry> {
        if let (At::Path(path), None) = (at, self.then)
            && let Some(entry) = self.inner.readers.alone(|conn| self.view(conn).entry_now(path))?
        {
            return Ok(entry);
        }
        self.look(|look| look.entry(look.at(at)?))
    }

    async fn names(&self, at: &At) -> Result<Vec<TreePath>> {
        self.look(|look| look.names(&look.at(at)?))
    }

    async fn list(&self, dir: &At, page: &Page) -> Result<Listing> {
        self.look(|look| look.list(dir, page))
    }

    async fn walk(&self, dir: &At, page: &WalkPage) -> Result<Walk> {
        self.look(|look| look.walk(dir, page))
    }

    async fn fetch(&self, at: &At, range: ByteRange) -> Result<(Entry, Bytes)> {
        self.look(|look| {
            if let (At::Path(path), None) = (at, self.then)
                && let Some(entry) = look.entry_now(path)?
                && entry.kind == Kind::File
            {
                let bytes = look.read(entry.ino.0, entry.size, range).map_err(|error| error.about(path))?;
                return Ok((entry, bytes));
            }
            let node = look.at(at)?;
            look.check_file(&node, at)?;
            let bytes =
                look.read(node.ino, node.size, range).map_err(|error| look.about(error, &node, at))?;
            Ok((look.entry(node)?, bytes))
        })
    }

    async fn read(&self, at: &At, range: ByteRange) -> Result<Bytes> {
        self.look(|look| {
            let node = look.at(at)?;
            look.check_file(&node, at)?;
            look.read(node.ino, node.size, range).map_err(|error| look.about(error, &node, at))
        })
    }

    async fn open(&self, at: &At) -> Result<Arc<dyn OpenFile>> {
        let ino = self.look(|look| {
            let node = look.at(at)?;
            look.check_file(&node, at)?;
            if self.then.is_none() {
                // in the transaction that found it: nobody can remove it in between
                self.inner.open.add(node.ino);
            }
            Ok(node.ino)
        })?;
        Ok(Arc::new(Handle { fs: self.clone(), ino, held: self.then.is_none() }))
    }

    async fn open_version(&self, version: VersionId) -> Result<Arc<dyn OpenFile>> {
        let (seq, ino) = (version.seq.0, version.ino.0);
        let then = self.look(|look| {
            let missing = || Error::new(ErrorKind::NotFound, format!("there is no version {version}"));
            let known = seq <= look.seq().min(read::MAX) && ino <= read::MAX;
            let node = if known { read::node(look.conn, ino, seq)? } else { None };
            let node = node.filter(|node| node.seq == seq).ok_or_else(missing)?;
            if look.is_end(&node)? {
                return Err(missing());
            }
            check_kind(node.kind)?;
            Ok((seq, look::moment(look.conn, seq)?))
        })?;
        let fs = Self { inner: Arc::clone(&self.inner), then: Some(then) };
        Ok(Arc::new(Handle { fs, ino, held: false }))
    }

    async fn history(&self, at: &At, page: &HistoryPage) -> Result<Vec<Version>> {
        self.look(|look| look.history(at, page))
    }

    async fn changes(&self, since: Seq, limit: usize) -> Result<Changes> {
        self.look(|look| look.changes(since, limit))
    }

    async fn as_of(&self, moment: &Moment) -> Result<Arc<dyn FileSystem>> {
        let then = self.look(|look| {
            let seq = look.seq_of(moment)?;
            Ok((seq, look::moment(look.conn, seq)?))
        })?;
        Ok(Arc::new(Self { inner: Arc::clone(&self.inner), then: Some(then) }))
    }

    async fn snapshots(&self) -> Result<Vec<Snapshot>> {
        self.look(|look| look.snapshots())
    }

    async fn search(&self, query: &SearchQuery) -> Result<Vec<Hit>> {
        if self.then.is_some() {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "search finds current files only; use grep on the past",
            ));
        }
        self.look(|look| look.search(query))
    }

    async fn stage(&self) -> Result<Box<dyn Upload>> {
        self.writable()?;
        Ok(Box::new(Uploading::new(Arc::clone(&self.inner.writer))?))
    }

    async fn commit(&self, batch: Batch) -> Result<Commit> {
        self.writable()?;
        batch.check()?;
        if self.inner.writer.fault == Fault::SplitBatch {
            let mut last = Err(Error::invalid("the batch is empty"));
            for op in batch.ops.clone() {
                last = self.inner.writer.commit(Batch { ops: vec![op], ..batch.clone() }).await;
            }
            return last;
        }
        self.inner.writer.commit(batch).await
    }

    async fn sync(&self) -> Result<Seq> {
        self.writable()?;
        self.inner
            .writer
            .transact(true, |conn| {
                writer::touch(conn)?;
                Ok(Seq(read::head(conn)?.seq))
            })
            .await
    }
}

/// A file held open, now or in the past.
#[derive(Debug)]
struct Handle {
    fs: SqliteFs,
    ino: u64,
    /// Whether it counts as an open handle of the present.
    held: bool,
}

#[async_trait]
impl OpenFile for Handle {
    fn ino(&self) -> Ino {
        Ino(self.ino)
    }

    async fn stat(&self) -> Result<Entry> {
        self.fs.look(|look| {
            let node = look.as_held(look.row(self.ino)?.ok_or_else(Error::no_node)?);
            look.entry(node)
        })
    }

    async fn read_at(&self, offset: u64, length: usize) -> Result<Bytes> {
        if length > MAX_READ {
            let message = format!("more than {MAX_READ} bytes at once; read in steps");
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        self.fs.look(|look| {
            let node = look.row(self.ino)?.ok_or_else(Error::no_node)?;
            look.read(node.ino, node.size, ByteRange { offset, length: length as u64 })
        })
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.held && self.fs.inner.open.remove(self.ino) {
            let (open, ino) = (Arc::clone(&self.fs.inner.open), self.ino);
            self.fs.inner.writer.transact_later(move |conn| open.release(conn, ino));
        }
    }
}
