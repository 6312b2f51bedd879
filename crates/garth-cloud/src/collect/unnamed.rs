//! Removes content that was written to files after they had lost their last name. Only open handles saw it,
//! no version of the tree does. The version that lost the name stays while a readable state of the past shows
//! the node; then the node is removed.
//!
//! A node is taken back part by part, each part in pieces: first the extents that were added, then the
//! versions and their attributes, then the extents that ended meanwhile become live again. The past shows the
//! same at any point between.

use std::collections::BTreeMap;

use garth_engine::{Error, Result};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::step::{Run, Step, Times};
use crate::client::{Param, param};
use crate::rows::references;
use crate::values::columns::{column, int, number};
use crate::values::parameters::ints;
use crate::weights::{ROW, attribute_weight, node_weight};

/// Unnamed nodes that are listed at a time.
const NODES: i64 = 64;

/// Next unnamed nodes that no server has a lease on, with the times of their marks.
const UNLEASED: &str = "SELECT u.ino, u.doomed_at FROM garth.unnamed u WHERE u.account = $1 AND u.ino > $2
        AND NOT EXISTS (SELECT FROM garth.lease l JOIN garth.instance i ON i.holder = l.holder AND i.until > $3
            WHERE l.account = $1 AND l.ino = u.ino)
    ORDER BY u.ino LIMIT $4";
/// Mark of one node without a lease.
const IS_UNLEASED: &str = "SELECT u.doomed_at FROM garth.unnamed u WHERE u.account = $1 AND u.ino = $2
        AND NOT EXISTS (SELECT FROM garth.lease l
            JOIN garth.instance i ON i.holder = l.holder AND i.until > garth.now()
            WHERE l.account = $1 AND l.ino = u.ino)";
const MARK: &str = "UPDATE garth.unnamed SET doomed_at = $3
    WHERE account = $1 AND ino = ANY($2) AND doomed_at IS NULL";
/// The version that lost the last name of a node, and the last commit up to which ended rows are removed, or
/// may be by the removal in progress.
const ENDED: &str = "SELECT (SELECT min(seq) FROM garth.node WHERE account = $1 AND ino = $2 AND seq > coalesce(
            (SELECT seq FROM garth.node WHERE account = $1 AND ino = $2 AND nlink > 0 ORDER BY seq DESC LIMIT 1), -1)),
        greatest(folded, (SELECT till FROM garth.fold WHERE account = $1 AND phase > 0))
    FROM garth.head WHERE account = $1";

/// Live extents from an offset on, and ended ones from an end and offset on, with true for those that were
/// added after commit `$3`.
const LIVE: &str = "SELECT off, chunk, len, since > $3 FROM garth.extent
    WHERE account = $1 AND ino = $2 AND off >= $4 ORDER BY off LIMIT $5";
const PAST: &str = "SELECT off, chunk, len, since > $3, till FROM garth.extent_past
    WHERE account = $1 AND ino = $2 AND till > $3 AND (till, off) >= ($4, $5) ORDER BY till, off LIMIT $6";
const NO_LIVE: &str = "DELETE FROM garth.extent WHERE account = $1 AND ino = $2 AND off = ANY($3)";
const NO_PAST: &str = "DELETE FROM garth.extent_past e USING unnest($3::bigint[], $4::bigint[]) k(till, off)
    WHERE e.account = $1 AND e.ino = $2 AND e.till = k.till AND e.off = k.off AND e.till = ANY($3)";
const NO_VERSIONS: &str = concat!(
    "DELETE FROM garth.node AS t WHERE account = $1 AND ino = $2 AND seq = ANY(ARRAY(SELECT seq FROM garth.node
        WHERE account = $1 AND ino = $2 AND seq > $3 ORDER BY seq DESC LIMIT $4)) RETURNING ",
    node_weight!("t"),
    "::bigint"
);
const NO_ATTRIBUTES: &str = concat!(
    "DELETE FROM garth.attribute AS t WHERE account = $1 AND ino = $2 AND seq = ANY(ARRAY(
        SELECT seq FROM garth.attribute WHERE account = $1 AND ino = $2 AND seq > $3 ORDER BY seq DESC LIMIT $4))
    RETURNING ",
    attribute_weight!("t"),
    "::bigint"
);
const REOPEN: &str = "WITH ended AS (DELETE FROM garth.extent_past WHERE account = $1 AND ino = $2
        AND till > $3 AND (till, off) <= (SELECT till, off FROM (SELECT till, off FROM garth.extent_past
            WHERE account = $1 AND ino = $2 AND till > $3 ORDER BY till, off LIMIT $4) p
            ORDER BY till DESC, off DESC LIMIT 1)
        RETURNING off, len, since, chunk, skip, older)
    INSERT INTO garth.extent (account, ino, off, len, since, chunk, skip, older)
    SELECT $1, $2, off, len, since, chunk, skip, older FROM ended RETURNING 1";
