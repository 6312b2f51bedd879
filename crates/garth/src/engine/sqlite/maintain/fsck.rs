//! `fsck`: reads everything, changes nothing, reports what is wrong and where.

use std::collections::{HashMap, HashSet};
use std::fs;

use rusqlite::Connection;
use serde::Serialize;

use crate::engine::sqlite::SqliteFs;
use crate::engine::sqlite::index::update::{Searched, current_bytes};
use crate::engine::sqlite::index::verify;
use crate::engine::sqlite::maintain::unused;
use crate::engine::sqlite::read::rows;
use crate::engine::sqlite::read::view::ReadView;
use crate::engine::sqlite::schema::columns::KindColumn;
use crate::engine::sqlite::schema::{SUBJECT, answer, changes};
use crate::error::{ErrorKind, Result};
use crate::model::{Ino, Kind};
use crate::sqlite::{DbResult, all};

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Fsck {
    /// Names looked at.
    pub names: u64,
    /// Versions of nodes looked at.
    pub versions: u64,
    /// Chunks whose bytes were compared with their checksum.
    pub chunks: u64,
    /// Bytes of those chunks.
    pub bytes: u64,
    /// What is wrong; empty for a sound account.
    pub findings: Vec<Finding>,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Which promise is broken: `database`, `head`, `name`, `link_count`, `attribute`, `content`,
    /// `missing_content`, `orphan_content`, `extent`, `expiry`, `log` or `index`.
    pub kind: &'static str,
    /// What and where.
    pub detail: String,
}

/// Gathers findings.
#[derive(Default)]
struct Report(Fsck);

impl Report {
    fn add(&mut self, kind: &'static str, detail: String) {
        self.0.findings.push(Finding { kind, detail });
    }

    /// Runs a step. Damage that stops it becomes a finding, so that the other steps still run.
    fn step(&mut self, step: impl FnOnce(&mut Self) -> DbResult<()>) -> DbResult<()> {
        match step(self) {
            Err(error) if error.is(ErrorKind::Corrupt) => {
                self.add("database", error.describe(&SUBJECT).to_string());
                Ok(())
            }
            other => other,
        }
    }
}

impl SqliteFs {
    /// Checks the whole account, in one snapshot. Blocks; not for an async worker thread.
    ///
    /// # Errors
    /// From the storage. Damage is no error: it is in the report.
    pub fn fsck(&self) -> Result<Fsck> {
        // files before rows: an upload makes its row before its file
        let files = self.pack_files()?;
        self.inner.pool.read_on_new(|conn| {
            let view = &self.view_on(conn);
            let mut report = Report::default();
            report.step(|report| database(view.conn, report))?;
            report.step(|report| head(view.conn, report))?;
            report.step(|report| log(view.conn, report))?;
            report.step(|report| names(view.conn, report))?;
            report.step(|report| links(view.conn, report))?;
            report.step(|report| expiries(view.conn, report))?;
            report.step(|report| chunks(view, report))?;
            report.step(|report| extents(view.conn, report))?;
            report.step(|report| packs(view, &files, report))?;
            report.step(|report| index(view, report))?;
            Ok(report.0)
        })
    }
}

fn database(conn: &Connection, report: &mut Report) -> DbResult<()> {
    let mut statement = conn.prepare("PRAGMA integrity_check(100)")?;
    let mut rows = statement.query([])?;
    // row by row, so that what it reports before damage stops it is kept
    while let Some(row) = rows.next()? {
        let line: String = row.get(0)?;
        if line != "ok" {
            report.add("database", line);
        }
    }
    Ok(())
}

fn head(conn: &Connection, report: &mut Report) -> DbResult<()> {
    let head = rows::head(conn)?;
    let one = |sql: &str| -> DbResult<u64> { Ok(conn.query_row(sql, [], |row| row.get(0))?) };
    let (count, last) = (one("SELECT count(*) FROM log")?, one("SELECT coalesce(max(seq), 0) FROM log")?);
    if last != head.seq || count != head.seq {
        report.add(
            "head",
            format!("the head is at commit {}, the log has {count}, the last is {last}", head.seq),
        );
    }
    let top = one("SELECT coalesce(max(ino), 0) FROM node")?;
    if top >= head.next_ino {
        report.add("head", format!("node {top} is there, but the next one would be {}", head.next_ino));
    }
    let top = one("SELECT coalesce(max(id), 0) FROM chunk")?;
    if top >= head.next_chunk {
        report.add("head", format!("chunk {top} is there, but the next one would be {}", head.next_chunk));
    }
    Ok(())
}

