//! Tables `name` and `name_past` by node: the names that a node has, or had in a span of commits.

use rusqlite::{Connection, Params, Row, params};

pub(crate) use crate::engine::relational::reads::tree_rows::CommitSpan;
use crate::engine::relational::reads::tree_rows::EachName as Each;
use crate::engine::sqlite::tables::live_names::{below, directories, pair};
use crate::engine::sqlite::tables::{MAX, nodes};
use crate::model::{Kind, Within};
use crate::path::TreePath;
use crate::sqlite::{DbError, DbResult, all};

/// Live names of node `?1` since `?2` or earlier in a subtree: its top `?3, ?4`, in the directory `?5`, or
/// below it between `?5/` = `?6` and `?7`. The index is named because it ends with directory and name: one
/// range of it holds only the names in question, whatever others the node has.
macro_rules! names_within_sql {
    ($place:literal) => {
        concat!("SELECT dir, name FROM name INDEXED BY name_ino WHERE ino = ?1 AND since <= ?2 AND ", $place)
    };
}

/// Live names of node `?1` since `?2` or earlier in a subtree, whatever is excluded from it.
const NAMES_WITHIN_SQL: &str = concat!(
    names_within_sql!("dir = ?3 AND name = ?4"),
    " UNION ALL ",
    names_within_sql!("dir = ?5"),
    " UNION ALL ",
    names_within_sql!("dir >= ?6 AND dir < ?7")
);

/// Live names of node `?1` since `?2` or earlier, in directories from `?3` up to but excluding `?4`.
const NAMES_IN_SQL: &str = names_within_sql!("dir >= ?3 AND dir < ?4");

/// Callback for a name.
type EachName<'a> = Each<'a, DbError>;

/// Callback for a row. Returns false to stop.
type EachRow<'a> = dyn FnMut(&Row<'_>) -> DbResult<bool> + 'a;

/// Returns at most `limit` names within some subtrees that a node had in a span, in any order.
pub(crate) fn in_span(
    conn: &Connection,
    ino: u64,
    span: CommitSpan,
    within: &Within,
    limit: usize,
) -> DbResult<Vec<(String, String)>> {
    let mut names = Vec::new();
    if limit > 0 {
        each_in_span(conn, ino, span, within, &mut |name, _| {
            names.push(name);
            Ok(names.len() < limit)
        })?;
    }
    Ok(names)
}

/// Calls `each` with the names within some subtrees that a node had in a span, in any order, until it returns
/// false.
pub(crate) fn each_in_span(
    conn: &Connection,
    ino: u64,
    span: CommitSpan,
    within: &Within,
    each: &mut EachName<'_>,
) -> DbResult<()> {
    let mut live = 0;
    let mut take = |row: &Row<'_>| -> DbResult<bool> {
        let (dir, name) = pair(row)?;
        // The ranges also hold the names of the excluded entries.
        if !within.exclusions().is_empty() && !within.contains(&TreePath::from_row(&dir, &name)) {
            return Ok(true);
        }
        live += 1;
        each((dir, name), MAX)
    };
    for top in within.tops() {
        if !each_live(conn, (ino, span.to), (within, top), &mut take)? {
            return Ok(());
        }
    }
    if span.from < MAX {
        each_past(conn, (ino, span), within, live, each)?;
    }
    Ok(())
}

