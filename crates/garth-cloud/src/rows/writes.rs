//! Row changes of a group: one statement for each table, whatever the number of batches.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bytes::Bytes;
use garth_engine::engine::planner::{
    Delta, EndedTimes, ExtentRow, HeadRow, Key, NameChange, NodeRow, NodeWrite,
};
use garth_engine::engine::relational::open_nodes::OpenNodes;
use garth_engine::engine::relational::{answer_column, changes_column};
use garth_engine::model::{Author, Batch, Commit};
use garth_engine::{Error, ErrorKind, Result};
use tokio_postgres::types::Type;

use super::derived::DerivedWrites;
use super::name_writes::NameWrites;
use super::record_writes::RecordWrites;
use super::references;
use super::target::Target;
use crate::arriving::NUMBER_CHUNKS;
use crate::client::{Param, Pipe, param};
use crate::values::columns::{MAX_DIR, int, kind_number, older};
use crate::values::labels;
use crate::values::parameters::{Blob, ints, list, signed, texts};
use crate::weights::{self, PASSAGE, ROW};

const NODES: &str = "INSERT INTO garth.node (account, ino, seq, kind, mode, uid, gid, rdev, nlink, size, mtime,
        ctime, birthtime, atime, target, attrs_seq, expires_at, content_seq)
    SELECT $1, * FROM unnest($2::bigint[], $3::bigint[], $4::smallint[], $5::int[], $6::bigint[], $7::bigint[],
        $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[],
        $15::text[], $16::bigint[], $17::bigint[], $18::bigint[])";
const ATTRIBUTES: &str = "INSERT INTO garth.attribute (account, ino, seq, json)
    SELECT $1, * FROM unnest($2::bigint[], $3::bigint[], $4::text[])";
const ENDED_TIMES: &str = "INSERT INTO garth.dir_time_past (account, fork, ino, since, till, time)
    SELECT $1, garth.fork(since, till), ino, since, till, time
    FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[]) k(ino, since, till, time)";
const TIMES: &str = "INSERT INTO garth.dir_time (account, ino, seq, time)
    SELECT $1, * FROM unnest($2::bigint[], $3::bigint[], $4::bigint[])
    ON CONFLICT (account, ino) DO UPDATE SET seq = excluded.seq, time = excluded.time";
const NO_TIMES: &str = "DELETE FROM garth.dir_time WHERE account = $1 AND ino = ANY($2)";
const REPLACED: &str = "INSERT INTO garth.replaced (account, seq, ino)
    SELECT $1, * FROM unnest($2::bigint[], $3::bigint[]) ON CONFLICT DO NOTHING";
const CHUNKS: &str = "INSERT INTO garth.chunk (account, id, sum, len, data)
    SELECT $1, * FROM unnest($2::bigint[], $3::bytea[], $4::bigint[], $5::bytea[])";
const ENDED_EXTENTS: &str =
    "INSERT INTO garth.extent_past (account, ino, till, off, len, since, chunk, skip, older)
    SELECT $1, * FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
        $8::bigint[], $9::bigint[])";
// By the places of the rows, which the keys lead to: a join with the keys may read all extents of the files.
const NO_EXTENTS: &str = "DELETE FROM garth.extent WHERE account = $1 AND ctid = ANY(ARRAY(
    SELECT e.ctid FROM unnest($2::bigint[], $3::bigint[]) k(ino, off)
    CROSS JOIN LATERAL (SELECT ctid FROM garth.extent
        WHERE account = $1 AND ino = k.ino AND off = k.off OFFSET 0) e))";
// A row that ends is written over in place where a new one begins at its offset. With live and past extents
// in one table, whose key has the end, the row moves in the index: 513 bytes of WAL in place of 430.
const EXTENTS: &str = "INSERT INTO garth.extent (account, ino, off, len, since, chunk, skip, older)
    SELECT $1, * FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
        $8::bigint[])
    ON CONFLICT (account, ino, off) DO UPDATE SET len = excluded.len, since = excluded.since,
        chunk = excluded.chunk, skip = excluded.skip, older = excluded.older";
