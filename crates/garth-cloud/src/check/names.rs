//! The part of the check for names and nodes in the newest state, expiry and times of directories.

use garth_engine::Result;
use tokio_postgres::Row;

use super::{Check, ROWS, count, rows, text};
use crate::values::columns::{column, kind_of, number};

/// Versions of a piece. A directory among them is counted.
const VERSIONS: i64 = 200;

/// Names with their directories and nodes, and the link counts in the first readable state that has them.
const NAMES: &str = "WITH page AS MATERIALIZED (SELECT dir, name, ino, since, kind FROM garth.name
        WHERE account = $1 AND (dir, name) > ($2, $3) ORDER BY dir, name LIMIT $4),
    dirs AS MATERIALIZED (SELECT d.dir, d.dir = '' OR p.is_there IS NOT NULL AS is_there
        FROM (SELECT DISTINCT dir FROM page) d
        LEFT JOIN LATERAL (SELECT true AS is_there FROM garth.name WHERE account = $1
            AND dir = left(d.dir, length(d.dir) - strpos(reverse(d.dir), '/'))
            AND name = right(d.dir, strpos(reverse(d.dir), '/') - 1) AND kind = 1 OFFSET 0) p ON true)
    SELECT e.dir, e.name, e.ino, e.kind, v.kind, v.nlink, d.is_there, h.oldest,
        greatest(h.oldest, e.since), o.nlink
    FROM page e
    JOIN dirs d ON d.dir = e.dir
    CROSS JOIN (SELECT oldest FROM garth.head WHERE account = $1) h
    LEFT JOIN LATERAL (SELECT kind, nlink FROM garth.node
        WHERE account = $1 AND ino = e.ino ORDER BY seq DESC LIMIT 1) v ON true
    LEFT JOIN LATERAL (SELECT nlink FROM garth.node WHERE account = $1 AND ino = e.ino
        AND h.oldest > 0 AND seq <= greatest(h.oldest, e.since) ORDER BY seq DESC LIMIT 1) o ON true
    ORDER BY e.dir, e.name";
/// Versions of nodes. The newest of each comes with what its link count counts, and with its expiry.
const NODES: &str = "SELECT e.ino, e.seq, e.kind, e.nlink, e.attrs_seq, a.ino IS NOT NULL, n.is_newest,
        CASE WHEN e.nlink > 0 THEN e.expires_at END IS DISTINCT FROM x.at,
        CASE WHEN e.kind = 1 AND (e.ino = 1 OR p.path IS NOT NULL) THEN 2 + d.dirs ELSE c.names END
    FROM (SELECT ino, seq, kind, nlink, attrs_seq, expires_at FROM garth.node
        WHERE account = $1 AND (ino, seq) > ($2, $3) ORDER BY ino, seq LIMIT $4) e
    LEFT JOIN LATERAL (SELECT ino FROM garth.attribute
        WHERE account = $1 AND ino = e.ino AND seq = e.attrs_seq OFFSET 0) a ON true
    CROSS JOIN LATERAL (SELECT max(seq) = e.seq AS is_newest FROM garth.node
        WHERE account = $1 AND ino = e.ino) n
    LEFT JOIN LATERAL (SELECT at FROM garth.expiry WHERE account = $1 AND ino = e.ino OFFSET 0) x ON true
    CROSS JOIN LATERAL (SELECT count(*) AS names FROM garth.name
        WHERE account = $1 AND ino = e.ino AND n.is_newest OFFSET 0) c
    LEFT JOIN LATERAL (SELECT dir || '/' || name AS path FROM garth.name
        WHERE account = $1 AND ino = e.ino AND e.kind = 1 AND n.is_newest LIMIT 1) p ON true
    CROSS JOIN LATERAL (SELECT count(*) AS dirs FROM garth.name
        WHERE account = $1 AND dir = CASE WHEN e.ino = 1 THEN '' ELSE p.path END AND kind = 1
            AND e.kind = 1 AND n.is_newest OFFSET 0) d
    ORDER BY e.ino, e.seq";
const EXPIRY: &str = "SELECT e.ino, v.ino IS NULL FROM (SELECT ino FROM garth.expiry
        WHERE account = $1 AND ino > $2 ORDER BY ino LIMIT $3) e
    LEFT JOIN LATERAL (SELECT ino FROM garth.node WHERE account = $1 AND ino = e.ino LIMIT 1) v ON true
    ORDER BY e.ino";
