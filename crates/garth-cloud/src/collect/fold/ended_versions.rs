//! Ended versions, attributes and extents of the nodes that were found. A node that no readable state
//! shows is marked: a later run removes all of it, once nobody has it open.

use garth_engine::Result;
use garth_engine::engine::relational::fold_pass::{Pass, Phase};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::pass;
use crate::client::{Param, param};
use crate::collect::removed_extents::{EndedExtent, RemovedExtents};
use crate::collect::step::{Run, Step};
use crate::values::columns::{column, int, number};
use crate::values::parameters::ints;
use crate::weights::{attribute_weight, node_weight};

/// Next `$3` nodes `n` to visit, with their version at commit `$2`.
macro_rules! nodes {
    () => {
        "(SELECT f.ino, v.seq, v.nlink, v.attrs_seq
            FROM (SELECT ino FROM garth.fold_node WHERE account = $1 ORDER BY ino LIMIT $3) f
            LEFT JOIN LATERAL (SELECT seq, nlink, attrs_seq FROM garth.node
                WHERE account = $1 AND ino = f.ino AND seq <= $2 ORDER BY seq DESC LIMIT 1) v ON true) n"
    };
}

const NODES: &str = concat!("SELECT n.ino, coalesce(n.nlink = 0, false) FROM ", nodes!());
const EXTENTS: &str = concat!(
    "SELECT e.ino, e.till, e.off, e.chunk, e.len FROM ",
    nodes!(),
    " CROSS JOIN LATERAL (SELECT ino, till, off, chunk, len FROM garth.extent_past
        WHERE account = $1 AND ino = n.ino AND till <= $2 ORDER BY till, off LIMIT $4) e
    WHERE n.nlink > 0 LIMIT $4"
);
/// The newest version until then is that of the oldest state.
const VERSIONS: &str = concat!(
    "SELECT n.ino, e.seq, e.weight::bigint FROM ",
    nodes!(),
    " CROSS JOIN LATERAL (SELECT v.seq, ",
    node_weight!("v"),
    " AS weight FROM garth.node v
        WHERE v.account = $1 AND v.ino = n.ino AND v.seq < n.seq ORDER BY v.seq LIMIT $4) e
    WHERE n.nlink > 0 LIMIT $4"
);
/// A later version has the attributes of that version, or later ones.
const ATTRIBUTES: &str = concat!(
    "SELECT n.ino, e.seq, e.weight::bigint FROM ",
    nodes!(),
    " CROSS JOIN LATERAL (SELECT a.seq, ",
    attribute_weight!("a"),
    " AS weight FROM garth.attribute a
        WHERE a.account = $1 AND a.ino = n.ino AND a.seq <= $2 AND a.seq <> n.attrs_seq
        ORDER BY a.seq LIMIT $4) e
    WHERE n.nlink > 0 LIMIT $4"
);

const NO_VERSIONS: &str = "DELETE FROM garth.node v USING unnest($2::bigint[], $3::bigint[]) k(ino, seq)
    WHERE v.account = $1 AND v.ino = k.ino AND v.seq = k.seq";
const NO_ATTRIBUTES: &str =
    "DELETE FROM garth.attribute a USING unnest($2::bigint[], $3::bigint[]) k(ino, seq)
    WHERE a.account = $1 AND a.ino = k.ino AND a.seq = k.seq";
const NOT_GONE: &str = "DELETE FROM garth.content_gone WHERE account = $1 AND ino = ANY($2) AND till <= $3";
/// Marks nodes without a name, unless a server has a lease on one or it is marked.
const UNNAMED: &str = "INSERT INTO garth.unnamed AS u (account, ino, doomed_at)
    SELECT $1, k.ino, CASE WHEN EXISTS (SELECT FROM garth.lease l
            JOIN garth.instance i ON i.holder = l.holder AND i.until > $3
            WHERE l.account = $1 AND l.ino = k.ino) THEN NULL ELSE $3 END
    FROM unnest($2::bigint[]) k(ino)
    ON CONFLICT (account, ino) DO UPDATE SET doomed_at = coalesce(u.doomed_at, excluded.doomed_at)";
const VISITED: &str = "DELETE FROM garth.fold_node WHERE account = $1 AND ino = ANY($2)";

/// Rows of the next nodes that have ended.
struct Ended {
    /// Nodes whose rows these are, and those that no readable state shows.
    nodes: (Vec<u64>, Vec<u64>),
    extents: RemovedExtents,
    versions: Keys,
    attributes: Keys,
}

/// Keys of rows (inode and commit), and what these rows count for.
#[derive(Default)]
struct Keys {
    keys: Vec<(u64, u64)>,
    weight: u64,
}

