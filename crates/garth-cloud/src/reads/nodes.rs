//! Versions of nodes, and their attributes.

use std::collections::HashMap;

use garth_engine::Result;
use garth_engine::engine::planner::NodeRow;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::fetched::{FetchedRows, Nodes};
use super::log::put_commit;
use super::round::Round;
use super::statements::{ATTRIBUTES, forks, version_at, version_columns};
use crate::client::param;
use crate::values::columns::{column, newest_node, place};
use crate::values::parameters::ints;

/// Versions of a node that are fetched at a time.
const RUN: i64 = 128;
/// Bytes of attributes that a statement returns. A page of entries is full before it has 64 MiB of them.
const MOST: i64 = 64 << 20;

const VERSIONS: &str = concat!(
    "SELECT k.n, ",
    version_columns!(),
    " FROM unnest($2::bigint[], $3::bigint[]) WITH ORDINALITY k(ino, seq, n)
    CROSS JOIN LATERAL (SELECT k.ino) e",
    version_at!()
);
/// Versions of nodes from one on back in time, each with its commit. A version of a directory that differs
/// only in its times has a row of its own in `dir_time`, or, once it has ended, in `dir_time_past`.
const RUNS: &str = concat!(
    "SELECT k.n, k.i, ",
    version_columns!(),
    ", l.seq, l.time, uuid_send(l.id), l.author, l.message, l.overrides, o.key
    FROM (SELECT b.n, b.ino, r.seq, r.i FROM unnest($2::bigint[], $3::bigint[]) WITH ORDINALITY b(ino, seq, n)
        CROSS JOIN LATERAL (
            WITH RECURSIVE r(seq, i) AS (
                SELECT b.seq + 1, 0
                UNION ALL
                SELECT s.seq, r.i + 1 FROM r CROSS JOIN LATERAL (SELECT r.seq - 1 AS seq) k
                CROSS JOIN LATERAL (SELECT greatest(
                    (SELECT max(c.seq) FROM garth.node c
                        WHERE c.account = $1 AND c.ino = b.ino AND c.seq <= k.seq),
                    (SELECT c.seq FROM garth.dir_time c
                        WHERE c.account = $1 AND c.ino = b.ino AND c.seq <= k.seq),
                    (SELECT max(p.since) FROM (SELECT 1) one",
    forks!(),
    " CROSS JOIN LATERAL (SELECT since FROM garth.dir_time_past
                            WHERE account = $1 AND fork = f.fork AND ino = b.ino AND since <= k.seq
                                AND till > k.seq OFFSET 0) p)) AS seq OFFSET 0) s
                WHERE s.seq IS NOT NULL AND r.i < $4)
            SELECT seq, i FROM r WHERE i > 0) r) k
    CROSS JOIN LATERAL (SELECT k.ino) e",
    version_at!(),
    " LEFT JOIN LATERAL (SELECT seq, time, id, author, message, overrides, owner FROM garth.log
        WHERE account = $1 AND seq = k.seq OFFSET 0) l ON true
    LEFT JOIN LATERAL (SELECT key FROM garth.owner WHERE account = $1 AND id = l.owner OFFSET 0) o ON true
    ORDER BY k.n, k.i"
);
/// Commits of the versions after those of commits `k.since`. `k.seq` is the same commit, or 1 for the empty
/// tree.
const NEXT: &str = concat!(
    "SELECT k.n, coalesce(
        (SELECT p.till FROM (SELECT 1) one",
    forks!(),
    " CROSS JOIN LATERAL (SELECT since, till FROM garth.dir_time_past
            WHERE account = $1 AND fork = f.fork AND ino = k.ino AND since <= k.seq AND till > k.seq OFFSET 0) p
            WHERE p.since = k.since LIMIT 1),
        (SELECT min(v.seq) FROM garth.node v WHERE v.account = $1 AND v.ino = k.ino AND v.seq > k.since))
    FROM unnest($2::bigint[], $3::bigint[], $4::bigint[]) WITH ORDINALITY k(ino, since, seq, n)"
);
const LAST_UNLINKS: &str = "SELECT k.n, u.seq FROM unnest($2::bigint[]) WITH ORDINALITY k(ino, n)
    CROSS JOIN LATERAL (SELECT min(seq) AS seq FROM garth.node
        WHERE account = $1 AND ino = k.ino AND seq > (SELECT coalesce(max(seq), -1) FROM garth.node
            WHERE account = $1 AND ino = k.ino AND nlink > 0)) u";
/// Attributes in the order in which they were asked for, up to a number of bytes.
const ATTRIBUTES_OF: &str = "SELECT x.n, a.json FROM (
        SELECT k.n, k.ino, k.seq, sum(coalesce(s.bytes, 0)) OVER (ORDER BY k.n) - coalesce(s.bytes, 0) AS before
        FROM unnest($2::bigint[], $3::bigint[]) WITH ORDINALITY k(ino, seq, n)
        LEFT JOIN LATERAL (SELECT octet_length(json) AS bytes FROM garth.attribute
            WHERE account = $1 AND ino = k.ino AND seq = k.seq OFFSET 0) s ON true) x
    LEFT JOIN LATERAL (SELECT json FROM garth.attribute
        WHERE account = $1 AND ino = x.ino AND seq = x.seq OFFSET 0) a ON true
    WHERE x.before < $4";

