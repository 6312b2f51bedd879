//! Statements that fetch rows of files, one for each kind of key, all sent together.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use garth_engine::engine::search::{FileNode, Files as _, Passage};
use garth_engine::model::{Ino, MAX_GATE_FILE, Seq, Timestamp, VersionId};
use garth_engine::rule::DecidingKey;
use garth_engine::text::passage::{Form, Span};
use garth_engine::{Error, Result, TreePath};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::fetched::{FetchedFiles, Key, KnownFile, KnownNames, State, Wanted};
use super::snapshot::Snapshot;
use crate::client::{Param, Pipe, param};
use crate::reads::Assembled;
use crate::values::columns::{MAX_DIR, column, number, place};
use crate::values::parameters::{ints, list, texts};
use crate::values::sums::is_sound;

/// Names of a node that are fetched at first, and those that are fetched after them at a time.
const FEW_NAMES: i64 = 64;
const MORE_NAMES: i64 = 4096;
/// Files with text that is not indexed yet, of which the reach is judged.
const UNINDEXED: i64 = 1000;

/// Files of passages, as `f`.
macro_rules! of_passages {
    () => {
        "(SELECT DISTINCT p.ino, ''::text AS dir, ''::text AS name FROM unnest($2::bigint[]) k(id)
            CROSS JOIN LATERAL (SELECT ino FROM garth.passage WHERE account = $1 AND id = k.id OFFSET 0) p) f"
    };
}
/// Newest version of each file of `$from`, with its attributes if `$3`.
macro_rules! nodes {
    ($from:expr) => {
        concat!(
            "SELECT f.ino, v.seq, v.nlink, v.size, v.mtime, v.attrs_seq, v.expires_at, a.json FROM ",
            $from,
            " CROSS JOIN LATERAL (SELECT seq, nlink, size, mtime, attrs_seq, expires_at FROM garth.node
                WHERE account = $1 AND ino = f.ino ORDER BY seq DESC LIMIT 1) v
            LEFT JOIN LATERAL (SELECT json FROM garth.attribute
                WHERE $3 AND account = $1 AND ino = f.ino AND seq = v.attrs_seq OFFSET 0) a ON true"
        )
    };
}
/// Names of each node of `$from` after a name of it, at most `$limit`.
macro_rules! names {
    ($from:expr, $limit:literal) => {
        concat!(
            "SELECT f.ino, n.dir, n.name, n.long FROM ",
            $from,
            " CROSS JOIN LATERAL (SELECT dir, name, long FROM garth.name
                WHERE account = $1 AND ino = f.ino AND (dir, name) > (f.dir, f.name)
                ORDER BY dir, name LIMIT ",
            $limit,
            ") n"
        )
    };
}
const NODES: &str = nodes!("unnest($2::bigint[]) f(ino)");
const NODES_OF_PASSAGES: &str = nodes!(of_passages!());
const NAMES: &str = names!("unnest($2::bigint[], $3::text[], $4::text[]) f(ino, dir, name)", "$5");
const NAMES_OF_PASSAGES: &str = names!(of_passages!(), "$3");
const NAMES_OF_UNINDEXED: &str = names!(
    "(SELECT ino, ''::text AS dir, ''::text AS name FROM garth.unindexed WHERE account = $1 LIMIT $2) f",
    "$3"
);
const UNINDEXED_FILES: &str = "SELECT ino FROM garth.unindexed WHERE account = $1 LIMIT $2";
const PASSAGES: &str = "SELECT k.n, p.id, p.ino, p.off, p.len, p.lines, p.newline, p.form, p.words
    FROM unnest($2::bigint[]) WITH ORDINALITY k(id, n)
    CROSS JOIN LATERAL (SELECT id, ino, off, len, lines, newline, form, words FROM garth.passage
        WHERE account = $1 AND id = k.id OFFSET 0) p";
