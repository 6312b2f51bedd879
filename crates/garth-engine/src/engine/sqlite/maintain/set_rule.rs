//! Sets and removes rules. A rule that is not forced comes into force only if no file violates it: the tree
//! is checked concurrently with commits, and the changes of these commits in the transaction that sets the
//! rule.

use std::sync::Weak;

use futures::executor::block_on;
use rusqlite::Connection;

use crate::engine::planner::{self, JudgedRow};
use crate::engine::relational::confinement::Reach;
use crate::engine::relational::rule_changes::{
    ChangedPlaces, ChangesVerdict, MOST_BYTES, MOST_CHANGES, TRIES, too_fast, verdict,
};
use crate::engine::sqlite::planner_rows::PlannerRows;
use crate::engine::sqlite::planner_rows::row_cache::RowCache;
use crate::engine::sqlite::tables::{head, judged_prefixes};
use crate::engine::sqlite::{SqliteFs, control};
use crate::error::{Error, ErrorKind, Result};
use crate::fs::FileSystem;
use crate::fs::store::{MAX_VIOLATIONS, SetRuleResult};
use crate::fs::violation_search::{ViolationSearch, look_while};
use crate::model::{ChangesQuery, Seq, VersionId};
use crate::path::TreePath;
use crate::rule::{PathPattern, Place, Rule, Rules};
use crate::sqlite::{DbError, DbResult};

/// Fails once the caller, the owner of `waits`, has been dropped.
pub(super) fn still_waits(waits: &Weak<()>) -> Result<()> {
    match waits.strong_count() {
        0 => Err(Error::new(ErrorKind::TimedOut, "the caller no longer waits for the check of the files")),
        _ => Ok(()),
    }
}

impl SqliteFs {
    /// Returns the rules in force.
    pub(crate) fn rules_now(&self) -> Result<Rules> {
        self.with_view(|view| {
            let version = head::get(view.conn)?.control;
            Ok(Rules::clone(&self.inner.control.at(view.conn, version)?.rules))
        })
    }

    /// Sets a rule, see [`AccountStore::set_rule`](crate::AccountStore::set_rule). `go_on` fails once the check
    /// of the files has to end.
    pub(crate) fn set_rule_now(
        &self,
        rule: &Rule,
        force: bool,
        go_on: &(dyn Fn() -> Result<()> + Sync),
    ) -> Result<SetRuleResult> {
        // An impossible rule is refused before the tree is checked.
        self.rules_now()?.with(rule.clone())?;
        self.with_view(|view| {
            let kind = |path: &TreePath| view.lookup(path).map(|node| node.map(|node| node.kind));
            rule.pattern().refuse_directory(kind)
        })?;
        for _ in 0..TRIES {
            // Read before the tree: all later commits are checked in the transaction below.
            let since = block_on(self.head())?.seq;
            let looked = block_on(look_while(self, rule, MAX_VIOLATIONS, go_on))?;
            let ViolationSearch { violations, more, good } = looked;
            if !force && !violations.is_empty() {
                return Ok(SetRuleResult { set: false, violations, more });
            }
            let (fs, new, since) = (self.clone(), rule.clone(), (!force).then_some(since));
            let set = move |conn: &Connection| fs.set_unless_violated(conn, &new, since, &good);
            match block_on(self.inner.writer.transact(true, set))? {
                ChangesVerdict::Good(()) => return Ok(SetRuleResult { set: true, violations, more }),
                ChangesVerdict::Broken(violation) => {
                    // The check of the changes ends with the first violation.
                    return Ok(SetRuleResult { set: false, violations: vec![violation], more: true });
                }
                // The tree is checked again, from a later commit.
                ChangesVerdict::Much => {}
            }
        }
        Err(too_fast())
    }

    pub(crate) fn remove_rule_now(&self, pattern: &PathPattern, constraint: &str) -> Result<bool> {
        self.rules_now()?.without(pattern, constraint)?;
        let (pattern, constraint) = (pattern.clone(), constraint.to_owned());
        let registry = self.inner.control.registry().clone();
        let remove = move |conn: &Connection| control::remove_rule(conn, &registry, &pattern, &constraint);
        block_on(self.inner.writer.transact(true, remove))
    }

