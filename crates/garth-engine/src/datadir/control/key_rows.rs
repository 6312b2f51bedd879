//! Keys in the control database: creating, deriving, rotating, listing and revoking them, and the lookup of a
//! token. All calls block, for a point query, one small transaction, or a page.

use rusqlite::types::Type;
use rusqlite::{Connection, Row, Transaction, TransactionBehavior};
use subtle::ConstantTimeEq as _;

use super::database::{ControlDb, find, no_account};
use crate::error::{Error, ErrorKind, Result};
use crate::home::{
    AccountState, Admitted, ApiKey, Binding, Issued, KeyOrigin, KeyOwner, KeysPage, NewKey, Rotated,
    Rotation, Scope, Secret, SecretHash, being_deleted, scopes_to_text, token_id,
};
use crate::model::{Listing, Timestamp};
use crate::sqlite::{DbResult, all, one};

/// Time for which a repeat of a request returns the key that the request has created: as long as the record
/// of any other write.
pub(super) const REPEATABLE: i64 = 24 * 60 * 60;

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
            if row.expires.is_some_and(|expires| expires <= now) {
                return Err(Error::invalid("the key would have expired already; name a later time").into());
            }
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
            if let Some(successor) = successor {
                // The end of its grace would become the expiry of another new key.
                let message = format!("this key was replaced by {successor} already; rotate that one");
                return Err(Error::new(ErrorKind::Conflict, message).into());
            }
            if !old.is_valid(now) {
                let message = "this key is revoked or expired; create another one in its place";
                return Err(Error::new(ErrorKind::Conflict, message).into());
            }
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
    let row =
        |row: &Row<'_>| Ok((key_of(row)?, row.get::<_, SecretHash>(9)?, row.get::<_, Option<[u8; 32]>>(10)?));
    let Some((key, hash, request)) = one(conn, sql, [&issued.id], row)? else { return Ok(None) };
    if !bool::from(hash.ct_eq(&issued.hash)) {
        // Two of 2^64 ids are the same.
        let message = "this idempotency key cannot be used; use another one";
        return Err(Error::new(ErrorKind::Conflict, message).into());
    }
    if request != Some(origin.request_hash()) {
        let message = "the idempotency key was used before with another request; use a new key";
        return Err(Error::new(ErrorKind::IdempotencyMismatch, message).into());
    }
    if key.created.plus_seconds(REPEATABLE) <= now {
        let message = format!(
            "this idempotency key created the API key {} more than a day ago; use a new one to create another",
            key.id
        );
        return Err(Error::new(ErrorKind::Conflict, message).into());
    }
    Ok(Some(key))
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
    let grace = i64::try_from(rotation.grace.as_nanos()).unwrap_or(i64::MAX);
    let end = now.0.saturating_add(grace);
    let (expires, revoked) = match grace {
        0 => (old.expires.map(|time| time.0), Some(now.0)),
        // A grace never makes a key live longer.
        _ => (Some(old.expires.map_or(end, |time| time.0.min(end))), None),
    };
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
    let message = "the API key that asks for another one is revoked or expired";
    Ok(found.ok_or_else(|| Error::new(ErrorKind::AccessDenied, message))?)
}

fn no_key(owner: &KeyOwner) -> Error {
    let owner = if owner.account().is_some() { "this account" } else { "the data folder" };
    Error::new(ErrorKind::NotFound, format!("{owner} has no key of that id"))
}

/// Reads a key from the columns of `sql!`.
fn key_of(row: &Row<'_>) -> rusqlite::Result<ApiKey> {
    let (scopes, binding) = (scopes_of(row)?, binding_of(row)?);
    key_with(
        row,
        scopes.into_iter().collect::<Result<_>>().map_err(damaged(3))?,
        binding.map_err(damaged(4))?,
    )
}

/// Reads a key as [`key_of`] does, to show it. One whose scopes or binding cannot be read is marked: it must
/// neither hide the other keys of a list nor stay valid.
fn listed_key_of(row: &Row<'_>) -> rusqlite::Result<ApiKey> {
    let (scopes, binding) = (scopes_of(row)?, binding_of(row)?);
    let is_damaged = binding.is_err() || scopes.iter().any(Result::is_err);
    let key = key_with(row, scopes.into_iter().flatten().collect(), binding.unwrap_or_default())?;
    Ok(ApiKey { is_damaged, ..key })
}

fn scopes_of(row: &Row<'_>) -> rusqlite::Result<Vec<Result<Scope>>> {
    Ok(row.get::<_, String>(3)?.split(' ').map(str::parse).collect())
}

/// Returns the binding. One that cannot be read must not make a free key.
fn binding_of(row: &Row<'_>) -> rusqlite::Result<serde_json::Result<Binding>> {
    let json: Option<String> = row.get(4)?;
    Ok(json.map_or_else(|| Ok(Binding::default()), |json| serde_json::from_str(&json)))
}

fn key_with(row: &Row<'_>, scopes: Vec<Scope>, binding: Binding) -> rusqlite::Result<ApiKey> {
    Ok(ApiKey {
        id: row.get(0)?,
        account: row.get(1)?,
        label: row.get(2)?,
        scopes,
        binding,
        created: Timestamp(row.get(5)?),
        expires: row.get::<_, Option<i64>>(6)?.map(Timestamp),
        revoked: row.get::<_, Option<i64>>(7)?.map(Timestamp),
        maker: row.get(8)?,
        is_damaged: false,
    })
}

fn damaged<E: std::error::Error + Send + Sync + 'static>(column: usize) -> impl FnOnce(E) -> rusqlite::Error {
    move |error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))
}
