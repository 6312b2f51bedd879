//! Writes what a batch changes: the rows of its delta, and at the end of a group what search has to know.

use std::collections::BTreeMap;

use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};

use crate::engine::planner::{Delta, HeadRow, LogChange, NameRow, NodeRow, Rows};
use crate::engine::sqlite::index::fts;
use crate::engine::sqlite::read::content::Packs;
use crate::engine::sqlite::read::rows::{self, MAX};
use crate::engine::sqlite::schema::columns::KindColumn;
use crate::engine::sqlite::write::txn_rows::{TxnRows, answer_json, forget_staged};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{Attributes, Batch, ChangeKind, Commit, Ino, Kind};
use crate::path::TreePath;
use crate::text::passage::Edit;

/// Edits of a group's files, for search.
pub(crate) type Edits = BTreeMap<u64, Edit>;

/// Writes the rows of one batch, all but the head's: the last of a group says where it ends.
pub(crate) fn delta(
    conn: &Connection,
    delta: &Delta,
    head: &HeadRow,
    batch: &Batch,
    commit: &Commit,
) -> Result<()> {
    let seq = head.seq;
    names(conn, delta, seq)?;
    for node in delta.nodes.values() {
        put_node(conn, node)?;
    }
    for (ino, attributes) in &delta.attributes {
        let json = serde_json::to_string(attributes).map_err(|e| {
            Error::new(ErrorKind::InvalidArgument, "attributes cannot be kept").with_source(e)
        })?;
        conn.prepare_cached("INSERT INTO attribute (ino, seq, json) VALUES (?1, ?2, ?3)")?
            .execute(params![ino, seq, json])?;
    }
    for chunk in delta.chunks.values() {
        conn.prepare_cached("INSERT INTO chunk (id, sum, data, len) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![chunk.id, chunk.sum, &chunk.data[..], chunk.data.len()])?;
    }
    extents(conn, delta, seq)?;
    for (ino, at) in &delta.expiry {
        match at {
            Some(at) => conn
                .prepare_cached("INSERT OR REPLACE INTO expiry (ino, at) VALUES (?1, ?2)")?
                .execute(params![ino, at])?,
            None => conn.prepare_cached("DELETE FROM expiry WHERE ino = ?1")?.execute([ino])?,
        };
    }
    for (name, made) in &delta.snapshots {
        if *made {
            conn.prepare_cached("INSERT OR REPLACE INTO snapshot (name, seq) VALUES (?1, ?2)")?
                .execute(params![name, seq])?;
        } else {
            conn.prepare_cached("DELETE FROM snapshot WHERE name = ?1")?.execute([name])?;
        }
    }
    for id in &delta.staged {
        forget_staged(conn, *id)?;
    }
    log(conn, &delta.log, head, batch, commit)
}

fn names(conn: &Connection, delta: &Delta, seq: u64) -> Result<()> {
    for ((dir, name), change) in &delta.names {
        if let Some(NameRow { ino, since, kind }) = change.before
            && since < seq
        {
            conn.prepare_cached(
                "INSERT INTO name_past (dir, name, till, ino, since, kind) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute(params![dir, name, seq, ino, since, KindColumn(kind)])?;
        }
        match change.after {
            Some(NameRow { ino, since, kind }) => conn
                .prepare_cached(
                    "INSERT OR REPLACE INTO name (dir, name, ino, since, kind) VALUES (?1, ?2, ?3, ?4, ?5)",
                )?
                .execute(params![dir, name, ino, since, KindColumn(kind)])?,
            None => {
                conn.prepare_cached("DELETE FROM name WHERE dir = ?1 AND name = ?2")?.execute([dir, name])?
            }
        };
    }
    Ok(())
}

fn put_node(conn: &Connection, node: &NodeRow) -> Result<()> {
    conn.prepare_cached(
        "INSERT INTO node (ino, seq, kind, mode, uid, gid, rdev, nlink, size, mtime, ctime, birthtime, atime, target,
             attrs_seq, expires_at, content_seq)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)",
    )?
    .execute(params![
        node.ino,
        node.seq,
        KindColumn(node.kind),
        node.mode,
        node.uid,
        node.gid,
        node.rdev.cast_signed(),
        node.nlink,
        node.size,
        node.mtime,
        node.ctime.wrapping_sub(node.mtime),
        node.birthtime,
        node.atime.wrapping_sub(node.birthtime),
        node.target,
        node.attrs_seq,
        node.expires_at,
        node.content_seq,
    ])?;
    Ok(())
}

