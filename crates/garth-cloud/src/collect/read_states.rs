//! States of the past that open views still read, also after the first readable commit was raised above
//! them.

use std::collections::BTreeSet;

use garth_engine::Result;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::step::Statement;
use crate::client::param;
use crate::store::PgStore;
use crate::values::columns::number;

/// States that views of other servers show. Leases of this server do not count: they can be left of views
/// that are closed.
const OF_OTHERS: &str = "SELECT DISTINCT l.seq FROM garth.past_lease l
    JOIN garth.instance i ON i.holder = l.holder AND i.until > garth.now()
    WHERE l.account = $1 AND l.holder <> $2 ORDER BY l.seq";

/// Returns the statement whose rows [`all`] reads. A step runs it behind the lock.
pub(super) fn statement(store: &PgStore) -> Statement {
    (OF_OTHERS, vec![param(store.open_pasts().holder().to_vec(), Type::BYTEA)])
}

/// Returns the states that views show, of other servers by their leases, and of this one.
///
/// # Errors
/// `Corrupt` for a row that cannot be read.
pub(super) fn all(store: &PgStore, leases: &[Row]) -> Result<BTreeSet<u64>> {
    let mut states = leases.iter().map(|row| number(row, 0)).collect::<Result<BTreeSet<u64>>>()?;
    states.extend(store.open_pasts().seqs());
    Ok(states)
}
