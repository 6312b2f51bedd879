//! Keys of one round of the planner, the statements that fetch their rows, and the values in the answers: one
//! statement for each kind of key, all sent together.

use std::collections::{BTreeSet, HashMap};
use std::mem::take;

use garth_engine::engine::planner::{ExtentRow, Key, Region, RowKey, RowStore, RowValue, Stored};
use garth_engine::model::{Attributes, CommitId, Kind, Within};
use garth_engine::rule::Digest;
use garth_engine::{Error, ErrorKind, Result};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::derived::DerivedKeys;
use super::records::Due;
use super::round::{Round, Sent};
use super::{past, present, records};
use crate::client::{Pipe, param};
use crate::values::columns::{attributes, column, extent, name, newest_columns, newest_node, number, place};
use crate::values::parameters::{ints, texts};

// Each of these statements goes from the keys, which are in arrays, to the rows: LATERAL with OFFSET 0 (or
// LIMIT) keeps the database from choosing another order. For a plain join it reads all rows of the account,
// as long as it has no statistics of the table: 150 to 242 ms, in place of 0.2 to 0.4 ms.
//
// A bound of an index that is looked up is a query as a whole, with any `coalesce` inside of it: for a table
// with row-level security, the database takes `coalesce(...)` for an expression that may show hidden rows,
// and reads the index without the bound.

/// Names with their nodes. By path, a commit so takes two round trips, and not three.
const NAMES: &str = concat!(
    "SELECT k.n, n.ino, n.since, n.kind, ",
    newest_columns!(),
    " FROM unnest($2::text[], $3::text[]) WITH ORDINALITY k(dir, name, n)
    CROSS JOIN LATERAL (SELECT ino, since, kind FROM garth.name
        WHERE account = $1 AND dir = k.dir AND name = k.name OFFSET 0) n
    LEFT JOIN LATERAL (SELECT * FROM garth.node
        WHERE account = $1 AND ino = n.ino ORDER BY seq DESC LIMIT 1) v ON true
    LEFT JOIN LATERAL (SELECT seq, time FROM garth.dir_time
        WHERE account = $1 AND ino = n.ino AND n.kind = 1 OFFSET 0) t ON true"
);
const NODES: &str = concat!(
    "SELECT ",
    newest_columns!(),
    " FROM unnest($2::bigint[]) k(ino)
    CROSS JOIN LATERAL (SELECT * FROM garth.node
        WHERE account = $1 AND ino = k.ino ORDER BY seq DESC LIMIT 1) v
    LEFT JOIN LATERAL (SELECT seq, time FROM garth.dir_time
        WHERE account = $1 AND ino = v.ino AND v.kind = 1 OFFSET 0) t ON true"
);
/// Attributes that nodes had after commits. A version may have been removed from the past, while the
/// attributes that it set are in use: then its own are read. The largest commit asks for the newest version.
const ATTRIBUTES: &str = "SELECT k.n, s.seq, a.json
    FROM unnest($2::bigint[], $3::bigint[]) WITH ORDINALITY k(ino, seq, n)
    LEFT JOIN LATERAL (SELECT attrs_seq FROM garth.node
        WHERE account = $1 AND ino = k.ino AND seq <= k.seq ORDER BY seq DESC LIMIT 1) v ON true
    CROSS JOIN LATERAL (SELECT coalesce(v.attrs_seq, nullif(k.seq, 9223372036854775807), 0) AS seq OFFSET 0) s
    LEFT JOIN LATERAL (SELECT json FROM garth.attribute
        WHERE account = $1 AND ino = k.ino AND seq = s.seq OFFSET 0) a ON true";
