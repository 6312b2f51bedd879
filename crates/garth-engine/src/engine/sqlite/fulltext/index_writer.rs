//! The full-text index in SQLite. It is written in the transaction of the commit that changes the text, so
//! that a hit and the tree are always of the same version.
//!
//! - `passage`: one row for each passage, with its place. `lines` counts its line feeds, `newline` tells if
//!   its last byte is one, `json` in which form it is indexed. `hash` is that of its bytes, by which `fsck`
//!   finds an index that is behind its file. `words` counts its words, for ranking.
//! - `passage_word`: FTS5, rowid = `passage.id`. *Contentless*, because the text is in the tree already, with
//!   `contentless_delete`, so that a passage can be deleted without its old text. It is fed the tokens that
//!   `text/token.rs` makes, each once for a passage, so its tokenizer only splits them, and it stores no
//!   positions.
//!
//! Rows are numbered upwards, so the newest text has the highest numbers.
//!
//! Why: `docs/decisions/contentless-passages.md`.

use std::ops::Range;

use rusqlite::{Connection, params};

use crate::engine::search::indexing::{CutPassage, FileText, Region, describe, each_passage, one_passage};
use crate::engine::sqlite::fulltext::passages::{MAX_OFFSET, form_number, last_before, old_until, passages};
use crate::engine::sqlite::fulltext::secret_context::{self, Read};
use crate::engine::sqlite::fulltext::{cover, line_counts};
use crate::model::Ino;
use crate::sqlite::{DbError, DbResult, all, one};
use crate::text::Tokenizer;
use crate::text::passage::{Edit, Form, MAX_TEXT, SNIFF, is_text};

/// Most bytes that are indexed in the transaction of a commit; the rest follows in steps. 64 MiB: as much as
/// the index ever sees of one file.
pub(crate) const IN_COMMIT: u64 = MAX_TEXT;
/// A file whose content, type or searchability a commit changed. Each file at most once in a call of
/// [`apply`]: several edits are combined by [`Edit::then`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change<'a> {
    /// Inode of the file.
    pub(crate) ino: Ino,
    /// True if search may see the file. False for a deleted file, too.
    pub(crate) searchable: bool,
    /// Its content type, if it has one.
    pub(crate) content_type: Option<&'a str>,
    /// Change of its bytes. [`Edit::replace`] if its type changed or it became searchable.
    pub(crate) edit: Edit,
}

/// File whose text is being indexed. Its earlier passages are stored.
struct StoredText<'a, 'r> {
    conn: &'a Connection,
    ino: Ino,
    read: &'a mut Read<'r>,
}

impl FileText for StoredText<'_, '_> {
    type Error = DbError;

    fn read(&mut self, bytes: Range<u64>) -> DbResult<Vec<u8>> {
        (self.read)(self.ino, bytes)
    }

    fn begins_line(&mut self, off: u64) -> DbResult<bool> {
        let before = last_before(self.conn, self.ino, off)?;
        Ok(before.is_some_and(|it| it.span.end() == off && it.span.newline))
    }
}

/// Writes passages in one transaction.
pub(crate) struct IndexWriter<'a> {
    pub(crate) conn: &'a Connection,
    tokenizer: &'a mut Tokenizer,
    /// Row of the next passage.
    next: i64,
    /// Passages up to this row are in the index of format 2.
    pub(crate) old: i64,
}

impl<'a> IndexWriter<'a> {
    pub(crate) fn new(conn: &'a Connection, tokenizer: &'a mut Tokenizer) -> DbResult<Self> {
        let old = old_until(conn)?.unwrap_or(0);
        let mut last = old;
        // Both, because a damaged index may have words of no passage.
        for sql in ["SELECT max(id) FROM passage", "SELECT max(id) FROM passage_word_docsize"] {
            let id: Option<i64> = conn.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
            last = last.max(id.unwrap_or(0));
        }
        Ok(Self { conn, tokenizer, next: last + 1, old })
    }

    /// Removes passages, in order of rows: FTS5 writes out the data that it holds in memory whenever a row
    /// comes before the last one. The index of format 2 is left alone until all of it is removed: rows
    /// without a passage are not found.
    pub(crate) fn delete(&mut self, mut ids: Vec<i64>) -> DbResult<()> {
        ids.sort_unstable();
        let mut words = self.conn.prepare_cached("DELETE FROM passage_word WHERE rowid = ?1")?;
        let mut place = self.conn.prepare_cached("DELETE FROM passage WHERE id = ?1")?;
        for id in ids {
            if id > self.old {
                words.execute([id])?;
            }
            place.execute([id])?;
        }
        Ok(())
    }

