//! Rows that derived rows follow from, apart from those that the planner reads: one statement for each kind
//! of key, all sent with the others of a round.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use garth_engine::engine::planner::{RowKey, RowStore, RowValue, TAIL_PASSAGES, Tail};
use garth_engine::engine::search::Passage;
use garth_engine::model::{Ino, Projection};
use garth_engine::text::MAX_TEXT;
use garth_engine::text::passage::{SNIFF, Span};
use garth_engine::text::secret::CONTEXT;
use garth_engine::{Error, ErrorKind, Result};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::{Projections, form_of};
use crate::client::param;
use crate::rows::round::{Round, by_place};
use crate::values::columns::{column, int, number, place};
use crate::values::parameters::{ints, list};
use crate::values::sums::is_sound;

/// Most bytes of a [`Tail`].
const TAIL: u64 = 128 << 10;

/// Columns of a passage, in the order that [`passage`] reads.
macro_rules! passage_columns {
    () => {
        "p.id, p.ino, p.off, p.len, p.lines, p.newline, p.form, p.words"
    };
}

/// Piece of a live extent `x` with its chunk in a range of bytes `r`, joined to a row that has `first` and
/// `last` of `k`. `data` is null if the chunk is not in the database. `sum` is its checksum if the piece is
/// all of it; others are not checked, because their chunks would have to be fetched as a whole.
macro_rules! pieces {
    ($first:literal, $last:literal) => {
        concat!(
            "LEFT JOIN LATERAL (SELECT greatest(x.off, ",
            $first,
            ") AS off,
                    least(x.off + x.len, ",
            $last,
            ") - greatest(x.off, ",
            $first,
            ") AS len,
                    substr(c.data, (x.skip + greatest(",
            $first,
            " - x.off, 0) + 1)::int,
                        (least(x.off + x.len, ",
            $last,
            ") - greatest(x.off, ",
            $first,
            "))::int) AS data,
                    CASE WHEN x.skip = 0 AND x.len = c.len AND x.off >= ",
            $first,
            " AND x.off + x.len <= ",
            $last,
            " THEN c.sum END AS sum
                FROM (SELECT off, len, chunk, skip FROM garth.extent
                    WHERE account = $1 AND ino = k.ino AND off < ",
            $last,
            " AND off + len > ",
            $first,
            "
                        AND off >= (SELECT coalesce(max(o.off), 0) FROM garth.extent o
                            WHERE o.account = $1 AND o.ino = k.ino AND o.off <= ",
            $first,
            ")
                    OFFSET 0) x
                LEFT JOIN LATERAL (SELECT sum, len, data FROM garth.chunk
                    WHERE account = $1 AND id = x.chunk OFFSET 0) c ON true
                OFFSET 0) e ON true"
        )
    };
}

const KEYS: &str = "SELECT k.n, p.projection, p.key
    FROM unnest($2::bigint[]) WITH ORDINALITY k(ino, n)
    CROSS JOIN unnest($3::int[]) o(projection)
    CROSS JOIN LATERAL (SELECT projection, key FROM garth.projected
        WHERE account = $1 AND ino = k.ino AND projection = o.projection OFFSET 0) p";
const LINES: &str = "SELECT k.n, l.line, l.off
    FROM unnest($2::bigint[], $3::int[], $4::bigint[]) WITH ORDINALITY k(ino, projection, off, n)
    CROSS JOIN LATERAL (SELECT line, off FROM garth.projected
        WHERE account = $1 AND ino = k.ino AND projection = k.projection AND off <= k.off
        ORDER BY off DESC LIMIT 1) l";
const PASSAGES: &str = concat!(
    "SELECT k.n, ",
    passage_columns!(),
    " FROM unnest($2::bigint[], $3::bigint[], $4::bigint[]) WITH ORDINALITY k(ino, first, last, n)
    CROSS JOIN LATERAL (SELECT * FROM garth.passage
        WHERE account = $1 AND ino = k.ino AND off >= k.first AND off <= k.last OFFSET 0) p"
);
/// Last passages before an offset, at most `most` of them.
const LAST_PASSAGES: &str = concat!(
    "SELECT k.n, ",
    passage_columns!(),
    " FROM unnest($2::bigint[], $3::bigint[], $4::bigint[]) WITH ORDINALITY k(ino, off, most, n)
    CROSS JOIN LATERAL (SELECT * FROM garth.passage
        WHERE account = $1 AND ino = k.ino AND off < k.off ORDER BY off DESC LIMIT k.most) p"
);
const UNINDEXED: &str = "SELECT ino, off FROM garth.unindexed WHERE account = $1 AND ino = ANY($2)";
const CONTENT: &str = concat!(
    "SELECT k.n, v.size, k.first, e.off, e.len, e.data, e.sum
    FROM unnest($2::bigint[], $3::bigint[], $4::bigint[]) WITH ORDINALITY k(ino, first, last, n)
    CROSS JOIN LATERAL (SELECT size FROM garth.node
        WHERE account = $1 AND ino = k.ino ORDER BY seq DESC LIMIT 1) v ",
    pieces!("k.first", "k.last")
);
/// Last line that has a row in each projection by line.
const TAIL_LINES: &str = "SELECT k.n, o.projection, l.line, l.off
    FROM unnest($2::bigint[]) WITH ORDINALITY k(ino, n)
    CROSS JOIN unnest($3::int[]) o(projection)
    CROSS JOIN LATERAL (SELECT line, off FROM garth.projected
        WHERE account = $1 AND ino = k.ino AND projection = o.projection ORDER BY off DESC LIMIT 1) l";
/// Bytes of files from the context of the last passage on, or from the last line if that begins before it. A
/// file without passages of which an append changes nothing needs none, because it is not text or too long.
const TAIL_CONTENT: &str = concat!(
    "SELECT k.n, v.size, r.first, e.off, e.len, e.data, e.sum
    FROM unnest($2::bigint[]) WITH ORDINALITY k(ino, n)
    CROSS JOIN LATERAL (SELECT size FROM garth.node
        WHERE account = $1 AND ino = k.ino ORDER BY seq DESC LIMIT 1) v
    LEFT JOIN LATERAL (SELECT off FROM garth.passage
        WHERE account = $1 AND ino = k.ino ORDER BY off DESC LIMIT 1) p ON true
    LEFT JOIN LATERAL (SELECT min(a.off) AS off FROM unnest($3::int[]) o(projection)
        CROSS JOIN LATERAL (SELECT off FROM garth.projected
            WHERE account = $1 AND ino = k.ino AND projection = o.projection
            ORDER BY off DESC LIMIT 1) a) l ON true
    CROSS JOIN LATERAL (SELECT greatest(0, v.size - $4, least(coalesce(l.off, v.size),
        CASE WHEN v.size > $5 OR p.off IS NULL AND v.size > $6 THEN v.size
             ELSE coalesce(p.off - $7, 0) END)) AS first OFFSET 0) r ",
    pieces!("r.first", "v.size")
);

/// Keys of derived rows of a round, by kind.
#[derive(Default)]
pub(in crate::rows) struct DerivedKeys {
    projections: Projections,
    keys: Vec<u64>,
    lines: Vec<(u64, Projection, u64)>,
    passages: Vec<(u64, u64, u64)>,
    before: Vec<(u64, u64)>,
    unindexed: Vec<u64>,
    content: Vec<(u64, u64, u64)>,
    tails: Vec<u64>,
}

impl DerivedKeys {
    /// Returns no keys.
    pub(in crate::rows) fn new(projections: Projections) -> Self {
        Self { projections, ..Self::default() }
    }

    /// Adds a key. Returns it if it is not one of derived rows.
    pub(in crate::rows) fn add(&mut self, key: RowKey) -> Option<RowKey> {
        match key {
            RowKey::Keys(ino) => self.keys.push(ino),
            RowKey::Line(ino, projection, off) => self.lines.push((ino, projection, off)),
            RowKey::Passages(ino, from, to) => self.passages.push((ino, from, to)),
            RowKey::PassageBefore(ino, off) => self.before.push((ino, off)),
            RowKey::Unindexed(ino) => self.unindexed.push(ino),
            RowKey::Content(ino, from, to) => self.content.push((ino, from, to)),
            RowKey::Tail(ino) => self.tails.push(ino),
            other => return Some(other),
        }
        None
    }

    /// Adds the statements that fetch the rows.
    pub(in crate::rows) fn fetch(self, round: &mut Round<'_, '_>) {
        let Self { projections, keys, lines, passages, before, unindexed, content, tails } = self;
        fetch_keys(round, keys, &projections);
        fetch_lines(round, lines);
        fetch_passages(round, passages);
        fetch_passages_before(round, before);
        fetch_unindexed(round, unindexed);
        fetch_content(round, content);
        fetch_tails(round, tails, &projections);
    }
}

fn fetch_keys(round: &mut Round<'_, '_>, keys: Vec<u64>, projections: &Projections) {
    if keys.is_empty() {
        return;
    }
    let numbers = param(projections.of_nodes.clone(), Type::INT4_ARRAY);
    round.query(KEYS, vec![ints(keys.iter().copied()), numbers], |store, rows| {
        let mut found = by_place(rows)?;
        for (place, ino) in keys.into_iter().enumerate() {
            let own = found.remove(&place).unwrap_or_default().into_iter();
            let own = own.map(|row| Ok((projection(row, 1)?, key(row, 2)?))).collect::<Result<_>>();
            store.put(RowKey::Keys(ino), own.map(RowValue::NodeKeys));
        }
        Ok(())
    });
}

fn fetch_lines(round: &mut Round<'_, '_>, keys: Vec<(u64, Projection, u64)>) {
    if keys.is_empty() {
        return;
    }
    let numbers = keys.iter().map(|key| key.1.number().cast_signed());
    let params = vec![
        ints(keys.iter().map(|key| key.0)),
        list(numbers, Type::INT4_ARRAY),
        ints(keys.iter().map(|key| key.2)),
    ];
    round.query(LINES, params, |store, rows| {
        let mut found = HashMap::new();
        for row in rows {
            found.insert(place(row, 0)?, (number(row, 1)?, number(row, 2)?));
        }
        for (place, (ino, projection, off)) in keys.into_iter().enumerate() {
            let line = RowValue::Line(found.remove(&place));
            store.put(RowKey::Line(ino, projection, off), Ok(line));
        }
        Ok(())
    });
}

fn fetch_passages(round: &mut Round<'_, '_>, keys: Vec<(u64, u64, u64)>) {
    if keys.is_empty() {
        return;
    }
    let column = |take: fn(&(u64, u64, u64)) -> u64| ints(keys.iter().map(take));
    round.query(
        PASSAGES,
        vec![column(|key| key.0), column(|key| key.1), column(|key| key.2)],
        |store, rows| {
            let mut found = passages_by_place(rows)?;
            for (place, (ino, from, to)) in keys.into_iter().enumerate() {
                let passages = RowValue::Passages(found.remove(&place).unwrap_or_default());
                store.put(RowKey::Passages(ino, from, to), Ok(passages));
            }
            Ok(())
        },
    );
}

fn fetch_passages_before(round: &mut Round<'_, '_>, keys: Vec<(u64, u64)>) {
    if keys.is_empty() {
        return;
    }
    let ones = ints(keys.iter().map(|_| 1));
    let params = vec![ints(keys.iter().map(|key| key.0)), ints(keys.iter().map(|key| key.1)), ones];
    round.query(LAST_PASSAGES, params, |store, rows| {
        let mut found = passages_by_place(rows)?;
        for (place, (ino, off)) in keys.into_iter().enumerate() {
            let passages = RowValue::Passages(found.remove(&place).unwrap_or_default());
            store.put(RowKey::PassageBefore(ino, off), Ok(passages));
        }
        Ok(())
    });
}

fn fetch_unindexed(round: &mut Round<'_, '_>, inos: Vec<u64>) {
    if inos.is_empty() {
        return;
    }
    round.query(UNINDEXED, vec![ints(inos.iter().copied())], |store, rows| {
        let mut found = unindexed(rows)?;
        for ino in inos {
            store.put(RowKey::Unindexed(ino), Ok(RowValue::Unindexed(found.remove(&ino))));
        }
        Ok(())
    });
}

fn fetch_content(round: &mut Round<'_, '_>, keys: Vec<(u64, u64, u64)>) {
    if keys.is_empty() {
        return;
    }
    let column = |take: fn(&(u64, u64, u64)) -> u64| ints(keys.iter().map(take));
    round.query(
        CONTENT,
        vec![column(|key| key.0), column(|key| key.1), column(|key| key.2)],
        |store, rows| {
            let mut found = by_place(rows)?;
            for (place, (ino, from, to)) in keys.into_iter().enumerate() {
                let own = found.remove(&place).unwrap_or_default();
                let bytes = content(&own, to).map(|(_, bytes)| RowValue::Content(bytes));
                store.put(RowKey::Content(ino, from, to), bytes);
            }
            Ok(())
        },
    );
}

/// Fetches the ends of files, with four statements: the answer of the last one completes the others.
fn fetch_tails(round: &mut Round<'_, '_>, inos: Vec<u64>, projections: &Projections) {
    if inos.is_empty() {
        return;
    }
    let own = || ints(inos.iter().copied());
    let of_lines = || param(projections.of_lines.clone(), Type::INT4_ARRAY);
    let tails = Arc::new(Mutex::new(Tails::default()));
    let (ends, most) = (inos.iter().map(|_| u64::MAX), inos.iter().map(|_| TAIL_PASSAGES as u64));
    let parts = Arc::clone(&tails);
    round.query(LAST_PASSAGES, vec![own(), ints(ends), ints(most)], move |_, rows| {
        locked(&parts).passages = passages_by_place(rows)?;
        Ok(())
    });
    let parts = Arc::clone(&tails);
    round.query(TAIL_LINES, vec![own(), of_lines()], move |_, rows| {
        locked(&parts).lines = lines_by_place(rows)?;
        Ok(())
    });
    let parts = Arc::clone(&tails);
    round.query(UNINDEXED, vec![own()], move |_, rows| {
        locked(&parts).unindexed = unindexed(rows)?;
        Ok(())
    });
    // What an append to a longer file changes, search does not see.
    let limits = [TAIL, MAX_TEXT + TAIL, SNIFF, 2 * CONTEXT as u64];
    let limits = limits.map(|limit| param(int(limit), Type::INT8));
    let params = [own(), of_lines()].into_iter().chain(limits).collect();
    round.query(TAIL_CONTENT, params, move |store, rows| {
        let parts = std::mem::take(&mut *locked(&tails));
        parts.put(store, inos, by_place(rows)?);
        Ok(())
    });
}

/// Projection, with the number and offset of its last line.
type LastLine = (Projection, (u64, u64));

/// Rows of the ends of files, by the place of their key or by inode.
#[derive(Default)]
struct Tails {
    passages: HashMap<usize, Vec<Passage>>,
    lines: HashMap<usize, Vec<LastLine>>,
    unindexed: BTreeMap<u64, u64>,
}

impl Tails {
    fn put(mut self, store: &mut RowStore, inos: Vec<u64>, mut rows: HashMap<usize, Vec<&Row>>) {
        for (place, ino) in inos.into_iter().enumerate() {
            let own = rows.remove(&place).unwrap_or_default();
            let passages = self.passages.remove(&place).unwrap_or_default();
            let lines = self.lines.remove(&place).unwrap_or_default();
            let unindexed = self.unindexed.remove(&ino);
            let tail = |(from, bytes)| Box::new(Tail { passages, unindexed, lines, from, bytes });
            // Of a file that cannot be read, what is needed is fetched by other keys.
            store.put(RowKey::Tail(ino), content(&own, u64::MAX).map(tail).map(RowValue::Tail));
        }
    }
}

fn locked(tails: &Mutex<Tails>) -> MutexGuard<'_, Tails> {
    tails.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads a projection.
fn projection(row: &Row, at: usize) -> Result<Projection> {
    Ok(Projection::new(column::<i32>(row, at)?.cast_unsigned()))
}

/// Reads a key.
pub(crate) fn key(row: &Row, at: usize) -> Result<String> {
    let bytes: Vec<u8> = column(row, at)?;
    String::from_utf8(bytes).map_err(|e| Error::damaged("a derived key is not UTF-8").with_source(e))
}

/// Reads a passage whose columns begin at `at`.
fn passage(row: &Row, at: usize) -> Result<Passage> {
    Ok(Passage {
        id: column(row, at)?,
        ino: Ino(number(row, at + 1)?),
        span: Span { off: number(row, at + 2)?, len: number(row, at + 3)?, newline: column(row, at + 5)? },
        line_feeds: number(row, at + 4)?,
        form: form_of(column(row, at + 6)?),
        words: number(row, at + 7)?,
    })
}

/// Returns the passages of each key by its place, in order.
fn passages_by_place(rows: &[Row]) -> Result<HashMap<usize, Vec<Passage>>> {
    let mut found: HashMap<usize, Vec<Passage>> = HashMap::new();
    for row in rows {
        found.entry(place(row, 0)?).or_default().push(passage(row, 1)?);
    }
    for passages in found.values_mut() {
        passages.sort_unstable_by_key(|passage| passage.span.off);
    }
    Ok(found)
}

fn lines_by_place(rows: &[Row]) -> Result<HashMap<usize, Vec<LastLine>>> {
    let mut found: HashMap<usize, Vec<_>> = HashMap::new();
    for row in rows {
        let line = (projection(row, 1)?, (number(row, 2)?, number(row, 3)?));
        found.entry(place(row, 0)?).or_default().push(line);
    }
    Ok(found)
}

fn unindexed(rows: &[Row]) -> Result<BTreeMap<u64, u64>> {
    rows.iter().map(|row| Ok((number(row, 0)?, number(row, 1)?))).collect()
}

/// Returns the bytes of a file from an offset, which the rows have, up to `to`, and that offset. Holes are
/// zeros. A file without a node has no bytes.
fn content(rows: &[&Row], to: u64) -> Result<(u64, Bytes)> {
    let Some(first) = rows.first() else { return Ok((0, Bytes::new())) };
    let (size, from) = (number(first, 1)?, number(first, 2)?);
    let mut bytes = vec![0; usize::try_from(to.min(size).saturating_sub(from)).unwrap_or(usize::MAX)];
    for row in rows {
        let Some(off) = column::<Option<i64>>(row, 3)? else { continue };
        let unread = || Error::new(ErrorKind::Corrupt, "the content of a file is not in the database");
        let (length, data) = (number(row, 4)?, column::<Option<&[u8]>>(row, 5)?.ok_or_else(unread)?);
        if column::<Option<&[u8]>>(row, 6)?.is_some_and(|sum| !is_sound(sum, data)) {
            return Err(Error::damaged("stored content does not match its checksum"));
        }
        let short = || Error::damaged("stored content is shorter than its extent");
        let at = usize::try_from(off.cast_unsigned().saturating_sub(from)).unwrap_or(usize::MAX);
        // An extent may be longer than its file, only if that is damaged.
        let room = bytes.get_mut(at..).unwrap_or_default();
        let room = room.get_mut(..data.len()).filter(|_| data.len() as u64 == length).ok_or_else(short)?;
        room.copy_from_slice(data);
    }
    Ok((from, Bytes::from(bytes)))
}
