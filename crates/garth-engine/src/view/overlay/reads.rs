//! Implementation of `FileSystem` for an overlay.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;

use super::Overlay;
use super::handles::{LowerFile, LowerNode, Upper};
use super::layered_tree::LOWER;
use super::layers::{Node, ShownEntry, no_past};
use super::lowering::OverlayLowering;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::lower::StoreId;
use crate::fs::{
    ATTEMPTS, By, Capabilities, FileSystem, Incoming, Lowering, OpenFile, OpenNode, SearchTarget, Upload,
    ViewBase,
};
use crate::model::{
    At, Batch, ByteRange, Changes, ChangesQuery, Commit, CommitId, Confinement, Entry, Fetched, FindAnswer,
    FindQuery, Head, HistoryPage, Hit, Ino, KeyRecord, Listing, MAX_READ, Moment, NamesPage, Page,
    SearchAnswer, SearchQuery, Seq, Snapshot, SnapshotsPage, StagedBody, Version, VersionId, Walk, WalkPage,
    Within, check_items,
};
use crate::path::TreePath;
use crate::view::{find, lower, search};

/// Layer that an address leads to, with the path unless the address is an inode.
enum Spot {
    Upper(Option<TreePath>),
    Lower(Option<TreePath>),
}

fn contended() -> Error {
    Error::new(ErrorKind::WouldBlock, "other clients keep changing the same files; try again")
}

impl Overlay {
    /// Calls `of` on the layer that shows an address.
    async fn ask<'a, T: 'a>(
        &'a self,
        at: &At,
        of: impl Fn(&'a Arc<dyn FileSystem>, At) -> BoxFuture<'a, Result<T>>,
    ) -> Result<(Spot, T)> {
        let path = match at {
            At::Node(ino) if *ino != Ino::ROOT => {
                return match self.node(*ino).await? {
                    Node::Upper(raw) => {
                        let answer = of(&self.upper, At::Node(raw)).await;
                        let answer = answer.map_err(|error| self.of_upper(error))?;
                        Ok((Spot::Upper(None), answer))
                    }
                    Node::Lower(raw, _) => Ok((Spot::Lower(None), of(&self.lower, At::Node(raw)).await?)),
                };
            }
            _ => self.path_at(at).await?.unwrap_or_default(),
        };
        for _ in 0..ATTEMPTS {
            if self.look_above(&path).await?.is_none() {
                let answer = match of(&self.lower, At::Path(path.clone())).await {
                    Ok(answer) => answer,
                    Err(error) => return Err(self.of_lower(&path, error).await),
                };
                return Ok((Spot::Lower(Some(path)), answer));
            }
            match of(&self.upper, At::Path(self.tree(&path)?)).await {
                // Removed after the lookup: looks up again what shows now.
                Err(error) if error.is(ErrorKind::NotFound) => {}
                answer => {
                    let answer = answer.map_err(|error| self.of_upper(error))?;
                    return Ok((Spot::Upper(Some(path)), answer));
                }
            }
        }
        Err(contended())
    }

    /// Reads several nodes one after another. An inode takes more than one read to find its layer.
    async fn fetch_each(&self, items: &[(At, ByteRange)]) -> Vec<Result<(Entry, Bytes)>> {
        let (mut answers, mut bytes) = (Vec::with_capacity(items.len()), 0);
        for (at, range) in items {
            let answer = self.fetch(at, *range).await;
            bytes += answer.as_ref().map_or(0, |(entry, bytes)| bytes.len() + entry.attributes.bytes());
            if bytes > MAX_READ && !answers.is_empty() {
                break;
            }
            answers.push(answer);
        }
        answers
    }

    /// Returns the overlay confined to some paths.
    pub(super) async fn part(&self, to: &Confinement) -> Result<Self> {
        to.reject_gates()?;
        let within = self.within.intersect(&to.within);
        let trees = |paths: &[TreePath]| paths.iter().map(|path| self.tree(path)).collect::<Result<Vec<_>>>();
        let own = [&self.places.hidden, &self.places.nodes].map(TreePath::clone);
        let (shown, left_out) = (trees(within.tops())?, trees(within.exclusions())?);
        // In this order, because an island lies in what is left out.
        let mut above = Within::new(own.into_iter().chain(shown.iter().cloned())).without(left_out);
        above = above.with(shown.into_iter().filter(|top| above.is_excluded(top)).collect::<Vec<_>>());
        // The upper layer notes a removal in `hidden`, so a read-only path must not be written there either.
        let kept = |within: &Within, place: &dyn Fn(&TreePath) -> Result<TreePath>| {
            let named = within.named().into_iter().map(|(path, inside)| Ok((place(path)?, inside)));
            Ok::<_, Error>(Within::of(named.collect::<Result<Vec<_>>>()?))
        };
        let read_only = kept(&to.read_only, &|path| self.tree(path))?
            .union(&kept(&to.read_only, &|path| self.hidden(path))?);
        let above = Confinement { within: above, read_only: read_only.clone(), ..to.clone() };
        let whole = Confinement { within: Within::everything(), read_only, ..to.clone() };
        let (upper, whole) = (self.upper.confined(&above).await?, self.whole.confined(&whole).await?);
        Ok(Self { upper, whole, within, ..self.clone() })
    }

    async fn shown(&self, spot: &Spot, entry: Entry) -> Result<Entry> {
        match spot {
            Spot::Upper(path) => self.upper_entry(entry, path.as_ref()).await,
            Spot::Lower(path) => Ok(self.lower_entry(entry, path.as_ref())),
        }
    }
}

#[async_trait]
impl FileSystem for Overlay {
    fn capabilities(&self, _: &TreePath) -> Capabilities {
        let root = TreePath::root();
        let (above, below) = (self.upper.capabilities(&root), self.lower.capabilities(&root));
        Capabilities {
            nodes: above.nodes && below.nodes,
            search: above.search && below.search,
            find: above.find && below.find,
            holes: above.holes && below.holes,
            // Neither layer knows what the other one showed at a time.
            history: false,
            snapshots: false,
            ..above
        }
    }

