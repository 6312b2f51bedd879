//! Format of a database file: recognising, creating and migrating it.

use std::path::Path;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::connect::Database;
use super::error::DbResult;
use crate::env::Env;
use crate::error::{Error, ErrorKind};
use crate::runtime::failpoint::Failpoints;

/// Attempts to switch to WAL: SQLite does not wait by itself when two processes switch at once.
const WAL_TRIES: u32 = 100;
/// Pause between two attempts.
const WAL_PAUSE: std::time::Duration = std::time::Duration::from_millis(20);

/// Bytes of a page in new files. A commit writes each page that it changes, first to the WAL, then to the
/// file, and most of its rows are far shorter than a page. Why: `docs/decisions/pages-of-2-kib.md`.
const PAGE_SIZE: u32 = 2048;

/// Value of `PRAGMA auto_vacuum` in a file that can return free pages to the disk.
pub(crate) const INCREMENTAL: i64 = 2;

/// Format of a kind of database.
pub(crate) struct Format {
    /// `PRAGMA application_id`: identifies files of garth.
    pub(crate) application_id: i32,
    /// Migration scripts, one for each version, starting at the empty file. The version of a file (`PRAGMA
    /// user_version`) is the number of scripts that have run. Scripts are only ever appended.
    pub(crate) scripts: &'static [&'static str],
    /// True if new files can return free pages to the disk (`PRAGMA auto_vacuum = INCREMENTAL`). An existing
    /// file keeps its mode: SQLite only changes it when it rewrites the file.
    pub(crate) shrinks: bool,
}

impl Format {
    /// Returns the version that this build writes.
    pub(crate) fn newest(&self) -> i32 {
        self.scripts.len() as i32
    }

    /// Returns true if a file has the newest version.
    pub(crate) fn is_newest(&self, conn: &Connection, database: &Database) -> DbResult<bool> {
        Ok(self.version(conn, database)? == self.newest())
    }

    /// Returns the version of a file that this build can read; 0 for an empty file.
    fn version(&self, conn: &Connection, database: &Database) -> DbResult<i32> {
        // One statement sees one state: another process may be creating the file now.
        let sql = "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema)
             FROM pragma_application_id, pragma_user_version";
        let found: (i32, i32, i64) =
            conn.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let name = database.subject.name;
        let refuse = |why| Err(Error::new(ErrorKind::Format, why).into());
        match found {
            (0, 0, 0) => Ok(0),
            (id, version, _) if id == self.application_id && (1..=self.newest()).contains(&version) => {
                Ok(version)
            }
            (id, version, _) if id == self.application_id => refuse(format!(
                "{name} has format {version}, this garth reads up to {}; use a newer garth",
                self.newest()
            )),
            _ => refuse(format!("{name} is not a garth database; choose another data folder")),
        }
    }

    /// Creates the tables of an empty file, or runs the scripts that an older version lacks, in one
    /// transaction. Other processes may have the file open: they see the old tables or the new ones, and one
    /// whose program expects the old ones fails from then on. `first_rows` writes the first rows of
    /// a new file, after all scripts.
    pub(crate) fn bring_forward(
        &self,
        conn: &Connection,
        database: &Database,
        env: &Env,
        failpoints: &Failpoints,
        first_rows: impl FnOnce(&Connection) -> DbResult<()>,
    ) -> DbResult<()> {
        // Before the switch to WAL, which writes: a file of another program must stay unchanged.
        let version = self.version(conn, database)?;
        if version == 0 {
            // As `auto_vacuum` below: before the first page.
            conn.pragma_update(None, "page_size", PAGE_SIZE)?;
        }
        if self.shrinks && version == 0 {
            // Before the first page, which the switch to WAL writes: later SQLite ignores it.
            conn.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
        }
        switch_to_wal(conn, env)?;
        conn.pragma_update(None, "synchronous", "FULL")?;
        conn.execute_batch("BEGIN IMMEDIATE")?;
        // Again inside the transaction: only now can no other process change it.
        let version = self.version(conn, database)?;
        let missing = usize::try_from(version).map_or(&[][..], |version| &self.scripts[version..]);
        for script in missing {
            conn.execute_batch(script)?;
            failpoints.pass("migrate")?;
        }
        // An older file has its id and its first rows already.
        if version == 0 {
            first_rows(conn)?;
            conn.pragma_update(None, "application_id", self.application_id)?;
        }
        // Not for a current file, so that opening it writes nothing.
        if !missing.is_empty() {
            conn.pragma_update(None, "user_version", self.newest())?;
        }
        Ok(conn.execute_batch("COMMIT")?)
    }
}

