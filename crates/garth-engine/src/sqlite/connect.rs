//! Opening a database file, including on a full disk or a read-only filesystem. The reasons are in
//! `docs/decisions/opening-on-full-or-read-only-disks.md`.

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, ffi};

use super::error::{DbError, DbResult, Subject};
use crate::runtime::disk::is_read_only;

/// Busy timeout of SQLite. Writers of a tree queue on a lock file first, so this only covers checkpoints and
/// other programs.
const BUSY: Duration = Duration::from_secs(10);

const READ_WRITE: OpenFlags = OpenFlags::SQLITE_OPEN_READ_WRITE;

/// A database file and its settings in this program.
#[derive(Clone, Debug)]
pub(crate) struct Database {
    pub(crate) file: PathBuf,
    pub(crate) subject: &'static Subject,
    /// Prepared statements cached by each connection: as many as its users have.
    pub(crate) statements: usize,
    /// Page cache of each connection, in KiB.
    pub(crate) cache_kib: i64,
    /// Further settings, applied to each connection.
    pub(crate) prepare: fn(&Connection) -> rusqlite::Result<()>,
}

/// Connection for reading only.
pub(crate) struct ReadConn {
    pub(crate) conn: Connection,
    pub(crate) hold: Hold,
}

/// Time for which a connection may stay open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Until it is no longer needed.
    Kept,
    /// For one read. It can never write, and may miss later commits of others.
    OneRead,
    /// For one read, during which it locks the file against every other connection.
    Exclusive,
}

impl Database {
    /// Opens a connection that may write.
    pub(crate) fn connect(&self) -> DbResult<Connection> {
        let conn = self.open(READ_WRITE, &self.file)?;
        #[cfg(test)]
        let conn = super::steps::counted(conn)?;
        Ok(conn)
    }

    /// Opens a connection that may write, and creates a missing file.
    pub(crate) fn connect_or_create(&self) -> DbResult<Connection> {
        self.open(READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE, &self.file)
    }

    /// Opens a connection for reading, in the least restrictive way that works.
    ///
    /// A WAL database needs its shared-memory file. If that cannot be created because the disk is full, the
    /// connection locks the file for itself and keeps the index of the WAL in memory. On a read-only
    /// filesystem no lock is possible. A file with a WAL next to it is opened read-only; one without a WAL
    /// was closed cleanly and cannot change there, which SQLite calls immutable. Such a connection takes no
    /// locks and never sees a change, so it is only used if the filesystem itself reports that it is
    /// read-only: a failure to open can have many reasons, and the same folder may be mounted writable
    /// elsewhere.
    pub(crate) fn connect_to_read(&self) -> DbResult<ReadConn> {
        let error = match self.connect().and_then(|conn| probe(&conn).map(|()| conn)) {
            Ok(conn) => return Ok(ReadConn { conn, hold: Hold::Kept }),
            Err(error) => error,
        };
        if is_full(&error) {
            let conn = Connection::open_with_flags(&self.file, READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
            // Before anything else: most settings already open the shared memory.
            conn.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
            // Closing must not try to write the WAL back to a full disk.
            conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
            self.configure(&conn)?;
            probe(&conn)?;
            return Ok(ReadConn { conn, hold: Hold::Exclusive });
        }
        if !is_refused(&error) || !is_read_only(&self.file) {
            return Err(error);
        }
        // The first failure explains more than that of the last resort.
        self.connect_read_only().map(|conn| ReadConn { conn, hold: Hold::OneRead }).map_err(|_| error)
    }

    /// Opens a connection to a file on a read-only filesystem.
    fn connect_read_only(&self) -> DbResult<Connection> {
        let read_only = OpenFlags::SQLITE_OPEN_READ_ONLY;
        let conn = if self.sibling("-wal").exists() {
            self.open(read_only, &self.file)?
        } else {
            self.open(read_only | OpenFlags::SQLITE_OPEN_URI, Path::new(&immutable_uri(&self.file)))?
        };
        probe(&conn)?;
        Ok(conn)
    }

    /// Returns the path of a file that SQLite stores next to this one.
    fn sibling(&self, suffix: &str) -> PathBuf {
        let mut name = self.file.clone().into_os_string();
        name.push(suffix);
        name.into()
    }

    fn open(&self, flags: OpenFlags, file: &Path) -> DbResult<Connection> {
        // A connection is used by one thread at a time, so SQLite needs no mutex.
        let conn = Connection::open_with_flags(file, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        self.configure(&conn)?;
        Ok(conn)
    }

    fn configure(&self, conn: &Connection) -> DbResult<()> {
        conn.busy_timeout(BUSY)?;
        // Without it, SQLite plans a statement again for each new bound value, which costs more than running
        // it.
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        conn.set_prepared_statement_cache_capacity(self.statements);
        // A negative size is in KiB, a positive one in pages.
        conn.pragma_update(None, "cache_size", -self.cache_kib)?;
        Ok((self.prepare)(conn)?)
    }
}

/// Restores the default busy timeout.
pub(crate) fn reset_busy_timeout(conn: &Connection) -> rusqlite::Result<()> {
    conn.busy_timeout(BUSY)
}

/// Reads from the database: only then does SQLite open WAL and shared memory.
fn probe(conn: &Connection) -> DbResult<()> {
    Ok(conn.query_row("SELECT count(*) FROM sqlite_schema WHERE 0", [], |_| Ok(()))?)
}

fn is_full(error: &DbError) -> bool {
    let shared_memory = [ffi::SQLITE_IOERR_SHMSIZE, ffi::SQLITE_IOERR_SHMOPEN, ffi::SQLITE_IOERR_SHMMAP];
    error.extended_code().is_some_and(|code| code & 0xff == ffi::SQLITE_FULL || shared_memory.contains(&code))
}

/// Returns true if a file could not be opened for writing.
fn is_refused(error: &DbError) -> bool {
    let DbError::Sqlite(error) = error else { return false };
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied)
    )
}

