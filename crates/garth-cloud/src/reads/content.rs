//! Content of files: extents with the chunks that they show, checked.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use garth_engine::engine::planner::{ExtentRow, MAX_EXTENT, SHORT_SUM, sum_of};
use garth_engine::model::MAX_READ;
use garth_engine::{Error, Result};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

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
/// Bytes of content that one round asks for.
const MOST: u64 = 2 * MAX_READ as u64;

/// Extents after commit `k.seq` that overlap `k.first..k.last` of file `e.ino`, as `x`. Live extents do not
/// overlap each other, so the last one that begins at or before the range is the first that can reach into
/// it.
macro_rules! extents_at {
    () => {
        " CROSS JOIN LATERAL (
            SELECT off, len, since, chunk, skip, older FROM garth.extent
                WHERE account = $1 AND ino = e.ino AND off < k.last AND off + len > k.first AND since <= k.seq
                    AND off >= coalesce((SELECT max(o.off) FROM garth.extent o
                        WHERE o.account = $1 AND o.ino = e.ino AND o.off <= k.first), k.first)
            UNION ALL
            SELECT off, len, since, chunk, skip, older FROM garth.extent_past
                WHERE account = $1 AND ino = e.ino AND till > k.seq AND since <= k.seq AND off < k.last
                    AND off + len > k.first) x"
    };
}

/// Chunks `c` of extents `x`. An extent whose chunk is missing is damage, and not a hole.
macro_rules! chunks {
    () => {
        " LEFT JOIN LATERAL (SELECT sum, data FROM garth.chunk WHERE account = $1 AND id = x.chunk OFFSET 0) c ON true"
    };
}

const CONTENT: &str = concat!(
    "SELECT k.n, x.off, x.len, x.skip, c.sum, c.data
    FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[]) WITH ORDINALITY k(ino, seq, first, last, n)
    CROSS JOIN LATERAL (SELECT k.ino) e",
    extents_at!(),
    chunks!()
);
/// Content of a file `e` whose size is not known yet, from byte `$3` up to byte `$4`, unless that is more
/// than `$5` bytes. The inode, the size, and from when on the content is gone come with every row. `$6` is
/// that time for content whose removal has begun.
macro_rules! content_of {
    ($file:expr) => {
        concat!(
            "SELECT e.ino, v.size, g.marked, x.off, x.len, x.skip, c.sum, c.data ",
            $file,
            " CROSS JOIN LATERAL (SELECT size FROM garth.node
                WHERE account = $1 AND ino = e.ino AND seq <= k.seq AND kind = 0 ORDER BY seq DESC LIMIT 1) v
            CROSS JOIN LATERAL (SELECT min(coalesce(marked, $6::bigint)) AS marked FROM garth.content_gone
                WHERE account = $1 AND ino = e.ino AND till > k.seq AND since <= k.seq) g
            CROSS JOIN LATERAL (SELECT k.seq, $3::bigint AS first, least($4::bigint, v.size) AS last) l
            LEFT JOIN LATERAL (SELECT x.* FROM (SELECT l.seq, l.first, l.last) k",
            extents_at!(),
            " WHERE k.last - k.first <= $5) x ON true",
            chunks!()
        )
    };
}
const CONTENT_BY_PATH: &str =
    content_of!(concat!("FROM (SELECT $2::bigint AS seq, $7::text AS dir, $8::text AS name) k", name_at!()));
const CONTENT_BY_NODE: &str =
    content_of!("FROM (SELECT $2::bigint AS seq) k CROSS JOIN (SELECT $7::bigint AS ino) e");
const EXTENTS_NOW: &str = "SELECT x.off, x.len, x.since, x.chunk, x.skip, x.older FROM garth.extent x
    WHERE x.account = $1 AND x.ino = $2 AND x.off < $4 AND x.off + x.len > $3
        AND x.off >= coalesce((SELECT max(o.off) FROM garth.extent o
            WHERE o.account = $1 AND o.ino = $2 AND o.off <= $3), $3)
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
    send_parts(round, parts.map(|(_, part)| part).collect());
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

/// Bytes of a part of a file that its extents fill, checked against the checksums of their chunks.
pub(crate) struct Assembled {
    from: u64,
    bytes: Result<Vec<u8>>,
}

impl Assembled {
    /// Returns a part of which all is a hole.
    pub(crate) fn new(from: u64, to: u64) -> Self {
        Self { from, bytes: Ok(vec![0; usize::try_from(to.saturating_sub(from)).unwrap_or(0)]) }
    }

