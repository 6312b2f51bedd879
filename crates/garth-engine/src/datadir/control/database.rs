//! Control database: its file, its format and the accounts. All calls block, for a point query, one small
//! transaction, or a list.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use rusqlite::{Connection, Row, Transaction, TransactionBehavior};

use super::reserve::Reserve;
use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::home::{Account, AccountState, Hasher, being_deleted, check_account_id, no_account, taken};
use crate::model::{Timestamp, hex};
use crate::runtime::Runtime;
use crate::runtime::disk::{failed, sync_dir};
use crate::sqlite::error::Subject;
use crate::sqlite::migrate::finish_copy;
use crate::sqlite::{ConnPool, Database, DbError, DbResult, Format, all, one};

/// Name of the control database in a data folder.
pub(in crate::datadir) const DATABASE: &str = "control.db";

/// Name of the reserve for changes on a full disk.
const RESERVE: &str = "control.db.reserve";

static SUBJECT: Subject = Subject { name: "the control data", repair: "restore a backup", removed: None };

static FORMAT: Format = Format {
    application_id: 0x6772_7463, // "grtc" in ASCII
    scripts: &[
        include_str!("v1.sql"),
        include_str!("v2.sql"),
        include_str!("v3.sql"),
        include_str!("v4.sql"),
    ],
    // It stays small.
    shrinks: false,
};

fn first_rows(conn: &Connection, env: &Env) -> DbResult<()> {
    let key = env.random::<32>()?;
    conn.execute("INSERT INTO secret_hash (key) VALUES (?1)", [key])?;
    Ok(())
}

fn database(folder: &Path) -> Database {
    Database {
        file: folder.join(DATABASE),
        subject: &SUBJECT,
        statements: 16,
        cache_kib: 2048,
        prepare: |conn| {
            conn.pragma_update(None, "synchronous", "FULL")?;
            conn.pragma_update(None, "foreign_keys", true)
        },
    }
}

/// Control database of a data folder.
pub(in crate::datadir) struct ControlDb {
    pool: Arc<ConnPool>,
    pub(in crate::datadir) hasher: Hasher,
    pub(super) env: Env,
    reserve: Reserve,
}

impl ControlDb {
    /// Opens `control.db` in an existing folder. Creates it (mode 0600) or migrates it if necessary.
    ///
    /// # Errors
    /// `Format` for a file of a newer garth or of another program, which stays unchanged; `Io`, `Corrupt`,
    /// `Unavailable` and `NoSpace` from the storage, here and in every call below.
    pub(in crate::datadir) fn open(folder: &Path, runtime: &Runtime) -> Result<Self> {
        let database = database(folder);
        let pool = ConnPool::new(database.clone(), runtime.conns());
        if !database.file.exists() {
            create_file(folder, runtime.env())?;
        }
        if !pool.with(|conn| FORMAT.is_newest(conn, &database))? {
            let (env, failpoints) = (runtime.env(), runtime.failpoints());
            pool.with(|conn| {
                FORMAT.bring_forward(conn, &database, env, failpoints, |conn| first_rows(conn, env))
            })?;
            // Before any account is created: the name of the database must be durable first, see
            // `check_control`.
            sync_dir(folder).map_err(failed("the data folder cannot be synced"))?;
        }
        let key =
            pool.with(|conn| Ok(conn.query_row("SELECT key FROM secret_hash", [], |row| row.get(0))?))?;
        let reserve = Reserve::new(folder.join(RESERVE));
        Ok(Self { pool, hasher: Hasher::new(key), env: runtime.env().clone(), reserve })
    }

