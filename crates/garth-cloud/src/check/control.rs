//! The part of the check for what operators set: the counters of quotas, and how far files satisfy rules.

use garth_engine::Result;
use garth_engine::model::quota::Usage;
use garth_engine::path::TreePath;
use tokio_postgres::types::Type;

use super::{Check, ROWS, count, rows};
use crate::client::{Pages, param};
use crate::rows::{QUOTAS, quotas_of};
use crate::usage::UsageCount;
use crate::values::columns::{column, number};

/// Recorded prefixes of files, each with false if no file can have it: a place beyond the content, more lines
/// than bytes, or content of a commit to come. A prefix of other content than the newest is not used.
const JUDGED: &str = "SELECT j.demand, j.ino, j.lines >= 1 AND j.lines - 1 <= j.until AND j.etag <= h.seq
        AND (v.content_seq IS DISTINCT FROM j.etag OR j.until <= v.size)
    FROM (SELECT demand, ino, etag, until, lines FROM garth.judged
        WHERE account = $1 AND (demand, ino) > ($2, $3) ORDER BY demand, ino LIMIT $4) j
    CROSS JOIN (SELECT seq FROM garth.head WHERE account = $1) h
    LEFT JOIN LATERAL (SELECT content_seq, size FROM garth.node
        WHERE account = $1 AND ino = j.ino ORDER BY seq DESC LIMIT 1) v ON true
    ORDER BY j.demand, j.ino";

impl Check<'_> {
    /// Checks that the stored usage of each quota matches the content below its path. A quota is counted in
    /// one state, because a commit may change it anywhere.
    pub(super) async fn quotas(&mut self) -> Result<()> {
        let quotas = quotas_of(&self.piece(QUOTAS, Vec::new()).await?)?;
        for quota in quotas.iter() {
            let conn = self.pool.connection().await?;
            let mut pages = Pages::new(&conn, self.account());
            let counted = match usage(&mut pages, &quota.path).await {
                Ok(counted) => pages.end().await.map(|()| counted),
                Err(error) => Err(error),
            };
            // It may have been removed meanwhile.
            let Some((said, found)) = conn.settle(counted).await? else { continue };
            if said != found {
                let path = &quota.path;
                let what =
                    format!("{path} has {found:?} below it, its quota says {said:?}; run `garth reindex`");
                self.report.add("quota", what);
            }
        }
        Ok(())
    }

    /// Checks that the recorded prefixes of files are prefixes of them.
    pub(super) async fn judged(&mut self) -> Result<()> {
        let (mut constraint, mut ino) = (Vec::<u8>::new(), 0);
        loop {
            let after = vec![param(constraint.clone(), Type::BYTEA), count(ino), rows(ROWS)];
            let page = self.piece(JUDGED, after).await?;
            for row in &page {
                if !column::<bool>(row, 2)? {
                    let ino = number(row, 1)?;
                    let what = format!(
                        "a rule was checked in node {ino} up to a place that it does not have; run \
                         `garth reindex`"
                    );
                    self.report.add("rule", what);
                }
            }
            let Some(last) = page.last() else { return Ok(()) };
            (constraint, ino) = (column(last, 0)?, number(last, 1)?);
        }
    }
}

/// Returns the usage below a path as its quota says it, and as it is; `None` without a quota.
async fn usage(pages: &mut Pages<'_>, path: &TreePath) -> Result<Option<(Usage, Usage)>> {
    let quotas = quotas_of(&pages.query(QUOTAS, Vec::new()).await?)?;
    let Some(quota) = quotas.get(path.key()) else { return Ok(None) };
    let mut count = UsageCount::new(path);
    while let Some((sql, params)) = count.next() {
        count.add(&pages.query(sql, params).await?)?;
    }
    Ok(Some((quota.used, count.counted()?.used)))
}
