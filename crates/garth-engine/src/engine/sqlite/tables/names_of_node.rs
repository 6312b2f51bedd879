//! Tables `name` and `name_past` by node: which names a node has, or had in a span of commits.

use rusqlite::{Connection, params};

use crate::engine::sqlite::tables::live_names::{below, directories, pair};
use crate::engine::sqlite::tables::{MAX, nodes};
use crate::model::{Kind, Within};
use crate::path::TreePath;
use crate::sqlite::{DbResult, all};

/// Time at which a node had a name: from after commit `from` to after commit `to`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommitSpan {
    pub(crate) from: u64,
    pub(crate) to: u64,
}

impl CommitSpan {
    /// The newest state.
    pub(crate) const NOW: Self = Self { from: MAX, to: MAX };

    /// After one commit.
    pub(crate) fn at(seq: u64) -> Self {
        Self { from: seq.min(MAX), to: seq.min(MAX) }
    }
}

/// Live names of node `?1` since before `?2` in a subtree: its top `?3, ?4`, in the directory `?5`, or below
/// it between `?5/` = `?6` and `?7`. The index is given since it ends with directory and name: one range of
/// it holds just the names looked for, whatever others the node has.
macro_rules! names_within_sql {
    ($place:literal) => {
        concat!("SELECT dir, name FROM name INDEXED BY name_ino WHERE ino = ?1 AND since <= ?2 AND ", $place)
    };
}

/// Live names of a node since before `?2` in directories from `?3` up to but without `?4`.
const NAMES_IN_SQL: &str = names_within_sql!("dir >= ?3 AND dir < ?4 LIMIT ?5");

/// Returns at most `limit` names within some subtrees that a node had in a span, in any order.
pub(crate) fn in_span(
    conn: &Connection,
    ino: u64,
    span: CommitSpan,
    within: &Within,
    limit: usize,
) -> DbResult<Vec<(String, String)>> {
    const SQL: &str = concat!(
        names_within_sql!("dir = ?3 AND name = ?4"),
        " UNION ALL ",
        names_within_sql!("dir = ?5"),
        " UNION ALL ",
        names_within_sql!("dir >= ?6 AND dir < ?7"),
        " LIMIT ?8"
    );
    let mut names = Vec::new();
    for top in within.tops() {
        let (from, to) = below(top.key());
        // the root is in no directory
        let (dir, name) = top.key().rsplit_once('/').unwrap_or(("/", ""));
        let left = i64::try_from(limit - names.len()).unwrap_or(i64::MAX);
        match within.exclusions_below(top).count() {
            0 => names.extend(all(
                conn,
                SQL,
                params![ino.min(MAX), span.to, dir, name, top.key(), from, to, left],
                pair,
            )?),
            left_out => {
                let own = params![ino.min(MAX), span.to, dir, name];
                names.extend(all(conn, names_within_sql!("dir = ?3 AND name = ?4"), own, pair)?);
                for (from, to) in directories(within, top) {
                    // the names themselves of what is left out are among them
                    let most = left.saturating_add_unsigned(left_out as u64);
                    let found = params![ino.min(MAX), span.to, from, to, most];
                    names.extend(all(conn, NAMES_IN_SQL, found, pair)?);
                    names.retain(|(dir, name)| within.contains(&TreePath::from_row(dir, name)));
                    if names.len() >= limit {
                        break;
                    }
                }
            }
        }
        names.truncate(limit);
        if names.len() == limit {
            return Ok(names);
        }
    }
    if span.from < MAX {
        add_past_names(conn, ino, span, within, limit, &mut names)?;
    }
    Ok(names)
}

/// Adds names that have ended. Of those that were there at the end of the span only as many are looked for as
/// the node had then: one that was renamed often has many others.
fn add_past_names(
    conn: &Connection,
    ino: u64,
    span: CommitSpan,
    within: &Within,
    limit: usize,
    names: &mut Vec<(String, String)>,
) -> DbResult<()> {
    let mut left = match nodes::version(conn, ino, span.to)? {
        Some(node) if node.kind == Kind::Directory => node.nlink.min(1),
        Some(node) => node.nlink,
        None => 0,
    };
    left = left.saturating_sub(names.len() as u64);
    let sql = "SELECT dir, name, since, till FROM name_past WHERE ino = ?1 AND till > ?2 ORDER BY till";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(params![ino.min(MAX), span.from])?;
    while left > 0
        && names.len() < limit
        && let Some(row) = rows.next()?
    {
        let (since, till): (u64, u64) = (row.get(2)?, row.get(3)?);
        if since > span.to {
            continue;
        }
        left -= u64::from(till > span.to);
        let (dir, name) = pair(row)?;
        if within.contains(&TreePath::from_row(&dir, &name)) {
            names.push((dir, name));
        }
    }
    Ok(())
}

/// Returns the first live name of a node.
pub(crate) fn first(conn: &Connection, ino: u64) -> DbResult<Option<(String, String)>> {
    Ok(behind(conn, ino, &Within::everything(), ("", ""), 1)?.pop())
}

/// Returns at most `limit` live names of a node within some subtrees, behind a directory and name, in that
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
        // the root, which is in no directory, would be everything
        let (above, own) = top.key().rsplit_once('/').unwrap_or(("/", ""));
        let own = params![ino, dir, name, most, above, own];
        names.extend(all(conn, sql!(" AND dir = ?5 AND name = ?6"), own, pair)?);
        // the names themselves of what is left out are among those of the ranges
        let most = most.saturating_add_unsigned(within.exclusions_below(top).count() as u64);
        for (from, to) in directories(within, top) {
            // one lower bound: of two the database seeks to either
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
