//! API keys that are created: on their own, or in place of another key. A transaction locks the owner, then
//! the keys that take part, in the order of their ids, so that transactions never wait for each other in a
//! circle.

use garth_engine::home::key_rows::{
    EarlierKey, KeyRow, check_expiry, check_replaceable, end_of_replaced, invalid_maker, no_key,
};
use garth_engine::home::{
    ApiKey, Binding, Issued, KeyOrigin, KeyOwner, NewKey, Rotated, Rotation, Secret, scopes_to_text,
};
use garth_engine::model::Timestamp;
use garth_engine::{Error, ErrorKind, Result};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::accounts::Found;
use super::keys::{FIND_SHARED, KEY_COLUMNS, hash, key_row, key_sql, owner_of};
use super::shared::Shared;
use super::transaction::{self, bytes, id_param, int, known, text};
use crate::client::{Connection, Param, Pipe, param};
use crate::values::columns::column;

/// Keys that take part, locked.
const LOCK: &str = key_sql!(
    "SELECT",
    ", k.account, k.successor FROM garth.access_key k WHERE k.id = ANY ($1) ORDER BY k.id FOR UPDATE OF k"
);

/// Time of the database, read behind the locks.
const CLOCK: &str = "SELECT garth.now()";

/// Writes SQL that creates a key, unless one has its id.
macro_rules! insert {
    ($before:literal, $after:literal) => {
        concat!(
            $before,
            " INSERT INTO garth.access_key AS n
              (id, account, label, scopes, binding, created, expires, maker, hash, request)
              VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (id) DO NOTHING RETURNING n.id ",
            $after
        )
    };
}

/// New key.
const INSERT: &str = insert!("", "");

/// New key, and the end of the key that it replaces.
const REPLACE: &str = insert!(
    "WITH made AS (",
    ") UPDATE garth.access_key k SET successor = $1, expires = $12, revoked = $13
       WHERE k.id = $11 AND EXISTS (SELECT FROM made) RETURNING k.id"
);

/// Keys after the change.
const STORED: &str = key_sql!("SELECT", ", k.hash, k.request FROM garth.access_key k WHERE k.id = ANY ($1)");

/// State at the start of a transaction that creates a key.
struct Begun {
    /// Account of the id of the owner.
    found: Option<Found>,
    keys: Vec<LockedKey>,
    now: Timestamp,
}

/// Key that takes part.
struct LockedKey {
    row: KeyRow,
    /// Number of the account; 0 for a key of the home.
    account: i64,
    successor: Option<String>,
}

/// Row of a new key.
struct NewRow<'a> {
    account: i64,
    label: &'a str,
    scopes: String,
    binding: &'a Binding,
    created: Timestamp,
    expires: Option<Timestamp>,
    maker: Option<&'a str>,
    origin: Option<&'a KeyOrigin>,
}

impl Shared {
    /// Creates a key. A repeat of a request with an idempotency key returns the key of the first try.
    pub(super) async fn issue_key(&self, new: &NewKey) -> Result<(ApiKey, Secret)> {
        new.check()?;
        let scopes = scopes_to_text(&new.scopes)?;
        let conn = self.pool.connection().await?;
        let issued = self.issue_on(&conn, new, scopes).await;
        conn.settle(issued).await
    }

    async fn issue_on(&self, conn: &Connection, new: &NewKey, scopes: String) -> Result<(ApiKey, Secret)> {
        let (owner, origin) = (new.owner(), new.origin.as_ref());
        let begun = begin(conn, &owner, &[new.maker.as_deref()]).await?;
        begun.check_maker(&owner, new.maker.as_deref())?;
        let (account, folder) = owner_of(&owner, begun.found.as_ref())?;
        let issued = self.issued(origin, folder)?;
        let row = NewRow {
            account,
            label: &new.label,
            scopes,
            binding: &new.binding,
            created: begun.now,
            expires: new.expires,
            maker: new.maker.as_deref(),
            origin,
        };
        // Judged after the search for an earlier try: its key may have expired by now.
        let in_time = check_expiry(new.expires, begun.now);
        let mut pipe = Pipe::new(conn);
        let inserted = in_time.is_ok().then(|| pipe.query(INSERT, row.values(&issued)));
        let stored = pipe.query(STORED, vec![ids(&[&issued.id])]);
        pipe.simple("COMMIT");
        let answers = pipe.run().await?;
        let is_new = inserted.is_some_and(|place| !answers[place].is_empty());
        let stored = Stored::find(&answers[stored], &issued.id)?;
        let key = stored.key(is_new, in_time, (&issued, origin, begun.now))?;
        Ok((key, issued.secret))
    }

    /// Replaces a key by a new one.
    pub(super) async fn rotate_key(
        &self,
        owner: &KeyOwner,
        id: &str,
        rotation: &Rotation,
    ) -> Result<Rotated> {
        let conn = self.pool.connection().await?;
        let rotated = self.rotate_on(&conn, owner, id, rotation).await;
        conn.settle(rotated).await
    }

