//! Row changes of a group: one statement for each table, whatever the number of batches.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use garth_engine::engine::planner::{
    Delta, EndedTimes, ExtentRow, HeadRow, Key, NameRow, NodeRow, NodeWrite,
};
use garth_engine::engine::relational::changes_column;
use garth_engine::model::{Author, Batch};
use garth_engine::{Error, Result};
use tokio_postgres::types::Type;

use super::columns::{int, kind_number, older};
use super::parameters::{Blob, ints, list, signed, texts};
use super::wanted::unsupported;
use crate::client::{Param, Pipe, param};

/// Longest directory of a name, in bytes. Directory and name are in one entry of an index, which has at most
/// 2,704 bytes.
const MAX_DIR: usize = 1024;

const NAMES: &str = "INSERT INTO garth.name (account, dir, name, ino, since, kind)
    SELECT $1, * FROM unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::smallint[])";
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
// The last condition bounds the rows that are read, whatever order of the join the database chooses.
const NO_EXTENTS: &str = "DELETE FROM garth.extent e USING unnest($2::bigint[], $3::bigint[]) k(ino, off)
    WHERE e.account = $1 AND e.ino = k.ino AND e.off = k.off AND e.ino = ANY($2)";
// A row that ends is written over in place where a new one begins at its offset. With live and past extents
// in one table, whose key has the end, the row moves in the index: 513 bytes of WAL in place of 430.
const EXTENTS: &str = "INSERT INTO garth.extent (account, ino, off, len, since, chunk, skip, older)
    SELECT $1, * FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
        $8::bigint[])
    ON CONFLICT (account, ino, off) DO UPDATE SET len = excluded.len, since = excluded.since,
        chunk = excluded.chunk, skip = excluded.skip, older = excluded.older";
// The planner tells by how much counts change, and reads none. A chunk without a row has one reference, so
// that an append writes no row. Nobody else changes counts while the account is locked. The new count is in
// the row that is proposed, because its condition, at least 0, is checked on that row, also if another one is
// updated in its place.
const REFS: &str = "INSERT INTO garth.chunk_refs (account, chunk, count)
    SELECT $1, k.chunk, coalesce(r.count, 1) + k.change FROM unnest($2::bigint[], $3::bigint[]) k(chunk, change)
    LEFT JOIN LATERAL (SELECT count FROM garth.chunk_refs WHERE account = $1 AND chunk = k.chunk OFFSET 0) r ON true
    ON CONFLICT (account, chunk) DO UPDATE SET count = excluded.count";
const SINGLE_REFS: &str = "DELETE FROM garth.chunk_refs WHERE account = $1 AND chunk = ANY($2) AND count = 1";
const EXPIRY: &str = "INSERT INTO garth.expiry (account, ino, at)
    SELECT $1, * FROM unnest($2::bigint[], $3::bigint[])
    ON CONFLICT (account, ino) DO UPDATE SET at = excluded.at";
const NO_EXPIRY: &str = "DELETE FROM garth.expiry WHERE account = $1 AND ino = ANY($2)";
const LOG: &str = "INSERT INTO garth.log (account, seq, time, owner, author, message, overrides, changes)
    SELECT $1, seq, time, 0, author, message, overrides, changes
    FROM unnest($2::bigint[], $3::bigint[], $4::text[], $5::bytea[], $6::boolean[], $7::text[])
        k(seq, time, author, message, overrides, changes)";
const LOG_MORE: &str = "INSERT INTO garth.log_more (account, seq, first, changes)
    SELECT $1, * FROM unnest($2::bigint[], $3::bigint[], $4::text[])";
const UNINDEXED: &str = "INSERT INTO garth.unindexed AS u (account, ino, off)
    SELECT $1, * FROM unnest($2::bigint[], $3::bigint[])
    ON CONFLICT (account, ino) DO UPDATE SET off = least(u.off, excluded.off) WHERE u.off > excluded.off";
