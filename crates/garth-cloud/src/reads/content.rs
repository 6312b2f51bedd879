//! Content of files: extents with the chunks that they show, checked.

use std::collections::HashMap;
use std::sync::Arc;

use garth_engine::Result;
use garth_engine::model::MAX_READ;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::assembled::{Assembled, chunks};
use super::fetched::{Contents, FileKey, Part, UnsizedPart};
use super::round::Round;
use super::statements::name_at;
use crate::client::param;
use crate::values::columns::{column, extent, int, number, place};
use crate::values::parameters::ints;

/// Extents of the newest state that are fetched at a time.
pub(super) const EXTENTS: usize = 10_000;
/// Time from which on content is gone whose removal has begun: for every view.
const REMOVING: i64 = i64::MIN;
/// Bytes of content that one round asks for, and of chunks that a statement returns.
const MOST: u64 = 2 * MAX_READ as u64;
/// Place of the number of all extents in a row of content.
const TOTAL: usize = 7;

/// Extents after commit `k.seq` that overlap `k.first..k.last` of file `e.ino`, as `x`. Live extents do not
/// overlap each other, so the last one that begins at or before the range is the first that can reach into
/// it.
macro_rules! extents_at {
    () => {
        " CROSS JOIN LATERAL (
            SELECT off, len, since, chunk, skip, older FROM garth.extent
                WHERE account = $1 AND ino = e.ino AND off < k.last AND off + len > k.first AND since <= k.seq
                    AND off >= (SELECT coalesce(max(o.off), 0) FROM garth.extent o
                        WHERE o.account = $1 AND o.ino = e.ino AND o.off <= k.first)
            UNION ALL
            SELECT off, len, since, chunk, skip, older FROM garth.extent_past
                WHERE account = $1 AND ino = e.ino AND till > k.seq AND since <= k.seq AND off < k.last
                    AND off + len > k.first) x"
    };
}

/// Chunks `c` of extents `x`. An extent whose chunk is missing is damage, and not a hole.
macro_rules! chunks {
    () => {
        " LEFT JOIN LATERAL (SELECT sum, len, data FROM garth.chunk
            WHERE account = $1 AND id = x.chunk OFFSET 0) c ON true"
    };
}