    /// Indexes a region. Returns the byte after its last passage. Secrets are left out, recognised with
    /// [`CONTEXT`](crate::text::secret::CONTEXT) on both sides of each passage.
    pub(crate) fn insert(&mut self, ino: Ino, region: &Region, read: &mut Read<'_>) -> DbResult<u64> {
        let mut file = StoredText { conn: self.conn, ino, read };
        each_passage(&mut file, region, &mut |passage| self.insert_one(ino, region.form, &passage))
    }

    /// Indexes bytes of a file as one passage, until they are indexed again.
    pub(crate) fn insert_whole(
        &mut self,
        ino: Ino,
        bytes: Range<u64>,
        form: Form,
        read: &mut Read<'_>,
    ) -> DbResult<()> {
        let mut file = StoredText { conn: self.conn, ino, read };
        one_passage(&mut file, bytes, form, &mut |passage| self.insert_one(ino, form, &passage))
    }

    fn insert_one(&mut self, ino: Ino, form: Form, passage: &CutPassage<'_>) -> DbResult<()> {
        let CutPassage { off, bytes, text } = passage;
        let (line_feeds, newline) = describe(bytes);
        let id = self.next;
        self.next += 1;
        let (tokens, words) = self.tokenizer.tokens(text);
        let (length, json) = (bytes.len() as u64, form_number(form));
        self.conn
            .prepare_cached(
                "INSERT INTO passage (id, ino, off, len, lines, newline, hash, json, words)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            )?
            .execute(params![id, ino.0, off, length, line_feeds, newline, hash(bytes), json, words])?;
        self.conn
            .prepare_cached("INSERT INTO passage_word (rowid, tokens) VALUES (?1, ?2)")?
            .execute(params![id, tokens])?;
        Ok(())
    }
}

/// Merges the index into one segment. Words of removed text are removed from the database with it, which
/// `purge` needs.
///
/// # Errors
/// Errors of SQLite.
#[cfg(test)]
pub(crate) fn optimize(conn: &Connection) -> rusqlite::Result<()> {
    conn.execute_batch("INSERT INTO passage_word (passage_word) VALUES ('optimize');")
}

/// Brings the index up to date with all changes of files in one transaction, once, at its end: text of at
/// most [`IN_COMMIT`] bytes. The rest is recorded in `unindexed`, for [`super::background`].
///
/// # Errors
/// Errors of SQLite or `read`. The transaction must then be rolled back.
pub(crate) fn apply(
    conn: &Connection,
    changes: &[Change<'_>],
    tokenizer: &mut Tokenizer,
    read: &mut Read<'_>,
) -> DbResult<()> {
    apply_up_to(conn, changes, tokenizer, read, IN_COMMIT)
}

/// [`apply`] with another limit.
pub(crate) fn apply_up_to(
    conn: &Connection,
    changes: &[Change<'_>],
    tokenizer: &mut Tokenizer,
    read: &mut Read<'_>,
    mut room: u64,
) -> DbResult<()> {
    if changes.is_empty() {
        return Ok(());
    }
    let mut writer = IndexWriter::new(conn, tokenizer)?;
    let some_unindexed: bool =
        conn.prepare_cached("SELECT EXISTS (SELECT 1 FROM unindexed)")?.query_row([], |row| row.get(0))?;
    let mut gone = Vec::new();
    let mut regions = Vec::new();
    for change in changes {
        // Its text is indexed in the background, so the commit only says from which byte.
        if some_unindexed && let Some(from) = unindexed(conn, change.ino)? {
            leave_more(conn, change, from, &mut gone)?;
            continue;
        }
        regions.extend(plan(&writer, change, &mut gone, read)?.map(|region| (change, region)));
    }
    // Deletions first, so that rows are mostly written in order (see `delete`).
    writer.delete(gone)?;
    for (change, region) in regions {
        let Range { start, end } = region.bytes;
        if end - start <= room {
            room -= end - start;
            writer.insert(change.ino, &region, read)?;
        } else {
            // Stored passages after the unindexed part would never be replaced.
            let behind = passages(conn, change.ino, end, MAX_OFFSET)?;
            writer.delete(behind.iter().map(|passage| passage.id).collect())?;
            let part = Region { bytes: start..start + room, open: true, ..region };
            // Later files of the group are left completely.
            room = 0;
            let reached = writer.insert(change.ino, &part, read)?;
            leave(conn, change.ino, reached)?;
        }
        line_counts::update(conn, change.ino, start..end, change.edit.visible())?;
    }
    Ok(())
}

/// Returns at most `limit` files whose text is not completely indexed.
pub(crate) fn unindexed_files(conn: &Connection, limit: u64) -> DbResult<Vec<u64>> {
    all(conn, "SELECT ino FROM unindexed LIMIT ?1", [limit], |row| row.get(0))
}

/// Returns the byte from which the text of a file is not indexed yet.
pub(crate) fn unindexed(conn: &Connection, ino: Ino) -> DbResult<Option<u64>> {
    one(conn, "SELECT off FROM unindexed WHERE ino = ?1", [ino.0], |row| row.get(0))
}

/// Records that the text of a file is to be indexed from byte `off` on.
pub(crate) fn leave(conn: &Connection, ino: Ino, off: u64) -> DbResult<()> {
    conn.prepare_cached("INSERT OR REPLACE INTO unindexed (ino, off) VALUES (?1, ?2)")?
        .execute(params![ino.0, off])?;
    Ok(())
}

/// Applies a change to a file that is not completely indexed, from byte `from` on: the passages that it
/// touches are left for the background, too.
fn leave_more(conn: &Connection, change: &Change<'_>, from: u64, gone: &mut Vec<i64>) -> DbResult<()> {
    let edit = change.edit.visible();
    // The change is in the part that is still to be indexed.
    if change.searchable && edit.start >= from {
        return Ok(());
    }
    let keep = if change.searchable {
        last_before(conn, change.ino, edit.start)?.map(|it| it.span.off)
    } else {
        None
    };
    let keep = keep.unwrap_or(0);
    gone.extend(passages(conn, change.ino, keep, MAX_OFFSET)?.iter().map(|passage| passage.id));
    line_counts::forget(conn, change.ino, keep)?;
    leave(conn, change.ino, keep)
}

/// Plans a change: adds the rows to delete to `gone`, and returns the region to index.
fn plan(
    writer: &IndexWriter<'_>,
    change: &Change<'_>,
    gone: &mut Vec<i64>,
    read: &mut Read<'_>,
) -> DbResult<Option<Region>> {
    let (conn, ino, edit) = (writer.conn, change.ino, change.edit.visible());
    // A file that was empty before has no passages.
    let last = if edit.old_size == 0 { None } else { last_before(conn, ino, MAX_OFFSET)? };
    let drop_all = |gone: &mut Vec<i64>| -> DbResult<()> {
        if last.is_some() {
            gone.extend(passages(conn, ino, 0, MAX_OFFSET)?.iter().map(|passage| passage.id));
            line_counts::forget(conn, ino, 0)?;
        }
        Ok(())
    };
    if !change.searchable || edit.new_size == 0 {
        drop_all(gone)?;
        return Ok(None);
    }
    if edit.start >= edit.end && edit.new_size == edit.old_size {
        return Ok(None);
    }
    // A file that is not text by its first bytes does not become text by later ones.
    if last.is_none() && edit.start >= SNIFF {
        return Ok(None);
    }
    let (size, open) = (edit.new_size, false);
    let mut form = last.filter(|last| last.id > writer.old).map(|last| last.form);
    // Only the first bytes tell whether a file is text, and in which form. An index of format 2 does not
    // record it.
    if edit.start < SNIFF || form.is_none() {
        let prefix = read(ino, 0..size.min(SNIFF))?;
        let now = Form::of(&prefix);
        if !is_text(&prefix, change.content_type) {
            drop_all(gone)?;
            return Ok(None);
        }
        // All passages were tokenized in the other form.
        if form.is_some_and(|form| form != now) {
            drop_all(gone)?;
            return Ok(Some(Region { bytes: 0..size, form: now, open, size }));
        }
        form = Some(now);
    }
    let form = form.unwrap_or_default();
    let mut region = Region { bytes: 0..size, form, open, size };
    if last.is_some() {
        region.bytes = cover::changed(conn, ino, &edit, form, read)?;
        let Range { start, end } = region.bytes;
        let to = if end == size { MAX_OFFSET } else { end.saturating_sub(1) };
        gone.extend(passages(conn, ino, start, to)?.iter().map(|passage| passage.id));
    }
    if !region.bytes.is_empty() {
        secret_context::widen(conn, ino, &edit, &mut region.bytes, gone, read)?;
    }
    Ok(Some(region))
}

/// Returns eight bytes of BLAKE3: enough to recognise a passage of other bytes.
pub(crate) fn hash(bytes: &[u8]) -> i64 {
    let mut first = [0; 8];
    first.copy_from_slice(&blake3::hash(bytes).as_bytes()[..8]);
    i64::from_le_bytes(first)
}
