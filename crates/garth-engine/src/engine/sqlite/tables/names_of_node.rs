//! Tables `name` and `name_past` by node: the names that a node has, or had in a span of commits.

use rusqlite::{Connection, params};

use crate::engine::sqlite::tables::live_names::{below, directories, pair};
use crate::engine::sqlite::tables::{MAX, nodes};
use crate::model::{Kind, Within};
use crate::path::TreePath;
use crate::sqlite::{DbResult, all};

/// Span of commits: the states after commit `from` up to the one after commit `to`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommitSpan {
    pub(crate) from: u64,
    pub(crate) to: u64,
}

impl CommitSpan {
    /// The newest state.
    pub(crate) const NOW: Self = Self { from: MAX, to: MAX };

    /// Returns the span of one state: after commit `seq`.
    pub(crate) fn at(seq: u64) -> Self {
        Self { from: seq.min(MAX), to: seq.min(MAX) }
    }
}

/// Live names of node `?1` since `?2` or earlier in a subtree: its top `?3, ?4`, in the directory `?5`, or
/// below it between `?5/` = `?6` and `?7`. The index is named because it ends with directory and name: one
/// range of it holds only the names in question, whatever others the node has.
macro_rules! names_within_sql {
    ($place:literal) => {
        concat!("SELECT dir, name FROM name INDEXED BY name_ino WHERE ino = ?1 AND since <= ?2 AND ", $place)
    };
}

/// Live names of node `?1` since `?2` or earlier, in directories from `?3` up to but excluding `?4`.
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
        // The root is in no directory. `/` is the key of none, so its own name matches nothing.
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
                    // The ranges also hold the names of the excluded entries, which `retain` drops: they must
                    // not use up the limit.
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

/// Adds names that have ended. Of those that existed at the end of the span only as many are looked for as
/// the node had then: a node that was renamed often has many others.
fn add_past_names(
    conn: &Connection,
    ino: u64,
    span: CommitSpan,
    within: &Within,
    limit: usize,
    names: &mut Vec<(String, String)>,
) -> DbResult<()> {
    // The link count of a directory counts its subdirectories. It has one name itself.
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
        // The node got this name after the span.
        if since > span.to {
            continue;
        }
        // Only names that outlive the span count: the link count is that of its end.
        left -= u64::from(till > span.to);
        let (dir, name) = pair(row)?;
        if within.contains(&TreePath::from_row(&dir, &name)) {
            names.push((dir, name));
        }
    }
    Ok(())
}

/// Returns all paths within some subtrees that a node had after a commit up to `seq`, each with the first and
/// the last commit of its span.
pub(crate) fn spans(
    conn: &Connection,
    ino: u64,
    within: &Within,
    seq: u64,
) -> DbResult<Vec<(TreePath, u64, u64)>> {
    // A live name lasts: its span ends with the commit that is asked for.
    let sql = "SELECT dir, name, since, ?2 FROM name WHERE ino = ?1 AND since <= ?2
         UNION ALL
         SELECT dir, name, since, min(till - 1, ?2) FROM name_past WHERE ino = ?1 AND since <= ?2";
    let mut spans = all(conn, sql, params![ino.min(MAX), seq.min(MAX)], |row| {
        let (dir, name) = pair(row)?;
        Ok((TreePath::from_row(&dir, &name), row.get(2)?, row.get(3)?))
    })?;
    spans.retain(|(path, ..)| within.contains(path));
    Ok(spans)
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
