//! The part of `fsck` that checks how far files satisfy rules, as it is recorded. `reindex` corrects what it
//! finds.

use super::{Check, ROWS};
use crate::engine::sqlite::tables::judged_prefixes;
use crate::error::Result;

impl Check<'_> {
    /// Checks that the recorded prefixes of files are prefixes of them.
    pub(super) fn judged(&mut self) -> Result<()> {
        self.walk((Vec::new(), 0), |view, report, after: (Vec<u8>, u64)| {
            let found = judged_prefixes::next(view.conn, &after, ROWS)?;
            for ((_, ino), is_possible) in &found {
                if !is_possible {
                    let what = format!(
                        "a rule was checked in node {ino} up to a place that it does not have; run `garth reindex`"
                    );
                    report.add("rule", what);
                }
            }
            Ok(found.into_iter().next_back().map(|(key, _)| key))
        })
    }
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;

    use crate::engine::sqlite::SqliteFs;
    use crate::env::Env;
    use crate::fs::{AccountStore as _, FileSystem as _};
    use crate::model::{At, Batch, Op};
    use crate::path::TreePath;
    use crate::rule::{Constraint, PathPattern, Rule};

    #[test]
    fn impossible_prefixes_are_found_and_forgotten() {
        for damage in
            ["until = 1000", "etag = 99", "lines = 0", "until = 2, lines = 9", "until = -1", "lines = -1"]
        {
            let folder = tempfile::tempdir().unwrap();
            let fs = SqliteFs::open(folder.path(), Env::system(), crate::rule::sample::registry()).unwrap();
            let lines = Constraint::parse("json-lines", "{}").unwrap();
            let rule = Rule::new(PathPattern::parse("/a").unwrap(), lines);
            block_on(fs.set_rule(rule, false)).unwrap();
            let append = || Op::append(At::Path(TreePath::parse("/a").unwrap()), "{\"a\":1}\n");
            for _ in 0..2 {
                block_on(fs.commit(Batch::new([append()]))).unwrap();
            }
            let found = || fs.check().unwrap().findings;
            assert_eq!(found(), []);
            let sql = format!("UPDATE judged SET {damage}");
            assert!(fs.step(move |conn, _| Ok(conn.execute(&sql, [])?)).unwrap() > 0);
            assert!(found().iter().all(|finding| finding.kind == "rule") && !found().is_empty(), "{damage}");
            fs.rebuild_index().unwrap();
            assert_eq!(found(), [], "{damage}");
            block_on(fs.commit(Batch::new([append()]))).unwrap();
        }
    }
}
