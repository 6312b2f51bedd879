//! Derives keys from nodes: the changes of keys that follow from the row changes of a group of commits, and
//! all keys of one node. It reads through [`KeyedRows`] and writes nothing.
//!
//! In addition to its keys, a projection by line has one row with the empty key for each file of its pattern:
//! the start of the last line, or of the next one if the last line is complete. An append continues there,
//! whatever is before.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::delta::Delta;
use super::rows::{NameRow, NodeRow};
use super::subtrees::Key;
use crate::error::{Error, Result};
use crate::model::{Attributes, Kind, Projection, Within};
use crate::rule::Registry;
use crate::rule::projection::{
    ContentProjection, Keys, Line, LineKeys, Lines, MAX_FILE, kept_keys, of_attributes,
};

/// Names of a file up to which all are read.
const FEW_NAMES: u64 = 8;
/// Bytes of a file that are read at a time.
const PIECE: u64 = 1 << 20;

/// Row of a key of a node, with the line that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRow {
    /// Projection.
    pub projection: Projection,
    /// Key; empty for the end of a file.
    pub key: String,
    /// Number of the line; 0 for a projection that is not by line, as are the next two.
    pub line: u64,
    /// Offset of the line in bytes.
    pub off: u64,
    /// Length of the line in bytes, without the line feed.
    pub len: u64,
}

impl KeyRow {
    fn of_node(projection: Projection, key: String) -> Self {
        Self { projection, key, line: 0, off: 0, len: 0 }
    }

    fn of_line(projection: Projection, key: String, line: &Line) -> Self {
        let len = line.bytes.end - line.bytes.start;
        Self { projection, key, line: line.number, off: line.bytes.start, len }
    }

    /// Returns the row of the place where a projection continues.
    fn of_end(projection: Projection, line: &Line) -> Self {
        Self { len: 0, ..Self::of_line(projection, String::new(), line) }
    }
}

/// Change of the keys of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeysChange {
    /// Removes all keys, of every projection.
    Forget,
    /// Removes a key of a projection that is not by line.
    Remove(Projection, String),
    /// Removes the rows of a projection by line whose lines begin at an offset or after it.
    Cut(Projection, u64),
    /// Adds a row. The node has no such row, or an earlier change has removed it.
    Add(KeyRow),
}

/// Reads that keys are derived from. Nodes, attributes, names and content are those after the group of
/// commits, keys those before it: no change that the group derives is read again.
///
/// A method returns `None`, or an empty list, if there is no such row.
pub(crate) trait KeyedRows {
    /// True if a row that has not been fetched is an error. All nodes are then looked at, even after one
    /// missed a row, to learn of more rows at once.
    const PREFETCHES: bool = false;
    /// Returns the newest version of a node.
    fn node(&self, ino: u64) -> Result<Option<NodeRow>>;
    /// Returns the attributes that a node got in commit `seq`.
    fn attributes(&self, ino: u64, seq: u64) -> Result<Attributes>;
    /// Returns the live names of a node within some subtrees, up to `limit`, in any order.
    fn names_of(&self, ino: u64, within: &Within, limit: usize) -> Result<Vec<Key>>;
    /// Returns the keys of a node in a projection that is not by line, in any order.
    fn keys(&self, ino: u64, projection: Projection) -> Result<Vec<String>>;
    /// Returns number and offset of the last line that has a row and begins at or before `off`. `u64::MAX`
    /// asks for the last line that has one.
    fn line_before(&self, ino: u64, projection: Projection, off: u64) -> Result<Option<(u64, u64)>>;
    /// Returns the bytes `from..to` of a file. Holes read as zeros.
    fn content(&self, ino: u64, from: u64, to: u64) -> Result<Bytes>;
    /// Returns the offset of the first data after `from` if `from..to` of a file is a hole; `u64::MAX` if no
    /// data follows. Returns `None` if the range has data.
    fn hole_end(&self, ino: u64, from: u64, to: u64) -> Result<Option<u64>>;
}

/// Nodes whose keys a group of commits may have changed.
#[derive(Debug)]
pub(crate) struct ChangedNodes {
    /// First inode that the group could assign: nodes from here on have no keys yet.
    first_ino: u64,
    attributes: BTreeSet<u64>,
    files: BTreeMap<u64, FileChange>,
}

