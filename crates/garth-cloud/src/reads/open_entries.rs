//! Entries of gated directories whose file has a key that opens the gate. A listing so passes what is hidden
//! without reading the file of each entry.

use std::sync::Arc;

use tokio_postgres::types::Type;

use super::fetched::{Names, OpenEntriesOf};
use super::round::Round;
use crate::client::param;
use crate::values::columns::{column, int, number};

/// Directories of the files `$6` that have a key, in directories from `$4` up to `$5`, at most `$7`, and the
/// number of nodes that have it, at most `$7`. `$8` is the version of the projections whose keys are read:
/// without them, there is no row.
const OPEN: &str = "WITH nodes AS MATERIALIZED (SELECT ino FROM garth.projected
        WHERE account = $1 AND projection = $2 AND key = $3 LIMIT $7)
    SELECT c.nodes, n.dir
    FROM (SELECT FROM garth.head WHERE account = $1 AND keyed >= $8) h
    CROSS JOIN (SELECT count(*) AS nodes FROM nodes) c
    LEFT JOIN LATERAL (SELECT n.dir FROM nodes k
        CROSS JOIN LATERAL (SELECT dir FROM garth.name
            WHERE account = $1 AND ino = k.ino AND dir > $4 AND dir < $5 AND name = $6 OFFSET 0) n
        LIMIT $7) n ON true";

/// Adds the statements that fetch what is wanted.
pub(super) fn send(names: &Names, round: &mut Round<'_>, version: u64) {
    for key in names.open.take_wanted() {
        send_open(round, key, version);
    }
}

fn send_open(round: &mut Round<'_>, key: OpenEntriesOf, version: u64) {
    let (projection, value, dir, file, limit) = &key;
    let text = |text: String| param(text, Type::TEXT);
    let limit = *limit;
    let params = vec![
        param(projection.number().cast_signed(), Type::INT4),
        param(value.clone().into_bytes(), Type::BYTEA),
        text(format!("{dir}/")),
        text(format!("{dir}0")),
        text(file.clone()),
        param(int(limit as u64 + 1), Type::INT8),
        param(int(version), Type::INT8),
    ];
    round.query(OPEN, params, move |fetched, rows| {
        let from = format!("{}/", key.2);
        let nodes = rows.first().map(|row| number(row, 0)).transpose()?;
        let is_complete = nodes.is_some_and(|nodes| nodes <= limit as u64) && rows.len() <= limit;
        let mut entries = Vec::new();
        for row in rows {
            let dir: Option<&str> = column(row, 1)?;
            // A file of this name deeper in an entry is another one.
            let name = dir.and_then(|dir| dir.strip_prefix(&*from)).filter(|name| !name.contains('/'));
            entries.extend(name.map(str::to_owned));
        }
        fetched.names.open.put(key, is_complete.then(|| Arc::new(entries)));
        Ok(())
    });
}