/// Returns a URI for SQLite (RFC 3986). All but unreserved characters are percent-encoded.
fn immutable_uri(file: &Path) -> String {
    let mut uri = String::from("file:");
    for byte in file.as_os_str().as_bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => {
                uri.push(char::from(*byte));
            }
            // Writing to a `String` does not fail.
            other => drop(write!(uri, "%{other:02X}")),
        }
    }
    uri.push_str("?immutable=1");
    uri
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    static SUBJECT: Subject = Subject { name: "the test's database", repair: "run nothing", removed: None };

    fn database(file: PathBuf) -> Database {
        Database { file, subject: &SUBJECT, statements: 16, cache_kib: 64, prepare: |_| Ok(()) }
    }

    /// Creates a WAL database with one row.
    fn make(database: &Database) -> Connection {
        let conn = database.connect_or_create().unwrap();
        conn.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (n); INSERT INTO t VALUES (7)")
            .unwrap();
        conn
    }

    #[test]
    fn immutable_uri_opens_any_path() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a b?mode=memory&c#d%20e\u{e9}.db");
        drop(make(&database(file.clone())));
        let uri = immutable_uri(&file);
        let name = "/a%20b%3Fmode%3Dmemory%26c%23d%2520e%C3%A9.db?immutable=1";
        assert!(uri.starts_with("file:/") && uri.ends_with(name), "{uri}");
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
        let conn = Connection::open_with_flags(&uri, flags).unwrap();
        assert_eq!(conn.query_row("SELECT n FROM t", [], |row| row.get(0)), Ok(7));
    }

    // No file permissions here: the tests may run as root, whom they do not bind. So the last resort is
    // called directly.

    #[test]
    fn read_only_database_shows_its_wal() {
        let folder = tempfile::tempdir().unwrap();
        let database = database(folder.path().join("test.db"));
        let _writer = make(&database);
        let conn = database.connect_read_only().unwrap();
        assert_eq!(conn.query_row("SELECT n FROM t", [], |row| row.get(0)), Ok(7));
        assert!(conn.execute("DELETE FROM t", []).is_err());
    }

    #[test]
    fn reading_closed_database_creates_no_files() {
        let folder = tempfile::tempdir().unwrap();
        let database = database(folder.path().join("test.db"));
        drop(make(&database));
        let conn = database.connect_read_only().unwrap();
        assert_eq!(conn.query_row("SELECT n FROM t", [], |row| row.get(0)), Ok(7));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn reading_does_not_create_missing_file() {
        let folder = tempfile::tempdir().unwrap();
        let database = database(folder.path().join("test.db"));
        assert!(database.connect_to_read().is_err_and(|error| error.is(crate::ErrorKind::Unavailable)));
        assert!(!database.file.exists());
    }

    #[test]
    fn opens_without_locks_only_on_read_only_filesystem() {
        let folder = tempfile::tempdir().unwrap();
        let database = database(folder.path().join("test.db"));
        drop(make(&database));
        // As when descriptors have run out: the database opens, but its WAL does not.
        fs::create_dir(folder.path().join("test.db-wal")).unwrap();
        let refused = database.connect_to_read().err().expect("nothing was opened");
        assert!(is_refused(&refused), "{refused:?}");
        fs::remove_dir(folder.path().join("test.db-wal")).unwrap();
        assert!(database.connect_to_read().is_ok_and(|conn| conn.hold == Hold::Kept));
    }
}