/// Key of `k` that node `$ino` has, as `h`. Not `EXISTS`, which the database may turn into a table of all
/// keys of the account, and not three equal columns, for which it may read all keys of the node.
macro_rules! has_key {
    ($ino:literal) => {
        concat!(
            "(SELECT projection, key, ino FROM garth.projected
                WHERE account = $1 AND (projection, key, ino) >= (k.projection, k.key, ",
            $ino,
            ") ORDER BY projection, key, ino, line LIMIT 1) h
            ON h.projection = k.projection AND h.key = k.key AND h.ino = ",
            $ino
        )
    };
}
const LIVE: &str = concat!(
    "SELECT k.n, n.ino, v.expires_at, h.ino IS NOT NULL
    FROM unnest($2::text[], $3::text[], $4::int[], $5::bytea[]) WITH ORDINALITY k(dir, name, projection, key, n)
    CROSS JOIN LATERAL (SELECT ino FROM garth.name
        WHERE account = $1 AND dir = k.dir AND name = k.name OFFSET 0) n
    CROSS JOIN LATERAL (SELECT expires_at FROM garth.node
        WHERE account = $1 AND ino = n.ino ORDER BY seq DESC LIMIT 1) v
    LEFT JOIN LATERAL ",
    has_key!("n.ino")
);
const KEYS: &str = concat!(
    "SELECT k.n FROM unnest($2::bigint[], $3::int[], $4::bytea[]) WITH ORDINALITY k(ino, projection, key, n)
    JOIN LATERAL ",
    has_key!("k.ino")
);
/// Line feeds before offsets: those of the counted blocks of 128 KiB, and of the passages after them.
const LINES: &str = "SELECT k.n, (b.lines + coalesce(r.lines, 0))::bigint
    FROM unnest($2::bigint[], $3::bigint[]) WITH ORDINALITY k(ino, off, n)
    CROSS JOIN LATERAL (SELECT count(*) AS blocks, coalesce(sum(lines), 0) AS lines FROM garth.passage_lines
        WHERE account = $1 AND ino = k.ino AND block < k.off / 131072) b
    CROSS JOIN LATERAL (SELECT sum(lines) AS lines FROM garth.passage
        WHERE account = $1 AND ino = k.ino AND off >= b.blocks * 131072 AND off < k.off) r";
/// Pieces of ranges of files. Live extents do not overlap: the last one at or before the range is the first
/// that can reach into it. A piece that is all of its chunk comes with the checksum. Others are not checked:
/// a search shows lines of many files, and would have to fetch the chunk of each.
const CONTENT: &str = "SELECT k.n, greatest(e.off, k.first), substr(c.data,
        (e.skip + greatest(e.off, k.first) - e.off)::int + 1,
        (least(e.off + e.len, k.last) - greatest(e.off, k.first))::int),
        CASE WHEN e.skip = 0 AND e.len = c.len AND e.off >= k.first AND e.off + e.len <= k.last THEN c.sum END
    FROM unnest($2::bigint[], $3::bigint[], $4::bigint[]) WITH ORDINALITY k(ino, first, last, n)
    CROSS JOIN LATERAL (SELECT off, len, chunk, skip FROM garth.extent
        WHERE account = $1 AND ino = k.ino AND off < k.last AND off + len > k.first
            AND off >= (SELECT coalesce(max(o.off), 0) FROM garth.extent o
                WHERE o.account = $1 AND o.ino = k.ino AND o.off <= k.first)
        OFFSET 0) e
    LEFT JOIN LATERAL (SELECT sum, len, data FROM garth.chunk WHERE account = $1 AND id = e.chunk OFFSET 0) c
        ON true";
/// Files of gates with their content, which is left out of a file that is longer than `$4`.
const GATES: &str = "SELECT k.n, v.kind, v.size, e.off, e.len, e.skip, e.sum, e.data
    FROM unnest($2::text[], $3::text[]) WITH ORDINALITY k(dir, name, n)
    CROSS JOIN LATERAL (SELECT ino FROM garth.name
        WHERE account = $1 AND dir = k.dir AND name = k.name OFFSET 0) n
    CROSS JOIN LATERAL (SELECT kind, size FROM garth.node
        WHERE account = $1 AND ino = n.ino ORDER BY seq DESC LIMIT 1) v
    LEFT JOIN LATERAL (SELECT x.off, x.len, x.skip, c.sum, c.data FROM garth.extent x
        LEFT JOIN LATERAL (SELECT sum, data FROM garth.chunk
            WHERE account = $1 AND id = x.chunk OFFSET 0) c ON true
        WHERE x.account = $1 AND x.ino = n.ino AND x.off < v.size AND v.kind = 0
            AND v.size <= $4 OFFSET 0) e ON true";

/// Wanted rows, and the places of the statements that were sent for them.
pub(super) struct SentKeys {
    wanted: Wanted,
    ranges: Vec<(u64, u64, u64)>,
    places: [Option<usize>; 7],
}

