//! Database in maps, with all versions of its rows. It applies deltas as a real one does.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use bytes::Bytes;

use super::*;
use crate::engine::planner::subtrees::key_of;
use crate::model::{Attributes, CommitId};
use crate::rule::quota::Quotas;
use crate::rule::{Digest, Rules};

/// End of a row that has not ended.
const NEVER: u64 = u64::MAX;

/// Row with the commit that ended it.
struct Spanned<T> {
    row: T,
    till: u64,
}

/// Describes everything in a plan, to compare two of them.
pub(super) fn described(planned: &Result<Planned>) -> String {
    match planned {
        Err(error) => format!("{:?} {:?} {}", error.kind(), error.path(), error.message()),
        Ok(Planned::Replay(commit)) => format!("again {commit:#?}"),
        Ok(Planned::Apply { delta, head, commit }) => {
            let Delta { names, nodes, attributes, extents, chunks, expiry, .. } = &**delta;
            let Delta { snapshots, staged, index, log, unnamed, quotas, writes, judged, keyed, .. } =
                &**delta;
            let rows = (names, nodes, writes, attributes, extents, chunks.keys(), expiry);
            let rows = (rows, delta.references(), judged, keyed);
            format!(
                "{rows:?} {snapshots:?} {staged:?} {index:?} {log:?} {unnamed:?} {quotas:?} {head:?} {commit:?}"
            )
        }
    }
}

/// Rows of an account.
pub(super) struct Store {
    rules: Rules,
    pub(super) head: HeadRow,
    names: BTreeMap<Key, Vec<Spanned<NameRow>>>,
    /// Keys that each node has or had. Without them, the names of one node take a walk through those of all.
    keys_of: HashMap<u64, BTreeSet<Key>>,
    judged: BTreeMap<(u64, Digest), JudgedRow>,
    nodes: BTreeMap<u64, BTreeMap<u64, NodeRow>>,
    /// Directories of whose newest versions only the times are stored.
    with_times: BTreeSet<u64>,
    attributes: BTreeMap<(u64, u64), Attributes>,
    extents: BTreeMap<u64, Vec<Spanned<ExtentRow>>>,
    pub(super) chunks: BTreeMap<u64, Chunk>,
    /// References to each chunk, according to the deltas.
    references: BTreeMap<u64, i64>,
    times: BTreeMap<u64, i64>,
    snapshots: BTreeSet<String>,
    commits: HashMap<CommitId, Commit>,
    idempotency: BTreeMap<String, IdempotencyRow>,
    staged: BTreeMap<u128, Staged>,
    pub(super) quotas: Arc<Quotas>,
    /// Nodes that are held open.
    pub(super) open: BTreeSet<u64>,
    /// Number of queries for names, nodes and extents, of the ranges that they name, and of the rows that
    /// they return.
    pub(super) asked: AtomicUsize,
    /// Error for every read of a chunk.
    pub(super) unreadable: Option<ErrorKind>,
    /// Error for every read of the names of a node.
    pub(super) unnamed: Option<ErrorKind>,
}

/// Commit that was applied.
pub(super) struct Applied {
    pub(super) delta: Delta,
    pub(super) commit: Commit,
}

impl Store {
    pub(super) fn new() -> Self {
        let root = NodeRow {
            ino: Ino::ROOT.0,
            seq: 0,
            kind: Kind::Directory,
            mode: 0o755,
            uid: 0,
            gid: 0,
            rdev: 0,
            nlink: 2,
            size: 0,
            atime: 0,
            mtime: 0,
            ctime: 0,
            birthtime: 0,
            target: None,
            attrs_seq: 0,
            expires_at: None,
            content_seq: 0,
        };
        Self {
            rules: crate::rule::sample::registry().rules().clone(),
            head: HeadRow { next_ino: 2, next_chunk: 1, ..HeadRow::default() },
            names: BTreeMap::new(),
            keys_of: HashMap::new(),
            judged: BTreeMap::new(),
            nodes: BTreeMap::from([(root.ino, BTreeMap::from([(0, root)]))]),
            with_times: BTreeSet::new(),
            attributes: BTreeMap::new(),
            extents: BTreeMap::new(),
            chunks: BTreeMap::new(),
            times: BTreeMap::new(),
            snapshots: BTreeSet::new(),
            commits: HashMap::new(),
            idempotency: BTreeMap::new(),
            staged: BTreeMap::new(),
            references: BTreeMap::new(),
            quotas: Arc::default(),
            open: BTreeSet::new(),
            asked: AtomicUsize::new(0),
            unreadable: None,
            unnamed: None,
        }
    }