    /// Adds an extent that overlaps the part, with its chunk: columns `off, len, skip, sum, data` from `at`
    /// on.
    pub(crate) fn add(&mut self, row: &Row, at: usize) -> Result<()> {
        let (off, len, skip) = (number(row, at)?, number(row, at + 1)?, number(row, at + 2)?);
        let (sum, data) = (column::<Option<&[u8]>>(row, at + 3)?, column::<Option<&[u8]>>(row, at + 4)?);
        if let Ok(bytes) = &mut self.bytes
            && let Err(error) = fill(bytes, self.from, (off, len, skip), sum.zip(data))
        {
            // Only this part fails.
            self.bytes = Err(error);
        }
        Ok(())
    }

    /// Returns the bytes.
    ///
    /// # Errors
    /// `Corrupt` for a chunk that is missing or does not match its checksum.
    pub(crate) fn done(self) -> Result<Bytes> {
        self.bytes.map(Bytes::from)
    }
}

/// Copies the bytes of an extent, checked, to their place in `bytes`, which begin at `from` in the file.
fn fill(
    bytes: &mut [u8],
    from: u64,
    (off, len, skip): (u64, u64, u64),
    chunk: Option<(&[u8], &[u8])>,
) -> Result<()> {
    let damaged = |what: &str| Error::damaged(format!("stored content {what}"));
    let (sum, data) = chunk.ok_or_else(|| damaged("is missing"))?;
    if data.len() > MAX_EXTENT || sum.is_empty() || sum_of(data, sum.len() > SHORT_SUM) != sum {
        return Err(damaged("does not match its checksum"));
    }
    let row = ExtentRow { off, len, since: 0, chunk: 0, skip, written: 0 };
    let part = row.cut(from, from + bytes.len() as u64);
    let place = |start: u64| usize::try_from(start).unwrap_or(usize::MAX);
    let to = bytes.get_mut(place(part.off - from)..place(part.end() - from));
    let data = data.get(place(part.skip)..place(part.skip + part.len));
    let (to, data) = to.zip(data).ok_or_else(|| damaged("is shorter than its extent"))?;
    to.copy_from_slice(data);
    Ok(())
}

fn send_parts(round: &mut Round<'_>, keys: Vec<Part>) {
    if keys.is_empty() {
        return;
    }
    let params = vec![
        ints(keys.iter().map(|key| key.0)),
        ints(keys.iter().map(|key| key.1)),
        ints(keys.iter().map(|key| key.2)),
        ints(keys.iter().map(|key| key.3)),
    ];
    round.query(CONTENT, params, move |fetched, rows| {
        let mut found: HashMap<usize, Assembled> = HashMap::new();
        for row in rows {
            let at = place(row, 0)?;
            let Some((.., from, to)) = keys.get(at) else { continue };
            found.entry(at).or_insert_with(|| Assembled::new(*from, *to)).add(row, 1)?;
        }
        for (at, key) in keys.into_iter().enumerate() {
            // Without an extent, all of it is a hole.
            let part = found.remove(&at).unwrap_or_else(|| Assembled::new(key.2, key.3));
            fetched.contents.parts.put(key, part.done());
        }
        Ok(())
    });
}

fn send_unsized(round: &mut Round<'_>, key: UnsizedPart) {
    let (file, seq, from, to) = &key;
    let (seq, from, to) = (*seq, *from, *to);
    let numbers = [int(seq), int(from), int(to), int(MAX_READ as u64), REMOVING];
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
        let (ino, size) = (number(first, 0)?, number(first, 1)?);
        fetched.contents.gone.put((ino, seq), column(first, 2)?);
        let to = to.min(size);
        if from >= to || to - from > MAX_READ as u64 {
            return Ok(());
        }
        let mut part = Assembled::new(from, to);
        for row in rows {
            // A file without an extent has one row, without one.
            if column::<Option<i64>>(row, 3)?.is_some() {
                part.add(row, 3)?;
            }
        }
        fetched.contents.parts.put((ino, seq, from, to), part.done());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_fill_their_place() {
        let data = b"0123456789";
        let sum = sum_of(data, false);
        let mut bytes = vec![0; 6];
        fill(&mut bytes, 100, (98, 5, 2), Some((&sum[..], &data[..]))).unwrap();
        assert_eq!(bytes, b"456\0\0\0", "the first two bytes are before the range");
        fill(&mut bytes, 100, (104, 10, 0), Some((&sum[..], &data[..]))).unwrap();
        assert_eq!(bytes, b"456\x0001");
    }

    #[test]
    fn damaged_chunks_fail() {
        let data = b"0123456789";
        let mut bytes = vec![0; 4];
        let long = sum_of(data, true);
        for (extent, chunk) in [
            ((0, 4, 0), None),
            ((0, 4, 0), Some((&b"sum"[..], &data[..]))),
            ((0, 4, 0), Some((&b""[..], &data[..]))),
            ((0, 4, 8), Some((&long[..], &data[..]))),
        ] {
            let error = fill(&mut bytes, 0, extent, chunk).unwrap_err();
            assert_eq!(error.kind(), garth_engine::ErrorKind::Corrupt, "{error}");
        }
    }
}
