//! Keeps the keys up to date with the tree: what a group of commits changed is looked at once, at its end.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Connection, params};

use super::{KeyRow, forget};
use crate::engine::planner::{Delta, NameRow, NodeRow, Rows};
use crate::engine::sqlite::read::content::Packs;
use crate::engine::sqlite::read::rows::{self, Span};
use crate::engine::sqlite::write::txn_rows::TxnRows;
use crate::model::{Attributes, Kind, Projection};
use crate::path::TreePath;
use crate::rule::projection::{ByLine, Line, Lines, by_line, of_attributes};
use crate::sqlite::{DbResult, all, one};

/// Bytes of a file that are read at a time.
const PIECE: u64 = 1 << 20;

/// Nodes whose keys may be others.
#[derive(Debug, Default)]
pub(crate) struct Changed {
    attributes: BTreeSet<u64>,
    /// Files, with the first byte that may differ; `None` if only their names are others.
    files: BTreeMap<u64, Option<u64>>,
}

impl Changed {
    /// Notes what a batch did, but for the names that moved with a directory above.
    pub(crate) fn by(&mut self, delta: &Delta) {
        self.attributes.extend(&delta.keyed);
        if by_line().is_empty() {
            return;
        }
        for (ino, edit) in &delta.index {
            self.file(*ino, Some(edit.start));
        }
        for ((dir, name), change) in &delta.names {
            let rows = || [change.before, change.after].into_iter().flatten();
            if !rows().any(|row| row.kind == Kind::File) {
                continue;
            }
            let path = TreePath::from_row(dir, name);
            if by_line().iter().any(|one| one.has(&path)) {
                rows().filter(|row| row.kind == Kind::File).for_each(|row| self.file(row.ino, None));
            }
        }
    }

    /// Notes that a name came from one directory to another with a directory above, or ended with it.
    pub(crate) fn moved(&mut self, row: &NameRow, name: &str, from: &str, to: Option<&str>) {
        if row.kind != Kind::File || by_line().is_empty() {
            return;
        }
        let [from, to] = [Some(from), to].map(|dir| dir.map(|dir| TreePath::from_row(dir, name)));
        let has = |one: &ByLine, path: &Option<TreePath>| path.as_ref().is_some_and(|path| one.has(path));
        if by_line().iter().any(|one| has(one, &from) != has(one, &to)) {
            self.file(row.ino, None);
        }
    }

    fn file(&mut self, ino: u64, from: Option<u64>) {
        let known = self.files.entry(ino).or_insert(from);
        *known = match (*known, from) {
            (Some(known), Some(from)) => Some(known.min(from)),
            (known, from) => known.or(from),
        };
    }