/// Live extents that overlap ranges. Live extents do not overlap each other, so the last one that begins at
/// or before a range is the first that can reach into it: the index is read from there on, not from byte 0.
const EXTENTS: &str = "SELECT k.n, e.off, e.len, e.since, e.chunk, e.skip, e.older
    FROM unnest($2::bigint[], $3::bigint[], $4::bigint[]) WITH ORDINALITY k(ino, first, last, n)
    CROSS JOIN LATERAL (SELECT off, len, since, chunk, skip, older FROM garth.extent
        WHERE account = $1 AND ino = k.ino AND off < k.last AND off + len > k.first
            AND off >= (SELECT coalesce(max(o.off), 0) FROM garth.extent o
                WHERE o.account = $1 AND o.ino = k.ino AND o.off <= k.first)
        OFFSET 0) e";
/// All live extents of the files at paths: a write over a file needs no round of its own for them.
const EXTENTS_BY_NAME: &str = "SELECT k.n, e.off, e.len, e.since, e.chunk, e.skip, e.older
    FROM unnest($2::text[], $3::text[]) WITH ORDINALITY k(dir, name, n)
    CROSS JOIN LATERAL (SELECT ino FROM garth.name
        WHERE account = $1 AND dir = k.dir AND name = k.name AND kind = 0 OFFSET 0) f
    CROSS JOIN LATERAL (SELECT off, len, since, chunk, skip, older FROM garth.extent
        WHERE account = $1 AND ino = f.ino OFFSET 0) e";
/// Chunks by their hash. The condition on the length is that of the index.
const STORED: &str =
    "SELECT sum, id FROM garth.chunk WHERE account = $1 AND sum = ANY($2) AND octet_length(sum) = 32";

/// Keys of a round, by kind.
#[derive(Default)]
pub(super) struct Wanted {
    names: Vec<Key>,
    /// Files whose extents are fetched by path.
    content: Vec<Key>,
    nodes: Vec<u64>,
    attributes: Vec<(u64, u64)>,
    extents: Vec<(u64, u64, u64)>,
    stored: Vec<Vec<u8>>,
    names_in: Vec<(String, usize)>,
    names_below: Vec<(Region, usize)>,
    longest_paths: Vec<Region>,
    expired: Vec<(Region, i64)>,
    names_of: Vec<(u64, Within, usize)>,
    past: WantedPast,
    judged: Vec<(u64, Digest)>,
    chunks: Vec<u64>,
    staged: Vec<u128>,
    snapshots: Vec<(String, String)>,
    committed: Vec<(String, CommitId)>,
    idempotency: Vec<(String, String)>,
    quotas: bool,
    tallies: Vec<Vec<(String, String)>>,
    due: Vec<Due>,
    derived: DerivedKeys,
    /// Keys that this engine does not fetch yet.
    other: Vec<RowKey>,
}

/// Keys of rows of the past.
#[derive(Default)]
struct WantedPast {
    times: Vec<u64>,
    names: Vec<(Key, u64)>,
    names_below: Vec<(String, u64, usize)>,
    names_of: Vec<(u64, u64, Within)>,
    nodes: Vec<(u64, u64)>,
    extents: Vec<(u64, u64, u64, u64)>,
}

/// Places of the statements of a round in its answers; `None` for those that were not sent.
#[derive(Default)]
pub(super) struct Places {
    names: Option<usize>,
    content: Option<usize>,
    nodes: Option<usize>,
    attributes: Option<usize>,
    extents: Option<usize>,
    stored: Option<usize>,
    others: Sent,
}

impl Wanted {
    /// Sorts keys by kind. `content` are files whose extents are fetched by path, and `derived` takes the
    /// keys of derived rows.
    pub(super) fn new(keys: Vec<RowKey>, content: BTreeSet<Key>, derived: DerivedKeys) -> Self {
        let mut wanted = Self { content: content.into_iter().collect(), derived, ..Self::default() };
        for key in keys {
            wanted.add(key);
        }
        // In the order of their indexes, which they so read from one end to the other.
        wanted.names.sort_unstable();
        wanted.nodes.sort_unstable();
        wanted.extents.sort_unstable();
        wanted
    }

