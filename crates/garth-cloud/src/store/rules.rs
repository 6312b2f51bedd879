//! Rules of an account: sets them once no file violates them, and removes them.
//!
//! Files are checked by ordinary reads, and what is committed meanwhile is judged on states of the database,
//! without the lock of the account. Only the last few changes are judged in the transaction that sets the
//! rule, which holds it.

use std::sync::Arc;
use std::time::Duration;

use garth_engine::engine::planner::JudgedRow;
use garth_engine::engine::relational::confinement::Reach;
use garth_engine::engine::relational::rule_changes::{
    ChangedPlaces, ChangesVerdict, MOST_CHANGES, TRIES, too_fast,
};
use garth_engine::fs::store::{MAX_VIOLATIONS, SetRuleResult};
use garth_engine::fs::violation_search::{ViolationSearch, look};
use garth_engine::model::{Changes, ChangesQuery, LogPosition};
use garth_engine::rule::{Digest, PathPattern, Rule};
use garth_engine::{Error, ErrorKind, FileSystem as _, Result};
use tokio_postgres::types::Type;

use super::{Inner, PgStore};
use crate::client::{Param, Pipe, begin_reads, param};
use crate::control::{CONTROL, Control};
use crate::rows::{JudgedFiles, PgRows};
use crate::values::columns::{column, int, number};
use crate::values::labels;
use crate::values::parameters::ints;

/// Limit on the time in which control data is read.
const READ_TIME: Duration = Duration::from_secs(30);
/// Most changes that are judged while commits wait.
const LAST_CHANGES: usize = 100;
/// Most round trips of the transaction that sets a rule, before its commit: as of a group of commits.
const LAST_TRIPS: usize = 14;
/// Most round trips of a transaction that judges changes while commits go on.
const TRIPS: usize = 64;
/// Times that changes are judged before the tree is checked again.
const STEPS: usize = 100;
/// Limit on the files of which it is recorded how far they satisfy the rule.
const MOST_JUDGED: usize = 10_000;

/// Most records of a constraint that one transaction removes.
const FORGOTTEN: i64 = 1000;

const VERSION: &str = "SELECT control FROM garth.head WHERE account = $1";
const SET: &str = "INSERT INTO garth.rule (account, key, class, demand, terms) VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (account, key) DO UPDATE SET class = excluded.class, demand = excluded.demand,
        terms = excluded.terms";
/// Announces to every server that rules, retention or quotas have changed. The account is locked.
pub(super) const CHANGED: &str = "UPDATE garth.head SET control = control + 1 WHERE account = $1";
const REMOVE: &str = "WITH gone AS (DELETE FROM garth.rule WHERE account = $1 AND key = $2 RETURNING 1)
    UPDATE garth.head SET control = control + 1
    WHERE account = $1 AND EXISTS (SELECT FROM gone) RETURNING control";
const FORGET: &str = "WITH gone AS (DELETE FROM garth.judged WHERE account = $1 AND demand = $2
        AND ino = ANY(ARRAY(SELECT ino FROM garth.judged WHERE account = $1 AND demand = $2 LIMIT $3))
        RETURNING 1)
    SELECT count(*) FROM gone";
// A file that has lost its last name meanwhile is under no rule.
const JUDGED: &str = "INSERT INTO garth.judged (account, demand, ino, etag, until, lines)
    SELECT $1, $2, k.ino, k.etag, k.until, k.lines
    FROM unnest($3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[]) k(ino, etag, until, lines)
    CROSS JOIN LATERAL (SELECT nlink FROM garth.node
        WHERE account = $1 AND ino = k.ino ORDER BY seq DESC LIMIT 1) v
    WHERE v.nlink > 0
    ON CONFLICT (account, demand, ino) DO UPDATE SET etag = excluded.etag, until = excluded.until,
        lines = excluded.lines";

impl PgStore {
    /// Returns the control data in force.
    pub(crate) async fn control(&self) -> Result<Control> {
        let inner = &self.inner;
        let known = inner.committer.control.last();
        let conn = inner.pool.connection().await?;
        let mut pipe = Pipe::new(&conn);
        pipe.simple(begin_reads(inner.account, READ_TIME));
        let own = || param(inner.account, Type::INT8);
        let version = pipe.query(VERSION, vec![own()]);
        let rows = pipe.query(CONTROL, vec![own(), param(int(known.version), Type::INT8)]);
        pipe.simple("COMMIT");
        let answers = pipe.run().await;
        let answers = conn.settle(answers).await?;
        let of = |place: usize| answers.get(place).map_or(&[][..], Vec::as_slice);
        let deleted = || Error::new(ErrorKind::NotFound, "the account does not exist, or was deleted");
        let head = of(version).first().ok_or_else(deleted)?;
        inner.committer.control.at(&known, number(head, 0)?, of(rows))
    }

