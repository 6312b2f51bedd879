//! Files that a search judges and reads, from rows that were fetched. A read of a row that was not fetched
//! notes its key and returns any value: the caller then fetches all noted rows at once, drops the result, and
//! runs again.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use garth_engine::engine::relational::confinement::Reach;
use garth_engine::engine::relational::gates::KnownGate;
use garth_engine::engine::search::{FileNode, Files, FoundFile, Passage, PassageHit};
use garth_engine::model::find::kept;
use garth_engine::model::{
    Attributes, ByteRange, Gate, Ino, MAX_CONTEXT_BYTES, Projection, SearchQuery, Within,
};
use garth_engine::rule::projection::{ContentProjection, Keys, kept_keys};
use garth_engine::rule::{Registry, Searchable};
use garth_engine::text::passage::lines;
use garth_engine::text::secret::CONTEXT;
use garth_engine::{Error, ErrorKind, Result, TreePath};

use crate::values::columns::attributes;

/// Directory and name.
pub(super) type Key = (String, String);
/// Key of a node: inode, number of the projection, key.
pub(super) type NodeKey = (u64, u32, String);

/// File with its attributes.
pub(super) struct KnownFile {
    pub(super) node: FileNode,
    /// Its attributes as JSON, if the query has conditions on them.
    pub(super) attributes: Option<String>,
}

/// Names of a node, in the order of the index.
#[derive(Default)]
pub(super) struct KnownNames {
    /// Path of each name.
    pub(super) paths: Vec<TreePath>,
    /// Last name as the table has it; `None` if these are all.
    pub(super) more_after: Option<Key>,
}

/// Keys of rows to fetch.
#[derive(Default)]
pub(super) struct Wanted {
    pub(super) nodes: BTreeSet<u64>,
    /// Nodes with the name after which further ones are wanted.
    pub(super) names: BTreeMap<u64, Key>,
    /// Live files, each with keys of which it is to be known whether it has them.
    pub(super) live: BTreeSet<(Key, u32, String)>,
    pub(super) keys: BTreeSet<NodeKey>,
    /// Offsets of files, before which line feeds are to be counted.
    pub(super) lines: BTreeSet<(u64, u64)>,
    /// Ranges of bytes of files.
    pub(super) content: BTreeSet<(u64, u64, u64)>,
    /// Files of gates.
    pub(super) gates: BTreeSet<Key>,
}

impl Wanted {
    pub(super) fn is_empty(&self) -> bool {
        let Self { nodes, names, live, keys, lines, content, gates } = self;
        nodes.is_empty()
            && names.is_empty()
            && live.is_empty()
            && keys.is_empty()
            && lines.is_empty()
            && content.is_empty()
            && gates.is_empty()
    }
}

/// Rows that were fetched, and the keys of those that are wanted.
#[derive(Default)]
pub(super) struct State {
    /// Time of the transaction.
    pub(super) now: i64,
    /// Version of the control data of the account.
    pub(super) control: u64,
    /// Files; `None` for those that have no name or have expired.
    pub(super) nodes: HashMap<u64, Option<KnownFile>>,
    pub(super) names: HashMap<u64, KnownNames>,
    pub(super) live: HashMap<Key, Option<u64>>,
    pub(super) keys: HashMap<NodeKey, bool>,
    /// Number of line feeds before an offset of a file.
    pub(super) lines: HashMap<(u64, u64), u64>,
    /// Pieces of files with their offsets. Holes are zeros.
    pub(super) content: HashMap<u64, Vec<(u64, Bytes)>>,
    /// Content of the files of gates; `None` if there is no such file, or if it is too long.
    pub(super) gates: HashMap<Key, Option<Vec<u8>>>,
    wanted: Wanted,
    missed: bool,
}

/// Files that a search reads.
pub(super) struct FetchedFiles<'a> {
    reach: &'a Reach,
    registry: &'a Registry,
    state: Mutex<State>,
}

impl<'a> FetchedFiles<'a> {
    /// Returns the files that a handle reaches, of which nothing was fetched.
    pub(super) fn new(reach: &'a Reach, registry: &'a Registry) -> Self {
        Self { reach, registry, state: Mutex::default() }
    }

    // A panic leaves the state as it was, or with a row more.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if every path is in reach.
    pub(super) fn sees_everything(&self) -> bool {
        self.reach.within.is_everything() && self.reach.gates.is_empty()
    }

    /// Returns true if a row was missed since the last call of [`take_wanted`](Self::take_wanted).
    pub(super) fn missed(&self) -> bool {
        self.state().missed
    }

    /// Returns the keys of all rows that were foreseen or missed since the last call.
    pub(super) fn take_wanted(&self) -> Wanted {
        let mut state = self.state();
        state.missed = false;
        std::mem::take(&mut state.wanted)
    }