    fn add(&mut self, key: RowKey) {
        let past = &mut self.past;
        match key {
            RowKey::Name(dir, name) => self.names.push((dir, name)),
            RowKey::NamesIn(dir, limit) => self.names_in.push((dir, limit)),
            RowKey::NamesBelow(region, limit) => self.names_below.push((region, limit)),
            RowKey::LongestPath(region) => self.longest_paths.push(region),
            RowKey::ExpiredIn(region, time) => self.expired.push((region, time)),
            RowKey::NamesOf(ino, within, limit) => self.names_of.push((ino, within, limit)),
            RowKey::Node(ino) => self.nodes.push(ino),
            RowKey::Attributes(ino, seq) => self.attributes.push((ino, seq)),
            RowKey::Extents(ino, from, to) => self.extents.push((ino, from, to)),
            RowKey::Stored(hash) => self.stored.push(hash),
            RowKey::TimeOf(seq) => past.times.push(seq),
            RowKey::NameAt(dir, name, seq) => past.names.push(((dir, name), seq)),
            RowKey::NamesBelowAt(dir, seq, limit) => past.names_below.push((dir, seq, limit)),
            RowKey::NamesOfAt(ino, seq, within) => past.names_of.push((ino, seq, within)),
            RowKey::NodeAt(ino, seq) => past.nodes.push((ino, seq)),
            RowKey::ExtentsAt(ino, seq, from, to) => past.extents.push((ino, seq, from, to)),
            RowKey::Judged(ino, digest) => self.judged.push((ino, digest)),
            RowKey::Chunk(id) => self.chunks.push(id),
            RowKey::Staged(id) => self.staged.push(id),
            RowKey::Snapshot(owner, name) => self.snapshots.push((owner, name)),
            RowKey::Committed(owner, id) => self.committed.push((owner, id)),
            RowKey::Idempotency(owner, key) => self.idempotency.push((owner, key)),
            RowKey::Quotas => self.quotas = true,
            RowKey::Tally(ranges) => self.tallies.push(ranges),
            RowKey::Due(time, within, after, limit) => self.due.push((time, within, after, limit)),
            // `IsOpen` is asked of the handle of each batch.
            other => self.other.extend(self.derived.add(other)),
        }
    }

    /// Adds the statements that fetch the rows.
    pub(super) fn send(&mut self, pipe: &mut Pipe<'_>, account: i64) -> Places {
        let mut round = Round { pipe: &mut *pipe, account, sent: Sent::default() };
        self.send_others(&mut round);
        let mut places = Places { others: round.sent, ..Places::default() };
        let account = || param(account, Type::INT8);
        let keys = |keys: &[Key]| {
            let dirs = texts(keys.iter().map(|(dir, _)| dir.clone()));
            vec![account(), dirs, texts(keys.iter().map(|(_, name)| name.clone()))]
        };
        if !self.names.is_empty() {
            places.names = Some(pipe.query(NAMES, keys(&self.names)));
        }
        if !self.content.is_empty() {
            places.content = Some(pipe.query(EXTENTS_BY_NAME, keys(&self.content)));
        }
        if !self.nodes.is_empty() {
            let params = vec![account(), ints(self.nodes.iter().copied())];
            places.nodes = Some(pipe.query(NODES, params));
        }
        if !self.attributes.is_empty() {
            let of = |take: fn(&(u64, u64)) -> u64| ints(self.attributes.iter().map(take));
            let params = vec![account(), of(|key| key.0), of(|key| key.1)];
            places.attributes = Some(pipe.query(ATTRIBUTES, params));
        }
        if !self.extents.is_empty() {
            let of = |take: fn(&(u64, u64, u64)) -> u64| ints(self.extents.iter().map(take));
            let params = vec![account(), of(|key| key.0), of(|key| key.1), of(|key| key.2)];
            places.extents = Some(pipe.query(EXTENTS, params));
        }
        if !self.stored.is_empty() {
            let params = vec![account(), param(self.stored.clone(), Type::BYTEA_ARRAY)];
            places.stored = Some(pipe.query(STORED, params));
        }
        places
    }