const NO_SPANS: &str = "DELETE FROM garth.content_gone WHERE account = $1 AND ino = $2 AND till = ANY(ARRAY(
        SELECT till FROM garth.content_gone WHERE account = $1 AND ino = $2 ORDER BY till LIMIT $3)) RETURNING 1";
const FORGET: &str = "DELETE FROM garth.unnamed WHERE account = $1 AND ino = $2";

/// Part of a node that is removed next, with the place in it.
#[derive(Clone, Copy)]
enum Part {
    Live(u64),
    Past(u64, u64),
    Versions,
    Attributes,
    Reopen,
    Spans,
    Done,
}

/// Part of a node that is removed: all that was added after a commit. After -1, the whole node.
#[derive(Clone, Copy)]
struct Removal {
    ino: u64,
    after: i64,
}

impl Removal {
    fn params(self, more: impl IntoIterator<Item = i64>) -> Vec<Param> {
        let own = [int(self.ino), self.after];
        own.into_iter().chain(more).map(|number| param(number, Type::INT8)).collect()
    }

    fn is_whole(self) -> bool {
        self.after < 0
    }
}

/// Marks the nodes that no server holds open, and takes back those marked before the grace period. Returns
/// the files that are as they were when they lost their names, which the past shows.
///
/// # Errors
/// As [`Run::step`].
pub(super) async fn take_back(run: &mut Run<'_>) -> Result<Vec<u64>> {
    let (mut done, mut after) = (Vec::new(), 0);
    loop {
        let (listed, times) = list(run, after).await?;
        let Some((last, _)) = listed.last() else { return Ok(done) };
        after = *last;
        for (ino, doomed_at) in listed {
            // With a grace period of 0 a file that was marked just now is due as well.
            if doomed_at <= times.removed_before.0 && take_back_one(run, ino).await? {
                done.push(ino);
            }
        }
    }
}

/// Lists unnamed nodes without a lease after an inode, and marks them.
async fn list(run: &mut Run<'_>, after: u64) -> Result<(Vec<(u64, i64)>, Times)> {
    let (mut step, []) = run.step([]).await?;
    let now = step.times.now.0;
    let params = [int(after), now, NODES].map(|number| param(number, Type::INT8));
    let [rows] = step.query([(UNLEASED, params.into())]).await?;
    let (mut listed, mut unmarked) = (Vec::new(), Vec::new());
    for row in &rows {
        let (ino, doomed_at) = (number(row, 0)?, column::<Option<i64>>(row, 1)?);
        if doomed_at.is_none() {
            // The grace period begins when a run first finds the node without a lease.
            unmarked.push(ino);
        }
        listed.push((ino, doomed_at.unwrap_or(now)));
    }
    if !unmarked.is_empty() {
        step.add(MARK, vec![ints(unmarked.into_iter()), param(now, Type::INT8)]);
    }
    let times = step.times;
    run.commit(step).await?;
    Ok((listed, times))
}

/// Takes a node back, or removes it. Returns true for a file that the past shows as it is now.
async fn take_back_one(run: &mut Run<'_>, ino: u64) -> Result<bool> {
    let node = || vec![param(int(ino), Type::INT8)];
    let [rows] = run.read([(ENDED, node())]).await?;
    let damaged = || Error::damaged("the head row of the account is missing");
    let row = rows.first().ok_or_else(damaged)?;
    let (last, reached) = (column::<Option<i64>>(row, 0)?, column::<i64>(row, 1)?);
    if let Some(last) = last {
        let removal = Removal { ino, after: last };
        if !remove(
            run,
            removal,
            [Part::Live(0), Part::Past(0, 0), Part::Versions, Part::Attributes, Part::Reopen],
        )
        .await?
        {
            return Ok(false);
        }
    }
    if last.is_none_or(|last| last > reached) {
        let (mut step, [unleased]) = run.step([(IS_UNLEASED, node())]).await?;
        if !unleased.is_empty() {
            step.add(FORGET, node());
        }
        run.commit(step).await?;
        return Ok(true);
    }
    if run.store.open_nodes().is_open(ino) {
        return Ok(false);
    }
    // Until all of it is gone, the node stays in the list: an interrupted removal is found again.
    let removal = Removal { ino, after: -1 };
    let parts = [Part::Live(0), Part::Past(0, 0), Part::Attributes, Part::Spans, Part::Versions, Part::Done];
    remove(run, removal, parts).await?;
    Ok(false)
}