    /// Plans a batch on these rows, without changing them: once on the rows themselves and once only on
    /// those that are fetched for it. Both must give the same.
    pub(super) fn plan(&self, batch: &Batch) -> Result<Planned> {
        self.plan_in_rounds(batch).0
    }

    /// Plans a batch as [`Self::plan`] does. Returns the number of rounds as well.
    pub(super) fn plan_in_rounds(&self, batch: &Batch) -> (Result<Planned>, usize) {
        let planned = plan(self, self.head, self.now(), batch);
        let (again, rounds) = self.plan_fetched(batch);
        assert_eq!(described(&planned), described(&again), "planned from what was fetched: {batch:?}");
        (planned, rounds)
    }

    /// Plans a batch only on the rows that are fetched for it.
    pub(super) fn plan_fetched(&self, batch: &Batch) -> (Result<Planned>, usize) {
        fetched::plan_fetched(self, self.state(), batch)
    }

    /// Plans the first batches of a group only on the rows that are fetched for it. Returns the number of
    /// rounds as well.
    pub(super) fn plan_group(&self, batches: &[&Batch]) -> (Vec<Result<Planned>>, usize) {
        let is_open = |_: usize, ino: u64| self.is_open(ino);
        let (planned, rounds) = fetched::plan_group_fetched(self, self.state(), batches, &is_open);
        (planned.unwrap(), rounds)
    }

    fn state(&self) -> Fetched {
        Fetched { head: self.head, now: self.now() }
    }

    pub(super) fn now(&self) -> Timestamp {
        Timestamp(10 * (self.head.seq.cast_signed() + 1))
    }

    /// Commits a batch that is not refused.
    pub(super) fn commit(&mut self, batch: &Batch) -> Applied {
        match self.plan(batch).unwrap() {
            Planned::Apply { delta, head, commit } => {
                self.write(batch, (&delta, head, &commit));
                Applied { delta: *delta, commit }
            }
            Planned::Replay(_) => panic!("the batch was committed before"),
        }
    }

    /// Writes the rows of a planned batch.
    pub(super) fn write(&mut self, batch: &Batch, (delta, head, commit): (&Delta, HeadRow, &Commit)) {
        self.apply(delta, head);
        self.commits.extend(batch.id.map(|id| (id, commit.clone())));
        if let Some(asked) = &batch.idempotency {
            let record = IdempotencyRow {
                request_hash: asked.request_hash,
                keep_until: asked.keep_until.0,
                commit: Commit { note: asked.note.clone(), ..commit.clone() },
            };
            self.idempotency.insert(asked.key.clone(), record);
        }
    }

    /// Commits operations that are not refused.
    pub(super) fn run(&mut self, ops: impl IntoIterator<Item = Op>) -> Applied {
        self.commit(&Batch::new(ops))
    }

    /// Returns the error of operations that are refused.
    pub(super) fn refusal(&self, ops: impl IntoIterator<Item = Op>) -> Error {
        match self.plan(&Batch::new(ops)) {
            Err(error) => error,
            Ok(_) => panic!("the operations are not refused"),
        }
    }