    async fn head(&self) -> Result<Head> {
        self.upper.head().await
    }

    async fn stat(&self, at: &At) -> Result<Entry> {
        if matches!(at, At::Node(ino) if *ino != Ino::ROOT) {
            let (spot, entry) = self.ask(at, |fs, at| async move { fs.stat(&at).await }.boxed()).await?;
            return self.shown(&spot, entry).await;
        }
        // `look` returns the entry at once, where `ask` would look the path up first.
        let path = self.path_at(at).await?.unwrap_or_default();
        self.entry(self.look(&path).await?, Some(&path)).await
    }

    async fn names(&self, at: &At, page: &NamesPage) -> Result<Listing<TreePath>> {
        self.names_page(at, page).await
    }

    async fn list(&self, dir: &At, page: &Page) -> Result<Listing> {
        self.list_page(dir, page).await
    }

    async fn walk(&self, dir: &At, page: &WalkPage) -> Result<Walk> {
        self.walk_page(dir, page).await
    }

    async fn fetch(&self, at: &At, range: ByteRange) -> Result<(Entry, Bytes)> {
        let fetch = |fs: &'_ Arc<dyn FileSystem>, at| {
            let fs = Arc::clone(fs);
            async move { fs.fetch(&at, range).await }.boxed()
        };
        let (spot, (entry, bytes)) = self.ask(at, fetch).await?;
        Ok((self.shown(&spot, entry).await?, bytes))
    }

    async fn fetch_many(&self, items: &[(At, ByteRange)]) -> Result<Fetched> {
        check_items(items.len())?;
        let paths = items.iter().map(|(at, range)| match at {
            At::Path(path) => Some((path, *range)),
            At::Node(_) | At::Child(..) => None,
        });
        let by_path: Option<Vec<_>> = paths.collect();
        // All answers are of one state of the upper layer: reads that a commit came between are repeated.
        for _ in 0..ATTEMPTS {
            let seq = self.head().await?.seq;
            let answers = match &by_path {
                Some(items) => self.fetch_paths(items).await?,
                None => self.fetch_each(items).await,
            };
            if self.head().await?.seq == seq {
                return Ok(Fetched::new(seq, answers));
            }
        }
        Err(contended())
    }