    /// Sets a rule, unless a change after commit `since` violates it; `None` sets it without a check. `good`
    /// are files that were checked before, each up to a place.
    fn set_unless_violated(
        &self,
        conn: &Connection,
        rule: &Rule,
        since: Option<Seq>,
        good: &[(VersionId, Place)],
    ) -> DbResult<ChangesVerdict<()>> {
        // Before the check, whose results are newer.
        for (version, until) in good {
            let row = JudgedRow { etag: version.seq.0, until: *until };
            judged_prefixes::put(conn, &(version.ino.0, *rule.digest()), &row)?;
        }
        let since = since
            .map_or(Ok(ChangesVerdict::Good(())), |since| self.check_changes_since(conn, rule, since))?;
        if matches!(since, ChangesVerdict::Good(())) {
            let registry = self.inner.control.registry();
            // The rules may have changed after the caller read them.
            control::read_rules(conn, registry)?.with(rule.clone())?;
            control::set_rule(conn, registry, rule)?;
        }
        Ok(since)
    }

    /// Checks the changes after a commit.
    fn check_changes_since(
        &self,
        conn: &Connection,
        rule: &Rule,
        since: Seq,
    ) -> DbResult<ChangesVerdict<()>> {
        let view = self.view_on(conn, None)?;
        let changes = match view.changes(&ChangesQuery::since(since).limit(MOST_CHANGES)) {
            // The log was cut meanwhile, so the changes are not known.
            Err(DbError::Other(error)) if error.is(ErrorKind::Gone) => return Ok(ChangesVerdict::Much),
            changes => changes?,
        };
        if changes.until.seq < changes.head {
            return Ok(ChangesVerdict::Much);
        }
        let ChangedPlaces { files, paths } = ChangedPlaces::of(changes);
        let (packs, open, rules) = (&*self.inner.packs, &*self.inner.open, &Rules::only(rule.clone()));
        let (row_cache, reach) = (&RowCache::default(), &Reach::everything());
        let state = PlannerRows { conn, packs, row_cache, open, reach, rules };
        let at = (head::get(conn)?, self.inner.runtime.env().now());
        let judged = planner::judge_state(&state, at, &files, &paths, MOST_BYTES);
        if let Ok(judged) = &judged {
            judged.iter().try_for_each(|(key, row)| judged_prefixes::put(conn, key, row))?;
        }
        Ok(verdict(judged.map(drop))?)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::env::Env;
    use crate::fs::violation_search::look;
    use crate::model::{At, Op};
    use crate::rule::Constraint;

    #[test]
    fn setting_a_rule_keeps_newest_judged_prefix() {
        let folder = tempfile::tempdir().unwrap();
        let fs = SqliteFs::open(folder.path(), Env::system(), crate::rule::sample::registry()).unwrap();
        let log = At::Path(TreePath::parse("/log").unwrap());
        let pattern = PathPattern::parse("/log").unwrap();
        let rule = Rule::new(pattern, Constraint::parse("json-lines", "{}").unwrap());
        let write = Op::write(log.clone(), "1\n".repeat(1 << 20));
        let first = block_on(fs.commit(write.into())).unwrap();
        let ViolationSearch { good, .. } = block_on(look(&*fs, &rule, MAX_VIOLATIONS)).unwrap();
        assert_eq!(good.len(), 1, "it is long");
        let last = block_on(fs.commit(Op::append(log, "2\n").into())).unwrap();
        let (same, set) = (fs.clone(), rule.clone());
        let task = move |conn: &Connection| {
            let since = same.set_unless_violated(conn, &set, Some(first.seq), &good)?;
            assert!(matches!(since, ChangesVerdict::Good(())));
            judged_prefixes::get(conn, first.outcomes[0].ino.0, set.digest())
        };
        let known = block_on(fs.inner.writer.transact(true, task)).unwrap().unwrap();
        assert_eq!((known.etag, known.until.offset), (last.seq.0, (2 << 20) + 2));
        assert!(fs.rules_now().unwrap().all().any(|known| *known == rule));
    }

    #[test]
    fn stored_rule_with_control_characters_is_in_force() {
        let folder = tempfile::tempdir().unwrap();
        let fs = SqliteFs::open(folder.path(), Env::system(), crate::rule::sample::registry()).unwrap();
        // An earlier version took such a pattern.
        let pattern = PathPattern::parse_stored("/a\n\u{202e}/*").unwrap();
        let rule = Rule::new(pattern.clone(), Constraint::MaxSize(9));
        assert!(block_on(crate::AccountStore::set_rule(&*fs, rule.clone(), false)).unwrap().set);
        drop(fs);
        let fs = SqliteFs::open(folder.path(), Env::system(), crate::rule::sample::registry()).unwrap();
        assert!(fs.rules_now().unwrap().all().any(|known| *known == rule));
        assert!(block_on(crate::AccountStore::remove_rule(&*fs, &pattern, "max-size")).unwrap());
    }

    #[test]
    fn rule_for_a_directory_alone_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let fs = SqliteFs::open(folder.path(), Env::system(), crate::rule::sample::registry()).unwrap();
        let path = At::Path(TreePath::parse("/notes/a").unwrap());
        block_on(fs.commit(Op::write(path, "text").with_parents().into())).unwrap();
        let set = |pattern: &str, force| {
            let rule = Rule::new(PathPattern::parse(pattern).unwrap(), Constraint::MaxSize(9));
            block_on(crate::AccountStore::set_rule(&*fs, rule, force))
        };
        for force in [false, true] {
            let error = set("/notes", force).unwrap_err();
            assert!(error.is(ErrorKind::InvalidArgument), "{error}");
            assert!(error.message().contains("write /notes/**"), "{error}");
        }
        for pattern in ["/notes/**", "/notes/a", "/later"] {
            assert!(set(pattern, false).unwrap().set, "{pattern}");
        }
    }