/// Calls `take` with the live names of a node since commit `to` or earlier at and below a top, until it
/// returns false. Returns false then.
fn each_live(
    conn: &Connection,
    (ino, to): (u64, u64),
    (within, top): (&Within, &TreePath),
    take: &mut EachRow<'_>,
) -> DbResult<bool> {
    let ino = ino.min(MAX);
    // The root is in no directory. `/` is the key of none, so its own name matches nothing.
    let (dir, name) = top.key().rsplit_once('/').unwrap_or(("/", ""));
    if within.exclusions_below(top).next().is_none() {
        let (from, end) = below(top.key());
        return each_row(conn, NAMES_WITHIN_SQL, params![ino, to, dir, name, top.key(), from, end], take);
    }
    let own = names_within_sql!("dir = ?3 AND name = ?4");
    if !each_row(conn, own, params![ino, to, dir, name], take)? {
        return Ok(false);
    }
    for (from, end) in directories(within, top) {
        if !each_row(conn, NAMES_IN_SQL, params![ino, to, from, end], take)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Calls `take` with the rows of a query until it returns false. Returns false then.
fn each_row(conn: &Connection, sql: &str, params: impl Params, take: &mut EachRow<'_>) -> DbResult<bool> {
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    while let Some(row) = rows.next()? {
        if !take(row)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Calls `each` with the names of a span that have ended, until it returns false. Of those that existed at
/// the end of the span only as many are looked for as the node had then, besides `live` others: a node that
/// was renamed often has many others.
fn each_past(
    conn: &Connection,
    (ino, span): (u64, CommitSpan),
    within: &Within,
    live: u64,
    each: &mut EachName<'_>,
) -> DbResult<()> {
    // The link count of a directory counts its subdirectories. It has one name itself.
    let mut left = match nodes::version(conn, ino, span.to)? {
        Some(node) if node.kind == Kind::Directory => node.nlink.min(1),
        Some(node) => node.nlink,
        None => 0,
    };
    left = left.saturating_sub(live);
    let sql = "SELECT dir, name, since, till FROM name_past WHERE ino = ?1 AND till > ?2 ORDER BY till";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(params![ino.min(MAX), span.from])?;
    while left > 0
        && let Some(row) = rows.next()?
    {
        let (since, till): (u64, u64) = (row.get(2)?, row.get(3)?);
        // The node got this name after the span.
        if since > span.to {
            continue;
        }
        // Only names that outlive the span count: the link count is that of its end.
        left -= u64::from(till > span.to);
        let (dir, name) = pair(row)?;
        if within.contains(&TreePath::from_row(&dir, &name)) && !each((dir, name), till.saturating_sub(1))? {
            break;
        }
    }
    Ok(())
}

/// Returns the first live name of a node.
pub(crate) fn first(conn: &Connection, ino: u64) -> DbResult<Option<(String, String)>> {
    Ok(behind(conn, ino, &Within::everything(), ("", ""), 1)?.pop())
}

/// Returns at most `limit` live names of a node within some subtrees, after a directory and name, in that
/// order.
pub(crate) fn behind(
    conn: &Connection,
    ino: u64,
    within: &Within,
    (dir, name): (&str, &str),
    limit: usize,
) -> DbResult<Vec<(String, String)>> {
    macro_rules! sql {
        ($place:literal) => {
            concat!(
                "SELECT dir, name FROM name INDEXED BY name_ino WHERE ino = ?1 AND (dir, name) > (?2, ?3)",
                $place,
                " ORDER BY dir, name LIMIT ?4"
            )
        };
    }
    let most = i64::try_from(limit).unwrap_or(i64::MAX);
    if within.is_everything() {
        return all(conn, sql!(""), params![ino, dir, name, most], pair);
    }
    let mut names = Vec::new();
    for top in within.tops() {
        // `/` is the key of no directory: the root, which has no name, matches nothing.
        let (above, own) = top.key().rsplit_once('/').unwrap_or(("/", ""));
        let own = params![ino, dir, name, most, above, own];
        names.extend(all(conn, sql!(" AND dir = ?5 AND name = ?6"), own, pair)?);
        // The ranges also hold the names of the excluded entries, which are dropped below.
        let most = most.saturating_add_unsigned(within.exclusions_below(top).count() as u64);
        for (from, to) in directories(within, top) {
            // One lower bound only: given two, SQLite may begin its range at either.
            let (dir, name) = (dir, name).max((&from, ""));
            names.extend(all(conn, sql!(" AND dir < ?5"), params![ino, dir, name, most, to], pair)?);
        }
    }
    if !within.exclusions().is_empty() {
        names.retain(|(dir, name)| within.contains(&TreePath::from_row(dir, name)));
    }
    names.sort_unstable();
    names.truncate(limit);
    Ok(names)
}
