//! The tables of an account's database, and how one is made, opened and brought up to date. Drawn in `docs/format.md`.

pub(crate) mod columns;

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::engine::sqlite::index::fts;
use crate::engine::sqlite::write::writer_lock::WriterLock;
use crate::error::{Error, ErrorKind, Result};
use crate::model::Ino;
use crate::runtime::failpoint;
use crate::runtime::fault_injection::Fault;

/// Name of the database in an account's folder.
pub(crate) const DATABASE: &str = "tree.db";
/// `PRAGMA application_id`: "GRTH" in ASCII.
const APPLICATION_ID: i32 = 0x4752_5448;
/// What each format adds to the one before it, from format 2 on. Only ever appended to.
const MIGRATIONS: [&str; 1] = ["
CREATE TABLE unnamed (ino INTEGER PRIMARY KEY, doomed_at INTEGER NOT NULL) STRICT;
ALTER TABLE head ADD COLUMN copies INTEGER NOT NULL DEFAULT 0;
"];
/// `PRAGMA user_version`: the format this build writes.
const FORMAT: i32 = 1 + MIGRATIONS.len() as i32;
/// How long a connection waits for another process. Writers queue on a lock file before, so that this only meets checkpoints
/// and other tools.
pub(crate) const BUSY: Duration = Duration::from_secs(10);
/// Prepared statements kept by each connection; more than the engine has.
const STATEMENTS: usize = 128;

/// The tables of format 1. `seq`, `since`, `till` are sequences; an extent whose `till` is 0 is live. Times are ns since 1970.
const TABLES: &str = "
CREATE TABLE head (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    seq INTEGER NOT NULL, time INTEGER NOT NULL,
    next_ino INTEGER NOT NULL, next_chunk INTEGER NOT NULL, syncs INTEGER NOT NULL
) STRICT;
CREATE TABLE name (
    dir TEXT NOT NULL, name TEXT NOT NULL,
    ino INTEGER NOT NULL, since INTEGER NOT NULL, kind INTEGER NOT NULL,
    PRIMARY KEY (dir, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX name_ino ON name (ino);
CREATE TABLE name_past (
    dir TEXT NOT NULL, name TEXT NOT NULL, till INTEGER NOT NULL,
    ino INTEGER NOT NULL, since INTEGER NOT NULL, kind INTEGER NOT NULL,
    PRIMARY KEY (dir, name, till)
) STRICT, WITHOUT ROWID;
CREATE INDEX name_past_ino ON name_past (ino, till);
CREATE TABLE node (
    ino INTEGER NOT NULL, seq INTEGER NOT NULL,
    kind INTEGER NOT NULL, mode INTEGER NOT NULL, uid INTEGER NOT NULL, gid INTEGER NOT NULL, rdev INTEGER NOT NULL,
    nlink INTEGER NOT NULL, size INTEGER NOT NULL,
    mtime INTEGER NOT NULL, ctime INTEGER NOT NULL, birthtime INTEGER NOT NULL, atime INTEGER NOT NULL,
    target TEXT, attrs_seq INTEGER NOT NULL, expires_at INTEGER, content_seq INTEGER NOT NULL,
    PRIMARY KEY (ino, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE attribute (
    ino INTEGER NOT NULL, seq INTEGER NOT NULL, json TEXT NOT NULL,
    PRIMARY KEY (ino, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE extent (
    ino INTEGER NOT NULL, till INTEGER NOT NULL, off INTEGER NOT NULL,
    len INTEGER NOT NULL, since INTEGER NOT NULL, chunk INTEGER NOT NULL, skip INTEGER NOT NULL,
    PRIMARY KEY (ino, till, off)
) STRICT, WITHOUT ROWID;
CREATE TABLE chunk (
    id INTEGER PRIMARY KEY,
    sum BLOB NOT NULL, data BLOB, pack INTEGER, pos INTEGER, len INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX chunk_sum ON chunk (sum) WHERE length(sum) = 32;
CREATE TABLE pack (
    id INTEGER PRIMARY KEY, file TEXT NOT NULL UNIQUE, size INTEGER NOT NULL, doomed_at INTEGER
) STRICT;
CREATE TABLE staged (
    id BLOB PRIMARY KEY, pieces TEXT, lease INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE lease (
    ino INTEGER NOT NULL, holder BLOB NOT NULL, until INTEGER NOT NULL,
    PRIMARY KEY (ino, holder)
) STRICT, WITHOUT ROWID;
CREATE TABLE log (
    seq INTEGER PRIMARY KEY, time INTEGER NOT NULL, id BLOB, author TEXT, message TEXT, changes TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX log_id ON log (id) WHERE id IS NOT NULL;
CREATE TABLE idempotency (
    key TEXT PRIMARY KEY, hash BLOB NOT NULL, keep_until INTEGER NOT NULL, answer TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE snapshot (name TEXT PRIMARY KEY, seq INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE expiry (ino INTEGER PRIMARY KEY, at INTEGER NOT NULL) STRICT;
CREATE INDEX expiry_at ON expiry (at);
";

/// Opens a connection to an account's database, which must be there.
pub(crate) fn connect(folder: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(folder.join(DATABASE), flags)?;
    prepare(&conn)?;
    Ok(conn)
}

/// Makes the database if it is missing, brings it up to date, and refuses one of a newer format.
pub(crate) fn ready(folder: &Path, writer_lock: &WriterLock) -> Result<()> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(folder.join(DATABASE), flags)?;
    conn.busy_timeout(BUSY)?;
    if format(&conn)? == FORMAT {
        return Ok(());
    }
    // one process makes it, the others find it made
    let _turn = writer_lock.acquire()?;
    match format(&conn)? {
        FORMAT => return Ok(()),
        older => bring_up_to_date(&conn, older)?,
    }
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(|e| Error::new(ErrorKind::Io, "the account's folder cannot be synced").with_source(e))
}

/// The format of a database that this build can read; 0 if there is none yet.
fn format(conn: &Connection) -> Result<i32> {
    // both numbers in one transaction: another process may be making them just now
    let sql = "SELECT application_id, user_version FROM pragma_application_id, pragma_user_version";
    match conn.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))? {
        (0, 0) => Ok(0),
        (APPLICATION_ID, known @ 1..=FORMAT) => Ok(known),
        (APPLICATION_ID, newer) if newer > FORMAT => Err(Error::new(
            ErrorKind::Format,
            format!("the data is of format {newer}, this garth reads up to {FORMAT}; use a newer garth"),
        )),
        (_, _) => Err(Error::new(ErrorKind::Format, "the account's database is not one of garth's")),
    }
}

/// Makes the tables, or adds what an older format does not have: all of it or nothing.
fn bring_up_to_date(conn: &Connection, older: i32) -> Result<()> {
    conn.pragma_update(None, "journal_mode", "WAL")?;
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.execute_batch("BEGIN IMMEDIATE")?;
    if older == 0 {
        create(conn)?;
    }
    for (from, migration) in (1..).zip(MIGRATIONS) {
        if from >= older {
            conn.execute_batch(migration)?;
            failpoint::point("migrate")?;
        }
    }
    conn.pragma_update(None, "user_version", FORMAT)?;
    Ok(conn.execute_batch("COMMIT")?)
}

fn create(conn: &Connection) -> Result<()> {
    conn.execute_batch(TABLES)?;
    fts::create(conn)?;
    // the empty tree has no time of its own
    conn.execute("INSERT INTO head VALUES (1, 0, 0, 2, 1, 0)", [])?;
    conn.execute(
        "INSERT INTO node VALUES (?1, 0, 1, 493, 0, 0, 0, 2, 0, 0, 0, 0, 0, NULL, 0, NULL, 0)",
        [Ino::ROOT.0],
    )?;
    Ok(conn.pragma_update(None, "application_id", APPLICATION_ID)?)
}

fn prepare(conn: &Connection) -> Result<()> {
    conn.busy_timeout(BUSY)?;
    // else a statement is planned again for every new value that is bound to it
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS);
    // 8 MiB of pages; memory map off: a flipped bit on disk must not become a signal
    conn.pragma_update(None, "cache_size", -8192)?;
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    // a log that one large commit made long is cut when it begins anew; 16 MiB
    conn.pragma_update(None, "journal_size_limit", 16 << 20)?;
    // checkpoints are made off the commit path
    Ok(conn.pragma_update(None, "wal_autocheckpoint", 0)?)
}

/// Sets how a connection's commits reach the disk: with an fsync, or with the next one that has it.
pub(crate) fn set_synchronous(conn: &Connection, durable: bool, fault: Fault) -> Result<()> {
    let mode = match (durable, fault) {
        (_, Fault::SyncOff) => "OFF",
        (true, Fault::None | Fault::AckEarly | Fault::SplitBatch) => "FULL",
        (false, _) | (true, Fault::SyncNormal) => "NORMAL",
    };
    Ok(conn.pragma_update(None, "synchronous", mode)?)
}