    /// Writes the keys.
    pub(crate) fn write(self, state: &TxnRows<'_>) -> DbResult<()> {
        for ino in self.attributes {
            match state.node(ino)?.filter(|node| node.nlink > 0) {
                None => forget(state.conn, ino)?,
                Some(node) if node.attrs_seq == 0 => put_keys(state.conn, ino, &Attributes::default())?,
                Some(node) => put_keys(state.conn, ino, &state.attributes(ino, node.attrs_seq)?)?,
            }
        }
        for (ino, from) in self.files {
            match state.node(ino)?.filter(|node| node.nlink > 0) {
                None => forget(state.conn, ino)?,
                Some(node) => {
                    for one in by_line() {
                        put_lines(state.conn, state.packs, one, &node, from)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Makes the keys of a node those of these attributes; writes only what differs.
fn put_keys(conn: &Connection, ino: u64, attributes: &Attributes) -> DbResult<()> {
    let mut due = of_attributes(attributes);
    for projection in Projection::OF_ATTRIBUTES {
        let sql = "SELECT key FROM projected WHERE ino = ?1 AND projection = ?2";
        let kept: Vec<String> = all(conn, sql, params![ino, projection.number()], |row| row.get(0))?;
        for key in kept {
            let row = (projection, key);
            if !due.remove(&row) {
                conn.prepare_cached(
                    "DELETE FROM projected WHERE projection = ?1 AND key = ?2 AND ino = ?3 AND line = 0",
                )?
                .execute(params![projection.number(), row.1, ino])?;
            }
        }
    }
    for (projection, key) in &due {
        KeyRow::of_node(*projection, key).insert(conn, ino)?;
    }
    Ok(())
}

/// Makes the keys of a file's lines anew from the line on that has the first byte that may differ; all of
/// them if it has none, or none if it is not of the class.
fn put_lines(
    conn: &Connection,
    packs: &Packs,
    one: &ByLine,
    node: &NodeRow,
    from: Option<u64>,
) -> DbResult<()> {
    let (ino, projection) = (node.ino, one.projection());
    let known = line_before(conn, ino, projection, rows::MAX)?;
    let due = is_of(conn, one, node)?;
    let at = match (due, &known) {
        (false, None) => return Ok(()),
        (true, Some(_)) if from.is_none() => return Ok(()),
        (true, Some(_)) => line_before(conn, ino, projection, from.unwrap_or(0))?,
        _ => None,
    };
    let (line, off) = at.unwrap_or((1, 0));
    if known.is_some() {
        conn.prepare_cached("DELETE FROM projected WHERE ino = ?1 AND projection = ?2 AND off >= ?3")?
            .execute(params![ino, projection.number(), off])?;
    }
    if !due {
        return Ok(());
    }
    each_line(conn, packs, one, node, (line, off), &mut |row| row.insert(conn, ino))
}

/// The last line that has a row and begins at `off` or before: its number, and where it begins.
fn line_before(
    conn: &Connection,
    ino: u64,
    projection: Projection,
    off: u64,
) -> DbResult<Option<(u64, u64)>> {
    let sql = "SELECT line, off FROM projected WHERE ino = ?1 AND projection = ?2 AND off <= ?3
         ORDER BY off DESC LIMIT 1";
    one(conn, sql, params![ino, projection.number(), off.min(rows::MAX)], |row| {
        Ok((row.get(0)?, row.get(1)?))
    })
}

/// Whether a node is a file with a name in the class of a projection.
pub(super) fn is_of(conn: &Connection, one: &ByLine, node: &NodeRow) -> DbResult<bool> {
    if node.kind != Kind::File || node.nlink == 0 {
        return Ok(false);
    }
    let names = rows::names_of(conn, node.ino, Span::NOW, one.place(), usize::MAX)?;
    Ok(names.iter().any(|(dir, name)| one.has(&TreePath::from_row(dir, name))))
}

/// The rows of a file's lines from one on, and that of its end.
pub(super) fn each_line(
    conn: &Connection,
    packs: &Packs,
    one: &ByLine,
    node: &NodeRow,
    (line, off): (u64, u64),
    each: &mut dyn FnMut(&KeyRow<'_>) -> DbResult<()>,
) -> DbResult<()> {
    let projection = one.projection();
    let (mut lines, mut at) = (Lines::at(line, off), off);
    let mut keyed = |line: &Line, text: &[u8]| match one.key(text) {
        Some(key) => each(&KeyRow::of_line(projection, &key, line)),
        None => Ok(()),
    };
    while at < node.size {
        let end = node.size.min(at + PIECE);
        if rows::extents(conn, node.ino, at, end)?.is_empty() {
            let data = data_behind(conn, node.ino, at)?.map_or(node.size, |data| data.min(node.size));
            lines.hole(data - at);
            at = data;
            continue;
        }
        lines.push(&packs.content(conn, node.ino, None, at, end)?, &mut keyed)?;
        at = end;
    }
    lines.end(&mut keyed)?;
    each(&KeyRow::of_end(projection, lines.now()))
}

/// Where the next extent of a file begins behind a place that is in none.
fn data_behind(conn: &Connection, ino: u64, at: u64) -> DbResult<Option<u64>> {
    let sql = "SELECT off FROM extent WHERE ino = ?1 AND till = 0 AND off >= ?2 ORDER BY off LIMIT 1";
    one(conn, sql, [ino, at], |row| row.get(0))
}