/// Removes parts of a node in pieces. Returns false if a server has taken a lease on it meanwhile.
async fn remove<const N: usize>(run: &mut Run<'_>, removal: Removal, parts: [Part; N]) -> Result<bool> {
    for part in parts {
        let mut at = Some(part);
        while let Some(part) = at {
            let node = vec![param(int(removal.ino), Type::INT8)];
            let (mut step, [unleased]) = run.step([(IS_UNLEASED, node)]).await?;
            if unleased.is_empty() {
                run.commit(step).await?;
                return Ok(false);
            }
            at = piece(run, &mut step, removal, part).await?;
            run.commit(step).await?;
        }
    }
    Ok(true)
}

/// Removes a piece of a part. Returns the place to go on from; `None` at the end of the part.
async fn piece(run: &mut Run<'_>, step: &mut Step, removal: Removal, part: Part) -> Result<Option<Part>> {
    let rows = run.rows();
    match part {
        Part::Live(off) => {
            let [found] = step.query([(LIVE, removal.params([int(off), rows]))]).await?;
            let added = drop_extents(run, step, removal, &found)?;
            let offs = ints(added.iter().map(|(_, off)| *off));
            add_unless_empty(
                step,
                NO_LIVE,
                added.is_empty(),
                vec![param(int(removal.ino), Type::INT8), offs],
            );
            next(&found, |row| Ok(Part::Live(number(row, 0)? + 1)))
        }
        Part::Past(till, off) => {
            let [found] = step.query([(PAST, removal.params([int(till), int(off), rows]))]).await?;
            let added = drop_extents(run, step, removal, &found)?;
            let keys = [ints(added.iter().map(|(till, _)| *till)), ints(added.iter().map(|(_, off)| *off))];
            let params = [param(int(removal.ino), Type::INT8)].into_iter().chain(keys).collect();
            add_unless_empty(step, NO_PAST, added.is_empty(), params);
            next(&found, |row| Ok(Part::Past(number(row, 4)?, number(row, 0)? + 1)))
        }
        Part::Versions => {
            let versions = delete(step, NO_VERSIONS, removal, rows).await?;
            match removal.is_whole() {
                true => run.collected.ended_versions += versions,
                false => run.collected.versions += versions,
            }
            Ok((versions > 0).then_some(part))
        }
        Part::Attributes => Ok((delete(step, NO_ATTRIBUTES, removal, rows).await? > 0).then_some(part)),
        Part::Reopen => {
            let [moved] = step.query([(REOPEN, removal.params([rows]))]).await?;
            if !moved.is_empty() {
                step.has_changed();
            }
            Ok((!moved.is_empty()).then_some(part))
        }
        Part::Spans => {
            let params = [int(removal.ino), rows].map(|number| param(number, Type::INT8));
            let [gone] = step.query([(NO_SPANS, params.into())]).await?;
            if !gone.is_empty() {
                step.has_changed();
            }
            Ok((!gone.is_empty()).then_some(part))
        }
        Part::Done => {
            step.add(FORGET, vec![param(int(removal.ino), Type::INT8)]);
            Ok(None)
        }
    }
}

/// Takes the references of the extents that were added, and counts these. Returns their ends and offsets.
fn drop_extents(
    run: &mut Run<'_>,
    step: &mut Step,
    removal: Removal,
    rows: &[Row],
) -> Result<Vec<(u64, u64)>> {
    let (mut added, mut released, mut bytes) = (Vec::new(), BTreeMap::new(), 0_u64);
    for row in rows {
        if column(row, 3)? {
            let till = if row.len() > 4 { number(row, 4)? } else { 0 };
            added.push((till, number(row, 0)?));
            *released.entry(number(row, 1)?).or_insert(0_i64) -= 1;
            bytes = bytes.saturating_add(number(row, 2)?);
        }
    }
    for (sql, params) in references::change(&released) {
        step.add(sql, params);
    }
    step.frees(ROW.saturating_mul(u64::try_from(added.len()).unwrap_or(u64::MAX)));
    if removal.is_whole() {
        run.collected.ended_bytes += bytes;
    }
    Ok(added)
}

fn add_unless_empty(step: &mut Step, sql: &'static str, is_empty: bool, params: Vec<Param>) {
    if !is_empty {
        step.add(sql, params);
    }
}

/// Runs a statement that deletes rows and returns their weights. Returns their number.
async fn delete(step: &mut Step, sql: &'static str, removal: Removal, rows: i64) -> Result<u64> {
    let [gone] = step.query([(sql, removal.params([rows]))]).await?;
    for row in &gone {
        step.frees(number(row, 0)?);
    }
    Ok(u64::try_from(gone.len()).unwrap_or(u64::MAX))
}

/// Returns the place after the last row; `None` without one.
fn next(rows: &[Row], place: impl FnOnce(&Row) -> Result<Part>) -> Result<Option<Part>> {
    rows.last().map(place).transpose()
}
