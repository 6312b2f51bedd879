//! Sets and removes rules. A rule that is not forced comes into force only where nothing breaks it: the tree
//! is looked at beside commits, and what they change meanwhile in the transaction that sets the rule.

use futures::executor::block_on;
use rusqlite::Connection;

use crate::engine::planner;
use crate::engine::sqlite::SqliteFs;
use crate::engine::sqlite::control;
use crate::engine::sqlite::reach::Reach;
use crate::engine::sqlite::read::rows;
use crate::engine::sqlite::write::row_cache::RowCache;
use crate::engine::sqlite::write::txn_rows::TxnRows;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::FileSystem;
use crate::fs::breach::breaches;
use crate::fs::store::{MAX_BREACHES, SetRule};
use crate::model::{ChangeKind, ChangesQuery, Seq};
use crate::rule::{Breach, Class, Rule, Rules, Touched};
use crate::sqlite::DbResult;

/// Most changes that are looked at while commits wait.
const MOST_CHANGES: usize = 1000;
/// How often the tree is looked at before it is told that it changes too fast.
const TRIES: usize = 10;

/// What came of the look at what was changed meanwhile.
enum Since {
    /// Nothing of it breaks the rule, which is set.
    Set,
    Broken(Breach),
    /// There is too much of it.
    Much,
}

impl SqliteFs {
    /// The rules in force.
    pub(crate) fn rules_now(&self) -> Result<Rules> {
        self.with_view(|view| {
            let version = rows::head(view.conn)?.control;
            Ok(Rules::clone(&self.inner.control.at(view.conn, version)?.rules))
        })
    }

    pub(crate) fn set_rule_now(&self, rule: &Rule, force: bool) -> Result<SetRule> {
        // refused before anything is looked at
        self.rules_now()?.with(rule.clone())?;
        for _ in 0..TRIES {
            let since = block_on(self.head())?.seq;
            let (breaches, more) = block_on(breaches(self, rule, MAX_BREACHES))?;
            if force {
                let rule = rule.clone();
                block_on(self.inner.writer.transact(true, move |conn| set(conn, &rule)))?;
                return Ok(SetRule { set: true, breaches, more });
            }
            if !breaches.is_empty() {
                return Ok(SetRule { set: false, breaches, more });
            }
            let (fs, new) = (self.clone(), rule.clone());
            let set = move |conn: &Connection| fs.set_unless_broken(conn, &new, since);
            match block_on(self.inner.writer.transact(true, set))? {
                Since::Set => return Ok(SetRule { set: true, ..SetRule::default() }),
                Since::Broken(breach) => {
                    return Ok(SetRule { breaches: vec![breach], more: true, set: false });
                }
                Since::Much => {}
            }
        }
        let message = "the tree changes faster than it can be looked at; try again, or set the rule by force";
        Err(Error::new(ErrorKind::WouldBlock, message))
    }

    pub(crate) fn remove_rule_now(&self, class: &Class, demand: &str) -> Result<bool> {
        self.rules_now()?.without(class, demand)?;
        let (class, demand) = (class.clone(), demand.to_owned());
        block_on(self.inner.writer.transact(true, move |conn| control::remove_rule(conn, &class, &demand)))
    }

    /// Sets a rule unless something breaks it that was changed after a commit.
    fn set_unless_broken(&self, conn: &Connection, rule: &Rule, since: Seq) -> DbResult<Since> {
        let view = self.view_on(conn, None);
        let changes = view.changes(&ChangesQuery::since(since).limit(MOST_CHANGES))?;
        if changes.until.seq < changes.head {
            return Ok(Since::Much);
        }
        let rules = &Rules::only(rule.clone());
        let (packs, open) = (&*self.inner.packs, &*self.inner.open);
        let (row_cache, reach) = (&RowCache::default(), &Reach::everything());
        let state = TxnRows { conn, packs, row_cache, open, reach, rules };
        let mut touched = Touched::default();
        for change in changes.commits.into_iter().flat_map(|commit| commit.changes) {
            match change.kind {
                ChangeKind::Modified | ChangeKind::Attributes => touched.written.extend([(change.ino, 0)]),
                ChangeKind::Created | ChangeKind::Linked | ChangeKind::Renamed { .. } => {
                    touched.came.extend(change.paths);
                }
                ChangeKind::Removed
                | ChangeKind::Expired
                | ChangeKind::Snapshot { .. }
                | ChangeKind::SnapshotDropped { .. } => {}
            }
        }
        let head = rows::head(conn)?;
        match planner::judge_state(&state, head, self.inner.runtime.env().now(), &touched) {
            Ok(()) => {
                set(conn, rule)?;
                Ok(Since::Set)
            }
            Err(error) if error.is(ErrorKind::RuleViolation) => {
                let path = error.path().cloned().unwrap_or_default();
                Ok(Since::Broken(Breach { path, reason: error.message().to_owned() }))
            }
            Err(error) if error.is(ErrorKind::TooLarge) => Ok(Since::Much),
            Err(error) => Err(error.into()),
        }
    }
}

/// Sets a rule, if the tree has not got too many meanwhile.
fn set(conn: &Connection, rule: &Rule) -> DbResult<()> {
    control::read_rules(conn)?.with(rule.clone())?;
    control::set_rule(conn, rule)
}
