//! Calls of a handle: [`FileSystem`].

use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use bytes::Bytes;
use rusqlite::Connection;

use super::SqliteFs;
use super::open_node::{Handle, HeldNode};
use crate::engine::sqlite::commit::staged_upload::SqliteUpload;
use crate::engine::sqlite::query::read_view::{ReadView, check_kind};
use crate::engine::sqlite::tables::{commit_log, head, idempotency};
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{Capabilities, FileSystem, Incoming, OpenFile, OpenNode, Upload, ViewBase};
use crate::model::{
    At, Batch, Blame, ByteRange, Changes, ChangesQuery, Commit, CommitId, Confinement, Entry, Fetched,
    FindAnswer, FindQuery, Head, HistoryPage, KeyRecord, Listing, Moment, NamesPage, Page, SearchAnswer,
    SearchQuery, Seq, Snapshot, SnapshotsPage, StagedBody, Timestamp, Version, VersionId, Walk, WalkPage,
    check_items,
};
use crate::path::TreePath;
use crate::sqlite::patience::{Bound, FILE, SHORT};

#[async_trait]
impl FileSystem for SqliteFs {
    fn capabilities(&self, _at: &TreePath) -> Capabilities {
        let now = self.as_of.is_none();
        Capabilities { write: now, search: now, find: now, ..Capabilities::ALL }
    }

    async fn head(&self) -> Result<Head> {
        if self.as_of.is_none() {
            // Without a transaction: one statement sees one state.
            let row = self.inner.pool.with(head::get)?;
            return Ok(Head { seq: Seq(row.seq), time: Timestamp(row.time) });
        }
        self.reading(&(), |view, ()| view.last_commit()).await
    }

    async fn stat(&self, at: &At) -> Result<Entry> {
        if let (At::Path(path), None) = (at, &self.as_of)
            // Without a transaction: one statement sees one state.
            && let Some(entry) = self.inner.pool.with(|conn| self.view_on(conn, None)?.entry_now(path))?
        {
            return Ok(entry);
        }
        self.reading(at, |view, at| view.entry_at(at)).await
    }

    async fn names(&self, at: &At, page: &NamesPage) -> Result<Listing<TreePath>> {
        let page = page.clone();
        self.reading(at, move |view, at| view.names_page(at, &page)).await
    }

    async fn list(&self, dir: &At, page: &Page) -> Result<Listing> {
        let page = page.clone();
        self.reading(dir, move |view, dir| view.list(dir, &page)).await
    }

    async fn walk(&self, dir: &At, page: &WalkPage) -> Result<Walk> {
        let page = page.clone();
        self.reading(dir, move |view, dir| view.walk(dir, &page)).await
    }

    async fn fetch(&self, at: &At, range: ByteRange) -> Result<(Entry, Bytes)> {
        if let (At::Path(path), None) = (at, &self.as_of) {
            // Without a transaction: the statement that finds the file is open while others read its content.
            let found = self.inner.pool.within(Bound::Steps(SHORT), |conn, patience| {
                self.view_on(conn, Some(patience))?.fetch_now(path, range)
            });
            match found {
                Ok(None) => {}
                Ok(Some(found)) => return Ok(found),
                Err(error) if error.is(ErrorKind::TimedOut) => {
                    return self.read_long(at.clone(), move |view, at| view.fetch(at, range)).await;
                }
                Err(error) => return Err(error),
            }
        }
        self.reading(at, move |view, at| view.fetch_at(at, range)).await
    }

    async fn fetch_many(&self, items: &[(At, ByteRange)]) -> Result<Fetched> {
        check_items(items.len())?;
        let fetch = |view: &ReadView<'_>, items: &Vec<_>| view.fetch_many(items);
        // A read that is known to be long does not begin on this thread.
        match items.len() as u64 * FILE > SHORT {
            true => self.read_long(items.to_vec(), fetch).await,
            false => self.reading(&items.to_vec(), fetch).await,
        }
    }