    /// Moves and ends the rows that the delta has as ranges.
    fn apply_subtrees(&mut self, delta: &Delta, head: HeadRow) {
        let mut lost: BTreeMap<u64, u64> = BTreeMap::new();
        let mut moved = Vec::new();
        for ((dir, name), lives) in &mut self.names {
            let Some(at) = lives.iter_mut().find(|at| at.till == NEVER) else { continue };
            if delta.subtrees.lost().iter().any(|region| region.contains(dir, name)) {
                *lost.entry(at.row.ino).or_default() += 1;
            }
            if !delta.subtrees.has_moved_away(dir) {
                continue;
            }
            at.till = head.seq;
            if let Some(now) = delta.subtrees.now(dir).map(|now| (now, name.clone()))
                && !delta.names.contains_key(&now)
            {
                moved.push((now, NameRow { since: head.seq, ..at.row }));
            }
        }
        // After the loop: a moved name may take the key of one that has not been looked at yet.
        for (key, row) in moved {
            self.give(key, row);
        }
        for (ino, names) in lost.into_iter().filter(|(ino, _)| !delta.nodes.contains_key(ino)) {
            let mut node = self.node(ino).unwrap().expect("a node that loses names is there");
            node.lose_names(names, (head.seq, head.time));
            self.nodes.entry(ino).or_default().insert(node.seq, node);
            self.with_times.remove(&ino);
        }
    }

    /// Gives a name to a node.
    fn give(&mut self, key: Key, row: NameRow) {
        self.keys_of.entry(row.ino).or_default().insert(key.clone());
        self.names.entry(key).or_default().push(Spanned { row, till: NEVER });
    }

    fn apply(&mut self, delta: &Delta, head: HeadRow) {
        self.apply_subtrees(delta, head);
        for (key, change) in &delta.names {
            if let Some(before) = change.before {
                let mut lives = self.names.get_mut(key).into_iter().flatten();
                let name = lives.find(|name| name.till == NEVER).expect("a name that ends is there");
                assert_eq!(name.row, before, "the name that ends");
                name.till = head.seq;
            }
            if let Some(row) = change.after {
                self.give(key.clone(), row);
            }
        }
        for (ino, node) in &delta.nodes {
            assert_eq!(node.seq, head.seq, "the commit of a new version");
            self.nodes.entry(*ino).or_default().insert(node.seq, node.clone());
        }
        assert!(delta.writes.keys().eq(delta.nodes.keys()), "each new version is stored");
        for (node, write) in delta.node_writes() {
            match write {
                NodeWrite::Times { .. } => drop(self.with_times.insert(node.ino)),
                NodeWrite::Row { drops_times, .. } => {
                    assert_eq!(*drops_times, self.with_times.remove(&node.ino), "times that a row replaces");
                }
            }
        }
        for (ino, attributes) in &delta.attributes {
            self.attributes.insert((*ino, head.seq), attributes.clone());
        }
        for (id, chunk) in &delta.chunks {
            assert!(self.chunks.insert(*id, chunk.clone()).is_none(), "the number of a new chunk is new");
        }
        for id in delta.chunks.keys() {
            self.references.insert(*id, 1);
        }
        for (id, by) in delta.references() {
            *self.references.get_mut(&id).expect("a chunk that is there") += by;
        }
        for (ino, change) in &delta.extents {
            let rows = self.extents.entry(*ino).or_default();
            for closed in change.closed.values() {
                let live = |extent: &&mut Spanned<ExtentRow>| extent.row == *closed && extent.till == NEVER;
                rows.iter_mut().find(live).expect("an extent that ends is there").till = head.seq;
            }
            rows.extend(change.added.values().map(|row| Spanned { row: *row, till: NEVER }));
        }
        for (name, made) in &delta.snapshots {
            if *made {
                self.snapshots.insert(name.clone())
            } else {
                self.snapshots.remove(name)
            };
        }
        for (id, _) in &delta.staged {
            self.staged.remove(id);
        }
        self.judged.extend(&delta.judged);
        Arc::make_mut(&mut self.quotas).use_up(&delta.quotas);
        self.times.insert(head.seq, head.time);
        self.head = head;
        // After each commit of every test: counts are wrong only after rare combinations of operations.
        assert_eq!(self.references, self.counted(), "the counts that deltas carry are those of the rows");
    }

    /// Counts the references to each chunk.
    fn counted(&self) -> BTreeMap<u64, i64> {
        let mut counted: BTreeMap<u64, i64> = self.chunks.keys().map(|id| (*id, 0)).collect();
        let extents = self.extents.values().flatten().map(|extent| extent.row.chunk);
        let staged = self.staged.values().flat_map(|body| &body.0).map(|(chunk, _)| *chunk);
        for chunk in extents.chain(staged) {
            *counted.get_mut(&chunk).expect("a chunk that is there") += 1;
        }
        counted
    }

