//! The part of `fsck` that checks the rows of the past. Rows of removed states must be gone, and the next
//! removal must find what ends after them. The oldest readable state must be whole.

use rusqlite::{Connection, Row, params};

use super::{Check, Fsck, ROWS};
use crate::engine::planner::HeadRow;
use crate::engine::sqlite::tables::names_of_node::{self, CommitSpan};
use crate::engine::sqlite::tables::node_columns::KindColumn;
use crate::engine::sqlite::tables::{MAX, fold, head, leases, nodes, replaced};
use crate::error::Result;
use crate::model::{Ino, Kind, Within};
use crate::sqlite::{DbResult, all, one};

/// A name that has ended.
struct PastName {
    dir: String,
    name: String,
    till: u64,
    ino: u64,
    since: u64,
    /// True if the row is at the fork of its span. Elsewhere, few reads of the past find it.
    is_at_fork: bool,
}

fn past_name(row: &Row<'_>) -> rusqlite::Result<PastName> {
    Ok(PastName {
        dir: row.get(0)?,
        name: row.get(1)?,
        till: row.get(2)?,
        ino: row.get(3)?,
        since: row.get(4)?,
        is_at_fork: row.get(5)?,
    })
}

impl Check<'_> {
    /// Checks the names that have ended: each is stored where it is found, ended after the removed past, and
    /// named a node.
    pub(super) fn past_names(&mut self) -> Result<()> {
        let from = (String::new(), String::new(), 0);
        self.walk(from, |view, report, (dir, name, till): (String, String, u64)| {
            let head = head::get(view.conn)?;
            let sql = "SELECT dir, name, till, ino, since, fork = fork(since, till) FROM name_past
                 WHERE (dir, name, till) > (?1, ?2, ?3) ORDER BY dir, name, till LIMIT ?4";
            let names = all(view.conn, sql, params![dir, name, till, ROWS], past_name)?;
            for name in &names {
                ended(view.conn, report, &head, name)?;
            }
            Ok(names.into_iter().next_back().map(|it| (it.dir, it.name, it.till)))
        })
    }

    /// Checks that the versions of each node that no readable state shows are gone, and that the node had as
    /// many names in the oldest state as its link count says.
    pub(super) fn past_nodes(&mut self) -> Result<()> {
        self.walk(0, |view, report, from: u64| {
            let head = head::get(view.conn)?;
            if head.oldest == 0 {
                // Nothing was removed, and the oldest state is the empty tree.
                return Ok(None);
            }
            let sql = "SELECT DISTINCT ino FROM node WHERE ino > ?1 ORDER BY ino LIMIT ?2";
            let inos: Vec<u64> = all(view.conn, sql, params![from, ROWS], |row| row.get(0))?;
            for ino in &inos {
                if is_left(view.conn, *ino, head.folded)? {
                    let what = format!(
                        "node {ino} has rows of the past before commit {}; run `garth reindex`",
                        head.folded
                    );
                    report.add("past", what);
                }
                names_at(view.conn, report, *ino, head.oldest)?;
            }
            Ok(inos.last().copied())
        })
    }

    /// Checks the list of nodes with ended versions that the log does not name.
    pub(super) fn replaced(&mut self) -> Result<()> {
        self.walk((0, 0), |view, report, from: (u64, u64)| {
            let head = head::get(view.conn)?;
            let listed = replaced::between(view.conn, from, MAX, ROWS)?;
            for (seq, ino) in &listed {
                if *seq <= head.folded || *seq > head.seq || *ino >= head.next_ino {
                    let what = format!(
                        "node {ino} is listed with a version that ended with commit {seq}, which is not in the past"
                    );
                    report.add("past", what);
                }
            }
            Ok(listed.last().copied())
        })?;
        self.walk((0, 0), |view, report, (ino, seq): (u64, u64)| {
            // A removal in progress has taken the earlier ones from the list. Before `queued` there was none.
            let begin = fold::reached(view.conn)?.max(head::queued(view.conn)?);
            let sql = "SELECT ino, seq, seq > ?4 AND iif(kind = ?5,
                     EXISTS (SELECT 1 FROM node AS before WHERE before.ino = node.ino AND before.seq < node.seq),
                     nlink = 0)
                 AND NOT EXISTS (SELECT 1 FROM replaced WHERE replaced.seq = node.seq AND replaced.ino = node.ino)
                 FROM node WHERE (ino, seq) > (?1, ?2) ORDER BY ino, seq LIMIT ?3";
            let found: Vec<(u64, u64, bool)> =
                all(view.conn, sql, params![ino, seq, ROWS, begin, KindColumn(Kind::Directory)], |row| {
                    Ok((row.get(0)?, row.get(1)?, row.get(2)?))
                })?;
            for (ino, seq, _) in found.iter().filter(|(_, _, is_lost)| *is_lost) {
                let what = format!(
                    "the version of node {ino} that ended with commit {seq} is not listed; run `garth reindex`"
                );
                report.add("past", what);
            }
            Ok(found.last().map(|(ino, seq, _)| (*ino, *seq)))
        })
    }
}

