//! Raises the first commit whose state is readable, as the retention of the account says. From then on new
//! readers of earlier states are refused; the rows are removed later ([`super::fold`]).

use rusqlite::Connection;

use crate::engine::planner::HeadRow;
use crate::engine::relational::retention::{self as shared, with_slack};
use crate::engine::sqlite::SqliteFs;
use crate::engine::sqlite::maintain::holds;
use crate::engine::sqlite::query::read_view::ReadView;
use crate::engine::sqlite::tables::{commit_log, head};
use crate::error::Result;
use crate::model::Timestamp;
use crate::rule::retention::Retention;
use crate::sqlite::DbResult;

impl SqliteFs {
    /// Raises the first readable commit, and returns it. Unless the limits are to be met exactly, it is only
    /// raised once a sixteenth more than they allow is stored.
    pub(super) fn announce(&self, now: Timestamp, exact: bool) -> Result<u64> {
        let (seen, next) =
            self.whole().with_view(|view| Ok((head::get(view.conn)?, next_oldest(view, now, exact)?)))?;
        match next {
            Some(oldest) => self.raise_oldest(oldest, seen),
            None => Ok(seen.oldest),
        }
    }

    /// Raises the first readable commit to one that was chosen at head `seen`, unless the limits or the
    /// overlays may have changed. Returns the first readable commit.
    fn raise_oldest(&self, oldest: u64, seen: HeadRow) -> Result<u64> {
        let fs = self.whole();
        self.step(move |conn, _| {
            // The state of an overlay that was created meanwhile would be lost, or what limits that were set
            // meanwhile keep. The next run knows them.
            if head::get(conn)?.control == seen.control
                && !holds::may_have_new_fork(&fs.view_on(conn, None)?, seen.seq)?
            {
                // The grace period begins now: the collection may have begun long before.
                head::raise_oldest(conn, oldest, fs.inner.runtime.env().now().0)?;
            }
            fs.inner.runtime.failpoints().pass("fold-announce")?;
            Ok(head::get(conn)?.oldest)
        })
    }
}

/// Returns the commit that becomes the first readable one; `None` if that stays the same.
pub(super) fn next_oldest(view: &ReadView<'_>, now: Timestamp, exact: bool) -> DbResult<Option<u64>> {
    let head = head::get(view.conn)?;
    let control = view.control.at(view.conn, head.control)?;
    let allowed = |retention: &Retention| -> DbResult<u64> {
        let until = |time| commit_log::last_until(view.conn, time, head.oldest, head.seq);
        retention.oldest(head.seq, now, None, until)
    };
    if !exact
        && allowed(&with_slack(&control.retention))? <= head.oldest
        && !ignores_time(view.conn, &head, &control.retention, now)?
    {
        return Ok(None);
    }
    let mut oldest = allowed(&control.retention)?;
    // Only now: there may be many overlays.
    if oldest > head.oldest
        && let Some((kept, _)) = holds::first_kept(view)?
    {
        oldest = oldest.min(kept);
    }
    Ok(Some(oldest).filter(|oldest| *oldest > head.oldest))
}

/// As [`shared::ignores_time`].
pub(super) fn ignores_time(
    conn: &Connection,
    head: &HeadRow,
    retention: &Retention,
    now: Timestamp,
) -> DbResult<bool> {
    shared::ignores_time(head, retention, now, || commit_log::moment(conn, head.oldest + 1))
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;

    use super::*;
    use crate::env::Env;
    use crate::fs::{AccountStore as _, FileSystem as _};
    use crate::model::{At, Batch, Op};
    use crate::path::TreePath;

    #[test]
    fn limit_removed_during_a_collection_keeps_the_past() {
        let folder = tempfile::tempdir().unwrap();
        let fs = SqliteFs::open(folder.path(), Env::system(), crate::rule::sample::registry()).unwrap();
        for n in 0..5 {
            let at = At::Path(TreePath::parse("/a").unwrap());
            block_on(fs.commit(Batch::new([Op::write(at, format!("{n}"))]))).unwrap();
        }
        let keep = |commits| {
            block_on(fs.set_retention(Retention { commits, ..Retention::default() })).unwrap();
        };
        let head = || fs.with_view(|view| head::get(view.conn)).unwrap();
        keep(Some(1));
        let seen = head();
        keep(None);
        assert_eq!(fs.raise_oldest(4, seen).unwrap(), 0);
        assert_eq!(fs.raise_oldest(4, head()).unwrap(), 4);
    }
}