    fn send_others(&mut self, round: &mut Round<'_, '_>) {
        present::names_in(round, take(&mut self.names_in));
        present::names_below(round, take(&mut self.names_below));
        present::longest_paths(round, take(&mut self.longest_paths));
        present::expired(round, take(&mut self.expired));
        present::names_of(round, take(&mut self.names_of));
        past::times(round, take(&mut self.past.times));
        past::names(round, take(&mut self.past.names));
        past::names_below(round, take(&mut self.past.names_below));
        past::names_of(round, take(&mut self.past.names_of));
        past::nodes(round, take(&mut self.past.nodes));
        past::extents(round, take(&mut self.past.extents));
        records::judged(round, take(&mut self.judged));
        records::chunks(round, take(&mut self.chunks));
        records::staged(round, take(&mut self.staged));
        records::snapshots(round, take(&mut self.snapshots));
        records::committed(round, take(&mut self.committed));
        records::idempotency(round, take(&mut self.idempotency));
        if take(&mut self.quotas) {
            records::quotas(round);
        }
        records::tallies(round, take(&mut self.tallies));
        for key in take(&mut self.due) {
            records::due(round, key);
        }
        take(&mut self.derived).fetch(round);
    }

    /// Puts the values of all keys into the store.
    pub(super) fn put(self, store: &mut RowStore, places: Places, answers: &[Vec<Row>]) -> Result<()> {
        let rows =
            |place: Option<usize>| place.and_then(|place| answers.get(place)).map_or(&[][..], Vec::as_slice);
        put_names(store, &self.names, &self.content, (rows(places.names), rows(places.content)))?;
        put_nodes(store, &self.nodes, rows(places.nodes))?;
        put_attributes(store, &self.attributes, rows(places.attributes))?;
        let mut extents = extents_by_key(self.extents.len(), rows(places.extents))?;
        for (place, (ino, from, to)) in self.extents.into_iter().enumerate() {
            let rows = extents.remove(&place).unwrap_or_default();
            store.put(RowKey::Extents(ino, from, to), Ok(RowValue::Extents(rows)));
        }
        let mut stored = HashMap::new();
        for row in rows(places.stored) {
            stored.insert(column::<Vec<u8>>(row, 0)?, number(row, 1)?);
        }
        for hash in self.stored {
            // Damage is found by the check of an account, not by each write.
            let found = stored.get(&hash).map_or(Stored::Nothing, |id| Stored::Sound(*id));
            store.put(RowKey::Stored(hash), Ok(RowValue::Stored(found)));
        }
        places.others.put(store, answers)?;
        for key in self.other {
            // Mostly it was prefetched only, for rows that are derived later. A batch that reads it fails.
            let message = "this engine cannot read all rows yet that the operation needs";
            let error = unsupported(message).with_source(format!("no statement fetches {key:?}"));
            store.put(key, Err(error));
        }
        Ok(())
    }
}

/// Returns the error of what is not built yet.
pub(super) fn unsupported(message: &str) -> Error {
    Error::new(ErrorKind::Unsupported, message)
}

/// Puts names with their nodes, and the extents of the files among them that were fetched by path.
fn put_names(
    store: &mut RowStore,
    names: &[Key],
    content: &[Key],
    (rows, extents): (&[Row], &[Row]),
) -> Result<()> {
    let mut found = HashMap::new();
    for row in rows {
        let Some(key) = names.get(place(row, 0)?) else { continue };
        let name = name(row, 1)?;
        found.insert(key, name);
        // Only damage leaves a name without a node.
        let node = newest_node(row, 4)?;
        store.put(RowKey::Node(name.ino), Ok(RowValue::NewestNode(node)));
    }
    for key in names {
        let (dir, name) = key.clone();
        store.put(RowKey::Name(dir, name), Ok(RowValue::Name(found.get(key).copied())));
    }
    let mut extents = extents_by_key(content.len(), extents)?;
    for (place, key) in content.iter().enumerate() {
        // The name of the file was asked for in the same round.
        if let Some(name) = found.get(key).filter(|name| name.kind == Kind::File) {
            let rows = extents.remove(&place).unwrap_or_default();
            store.put(RowKey::Extents(name.ino, 0, u64::MAX), Ok(RowValue::Extents(rows)));
        }
    }
    Ok(())
}

