//! The part of the check for the keys that are derived from nodes. `reindex` corrects what it finds.

use std::collections::BTreeMap;

use garth_engine::engine::planner::{KeyRow, keys_of_nodes};
use garth_engine::model::Projection;
use garth_engine::{ErrorKind, Result};
use tokio_postgres::Row;

use super::passages::INOS;
use super::{Check, count, rows};
use crate::rows::PgRows;
use crate::rows::derived::key;
use crate::values::columns::{column, number};
use crate::values::parameters::ints;

/// Nodes of a piece.
const NODES: i64 = 32;
/// Most rounds of a piece. A long file takes one for every 8 MiB.
const ROUNDS: usize = 64;

const VERSIONS: &str = "SELECT projections, keyed FROM garth.head WHERE account = $1";
const KEYS: &str = "SELECT k.ino, p.projection, p.key, p.line, p.off, p.len FROM unnest($2::bigint[]) k(ino)
    CROSS JOIN LATERAL (SELECT projection, key, line, off, len FROM garth.projected
        WHERE account = $1 AND ino = k.ino OFFSET 0) p";
const WITH_KEYS: &str = "WITH RECURSIVE next(ino) AS (
        SELECT min(ino) FROM garth.projected WHERE account = $1 AND ino > $2
        UNION ALL
        SELECT (SELECT min(ino) FROM garth.projected WHERE account = $1 AND ino > next.ino)
        FROM next WHERE next.ino IS NOT NULL),
    page AS MATERIALIZED (SELECT ino FROM next WHERE ino IS NOT NULL LIMIT $3)
    SELECT e.ino, v.ino IS NULL FROM page e
    LEFT JOIN LATERAL (SELECT ino FROM garth.node WHERE account = $1 AND ino = e.ino LIMIT 1) v ON true
    ORDER BY e.ino";

impl Check<'_> {
    /// Checks that each node has the keys that are derived from it, and that nothing else has any.
    pub(super) async fn keys(&mut self) -> Result<()> {
        let version = self.committer.control.registry().version();
        let known = self.piece(VERSIONS, Vec::new()).await?;
        let Some(known) = known.first() else { return Ok(()) };
        if number(known, 0)? > version || number(known, 1)? < version {
            // This process cannot derive the keys of a newer garth, and keys that nobody has used yet are
            // derived by the first search for one.
            return Ok(());
        }
        let mut ino = 0;
        while let Some(next) = self.piece_of_nodes(ino).await? {
            ino = next;
        }
        self.stray(WITH_KEYS, true, "projection", "has keys but does not exist").await
    }

    async fn piece_of_nodes(&mut self, after: u64) -> Result<Option<u64>> {
        let conn = self.pool.connection().await?;
        let mut database = PgRows::of_snapshot(&conn, self.committer);
        let piece = self.check_nodes(&mut database, after).await;
        let piece = match piece {
            Ok(piece) => database.commit().await.map(|()| piece),
            Err(error) => Err(error),
        };
        conn.settle(piece).await
    }

    async fn check_nodes(&mut self, database: &mut PgRows<'_>, after: u64) -> Result<Option<u64>> {
        database.begin().await?;
        let page = database.query(INOS, vec![count(after), rows(NODES)]).await?;
        let inos = page.iter().map(|row| number(row, 0)).collect::<Result<Vec<u64>>>()?;
        let Some(last) = inos.last().copied() else { return Ok(None) };
        let mut stored: BTreeMap<u64, Vec<KeyRow>> = BTreeMap::new();
        for row in database.query(KEYS, vec![ints(inos.iter().copied())]).await? {
            stored.entry(number(&row, 0)?).or_default().push(key_row(&row)?);
        }
        let registry = self.committer.control.registry();
        let due = match keys_of_nodes(database, &inos, registry, ROUNDS).await {
            // Other parts report damaged content.
            Err(error) if error.is(ErrorKind::Corrupt) || error.is(ErrorKind::TooLarge) => {
                let what = format!("the keys of nodes up to {last} cannot be compared: {error}");
                self.report.add("projection", what);
                return Ok(Some(last));
            }
            due => due?,
        };
        for (ino, due) in due {
            if sorted(due) != sorted(stored.remove(&ino).unwrap_or_default()) {
                self.report.add("projection", format!("the keys of node {ino} are out of date"));
            }
        }
        Ok(Some(last))
    }
}

fn key_row(row: &Row) -> Result<KeyRow> {
    let projection = Projection::new(column::<i32>(row, 1)?.cast_unsigned());
    let (line, off, len) = (number(row, 3)?, number(row, 4)?, number(row, 5)?);
    Ok(KeyRow { projection, key: key(row, 2)?, line, off, len })
}

/// Returns keys in an order of their own.
fn sorted(mut keys: Vec<KeyRow>) -> Vec<KeyRow> {
    keys.sort_unstable_by(|one, other| {
        let order = |row: &KeyRow| (row.projection.number(), row.line, row.off, row.len);
        order(one).cmp(&order(other)).then_with(|| one.key.cmp(&other.key))
    });
    keys
}
