//! Derived rows of nodes that are derived again, whatever the database has of them: text that was left for
//! later, and rows that are rebuilt. Each call takes a few nodes, whose rows are fetched together.

use std::ops::Range;

use bytes::Bytes;

use super::derived::AfterGroup;
use super::derived_rows::DerivedRows as _;
use super::indexed_file::IndexedFile;
use super::keys::{KeyRow, each_key};
use super::overlay::{Overlay, Pending};
use super::rounds::Fetch;
use super::row_store::RowStore;
use super::rows::{RowKey, Rows as _};
use crate::engine::search::reindexing::{RebuiltPart, rebuild};
use crate::engine::search::{IndexedText, Passage};
use crate::error::{Error, ErrorKind, Result};
use crate::rule::Registry;
use crate::text::Tokenizer;
use crate::text::passage::{SEGMENT, SNIFF, is_text};

/// Bytes on either side of a part that its passages may depend on.
const AROUND: u64 = SEGMENT + (32 << 10);
/// Cost of looking at a file, in bytes of text.
const PER_FILE: u64 = 2 << 10;

/// File to index again.
#[derive(Clone, Copy, Debug)]
pub struct FileToIndex {
    /// Inode.
    pub ino: u64,
    /// Byte from which on it is indexed.
    pub off: u64,
    /// True to index it only if the database has a record that its text is not indexed from this byte on.
    pub is_left: bool,
}

/// Part of a file that was indexed again; `None` if it is not left for later from the given byte on.
pub type IndexedPart = Result<Option<RebuiltPart>>;

/// Indexes parts of files again, each about `step` bytes long. The first files are indexed until as many
/// bytes have been; the others are not in the result. A file that cannot be read has its error.
///
/// # Errors
/// `TooLarge` after `rounds` rounds; errors of `fetch`.
pub async fn index_files<D: Fetch>(
    database: &mut D,
    files: &[FileToIndex],
    (step, rounds): (u64, usize),
    tokenizer: &mut Tokenizer,
) -> Result<Vec<(u64, IndexedPart)>> {
    for (place, FileToIndex { ino, off, .. }) in files.iter().enumerate() {
        // Mostly the other files are short.
        let length = if place == 0 { step } else { 0 };
        let (from, to) = (off.saturating_sub(AROUND), off.saturating_add(length).saturating_add(AROUND));
        let (first, last) = (from / SEGMENT * SEGMENT, to.next_multiple_of(SEGMENT));
        let own = [RowKey::Node(*ino), RowKey::Attributes(*ino, u64::MAX), RowKey::Unindexed(*ino)];
        let text = [RowKey::PassageBefore(*ino, off.saturating_add(1)), RowKey::Passages(*ino, from, to)];
        let content = [(0, SEGMENT), (first, last)].map(|(from, to)| RowKey::Content(*ino, from, to));
        database.rows().prefetch(own.into_iter().chain(text).chain(content).collect());
    }
    for _ in 0..=rounds {
        let parts = parts(database.rows(), files, step, tokenizer);
        if !database.rows().missed() {
            return Ok(parts);
        }
        database.fetch().await?;
    }
    Err(too_many_rounds())
}

/// Returns all keys that nodes should have, by inode.
///
/// # Errors
/// `TooLarge` after `rounds` rounds; errors of `fetch`, and of reading content.
pub async fn keys_of_nodes<D: Fetch>(
    database: &mut D,
    inos: &[u64],
    registry: &Registry,
    rounds: usize,
) -> Result<Vec<(u64, Vec<KeyRow>)>> {
    let newest = inos.iter().flat_map(|ino| [RowKey::Node(*ino), RowKey::Attributes(*ino, u64::MAX)]);
    database.rows().prefetch(newest.collect());
    for _ in 0..=rounds {
        let keys = keys(database.rows(), inos, registry);
        if !database.rows().missed() {
            return keys;
        }
        database.fetch().await?;
    }
    Err(too_many_rounds())
}

/// Returns the bytes of ranges of files, fewer at their ends.
///
/// # Errors
/// `TooLarge` after `rounds` rounds; errors of `fetch`. A range that cannot be read has its error.
pub async fn bytes_of_files<D: Fetch>(
    database: &mut D,
    ranges: &[(u64, Range<u64>)],
    rounds: usize,
) -> Result<Vec<Result<Bytes>>> {
    let keys = ranges
        .iter()
        .flat_map(|(ino, bytes)| [RowKey::Node(*ino), RowKey::Content(*ino, bytes.start, bytes.end)]);
    database.rows().prefetch(keys.collect());
    for _ in 0..=rounds {
        let rows = database.rows();
        let read = ranges.iter().map(|(ino, bytes)| prefix(rows, *ino, bytes));
        let read: Vec<Result<Bytes>> = read.collect();
        if !rows.missed() {
            return Ok(read);
        }
        database.fetch().await?;
    }
    Err(too_many_rounds())
}

