//! The file `control.db`: opening it, its format, its connections. Several processes may have it open.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};

use crate::datadir::key::hex;
use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};

/// `PRAGMA application_id` of a control database: `grtc` in ASCII.
const APPLICATION_ID: i32 = 0x6772_7463;
/// One script a format version; the version of a file is how many were run (`PRAGMA user_version`). Only ever appended to.
const MIGRATIONS: [&str; 1] = [include_str!("v1.sql")];
/// How long a call waits for another process's write before it gives up.
const BUSY: Duration = Duration::from_secs(10);
/// How often the switch to WAL is tried: SQLite does not wait by itself when two processes switch at once.
const WAL_TRIES: u32 = 100;
/// Pause between two such tries.
const WAL_PAUSE: Duration = Duration::from_millis(20);
/// Connections kept for the next call; as many as there are usually threads that serve.
const POOL: usize = 32;

/// Connections to one control database.
pub(super) struct Db {
    file: PathBuf,
    idle: Mutex<Vec<Connection>>,
}

impl Db {
    /// Opens the control database in `folder`, made (mode 0600) and brought to the newest format if need be.
    pub(super) fn open(folder: &Path, env: &Env) -> Result<Self> {
        let file = folder.join("control.db");
        if !file.try_exists().map_err(|e| unavailable().with_source(e))? {
            create(folder, &file, env)?;
        }
        let db = Self { file, idle: Mutex::default() };
        let mut connection = db.connect()?;
        // In a transaction: another process may be making the tables just now.
        check_format(&connection.transaction().map_err(fault)?)?;
        switch_to_wal(&connection, env)?;
        migrate(&mut connection, env)?;
        db.put_back(connection);
        Ok(db)
    }

    /// Runs `job` on a connection. One that failed is closed, not used again.
    pub(super) fn with<T>(&self, job: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let connection = self.take()?;
        let done = job(&connection)?;
        self.put_back(connection);
        Ok(done)
    }

    /// Runs `job` in a transaction of its own, durable when this returns.
    pub(super) fn write<T>(&self, job: impl FnOnce(&Transaction<'_>) -> Result<T>) -> Result<T> {
        let mut connection = self.take()?;
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(fault)?;
        let done = job(&transaction)?;
        transaction.commit().map_err(fault)?;
        self.put_back(connection);
        Ok(done)
    }

    /// Writes a copy into a file that must not exist, safe on disk and open to its owner alone.
    pub(super) fn copy(&self, to: &Path) -> Result<()> {
        let target = to.to_str().ok_or_else(|| Error::invalid("the path is not UTF-8"))?;
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to);
        let file = file.map_err(|e| unavailable().with_source(e))?;
        // an empty file counts as none to `VACUUM INTO`
        self.with(|c| c.execute("VACUUM INTO ?1", [target]).map_err(fault))?;
        file.sync_all().map_err(|e| unavailable().with_source(e))
    }

    fn take(&self) -> Result<Connection> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.map_or_else(|| self.connect(), Ok)
    }

    fn put_back(&self, connection: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < POOL {
            idle.push(connection);
        }
    }

    fn connect(&self) -> Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.file, flags).map_err(fault)?;
        connection.busy_timeout(BUSY).map_err(fault)?;
        connection.pragma_update(None, "synchronous", "FULL").map_err(fault)?;
        connection.pragma_update(None, "foreign_keys", true).map_err(fault)?;
        // Else a statement is planned again for every new value that is bound to it, which costs more than it does.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(fault)?;
        Ok(connection)
    }
}

/// Makes an empty file with the right mode under another name first and then gives it its name: a file that SQLite may
/// have open already must not be opened here, since closing it would drop SQLite's locks.
fn create(folder: &Path, file: &Path, env: &Env) -> Result<()> {
    let failed = |e: std::io::Error| unavailable().with_source(e);
    let fresh = folder.join(format!("control.db.{}", hex(&env.random::<8>()?)));
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh).map_err(failed)?;
    let linked = match fs::hard_link(&fresh, file) {
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    };
    fs::remove_file(&fresh).map_err(failed)?;
    linked.map_err(failed)
}

/// Looks at the format before anything is written: a newer or foreign file is left as it is.
fn check_format(connection: &Transaction<'_>) -> Result<u32> {
    let id: i32 = pragma(connection, "application_id")?;
    let version: u32 = pragma(connection, "user_version")?;
    let tables: u32 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(fault)?;
    let refuse = |why: String| Err(Error::new(ErrorKind::Format, why));
    match (id, version) {
        (0, 0) if tables == 0 => Ok(0),
        (APPLICATION_ID, version) if version as usize <= MIGRATIONS.len() => Ok(version),
        (APPLICATION_ID, version) => refuse(format!(
            "control.db has format {version}, this garth reads up to {}; use a newer garth",
            MIGRATIONS.len()
        )),
        _ => refuse("control.db is not a control database of garth; choose another data folder".into()),
    }
}

fn pragma<T: rusqlite::types::FromSql>(connection: &Connection, name: &str) -> Result<T> {
    connection.pragma_query_value(None, name, |row| row.get(0)).map_err(fault)
}

fn switch_to_wal(connection: &Connection, env: &Env) -> Result<()> {
    for _ in 1..WAL_TRIES {
        match connection.pragma_update(None, "journal_mode", "WAL") {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => env.sleep(WAL_PAUSE),
            other => return other.map_err(fault),
        }
    }
    connection.pragma_update(None, "journal_mode", "WAL").map_err(fault)
}

fn migrate(connection: &mut Connection, env: &Env) -> Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(fault)?;
    let version = check_format(&transaction)?;
    if version as usize == MIGRATIONS.len() {
        return Ok(());
    }
    for script in &MIGRATIONS[version as usize..] {
        transaction.execute_batch(script).map_err(fault)?;
    }
    if version == 0 {
        let key = env.random::<32>()?;
        transaction.execute("INSERT INTO secret_hash (key) VALUES (?1)", [key]).map_err(fault)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(fault)?;
    transaction.pragma_update(None, "user_version", MIGRATIONS.len() as u32).map_err(fault)?;
    transaction.commit().map_err(fault)
}

fn unavailable() -> Error {
    Error::new(ErrorKind::Io, "cannot open the data folder")
}

/// What SQLite said, in our terms.
#[allow(clippy::needless_pass_by_value)] // the shape `map_err` asks for
pub(super) fn fault(error: rusqlite::Error) -> Error {
    let (kind, message) = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => (ErrorKind::NoSpace, "the disk of the data folder is full"),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            (ErrorKind::Busy, "the control data is in use by another process; try again")
        }
        Some(ErrorCode::ReadOnly) => (ErrorKind::ReadOnly, "the data folder cannot be written"),
        Some(ErrorCode::NotADatabase) => (ErrorKind::Format, "control.db is not a control database of garth"),
        Some(ErrorCode::DatabaseCorrupt) => {
            (ErrorKind::Corrupt, "the control data is damaged; restore a backup")
        }
        None if matches!(error, rusqlite::Error::FromSqlConversionFailure(..)) => {
            (ErrorKind::Corrupt, "the control data is damaged; restore a backup")
        }
        _ => (ErrorKind::Io, "cannot read or write the control data"),
    };
    Error::new(kind, message).with_source(error)
}
