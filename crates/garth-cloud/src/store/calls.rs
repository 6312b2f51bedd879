//! Calls of a handle: [`FileSystem`].

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use garth_engine::engine::relational::reads::tree_rows::{CommitSpan, MAX, TreeRows as _};
use garth_engine::engine::relational::reads::tree_view::check_kind;
use garth_engine::fs::{Capabilities, FileSystem, Incoming, OpenFile, OpenNode, Upload, ViewBase};
use garth_engine::model::{
    At, Batch, Blame, ByteRange, Changes, ChangesQuery, Commit, CommitId, Confinement, Entry, Fetched,
    FindAnswer, FindQuery, Head, HistoryPage, Ino, KeyRecord, Listing, Moment, NamesPage, Page, SearchAnswer,
    SearchQuery, Seq, Snapshot, SnapshotsPage, StagedBody, Timestamp, Version, VersionId, Walk, WalkPage,
    check_items,
};
use garth_engine::path::TreePath;
use garth_engine::{Error, ErrorKind, Result};

use super::PgStore;
use super::open_file::Handle;
use super::reader::View;
use crate::commit::Request;
use crate::control::Control;
use crate::indexing::make_ready;
use crate::query_keys::{FindScope, find};
use crate::reads::{FetchedRows, FileKey};
use crate::search::{Scope, search_by};
use crate::uploads::discard;

/// Items that one call of `fetch_many` answers: with the attributes of each, some 64 MiB.
const ITEMS: usize = 256;
/// Times that a search is tried with the rules that are known.
const SEARCHES: usize = 5;
/// Time between two looks for a commit.
const LOOK: Duration = Duration::from_millis(100);

impl PgStore {
    /// Returns the number of the state that is read.
    fn seq(&self) -> u64 {
        self.as_of.as_deref().map_or(MAX, |past| past.seq)
    }

    /// Notes the rows that lead to the node at an address, except those that the read asks for first.
    fn announce(&self, rows: &FetchedRows, at: &At) {
        match at {
            At::Path(_) => {}
            At::Child(Ino::ROOT, name) => {
                rows.want_name("", name.as_str(), self.seq());
            }
            // A child is found by the path of its directory.
            At::Child(dir, _) => self.announce_names(rows, *dir),
            // An inode gives no access: the node must have a name in reach.
            At::Node(ino) if !self.reach.within.is_everything() => self.announce_names(rows, *ino),
            At::Node(_) => {}
        }
    }

    /// Notes the names of a node.
    fn announce_names(&self, rows: &FetchedRows, ino: Ino) {
        let within = &self.reach.within;
        // Nothing was fetched, so the answers say nothing.
        drop(match self.as_of.as_deref() {
            Some(past) => rows.each_name(ino.0, CommitSpan::at(past.seq), within, &mut |_, _| Ok(true)),
            None => rows
                .names_after(ino.0, within, ("", ""), 1)
                .and_then(|_| rows.each_name(ino.0, CommitSpan::NOW, within, &mut |_, _| Ok(true))),
        });
    }

    /// Notes the content of a file, whose size is not known yet.
    pub(super) fn announce_content(&self, rows: &FetchedRows, at: &At, range: ByteRange) {
        let file = match at {
            At::Path(path) if self.reach.within.contains(path) => path.key().rsplit_once('/'),
            _ => None,
        };
        let file = match (file, at) {
            (Some((dir, name)), _) => FileKey::Path(dir.to_owned(), name.to_owned()),
            (None, At::Node(ino)) => FileKey::Node(ino.0),
            (None, _) => return,
        };
        let end = range.offset.saturating_add(range.length).min(MAX);
        if range.offset < end {
            rows.want_content(file, self.seq(), (range.offset, end));
        }
    }

    /// Searches by rules that were read before. Returns `None` if the account has others.
    async fn search_by(&self, control: &Control, query: &SearchQuery) -> Result<Option<SearchAnswer>> {
        let (inner, conn) = (&self.inner, self.inner.pool.connection().await?);
        let (account, reach) = (inner.account, &*self.reach);
        let scope = Scope { account, reach, rules: &control.rules, registry: &inner.registry };
        let answer = search_by(&conn, scope, control.version, query).await;
        conn.settle(answer).await
    }

    /// Returns the head if it is after `since`.
    async fn newer(&self, since: Seq) -> Result<Option<Head>> {
        Ok(Some(self.head().await?).filter(|head| head.seq > since))
    }

