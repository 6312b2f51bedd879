//! The part of the check for names that have ended: each is stored where reads of the past find it, ended
//! after the removed past, and named a node.

use garth_engine::Result;
use tokio_postgres::Row;

use super::{Check, ROWS, count, rows, text};
use crate::values::columns::{column, number};

const NAMES: &str = "SELECT e.dir, e.name, e.till, e.ino,
        e.since < e.till AND e.born <= e.since AND e.till <= h.seq AND e.fork = garth.fork(e.since, e.till)
            AND e.born_fork = garth.fork(e.born, e.till),
        h.folded, h.oldest, greatest(h.oldest, e.since), v.nlink
    FROM (SELECT * FROM garth.name_past
        WHERE account = $1 AND (dir, name, till) > ($2, $3, $4) ORDER BY dir, name, till LIMIT $5) e
    CROSS JOIN (SELECT seq, folded, oldest FROM garth.head WHERE account = $1) h
    LEFT JOIN LATERAL (SELECT nlink FROM garth.node WHERE account = $1 AND ino = e.ino
        AND seq <= greatest(h.oldest, e.since) ORDER BY seq DESC LIMIT 1) v ON true
    ORDER BY e.dir, e.name, e.till";

impl Check<'_> {
    pub(super) async fn past_names(&mut self) -> Result<()> {
        let (mut dir, mut name, mut till) = (String::new(), String::new(), 0);
        loop {
            let page = self.piece(NAMES, vec![text(&dir), text(&name), count(till), rows(ROWS)]).await?;
            for row in &page {
                self.past_name(row)?;
            }
            let Some(last) = page.last() else { return Ok(()) };
            (dir, name, till) = (column(last, 0)?, column(last, 1)?, number(last, 2)?);
        }
    }

    fn past_name(&mut self, row: &Row) -> Result<()> {
        let path = format!("{}/{}", column::<&str>(row, 0)?, column::<&str>(row, 1)?);
        let (till, ino) = (number(row, 2)?, number(row, 3)?);
        let (folded, oldest) = (number(row, 5)?, number(row, 6)?);
        let what = if !column::<bool>(row, 4)? {
            format!("{path}, which ended with commit {till}, is impossible")
        } else if till <= folded {
            format!("{path}, which ended with commit {till}, is left, though that past is removed")
        } else if oldest > 0 && till > oldest && column::<Option<i64>>(row, 8)?.is_none_or(|links| links == 0)
        {
            let seq = number(row, 7)?;
            format!("{path} names node {ino}, whose version of commit {seq} is missing")
        } else {
            return Ok(());
        };
        self.report.add("past", what);
        Ok(())
    }
}
