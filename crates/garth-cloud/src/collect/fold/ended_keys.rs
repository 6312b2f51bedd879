//! Ended names and times of directories. Both are stored at forks: rows that ended at or before a commit
//! are at earlier forks, and only at the forks of the commit itself there are later rows as well.
//!
//! They are looked for outside of the steps: a fork may have any number of rows that stay, which each page
//! goes on after. Ended rows never change.

use garth_engine::Result;
use garth_engine::engine::relational::fold_pass::{Pass, Phase};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::pass;
use crate::client::param;
use crate::collect::step::{Run, Statement};
use crate::values::columns::{column, int, number};
use crate::values::parameters::{ints, texts};
use crate::weights;

/// Names that ended at or before commit `$5`, of the next `$6` after a fork, directory and name; and the
/// last of those looked at, with the number of them as a negative end.
const NAMES: &str = "WITH page AS MATERIALIZED (
        SELECT fork, dir, name, till FROM garth.name_past
        WHERE account = $1 AND (fork, dir, name) > ($2, $3, $4) AND fork < $5
        ORDER BY fork, dir, name LIMIT $6)
    SELECT fork, dir, name, till FROM page WHERE till <= $5
    UNION ALL
    (SELECT fork, dir, name, -(SELECT count(*) FROM page) FROM page
        ORDER BY fork DESC, dir DESC, name DESC LIMIT 1)";
const NO_NAMES: &str =
    "DELETE FROM garth.name_past p USING unnest($2::text[], $3::text[], $4::bigint[]) k(dir, name, till)
    WHERE p.account = $1 AND p.dir = k.dir AND p.name = k.name AND p.till = k.till";
/// Times that ended at or before commit `$4`, as [`NAMES`].
const TIMES: &str = "WITH page AS MATERIALIZED (
        SELECT fork, ino, till FROM garth.dir_time_past
        WHERE account = $1 AND (fork, ino) > ($2, $3) AND fork < $4 ORDER BY fork, ino LIMIT $5)
    SELECT fork, ino, till FROM page WHERE till <= $4
    UNION ALL
    (SELECT fork, ino, -(SELECT count(*) FROM page) FROM page ORDER BY fork DESC, ino DESC LIMIT 1)";
const NO_TIMES: &str =
    "DELETE FROM garth.dir_time_past t USING unnest($2::bigint[], $3::bigint[]) k(fork, ino)
    WHERE t.account = $1 AND t.fork = k.fork AND t.ino = k.ino";

/// Name at a fork.
#[derive(Clone, Debug, Default)]
struct NameKey {
    fork: u64,
    dir: String,
    name: String,
}

/// Rows that were looked at.
struct Page<K, E> {
    /// Ended ones.
    ended: Vec<E>,
    /// Last one.
    last: K,
    /// True if no more follow.
    is_last: bool,
}

/// Removes ended names. Returns the pass in its next phase; `None` if it is no longer in this one.
///
/// # Errors
/// As [`Run::step`].
pub(super) async fn remove_names(run: &mut Run<'_>, mut pass: Pass) -> Result<Option<Pass>> {
    // No name is empty.
    let mut after = NameKey { fork: pass.at, ..NameKey::default() };
    loop {
        let Some(page) = names(run, pass, &after).await? else { break };
        (after, pass.at) = (page.last.clone(), page.last.fork);
        let ended = page.ended;
        if !ended.is_empty() {
            let params = vec![
                texts(ended.iter().map(|(key, _)| key.dir.clone())),
                texts(ended.iter().map(|(key, _)| key.name.clone())),
                ints(ended.iter().map(|(_, till)| *till)),
            ];
            let weight = ended.iter().map(|(key, _)| weights::name(&key.dir, &key.name)).sum();
            if !remove(run, pass, (NO_NAMES, params), weight).await? {
                return Ok(None);
            }
        }
        if page.is_last {
            break;
        }
    }
    go_on(run, pass, pass.begin(Phase::Times, 0)).await
}

