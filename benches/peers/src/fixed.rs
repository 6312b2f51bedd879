//! Fixed rows into plain SQLite, in tables that are independent of garth's: the cost of the rows alone,
//! however many garth writes.

use std::path::Path;
use std::time::Instant;

use anyhow::{Result, ensure};
use rusqlite::{Connection, TransactionBehavior, params};

use crate::figures::Figures;

/// Operations of one transaction.
pub(crate) const GROUP: usize = 32;

/// Directories of the renamed tree.
pub(crate) const DIRS: usize = 50;

/// Size of a value, in bytes.
const VALUE: usize = 210;

/// Opens a new database with durable commits.
pub(crate) fn database(folder: &Path) -> Result<Connection> {
    let conn = Connection::open(folder.join("plain.db"))?;
    let mode: String = conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    ensure!(mode == "wal", "the disk does not take WAL");
    conn.pragma_update(None, "synchronous", "FULL")?;
    Ok(conn)
}

/// Inserts a name, a node, an extent and a log row for each put, in groups of 32.
pub(crate) fn put(folder: &Path, puts: usize) -> Result<Figures> {
    let mut conn = database(folder)?;
    conn.execute_batch(
        "CREATE TABLE name (path TEXT PRIMARY KEY, node INTEGER NOT NULL, since INTEGER NOT NULL) WITHOUT ROWID;
         CREATE TABLE node (
             id INTEGER PRIMARY KEY, since INTEGER NOT NULL, size INTEGER NOT NULL, time INTEGER NOT NULL, tags TEXT
         );
         CREATE TABLE extent (node INTEGER PRIMARY KEY, hash INTEGER NOT NULL, data BLOB NOT NULL);
         CREATE TABLE log (seq INTEGER PRIMARY KEY, time INTEGER NOT NULL, author TEXT, changes TEXT NOT NULL);",
    )?;
    let value = vec![b'x'; VALUE];
    let start = Instant::now();
    for first in (0..puts).step_by(GROUP) {
        let group = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        {
            let mut name = group.prepare_cached("INSERT INTO name VALUES (?1, ?2, ?2)")?;
            let mut node = group.prepare_cached("INSERT INTO node VALUES (?1, ?1, ?2, ?1, NULL)")?;
            let mut extent = group.prepare_cached("INSERT INTO extent VALUES (?1, ?1, ?2)")?;
            let mut log = group.prepare_cached("INSERT INTO log VALUES (?1, ?1, 'default', ?2)")?;
            for put in first..puts.min(first + GROUP) {
                let path = format!("/agents/default/kv/user/{}/preferences/{put}.json", put % 50);
                name.execute(params![path, put])?;
                node.execute(params![put, VALUE])?;
                extent.execute(params![put, value])?;
                log.execute(params![put, path])?;
            }
        }
        group.commit()?;
    }
    let mut figures = Figures::default();
    figures.time("put", start.elapsed(), puts);
    Ok(figures)
}

/// Renames the rows of a tree of [`DIRS`] directories in one transaction, without keeping the past.
pub(crate) fn rename(folder: &Path, files: usize) -> Result<Figures> {
    let mut conn = database(folder)?;
    conn.execute_batch(
        "CREATE TABLE name (
             dir TEXT, name TEXT, node INTEGER NOT NULL, since INTEGER NOT NULL, kind INTEGER NOT NULL,
             PRIMARY KEY (dir, name)
         ) WITHOUT ROWID;
         CREATE INDEX name_node ON name (node);",
    )?;
    let fill = conn.transaction()?;
    {
        let mut name = fill.prepare("INSERT INTO name VALUES (?1, ?2, ?3, 1, ?4)")?;
        name.execute(params!["", "old", 0, 1])?;
        for node in 1..=DIRS {
            name.execute(params!["/old", node.to_string(), node, 1])?;
        }
        for node in 0..files {
            let dir = format!("/old/{}", 1 + node % DIRS);
            name.execute(params![dir, format!("{node}.md"), 1 + DIRS + node, 0])?;
        }
    }
    fill.commit()?;
    let start = Instant::now();
    let rename = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let top = "UPDATE name SET name = 'new', since = 2 WHERE dir = '' AND name = 'old'";
    let below = "UPDATE name SET dir = '/new' || substr(dir, 5), since = 2
                 WHERE dir = '/old' OR (dir >= '/old/' AND dir < '/old0')";
    let moved = rename.execute(top, [])? + rename.execute(below, [])?;
    rename.commit()?;
    let spent = start.elapsed();
    // A statement that matches nothing would be fast, and measure nothing.
    ensure!(moved == 1 + DIRS + files, "every name is moved");
    let mut figures = Figures::default();
    figures.time("rename", spent, 1);
    Ok(figures)
}
