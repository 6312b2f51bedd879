//! Counts what takes the space of an account, for operators. It reads in pages, each in a transaction of its
//! own: what a commit changes between two pages counts as it is then. Memory does not grow with the account.

use std::collections::BTreeMap;

use garth_engine::engine::relational::usage::{HeldSpan, NodeBytes, UsageCount};
use garth_engine::fs::store::StoredUsage;
use garth_engine::model::Within;
use garth_engine::path::TreePath;
use garth_engine::{Error, Result};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::announce::allowed;
use super::kept;
use super::limits::Limits;
use super::step::read;
use crate::client::{Param, param};
use crate::store::PgStore;
use crate::values::columns::{column, int, number};
use crate::weights::{PASSAGE, ROW, attribute_weight, log_more_weight, log_weight, name_weight};

/// Nodes of a page, and extents.
const NODES: i64 = 256;
const EXTENTS: i64 = 4096;
/// Commits of a page.
const COMMITS: u64 = 4096;

/// Next nodes after an inode: names, last version, versions and attributes.
const NODE_PAGE: &str = concat!(
    "SELECT i.ino, v.nlink > 0, n.dir, n.name, p.dir, p.name,
        (s.bytes + coalesce(octet_length(v.target), 0) + a.live)::bigint, (c.versions * 160 + a.history)::bigint
    FROM (SELECT DISTINCT ino FROM garth.node WHERE account = $1 AND ino > $2 ORDER BY ino LIMIT $3) i
    CROSS JOIN LATERAL (SELECT nlink, target, attrs_seq FROM garth.node
        WHERE account = $1 AND ino = i.ino ORDER BY seq DESC LIMIT 1) v
    CROSS JOIN LATERAL (SELECT count(*) AS versions FROM garth.node WHERE account = $1 AND ino = i.ino) c
    LEFT JOIN LATERAL (SELECT dir, name FROM garth.name
        WHERE account = $1 AND ino = i.ino ORDER BY dir, name LIMIT 1) n ON true
    LEFT JOIN LATERAL (SELECT dir, name FROM garth.name_past
        WHERE account = $1 AND ino = i.ino ORDER BY till DESC LIMIT 1) p ON true
    CROSS JOIN LATERAL (SELECT coalesce(sum(",
    name_weight!("t"),
    "), 0) AS bytes FROM garth.name t WHERE account = $1 AND ino = i.ino) s
    CROSS JOIN LATERAL (SELECT coalesce(sum(",
    attribute_weight!("t"),
    ") FILTER (WHERE seq = v.attrs_seq), 0) AS live, coalesce(sum(",
    attribute_weight!("t"),
    ") FILTER (WHERE seq <> v.attrs_seq), 0) AS history
        FROM garth.attribute t WHERE account = $1 AND ino = i.ino) a
    ORDER BY i.ino"
);
/// Extents of the nodes after `$2` up to `$3`. A chunk that several extents refer to counts in equal parts.
const LIVE: &str = "SELECT e.ino, e.off, 160 + e.len / greatest(coalesce(r.count, 1), 1)
    FROM (SELECT ino, off, len, chunk FROM garth.extent WHERE account = $1 AND ino > $2 AND ino <= $3
        AND (ino, off) > ($4, $5) ORDER BY ino, off LIMIT $6) e
    LEFT JOIN LATERAL (SELECT count FROM garth.chunk_refs WHERE account = $1 AND chunk = e.chunk OFFSET 0) r ON true
    ORDER BY e.ino, e.off";
const PAST: &str = "SELECT e.ino, e.off, 160 + e.len / greatest(coalesce(r.count, 1), 1), e.till
    FROM (SELECT ino, till, off, len, chunk FROM garth.extent_past WHERE account = $1 AND ino > $2 AND ino <= $3
        AND (ino, till, off) > ($4, $5, $6) ORDER BY ino, till, off LIMIT $7) e
    LEFT JOIN LATERAL (SELECT count FROM garth.chunk_refs WHERE account = $1 AND chunk = e.chunk OFFSET 0) r ON true
    ORDER BY e.ino, e.till, e.off";
/// Passages of the index, and bytes of uploads that arrive: their chunks have numbers of their own, from 2^62
/// on.
const SIZES: &str = "SELECT passages, (SELECT coalesce(sum(len), 0)::bigint FROM garth.chunk
        WHERE account = $1 AND id >= 4611686018427387904) FROM garth.head WHERE account = $1";
const LOG: &str = concat!(
    "SELECT ((SELECT coalesce(sum(",
    log_weight!("t"),
    "), 0) FROM garth.log t WHERE account = $1 AND seq > $2 AND seq <= $3) + (SELECT coalesce(sum(",
    log_more_weight!("t"),
    "), 0) FROM garth.log_more t WHERE account = $1 AND seq > $2 AND seq <= $3))::bigint"
);

/// Node of a page.
struct Node {
    is_named: bool,
    /// First name, or the last that it had.
    path: Option<TreePath>,
    counted: NodeBytes,
}

/// Returns what takes the space of an account, with the children of a directory as far as they are in
/// `within`.
///
/// # Errors
/// Errors of the database.
pub(crate) async fn usage(store: &PgStore, below: &TreePath, within: &Within) -> Result<StoredUsage> {
    let limits = Limits::read(store).await?;
    let span = held_span(store, &limits).await?;
    let [sizes] = read(store, [(SIZES, Vec::new())]).await?;
    let sizes = sizes.first().ok_or_else(|| Error::damaged("the head row of the account is missing"))?;
    let usage = StoredUsage {
        // All of it is in the tables.
        pages: limits.stored,
        uploads: number(sizes, 1)?,
        limit: limits.set.stored,
        index: number(sizes, 0)?.saturating_mul(PASSAGE),
        log: log(store, limits.head.seq).await?,
        ..StoredUsage::default()
    };
    let mut count = UsageCount::new(usage, below, within);
    let mut after = 0;
    loop {
        let [rows] = read(store, [(NODE_PAGE, numbers(&[int(after), NODES]))]).await?;
        let Some(last) = rows.last().map(|row| number(row, 0)).transpose()? else {
            return Ok(count.finish());
        };
        let mut nodes = BTreeMap::new();
        for row in &rows {
            nodes.insert(number(row, 0)?, node(row)?);
        }
        add_live(store, (after, last), &mut nodes).await?;
        add_past(store, (after, last), span, &mut nodes).await?;
        for node in nodes.values() {
            count.add(node.counted.of_rows(ROW, node.is_named), node.path.as_ref());
        }
        after = last;
    }
}

fn node(row: &Row) -> Result<Node> {
    let path = |at| -> Result<Option<TreePath>> {
        let pair = column::<Option<&str>>(row, at)?.zip(column::<Option<&str>>(row, at + 1)?);
        Ok(pair.map(|(dir, name)| TreePath::from_row(dir, name)))
    };
    Ok(Node {
        is_named: column(row, 1)?,
        path: path(2)?.or(path(4)?),
        counted: NodeBytes { live: number(row, 6)?, history: number(row, 7)?, held: 0 },
    })
}

/// Adds the live extents of the nodes of a page.
async fn add_live(store: &PgStore, (after, last): (u64, u64), nodes: &mut BTreeMap<u64, Node>) -> Result<()> {
    let mut at = [int(after), i64::MAX];
    loop {
        let params = numbers(&[int(after), int(last), at[0], at[1], EXTENTS]);
        let [rows] = read(store, [(LIVE, params)]).await?;
        for row in &rows {
            at = [column(row, 0)?, column(row, 1)?];
            if let Some(node) = nodes.get_mut(&number(row, 0)?) {
                node.counted.live += number(row, 2)?;
            }
        }
        if is_last(&rows) {
            return Ok(());
        }
    }
}

/// Adds the extents of the past of the nodes of a page.
async fn add_past(
    store: &PgStore,
    (after, last): (u64, u64),
    span: HeldSpan,
    nodes: &mut BTreeMap<u64, Node>,
) -> Result<()> {
    let mut at = [int(after), i64::MAX, i64::MAX];
    loop {
        let params = numbers(&[int(after), int(last), at[0], at[1], at[2], EXTENTS]);
        let [rows] = read(store, [(PAST, params)]).await?;
        for row in &rows {
            at = [column(row, 0)?, column(row, 3)?, column(row, 1)?];
            if let Some(node) = nodes.get_mut(&number(row, 0)?) {
                let bytes = number(row, 2)?;
                node.counted.history += bytes;
                node.counted.held += if span.has(number(row, 3)?) { bytes } else { 0 };
            }
        }
        if is_last(&rows) {
            return Ok(());
        }
    }
}

fn is_last(rows: &[Row]) -> bool {
    i64::try_from(rows.len()).unwrap_or(i64::MAX) < EXTENTS
}

/// Returns the bytes of the version log. Of the commits before the first readable one, those with idempotency
/// keys may be left.
async fn log(store: &PgStore, head: u64) -> Result<u64> {
    let (mut sum, mut from) = (0_u64, 0_u64);
    while from < head {
        let to = from.saturating_add(COMMITS).min(head);
        let [rows] = read(store, [(LOG, numbers(&[int(from), int(to)]))]).await?;
        sum = sum.saturating_add(rows.first().map_or(Ok(0), |row| number(row, 0))?);
        from = to;
    }
    Ok(sum)
}

/// Returns the commits that would be removed if nobody read the past.
async fn held_span(store: &PgStore, limits: &Limits) -> Result<HeldSpan> {
    let head = &limits.head;
    // A view keeps the rows of its state, also of one that others can no longer read.
    let read = kept::first_read(store).await?.map(|seq| seq.max(head.folded));
    let kept = kept::first_kept(store).await?.map(|(seq, _)| seq.max(head.oldest));
    let Some(first) = read.into_iter().chain(kept).min() else { return Ok(HeldSpan(0, 0)) };
    Ok(HeldSpan(first, allowed(store, limits, &limits.set).await?))
}

fn numbers(numbers: &[i64]) -> Vec<Param> {
    numbers.iter().map(|number| param(*number, Type::INT8)).collect()
}
