//! Files by whose keys the entries of gated directories are judged.

use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;
use garth_engine::engine::relational::gates::{Gates, KnownGate};
use garth_engine::model::find::kept;
use garth_engine::model::{Gate, MAX_GATE_FILE};
use garth_engine::rule::Registry;
use garth_engine::rule::projection::{ContentProjection, Keys, kept_keys};
use garth_engine::{Result, TreePath};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::statements::Snapshot;
use crate::client::param;
use crate::reads::Assembled;
use crate::rows::derived::by_place;
use crate::values::columns::{column, int, number};
use crate::values::parameters::texts;

/// Content of the files at paths, unless they are too long.
const FILES: &str = "SELECT k.n, v.size, e.off, e.len, e.skip, e.sum, e.data
    FROM (SELECT q.n, f.ino FROM unnest($2::text[], $3::text[]) WITH ORDINALITY q(dir, name, n)
        CROSS JOIN LATERAL (SELECT ino FROM garth.name
            WHERE account = $1 AND dir = q.dir AND name = q.name AND kind = 0 OFFSET 0) f OFFSET 0) k
    CROSS JOIN LATERAL (SELECT size FROM (SELECT size FROM garth.node
        WHERE account = $1 AND ino = k.ino ORDER BY seq DESC LIMIT 1) w WHERE w.size <= $4) v
    LEFT JOIN LATERAL (SELECT x.off, x.len, x.skip, c.sum, c.data FROM garth.extent x
        LEFT JOIN LATERAL (SELECT sum, data FROM garth.chunk
            WHERE account = $1 AND id = x.chunk OFFSET 0) c ON true
        WHERE x.account = $1 AND x.ino = k.ino AND x.off < v.size OFFSET 0) e ON true";

/// Returns the paths among these that a gate hides. All of them exist.
pub(super) async fn hidden(
    snapshot: &mut Snapshot<'_>,
    gates: &Gates,
    registry: &Registry,
    paths: Vec<TreePath>,
) -> Result<HashSet<TreePath>> {
    // Each entry is judged once, however many of its files have keys.
    let mut entries: BTreeMap<(usize, String), Vec<TreePath>> = BTreeMap::new();
    for path in paths {
        for (number, KnownGate { gate, .. }) in gates.known().iter().enumerate() {
            if let Some(name) = gate.entry_of(&path) {
                entries.entry((number, name.to_owned())).or_default().push(path.clone());
            }
        }
    }
    let asked: Vec<(&Gate, String)> = entries
        .keys()
        .filter_map(|(number, name)| {
            let gate = gates.gate(*number)?;
            Some((gate, TreePath::from_row(gate.dir.key(), name).key().to_owned()))
        })
        .collect();
    if asked.is_empty() {
        return Ok(HashSet::new());
    }
    let params = vec![
        texts(asked.iter().map(|(_, dir)| dir.clone())),
        texts(asked.iter().map(|(gate, _)| gate.file.as_str().to_owned())),
        param(int(MAX_GATE_FILE), Type::INT8),
    ];
    let rows = snapshot.query(FILES, params).await?;
    let found = by_place(&rows)?;
    let mut hidden = HashSet::new();
    for (place, ((gate, _), paths)) in asked.iter().zip(entries.into_values()).enumerate() {
        // An entry without the file is unknown, and what is not known to be visible is hidden. So is content
        // that cannot be read: it must fail no read of other entries.
        let bytes = found.get(&place).and_then(|rows| content(rows).ok());
        if !bytes.is_some_and(|bytes| has_key(registry, gate, &bytes)) {
            hidden.extend(paths);
        }
    }
    Ok(hidden)
}

/// Returns the content of a file, checked.
fn content(rows: &[&Row]) -> Result<Bytes> {
    let size = rows.first().map_or(Ok(0), |row| number(row, 1))?;
    let mut content = Assembled::new(0, size);
    for row in rows {
        // A file without an extent has one row, without one.
        if column::<Option<i64>>(row, 2)?.is_some() {
            content.add_whole(row, 2)?;
        }
    }
    content.done()
}

/// Returns true if the content of a file has one of the keys of a gate.
fn has_key(registry: &Registry, gate: &Gate, content: &[u8]) -> bool {
    let of_content = registry.projection(gate.projection).map(ContentProjection::keys);
    let Some(Keys::OfFile(keys)) = of_content else { return false };
    let own = kept_keys(keys(content));
    gate.keys.iter().any(|key| own.contains(&kept(key)))
}
