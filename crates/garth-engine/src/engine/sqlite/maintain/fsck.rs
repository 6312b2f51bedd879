//! Checks all data of an account without changing it, and reports each flaw with its place.
//!
//! The check works in pieces, each in a read transaction of its own: a long one would keep the WAL from
//! starting over. A row is checked together with the rows that it must fit, in one piece; what a commit or
//! `gc` changes between two pieces is checked as it is then. Memory does not grow with the account.

mod chunks_and_packs;
mod derived_keys;
mod folded_log;
mod judged_rules;
mod names_and_nodes;
mod past_rows;
mod quota_usage;
mod references;
mod retention_rows;
mod timestamps;

use rusqlite::Connection;

use crate::engine::relational::{answer_column, changes_column};
use crate::engine::sqlite::SqliteFs;
use crate::engine::sqlite::fulltext::changed_files::{IndexedFile, current_bytes};
use crate::engine::sqlite::fulltext::verify;
use crate::engine::sqlite::query::read_view::ReadView;
use crate::engine::sqlite::schema::SUBJECT;
use crate::engine::sqlite::tables::{fold, head};
use crate::error::{ErrorKind, Result};
use crate::fs::store::Fsck;
use crate::model::Ino;
use crate::sqlite::patience::Bound;
use crate::sqlite::{DbResult, all, one};

/// Rows of a piece.
const ROWS: usize = 1000;
/// Bytes of content after which a piece ends.
const BYTES: u64 = 4 << 20;
/// Steps that SQLite may take to check the structure of one table: about half a second.
const STRUCTURE: u64 = 5_000_000;

/// A check in progress.
struct Check<'a> {
    fs: &'a SqliteFs,
    report: Fsck,
}

impl SqliteFs {
    /// Implements `AccountStore::fsck` on this thread.
    pub(crate) fn check(&self) -> Result<Fsck> {
        let mut check = Check { fs: self, report: Fsck::default() };
        check.structure()?;
        check.part(|check| check.log())?;
        check.part(|check| check.names())?;
        check.part(|check| check.nodes())?;
        check.part(|check| check.dir_times())?;
        check.part(|check| check.past_names())?;
        check.part(|check| check.past_nodes())?;
        check.part(|check| check.replaced())?;
        check.part(|check| check.retention())?;
        check.part(|check| check.content_spans())?;
        check.part(|check| check.chunks())?;
        check.part(|check| check.extents())?;
        check.part(|check| check.packs())?;
        check.part(|check| check.references())?;
        check.part(|check| check.index())?;
        check.part(|check| check.projections())?;
        check.part(|check| check.quotas())?;
        check.part(|check| check.judged())?;
        Ok(check.report)
    }
}