/// Writes a copy of a database, which can return free pages to the disk whether or not this one can.
pub(crate) fn copy(conn: &Connection, target: &str) -> DbResult<()> {
    // Only if it differs: the mode of a file that has it is written to the file.
    let mode: i64 = conn.query_row("PRAGMA auto_vacuum", [], |row| row.get(0))?;
    if mode != INCREMENTAL {
        // SQLite ignores it for this file, and applies it to the copy.
        conn.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    }
    // SQLite ignores this for the file, too.
    conn.pragma_update(None, "page_size", PAGE_SIZE)?;
    conn.execute("VACUUM INTO ?1", [target])?;
    Ok(())
}

/// Finishes a copy by `VACUUM INTO`: applies `change`, then sets the WAL mode, the only setting that the copy
/// lacks.
pub(crate) fn finish_copy<T>(copy: &Path, change: impl FnOnce(&Connection) -> DbResult<T>) -> DbResult<T> {
    let conn = Connection::open_with_flags(copy, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let value = change(&conn)?;
    conn.pragma_update(None, "journal_mode", "WAL")?;
    conn.close().map_err(|(_, error)| error)?;
    Ok(value)
}

fn switch_to_wal(conn: &Connection, env: &Env) -> DbResult<()> {
    for _ in 1..WAL_TRIES {
        match conn.pragma_update(None, "journal_mode", "WAL") {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => env.sleep(WAL_PAUSE),
            other => return Ok(other?),
        }
    }
    // The last attempt, whose error is returned.
    Ok(conn.pragma_update(None, "journal_mode", "WAL")?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::error::Subject;

    static SUBJECT: Subject = Subject { name: "the test's database", repair: "run nothing", removed: None };

    const SCRIPTS: [&str; 2] =
        ["CREATE TABLE t (n INTEGER)", "ALTER TABLE t ADD COLUMN m INTEGER NOT NULL DEFAULT 7"];

    static FIRST: Format = format(&[SCRIPTS[0]]);
    static SECOND: Format = format(&SCRIPTS);

    const fn format(scripts: &'static [&'static str]) -> Format {
        Format { application_id: 17, scripts, shrinks: true }
    }

    fn database(folder: &Path) -> Database {
        let file = folder.join("test.db");
        Database { file, subject: &SUBJECT, statements: 16, cache_kib: 64, prepare: |_| Ok(()) }
    }

    fn bring_forward(format: &Format, database: &Database) -> DbResult<()> {
        let conn = database.connect_or_create()?;
        format.bring_forward(&conn, database, &Env::system(), &Failpoints::default(), |conn| {
            conn.execute("INSERT INTO t (n) VALUES (1)", [])?;
            Ok(())
        })
    }

    /// Runs SQL on the file as another program would.
    fn execute(database: &Database, sql: &str) {
        Connection::open(&database.file).unwrap().execute_batch(sql).unwrap();
    }

    fn number(database: &Database, sql: &str) -> i64 {
        Connection::open(&database.file).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
    }

    fn refused(format: &Format, database: &Database) -> String {
        let before = std::fs::read(&database.file).unwrap();
        let error = bring_forward(format, database).unwrap_err();
        assert!(error.is(ErrorKind::Format));
        assert_eq!(std::fs::read(&database.file).unwrap(), before, "the file stays as it is");
        error.describe(&SUBJECT).message().to_owned()
    }

    #[test]
    fn migration_runs_missing_scripts() {
        let folder = tempfile::tempdir().unwrap();
        let database = database(folder.path());
        bring_forward(&FIRST, &database).unwrap();
        execute(&database, "UPDATE t SET n = 2");
        for _ in 0..2 {
            bring_forward(&SECOND, &database).unwrap();
            assert_eq!(number(&database, "SELECT n * 10 + m FROM t"), 27, "its row was kept, none was added");
            assert_eq!(number(&database, "PRAGMA user_version"), 2);
        }
    }

    #[test]
    fn new_files_and_copies_have_small_pages() {
        let folder = tempfile::tempdir().unwrap();
        let database = database(folder.path());
        bring_forward(&FIRST, &database).unwrap();
        assert_eq!(number(&database, "PRAGMA page_size"), i64::from(PAGE_SIZE));
        // As older versions created it.
        std::fs::remove_file(&database.file).unwrap();
        execute(&database, "PRAGMA page_size = 4096; PRAGMA journal_mode = WAL");
        bring_forward(&FIRST, &database).unwrap();
        let target = folder.path().join("copy.db");
        copy(&Connection::open(&database.file).unwrap(), target.to_str().unwrap()).unwrap();
        assert_eq!(number(&database, "PRAGMA page_size"), 4096);
        let copied = Database { file: target, ..database };
        assert_eq!(number(&copied, "PRAGMA page_size"), i64::from(PAGE_SIZE));
    }

    #[test]
    fn new_file_can_return_pages_and_old_one_keeps_its_mode() {
        static OLD: Format = Format { application_id: 17, scripts: &[SCRIPTS[0]], shrinks: false };
        let folder = tempfile::tempdir().unwrap();
        let database = database(folder.path());
        bring_forward(&FIRST, &database).unwrap();
        assert_eq!(number(&database, "PRAGMA auto_vacuum"), INCREMENTAL);
        std::fs::remove_file(&database.file).unwrap();
        bring_forward(&OLD, &database).unwrap();
        bring_forward(&SECOND, &database).unwrap();
        assert_eq!(number(&database, "PRAGMA auto_vacuum"), 0);
        let target = folder.path().join("copy.db");
        copy(&Connection::open(&database.file).unwrap(), target.to_str().unwrap()).unwrap();
        assert_eq!(number(&database, "PRAGMA auto_vacuum"), 0);
        let copied = Database { file: target, ..database };
        assert_eq!(number(&copied, "PRAGMA auto_vacuum"), INCREMENTAL);
        assert_eq!(number(&copied, "SELECT n FROM t"), 1);
    }

    #[test]
    fn rejects_newer_format_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let database = database(folder.path());
        bring_forward(&SECOND, &database).unwrap();
        let message = refused(&FIRST, &database);
        assert!(message.contains("format 2") && message.contains("newer garth"), "{message}");
    }

    #[test]
    fn rejects_foreign_database_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let database = database(folder.path());
        execute(&database, "CREATE TABLE theirs (n)");
        assert!(refused(&FIRST, &database).contains("not a garth database"));
        std::fs::write(&database.file, "no database at all, but long enough to look like a header".repeat(9))
            .unwrap();
        assert!(refused(&FIRST, &database).contains("not a garth database"));
    }

    #[test]
    fn completes_interrupted_creation() {
        let folder = tempfile::tempdir().unwrap();
        let database = database(folder.path());
        std::fs::write(&database.file, "").unwrap();
        bring_forward(&FIRST, &database).unwrap();
        assert_eq!(number(&database, "SELECT n FROM t"), 1);
        std::fs::remove_file(&database.file).unwrap();
        // The switch to WAL writes the file before its tables are created.
        execute(&database, "PRAGMA journal_mode = WAL");
        bring_forward(&FIRST, &database).unwrap();
        assert_eq!(number(&database, "SELECT n FROM t"), 1);
    }

    #[test]
    fn failed_script_leaves_file_unchanged() {
        static BROKEN: Format = format(&[SCRIPTS[0], "CREATE TABLE other (n); CREATE TABLE t (n)"]);
        let folder = tempfile::tempdir().unwrap();
        let database = database(folder.path());
        bring_forward(&FIRST, &database).unwrap();
        assert!(bring_forward(&BROKEN, &database).is_err());
        assert_eq!(number(&database, "PRAGMA user_version"), 1);
        assert_eq!(number(&database, "SELECT count(*) FROM sqlite_schema"), 1);
    }
}
