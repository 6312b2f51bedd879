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

use crate::engine::search::reindexing::plan;
use crate::engine::search::{FileEdit, IndexedText, NewPassage, Passage};
use crate::engine::sqlite::fulltext::line_counts;
use crate::engine::sqlite::fulltext::passages::{form_number, last_before, old_until, passages};
use crate::model::Ino;
use crate::sqlite::{DbError, DbResult, all, one};
use crate::text::Tokenizer;
use crate::text::passage::{Edit, MAX_TEXT};

/// Reads bytes of a file; fewer than requested only at its end.
pub(crate) type Read<'a> = dyn FnMut(Ino, Range<u64>) -> DbResult<Vec<u8>> + 'a;

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

/// File in the index, in the state of one transaction.
pub(crate) struct StoredText<'a, 'r> {
    conn: &'a Connection,
    ino: Ino,
    /// Passages up to this row are in the index of format 2.
    old: i64,
    read: &'a mut Read<'r>,
}

impl IndexedText for StoredText<'_, '_> {
    type Error = DbError;

    fn passages(&mut self, from: u64, to: u64) -> DbResult<Vec<Passage>> {
        Ok(passages(self.conn, self.ino, from, to)?)
    }

    fn last_before(&mut self, off: u64) -> DbResult<Option<Passage>> {
        Ok(last_before(self.conn, self.ino, off)?)
    }

    fn read(&mut self, bytes: Range<u64>) -> DbResult<Vec<u8>> {
        (self.read)(self.ino, bytes)
    }

    /// An index of format 2 does not record the form.
    fn has_form(&self, passage: &Passage) -> bool {
        passage.id > self.old
    }
}

/// Writes passages in one transaction.
pub(crate) struct IndexWriter<'a> {
    conn: &'a Connection,
    /// Row of the next passage.
    next: i64,
    /// Passages up to this row are in the index of format 2.
    old: i64,
}

impl<'a> IndexWriter<'a> {
    pub(crate) fn new(conn: &'a Connection) -> DbResult<Self> {
        let old = old_until(conn)?.unwrap_or(0);
        let mut last = old;
        // Both, because a damaged index may have words of no passage.
        for sql in ["SELECT max(id) FROM passage", "SELECT max(id) FROM passage_word_docsize"] {
            let id: Option<i64> = conn.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
            last = last.max(id.unwrap_or(0));
        }
        Ok(Self { conn, next: last + 1, old })
    }

    /// Returns a file in the index, whose bytes `read` returns.
    pub(crate) fn text<'t, 'r>(&self, ino: Ino, read: &'t mut Read<'r>) -> StoredText<'t, 'r>
    where
        'a: 't,
    {
        StoredText { conn: self.conn, ino, old: self.old, read }
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

    /// Adds a passage of a file.
    pub(crate) fn insert(&mut self, ino: Ino, passage: &NewPassage) -> DbResult<()> {
        let NewPassage { span, line_feeds, form, hash, tokens, words } = passage;
        let id = self.next;
        self.next += 1;
        let json = form_number(*form);
        self.conn
            .prepare_cached(
                "INSERT INTO passage (id, ino, off, len, lines, newline, hash, json, words)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            )?
            .execute(params![id, ino.0, span.off, span.len, line_feeds, span.newline, hash, json, words])?;
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
    let mut writer = IndexWriter::new(conn)?;
    let some_unindexed: bool =
        conn.prepare_cached("SELECT EXISTS (SELECT 1 FROM unindexed)")?.query_row([], |row| row.get(0))?;
    let mut gone = Vec::new();
    let mut plans = Vec::with_capacity(changes.len());
    for change in changes {
        let Change { ino, searchable, content_type, edit } = *change;
        let unindexed = if some_unindexed { unindexed(conn, ino)? } else { None };
        let file = FileEdit { searchable, content_type, edit, unindexed };
        let mut plan = plan(&mut writer.text(ino, read), &file, &mut room)?;
        gone.append(&mut plan.removed);
        plans.push((change, plan));
    }
    // Deletions first, so that rows are mostly written in order (see `delete`).
    writer.delete(gone)?;
    for (change, plan) in plans {
        let ino = change.ino;
        // Passages are written as they are cut: the tokens of all of them may be as large as the text.
        let mut text = writer.text(ino, read);
        let mut insert = |passage: NewPassage| writer.insert(ino, &passage);
        if let Some(off) = plan.each_passage(&mut text, tokenizer, &mut insert)? {
            leave(conn, ino, off)?;
        }
        if plan.region.is_some() {
            line_counts::update(conn, ino, plan.changed, change.edit.visible())?;
        } else if !plan.changed.is_empty() {
            line_counts::forget(conn, ino, plan.changed.start)?;
        }
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
