//! Derived rows of a group of batches: the keys and passages that change with the rows that the batches
//! changed. They are worked out once for the group, from the state at its end: a file that many batches
//! append to is read once. Nothing has to be written before.

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;

use super::Planned;
use super::delta::{Delta, ExtentChange};
use super::derived_rows::{DerivedRows, keys_of_removed_text, keys_of_text};
use super::extents::overlapping;
use super::indexed_file::IndexedFile;
use super::keys::{ChangedNodes, KeyedRows, KeysChange, each_key_change};
use super::overlay::{Overlay, Pending};
use super::rounds::Fetch;
use super::rows::{HeadRow, NodeRow, RowKey, Rows};
use super::subtrees::Key;
use crate::engine::search::reindexing::leave;
use crate::engine::search::{FileEdit, IndexedText, Passage, Reindexed, reindex};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{Attributes, Projection, Within};
use crate::rule::Registry;
use crate::text::Tokenizer;
use crate::text::passage::{Edit, SEGMENT};

/// Bytes on either side of an edit that its passages may depend on, so that they are fetched with it: those
/// of a segment, and the context of secrets.
const AROUND: u64 = SEGMENT + (32 << 10);
/// Bytes of a long file that are fetched at a time for its keys, 8 MiB.
const WINDOW: u64 = 8 << 20;

/// Changes of derived rows that follow from a group of batches.
#[derive(Debug, Default)]
pub struct Derived {
    /// Changes of keys, each with the inode of its node, in the order in which they apply.
    pub keys: Vec<(u64, KeysChange)>,
    /// Changes of the passages of files, by inode.
    pub passages: BTreeMap<u64, Reindexed>,
    /// Sizes of edited files, before or after the group, whichever is larger.
    pub sizes: BTreeMap<u64, u64>,
}

/// Derives the rows that follow from the results of [`plan_group`](super::plan_group), on the same rows. Most
/// of what it reads was prefetched while the batches were planned. `begin` is the head row before the group.
///
/// Results of batches that move or remove a subtree, which are the last of their run, are left out: their
/// changes apply to rows that have not been fetched.
///
/// At most `room` bytes of the text are indexed; the rest is left for later, and so is the text of a file
/// that cannot be read.
///
/// # Errors
/// `TooLarge` after `rounds` rounds; errors of `fetch`, and of reading content for keys.
pub async fn derive_group<D: Fetch>(
    database: &mut D,
    (begin, planned): (HeadRow, &[Result<Planned>]),
    (registry, tokenizer): (&Registry, &mut Tokenizer),
    (rounds, room): (usize, u64),
) -> Result<Derived> {
    let mut pending = Pending::default();
    let mut changes = Changes::new(begin, room);
    let mut head = begin;
    for result in planned {
        if let Ok(Planned::Apply { delta, head: next, .. }) = result
            && !delta.moves_subtrees()
        {
            pending.add_rows(delta, (head, *next));
            changes.by(registry, delta);
            head = *next;
        }
    }
    // A batch that was not planned may have missed rows.
    database.rows().forget_miss();
    derive_changes(database, (pending, changes), (registry, tokenizer), rounds).await
}

/// Derives the rows that follow from a batch whose rows are written, in the transaction that wrote them: of
/// one that moves or removes subtrees. No row may have been fetched before. `begin` is the head row before
/// the batch, and `renamed` are files that got or lost a name that matches a projection with a directory
/// above. Nodes that have lost their last name with a subtree are left out: none of their rows stays.
///
/// # Errors
/// As [`derive_group`].
pub async fn derive_written<D: Fetch>(
    database: &mut D,
    (begin, delta, renamed): (HeadRow, &Delta, &[u64]),
    (registry, tokenizer): (&Registry, &mut Tokenizer),
    (rounds, room): (usize, u64),
) -> Result<Derived> {
    let mut changes = Changes::new(begin, room);
    changes.by(registry, delta);
    renamed.iter().for_each(|ino| changes.nodes.renamed(*ino));
    derive_changes(database, (Pending::default(), changes), (registry, tokenizer), rounds).await
}