const EXPIRY: &str = "INSERT INTO garth.expiry (account, ino, at)
    SELECT $1, * FROM unnest($2::bigint[], $3::bigint[])
    ON CONFLICT (account, ino) DO UPDATE SET at = excluded.at";
const NO_EXPIRY: &str = "DELETE FROM garth.expiry WHERE account = $1 AND ino = ANY($2)";
const LOG: &str =
    "INSERT INTO garth.log (account, seq, time, owner, id, author, session, message, token, overrides,
        changes, answer)
    SELECT $1, k.seq, k.time, coalesce((SELECT id FROM garth.owner WHERE account = $1 AND hash = k.owner), 0),
        k.id::uuid, k.author, k.session, k.message, k.token, k.overrides, k.changes, k.answer
    FROM unnest($2::bigint[], $3::bigint[], $4::bytea[], $5::text[], $6::text[], $7::bytea[], $8::bytea[],
        $9::bytea[], $10::boolean[], $11::text[], $12::text[])
        k(seq, time, owner, id, author, session, message, token, overrides, changes, answer)";
// An earlier commit with an id is before the oldest readable state, or the batch would be a repeat of it.
const NO_IDS: &str = "UPDATE garth.log SET id = NULL WHERE account = $1 AND seq = ANY(ARRAY(
    SELECT l.seq FROM unnest($2::bytea[], $3::text[]) k(owner, id)
    CROSS JOIN LATERAL (SELECT seq FROM garth.log WHERE account = $1 AND id = k.id::uuid
        AND owner = (SELECT coalesce(max(id), 0) FROM garth.owner WHERE account = $1 AND hash = k.owner)
        OFFSET 0) l))";
const LOG_MORE: &str = "INSERT INTO garth.log_more (account, seq, first, changes)
    SELECT $1, * FROM unnest($2::bigint[], $3::bigint[], $4::text[])";
const HEAD: &str =
    "UPDATE garth.head SET seq = $2, time = $3, next_ino = $4, next_chunk = $5, next_passage = $6,
    passages = passages + $7, stored = stored + $8, unindexed = greatest(unindexed, $9) WHERE account = $1";

/// Row of the log.
struct LogRow {
    seq: u64,
    time: i64,
    /// Hash of the owner.
    owner: Vec<u8>,
    id: Option<String>,
    author: Option<String>,
    session: Option<Vec<u8>>,
    message: Option<Vec<u8>>,
    overrides: bool,
    changes: String,
    answer: Option<String>,
}

/// Values of a batch that may fail to be written as text.
pub struct BatchTexts {
    log: LogRow,
    /// Changes that do not fit into the row of the log.
    more: Vec<(usize, String)>,
    /// Attributes by inode.
    attributes: Vec<(u64, String)>,
}

impl BatchTexts {
    /// Returns the texts of a planned batch. `head` is the head row after it. `can_move` is false if it moves
    /// a directory to where paths get too long.
    ///
    /// # Errors
    /// `NameTooLong` for a directory whose path is too long for an index; `InvalidArgument` for an author or
    /// attributes that cannot be stored.
    pub fn new(
        delta: &Delta,
        head: &HeadRow,
        (batch, commit): (&Batch, &Commit),
        can_move: bool,
    ) -> Result<Self> {
        check(delta, can_move)?;
        let (log, more) = log_row(delta, head, (batch, commit))?;
        let mut attributes = Vec::new();
        for (ino, set) in &delta.attributes {
            let refused = |e| Error::invalid("the attributes cannot be stored").with_source(e);
            attributes.push((*ino, serde_json::to_string(set).map_err(refused)?));
        }
        Ok(Self { log, more, attributes })
    }
}

/// Numbers and ids of the transaction that writes.
pub(super) struct Writer<'t> {
    pub(super) account: i64,
    /// Head row after the changes.
    pub(super) head: HeadRow,
    pub(super) next_passage: u64,
    /// Random id of the transaction.
    pub(super) token: &'t [u8],
    /// Nodes that this process holds open.
    pub(super) open: &'t OpenNodes,
    /// Numbers of chunks that were written before the transaction, by hash.
    pub(super) ahead: &'t HashMap<Vec<u8>, i64>,
}

