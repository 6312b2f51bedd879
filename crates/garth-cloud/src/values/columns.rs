//! Columns of tables, and rows read from them: unsigned numbers as `bigint`, kinds as numbers.

use garth_engine::engine::planner::{ExtentRow, HeadRow, NameRow, NewestNode, NodeRow};
use garth_engine::model::{Attributes, Kind};
use garth_engine::{Error, ErrorKind, Result};
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

/// Longest directory of a name, in bytes. Directory and name, of 255 bytes, are in one entry of an index with
/// up to three numbers. It has at most 2,704 bytes.
pub(crate) const MAX_DIR: usize = 2304;

/// Returns a number as a column has it; the largest one for numbers that mean "all".
pub(crate) fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Reads a column.
pub(crate) fn column<'a, T: FromSql<'a>>(row: &'a Row, at: usize) -> Result<T> {
    row.try_get(at).map_err(|e| Error::damaged("a column of a table has another type").with_source(e))
}

/// Reads a number that is never negative.
pub(crate) fn number(row: &Row, at: usize) -> Result<u64> {
    column::<i64>(row, at).map(i64::cast_unsigned)
}

/// Reads the place of a key in the arrays of a statement, which `WITH ORDINALITY` counts from 1.
pub(crate) fn place(row: &Row, at: usize) -> Result<usize> {
    Ok(usize::try_from(number(row, at)?.wrapping_sub(1)).unwrap_or(usize::MAX))
}