async fn derive_changes<D: Fetch>(
    database: &mut D,
    // By value: references to it could not be sent to another thread between two rounds.
    (pending, changes): (Pending, Changes),
    (registry, tokenizer): (&Registry, &mut Tokenizer),
    rounds: usize,
) -> Result<Derived> {
    for _ in 0..=rounds {
        let derived = {
            let is_open = |_: u64| -> Result<bool> { Ok(false) };
            let rows = Overlay::new(database.rows(), &pending, &is_open);
            derive(&AfterGroup { rows: &rows }, registry, tokenizer, &changes)
        };
        if !database.rows().missed() {
            return derived;
        }
        database.fetch().await?;
    }
    let message = "deriving keys and passages takes too many steps; split the group";
    Err(Error::new(ErrorKind::TooLarge, message))
}

/// Changes of a group that derived rows follow from.
struct Changes {
    begin: HeadRow,
    /// Bytes of text that are indexed at once.
    room: u64,
    nodes: ChangedNodes,
    edits: BTreeMap<u64, Edit>,
}

impl Changes {
    fn new(begin: HeadRow, room: u64) -> Self {
        Self { begin, room, nodes: ChangedNodes::new(begin.next_ino), edits: BTreeMap::new() }
    }

    fn by(&mut self, registry: &Registry, delta: &Delta) {
        self.nodes.by(registry, delta);
        for (ino, edit) in &delta.index {
            self.edits.entry(*ino).and_modify(|known| *known = known.then(*edit)).or_insert(*edit);
        }
    }
}

/// Derives rows from the state after a group.
fn derive<R: DerivedRows>(
    rows: &AfterGroup<'_, R>,
    registry: &Registry,
    tokenizer: &mut Tokenizer,
    changes: &Changes,
) -> Result<Derived> {
    rows.prefetch(changes);
    let mut keys = Vec::new();
    let keyed: Result<()> = each_key_change(rows, registry, &changes.nodes, &mut |ino, change| {
        keys.push((ino, change));
        Ok(())
    });
    // Even after a miss, to learn of more rows at once.
    let passages = rows.reindexed(tokenizer, changes);
    keyed?;
    let sizes = changes.edits.iter().map(|(ino, edit)| (*ino, edit.old_size.max(edit.new_size))).collect();
    Ok(Derived { keys, passages: passages?, sizes })
}

/// State after a group, with the keys and passages from before it.
pub(super) struct AfterGroup<'a, R> {
    pub(super) rows: &'a Overlay<'a, R>,
}