/// Change of a file that may have changed its keys.
#[derive(Clone, Copy, Debug, Default)]
struct FileChange {
    /// The first byte that may differ; `None` if only names have changed.
    from: Option<u64>,
    /// True if a name that matches a projection was added or removed.
    renamed: bool,
}

impl ChangedNodes {
    /// Returns the record of a group of commits that has changed nothing yet. `first_ino` is the first inode
    /// that it could assign.
    pub(crate) fn new(first_ino: u64) -> Self {
        Self { first_ino, attributes: BTreeSet::new(), files: BTreeMap::new() }
    }

    /// Notes the changes of a batch, except for names that moved with a directory above.
    pub(crate) fn by(&mut self, registry: &Registry, delta: &Delta) {
        self.attributes.extend(&delta.keyed);
        for (ino, edit) in &delta.index {
            self.edited(*ino, edit.start);
        }
        for ((dir, name), change) in &delta.names {
            let rows = || [change.before, change.after].into_iter().flatten();
            // Only files have keys that depend on their names.
            if !rows().any(|row| row.kind == Kind::File) {
                continue;
            }
            if registry.projections().iter().any(|one| one.has_row(dir, name)) {
                rows().filter(|row| row.kind == Kind::File).for_each(|row| self.renamed(row.ino));
            }
        }
    }

    /// Notes that a name moved from one directory to another with a directory above, or ended with it.
    pub(crate) fn moved(
        &mut self,
        registry: &Registry,
        row: &NameRow,
        name: &str,
        from: &str,
        to: Option<&str>,
    ) {
        if row.kind != Kind::File {
            return;
        }
        let has = |one: &ContentProjection, dir: Option<&str>| dir.is_some_and(|dir| one.has_row(dir, name));
        // Rows have no path, so a move between directories of the same projections leaves them as they are.
        if registry.projections().iter().any(|one| has(one, Some(from)) != has(one, to)) {
            self.renamed(row.ino);
        }
    }

    /// Returns the nodes, some of them twice.
    pub(super) fn inos(&self) -> impl Iterator<Item = u64> {
        self.attributes.iter().chain(self.files.keys()).copied()
    }

    fn edited(&mut self, ino: u64, from: u64) {
        let known = self.files.entry(ino).or_default();
        known.from = Some(known.from.map_or(from, |known| known.min(from)));
    }

    /// Notes that a file got or lost a name that matches a projection.
    pub(super) fn renamed(&mut self, ino: u64) {
        self.files.entry(ino).or_default().renamed = true;
    }
}

/// Callback for the changes of the keys of a node.
type EachChange<'a, E> = dyn FnMut(KeysChange) -> Result<(), E> + 'a;

/// Callback for rows of keys.
type EachRow<'a, E> = dyn FnMut(KeyRow) -> Result<(), E> + 'a;

/// Passes the changes of keys that follow from the changes of a group, each with the inode of its node, to
/// `each`. They apply in this order. They are not collected, because a file may have any number of lines.
///
/// # Errors
/// Errors of `rows` and of `each`.
pub(crate) fn each_key_change<R: KeyedRows, E: From<Error>>(
    rows: &R,
    registry: &Registry,
    changed: &ChangedNodes,
    each: &mut dyn FnMut(u64, KeysChange) -> Result<(), E>,
) -> Result<(), E> {
    let mut missed = Ok(());
    for ino in &changed.attributes {
        let at = (*ino, *ino >= changed.first_ino);
        let outcome = change_keys(rows, at, &mut |change| each(*ino, change), |node, each| {
            change_attribute_keys(rows, at, &attributes_of(rows, node)?, each)
        });
        missed = note_miss::<R, E>(missed, outcome)?;
    }
    for (ino, change) in &changed.files {
        let at = (*ino, *ino >= changed.first_ino);
        // All names of a new file began in this group, and none of them matches a projection.
        if at.1 && !change.renamed {
            continue;
        }
        let outcome = change_keys(rows, at, &mut |change| each(*ino, change), |node, each| {
            change_content_keys(rows, registry, (node, at.1), *change, each)
        });
        missed = note_miss::<R, E>(missed, outcome)?;
    }
    missed
}