/// Row changes of a group.
#[derive(Default)]
pub struct Writes {
    names: NameWrites,
    records: RecordWrites,
    nodes: Vec<NodeRow>,
    attributes: Vec<(u64, u64, String)>,
    ended_times: Vec<(u64, EndedTimes)>,
    /// Newest times of directories; `None` if a row of `node` has them.
    times: BTreeMap<u64, Option<(u64, i64)>>,
    replaced: BTreeSet<(u64, u64)>,
    chunks: Vec<(u64, Vec<u8>, Bytes)>,
    /// Live extents that the group has written, by inode and offset.
    live: BTreeMap<(u64, u64), ExtentRow>,
    /// Inode and offset of each extent of the database that the group has ended.
    closed: BTreeSet<(u64, u64)>,
    /// Ended extents, with inode and the commit that ended them.
    ended: Vec<(u64, u64, ExtentRow)>,
    refs: BTreeMap<u64, i64>,
    expiry: BTreeMap<u64, Option<i64>>,
    log: Vec<LogRow>,
    log_more: Vec<(u64, u64, String)>,
    derived: DerivedWrites,
    /// Bytes that the new rows count for, apart from those of the search index.
    stored: i64,
    /// Bytes that the search index is expected to add.
    index: u64,
}

impl Writes {
    /// Returns changes of derived rows only.
    pub fn of(derived: DerivedWrites) -> Self {
        Self { derived, ..Self::default() }
    }

    /// Sets the changes of derived rows that follow from all batches.
    pub fn derive(&mut self, derived: DerivedWrites) {
        self.derived = derived;
    }

    /// Adds the rows of a batch, which was planned after those that were added before. `seq` is its commit.
    pub fn add(&mut self, delta: &Delta, seq: u64, batch: &Batch, texts: BatchTexts) {
        let BatchTexts { log, more, attributes } = texts;
        self.count_texts(delta, &log, &more, &attributes);
        self.attributes.extend(attributes.into_iter().map(|(ino, json)| (ino, seq, json)));
        self.log.push(log);
        self.log_more.extend(more.into_iter().map(|(first, json)| (seq, first as u64, json)));
        self.names.add(delta, seq);
        self.records.add(delta, seq, batch);
        for (node, write) in delta.node_writes() {
            self.node(node, *write);
        }
        for chunk in delta.chunks.values() {
            self.count(chunk.data.len() as u64);
            self.chunks.push((chunk.id, chunk.sum.clone(), chunk.data.clone()));
        }
        for (ino, change) in &delta.extents {
            for (off, row) in &change.closed {
                // The database has no row of an extent that an earlier batch of the group has written.
                if self.live.remove(&(*ino, *off)).is_none() {
                    self.closed.insert((*ino, *off));
                }
                self.ended.push((*ino, seq, *row));
            }
            // Those that ended go on in the past.
            self.count(ROW.saturating_mul(change.added.len() as u64));
            self.live.extend(change.added.values().map(|row| ((*ino, row.off), *row)));
        }
        for (chunk, by) in delta.references() {
            *self.refs.entry(chunk).or_default() += by;
        }
        self.expiry.extend(delta.expiry.iter().map(|(ino, at)| (*ino, *at)));
    }

    /// Returns the bytes that the rows of the group count for, those of its search index only once this is
    /// derived.
    pub(super) fn stored(&self) -> i64 {
        self.stored.saturating_add(self.derived.passages_change().saturating_mul(int(PASSAGE)))
    }

    /// Returns the bytes that the search index of the group is expected to add.
    pub(super) fn expected_index(&self) -> u64 {
        self.index
    }

    /// Adds to the bytes that the search index of the group is expected to add.
    pub(super) fn expect_index(&mut self, bytes: u64) {
        self.index = self.index.saturating_add(bytes);
    }

    fn count(&mut self, bytes: u64) {
        self.stored = self.stored.saturating_add(int(bytes));
    }

