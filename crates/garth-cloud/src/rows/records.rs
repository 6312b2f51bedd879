//! Statements for records by which commits are found again, staged bodies, quotas, and what is known of
//! files.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use garth_engine::engine::planner::{IdempotencyRow, JudgedRow, RowKey, RowValue, Staged, StagedRow, Tally};
use garth_engine::engine::relational::answer_column;
use garth_engine::model::quota::{Limits, Quota, Usage};
use garth_engine::model::{Commit, CommitId, Seq, Timestamp, Within};
use garth_engine::path::TreePath;
use garth_engine::rule::quota::Quotas;
use garth_engine::rule::{Digest, Place};
use garth_engine::{Error, Result};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::present::{inos, most};
use super::round::{Round, by_place, one_by_place};
use super::spans::{Dirs, Keyed, Names, dirs, names_within};
use crate::client::param;
use crate::values::columns::{column, int, number};
use crate::values::labels;
use crate::values::parameters::{ints, list, texts};
use crate::values::sums::is_sound;

/// Number of the owner whose hash is `k.owner`, as `o.id`. That of the account itself is 0.
macro_rules! owner {
    () => {
        "CROSS JOIN LATERAL (SELECT 0::bigint AS id WHERE octet_length(k.owner) = 0
            UNION ALL SELECT id FROM garth.owner WHERE account = $1 AND hash = k.owner) o"
    };
}

const IDEMPOTENCY: &str = concat!(
    "SELECT k.n, i.hash, i.keep_until, i.note, l.seq, l.time, l.answer
    FROM unnest($2::bytea[], $3::bytea[]) WITH ORDINALITY k(owner, key, n) ",
    owner!(),
    " CROSS JOIN LATERAL (SELECT hash, keep_until, note, seq FROM garth.idempotency
        WHERE account = $1 AND owner = o.id AND key = k.key OFFSET 0) i
    LEFT JOIN LATERAL (SELECT seq, time, answer FROM garth.log WHERE account = $1 AND seq = i.seq OFFSET 0) l ON true"
);
/// Commits with ids, unless they are before the oldest readable state: how long their rows stay then is open.
const COMMITTED: &str = concat!(
    "SELECT k.n, l.seq, l.time, l.answer
    FROM unnest($2::bytea[], $3::text[]) WITH ORDINALITY k(owner, id, n) ",
    owner!(),
    " CROSS JOIN LATERAL (SELECT seq, time, answer FROM garth.log
        WHERE account = $1 AND owner = o.id AND id = k.id::uuid
            AND seq >= (SELECT oldest FROM garth.head WHERE account = $1) OFFSET 0) l"
);
const SNAPSHOTS: &str = concat!(
    "SELECT k.n FROM unnest($2::bytea[], $3::bytea[]) WITH ORDINALITY k(owner, name, n) ",
    owner!(),
    " CROSS JOIN LATERAL (SELECT FROM garth.snapshot
        WHERE account = $1 AND owner = o.id AND name = k.name OFFSET 0) s"
);
const STAGED: &str = "SELECT k.n, s.pieces, o.key FROM unnest($2::text[]) WITH ORDINALITY k(id, n)
    CROSS JOIN LATERAL (SELECT owner, pieces FROM garth.staged
        WHERE account = $1 AND id = k.id::uuid AND pieces IS NOT NULL AND lease > garth.now() OFFSET 0) s
    LEFT JOIN LATERAL (SELECT key FROM garth.owner WHERE account = $1 AND id = s.owner OFFSET 0) o ON true";
const JUDGED: &str = "SELECT k.n, j.etag, j.until, j.lines
    FROM unnest($2::bigint[], $3::bytea[]) WITH ORDINALITY k(ino, demand, n)
    CROSS JOIN LATERAL (SELECT etag, until, lines FROM garth.judged
        WHERE account = $1 AND demand = k.demand AND ino = k.ino OFFSET 0) j";
const CHUNKS: &str = "SELECT id, sum, data FROM garth.chunk WHERE account = $1 AND id = ANY($2)";
/// All quotas, in the columns that [`quotas_of`] reads.
pub(crate) const QUOTAS: &str =
    "SELECT path, max_bytes, max_entries, bytes, entries FROM garth.quota WHERE account = $1";