    /// Sets a rule, see [`AccountStore::set_rule`](garth_engine::AccountStore::set_rule). The check ends with
    /// this future.
    pub(crate) async fn set_rule_now(&self, rule: Rule, force: bool) -> Result<SetRuleResult> {
        // An impossible rule is refused before the tree is checked.
        self.control().await?.rules.with(rule.clone())?;
        let whole = self.with_reach(Reach::everything());
        let is_directory = |view: &super::reader::View<'_>| {
            rule.pattern().refuse_directory(|path| Ok(view.lookup(path)?.map(|node| node.kind)))
        };
        whole.reading(|_| {}, is_directory).await?;
        for _ in 0..TRIES {
            // Read before the tree: all later commits are judged by themselves.
            let since = whole.head().await?.seq;
            let ViolationSearch { violations, more, good } = look(&whole, &rule, MAX_VIOLATIONS).await?;
            if !force && !violations.is_empty() {
                return Ok(SetRuleResult { set: false, violations, more });
            }
            let mut judged = JudgedFiles::new();
            for (version, until) in good {
                let row = JudgedRow { etag: version.seq.0, until };
                judged.insert((version.ino.0, *rule.digest()), row);
            }
            let mut change = RuleChange { rule: rule.clone(), judged };
            match self.set_unless_violated(&mut change, (!force).then(|| since.into())).await? {
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

    /// Sets a rule, unless a change after a position of the log violates it; `None` sets it without a check.
    async fn set_unless_violated(
        &self,
        change: &mut RuleChange,
        since: Option<LogPosition>,
    ) -> Result<ChangesVerdict<()>> {
        let mut since = since;
        for _ in 0..STEPS {
            let set = self.inner.set(change.clone(), since);
            match self.inner.pool.run(set).await? {
                // More was committed than is judged while commits wait.
                ChangesVerdict::Much => {}
                verdict => return Ok(verdict),
            }
            let Some(from) = since else { return Ok(ChangesVerdict::Much) };
            match self.inner.judge_changes(change, from).await? {
                ChangesVerdict::Good(until) => since = Some(until),
                ChangesVerdict::Broken(violation) => return Ok(ChangesVerdict::Broken(violation)),
                ChangesVerdict::Much => break,
            }
        }
        Ok(ChangesVerdict::Much)
    }

    /// Removes a rule. Returns true if it existed.
    pub(crate) async fn remove_rule_now(&self, pattern: &PathPattern, constraint: &str) -> Result<bool> {
        let rules = self.control().await?.rules;
        rules.without(pattern, constraint)?;
        let is_it = |rule: &&Rule| rule.pattern() == pattern && rule.constraint().name() == constraint;
        let digest = rules.all().find(is_it).map(|rule| *rule.digest());
        let key = labels::rule(pattern.as_str(), constraint);
        let inner = Arc::clone(&self.inner);
        let remove = async move {
            let conn = inner.pool.connection().await?;
            let removed = remove(PgRows::new(&conn, &inner.committer), key).await;
            let removed = conn.settle(removed).await?;
            if let Some(digest) = digest.filter(|_| removed) {
                inner.forget_judged(digest).await?;
            }
            Ok(removed)
        };
        self.inner.pool.run(remove).await
    }
}

/// A rule to set, and how far files satisfy its constraint.
#[derive(Clone)]
struct RuleChange {
    rule: Rule,
    judged: JudgedFiles,
}

impl RuleChange {
    fn remember(&mut self, judged: JudgedFiles) {
        self.judged.extend(judged);
        while self.judged.len() > MOST_JUDGED {
            // Its next write is checked from the start.
            self.judged.pop_first();
        }
    }

    /// Adds the statements that set the rule.
    fn send(&self, rows: &mut PgRows<'_>) {
        let text = |text: &str| param(text.to_owned(), Type::TEXT);
        let (pattern, constraint) = (self.rule.pattern().as_str(), self.rule.constraint());
        let key = param(labels::rule(pattern, constraint.name()), Type::BYTEA);
        rows.add(SET, vec![key, text(pattern), text(constraint.name()), text(&constraint.terms())]);
        rows.add(CHANGED, Vec::new());
        if !self.judged.is_empty() {
            rows.add(JUDGED, self.judged_params());
        }
    }

    fn judged_params(&self) -> Vec<Param> {
        let rows = self.judged.values();
        vec![
            param(self.rule.digest().to_vec(), Type::BYTEA),
            ints(self.judged.keys().map(|(ino, _)| *ino)),
            ints(rows.clone().map(|row| row.etag)),
            ints(rows.clone().map(|row| row.until.offset)),
            ints(rows.map(|row| row.until.line)),
        ]
    }
}

impl Inner {
    /// Sets a rule while the account is locked, unless one of the last changes violates it. `Much` if there
    /// are too many of them to judge while commits wait.
    fn set(
        self: &Arc<Self>,
        mut change: RuleChange,
        since: Option<LogPosition>,
    ) -> impl Future<Output = Result<ChangesVerdict<()>>> + Send + 'static {
        let inner = Arc::clone(self);
        async move {
            let conn = inner.pool.connection().await?;
            let mut rows = PgRows::new(&conn, &inner.committer);
            let set = match set_last(&mut rows, &mut change, since).await {
                Ok(verdict) => rows.commit().await.map(|()| verdict),
                Err(error) => Err(error),
            };
            conn.settle(set).await
        }
    }

    /// Judges the first changes after a position, without the lock. Returns the position up to which they are
    /// good.
    async fn judge_changes(
        &self,
        change: &mut RuleChange,
        since: LogPosition,
    ) -> Result<ChangesVerdict<LogPosition>> {
        let conn = self.pool.connection().await?;
        let mut rows = PgRows::of_snapshot(&conn, &self.committer);
        let judged = judged_since(&mut rows, &change.rule, (since, MOST_CHANGES), TRIPS).await;
        let judged = match judged {
            Ok(judged) => rows.commit().await.map(|()| judged),
            Err(error) => Err(error),
        };
        Ok(match conn.settle(judged).await? {
            ChangesVerdict::Good((changes, judged)) => {
                change.remember(judged);
                ChangesVerdict::Good(changes.until)
            }
            ChangesVerdict::Broken(violation) => ChangesVerdict::Broken(violation),
            ChangesVerdict::Much => ChangesVerdict::Much,
        })
    }

    /// Removes what is recorded about files and a constraint that no rule has any more, in steps between
    /// which others commit. Records that are left, because a step failed, are as good as before.
    async fn forget_judged(&self, digest: Digest) -> Result<()> {
        loop {
            let conn = self.pool.connection().await?;
            let gone = forget(PgRows::new(&conn, &self.committer), digest).await;
            if conn.settle(gone).await? < FORGOTTEN {
                return Ok(());
            }
        }
    }
}

/// Judges the last changes and adds the statements that set the rule, while the account is locked.
async fn set_last(
    rows: &mut PgRows<'_>,
    change: &mut RuleChange,
    since: Option<LogPosition>,
) -> Result<ChangesVerdict<()>> {
    let (head, rules) = rows.begin().await?;
    if let Some(since) = since.filter(|since| since.seq.0 < head.seq) {
        match judged_since(rows, &change.rule, (since, LAST_CHANGES), LAST_TRIPS).await? {
            ChangesVerdict::Good((changes, judged)) if changes.until.seq >= changes.head => {
                change.remember(judged);
            }
            ChangesVerdict::Good(_) | ChangesVerdict::Much => return Ok(ChangesVerdict::Much),
            ChangesVerdict::Broken(violation) => return Ok(ChangesVerdict::Broken(violation)),
        }
    }
    // The rules may have changed after the caller read them.
    rules.with(change.rule.clone())?;
    change.send(rows);
    Ok(ChangesVerdict::Good(()))
}

/// Judges the first changes after a position, in a transaction that has begun or begins here.
async fn judged_since(
    rows: &mut PgRows<'_>,
    rule: &Rule,
    (since, limit): (LogPosition, usize),
    trips: usize,
) -> Result<ChangesVerdict<(Changes, JudgedFiles)>> {
    if rows.head().is_none() {
        rows.begin().await?;
    }
    let changes = match rows.changes(&ChangesQuery::since(since).limit(limit), trips).await {
        // The log was cut meanwhile, so the changes are not known.
        Err(error) if error.is(ErrorKind::Gone) || error.is(ErrorKind::TooLarge) => {
            return Ok(ChangesVerdict::Much);
        }
        changes => changes?,
    };
    let places = ChangedPlaces::of(changes.clone());
    Ok(match rows.judge(rule, &places, trips).await? {
        ChangesVerdict::Good(judged) => ChangesVerdict::Good((changes, judged)),
        ChangesVerdict::Broken(violation) => ChangesVerdict::Broken(violation),
        ChangesVerdict::Much => ChangesVerdict::Much,
    })
}

/// Removes some records of a constraint, unless a rule has it. Returns their number.
async fn forget(mut rows: PgRows<'_>, digest: Digest) -> Result<i64> {
    let (_, rules) = rows.begin().await?;
    let mut gone = 0;
    if !rules.all().any(|rule| *rule.digest() == digest) {
        let params = vec![param(digest.to_vec(), Type::BYTEA), param(FORGOTTEN, Type::INT8)];
        let counted = rows.query(FORGET, params).await?;
        gone = counted.first().map_or(Ok(0), |row| column(row, 0))?;
    }
    rows.commit().await?;
    Ok(gone)
}

async fn remove(mut rows: PgRows<'_>, key: Vec<u8>) -> Result<bool> {
    rows.begin().await?;
    let removed = rows.query(REMOVE, vec![param(key, Type::BYTEA)]).await?;
    let version: Option<i64> = removed.first().map(|row| column(row, 0)).transpose()?;
    rows.commit().await?;
    Ok(version.is_some())
}