    /// Counts the names, attributes and commit of a batch.
    fn count_texts(
        &mut self,
        delta: &Delta,
        log: &LogRow,
        more: &[(usize, String)],
        attributes: &[(u64, String)],
    ) {
        // Those that ended go on in the past.
        for (dir, name) in delta.names.iter().filter(|(_, it)| it.after.is_some()).map(|(key, _)| key) {
            self.count(weights::name(dir, name));
        }
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let message = log.message.as_ref().map_or(0, Vec::len);
        self.count(weights::row([log.changes.len(), text(&log.author), message, text(&log.answer)]));
        more.iter().for_each(|(_, json)| self.count(weights::row([json.len()])));
        attributes.iter().for_each(|(_, json)| self.count(weights::row([json.len()])));
    }

    fn node(&mut self, node: &NodeRow, write: NodeWrite) {
        let (NodeWrite::Times { ended } | NodeWrite::Row { ended, .. }) = write;
        self.ended_times.extend(ended.map(|ended| (node.ino, ended)));
        match write {
            NodeWrite::Times { .. } => {
                self.times.insert(node.ino, Some((node.seq, node.mtime)));
            }
            NodeWrite::Row { drops_times, replaced, .. } => {
                if drops_times {
                    self.times.insert(node.ino, None);
                }
                if replaced {
                    self.replaced.insert((node.seq, node.ino));
                }
                self.count(weights::row([node.target.as_ref().map_or(0, String::len)]));
                self.nodes.push(node.clone());
            }
        }
    }

    /// Adds the statements that write the rows. Returns the number of the next passage.
    pub(super) fn send(self, pipe: &mut Pipe<'_>, writer: &Writer<'_>) -> u64 {
        let Writer { account, head, next_passage, .. } = *writer;
        let mut to = Target { pipe, account };
        let (passages, stored) = (self.derived.new_passages(), self.stored);
        to.pipe.query(
            HEAD,
            vec![
                param(account, Type::INT8),
                param(int(head.seq), Type::INT8),
                param(head.time, Type::INT8),
                param(int(head.next_ino), Type::INT8),
                param(int(head.next_chunk), Type::INT8),
                param(int(next_passage + passages), Type::INT8),
                param(self.derived.passages_change(), Type::INT8),
                param(stored, Type::INT8),
                param(i64::from(self.derived.leaves_text()), Type::INT8),
            ],
        );
        self.records.send_owners(&mut to);
        self.send_tree(&mut to);
        self.names.send(&mut to);
        self.send_times(&mut to);
        self.send_content(&mut to, writer.ahead);
        self.send_log(&mut to, writer);
        self.records.send(&mut to, writer.open);
        self.derived.send(&mut to, next_passage);
        next_passage + passages
    }

    fn send_tree(&self, to: &mut Target<'_, '_>) {
        let nodes = &self.nodes;
        to.put(NODES, nodes.is_empty(), || {
            let times = |take: fn(&NodeRow) -> i64| signed(nodes.iter().map(take));
            vec![
                ints(nodes.iter().map(|node| node.ino)),
                ints(nodes.iter().map(|node| node.seq)),
                list(nodes.iter().map(|node| kind_number(node.kind)), Type::INT2_ARRAY),
                list(nodes.iter().map(|node| node.mode.cast_signed()), Type::INT4_ARRAY),
                ints(nodes.iter().map(|node| node.uid.into())),
                ints(nodes.iter().map(|node| node.gid.into())),
                signed(nodes.iter().map(|node| node.rdev.cast_signed())),
                ints(nodes.iter().map(|node| node.nlink)),
                ints(nodes.iter().map(|node| node.size)),
                times(|node| node.mtime),
                times(|node| node.ctime),
                times(|node| node.birthtime),
                times(|node| node.atime),
                list(nodes.iter().map(|node| node.target.clone()), Type::TEXT_ARRAY),
                ints(nodes.iter().map(|node| node.attrs_seq)),
                list(nodes.iter().map(|node| node.expires_at), Type::INT8_ARRAY),
                ints(nodes.iter().map(|node| node.content_seq)),
            ]
        });
        let attributes = &self.attributes;
        to.put(ATTRIBUTES, attributes.is_empty(), || {
            vec![
                ints(attributes.iter().map(|row| row.0)),
                ints(attributes.iter().map(|row| row.1)),
                texts(attributes.iter().map(|row| row.2.clone())),
            ]
        });
    }

