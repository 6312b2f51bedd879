//! Keys in the control database: creating, deriving, rotating, listing and revoking them, and the lookup of a
//! token. All calls block, for a point query, one small transaction, or a page.

use rusqlite::types::Type;
use rusqlite::{Connection, Row, Transaction, TransactionBehavior};

use super::database::{ControlDb, find};
use crate::error::Result;
use crate::home::key_rows::{
    EarlierKey, KeyRow, check_expiry, check_replaceable, end_of_replaced, invalid_maker, no_key,
};
use crate::home::{
    AccountState, Admitted, ApiKey, Binding, Issued, KeyOrigin, KeyOwner, KeysPage, NewKey, Rotated,
    Rotation, Secret, SecretHash, being_deleted, no_account, scopes_to_text, token_id,
};
use crate::model::{Listing, Timestamp};
use crate::sqlite::{DbResult, all, one};

/// Writes SQL with the columns that [`key_of`] reads.
macro_rules! sql {
    ($before:literal, $after:literal) => {
        concat!($before, " id, account, label, scopes, binding, created, expires, revoked, maker ", $after)
    };
}

impl ControlDb {
    /// Creates a key. A repeat of a request with an idempotency key returns the key of the first try.
    pub(in crate::datadir) fn create_key(&self, new: &NewKey) -> Result<(ApiKey, Secret)> {
        new.check()?;
        let row = NewRow {
            account: new.account.as_deref(),
            label: &new.label,
            scopes: scopes_to_text(&new.scopes)?,
            binding: &new.binding,
            expires: new.expires,
            maker: new.maker.as_deref(),
            origin: new.origin.as_ref(),
        };
        let (owner, now) = (new.owner(), self.env.now());
        self.write(|conn| {
            check_maker(conn, row.maker, &owner, now)?;
            let issued = self.issue(conn, &owner, row.origin)?;
            if let Some(key) = repeated(conn, &issued, row.origin, now)? {
                return Ok((key, issued.secret));
            }
            // After the search for an earlier try: its key may have expired by now.
            check_expiry(row.expires, now)?;
            Ok((row.insert(conn, &issued, now)?, issued.secret))
        })
    }

    /// Replaces a key by a new one.
    pub(in crate::datadir) fn rotate_key(
        &self,
        owner: &KeyOwner,
        id: &str,
        rotation: &Rotation,
    ) -> Result<Rotated> {
        let (account, now) = (owner.account(), self.env.now());
        self.write(|conn| {
            check_maker(conn, rotation.maker.as_deref(), owner, now)?;
            let issued = self.issue(conn, owner, rotation.origin.as_ref())?;
            let (old, successor) = key_to_rotate(conn, account, id)?.ok_or_else(|| no_key(owner))?;
            if let Some(key) = repeated(conn, &issued, rotation.origin.as_ref(), now)? {
                return Ok(Rotated { key, secret: issued.secret, old });
            }
            check_replaceable(&old, successor.as_deref(), now)?;
            let row = NewRow {
                account,
                label: &old.label,
                scopes: scopes_to_text(&old.scopes)?,
                binding: &old.binding,
                expires: old.expires,
                maker: rotation.maker.as_deref(),
                origin: rotation.origin.as_ref(),
            };
            let key = row.insert(conn, &issued, now)?;
            let old = replace(conn, &old, &issued.id, (now, rotation))?;
            Ok(Rotated { key, secret: issued.secret, old })
        })
    }

    /// Returns a token for a key of an owner: derived from a request, or random.
    fn issue(&self, conn: &Connection, owner: &KeyOwner, origin: Option<&KeyOrigin>) -> DbResult<Issued> {
        // In the transaction: the account may have been deleted in the meantime.
        let folder = folder_of(conn, owner)?;
        Ok(match origin {
            Some(origin) => self.hasher.derive(origin, &folder),
            None => self.hasher.issue(&self.env)?,
        })
    }