impl<R: DerivedRows> AfterGroup<'_, R> {
    /// Prefetches what most changes need.
    fn prefetch(&self, changes: &Changes) {
        if !R::PREFETCHES {
            return;
        }
        let stored = |ino: &u64| !self.rows.is_new(*ino);
        let mut wanted: Vec<RowKey> = changes.nodes.inos().filter(stored).map(RowKey::Keys).collect();
        let mut room = changes.room;
        for (ino, edit) in &changes.edits {
            let Ok(Some(node)) = self.rows.node(*ino) else { continue };
            if stored(ino) && node.nlink == 0 {
                wanted.extend(keys_of_removed_text(*ino));
                continue;
            }
            if stored(ino) {
                wanted.extend(keys_of_text(*ino, edit.start < edit.old_size));
            }
            let file = IndexedFile::new(&node, |seq| self.rows.attributes(*ino, seq));
            if file.is_ok_and(|file| file.is_some_and(|file| file.searchable)) {
                wanted.extend(self.content_around(*ino, edit.visible(), &mut room));
            }
        }
        self.rows.prefetch(wanted);
    }

    /// Returns the keys of the bytes that an edit indexes again, at once rather than piece by piece. Takes
    /// their length from `room`.
    fn content_around(&self, ino: u64, edit: Edit, room: &mut u64) -> Vec<RowKey> {
        let from = edit.start.saturating_sub(AROUND);
        let to = edit.end.min(edit.start.saturating_add(*room)).saturating_add(AROUND).min(edit.new_size);
        *room = room.saturating_sub(to.saturating_sub(edit.start));
        // The end of the file, which an append needs, has a key of its own.
        self.content_keys(ino, from..to, edit.start < edit.old_size)
    }

    /// Returns the keys of bytes of a file: of those that the group has written, and of those that were
    /// stored before if `stored` is true.
    fn content_keys(&self, ino: u64, bytes: Range<u64>, stored: bool) -> Vec<RowKey> {
        let change = self.rows.extent_change(ino);
        let added = change.into_iter().flat_map(|change| overlapping(&change.added, bytes.start, bytes.end));
        let mut wanted: Vec<RowKey> = added.map(|row| RowKey::Chunk(row.chunk)).collect();
        if stored
            && !self.rows.is_new(ino)
            && let Ok(Some(before)) = self.rows.database().node(ino)
        {
            let parts = untouched(change, bytes.start..bytes.end.min(before.size));
            wanted.extend(parts.into_iter().map(|part| RowKey::Content(ino, part.start, part.end)));
        }
        wanted
    }

    /// Returns the changes of passages.
    fn reindexed(&self, tokenizer: &mut Tokenizer, changes: &Changes) -> Result<BTreeMap<u64, Reindexed>> {
        let (mut room, mut passages, mut missed) = (changes.room, BTreeMap::new(), Ok(()));
        for (ino, edit) in &changes.edits {
            match self.reindex(tokenizer, (*ino, *edit), &changes.begin, &mut room) {
                Ok(change) if change == Reindexed::default() => {}
                Ok(change) => drop(passages.insert(*ino, change)),
                // The others have to name the rows that they miss, or each takes a round.
                Err(error) if R::PREFETCHES => missed = missed.and(Err(error)),
                Err(error) => return Err(error),
            }
        }
        missed.map(|()| passages)
    }

    fn reindex(
        &self,
        tokenizer: &mut Tokenizer,
        (ino, edit): (u64, Edit),
        begin: &HeadRow,
        room: &mut u64,
    ) -> Result<Reindexed> {
        let Some(node) = self.rows.node(ino)? else { return Ok(Reindexed::default()) };
        let file = IndexedFile::new(&node, |seq| self.rows.attributes(ino, seq))?;
        let Some(file) = file.filter(|file| !file.stays_left_out(&node, begin)) else {
            return Ok(Reindexed::default());
        };
        let unindexed = if self.rows.is_new(ino) { None } else { self.rows.database().unindexed(ino)? };
        let content_type = file.content_type.as_deref();
        let (searchable, before) = (file.searchable, *room);
        let change = FileEdit { searchable, content_type, edit, unindexed };
        let mut text = TextAfterGroup { group: self, file: &file };
        match reindex(&mut text, &change, room, tokenizer) {
            // Unreadable, and not only unread: the text must not keep the group from being committed.
            Err(_) if !self.rows.database().has_missed() => {
                *room = before;
                leave(&mut text, searchable, &edit)
            }
            change => change,
        }
    }

    /// Reads bytes of a file, which must have them. Holes are zeros.
    fn read(&self, ino: u64, from: u64, to: u64) -> Result<Vec<u8>> {
        let change = self.rows.extent_change(ino);
        let mut kept = Vec::new();
        if !self.rows.is_new(ino) {
            let before = self.rows.database().node(ino)?.map_or(0, |node| node.size);
            kept = untouched(change, from..to.min(before));
        }
        let added = || change.into_iter().flat_map(move |change| overlapping(&change.added, from, to));
        if R::PREFETCHES {
            self.rows.prefetch(added().map(|row| RowKey::Chunk(row.chunk)).collect());
        }
        let mut bytes = vec![0; usize::try_from(to - from).unwrap_or(usize::MAX)];
        let mut missed = Ok(());
        for part in kept {
            match self.rows.database().content(ino, part.start, part.end) {
                Ok(data) => place(&mut bytes, part.start - from, &data),
                Err(error) => missed = missed.and(Err(error)),
            }
        }
        missed?;
        for row in added() {
            let part = row.cut(from, to);
            let (skip, len) = (part.skip as usize, part.len as usize);
            let chunk = self.rows.chunk(part.chunk)?;
            let short = || Error::damaged("stored content is shorter than its extent");
            place(&mut bytes, part.off - from, chunk.get(skip..skip + len).ok_or_else(short)?);
        }
        Ok(bytes)
    }
}

