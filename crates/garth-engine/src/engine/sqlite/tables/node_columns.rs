//! Columns of nodes: kinds as numbers, node rows by column.

use rusqlite::Row;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};

use crate::engine::planner::{NewestNode, NodeRow};
use crate::model::Kind;

/// Returns the number of a kind in the database.
pub(crate) const fn kind_number(kind: Kind) -> i64 {
    match kind {
        // Part of the format: a number never changes its meaning.
        Kind::File => 0,
        Kind::Directory => 1,
        Kind::Symlink => 2,
        Kind::Fifo => 3,
        Kind::Socket => 4,
        Kind::CharDevice => 5,
        Kind::BlockDevice => 6,
        Kind::Whiteout => 7,
    }
}

/// A kind as a column value.
pub(crate) struct KindColumn(pub(crate) Kind);

impl FromSql for KindColumn {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Ok(Self(match value.as_i64()? {
            0 => Kind::File,
            1 => Kind::Directory,
            2 => Kind::Symlink,
            3 => Kind::Fifo,
            4 => Kind::Socket,
            5 => Kind::CharDevice,
            6 => Kind::BlockDevice,
            7 => Kind::Whiteout,
            other => return Err(FromSqlError::OutOfRange(other)),
        }))
    }
}

impl ToSql for KindColumn {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::from(kind_number(self.0)))
    }
}

/// The columns of a node row, in the order that [`node_row`] reads and the `node` table has. A macro, for
/// `concat!`.
macro_rules! node_columns {
    () => {
        "node.ino, node.seq, node.kind, node.mode, node.uid, node.gid, node.rdev, node.nlink, node.size, node.mtime, \
         node.ctime, node.birthtime, node.atime, node.target, node.attrs_seq, node.expires_at, node.content_seq"
    };
}
pub(crate) use node_columns;

/// Number of [`node_columns`].
const NODE_COLUMNS: usize = 17;

/// The columns of the newest version of a node, in the order that [`newest_node`] reads: its newest row, and
/// the times that a directory got later.
macro_rules! newest_columns {
    () => {
        concat!(
            $crate::engine::sqlite::tables::node_columns::node_columns!(),
            ", CASE node.kind WHEN 1 THEN (SELECT seq FROM dir_time WHERE dir_time.ino = node.ino) END,
             CASE node.kind WHEN 1 THEN (SELECT time FROM dir_time WHERE dir_time.ino = node.ino) END"
        )
    };
}
pub(crate) use newest_columns;

/// Number of [`newest_columns`].
pub(crate) const NEWEST_COLUMNS: usize = NODE_COLUMNS + 2;

/// Reads the newest version of a node whose columns begin at `at`.
pub(crate) fn newest_node(row: &Row<'_>, at: usize) -> rusqlite::Result<NewestNode> {
    let mut node = node_row(row, at)?;
    let touched: Option<u64> = row.get(at + NODE_COLUMNS)?;
    if let Some(seq) = touched {
        node.touch((seq, row.get(at + NODE_COLUMNS + 1)?));
    }
    Ok(NewestNode { row: node, has_times: touched.is_some() })
}

/// Reads the row of the newest version of a node whose columns begin at `at`.
pub(crate) fn newest_row(row: &Row<'_>, at: usize) -> rusqlite::Result<NodeRow> {
    Ok(newest_node(row, at)?.row)
}

/// Reads a node row whose columns begin at `at`.
pub(crate) fn node_row(row: &Row<'_>, at: usize) -> rusqlite::Result<NodeRow> {
    let (mtime, birthtime): (i64, i64) = (row.get(at + 9)?, row.get(at + 11)?);
    Ok(NodeRow {
        ino: row.get(at)?,
        seq: row.get(at + 1)?,
        kind: row.get::<_, KindColumn>(at + 2)?.0,
        mode: row.get(at + 3)?,
        uid: row.get(at + 4)?,
        gid: row.get(at + 5)?,
        rdev: row.get::<_, i64>(at + 6)?.cast_unsigned(),
        nlink: row.get(at + 7)?,
        size: row.get(at + 8)?,
        mtime,
        // Stored as differences, which are mostly 0 and then take no byte.
        ctime: mtime.wrapping_add(row.get(at + 10)?),
        birthtime,
        atime: birthtime.wrapping_add(row.get(at + 12)?),
        target: row.get(at + 13)?,
        attrs_seq: row.get(at + 14)?,
        expires_at: row.get(at + 15)?,
        content_seq: row.get(at + 16)?,
    })
}