/// Sums over ranges of directories. The bytes of a file with several names count once below each path: the
/// planner looks at all of its names.
const TALLIES: &str = "SELECT k.n, t.names, t.bytes, t.shared
    FROM unnest($2::bigint[], $3::text[], $4::text[]) k(n, first, last)
    CROSS JOIN LATERAL (SELECT count(*) AS names,
            coalesce(sum(v.size) FILTER (WHERE v.nlink = 1), 0)::text AS bytes,
            array_agg(v.ino) FILTER (WHERE v.nlink <> 1) AS shared
        FROM (SELECT ino, kind FROM garth.name
            WHERE account = $1 AND dir >= k.first AND dir < k.last OFFSET 0) e
        LEFT JOIN LATERAL (SELECT ino, nlink, size FROM garth.node
            WHERE account = $1 AND ino = e.ino AND e.kind = 0 ORDER BY seq DESC LIMIT 1) v ON true) t";
/// Expired nodes with a name in one of some ranges, in order of their expiry.
const DUE: &str = "SELECT x.at, x.ino FROM garth.expiry x
    WHERE x.account = $1 AND x.at <= $2 AND (x.at, x.ino) > ($3, $4)
        AND EXISTS (SELECT FROM unnest($5::text[], $6::text[], $7::text[], $8::text[])
                k(first_dir, first, last_dir, last)
            CROSS JOIN LATERAL (SELECT FROM garth.name WHERE account = $1 AND ino = x.ino
                AND (dir, name) >= (k.first_dir, k.first) AND (dir, name) < (k.last_dir, k.last) LIMIT 1) e)
    ORDER BY x.at, x.ino LIMIT $9";

/// Returns a commit as its caller got it. `at` is the place of its number, before its time and outcomes.
fn answered(row: &Row, at: usize) -> Result<Commit> {
    let (seq, time) = (number(row, at)?, column(row, at + 1)?);
    let unsized_outcome = |_, _| Err(Error::damaged("the answer of a commit lacks the size of a file"));
    let answer: Option<&str> = column(row, at + 2)?;
    let outcomes =
        answer.map_or(Ok(Vec::new()), |json| answer_column::from_json(json, seq, unsized_outcome))?;
    let mut commit = Commit::of_log(Seq(seq), Timestamp(time), outcomes);
    // Only durable commits are read by other transactions.
    commit.durable = true;
    Ok(commit)
}

/// Fetches the records of idempotency keys.
pub(super) fn idempotency(round: &mut Round<'_, '_>, keys: Vec<(String, String)>) {
    if keys.is_empty() {
        return;
    }
    let params = vec![
        list(keys.iter().map(|(owner, _)| labels::owner(owner)), Type::BYTEA_ARRAY),
        list(keys.iter().map(|(_, key)| labels::idempotency(key)), Type::BYTEA_ARRAY),
    ];
    round.query(IDEMPOTENCY, params, |store, rows| {
        let found = one_by_place(rows)?;
        for (place, (owner, key)) in keys.into_iter().enumerate() {
            let record = found.get(&place).map(|row| idempotency_row(row)).transpose();
            store.put(RowKey::Idempotency(owner, key), record.map(RowValue::Idempotency));
        }
        Ok(())
    });
}

fn idempotency_row(row: &Row) -> Result<IdempotencyRow> {
    let damaged = || Error::damaged("the record of an idempotency key is damaged");
    // A retry must fail rather than commit twice.
    let lost = || Error::damaged("the commit of an idempotency key is missing");
    let hash: Vec<u8> = column(row, 1)?;
    let note = String::from_utf8(column(row, 3)?).map_err(|e| damaged().with_source(e))?;
    column::<Option<i64>>(row, 4)?.ok_or_else(lost)?;
    let request_hash = hash.try_into().map_err(|_| damaged())?;
    let mut commit = answered(row, 4)?;
    commit.note = note;
    Ok(IdempotencyRow { request_hash, keep_until: column(row, 2)?, commit })
}