    async fn read(&self, at: &At, range: ByteRange) -> Result<Bytes> {
        let read = move |view: &ReadView<'_>, at: &At| {
            let node = view.at(at)?;
            view.check_file(&node, at)?;
            view.read(node.ino, node.size, range).map_err(|error| view.about(error, &node, at))
        };
        self.reading(at, read).await
    }

    async fn hold(&self, at: &At) -> Result<Arc<dyn OpenNode>> {
        Ok(Arc::new(self.handle(at, |_, _| Ok(()))?))
    }

    async fn open(&self, at: &At) -> Result<Arc<dyn OpenFile>> {
        Ok(Arc::new(self.handle(at, |view, node| view.check_file(node, at))?))
    }

    async fn open_version(&self, version: VersionId) -> Result<Arc<dyn OpenFile>> {
        let past = self.with_view(|view| {
            check_kind(view.version_to_open(version)?.kind)?;
            // The oldest state shows this version if the state of its commit is no longer readable.
            let seq = version.seq.0.max(view.oldest()?);
            view.check_version_content(version, seq)?;
            Ok(self.inner.pasts.open(seq, commit_log::moment(view.conn, seq)?, self.now()))
        })?;
        let fs = Self { as_of: Some(past), ..self.clone() };
        let node = HeldNode { ino: version.ino.0, at: At::Node(version.ino) };
        Ok(Arc::new(Handle { fs, node, held: false }))
    }

    async fn history(&self, at: &At, page: &HistoryPage) -> Result<Listing<Version>> {
        let page = page.clone();
        self.reading(at, move |view, at| view.history(at, &page)).await
    }

    async fn blame(&self, at: &At, range: ByteRange, limit: usize) -> Result<Blame> {
        self.reading(at, move |view, at| view.blame(at, range, limit)).await
    }

    async fn changes(&self, query: &ChangesQuery) -> Result<Changes> {
        let query = query.clone();
        self.reading(&query, |view, query| view.changes(query)).await
    }

    async fn wait(&self, since: Seq) -> Result<Head> {
        if let Some(head) = self.newer(since).await? {
            return Ok(head);
        }
        if self.as_of.is_some() {
            return Err(Error::new(ErrorKind::Unsupported, "a view of a past view receives no new commits"));
        }
        loop {
            // Registered before the look: a commit in between would wake no one.
            let woken = self.inner.writer.waiters().join(since, self.runtime());
            if let Some(head) = self.newer(since).await? {
                return Ok(head);
            }
            woken.await;
        }
    }

    async fn as_of(&self, moment: &Moment) -> Result<Arc<dyn FileSystem>> {
        let past = self.with_view(|view| {
            let seq = view.seq_of(moment)?;
            let time = match moment {
                // A time in the future must not make entries expire early.
                Moment::Time(time) => time.0.min(view.time),
                Moment::Seq(_) | Moment::Snapshot(_) => commit_log::moment(view.conn, seq)?,
            };
            Ok(self.inner.pasts.open(seq, time, self.now()))
        })?;
        Ok(Arc::new(Self { as_of: Some(past), ..self.clone() }))
    }

    async fn confined(&self, to: &Confinement) -> Result<Arc<dyn FileSystem>> {
        Ok(Arc::new(Self { reach: Arc::new(self.reach.confined(to)?), ..self.clone() }))
    }

    async fn snapshots(&self, page: &SnapshotsPage) -> Result<Listing<Snapshot>> {
        self.reading(page, |view, page| view.snapshots(page)).await
    }

    async fn search(&self, query: &SearchQuery) -> Result<SearchAnswer> {
        if self.as_of.is_some() {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "search finds current files only; use grep on the past",
            ));
        }
        self.read_long(query.clone(), |view, query| view.search(query)).await
    }

    async fn find(&self, query: &FindQuery) -> Result<FindAnswer> {
        self.reading(query, |view, query| view.find_keys(query)).await
    }

    async fn admit(&self, at: &At, content: &Incoming) -> Result<()> {
        self.writable()?;
        let now = self.runtime().env().now();
        let uploads = self.inner.writer.uploads();
        let (arriving, of_all) = (uploads.of(self.reach.owner_key(), now), uploads.bytes());
        let args = (at.clone(), *content);
        self.reading(&args, move |view, (at, content)| view.admit(at, content, &arriving, of_all)).await
    }

    async fn discard(&self, _at: &At, staged: &StagedBody) -> Result<()> {
        self.writable()?;
        self.give_up(staged.id).await
    }

    async fn stage(&self, _at: &At) -> Result<Box<dyn Upload>> {
        self.writable()?;
        self.inner.has_uploads.store(true, Ordering::Relaxed);
        Ok(Box::new(SqliteUpload::new(Arc::clone(&self.inner.writer), self.reach.owner_key().to_owned())?))
    }

    async fn commit(&self, batch: Batch) -> Result<Commit> {
        self.writable()?;
        batch.check()?;
        let batch = self.reach.confine(batch)?;
        batch.check_keys(&self.inner)?;
        self.inner.writer.commit(batch, &self.reach).await
    }

    async fn committed(&self, id: CommitId) -> Result<Option<Commit>> {
        let found = match self.as_of.as_deref() {
            Some(past) => {
                let found =
                    self.with_view(|view| commit_log::committed(view.conn, self.reach.owner_key(), id))?;
                // A view of the past does not know later commits.
                found.filter(|commit| commit.seq.0 <= past.seq)
            }
            // In the writer's queue, after the batches that wait. The durable write makes sure that a commit
            // that is reported stays: it may have been read from a WAL that no sync has reached.
            None => {
                let owner = self.reach.owner_key().to_owned();
                let find = move |conn: &Connection| {
                    let found = commit_log::committed(conn, &owner, id)?;
                    if found.is_some() {
                        head::touch(conn)?;
                    }
                    Ok(found)
                };
                self.inner.writer.transact(true, find).await?
            }
        };
        let durable = self.as_of.is_none();
        Ok(found.map(|commit| Commit { replayed: true, durable, ..commit }))
    }

    async fn recorded(&self, key: &str) -> Result<Option<KeyRecord>> {
        let (owner, key) = (self.reach.owner_key().to_owned(), key.to_owned());
        let last = self.as_of.as_deref().map_or(u64::MAX, |past| past.seq);
        let now = self.time();
        let find = move |conn: &Connection| {
            let found = idempotency::get(conn, &owner, &key)?;
            Ok(found.filter(|record| now < record.keep_until && record.commit.seq.0 <= last))
        };
        let mut found = self.with_view(|view| find(view.conn))?;
        let durable = self.as_of.is_none();
        if durable && found.is_some() {
            // Reported, so it has to stay: see `committed`.
            let kept = move |conn: &Connection| {
                head::touch(conn)?;
                find(conn)
            };
            found = self.inner.writer.transact(true, kept).await?;
        }
        Ok(found.map(|record| KeyRecord {
            request_hash: record.request_hash,
            commit: Commit { replayed: true, durable, ..record.commit },
        }))
    }

    async fn sync(&self) -> Result<Seq> {
        self.writable()?;
        self.inner.writer.sync().await
    }

    fn view_base(&self) -> &dyn ViewBase {
        self
    }
}