impl Keys {
    fn read(rows: &[Row]) -> Result<Self> {
        let mut found = Self::default();
        for row in rows {
            found.keys.push((number(row, 0)?, number(row, 1)?));
            found.weight += number(row, 2)?;
        }
        Ok(found)
    }

    fn params(&self) -> Vec<Param> {
        vec![ints(self.keys.iter().map(|key| key.0)), ints(self.keys.iter().map(|key| key.1))]
    }
}

/// Removes the ended versions of the nodes that were found. Returns the pass in its next phase; `None` if
/// it is no longer in this one.
///
/// # Errors
/// As [`Run::step`].
pub(super) async fn remove(run: &mut Run<'_>, pass: Pass) -> Result<Option<Pass>> {
    loop {
        let most = run.rows();
        let param_of = |number: i64| param(number, Type::INT8);
        let of_nodes = || vec![param_of(int(pass.till)), param_of(most)];
        let of_rows = || vec![param_of(int(pass.till)), param_of(most), param_of(most)];
        let statements = [
            pass::statement(),
            (NODES, of_nodes()),
            (EXTENTS, of_rows()),
            (VERSIONS, of_rows()),
            (ATTRIBUTES, of_rows()),
        ];
        let (mut step, [known, nodes, extents, versions, attributes]) = run.step(statements).await?;
        if !pass::is_at(&known, pass)? {
            run.commit(step).await?;
            return Ok(None);
        }
        if nodes.is_empty() {
            // The row of the commit that the last pass ended with is still in the log.
            let next = pass.begin(Phase::Log, step.head.folded.saturating_sub(1));
            pass::put(&mut step, next);
            run.commit(step).await?;
            return Ok(Some(next));
        }
        let ended = Ended {
            nodes: partition(&nodes)?,
            extents: removed_extents(&extents)?,
            versions: Keys::read(&versions)?,
            attributes: Keys::read(&attributes)?,
        };
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let full = [extents.len(), versions.len(), attributes.len()].map(|count| count >= most);
        let (versions, bytes) = remove_ended(&mut step, pass, &ended, full);
        run.commit(step).await?;
        run.collected.ended_versions += versions;
        run.collected.ended_bytes += bytes;
    }
}

/// Adds the statements that remove rows. Where there may be more rows of a kind, those that come after them
/// stay for the next step. Returns the number of versions and the length of extents.
fn remove_ended(step: &mut Step, pass: Pass, ended: &Ended, full: [bool; 3]) -> (u64, u64) {
    let [more_extents, more_versions, more_attributes] = full;
    let bytes = ended.extents.remove(step);
    if more_extents {
        return (0, bytes);
    }
    let versions = ended.versions.keys.len() as u64;
    if versions > 0 {
        step.add(NO_VERSIONS, ended.versions.params());
        step.frees(ended.versions.weight);
    }
    // Attributes last: a version must not refer to some that are removed.
    if more_versions {
        return (versions, bytes);
    }
    if !ended.attributes.keys.is_empty() {
        step.add(NO_ATTRIBUTES, ended.attributes.params());
        step.frees(ended.attributes.weight);
    }
    if more_attributes {
        return (versions, bytes);
    }
    let (shown, unnamed) = &ended.nodes;
    if !shown.is_empty() {
        let till = param(int(pass.till), Type::INT8);
        step.add(NOT_GONE, vec![ints(shown.iter().copied()), till]);
    }
    if !unnamed.is_empty() {
        // No readable state shows them. A later run removes all of each, once nobody has it open: handles
        // see the version that had a name. Marked now, so that the next run need not be one that only
        // marks.
        let now = param(step.times.now.0, Type::INT8);
        step.add(UNNAMED, vec![ints(unnamed.iter().copied()), now]);
    }
    step.add(VISITED, vec![ints(shown.iter().chain(unnamed).copied())]);
    (versions, bytes)
}

/// Returns the nodes that the oldest state shows or may show, and those that no readable state shows.
fn partition(rows: &[Row]) -> Result<(Vec<u64>, Vec<u64>)> {
    let (mut shown, mut unnamed) = (Vec::new(), Vec::new());
    for row in rows {
        let to = if column(row, 1)? { &mut unnamed } else { &mut shown };
        to.push(number(row, 0)?);
    }
    Ok((shown, unnamed))
}

fn removed_extents(rows: &[Row]) -> Result<RemovedExtents> {
    let mut removed = RemovedExtents::default();
    for row in rows {
        removed.push(EndedExtent {
            ino: number(row, 0)?,
            till: number(row, 1)?,
            off: number(row, 2)?,
            chunk: number(row, 3)?,
            len: number(row, 4)?,
        });
    }
    Ok(removed)
}