    /// Returns the names that the last commit ended and those that it gave, as paths in the order of their
    /// keys.
    pub(super) fn renamed(&self) -> (Vec<String>, Vec<String>) {
        let paths = |of: &dyn Fn(&Spanned<NameRow>) -> bool| {
            let keys = self.names.iter().filter(|(_, lives)| lives.iter().any(of)).map(|(key, _)| key);
            keys.map(|(dir, name)| TreePath::from_row(dir, name).to_string()).collect()
        };
        let last = self.head.seq;
        (paths(&|at| at.till == last), paths(&|at| at.row.since == last))
    }

    /// Gives a node many more names in a directory.
    pub(super) fn name_often(&mut self, ino: u64, dir: &str, names: std::ops::Range<usize>) {
        let row = NameRow { ino, since: self.head.seq, kind: Kind::File };
        self.node_mut(ino).nlink += names.len() as u64;
        for number in names {
            self.give((dir.to_owned(), format!("{number:06}")), row);
        }
    }

    /// Stages a body of existing chunks.
    pub(super) fn stage(&mut self, id: u128, body: Staged) {
        for (chunk, _) in &body.0 {
            *self.references.get_mut(chunk).expect("a chunk that is there") += 1;
        }
        self.staged.insert(id, body);
    }

    /// Returns the newest version of the node at a path.
    pub(super) fn node_of(&self, path: &str) -> NodeRow {
        let ino = match key_of(&at(path)) {
            None => Ino::ROOT.0,
            Some((dir, name)) => self.name(&dir, &name).unwrap().expect("the name is there").ino,
        };
        self.node(ino).unwrap().expect("the node is there")
    }

    /// Returns the newest version of a node, to change it without the planner.
    pub(super) fn node_mut(&mut self, ino: u64) -> &mut NodeRow {
        self.nodes.get_mut(&ino).unwrap().last_entry().unwrap().into_mut()
    }

    /// Returns all paths, in the order of a walk.
    pub(super) fn paths(&self) -> Vec<String> {
        let names = self.names(NOW).into_keys();
        names.map(|(dir, name)| TreePath::from_row(&dir, &name).to_string()).collect()
    }

    /// Returns the content of a file.
    pub(super) fn content(&self, path: &str) -> Vec<u8> {
        let node = self.node_of(path);
        let mut bytes = vec![0; node.size as usize];
        for extent in self.extents(node.ino, 0, node.size).unwrap() {
            let data = &self.chunks[&extent.chunk].data;
            let (at, skip, len) = (extent.off as usize, extent.skip as usize, extent.len as usize);
            bytes[at..at + len].copy_from_slice(&data[skip..skip + len]);
        }
        bytes
    }

    /// Counts the rows that a query returns.
    fn gives<T>(&self, rows: Vec<T>) -> Result<Vec<T>> {
        self.asked.fetch_add(1 + rows.len(), Relaxed);
        Ok(rows)
    }

    /// Returns the number of queries and rows that planning a batch takes.
    pub(super) fn work(&self, batch: &Batch) -> usize {
        self.asked.store(0, Relaxed);
        plan(self, self.head, self.now(), batch).unwrap();
        self.asked.load(Relaxed)
    }

    /// Returns the names after commit `seq`, by key.
    fn names(&self, seq: u64) -> BTreeMap<Key, NameRow> {
        let live = self.names.iter().filter_map(|(key, lives)| Some((key, Self::live(lives, seq)?)));
        live.map(|(key, row)| (key.clone(), row)).collect()
    }

    fn live(lives: &[Spanned<NameRow>], seq: u64) -> Option<NameRow> {
        lives.iter().find(|name| name.row.since <= seq && name.till > seq).map(|name| name.row)
    }
}

/// Newest state: before the end of any row.
const NOW: u64 = NEVER - 1;

impl Rows for Store {
    fn prefetch(&self, keys: Vec<RowKey>) {
        panic!("rows at hand are not prefetched: {keys:?}");
    }

    fn name(&self, dir: &str, name: &str) -> Result<Option<NameRow>> {
        self.asked.fetch_add(1, Relaxed);
        self.name_at(dir, name, NOW)
    }