    /// Adds the statements for times of directories, ended versions and expiry.
    fn send_times(&self, to: &mut Target<'_, '_>) {
        let ended = &self.ended_times;
        to.put(ENDED_TIMES, ended.is_empty(), || {
            vec![
                ints(ended.iter().map(|row| row.0)),
                ints(ended.iter().map(|row| row.1.since)),
                ints(ended.iter().map(|row| row.1.till)),
                signed(ended.iter().map(|row| row.1.time)),
            ]
        });
        let times: Vec<_> = self.times.iter().filter_map(|(ino, at)| Some((*ino, (*at)?))).collect();
        to.put(TIMES, times.is_empty(), || {
            vec![
                ints(times.iter().map(|row| row.0)),
                ints(times.iter().map(|row| row.1.0)),
                signed(times.iter().map(|row| row.1.1)),
            ]
        });
        let gone = || self.times.iter().filter(|(_, at)| at.is_none()).map(|(ino, _)| *ino);
        to.put(NO_TIMES, gone().next().is_none(), || vec![ints(gone())]);
        let replaced = &self.replaced;
        to.put(REPLACED, replaced.is_empty(), || {
            vec![ints(replaced.iter().map(|row| row.0)), ints(replaced.iter().map(|row| row.1))]
        });
        let expiry: Vec<_> = self.expiry.iter().filter_map(|(ino, at)| Some((*ino, (*at)?))).collect();
        to.put(EXPIRY, expiry.is_empty(), || {
            vec![ints(expiry.iter().map(|row| row.0)), signed(expiry.iter().map(|row| row.1))]
        });
        let gone = || self.expiry.iter().filter(|(_, at)| at.is_none()).map(|(ino, _)| *ino);
        to.put(NO_EXPIRY, gone().next().is_none(), || vec![ints(gone())]);
    }

    fn send_content(&self, to: &mut Target<'_, '_>, ahead: &HashMap<Vec<u8>, i64>) {
        // Those that were written before get their numbers in place of the bytes.
        let (arrived, chunks): (Vec<_>, Vec<_>) =
            self.chunks.iter().partition(|(_, sum, _)| ahead.contains_key(sum));
        to.put(NUMBER_CHUNKS, arrived.is_empty(), || {
            vec![
                signed(arrived.iter().filter_map(|(_, sum, _)| ahead.get(sum).copied())),
                ints(arrived.iter().map(|row| row.0)),
                list(arrived.iter().map(|row| row.1.clone()), Type::BYTEA_ARRAY),
            ]
        });
        to.put(CHUNKS, chunks.is_empty(), || {
            vec![
                ints(chunks.iter().map(|row| row.0)),
                list(chunks.iter().map(|row| row.1.clone()), Type::BYTEA_ARRAY),
                ints(chunks.iter().map(|row| row.2.len() as u64)),
                list(chunks.iter().map(|row| Blob(row.2.clone())), Type::BYTEA_ARRAY),
            ]
        });
        let ended = &self.ended;
        to.put(ENDED_EXTENTS, ended.is_empty(), || {
            let [off, len, since, chunk, skip, older] = extents(ended.iter().map(|(.., row)| row));
            let inos = ints(ended.iter().map(|row| row.0));
            vec![inos, ints(ended.iter().map(|row| row.1)), off, len, since, chunk, skip, older]
        });
        // Others are written over.
        let gone: Vec<_> = self.closed.iter().filter(|key| !self.live.contains_key(*key)).collect();
        to.put(NO_EXTENTS, gone.is_empty(), || {
            vec![ints(gone.iter().map(|(ino, _)| *ino)), ints(gone.iter().map(|(_, off)| *off))]
        });
        let live = &self.live;
        to.put(EXTENTS, live.is_empty(), || {
            let [off, len, since, chunk, skip, older] = extents(live.values());
            vec![ints(live.keys().map(|(ino, _)| *ino)), off, len, since, chunk, skip, older]
        });
        for (sql, params) in references::change(&self.refs) {
            to.put(sql, false, || params);
        }
    }