    /// Returns a past state of this handle, which is opened at `now`.
    fn at_past(&self, (seq, time, now): (u64, i64, i64)) -> Self {
        let past = self.inner.pasts.open(seq, time, Timestamp(now));
        Self { as_of: Some(past), ..self.clone() }
    }
}

#[async_trait]
impl FileSystem for PgStore {
    fn capabilities(&self, _at: &TreePath) -> Capabilities {
        let mut has = Capabilities::ALL;
        has.write = self.as_of.is_none();
        has.find = self.as_of.is_none();
        has.search = self.as_of.is_none();
        has
    }

    async fn head(&self) -> Result<Head> {
        self.reading(|_| {}, |view| view.last_commit()).await
    }

    async fn stat(&self, at: &At) -> Result<Entry> {
        self.reading(|rows| self.announce(rows, at), |view| view.entry_at(at)).await
    }

    async fn names(&self, at: &At, page: &NamesPage) -> Result<Listing<TreePath>> {
        self.reading(|rows| self.announce(rows, at), |view| view.names_page(at, page)).await
    }

    async fn list(&self, dir: &At, page: &Page) -> Result<Listing> {
        self.reading(|rows| self.announce(rows, dir), |view| view.list(dir, page)).await
    }

    async fn walk(&self, dir: &At, page: &WalkPage) -> Result<Walk> {
        self.reading(|rows| self.announce(rows, dir), |view| view.walk(dir, page)).await
    }

    async fn fetch(&self, at: &At, range: ByteRange) -> Result<(Entry, Bytes)> {
        let announce = |rows: &FetchedRows| {
            self.announce(rows, at);
            self.announce_content(rows, at, range);
        };
        self.reading(announce, |view| view.fetch_at(at, range)).await
    }

    async fn fetch_many(&self, items: &[(At, ByteRange)]) -> Result<Fetched> {
        check_items(items.len())?;
        let items = items.get(..ITEMS).unwrap_or(items);
        let announce = |rows: &FetchedRows| items.iter().for_each(|(at, _)| self.announce(rows, at));
        self.reading(announce, |view| view.fetch_many(items)).await
    }

    async fn hold(&self, at: &At) -> Result<Arc<dyn OpenNode>> {
        let ino = self.reading(|rows| self.announce(rows, at), |view| Ok(view.at(at)?.ino)).await?;
        Ok(Arc::new(Handle::new(self.clone(), ino, at)))
    }

