//! API keys: authentication, pages, counts and revocation.

use garth_engine::Result;
use garth_engine::home::key_rows::{KeyRow, no_key};
use garth_engine::home::{
    Admitted, ApiKey, KeyOwner, KeysPage, SecretHash, being_deleted, no_account, token_id,
};
use garth_engine::model::{Listing, Timestamp};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::accounts::{FIND, Found};
use super::shared::Shared;
use super::transaction::{self, after_param, id_param, int, read};
use crate::client::{Connection, Pipe, param};
use crate::values::columns::column;

/// Writes SQL with the columns of the table `k` that [`key_row`] reads.
macro_rules! key_sql {
    ($before:literal, $after:literal) => {
        concat!(
            $before,
            " k.id, (SELECT a.id FROM garth.account a WHERE a.account = k.account), k.label, k.scopes,
              k.binding, k.created, k.expires, k.revoked, k.maker ",
            $after
        )
    };
}
pub(super) use key_sql;

/// Columns that [`key_row`] reads.
pub(super) const KEY_COLUMNS: usize = 9;

/// Account that owns keys, as [`FIND`]; its deletion waits for the end of the transaction.
pub(super) const FIND_SHARED: &str =
    "SELECT account, id, folder, created, deleted FROM garth.account WHERE id = $1 FOR SHARE";

/// Key of a token, with the hash of the token and the tree of the account.
const ADMIT: &str = key_sql!(
    "SELECT",
    ", k.hash, t.folder FROM garth.access_key k LEFT JOIN garth.account t ON t.account = k.account
     WHERE k.id = $1 AND k.revoked IS NULL AND (k.expires IS NULL OR k.expires > garth.now())
     AND (k.account = 0 OR NOT t.deleted)"
);

/// Page of the keys of an owner, NULL for the home.
const PAGE: &str = key_sql!(
    "SELECT",
    "FROM garth.access_key k
     WHERE k.account = (
         SELECT CASE WHEN $1 IS NULL THEN 0 ELSE (SELECT account FROM garth.account WHERE id = $1) END)
     AND (k.created, k.id) > ($2, $3) AND ($4 OR k.revoked IS NULL) ORDER BY k.created, k.id LIMIT $5"
);

/// Number of the valid keys of an owner.
const COUNT: &str = "SELECT count(*) FROM (SELECT garth.now() AS now OFFSET 0) AS c, garth.access_key k
    WHERE k.account = (
        SELECT CASE WHEN $1 IS NULL THEN 0 ELSE (SELECT account FROM garth.account WHERE id = $1) END)
    AND k.revoked IS NULL AND (k.expires IS NULL OR k.expires > c.now)";

/// Revokes a key of an owner that exists. A repeat keeps the time of the first revocation.
const REVOKE: &str = key_sql!(
    "UPDATE garth.access_key k SET revoked = coalesce(k.revoked, garth.now())
     WHERE k.id = $3 AND k.account = (SELECT CASE WHEN $1 IS NULL THEN 0 ELSE (
         SELECT account FROM garth.account WHERE id = $1 AND NOT deleted AND ($2 IS NULL OR folder = $2)) END)
     RETURNING",
    ""
);

impl Shared {
    /// Authenticates a token in one round trip.
    pub(super) async fn admit(&self, token: &str) -> Result<Option<Admitted>> {
        let Some(id) = token_id(token) else { return Ok(None) };
        let [rows] = read(&self.pool, [(ADMIT, vec![id_param(id)])]).await?;
        let found = rows.first().map(|row| hash(row, KEY_COLUMNS).map(|hash| (hash, row))).transpose()?;
        // Also for an unknown id, so that both take the same time.
        let is_right = self.hasher.verify(token, found.as_ref().map(|(hash, _)| hash));
        let Some((_, row)) = found.filter(|_| is_right) else { return Ok(None) };
        Ok(Some(Admitted::new(key_row(row)?.key()?, column(row, KEY_COLUMNS + 1)?)))
    }