// A merge that has the row waits for this statement, or this statement for the merge: `tokens` is that of the
// row as it is removed.
const NO_PASSAGES: &str = "WITH gone AS (DELETE FROM garth.passage WHERE account = $1 AND ino = ANY($2)
        RETURNING id, tokens IS NULL AS merged)
    INSERT INTO garth.passage_gone (account, id) SELECT $1, id FROM gone WHERE merged";
// Tokens are one text, separated by spaces: in an array each has a length of its own and is aligned. A
// passage of 2 KiB takes 1.55 KB of WAL, and 1.80 KB with an array.
const PASSAGES: &str = "INSERT INTO garth.passage (account, id, ino, off, len, lines, newline, form, words, hash,
        tokens)
    SELECT $1, * FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::boolean[],
        $8::smallint[], $9::bigint[], $10::bigint[], $11::text[])";
const HEAD: &str =
    "UPDATE garth.head SET seq = $2, time = $3, next_ino = $4, next_chunk = $5, next_passage = $6,
    passages = passages + $7, stored = stored + $8 WHERE account = $1";

/// Passage of a file to index.
#[derive(Clone, Debug)]
pub struct NewPassage {
    /// Inode of the file.
    pub ino: u64,
    /// Offset in bytes.
    pub off: u64,
    /// Length in bytes.
    pub len: u64,
    /// Number of line feeds.
    pub lines: u64,
    /// True if it ends with a line feed.
    pub newline: bool,
    /// Form in which it is indexed.
    pub form: i16,
    /// Number of its words.
    pub words: u64,
    /// Hash of its bytes.
    pub hash: i64,
    /// Tokens, separated by spaces.
    pub tokens: String,
}

/// Row of the log.
struct LogRow {
    seq: u64,
    time: i64,
    author: Option<String>,
    message: Option<Vec<u8>>,
    overrides: bool,
    changes: String,
}

/// Row changes of a group.
#[derive(Default)]
pub struct Writes {
    names: BTreeMap<Key, NameRow>,
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
    /// Files whose text is indexed later, from an offset on.
    unindexed: BTreeMap<u64, u64>,
    passages: Vec<NewPassage>,
    /// Bytes of the new chunks.
    stored: u64,
}

