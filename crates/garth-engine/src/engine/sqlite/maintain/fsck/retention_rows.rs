//! The part of `fsck` that checks the limits of retention, and the states whose content they ended.

use rusqlite::{Connection, params};

use super::{Check, Fsck, ROWS};
use crate::engine::planner::HeadRow;
use crate::engine::sqlite::schema::SUBJECT;
use crate::engine::sqlite::tables::content_gone::Span;
use crate::engine::sqlite::tables::{MAX, extents, head, nodes, retention, snapshots};
use crate::error::{ErrorKind, Result};
use crate::model::Kind;
use crate::sqlite::{DbResult, all};

/// A row of `content_gone`, and whether its content is removed.
type GoneRow = (Span, bool);

impl Check<'_> {
    /// Checks that the limits can be read, that snapshots show readable states, that the log was searched for
    /// old content up to a commit that it has, and the count of the bytes in pack files.
    pub(super) fn retention(&mut self) -> Result<()> {
        self.walk((), |view, report, ()| {
            let (conn, head) = (view.conn, head::get(view.conn)?);
            match retention::get(conn) {
                Ok(set) => {
                    if let Err(error) = set.check() {
                        report.add("retention", error.to_string());
                    }
                }
                Err(error) if error.is(ErrorKind::Corrupt) => {
                    report.add("retention", error.describe(&SUBJECT).to_string());
                }
                Err(error) => return Err(error),
            }
            if let Some((seq, _, name)) = snapshots::first(conn)?.filter(|(seq, ..)| *seq < head.oldest) {
                let what = format!(
                    "snapshot {name} shows commit {seq}, but the first readable one is {}",
                    head.oldest
                );
                report.add("retention", what);
            }
            searches(conn, report, &head)?;
            // In one statement, because any commit may change the count.
            let (counted, stored) = (head::count_packed(conn)?, head::packed(conn)?);
            if counted != stored {
                let what = format!(
                    "pack files hold {counted} bytes of chunks, but {stored} are counted; run `garth reindex`"
                );
                report.add("retention", what);
            }
            Ok(None)
        })
    }

    /// Checks that each span of states without content is one of a file, and that the extents that only
    /// removed spans show are gone.
    pub(super) fn content_spans(&mut self) -> Result<()> {
        self.walk((0, 0), |view, report, (ino, till): (u64, u64)| {
            let head = head::get(view.conn)?;
            let sql = "SELECT ino, since, till, marked IS NULL FROM content_gone
                 WHERE (ino, till) > (?1, ?2) ORDER BY ino, till LIMIT ?3";
            let spans: Vec<GoneRow> = all(view.conn, sql, params![ino, till, ROWS], |row| {
                Ok((Span { ino: row.get(0)?, since: row.get(1)?, till: row.get(2)? }, row.get(3)?))
            })?;
            for (span, is_removed) in &spans {
                content_span(view.conn, report, &head, *span, *is_removed)?;
            }
            Ok(spans.last().map(|(span, _)| (span.ino, span.till)))
        })
    }
}

fn searches(conn: &Connection, report: &mut Fsck, head: &HeadRow) -> DbResult<()> {
    for (sql, what) in [
        ("SELECT coalesce(max(seq), 0) FROM content_age", "the log was searched for old content up to"),
        ("SELECT coalesce(max(seq), 0) FROM held", "a snapshot or overlay kept the state of"),
    ] {
        let last: u64 = conn.query_row(sql, [], |row| row.get(0))?;
        if last > head.seq {
            report.add("retention", format!("{what} commit {last}, but the head is at {}", head.seq));
        }
    }
    Ok(())
}

