//! Opening a database file, also where nothing can be written: on a full disk or a read-only file system.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, ffi};

use super::error::{DbError, DbResult, Subject};

/// How long a connection waits for another process. Writers of a tree queue on a lock file before, so that
/// this only meets checkpoints and other tools.
const BUSY: Duration = Duration::from_secs(10);

const READ_WRITE: OpenFlags = OpenFlags::SQLITE_OPEN_READ_WRITE;

/// A database file and how this program uses it.
#[derive(Clone, Debug)]
pub(crate) struct Database {
    pub(crate) file: PathBuf,
    pub(crate) subject: &'static Subject,
    /// Statements kept prepared by each connection: as many as its users have.
    pub(crate) statements: usize,
    /// Pages kept in memory by each connection, in KiB.
    pub(crate) cache_kib: i64,
    /// Settings of its own, run on each connection.
    pub(crate) prepare: fn(&Connection) -> rusqlite::Result<()>,
}

/// A connection that only reads, and what it keeps others from.
pub(crate) struct ReadConn {
    pub(crate) conn: Connection,
    /// Whether it locks the file against every other connection.
    pub(crate) exclusive: bool,
}

impl Database {
    /// A connection that may write.
    pub(crate) fn connect(&self) -> DbResult<Connection> {
        self.open(READ_WRITE, &self.file)
    }

    /// A connection that may write to a file that need not exist yet.
    pub(crate) fn connect_or_create(&self) -> DbResult<Connection> {
        self.open(READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE, &self.file)
    }

    /// A connection for reading, in the least restrictive way that works.
    ///
    /// A WAL database needs its shared-memory file. Where that cannot be made, because the disk is full, the
    /// connection takes the file for itself and keeps the index of the WAL in memory. On a read-only file
    /// system no lock is possible: with its WAL beside it the file is opened read-only; without one it was
    /// closed cleanly and nobody can change it, which SQLite calls immutable.
    pub(crate) fn connect_to_read(&self) -> DbResult<ReadConn> {
        let shared = |conn| ReadConn { conn, exclusive: false };
        let error = match self.connect().and_then(|conn| probe(&conn).map(|()| conn)) {
            Ok(conn) => return Ok(shared(conn)),
            Err(error) => error,
        };
        if is_full(&error) {
            let conn = Connection::open_with_flags(&self.file, READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
            // before anything else: most settings already look for the shared memory
            conn.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
            // closing must not try to write the WAL back to a full disk
            conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
            self.configure(&conn)?;
            probe(&conn)?;
            return Ok(ReadConn { conn, exclusive: true });
        }
        if !is_read_only(&error, &self.file) {
            return Err(error);
        }
        let read_only = OpenFlags::SQLITE_OPEN_READ_ONLY;
        let conn = if self.sibling("-wal").exists() {
            self.open(read_only, &self.file)
        } else {
            self.open(read_only | OpenFlags::SQLITE_OPEN_URI, Path::new(&immutable_uri(&self.file)))
        };
        let conn = conn.and_then(|conn| probe(&conn).map(|()| conn));
        // the first failure tells more than that of the last resort
        conn.map(shared).map_err(|_| error)
    }

    /// The file that SQLite keeps beside this one.
    fn sibling(&self, suffix: &str) -> PathBuf {
        let mut name = self.file.clone().into_os_string();
        name.push(suffix);
        name.into()
    }

    fn open(&self, flags: OpenFlags, file: &Path) -> DbResult<Connection> {
        let conn = Connection::open_with_flags(file, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        self.configure(&conn)?;
        Ok(conn)
    }

    fn configure(&self, conn: &Connection) -> DbResult<()> {
        conn.busy_timeout(BUSY)?;
        // else a statement is planned again for every new value bound to it, which costs more than running it
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        conn.set_prepared_statement_cache_capacity(self.statements);
        conn.pragma_update(None, "cache_size", -self.cache_kib)?;
        Ok((self.prepare)(conn)?)
    }
}

/// Restores the waiting time of a connection that was told to wait less.
pub(crate) fn reset_busy_timeout(conn: &Connection) -> rusqlite::Result<()> {
    conn.busy_timeout(BUSY)
}

/// Reads something, which makes SQLite open all files that it needs.
fn probe(conn: &Connection) -> DbResult<()> {
    Ok(conn.query_row("SELECT count(*) FROM sqlite_schema WHERE 0", [], |_| Ok(()))?)
}

fn extended_code(error: &DbError) -> Option<i32> {
    match error {
        DbError::Sqlite(rusqlite::Error::SqliteFailure(failure, _)) => Some(failure.extended_code),
        _ => None,
    }
}

fn is_full(error: &DbError) -> bool {
    let shared_memory = [ffi::SQLITE_IOERR_SHMSIZE, ffi::SQLITE_IOERR_SHMOPEN, ffi::SQLITE_IOERR_SHMMAP];
    extended_code(error).is_some_and(|code| code & 0xff == ffi::SQLITE_FULL || shared_memory.contains(&code))
}

/// Whether a file that exists could not be opened for writing.
fn is_read_only(error: &DbError, file: &Path) -> bool {
    let DbError::Sqlite(error) = error else { return false };
    let refused = matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied)
    );
    refused && file.exists()
}

/// A URI for SQLite (RFC 3986): what is not an unreserved character is percent-encoded.
fn immutable_uri(file: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    let mut uri = String::from("file:");
    for byte in file.as_os_str().as_bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => {
                uri.push(char::from(*byte))
            }
            other => uri.push_str(&format!("%{other:02X}")),
        }
    }
    uri.push_str("?immutable=1");
    uri
}
