//! Report of what collections would remove of the past and of old content. It walks over all nodes in pieces,
//! each in transactions of its own: memory does not grow with the account.

use std::collections::{BTreeMap, BTreeSet};

use garth_engine::Result;
use garth_engine::engine::relational::collectable_past::NodePast;
use garth_engine::engine::relational::content_search::{Span, is_free};
use garth_engine::fs::store::Collectable;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::content_age::{Search, contents_to_end, search_to_come};
use super::read_states;
use super::step::read;
use crate::client::param;
use crate::store::PgStore;
use crate::values::columns::{column, int, number};
use crate::values::parameters::ints;

/// Nodes of a piece.
const NODES: i64 = 64;
/// Extents that are read at a time.
const EXTENTS: usize = 4096;

const IS_ANY_MARKED: &str =
    "SELECT FROM garth.content_gone WHERE account = $1 AND marked IS NOT NULL LIMIT 1";
/// Nodes after `$2`, each with the version that took its last name. From node to node, because each may have
/// many versions.
const NEXT: &str = "WITH RECURSIVE next(ino) AS (
        SELECT min(ino) FROM garth.node WHERE account = $1 AND ino > $2
        UNION ALL
        SELECT (SELECT min(ino) FROM garth.node WHERE account = $1 AND ino > next.ino)
            FROM next WHERE next.ino IS NOT NULL)
    SELECT n.ino, (SELECT min(v.seq) FROM garth.node v WHERE v.account = $1 AND v.ino = n.ino
            AND v.seq > coalesce((SELECT o.seq FROM garth.node o
                WHERE o.account = $1 AND o.ino = n.ino AND o.nlink > 0 ORDER BY o.seq DESC LIMIT 1), -1))
    FROM (SELECT ino FROM next WHERE ino IS NOT NULL LIMIT $3) n";
const SPANS: &str = "SELECT ino, since, till FROM garth.content_gone WHERE account = $1 AND ino = ANY($2)";
const VERSIONS: &str = "SELECT (SELECT count(*) FROM garth.node
        WHERE account = $1 AND ino = k.ino AND seq <= k.last), k.stays
    FROM unnest($2::bigint[], $3::bigint[], $4::bigint[]) k(ino, last, stays)";
/// Extents of nodes, after an inode, end and offset.
const ENDED: &str = "SELECT k.ino, e.till, e.off, e.since, e.len FROM unnest($2::bigint[]) k(ino)
    CROSS JOIN LATERAL (SELECT till, off, since, len FROM garth.extent_past
        WHERE account = $1 AND ino = k.ino AND (till, off) > (CASE WHEN k.ino = $3 THEN $4 ELSE -1 END,
            CASE WHEN k.ino = $3 THEN $5 ELSE -1 END) ORDER BY till, off LIMIT $6) e
    WHERE k.ino >= $3 ORDER BY k.ino, e.till, e.off LIMIT $6";
const LIVE: &str = "SELECT k.ino, 0::bigint, e.off, e.since, e.len FROM unnest($2::bigint[]) k(ino)
    CROSS JOIN LATERAL (SELECT off, since, len FROM garth.extent
        WHERE account = $1 AND ino = k.ino AND off > CASE WHEN k.ino = $3 THEN $5 + $4 ELSE -1 END
        ORDER BY off LIMIT $6) e
    WHERE k.ino >= $3 ORDER BY k.ino, e.off LIMIT $6";