/// Adds the statements that fetch what is wanted.
pub(super) fn send(nodes: &Nodes, round: &mut Round<'_>) {
    send_versions(round, nodes.versions.single.take_wanted());
    send_runs(round, nodes.versions.runs.take_wanted());
    send_next(round, nodes.next.take_wanted());
    send_last_unlinks(round, nodes.last_unlink.take_wanted());
    send_attributes(round, nodes.attributes.take_wanted());
}

/// Reads the version of a node after a commit, whose columns begin at `at`, and keeps it.
pub(super) fn put_version(
    fetched: &FetchedRows,
    row: &Row,
    at: usize,
    (ino, seq): (u64, u64),
) -> Result<Option<NodeRow>> {
    let node = newest_node(row, at)?.map(|node| node.row);
    if let Some(node) = &node
        && node.attrs_seq > 0
        && let Some(json) = column::<Option<String>>(row, at + ATTRIBUTES)?
    {
        fetched.nodes.attributes.put((node.ino, node.attrs_seq), Some(json));
    }
    fetched.nodes.versions.put(ino, seq, node.clone());
    Ok(node)
}

fn send_versions(round: &mut Round<'_>, keys: Vec<(u64, u64)>) {
    if keys.is_empty() {
        return;
    }
    let params = vec![ints(keys.iter().map(|key| key.0)), ints(keys.iter().map(|key| key.1))];
    round.query(VERSIONS, params, move |fetched, rows| {
        for row in rows {
            let Some(key) = keys.get(place(row, 0)?) else { continue };
            put_version(fetched, row, 1, *key)?;
        }
        keys.into_iter().for_each(|key| fetched.nodes.versions.single.put(key, ()));
        Ok(())
    });
}

fn send_runs(round: &mut Round<'_>, keys: Vec<(u64, u64)>) {
    if keys.is_empty() {
        return;
    }
    let params =
        vec![ints(keys.iter().map(|key| key.0)), ints(keys.iter().map(|key| key.1)), param(RUN, Type::INT8)];
    round.query(RUNS, params, move |fetched, rows| {
        // Commit up to which the next version is known to be shown, and the number of versions so far.
        let mut until: HashMap<usize, (u64, i64)> = HashMap::new();
        for row in rows {
            let at = place(row, 0)?;
            let Some((ino, seq)) = keys.get(at) else { continue };
            let (until, count) = until.entry(at).or_insert((*seq, 0));
            *count += 1;
            let Some(node) = put_version(fetched, row, 2, (*ino, *until))? else { continue };
            *until = node.seq.saturating_sub(1);
            put_commit(fetched, row, 2 + ATTRIBUTES + 1)?;
        }
        for (at, key) in keys.into_iter().enumerate() {
            let (until, count) = until.remove(&at).unwrap_or((key.1, 0));
            // The first version was reached, and there is none before it.
            if count < RUN {
                fetched.nodes.versions.put(key.0, until, None);
            }
            fetched.nodes.versions.runs.put(key, ());
        }
        Ok(())
    });
}

fn send_next(round: &mut Round<'_>, keys: Vec<(u64, u64)>) {
    if keys.is_empty() {
        return;
    }
    let params = vec![
        ints(keys.iter().map(|key| key.0)),
        ints(keys.iter().map(|key| key.1)),
        ints(keys.iter().map(|key| key.1.max(1))),
    ];
    round.query(NEXT, params, move |fetched, rows| {
        for row in rows {
            let Some(key) = keys.get(place(row, 0)?) else { continue };
            let next = column::<Option<i64>>(row, 1)?.map(i64::cast_unsigned);
            fetched.nodes.next.put(*key, next);
        }
        Ok(())
    });
}

fn send_last_unlinks(round: &mut Round<'_>, keys: Vec<u64>) {
    if keys.is_empty() {
        return;
    }
    round.query(LAST_UNLINKS, vec![ints(keys.iter().copied())], move |fetched, rows| {
        for row in rows {
            let Some(ino) = keys.get(place(row, 0)?) else { continue };
            let seq = column::<Option<i64>>(row, 1)?.map(i64::cast_unsigned);
            fetched.nodes.last_unlink.put(*ino, seq);
        }
        Ok(())
    });
}

fn send_attributes(round: &mut Round<'_>, keys: Vec<(u64, u64)>) {
    if keys.is_empty() {
        return;
    }
    let params =
        vec![ints(keys.iter().map(|key| key.0)), ints(keys.iter().map(|key| key.1)), param(MOST, Type::INT8)];
    // Those beyond the limit stay unknown, and are asked for again if they are needed.
    round.query(ATTRIBUTES_OF, params, move |fetched, rows| {
        for row in rows {
            let Some(key) = keys.get(place(row, 0)?) else { continue };
            fetched.nodes.attributes.put(*key, column(row, 1)?);
        }
        Ok(())
    });
}