    pub(super) async fn keys(&self, owner: &KeyOwner, page: &KeysPage) -> Result<Listing<ApiKey>> {
        let (created, id) = page.after.as_ref().map_or((i64::MIN, ""), |(created, id)| (created.0, &**id));
        // One more shows that there are more.
        let limit = i64::try_from(page.limit).unwrap_or(i64::MAX).saturating_add(1);
        let values = vec![
            id_param(owner.account()),
            int(created),
            after_param(id),
            param(page.revoked, Type::BOOL),
            int(limit),
        ];
        let found = (FIND, vec![id_param(owner.account())]);
        let [found, rows] = read(&self.pool, [found, (PAGE, values)]).await?;
        owner_of(owner, Found::first(&found)?.as_ref())?;
        let mut items = rows.iter().map(|row| Ok(key_row(row)?.listed())).collect::<Result<Vec<_>>>()?;
        let mut listing = Listing::default();
        listing.more = items.len() > page.limit;
        items.truncate(page.limit);
        listing.items = items;
        Ok(listing)
    }

    pub(super) async fn count_keys(&self, owner: &KeyOwner) -> Result<u64> {
        let account = || vec![id_param(owner.account())];
        let [found, rows] = read(&self.pool, [(FIND, account()), (COUNT, account())]).await?;
        owner_of(owner, Found::first(&found)?.as_ref())?;
        let count: Option<i64> = rows.first().map(|row| column(row, 0)).transpose()?;
        Ok(u64::try_from(count.unwrap_or_default()).unwrap_or_default())
    }

    /// Revokes a key, also one that cannot be read.
    pub(super) async fn revoke_key(&self, owner: &KeyOwner, id: &str) -> Result<ApiKey> {
        let conn = self.pool.connection().await?;
        let revoked = revoke(&conn, owner, id).await;
        conn.settle(revoked).await
    }
}

async fn revoke(conn: &Connection, owner: &KeyOwner, id: &str) -> Result<ApiKey> {
    let mut pipe = Pipe::new(conn);
    pipe.simple(transaction::begin());
    let found = pipe.query(FIND_SHARED, vec![id_param(owner.account())]);
    let values = vec![id_param(owner.account()), id_param(owner.tree()), id_param(id)];
    let revoked = pipe.query(REVOKE, values);
    pipe.simple("COMMIT");
    let answers = pipe.run().await?;
    let key = answers[revoked].first().map(|row| key_row(row).map(KeyRow::listed)).transpose()?;
    owner_of(owner, Found::first(&answers[found])?.as_ref())?;
    key.ok_or_else(|| no_key(owner))
}

/// Returns the number of the account that owns keys and the name of its tree: 0 and the empty text for the
/// home. `found` is the account of this id.
///
/// # Errors
/// `NotFound` if the account does not exist, is being deleted, or has another tree.
pub(super) fn owner_of<'a>(owner: &KeyOwner, found: Option<&'a Found>) -> Result<(i64, &'a str)> {
    if owner.account().is_none() {
        return Ok((0, ""));
    }
    let is_meant = |found: &&Found| owner.tree().is_none_or(|tree| tree == found.account.folder);
    match found.filter(is_meant).ok_or_else(no_account)? {
        found if found.is_active() => Ok((found.number, &*found.account.folder)),
        _ => Err(being_deleted()),
    }
}

/// Reads the columns of `key_sql!`.
pub(super) fn key_row(row: &Row) -> Result<KeyRow> {
    let time = |at| column::<Option<i64>>(row, at).map(|time| time.map(Timestamp));
    Ok(KeyRow {
        id: column(row, 0)?,
        account: column(row, 1)?,
        label: String::from_utf8_lossy(column(row, 2)?).into_owned(),
        scopes: column(row, 3)?,
        binding: column(row, 4)?,
        created: Timestamp(column(row, 5)?),
        expires: time(6)?,
        revoked: time(7)?,
        maker: column(row, 8)?,
    })
}

/// Reads the hash of a token. The table has none of another length.
pub(super) fn hash(row: &Row, at: usize) -> Result<SecretHash> {
    Ok(column::<&[u8]>(row, at)?.try_into().unwrap_or_default())
}
