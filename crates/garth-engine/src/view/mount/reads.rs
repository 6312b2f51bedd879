//! Implementation of `FileSystem` for a mounted tree.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use super::handles::{Leading, LimitedUpload, Renumbered};
use super::lowering::MountLowering;
use super::part::{Other, Part, Source, no_past};
use super::{Below, Mount, Place, check_body};
use crate::error::{Error, ErrorKind, Result};
use crate::fs::lower::StoreId;
use crate::fs::{
    By, Capabilities, FileSystem, Incoming, Lowering, OpenFile, OpenNode, SearchTarget, Upload, ViewBase,
};
use crate::model::{
    At, Batch, Blame, ByteRange, Change, ChangeKind, Changes, ChangesQuery, Commit, CommitChanges, CommitId,
    Confinement, Entry, Fetched, FindAnswer, FindQuery, Head, HistoryPage, Hit, Ino, KeyRecord, Listing,
    MAX_READ, Moment, NamesPage, Owner, Page, SearchAnswer, SearchQuery, Seq, Snapshot, SnapshotsPage,
    StagedBody, Version, VersionId, Walk, WalkPage, Within, check_items,
};
use crate::path::TreePath;
use crate::view::inode_map::renumbered;
use crate::view::{find, lower, search};

impl Mount {
    /// Returns a node of a part as the tree shows it.
    pub(super) fn entry(&self, part: &Part, entry: Entry) -> Entry {
        let ino = self.parts.shown(part, entry.ino);
        renumbered(entry, ino)
    }

    /// Returns the node at an address of a part as the tree shows it.
    fn found(&self, place: &Place<'_>, entry: Entry) -> Entry {
        if place.is_root() { renumbered(entry, Ino::ROOT) } else { self.entry(place.part, entry) }
    }

    /// Returns the base confined to one part.
    pub(super) async fn only(&self, part: &Part) -> Result<Arc<dyn FileSystem>> {
        match &part.source {
            Source::Base(root) => {
                let (within, owner) = (Within::new([root.clone()]), Owner::of_path(root)?);
                self.base.confined(&Confinement::new(within, owner)).await
            }
            Source::Other(_) | Source::NoPast => self.fs(part).cloned(),
        }
    }