/// Removes ended times of directories. Returns the pass in its next phase; `None` if it is no longer in
/// this one.
///
/// # Errors
/// As [`Run::step`].
pub(super) async fn remove_times(run: &mut Run<'_>, mut pass: Pass) -> Result<Option<Pass>> {
    // No node has inode 0.
    let mut after = (pass.at, 0);
    loop {
        let Some(page) = times(run, pass, after).await? else { break };
        (after, pass.at) = (page.last, page.last.0);
        let ended = page.ended;
        if !ended.is_empty() {
            let params = vec![ints(ended.iter().map(|key| key.0)), ints(ended.iter().map(|key| key.1))];
            // They count as none.
            if !remove(run, pass, (NO_TIMES, params), 0).await? {
                return Ok(None);
            }
        }
        if page.is_last {
            break;
        }
    }
    go_on(run, pass, pass.begin(Phase::Nodes, 0)).await
}

/// Removes rows with a statement, and notes the place of the pass. `weight` is what the rows count for.
/// Returns false if the pass is no longer in its phase.
async fn remove(run: &mut Run<'_>, pass: Pass, (sql, params): Statement, weight: u64) -> Result<bool> {
    let (mut step, [known]) = run.step([pass::statement()]).await?;
    if !pass::is_at(&known, pass)? {
        run.commit(step).await?;
        return Ok(false);
    }
    step.add(sql, params);
    step.frees(weight);
    pass::put(&mut step, pass);
    run.commit(step).await?;
    Ok(true)
}

/// Moves a pass to its next phase. Returns `None` if it is no longer in the one before.
async fn go_on(run: &mut Run<'_>, from: Pass, to: Pass) -> Result<Option<Pass>> {
    let (mut step, [known]) = run.step([pass::statement()]).await?;
    if !pass::is_at(&known, from)? {
        run.commit(step).await?;
        return Ok(None);
    }
    pass::put(&mut step, to);
    run.commit(step).await?;
    Ok(Some(to))
}

/// Returns the next names; `None` if there are none.
async fn names(run: &Run<'_>, pass: Pass, after: &NameKey) -> Result<Option<Page<NameKey, (NameKey, u64)>>> {
    let most = run.rows();
    let params = vec![
        param(int(after.fork), Type::INT8),
        param(after.dir.clone(), Type::TEXT),
        param(after.name.clone(), Type::TEXT),
        param(int(pass.till), Type::INT8),
        param(most, Type::INT8),
    ];
    let [rows] = run.read([(NAMES, params)]).await?;
    let Some((last, ended)) = rows.split_last() else { return Ok(None) };
    let ended = ended.iter().map(|row| Ok((name_key(row)?, number(row, 3)?))).collect::<Result<_>>()?;
    Ok(Some(Page { ended, last: name_key(last)?, is_last: is_last(last, 3, most)? }))
}

/// Returns the next times, by fork and inode; `None` if there are none.
async fn times(run: &Run<'_>, pass: Pass, after: (u64, u64)) -> Result<Option<Page<(u64, u64), (u64, u64)>>> {
    let most = run.rows();
    let numbers = [int(after.0), int(after.1), int(pass.till), most];
    let [rows] = run.read([(TIMES, numbers.map(|number| param(number, Type::INT8)).into())]).await?;
    let Some((last, ended)) = rows.split_last() else { return Ok(None) };
    let ended = ended.iter().map(time_key).collect::<Result<_>>()?;
    Ok(Some(Page { ended, last: time_key(last)?, is_last: is_last(last, 2, most)? }))
}

/// Returns true if a page had fewer rows than were asked for. Their number is in the last row.
fn is_last(last: &Row, at: usize, most: i64) -> Result<bool> {
    Ok(column::<i64>(last, at)? > -most)
}

fn name_key(row: &Row) -> Result<NameKey> {
    Ok(NameKey { fork: number(row, 0)?, dir: column(row, 1)?, name: column(row, 2)? })
}

fn time_key(row: &Row) -> Result<(u64, u64)> {
    Ok((number(row, 0)?, number(row, 1)?))
}