    fn names_in(&self, dir: &str, limit: usize) -> Result<Vec<(String, NameRow)>> {
        let children = self.names(NOW).into_iter().filter(|(key, _)| key.0 == dir);
        self.gives(children.map(|(key, row)| (key.1, row)).take(limit).collect())
    }

    fn names_below(&self, region: &Region, limit: usize) -> Result<Vec<(String, String, NameRow)>> {
        self.asked.fetch_add(region.ranges().len(), Relaxed);
        let names = self.names(NOW).into_iter().filter(|((dir, name), _)| region.contains(dir, name));
        self.gives(names.map(|((dir, name), row)| (dir, name, row)).take(limit).collect())
    }

    fn longest_path(&self, region: &Region) -> Result<(usize, usize)> {
        self.asked.fetch_add(region.ranges().len(), Relaxed);
        let names = self.names(NOW).into_keys().filter(|(dir, name)| region.contains(dir, name));
        let names = self.gives(names.collect())?;
        let longest = names.iter().map(|(dir, name)| dir.len() + 1 + name.len()).max();
        Ok((longest.unwrap_or_default(), names.len()))
    }

    fn expired_in(&self, region: &Region, time: i64) -> Result<Vec<u64>> {
        self.asked.fetch_add(region.ranges().len(), Relaxed);
        let names = self.names(NOW).into_iter().filter(|((dir, name), _)| region.contains(dir, name));
        let expired = |ino: &u64| self.node(*ino).unwrap().is_some_and(|node| node.expired(time));
        self.gives(names.map(|(_, row)| row.ino).filter(expired).collect())
    }

    fn names_of(&self, ino: u64, within: &Within, limit: usize) -> Result<Vec<(String, String)>> {
        self.asked.fetch_add(within.tops().len(), Relaxed);
        self.gives(self.names_of_at(ino, NOW, within)?.into_iter().take(limit).collect())
    }

    fn newest_node(&self, ino: u64) -> Result<Option<NewestNode>> {
        self.asked.fetch_add(1, Relaxed);
        let has_times = self.with_times.contains(&ino);
        Ok(self.node_at_seq(ino, NOW)?.map(|row| NewestNode { row, has_times }))
    }

    fn attributes(&self, ino: u64, seq: u64) -> Result<Attributes> {
        let missing = || Error::damaged("the attributes of a node are missing");
        self.attributes.get(&(ino, seq)).cloned().ok_or_else(missing)
    }

    fn extents(&self, ino: u64, from: u64, to: u64) -> Result<Vec<ExtentRow>> {
        self.gives(self.extents_at(ino, NOW, from, to)?)
    }

    fn rules(&self) -> &Rules {
        &self.rules
    }

    fn judged(&self, ino: u64, constraint: &Digest) -> Result<Option<JudgedRow>> {
        Ok(self.judged.get(&(ino, *constraint)).copied())
    }

    fn is_open(&self, ino: u64) -> Result<bool> {
        Ok(self.open.contains(&ino))
    }

    fn stored(&self, hash: &[u8]) -> Result<Stored> {
        let Some(id) = self.chunks.values().find(|chunk| chunk.sum == hash).map(|chunk| chunk.id) else {
            return Ok(Stored::Nothing);
        };
        match self.chunk(id) {
            Ok(_) => Ok(Stored::Sound(id)),
            Err(error) if error.is(ErrorKind::Corrupt) => Ok(Stored::Damaged),
            Err(error) => Err(error),
        }
    }

    fn chunk(&self, id: u64) -> Result<Bytes> {
        match self.unreadable {
            Some(kind) => Err(Error::new(kind, "the chunk cannot be read")),
            None => Ok(self.chunks[&id].data.clone()),
        }
    }

    fn staged(&self, id: u128) -> Result<Option<StagedRow>> {
        let pieces = self.staged.get(&id).cloned();
        Ok(pieces.map(|pieces| StagedRow { owner: String::new(), pieces }))
    }

    fn committed(&self, _owner: &str, id: CommitId) -> Result<Option<Commit>> {
        Ok(self.commits.get(&id).cloned())
    }