fn extents(conn: &Connection, delta: &Delta, seq: u64) -> Result<()> {
    for (ino, change) in &delta.extents {
        for (off, row) in &change.closed {
            if row.since < seq {
                conn.prepare_cached("UPDATE extent SET till = ?3 WHERE ino = ?1 AND till = 0 AND off = ?2")?
                    .execute(params![ino, off, seq])?;
            } else {
                conn.prepare_cached("DELETE FROM extent WHERE ino = ?1 AND till = 0 AND off = ?2")?
                    .execute(params![ino, off])?;
            }
        }
        for row in change.added.values() {
            conn.prepare_cached(
                "INSERT INTO extent (ino, till, off, len, since, chunk, skip) VALUES (?1, 0, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute(params![ino, row.off, row.len, row.since, row.chunk, row.skip])?;
        }
    }
    Ok(())
}

/// Writes where the next group goes on.
pub(crate) fn head(conn: &Connection, head: &HeadRow) -> Result<()> {
    conn.prepare_cached("UPDATE head SET seq = ?1, time = ?2, next_ino = ?3, next_chunk = ?4, copies = ?5")?
        .execute(params![head.seq, head.time, head.next_ino, head.next_chunk, head.copies])?;
    Ok(())
}

/// A change in the log's JSON: what, node, path, and a name or an old path.
#[derive(Serialize, Deserialize)]
struct LogRow(char, u64, #[serde(default)] Option<String>, #[serde(default)] Option<String>);

fn log(
    conn: &Connection,
    changes: &[LogChange],
    head: &HeadRow,
    batch: &Batch,
    commit: &Commit,
) -> Result<()> {
    let rows: Vec<LogRow> = changes.iter().map(log_row).collect();
    let author = (batch.author != crate::model::Author::default())
        .then(|| serde_json::to_string(&batch.author).unwrap_or_default());
    let message = (!batch.message.is_empty()).then_some(&batch.message);
    let changes = serde_json::to_string(&rows).unwrap_or_default();
    conn.prepare_cached(
        "INSERT INTO log (seq, time, id, author, message, changes) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?
    .execute(params![
        head.seq,
        head.time,
        batch.id.map(|id| id.0.to_be_bytes()),
        author,
        message,
        changes
    ])?;
    if let Some(record) = &batch.idempotency {
        conn.prepare_cached(
            "INSERT OR REPLACE INTO idempotency (key, hash, keep_until, answer) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(params![
            record.key,
            record.request_hash,
            record.keep_until.0,
            answer_json(commit)
        ])?;
    }
    Ok(())
}

fn log_row(change: &LogChange) -> LogRow {
    let (letter, text) = match &change.kind {
        ChangeKind::Created => ('c', None),
        ChangeKind::Modified => ('m', None),
        ChangeKind::Attributes => ('a', None),
        ChangeKind::Removed => ('r', None),
        ChangeKind::Expired => ('x', None),
        ChangeKind::Linked => ('l', None),
        ChangeKind::Renamed { from } => ('n', Some(from.as_str().to_owned())),
        ChangeKind::Snapshot { name } => ('s', Some(name.clone())),
        ChangeKind::SnapshotDropped { name } => ('d', Some(name.clone())),
    };
    LogRow(letter, change.ino, change.path.as_ref().map(|path| path.as_str().to_owned()), text)
}

/// The changes of a log row.
pub(crate) fn log_changes(json: &str) -> Result<Vec<LogChange>> {
    let damaged = || Error::new(ErrorKind::Corrupt, "a row of the log is damaged; run `garth fsck`");
    let rows: Vec<LogRow> = serde_json::from_str(json).map_err(|e| damaged().with_source(e))?;
    rows.into_iter()
        .map(|LogRow(letter, ino, path, text)| {
            let text = text.ok_or_else(damaged);
            let kind = match letter {
                'c' => ChangeKind::Created,
                'm' => ChangeKind::Modified,
                'a' => ChangeKind::Attributes,
                'r' => ChangeKind::Removed,
                'x' => ChangeKind::Expired,
                'l' => ChangeKind::Linked,
                'n' => ChangeKind::Renamed { from: TreePath::parse(&text?)? },
                's' => ChangeKind::Snapshot { name: text? },
                'd' => ChangeKind::SnapshotDropped { name: text? },
                _ => return Err(damaged()),
            };
            Ok(LogChange { kind, ino, path: path.map(|path| TreePath::parse(&path)).transpose()? })
        })
        .collect()
}

/// Brings the index up to date with all that a group did.
pub(crate) fn index(state: &TxnRows<'_>, edits: &Edits) -> Result<()> {
    let mut files = Vec::with_capacity(edits.len());
    for (ino, edit) in edits {
        let Some(node) = state.node(*ino)? else { continue };
        let attributes = |seq| state.attributes(*ino, seq);
        files.extend(Searched::new(&node, attributes)?.map(|file| (file, *edit)));
    }
    let changes: Vec<fts::Change<'_>> = files.iter().map(|(file, edit)| file.change(*edit)).collect();
    fts::apply(state.conn, &changes, &mut |ino, range| bytes_now(state.conn, state.packs, ino, range))
}

/// What search needs to know of a file.
pub(crate) struct Searched {
    pub(crate) ino: u64,
    pub(crate) size: u64,
    pub(crate) searchable: bool,
    pub(crate) content_type: Option<String>,
}

impl Searched {
    /// A file as it is now; `None` for what is no file.
    pub(crate) fn of(conn: &Connection, ino: u64) -> Result<Option<Self>> {
        let Some(node) = rows::node(conn, ino, MAX)? else { return Ok(None) };
        Self::new(&node, |seq| rows::attributes(conn, ino, seq))
    }

    fn new(node: &NodeRow, attributes: impl FnOnce(u64) -> Result<Attributes>) -> Result<Option<Self>> {
        if node.kind != Kind::File {
            return Ok(None);
        }
        let attributes = match node.attrs_seq {
            0 => Attributes::default(),
            seq => attributes(seq)?,
        };
        let searchable = node.nlink > 0 && attributes.searchable.unwrap_or(true);
        let content_type = attributes.content_type;
        Ok(Some(Self { ino: node.ino, size: node.size, searchable, content_type }))
    }

    fn change(&self, edit: Edit) -> fts::Change<'_> {
        fts::Change {
            ino: Ino(self.ino),
            searchable: self.searchable,
            content_type: self.content_type.as_deref(),
            edit,
        }
    }

    /// As a file that the index has never seen.
    pub(crate) fn afresh(&self) -> fts::Change<'_> {
        self.change(Edit::replace(0, self.size))
    }
}

/// Bytes of a file as it is in this transaction.
pub(crate) fn bytes_now(
    conn: &Connection,
    packs: &Packs,
    ino: Ino,
    range: std::ops::Range<u64>,
) -> Result<Vec<u8>> {
    let Some(node) = rows::node(conn, ino.0, MAX)? else { return Ok(Vec::new()) };
    let end = range.end.min(node.size);
    if range.start >= end {
        return Ok(Vec::new());
    }
    Ok(packs.content(conn, ino.0, None, range.start, end)?.into())
}