impl SentKeys {
    /// Adds the statements that fetch rows. With `attributes`, nodes are fetched with theirs.
    pub(super) fn send(
        pipe: &mut Pipe<'_>,
        snapshot: &Snapshot<'_>,
        wanted: Wanted,
        attributes: bool,
    ) -> Self {
        let ranges = joined(&wanted.content);
        let Wanted { nodes, names, live, keys, lines, gates, content: _ } = &wanted;
        let mut places = [None; 7];
        let mut put = |at: usize, sql: &'static str, is_empty: bool, params: &dyn Fn() -> Vec<Param>| {
            if !is_empty && let Some(place) = places.get_mut(at) {
                *place = Some(pipe.query(sql, [snapshot.account()].into_iter().chain(params()).collect()));
            }
        };
        put(0, NODES, nodes.is_empty(), &|| vec![ints(nodes.iter().copied()), param(attributes, Type::BOOL)]);
        put(1, NAMES, names.is_empty(), &|| {
            let dirs = texts(names.values().map(|(dir, _)| dir.clone()));
            let after = texts(names.values().map(|(_, name)| name.clone()));
            vec![ints(names.keys().copied()), dirs, after, param(names_limit(names), Type::INT8)]
        });
        put(2, LIVE, live.is_empty(), &|| {
            vec![
                texts(live.iter().map(|(key, ..)| key.0.clone())),
                texts(live.iter().map(|(key, ..)| key.1.clone())),
                list(live.iter().map(|row| projection(row.1)), Type::INT4_ARRAY),
                list(live.iter().map(|row| row.2.clone().into_bytes()), Type::BYTEA_ARRAY),
            ]
        });
        put(3, KEYS, keys.is_empty(), &|| {
            vec![
                ints(keys.iter().map(|row| row.0)),
                list(keys.iter().map(|row| projection(row.1)), Type::INT4_ARRAY),
                list(keys.iter().map(|row| row.2.clone().into_bytes()), Type::BYTEA_ARRAY),
            ]
        });
        put(4, LINES, lines.is_empty(), &|| {
            vec![ints(lines.iter().map(|row| row.0)), ints(lines.iter().map(|row| row.1))]
        });
        put(5, CONTENT, ranges.is_empty(), &|| {
            let of = |take: fn(&(u64, u64, u64)) -> u64| ints(ranges.iter().map(take));
            vec![of(|range| range.0), of(|range| range.1), of(|range| range.2)]
        });
        put(6, GATES, gates.is_empty(), &|| {
            let dirs = texts(gates.iter().map(|(dir, _)| dir.clone()));
            let most = param(MAX_GATE_FILE.cast_signed(), Type::INT8);
            vec![dirs, texts(gates.iter().map(|(_, name)| name.clone())), most]
        });
        Self { wanted, ranges, places }
    }

    /// Puts the rows of the answers into the files.
    pub(super) fn put(self, files: &FetchedFiles<'_>, answers: &[Vec<Row>]) -> Result<()> {
        let Self { wanted, ranges, places: [nodes, names, live, keys, lines, content, gates] } = self;
        let Wanted { live: asked_live, keys: asked_keys, lines: asked_lines, gates: asked_gates, .. } =
            &wanted;
        let rows = |at: Option<usize>| at.and_then(|at| answers.get(at)).map_or(&[][..], Vec::as_slice);
        let mut state = files.state();
        put_nodes(&mut state, wanted.nodes.iter().copied(), rows(nodes))?;
        put_names(&mut state, wanted.names.keys().copied(), names_limit(&wanted.names), rows(names))?;
        put_live(&mut state, asked_live, rows(live))?;
        let mut found = BTreeSet::new();
        for row in rows(keys) {
            found.insert(place(row, 0)?);
        }
        let asked = asked_keys.iter().enumerate();
        state.keys.extend(asked.map(|(at, key)| (key.clone(), found.contains(&at))));
        let asked: Vec<&(u64, u64)> = asked_lines.iter().collect();
        for row in rows(lines) {
            if let Some(asked) = asked.get(place(row, 0)?) {
                state.lines.insert(**asked, number(row, 1)?);
            }
        }
        put_content(&mut state, &ranges, rows(content))?;
        put_gates(&mut state, asked_gates, rows(gates))
    }
}