/// Fetches commits by their ids.
pub(super) fn committed(round: &mut Round<'_, '_>, keys: Vec<(String, CommitId)>) {
    if keys.is_empty() {
        return;
    }
    let params = vec![
        list(keys.iter().map(|(owner, _)| labels::owner(owner)), Type::BYTEA_ARRAY),
        texts(keys.iter().map(|(_, id)| labels::uuid(id.0))),
    ];
    round.query(COMMITTED, params, |store, rows| {
        let found = one_by_place(rows)?;
        for (place, (owner, id)) in keys.into_iter().enumerate() {
            let commit = found.get(&place).map(|row| answered(row, 1)).transpose();
            store.put(RowKey::Committed(owner, id), commit.map(RowValue::Commit));
        }
        Ok(())
    });
}

/// Looks snapshots up by owner and name.
pub(super) fn snapshots(round: &mut Round<'_, '_>, keys: Vec<(String, String)>) {
    if keys.is_empty() {
        return;
    }
    let params = vec![
        list(keys.iter().map(|(owner, _)| labels::owner(owner)), Type::BYTEA_ARRAY),
        list(keys.iter().map(|(_, name)| labels::snapshot(name).0), Type::BYTEA_ARRAY),
    ];
    round.query(SNAPSHOTS, params, |store, rows| {
        let found = one_by_place(rows)?;
        for (place, (owner, name)) in keys.into_iter().enumerate() {
            let is_there = found.contains_key(&place);
            store.put(RowKey::Snapshot(owner, name), Ok(RowValue::Flag(is_there)));
        }
        Ok(())
    });
}

/// Fetches staged bodies.
pub(super) fn staged(round: &mut Round<'_, '_>, keys: Vec<u128>) {
    if keys.is_empty() {
        return;
    }
    round.query(STAGED, vec![texts(keys.iter().map(|id| labels::uuid(*id)))], |store, rows| {
        let found = one_by_place(rows)?;
        for (place, id) in keys.into_iter().enumerate() {
            let body = found.get(&place).map(|row| staged_row(row)).transpose();
            store.put(RowKey::Staged(id), body.map(RowValue::Staged));
        }
        Ok(())
    });
}

fn staged_row(row: &Row) -> Result<StagedRow> {
    let damaged = || Error::damaged("a staged body is damaged");
    let pieces: Staged = serde_json::from_str(column(row, 1)?).map_err(|e| damaged().with_source(e))?;
    let key = column::<Option<Vec<u8>>>(row, 2)?.unwrap_or_default();
    Ok(StagedRow { owner: String::from_utf8(key).map_err(|e| damaged().with_source(e))?, pieces })
}

/// Fetches how far files satisfy constraints.
pub(super) fn judged(round: &mut Round<'_, '_>, keys: Vec<(u64, Digest)>) {
    if keys.is_empty() {
        return;
    }
    let digests = list(keys.iter().map(|(_, digest)| digest.to_vec()), Type::BYTEA_ARRAY);
    round.query(JUDGED, vec![inos(&keys, |(ino, _)| *ino), digests], |store, rows| {
        let found = one_by_place(rows)?;
        for (place, (ino, digest)) in keys.into_iter().enumerate() {
            let judged = |row: &&Row| -> Result<JudgedRow> {
                let until = Place { offset: number(row, 2)?, line: number(row, 3)? };
                Ok(JudgedRow { etag: number(row, 1)?, until })
            };
            let row = found.get(&place).map(judged).transpose()?;
            store.put(RowKey::Judged(ino, digest), Ok(RowValue::Judged(row)));
        }
        Ok(())
    });
}

/// Fetches the bytes of chunks.
pub(super) fn chunks(round: &mut Round<'_, '_>, keys: Vec<u64>) {
    if keys.is_empty() {
        return;
    }
    round.query(CHUNKS, vec![ints(keys.iter().copied())], |store, rows| {
        let mut found = HashMap::with_capacity(rows.len());
        for row in rows {
            found.insert(number(row, 0)?, chunk(row));
        }
        for id in keys {
            let missing = || Err(Error::damaged("a stored chunk is missing"));
            let data = found.remove(&id).unwrap_or_else(missing);
            store.put(RowKey::Chunk(id), data.map(RowValue::Chunk));
        }
        Ok(())
    });
}

