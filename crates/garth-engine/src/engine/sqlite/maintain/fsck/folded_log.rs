//! The part of `fsck` that checks what is left of the commits that retention has removed from the log.

use rusqlite::{Connection, params};

use super::{Check, Fsck, ROWS};
use crate::engine::planner::HeadRow;
use crate::engine::sqlite::tables::fold::{self, Phase};
use crate::engine::sqlite::tables::{folded_authors, head};
use crate::error::Result;
use crate::model::Author;
use crate::sqlite::{DbResult, all};

impl Check<'_> {
    /// Checks that the limits of the past are in order, that the author of each removed commit is known and
    /// can be read, and that only idempotency keys keep such a commit.
    pub(super) fn folded_log(&mut self) -> Result<()> {
        self.walk(0, |view, report, from: u64| {
            let begin = fold::log_begin(view.conn)?;
            if from == 0 {
                limits(view.conn, begin, report)?;
            }
            let sql =
                "SELECT seq, EXISTS (SELECT 1 FROM idempotency WHERE idempotency.seq = log.seq) FROM log
                 WHERE seq > ?1 AND seq < ?2 ORDER BY seq LIMIT ?3";
            let left: Vec<(u64, bool)> =
                all(view.conn, sql, params![from, begin, ROWS], |row| Ok((row.get(0)?, row.get(1)?)))?;
            for (seq, _) in left.iter().filter(|(_, is_kept)| !is_kept) {
                report.add(
                    "log",
                    format!("commit {seq} is still in the log, though the past before it is gone"),
                );
            }
            Ok(left.last().map(|(seq, _)| *seq))
        })?;
        self.walk(0, |view, report, from: u64| {
            let sql = "SELECT id, json FROM author WHERE id > ?1 ORDER BY id LIMIT ?2";
            let authors: Vec<(u64, String)> =
                all(view.conn, sql, params![from, ROWS], |row| Ok((row.get(0)?, row.get(1)?)))?;
            for (id, _) in authors.iter().filter(|(_, json)| serde_json::from_str::<Author>(json).is_err()) {
                report.add("log", format!("author {id} of removed commits cannot be read"));
            }
            Ok(authors.last().map(|(id, _)| *id))
        })?;
        self.walk(0, |view, report, from: u64| {
            let found = folded_authors::without_author(view.conn, from, ROWS)?;
            for (till, is_lost) in &found {
                if *is_lost {
                    report.add("log", format!("the author of the removed commits up to {till} is missing"));
                }
            }
            Ok(found.last().map(|(till, _)| *till))
        })
    }
}

fn limits(conn: &Connection, begin: u64, report: &mut Fsck) -> DbResult<()> {
    let head = head::get(conn)?;
    if head.folded > head.oldest || head.oldest > head.seq {
        let what = format!(
            "the past is removed up to commit {}, the first readable one is {}, and the last {}",
            head.folded, head.oldest, head.seq
        );
        report.add("head", what);
    }
    let known = folded_authors::last(conn)?;
    if known + 1 < begin {
        report.add("log", format!("the authors of the removed commits after {known} are missing"));
    }
    if known > 0 && known >= begin {
        let what =
            format!("authors of removed commits are stored up to {known}, but the log begins at {begin}");
        report.add("log", what);
    }
    removal(conn, report, &head)
}

/// Checks the removal in progress, and the commits up to which collections have come.
fn removal(conn: &Connection, report: &mut Fsck, head: &HeadRow) -> DbResult<()> {
    let pass = fold::get(conn)?;
    if let Some(pass) = pass.filter(|pass| pass.till <= head.folded || pass.till > head.oldest) {
        let what = format!(
            "the past is being removed up to commit {}, but it is gone up to {}, and readable from {}",
            pass.till, head.folded, head.oldest
        );
        report.add("head", what);
    }
    let visits = pass.is_some_and(|pass| pass.phase > Phase::Waiting && pass.phase < Phase::Log);
    if !visits && let Some(ino) = fold::next_node(conn)? {
        report.add("past", format!("node {ino} waits for a removal of the past that is not in progress"));
    }
    let reached = [
        ("small extents were searched", head::merged(conn)?),
        ("ended versions are to be searched by node", head::queued(conn)?),
    ];
    for (what, seq) in reached.into_iter().filter(|(_, seq)| *seq > head.seq) {
        report.add("head", format!("{what} up to commit {seq}, but the head is at {}", head.seq));
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
    use crate::model::{At, Author, Batch, Op};
    use crate::path::TreePath;
    use crate::rule::retention::Retention;

    /// Checks an account with a removed past after `damage`.
    fn findings(damage: &str) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let fs = SqliteFs::open(folder.path(), Env::system(), crate::rule::sample::registry()).unwrap();
        let path = At::Path(TreePath::parse("/d/f").unwrap());
        for n in 0..20 {
            let write = Op::write(path.clone(), format!("{n}")).with_parents();
            let author = Author::agent(if n % 2 == 0 { "scout" } else { "clerk" });
            block_on(fs.commit(Batch { author, ..Batch::new([write]) })).unwrap();
        }
        block_on(fs.set_retention(Retention { commits: Some(5), ..Retention::default() })).unwrap();
        assert_eq!(fs.collect(Duration::ZERO).unwrap().folded, 15);
        let damage = damage.to_owned();
        fs.step(move |conn, _| Ok(conn.execute_batch(&damage)?)).unwrap();
        fs.check().unwrap().findings.into_iter().map(|finding| finding.detail).collect()
    }

    #[test]
    fn sound_account_without_past_has_no_findings() {
        assert_eq!(findings(""), [""; 0]);
    }

    #[test]
    fn damage_of_the_removed_past_is_found() {
        for (damage, expected) in [
            ("DELETE FROM author WHERE id = 1", "the author of the removed commits up to"),
            ("DELETE FROM folded_author WHERE till > 10", "the authors of the removed commits after 10"),
            ("UPDATE author SET json = '{' WHERE id = 1", "author 1 of removed commits cannot be read"),
            (
                "UPDATE folded_author SET till = 18 WHERE till = 14",
                "authors of removed commits are stored up to 18, but the log begins at 15",
            ),
            ("UPDATE head SET oldest = 3", "the first readable one is 3"),
            ("INSERT INTO fold VALUES (1, 15, 2, 0)", "the past is being removed up to commit 15"),
            ("INSERT INTO fold_node VALUES (2)", "node 2 waits for a removal of the past"),
            ("UPDATE head SET merged = 99", "small extents were searched up to commit 99"),
            ("UPDATE head SET queued = 99", "ended versions are to be searched by node up to commit 99"),
            ("DELETE FROM log WHERE seq = 15", "the log has no commit between 14 and 16"),
            (
                "INSERT INTO log (seq, time, changes) VALUES (4, 4, '[]')",
                "commit 4 is still in the log, though the past before it is gone",
            ),
        ] {
            let found = findings(damage);
            assert!(found.iter().any(|detail| detail.contains(expected)), "{damage}: {found:?}");
        }
    }
}