    /// Returns a page of keys, oldest first.
    pub(in crate::datadir) fn keys(&self, owner: &KeyOwner, page: &KeysPage) -> Result<Listing<ApiKey>> {
        let sql = match page.revoked {
            true => sql!(
                "SELECT",
                "FROM access_key WHERE account IS ?1 AND (created, id) > (?2, ?3) ORDER BY created, id LIMIT ?4"
            ),
            // By name: without statistics, SQLite might as well choose the index of all keys.
            false => sql!(
                "SELECT",
                "FROM access_key INDEXED BY access_key_in_use WHERE account IS ?1 AND (created, id) > (?2, ?3)
                 AND revoked IS NULL ORDER BY created, id LIMIT ?4"
            ),
        };
        let (created, id) =
            page.after.as_ref().map_or((i64::MIN, ""), |(created, id)| (created.0, id.as_str()));
        // One more shows that there are more.
        let limit = i64::try_from(page.limit).unwrap_or(i64::MAX).saturating_add(1);
        let mut items =
            self.read_of(owner, |conn| all(conn, sql, (owner.account(), created, id, limit), listed_key_of))?;
        let more = items.len() > page.limit;
        items.truncate(page.limit);
        Ok(Listing { items, more })
    }

    /// Returns the number of keys that are neither revoked nor expired.
    pub(in crate::datadir) fn count_keys(&self, owner: &KeyOwner) -> Result<u64> {
        let sql = "SELECT count(*) FROM access_key
                   WHERE account IS ?1 AND revoked IS NULL AND (expires IS NULL OR expires > ?2)";
        let now = self.env.now();
        let count: i64 = self.read_of(owner, |conn| {
            Ok(conn.prepare_cached(sql)?.query_row((owner.account(), now.0), |row| row.get(0))?)
        })?;
        Ok(u64::try_from(count).unwrap_or_default())
    }

    /// Reads keys of an owner that exists.
    fn read_of<T>(&self, owner: &KeyOwner, job: impl FnOnce(&Connection) -> DbResult<T>) -> Result<T> {
        self.read(|conn| {
            // In one state: between two, the account may be deleted and another one get its name.
            let state = Transaction::new_unchecked(conn, TransactionBehavior::Deferred)?;
            folder_of(&state, owner)?;
            job(&state)
        })
    }

    /// Revokes a key, also one that cannot be read.
    pub(in crate::datadir) fn revoke_key(&self, owner: &KeyOwner, id: &str) -> Result<ApiKey> {
        let now = self.env.now();
        self.write(|conn| {
            folder_of(conn, owner)?;
            // A repeat keeps the time of the first revocation.
            let sql = sql!(
                "UPDATE access_key SET revoked = coalesce(revoked, ?3) WHERE account IS ?1 AND id = ?2 RETURNING",
                ""
            );
            let revoked = one(conn, sql, (owner.account(), id, now.0), listed_key_of)?;
            Ok(revoked.ok_or_else(|| no_key(owner))?)
        })
    }

    /// Authenticates a token. Returns its key and the folder of its account.
    pub(in crate::datadir) fn admit(&self, token: &str) -> Result<Option<Admitted>> {
        let Some(id) = token_id(token) else { return Ok(None) };
        let now = self.env.now();
        let found = self.read(|conn| {
            let sql = "SELECT k.id, k.account, k.label, k.scopes, k.binding, k.created, k.expires, k.revoked, k.maker,
                       k.hash, a.folder
                       FROM access_key k LEFT JOIN account a ON a.id = k.account
                       WHERE k.id = ?1 AND k.revoked IS NULL AND (k.expires IS NULL OR k.expires > ?2)
                       AND (k.account IS NULL OR a.deleted = 0)";
            let row = |row: &Row<'_>| Ok((row.get::<_, SecretHash>(9)?, Admitted::new(key_of(row)?, row.get(10)?)));
            one(conn, sql, (id, now.0), row)
        })?;
        // Also for an unknown id, so that both take the same time.
        let right = self.hasher.verify(token, found.as_ref().map(|(hash, _)| hash));
        Ok(found.filter(|_| right).map(|(_, admitted)| admitted))
    }
}

/// Row of a new key.
struct NewRow<'a> {
    account: Option<&'a str>,
    label: &'a str,
    scopes: String,
    binding: &'a Binding,
    expires: Option<Timestamp>,
    maker: Option<&'a str>,
    origin: Option<&'a KeyOrigin>,
}

impl NewRow<'_> {
    fn insert(&self, conn: &Connection, issued: &Issued, now: Timestamp) -> DbResult<ApiKey> {
        let sql = sql!(
            "INSERT INTO access_key (id, account, label, scopes, binding, created, expires, maker, hash, request)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) RETURNING",
            ""
        );
        let binding = (!self.binding.is_free()).then(|| self.binding.to_json());
        let (expires, request) = (self.expires.map(|time| time.0), self.origin.map(KeyOrigin::request_hash));
        let values = (
            &issued.id,
            self.account,
            self.label,
            &self.scopes,
            binding,
            now.0,
            expires,
            self.maker,
            issued.hash,
            request,
        );
        Ok(conn.query_row(sql, values, key_of)?)
    }
}