    /// Returns true if the file in a folder has the format of this garth, false if [`Self::open`] would
    /// migrate it. Changes nothing.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(in crate::datadir) fn is_current(folder: &Path) -> Result<bool> {
        let database = database(folder);
        let read = database.connect_to_read();
        let found = read.and_then(|read| FORMAT.is_newest(&read.conn, &database));
        found.map_err(|error| error.describe(database.subject))
    }

    pub(super) fn read<T>(&self, job: impl FnOnce(&Connection) -> DbResult<T>) -> Result<T> {
        self.pool.with(job)
    }

    /// Runs `job` in a transaction of its own, durable when this returns.
    pub(super) fn write<T>(&self, job: impl FnOnce(&Connection) -> DbResult<T>) -> Result<T> {
        let written = self.pool.with(|conn| {
            // Immediate: a transaction that starts as a read fails if another process commits before its
            // first write.
            let transaction = Transaction::new_unchecked(conn, TransactionBehavior::Immediate)?;
            let value = job(&transaction)?;
            // Not every failed commit is undone: the error says whether it may come back.
            transaction.commit().map_err(|error| DbError::from(error).of_commit())?;
            Ok(value)
        });
        // Not when the data is only read: a command that reads should not write.
        if written.is_ok() {
            self.reserve.restore();
        }
        written
    }

    /// Runs a change that takes something away, such as a key, and so has to succeed on a full disk. If it
    /// finds no space, it runs again in that of the reserve.
    pub(in crate::datadir) fn in_reserve<T>(&self, change: impl Fn() -> Result<T>) -> Result<T> {
        match change() {
            Err(error) if error.is(ErrorKind::NoSpace) => {
                self.reserve.give_up();
                // Once all of the log is copied, writes start it over: the reserve lasts for any number of
                // changes. Without the copy they append, as far as the space goes.
                let _ =
                    self.read(|conn| Ok(conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?));
                change()
            }
            done => done,
        }
    }

    /// Makes the reserve for such changes if it is missing and the disk has space.
    pub(in crate::datadir) fn restore_reserve(&self) {
        self.reserve.restore();
    }

    /// Records an account whose folder exists; `Folder::create_account` creates both.
    ///
    /// # Errors
    /// `InvalidArgument` for an invalid id ([`check_account_id`]); `AlreadyExists`, also while an account of
    /// that id is being deleted.
    pub(in crate::datadir) fn add_account(&self, id: &str, folder: &str) -> Result<Account> {
        check_account_id(id)?;
        let created = self.env.now();
        if self.write(|conn| insert(conn, id, folder, created))? {
            return Ok(Account {
                id: id.into(),
                folder: folder.into(),
                created,
                state: AccountState::Active,
            });
        }
        self.check_free(id)?;
        // Deleted in between.
        Err(taken(AccountState::Active))
    }

    /// Rejects an id that an account has, even one that is being deleted.
    pub(in crate::datadir) fn check_free(&self, id: &str) -> Result<()> {
        self.find(id)?.map_or(Ok(()), |account| Err(taken(account.state)))
    }

    /// Prevents the database from growing.
    #[cfg(test)]
    pub(in crate::datadir) fn fill(&self) {
        let limit = "PRAGMA max_page_count = 1";
        self.pool.with(|conn| Ok(conn.query_row(limit, [], |_| Ok(()))?)).unwrap();
    }

    /// Writes a durable copy of the control data into `folder`, readable by its owner only.
    pub(in crate::datadir) fn backup(&self, folder: &Path) -> Result<()> {
        let failed = failed("the backup could not be written");
        let to = folder.join(DATABASE);
        let target = to.to_str().ok_or_else(|| Error::invalid("the backup's path is not UTF-8"))?;
        // Created here for its mode: SQLite would create it readable by others.
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&to).map_err(&failed)?;
        // `VACUUM INTO` accepts an existing file if it is empty.
        self.read(|conn| {
            conn.execute("VACUUM INTO ?1", [target])?;
            finish_copy(&to, |_| Ok(()))
        })?;
        file.sync_all().map_err(&failed)
    }

    pub(in crate::datadir) fn accounts(&self) -> Result<Vec<Account>> {
        let sql = "SELECT id, folder, created, deleted FROM account ORDER BY id";
        self.read(|conn| all(conn, sql, [], account_of))
    }

    /// Returns a page of accounts after `id`.
    pub(in crate::datadir) fn accounts_after(&self, id: &str, limit: usize) -> Result<Vec<Account>> {
        let sql = "SELECT id, folder, created, deleted FROM account WHERE id > ?1 ORDER BY id LIMIT ?2";
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.read(|conn| all(conn, sql, (id, limit), account_of))
    }

    /// Returns the accounts whose deletion has begun but not ended.
    pub(in crate::datadir) fn deleted_accounts(&self) -> Result<Vec<Account>> {
        let sql = "SELECT id, folder, created, deleted FROM account WHERE deleted = 1";
        self.read(|conn| all(conn, sql, [], account_of))
    }

    pub(in crate::datadir) fn account(&self, id: &str) -> Result<Account> {
        match self.find(id)?.ok_or_else(no_account)? {
            account if account.state == AccountState::Active => Ok(account),
            _ => Err(being_deleted()),
        }
    }

    /// Returns the account of this id if its deletion has begun but not ended.
    pub(in crate::datadir) fn being_deleted(&self, id: &str) -> Result<Option<Account>> {
        Ok(self.find(id)?.filter(|account| account.state == AccountState::Deleted))
    }

    /// Returns true if an account that is not being deleted has this folder.
    pub(in crate::datadir) fn is_in_use(&self, folder: &str) -> Result<bool> {
        let sql = "SELECT 1 FROM account WHERE folder = ?1 AND deleted = 0";
        Ok(self.read(|conn| one(conn, sql, [folder], |_| Ok(())))?.is_some())
    }

    fn find(&self, id: &str) -> Result<Option<Account>> {
        self.read(|conn| find(conn, id))
    }

    /// First step of a deletion: after its commit no process opens the account or accepts its keys. Returns
    /// the account, and true for the one call that has taken the step.
    pub(in crate::datadir) fn mark_deleted(&self, id: &str) -> Result<(Account, bool)> {
        self.write(|conn| mark(conn, id))?.ok_or_else(no_account)
    }

    /// Last step of a deletion, after the folder is removed: deletes the rows, which frees the id. If it came
    /// first, a crash would leave a folder to which nothing refers.
    pub(in crate::datadir) fn forget_deleted(&self, account: &Account) -> Result<()> {
        // The folder as well: a repeat must not delete a new account of the same id.
        let sql = "DELETE FROM account WHERE id = ?1 AND folder = ?2 AND deleted = 1";
        self.write(|conn| Ok(conn.execute(sql, (&account.id, &account.folder))?))?;
        Ok(())
    }
}