fn put_nodes(store: &mut RowStore, inos: &[u64], rows: &[Row]) -> Result<()> {
    let mut found = HashMap::new();
    for row in rows {
        found.extend(newest_node(row, 0)?.map(|node| (node.row.ino, node)));
    }
    for ino in inos {
        store.put(RowKey::Node(*ino), Ok(RowValue::NewestNode(found.remove(ino))));
    }
    Ok(())
}

fn put_attributes(store: &mut RowStore, keys: &[(u64, u64)], rows: &[Row]) -> Result<()> {
    let mut found = HashMap::new();
    for row in rows {
        let (seq, json) = (number(row, 1)?, column::<Option<&str>>(row, 2)?);
        // Damage fails only the batches that read the attributes.
        let value = attributes(seq, json).map(|attributes| RowValue::Attributes { seq, attributes });
        found.insert(place(row, 0)?, value);
    }
    for (place, (ino, seq)) in keys.iter().enumerate() {
        let value = found.remove(&place).unwrap_or_else(|| match *seq {
            u64::MAX => Ok(RowValue::Attributes { seq: 0, attributes: Attributes::default() }),
            // A version of the node told that it has attributes of that commit.
            _ => Err(Error::damaged("a version of a node is missing")),
        });
        store.put(RowKey::Attributes(*ino, *seq), value);
    }
    Ok(())
}

/// Returns the extents of each key by its place, in order. `count` is the number of keys.
fn extents_by_key(count: usize, rows: &[Row]) -> Result<HashMap<usize, Vec<ExtentRow>>> {
    let mut extents: HashMap<usize, Vec<ExtentRow>> = HashMap::with_capacity(count);
    for row in rows {
        extents.entry(place(row, 0)?).or_default().push(extent(row, 1)?);
    }
    for rows in extents.values_mut() {
        rows.sort_unstable_by_key(|row| row.off);
    }
    Ok(extents)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use garth_engine::engine::planner::Rows as _;
    use garth_engine::rule::Rules;

    use super::*;

    #[test]
    fn keys_are_sorted_by_kind() {
        let names = ["b", "a"].map(|name| RowKey::Name("/d".to_owned(), name.to_owned()));
        let keys = names.into_iter().chain([RowKey::Node(7), RowKey::Quotas, RowKey::IsOpen(7)]).collect();
        let content = BTreeSet::from([("/d".to_owned(), "c".to_owned())]);
        let wanted = Wanted::new(keys, content, DerivedKeys::default());
        assert_eq!(wanted.names.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!((wanted.nodes, wanted.quotas, wanted.other), (vec![7], true, vec![RowKey::IsOpen(7)]));
        assert_eq!(wanted.content.len(), 1);
    }

    #[test]
    fn rows_that_were_not_found_are_absent_and_not_missed() {
        let keys = vec![
            RowKey::Name(String::new(), "a".to_owned()),
            RowKey::Node(9),
            RowKey::Attributes(9, u64::MAX),
            RowKey::Extents(9, 0, 5),
            RowKey::Stored(vec![1; 32]),
        ];
        let mut store = RowStore::new(Arc::new(Rules::none()));
        let wanted = Wanted::new(keys, BTreeSet::new(), DerivedKeys::default());
        wanted.put(&mut store, Places::default(), &[]).unwrap();
        assert_eq!(store.name("", "a").unwrap(), None);
        assert_eq!(store.newest_node(9).unwrap(), None);
        assert_eq!(store.extents(9, 0, 5).unwrap(), []);
        assert_eq!(store.stored(&[1; 32]).unwrap(), Stored::Nothing);
        assert!(!store.missed());
    }
}