/// Returns the key that an earlier try of a request has created.
fn repeated(
    conn: &Connection,
    issued: &Issued,
    origin: Option<&KeyOrigin>,
    now: Timestamp,
) -> DbResult<Option<ApiKey>> {
    let Some(origin) = origin else { return Ok(None) };
    let sql = sql!("SELECT", ", hash, request FROM access_key WHERE id = ?1");
    let row = |row: &Row<'_>| Ok(EarlierKey { key: key_of(row)?, hash: row.get(9)?, request: row.get(10)? });
    let earlier = one(conn, sql, [&issued.id], row)?;
    Ok(earlier.map(|earlier| earlier.repeated(issued, origin, now)).transpose()?)
}

/// Returns a key of an account or of the data folder, and the id of the key that has replaced it.
fn key_to_rotate(
    conn: &Connection,
    account: Option<&str>,
    id: &str,
) -> DbResult<Option<(ApiKey, Option<String>)>> {
    let sql = sql!("SELECT", ", successor FROM access_key WHERE account IS ?1 AND id = ?2");
    one(conn, sql, (account, id), |row| Ok((key_of(row)?, row.get(9)?)))
}

/// Lets a replaced key end: after the grace, or at once.
fn replace(
    conn: &Connection,
    old: &ApiKey,
    successor: &str,
    (now, rotation): (Timestamp, &Rotation),
) -> DbResult<ApiKey> {
    let (expires, revoked) = end_of_replaced(old, rotation, now);
    let [expires, revoked] = [expires, revoked].map(|time| time.map(|time| time.0));
    let sql =
        sql!("UPDATE access_key SET successor = ?2, expires = ?3, revoked = ?4 WHERE id = ?1 RETURNING", "");
    Ok(conn.query_row(sql, (&old.id, successor, expires, revoked), key_of)?)
}

/// Returns the folder of the account that owns keys; empty for the data folder.
fn folder_of(conn: &Connection, owner: &KeyOwner) -> DbResult<String> {
    let Some(id) = owner.account() else { return Ok(String::new()) };
    let found = find(conn, id)?.filter(|found| owner.tree().is_none_or(|tree| tree == found.folder));
    match found.ok_or_else(no_account)? {
        account if account.state == AccountState::Active => Ok(account.folder),
        _ => Err(being_deleted().into()),
    }
}

/// Fails unless a key that creates another one is valid now, and of the data folder or of the same owner.
fn check_maker(conn: &Connection, maker: Option<&str>, owner: &KeyOwner, now: Timestamp) -> DbResult<()> {
    let Some(maker) = maker else { return Ok(()) };
    let sql = "SELECT 1 FROM access_key WHERE id = ?1 AND (account IS NULL OR account IS ?2)
               AND revoked IS NULL AND (expires IS NULL OR expires > ?3)";
    let found = one(conn, sql, (maker, owner.account(), now.0), |_| Ok(()))?;
    Ok(found.ok_or_else(invalid_maker)?)
}

/// Reads a key from the columns of `sql!`.
fn key_of(row: &Row<'_>) -> rusqlite::Result<ApiKey> {
    let damaged = |error| rusqlite::Error::FromSqlConversionFailure(3, Type::Text, Box::new(error));
    row_of(row)?.key().map_err(damaged)
}

/// Reads a key as [`key_of`] does, to show it.
fn listed_key_of(row: &Row<'_>) -> rusqlite::Result<ApiKey> {
    Ok(row_of(row)?.listed())
}

fn row_of(row: &Row<'_>) -> rusqlite::Result<KeyRow> {
    Ok(KeyRow {
        id: row.get(0)?,
        account: row.get(1)?,
        label: row.get(2)?,
        scopes: row.get(3)?,
        binding: row.get(4)?,
        created: Timestamp(row.get(5)?),
        expires: row.get::<_, Option<i64>>(6)?.map(Timestamp),
        revoked: row.get::<_, Option<i64>>(7)?.map(Timestamp),
        maker: row.get(8)?,
    })
}