/// Returns the number of a kind.
pub(crate) fn kind_number(kind: Kind) -> i16 {
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

/// Returns the kind that has a number.
pub(crate) fn kind_of(number: i16) -> Result<Kind> {
    Ok(match number {
        0 => Kind::File,
        1 => Kind::Directory,
        2 => Kind::Symlink,
        3 => Kind::Fifo,
        4 => Kind::Socket,
        5 => Kind::CharDevice,
        6 => Kind::BlockDevice,
        7 => Kind::Whiteout,
        _ => return Err(Error::damaged("a node has an unknown kind")),
    })
}

/// Returns the column `older` of an extent: by how many commits its bytes are older than the extent. -1 if
/// several commits wrote them, which table `origin` has.
pub(crate) fn older(row: &ExtentRow) -> i64 {
    if row.written == 0 { -1 } else { int(row.since.saturating_sub(row.written)) }
}

/// Returns the commit that wrote the bytes of an extent, from its column `older`; 0 for several.
fn written(since: u64, older: i64) -> u64 {
    u64::try_from(older).map_or(0, |older| since.saturating_sub(older))
}

/// Columns of a version of a node in table `v`, and of the newer times of a directory in table `t`, in the
/// order that [`newest_node`] reads.
macro_rules! newest_columns {
    () => {
        "v.ino, v.seq, v.kind, v.mode, v.uid, v.gid, v.rdev, v.nlink, v.size, v.mtime, v.ctime, v.birthtime, \
         v.atime, v.target, v.attrs_seq, v.expires_at, v.content_seq, t.seq, t.time"
    };
}
pub(crate) use newest_columns;

/// Number of the columns of a version of a node, behind which the times of a directory are.
const NODE_COLUMNS: usize = 17;

/// Reads the newest version of a node whose columns begin at `at`. Returns `None` without a node.
pub(crate) fn newest_node(row: &Row, at: usize) -> Result<Option<NewestNode>> {
    if column::<Option<i64>>(row, at)?.is_none() {
        return Ok(None);
    }
    let mut node = node(row, at)?;
    let times: Option<i64> = column(row, at + NODE_COLUMNS)?;
    if let Some(seq) = times {
        node.touch((seq.cast_unsigned(), column(row, at + NODE_COLUMNS + 1)?));
    }
    Ok(Some(NewestNode { row: node, has_times: times.is_some() }))
}

fn node(row: &Row, at: usize) -> Result<NodeRow> {
    let id = |place: usize| column::<i64>(row, at + place).map(|id| id as u32);
    Ok(NodeRow {
        ino: number(row, at)?,
        seq: number(row, at + 1)?,
        kind: kind_of(column(row, at + 2)?)?,
        mode: column::<i32>(row, at + 3)?.cast_unsigned(),
        uid: id(4)?,
        gid: id(5)?,
        rdev: number(row, at + 6)?,
        nlink: number(row, at + 7)?,
        size: number(row, at + 8)?,
        mtime: column(row, at + 9)?,
        ctime: column(row, at + 10)?,
        birthtime: column(row, at + 11)?,
        atime: column(row, at + 12)?,
        target: column(row, at + 13)?,
        attrs_seq: number(row, at + 14)?,
        expires_at: column(row, at + 15)?,
        content_seq: number(row, at + 16)?,
    })
}

/// Reads a name whose columns `ino, since, kind` begin at `at`.
pub(crate) fn name(row: &Row, at: usize) -> Result<NameRow> {
    let kind = kind_of(column(row, at + 2)?)?;
    Ok(NameRow { ino: number(row, at)?, since: number(row, at + 1)?, kind })
}

/// Reads an extent whose columns `off, len, since, chunk, skip, older` begin at `at`.
pub(crate) fn extent(row: &Row, at: usize) -> Result<ExtentRow> {
    let since = number(row, at + 2)?;
    Ok(ExtentRow {
        off: number(row, at)?,
        len: number(row, at + 1)?,
        since,
        chunk: number(row, at + 3)?,
        skip: number(row, at + 4)?,
        written: written(since, column(row, at + 5)?),
    })
}

/// Reads a head row: `seq, time, next_ino, next_chunk, control, projections, oldest, folded`.
pub(crate) fn head(row: &Row) -> Result<HeadRow> {
    Ok(HeadRow {
        seq: number(row, 0)?,
        time: column(row, 1)?,
        next_ino: number(row, 2)?,
        next_chunk: number(row, 3)?,
        control: number(row, 4)?,
        projections: number(row, 5)?,
        oldest: number(row, 6)?,
        folded: number(row, 7)?,
    })
}

/// Parses the attributes that a node got in commit `seq`; 0 for none.
pub(crate) fn attributes(seq: u64, json: Option<&str>) -> Result<Attributes> {
    if seq == 0 {
        return Ok(Attributes::default());
    }
    let damaged = || Error::new(ErrorKind::Corrupt, "the attributes of a node are damaged");
    serde_json::from_str(json.ok_or_else(damaged)?).map_err(|e| damaged().with_source(e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_read_back() {
        let kinds = (0..8).map(|number| kind_number(kind_of(number).unwrap())).collect::<Vec<_>>();
        assert_eq!(kinds, (0..8).collect::<Vec<_>>());
        assert_eq!(kind_of(8).unwrap_err().kind(), ErrorKind::Corrupt);
    }

    #[test]
    fn commits_that_wrote_an_extent_are_read_back() {
        for commit in [0, 3, 7] {
            let row = ExtentRow { off: 0, len: 1, since: 7, chunk: 1, skip: 0, written: commit };
            assert_eq!(written(7, older(&row)), commit);
        }
    }

    #[test]
    fn numbers_beyond_a_column_mean_all() {
        assert_eq!([0, 7, u64::MAX].map(int), [0, 7, i64::MAX]);
    }

    #[test]
    fn missing_attributes_are_damage() {
        assert_eq!(attributes(0, None).unwrap(), Attributes::default());
        assert_eq!(attributes(4, None).unwrap_err().kind(), ErrorKind::Corrupt);
        assert_eq!(attributes(4, Some("{")).unwrap_err().kind(), ErrorKind::Corrupt);
        let set = attributes(4, Some(r#"{"content_type":"text/plain"}"#)).unwrap();
        assert_eq!(set.content_type.as_deref(), Some("text/plain"));
    }
}
