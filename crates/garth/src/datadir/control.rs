//! What operators set: accounts and API keys, in a small database of their own beside the trees, so
//! that no tree can name another account and a credential is checked without opening any tree.
//!
//! All calls block for a point query or one small transaction; any number of threads and processes may make them. Nothing
//! is cached: a key that another process revokes opens nothing from the next call on.

mod db;

use std::fmt;
use std::path::Path;

use rusqlite::types::Type;
use rusqlite::{OptionalExtension, Row, Transaction};

use self::db::{Db, fault};
use super::key::{ApiKey, Hasher, Scope, Secret, SecretHash, check_label, hex, scopes_to_text, token_id};
use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::model::Timestamp;
use crate::path::check_id;

/// An account: one tree, in a folder of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// What operators call it. See [`check_id`].
    pub id: String,
    /// Name of its folder below `accounts/`: 32 random hexadecimal digits, never used twice.
    pub folder: String,
    /// When it was made.
    pub created: Timestamp,
    /// Whether it is in use.
    pub state: AccountState,
}

/// Whether an account is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccountState {
    /// It is.
    Active,
    /// Being deleted: its keys open nothing, and its folder is about to go.
    Deleted,
}

/// The control database of a data folder.
pub struct Control {
    db: Db,
    hasher: Hasher,
    env: Env,
}

impl Control {
    /// Opens `control.db` in `folder`, which exists; makes it (mode 0600) or brings it to the newest format if need be.
    ///
    /// # Errors
    /// `Format` for a file of a newer garth or of another program, which is left as it is; `Io`, `Corrupt`, `Busy`,
    /// `NoSpace` and `ReadOnly` of the storage, here and in every call below.
    pub fn open(folder: &Path, env: Env) -> Result<Self> {
        let db = Db::open(folder, &env)?;
        let key =
            db.with(|c| c.query_row("SELECT key FROM secret_hash", [], |row| row.get(0)).map_err(fault))?;
        Ok(Self { db, hasher: Hasher::new(key), env })
    }

    /// Makes an account whose folder is there already; [`crate::DataDir::create_account`] makes both.
    ///
    /// # Errors
    /// `InvalidArgument` for a bad id; `AlreadyExists`, also while an account of that id is being deleted.
    pub(crate) fn add_account(&self, id: &str, folder: &str) -> Result<Account> {
        check_id("account", id)?;
        let created = self.env.now();
        let added = self.db.write(|t| {
            let sql =
                "INSERT INTO account (id, folder, created) VALUES (?1, ?2, ?3) ON CONFLICT (id) DO NOTHING";
            t.execute(sql, (id, folder, created.0)).map_err(fault)
        })?;
        if added == 0 {
            return Err(Error::new(ErrorKind::AlreadyExists, "there is an account of that name already"));
        }
        Ok(Account { id: id.into(), folder: folder.into(), created, state: AccountState::Active })
    }

    /// Writes a copy of the control data into `folder`, safe on disk when this returns.
    pub(crate) fn backup(&self, folder: &Path) -> Result<()> {
        self.db.copy(&folder.join("control.db"))
    }

