//! Transactions on the tables of accounts and keys.

use std::sync::Arc;

use garth_engine::Result;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::client::{Connection, Param, Pipe, Pool, begin_writes, param};

/// Returns the statements that begin a transaction which writes accounts or keys.
pub(super) fn begin() -> String {
    begin_writes(0)
}

/// Begins a transaction whose statements read one state.
const BEGIN_READ: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
    SELECT set_config('garth.account', '0', true), set_config('statement_timeout', '30000', true)";

/// Reads rows of one state in one round trip: the rows of each statement.
///
/// # Errors
/// Errors of the database.
pub(super) async fn read<const N: usize>(
    pool: &Arc<Pool>,
    statements: [(&'static str, Vec<Param>); N],
) -> Result<[Vec<Row>; N]> {
    let conn = pool.connection().await?;
    let mut pipe = Pipe::new(&conn);
    pipe.simple(BEGIN_READ);
    let places = statements.map(|(sql, params)| pipe.query(sql, params));
    pipe.simple("COMMIT");
    let answers = pipe.run().await;
    let mut answers = conn.settle(answers).await?;
    Ok(places.map(|place| std::mem::take(&mut answers[place])))
}

/// Ends a transaction that has written nothing.
///
/// # Errors
/// Errors of the database.
pub(super) async fn end(conn: &Connection) -> Result<()> {
    let mut pipe = Pipe::new(conn);
    pipe.simple("COMMIT");
    pipe.run().await.map(drop)
}

/// Returns a text that is looked up as an id. No id has the character NUL, which the database refuses in any
/// text: such a text is replaced by the empty one, which is no id either.
pub(super) fn known(id: &str) -> &str {
    if id.contains('\0') { "" } else { id }
}

/// Returns an id as a parameter.
pub(super) fn id_param<'a>(id: impl Into<Option<&'a str>>) -> Param {
    let id: Option<&str> = id.into();
    param(id.map(|id| known(id).to_owned()), Type::TEXT)
}

/// Returns the id before a page as a parameter. An id sorts after a text with NUL exactly if it sorts after
/// the part before the NUL.
pub(super) fn after_param(id: &str) -> Param {
    text(id.split('\0').next().unwrap_or_default())
}

/// Returns a text without the character NUL as a parameter.
pub(super) fn text(text: &str) -> Param {
    param(text.to_owned(), Type::TEXT)
}

/// Returns bytes as a parameter.
pub(super) fn bytes(bytes: &[u8]) -> Param {
    param(bytes.to_vec(), Type::BYTEA)
}

/// Returns a number as a parameter.
pub(super) fn int(number: impl Into<Option<i64>>) -> Param {
    let number: Option<i64> = number.into();
    param(number, Type::INT8)
}