fn ended(conn: &Connection, report: &mut Fsck, head: &HeadRow, name: &PastName) -> DbResult<()> {
    let PastName { dir, name, till, ino, since, is_at_fork } = name;
    if !is_at_fork || since >= till || *till > head.seq {
        let what = format!("{dir}/{name}, which ended with commit {till}, is impossible");
        report.add("past", what);
    } else if *till <= head.folded {
        let what =
            format!("{dir}/{name}, which ended with commit {till}, is left, though that past is removed");
        report.add("past", what);
    } else if head.oldest > 0 && *till > head.oldest {
        named_since(conn, report, &format!("{dir}/{name}"), *ino, (*since).max(head.oldest))?;
    }
    Ok(())
}

/// Checks that a node had a version with a name in the first readable state in which a path named it.
pub(super) fn named_since(
    conn: &Connection,
    report: &mut Fsck,
    path: &str,
    ino: u64,
    seq: u64,
) -> DbResult<()> {
    if nodes::links_at(conn, ino, seq)?.is_none_or(|links| links == 0) {
        let what = format!("{path} names node {ino}, whose version of commit {seq} is missing");
        report.add("past", what);
    }
    Ok(())
}

/// Returns true if a node has rows that ended at or before commit `folded`. One without a name keeps them
/// until nobody has it open.
fn is_left(conn: &Connection, ino: u64, folded: u64) -> DbResult<bool> {
    // The newest version until then is that of the oldest state. Its attributes stay with it.
    let sql = "SELECT EXISTS (SELECT 1 FROM extent WHERE ino = ?1 AND till > 0 AND till <= ?2)
         OR EXISTS (SELECT 1 FROM content_gone WHERE ino = ?1 AND till <= ?2)
         OR EXISTS (SELECT 1 FROM node WHERE ino = ?1
             AND seq < (SELECT max(seq) FROM node WHERE ino = ?1 AND seq <= ?2))
         OR EXISTS (SELECT 1 FROM attribute WHERE ino = ?1 AND seq <= ?2 AND seq <>
             (SELECT attrs_seq FROM node WHERE ino = ?1 AND seq <= ?2 ORDER BY seq DESC LIMIT 1))";
    let has_ended: bool = conn.prepare_cached(sql)?.query_row([ino, folded], |row| row.get(0))?;
    let may_go = has_ended || nodes::last_unlink(conn, ino)?.is_some_and(|last| last <= folded);
    Ok(may_go && !leases::is_unnamed(conn, ino)?)
}