    /// Notes the files that decide about others and their passages: whether a gate or search hides them, and
    /// whether lines are withheld. The names of the files were fetched.
    pub(super) fn foresee_deciders(&self, passages: &[Passage], within: &Within) {
        for of_file in passages.chunk_by(|one, other| one.ino == other.ino) {
            let Some(ino) = of_file.first().map(|passage| passage.ino.0) else { continue };
            let known = self.state().names.get(&ino).map(|names| names.paths.clone());
            let mut is_withheld = false;
            for path in known.iter().flatten().filter(|path| within.contains(path)) {
                self.is_open(path);
                if let Searchable::While { file, projection, key, .. } = self.registry.searchable(path) {
                    self.foresee_key(&file, projection, key);
                }
                if let Some(by) = self.registry.withheld(path) {
                    self.foresee_key(&by.file, by.projection, by.any);
                    is_withheld |= self.may_have(&by.file, by.projection, by.any);
                }
            }
            if is_withheld {
                let mut state = self.state();
                of_file.iter().for_each(|passage| state.foresee_lines(passage));
            }
        }
    }

    /// Returns false if it is known that a file does not have a key.
    fn may_have(&self, file: &TreePath, projection: Projection, key: &str) -> bool {
        let state = self.state();
        match key_of(file).and_then(|name| state.live.get(&name)) {
            Some(Some(ino)) => {
                let known = state.keys.get(&(*ino, projection.number(), key.to_owned()));
                known.is_none_or(|has| *has)
            }
            Some(None) => false,
            None => true,
        }
    }

    fn foresee_key(&self, file: &TreePath, projection: Projection, key: &str) {
        let mut state = self.state();
        if let Some(name) = key_of(file).filter(|name| !state.live.contains_key(name)) {
            state.wanted.live.insert((name, projection.number(), key.to_owned()));
        }
    }

    /// Notes all rows that the content of hits needs, if no lines of their files are withheld.
    pub(super) fn foresee_hits(&self, hits: &[PassageHit<FoundFile>], query: &SearchQuery) {
        // The best line of a passage is in it, and the bytes around that are no more than those of a context.
        let around = CONTEXT as u64 + if query.context > 0 { MAX_CONTEXT_BYTES as u64 } else { 0 };
        let mut state = self.state();
        for (place, PassageHit { passage, file, .. }) in hits.iter().enumerate() {
            let (ino, span) = (passage.ino.0, passage.span);
            state.foresee_lines(passage);
            let bytes =
                span.off.saturating_sub(around)..span.end().saturating_add(around).min(file.node.size);
            if place >= query.text_from && !bytes.is_empty() && state.bytes(ino, &bytes).is_none() {
                state.wanted.content.insert((ino, bytes.start, bytes.end));
            }
        }
    }

    /// Returns the number of some nodes that have a name in reach.
    pub(super) fn reached(&self, inos: &[u64]) -> Result<u64> {
        let mut count = 0;
        for ino in inos {
            let names = self.names_behind(Ino(*ino), &self.reach.within, ("", ""), 1)?;
            count += u64::from(!names.is_empty());
        }
        Ok(count)
    }

    /// Returns the paths of a node in some subtrees, in order, of which at least `most` are looked for.
    fn paths(&self, ino: Ino, within: &Within, after: Option<(&str, &str)>, most: usize) -> Vec<Key> {
        let mut state = self.state();
        let known = state.names.get(&ino.0);
        let is_after = |key: &Key| after.is_none_or(|after| (key.0.as_str(), key.1.as_str()) > after);
        let paths = known.map_or(&[][..], |names| &names.paths).iter();
        let mut found: Vec<Key> = paths.filter(|path| within.contains(path)).filter_map(key_of).collect();
        found.retain(is_after);
        found.sort_unstable();
        let more_after = known.map_or(Some(Key::default()), |names| names.more_after.clone());
        if let Some(after) = more_after.filter(|_| found.len() < most) {
            state.wanted.names.insert(ino.0, after);
            state.missed = true;
        }
        found
    }

    /// Returns true if no gate hides a path.
    fn is_open(&self, path: &TreePath) -> bool {
        self.reach.gates.known().iter().all(|KnownGate { gate, .. }| {
            let Some(entry) = gate.entry_of(path) else { return true };
            let entry = TreePath::from_row(gate.dir.key(), entry);
            let key = (entry.key().to_owned(), gate.file.as_str().to_owned());
            let mut state = self.state();
            match state.gates.get(&key) {
                Some(Some(content)) => opens(self.registry, gate, content),
                Some(None) => false,
                None => {
                    state.wanted.gates.insert(key);
                    state.missed = true;
                    true
                }
            }
        })
    }
}

impl State {
    /// Notes that the lines of a passage are needed.
    fn foresee_lines(&mut self, passage: &Passage) {
        let place = (passage.ino.0, passage.span.off);
        // The first passage of a file has nothing before it.
        if place.1 > 0 && !self.lines.contains_key(&place) {
            self.wanted.lines.insert(place);
        }
    }

