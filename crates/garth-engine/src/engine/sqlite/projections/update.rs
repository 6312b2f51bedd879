//! Keeps the keys up to date with the tree. The changes of a group of commits are applied once, at its end.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Connection, params};

use crate::engine::planner::{Delta, NameRow, NodeRow, Rows};
use crate::engine::sqlite::chunk_store::Packs;
use crate::engine::sqlite::planner_rows::PlannerRows;
use crate::engine::sqlite::projections::{KeyRow, forget};
use crate::engine::sqlite::tables::names_of_node::{self, CommitSpan};
use crate::engine::sqlite::tables::{MAX, extents};
use crate::model::{Attributes, Kind, Projection, Within};
use crate::rule::Registry;
use crate::rule::projection::{
    ContentProjection, Keys, Line, LineKeys, Lines, MAX_FILE, kept_keys, of_attributes,
};
use crate::sqlite::{DbResult, all, one};

/// Names of a file up to which all are read.
const FEW_NAMES: u64 = 8;
/// Bytes of a file that are read at a time.
const PIECE: u64 = 1 << 20;

/// Nodes whose keys may have changed.
#[derive(Debug)]
pub(crate) struct ChangedNodes<'a> {
    registry: &'a Registry,
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

impl<'a> ChangedNodes<'a> {
    /// Returns the record of a group of commits that has changed nothing yet. `first_ino` is the first inode
    /// that it could assign.
    pub(crate) fn new(registry: &'a Registry, first_ino: u64) -> Self {
        Self { registry, first_ino, attributes: BTreeSet::new(), files: BTreeMap::new() }
    }

    /// Notes the changes of a batch, except for names that moved with a directory above.
    pub(crate) fn by(&mut self, delta: &Delta) {
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
            if self.registry.projections().iter().any(|one| one.has_row(dir, name)) {
                rows().filter(|row| row.kind == Kind::File).for_each(|row| self.renamed(row.ino));
            }
        }
    }

    /// Notes that a name moved from one directory to another with a directory above, or ended with it.
    pub(crate) fn moved(&mut self, row: &NameRow, name: &str, from: &str, to: Option<&str>) {
        if row.kind != Kind::File {
            return;
        }
        let has = |one: &ContentProjection, dir: Option<&str>| dir.is_some_and(|dir| one.has_row(dir, name));
        // Rows have no path, so a move between directories of the same projections leaves them as they are.
        if self.registry.projections().iter().any(|one| has(one, Some(from)) != has(one, to)) {
            self.renamed(row.ino);
        }
    }

    fn edited(&mut self, ino: u64, from: u64) {
        let known = self.files.entry(ino).or_default();
        known.from = Some(known.from.map_or(from, |known| known.min(from)));
    }

    fn renamed(&mut self, ino: u64) {
        self.files.entry(ino).or_default().renamed = true;
    }

    /// Writes the keys.
    pub(crate) fn write(self, state: &PlannerRows<'_>) -> DbResult<()> {
        for ino in self.attributes {
            let is_new = ino >= self.first_ino;
            // The state at the end of the group: an intermediate one leaves no keys.
            match state.node(ino)?.filter(|node| node.nlink > 0) {
                None if is_new => {}
                None => forget(state.conn, ino)?,
                Some(node) if node.attrs_seq == 0 => {
                    put_keys(state.conn, (ino, is_new), &Attributes::default())?;
                }
                Some(node) => {
                    put_keys(state.conn, (ino, is_new), &state.attributes(ino, node.attrs_seq)?)?;
                }
            }
        }
        for (ino, change) in self.files {
            let is_new = ino >= self.first_ino;
            // All names of a new file began in this group, and none of them matches a projection.
            if is_new && !change.renamed {
                continue;
            }
            match state.node(ino)?.filter(|node| node.nlink > 0) {
                None if is_new => {}
                None => forget(state.conn, ino)?,
                Some(node) => put_content(state.conn, state.packs, self.registry, (&node, is_new), change)?,
            }
        }
        Ok(())
    }
}

/// Replaces the keys of a node by those of these attributes. A new node has no keys.
fn put_keys(conn: &Connection, (ino, is_new): (u64, bool), attributes: &Attributes) -> DbResult<()> {
    let mut due = of_attributes(attributes);
    for projection in Projection::OF_ATTRIBUTES {
        let own = due.extract_if(.., |(of, _)| *of == projection).map(|(_, key)| key).collect();
        put_own(conn, (ino, is_new), projection, own)?;
    }
    Ok(())
}

/// Replaces the keys of a node in a projection that is not by line. Writes only what differs. A new node has
/// no keys.
fn put_own(
    conn: &Connection,
    (ino, is_new): (u64, bool),
    projection: Projection,
    mut due: BTreeSet<String>,
) -> DbResult<()> {
    let number = projection.number();
    let sql = "SELECT key FROM projected WHERE ino = ?1 AND projection = ?2";
    let kept: Vec<String> = match is_new {
        true => Vec::new(),
        false => all(conn, sql, params![ino, number], |row| row.get(0))?,
    };
    for key in kept {
        // A key that stays is not written again.
        if !due.remove(&key) {
            conn.prepare_cached(
                "DELETE FROM projected WHERE projection = ?1 AND key = ?2 AND ino = ?3 AND line = 0",
            )?
            .execute(params![number, key, ino])?;
        }
    }
    due.iter().try_for_each(|key| KeyRow::of_node(projection, key).insert(conn, ino))
}