fn log(conn: &Connection, report: &mut Report) -> DbResult<()> {
    let sql = "SELECT seq, 0 AS first, changes, answer FROM log
         UNION ALL SELECT seq, first, changes, NULL FROM log_more ORDER BY seq, first";
    let mut statement = conn.prepare(sql)?;
    let mut rows = statement.query([])?;
    // commit and number of the piece of changes that has to come next
    let mut due: Option<(u64, u64)> = None;
    let missing = |(seq, first)| format!("the changes of commit {seq} are missing from number {first} on");
    while let Some(row) = rows.next()? {
        let (seq, first): (u64, u64) = (row.get(0)?, row.get(1)?);
        match due.take() {
            Some(due) if due != (seq, first) => report.add("log", missing(due)),
            None if first != 0 => {
                report.add("log", format!("changes of commit {seq} from number {first} on follow nothing"));
            }
            _ => {}
        }
        match changes::from_json(&row.get::<_, String>(2)?) {
            Ok((changes, more)) => due = more.then_some((seq, first + changes.len() as u64)),
            Err(_) => report.add("log", format!("the changes of commit {seq} cannot be read")),
        }
        let answer = row.get::<_, Option<String>>(3)?;
        let no_size = |_, _| Ok(0);
        if answer.is_some_and(|json| answer::from_json(&json, seq, no_size).is_err()) {
            report.add("log", format!("the answer of commit {seq} cannot be read"));
        }
    }
    if let Some(due) = due {
        report.add("log", missing(due));
    }
    let sql = "SELECT count(*) FROM idempotency AS record WHERE NOT EXISTS
         (SELECT 1 FROM log WHERE log.seq = record.seq AND log.answer IS NOT NULL)";
    let lost: u64 = conn.query_row(sql, [], |row| row.get(0))?;
    if lost > 0 {
        report.add("log", format!("{lost} idempotency keys lead to no answer"));
    }
    Ok(())
}

fn names(conn: &Connection, report: &mut Report) -> DbResult<()> {
    let mut statement = conn.prepare("SELECT dir, name, ino, kind FROM name ORDER BY dir, name")?;
    let mut rows = statement.query([])?;
    let mut dirs: HashSet<String> = HashSet::from([String::new()]);
    while let Some(row) = rows.next()? {
        report.0.names += 1;
        let (dir, name, ino): (String, String, u64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let kind = row.get::<_, KindColumn>(3)?.0;
        // directories come before what is in them
        if !dirs.contains(&dir) {
            report.add("name", format!("{dir}/{name} lies in no directory"));
        }
        match rows::node(conn, ino, rows::MAX)? {
            None => report.add("name", format!("{dir}/{name} names node {ino}, which is not there")),
            Some(node) if node.kind != kind => {
                report.add("name", format!("{dir}/{name} and its node {ino} are of different kinds"));
            }
            Some(node) if node.nlink == 0 => {
                report.add("link_count", format!("{dir}/{name} names node {ino}, which should have no name"));
            }
            Some(_) => {}
        }
        if kind == Kind::Directory {
            dirs.insert(format!("{dir}/{name}"));
        }
    }
    Ok(())
}

fn links(conn: &Connection, report: &mut Report) -> DbResult<()> {
    let mut count: HashMap<u64, u64> = HashMap::new();
    let mut subdirs: HashMap<String, u64> = HashMap::new();
    let rows: Vec<(String, String, u64, Kind)> =
        all(conn, "SELECT dir, name, ino, kind FROM name", [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get::<_, KindColumn>(3)?.0))
        })?;
    let mut dirs: Vec<(String, u64)> = vec![(String::new(), Ino::ROOT.0)];
    for (dir, name, ino, kind) in rows {
        if kind == Kind::Directory {
            dirs.push((format!("{dir}/{name}"), ino));
            *subdirs.entry(dir).or_default() += 1;
        } else {
            *count.entry(ino).or_default() += 1;
        }
    }
    for (path, ino) in dirs {
        count.insert(ino, 2 + subdirs.get(&path).copied().unwrap_or(0));
    }
    let sql = "SELECT ino, nlink FROM node AS last
         WHERE seq = (SELECT max(seq) FROM node WHERE node.ino = last.ino)";
    let nodes: Vec<(u64, u64)> = all(conn, sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    for (ino, nlink) in nodes {
        let names = count.get(&ino).copied().unwrap_or(0);
        if names != nlink {
            report.add("link_count", format!("node {ino} counts {nlink} links and has {names}"));
        }
    }
    let missing = "SELECT node.ino, node.seq FROM node LEFT JOIN attribute
         ON attribute.ino = node.ino AND attribute.seq = node.attrs_seq
         WHERE node.attrs_seq > 0 AND attribute.ino IS NULL";
    let rows: Vec<(u64, u64)> = all(conn, missing, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    for (ino, seq) in rows {
        report.add("attribute", format!("node {ino} has lost its attributes of commit {seq}"));
    }
    report.0.versions = conn.query_row("SELECT count(*) FROM node", [], |row| row.get(0))?;
    Ok(())
}

fn chunks(view: &ReadView<'_>, report: &mut Report) -> DbResult<()> {
    let mut statement = view.conn.prepare("SELECT id, len FROM chunk ORDER BY id")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (id, len): (u64, u64) = (row.get(0)?, row.get(1)?);
        report.0.chunks += 1;
        report.0.bytes += len;
        match view.packs.chunk(view.conn, id) {
            Ok(data) if data.len() as u64 == len => {}
            Ok(data) => {
                report.add("content", format!("chunk {id} has {} bytes instead of {len}", data.len()));
            }
            Err(error) => report.add("content", format!("chunk {id}: {}", error.describe(&SUBJECT))),
        }
    }
    Ok(())
}