    async fn open(&self, at: &At) -> Result<Arc<dyn OpenFile>> {
        let read = |view: &View<'_>| {
            let node = view.at(at)?;
            view.check_file(&node, at)?;
            Ok(node.ino)
        };
        let ino = self.reading(|rows| self.announce(rows, at), read).await?;
        Ok(Arc::new(Handle::new(self.clone(), ino, at)))
    }

    async fn open_version(&self, version: VersionId) -> Result<Arc<dyn OpenFile>> {
        let state = self
            .reading(
                |_| {},
                |view| {
                    check_kind(view.version_to_open(version)?.kind)?;
                    // The oldest state shows this version if the state of its commit is no longer readable.
                    let seq = version.seq.0.max(view.oldest()?);
                    view.check_version_content(version, seq)?;
                    Ok((seq, view.rows.commit_time(seq)?, view.rows.now()))
                },
            )
            .await?;
        Ok(Arc::new(Handle::new(self.at_past(state), version.ino.0, &At::Node(version.ino))))
    }

    async fn history(&self, at: &At, page: &HistoryPage) -> Result<Listing<Version>> {
        self.reading(|rows| self.announce(rows, at), |view| view.history(at, page)).await
    }

    async fn blame(&self, at: &At, range: ByteRange, limit: usize) -> Result<Blame> {
        self.reading(|rows| self.announce(rows, at), |view| view.blame(at, range, limit)).await
    }

    async fn changes(&self, query: &ChangesQuery) -> Result<Changes> {
        self.reading(|_| {}, |view| view.changes(query)).await
    }

    async fn wait(&self, since: Seq) -> Result<Head> {
        loop {
            if let Some(head) = self.newer(since).await? {
                return Ok(head);
            }
            if self.as_of.is_some() {
                let message = "a view of a past view receives no new commits";
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
            let sleep = async {
                tokio::time::sleep(LOOK).await;
                Ok(())
            };
            self.inner.pool.run(sleep).await?;
        }
    }

    async fn as_of(&self, moment: &Moment) -> Result<Arc<dyn FileSystem>> {
        let state = self
            .reading(
                |_| {},
                |view| {
                    let seq = view.seq_of(moment)?;
                    let time = match moment {
                        // A time in the future must not make entries expire early.
                        Moment::Time(time) => time.0.min(view.time),
                        Moment::Seq(_) | Moment::Snapshot(_) => view.rows.commit_time(seq)?,
                    };
                    Ok((seq, time, view.rows.now()))
                },
            )
            .await?;
        Ok(Arc::new(self.at_past(state)))
    }

    async fn confined(&self, to: &Confinement) -> Result<Arc<dyn FileSystem>> {
        Ok(Arc::new(self.with_reach(self.reach.confined(to)?)))
    }

    async fn snapshots(&self, page: &SnapshotsPage) -> Result<Listing<Snapshot>> {
        self.reading(|_| {}, |view| view.snapshots(page)).await
    }

    async fn search(&self, query: &SearchQuery) -> Result<SearchAnswer> {
        if self.as_of.is_some() {
            let message = "search finds current files only; use grep on the past";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let mut control = self.inner.committer.control.last();
        for _ in 0..SEARCHES {
            if let Some(answer) = self.search_by(&control, query).await? {
                return Ok(answer);
            }
            // The rules have changed after they were read.
            control = self.control().await?;
        }
        Err(Error::new(ErrorKind::WouldBlock, "the rules of the account are being changed; try again"))
    }

    async fn find(&self, query: &FindQuery) -> Result<FindAnswer> {
        let (inner, conn) = (&self.inner, self.inner.pool.connection().await?);
        let (account, registry, is_past) = (inner.account, &inner.registry, self.as_of.is_some());
        let scope = FindScope { account, reach: &self.reach, registry, is_past };
        let answer = match find(&conn, scope, query).await {
            // Nobody has used the account since it was created, or since projections were added.
            Err(error) if error.is(ErrorKind::WouldBlock) => {
                match make_ready(&conn, account, registry).await {
                    Ok(()) => find(&conn, scope, query).await,
                    Err(error) => Err(error),
                }
            }
            answer => answer,
        };
        conn.settle(answer).await
    }

    async fn stage(&self, _at: &At) -> Result<Box<dyn Upload>> {
        self.begin_upload()
    }

    async fn admit(&self, at: &At, content: &Incoming) -> Result<()> {
        self.admit_content(at, content).await
    }

    async fn discard(&self, _at: &At, staged: &StagedBody) -> Result<()> {
        self.writable()?;
        discard(&self.inner.holds, self.reach.owner_key(), staged.id).await
    }

    async fn commit(&self, batch: Batch) -> Result<Commit> {
        self.writable()?;
        batch.check()?;
        let batch = self.reach.confine(batch)?;
        batch.check_keys(&self.inner)?;
        let (inner, reach) = (Arc::clone(&self.inner), Arc::clone(&self.reach));
        // On threads of the pool, so that a caller that is dropped does not cancel it.
        let commits = self.inner.pool.run(async move {
            let request = Request { batch: &batch, reach: &reach };
            inner.committer.commit(&inner.pool, &[request]).await
        });
        let lost = || Err(Error::new(ErrorKind::Io, "the commit has no result"));
        commits.await?.pop().unwrap_or_else(lost)
    }

    async fn committed(&self, id: CommitId) -> Result<Option<Commit>> {
        let found = self.find_commit(id).await?;
        // A view of the past does not know later commits.
        let found = found.filter(|commit| commit.seq.0 <= self.seq());
        Ok(found.map(|commit| self.replayed(commit)))
    }

    async fn recorded(&self, key: &str) -> Result<Option<KeyRecord>> {
        let last = self.seq();
        let found = self.find_record(key).await?.filter(|record| record.commit.seq.0 <= last);
        Ok(found.map(|mut record| {
            record.commit = self.replayed(record.commit);
            record
        }))
    }

    async fn sync(&self) -> Result<Seq> {
        self.writable()?;
        // A commit is durable before any transaction sees it.
        Ok(self.head().await?.seq)
    }

    fn view_base(&self) -> &dyn ViewBase {
        self
    }
}

impl PgStore {
    fn replayed(&self, mut commit: Commit) -> Commit {
        (commit.replayed, commit.durable) = (true, self.as_of.is_none());
        commit
    }
}