    #[test]
    fn ended_check_sets_no_rule() {
        let folder = tempfile::tempdir().unwrap();
        let fs = SqliteFs::open(folder.path(), Env::system(), crate::rule::sample::registry()).unwrap();
        let path = At::Path(TreePath::parse("/a").unwrap());
        block_on(fs.commit(Op::write(path, "text").into())).unwrap();
        let rule = Rule::new(PathPattern::parse("/*").unwrap(), Constraint::MaxSize(9));
        for force in [false, true] {
            let caller = Arc::new(());
            let waits = Arc::downgrade(&caller);
            drop(caller);
            let error = fs.set_rule_now(&rule, force, &|| still_waits(&waits)).unwrap_err();
            assert!(error.is(ErrorKind::TimedOut), "{error}");
            assert!(!fs.rules_now().unwrap().all().any(|known| *known == rule));
        }
        assert!(block_on(crate::AccountStore::set_rule(&*fs, rule, false)).unwrap().set);
    }

    #[test]
    fn rule_is_set_while_log_is_folded() {
        let folder = tempfile::tempdir().unwrap();
        let fs = SqliteFs::open(folder.path(), Env::system(), crate::rule::sample::registry()).unwrap();
        let path = TreePath::parse("/notes/a").unwrap();
        let write =
            || block_on(fs.commit(Op::write(path.clone(), "text").with_parents().into())).unwrap().seq;
        let (since, last) = (write(), write());
        let rule = Rule::new(PathPattern::parse("/notes/**").unwrap(), Constraint::MaxSize(9));
        let (same, set) = (fs.clone(), rule.clone());
        let task = move |conn: &Connection| {
            head::raise_oldest(conn, last.0, 1)?;
            // The changes after its check of the tree are not known any more.
            let since = same.set_unless_violated(conn, &set, Some(since), &[])?;
            Ok(matches!(since, ChangesVerdict::Much))
        };
        assert!(block_on(fs.inner.writer.transact(true, task)).unwrap());
        assert!(fs.set_rule_now(&rule, false, &|| Ok(())).unwrap().set, "the tree is checked again");
    }
}
