//! Nodes with ended versions: those that the log names, and those in the queue that commits fill.

use garth_engine::Result;
use garth_engine::engine::relational::fold_pass::{Pass, Phase};
use tokio_postgres::types::Type;

use super::pass;
use crate::client::param;
use crate::collect::logged::{self, Logged};
use crate::collect::step::Run;
use crate::values::columns::{column, int, number};
use crate::values::parameters::ints;

/// Most nodes that a step adds.
const NODES: usize = 4096;

/// True if the queue is not complete for the commits of the pass: then the place is an inode.
const IS_BY_INODE: &str = "SELECT folded < queued FROM garth.head WHERE account = $1";
const ADD: &str = "INSERT INTO garth.fold_node (account, ino) SELECT $1, * FROM unnest($2::bigint[])
    ON CONFLICT DO NOTHING";
const REPLACED: &str = "SELECT seq, ino FROM garth.replaced WHERE account = $1 AND seq <= $2
    ORDER BY seq, ino LIMIT $3";
const NOT_REPLACED: &str = "DELETE FROM garth.replaced WHERE account = $1 AND (seq, ino) <= ($2, $3)";

/// Finds the nodes that may have ended versions. Returns the pass in its next phase; `None` if it is no
/// longer in this one.
///
/// # Errors
/// As [`Run::step`].
pub(super) async fn find(run: &mut Run<'_>, mut pass: Pass) -> Result<Option<Pass>> {
    let [rows] = run.read([(IS_BY_INODE, Vec::new())]).await?;
    let is_by_inode = rows.first().map_or(Ok(false), |row| column(row, 0))?;
    loop {
        let found = match is_by_inode {
            true => logged::with_past(run, pass.at).await?,
            false => logged::read(run, pass.at, pass.till).await?,
        };
        let Some(Logged { nodes, last }) = found else { break };
        let nodes: Vec<u64> = nodes.into_iter().collect();
        let mut pieces = nodes.chunks(NODES).peekable();
        pass.at = last;
        loop {
            let piece = pieces.next().unwrap_or_default();
            let (mut step, [known]) = run.step([pass::statement()]).await?;
            if !pass::is_at(&known, pass)? {
                run.commit(step).await?;
                return Ok(None);
            }
            step.add(ADD, vec![ints(piece.iter().copied())]);
            let is_last = pieces.peek().is_none();
            if is_last {
                pass::put(&mut step, pass);
            }
            run.commit(step).await?;
            if is_last {
                break;
            }
        }
    }
    take_replaced(run, pass).await
}

/// Adds the nodes that the log does not name, and goes on to the next phase.
async fn take_replaced(run: &mut Run<'_>, pass: Pass) -> Result<Option<Pass>> {
    loop {
        let most = run.rows();
        let page = (REPLACED, vec![param(int(pass.till), Type::INT8), param(most, Type::INT8)]);
        let (mut step, [known, found]) = run.step([pass::statement(), page]).await?;
        if !pass::is_at(&known, pass)? {
            run.commit(step).await?;
            return Ok(None);
        }
        let Some(last) = found.last() else {
            let next = pass.begin(Phase::Names, 0);
            pass::put(&mut step, next);
            run.commit(step).await?;
            return Ok(Some(next));
        };
        let last = [number(last, 0)?, number(last, 1)?].map(|number| param(int(number), Type::INT8));
        let nodes = found.iter().map(|row| number(row, 1)).collect::<Result<Vec<_>>>()?;
        step.add(ADD, vec![ints(nodes.into_iter())]);
        step.add(NOT_REPLACED, last.into());
        run.commit(step).await?;
    }
}