/// Creates an empty file with the right mode under another name and then links it to its own: a file that
/// SQLite may have open must not be opened here, because closing it would drop the locks of SQLite.
fn create_file(folder: &Path, env: &Env) -> Result<()> {
    let failed = failed("the control data cannot be created");
    let new = folder.join(format!("{DATABASE}.{}", hex(&env.random::<8>()?)));
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new).map_err(&failed)?;
    let linked = match fs::hard_link(&new, folder.join(DATABASE)) {
        // Another process has created the file in the meantime.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    };
    fs::remove_file(&new).map_err(&failed)?;
    linked.map_err(&failed)
}

/// Records an account. Returns false if there is one of that id, also one that is being deleted.
pub(super) fn insert(conn: &Connection, id: &str, folder: &str, created: Timestamp) -> DbResult<bool> {
    let sql = "INSERT INTO account (id, folder, created) VALUES (?1, ?2, ?3) ON CONFLICT (id) DO NOTHING";
    Ok(conn.execute(sql, (id, folder, created.0))? > 0)
}

/// Returns the account of this id, also one that is being deleted.
pub(super) fn find(conn: &Connection, id: &str) -> DbResult<Option<Account>> {
    let sql = "SELECT id, folder, created, deleted FROM account WHERE id = ?1";
    one(conn, sql, [id], account_of)
}

/// Marks an account as being deleted. Returns it, and false if it was marked before.
pub(super) fn mark(conn: &Connection, id: &str) -> DbResult<Option<(Account, bool)>> {
    let sql = "UPDATE account SET deleted = 1 WHERE id = ?1 AND deleted = 0
               RETURNING id, folder, created, deleted";
    if let Some(account) = one(conn, sql, [id], account_of)? {
        return Ok(Some((account, true)));
    }
    Ok(find(conn, id)?.map(|account| (account, false)))
}

pub(super) fn account_of(row: &Row<'_>) -> rusqlite::Result<Account> {
    let state = if row.get(3)? { AccountState::Deleted } else { AccountState::Active };
    Ok(Account { id: row.get(0)?, folder: row.get(1)?, created: Timestamp(row.get(2)?), state })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn change_without_space_runs_again_in_the_reserve() {
        let folder = tempfile::tempdir().unwrap();
        let control = ControlDb::open(folder.path(), &Runtime::new(Env::system())).unwrap();
        let reserve = folder.path().join(RESERVE);
        let tries = Cell::new(0);
        let change = |kind: ErrorKind| {
            tries.set(tries.get() + 1);
            if reserve.exists() { Err(Error::new(kind, "as the test asks")) } else { Ok(tries.get()) }
        };
        control.restore_reserve();
        assert!(control.in_reserve(|| change(ErrorKind::Io)).unwrap_err().is(ErrorKind::Io));
        assert_eq!((tries.take(), reserve.exists()), (1, true), "only a full disk takes it");
        assert_eq!(control.in_reserve(|| change(ErrorKind::NoSpace)).unwrap(), 2);
        assert!(!reserve.exists());
        control.add_account("acme", "folder").unwrap();
        assert!(reserve.exists(), "the next change makes it again");
    }
}