/// Checks that a node had as many names in a state as its link count says.
fn names_at(conn: &Connection, report: &mut Fsck, ino: u64, seq: u64) -> DbResult<()> {
    let sql = "SELECT kind, nlink FROM node WHERE ino = ?1 AND seq <= ?2 ORDER BY seq DESC LIMIT 1";
    let row = |row: &Row<'_>| Ok((row.get::<_, KindColumn>(0)?.0, row.get::<_, u64>(1)?));
    let links = match one(conn, sql, [ino, seq], row)? {
        // It was created later. The root has no name.
        None => return Ok(()),
        Some(_) if ino == Ino::ROOT.0 => return Ok(()),
        // The link count of a directory counts its subdirectories. It has one name itself.
        Some((Kind::Directory, links)) => links.min(1),
        Some((_, links)) => links,
    };
    let names = names_of_node::in_span(conn, ino, CommitSpan::at(seq), &Within::everything(), usize::MAX)?;
    if names.len() as u64 != links {
        let found = names.len();
        report
            .add("past", format!("node {ino} had {links} names after commit {seq}, but {found} are stored"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use futures::executor::block_on;

    use crate::engine::sqlite::SqliteFs;
    use crate::env::Env;
    use crate::fs::{AccountStore as _, FileSystem as _};
    use crate::model::{At, Batch, Op, SetAttrs};
    use crate::path::TreePath;
    use crate::rule::retention::Retention;

    fn at(path: &str) -> At {
        At::Path(TreePath::parse(path).unwrap())
    }

    /// Returns an account of 20 commits whose past up to commit 10 is removed. Node 3 is `/d/f`, which each
    /// commit writes. `/d/gone` was removed by commit 15.
    fn account(folder: &tempfile::TempDir) -> Arc<SqliteFs> {
        let fs = SqliteFs::open(folder.path(), Env::system(), crate::rule::sample::registry()).unwrap();
        for n in 1..=20 {
            let mut ops = vec![Op::write(at("/d/f"), format!("{n}")).with_parents()];
            ops.extend((n == 1).then(|| Op::write(at("/d/gone"), "gone")));
            ops.extend((n == 2).then(|| Op::set_attrs(at("/d/f"), SetAttrs::new().tags(["a"]))));
            ops.extend((n == 15).then(|| Op::remove(at("/d/gone"))));
            block_on(fs.commit(Batch::new(ops))).unwrap();
        }
        block_on(fs.set_retention(Retention { commits: Some(10), ..Retention::default() })).unwrap();
        assert_eq!(fs.collect(Duration::ZERO).unwrap().folded, 10);
        fs
    }

    fn findings(fs: &SqliteFs) -> Vec<String> {
        fs.check().unwrap().findings.into_iter().map(|finding| finding.detail).collect()
    }

    /// Checks the account after `damage`.
    fn findings_after(damage: &str) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let fs = account(&folder);
        let damage = damage.to_owned();
        fs.step(move |conn, _| Ok(conn.execute_batch(&damage)?)).unwrap();
        findings(&fs)
    }

    #[test]
    fn sound_past_has_no_findings() {
        assert_eq!(findings_after(""), [""; 0]);
    }

    #[test]
    fn rows_of_removed_states_are_found() {
        let extent = "INSERT INTO extent SELECT ino, 9, off, len, 8, chunk, skip, 0 FROM extent
             WHERE ino = 3 AND till = 0";
        let version = "INSERT INTO node SELECT ino, 9, kind, mode, uid, gid, rdev, nlink, size, mtime, ctime,
             birthtime, atime, target, attrs_seq, expires_at, content_seq FROM node WHERE ino = 3 AND seq = 10";
        for (damage, expected) in [
            (extent, "node 3 has rows of the past before commit 10"),
            (version, "node 3 has rows of the past before commit 10"),
            ("INSERT INTO content_gone VALUES (3, 9, 8, NULL)", "node 3 has rows of the past before"),
            ("INSERT INTO attribute VALUES (3, 9, '{}')", "node 3 has rows of the past before"),
            (
                "INSERT INTO name_past VALUES ('/d', 'x', 9, 3, 8, 0, 8, 8, 8)",
                "/d/x, which ended with commit 9, is left",
            ),
            (
                "INSERT INTO dir_time_past VALUES (9, 2, 9, 10, 0)",
                "the times of directory 2 that ended with commit 10 are left",
            ),
            (
                "INSERT INTO replaced VALUES (9, 2)",
                "node 2 is listed with a version that ended with commit 9",
            ),
            (
                "INSERT INTO replaced VALUES (99, 2)",
                "node 2 is listed with a version that ended with commit 99",
            ),
        ] {
            let found = findings_after(damage);
            assert!(found.iter().any(|detail| detail.contains(expected)), "{damage}: {found:?}");
        }
    }

    #[test]
    fn lost_rows_of_readable_states_are_found() {
        for (damage, expected) in [
            ("DELETE FROM node WHERE ino = 3 AND seq <= 10", "/d/f names node 3, whose version of commit 10"),
            (
                "DELETE FROM name_past WHERE name = 'gone'",
                "node 4 had 1 names after commit 10, but 0 are stored",
            ),
            ("UPDATE name_past SET fork = 3", "/d/gone, which ended with commit 15, is impossible"),
            ("DELETE FROM replaced", "that ended with commit 15 is not listed"),
        ] {
            let found = findings_after(damage);
            assert!(found.iter().any(|detail| detail.contains(expected)), "{damage}: {found:?}");
        }
    }

    #[test]
    fn reindex_has_the_next_removal_find_lost_versions() {
        let folder = tempfile::tempdir().unwrap();
        let fs = account(&folder);
        fs.step(|conn, _| Ok(conn.execute("DELETE FROM replaced", [])?)).unwrap();
        assert_ne!(findings(&fs), [""; 0]);
        fs.rebuild_index().unwrap();
        assert_eq!(findings(&fs), [""; 0]);
        block_on(fs.set_retention(Retention { commits: Some(0), ..Retention::default() })).unwrap();
        // The second run removes nodes.
        for _ in 0..2 {
            fs.collect(Duration::ZERO).unwrap();
            assert_eq!(findings(&fs), [""; 0]);
        }
        let count = |sql: &str| {
            fs.with_view(|view| Ok(view.conn.query_row(sql, [], |row| row.get::<_, u64>(0))?)).unwrap()
        };
        assert_eq!(count("SELECT count(*) FROM node"), 3, "the root, the directory and the file");
    }
}