/// Times that are not newer than the newest version, or of a node that is no directory.
const TIMES: &str = "SELECT t.ino, v.kind IS NOT DISTINCT FROM 1 AND t.seq > v.seq AND t.seq <= h.seq
    FROM (SELECT ino, seq FROM garth.dir_time WHERE account = $1 AND ino > $2 ORDER BY ino LIMIT $3) t
    CROSS JOIN (SELECT seq FROM garth.head WHERE account = $1) h
    LEFT JOIN LATERAL (SELECT kind, seq FROM garth.node
        WHERE account = $1 AND ino = t.ino ORDER BY seq DESC LIMIT 1) v ON true
    ORDER BY t.ino";

impl Check<'_> {
    /// Checks that each name is in a directory and names a node of its kind, also in the oldest readable
    /// state.
    pub(super) async fn names(&mut self) -> Result<()> {
        let (mut dir, mut name) = (String::new(), String::new());
        loop {
            let page = self.piece(NAMES, vec![text(&dir), text(&name), rows(ROWS)]).await?;
            for row in &page {
                self.name(row)?;
            }
            let Some(last) = page.last() else { return Ok(()) };
            (dir, name) = (column(last, 0)?, column(last, 1)?);
        }
    }

    fn name(&mut self, row: &Row) -> Result<()> {
        let report = &mut self.report;
        report.names += 1;
        let path = format!("{}/{}", column::<&str>(row, 0)?, column::<&str>(row, 1)?);
        let (ino, kind) = (number(row, 2)?, column::<i16>(row, 3)?);
        if !column::<bool>(row, 6)? {
            report.add("name", format!("{path} is in no directory"));
        }
        match (column::<Option<i16>>(row, 4)?, column::<Option<i64>>(row, 5)?) {
            (None, _) => report.add("name", format!("{path} names node {ino}, which does not exist")),
            (Some(of), _) if of != kind => {
                report.add("name", format!("{path} and its node {ino} are of different kinds"));
            }
            (_, Some(0)) => {
                report.add("link_count", format!("{path} names node {ino}, which should have no name"));
            }
            _ => {}
        }
        // The first readable state in which the path named the node.
        if number(row, 7)? > 0 && column::<Option<i64>>(row, 9)?.is_none_or(|links| links == 0) {
            let seq = number(row, 8)?;
            report.add("past", format!("{path} names node {ino}, whose version of commit {seq} is missing"));
        }
        Ok(())
    }

    /// Checks that each version has its attributes, that each node has as many names as its link count says,
    /// and that each expiry is listed.
    pub(super) async fn nodes(&mut self) -> Result<()> {
        let (mut ino, mut seq) = (0, 0);
        loop {
            let page = self.piece(NODES, vec![count(ino), count(seq), rows(VERSIONS)]).await?;
            for row in &page {
                self.version(row)?;
            }
            let Some(last) = page.last() else { break };
            (ino, seq) = (number(last, 0)?, number(last, 1)?);
        }
        self.stray(EXPIRY, true, "expiry", "is listed to expire but does not exist").await
    }

    fn version(&mut self, row: &Row) -> Result<()> {
        let report = &mut self.report;
        report.versions += 1;
        let (ino, seq, attrs) = (number(row, 0)?, number(row, 1)?, number(row, 4)?);
        if kind_of(column(row, 2)?).is_err() {
            report.add("database", format!("version {seq} of node {ino} has an unknown kind"));
        }
        if attrs > 0 && !column::<bool>(row, 5)? {
            let what = format!("version {seq} of node {ino} has lost its attributes of commit {attrs}");
            report.add("attribute", what);
        }
        if !column::<bool>(row, 6)? {
            return Ok(());
        }
        let (links, found) = (number(row, 3)?, number(row, 8)?);
        if links != found {
            report.add("link_count", format!("node {ino} has link count {links}, but {found} links"));
        }
        if column::<bool>(row, 7)? {
            let what = format!("the expiry of node {ino} differs from the list of expiries");
            report.add("expiry", what);
        }
        Ok(())
    }

    /// Checks the times of directories that are newer than their versions.
    pub(super) async fn times(&mut self) -> Result<()> {
        self.stray(TIMES, false, "times", "has times that are not its newest").await
    }

    /// Reports the nodes of a table for which the second column of a statement has a value.
    pub(super) async fn stray(
        &mut self,
        sql: &'static str,
        is_wrong: bool,
        kind: &'static str,
        what: &str,
    ) -> Result<()> {
        let mut ino = 0;
        loop {
            let page = self.piece(sql, vec![count(ino), rows(ROWS)]).await?;
            for row in &page {
                if column::<bool>(row, 1)? == is_wrong {
                    self.report.add(kind, format!("node {} {what}", number(row, 0)?));
                }
            }
            let Some(last) = page.last() else { return Ok(()) };
            ino = number(last, 0)?;
        }
    }
}
