//! Nodes with ended versions: those that commits of the log name, those in the queue, or all, some at a
//! time.

use std::collections::BTreeSet;

use garth_engine::Result;
use garth_engine::engine::relational::fold_pass::changed_nodes;
use tokio_postgres::types::Type;

use super::step::Run;
use crate::client::param;
use crate::values::columns::{column, int, number};

/// Most commits read at a time, and about the most pieces of their changes.
const COMMITS: i64 = 256;

/// Changes of the commits after `$2` up to `$3`, until these take `$4` pieces; of one commit at least.
const CHANGES: &str = "WITH page AS MATERIALIZED (
        SELECT l.seq, l.changes, sum(1 + m.more) OVER (ORDER BY l.seq) - 1 - m.more AS before
        FROM (SELECT seq, changes FROM garth.log WHERE account = $1 AND seq > $2 AND seq <= $3
            ORDER BY seq LIMIT $4) l
        CROSS JOIN LATERAL (SELECT count(*) AS more FROM garth.log_more
            WHERE account = $1 AND seq = l.seq OFFSET 0) m)
    SELECT seq, changes FROM page WHERE before < $4
    UNION ALL
    SELECT p.seq, m.changes FROM page p
    CROSS JOIN LATERAL (SELECT changes FROM garth.log_more WHERE account = $1 AND seq = p.seq OFFSET 0) m
    WHERE p.before < $4";

/// Nodes in the queue of those that the log does not name, by commit.
const REPLACED: &str = "SELECT seq, ino FROM garth.replaced
    WHERE account = $1 AND (seq, ino) > ($2, $3) AND seq <= $4 ORDER BY seq, ino LIMIT $5";
/// Nodes of the queue read at a time.
const QUEUED: i64 = 4096;

/// Inodes searched at a time.
const INODES: i64 = 4096;
/// Nodes with several versions or without a name, of the next `$3` inodes after `$2`, and the last inode.
const WITH_PAST: &str = "SELECT f.ino + $3, ARRAY(SELECT v.ino FROM garth.node v
        WHERE v.account = $1 AND v.ino >= f.ino AND v.ino <= f.ino + $3
        GROUP BY v.ino HAVING count(*) > 1 OR min(v.nlink) = 0)
    FROM (SELECT min(ino) AS ino FROM garth.node WHERE account = $1 AND ino > $2) f WHERE f.ino IS NOT NULL";

/// Nodes of some commits, or of some inodes.
pub(super) struct Logged {
    /// Nodes of which a version may have ended.
    pub(super) nodes: BTreeSet<u64>,
    /// Last of the commits, or inodes.
    pub(super) last: u64,
}

impl Logged {
    /// Returns the nodes of no commits, up to one.
    pub(super) fn none(last: u64) -> Self {
        Self { nodes: BTreeSet::new(), last }
    }
}

/// Reads the nodes of which the next commits after `after` up to `last` ended a version, as far as the log
/// names them. Returns `None` if there are no commits.
///
/// # Errors
/// Errors of the database.
pub(super) async fn read(run: &Run<'_>, after: u64, last: u64) -> Result<Option<Logged>> {
    if after >= last {
        return Ok(None);
    }
    let numbers = [int(after), int(last), COMMITS].map(|number| param(number, Type::INT8));
    let [rows] = run.read([(CHANGES, numbers.into())]).await?;
    let (mut pieces, mut reached) = (Vec::with_capacity(rows.len()), None);
    for row in &rows {
        reached = reached.max(Some(number(row, 0)?));
        pieces.push(column::<&str>(row, 1)?);
    }
    Ok(reached.map(|last| Logged { nodes: changed_nodes(pieces), last }))
}

/// Reads the nodes of which the commits after `after` up to `last` ended a version, and which the log does
/// not name.
///
/// # Errors
/// Errors of the database.
pub(super) async fn replaced(run: &Run<'_>, after: u64, last: u64) -> Result<BTreeSet<u64>> {
    let (mut nodes, mut place) = (BTreeSet::new(), (int(after), i64::MAX));
    loop {
        let numbers = [place.0, place.1, int(last), QUEUED].map(|number| param(number, Type::INT8));
        let [rows] = run.read([(REPLACED, numbers.into())]).await?;
        let Some(end) = rows.last() else { return Ok(nodes) };
        place = (column(end, 0)?, column(end, 1)?);
        for row in &rows {
            nodes.insert(number(row, 1)?);
        }
    }
}

/// Reads the nodes with a past after an inode, whatever names them. Returns `None` if there are no nodes.
///
/// # Errors
/// Errors of the database.
pub(super) async fn with_past(run: &Run<'_>, after: u64) -> Result<Option<Logged>> {
    let numbers = [int(after), INODES].map(|number| param(number, Type::INT8));
    let [rows] = run.read([(WITH_PAST, numbers.into())]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let nodes = column::<Vec<i64>>(row, 1)?.into_iter().map(i64::cast_unsigned).collect();
    Ok(Some(Logged { nodes, last: number(row, 0)? }))
}