    async fn rotate_on(
        &self,
        conn: &Connection,
        owner: &KeyOwner,
        id: &str,
        rotation: &Rotation,
    ) -> Result<Rotated> {
        let (maker, origin) = (rotation.maker.as_deref(), rotation.origin.as_ref());
        let begun = begin(conn, owner, &[Some(id), maker]).await?;
        begun.check_maker(owner, maker)?;
        let (account, folder) = owner_of(owner, begun.found.as_ref())?;
        let issued = self.issued(origin, folder)?;
        let locked = begun.keys.iter().find(|key| key.row.id == id && key.account == account);
        let locked = locked.ok_or_else(|| no_key(owner))?;
        let old = locked.row.clone().key()?;
        let replaceable = check_replaceable(&old, locked.successor.as_deref(), begun.now);
        let row = NewRow {
            account,
            label: &old.label,
            scopes: scopes_to_text(&old.scopes)?,
            binding: &old.binding,
            created: begun.now,
            expires: old.expires,
            maker,
            origin,
        };
        let mut pipe = Pipe::new(conn);
        let replaced = replaceable.is_ok().then(|| {
            let (expires, revoked) = end_of_replaced(&old, rotation, begun.now);
            let mut values = row.values(&issued);
            values.extend([text(&old.id), int(expires.map(|time| time.0)), int(revoked.map(|time| time.0))]);
            pipe.query(REPLACE, values)
        });
        let stored = pipe.query(STORED, vec![ids(&[&issued.id, &old.id])]);
        pipe.simple("COMMIT");
        let answers = pipe.run().await?;
        let is_new = replaced.is_some_and(|place| !answers[place].is_empty());
        let old = Stored::find(&answers[stored], &old.id)?.0.map_or(old, |stored| stored.key);
        let stored = Stored::find(&answers[stored], &issued.id)?;
        let key = stored.key(is_new, replaceable, (&issued, origin, begun.now))?;
        Ok(Rotated::new(key, issued.secret, old))
    }

    /// Returns a token for a key of the owner of a tree: derived from a request, or random.
    fn issued(&self, origin: Option<&KeyOrigin>, folder: &str) -> Result<Issued> {
        match origin {
            Some(origin) => Ok(self.hasher.derive(origin, folder)),
            None => self.hasher.issue(&self.env),
        }
    }
}

impl Begun {
    /// Checks the key that creates another one: it is valid now, and of the home or of the same account.
    fn check_maker(&self, owner: &KeyOwner, maker: Option<&str>) -> Result<()> {
        let Some(maker) = maker else { return Ok(()) };
        let number = self.found.as_ref().filter(|_| owner.account().is_some()).map(|found| found.number);
        let is_valid = |key: &LockedKey| {
            key.row.id == maker
                && (key.account == 0 || Some(key.account) == number)
                && key.row.revoked.is_none()
                && key.row.expires.is_none_or(|expires| expires > self.now)
        };
        if self.keys.iter().any(is_valid) { Ok(()) } else { Err(invalid_maker()) }
    }
}

impl NewRow<'_> {
    /// Returns the parameters of [`INSERT`].
    fn values(&self, issued: &Issued) -> Vec<Param> {
        let binding = (!self.binding.is_free()).then(|| self.binding.to_json());
        let request = self.origin.map(|origin| origin.request_hash().to_vec());
        vec![
            text(&issued.id),
            int(self.account),
            bytes(self.label.as_bytes()),
            text(&self.scopes),
            param(binding, Type::TEXT),
            int(self.created.0),
            int(self.expires.map(|time| time.0)),
            id_param(self.maker),
            bytes(&issued.hash),
            param(request, Type::BYTEA),
        ]
    }
}

/// Key of an id after the change, if there is one.
struct Stored(Option<EarlierKey>);

impl Stored {
    fn find(rows: &[Row], id: &str) -> Result<Self> {
        for row in rows {
            if column::<&str>(row, 0)? == id {
                let request: Option<&[u8]> = column(row, KEY_COLUMNS + 1)?;
                let request = request.and_then(|request| request.try_into().ok());
                let (key, hash) = (key_row(row)?.key()?, hash(row, KEY_COLUMNS)?);
                return Ok(Self(Some(EarlierKey { key, hash, request })));
            }
        }
        Ok(Self(None))
    }

    /// Returns the key if it is new, or that of an earlier try of the request. Otherwise the reason why none
    /// was created, if there is one.
    fn key(
        self,
        is_new: bool,
        allowed: Result<()>,
        (issued, origin, now): (&Issued, Option<&KeyOrigin>, Timestamp),
    ) -> Result<ApiKey> {
        match (self.0, origin) {
            (Some(stored), _) if is_new => Ok(stored.key),
            (Some(earlier), Some(origin)) => earlier.repeated(issued, origin, now),
            _ => {
                allowed?;
                // Two of 2^64 ids are the same.
                Err(Error::new(ErrorKind::Conflict, "the id of the new key is taken; try again"))
            }
        }
    }
}

/// Begins a transaction and locks the owner of a key, and the keys that take part.
async fn begin(conn: &Connection, owner: &KeyOwner, keys: &[Option<&str>]) -> Result<Begun> {
    let keys: Vec<&str> = keys.iter().flatten().copied().collect();
    let mut pipe = Pipe::new(conn);
    pipe.simple(transaction::begin());
    let found = pipe.query(FIND_SHARED, vec![id_param(owner.account())]);
    let locked = pipe.query(LOCK, vec![ids(&keys)]);
    let clock = pipe.query(CLOCK, Vec::new());
    let answers = pipe.run().await?;
    let locked_key = |row: &Row| {
        let (account, successor) = (column(row, KEY_COLUMNS)?, column(row, KEY_COLUMNS + 1)?);
        Ok(LockedKey { row: key_row(row)?, account, successor })
    };
    let keys = answers[locked].iter().map(locked_key).collect::<Result<_>>()?;
    let now = answers[clock].first().map(|row| column(row, 0)).transpose()?.unwrap_or_default();
    Ok(Begun { found: Found::first(&answers[found])?, keys, now: Timestamp(now) })
}

/// Returns ids as a parameter.
fn ids(ids: &[&str]) -> Param {
    param(ids.iter().map(|id| known(id).to_owned()).collect::<Vec<_>>(), Type::TEXT_ARRAY)
}