/// Changes the keys of a node by `change` if it exists at the end of the group: an intermediate state leaves
/// no keys.
fn change_keys<R: KeyedRows, E: From<Error>>(
    rows: &R,
    (ino, is_new): (u64, bool),
    each: &mut EachChange<'_, E>,
    change: impl FnOnce(&NodeRow, &mut EachChange<'_, E>) -> Result<(), E>,
) -> Result<(), E> {
    match rows.node(ino)?.filter(|node| node.nlink > 0) {
        None if is_new => Ok(()),
        None => each(KeysChange::Forget),
        Some(node) => change(&node, each),
    }
}

/// Returns the first error so far. Fails with it at once if the rows of other nodes need not be named.
fn note_miss<R: KeyedRows, E>(missed: Result<(), E>, outcome: Result<(), E>) -> Result<Result<(), E>, E> {
    if R::PREFETCHES { Ok(missed.and(outcome)) } else { outcome.map(Ok) }
}

/// Passes all rows that a node should have to `each`.
///
/// # Errors
/// Errors of `rows` and of `each`.
pub(crate) fn each_key<R: KeyedRows, E: From<Error>>(
    rows: &R,
    registry: &Registry,
    node: &NodeRow,
    each: &mut EachRow<'_, E>,
) -> Result<(), E> {
    if node.nlink == 0 {
        return Ok(());
    }
    for (projection, key) in of_attributes(&attributes_of(rows, node)?) {
        each(KeyRow::of_node(projection, key))?;
    }
    for one in projections_of(rows, registry, node)? {
        match one.keys() {
            Keys::OfLines(keys) => each_line(rows, (one.projection(), keys), node, (1, 0), each)?,
            Keys::OfFile(keys) => {
                for key in of_file(rows, keys, node)? {
                    each(KeyRow::of_node(one.projection(), key))?;
                }
            }
        }
    }
    Ok(())
}

fn attributes_of<R: KeyedRows>(rows: &R, node: &NodeRow) -> Result<Attributes> {
    match node.attrs_seq {
        0 => Ok(Attributes::default()),
        seq => rows.attributes(node.ino, seq),
    }
}

/// Replaces the keys of a node by those of these attributes. A new node has no keys.
fn change_attribute_keys<R: KeyedRows, E: From<Error>>(
    rows: &R,
    (ino, is_new): (u64, bool),
    attributes: &Attributes,
    each: &mut EachChange<'_, E>,
) -> Result<(), E> {
    let mut due = of_attributes(attributes);
    for projection in Projection::OF_ATTRIBUTES {
        let own = due.extract_if(.., |(of, _)| *of == projection).map(|(_, key)| key).collect();
        replace_keys(rows, (ino, is_new), projection, own, each)?;
    }
    Ok(())
}

/// Replaces the keys of a node in a projection that is not by line. Changes only what differs. A new node has
/// no keys.
fn replace_keys<R: KeyedRows, E: From<Error>>(
    rows: &R,
    (ino, is_new): (u64, bool),
    projection: Projection,
    mut due: BTreeSet<String>,
    each: &mut EachChange<'_, E>,
) -> Result<(), E> {
    let stored = if is_new { Vec::new() } else { rows.keys(ino, projection)? };
    for key in stored {
        // A key that stays is not written again.
        if !due.remove(&key) {
            each(KeysChange::Remove(projection, key))?;
        }
    }
    due.into_iter().try_for_each(|key| each(KeysChange::Add(KeyRow::of_node(projection, key))))
}

/// Brings the keys of the content of a file up to date. A new file has no keys.
fn change_content_keys<R: KeyedRows, E: From<Error>>(
    rows: &R,
    registry: &Registry,
    (node, is_new): (&NodeRow, bool),
    change: FileChange,
    each: &mut EachChange<'_, E>,
) -> Result<(), E> {
    let own = projections_of(rows, registry, node)?;
    for one in registry.projections() {
        let is_of = own.iter().any(|own| own.projection() == one.projection());
        // A file that matches no pattern, and did not before, has no keys.
        if !is_of && !change.renamed {
            continue;
        }
        match one.keys() {
            Keys::OfLines(keys) => {
                change_line_keys(rows, (one.projection(), keys), node, (is_of, change.from), each)?;
            }
            Keys::OfFile(keys) => {
                let due = if is_of { of_file(rows, keys, node)? } else { BTreeSet::new() };
                replace_keys(rows, (node.ino, is_new), one.projection(), due, each)?;
            }
        }
    }
    Ok(())
}

/// Returns the keys of a complete file.
fn of_file<R: KeyedRows>(
    rows: &R,
    keys: fn(&[u8]) -> Vec<String>,
    node: &NodeRow,
) -> Result<BTreeSet<String>> {
    match node.size {
        0 => Ok(kept_keys(keys(b""))),
        // Bounds the bytes that a commit reads for its keys.
        size if size > MAX_FILE => Ok(BTreeSet::new()),
        size => Ok(kept_keys(keys(&rows.content(node.ino, 0, size)?))),
    }
}

/// Derives the keys of the lines of a file again, from the line with the first byte that may differ; of all
/// lines if it has no rows. Removes them if the file no longer matches the projection.
fn change_line_keys<R: KeyedRows, E: From<Error>>(
    rows: &R,
    (projection, keys): (Projection, LineKeys),
    node: &NodeRow,
    (due, from): (bool, Option<u64>),
    each: &mut EachChange<'_, E>,
) -> Result<(), E> {
    let known = rows.line_before(node.ino, projection, u64::MAX)?;
    let at = match (due, &known) {
        (false, None) => return Ok(()),
        // Only names have changed, and the file still matches.
        (true, Some(_)) if from.is_none() => return Ok(()),
        (true, Some(_)) => rows.line_before(node.ino, projection, from.unwrap_or(0))?,
        _ => None,
    };
    let (line, off) = at.unwrap_or((1, 0));
    // Rows after the changed byte may be of lines that no longer exist.
    if known.is_some() {
        each(KeysChange::Cut(projection, off))?;
    }
    if !due {
        return Ok(());
    }
    each_line(rows, (projection, keys), node, (line, off), &mut |row| each(KeysChange::Add(row)))
}

/// Returns the projections of content whose patterns a node matches.
fn projections_of<'a, R: KeyedRows>(
    rows: &R,
    registry: &'a Registry,
    node: &NodeRow,
) -> Result<Vec<&'a ContentProjection>> {
    if node.kind != Kind::File || node.nlink == 0 || registry.projections().is_empty() {
        return Ok(Vec::new());
    }
    let places = registry.projected_places();
    // Mostly a file has one name. Reading that takes one query, and a look at the places one for each.
    let names = match node.nlink <= FEW_NAMES {
        true => rows.names_of(node.ino, &Within::everything(), usize::MAX)?,
        false => rows.names_of(node.ino, places, usize::MAX)?,
    };
    // One matching name is enough, whatever other names the file has.
    let is_of = |one: &&ContentProjection| names.iter().any(|(dir, name)| one.has_row(dir, name));
    Ok(registry.projections().iter().filter(is_of).collect())
}

/// Passes the rows of the lines of a file from one on, and the row of its end, to `each`.
fn each_line<R: KeyedRows, E: From<Error>>(
    rows: &R,
    (projection, keys): (Projection, LineKeys),
    node: &NodeRow,
    (line, off): (u64, u64),
    each: &mut EachRow<'_, E>,
) -> Result<(), E> {
    let (mut lines, mut at) = (Lines::at(line, off), off);
    let mut keyed = |line: &Line, text: &[u8]| {
        let own = kept_keys(keys(line.number, text));
        own.into_iter().try_for_each(|key| each(KeyRow::of_line(projection, key, line)))
    };
    while at < node.size {
        let end = node.size.min(at + PIECE);
        // A hole is passed at once: it may be much longer than the data of the file.
        if let Some(data) = rows.hole_end(node.ino, at, end)? {
            let data = data.min(node.size);
            lines.hole(data - at);
            at = data;
            continue;
        }
        lines.push::<E>(&rows.content(node.ino, at, end)?, &mut keyed)?;
        at = end;
    }
    lines.end::<E>(&mut keyed)?;
    // The row of the end, from which the next append continues.
    each(KeyRow::of_end(projection, lines.now()))
}