    /// Returns bytes of a file, if they were fetched.
    fn bytes(&self, ino: u64, range: &Range<u64>) -> Option<Bytes> {
        self.content.get(&ino)?.iter().find_map(|(off, bytes)| {
            let first = usize::try_from(range.start.checked_sub(*off)?).ok()?;
            let last = usize::try_from(range.end.checked_sub(*off)?).ok()?;
            (last <= bytes.len()).then(|| bytes.slice(first..last))
        })
    }
}

impl Files for FetchedFiles<'_> {
    type Error = Error;

    fn node(&self, ino: Ino) -> Result<Option<FileNode>> {
        let mut state = self.state();
        if let Some(known) = state.nodes.get(&ino.0) {
            return Ok(known.as_ref().map(|file| file.node));
        }
        state.wanted.nodes.insert(ino.0);
        state.missed = true;
        Ok(None)
    }

    fn attributes(&self, node: &FileNode) -> Result<Attributes> {
        let state = self.state();
        let json = state.nodes.get(&node.ino.0).and_then(|file| file.as_ref()?.attributes.as_deref());
        attributes(node.attributes, json)
    }

    fn names_behind(
        &self,
        ino: Ino,
        within: &Within,
        after: (&str, &str),
        limit: usize,
    ) -> Result<Vec<(String, String)>> {
        // Hidden names must not take the place of others.
        let most = if self.reach.gates.is_empty() { limit } else { usize::MAX };
        let names = self.paths(ino, within, Some(after), most).into_iter();
        let open = names.filter(|(dir, name)| {
            self.reach.gates.is_empty() || self.is_open(&TreePath::from_row(dir, name))
        });
        Ok(open.take(limit).collect())
    }

    fn names(&self, ino: Ino, within: &Within) -> Result<Vec<(String, String)>> {
        Ok(self.paths(ino, within, None, usize::MAX))
    }

    fn nodes_within(&self, _: &Within, _: &TreePath, _: usize) -> Result<Vec<u64>> {
        // The rounds of this engine read the passages of subtrees, and not their nodes.
        Err(Error::new(ErrorKind::Unsupported, "nodes of subtrees are not fetched"))
    }

    fn live_file(&self, path: &TreePath) -> Result<Option<Ino>> {
        let Some(key) = key_of(path) else { return Ok(None) };
        let mut state = self.state();
        if let Some(known) = state.live.get(&key) {
            return Ok(known.map(Ino));
        }
        state.wanted.live.insert((key, 0, String::new()));
        state.missed = true;
        Ok(None)
    }

    fn has_key(&self, ino: Ino, projection: Projection, key: &str) -> Result<bool> {
        let key = (ino.0, projection.number(), key.to_owned());
        let mut state = self.state();
        if let Some(known) = state.keys.get(&key) {
            return Ok(*known);
        }
        state.wanted.keys.insert(key);
        state.missed = true;
        Ok(false)
    }

    fn read(&self, node: &FileNode, range: ByteRange) -> Result<Bytes> {
        let (ino, start) = (node.ino.0, range.offset.min(node.size));
        let bytes = start..range.offset.saturating_add(range.length).min(node.size).max(start);
        if bytes.is_empty() {
            return Ok(Bytes::new());
        }
        let mut state = self.state();
        if let Some(known) = state.bytes(ino, &bytes) {
            return Ok(known);
        }
        let length = usize::try_from(bytes.end - bytes.start).unwrap_or(0);
        state.wanted.content.insert((ino, bytes.start, bytes.end));
        state.missed = true;
        // As long as the bytes are, because the caller takes pieces of them.
        Ok(vec![0; length].into())
    }

    fn lines(&self, passage: &Passage) -> Result<Range<u64>> {
        let place = (passage.ino.0, passage.span.off);
        let mut state = self.state();
        let before = match (place.1, state.lines.get(&place)) {
            (0, _) => 0,
            (_, Some(before)) => *before,
            (_, None) => {
                state.wanted.lines.insert(place);
                state.missed = true;
                0
            }
        };
        Ok(lines(before, passage.line_feeds, passage.span.newline))
    }

    fn registry(&self) -> &Registry {
        self.registry
    }

    fn step(&self) -> Result<()> {
        // The database ends statements that take too long. The rest is bounded by the rows of a search.
        Ok(())
    }
}

/// Returns true if the content of a file opens a gate.
fn opens(registry: &Registry, gate: &Gate, content: &[u8]) -> bool {
    match registry.projection(gate.projection).map(ContentProjection::keys) {
        Some(Keys::OfFile(keys)) => {
            let own = kept_keys(keys(content));
            gate.keys.iter().any(|key| own.contains(&kept(key)))
        }
        _ => false,
    }
}

/// Returns directory and name of a path; `None` for the root, which has no name.
fn key_of(path: &TreePath) -> Option<Key> {
    let (dir, name) = path.key().rsplit_once('/')?;
    Some((dir.to_owned(), name.to_owned()))
}
