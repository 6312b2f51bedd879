//! Subtrees that a batch moved or removed, as ranges of directories: two statements, however many names and
//! directories there are.

use garth_engine::engine::planner::{Delta, HeadRow, Leaving};
use tokio_postgres::types::Type;

use super::name_writes::born;
use super::spans::{Dirs, bound, dirs};
use super::target::Target;
use crate::client::param;
use crate::values::columns::int;
use crate::values::parameters::{ints, list, texts};
use crate::weights::{name_weight, node_weight};

/// Takes the names of removed subtrees from their nodes, except from those that the batch changed in other
/// ways, whose rows have the new counts. A node that keeps a name after the first operation that took some
/// has changed; one that loses the last ends as it was. A directory loses its only name, and its newest times
/// go on in the row that ends it. What belongs to the names of a node goes with the last one, derived rows by
/// statements of their own.
const LOSE: &str = concat!(
    "WITH lost AS (
        SELECT n.ino, k.operation, count(*) AS names
        FROM unnest($2::text[], $3::text[], $4::bigint[]) k(first, last, operation)
        CROSS JOIN LATERAL (SELECT dir, name, ino FROM garth.name
            WHERE account = $1 AND dir >= k.first AND dir < k.last OFFSET 0) n
        WHERE NOT EXISTS (SELECT FROM unnest($5::text[], $6::text[]) x(dir, name)
                WHERE x.dir = n.dir AND x.name = n.name)
            AND NOT EXISTS (SELECT FROM unnest($7::bigint[]) x(ino) WHERE x.ino = n.ino)
        GROUP BY n.ino, k.operation),
    losses AS (
        SELECT DISTINCT ON (ino) ino, names AS at_first, (sum(names) OVER (PARTITION BY ino))::bigint AS names
        FROM lost ORDER BY ino, operation),
    ended AS MATERIALIZED (
        SELECT v.*, CASE WHEN v.kind = 1 THEN 0 ELSE greatest(v.nlink - l.names, 0) END AS links,
            v.kind <> 1 AND v.nlink > l.at_first AS is_changed, t.seq AS time_seq, t.time
        FROM losses l
        CROSS JOIN LATERAL (SELECT * FROM garth.node
            WHERE account = $1 AND ino = l.ino ORDER BY seq DESC LIMIT 1) v
        LEFT JOIN LATERAL (SELECT seq, time FROM garth.dir_time
            WHERE account = $1 AND ino = v.ino AND v.kind = 1 OFFSET 0) t ON true),
    versions AS (INSERT INTO garth.node (account, ino, seq, kind, mode, uid, gid, rdev, nlink, size, mtime, ctime,
            birthtime, atime, target, attrs_seq, expires_at, content_seq)
        SELECT $1, ino, $8, kind, mode, uid, gid, rdev, links, size, coalesce(time, mtime),
            CASE WHEN is_changed THEN $9 ELSE coalesce(time, ctime) END, birthtime, atime, target, attrs_seq,
            expires_at, coalesce(time_seq, content_seq) FROM ended),
    times AS (INSERT INTO garth.dir_time_past (account, fork, ino, since, till, time)
        SELECT $1, garth.fork(time_seq, $8), ino, time_seq, $8, time FROM ended
        WHERE time_seq IS NOT NULL AND $8 > 1),
    no_times AS (DELETE FROM garth.dir_time
        WHERE account = $1 AND ino = ANY(ARRAY(SELECT ino FROM ended WHERE time_seq IS NOT NULL))),
    replaced AS (INSERT INTO garth.replaced (account, seq, ino) SELECT $1, $8, ino FROM ended ON CONFLICT DO NOTHING),
    no_expiry AS (DELETE FROM garth.expiry
        WHERE account = $1 AND ino = ANY(ARRAY(SELECT ino FROM ended WHERE links = 0 AND expires_at IS NOT NULL))),
    not_judged AS (DELETE FROM garth.judged
        WHERE account = $1 AND ino = ANY(ARRAY(SELECT ino FROM ended WHERE links = 0 AND kind = 0)))
    UPDATE garth.head SET stored = stored + (SELECT coalesce(sum(",
    node_weight!("ended"),
    "), 0)::bigint FROM ended) WHERE account = $1"
);
/// Ends all names of moved and removed subtrees where they are, and gives those of moved ones at their new
/// places, apart from places that the batch also wrote by name. Counts the bytes of those that arrive: the
/// others go on in the past. A place may be that of a name which leaves in
/// the same statement, as where two directories are exchanged: the condition on `gone` makes all names leave
/// before the first one arrives.
const LEAVE: &str = concat!(
    "WITH leaving AS MATERIALIZED (
        SELECT n.*, k.top || substr(n.dir, k.skip) AS moved
        FROM unnest($2::text[], $3::text[], $4::text[], $5::int[]) k(first, last, top, skip)
        CROSS JOIN LATERAL (SELECT ctid AS place, dir, name, ino, since, kind FROM garth.name
            WHERE account = $1 AND dir >= k.first AND dir < k.last OFFSET 0) n),
    gone AS (DELETE FROM garth.name WHERE account = $1 AND ctid = ANY(ARRAY(SELECT place FROM leaving)) RETURNING 1),
    past AS (INSERT INTO garth.name_past (account, dir, name, till, ino, since, kind, fork, born, born_fork)
        SELECT $1, k.dir, k.name, $8, k.ino, k.since, k.kind, garth.fork(k.since, $8), b.born,
            garth.fork(b.born, $8) FROM leaving k ",
    born!(""),
    "),
    arrived AS (INSERT INTO garth.name AS t (account, dir, name, ino, since, kind)
        SELECT $1, l.moved, l.name, l.ino, $8, l.kind FROM leaving l
        WHERE l.moved IS NOT NULL AND (SELECT count(*) FROM gone) > 0
            AND NOT EXISTS (SELECT FROM unnest($6::text[], $7::text[]) w(dir, name)
                WHERE w.dir = l.moved AND w.name = l.name)
        RETURNING ",
    name_weight!("t"),
    " AS bytes)
    UPDATE garth.head SET stored = stored + (SELECT coalesce(sum(bytes), 0)::bigint FROM arrived) WHERE account = $1"
);

/// Adds the statements that write the ranges of a batch. The rows of the batches before it must be written,
/// and its single rows are written afterwards. `head` is the head row after it.
pub(super) fn send(to: &mut Target<'_, '_>, delta: &Delta, head: &HeadRow) {
    // While all names are still where they were.
    lose(to, delta, head);
    leave(to, delta, head);
}

fn lose(to: &mut Target<'_, '_>, delta: &Delta, head: &HeadRow) {
    let removed = delta.subtrees.removals();
    let ranges: Vec<(usize, Dirs)> = removed
        .flat_map(|(operation, region)| dirs(region.ranges()).map(move |range| (operation, range)))
        .collect();
    let kept = || delta.subtrees.lost().iter().flat_map(|region| &region.names);
    to.put(LOSE, ranges.is_empty(), || {
        vec![
            texts(ranges.iter().map(|(_, range)| range.0.clone())),
            texts(ranges.iter().map(|(_, range)| range.1.clone())),
            ints(ranges.iter().map(|(operation, _)| *operation as u64)),
            texts(kept().map(|(dir, _)| dir.clone())),
            texts(kept().map(|(_, name)| name.clone())),
            ints(delta.nodes.keys().copied()),
            param(int(head.seq), Type::INT8),
            param(head.time, Type::INT8),
        ]
    });
}

fn leave(to: &mut Target<'_, '_>, delta: &Delta, head: &HeadRow) {
    let leaving = delta.subtrees.leaving();
    // Characters and not bytes, as the database counts them, from 1.
    let skip = |part: &Leaving| part.moved.as_ref().map(|(from, _)| from.chars().count() as i32 + 1);
    to.put(LEAVE, leaving.is_empty(), || {
        vec![
            texts(leaving.iter().map(|part| bound(part.range.0.clone()))),
            texts(leaving.iter().map(|part| bound(part.range.1.clone()))),
            list(leaving.iter().map(|part| part.moved.as_ref().map(|(_, to)| to.clone())), Type::TEXT_ARRAY),
            list(leaving.iter().map(skip), Type::INT4_ARRAY),
            texts(delta.names.keys().map(|(dir, _)| dir.clone())),
            texts(delta.names.keys().map(|(_, name)| name.clone())),
            param(int(head.seq), Type::INT8),
        ]
    });
}