/// Keys that decide about the files beside their own, in the directories of the files.
const DECIDING: &str = concat!(
    "SELECT d.dir, k.n, s.ino, v.expires_at, h.ino IS NOT NULL
    FROM (SELECT DISTINCT n.dir FROM ",
    of_passages!(),
    " CROSS JOIN LATERAL (SELECT dir FROM garth.name
        WHERE account = $1 AND ino = f.ino ORDER BY dir, name LIMIT $3) n) d
    CROSS JOIN unnest($4::text[], $5::int[], $6::bytea[]) WITH ORDINALITY k(name, projection, key, n)
    CROSS JOIN LATERAL (SELECT ino FROM garth.name
        WHERE account = $1 AND dir = d.dir AND name = k.name OFFSET 0) s
    CROSS JOIN LATERAL (SELECT expires_at FROM garth.node
        WHERE account = $1 AND ino = s.ino ORDER BY seq DESC LIMIT 1) v
    LEFT JOIN LATERAL ",
    has_key!("s.ino")
);

/// Passages that were asked for, with their files.
pub(super) struct SentPassages {
    passages: usize,
    nodes: usize,
    names: usize,
    deciding: Option<usize>,
    count: usize,
}

impl SentPassages {
    /// Adds the statements that fetch passages with their files, the names of these, and the keys beside them
    /// that decide about them.
    pub(super) fn send(
        pipe: &mut Pipe<'_>,
        snapshot: &Snapshot<'_>,
        ids: &[i64],
        (files, attributes): (&FetchedFiles<'_>, bool),
    ) -> Self {
        let keys = || vec![snapshot.account(), list(ids.iter().copied(), Type::INT8_ARRAY)];
        let with = |last: Param| keys().into_iter().chain([last]).collect::<Vec<Param>>();
        let passages = pipe.query(PASSAGES, keys());
        let nodes = pipe.query(NODES_OF_PASSAGES, with(param(attributes, Type::BOOL)));
        let few = || with(param(FEW_NAMES, Type::INT8));
        let names = pipe.query(NAMES_OF_PASSAGES, few());
        let by = files.registry().deciding();
        let deciding = (!by.is_empty()).then(|| {
            let names = texts(by.iter().map(|it| it.name.to_owned()));
            let projections = list(by.iter().map(|it| projection(it.projection.number())), Type::INT4_ARRAY);
            let of_node = list(by.iter().map(|it| it.key.as_bytes()), Type::BYTEA_ARRAY);
            pipe.query(DECIDING, few().into_iter().chain([names, projections, of_node]).collect())
        });
        Self { passages, nodes, names, deciding, count: ids.len() }
    }

    /// Puts the files into `files`. Returns the passages that exist, in the order in which they were asked
    /// for.
    pub(super) fn put(self, files: &FetchedFiles<'_>, answers: &[Vec<Row>]) -> Result<Vec<Passage>> {
        let rows = |at: usize| answers.get(at).map_or(&[][..], Vec::as_slice);
        let mut found = vec![None; self.count];
        for row in rows(self.passages) {
            if let Some(found) = found.get_mut(place(row, 0)?) {
                *found = Some(passage(row)?);
            }
        }
        let found: Vec<Passage> = found.into_iter().flatten().collect();
        let inos: BTreeSet<u64> = found.iter().map(|passage| passage.ino.0).collect();
        let mut state = files.state();
        put_nodes(&mut state, inos.iter().copied(), rows(self.nodes))?;
        // What an earlier round has fetched may be more.
        let new: Vec<u64> = inos.into_iter().filter(|ino| !state.names.contains_key(ino)).collect();
        put_names(&mut state, new.iter().copied(), FEW_NAMES, rows(self.names))?;
        if let Some(deciding) = self.deciding {
            put_deciding(&mut state, &new, files.registry().deciding(), rows(deciding))?;
        }
        Ok(found)
    }
}

/// Files whose text is not indexed yet.
pub(super) struct SentUnindexed {
    files: usize,
    names: Option<usize>,
}

impl SentUnindexed {
    /// Adds the statements that fetch the files, and their names if some paths are out of reach.
    pub(super) fn send(pipe: &mut Pipe<'_>, snapshot: &Snapshot<'_>, sees_everything: bool) -> Self {
        let params = || vec![snapshot.account(), param(UNINDEXED, Type::INT8)];
        let files = pipe.query(UNINDEXED_FILES, params());
        let names = (!sees_everything).then(|| {
            let limit = param(FEW_NAMES, Type::INT8);
            pipe.query(NAMES_OF_UNINDEXED, params().into_iter().chain([limit]).collect())
        });
        Self { files, names }
    }