    /// Returns the place of an address in the base or its store. Fails for other stores, whose past is not
    /// known.
    async fn past(&self, at: &At) -> Result<Place<'_>> {
        let place = self.place(at).await?;
        match &place.part.source {
            Source::Base(_) | Source::Other(Other { has_past: true, .. }) => Ok(place),
            Source::Other(_) | Source::NoPast => Err(no_past(place.part)),
        }
    }

    /// Returns the part that a version belongs to, and the version there.
    fn version_in(&self, version: VersionId) -> Result<(&Part, VersionId)> {
        let none = || Error::new(ErrorKind::NotFound, "no such version");
        let (part, ino) = self.parts.node(version.ino).ok_or_else(none)?;
        match &part.source {
            Source::Base(_) | Source::Other(Other { has_past: true, .. }) => {
                Ok((part, VersionId { ino, ..version }))
            }
            Source::Other(_) | Source::NoPast => Err(no_past(part)),
        }
    }

    /// Returns a change of the base as it shows within some paths; `None` if it does not show.
    fn change(&self, change: Change, within: &Within) -> Option<Change> {
        let Change { kind, ino, paths } = change;
        let up = |path: &TreePath| {
            self.parts.up_from_base(path).filter(|path| within.contains(path)).collect::<Vec<_>>()
        };
        let shown: Vec<TreePath> = paths.iter().flat_map(up).collect();
        let part = match shown.first() {
            Some(path) => self.parts.of(path),
            // A node without a name: the first path asked for decides whose inode it is.
            None if paths.is_empty() => self.parts.of(within.tops().first().unwrap_or(&TreePath::root())),
            None => return None,
        };
        let kind = match kind {
            // Without its old path in the tree, the node has come from outside.
            ChangeKind::Renamed { from } => match up(&from).into_iter().next() {
                Some(from) => ChangeKind::Renamed { from },
                None => ChangeKind::Created,
            },
            kind => kind,
        };
        let is_root = shown.iter().any(TreePath::is_root);
        let ino = if is_root { Ino::ROOT } else { self.parts.shown(part, ino) };
        Some(Change { kind, ino, paths: shown })
    }

    /// Reads files of several parts. Those of one store are of one state.
    async fn fetch_all(&self, places: &[(Place<'_>, ByteRange)]) -> Result<Fetched> {
        let mut answers: Vec<Option<Result<(Entry, Bytes)>>> = places.iter().map(|_| None).collect();
        let mut asked_of = vec![false; self.parts.all().len()];
        let (mut seq, mut bytes) = (None, 0);
        // Directories of the base are read in one call, so that their answers are of one state.
        let source = |part: &Part| if part.is_base() { 0 } else { part.index };
        for (place, _) in places {
            let part = place.part;
            // Each source is asked once, for all of its items.
            if std::mem::replace(&mut asked_of[source(part)], true) {
                continue;
            }
            let here = (0..places.len()).filter(|n| source(places[*n].0.part) == source(part));
            let here: Vec<usize> = here.collect();
            let asked: Vec<_> = here.iter().map(|n| (places[*n].0.at.clone(), places[*n].1)).collect();
            let fetched =
                self.fs(part)?.fetch_many(&asked).await.map_err(|error| self.told_of(part, error))?;
            // The sequence number of the base counts. That of another store is the answer only if no file of
            // the base was asked for.
            if part.is_base() || seq.is_none() {
                seq = fetched.seq;
            }
            for (n, answer) in here.into_iter().zip(fetched.items) {
                let place = &places[n].0;
                let answer = self.told(place.part, answer).map_err(|error| self.of_leading(place, error));
                answers[n] = Some(answer.map(|(entry, bytes)| (self.found(place, entry), bytes)));
            }
        }
        let seq = match seq {
            None if places.is_empty() => Some(self.base.head().await?.seq),
            seq => seq,
        };
        let fits = |answer: &Result<(Entry, Bytes)>| {
            // At least one answer, whatever its size, so that the caller gets further.
            let first = bytes == 0;
            bytes += answer.as_ref().map_or(0, |(_, content)| content.len());
            first || bytes <= MAX_READ
        };
        // A part may answer only its first items. The answer ends before the first item that has none.
        let items = answers.into_iter().map_while(|answer| answer).take_while(fits).collect();
        Ok(Fetched { seq, items })
    }
}

#[async_trait]
impl FileSystem for Mount {
    fn capabilities(&self, at: &TreePath) -> Capabilities {
        let part = self.parts.of(at);
        let below = part.down(at).unwrap_or_else(|_| part.root());
        let mut has = match &part.source {
            Source::Base(_) => self.base.capabilities(&below),
            Source::Other(other) => {
                let has = other.fs.capabilities(&below);
                // The past is asked for by sequence numbers of the base.
                let past = other.has_past;
                Capabilities { history: has.history && past, snapshots: has.snapshots && past, ..has }
            }
            Source::NoPast => Capabilities::default(),
        };
        has.write &= !part.read_only;
        has
    }

    async fn head(&self) -> Result<Head> {
        self.base.head().await
    }

    async fn stat(&self, at: &At) -> Result<Entry> {
        let place = self.place(at).await?;
        let leads = place.path.as_ref().filter(|path| self.leads(path));
        let entry = match self.fs(place.part) {
            Ok(fs) => self.told(place.part, fs.stat(&place.at).await),
            Err(error) => Err(error),
        };
        match (entry, leads) {
            // A file cannot lead to a part: the tree shows a directory in its place.
            (Ok(entry), Some(path)) if !entry.is_dir() && !self.may_be_file(path) => Ok(self.made_up(path)),
            (Err(error), Some(path)) if error.is_absent() || error.is(ErrorKind::Unsupported) => {
                Ok(self.made_up(path))
            }
            (Err(error), None) => Ok(self.made_up(self.empty_root_at(&place, error)?)),
            (entry, _) => Ok(self.found(&place, entry?)),
        }
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
        let place = self.place(at).await?;
        let fetched = self.told(place.part, self.fs(place.part)?.fetch(&place.at, range).await);
        let (entry, bytes) = fetched.map_err(|error| self.of_leading(&place, error))?;
        Ok((self.found(&place, entry), bytes))
    }

    async fn fetch_many(&self, items: &[(At, ByteRange)]) -> Result<Fetched> {
        check_items(items.len())?;
        let (mut places, mut wrong) = (Vec::with_capacity(items.len()), Vec::new());
        for (n, (at, range)) in items.iter().enumerate() {
            match self.place(at).await {
                Ok(place) => places.push((place, *range)),
                Err(error) => wrong.push((n, error)),
            }
        }
        let fetched = self.fetch_all(&places).await?;
        let (mut answers, mut wrong) = (fetched.items.into_iter(), wrong.into_iter().peekable());
        let mut all = Vec::with_capacity(items.len());
        for n in 0..items.len() {
            match wrong.next_if(|(at, _)| *at == n) {
                Some((_, error)) => all.push(Err(error)),
                None => match answers.next() {
                    Some(answer) => all.push(answer),
                    None => break,
                },
            }
        }
        Ok(Fetched { seq: fetched.seq, items: all })
    }

    async fn hold(&self, at: &At) -> Result<Arc<dyn OpenNode>> {
        let place = self.place(at).await?;
        let leads = place.path.as_ref().is_some_and(|path| self.leads(path));
        if leads {
            let entry = self.stat(at).await?;
            // Nobody created the directory, so there is no node to hold.
            if self.parts.own_path(entry.ino).is_some() {
                return Ok(Arc::new(Leading(entry)));
            }
        }
        let inner = match self.told(place.part, self.fs(place.part)?.hold(&place.at).await) {
            Err(error) => return Ok(Arc::new(Leading(self.made_up(self.empty_root_at(&place, error)?)))),
            Ok(inner) => inner,
        };
        let ino = self.number(&place, inner.ino());
        Ok(if ino == inner.ino() { inner } else { Arc::new(Renumbered { ino, inner }) })
    }

    async fn open(&self, at: &At) -> Result<Arc<dyn OpenFile>> {
        let place = self.place(at).await?;
        let opened = self.told(place.part, self.fs(place.part)?.open(&place.at).await);
        let inner = opened.map_err(|error| self.of_leading(&place, error))?;
        let ino = self.number(&place, inner.ino());
        let inner = self.file(place.part, place.path, inner);
        Ok(if ino == inner.ino() { inner } else { Arc::new(Renumbered { ino, inner }) })
    }

    async fn open_version(&self, version: VersionId) -> Result<Arc<dyn OpenFile>> {
        let (part, below) = self.version_in(version)?;
        let inner = self.told(part, self.fs(part)?.open_version(below).await)?;
        let (ino, inner) = (version.ino, self.file(part, None, inner));
        Ok(if ino == inner.ino() { inner } else { Arc::new(Renumbered { ino, inner }) })
    }

    async fn history(&self, at: &At, page: &HistoryPage) -> Result<Listing<Version>> {
        let place = self.past(at).await?;
        let mut page = page.clone();
        page.before = page.before.map(|version| match self.parts.node(version.ino) {
            Some((_, ino)) => VersionId { ino, ..version },
            None => version,
        });
        let mut versions = self.told(place.part, self.fs(place.part)?.history(&place.at, &page).await)?;
        for version in &mut versions.items {
            version.id.ino = self.number(&place, version.id.ino);
            version.entry = version.entry.take().map(|entry| Box::new(self.found(&place, *entry)));
        }
        Ok(versions)
    }

    async fn blame(&self, at: &At, range: ByteRange, limit: usize) -> Result<Blame> {
        let place = self.past(at).await?;
        self.told(place.part, self.fs(place.part)?.blame(&place.at, range, limit).await)
    }

    async fn changes(&self, query: &ChangesQuery) -> Result<Changes> {
        let mut query = query.clone();
        let whole = query.check()?;
        let asked = whole.intersect(&self.within);
        if !asked.is_everything() {
            // The base reports nothing about paths out of reach.
            query.within = self.below(if asked.is_nothing() { &whole } else { &asked })?.base;
            if query.within.is_empty() {
                return Err(Error::new(
                    ErrorKind::Unsupported,
                    "the filesystem mounted there has no history",
                ));
            }
        }
        let mut changes = self.base.changes(&query).await?;
        changes.commits = changes
            .commits
            .into_iter()
            .filter_map(|CommitChanges { commit, changes }| {
                let had = !changes.is_empty();
                let changes: Vec<_> =
                    // A commit whose changes are all hidden does not show; one that changed nothing does.
                    changes.into_iter().filter_map(|change| self.change(change, &asked)).collect();
                (!had || !changes.is_empty()).then_some(CommitChanges { commit, changes })
            })
            .collect();
        Ok(changes)
    }

    async fn wait(&self, since: Seq) -> Result<Head> {
        self.base.wait(since).await
    }

    async fn as_of(&self, moment: &Moment) -> Result<Arc<dyn FileSystem>> {
        let base = self.base.as_of(moment).await?;
        let mut past = Vec::with_capacity(self.parts.all().len());
        for part in self.parts.all() {
            past.push(match &part.source {
                Source::Base(root) => Source::Base(root.clone()),
                Source::Other(other) if other.has_past => {
                    // The name of a snapshot belongs to the owner of the base, so other parts are asked by
                    // sequence number.
                    let moment = match moment {
                        Moment::Snapshot(_) => Moment::Seq(base.head().await?.seq),
                        moment => moment.clone(),
                    };
                    match other.fs.as_of(&moment).await {
                        Ok(fs) => Source::Other(Other { fs, has_past: true }),
                        // An overlay of directories of the store has no past, though its layers have one.
                        Err(error) if error.is(ErrorKind::Unsupported) => Source::NoPast,
                        Err(error) => return Err(error),
                    }
                }
                Source::Other(_) | Source::NoPast => Source::NoPast,
            });
        }
        self.over(base, past, self.within.clone())
    }

    async fn confined(&self, to: &Confinement) -> Result<Arc<dyn FileSystem>> {
        to.reject_gates()?;
        let within = self.within.intersect(&to.within);
        let (mut base, mut read_only) = (Within::nothing(), Within::nothing());
        for part in self.parts.all().iter().filter(|part| part.is_base()) {
            base = base.union(&self.within_part(part, &within)?);
            read_only = read_only.union(&self.within_part(part, &to.read_only)?);
        }
        let base = Confinement { within: base, read_only, ..to.clone() };
        let base = self.base.confined(&base).await?;
        let mut sources = Vec::with_capacity(self.parts.all().len());
        for part in self.parts.all() {
            sources.push(match &part.source {
                Source::Base(root) => Source::Base(root.clone()),
                Source::Other(other) => {
                    let within = self.within_part(part, &within)?;
                    let read_only = self.within_part(part, &to.read_only)?;
                    let to = Confinement { within, read_only, ..to.clone() };
                    Source::Other(Other { fs: other.fs.confined(&to).await?, ..other.clone() })
                }
                Source::NoPast => Source::NoPast,
            });
        }
        self.over(base, sources, within)
    }

    async fn snapshots(&self, page: &SnapshotsPage) -> Result<Listing<Snapshot>> {
        self.base.snapshots(page).await
    }

    async fn search(&self, query: &SearchQuery) -> Result<SearchAnswer> {
        search::search(self, &self.within, query).await
    }

    async fn find(&self, query: &FindQuery) -> Result<FindAnswer> {
        find::find(self, &self.within, query).await
    }

    async fn stage(&self, at: &At) -> Result<Box<dyn Upload>> {
        let place = self.place(at).await?;
        let (fs, to) = self.stager(&place)?;
        let inner = self.told(place.part, fs.stage(&to).await)?;
        Ok(match self.largest_body {
            Some(_) => Box::new(LimitedUpload { inner, largest: self.largest_body, at: at.clone(), size: 0 }),
            None => inner,
        })
    }

    async fn admit(&self, at: &At, content: &Incoming) -> Result<()> {
        // The limit is one on what is sent. A part of a long file is short.
        check_body(self.largest_body, content.length, Some(at))?;
        let place = self.place(at).await?;
        self.told(place.part, self.fs(place.part)?.admit(&place.at, content).await)
    }

    async fn discard(&self, at: &At, staged: &StagedBody) -> Result<()> {
        let place = self.place(at).await?;
        let (fs, to) = self.stager(&place)?;
        self.told(place.part, fs.discard(&to, staged).await)
    }

    async fn commit(&self, batch: Batch) -> Result<Commit> {
        lower::commit(&|| self.lowering(), &batch).await
    }

    async fn committed(&self, id: CommitId) -> Result<Option<Commit>> {
        if let Some(commit) = self.base.committed(id).await? {
            return Ok(Some(commit));
        }
        // The batch may have ended in another store.
        for part in self.parts.all() {
            if let Source::Other(other) = &part.source
                // A part that takes no commits has none to look for.
                && self.capabilities(&part.at).write
                && let Some(commit) = other.fs.committed(id).await?
            {
                return Ok(Some(commit));
            }
        }
        Ok(None)
    }

    async fn recorded(&self, key: &str) -> Result<Option<KeyRecord>> {
        if let Some(record) = self.base.recorded(key).await? {
            return Ok(Some(record));
        }
        for part in self.parts.all() {
            if let Source::Other(other) = &part.source
                && self.capabilities(&part.at).write
                && let Some(record) = other.fs.recorded(key).await?
            {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }

    async fn sync(&self) -> Result<Seq> {
        for part in self.parts.all() {
            if let Source::Other(other) = &part.source
                && self.capabilities(&part.at).write
            {
                other.fs.sync().await?;
            }
        }
        self.base.sync().await
    }

    fn view_base(&self) -> &dyn ViewBase {
        self
    }
}

#[async_trait]
impl ViewBase for Mount {
    fn known_durable(&self) -> Result<Seq> {
        self.base.view_base().known_durable()
    }

    async fn settle(&self, seq: Seq) -> Result<()> {
        self.base.view_base().settle(seq).await
    }

    fn lowering(&self) -> Box<dyn Lowering> {
        Box::new(MountLowering::new(self.clone()))
    }

    /// The parts are one tree, so that a link may lead from one to another, unless a part has a limit of its
    /// own.
    fn link_root(&self, link: &TreePath) -> TreePath {
        let part = self.parts.of(link);
        let (Ok(fs), Ok(below)) = (self.fs(part), part.down(link)) else { return part.at.clone() };
        match fs.view_base().link_root(&below) {
            root if root.is_root() => TreePath::root(),
            // A limit above the part's root, or in another part: the part is narrower.
            root => part.up(&root).unwrap_or_else(|| part.at.clone()),
        }
    }

    fn sought(&self, within: &Within, by: By) -> Result<Vec<SearchTarget>> {
        let Below { base, others } = self.below(&self.within.intersect(within))?;
        let mut sought = match base.is_empty() {
            true => Vec::new(),
            false => self.base.view_base().sought(&Within::new(base), by)?,
        };
        for (part, tops) in others {
            if by.is_of(self.capabilities(&part.at)) {
                sought.append(&mut self.fs(part)?.view_base().sought(&Within::new(tops), by)?);
            }
        }
        Ok(sought)
    }

    fn original_of(&self, path: &TreePath) -> Option<TreePath> {
        self.original(path)
    }

    fn is_searchable(&self, path: &TreePath) -> bool {
        let part = self.parts.of(path);
        let (Ok(fs), Ok(path)) = (self.fs(part), part.down(path)) else { return false };
        fs.view_base().is_searchable(&path)
    }

    async fn found(&self, store: StoreId, hit: &Hit, by: By) -> Result<Vec<Hit>> {
        let mut shown = Vec::new();
        for hit in self.base.view_base().found(store, hit, by).await? {
            for path in self.parts.up_from_base(&hit.path).filter(|path| self.within.contains(path)) {
                let ino = self.parts.shown(self.parts.of(&path), hit.ino);
                shown.push(search::shown(hit.clone(), path, ino));
            }
        }
        for part in self.parts.all() {
            let Source::Other(other) = &part.source else { continue };
            for hit in other.fs.view_base().found(store, hit, by).await? {
                if let Some(path) =
                    self.parts.shown_by(part, &hit.path).filter(|path| self.within.contains(path))
                {
                    let ino = self.parts.shown(part, hit.ino);
                    shown.push(search::shown(hit, path, ino));
                }
            }
        }
        Ok(shown)
    }
}

impl Mount {
    /// Returns the inode that the tree shows for a node at a place.
    fn number(&self, place: &Place<'_>, ino: Ino) -> Ino {
        if place.is_root() { Ino::ROOT } else { self.parts.shown(place.part, ino) }
    }

    /// Returns the error for reading as a file a directory that leads to a part, or that nobody created.
    fn of_leading(&self, place: &Place<'_>, error: Error) -> Error {
        match &place.path {
            Some(path) if self.leads(path) || self.is_empty_root(path, &error) => Error::is_a_directory(path),
            _ => error,
        }
    }

    /// Returns the root if `error` is that of a root that nobody created; otherwise the error.
    fn empty_root_at<'p>(&self, place: &'p Place<'_>, error: Error) -> Result<&'p TreePath> {
        match &place.path {
            Some(path) if self.is_empty_root(path, &error) => Ok(path),
            _ => Err(error),
        }
    }

    /// Returns the paths of a part that make up some paths of the tree.
    fn within_part(&self, part: &Part, within: &Within) -> Result<Within> {
        let mut named = vec![(part.root(), within.contains(&part.at))];
        for (path, inside) in within.named() {
            if path != &part.at && self.parts.of(path).index == part.index {
                named.push((part.down(path)?, inside));
            }
        }
        Ok(Within::of(named))
    }

    fn over(
        &self,
        base: Arc<dyn FileSystem>,
        sources: Vec<Source>,
        within: Within,
    ) -> Result<Arc<dyn FileSystem>> {
        let parts = Arc::new(self.parts.over(sources));
        Ok(Arc::new(Self { base, parts, within, ..self.clone() }))
    }
}