/// Extents `x` of keys `$key` with their chunks `c`, by key and offset. A chunk is checked as a whole, and a
/// file that was written over in many places has many pieces of one: each is returned once, with the first
/// extent that shows it. The extents end with the one that reaches `$most` bytes of chunks; `total` is the
/// number of all. `$extra` are further columns of `w`, and `q` has them outside.
macro_rules! once {
    ($key:literal, $most:literal, ($extra:literal, $outside:literal), $from:expr) => {
        concat!(
            "SELECT q.key, q.off, q.len, q.skip, q.chunk, q.sum, CASE WHEN q.nth = 1 THEN q.data END, q.total",
            $outside,
            " FROM (SELECT w.*, sum(CASE WHEN w.nth = 1 THEN w.bytes ELSE 0 END)
                    OVER (ORDER BY w.key, w.off ROWS UNBOUNDED PRECEDING) AS read
                FROM (SELECT ",
            $key,
            " AS key, x.off, x.len, x.skip, x.chunk, c.sum, c.data, coalesce(c.len, 0) AS bytes,
                    row_number() OVER (PARTITION BY x.chunk ORDER BY ",
            $key,
            ", x.off) AS nth, count(*) OVER () AS total",
            $extra,
            $from,
            chunks!(),
            ") w) q
            WHERE q.read - CASE WHEN q.nth = 1 THEN q.bytes ELSE 0 END < ",
            $most,
            " ORDER BY q.key, q.off"
        )
    };
}

const CONTENT: &str = once!(
    "k.n",
    "$6",
    ("", ""),
    concat!(
        " FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[]) WITH ORDINALITY
            k(ino, seq, first, last, n)
        CROSS JOIN LATERAL (SELECT k.ino) e",
        extents_at!()
    )
);
/// Content of a file `e` whose size is not known yet, from byte `$3` up to byte `$4`, unless that is more
/// than `$5` bytes. The inode, the size, and from when on the content is gone come with every row. `$6` is
/// that time for content whose removal has begun.
macro_rules! content_of {
    ($file:expr) => {
        once!(
            "e.ino",
            "$7",
            (", v.size, g.marked", ", q.size, q.marked"),
            concat!(
                $file,
                " CROSS JOIN LATERAL (SELECT size FROM garth.node
                    WHERE account = $1 AND ino = e.ino AND seq <= k.seq AND kind = 0 ORDER BY seq DESC LIMIT 1) v
                CROSS JOIN LATERAL (SELECT min(coalesce(marked, $6::bigint)) AS marked FROM garth.content_gone
                    WHERE account = $1 AND ino = e.ino AND till > k.seq AND since <= k.seq) g
                CROSS JOIN LATERAL (SELECT k.seq, $3::bigint AS first, least($4::bigint, v.size) AS last) l
                LEFT JOIN LATERAL (SELECT x.* FROM (SELECT l.seq, l.first, l.last) k",
                extents_at!(),
                " WHERE k.last - k.first <= $5) x ON true"
            )
        )
    };
}
const CONTENT_BY_PATH: &str =
    content_of!(concat!(" FROM (SELECT $2::bigint AS seq, $8::text AS dir, $9::text AS name) k", name_at!()));
const CONTENT_BY_NODE: &str =
    content_of!(" FROM (SELECT $2::bigint AS seq) k CROSS JOIN (SELECT $8::bigint AS ino) e");
const EXTENTS_NOW: &str = "SELECT x.off, x.len, x.since, x.chunk, x.skip, x.older FROM garth.extent x
    WHERE x.account = $1 AND x.ino = $2 AND x.off < $4 AND x.off + x.len > $3
        AND x.off >= (SELECT coalesce(max(o.off), 0) FROM garth.extent o
            WHERE o.account = $1 AND o.ino = $2 AND o.off <= $3)
    ORDER BY x.off LIMIT $5";
const EXTENTS_AT: &str = concat!(
    "SELECT x.off, x.len, x.since, x.chunk, x.skip, x.older
    FROM (SELECT $3::bigint AS seq, $4::bigint AS first, $5::bigint AS last) k
    CROSS JOIN (SELECT $2::bigint AS ino) e",
    extents_at!(),
    " ORDER BY x.off"
);
const GONE: &str =
    "SELECT k.n, g.marked FROM unnest($2::bigint[], $3::bigint[]) WITH ORDINALITY k(ino, seq, n)
    CROSS JOIN LATERAL (SELECT min(coalesce(marked, $4)) AS marked FROM garth.content_gone
        WHERE account = $1 AND ino = k.ino AND till > k.seq AND since <= k.seq) g";

/// Returns the last row if there are more extents than were returned.
fn cut(rows: &[Row]) -> Result<Option<&Row>> {
    let Some(last) = rows.last() else { return Ok(None) };
    let is_cut = (rows.len() as u64) < number(last, TOTAL)?;
    Ok(is_cut.then_some(last))
}

const ORIGINS: &str = "SELECT chunk, runs FROM garth.origin WHERE account = $1 AND chunk = ANY($2)";

/// Adds the statements that fetch what is wanted.
pub(super) fn send(contents: &Contents, round: &mut Round<'_>) {
    let mut room = MOST;
    let parts = contents.parts.take_wanted().into_iter().enumerate().take_while(|(at, (.., from, to))| {
        let fits = *at == 0 || to - from <= room;
        room = room.saturating_sub(to - from);
        fits
    });
    // Those beyond the room are asked for again.
    send_parts(round, contents, parts.map(|(_, part)| part).collect());
    for part in contents.unsized_parts.take_wanted() {
        send_unsized(round, part);
    }
    for (ino, from, to) in contents.extents_now.take_wanted() {
        send_extents_now(round, (ino, from, to));
    }
    for part in contents.extents_at.take_wanted() {
        send_extents_at(round, part);
    }
    send_gone(round, contents.gone.take_wanted());
    send_origins(round, contents.origins.take_wanted());
}

fn send_parts(round: &mut Round<'_>, contents: &Contents, keys: Vec<Part>) {
    if keys.is_empty() {
        return;
    }
    let mut parts: Vec<Assembled> = keys.iter().map(|key| contents.begun(key)).collect();
    let params = vec![
        ints(keys.iter().map(|key| key.0)),
        ints(keys.iter().map(|key| key.1)),
        ints(parts.iter().map(Assembled::next)),
        ints(keys.iter().map(|key| key.3)),
        param(int(MOST), Type::INT8),
    ];
    round.query(CONTENT, params, move |fetched, rows| {
        let chunks = chunks(rows)?;
        for row in rows {
            if let Some(part) = parts.get_mut(place(row, 0)?) {
                part.add(row, &chunks)?;
            }
        }
        // Parts up to this place were fetched, those without an extent as well: all of them is a hole.
        let cut = cut(rows)?.map(|last| place(last, 0)).transpose()?;
        for (at, (key, part)) in keys.into_iter().zip(parts).enumerate() {
            fetched.contents.put(key, part, cut.is_none_or(|cut| at < cut));
        }
        Ok(())
    });
}

fn send_unsized(round: &mut Round<'_>, key: UnsizedPart) {
    let (file, seq, from, to) = &key;
    let (seq, from, to) = (*seq, *from, *to);
    let numbers = [int(seq), int(from), int(to), int(MAX_READ as u64), REMOVING, int(MOST)];
    let mut params: Vec<_> = numbers.into_iter().map(|value| param(value, Type::INT8)).collect();
    let sql = match file {
        FileKey::Path(dir, name) => {
            params.extend([dir.clone(), name.clone()].map(|text| param(text, Type::TEXT)));
            CONTENT_BY_PATH
        }
        FileKey::Node(ino) => {
            params.push(param(int(*ino), Type::INT8));
            CONTENT_BY_NODE
        }
    };
    round.query(sql, params, move |fetched, rows| {
        fetched.contents.unsized_parts.put(key, ());
        let Some(first) = rows.first() else { return Ok(()) };
        let (ino, size) = (number(first, 0)?, number(first, TOTAL + 1)?);
        fetched.contents.gone.put((ino, seq), column(first, TOTAL + 2)?);
        let to = to.min(size);
        if from >= to || to - from > MAX_READ as u64 {
            return Ok(());
        }
        let (mut part, chunks) = (Assembled::new(from, to), chunks(rows)?);
        for row in rows {
            // A file without an extent has one row, without one.
            if column::<Option<i64>>(row, 1)?.is_some() {
                part.add(row, &chunks)?;
            }
        }
        fetched.contents.put((ino, seq, from, to), part, cut(rows)?.is_none());
        Ok(())
    });
}

fn send_extents_now(round: &mut Round<'_>, key: (u64, u64, u64)) {
    let limit = int(EXTENTS as u64);
    let params = [int(key.0), int(key.1), int(key.2), limit].map(|value| param(value, Type::INT8));
    round.query(EXTENTS_NOW, params.into(), move |fetched, rows| {
        let extents = rows.iter().map(|row| extent(row, 0)).collect::<Result<Vec<_>>>()?;
        fetched.contents.extents_now.put(key, Arc::new(extents));
        Ok(())
    });
}

fn send_extents_at(round: &mut Round<'_>, key: Part) {
    let params = [int(key.0), int(key.1), int(key.2), int(key.3)].map(|value| param(value, Type::INT8));
    round.query(EXTENTS_AT, params.into(), move |fetched, rows| {
        let extents = rows.iter().map(|row| extent(row, 0)).collect::<Result<Vec<_>>>()?;
        fetched.contents.extents_at.put(key, Arc::new(extents));
        Ok(())
    });
}

fn send_origins(round: &mut Round<'_>, chunks: Vec<u64>) {
    if chunks.is_empty() {
        return;
    }
    round.query(ORIGINS, vec![ints(chunks.iter().copied())], move |fetched, rows| {
        let mut found = HashMap::new();
        for row in rows {
            found.insert(number(row, 0)?, column::<Vec<u8>>(row, 1)?);
        }
        for chunk in chunks {
            fetched.contents.origins.put(chunk, found.remove(&chunk));
        }
        Ok(())
    });
}

fn send_gone(round: &mut Round<'_>, keys: Vec<(u64, u64)>) {
    if keys.is_empty() {
        return;
    }
    let params = vec![
        ints(keys.iter().map(|key| key.0)),
        ints(keys.iter().map(|key| key.1)),
        param(REMOVING, Type::INT8),
    ];
    round.query(GONE, params, move |fetched, rows| {
        for row in rows {
            let Some(key) = keys.get(place(row, 0)?) else { continue };
            fetched.contents.gone.put(*key, column(row, 1)?);
        }
        Ok(())
    });
}