    /// Puts the names into `files`. Returns the files.
    pub(super) fn put(self, files: &FetchedFiles<'_>, answers: &[Vec<Row>]) -> Result<Vec<u64>> {
        let rows = |at: usize| answers.get(at).map_or(&[][..], Vec::as_slice);
        let inos = rows(self.files).iter().map(|row| number(row, 0)).collect::<Result<Vec<u64>>>()?;
        if let Some(names) = self.names {
            put_names(&mut files.state(), inos.iter().copied(), FEW_NAMES, rows(names))?;
        }
        Ok(inos)
    }
}

/// Returns the number of a projection as the table has it.
fn projection(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

fn passage(row: &Row) -> Result<Passage> {
    let span = Span { off: number(row, 3)?, len: number(row, 4)?, newline: column(row, 6)? };
    let form = match column::<i16>(row, 7)? {
        0 => Form::Text,
        1 => Form::Json,
        _ => Form::JsonLines,
    };
    let (id, ino) = (column(row, 1)?, Ino(number(row, 2)?));
    Ok(Passage { id, ino, span, line_feeds: number(row, 5)?, form, words: number(row, 8)? })
}

/// Returns the limit on the names of each node. The first names of a node are mostly all of them.
fn names_limit(names: &BTreeMap<u64, Key>) -> i64 {
    let is_first = names.values().all(|(_, name)| name.is_empty());
    if is_first { FEW_NAMES } else { MORE_NAMES }
}

/// Puts the files among some nodes that have a name and have not expired.
fn put_nodes(state: &mut State, asked: impl Iterator<Item = u64>, rows: &[Row]) -> Result<()> {
    for ino in asked {
        state.nodes.entry(ino).or_insert(None);
    }
    for row in rows {
        let (ino, expires): (u64, Option<i64>) = (number(row, 0)?, column(row, 6)?);
        let has_expired = expires.is_some_and(|at| at <= state.now);
        if number(row, 2)? == 0 || has_expired {
            continue;
        }
        let (size, attributes) = (number(row, 3)?, number(row, 5)?);
        let version = VersionId { seq: Seq(number(row, 1)?), ino: Ino(ino) };
        let changed = Timestamp(column(row, 4)?);
        let node = FileNode { ino: Ino(ino), size, version, changed, attributes };
        state.nodes.insert(ino, Some(KnownFile { node, attributes: column(row, 7)? }));
    }
    Ok(())
}

/// Adds names to those that are known of some nodes. Each has up to `limit` rows.
fn put_names(state: &mut State, asked: impl Iterator<Item = u64>, limit: i64, rows: &[Row]) -> Result<()> {
    let mut found: HashMap<u64, Vec<&Row>> = HashMap::new();
    for row in rows {
        found.entry(number(row, 0)?).or_default().push(row);
    }
    for ino in asked {
        let rows = found.remove(&ino).unwrap_or_default();
        let KnownNames { paths, more_after } = state.names.entry(ino).or_default();
        let mut last: Option<Key> = None;
        for row in &rows {
            let (dir, name): (&str, &str) = (column(row, 1)?, column(row, 2)?);
            // The key of a very long directory is shortened.
            let long = column::<Option<&str>>(row, 3)?.unwrap_or(dir);
            paths.push(TreePath::from_row(long, name));
            last = Some((dir.to_owned(), name.to_owned()));
        }
        *more_after = last.filter(|_| rows.len() as i64 >= limit);
    }
    Ok(())
}

fn put_live(state: &mut State, asked: &BTreeSet<(Key, u32, String)>, rows: &[Row]) -> Result<()> {
    let asked: Vec<_> = asked.iter().collect();
    for (key, ..) in &asked {
        state.live.insert(key.clone(), None);
    }
    for row in rows {
        let Some((key, projection, of_node)) = asked.get(place(row, 0)?) else { continue };
        let (ino, expires): (u64, Option<i64>) = (number(row, 1)?, column(row, 2)?);
        if expires.is_none_or(|at| at > state.now) {
            state.live.insert(key.clone(), Some(ino));
            state.keys.insert((ino, *projection, of_node.clone()), column(row, 3)?);
        }
    }
    Ok(())
}

/// Puts keys that decide about files. Each of them is looked up in the directory of each name of the files.
fn put_deciding(state: &mut State, inos: &[u64], by: &[DecidingKey], rows: &[Row]) -> Result<()> {
    // A directory with a longer path has another key in the table.
    let is_short = |dir: &str| dir.len() <= MAX_DIR;
    let names = inos.iter().filter_map(|ino| state.names.get(ino));
    let dirs = names.flat_map(|names| &names.paths).filter_map(|path| path.key().rsplit_once('/'));
    let dirs: BTreeSet<String> =
        dirs.filter(|(dir, _)| is_short(dir)).map(|(dir, _)| dir.to_owned()).collect();
    for dir in dirs {
        for it in by {
            state.live.entry((dir.clone(), it.name.to_owned())).or_insert(None);
        }
    }
    for row in rows {
        let (dir, Some(it)) = (column::<&str>(row, 0)?, by.get(place(row, 1)?)) else { continue };
        let (ino, expires): (u64, Option<i64>) = (number(row, 2)?, column(row, 3)?);
        if is_short(dir) && expires.is_none_or(|at| at > state.now) {
            state.live.insert((dir.to_owned(), it.name.to_owned()), Some(ino));
            state.keys.insert((ino, it.projection.number(), it.key.to_owned()), column(row, 4)?);
        }
    }
    Ok(())
}

/// Puts the bytes of ranges, with zeros where a file has holes.
fn put_content(state: &mut State, ranges: &[(u64, u64, u64)], rows: &[Row]) -> Result<()> {
    let length = |first: u64, last: u64| usize::try_from(last - first).unwrap_or(0);
    let mut pieces: Vec<Vec<u8>> =
        ranges.iter().map(|(_, first, last)| vec![0; length(*first, *last)]).collect();
    for row in rows {
        let at = place(row, 0)?;
        let (Some((_, first, _)), Some(piece)) = (ranges.get(at), pieces.get_mut(at)) else { continue };
        copy(piece, number(row, 1)?.wrapping_sub(*first), row, 2)?;
    }
    for ((ino, first, _), piece) in ranges.iter().zip(pieces) {
        state.content.entry(*ino).or_default().push((*first, piece.into()));
    }
    Ok(())
}

fn put_gates(state: &mut State, asked: &BTreeSet<Key>, rows: &[Row]) -> Result<()> {
    let asked: Vec<&Key> = asked.iter().collect();
    state.gates.extend(asked.iter().map(|key| ((*key).clone(), None)));
    let mut found: BTreeMap<usize, Assembled> = BTreeMap::new();
    for row in rows {
        let (at, kind, size): (usize, i16, u64) = (place(row, 0)?, column(row, 1)?, number(row, 2)?);
        if kind != 0 || size > MAX_GATE_FILE {
            continue;
        }
        let content = found.entry(at).or_insert_with(|| Assembled::new(0, size));
        if column::<Option<i64>>(row, 3)?.is_some() {
            content.add_whole(row, 3)?;
        }
    }
    for (at, content) in found {
        if let Some(key) = asked.get(at) {
            // What cannot be read opens no gate, and must fail no search of other entries.
            state.gates.insert((*key).clone(), content.done().ok().map(Into::into));
        }
    }
    Ok(())
}

/// Copies the bytes of a column to a place in a piece of a file. The checksum is in the column behind it, if
/// they are a complete chunk.
fn copy(to: &mut [u8], at: u64, row: &Row, data: usize) -> Result<()> {
    let damaged = || Error::damaged("the content of a file is missing");
    let bytes: &[u8] = column::<Option<&[u8]>>(row, data)?.ok_or_else(damaged)?;
    if column::<Option<&[u8]>>(row, data + 1)?.is_some_and(|sum| !is_sound(sum, bytes)) {
        return Err(Error::damaged("the content of a file does not match its checksum"));
    }
    let at = usize::try_from(at).map_err(|_| damaged())?;
    let last = at.checked_add(bytes.len()).ok_or_else(damaged)?;
    to.get_mut(at..last).ok_or_else(damaged)?.copy_from_slice(bytes);
    Ok(())
}

/// Returns ranges of files with those joined that touch each other.
fn joined(ranges: &BTreeSet<(u64, u64, u64)>) -> Vec<(u64, u64, u64)> {
    let mut joined: Vec<(u64, u64, u64)> = Vec::with_capacity(ranges.len());
    for (ino, first, last) in ranges {
        match joined.last_mut() {
            Some((of, _, end)) if of == ino && first <= end => *end = (*end).max(*last),
            _ => joined.push((*ino, *first, *last)),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_touch_are_read_once() {
        let ranges = BTreeSet::from([(1, 0, 10), (1, 5, 7), (1, 10, 12), (1, 13, 14), (2, 0, 1)]);
        assert_eq!(joined(&ranges), [(1, 0, 12), (1, 13, 14), (2, 0, 1)]);
    }
}