/// Adds the versions and the content that a collection would remove, with its first readable commit
/// `report.oldest`. The handle reaches the whole account.
///
/// # Errors
/// Errors of the database.
pub(crate) async fn count_past(store: &PgStore, report: &mut Collectable) -> Result<()> {
    let oldest = report.oldest;
    let search = search_to_come(store, oldest).await?;
    let [marked] = read(store, [(IS_ANY_MARKED, Vec::new())]).await?;
    if oldest == 0 && search.is_none() && marked.is_empty() {
        return Ok(());
    }
    let mut after = 0;
    loop {
        let numbers = [int(after), NODES].map(|number| param(number, Type::INT8));
        let leases = read_states::statement(store);
        let [nodes, leases] = read(store, [(NEXT, numbers.into()), leases]).await?;
        let Some(last) = nodes.last() else { return Ok(()) };
        let last = number(last, 0)?;
        let open = read_states::all(store, &leases)?;
        let pasts = node_pasts(store, (search.as_ref(), &open), &nodes, report).await?;
        count_versions(store, &pasts, report).await?;
        let all: Vec<u64> = pasts.keys().copied().collect();
        let unnamed = pasts.iter().filter(|(_, past)| past.has_no_name()).map(|(ino, _)| *ino).collect();
        for (sql, inos) in [(ENDED, all), (LIVE, unnamed)] {
            count_extents(store, sql, inos, &pasts, report).await?;
        }
        after = last;
    }
}

/// Returns the pasts of nodes, and counts the contents that a search would mark.
async fn node_pasts(
    store: &PgStore,
    (search, open): (Option<&Search>, &BTreeSet<u64>),
    nodes: &[Row],
    report: &mut Collectable,
) -> Result<BTreeMap<u64, NodePast>> {
    let inos = nodes.iter().map(|row| number(row, 0)).collect::<Result<Vec<u64>>>()?;
    let [rows] = read(store, [(SPANS, vec![ints(inos.iter().copied())])]).await?;
    let mut spans: BTreeMap<u64, Vec<Span>> = BTreeMap::new();
    for row in &rows {
        let span = Span { ino: number(row, 0)?, since: number(row, 1)?, till: number(row, 2)? };
        spans.entry(span.ino).or_default().push(span);
    }
    let found = match search {
        Some(search) => contents_to_end(store, search, &inos).await?,
        None => Vec::new(),
    };
    for (span, _) in found {
        let known = spans.entry(span.ino).or_default();
        let is_marked = known.iter().any(|one| one.since <= span.since && span.till <= one.till);
        if is_free(span, open) && !is_marked {
            report.contents += 1;
            known.push(span);
        }
    }
    let mut pasts = BTreeMap::new();
    for row in nodes {
        let (ino, unlinked) = (number(row, 0)?, column::<Option<i64>>(row, 1)?.map(i64::cast_unsigned));
        let spans = spans.remove(&ino).unwrap_or_default();
        pasts.insert(ino, NodePast::new(spans, unlinked, report.oldest));
    }
    Ok(pasts)
}

async fn count_versions(
    store: &PgStore,
    pasts: &BTreeMap<u64, NodePast>,
    report: &mut Collectable,
) -> Result<()> {
    let column = |take: fn(&NodePast) -> u64| ints(pasts.values().map(take));
    let params = vec![
        ints(pasts.keys().copied()),
        column(|past| past.counted_versions().0),
        column(|past| past.counted_versions().1),
    ];
    let [rows] = read(store, [(VERSIONS, params)]).await?;
    for row in &rows {
        report.ended_versions += number(row, 0)?.saturating_sub(number(row, 1)?);
    }
    Ok(())
}

/// Counts the extents of nodes, which a statement returns some at a time.
async fn count_extents(
    store: &PgStore,
    sql: &'static str,
    inos: Vec<u64>,
    pasts: &BTreeMap<u64, NodePast>,
    report: &mut Collectable,
) -> Result<()> {
    // No node has inode 0.
    let mut after = [0_i64; 3];
    while !inos.is_empty() {
        let mut params = vec![ints(inos.iter().copied())];
        params.extend(after.map(|number| param(number, Type::INT8)));
        params.push(param(int(EXTENTS as u64), Type::INT8));
        let [rows] = read(store, [(sql, params)]).await?;
        for row in &rows {
            if let Some(past) = pasts.get(&number(row, 0)?) {
                past.count_extent((number(row, 3)?, number(row, 1)?, number(row, 4)?), report);
            }
        }
        match rows.last().filter(|_| rows.len() >= EXTENTS) {
            Some(last) => after = [column(last, 0)?, column(last, 1)?, column(last, 2)?],
            None => break,
        }
    }
    Ok(())
}