    fn send_log(&self, to: &mut Target<'_, '_>, writer: &Writer<'_>) {
        let log = &self.log;
        let named = || log.iter().filter_map(|row| Some((row.owner.clone(), row.id.clone()?)));
        to.put(NO_IDS, writer.head.oldest == 0 || named().next().is_none(), || {
            let owners = list(named().map(|(owner, _)| owner), Type::BYTEA_ARRAY);
            vec![owners, texts(named().map(|(_, id)| id))]
        });
        // By the token of its last commit, a transaction whose answer is lost is found.
        let last = log.last().map(|row| row.seq);
        let token = |row: &LogRow| (Some(row.seq) == last).then(|| writer.token.to_vec());
        let text = |take: fn(&LogRow) -> Option<String>| list(log.iter().map(take), Type::TEXT_ARRAY);
        let bytes = |take: fn(&LogRow) -> Option<Vec<u8>>| list(log.iter().map(take), Type::BYTEA_ARRAY);
        to.put(LOG, log.is_empty(), || {
            vec![
                ints(log.iter().map(|row| row.seq)),
                signed(log.iter().map(|row| row.time)),
                bytes(|row| Some(row.owner.clone())),
                text(|row| row.id.clone()),
                text(|row| row.author.clone()),
                bytes(|row| row.session.clone()),
                bytes(|row| row.message.clone()),
                list(log.iter().map(token), Type::BYTEA_ARRAY),
                list(log.iter().map(|row| row.overrides), Type::BOOL_ARRAY),
                texts(log.iter().map(|row| row.changes.clone())),
                text(|row| row.answer.clone()),
            ]
        });
        let more = &self.log_more;
        to.put(LOG_MORE, more.is_empty(), || {
            vec![
                ints(more.iter().map(|row| row.0)),
                ints(more.iter().map(|row| row.1)),
                texts(more.iter().map(|row| row.2.clone())),
            ]
        });
    }
}

/// Returns the columns `off, len, since, chunk, skip, older` of extents.
fn extents<'a>(rows: impl Iterator<Item = &'a ExtentRow> + Clone) -> [Param; 6] {
    let column = |take: fn(&ExtentRow) -> u64| ints(rows.clone().map(take));
    [
        column(|row| row.off),
        column(|row| row.len),
        column(|row| row.since),
        column(|row| row.chunk),
        column(|row| row.skip),
        signed(rows.map(older)),
    ]
}

/// Refuses directories that are too long for an index.
fn check(delta: &Delta, can_move: bool) -> Result<()> {
    let is_long = |((dir, _), change): (&Key, &NameChange)| change.after.is_some() && dir.len() > MAX_DIR;
    if can_move && !delta.names.iter().any(is_long) {
        return Ok(());
    }
    let message = format!("the path of a directory has at most {MAX_DIR} bytes in this engine; shorten it");
    Err(Error::new(ErrorKind::NameTooLong, message))
}

/// Returns the row of the log for a batch, and the pieces of its changes that follow the first.
fn log_row(
    delta: &Delta,
    head: &HeadRow,
    (batch, commit): (&Batch, &Commit),
) -> Result<(LogRow, Vec<(usize, String)>)> {
    let refused = |e| Error::invalid("the author cannot be recorded").with_source(e);
    // Most commits have the default author, which takes no space.
    let author = (batch.author != Author::default()).then(|| serde_json::to_string(&batch.author));
    let mut pieces = changes_column::to_json(&delta.log)?;
    let changes = if pieces.is_empty() { String::new() } else { pieces.remove(0).1 };
    // Only a caller that named the commit can ask for its outcomes again.
    let is_named = batch.id.is_some() || batch.idempotency.is_some();
    let row = LogRow {
        seq: head.seq,
        time: head.time,
        owner: labels::owner(batch.owner_key()),
        id: batch.id.map(|id| labels::uuid(id.0)),
        author: author.transpose().map_err(refused)?,
        session: labels::session_of(&batch.author),
        message: (!batch.message.is_empty()).then(|| batch.message.clone().into_bytes()),
        overrides: batch.overrides_rules,
        changes,
        answer: is_named.then(|| answer_column::to_json(&commit.outcomes)).transpose()?,
    };
    Ok((row, pieces))
}