    fn has_snapshot(&self, _owner: &str, name: &str) -> Result<bool> {
        Ok(self.snapshots.contains(name))
    }

    fn idempotency(&self, _owner: &str, key: &str) -> Result<Option<IdempotencyRow>> {
        Ok(self.idempotency.get(key).cloned())
    }

    fn time_of(&self, seq: u64) -> Result<Timestamp> {
        let missing = || Error::new(ErrorKind::NotFound, "there is no such commit");
        self.times.get(&seq).map(|time| Timestamp(*time)).ok_or_else(missing)
    }

    fn name_at(&self, dir: &str, name: &str, seq: u64) -> Result<Option<NameRow>> {
        let lives = self.names.get(&(dir.to_owned(), name.to_owned()));
        Ok(lives.and_then(|lives| Self::live(lives, seq)))
    }

    fn names_below_at(&self, dir: &str, seq: u64, limit: usize) -> Result<Vec<(String, String, NameRow)>> {
        let below =
            |key: &Key| TreePath::from_key(key.0.clone()).is_within(&TreePath::from_key(dir.to_owned()));
        let names = self.names(seq).into_iter().filter(|(key, _)| below(key));
        Ok(names.map(|((dir, name), row)| (dir, name, row)).take(limit).collect())
    }

    fn names_of_at(&self, ino: u64, seq: u64, within: &Within) -> Result<Vec<(String, String)>> {
        if let Some(kind) = self.unnamed {
            return Err(Error::new(kind, "the names cannot be read"));
        }
        let leads = |key: &&Key| {
            self.names.get(key).and_then(|lives| Self::live(lives, seq)).is_some_and(|row| row.ino == ino)
        };
        let named = self.keys_of.get(&ino).into_iter().flatten().filter(leads);
        Ok(named.filter(|(dir, name)| within.contains(&TreePath::from_row(dir, name))).cloned().collect())
    }

    fn node_at_seq(&self, ino: u64, seq: u64) -> Result<Option<NodeRow>> {
        Ok(self
            .nodes
            .get(&ino)
            .and_then(|versions| versions.range(..=seq).next_back())
            .map(|(_, node)| node.clone()))
    }

    fn extents_at(&self, ino: u64, seq: u64, from: u64, to: u64) -> Result<Vec<ExtentRow>> {
        let there = |extent: &&Spanned<ExtentRow>| {
            let row = &extent.row;
            row.since <= seq && extent.till > seq && row.off < to && row.end() > from
        };
        let mut found: Vec<ExtentRow> =
            self.extents.get(&ino).into_iter().flatten().filter(there).map(|extent| extent.row).collect();
        found.sort_unstable_by_key(|row| row.off);
        Ok(found)
    }

    fn quotas(&self) -> Result<Arc<Quotas>> {
        Ok(Arc::clone(&self.quotas))
    }

    fn tally(&self, ranges: &[(String, String)]) -> Result<Tally> {
        self.asked.fetch_add(ranges.len(), Relaxed);
        let names = self.names(NOW).into_iter();
        let inside = names.filter(|((dir, _), _)| ranges.iter().any(|(from, to)| from <= dir && dir < to));
        let mut tally = Tally::default();
        for (_, row) in inside {
            tally.entries += 1;
            let node = self.node_at_seq(row.ino, NOW)?.unwrap();
            match (node.kind, node.nlink) {
                (Kind::File, 1) => tally.bytes += u128::from(node.size),
                (Kind::File, _) => drop(tally.shared.insert(row.ino)),
                _ => {}
            }
        }
        Ok(tally)
    }

    fn due(&self, time: i64, within: &Within, after: (i64, u64), limit: usize) -> Result<Vec<(i64, u64)>> {
        let mut due = BTreeSet::new();
        for ((dir, name), row) in self.names(NOW) {
            let at = self.node_at_seq(row.ino, NOW)?.and_then(|node| node.expires_at);
            let place = at.map(|at| (at, row.ino)).filter(|place| place.0 <= time && *place > after);
            due.extend(place.filter(|_| within.contains(&TreePath::from_row(&dir, &name))));
        }
        self.gives(due.into_iter().take(limit).collect())
    }
}