impl Check<'_> {
    /// Runs a part. Damage that stops it becomes a finding, so that the other parts still run.
    fn part(&mut self, part: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        match part(self) {
            Err(error) if error.is(ErrorKind::Corrupt) => {
                self.report.add("database", error.to_string());
                Ok(())
            }
            other => other,
        }
    }

    /// Reads a table from `from` on, each piece in a transaction of its own, until a piece returns no place
    /// to continue.
    fn walk<K>(
        &mut self,
        from: K,
        mut piece: impl FnMut(&ReadView<'_>, &mut Fsck, K) -> DbResult<Option<K>>,
    ) -> Result<()> {
        let (mut next, report) = (Some(from), &mut self.report);
        while let Some(from) = next {
            next = self.fs.with_view(|view| piece(view, report, from))?;
        }
        Ok(())
    }

    /// Has SQLite check the structure of each table and its indexes.
    fn structure(&mut self) -> Result<()> {
        let pool = &self.fs.inner.pool;
        let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0";
        let tables: Vec<String> = match pool.read(|conn| all(conn, sql, [], |row| row.get(0))) {
            Err(error) if error.is(ErrorKind::Corrupt) => {
                self.report.add("database", error.to_string());
                return Ok(());
            }
            other => other?,
        };
        for table in tables {
            let report = &mut self.report;
            match pool.read_within(Bound::Steps(STRUCTURE), |conn, _| structure(conn, &table, report)) {
                Ok(()) => {}
                // Too large to be checked within the bound: the report names it instead.
                Err(error) if error.is(ErrorKind::TimedOut) => self.report.large.push(table),
                Err(error) if error.is(ErrorKind::Corrupt) => self.report.add("database", error.to_string()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Checks the head row and the log that led to it.
    fn log(&mut self) -> Result<()> {
        self.part(|check| check.folded_log())?;
        let mut last = 0;
        self.walk(0, |view, report, from: u64| {
            if from == 0 {
                last = head(view.conn, report)?;
            }
            // A collection that runs meanwhile removes commits from the beginning.
            let begin = fold::log_begin(view.conn)?;
            let sql = "SELECT seq, changes, answer FROM log WHERE seq > ?1 ORDER BY seq LIMIT ?2";
            let mut statement = view.conn.prepare_cached(sql)?;
            let mut rows = statement.query(rusqlite::params![from, ROWS])?;
            let mut at = from;
            while let Some(row) = rows.next()? {
                let seq: u64 = row.get(0)?;
                let before = at.max(begin.saturating_sub(1));
                if seq >= begin && seq != before + 1 {
                    report.add("head", format!("the log has no commit between {before} and {seq}"));
                }
                match changes_column::from_json(&row.get::<_, String>(1)?) {
                    Ok((changes, more)) => pieces(view.conn, seq, (changes.len() as u64, more), report)?,
                    Err(_) => report.add("log", format!("the changes of commit {seq} cannot be read")),
                }
                let answer = row.get::<_, Option<String>>(2)?;
                // Sizes are not checked: an older record without them parses with any.
                let no_size = |_, _| -> Result<u64> { Ok(0) };
                if answer.is_some_and(|json| answer_column::from_json(&json, seq, no_size).is_err()) {
                    report.add("log", format!("the answer of commit {seq} cannot be read"));
                }
                at = seq;
            }
            // The log ended before the head.
            if at == from && at < last {
                report.add("head", format!("the head is at commit {last}, the last of the log is {at}"));
            }
            Ok((at > from).then_some(at))
        })?;
        // By the whole primary key: owners may use the same key, also on both sides of a piece's end.
        self.walk((String::new(), String::new()), |view, report, (owner, key)| {
            let sql = "SELECT record.owner, record.key, log.answer IS NULL FROM
                 (SELECT owner, key, seq FROM idempotency WHERE (owner, key) > (?1, ?2)
                  ORDER BY owner, key LIMIT ?3) AS record
                 LEFT JOIN log ON log.seq = record.seq ORDER BY record.owner, record.key";
            let records: Vec<((String, String), bool)> =
                all(view.conn, sql, rusqlite::params![owner, key, ROWS], |row| {
                    Ok(((row.get(0)?, row.get(1)?), row.get(2)?))
                })?;
            let lost = records.iter().filter(|(_, lost)| *lost).count();
            if lost > 0 {
                report.add("log", format!("{lost} idempotency keys have no stored result"));
            }
            Ok(records.into_iter().next_back().map(|(record, _)| record))
        })
    }

    /// Checks the search index: each file must be in it with its current content, and nothing else.
    fn index(&mut self) -> Result<()> {
        // On a new connection: FTS5 caches its index, and would check the cache.
        let faults = self.fs.inner.pool.read_on_new(verify::index)?;
        for fault in faults {
            self.report.add("index", fault.to_string());
        }
        self.walk(0, |view, report, from: u64| {
            let sql = "SELECT DISTINCT ino FROM passage WHERE ino > ?1 ORDER BY ino LIMIT ?2";
            let inos: Vec<u64> = all(view.conn, sql, rusqlite::params![from, ROWS], |row| row.get(0))?;
            for ino in &inos {
                if IndexedFile::of(view.conn, *ino)?.is_none() {
                    report.add("index", format!("node {ino} is in the search index but is not a file"));
                }
            }
            Ok(inos.last().copied())
        })?;
        self.walk(0, |view, report, from: u64| {
            let sql = "SELECT DISTINCT ino FROM node WHERE kind = 0 AND ino > ?1 ORDER BY ino LIMIT ?2";
            let inos: Vec<u64> = all(view.conn, sql, rusqlite::params![from, ROWS], |row| row.get(0))?;
            let mut bytes = 0;
            for ino in &inos {
                let Some(file) = IndexedFile::of(view.conn, *ino)? else { continue };
                indexed(view, &file, report)?;
                // A piece ends by content, too, so that its transaction stays short.
                bytes += file.size;
                if bytes >= BYTES {
                    return Ok(Some(*ino));
                }
            }
            Ok(inos.last().copied())
        })
    }
}

fn structure(conn: &Connection, table: &str, report: &mut Fsck) -> DbResult<()> {
    // Tables of an older index are dropped once the index has been rebuilt.
    if !is_there(conn, table)? {
        return Ok(());
    }
    let sql = format!("PRAGMA integrity_check('{}')", table.replace('\'', "''"));
    let mut statement = conn.prepare(&sql)?;
    let mut rows = statement.query([])?;
    // Row by row, so that findings before a read error are included.
    while let Some(row) = rows.next()? {
        let line: String = row.get(0)?;
        if line != "ok" {
            report.add("database", line);
        }
    }
    Ok(())
}

fn is_there(conn: &Connection, table: &str) -> DbResult<bool> {
    let sql = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1";
    Ok(one(conn, sql, [table], |_| Ok(()))?.is_some())
}

/// Checks the pieces after the first changes of a commit: each follows the one before, and the last is marked
/// as such.
fn pieces(conn: &Connection, seq: u64, (mut due, mut more): (u64, bool), report: &mut Fsck) -> DbResult<()> {
    let sql = "SELECT first, changes FROM log_more WHERE seq = ?1 ORDER BY first";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query([seq])?;
    while let Some(row) = rows.next()? {
        let first: u64 = row.get(0)?;
        if !more || first != due {
            report.add("log", format!("the changes of commit {seq} before number {first} are missing"));
            return Ok(());
        }
        let Ok((changes, further)) = changes_column::from_json(&row.get::<_, String>(1)?) else {
            report.add("log", format!("the changes of commit {seq} cannot be read"));
            return Ok(());
        };
        (due, more) = (due + changes.len() as u64, further);
    }
    if more {
        report.add("log", format!("the changes of commit {seq} are missing from number {due} on"));
    }
    Ok(())
}

/// Checks the head row against the tables. Returns the last commit.
fn head(conn: &Connection, report: &mut Fsck) -> DbResult<u64> {
    let head = head::get(conn)?;
    let one = |sql: &str| -> DbResult<u64> { Ok(conn.query_row(sql, [], |row| row.get(0))?) };
    // The head has the next numbers to assign. A number that is already in use would be assigned twice.
    let last = one("SELECT coalesce(max(seq), 0) FROM log")?;
    if last > head.seq {
        report.add("head", format!("the head is at commit {}, the last of the log is {last}", head.seq));
    }
    let top = one("SELECT coalesce(max(ino), 0) FROM node")?;
    if top >= head.next_ino {
        report.add("head", format!("node {top} exists, but the next inode is {}", head.next_ino));
    }
    let top = one("SELECT coalesce(max(id), 0) FROM chunk")?;
    if top >= head.next_chunk {
        report.add("head", format!("chunk {top} exists, but the next chunk is {}", head.next_chunk));
    }
    Ok(head.seq)
}

fn indexed(view: &ReadView<'_>, file: &IndexedFile, report: &mut Fsck) -> DbResult<()> {
    let ino = Ino(file.ino);
    let read = &mut |range| current_bytes(view.conn, view.packs, ino, range);
    let content_type = file.content_type.as_deref();
    match verify::file(view.conn, ino, file.searchable, content_type, file.size, read) {
        Ok(faults) => faults.iter().for_each(|fault| report.add("index", fault.to_string())),
        // The check of the chunks reports damaged content.
        Err(error) if error.is(ErrorKind::Corrupt) => {
            let error = error.describe(&SUBJECT);
            report.add("index", format!("node {} cannot be compared: {error}", file.ino));
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_table_is_no_damage() {
        let conn = Connection::open_in_memory().unwrap();
        let mut report = Fsck::default();
        structure(&conn, "passage_text_data", &mut report).unwrap();
        assert_eq!(report.findings, []);
    }
}