/// Brings the keys of the content of a file up to date. A new file has no keys.
fn put_content(
    conn: &Connection,
    packs: &Packs,
    registry: &Registry,
    (node, is_new): (&NodeRow, bool),
    change: FileChange,
) -> DbResult<()> {
    let own = of_node(conn, registry, node)?;
    for one in registry.projections() {
        let is_of = own.iter().any(|own| own.projection() == one.projection());
        // A file that matches no pattern, and did not before, has no keys.
        if !is_of && !change.renamed {
            continue;
        }
        match one.keys() {
            Keys::OfLines(keys) => put_lines(conn, packs, (one, keys), node, is_of, change.from)?,
            Keys::OfFile(keys) => {
                let due = if is_of { of_file(conn, packs, keys, node)? } else { BTreeSet::new() };
                put_own(conn, (node.ino, is_new), one.projection(), due)?;
            }
        }
    }
    Ok(())
}

/// Returns the keys of a complete file.
pub(super) fn of_file(
    conn: &Connection,
    packs: &Packs,
    keys: fn(&[u8]) -> Vec<String>,
    node: &NodeRow,
) -> DbResult<BTreeSet<String>> {
    match node.size {
        0 => Ok(kept_keys(keys(b""))),
        // Bounds the bytes that a commit reads for its keys.
        size if size > MAX_FILE => Ok(BTreeSet::new()),
        size => Ok(kept_keys(keys(&packs.content(conn, node.ino, None, 0, size)?))),
    }
}

/// Derives the keys of the lines of a file again, from the line with the first byte that may differ; of all
/// lines if it has no rows. Removes them if the file no longer matches the projection.
fn put_lines(
    conn: &Connection,
    packs: &Packs,
    (one, keys): (&ContentProjection, LineKeys),
    node: &NodeRow,
    due: bool,
    from: Option<u64>,
) -> DbResult<()> {
    let (ino, projection) = (node.ino, one.projection());
    let known = line_before(conn, ino, projection, MAX)?;
    let at = match (due, &known) {
        (false, None) => return Ok(()),
        // Only names have changed, and the file still matches.
        (true, Some(_)) if from.is_none() => return Ok(()),
        (true, Some(_)) => line_before(conn, ino, projection, from.unwrap_or(0))?,
        _ => None,
    };
    let (line, off) = at.unwrap_or((1, 0));
    // Rows after the changed byte may be of lines that no longer exist.
    if known.is_some() {
        conn.prepare_cached("DELETE FROM projected WHERE ino = ?1 AND projection = ?2 AND off >= ?3")?
            .execute(params![ino, projection.number(), off])?;
    }
    if !due {
        return Ok(());
    }
    each_line(conn, packs, (one, keys), node, (line, off), &mut |row| row.insert(conn, ino))
}

/// Returns the last line that has a row and begins at or before `off`: its number and its offset.
fn line_before(
    conn: &Connection,
    ino: u64,
    projection: Projection,
    off: u64,
) -> DbResult<Option<(u64, u64)>> {
    let sql = "SELECT line, off FROM projected WHERE ino = ?1 AND projection = ?2 AND off <= ?3
         ORDER BY off DESC LIMIT 1";
    one(conn, sql, params![ino, projection.number(), off.min(MAX)], |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Returns the projections of content whose patterns a node matches.
pub(super) fn of_node<'a>(
    conn: &Connection,
    registry: &'a Registry,
    node: &NodeRow,
) -> DbResult<Vec<&'a ContentProjection>> {
    if node.kind != Kind::File || node.nlink == 0 || registry.projections().is_empty() {
        return Ok(Vec::new());
    }
    let places = registry.projected_places();
    // Mostly a file has one name. Reading that takes one statement, and a look at the places one for each.
    let names = match node.nlink <= FEW_NAMES {
        true => names_of_node::behind(conn, node.ino, &Within::everything(), ("", ""), usize::MAX)?,
        false => names_of_node::in_span(conn, node.ino, CommitSpan::NOW, places, usize::MAX)?,
    };
    // One matching name is enough, whatever other names the file has.
    let is_of = |one: &&ContentProjection| names.iter().any(|(dir, name)| one.has_row(dir, name));
    Ok(registry.projections().iter().filter(is_of).collect())
}

/// Passes the rows of the lines of a file from one on, and the row of its end, to `each`.
pub(super) fn each_line(
    conn: &Connection,
    packs: &Packs,
    (one, keys): (&ContentProjection, LineKeys),
    node: &NodeRow,
    (line, off): (u64, u64),
    each: &mut dyn FnMut(&KeyRow<'_>) -> DbResult<()>,
) -> DbResult<()> {
    let projection = one.projection();
    let (mut lines, mut at) = (Lines::at(line, off), off);
    let mut keyed = |line: &Line, text: &[u8]| {
        let own = kept_keys(keys(line.number, text));
        own.iter().try_for_each(|key| each(&KeyRow::of_line(projection, key, line)))
    };
    while at < node.size {
        let end = node.size.min(at + PIECE);
        // A hole is passed at once: it may be much longer than the data of the file.
        if extents::overlapping(conn, node.ino, at, end)?.is_empty() {
            let data =
                extents::next_offset(conn, node.ino, at)?.map_or(node.size, |data| data.min(node.size));
            lines.hole(data - at);
            at = data;
            continue;
        }
        lines.push(&packs.content(conn, node.ino, None, at, end)?, &mut keyed)?;
        at = end;
    }
    lines.end(&mut keyed)?;
    // The row of the end, from which the next append continues.
    each(&KeyRow::of_end(projection, lines.now()))
}