/// Copies `data` to an offset in `bytes`, which must have the room.
fn place(bytes: &mut [u8], at: u64, data: &[u8]) {
    let at = at as usize;
    if let Some(room) = bytes.get_mut(at..at + data.len()) {
        room.copy_from_slice(data);
    }
}

/// Returns the parts of a range of a file whose extents a group has left as they were.
fn untouched(change: Option<&ExtentChange>, range: Range<u64>) -> Vec<Range<u64>> {
    let both = change.map(|change| [&change.closed, &change.added]).into_iter().flatten();
    let touched = both.flat_map(|rows| overlapping(rows, range.start, range.end));
    let mut touched: Vec<Range<u64>> = touched.map(|row| row.off..row.end()).collect();
    touched.sort_unstable_by_key(|touched| touched.start);
    let (mut parts, mut at) = (Vec::new(), range.start);
    for touched in touched {
        if at < touched.start {
            parts.push(at..touched.start);
        }
        at = at.max(touched.end);
    }
    if at < range.end {
        parts.push(at..range.end);
    }
    parts
}

impl<R: DerivedRows> KeyedRows for AfterGroup<'_, R> {
    const PREFETCHES: bool = R::PREFETCHES;

    fn node(&self, ino: u64) -> Result<Option<NodeRow>> {
        self.rows.node(ino)
    }

    fn attributes(&self, ino: u64, seq: u64) -> Result<Attributes> {
        self.rows.attributes(ino, seq)
    }

    fn names_of(&self, ino: u64, within: &Within, limit: usize) -> Result<Vec<Key>> {
        self.rows.names_of(ino, within, limit)
    }

    fn keys(&self, ino: u64, projection: Projection) -> Result<Vec<String>> {
        if self.rows.is_new(ino) {
            return Ok(Vec::new());
        }
        let keys = self.rows.database().keys(ino)?.into_iter();
        Ok(keys.filter(|(of, _)| *of == projection).map(|(_, key)| key).collect())
    }

    fn line_before(&self, ino: u64, projection: Projection, off: u64) -> Result<Option<(u64, u64)>> {
        match self.rows.is_new(ino) {
            true => Ok(None),
            false => self.rows.database().line_before(ino, projection, off),
        }
    }

    fn content(&self, ino: u64, from: u64, to: u64) -> Result<Bytes> {
        let read = self.read(ino, from, to);
        // The keys of a long file read it piece by piece, which would take a round each.
        if R::PREFETCHES && read.is_err() {
            self.rows.prefetch(self.content_keys(ino, from..from.saturating_add(WINDOW), true));
        }
        read.map(Bytes::from)
    }

    fn hole_end(&self, ino: u64, from: u64, to: u64) -> Result<Option<u64>> {
        // Mostly the group has written there: no extent has to be read.
        let change = self.rows.extent_change(ino);
        if change.is_some_and(|change| overlapping(&change.added, from, to).next().is_some()) {
            return Ok(None);
        }
        let extents = self.rows.extents(ino, from, u64::MAX)?;
        let next = extents.first().map_or(u64::MAX, |row| row.off);
        Ok((next >= to).then_some(next))
    }
}

/// File after a group, with its passages from before it.
struct TextAfterGroup<'a, R> {
    group: &'a AfterGroup<'a, R>,
    file: &'a IndexedFile,
}

impl<R: DerivedRows> IndexedText for TextAfterGroup<'_, R> {
    type Error = Error;

    fn passages(&mut self, from: u64, to: u64) -> Result<Vec<Passage>> {
        let (rows, ino) = (self.group.rows, self.file.ino);
        if rows.is_new(ino) { Ok(Vec::new()) } else { rows.database().passages(ino, from, to) }
    }

    fn last_before(&mut self, off: u64) -> Result<Option<Passage>> {
        let (rows, ino) = (self.group.rows, self.file.ino);
        if rows.is_new(ino) { Ok(None) } else { rows.database().last_passage(ino, off) }
    }

    fn read(&mut self, bytes: Range<u64>) -> Result<Vec<u8>> {
        let end = bytes.end.min(self.file.size);
        if bytes.start >= end {
            return Ok(Vec::new());
        }
        self.group.read(self.file.ino, bytes.start, end)
    }
}
