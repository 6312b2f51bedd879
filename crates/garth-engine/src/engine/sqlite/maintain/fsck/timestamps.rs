//! The part of `fsck` that checks the times at which names in directories changed.

use rusqlite::{Connection, params};

use super::{Check, Fsck, ROWS};
use crate::engine::sqlite::tables::{MAX, fold, head, nodes};
use crate::error::Result;
use crate::sqlite::{DbResult, all, one};

/// A version of a directory that differs only in its times: inode, commit, time.
struct Times {
    ino: u64,
    seq: u64,
    time: i64,
}

impl Check<'_> {
    /// Checks that each time is that of its commit, and that the versions of a directory follow each other
    /// without a gap.
    pub(super) fn dir_times(&mut self) -> Result<()> {
        self.walk(0, |view, report, from: u64| {
            let sql = "SELECT ino, seq, time FROM dir_time WHERE ino > ?1 ORDER BY ino LIMIT ?2";
            let newest: Vec<Times> = all(view.conn, sql, params![from, ROWS], |row| {
                Ok(Times { ino: row.get(0)?, seq: row.get(1)?, time: row.get(2)? })
            })?;
            for times in &newest {
                judge(view.conn, report, times)?;
                if nodes::version(view.conn, times.ino, MAX)?.is_none_or(|node| node.seq != times.seq) {
                    report.add("times", format!("the times of node {} are not its newest", times.ino));
                }
                let before = nodes::version(view.conn, times.ino, times.seq.saturating_sub(1))?;
                let till = before.map(|node| nodes::next_version(view.conn, &node)).transpose()?.flatten();
                // A version that commit 1 ended is at no fork, and one of the removed past is gone.
                if times.seq > fold::reached(view.conn)?.max(1) && till != Some(times.seq) {
                    let what = format!(
                        "the version before commit {} of directory {} is missing",
                        times.seq, times.ino
                    );
                    report.add("times", what);
                }
            }
            Ok(newest.last().map(|times| times.ino))
        })?;
        self.walk((0, 0), |view, report, (fork, ino): (u64, u64)| {
            let sql = "SELECT fork, ino, since, till, time, fork(since, till) FROM dir_time_past
                 WHERE (fork, ino) > (?1, ?2) ORDER BY fork, ino LIMIT ?3";
            let ended: Vec<(u64, u64, Times)> = all(view.conn, sql, params![fork, ino, ROWS], |row| {
                let (ino, fork): (u64, u64) = (row.get(1)?, row.get(0)?);
                // A row at another fork than its own is found by no commit, which the checks below report.
                let till = if fork == row.get::<_, u64>(5)? { row.get(3)? } else { 0 };
                Ok((fork, till, Times { ino, seq: row.get(2)?, time: row.get(4)? }))
            })?;
            let (reached, folded) = (fold::reached(view.conn)?, head::get(view.conn)?.folded);
            for (fork, till, times) in &ended {
                if *till > 0 && *till <= folded {
                    let what = format!(
                        "the times of directory {} that ended with commit {till} are left, though that past is removed",
                        times.ino
                    );
                    report.add("past", what);
                } else if *fork >= reached || *till == 0 || *till > reached {
                    // Others are being removed with the past. At another fork than its own, it has no end
                    // here.
                    judge_ended(view.conn, report, times, *till)?;
                }
            }
            Ok(ended.last().map(|(fork, _, times)| (*fork, times.ino)))
        })
    }
}

/// Checks that an ended version of a directory has the time of its commit, and that it and the next one are
/// found.
fn judge_ended(conn: &Connection, report: &mut Fsck, times: &Times, till: u64) -> DbResult<()> {
    // A row of `node` has times of its own, which a caller may have set.
    let sql = "SELECT 1 FROM node WHERE ino = ?1 AND seq = ?2";
    if one(conn, sql, [times.ino, times.seq], |_| Ok(()))?.is_none() {
        judge(conn, report, times)?;
    }
    for seq in [times.seq, till] {
        if nodes::version(conn, times.ino, seq)?.is_none_or(|node| node.seq != seq) {
            let what = format!("the version of commit {seq} of directory {} is missing", times.ino);
            report.add("times", what);
        }
    }
    Ok(())
}

/// Checks that a commit has the time that it gave a directory.
fn judge(conn: &Connection, report: &mut Fsck, times: &Times) -> DbResult<()> {
    report.versions += 1;
    let time = one(conn, "SELECT time FROM log WHERE seq = ?1", [times.seq], |row| row.get::<_, i64>(0))?;
    if time.is_some_and(|time| time != times.time) {
        let what = format!("commit {} gave directory {} another time", times.seq, times.ino);
        report.add("times", what);
    }
    Ok(())
}