/// Reads the bytes of a chunk, checked against their sum.
fn chunk(row: &Row) -> Result<Bytes> {
    let damaged = || Error::damaged("a stored chunk does not match its checksum");
    let data: Vec<u8> = column::<Option<Vec<u8>>>(row, 2)?.ok_or_else(damaged)?;
    let sum: &[u8] = column(row, 1)?;
    if is_sound(sum, &data) { Ok(data.into()) } else { Err(damaged()) }
}

/// Fetches all quotas.
pub(super) fn quotas(round: &mut Round<'_, '_>) {
    round.query(QUOTAS, Vec::new(), |store, rows| {
        store.put(RowKey::Quotas, Ok(RowValue::Quotas(Arc::new(quotas_of(rows)?))));
        Ok(())
    });
}

/// Reads the rows of [`QUOTAS`].
pub(crate) fn quotas_of(rows: &[Row]) -> Result<Quotas> {
    let quota = |row: &Row| -> Result<Quota> {
        let limit = |at| Ok::<_, Error>(column::<Option<i64>>(row, at)?.map(i64::cast_unsigned));
        Ok(Quota {
            path: TreePath::from_key(column(row, 0)?),
            limits: Limits { bytes: limit(1)?, entries: limit(2)? },
            used: Usage { bytes: number(row, 3)?, entries: number(row, 4)? },
        })
    };
    Ok(Quotas::new(rows.iter().map(quota).collect::<Result<Vec<_>>>()?))
}

/// Sums up ranges of directories.
pub(super) fn tallies(round: &mut Round<'_, '_>, keys: Vec<Vec<Dirs>>) {
    if keys.is_empty() {
        return;
    }
    let ranges = Keyed::new(&keys, |ranges| dirs(ranges.clone()));
    let params = vec![ranges.places(), ranges.texts(|dirs| &dirs.0), ranges.texts(|dirs| &dirs.1)];
    round.query(TALLIES, params, |store, rows| {
        let mut found = by_place(rows)?;
        for (place, ranges) in keys.into_iter().enumerate() {
            let mut tally = Tally::default();
            for row in found.remove(&place).unwrap_or_default() {
                tally.entries += number(row, 1)?;
                let bytes: &str = column(row, 2)?;
                let unreadable = |e| Error::damaged("a sum of sizes cannot be read").with_source(e);
                tally.bytes += bytes.parse::<u128>().map_err(unreadable)?;
                let shared = column::<Option<Vec<i64>>>(row, 3)?.unwrap_or_default();
                tally.shared.extend(shared.into_iter().map(i64::cast_unsigned));
            }
            store.put(RowKey::Tally(ranges), Ok(RowValue::Tally(tally)));
        }
        Ok(())
    });
}

/// Key of [`RowKey::Due`].
pub(super) type Due = (i64, Within, (i64, u64), usize);

/// Fetches expired nodes with names in some subtrees, up to a limit.
pub(super) fn due(round: &mut Round<'_, '_>, (time, within, after, limit): Due) {
    // No exclusions: quotas are of subtrees.
    let ranges = names_within(&within);
    let bounds = |take: fn(&Names) -> &String| texts(ranges.iter().map(|range| take(range).clone()));
    let params = vec![
        param(time, Type::INT8),
        param(after.0, Type::INT8),
        param(int(after.1), Type::INT8),
        bounds(|range| &range.0.0),
        bounds(|range| &range.0.1),
        bounds(|range| &range.1.0),
        bounds(|range| &range.1.1),
        param(most(limit), Type::INT8),
    ];
    round.query(DUE, params, move |store, rows| {
        let due = rows.iter().map(|row| Ok((column(row, 0)?, number(row, 1)?)));
        let due = due.collect::<Result<Vec<_>>>()?;
        store.put(RowKey::Due(time, within, after, limit), Ok(RowValue::Due(due)));
        Ok(())
    });
}