    /// All accounts, those being deleted too, by id in byte order.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn accounts(&self) -> Result<Vec<Account>> {
        self.db.with(|c| {
            let mut query = c
                .prepare_cached("SELECT id, folder, created, deleted FROM account ORDER BY id")
                .map_err(fault)?;
            query.query_map([], account_of).map_err(fault)?.collect::<Result<_, _>>().map_err(fault)
        })
    }

    /// The account in use by that id.
    ///
    /// # Errors
    /// `NotFound`, also if it is being deleted.
    pub fn account(&self, id: &str) -> Result<Account> {
        let found = self.db.with(|c| {
            let mut query = c
                .prepare_cached(
                    "SELECT id, folder, created, deleted FROM account WHERE id = ?1 AND deleted = 0",
                )
                .map_err(fault)?;
            query.query_row([id], account_of).optional().map_err(fault)
        })?;
        found.ok_or_else(no_account)
    }

    /// First step of a deletion: from here on the account and its keys are gone to everyone. May be repeated.
    pub(crate) fn mark_deleted(&self, id: &str) -> Result<Account> {
        let found = self.db.write(|t| {
            let sql = "UPDATE account SET deleted = 1 WHERE id = ?1 RETURNING id, folder, created, deleted";
            t.query_row(sql, [id], account_of).optional().map_err(fault)
        })?;
        found.ok_or_else(no_account)
    }

    /// Last step of a deletion, once the folder is gone: forgets the account and its keys. The id is free again.
    pub(crate) fn forget_deleted(&self, account: &Account) -> Result<()> {
        self.db.write(|t| {
            let sql = "DELETE FROM account WHERE id = ?1 AND folder = ?2 AND deleted = 1";
            t.execute(sql, (&account.id, &account.folder)).map_err(fault)
        })?;
        Ok(())
    }

    /// Makes a key. The secret is in the answer and nowhere else.
    ///
    /// # Errors
    /// `NotFound` without such an account; `InvalidArgument` for no scope at all, or a label over [`MAX_KEY_LABEL`]
    /// bytes or with control characters.
    pub fn create_key(&self, account: &str, label: &str, scopes: &[Scope]) -> Result<(ApiKey, Secret)> {
        check_label(label)?;
        let scopes = scopes_to_text(scopes)?;
        let (id, secret, hash) = self.hasher.issue(&self.env)?;
        let created = self.env.now();
        let key = self.db.write(|t| {
            require_account(t, account)?;
            let sql = "INSERT INTO api_key (id, account, label, scopes, hash, created) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                       RETURNING id, account, label, scopes, created, revoked";
            t.query_row(sql, (&id, account, label, &scopes, hash, created.0), key_of).map_err(fault)
        })?;
        Ok((key, secret))
    }

    /// The keys of an account, revoked ones too, oldest first.
    ///
    /// # Errors
    /// `NotFound` without such an account.
    pub fn keys(&self, account: &str) -> Result<Vec<ApiKey>> {
        self.account(account)?;
        self.db.with(|c| {
            let sql = "SELECT id, account, label, scopes, created, revoked FROM api_key WHERE account = ?1
                       ORDER BY created, id";
            let mut query = c.prepare_cached(sql).map_err(fault)?;
            query.query_map([account], key_of).map_err(fault)?.collect::<Result<_, _>>().map_err(fault)
        })
    }

    /// Revokes a key of an account: in every process it opens nothing from the next call on. Again is fine: the first time
    /// stays.
    ///
    /// # Errors
    /// `NotFound` unless the account has a key of that id.
    pub fn revoke_key(&self, account: &str, id: &str) -> Result<ApiKey> {
        let now = self.env.now();
        let key = self.db.write(|t| {
            let sql = "UPDATE api_key SET revoked = coalesce(revoked, ?3) WHERE account = ?1 AND id = ?2
                       RETURNING id, account, label, scopes, created, revoked";
            t.query_row(sql, (account, id, now.0), key_of).optional().map_err(fault)
        })?;
        key.ok_or_else(|| Error::new(ErrorKind::NotFound, "this account has no key of that id"))
    }

    /// The key that a token is of. `None` for one that is malformed, unknown, wrong or revoked, or whose account is
    /// being deleted: who asks is not told which.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn authenticate(&self, token: &str) -> Result<Option<ApiKey>> {
        Ok(self.admit(token)?.map(|(key, _)| key))
    }

    /// The same, with the folder of the key's account.
    pub(crate) fn admit(&self, token: &str) -> Result<Option<(ApiKey, String)>> {
        let Some(id) = token_id(token) else { return Ok(None) };
        let found = self.db.with(|c| {
            let sql = "SELECT k.id, k.account, k.label, k.scopes, k.created, k.revoked, k.hash, a.folder
                       FROM api_key k JOIN account a ON a.id = k.account
                       WHERE k.id = ?1 AND k.revoked IS NULL AND a.deleted = 0";
            let mut query = c.prepare_cached(sql).map_err(fault)?;
            let row = |row: &Row<'_>| Ok((row.get::<_, SecretHash>(6)?, (key_of(row)?, row.get(7)?)));
            query.query_row([id], row).optional().map_err(fault)
        })?;
        let right = self.hasher.verify(token, found.as_ref().map(|(hash, _)| hash));
        Ok(found.filter(|_| right).map(|(_, admitted)| admitted))
    }
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").finish_non_exhaustive()
    }
}

/// A new folder name: 128 random bits.
pub(crate) fn new_folder(env: &Env) -> Result<String> {
    Ok(hex(&env.random::<16>()?))
}

fn require_account(transaction: &Transaction<'_>, id: &str) -> Result<()> {
    let sql = "SELECT 1 FROM account WHERE id = ?1 AND deleted = 0";
    let found = transaction.query_row(sql, [id], |_| Ok(())).optional().map_err(fault)?;
    found.ok_or_else(no_account)
}

fn no_account() -> Error {
    Error::new(ErrorKind::NotFound, "there is no account of that name")
}

fn account_of(row: &Row<'_>) -> rusqlite::Result<Account> {
    let state = if row.get(3)? { AccountState::Deleted } else { AccountState::Active };
    Ok(Account { id: row.get(0)?, folder: row.get(1)?, created: Timestamp(row.get(2)?), state })
}

fn key_of(row: &Row<'_>) -> rusqlite::Result<ApiKey> {
    let scopes: String = row.get(3)?;
    let damaged = |error| rusqlite::Error::FromSqlConversionFailure(3, Type::Text, Box::new(error));
    Ok(ApiKey {
        id: row.get(0)?,
        account: row.get(1)?,
        label: row.get(2)?,
        scopes: scopes.split(' ').map(str::parse).collect::<Result<_>>().map_err(damaged)?,
        created: Timestamp(row.get(4)?),
        revoked: row.get::<_, Option<i64>>(5)?.map(Timestamp),
    })
}