/// Returns those of some nodes that are files, each with true if search may see it and it has text.
///
/// # Errors
/// `TooLarge` after `rounds` rounds; errors of `fetch`. A file that cannot be read has its error.
pub async fn files_with_text<D: Fetch>(
    database: &mut D,
    inos: &[u64],
    rounds: usize,
) -> Result<Vec<(u64, Result<bool>)>> {
    let keys = inos.iter().flat_map(|ino| {
        [RowKey::Node(*ino), RowKey::Attributes(*ino, u64::MAX), RowKey::Content(*ino, 0, SNIFF)]
    });
    database.rows().prefetch(keys.collect());
    for _ in 0..=rounds {
        let rows = database.rows();
        let found = inos.iter().filter_map(|ino| Some((*ino, has_text(rows, *ino).transpose()?)));
        let found: Vec<(u64, Result<bool>)> = found.collect();
        if !rows.missed() {
            return Ok(found);
        }
        database.fetch().await?;
    }
    Err(too_many_rounds())
}

/// Returns true for a file that search may see and that has text, `None` for a node that is no file.
fn has_text(rows: &RowStore, ino: u64) -> Result<Option<bool>> {
    let Some(node) = rows.node(ino)? else { return Ok(None) };
    let Some(file) = IndexedFile::new(&node, |seq| rows.attributes(ino, seq))? else { return Ok(None) };
    if !file.searchable || file.size == 0 {
        return Ok(Some(false));
    }
    let first = prefix(rows, ino, &(0..SNIFF))?;
    Ok(Some(is_text(&first, file.content_type.as_deref())))
}

/// Returns the bytes of a range that a file has.
fn prefix(rows: &RowStore, ino: u64, bytes: &Range<u64>) -> Result<Bytes> {
    let end = rows.node(ino)?.map_or(0, |node| node.size).min(bytes.end);
    if bytes.start >= end {
        return Ok(Bytes::new());
    }
    rows.content(ino, bytes.start, end)
}

fn too_many_rounds() -> Error {
    let message = "deriving the rows of these nodes takes too many steps; take fewer nodes";
    Error::new(ErrorKind::TooLarge, message)
}

fn parts(
    rows: &RowStore,
    files: &[FileToIndex],
    step: u64,
    tokenizer: &mut Tokenizer,
) -> Vec<(u64, IndexedPart)> {
    let (mut room, mut parts) = (step, Vec::new());
    for file in files {
        if room == 0 {
            break;
        }
        let part = part(rows, file, step, tokenizer);
        let bytes = part.as_ref().ok().and_then(|part| part.as_ref()?.bytes.as_ref());
        room = room.saturating_sub(bytes.map_or(0, |bytes| bytes.end - bytes.start) + PER_FILE);
        parts.push((file.ino, part));
    }
    parts
}

fn part(rows: &RowStore, file: &FileToIndex, step: u64, tokenizer: &mut Tokenizer) -> IndexedPart {
    let FileToIndex { ino, off, is_left } = *file;
    if is_left && rows.unindexed(ino)? != Some(off) {
        return Ok(None);
    }
    let node = rows.node(ino)?;
    let file = match &node {
        Some(node) => IndexedFile::new(node, |seq| rows.attributes(ino, seq))?,
        None => None,
    };
    let file = file.filter(|file| file.searchable);
    let state = file.as_ref().map(|file| (file.size, file.content_type.as_deref()));
    let mut text = StoredText { rows, ino, size: node.map_or(0, |node| node.size) };
    rebuild(&mut text, state, (off, step), tokenizer).map(Some)
}

fn keys(rows: &RowStore, inos: &[u64], registry: &Registry) -> Result<Vec<(u64, Vec<KeyRow>)>> {
    let (pending, is_open) = (Pending::default(), |_: u64| -> Result<bool> { Ok(false) });
    let overlay = Overlay::new(rows, &pending, &is_open);
    let state = AfterGroup { rows: &overlay };
    let (mut keys, mut missed) = (Vec::with_capacity(inos.len()), Ok(()));
    for ino in inos {
        let mut own = Vec::new();
        let read = match rows.node(*ino) {
            Ok(Some(node)) => each_key(&state, registry, &node, &mut |row| {
                own.push(row);
                Ok(())
            }),
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        // The others have to name the rows that they miss, or each takes a round.
        missed = missed.and(read);
        keys.push((*ino, own));
    }
    missed.map(|()| keys)
}

/// File of the database, with its passages.
struct StoredText<'a> {
    rows: &'a RowStore,
    ino: u64,
    size: u64,
}

impl IndexedText for StoredText<'_> {
    type Error = Error;

    fn passages(&mut self, from: u64, to: u64) -> Result<Vec<Passage>> {
        self.rows.passages(self.ino, from, to)
    }

    fn last_before(&mut self, off: u64) -> Result<Option<Passage>> {
        self.rows.last_passage(self.ino, off)
    }

    fn read(&mut self, bytes: Range<u64>) -> Result<Vec<u8>> {
        let end = bytes.end.min(self.size);
        if bytes.start >= end {
            return Ok(Vec::new());
        }
        Ok(self.rows.content(self.ino, bytes.start, end)?.to_vec())
    }
}
