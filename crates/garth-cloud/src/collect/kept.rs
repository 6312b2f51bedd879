//! The states of the past that something needs: snapshots and overlays keep them readable, open views keep
//! their rows.

use garth_engine::fs::store::Hold;
use garth_engine::model::Owner;
use garth_engine::{Error, Result};
use tokio_postgres::types::Type;

use super::step::read;
use crate::client::param;
use crate::store::PgStore;
use crate::values::columns::{column, number};

const FIRST_SNAPSHOT: &str =
    "SELECT s.seq, o.key, coalesce(s.long, s.name) FROM (SELECT seq, owner, name, long
        FROM garth.snapshot WHERE account = $1 ORDER BY seq LIMIT 1) s
    LEFT JOIN garth.owner o ON o.account = $1 AND o.id = s.owner";
/// First state that a view of another server shows. Leases of this server do not count: they can be left of
/// views that are closed.
const FIRST_READ: &str = "SELECT l.seq FROM garth.past_lease l WHERE l.account = $1 AND l.holder <> $2
        AND EXISTS (SELECT FROM garth.instance i WHERE i.holder = l.holder AND i.until > garth.now())
    ORDER BY l.seq LIMIT 1";

/// Returns the first state that a snapshot or an overlay shows. The handle reaches the whole account.
///
/// # Errors
/// Errors of the database.
pub(crate) async fn first_kept(store: &PgStore) -> Result<Option<(u64, Hold)>> {
    let [rows] = read(store, [(FIRST_SNAPSHOT, Vec::new())]).await?;
    let mut snapshot = None;
    if let Some(row) = rows.first() {
        let owner = Owner::from_key(text(column::<Option<Vec<u8>>>(row, 1)?.unwrap_or_default())?);
        snapshot = Some((number(row, 0)?, Hold::Snapshot { owner, name: text(column(row, 2)?)? }));
    }
    let fork = store.first_fork().await?;
    Ok([snapshot, fork].into_iter().flatten().min_by_key(|(seq, _)| *seq))
}

/// Returns the first state that an open view of the past shows, of this server or, by their leases, of
/// others.
///
/// # Errors
/// Errors of the database.
pub(crate) async fn first_read(store: &PgStore) -> Result<Option<u64>> {
    let own = store.open_pasts();
    let holder = param(own.holder().to_vec(), Type::BYTEA);
    let [rows] = read(store, [(FIRST_READ, vec![holder])]).await?;
    let others = rows.first().map(|row| number(row, 0)).transpose()?;
    Ok(own.seqs().into_iter().chain(others).min())
}

fn text(bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes).map_err(|e| Error::damaged("the name of a snapshot is damaged").with_source(e))
}