impl Writes {
    /// Adds the rows of a batch, which was planned after those that were added before. `head` is the head row
    /// after it.
    ///
    /// # Errors
    /// `Unsupported` for changes that are not written yet: then nothing was added.
    pub fn add(&mut self, delta: &Delta, head: &HeadRow, batch: &Batch) -> Result<()> {
        check(delta, batch)?;
        let json = log_row(delta, head, batch)?;
        let mut attributes = Vec::new();
        for (ino, set) in &delta.attributes {
            let refused = |e| Error::invalid("the attributes cannot be stored").with_source(e);
            attributes.push((*ino, head.seq, serde_json::to_string(set).map_err(refused)?));
        }
        // Nothing fails from here on.
        self.attributes.extend(attributes);
        self.log_rows(head.seq, json);
        let given = delta.names.iter().filter_map(|(key, change)| Some((key.clone(), change.after?)));
        self.names.extend(given);
        for (node, write) in delta.node_writes() {
            self.node(node, *write);
        }
        for chunk in delta.chunks.values() {
            self.stored += chunk.data.len() as u64;
            self.chunks.push((chunk.id, chunk.sum.clone(), chunk.data.clone()));
        }
        for (ino, change) in &delta.extents {
            for (off, row) in &change.closed {
                // The database has no row of an extent that an earlier batch of the group has written.
                if self.live.remove(&(*ino, *off)).is_none() {
                    self.closed.insert((*ino, *off));
                }
                self.ended.push((*ino, head.seq, *row));
            }
            self.live.extend(change.added.values().map(|row| ((*ino, row.off), *row)));
        }
        for (chunk, by) in delta.references() {
            *self.refs.entry(chunk).or_default() += by;
        }
        self.expiry.extend(delta.expiry.iter().map(|(ino, at)| (*ino, *at)));
        for (ino, edit) in &delta.index {
            self.unindexed.entry(*ino).and_modify(|off| *off = edit.start.min(*off)).or_insert(edit.start);
        }
        Ok(())
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
                self.nodes.push(node.clone());
            }
        }
    }

    fn log_rows(&mut self, seq: u64, (row, pieces): (LogRow, Vec<(usize, String)>)) {
        self.log.push(row);
        self.log_more.extend(pieces.into_iter().map(|(first, json)| (seq, first as u64, json)));
    }

    /// Indexes files with these passages now, and not later. They replace all passages of their files; the
    /// head does not count the replaced ones yet.
    pub fn index(&mut self, passages: Vec<NewPassage>) {
        for passage in &passages {
            self.unindexed.remove(&passage.ino);
        }
        self.passages.extend(passages);
    }

    /// Returns the content that the group has written to new files: inode, offset and bytes.
    pub fn content(&self) -> impl Iterator<Item = (u64, u64, &Bytes)> {
        let bytes: BTreeMap<u64, &Bytes> = self.chunks.iter().map(|(id, _, data)| (*id, data)).collect();
        self.live.iter().filter_map(move |((ino, off), row)| Some((*ino, *off, *bytes.get(&row.chunk)?)))
    }

    /// Adds the statements that write the rows, with passages numbered from `next_passage` on. Returns the
    /// number of the next one.
    pub(super) fn send(self, pipe: &mut Pipe<'_>, account: i64, head: &HeadRow, next_passage: u64) -> u64 {
        let mut to = Target { pipe, account };
        let passages = self.passages.len() as u64;
        let stored = self.stored;
        to.pipe.query(
            HEAD,
            vec![
                param(account, Type::INT8),
                param(int(head.seq), Type::INT8),
                param(head.time, Type::INT8),
                param(int(head.next_ino), Type::INT8),
                param(int(head.next_chunk), Type::INT8),
                param(int(next_passage + passages), Type::INT8),
                param(int(passages), Type::INT8),
                param(int(stored), Type::INT8),
            ],
        );
        self.send_tree(&mut to);
        self.send_times(&mut to);
        self.send_content(&mut to);
        self.send_log(&mut to);
        self.send_index(&mut to, next_passage);
        next_passage + passages
    }

    fn send_tree(&self, to: &mut Target<'_, '_>) {
        let names = &self.names;
        to.put(NAMES, names.is_empty(), || {
            vec![
                texts(names.keys().map(|(dir, _)| dir.clone())),
                texts(names.keys().map(|(_, name)| name.clone())),
                ints(names.values().map(|row| row.ino)),
                ints(names.values().map(|row| row.since)),
                list(names.values().map(|row| kind_number(row.kind)), Type::INT2_ARRAY),
            ]
        });
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

    fn send_content(&self, to: &mut Target<'_, '_>) {
        let chunks = &self.chunks;
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
        let refs: Vec<_> = self.refs.iter().filter(|(_, by)| **by != 0).collect();
        to.put(REFS, refs.is_empty(), || {
            vec![ints(refs.iter().map(|(chunk, _)| **chunk)), signed(refs.iter().map(|(_, by)| **by))]
        });
        to.put(SINGLE_REFS, refs.is_empty(), || vec![ints(refs.iter().map(|(chunk, _)| **chunk))]);
    }

    fn send_log(&self, to: &mut Target<'_, '_>) {
        let log = &self.log;
        to.put(LOG, log.is_empty(), || {
            vec![
                ints(log.iter().map(|row| row.seq)),
                signed(log.iter().map(|row| row.time)),
                list(log.iter().map(|row| row.author.clone()), Type::TEXT_ARRAY),
                list(log.iter().map(|row| row.message.clone()), Type::BYTEA_ARRAY),
                list(log.iter().map(|row| row.overrides), Type::BOOL_ARRAY),
                texts(log.iter().map(|row| row.changes.clone())),
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

    fn send_index(&self, to: &mut Target<'_, '_>, next: u64) {
        let unindexed = &self.unindexed;
        to.put(UNINDEXED, unindexed.is_empty(), || {
            vec![ints(unindexed.keys().copied()), ints(unindexed.values().copied())]
        });
        let passages = &self.passages;
        let files: BTreeSet<u64> = passages.iter().map(|passage| passage.ino).collect();
        to.put(NO_PASSAGES, files.is_empty(), || vec![ints(files.iter().copied())]);
        to.put(PASSAGES, passages.is_empty(), || {
            let column = |take: fn(&NewPassage) -> u64| ints(passages.iter().map(take));
            vec![
                ints(next..next + passages.len() as u64),
                column(|row| row.ino),
                column(|row| row.off),
                column(|row| row.len),
                column(|row| row.lines),
                list(passages.iter().map(|row| row.newline), Type::BOOL_ARRAY),
                list(passages.iter().map(|row| row.form), Type::INT2_ARRAY),
                column(|row| row.words),
                signed(passages.iter().map(|row| row.hash)),
                texts(passages.iter().map(|row| row.tokens.trim_end().to_owned())),
            ]
        });
    }
}

/// Statements of an account.
struct Target<'p, 'c> {
    pipe: &'p mut Pipe<'c>,
    account: i64,
}

impl Target<'_, '_> {
    /// Adds a statement unless it has no rows.
    fn put(&mut self, sql: &'static str, is_empty: bool, params: impl FnOnce() -> Vec<Param>) {
        if !is_empty {
            let account = param(self.account, Type::INT8);
            self.pipe.query(sql, [account].into_iter().chain(params()).collect());
        }
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

/// Refuses changes that are not written yet.
fn check(delta: &Delta, batch: &Batch) -> Result<()> {
    let ends_names = delta.names.values().any(|change| change.before.is_some() || change.after.is_none());
    let is_keyed = delta.attributes.values().any(|set| !set.tags.is_empty() || !set.metadata.is_empty());
    let is_long = delta.names.keys().any(|(dir, _)| dir.len() > MAX_DIR);
    let refused = [
        (ends_names, "removing, renaming and replacing names"),
        (!delta.subtrees.is_empty() || !delta.subtrees.lost().is_empty(), "moving and removing trees"),
        (is_long, "directories whose path has more than 1,024 bytes"),
        (is_keyed, "tags and metadata"),
        (!delta.snapshots.is_empty(), "snapshots"),
        (!delta.staged.is_empty(), "staged bodies"),
        (!delta.unnamed.is_empty(), "writes to files without a name"),
        (!delta.judged.is_empty(), "checks of rules"),
        (!delta.quotas.is_empty(), "quotas"),
        (batch.id.is_some() || batch.idempotency.is_some(), "commit ids and idempotency keys"),
        (!batch.owner_key().is_empty(), "commits of confined handles"),
    ];
    match refused.into_iter().find(|(is_refused, _)| *is_refused) {
        Some((_, what)) => Err(unsupported(&format!("this engine does not store {what} yet"))),
        None => Ok(()),
    }
}

/// Returns the row of the log for a batch, and the pieces of its changes that follow the first.
fn log_row(delta: &Delta, head: &HeadRow, batch: &Batch) -> Result<(LogRow, Vec<(usize, String)>)> {
    let refused = |e| Error::invalid("the author cannot be recorded").with_source(e);
    // Most commits have the default author, which takes no space.
    let author = (batch.author != Author::default()).then(|| serde_json::to_string(&batch.author));
    let mut pieces = changes_column::to_json(&delta.log)?;
    let changes = if pieces.is_empty() { String::new() } else { pieces.remove(0).1 };
    let row = LogRow {
        seq: head.seq,
        time: head.time,
        author: author.transpose().map_err(refused)?,
        message: (!batch.message.is_empty()).then(|| batch.message.clone().into_bytes()),
        overrides: batch.overrides_rules,
        changes,
    };
    Ok((row, pieces))
}
