//! Tables `name` and `name_past` in the order of a listing or walk, one page of names at a time, with their
//! nodes on request.

use std::rc::Rc;

use rusqlite::{Connection, Row, params};

use crate::engine::relational::reads::tree_rows::{EachRow, NameRange, PageRow};
use crate::engine::sqlite::tables::expiry;
use crate::engine::sqlite::tables::node_columns::{KindColumn, newest_columns, newest_row};
use crate::sqlite::{DbError, DbResult, all};

/// Reads a row of a page. `last` is the directory of the row before.
fn page_row(row: &Row<'_>, node: bool, last: &mut Rc<str>) -> rusqlite::Result<PageRow> {
    let dir = row.get_ref(0)?.as_str()?;
    // The names of a directory come together, and share its key.
    if **last != *dir {
        *last = dir.into();
    }
    Ok(PageRow {
        dir: Rc::clone(last),
        name: row.get(1)?,
        ino: row.get(2)?,
        kind: row.get::<_, KindColumn>(3)?.0,
        node: node.then(|| newest_row(row, 4)).transpose()?,
    })
}

/// Callback for a row. Returns false to stop.
type Each<'a> = EachRow<'a, DbError>;

/// The statements of this file. `?1, ?2`: directory and name to begin after. Now: `?3` time, `?4` limit, `?5`
/// end. In the past: `?3` sequence number, `?4` limit, `?5` end, `?6` fork.
macro_rules! list_sql {
    // Without a look at the time: for a state in which nothing has expired.
    (all, $where:literal) => {
        concat!(
            "SELECT dir, name, ino, kind FROM name WHERE ",
            $where,
            " ORDER BY dir, name LIMIT ?4"
        )
    };
    (names, $where:literal) => {
        concat!(
            "SELECT name.dir, name.name, name.ino, name.kind FROM name LEFT JOIN expiry ON expiry.ino = name.ino WHERE ",
            $where,
            " AND (expiry.at IS NULL OR expiry.at > ?3) ORDER BY name.dir, name.name LIMIT ?4"
        )
    };
    (nodes, $where:literal) => {
        concat!(
            "SELECT name.dir, name.name, name.ino, name.kind, ",
            newest_columns!(),
            " FROM name CROSS JOIN node ON node.ino = name.ino
              AND node.seq = (SELECT max(seq) FROM node AS last WHERE last.ino = name.ino)
              WHERE ",
            $where,
            " AND (node.expires_at IS NULL OR node.expires_at > ?3) ORDER BY name.dir, name.name LIMIT ?4"
        )
    };
    (as_of, $where:literal) => {
        concat!(
            "SELECT dir, name, ino, kind FROM name WHERE ",
            $where,
            " AND since <= ?3 ORDER BY dir, name LIMIT ?4"
        )
    };
    // The index has the past names of a fork in the order of a page, so that a large directory is not sorted.
    (past, $where:literal) => {
        concat!(
            "SELECT dir, name, ino, kind FROM name_past INDEXED BY name_past_fork WHERE fork = ?6 AND ",
            $where,
            " AND since <= ?3 AND till > ?3 ORDER BY dir, name LIMIT ?4"
        )
    };
}

const LIST_ALL: &str = list_sql!(all, "dir = ?1 AND name > ?2");
const WALK_ALL: &str = list_sql!(all, "(dir, name) > (?1, ?2) AND dir < ?5");
const LIST_NAMES: &str = list_sql!(names, "name.dir = ?1 AND name.name > ?2");
const LIST_NODES: &str = list_sql!(nodes, "name.dir = ?1 AND name.name > ?2");
const WALK_NAMES: &str = list_sql!(names, "(name.dir, name.name) > (?1, ?2) AND name.dir < ?5");
const WALK_NODES: &str = list_sql!(nodes, "(name.dir, name.name) > (?1, ?2) AND name.dir < ?5");
const LIST_AS_OF: &str = list_sql!(as_of, "dir = ?1 AND name > ?2");
const WALK_AS_OF: &str = list_sql!(as_of, "(dir, name) > (?1, ?2) AND dir < ?5");
const LIST_PAST: &str = list_sql!(past, "dir = ?1 AND name > ?2");
const WALK_PAST: &str = list_sql!(past, "(dir, name) > (?1, ?2) AND dir < ?5");

/// Calls `each` for at most `most` names of a range that have not expired at `time`, until it returns false.
pub(crate) fn each_now(
    conn: &Connection,
    range: &NameRange<'_>,
    nodes: bool,
    (time, most): (i64, usize),
    each: &mut Each<'_>,
) -> DbResult<()> {
    // Mostly nothing is due, because entries leave `expiry` once their removal is recorded: then no name has
    // to be looked up there. Rows of nodes have the time themselves.
    let any_expired = !nodes && expiry::is_any(conn, time)?;
    let sql = match (range.to, nodes) {
        (None, false) if any_expired => LIST_NAMES,
        (None, false) => LIST_ALL,
        (None, true) => LIST_NODES,
        (Some(_), false) if any_expired => WALK_NAMES,
        (Some(_), false) => WALK_ALL,
        (Some(_), true) => WALK_NODES,
    };
    let NameRange { from, after, to, .. } = *range;
    let mut dir = Rc::from(from);
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = match to {
        None => statement.query(params![from, after, time, most])?,
        Some(to) => statement.query(params![from, after, time, most, to])?,
    };
    while let Some(row) = rows.next()? {
        if !each(page_row(row, nodes, &mut dir)?)? {
            break;
        }
    }
    Ok(())
}

/// Returns at most `limit` names of a range after commit `seq`: past names of a fork, or without one the
/// names that are still live.
pub(crate) fn at(
    conn: &Connection,
    (from, after, to): (&str, &str, Option<&str>),
    seq: u64,
    fork: Option<u64>,
    limit: usize,
) -> DbResult<Vec<PageRow>> {
    let (live, past) = match to {
        None => (LIST_AS_OF, LIST_PAST),
        Some(_) => (WALK_AS_OF, WALK_PAST),
    };
    let mut dir = Rc::from(from);
    let read = |row: &Row<'_>| page_row(row, false, &mut dir);
    match (fork, to) {
        (Some(_), to) => all(conn, past, params![from, after, seq, limit, to, fork], read),
        (None, None) => all(conn, live, params![from, after, seq, limit], read),
        (None, Some(to)) => all(conn, live, params![from, after, seq, limit, to], read),
    }
}