fn content_span(
    conn: &Connection,
    report: &mut Fsck,
    head: &HeadRow,
    span: Span,
    is_removed: bool,
) -> DbResult<()> {
    let Span { ino, since, till } = span;
    let states = format!("from commit {since} to {till}");
    // The last content of a removed file is gone for good.
    let is_possible = since < till && (till <= head.seq || till == MAX);
    let is_file = nodes::version(conn, ino, MAX)?.is_some_and(|node| node.kind == Kind::File);
    if !is_possible || !is_file {
        let what = format!("the content of node {ino} is marked as gone {states}, which is impossible");
        report.add("retention", what);
        return Ok(());
    }
    if is_removed && extents::is_any_within(conn, ino, (since, till))? {
        report.add("retention", format!("content of node {ino} is left that is gone {states}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::executor::block_on;

    use crate::engine::sqlite::SqliteFs;
    use crate::env::Env;
    use crate::fs::{AccountStore as _, FileSystem as _};
    use crate::model::{At, Batch, Op};
    use crate::path::TreePath;
    use crate::rule::PathPattern;
    use crate::rule::retention::{ContentLimit, Retention};

    /// Returns an account of 10 commits to `/f`, which is node 2. Its old content is removed. Commit 11
    /// creates a snapshot.
    fn account(folder: &tempfile::TempDir) -> std::sync::Arc<SqliteFs> {
        let fs = SqliteFs::open(folder.path(), Env::system(), crate::rule::sample::registry()).unwrap();
        let off = ContentLimit { pattern: PathPattern::parse("/f").unwrap(), keep: Duration::ZERO };
        block_on(fs.set_retention(Retention { content: vec![off], ..Retention::default() })).unwrap();
        for n in 0..10 {
            let path = At::Path(TreePath::parse("/f").unwrap());
            block_on(fs.commit(Batch::new([Op::write(path, format!("{n}"))]))).unwrap();
        }
        block_on(fs.commit(Batch::new([Op::snapshot("then")]))).unwrap();
        for _ in 0..2 {
            fs.collect(Duration::ZERO).unwrap();
        }
        fs
    }

    /// Checks the account after `damage`.
    fn findings(damage: &str) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let fs = account(&folder);
        let damage = damage.to_owned();
        fs.step(move |conn, _| Ok(conn.execute_batch(&damage)?)).unwrap();
        fs.check().unwrap().findings.into_iter().map(|finding| finding.detail).collect()
    }

    #[test]
    fn sound_limits_have_no_findings() {
        assert_eq!(findings(""), [""; 0]);
    }

    #[test]
    fn damage_of_limits_and_spans_is_found() {
        let extent = "INSERT INTO extent SELECT ino, 5, off, len, 4, chunk, skip, 0 FROM extent
             WHERE ino = 2 AND till = 0";
        for (damage, expected) in [
            ("UPDATE content_limit SET class = ''", "the content limit for  cannot be read"),
            ("UPDATE retention SET age = -1", "is damaged"),
            ("UPDATE retention SET age = 9223372036854775807", "retention times are whole seconds"),
            ("UPDATE content_age SET seq = 99", "searched for old content up to commit 99"),
            ("INSERT INTO held VALUES (99)", "kept the state of commit 99"),
            ("UPDATE head SET packed = 5", "pack files hold 0 bytes of chunks, but 5 are counted"),
            ("UPDATE snapshot SET seq = 3; UPDATE head SET oldest = 4", "snapshot then shows commit 3"),
            ("UPDATE content_gone SET till = 99", "node 2 is marked as gone from commit 1 to 99"),
            ("UPDATE content_gone SET since = till", "which is impossible"),
            (
                "INSERT INTO content_gone VALUES (1, 5, 4, NULL)",
                "node 1 is marked as gone from commit 4 to 5",
            ),
            (extent, "content of node 2 is left that is gone from commit 1 to 10"),
        ] {
            let found = findings(damage);
            assert!(found.iter().any(|detail| detail.contains(expected)), "{damage}: {found:?}");
        }
    }

    #[test]
    fn reindex_corrects_what_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let fs = account(&folder);
        let damage = "UPDATE head SET packed = 5, merged = 99; UPDATE content_age SET seq = 99";
        fs.step(move |conn, _| Ok(conn.execute_batch(damage)?)).unwrap();
        assert_eq!(fs.check().unwrap().findings.len(), 3);
        fs.rebuild_index().unwrap();
        assert_eq!(fs.check().unwrap().findings, []);
    }
}