fn extents(conn: &Connection, report: &mut Report) -> DbResult<()> {
    let sql =
        "SELECT extent.ino, extent.off, extent.chunk FROM extent LEFT JOIN chunk ON chunk.id = extent.chunk
         WHERE chunk.id IS NULL";
    let rows: Vec<(u64, u64, u64)> = all(conn, sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    for (ino, off, chunk) in rows {
        report.add(
            "missing_content",
            format!("node {ino} needs chunk {chunk} at byte {off}, which is not there"),
        );
    }
    let sql = "SELECT extent.ino, extent.off FROM extent JOIN chunk ON chunk.id = extent.chunk
         WHERE extent.skip + extent.len > chunk.len OR extent.len < 1
            OR (extent.till > 0 AND extent.till <= extent.since)
            OR extent.ino NOT IN (SELECT ino FROM node)
            OR (extent.till = 0 AND extent.off + extent.len >
                (SELECT size FROM node WHERE node.ino = extent.ino ORDER BY seq DESC LIMIT 1))";
    let rows: Vec<(u64, u64)> = all(conn, sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    for (ino, off) in rows {
        report.add("extent", format!("the extent of node {ino} at byte {off} is impossible"));
    }
    let sql = "SELECT ino, off FROM (
             SELECT ino, off, lag(off + len) OVER (PARTITION BY ino ORDER BY off) AS before FROM extent WHERE till = 0
         ) WHERE before > off";
    let rows: Vec<(u64, u64)> = all(conn, sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    for (ino, off) in rows {
        report.add("extent", format!("extents of node {ino} overlap at byte {off}"));
    }
    for (id, _) in unused::chunks(conn)? {
        report.add("orphan_content", format!("nothing refers to chunk {id}; `garth gc` removes it"));
    }
    Ok(())
}

fn packs(view: &ReadView<'_>, files: &[String], report: &mut Report) -> DbResult<()> {
    let rows: Vec<(String, u64, Option<i64>)> =
        all(view.conn, "SELECT file, size, doomed_at FROM pack", [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?;
    let path = |file: &str| view.packs.folder().join(file);
    for (file, size, doomed) in rows {
        // a file that cannot be looked at cannot be read either
        let there = fs::metadata(path(&file)).ok().map(|file| file.len());
        if doomed.is_none() && there != Some(size) {
            report.add("missing_content", format!("pack {file} should have {size} bytes, it has {there:?}"));
        }
    }
    for name in unused::pack_files(view.conn, files)? {
        // an upload given up since then has removed its file before its row
        if path(&name).exists() {
            report.add("orphan_content", format!("pack {name} belongs to nothing; `garth gc` removes it"));
        }
    }
    Ok(())
}

fn expiries(conn: &Connection, report: &mut Report) -> DbResult<()> {
    let sql = "WITH due AS (
             SELECT ino, expires_at AS at FROM node AS last
             WHERE expires_at IS NOT NULL AND nlink > 0
               AND seq = (SELECT max(seq) FROM node WHERE node.ino = last.ino)
         )
         SELECT ino FROM (SELECT ino, at FROM expiry EXCEPT SELECT ino, at FROM due)
         UNION
         SELECT ino FROM (SELECT ino, at FROM due EXCEPT SELECT ino, at FROM expiry)";
    for ino in all(conn, sql, [], |row| row.get::<_, u64>(0))? {
        report.add("expiry", format!("when node {ino} expires and the list of expiries disagree"));
    }
    Ok(())
}

fn index(view: &ReadView<'_>, report: &mut Report) -> DbResult<()> {
    for fault in verify::index(view.conn)? {
        report.add("index", fault.to_string());
    }
    let mut files = Vec::new();
    for ino in rows::files(view.conn)? {
        files.extend(Searched::of(view.conn, ino)?);
    }
    let known: HashSet<u64> = files.iter().map(|file| file.ino).collect();
    for ino in verify::files(view.conn)? {
        if !known.contains(&ino.0) {
            report.add("index", format!("node {} is in the search index and is no file", ino.0));
        }
    }
    for file in files {
        let read = &mut |range| current_bytes(view.conn, view.packs, Ino(file.ino), range);
        let content_type = file.content_type.as_deref();
        match verify::file(view.conn, Ino(file.ino), file.searchable, content_type, file.size, read) {
            Ok(faults) => faults.iter().for_each(|fault| report.add("index", fault.to_string())),
            // damaged content is found above
            Err(error) => report.add("index", {
                let error = error.describe(&SUBJECT);
                format!("node {} cannot be compared: {error}", file.ino)
            }),
        }
    }
    Ok(())
}