    async fn hold(&self, at: &At) -> Result<Arc<dyn OpenNode>> {
        let hold = |fs: &'_ Arc<dyn FileSystem>, at| {
            let fs = Arc::clone(fs);
            async move {
                let node = fs.hold(&at).await?;
                let entry = node.stat().await?;
                Ok((node, entry))
            }
            .boxed()
        };
        let (spot, (inner, entry)) = self.ask(at, hold).await?;
        // `open` returns a handle that follows the copy if the file is copied up later.
        if entry.is_file() {
            return Ok(self.open(at).await?);
        }
        let ino = self.shown(&spot, entry).await?.ino;
        let overlay = self.clone();
        Ok(match spot {
            Spot::Upper(path) => Arc::new(Upper { overlay, ino, path, inner }),
            Spot::Lower(..) => Arc::new(LowerNode { overlay, ino, inner }),
        })
    }

    async fn open(&self, at: &At) -> Result<Arc<dyn OpenFile>> {
        let open = |fs: &'_ Arc<dyn FileSystem>, at| {
            let fs = Arc::clone(fs);
            async move {
                let file = fs.open(&at).await?;
                let entry = file.stat().await?;
                Ok((file, entry))
            }
            .boxed()
        };
        for _ in 0..ATTEMPTS {
            let (spot, (inner, entry)) = self.ask(at, open).await?;
            let raw = entry.ino;
            let ino = self.shown(&spot, entry).await?.ino;
            let overlay = self.clone();
            let path = match spot {
                Spot::Upper(path) => {
                    let inner = self.upper_file(inner);
                    return Ok(Arc::new(Upper { overlay, ino, path, inner }));
                }
                Spot::Lower(path) => path,
            };
            let noted = self.noted_at(raw).await?;
            // The note may be new: if the file was copied up between lookup and handle, the upper layer has
            // the path by now. Taken for an old note, it would leave the handle at the original for good.
            if let (Some(_), Some(path)) = (noted, &path)
                && self.look_above(path).await?.is_some()
            {
                continue;
            }
            let above = Mutex::default();
            return Ok(Arc::new(LowerFile { overlay, raw, ino, noted, below: inner, above }));
        }
        Err(contended())
    }

    async fn open_version(&self, _: VersionId) -> Result<Arc<dyn OpenFile>> {
        Err(no_past())
    }

    async fn history(&self, _: &At, _: &HistoryPage) -> Result<Listing<Version>> {
        Err(no_past())
    }

    async fn changes(&self, _: &ChangesQuery) -> Result<Changes> {
        Err(no_past())
    }

    async fn wait(&self, _: Seq) -> Result<Head> {
        Err(no_past())
    }

    async fn as_of(&self, _: &Moment) -> Result<Arc<dyn FileSystem>> {
        Err(no_past())
    }

    async fn confined(&self, to: &Confinement) -> Result<Arc<dyn FileSystem>> {
        Ok(Arc::new(self.part(to).await?))
    }

    async fn snapshots(&self, _: &SnapshotsPage) -> Result<Listing<Snapshot>> {
        Err(no_past())
    }

    async fn search(&self, query: &SearchQuery) -> Result<SearchAnswer> {
        search::search(self, &self.within, query).await
    }

    async fn find(&self, query: &FindQuery) -> Result<FindAnswer> {
        find::find(self, &self.within, query).await
    }

    async fn stage(&self, at: &At) -> Result<Box<dyn Upload>> {
        self.upper.stage(&self.staged_at(at)?).await.map_err(|error| self.of_upper(error))
    }

    async fn admit(&self, at: &At, content: &Incoming) -> Result<()> {
        self.upper.admit(&self.staged_at(at)?, content).await.map_err(|error| self.of_upper(error))
    }

    async fn discard(&self, at: &At, staged: &StagedBody) -> Result<()> {
        self.upper.discard(&self.staged_at(at)?, staged).await.map_err(|error| self.of_upper(error))
    }

    async fn commit(&self, batch: Batch) -> Result<Commit> {
        lower::commit(&|| self.lowering(), &batch).await
    }

    async fn committed(&self, id: CommitId) -> Result<Option<Commit>> {
        self.upper.committed(id).await
    }

    async fn recorded(&self, key: &str) -> Result<Option<KeyRecord>> {
        self.upper.recorded(key).await
    }

    async fn sync(&self) -> Result<Seq> {
        self.upper.sync().await
    }

    fn view_base(&self) -> &dyn ViewBase {
        self
    }
}

#[async_trait]
impl ViewBase for Overlay {
    fn lowering(&self) -> Box<dyn Lowering> {
        Box::new(OverlayLowering::new(self.clone()))
    }

    fn keeps_path(&self, path: &TreePath) -> bool {
        self.lower.view_base().keeps_path(path)
    }

    /// Links of the upper layer are confined as those that they replace.
    fn link_root(&self, link: &TreePath) -> TreePath {
        self.lower.view_base().link_root(link)
    }

    fn original_of(&self, path: &TreePath) -> Option<TreePath> {
        self.lower.view_base().original_of(path)
    }

    fn sought(&self, within: &Within, by: By) -> Result<Vec<SearchTarget>> {
        if !by.is_of(self.capabilities(&TreePath::root())) {
            return Ok(Vec::new());
        }
        let within = self.within.intersect(within);
        let above = within.tops().iter().map(|path| self.tree(path)).collect::<Result<Vec<_>>>()?;
        // Without what is left out: `found` drops the hits in it.
        let mut sought = self.upper.view_base().sought(&Within::new(above), by)?;
        sought.append(&mut self.lower.view_base().sought(&within, by)?);
        Ok(sought)
    }

    fn is_searchable(&self, path: &TreePath) -> bool {
        self.lower.view_base().is_searchable(path)
    }

    async fn found(&self, store: StoreId, hit: &Hit, by: By) -> Result<Vec<Hit>> {
        let mut shown = Vec::new();
        for hit in self.upper.view_base().found(store, hit, by).await? {
            if let Some(path) = self.in_tree(&hit.path)
                // The store knows the file by another path: it has not left out what this one excludes, nor
                // lines that the keys of the lower layer withhold.
                && (by == By::Key || self.is_searchable(&path))
                // The upper layer also returns nodes that a replaced or hidden path does not show.
                && let Ok(ShownEntry::Upper(entry)) = self.look(&path).await
                && entry.ino == hit.ino
            {
                let ino = self.number(&entry, Some(&path)).await?;
                shown.push(search::shown(hit, path, ino));
            }
        }
        for hit in self.lower.view_base().found(store, hit, by).await? {
            // Hits that are hidden or copied up do not show here.
            if let Ok(ShownEntry::Lower(entry)) = self.look(&hit.path).await
                && entry.ino == hit.ino
            {
                let path = hit.path.clone();
                shown.push(search::shown(hit, path, self.numbers.shown(LOWER, entry.ino)));
            }
        }
        Ok(shown)
    }
}
